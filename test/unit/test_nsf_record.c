/*
 * Copyright (C) the ngx_sendfile authors
 */


#include "nsf_test.h"
#include "nsf_record.h"


#define bytes(s)  (s), sizeof(s) - 1


static nsf_test_pool_t  tp;
static nsf_test_buf_t   buf;
static nsf_target_t     t;


static int
setup(void **state)
{
    (void) state;

    memset(&buf, 0, sizeof(nsf_test_buf_t));
    memset(&t, 0xff, sizeof(nsf_target_t));
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


/* the value lives until the next call, as slices of it may be in "t" */

static const char *
decode_flags(nsf_format_e format, uint32_t flags, const void *value,
    size_t len)
{
    size_t         fail_at;
    const char    *err;
    nsf_target_t   zero;

    fail_at = tp.fail_at;
    nsf_test_pool_free(&tp);
    nsf_test_pool_init(&tp, fail_at);

    nsf_test_free(&buf);
    buf = nsf_test_copy(value, len);

    err = nsf_record_decode(&t, format, flags, buf.data, buf.len, &tp.pool);

    if (err != NULL) {
        memset(&zero, 0, sizeof(nsf_target_t));
        assert_memory_equal(&t, &zero, sizeof(nsf_target_t));
    }

    return err;
}


static const char *
decode(nsf_format_e format, const char *value)
{
    return decode_flags(format, 0, value, strlen(value));
}


static void
record_empty(void **state)
{
    (void) state;

    nsf_assert_error(decode(NSF_FORMAT_AUTO, ""), "empty value");
    nsf_assert_error(decode(NSF_FORMAT_PATH, ""), "empty value");
    nsf_assert_error(decode(NSF_FORMAT_JSON, ""), "empty value");
    nsf_assert_error(decode(NSF_FORMAT_MARSHAL, ""), "empty value");
}


static void
record_empty_reads_nothing(void **state)
{
    (void) state;

    nsf_assert_error(nsf_record_decode(&t, NSF_FORMAT_AUTO, 0, NULL, 0,
                                       &tp.pool),
                     "empty value");
}


static void
record_is_64_kib_at_most(void **state)
{
    (void) state;

    assert_int_equal(NSF_MAX_VALUE, 64 * 1024);
}


static void
record_one_too_long(void **state)
{
    char    *value;
    size_t   i;

    static const nsf_format_e  formats[] = {
        NSF_FORMAT_AUTO, NSF_FORMAT_PATH, NSF_FORMAT_JSON, NSF_FORMAT_MARSHAL
    };

    (void) state;

    value = malloc(NSF_MAX_VALUE + 1);
    assert_non_null(value);
    memset(value, 'p', NSF_MAX_VALUE + 1);

    for (i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        nsf_assert_error(decode_flags(formats[i], 0, value,
                                      NSF_MAX_VALUE + 1),
                         "value too long");
    }

    free(value);
}


static void
record_of_1_mib(void **state)
{
    char  *value;

    (void) state;

    value = calloc(1, 1024 * 1024);
    assert_non_null(value);

    nsf_assert_error(decode_flags(NSF_FORMAT_AUTO, 0, value, 1024 * 1024),
                     "value too long");
    free(value);
}


static void
record_too_long_is_not_read(void **state)
{
    (void) state;

    nsf_assert_error(nsf_record_decode(&t, NSF_FORMAT_AUTO, 0,
                                       (const unsigned char *) "{", SIZE_MAX,
                                       &tp.pool),
                     "value too long");
}


static void
record_longest_path(void **state)
{
    char  *value;

    (void) state;

    value = malloc(NSF_MAX_VALUE);
    assert_non_null(value);
    memset(value, 'p', NSF_MAX_VALUE);

    nsf_assert_good(decode_flags(NSF_FORMAT_AUTO, 0, value, NSF_MAX_PATH));
    nsf_assert_error(decode_flags(NSF_FORMAT_AUTO, 0, value,
                                  NSF_MAX_PATH + 1),
                     "path too long");
    nsf_assert_error(decode_flags(NSF_FORMAT_AUTO, 0, value, NSF_MAX_VALUE),
                     "path too long");
    free(value);
}


static void
record_longest_json(void **state)
{
    char    *value;
    size_t   n;

    static const char  start[] = "{\"path\":\"a\",\"x\":\"";

    (void) state;

    value = malloc(NSF_MAX_VALUE);
    assert_non_null(value);

    n = sizeof(start) - 1;
    memcpy(value, start, n);
    memset(value + n, 'x', NSF_MAX_VALUE - n - 2);
    memcpy(value + NSF_MAX_VALUE - 2, "\"}", 2);

    nsf_assert_good(decode_flags(NSF_FORMAT_AUTO, 0, value, NSF_MAX_VALUE));
    nsf_assert_str(t.path, "a");

    free(value);
}


static void
auto_path(void **state)
{
    (void) state;

    nsf_assert_good(decode(NSF_FORMAT_AUTO, "aa/aa.dat"));
    nsf_assert_str(t.path, "aa/aa.dat");
    assert_int_equal(t.disposition, NSF_DISPOSITION_NONE);
    assert_int_equal(t.nheaders, 0);
    assert_int_equal(t.expires, 0);
}


static void
auto_path_is_not_copied(void **state)
{
    (void) state;

    nsf_assert_good(decode(NSF_FORMAT_AUTO, "aa/aa.dat"));
    assert_ptr_equal(t.path.data, buf.data);
    assert_int_equal(tp.calls, 0);
}


static void
auto_json(void **state)
{
    (void) state;

    nsf_assert_good(decode(NSF_FORMAT_AUTO,
                           "{\"path\":\"aa/aa.dat\",\"name\":\"n\"}"));
    nsf_assert_str(t.path, "aa/aa.dat");
    nsf_assert_str(t.name, "n");
    assert_int_equal(t.disposition, NSF_DISPOSITION_NAMED);
    assert_true(nsf_test_pool_owns(&tp, &t.path));
}


static void
auto_brace_is_json_or_nothing(void **state)
{
    (void) state;

    nsf_assert_error(decode(NSF_FORMAT_AUTO, "{"), "broken JSON");
    nsf_assert_error(decode(NSF_FORMAT_AUTO, "{a}/b.jpg"), "broken JSON");
    nsf_assert_error(decode(NSF_FORMAT_AUTO, "{}"), "no \"path\" in JSON");
}


static void
auto_space_before_the_brace_is_a_path(void **state)
{
    (void) state;

    nsf_assert_good(decode(NSF_FORMAT_AUTO, " {\"path\":\"a\"}"));
    nsf_assert_str(t.path, " {\"path\":\"a\"}");
}


static void
auto_brace_later_is_a_path(void **state)
{
    (void) state;

    nsf_assert_good(decode(NSF_FORMAT_AUTO, "a{b}"));
    nsf_assert_str(t.path, "a{b}");
}


static void
auto_array_is_a_path(void **state)
{
    (void) state;

    nsf_assert_good(decode(NSF_FORMAT_AUTO, "[1]"));
    nsf_assert_str(t.path, "[1]");
}


static void
auto_hostile_paths(void **state)
{
    (void) state;

    nsf_assert_error(decode(NSF_FORMAT_AUTO, "../../etc/passwd"),
                     "\"..\" in path");
    nsf_assert_error(decode(NSF_FORMAT_AUTO, "/etc/passwd"),
                     "path starts with \"/\"");
    nsf_assert_error(decode(NSF_FORMAT_AUTO, "a//b"), "empty path segment");
    nsf_assert_error(decode(NSF_FORMAT_AUTO, "a/./b"), "\".\" in path");
    nsf_assert_error(decode(NSF_FORMAT_AUTO, "a/"), "path ends with \"/\"");
    nsf_assert_error(decode(NSF_FORMAT_AUTO, "a\r\nb"),
                     "control byte in path");
    nsf_assert_error(decode_flags(NSF_FORMAT_AUTO, 0, "a\0b", 3),
                     "control byte in path");
}


static void
auto_trailing_newline(void **state)
{
    (void) state;

    nsf_assert_error(decode(NSF_FORMAT_AUTO, "aa/aa.dat\n"),
                     "control byte in path");
}


static void
auto_binary(void **state)
{
    (void) state;

    nsf_assert_error(decode_flags(NSF_FORMAT_AUTO, 0,
                                  "\x7f" "ELF\x02\x01\x01\0", 8),
                     "control byte in path");
}


static void
auto_marshal(void **state)
{
    (void) state;

    nsf_assert_good(decode(NSF_FORMAT_AUTO,
                           "\x04\x08I\"\x0e" "aa/aa.dat\x06:\x06" "ET"));
    nsf_assert_str(t.path, "aa/aa.dat");
    assert_ptr_equal(t.path.data, buf.data + 5);
    assert_int_equal(tp.calls, 0);
}


static void
auto_marshal_of_json(void **state)
{
    (void) state;

    nsf_assert_good(decode(NSF_FORMAT_AUTO,
                           "\x04\x08\"\x11{\"path\":\"a\"}"));
    nsf_assert_str(t.path, "a");

    nsf_assert_good(decode(NSF_FORMAT_MARSHAL,
                           "\x04\x08\"\x11{\"path\":\"a\"}"));
    nsf_assert_str(t.path, "a");
}


static void
auto_marshal_checks(void **state)
{
    (void) state;

    nsf_assert_error(decode(NSF_FORMAT_AUTO, "\x04\x08\"\x0a../a/"),
                     "path ends with \"/\"");
    nsf_assert_error(decode(NSF_FORMAT_AUTO, "\x04\x08\"\x09../a"),
                     "\"..\" in path");
    nsf_assert_error(decode(NSF_FORMAT_AUTO, "\x04\x08\"\x06{"),
                     "broken JSON");
    nsf_assert_error(decode_flags(NSF_FORMAT_AUTO, 0, "\x04\x08\"\x00", 4),
                     "empty path");
    nsf_assert_error(decode_flags(NSF_FORMAT_AUTO, 0, "\x04\x08\"\x08" "a\0b",
                                  7),
                     "control byte in path");
}


/* a second Marshal, a second entry: no path, and nothing else */

static void
auto_marshal_in_marshal(void **state)
{
    (void) state;

    nsf_assert_error(decode(NSF_FORMAT_AUTO,
                            "\x04\x08\"\x0a\x04\x08\"\x06" "a"),
                     "control byte in path");
}


/* the entries of Rails.cache.write(k, "aa/aa.dat") with a lifetime */

static void
rails_valid_until(void **state)
{
    size_t  i;

    static const struct {
        const char  *data;
        size_t       len;
    } entries[] = {
        { bytes("\x04\x08o: ActiveSupport::Cache::Entry\x09:\x0b@value\"\x0e"
                "aa/aa.dat:\x0d@version0:\x10@created_atf\x0f" "1795158525"
                ":\x10@expires_inf\x08" "600") },
        { bytes("\x00\x04\x08[\x07\"\x0e" "aa/aa.datf\x0f" "1795159125") },
        { bytes("\x00\x11\x02\x00\x00\x40\x15\xfd\xbf\xda\x41\xff\xff\xff"
                "\xff" "aa/aa.dat") },
    };

    (void) state;

    for (i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        nsf_assert_good(decode_flags(NSF_FORMAT_AUTO, 0, entries[i].data,
                                     entries[i].len));
        nsf_assert_str(t.path, "aa/aa.dat");
        assert_true(t.valid_until == 1795159125);
        assert_true(t.expires == 1795159125);
    }
}


/* a record in an entry: the cache goes by what comes first */

static void
rails_valid_until_and_expires(void **state)
{
    size_t  i, len;
    char    data[128];

    static const struct {
        const char  *json;
        int64_t      expires;
    } records[] = {
        { "{\"path\":\"a\",\"expires\":1700000000}", 1700000000 },
        { "{\"path\":\"a\",\"expires\":1900000000}", 1800000000 },
        { "{\"path\":\"a\"}", 1800000000 },
    };

    (void) state;

    for (i = 0; i < sizeof(records) / sizeof(records[0]); i++) {
        len = strlen(records[i].json);

        memcpy(data, "\x00\x04\x08[\x07\"", 6);
        data[6] = (char) (len + 5);
        memcpy(data + 7, records[i].json, len);
        memcpy(data + 7 + len, "f\x0a" "1.8e9", 7);

        nsf_assert_good(decode_flags(NSF_FORMAT_AUTO, 0, data, len + 14));
        nsf_assert_str(t.path, "a");
        assert_true(t.valid_until == 1800000000);
        assert_true(t.expires == records[i].expires);
    }
}


static void
path_format(void **state)
{
    (void) state;

    nsf_assert_good(decode(NSF_FORMAT_PATH, "aa/aa.dat"));
    nsf_assert_str(t.path, "aa/aa.dat");
    assert_ptr_equal(t.path.data, buf.data);
}


static void
path_format_takes_a_brace(void **state)
{
    (void) state;

    nsf_assert_good(decode(NSF_FORMAT_PATH, "{\"path\":\"a\"}"));
    nsf_assert_str(t.path, "{\"path\":\"a\"}");
    assert_int_equal(tp.calls, 0);
}


static void
path_format_checks(void **state)
{
    (void) state;

    nsf_assert_error(decode(NSF_FORMAT_PATH, ".."), "\"..\" in path");
}


static void
json_format(void **state)
{
    (void) state;

    nsf_assert_good(decode(NSF_FORMAT_JSON, "\n {\"path\":\"a\"} \n"));
    nsf_assert_str(t.path, "a");
}


static void
json_format_takes_no_path(void **state)
{
    (void) state;

    nsf_assert_error(decode(NSF_FORMAT_JSON, "aa/aa.dat"), "broken JSON");
    nsf_assert_error(decode(NSF_FORMAT_JSON, "\"aa/aa.dat\""),
                     "JSON is not an object");
}


static void
json_format_checks(void **state)
{
    (void) state;

    nsf_assert_error(decode(NSF_FORMAT_JSON, "{\"path\":\"../a\"}"),
                     "\"..\" in path");
}


static void
json_out_of_memory(void **state)
{
    (void) state;

    tp.fail_at = 1;

    nsf_assert_error(decode(NSF_FORMAT_AUTO, "{\"path\":\"a\"}"),
                     NSF_ERR_MEMORY);
    assert_int_equal(tp.calls, 1);
}


static void
marshal_format(void **state)
{
    (void) state;

    nsf_assert_good(decode(NSF_FORMAT_MARSHAL, "\x04\x08\"\x06" "a"));
    nsf_assert_str(t.path, "a");
    nsf_assert_error(decode(NSF_FORMAT_MARSHAL, "aa/aa.dat"),
                     "not Ruby Marshal 4.8");
    nsf_assert_error(decode(NSF_FORMAT_MARSHAL, "{\"path\":\"a\"}"),
                     "not Ruby Marshal 4.8");
}


static void
format_out_of_range(void **state)
{
    (void) state;

    nsf_assert_error(decode((nsf_format_e) 4, "a"), "unknown format");
}


static void
flags_of_a_string(void **state)
{
    (void) state;

    nsf_assert_good(decode_flags(NSF_FORMAT_AUTO, 16, "aa/aa.dat", 9));
    nsf_assert_str(t.path, "aa/aa.dat");
    assert_true(t.valid_until == 0);

    nsf_assert_good(decode_flags(NSF_FORMAT_JSON, UINT32_MAX,
                                 "{\"path\":\"a\"}", 12));
    nsf_assert_str(t.path, "a");
}


static void
flags_of_a_number(void **state)
{
    (void) state;

    nsf_assert_error(decode_flags(NSF_FORMAT_AUTO, 2, "35", 2),
                     "a number by its flags, not a string");
    nsf_assert_good(decode_flags(NSF_FORMAT_PATH, 2, "35", 2));
    nsf_assert_str(t.path, "35");
}


static const char  packed[] =
    "\x78\x9c\x4b\x4c\xd4\x4f\x4c\xd4\x4b\x49\x2c\x01\x00\x0f\x08\x03"
    "\x1b";


static void
flags_of_a_compressed_string(void **state)
{
    nsf_format_e  format;

    (void) state;

    nsf_assert_good(decode_flags(NSF_FORMAT_AUTO, 2, packed,
                                 sizeof(packed) - 1));
    nsf_assert_str(t.path, "aa/aa.dat");
    assert_true(nsf_test_pool_owns(&tp, &t.path));

    nsf_assert_good(decode_flags(NSF_FORMAT_PATH, 2, packed,
                                 sizeof(packed) - 1));
    nsf_assert_str(t.path, "aa/aa.dat");

    nsf_assert_error(decode_flags(NSF_FORMAT_JSON, 2, packed,
                                  sizeof(packed) - 1),
                     "broken JSON");

    tp.fail_at = 1;

    for (format = NSF_FORMAT_AUTO; format <= NSF_FORMAT_MARSHAL; format++) {
        nsf_assert_error(decode_flags(format, 2, packed, sizeof(packed) - 1),
                         NSF_ERR_MEMORY);
    }
}


static void
each_prefix_of_a_path(void **state)
{
    size_t             len;
    const char        *err;
    static const char  value[] = "pictures/2024/a.jpg";

    (void) state;

    for (len = 0; len <= sizeof(value) - 1; len++) {
        err = decode_flags(NSF_FORMAT_AUTO, 0, value, len);

        if (len == 0) {
            nsf_assert_error(err, "empty value");

        } else if (value[len - 1] == '/') {
            nsf_assert_error(err, "path ends with \"/\"");

        } else {
            nsf_assert_good(err);
            assert_int_equal(t.path.len, len);
        }
    }
}


static void
each_prefix_of_json(void **state)
{
    size_t             len;
    static const char  value[] =
        "{\"path\":\"a\",\"headers\":{\"Vary\":\"x\"},\"expires\":1}";

    (void) state;

    for (len = 1; len < sizeof(value) - 1; len++) {
        nsf_assert_error(decode_flags(NSF_FORMAT_AUTO, 0, value, len),
                         "broken JSON");
    }

    nsf_assert_good(decode(NSF_FORMAT_AUTO, value));
}


#define record_test(f)  cmocka_unit_test_setup_teardown(f, setup, teardown)


int
main(void)
{
    static const struct CMUnitTest  tests[] = {
        record_test(record_empty),
        record_test(record_empty_reads_nothing),
        record_test(record_is_64_kib_at_most),
        record_test(record_one_too_long),
        record_test(record_of_1_mib),
        record_test(record_too_long_is_not_read),
        record_test(record_longest_path),
        record_test(record_longest_json),
        record_test(auto_path),
        record_test(auto_path_is_not_copied),
        record_test(auto_json),
        record_test(auto_brace_is_json_or_nothing),
        record_test(auto_space_before_the_brace_is_a_path),
        record_test(auto_brace_later_is_a_path),
        record_test(auto_array_is_a_path),
        record_test(auto_hostile_paths),
        record_test(auto_trailing_newline),
        record_test(auto_binary),
        record_test(auto_marshal),
        record_test(auto_marshal_of_json),
        record_test(auto_marshal_checks),
        record_test(auto_marshal_in_marshal),
        record_test(rails_valid_until),
        record_test(rails_valid_until_and_expires),
        record_test(path_format),
        record_test(path_format_takes_a_brace),
        record_test(path_format_checks),
        record_test(json_format),
        record_test(json_format_takes_no_path),
        record_test(json_format_checks),
        record_test(json_out_of_memory),
        record_test(marshal_format),
        record_test(format_out_of_range),
        record_test(flags_of_a_string),
        record_test(flags_of_a_number),
        record_test(flags_of_a_compressed_string),
        record_test(each_prefix_of_a_path),
        record_test(each_prefix_of_json),
    };

    return cmocka_run_group_tests_name("nsf_record", tests, NULL, NULL);
}
