/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <stdio.h>

#include "nsf_test_inflate.h"
#include "nsf_test_vectors.h"
#include "nsf_unwrap.h"


#define bytes(s)  (s), sizeof(s) - 1

#define UTF8      "I\"\x0e" "aa/aa.dat\x06:\x06" "ET"
#define MARSHAL   "\x04\x08" UTF8

#define NO_ZLIB    "compressed, but neither with zlib nor with gzip"
#define NO_RUBY    "serialized, but neither as Marshal nor as JSON"
#define NO_STRING  "a number or an object by its flags"
#define NUMBER     "a number by its flags, not a string"
#define PHP        "serialized by PHP, not a string"
#define NO_OBJECT  "JSON by its flags, but not an object"
#define BROKEN     "broken compressed value"


static nsf_str_t         s;
static int64_t           until;
static nsf_test_buf_t    buf;
static nsf_test_pool_t   tp;


static int
setup(void **state)
{
    (void) state;

    memset(&buf, 0, sizeof(nsf_test_buf_t));
    nsf_test_pool_init(&tp, 0);

    return 0;
}


static int
teardown(void **state)
{
    (void) state;

    nsf_test_free(&buf);
    nsf_test_pool_free(&tp);

    return 0;
}


static const char *
unwrap_as(nsf_format_e format, uint32_t flags, const void *data, size_t len)
{
    size_t       fail_at;
    const char  *err;

    fail_at = tp.fail_at;
    nsf_test_pool_free(&tp);
    nsf_test_pool_init(&tp, fail_at);

    nsf_test_free(&buf);
    buf = nsf_test_copy(data, len);

    s.data = buf.data;
    s.len = buf.len;
    until = -1;

    err = nsf_unwrap(&s, &until, format, flags, &tp.pool);

    if (err == NULL) {
        assert_true((s.data >= buf.data
                     && s.data + s.len <= buf.data + buf.len)
                    || nsf_test_pool_owns(&tp, &s));
        assert_true(until >= 0);
    }

    return err;
}


static const char *
unwrap(uint32_t flags, const void *data, size_t len)
{
    return unwrap_as(NSF_FORMAT_AUTO, flags, data, len);
}


#define gives(flags, data, expected)                                          \
    do {                                                                      \
        nsf_assert_good(unwrap(flags, bytes(data)));                          \
        nsf_assert_str(s, expected);                                          \
    } while (0)

#define is_refused(flags, data, reason)                                       \
    nsf_assert_error(unwrap(flags, bytes(data)), reason)


static const char *
unwrap_deflated(uint32_t flags, int format, const void *data, size_t len)
{
    size_t         n;
    unsigned char  packed[1024];

    n = nsf_test_deflate(packed, sizeof(packed), format, data, len);

    return unwrap(flags, packed, n);
}


#define gives_deflated(flags, format, data, expected)                         \
    do {                                                                      \
        nsf_assert_good(unwrap_deflated(flags, format, bytes(data)));         \
        nsf_assert_str(s, expected);                                          \
    } while (0)


/* with its length in front */

static size_t
php_zlib(unsigned char *packed, size_t size, size_t says, const char *data,
    size_t len)
{
    packed[0] = (unsigned char) says;
    packed[1] = (unsigned char) (says >> 8);
    packed[2] = (unsigned char) (says >> 16);
    packed[3] = (unsigned char) (says >> 24);

    return 4 + nsf_test_deflate(packed + 4, size - 4, NSF_TEST_ZLIB, data,
                                len);
}


/*
 * What a client meant where the file of vectors does not say: so many times
 * a string; NULL if it was none, but a number, an array and so on.
 */

static const struct {
    const char  *name;
    const char  *string;
    size_t       times;
} meant[] = {
    { "s_int", NULL, 0 },

    /* written raw, the Integer 12 is a string as good as any */

    { "s_int_raw", "12", 1 },

    { "s_4k", "a", 5000 },
    { "s_4k_raw", "a", 5000 },
    { "py_int", NULL, 0 },
    { "py_list", NULL, 0 },
    { "py_str_compr", "a", 1000 },
    { "py_str_comprs", "aa", 1 },
    { "pl_int", NULL, 0 },
    { "pl_z", "a", 3000 },
    { "ph_int", NULL, 0 },
    { "ph_arr", NULL, 0 },
    { "ph_z", "aXb", 1000 },
    { "ph_zz", "aXb", 1000 },
    { "ph_dbl", NULL, 0 },
    { "ph_bool", NULL, 0 },
    { "pre_ph_pref", "x", 1 },
    { "pm_z", "aXb", 1000 },
    { "pm_arr", NULL, 0 },
    { "pm_int", NULL, 0 },
    { "r_nil", NULL, 0 },
    { "r_int", NULL, 0 },

    /* of these the file tells the string in the Hash */

    { "r_hash", NULL, 0 },

    { "r_2k", "a", 2000 },
    { NULL, NULL, 0 }
};


static size_t
expect(char *expected, const char *name, const char *string)
{
    size_t  i, k, n;

    for (i = 0; meant[i].name != NULL; i++) {

        if (strcmp(meant[i].name, name) != 0) {
            continue;
        }

        n = 0;

        for (k = 0; k < meant[i].times; k++) {
            memcpy(expected + n, meant[i].string, strlen(meant[i].string));
            n += strlen(meant[i].string);
        }

        return n;
    }

    /* the file says it */

    n = strlen(string);
    assert_true(n > 0);
    memcpy(expected, string, n);

    return n;
}


static void
values_of_real_clients(void **state)
{
    int                  expires;
    char                *expected;
    size_t               i, len, n, accepted, refused;
    uint32_t             flags;
    const char          *err;
    nsf_test_vectors_t   v;

    (void) state;

    nsf_test_vectors(&v, "wire_values.tsv", 5, 88);

    expected = malloc(8192);
    assert_non_null(expected);

    accepted = 0;
    refused = 0;

    for (i = 1; i < v.nrows; i++) {
        flags = (uint32_t) strtoul(v.rows[i][2], NULL, 10);
        len = nsf_test_unhex(v.rows[i][3]);
        n = expect(expected, v.rows[i][1], v.rows[i][4]);

        err = unwrap(flags, v.rows[i][3], len);

        if (n == 0) {

            if (err == NULL) {
                fail_msg("%s, %s: taken for a string", v.rows[i][0],
                         v.rows[i][1]);
            }

            refused++;
            continue;
        }

        if (err != NULL) {
            fail_msg("%s, %s: %s", v.rows[i][0], v.rows[i][1], err);
        }

        assert_int_equal(s.len, n);
        assert_memory_equal(s.data, expected, n);

        expires = strcmp(v.rows[i][1], "r_exp") == 0
                  || strcmp(v.rows[i][1], "r_expver") == 0;

        if (expires) {
            assert_true(until >= 1795189400 && until < 1795189500);

        } else {
            assert_true(until == 0);
        }

        accepted++;
    }

    assert_int_equal(accepted, 58);
    assert_int_equal(refused, 29);

    free(expected);
    nsf_test_vectors_free(&v);
}


static void
flags_0(void **state)
{
    (void) state;

    gives(0, "aa/aa.dat", "aa/aa.dat");
    assert_ptr_equal(s.data, buf.data);
    gives(0, "{\"path\":\"a\"}", "{\"path\":\"a\"}");
    gives(0, "12", "12");
    gives(0, "1.5", "1.5");
    gives(0, "N;", "N;");
    gives(0, "\"a\"", "\"a\"");
    gives(0, "", "");
    assert_int_equal(tp.calls, 0);

    gives(0, MARSHAL, "aa/aa.dat");
    gives(0, "\x04\x08\"\x0e" "aa/aa.dat", "aa/aa.dat");
    gives(0, "\x00\x04\x08[\x06" UTF8, "aa/aa.dat");
    gives(0, "\x00\x11\x02\0\0\0\0\0\0\xf0\xbf\xff\xff\xff\xff" "a", "a");
    assert_int_equal(tp.calls, 0);

    is_refused(0, "\x04\x08i\x0a", "an Integer in Marshal, not a String");

    /* zlib without a flag is nothing that a path or JSON could be */

    nsf_assert_good(unwrap_deflated(0, NSF_TEST_ZLIB, bytes("aa/aa.dat")));
    assert_int_equal(s.data[0], 'x');
}


static void
flags_1(void **state)
{
    (void) state;

    gives(1, MARSHAL, "aa/aa.dat");
    gives(1, "{\"path\":\"a\"}", "{\"path\":\"a\"}");
    gives(1, "\"aa/aa.dat\"", "aa/aa.dat");
    gives(1, "\"a\\u00e9\\/\\n\"", "a\xc3\xa9/\n");
    gives(1, "\"{}\"", "{}");
    gives(1, "\"\"", "");

    is_refused(1, "\"aa/aa.dat", "broken JSON");
    is_refused(1, "\"a\" x", "broken JSON");
    is_refused(1, "\"a\\u0000b\"", "broken JSON");
    is_refused(1, "\"\xff\"", "broken JSON");

    is_refused(1, "aa/aa.dat", NO_RUBY);
    is_refused(1, "35", NO_RUBY);
    is_refused(1, "\x80\x05\x95", NO_RUBY);
    is_refused(1, "(lp0\n.", NO_RUBY);
    is_refused(1, "a:1:{i:0;s:1:\"a\";}", NO_RUBY);
    is_refused(1, "[1]", NO_RUBY);
    is_refused(1, "null", NO_RUBY);
    is_refused(1, "", NO_RUBY);
    is_refused(1, "\x00\x04\x08[\x06" UTF8, NO_RUBY);
}


static void
flags_2(void **state)
{
    (void) state;

    gives_deflated(2, NSF_TEST_ZLIB, "aa/aa.dat", "aa/aa.dat");
    gives_deflated(2, NSF_TEST_GZIP, "aa/aa.dat", "aa/aa.dat");
    gives_deflated(2, NSF_TEST_ZLIB, "12", "12");
    gives_deflated(2, NSF_TEST_ZLIB, MARSHAL, "aa/aa.dat");
    gives_deflated(2, NSF_TEST_ZLIB,
                   "\x00\x11\x02\0\0\0\0\0\0\xf0\xbf\xff\xff\xff\xff" "a",
                   "a");

    /* what only looks like it */

    is_refused(2, "x\x9c", "compressed value cut off");
    is_refused(2, "x^2/a.png", "compressed value cut off");

    gives(2, "aa/aa.dat", "aa/aa.dat");
    gives(2, "{\"path\":\"a\"}", "{\"path\":\"a\"}");
    gives(2, "xylophone.png", "xylophone.png");
    gives(2, "hCaptcha.png", "hCaptcha.png");
    is_refused(2, "5", NUMBER);
    is_refused(2, "1.5", NUMBER);
}


static void
flags_3(void **state)
{
    (void) state;

    gives_deflated(3, NSF_TEST_ZLIB, MARSHAL, "aa/aa.dat");
    gives_deflated(3, NSF_TEST_GZIP, MARSHAL, "aa/aa.dat");
    gives_deflated(3, NSF_TEST_ZLIB, "\"aa/aa.dat\"", "aa/aa.dat");
    gives_deflated(3, NSF_TEST_ZLIB, "{}", "{}");

    nsf_assert_error(unwrap_deflated(3, NSF_TEST_ZLIB, bytes("aa/aa.dat")),
                     NO_RUBY);

    /* a boolean of PHP, and another compressor */

    is_refused(3, "1", NO_ZLIB);
    is_refused(3, "", NO_ZLIB);
    is_refused(3, "\x28\xb5\x2f\xfd\x04", NO_ZLIB);
    is_refused(3, MARSHAL, NO_ZLIB);
}


static void
flags_4(void **state)
{
    (void) state;

    gives(4, "aa/aa.dat", "aa/aa.dat");
    gives(4, "{\"path\":\"a\"}", "{\"path\":\"a\"}");
    gives(4, "a:b.dat", "a:b.dat");
    gives(4, "s:1;x", "s:1;x");
    gives(4, "x\x9c", "x\x9c");

    is_refused(4, "35", NUMBER);
    is_refused(4, "a:1:{s:1:\"a\";i:1;}", PHP);
    is_refused(4, "O:8:\"stdClass\":0:{}", PHP);
    is_refused(4, "s:9:\"aa/aa.dat\";", PHP);
    is_refused(4, "N;", PHP);
    is_refused(4, "b:1;", PHP);
    is_refused(4, "i:-5;", PHP);
    is_refused(4, "d:0.5;", PHP);
}


static void
flags_6(void **state)
{
    (void) state;

    gives_deflated(6, NSF_TEST_ZLIB, "aa/aa.dat", "aa/aa.dat");
    gives_deflated(6, NSF_TEST_GZIP, "{}", "{}");
    gives(6, "{\"path\":\"a\"}", "{\"path\":\"a\"}");
    is_refused(6, "[1,2]", NO_OBJECT);
    is_refused(6, "\"a\"", NO_OBJECT);
    is_refused(6, "aa/aa.dat", NO_OBJECT);
    is_refused(6, "", NO_OBJECT);
}


static void
flags_of_python(void **state)
{
    uint32_t  flags;

    (void) state;

    gives(16, "aa/aa.dat", "aa/aa.dat");
    gives(16, "12", "12");
    gives_deflated(24, NSF_TEST_ZLIB, "aa/aa.dat", "aa/aa.dat");
    gives_deflated(24, NSF_TEST_ZLIB, "12", "12");
    gives_deflated(8, NSF_TEST_ZLIB, "aa/aa.dat", "aa/aa.dat");

    /* Python's text is no Marshal, and then no path */

    gives(16, MARSHAL, MARSHAL);
    gives_deflated(24, NSF_TEST_ZLIB, MARSHAL, MARSHAL);

    is_refused(24, "aa/aa.dat", BROKEN);
    is_refused(8, "aa/aa.dat", BROKEN);
    is_refused(8, "", "compressed value cut off");

    for (flags = 9; flags < 32; flags++) {

        if (flags == 16 || flags == 24) {
            continue;
        }

        if (flags & 8) {
            nsf_assert_error(unwrap_deflated(flags, NSF_TEST_ZLIB,
                                             bytes("aa/aa.dat")), NO_STRING);

        } else {
            is_refused(flags, "aa/aa.dat", NO_STRING);
        }
    }
}


static void
flags_of_php(void **state)
{
    size_t         n;
    unsigned char  packed[1024];

    (void) state;

    n = php_zlib(packed, sizeof(packed), 9, bytes("aa/aa.dat"));

    nsf_assert_good(unwrap(48, packed, n));
    nsf_assert_str(s, "aa/aa.dat");

    /* an array, igbinary, a number that php would not compress */

    nsf_assert_error(unwrap(52, packed, n), NO_STRING);
    nsf_assert_error(unwrap(53, packed, n), NO_STRING);
    nsf_assert_error(unwrap(49, packed, n), NO_STRING);
    nsf_assert_error(unwrap(54, packed, n), NO_OBJECT);

    n = php_zlib(packed, sizeof(packed), 12, bytes("{\"path\":\"a\"}"));
    nsf_assert_good(unwrap(54, packed, n));
    nsf_assert_str(s, "{\"path\":\"a\"}");

    gives(80, "\x09\x00\x00\x00\x08" "aa/aa.dat", "aa/aa.dat");
    gives(80, "\x04\x00\x00\x00\x00" "a\x20\x00", "aaaa");
    gives(86, "\x02\x00\x00\x00\x01{}", "{}");
    is_refused(86, "\x02\x00\x00\x00\x01[]", NO_OBJECT);
    is_refused(84, "\x04\x00\x00\x00\x00" "a\x20\x00", NO_STRING);

    is_refused(5, "\x00\x00\x00\x02\x00", NO_STRING);
    is_refused(7, "\x81\xa4path\xa1" "a", NO_STRING);
}


static void
flags_of_php_broken(void **state)
{
    size_t         i, n, says;
    unsigned char  packed[1024];

    (void) state;

    for (says = 8; says <= 10; says++) {
        n = php_zlib(packed, sizeof(packed), says, bytes("aa/aa.dat"));
        nsf_assert_error(unwrap(48, packed, n), says == 9 ? NULL : BROKEN);
    }

    n = php_zlib(packed, sizeof(packed), UINT32_MAX, bytes("aa/aa.dat"));
    nsf_assert_error(unwrap(48, packed, n), BROKEN);

    n = php_zlib(packed, sizeof(packed), 9, bytes("aa/aa.dat"));

    for (i = 0; i < n; i++) {
        nsf_assert_error(unwrap(48, packed, i),
                         i < 4 ? BROKEN : "compressed value cut off");
    }

    is_refused(80, "\x09\x00\x00", BROKEN);
    is_refused(80, "\x09\x00\x00\x00", BROKEN);
    is_refused(80, "\x09\x00\x00\x00\x08" "aa/aa.da", BROKEN);
    is_refused(80, "\xff\xff\xff\xff\x00" "a",
               "value unpacks to more than 64 KiB");
    is_refused(80, "\x09\x00\x00\x00\x28" "aa/aa.dat",
               "FastLZ of a level other than 1");
}


static void
flags_of_php_unsupported(void **state)
{
    (void) state;

    is_refused(144, "\x09\x00\x00\x00\x28\xb5\x2f\xfd",
               "zstd is not supported, set memcached.compression_type=zlib");
    is_refused(32, "a", "flags of no known client");
    is_refused(64, "a", "flags of no known client");
    is_refused(112, "a", "flags of no known client");
    is_refused(240, "a", "flags of no known client");
}


static void
flags_of_users(void **state)
{
    (void) state;

    gives(0xffff0000, "aa/aa.dat", "aa/aa.dat");
    gives(0x00010001, MARSHAL, "aa/aa.dat");
    gives(0x12340050, "\x09\x00\x00\x00\x08" "aa/aa.dat", "aa/aa.dat");
    is_refused(0x00010002, "5", NUMBER);
}


static void
flags_of_others(void **state)
{
    (void) state;

    /* php-memcache's boolean, integer, float; whatever */

    is_refused(0x100, "1", NO_STRING);
    is_refused(0x300, "5", NO_STRING);
    is_refused(0x700, "1.5", NO_STRING);
    is_refused(0x302, "x\x9c", NO_STRING);
    is_refused(0x800, "aa/aa.dat", NO_STRING);
    is_refused(UINT32_MAX, "aa/aa.dat", NO_STRING);
}


static void
numbers(void **state)
{
    size_t  i;

    static const char *const  yes[] = {
        "0", "5", "-5", "12345678901234567890123", "1.5", "-1.5", ".5",
        "-.5", "1.", "1e5", "1E5", "1.5e+25", "1.0E-10", "-0", "007",
        "INF", "-INF", "NAN", "Infinity", "-Infinity", "NaN", "inf", "nan"
    };

    static const char *const  no[] = {
        "", "-", ".", "-.", "e5", "1e", "1e+", "1.5.5", "5a", "a5", "5 ",
        " 5", "+5", "1/2", "12.jpg", "0x10", "INFO", "nano", "--5", "5-",
        "1,5", ".e5", "-e", "Infinit"
    };

    (void) state;

    for (i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
        nsf_assert_error(unwrap(2, yes[i], strlen(yes[i])), NUMBER);
        nsf_assert_error(unwrap(4, yes[i], strlen(yes[i])), NUMBER);
    }

    for (i = 0; i < sizeof(no) / sizeof(no[0]); i++) {
        nsf_assert_good(unwrap(2, no[i], strlen(no[i])));
        nsf_assert_good(unwrap(4, no[i], strlen(no[i])));
    }

    gives(4, "1\0", "1\0");
}


static void
double_wrap(void **state)
{
    (void) state;

    gives(1, "\x04\x08\"\x1b\x00\x04\x08[\x06" UTF8, "aa/aa.dat");
    gives(1, "\x04\x08\"\x1d\x00\x11\x02\0\0\0\0\0\0\xf0\xbf\xff\xff\xff\xff"
          "aa/aa.dat", "aa/aa.dat");
    gives(0, "\x04\x08\"\x1b\x00\x04\x08[\x06" UTF8, "aa/aa.dat");
    gives(1, "\x04\x08I\"\x1b\x00\x04\x08[\x06" UTF8 "\x06:\x06" "EF",
          "aa/aa.dat");
    gives_deflated(3, NSF_TEST_ZLIB, "\x04\x08\"\x1b\x00\x04\x08[\x06" UTF8,
                   "aa/aa.dat");

    nsf_assert_good(unwrap(1, bytes("\x04\x08\"\x23\x00\x04\x08[\x07" UTF8
                                    "f\x0b" "1.8e09")));
    assert_true(until == 1800000000);
}


/* each layer once, and what is in them is not looked at any more */

static void
triple_wrap(void **state)
{
    (void) state;

    gives(1, "\x04\x08\"\x0a\x04\x08\"\x06" "a", "\x04\x08\"\x06" "a");
    gives(1, "\x04\x08\"\x19\x00\x11\x02\0\0\0\0\0\0\xf0\xbf\xff\xff\xff\xff"
          "\x04\x08\"\x06" "a", "\x04\x08\"\x06" "a");
    gives(1, "\x04\x08\"\x24\x00\x11\x03\0\0\0\0\0\0\xf0\xbf\xff\xff\xff\xff"
          "\x00\x11\x03\0\0\0\0\0\0\xf0\xbf\xff\xff\xff\xff" "b",
          "\x00\x11\x03\0\0\0\0\0\0\xf0\xbf\xff\xff\xff\xff" "b");
    gives(1, "\"\\\"a\\\"\"", "\"a\"");
}


static void
format_marshal(void **state)
{
    size_t         n;
    uint32_t       flags;
    unsigned char  packed[256];

    (void) state;

    /* whatever the flags, if they do not say compressed */

    for (flags = 0; flags <= 0x40000; flags = flags * 3 + 1) {

        if ((flags & 0xf0) == 0 && (flags & 8) == 0) {
            nsf_assert_good(unwrap_as(NSF_FORMAT_MARSHAL, flags,
                                      bytes(MARSHAL)));
            nsf_assert_str(s, "aa/aa.dat");
        }
    }

    n = nsf_test_deflate(packed, sizeof(packed), NSF_TEST_ZLIB,
                         bytes(MARSHAL));
    nsf_assert_good(unwrap_as(NSF_FORMAT_MARSHAL, 3, packed, n));
    nsf_assert_str(s, "aa/aa.dat");
    nsf_assert_good(unwrap_as(NSF_FORMAT_MARSHAL, 2, packed, n));
    nsf_assert_error(unwrap_as(NSF_FORMAT_MARSHAL, 0, packed, n),
                     "not Ruby Marshal 4.8");

    nsf_assert_good(unwrap_as(NSF_FORMAT_MARSHAL, 0,
                              bytes("\x00\x04\x08[\x06" UTF8)));
    nsf_assert_good(unwrap_as(NSF_FORMAT_MARSHAL, 1,
                              bytes("\x04\x08\"\x1b\x00\x04\x08[\x06" UTF8)));
    nsf_assert_str(s, "aa/aa.dat");

    nsf_assert_error(unwrap_as(NSF_FORMAT_MARSHAL, 0, bytes("aa/aa.dat")),
                     "not Ruby Marshal 4.8");
    nsf_assert_error(unwrap_as(NSF_FORMAT_MARSHAL, 1, bytes("{}")),
                     "not Ruby Marshal 4.8");
}


static void
format_path_and_json(void **state)
{
    size_t         i, n;
    unsigned char  packed[256];

    static const nsf_format_e  formats[] = {
        NSF_FORMAT_PATH, NSF_FORMAT_JSON
    };

    (void) state;

    for (i = 0; i < 2; i++) {

        /* the flags matter only if they say compressed */

        nsf_assert_good(unwrap_as(formats[i], 1, bytes("35")));
        nsf_assert_str(s, "35");
        nsf_assert_good(unwrap_as(formats[i], 2, bytes("35")));
        nsf_assert_good(unwrap_as(formats[i], 3, bytes("a")));
        nsf_assert_good(unwrap_as(formats[i], 5, bytes("a")));
        nsf_assert_good(unwrap_as(formats[i], 0x300, bytes("35")));
        nsf_assert_good(unwrap_as(formats[i], UINT32_MAX, bytes("35")));
        nsf_assert_good(unwrap_as(formats[i], 1, bytes(MARSHAL)));
        nsf_assert_str(s, MARSHAL);
        assert_int_equal(tp.calls, 0);

        n = nsf_test_deflate(packed, sizeof(packed), NSF_TEST_ZLIB,
                             bytes("aa/aa.dat"));
        nsf_assert_good(unwrap_as(formats[i], 2, packed, n));
        nsf_assert_str(s, "aa/aa.dat");
        nsf_assert_good(unwrap_as(formats[i], 3, packed, n));
        nsf_assert_str(s, "aa/aa.dat");
        nsf_assert_good(unwrap_as(formats[i], 10, packed, n));
        nsf_assert_str(s, "aa/aa.dat");
        nsf_assert_good(unwrap_as(formats[i], 25, packed, n));
        nsf_assert_str(s, "aa/aa.dat");

        nsf_assert_error(unwrap_as(formats[i], 24, bytes("a")),
                         "compressed value cut off");
        nsf_assert_error(unwrap_as(formats[i], 144, bytes("a")),
                         "zstd is not supported, "
                         "set memcached.compression_type=zlib");
    }
}


static void
out_of_memory(void **state)
{
    (void) state;

    tp.fail_at = 1;

    nsf_assert_error(unwrap_deflated(2, NSF_TEST_ZLIB, bytes("a")),
                     NSF_ERR_MEMORY);
    nsf_assert_error(unwrap_deflated(24, NSF_TEST_ZLIB, bytes("a")),
                     NSF_ERR_MEMORY);
    nsf_assert_error(unwrap_deflated(3, NSF_TEST_ZLIB, bytes("\"a\"")),
                     NSF_ERR_MEMORY);
    is_refused(80, "\x01\x00\x00\x00\x00" "a", NSF_ERR_MEMORY);
    is_refused(1, "\"a\"", NSF_ERR_MEMORY);

    tp.fail_at = 2;
    nsf_assert_error(unwrap_deflated(3, NSF_TEST_ZLIB, bytes("\"a\"")),
                     NSF_ERR_MEMORY);

    tp.fail_at = 3;
    nsf_assert_good(unwrap_deflated(3, NSF_TEST_ZLIB, bytes("\"a\"")));
}


#define unwrap_test(f)  cmocka_unit_test_setup_teardown(f, setup, teardown)


int
main(void)
{
    static const struct CMUnitTest  tests[] = {
        unwrap_test(values_of_real_clients),
        unwrap_test(flags_0),
        unwrap_test(flags_1),
        unwrap_test(flags_2),
        unwrap_test(flags_3),
        unwrap_test(flags_4),
        unwrap_test(flags_6),
        unwrap_test(flags_of_python),
        unwrap_test(flags_of_php),
        unwrap_test(flags_of_php_broken),
        unwrap_test(flags_of_php_unsupported),
        unwrap_test(flags_of_users),
        unwrap_test(flags_of_others),
        unwrap_test(numbers),
        unwrap_test(double_wrap),
        unwrap_test(triple_wrap),
        unwrap_test(format_marshal),
        unwrap_test(format_path_and_json),
        unwrap_test(out_of_memory),
    };

    return cmocka_run_group_tests_name("nsf_unwrap", tests, NULL, NULL);
}
