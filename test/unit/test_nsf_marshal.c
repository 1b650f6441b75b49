/*
 * Copyright (C) the ngx_sendfile authors
 */


#include "nsf_test.h"
#include "nsf_marshal.h"


#define CUT_OFF  "Marshal data cut off"
#define BROKEN   "broken Marshal data"

#define bytes(s)  (s), sizeof(s) - 1


static nsf_str_t  s;


/* the String, if there is one, is compared before the memory goes */

static const char *
decode(const char *data, size_t len, const char *expected, size_t n)
{
    const char      *err;
    nsf_test_buf_t   buf;

    buf = nsf_test_copy(data, len);
    err = nsf_marshal_decode(&s, buf.data, buf.len);

    if (err == NULL) {
        assert_true(s.data >= buf.data
                    && s.data + s.len <= buf.data + buf.len);
        assert_int_equal(s.len, n);
        assert_memory_equal(s.data, expected, n);
    }

    nsf_test_free(&buf);

    return err;
}


#define decodes_to(data, expected)                                            \
    nsf_assert_good(decode(bytes(data), bytes(expected)))

#define is_refused(data, reason)                                              \
    nsf_assert_error(decode(bytes(data), NULL, 0), reason)


static void
string_encodings(void **state)
{
    (void) state;

    /* UTF-8, US-ASCII, BINARY, EUC-JP, Shift_JIS */

    decodes_to("\x04\x08I\"\x0e" "aa/aa.dat\x06:\x06" "ET", "aa/aa.dat");
    decodes_to("\x04\x08I\"\x0e" "aa/aa.dat\x06:\x06" "EF", "aa/aa.dat");
    decodes_to("\x04\x08\"\x0e" "aa/aa.dat", "aa/aa.dat");
    decodes_to("\x04\x08I\"\x0e" "aa/aa.dat\x06:\x0d" "encoding\"\x0b"
               "EUC-JP", "aa/aa.dat");
    decodes_to("\x04\x08I\"\x08\x82\xa0x\x06:\x0d" "encoding\"\x0eShift_JIS",
               "\x82\xa0x");
}


static void
string_with_other_ivars(void **state)
{
    (void) state;

    decodes_to("\x04\x08I\"\x06" "a\x00", "a");
    decodes_to("\x04\x08I\"\x06" "a\x07:\x06" "ET:\x07@xi\x06", "a");
    decodes_to("\x04\x08I\"\x06" "a\x07:\x06" "ET:\x07@yI\"\x06" "b\x06;\x00T",
               "a");
    decodes_to("\x04\x08I\"\x06" "a\x07:\x06" "ET:\x07@z[\x07\"\x06" "b{\x06"
               "0T", "a");
}


static void
string_empty(void **state)
{
    (void) state;

    decodes_to("\x04\x08\"\x00", "");
    decodes_to("\x04\x08I\"\x00\x06:\x06" "ET", "");
}


static void
string_binary(void **state)
{
    (void) state;

    decodes_to("\x04\x08\"\x0a\x00\x04\x08\xff\"", "\x00\x04\x08\xff\"");
}


/* each length that Ruby writes in another form, in all forms that it reads */

static void
string_lengths(void **state)
{
    size_t          i, k, n, form;
    unsigned char  *data;

    static const size_t  lengths[] = {
        0, 1, 2, 121, 122, 123, 124, 255, 256, 257, 4096, 65000
    };

    (void) state;

    data = malloc(65536);
    assert_non_null(data);

    for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        n = lengths[i];

        /* form 0 is a byte, form k is k bytes */

        for (form = 0; form <= 4; form++) {

            if (form == 0 ? n > 122 : (form < 3 && n >> (8 * form) != 0)) {
                continue;
            }

            memcpy(data, "\x04\x08\"", 3);
            k = 3;

            if (form == 0) {
                data[k++] = (unsigned char) (n ? n + 5 : 0);

            } else {
                data[k++] = (unsigned char) form;
                data[k++] = (unsigned char) n;

                if (form > 1) {
                    data[k++] = (unsigned char) (n >> 8);
                }

                if (form > 2) {
                    data[k++] = 0;
                }

                if (form > 3) {
                    data[k++] = 0;
                }
            }

            memset(data + k, 'x', n);

            nsf_assert_good(decode((char *) data, k + n, (char *) data + k,
                                   n));
            nsf_assert_error(decode((char *) data, k + n + 1, NULL, 0),
                             "bytes behind the Marshal data");

            if (n != 0) {
                nsf_assert_error(decode((char *) data, k + n - 1, NULL, 0),
                                 CUT_OFF);
            }
        }
    }

    free(data);
}


static void
lengths_that_are_none(void **state)
{
    (void) state;

    /* negative: -1 in three forms, -123, -256, -2^32; 0 by fb is good */

    is_refused("\x04\x08\"\xfa" "aaa", BROKEN);
    is_refused("\x04\x08\"\xff\xff" "aaa", BROKEN);
    is_refused("\x04\x08\"\xfe\xff\xff" "aaa", BROKEN);
    is_refused("\x04\x08\"\x80" "aaa", BROKEN);
    is_refused("\x04\x08\"\xff\x00" "aaa", BROKEN);
    is_refused("\x04\x08\"\xfc\x00\x00\x00\x00" "aaa", BROKEN);
    decodes_to("\x04\x08\"\xfb", "");

    /* longer than the data */

    is_refused("\x04\x08\"\x7f" "aaa", CUT_OFF);
    is_refused("\x04\x08\"\x04\xff\xff\xff\xff" "aaa", CUT_OFF);
    is_refused("\x04\x08\"\x04\xff\xff\xff\x7f" "aaa", CUT_OFF);
    is_refused("\x04\x08\"\x03\xff\xff" , CUT_OFF);
}


static void
other_types(void **state)
{
    (void) state;

    is_refused("\x04\x08" "0", "nil in Marshal, not a String");
    is_refused("\x04\x08T", "true or false in Marshal, not a String");
    is_refused("\x04\x08" "F", "true or false in Marshal, not a String");
    is_refused("\x04\x08i\x11", "an Integer in Marshal, not a String");
    is_refused("\x04\x08l+\x07\x00\x00\x00\x40",
               "an Integer in Marshal, not a String");
    is_refused("\x04\x08" "f\x08" "1.5", "a Float in Marshal, not a String");
    is_refused("\x04\x08:\x06" "a", "a Symbol in Marshal, not a String");
    is_refused("\x04\x08[\x06\"\x06" "a", "an Array in Marshal, not a String");
    is_refused("\x04\x08{\x00", "a Hash in Marshal, not a String");
    is_refused("\x04\x08}\x00\x30", "a Hash in Marshal, not a String");
    is_refused("\x04\x08o:\x0bObject\x00",
               "an object in Marshal, not a String");
    is_refused("\x04\x08S:\x06S\x00", "an object in Marshal, not a String");
    is_refused("\x04\x08@\x00", "an object in Marshal, not a String");
    is_refused("\x04\x08I/\x06" "a\x00\x06:\x06" "EF",
               "an object in Marshal, not a String");
    is_refused("\x04\x08" "C:\x08Sub\"\x06" "a",
               "a subclass in Marshal, not a String");
    is_refused("\x04\x08IC:\x08Sub\"\x06" "a\x06:\x06" "ET",
               "a subclass in Marshal, not a String");
    is_refused("\x04\x08\x00", "an object in Marshal, not a String");
}


static void
versions(void **state)
{
    (void) state;

    is_refused("\x04\x07\"\x06" "a", "not Ruby Marshal 4.8");
    is_refused("\x04\x09\"\x06" "a", "not Ruby Marshal 4.8");
    is_refused("\x03\x08\"\x06" "a", "not Ruby Marshal 4.8");
    is_refused("", "not Ruby Marshal 4.8");
    is_refused("\x04", "not Ruby Marshal 4.8");
    is_refused("\x04\x08", CUT_OFF);
}


static void
bytes_behind(void **state)
{
    (void) state;

    is_refused("\x04\x08\"\x06" "ab", "bytes behind the Marshal data");
    is_refused("\x04\x08I\"\x06" "a\x06:\x06" "ETT",
               "bytes behind the Marshal data");
}


static void
symbols(void **state)
{
    (void) state;

    is_refused("\x04\x08I\"\x06" "a\x06;\x00T", BROKEN);
    is_refused("\x04\x08I\"\x06" "a\x07:\x06" "ET;\x06T", BROKEN);
    is_refused("\x04\x08I\"\x06" "a\x07:\x06" "ET;\xfaT", BROKEN);
    is_refused("\x04\x08I\"\x06" "a\x06\"\x06" "ET", BROKEN);
    decodes_to("\x04\x08I\"\x06" "a\x07:\x06" "ET;\x00T", "a");
}


static void
symbols_too_many(void **state)
{
    char    data[256];
    size_t  i, len, n;

    (void) state;

    for (n = NSF_MARSHAL_MAX_SYMBOLS; n <= NSF_MARSHAL_MAX_SYMBOLS + 1; n++) {
        memcpy(data, "\x04\x08I\"\x06" "a", 6);
        data[6] = (char) (n + 5);
        len = 7;

        for (i = 0; i < n; i++) {
            memcpy(data + len, ":\x06" "eT", 4);
            len += 4;
        }

        if (n == NSF_MARSHAL_MAX_SYMBOLS) {
            nsf_assert_good(decode(data, len, "a", 1));

        } else {
            nsf_assert_error(decode(data, len, NULL, 0),
                             "too many Symbols in Marshal");
        }
    }
}


/* one value, passed over as an ivar of a String */

static const char *
pass(const char *value, size_t len)
{
    char  data[512];

    memcpy(data, "\x04\x08I\"\x06" "a\x06:\x06" "E", 10);
    memcpy(data + 10, value, len);

    return decode(data, 10 + len, "a", 1);
}


#define skips(value)          nsf_assert_good(pass(bytes(value)))
#define skips_not(value, e)   nsf_assert_error(pass(bytes(value)), e)


static void
skip_types(void **state)
{
    (void) state;

    skips("0");
    skips("T");
    skips("F");
    skips("i\x00");
    skips("i\x04\xff\xff\xff\xff");
    skips("f\x08" "1.5");
    skips("f\x08nan");
    skips("l+\x07\x00\x00\x00\x40");
    skips("l-\x0a\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a");
    skips(":\x06" "b");
    skips(";\x00");
    skips("I:\x07\xc3\xa9\x06;\x00T");
    skips("\"\x06" "b");
    skips("I\"\x06" "b\x06;\x00T");
    skips("/\x06" "b\x00");
    skips("I/\x06" "b\x00\x06;\x00" "F");
    skips("[\x00");
    skips("[\x08i\x06" "0\"\x06" "b");
    skips("{\x06:\x06kT");
    skips("{\x00");
    skips("}\x06:\x06kT0");
    skips("@\x00");
    skips("@\x06");
}


static void
skip_what_it_cannot(void **state)
{
    (void) state;

    skips_not("o:\x06O\x00", "an object in Marshal");
    skips_not("C:\x06S\"\x06" "b", "an object in Marshal");
    skips_not("e:\x06M\"\x06" "b", "an object in Marshal");
    skips_not("S:\x06S\x00", "an object in Marshal");
    skips_not("u:\x06U\x06" "b", "an object in Marshal");
    skips_not("U:\x06U0", "an object in Marshal");
    skips_not("d:\x06" "D0", "an object in Marshal");
    skips_not("c\x06K", "an object in Marshal");
    skips_not("m\x06M", "an object in Marshal");
    skips_not("\x00", "an object in Marshal");
    skips_not("l?\x06\x00\x00", BROKEN);
    skips_not("[\xfa", BROKEN);
}


static void
skip_cut_off(void **state)
{
    (void) state;

    skips_not("", CUT_OFF);
    skips_not("[\x06", CUT_OFF);
    skips_not("[\x07" "0", CUT_OFF);
    skips_not("{\x06" "0", CUT_OFF);
    skips_not("}\x06" "00", CUT_OFF);
    skips_not("/\x06" "b", CUT_OFF);
    skips_not("I\"\x06" "b", CUT_OFF);
}


static void
skip_depth(void **state)
{
    char    value[64];
    size_t  i, depth;

    (void) state;

    /* the value of the ivar is at depth 1 */

    for (depth = 0; depth < 16; depth++) {
        memset(value, 0, sizeof(value));

        for (i = 0; i < depth; i++) {
            memcpy(value + 2 * i, "[\x06", 2);
        }

        value[2 * depth] = '0';

        if (depth + 1 < NSF_MARSHAL_MAX_DEPTH) {
            nsf_assert_good(pass(value, 2 * depth + 1));

        } else {
            nsf_assert_error(pass(value, 2 * depth + 1),
                             "Marshal data nested too deep");
        }
    }
}


/* a few bytes cannot make it work for long */

static void
skip_claims_of_many_elements(void **state)
{
    (void) state;

    skips_not("[\x04\xff\xff\xff\x7f" "0000", CUT_OFF);
    skips_not("{\x04\xff\xff\xff\xff" "0000", CUT_OFF);
    skips_not("l+\x04\xff\xff\xff\x7f" "00", CUT_OFF);
    skips_not("l+\x07" "000", CUT_OFF);
}


static const char *
open_at(nsf_marshal_t *m, nsf_test_buf_t *buf, const char *data, size_t len)
{
    *buf = nsf_test_copy(data, len);

    return nsf_marshal_open(m, buf->data, buf->len);
}


static void
times(void **state)
{
    size_t           i;
    nsf_time_t       t;
    nsf_marshal_t    m;
    nsf_test_buf_t   buf;

    static const struct {
        const char   *data;
        size_t        len;
        nsf_time_e    kind;
        int64_t       sec;
        uint32_t      nsec;
    } good[] = {
        { bytes("\x04\x08" "0"), NSF_TIME_NONE, 0, 0 },
        { bytes("\x04\x08i\x00"), NSF_TIME_FINITE, 0, 0 },
        { bytes("\x04\x08i\x7f"), NSF_TIME_FINITE, 122, 0 },
        { bytes("\x04\x08i\x01\x7b"), NSF_TIME_FINITE, 123, 0 },
        { bytes("\x04\x08i\xfa"), NSF_TIME_FINITE, -1, 0 },
        { bytes("\x04\x08i\x80"), NSF_TIME_FINITE, -123, 0 },
        { bytes("\x04\x08i\xff\x84"), NSF_TIME_FINITE, -124, 0 },
        { bytes("\x04\x08i\xfe\xff\xfe"), NSF_TIME_FINITE, -257, 0 },
        { bytes("\x04\x08i\x04\xff\xff\xff\x3f"), NSF_TIME_FINITE,
          0x3fffffff, 0 },
        { bytes("\x04\x08i\xfc\x00\x00\x00\xc0"), NSF_TIME_FINITE,
          -0x40000000, 0 },
        { bytes("\x04\x08l+\x07\x72\x1f\x00\x6b"), NSF_TIME_FINITE,
          0x6b001f72, 0 },
        { bytes("\x04\x08l-\x07\x72\x1f\x00\x6b"), NSF_TIME_FINITE,
          -0x6b001f72, 0 },
        { bytes("\x04\x08l+\x00"), NSF_TIME_FINITE, 0, 0 },
        { bytes("\x04\x08l+\x09\xff\xff\xff\xff\xff\xff\xff\xff"),
          NSF_TIME_NEVER, 0, 0 },
        { bytes("\x04\x08l-\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
          NSF_TIME_LONG_AGO, 0, 0 },
        { bytes("\x04\x08" "f\x17" "1795189426.9293122"),
          NSF_TIME_FINITE, 1795189426, 929312200 },
        { bytes("\x04\x08" "f\x08inf"), NSF_TIME_NEVER, 0, 0 },
    };

    (void) state;

    for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        memset(&t, 0xff, sizeof(nsf_time_t));

        nsf_assert_good(open_at(&m, &buf, good[i].data, good[i].len));
        nsf_assert_good(nsf_marshal_time(&m, &t));
        nsf_assert_good(nsf_marshal_close(&m));

        assert_int_equal(t.kind, good[i].kind);
        assert_true(t.sec == good[i].sec);
        assert_int_equal(t.nsec, good[i].nsec);

        nsf_test_free(&buf);
    }
}


static void
times_that_are_none(void **state)
{
    size_t           i;
    nsf_time_t       t;
    nsf_marshal_t    m;
    nsf_test_buf_t   buf;

    static const struct {
        const char  *data;
        size_t       len;
        const char  *err;
    } bad[] = {
        { bytes("\x04\x08"), CUT_OFF },
        { bytes("\x04\x08T"), "not a time in Marshal" },
        { bytes("\x04\x08\"\x06" "1"), "not a time in Marshal" },
        { bytes("\x04\x08o:\x09Time\x00"), "not a time in Marshal" },
        { bytes("\x04\x08@\x06"), "not a time in Marshal" },
        { bytes("\x04\x08" "f\x06x"), "broken number" },
        { bytes("\x04\x08" "f\x00"), "broken number" },
        { bytes("\x04\x08" "f\x07" "1"), CUT_OFF },
        { bytes("\x04\x08i"), CUT_OFF },
        { bytes("\x04\x08i\x02\x01"), CUT_OFF },
        { bytes("\x04\x08i\xfc\x01\x01\x01"), CUT_OFF },
        { bytes("\x04\x08l"), CUT_OFF },
        { bytes("\x04\x08l+"), CUT_OFF },
        { bytes("\x04\x08l*\x06\x01\x01"), BROKEN },
        { bytes("\x04\x08l+\x06\x01"), CUT_OFF },
    };

    (void) state;

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        nsf_assert_good(open_at(&m, &buf, bad[i].data, bad[i].len));
        nsf_assert_error(nsf_marshal_time(&m, &t), bad[i].err);
        nsf_test_free(&buf);
    }
}


static void
pieces(void **state)
{
    size_t           n;
    nsf_str_t        name;
    nsf_marshal_t    m;
    nsf_test_buf_t   buf;

    (void) state;

    nsf_assert_good(open_at(&m, &buf, bytes("\x04\x08[\x07o:\x06" "C\x06"
                                            ":\x07@xT;\x06")));

    assert_int_equal(nsf_marshal_type(&m), '[');
    nsf_assert_error(nsf_marshal_close(&m), "bytes behind the Marshal data");
    nsf_assert_good(nsf_marshal_array(&m, &n));
    assert_int_equal(n, 2);

    assert_int_equal(nsf_marshal_type(&m), 'o');
    nsf_assert_good(nsf_marshal_object(&m, &name, &n));
    nsf_assert_str(name, "C");
    assert_int_equal(n, 1);

    nsf_assert_good(nsf_marshal_symbol(&m, &name));
    nsf_assert_str(name, "@x");
    nsf_assert_good(nsf_marshal_skip(&m));

    assert_int_equal(nsf_marshal_type(&m), ';');
    nsf_assert_good(nsf_marshal_symbol(&m, &name));
    nsf_assert_str(name, "@x");

    nsf_assert_good(nsf_marshal_close(&m));
    assert_int_equal(nsf_marshal_type(&m), 0);
    nsf_assert_error(nsf_marshal_array(&m, &n), CUT_OFF);
    nsf_assert_error(nsf_marshal_object(&m, &name, &n), CUT_OFF);
    nsf_assert_error(nsf_marshal_symbol(&m, &name), CUT_OFF);
    nsf_assert_error(nsf_marshal_string(&m, &name), CUT_OFF);
    nsf_assert_error(nsf_marshal_skip(&m), CUT_OFF);

    nsf_test_free(&buf);

    nsf_assert_good(open_at(&m, &buf, bytes("\x04\x08{\x00{\x00")));
    nsf_assert_error(nsf_marshal_array(&m, &n), "not an Array in Marshal");
    nsf_test_free(&buf);

    nsf_assert_good(open_at(&m, &buf, bytes("\x04\x08{\x00{\x00")));
    nsf_assert_error(nsf_marshal_object(&m, &name, &n),
                     "not an object in Marshal");
    nsf_test_free(&buf);
}


/* cut off anywhere it is refused; what remains is never read */

static void
cut_off_anywhere(void **state)
{
    size_t       i, len;
    const char  *err;

    static const struct {
        const char  *data;
        size_t       len;
    } whole[] = {
        { bytes("\x04\x08I\"\x0e" "aa/aa.dat\x06:\x06" "ET") },
        { bytes("\x04\x08\"\x0e" "aa/aa.dat") },
        { bytes("\x04\x08\"\x02\x03\x00" "abc") },
        { bytes("\x04\x08I\"\x06" "a\x07:\x0d" "encoding\"\x0b" "EUC-JP"
                ":\x07@x[\x08i\x02\x00\x01{\x06:\x06" "aI\"\x06" "b\x06;\x00T"
                "l+\x07\x01\x02\x03\x04") },
    };

    (void) state;

    for (i = 0; i < sizeof(whole) / sizeof(whole[0]); i++) {

        for (len = 0; len < whole[i].len; len++) {
            err = decode(whole[i].data, len, NULL, 0);

            nsf_assert_error(err, len < 2 ? "not Ruby Marshal 4.8" : CUT_OFF);
        }
    }
}


/* whatever one byte is changed to */

static void
any_byte_changed(void **state)
{
    char             data[64];
    size_t           i, len;
    unsigned         c;
    const char      *err;
    nsf_test_buf_t   buf;

    static const char  whole[] =
        "\x04\x08I\"\x0e" "aa/aa.dat\x07:\x06" "ET:\x07@x[\x07i\x06" "0";

    (void) state;

    len = sizeof(whole) - 1;

    for (i = 0; i < len; i++) {

        for (c = 0; c < 256; c++) {
            memcpy(data, whole, len);
            data[i] = (char) c;

            buf = nsf_test_copy(data, len);
            err = nsf_marshal_decode(&s, buf.data, buf.len);

            if (err == NULL) {
                assert_ptr_equal(s.data, buf.data + 5);
                assert_int_equal(s.len, 9);
            }

            nsf_test_free(&buf);
        }
    }
}


int
main(void)
{
    static const struct CMUnitTest  tests[] = {
        cmocka_unit_test(string_encodings),
        cmocka_unit_test(string_with_other_ivars),
        cmocka_unit_test(string_empty),
        cmocka_unit_test(string_binary),
        cmocka_unit_test(string_lengths),
        cmocka_unit_test(lengths_that_are_none),
        cmocka_unit_test(other_types),
        cmocka_unit_test(versions),
        cmocka_unit_test(bytes_behind),
        cmocka_unit_test(symbols),
        cmocka_unit_test(symbols_too_many),
        cmocka_unit_test(skip_types),
        cmocka_unit_test(skip_what_it_cannot),
        cmocka_unit_test(skip_cut_off),
        cmocka_unit_test(skip_depth),
        cmocka_unit_test(skip_claims_of_many_elements),
        cmocka_unit_test(times),
        cmocka_unit_test(times_that_are_none),
        cmocka_unit_test(pieces),
        cmocka_unit_test(cut_off_anywhere),
        cmocka_unit_test(any_byte_changed),
    };

    return cmocka_run_group_tests_name("nsf_marshal", tests, NULL, NULL);
}
