/*
 * Copyright (C) the ngx_sendfile authors
 */


#include "nsf_test_inflate.h"
#include "nsf_inflate.h"


#define MIB  (1024 * 1024)

#define BROKEN    "broken compressed value"
#define CUT_OFF   "compressed value cut off"
#define TOO_LONG  "value unpacks to more than 64 KiB"


static nsf_str_t         out;
static nsf_test_pool_t   tp;
static unsigned char    *plain;
static unsigned char    *packed;


static int
setup(void **state)
{
    size_t  i;

    (void) state;

    nsf_test_pool_init(&tp, 0);
    memset(&out, 0, sizeof(nsf_str_t));
    memset(&nsf_test_zlib, 0, sizeof(nsf_test_zlib_t));

    plain = malloc(MIB);
    packed = malloc(MIB);

    if (plain == NULL || packed == NULL) {
        return -1;
    }

    /* neither all the same nor all different */

    for (i = 0; i < MIB; i++) {
        plain[i] = (unsigned char) (i * i / 7 + (i >> 5));
    }

    return 0;
}


static int
teardown(void **state)
{
    (void) state;

    nsf_test_pool_free(&tp);
    free(plain);
    free(packed);

    return 0;
}


/* anew each time, from memory of just the length */

static const char *
unpack(const void *data, size_t len)
{
    size_t           fail_at;
    const char      *err;
    nsf_test_buf_t   buf;

    fail_at = tp.fail_at;
    nsf_test_pool_free(&tp);
    nsf_test_pool_init(&tp, fail_at);

    memset(&out, 0, sizeof(nsf_str_t));

    buf = nsf_test_copy(data, len);
    err = nsf_inflate(&out, buf.data, buf.len, &tp.pool);

    /* nothing of it is left in the input, but an empty string */

    if (err == NULL && out.len != 0) {
        assert_true(nsf_test_pool_owns(&tp, &out));
    }

    nsf_test_free(&buf);

    return err;
}


static void
headers(void **state)
{
    size_t          i;
    nsf_test_buf_t  buf;

    static const struct {
        const char  *data;
        size_t       len;
        int          zlib;
        int          gzip;
    } starts[] = {
        { "x\x9c", 2, 1, 0 },
        { "x\x01", 2, 1, 0 },
        { "x^", 2, 1, 0 },
        { "x\xda", 2, 1, 0 },
        { "x\xbb", 2, 0, 0 },    /* with a dictionary */
        { "x\x9d", 2, 0, 0 },
        { "xy", 2, 0, 0 },
        { "x", 1, 0, 0 },
        { "", 0, 0, 0 },
        { "h\x81", 2, 0, 0 },    /* a smaller window */
        { "hC", 2, 0, 0 },
        { "\x1f\x8b\x08", 3, 0, 1 },
        { "\x1f\x8b", 2, 0, 0 },
        { "\x1f\x8b\x00", 3, 0, 0 },
        { "\x1f\x9d\x90", 3, 0, 0 },
        { "aa/aa.dat", 9, 0, 0 },
    };

    (void) state;

    for (i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
        buf = nsf_test_copy(starts[i].data, starts[i].len);
        assert_int_equal(nsf_inflate_is_zlib(buf.data, buf.len),
                         starts[i].zlib);
        assert_int_equal(nsf_inflate_is_gzip(buf.data, buf.len),
                         starts[i].gzip);
        nsf_test_free(&buf);
    }
}


/* of real clients: Dalli, pymemcache, and gzip(1) */

static void
known_data(void **state)
{
    static const char  dalli[] =
        "\x78\x9c\x4b\x4c\xd4\x4f\x4c\xd4\x4b\x49\x2c\x01\x00\x0f\x08\x03"
        "\x1b";

    static const char  gzip[] =
        "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\x4b\x4c\xd4\x4f\x4c\xd4"
        "\x4b\x49\x2c\x01\x00\x29\xbe\xe2\xcb\x09\x00\x00\x00";

    (void) state;

    nsf_assert_good(unpack(dalli, sizeof(dalli) - 1));
    nsf_assert_str(out, "aa/aa.dat");

    nsf_assert_good(unpack(gzip, sizeof(gzip) - 1));
    nsf_assert_str(out, "aa/aa.dat");
}


static void
all_lengths(void **state)
{
    size_t  i, len, n;

    static const int     formats[] = { NSF_TEST_ZLIB, NSF_TEST_GZIP };
    static const size_t  lengths[] = {
        1, 2, 100, 4094, 4095, 4096, 4097, 8191, 8192, 8193, 32768, 65535,
        65536
    };

    (void) state;

    for (i = 0; i < 2 * sizeof(lengths) / sizeof(lengths[0]); i++) {
        n = lengths[i / 2];
        len = nsf_test_deflate(packed, MIB, formats[i % 2], plain, n);

        if (len > NSF_MAX_VALUE) {
            nsf_assert_error(unpack(packed, len), "value too long");
            continue;
        }

        nsf_assert_good(unpack(packed, len));
        assert_int_equal(out.len, n);
        assert_memory_equal(out.data, plain, n);

        /* one piece, and no more than it takes */

        assert_int_equal(tp.nblocks, 1);
        assert_int_equal(tp.sizes[0], n);
    }
}


static void
empty(void **state)
{
    size_t  len;

    (void) state;

    len = nsf_test_deflate(packed, MIB, NSF_TEST_ZLIB, plain, 0);
    nsf_assert_good(unpack(packed, len));
    assert_int_equal(out.len, 0);
    assert_non_null(out.data);
    assert_int_equal(tp.calls, 0);
}


static void
one_byte_too_long(void **state)
{
    size_t  len;

    (void) state;

    memset(plain, 'x', NSF_MAX_VALUE + 1);

    len = nsf_test_deflate(packed, MIB, NSF_TEST_ZLIB, plain, NSF_MAX_VALUE);
    nsf_assert_good(unpack(packed, len));

    len = nsf_test_deflate(packed, MIB, NSF_TEST_ZLIB, plain,
                           NSF_MAX_VALUE + 1);
    nsf_assert_error(unpack(packed, len), TOO_LONG);
    assert_int_equal(tp.calls, 0);
}


/* 1,000 to 1: 48 MiB of zeros are given up after 64 KiB */

static void
bomb(void **state)
{
    size_t          len;
    unsigned char  *zeros;

    (void) state;

    zeros = calloc(48, MIB);
    assert_non_null(zeros);

    len = nsf_test_deflate(packed, MIB, NSF_TEST_GZIP, zeros, 48 * MIB);
    free(zeros);

    assert_true(len < NSF_MAX_VALUE);
    nsf_assert_error(unpack(packed, len), TOO_LONG);
    assert_int_equal(tp.calls, 0);
}


static void
input_too_long(void **state)
{
    (void) state;

    nsf_assert_error(unpack(plain, NSF_MAX_VALUE + 1), "value too long");
}


static void
cut_off_anywhere(void **state)
{
    size_t  i, len, format;

    static const int  formats[] = { NSF_TEST_ZLIB, NSF_TEST_GZIP };

    (void) state;

    for (format = 0; format < 2; format++) {
        len = nsf_test_deflate(packed, MIB, formats[format], plain, 5000);

        for (i = 0; i < len; i += (i < 64 || len - i < 64) ? 1 : 37) {
            nsf_assert_error(unpack(packed, i), CUT_OFF);
            assert_int_equal(tp.calls, 0);
        }
    }
}


static void
bytes_behind(void **state)
{
    size_t  len;

    (void) state;

    len = nsf_test_deflate(packed, MIB, NSF_TEST_ZLIB, plain, 100);
    packed[len] = 0;
    nsf_assert_error(unpack(packed, len + 1),
                     "bytes behind the compressed value");

    /* nor a second member */

    len = nsf_test_deflate(packed, MIB, NSF_TEST_GZIP, plain, 100);
    len += nsf_test_deflate(packed + len, MIB - len, NSF_TEST_GZIP, plain, 9);
    nsf_assert_error(unpack(packed, len),
                     "bytes behind the compressed value");
}


static void
broken(void **state)
{
    size_t  len;

    (void) state;

    nsf_assert_error(unpack("aa/aa.dat", 9), BROKEN);
    nsf_assert_error(unpack("x\x9cxxxxxxxx", 10), BROKEN);
    nsf_assert_error(unpack("x\xbb\x00\x00\x00\x01xxxx", 10), BROKEN);

    len = nsf_test_deflate(packed, MIB, NSF_TEST_RAW, plain, 100);
    nsf_assert_error(unpack(packed, len), BROKEN);

    /* the sum at the end */

    len = nsf_test_deflate(packed, MIB, NSF_TEST_ZLIB, plain, 100);
    packed[len - 1] ^= 1;
    nsf_assert_error(unpack(packed, len), BROKEN);
}


static void
any_byte_changed(void **state)
{
    size_t     i, len;
    unsigned   c;

    (void) state;

    len = nsf_test_deflate(packed, MIB, NSF_TEST_ZLIB, "aa/aa.dat", 9);

    for (i = 0; i < len; i++) {
        packed[i] ^= 0xff;

        for (c = 0; c < 255; c++) {

            /* some bits do not matter, the sum sees all others */

            if (unpack(packed, len) == NULL) {
                nsf_assert_str(out, "aa/aa.dat");
            }

            packed[i]++;
        }

        packed[i]++;
        packed[i] ^= 0xff;
    }
}


static void
out_of_pool(void **state)
{
    size_t  len, n;

    (void) state;

    tp.fail_at = 1;

    for (n = 100; n <= 10000; n += 9900) {
        len = nsf_test_deflate(packed, MIB, NSF_TEST_ZLIB, plain, n);
        nsf_assert_error(unpack(packed, len), NSF_ERR_MEMORY);
        assert_int_equal(tp.calls, 1);
    }
}


/* each allocation of zlib fails once, and none is kept */

static void
out_of_memory_in_zlib(void **state)
{
    size_t           len, n;
    const char      *err;
    nsf_test_buf_t   buf;

    (void) state;

    len = nsf_test_deflate(packed, MIB, NSF_TEST_ZLIB, plain, 10000);
    buf = nsf_test_copy(packed, len);

    for (n = 1; n < 10; n++) {
        memset(&nsf_test_zlib, 0, sizeof(nsf_test_zlib_t));
        nsf_test_zlib.fail_at = n;

        err = nsf_test_inflate(&out, buf.data, buf.len, &tp.pool);

        if (nsf_test_zlib.nalloc < n) {
            break;
        }

        nsf_assert_error(err, NSF_ERR_MEMORY);
        assert_int_equal(nsf_test_zlib.nfree, nsf_test_zlib.nalloc - 1);
        assert_int_equal(tp.calls, 0);
    }

    /* the state and the window, at least */

    assert_true(n > 2 && n < 10);

    nsf_assert_good(err);
    assert_int_equal(nsf_test_zlib.nfree, nsf_test_zlib.nalloc);
    assert_int_equal(out.len, 10000);
    assert_memory_equal(out.data, plain, 10000);

    nsf_test_free(&buf);
}


static void
memory_is_given_back_after_errors(void **state)
{
    size_t           i, len;
    nsf_test_buf_t   buf;

    (void) state;

    memset(plain, 'x', NSF_MAX_VALUE + 1);

    for (i = 0; i < 3; i++) {
        len = nsf_test_deflate(packed, MIB, NSF_TEST_ZLIB, plain,
                               i == 0 ? NSF_MAX_VALUE + 1 : 9000);

        if (i == 1) {
            packed[len / 2] ^= 0x55;
        }

        buf = nsf_test_copy(packed, (i == 2) ? len / 2 : len);
        memset(&nsf_test_zlib, 0, sizeof(nsf_test_zlib_t));

        assert_non_null(nsf_test_inflate(&out, buf.data, buf.len, &tp.pool));
        assert_true(nsf_test_zlib.nalloc > 0);
        assert_int_equal(nsf_test_zlib.nfree, nsf_test_zlib.nalloc);

        nsf_test_free(&buf);
    }
}


static const char *
fastlz(const char *data, size_t len, size_t size)
{
    size_t           fail_at;
    const char      *err;
    nsf_test_buf_t   buf;

    fail_at = tp.fail_at;
    nsf_test_pool_free(&tp);
    nsf_test_pool_init(&tp, fail_at);

    buf = nsf_test_copy(data, len);
    err = nsf_fastlz(&out, size, buf.data, buf.len, &tp.pool);
    nsf_test_free(&buf);

    if (err == NULL) {
        assert_int_equal(out.len, size);
        assert_true(nsf_test_pool_owns(&tp, &out));
    }

    return err;
}


#define fastlz_of(data, size)  fastlz(data, sizeof(data) - 1, size)


static void
fastlz_literals(void **state)
{
    (void) state;

    nsf_assert_good(fastlz_of("\x00" "a", 1));
    nsf_assert_str(out, "a");
    nsf_assert_good(fastlz_of("\x02" "abc\x01" "de", 5));
    nsf_assert_str(out, "abcde");
    nsf_assert_good(fastlz_of("\x1f" "abcdefghijklmnopqrstuvwxyz012345\x00!",
                              33));
    nsf_assert_str(out, "abcdefghijklmnopqrstuvwxyz012345!");
}


static void
fastlz_matches(void **state)
{
    (void) state;

    /* 3 from 3 back; 8 from 3 back, over itself; 9 from 1 back; 264 */

    nsf_assert_good(fastlz_of("\x02" "abc\x20\x02", 6));
    nsf_assert_str(out, "abcabc");
    nsf_assert_good(fastlz_of("\x02" "abc\xc0\x02", 11));
    nsf_assert_str(out, "abcabcabcab");
    nsf_assert_good(fastlz_of("\x00" "a\xe0\x00\x00\x00" "b", 11));
    nsf_assert_str(out, "aaaaaaaaaab");
    nsf_assert_good(fastlz_of("\x00" "a\xe0\xff\x00", 265));
    assert_int_equal(out.data[264], 'a');
}


static void
fastlz_far(void **state)
{
    char    data[9000];
    size_t  i, len, size;

    (void) state;

    /* 8192 literals, then 3 from all the way back */

    len = 0;

    for (i = 0; i < 256; i++) {
        data[len++] = 31;
        memset(data + len, (int) i, 32);
        len += 32;
    }

    memcpy(data + len, "\x3f\xff", 2);
    size = 8192 + 3;

    nsf_assert_good(fastlz(data, len + 2, size));
    assert_memory_equal(out.data + 8192, "\0\0\0", 3);

    /* and one further */

    assert_int_equal(data[1], 0);
    nsf_assert_error(fastlz(data + 33, len - 33 + 2, size - 32), BROKEN);
}


/* of php-memcached: 1,000 times "aXb" */

static void
fastlz_of_php(void **state)
{
    size_t  i;

    static const char  data[] =
        "\x02\x61\x58\x62\xe0\xfd\x02\xe0\xfd\x02\xe0\xfd\x02\xe0\xfd\x02"
        "\xe0\xfd\x02\xe0\xfd\x02\xe0\xfd\x02\xe0\xfd\x02\xe0\xfd\x02\xe0"
        "\xfd\x02\xe0\xfd\x02\xe0\x67\x02\x02\x61\x58\x62";

    (void) state;

    nsf_assert_good(fastlz_of(data, 3000));

    for (i = 0; i < 3000; i++) {
        assert_int_equal(out.data[i], "aXb"[i % 3]);
    }

    nsf_assert_error(fastlz_of(data, 2999), BROKEN);
    nsf_assert_error(fastlz_of(data, 3001), BROKEN);

    for (i = 0; i < sizeof(data) - 1; i++) {
        nsf_assert_error(fastlz(data, i, 3000), BROKEN);
    }
}


static void
fastlz_broken(void **state)
{
    (void) state;

    nsf_assert_error(fastlz_of("", 1), BROKEN);
    nsf_assert_error(fastlz_of("\x00", 1), BROKEN);
    nsf_assert_error(fastlz_of("\x00" "a", 0), BROKEN);
    nsf_assert_error(fastlz_of("\x00" "a", 2), BROKEN);
    nsf_assert_error(fastlz_of("\x01" "ab", 1), BROKEN);
    nsf_assert_error(fastlz_of("\x02" "ab", 3), BROKEN);

    /* a match before the start, beyond the end, cut off */

    nsf_assert_error(fastlz_of("\x00" "a\x20\x01", 4), BROKEN);
    nsf_assert_error(fastlz_of("\x00" "a\x20\x00", 3), BROKEN);
    nsf_assert_error(fastlz_of("\x00" "a\x20", 4), BROKEN);
    nsf_assert_error(fastlz_of("\x00" "a\xe0", 10), BROKEN);
    nsf_assert_error(fastlz_of("\x00" "a\xe0\x00", 10), BROKEN);
}


static void
fastlz_levels(void **state)
{
    (void) state;

    nsf_assert_error(fastlz_of("\x20" "a", 1),
                     "FastLZ of a level other than 1");
    nsf_assert_error(fastlz_of("\xe0" "a", 1),
                     "FastLZ of a level other than 1");
}


static void
fastlz_sizes(void **state)
{
    (void) state;

    nsf_assert_error(fastlz_of("\x00" "a", NSF_MAX_VALUE + 1), TOO_LONG);
    nsf_assert_error(fastlz_of("\x00" "a", SIZE_MAX), TOO_LONG);

    /* no memory for what so few bytes cannot give */

    nsf_assert_error(fastlz_of("\x00" "a", NSF_MAX_VALUE), BROKEN);
    assert_int_equal(tp.calls, 0);
}


static void
fastlz_out_of_pool(void **state)
{
    (void) state;

    tp.fail_at = 1;
    nsf_assert_error(fastlz_of("\x00" "a", 1), NSF_ERR_MEMORY);
}


#define inflate_test(f)  cmocka_unit_test_setup_teardown(f, setup, teardown)


int
main(void)
{
    static const struct CMUnitTest  tests[] = {
        inflate_test(headers),
        inflate_test(known_data),
        inflate_test(all_lengths),
        inflate_test(empty),
        inflate_test(one_byte_too_long),
        inflate_test(bomb),
        inflate_test(input_too_long),
        inflate_test(cut_off_anywhere),
        inflate_test(bytes_behind),
        inflate_test(broken),
        inflate_test(any_byte_changed),
        inflate_test(out_of_pool),
        inflate_test(out_of_memory_in_zlib),
        inflate_test(memory_is_given_back_after_errors),
        inflate_test(fastlz_literals),
        inflate_test(fastlz_matches),
        inflate_test(fastlz_far),
        inflate_test(fastlz_of_php),
        inflate_test(fastlz_broken),
        inflate_test(fastlz_levels),
        inflate_test(fastlz_sizes),
        inflate_test(fastlz_out_of_pool),
    };

    return cmocka_run_group_tests_name("nsf_inflate", tests, NULL, NULL);
}
