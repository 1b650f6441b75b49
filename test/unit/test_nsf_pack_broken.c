/*
 * Copyright (C) the ngx_sendfile authors
 *
 * nsf_unpack() of bytes that nsf_pack() did not make.
 */


#include "nsf_test_pack.h"


/* "t" packed, one byte of it another */

static const char *
unpack_changed(size_t at, unsigned char byte)
{
    const char      *err;
    nsf_test_buf_t   buf;

    buf = pack();
    assert_true(at < buf.len);
    assert_int_not_equal(buf.data[at], byte);

    buf.data[at] = byte;
    err = unpack(buf.data, buf.len);

    nsf_test_free(&buf);

    return err;
}


static void
truncated(void)
{
    size_t          len;
    nsf_test_buf_t  buf;

    buf = pack();

    for (len = 0; len < buf.len; len++) {
        nsf_assert_error(unpack(buf.data, len), CUT_OFF);
    }

    nsf_test_free(&buf);
}


static void
each_truncation_is_refused(void **state)
{
    char  bytes[300];

    (void) state;

    truncated();

    pack_everything();
    truncated();

    memset(bytes, 'p', sizeof(bytes));
    pt.t.path.data = (const unsigned char *) bytes;
    pt.t.path.len = sizeof(bytes);
    truncated();
}


static void
bytes_behind_the_path_are_refused(void **state)
{
    (void) state;

    nsf_assert_good(unpack_str("\x01\x00\x01" "p"));
    nsf_assert_error(unpack_str("\x01\x00\x01" "pp"), BROKEN);
    nsf_assert_error(unpack_str("\x01\x01\x01" "p\0"), BROKEN);
}


static void
no_memory_is_read_of_nothing(void **state)
{
    (void) state;

    nsf_assert_error(unpack_at(NULL, 0, 0), CUT_OFF);
}


static void
other_versions_are_refused(void **state)
{
    unsigned  version;

    (void) state;

    for (version = 0; version < 256; version++) {

        if (version != 1) {
            nsf_assert_error(unpack_changed(0, (unsigned char) version),
                             "packed target of another version");
        }
    }
}


static void
unknown_flags_are_refused(void **state)
{
    (void) state;

    nsf_assert_error(unpack_changed(1, 0x80), BROKEN);
    nsf_assert_error(unpack_changed(1, 0x03), BROKEN);
}


/* every length of a target that has all, each with every other byte in it */

static void
each_corrupt_length_is_refused(void **state)
{
    size_t    i;
    unsigned  byte;

    static const size_t  at[] = {
        18,                                 /* type */
        18 + 14,                            /* name */
        18 + 14 + 11,                       /* number of headers */
        18 + 14 + 11 + 1,                   /* name and value of both */
        18 + 14 + 11 + 1 + 5,
        18 + 14 + 11 + 1 + 5 + 4,
        18 + 14 + 11 + 1 + 5 + 4 + 14,
        18 + 14 + 11 + 1 + 5 + 4 + 14 + 19  /* path */
    };

    static const unsigned char  lengths[] = { 13, 10, 2, 4, 3, 13, 18, 9 };

    (void) state;

    pack_everything();

    for (i = 0; i < sizeof(lengths); i++) {
        for (byte = 0; byte < 256; byte++) {

            if (byte != lengths[i]) {
                assert_non_null(unpack_changed(at[i], (unsigned char) byte));
            }
        }
    }
}


static void
lengths_of_four_bytes(void **state)
{
    char  bytes[300];

    (void) state;

    memset(bytes, 'p', sizeof(bytes));
    pt.t.path.data = (const unsigned char *) bytes;
    pt.t.path.len = sizeof(bytes);

    nsf_assert_error(unpack_changed(3, 0x2b), BROKEN);
    nsf_assert_error(unpack_changed(3, 0x2d), CUT_OFF);
    nsf_assert_error(unpack_changed(4, 0x02), CUT_OFF);
    nsf_assert_error(unpack_changed(5, 0x01), CUT_OFF);
    nsf_assert_error(unpack_changed(6, 0x80), CUT_OFF);
    nsf_assert_error(unpack_changed(6, 0xff), CUT_OFF);
}


/* there is one form for each target */

static void
long_form_of_a_short_length_is_refused(void **state)
{
    unsigned char  bytes[7 + 254];

    (void) state;

    memset(bytes, 'p', sizeof(bytes));
    memcpy(bytes, "\x01\x00\xff\xfe\0\0\0", 7);

    nsf_assert_error(unpack(bytes, sizeof(bytes)), BROKEN);
    nsf_assert_error(unpack_str("\x01\x00\xff\x01\0\0\0" "p"), BROKEN);
    nsf_assert_error(unpack_str("\x01\x00\xff\0\0\0\0"), BROKEN);
}


static void
absent_fields_are_not_empty_ones(void **state)
{
    (void) state;

    nsf_assert_error(unpack_str("\x01\x10" "\0" "\x01" "p"), BROKEN);
    nsf_assert_error(unpack_str("\x01\x20" "\0" "\x01" "p"), BROKEN);
    nsf_assert_error(unpack_str("\x01\x40" "\0" "\x01" "p"), BROKEN);
    nsf_assert_error(unpack_str("\x01\x40" "\x01" "\0\0" "\x01" "p"), BROKEN);
    nsf_assert_error(unpack_str("\x01\x04" "\0\0\0\0\0\0\0\0" "\x01" "p"),
                     BROKEN);
}


static void
too_many_headers_are_refused(void **state)
{
    const char      *err;
    nsf_test_buf_t   buf;

    (void) state;

    (void) pack_headers(NSF_MAX_HEADERS + 1);

    buf = pack();
    err = unpack(buf.data, buf.len);
    nsf_test_free(&buf);

    nsf_assert_error(err, BROKEN);
    assert_int_equal(pt.pool.calls, 0);

    nsf_assert_error(unpack_changed(2, 0xff), BROKEN);
    assert_int_equal(pt.pool.calls, 0);
}


static void
paths_are_checked(void **state)
{
    (void) state;

    nsf_assert_error(unpack_str("\x01\0" "\0"), "empty path");
    nsf_assert_error(unpack_str("\x01\0" "\x02" "/p"),
                     "path starts with \"/\"");
    nsf_assert_error(unpack_str("\x01\0" "\x04" "../p"), "\"..\" in path");
    nsf_assert_error(unpack_str("\x01\0" "\x03" "p\0q"),
                     "control byte in path");

    /* the other way through it */

    nsf_assert_error(unpack_str("\x01\x01" "\0"), "empty path");
    nsf_assert_error(unpack_str("\x01\x01" "\x02" "p/"),
                     "path ends with \"/\"");
}


static void
path_too_long(void **state)
{
    static char  bytes[NSF_MAX_PATH + 1];

    (void) state;

    memset(bytes, 'p', sizeof(bytes));
    pt.t.path.data = (const unsigned char *) bytes;
    pt.t.path.len = sizeof(bytes);

    /* a byte of the path, changed, makes it no shorter */

    nsf_assert_error(unpack_changed(7, 'q'), "path too long");
}


static void
control_bytes(nsf_str_t *field, int tab)
{
    unsigned         byte;
    const char      *err;
    nsf_str_t        saved;
    unsigned char    bytes[3];
    nsf_test_buf_t   buf;

    saved = *field;

    memset(bytes, 'x', sizeof(bytes));
    field->data = bytes;
    field->len = sizeof(bytes);

    for (byte = 0; byte < 256; byte++) {
        bytes[1] = (unsigned char) byte;

        buf = pack();
        err = unpack(buf.data, buf.len);
        nsf_test_free(&buf);

        if ((byte < 0x20 && !(byte == '\t' && tab)) || byte == 0x7f) {
            nsf_assert_error(err, BROKEN);

        } else {
            nsf_assert_good(err);
        }
    }

    *field = saved;
}


static void
control_bytes_in_type_and_name(void **state)
{
    (void) state;

    control_bytes(&pt.t.type, 0);
    control_bytes(&pt.t.name, 0);
}


static void
control_bytes_in_a_header(void **state)
{
    nsf_header_t  *h;

    (void) state;

    h = pack_headers(1);
    control_bytes(&h->name, 0);
    control_bytes(&h->value, 1);
}


static void
control_bytes_in_the_last_header(void **state)
{
    nsf_header_t  *h;

    static const nsf_header_t  crlf = {
        pack_str("Link"), pack_str("a\r\nSet-Cookie: b")
    };

    (void) state;

    h = pack_headers(NSF_MAX_HEADERS);
    h[NSF_MAX_HEADERS - 1] = crlf;

    nsf_assert_error(unpack_changed(3 + 4, 'X'), BROKEN);
}


static void
times_out_of_range(void **state)
{
    (void) state;

    pt.t.expires = NSF_TIME_MAX;
    nsf_assert_error(unpack_changed(9, 0x80), BROKEN);
    nsf_assert_error(unpack_changed(9, 0x01), BROKEN);

    pt.t.expires = NSF_TIME_MAX - 1;
    nsf_assert_good(unpack_changed(2, 0x7f));
    nsf_assert_error(unpack_changed(2, 0x80), BROKEN);
}


static void
times_that_contradict(void **state)
{
    (void) state;

    /* "expires" is never later than "valid_until", nor absent beside it */

    pt.t.expires = 5;
    pt.t.valid_until = 5;
    nsf_assert_good(unpack_changed(2, 4));
    nsf_assert_error(unpack_changed(2, 6), BROKEN);
    nsf_assert_error(unpack_changed(10, 4), BROKEN);

    nsf_assert_error(unpack_str("\x01\x08" "\x05\0\0\0\0\0\0\0" "\x01" "p"),
                     BROKEN);
}


static void
no_memory_for_the_headers(void **state)
{
    nsf_test_buf_t  buf;

    (void) state;

    pack_everything();

    buf = pack();
    nsf_assert_error(unpack_at(buf.data, buf.len, 1), NSF_ERR_MEMORY);
    nsf_test_free(&buf);
}


/*
 * Each byte of a target that has all, with every other value: refused, or
 * a target that packs to those bytes.
 */

static void
each_byte_changed(void **state)
{
    size_t          i, refused;
    unsigned        byte;
    const char     *err;
    unsigned char  *bytes;
    nsf_test_buf_t  buf;

    (void) state;

    pack_everything();
    buf = pack();
    refused = 0;

    bytes = malloc(buf.len);
    assert_non_null(bytes);

    for (i = 0; i < buf.len; i++) {
        for (byte = 1; byte < 256; byte++) {
            buf.data[i] ^= (unsigned char) byte;

            err = unpack_at(buf.data, buf.len, 0);

            if (err != NULL) {
                refused++;

            } else {
                nsf_assert_good(nsf_path_check(pt.back.path.data,
                                               pt.back.path.len));
                assert_int_equal(nsf_pack_size(&pt.back), buf.len);

                nsf_pack(bytes, &pt.back);
                assert_memory_equal(bytes, buf.data, buf.len);
            }

            buf.data[i] ^= (unsigned char) byte;
        }
    }

    assert_true(refused > 0 && refused < buf.len * 255);

    free(bytes);
    nsf_test_free(&buf);
}


int
main(void)
{
    static const struct CMUnitTest  tests[] = {
        pack_test(each_truncation_is_refused),
        pack_test(bytes_behind_the_path_are_refused),
        pack_test(no_memory_is_read_of_nothing),
        pack_test(other_versions_are_refused),
        pack_test(unknown_flags_are_refused),
        pack_test(each_corrupt_length_is_refused),
        pack_test(lengths_of_four_bytes),
        pack_test(long_form_of_a_short_length_is_refused),
        pack_test(absent_fields_are_not_empty_ones),
        pack_test(too_many_headers_are_refused),
        pack_test(paths_are_checked),
        pack_test(path_too_long),
        pack_test(control_bytes_in_type_and_name),
        pack_test(control_bytes_in_a_header),
        pack_test(control_bytes_in_the_last_header),
        pack_test(times_out_of_range),
        pack_test(times_that_contradict),
        pack_test(no_memory_for_the_headers),
        pack_test(each_byte_changed),
    };

    return cmocka_run_group_tests_name("nsf_pack_broken", tests, NULL, NULL);
}
