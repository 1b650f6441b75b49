/*
 * Copyright (C) the ngx_sendfile authors
 *
 * nsf_pack(), and that nsf_unpack() gives what was packed.
 */


#include "nsf_test_pack.h"


static void
same_str(const nsf_str_t *got, const nsf_str_t *expected,
    const nsf_test_buf_t *buf)
{
    assert_int_equal(got->len, expected->len);

    if (got->len == 0) {
        assert_null(got->data);
        return;
    }

    assert_memory_equal(got->data, expected->data, got->len);

    /* a slice */

    assert_true(got->data >= buf->data);
    assert_true(got->data + got->len <= buf->data + buf->len);
}


/* packs "t"; what unpacks is the same */

static void
round_trip(void)
{
    size_t          i;
    nsf_test_buf_t  buf;

    buf = pack();
    nsf_assert_good(unpack_at(buf.data, buf.len, 0));

    same_str(&pt.back.path, &pt.t.path, &buf);
    same_str(&pt.back.type, &pt.t.type, &buf);
    same_str(&pt.back.name, &pt.t.name, &buf);
    assert_int_equal(pt.back.disposition, pt.t.disposition);
    assert_int_equal(pt.back.expires, pt.t.expires);
    assert_int_equal(pt.back.valid_until, pt.t.valid_until);
    assert_int_equal(pt.back.nheaders, pt.t.nheaders);

    for (i = 0; i < pt.t.nheaders; i++) {
        same_str(&pt.back.headers[i].name, &pt.t.headers[i].name, &buf);
        same_str(&pt.back.headers[i].value, &pt.t.headers[i].value, &buf);
    }

    if (pt.t.nheaders == 0) {
        assert_null(pt.back.headers);
        assert_int_equal(pt.pool.calls, 0);

    } else {
        assert_int_equal(pt.pool.calls, 1);
    }

    nsf_test_free(&buf);
}


#define assert_packed(expected)                                               \
    do {                                                                      \
        nsf_test_buf_t  _buf;                                                 \
                                                                              \
        _buf = pack();                                                        \
        nsf_assert_str(_buf, expected);                                       \
        nsf_test_free(&_buf);                                                 \
    } while (0)


static void
bytes_of_a_path(void **state)
{
    (void) state;

    assert_packed("\x01\x00\x09" "aa/aa.dat");
}


static void
bytes_of_each_field(void **state)
{
    (void) state;

    pt.t.path.len = 1;
    pt.t.path.data = (const unsigned char *) "p";

    pt.t.expires = 0x0102030405;
    assert_packed("\x01\x04" "\x05\x04\x03\x02\x01\0\0\0" "\x01" "p");

    pt.t.valid_until = 0x0203040506;
    assert_packed("\x01\x0c" "\x05\x04\x03\x02\x01\0\0\0"
                  "\x06\x05\x04\x03\x02\0\0\0" "\x01" "p");

    pt.t.expires = pt.t.valid_until = 0;
    pt.t.type = pack_type;
    assert_packed("\x01\x10" "\x0d" "image/svg+xml" "\x01" "p");

    pt.t.type.len = 0;
    pt.t.name = pack_name;
    pt.t.disposition = NSF_DISPOSITION_INLINE;
    assert_packed("\x01\x21" "\x0a" "\xe5\x86\x99\xe7\x9c\x9f.svg" "\x01" "p");

    pt.t.disposition = NSF_DISPOSITION_NAMED;
    assert_packed("\x01\x23" "\x0a" "\xe5\x86\x99\xe7\x9c\x9f.svg" "\x01" "p");

    pt.t.name.len = 0;
    pt.t.disposition = NSF_DISPOSITION_ATTACHMENT;
    assert_packed("\x01\x02" "\x01" "p");

    pt.t.disposition = NSF_DISPOSITION_NONE;
    (void) pack_headers(1);
    assert_packed("\x01\x40" "\x01" "\x04" "ETag" "\x03" "\"1\"" "\x01" "p");
}


/* the second form of a length begins where the first ends */

static void
bytes_of_a_long_string(void **state)
{
    char            bytes[255];
    nsf_test_buf_t  buf;

    (void) state;

    memset(bytes, 'p', sizeof(bytes));
    pt.t.path.data = (const unsigned char *) bytes;

    pt.t.path.len = 254;
    buf = pack();
    assert_int_equal(buf.len, 3 + 254);
    assert_memory_equal(buf.data, "\x01\x00\xfe" "p", 4);
    nsf_test_free(&buf);

    pt.t.path.len = 255;
    buf = pack();
    assert_int_equal(buf.len, 7 + 255);
    assert_memory_equal(buf.data, "\x01\x00\xff\xff\0\0\0" "p", 8);
    nsf_test_free(&buf);
}


static void
round_trip_of_a_path(void **state)
{
    (void) state;

    round_trip();
    assert_int_equal(pt.pool.calls, 0);
}


static void
round_trip_of_paths_of_all_lengths(void **state)
{
    char    bytes[NSF_MAX_PATH];
    size_t  len;

    (void) state;

    memset(bytes, 'p', sizeof(bytes));
    pt.t.path.data = (const unsigned char *) bytes;

    for (len = 1; len <= sizeof(bytes); len++) {
        pt.t.path.len = len;
        round_trip();
    }
}


static void
round_trip_of_times(void **state)
{
    (void) state;

    pt.t.expires = 1;
    round_trip();

    pt.t.expires = NSF_TIME_MAX;
    round_trip();

    pt.t.valid_until = NSF_TIME_MAX;
    round_trip();
}


static void
round_trip_of_every_combination(void **state)
{
    unsigned      n;
    nsf_target_t  all;

    (void) state;

    pack_everything();
    all = pt.t;

    for (n = 0; n < 64 * 3; n++) {
        pt.t = all;

        if (!(n & 1)) {
            pt.t.type.len = 0;
        }

        if (!(n & 2)) {
            pt.t.name.len = 0;
        }

        if (!(n & 4)) {
            pt.t.nheaders = 0;
        }

        if (!(n & 8)) {
            pt.t.valid_until = 0;
        }

        if (!(n & 16) && pt.t.valid_until == 0) {
            pt.t.expires = 0;
        }

        if (n & 32) {
            pt.t.path = pack_name;
        }

        pt.t.disposition = (nsf_disposition_e) (n / 64);

        round_trip();
    }
}


static void
round_trip_of_long_strings(void **state)
{
    char          *bytes;
    size_t         i;
    nsf_str_t      s;
    nsf_header_t  *h;

    static const size_t  lengths[] = { 254, 255, 256, 65535, 65536, 70000 };

    (void) state;

    bytes = malloc(70000);
    assert_non_null(bytes);
    memset(bytes, 's', 70000);

    h = pack_headers(1);

    for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        s.data = (unsigned char *) bytes;
        s.len = lengths[i];

        pt.t.type = s;
        pt.t.name = s;
        h->name = s;
        h->value = s;

        round_trip();
    }

    free(bytes);
}


static void
round_trip_of_all_headers(void **state)
{
    size_t  n;

    (void) state;

    for (n = 1; n <= NSF_MAX_HEADERS; n++) {
        (void) pack_headers(n);
        round_trip();
    }
}


static void
round_trip_of_an_empty_header_value(void **state)
{
    nsf_header_t  *h;

    (void) state;

    h = pack_headers(2);

    h[0].value.data = NULL;
    h[0].value.len = 0;

    round_trip();
}


static void
every_address(void **state)
{
    size_t          i;
    unsigned char  *bytes;
    nsf_test_buf_t  buf;

    (void) state;

    pack_everything();
    buf = pack();

    bytes = malloc(buf.len + 16);
    assert_non_null(bytes);

    for (i = 0; i < 16; i++) {
        memcpy(bytes + i, buf.data, buf.len);
        nsf_assert_good(unpack_at(bytes + i, buf.len, 0));
        assert_int_equal(pt.back.expires, pt.t.expires);
        assert_ptr_equal(pt.back.path.data,
                         bytes + i + buf.len - pack_path.len);
    }

    free(bytes);
    nsf_test_free(&buf);
}


int
main(void)
{
    static const struct CMUnitTest  tests[] = {
        pack_test(bytes_of_a_path),
        pack_test(bytes_of_each_field),
        pack_test(bytes_of_a_long_string),
        pack_test(round_trip_of_a_path),
        pack_test(round_trip_of_paths_of_all_lengths),
        pack_test(round_trip_of_times),
        pack_test(round_trip_of_every_combination),
        pack_test(round_trip_of_long_strings),
        pack_test(round_trip_of_all_headers),
        pack_test(round_trip_of_an_empty_header_value),
        pack_test(every_address),
    };

    return cmocka_run_group_tests_name("nsf_pack", tests, NULL, NULL);
}
