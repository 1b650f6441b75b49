/*
 * Copyright (C) the ngx_sendfile authors
 */


#include "nsf_test.h"
#include "nsf_pull.h"


static const char *
skipped(const char *text)
{
    nsf_pull_t       j;
    const char      *err;
    nsf_test_buf_t   buf;

    buf = nsf_test_copy(text, strlen(text));

    nsf_pull_open(&j, buf.data, buf.len);
    err = nsf_pull_skip(&j);

    if (err == NULL) {
        err = nsf_pull_close(&j);
    }

    nsf_test_free(&buf);

    return err;
}


static const char *
string(const char *text, const char *expected)
{
    nsf_str_t        s;
    nsf_pull_t       j;
    const char      *err;
    nsf_test_buf_t   buf;

    buf = nsf_test_copy(text, strlen(text));

    nsf_pull_open(&j, buf.data, buf.len);
    err = nsf_pull_string(&j, &s);

    if (err == NULL) {
        assert_int_equal(s.len, strlen(expected));
        assert_memory_equal(s.data, expected, s.len);
        err = nsf_pull_close(&j);
    }

    nsf_test_free(&buf);

    return err;
}


static void
values(void **state)
{
    (void) state;

    nsf_assert_good(skipped("null"));
    nsf_assert_good(skipped(" true "));
    nsf_assert_good(skipped("[]"));
    nsf_assert_good(skipped("[1, -2.5e3, \"a\", [null], {}]"));
    nsf_assert_good(skipped("{\"a\":{\"b\":[false]},\"c\":1}"));
}


static void
broken_values(void **state)
{
    size_t             i;
    static const char  *bad[] = {
        "", "nul", "nulL", "tru", "[", "[1", "[1,", "[1 2]", "{", "{\"a\"",
        "{\"a\":", "{\"a\":1", "{\"a\":1,", "{a:1}", "{\"a\":1 \"b\":2}",
        "1 2", "\"a", "x", "]", "}", "{1:2}", "{,\"a\":1}"
    };

    (void) state;

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_non_null(skipped(bad[i]));
    }
}


static void
depth(void **state)
{
    char  text[2 * NSF_PULL_MAX_DEPTH + 3];

    (void) state;

    memset(text, '[', NSF_PULL_MAX_DEPTH);
    memset(text + NSF_PULL_MAX_DEPTH, ']', NSF_PULL_MAX_DEPTH);
    text[2 * NSF_PULL_MAX_DEPTH] = '\0';
    nsf_assert_good(skipped(text));

    memset(text, '[', NSF_PULL_MAX_DEPTH + 1);
    memset(text + NSF_PULL_MAX_DEPTH + 1, ']', NSF_PULL_MAX_DEPTH + 1);
    text[2 * NSF_PULL_MAX_DEPTH + 2] = '\0';
    nsf_assert_error(skipped(text), "JSON nested too deep");
}


static void
strings(void **state)
{
    (void) state;

    nsf_assert_good(string("\"\"", ""));
    nsf_assert_good(string("\"a b\"", "a b"));
    nsf_assert_good(string("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
                           "\"\\/\b\f\n\r\t"));
    nsf_assert_good(string("\"\\u0041\\u00e9\\u20AC\"",
                           "A\xc3\xa9\xe2\x82\xac"));
    nsf_assert_good(string("\"\\ud83d\\ude00\"", "\xf0\x9f\x98\x80"));
    nsf_assert_good(string("\"\\u003cb\\u003e\"", "<b>"));
}


static void
broken_strings(void **state)
{
    size_t             i;
    static const char  *bad[] = {
        "\"", "\"\\", "\"\\\"", "\"\\x\"", "\"\\u\"", "\"\\u12\"",
        "\"\\u123g\"", "\"\\ud83d\"", "\"\\ud83d\\n\"", "\"\\ud83d\\u0041\"",
        "\"\\ude00\"", "\"\n\"", "\"\\ud83d\\", "\"\\u123"
    };

    (void) state;

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_non_null(string(bad[i], ""));
    }

    nsf_assert_error(string("1", ""), "not a string in JSON");
}


static void
integers(void **state)
{
    nsf_str_t      s;
    nsf_pull_t     j;
    unsigned char  good[] = " -120,", bad[] = "1.5", none[] = "x";

    (void) state;

    nsf_pull_open(&j, good, sizeof(good) - 1);
    nsf_assert_good(nsf_pull_integer(&j, &s));
    nsf_assert_str(s, "-120");

    nsf_pull_open(&j, bad, sizeof(bad) - 1);
    nsf_assert_error(nsf_pull_integer(&j, &s), "not an integer in JSON");

    nsf_pull_open(&j, none, sizeof(none) - 1);
    nsf_assert_error(nsf_pull_integer(&j, &s), "broken JSON");
}


int
main(void)
{
    static const struct CMUnitTest  tests[] = {
        cmocka_unit_test(values),
        cmocka_unit_test(broken_values),
        cmocka_unit_test(depth),
        cmocka_unit_test(strings),
        cmocka_unit_test(broken_strings),
        cmocka_unit_test(integers),
    };

    return cmocka_run_group_tests_name("nsf_pull", tests, NULL, NULL);
}
