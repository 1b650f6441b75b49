/*
 * Copyright (C) the ngx_sendfile authors
 */


#include "nsf_test_inflate.h"
#include "nsf_rails.h"


#define bytes(s)  (s), sizeof(s) - 1

#define CUT_OFF  "Marshal data cut off"
#define BROKEN   "broken Rails.cache entry"

#define ENTRY    "\x04\x08o: ActiveSupport::Cache::Entry"
#define UTF8     "I\"\x0e" "aa/aa.dat\x06:\x06" "ET"
#define BINARY   "\"\x0e" "aa/aa.dat"
#define VALUE    ":\x0b@value"
#define VERSION  ":\x0d@version"
#define CREATED  ":\x10@created_at"
#define EXPIRES  ":\x10@expires_in"
#define PACKED   ":\x10@compressed"

/* -1.0 */
#define NEVER    "\x00\x00\x00\x00\x00\x00\xf0\xbf"
#define NONE     "\xff\xff\xff\xff"


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
decode(const void *data, size_t len)
{
    size_t       fail_at;
    const char  *err;

    fail_at = tp.fail_at;
    nsf_test_pool_free(&tp);
    nsf_test_pool_init(&tp, fail_at);

    nsf_test_free(&buf);
    buf = nsf_test_copy(data, len);

    until = -1;
    err = nsf_rails_decode(&s, &until, buf.data, buf.len, &tp.pool);

    assert_true(until >= 0);

    return err;
}


#define decodes_to(data, expected, expires)                                   \
    do {                                                                      \
        nsf_assert_good(decode(bytes(data)));                                 \
        nsf_assert_str(s, expected);                                          \
        assert_true(until == expires);                                        \
    } while (0)

#define is_refused(data, reason)                                              \
    nsf_assert_error(decode(bytes(data)), reason)


/* the start of an entry, then zlib data of something */

static size_t
join(unsigned char *data, const char *start, size_t len, const void *value,
    size_t n)
{
    memcpy(data, start, len);

    return len + nsf_test_deflate(data + len, 1024, NSF_TEST_ZLIB, value, n);
}


static void
starts(void **state)
{
    size_t  i;

    static const struct {
        const char  *data;
        size_t       len;
        int          object;
        int          packed;
    } all[] = {
        { bytes(ENTRY), 1, 0 },
        { bytes("\x04\x08o"), 1, 0 },
        { bytes("\x04\x08"), 0, 0 },
        { bytes("\x04\x08I\"\x06" "a"), 0, 0 },
        { bytes("\x00\x04\x08[\x00"), 0, 1 },
        { bytes("\x00\x04\x08"), 0, 1 },
        { bytes("\x00\x04"), 0, 0 },
        { bytes("\x00"), 0, 0 },
        { bytes("\x00\x11"), 0, 1 },
        { bytes("\x00\x12"), 0, 0 },
        { bytes("\x01\x78\x9c"), 0, 1 },
        { bytes("\x01\x78\x9d"), 0, 0 },
        { bytes("\x01\x78"), 0, 0 },
        { bytes("\x01"), 0, 0 },
        { bytes(""), 0, 0 },
        { bytes("aa/aa.dat"), 0, 0 },
    };

    (void) state;

    for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        nsf_test_free(&buf);
        buf = nsf_test_copy(all[i].data, all[i].len);

        assert_int_equal(nsf_rails_is_object(buf.data, buf.len),
                         all[i].object);
        assert_int_equal(nsf_rails_is_packed(buf.data, buf.len),
                         all[i].packed);

        if (!all[i].object && !all[i].packed) {
            nsf_assert_error(decode(all[i].data, all[i].len),
                             "not a Rails.cache entry");
        }
    }
}


static void
object(void **state)
{
    (void) state;

    decodes_to(ENTRY "\x09" VALUE UTF8 VERSION "0"
               CREATED "f\x16" "1795158525.909137" EXPIRES "0",
               "aa/aa.dat", 0);
    decodes_to(ENTRY "\x09" VALUE BINARY VERSION "0"
               CREATED "f\x16" "1795158525.909137" EXPIRES "0",
               "aa/aa.dat", 0);
    assert_int_equal(tp.calls, 0);
}


/* Rails 4.2 had no @version; the order does not matter, nor does a new one */

static void
object_of_other_releases(void **state)
{
    (void) state;

    decodes_to(ENTRY "\x08" VALUE UTF8 CREATED "f\x16" "1795158525.909137"
               EXPIRES "0", "aa/aa.dat", 0);
    decodes_to(ENTRY "\x06" VALUE UTF8, "aa/aa.dat", 0);
    decodes_to(ENTRY "\x09" EXPIRES "f\x07" "60" CREATED "f\x08" "1e9"
               ":\x09@new[\x06i\x06" VALUE UTF8, "aa/aa.dat", 1000000060);
    decodes_to(ENTRY "\x0a" VALUE UTF8 VERSION "0" CREATED "f\x08" "1e9"
               EXPIRES "0" PACKED "F", "aa/aa.dat", 0);
    decodes_to(ENTRY "\x07" VALUE UTF8 PACKED "0", "aa/aa.dat", 0);
}


static void
object_with_versions(void **state)
{
    (void) state;

    decodes_to(ENTRY "\x09" VALUE UTF8 VERSION "I\"\x07v1\x06;\x07T"
               CREATED "f\x06" "0" EXPIRES "0", "aa/aa.dat", 0);
    decodes_to(ENTRY "\x07" VALUE UTF8 VERSION "i\x06", "aa/aa.dat", 0);
    decodes_to(ENTRY "\x07" VALUE UTF8 VERSION "@\x06", "aa/aa.dat", 0);
    decodes_to(ENTRY "\x07" VALUE UTF8 VERSION "[\x07i\x06:\x06k",
               "aa/aa.dat", 0);
    is_refused(ENTRY "\x07" VALUE UTF8 VERSION "o:\x06O\x00",
               "an object in Marshal");
}


static void
object_that_expires(void **state)
{
    (void) state;

    decodes_to(ENTRY "\x09" VALUE UTF8 VERSION "0"
               CREATED "f\x16" "1795158525.909137" EXPIRES "f\x0a" "600.5",
               "aa/aa.dat", 1795159126);

    /* as Rails 7.0 writes the format of 6.1 */

    decodes_to(ENTRY "\x09" VALUE UTF8 VERSION "0" CREATED "f\x06" "0"
               EXPIRES "f\x17" "1795189426.9293122", "aa/aa.dat", 1795189426);

    /* Integers, one of them a bignum */

    decodes_to(ENTRY "\x08" VALUE UTF8 CREATED "l+\x07\x72\x1f\x00\x6b"
               EXPIRES "i\x02\x58\x02", "aa/aa.dat", 0x6b001f72 + 600);
}


static void
object_with_odd_times(void **state)
{
    (void) state;

    decodes_to(ENTRY "\x08" VALUE UTF8 CREATED "f\x06" "0" EXPIRES "f\x08inf",
               "aa/aa.dat", 0);
    decodes_to(ENTRY "\x08" VALUE UTF8 CREATED "f\x08nan" EXPIRES "f\x06" "1",
               "aa/aa.dat", 0);
    decodes_to(ENTRY "\x08" VALUE UTF8 CREATED "f\x06" "0" EXPIRES "f\x09-inf",
               "aa/aa.dat", 1);
    decodes_to(ENTRY "\x08" VALUE UTF8 CREATED "f\x06" "0" EXPIRES
               "f\x0a" "1e300", "aa/aa.dat", 0);
    decodes_to(ENTRY "\x08" VALUE UTF8 CREATED "f\x06" "1" EXPIRES "f\x07-5",
               "aa/aa.dat", 1);
    decodes_to(ENTRY "\x08" VALUE UTF8 CREATED "f\x06" "0" EXPIRES "f\x06" "0",
               "aa/aa.dat", 1);

    is_refused(ENTRY "\x08" VALUE UTF8 CREATED "0" EXPIRES "f\x06" "1",
               BROKEN);
    is_refused(ENTRY "\x07" VALUE UTF8 EXPIRES "f\x06" "1", BROKEN);
    is_refused(ENTRY "\x07" VALUE UTF8 EXPIRES "T", "not a time in Marshal");
    is_refused(ENTRY "\x07" VALUE UTF8 CREATED "f\x06x", "broken number");
}


static void
object_compressed(void **state)
{
    size_t         i, len, n;
    unsigned char  data[2048], value[1024];

    static const char  after[] =
        VERSION "0" CREATED "f\x08" "1e9" EXPIRES "f\x07" "60" PACKED "T";

    (void) state;

    n = nsf_test_deflate(value, sizeof(value), NSF_TEST_ZLIB,
                         bytes("\x04\x08" UTF8));
    assert_true(n <= 122);

    len = sizeof(ENTRY "\x0a" VALUE "\"") - 1;
    memcpy(data, ENTRY "\x0a" VALUE "\"", len);
    data[len++] = (unsigned char) (n + 5);
    memcpy(data + len, value, n);
    len += n;
    memcpy(data + len, after, sizeof(after) - 1);
    len += sizeof(after) - 1;

    nsf_assert_good(decode(data, len));
    nsf_assert_str(s, "aa/aa.dat");
    assert_true(until == 1000000060);
    assert_true(nsf_test_pool_owns(&tp, &s));

    tp.fail_at = 1;
    nsf_assert_error(decode(data, len), NSF_ERR_MEMORY);
    tp.fail_at = 0;

    for (i = 0; i < len; i++) {
        assert_non_null(decode(data, i));
    }

    data[len - 1] = 'i';
    nsf_assert_error(decode(data, len), BROKEN);

    /* the zlib data is the value, then */

    data[len - 1] = 'F';
    nsf_assert_good(decode(data, len));
    assert_int_equal(s.len, n);

    data[len - 1] = 'T';
    data[sizeof(ENTRY "\x0a" VALUE "\"x") - 1] = 'y';
    nsf_assert_error(decode(data, len), "broken compressed value");
}


static void
object_of_another_kind(void **state)
{
    (void) state;

    is_refused("\x04\x08o:\x0bObject\x00",
               "an object in Marshal, not a String");
    is_refused("\x04\x08o:\x1f" "ActiveSupport::Cache::Entr\x06" VALUE UTF8,
               "an object in Marshal, not a String");
    is_refused("\x04\x08o:\x21" "ActiveSupport::Cache::Entry2\x06" VALUE UTF8,
               "an object in Marshal, not a String");
    is_refused("\x04\x08o;\x00\x06" VALUE UTF8, "broken Marshal data");
}


static void
object_of_no_string(void **state)
{
    (void) state;

    is_refused(ENTRY "\x06" VALUE "0", "nil in Marshal, not a String");
    is_refused(ENTRY "\x06" VALUE "i\x0a",
               "an Integer in Marshal, not a String");
    is_refused(ENTRY "\x06" VALUE "{\x06:\x09path" UTF8,
               "a Hash in Marshal, not a String");
    is_refused(ENTRY "\x06" VALUE "C:\x08Sub" BINARY,
               "a subclass in Marshal, not a String");
    is_refused(ENTRY "\x06" VERSION "0", BROKEN);
    is_refused(ENTRY "\x00", BROKEN);
    is_refused(ENTRY "\x08" VALUE UTF8, CUT_OFF);
    is_refused(ENTRY "\x07" VALUE UTF8 "00", "broken Marshal data");
    is_refused(ENTRY "\x06" VALUE UTF8 "0", "bytes behind the Marshal data");
}


static void
object_with_too_many_ivars(void **state)
{
    size_t  i, len, n;
    char    data[512];

    (void) state;

    for (n = 16; n <= 17; n++) {
        len = sizeof(ENTRY) - 1;
        memcpy(data, ENTRY, len);
        data[len++] = (char) (n + 5);

        memcpy(data + len, VALUE BINARY, sizeof(VALUE BINARY) - 1);
        len += sizeof(VALUE BINARY) - 1;

        for (i = 1; i < n; i++) {
            memcpy(data + len, ":\x07@x0", 5);
            len += 5;
        }

        nsf_assert_error(decode(data, len), n == 16 ? NULL : BROKEN);
    }
}


static void
array(void **state)
{
    (void) state;

    decodes_to("\x00\x04\x08[\x06" UTF8, "aa/aa.dat", 0);
    decodes_to("\x00\x04\x08[\x06" BINARY, "aa/aa.dat", 0);
    decodes_to("\x00\x04\x08[\x07" UTF8 "f\x17" "1795189426.9293122",
               "aa/aa.dat", 1795189426);
    decodes_to("\x00\x04\x08[\x08" UTF8 "0I\"\x07v1\x06;\x00T",
               "aa/aa.dat", 0);
    decodes_to("\x00\x04\x08[\x08" UTF8 "f\x08" "1.5" "i\x06", "aa/aa.dat", 1);
    decodes_to("\x00\x04\x08[\x07" UTF8 "f\x08inf", "aa/aa.dat", 0);
    decodes_to("\x00\x04\x08[\x07" UTF8 "f\x07-1", "aa/aa.dat", 1);
    assert_int_equal(tp.calls, 0);
}


static void
array_of_no_string(void **state)
{
    (void) state;

    is_refused("\x00\x04\x08[\x00", "nil in Marshal, not a String");
    is_refused("\x00\x04\x08[\x06" "0", "nil in Marshal, not a String");
    is_refused("\x00\x04\x08[\x06i\x0a",
               "an Integer in Marshal, not a String");
    is_refused("\x00\x04\x08[\x06{\x06:\x09path" UTF8,
               "a Hash in Marshal, not a String");
    is_refused("\x00\x04\x08" UTF8, "not an Array in Marshal");
    is_refused("\x00\x04\x08[\x09" UTF8 "000", BROKEN);
    is_refused("\x00\x04\x08[\x06" UTF8 "0", "bytes behind the Marshal data");
    is_refused("\x00\x04\x08[\x07" UTF8 "T", "not a time in Marshal");
    is_refused("\x00\x04\x08[\x08" UTF8 "0o:\x06O\x00",
               "an object in Marshal");
}


static void
array_compressed(void **state)
{
    size_t         i, len;
    unsigned char  data[2048];

    (void) state;

    len = join(data, "\x01", 1,
               bytes("\x04\x08[\x07" UTF8 "f\x08" "2e9"));

    nsf_assert_good(decode(data, len));
    nsf_assert_str(s, "aa/aa.dat");
    assert_true(until == 2000000000);
    assert_true(nsf_test_pool_owns(&tp, &s));

    tp.fail_at = 1;
    nsf_assert_error(decode(data, len), NSF_ERR_MEMORY);
    tp.fail_at = 0;

    for (i = 3; i < len; i++) {
        nsf_assert_error(decode(data, i), "compressed value cut off");
    }

    len = join(data, "\x01", 1, bytes("aa/aa.dat"));
    nsf_assert_error(decode(data, len), "not Ruby Marshal 4.8");
}


static void
header(void **state)
{
    (void) state;

    decodes_to("\x00\x11\x02" NEVER NONE "aa/aa.dat", "aa/aa.dat", 0);
    decodes_to("\x00\x11\x03" NEVER NONE "aa/aa.dat", "aa/aa.dat", 0);
    decodes_to("\x00\x11\x04" NEVER NONE "aa/aa.dat", "aa/aa.dat", 0);
    decodes_to("\x00\x11\x02" "\x2a\x26\xc7\xaf\x1a\xc0\xda\x41" NONE
               "aa/aa.dat", "aa/aa.dat", 1795189439);
    decodes_to("\x00\x11\x02" NEVER "\x02\x00\x00\x00v1aa/aa.dat",
               "aa/aa.dat", 0);
    decodes_to("\x00\x11\x02" NEVER "\x00\x00\x00\x00" "aa/aa.dat",
               "aa/aa.dat", 0);
    decodes_to("\x00\x11\x02" NEVER "\xfe\xff\xff\xff" "aa/aa.dat",
               "aa/aa.dat", 0);
    decodes_to("\x00\x11\x01" NEVER NONE "\x04\x08" UTF8, "aa/aa.dat", 0);
    decodes_to("\x00\x11\x02" NEVER NONE, "", 0);
    assert_int_equal(tp.calls, 0);
}


static void
header_with_odd_times(void **state)
{
    (void) state;

    /* 0, NaN, infinities, 1e300, a denormal, -0.5 */

    decodes_to("\x00\x11\x02" "\0\0\0\0\0\0\0\0" NONE "a", "a", 1);
    decodes_to("\x00\x11\x02" "\0\0\0\0\0\0\xf8\x7f" NONE "a", "a", 0);
    decodes_to("\x00\x11\x02" "\xff\xff\xff\xff\xff\xff\xff\xff" NONE "a",
               "a", 0);
    decodes_to("\x00\x11\x02" "\0\0\0\0\0\0\xf0\x7f" NONE "a", "a", 0);
    decodes_to("\x00\x11\x02" "\0\0\0\0\0\0\xf0\xff" NONE "a", "a", 0);
    decodes_to("\x00\x11\x02" "\x9c\x75\x00\x88\x3c\xe4\x37\x7e" NONE "a",
               "a", 0);
    decodes_to("\x00\x11\x02" "\x01\0\0\0\0\0\0\0" NONE "a", "a", 1);
    decodes_to("\x00\x11\x02" "\0\0\0\0\0\0\xe0\xbf" NONE "a", "a", 0);
}


static void
header_compressed(void **state)
{
    size_t         i, len;
    unsigned char  data[2048];

    (void) state;

    len = join(data, bytes("\x00\x11\x82" NEVER NONE), bytes("aa/aa.dat"));
    nsf_assert_good(decode(data, len));
    nsf_assert_str(s, "aa/aa.dat");
    assert_true(nsf_test_pool_owns(&tp, &s));

    for (i = sizeof("\x00\x11\x82" NEVER NONE) - 1; i < len; i++) {
        nsf_assert_error(decode(data, i), "compressed value cut off");
    }

    tp.fail_at = 1;
    nsf_assert_error(decode(data, len), NSF_ERR_MEMORY);
    tp.fail_at = 0;

    len = join(data, bytes("\x00\x11\x81" NEVER "\x01\x00\x00\x00v"),
               bytes("\x04\x08" UTF8));
    nsf_assert_good(decode(data, len));
    nsf_assert_str(s, "aa/aa.dat");

    is_refused("\x00\x11\x82" NEVER NONE "aa/aa.dat",
               "broken compressed value");
}


static void
header_of_no_string(void **state)
{
    (void) state;

    is_refused("\x00\x11\x01" NEVER NONE "\x04\x08" "0",
               "nil in Marshal, not a String");
    is_refused("\x00\x11\x01" NEVER NONE "\x04\x08i\x0a",
               "an Integer in Marshal, not a String");
    is_refused("\x00\x11\x01" NEVER NONE "\x04\x08{\x06:\x09path" UTF8,
               "a Hash in Marshal, not a String");

    /* the MessagePack serializer, and what there is not yet */

    is_refused("\x00\x11\x01" NEVER NONE "\xcc\x80\x81\xa4path",
               "not Ruby Marshal 4.8");
    is_refused("\x00\x11\x01" NEVER NONE, "not Ruby Marshal 4.8");
    is_refused("\x00\x11\x00" NEVER NONE "a",
               "Rails.cache entry of an unknown type");
    is_refused("\x00\x11\x05" NEVER NONE "a",
               "Rails.cache entry of an unknown type");
    is_refused("\x00\x11\x42" NEVER NONE "a",
               "Rails.cache entry of an unknown type");
}


static void
header_cut_off(void **state)
{
    size_t  len;

    static const char  data[] = "\x00\x11\x02" NEVER "\x02\x00\x00\x00v1";

    (void) state;

    for (len = 2; len < sizeof(data) - 1; len++) {
        nsf_assert_error(decode(data, len), "Rails.cache entry cut off");
    }

    nsf_assert_good(decode(data, len));
    assert_int_equal(s.len, 0);

    is_refused("\x00\x11\x02" NEVER "\xff\xff\xff\x7f" "aa/aa.dat",
               "Rails.cache entry cut off");
}


/* no entry in an entry: what is in it is the string, whatever it looks like */

static void
nothing_is_unpacked_twice(void **state)
{
    (void) state;

    decodes_to("\x00\x11\x03" NEVER NONE "\x00\x11\x03" NEVER NONE "a",
               "\x00\x11\x03" NEVER NONE "a", 0);
    decodes_to("\x00\x11\x03" NEVER NONE "\x04\x08\"\x06" "a",
               "\x04\x08\"\x06" "a", 0);
    decodes_to("\x00\x04\x08[\x06\"\x09\x04\x08\"\x00", "\x04\x08\"\x00", 0);
    decodes_to(ENTRY "\x06" VALUE "\"\x09\x04\x08\"\x00", "\x04\x08\"\x00",
               0);
}


/* whatever one byte is changed to, and wherever it is cut off */

static void
any_byte_changed(void **state)
{
    size_t         i, k;
    unsigned       c;
    unsigned char  data[256];

    static const struct {
        const char  *data;
        size_t       len;
    } entries[] = {
        { bytes(ENTRY "\x0a" VALUE UTF8 VERSION "I\"\x07v1\x06;\x07T" CREATED
                "f\x16" "1795158525.909137" EXPIRES "f\x0a" "600.5"
                PACKED "F") },
        { bytes("\x00\x04\x08[\x08" UTF8 "f\x08" "1.5I\"\x07v1\x06;\x00T") },
        { bytes("\x00\x11\x01\x2a\x26\xc7\xaf\x1a\xc0\xda\x41\x02\x00\x00\x00"
                "v1\x04\x08" UTF8) },
    };

    (void) state;

    for (i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        nsf_assert_good(decode(entries[i].data, entries[i].len));
        memcpy(data, entries[i].data, entries[i].len);

        for (k = 0; k < entries[i].len; k++) {
            assert_non_null(decode(data, k));

            for (c = 0; c < 256; c++) {
                data[k] = (unsigned char) c;

                if (decode(data, entries[i].len) == NULL) {
                    assert_true(s.data >= buf.data
                                && s.data + s.len <= buf.data + buf.len);
                }
            }

            data[k] = (unsigned char) entries[i].data[k];
        }
    }
}


#define rails_test(f)  cmocka_unit_test_setup_teardown(f, setup, teardown)


int
main(void)
{
    static const struct CMUnitTest  tests[] = {
        rails_test(starts),
        rails_test(object),
        rails_test(object_of_other_releases),
        rails_test(object_with_versions),
        rails_test(object_that_expires),
        rails_test(object_with_odd_times),
        rails_test(object_compressed),
        rails_test(object_of_another_kind),
        rails_test(object_of_no_string),
        rails_test(object_with_too_many_ivars),
        rails_test(array),
        rails_test(array_of_no_string),
        rails_test(array_compressed),
        rails_test(header),
        rails_test(header_with_odd_times),
        rails_test(header_compressed),
        rails_test(header_of_no_string),
        rails_test(header_cut_off),
        rails_test(nothing_is_unpacked_twice),
        rails_test(any_byte_changed),
    };

    return cmocka_run_group_tests_name("nsf_rails", tests, NULL, NULL);
}
