/*
 * Copyright (C) the ngx_sendfile authors
 *
 * The decoder of JSON records: syntax, path, memory.  For the other fields
 * see test_nsf_json_fields.c.
 */


#include <jansson.h>

#include "nsf_test_json.h"


/* how many of jansson's allocations were made, live on, and which fails */

static size_t  json_calls;
static size_t  json_live;
static size_t  json_fail_at;


static void
json_path_only(void **state)
{
    nsf_target_t  *t;

    nsf_assert_good(decode(state, "{\"path\":\"aa/aa.dat\"}"));

    t = target(state);

    nsf_assert_str(t->path, "aa/aa.dat");
    assert_int_equal(t->type.len, 0);
    assert_int_equal(t->name.len, 0);
    assert_int_equal(t->disposition, NSF_DISPOSITION_NONE);
    assert_null(t->headers);
    assert_int_equal(t->nheaders, 0);
    assert_int_equal(t->expires, 0);
}


static void
json_all_fields(void **state)
{
    nsf_target_t  *t;

    nsf_assert_good(decode(state,
        "{\"path\":\"a/b.jpg\",\"type\":\"image/jpeg\",\"name\":\"b c.jpg\","
        "\"disposition\":\"attachment\","
        "\"headers\":{\"ETag\":\"\\\"x\\\"\",\"Vary\":\"Accept\"},"
        "\"expires\":1893456000}"));

    t = target(state);

    nsf_assert_str(t->path, "a/b.jpg");
    nsf_assert_str(t->type, "image/jpeg");
    nsf_assert_str(t->name, "b c.jpg");
    assert_int_equal(t->disposition, NSF_DISPOSITION_ATTACHMENT);
    assert_int_equal(t->nheaders, 2);
    assert_header(state, 0, "ETag", "\"x\"");
    assert_header(state, 1, "Vary", "Accept");
    assert_int_equal(t->expires, 1893456000);
}


static void
json_fields_in_any_order(void **state)
{
    nsf_assert_good(decode(state,
        "{\"disposition\":\"inline\",\"expires\":5,\"headers\":{},"
        "\"name\":\"n\",\"type\":\"t/t\",\"path\":\"p\"}"));

    nsf_assert_str(target(state)->path, "p");
    nsf_assert_str(target(state)->type, "t/t");
    nsf_assert_str(target(state)->name, "n");
    assert_int_equal(target(state)->disposition, NSF_DISPOSITION_INLINE);
    assert_int_equal(target(state)->expires, 5);
}


static void
json_strings_are_in_the_pool(void **state)
{
    nsf_json_test_t  *ctx;

    ctx = *state;

    nsf_assert_good(decode(state,
        "{\"path\":\"p\",\"type\":\"t/t\",\"name\":\"n\"}"));

    assert_true(nsf_test_pool_owns(&ctx->tp, &ctx->t.path));
    assert_true(nsf_test_pool_owns(&ctx->tp, &ctx->t.type));
    assert_true(nsf_test_pool_owns(&ctx->tp, &ctx->t.name));
    assert_int_equal(ctx->tp.calls, 3);
}


static void
json_white_space(void **state)
{
    nsf_assert_good(decode(state,
        " \t\r\n{ \"path\" :\n\t\"aa/aa.dat\" } \r\n"));
    nsf_assert_str(target(state)->path, "aa/aa.dat");
}


static void
json_unknown_fields_are_ignored(void **state)
{
    nsf_assert_good(decode(state,
        "{\"id\":7,\"path\":\"a\",\"tags\":[1,[2,{}]],\"x\":null,\"y\":true,"
        "\"z\":{\"path\":\"/etc/passwd\"},\"Path\":\"/etc/passwd\","
        "\"\":\"\",\"note\":\"one\\r\\ntwo\"}"));
    nsf_assert_str(target(state)->path, "a");
}


static void
json_big_numbers_in_unknown_fields(void **state)
{
    nsf_assert_good(decode(state,
        "{\"path\":\"a\",\"id\":18446744073709551615,"
        "\"n\":-99999999999999999999999999,\"r\":1.5e300}"));
    nsf_assert_str(target(state)->path, "a");
}


static void
json_empty(void **state)
{
    nsf_assert_error(decode(state, ""), "broken JSON");
    nsf_assert_error(decode(state, "  "), "broken JSON");
}


static void
json_broken(void **state)
{
    size_t  i;

    static const char * const  cases[] = {
        "{", "}", "{]", "{\"path\"}", "{\"path\":}", "{\"path\":\"a\"",
        "{\"path\":\"a\",}", "{\"path\":\"a\"}}", "{\"path\":\"a\"} x",
        "{\"path\":\"a}", "{'path':'a'}", "{path:\"a\"}",
        "{\"path\":\"a\"}{\"path\":\"b\"}", "{\"path\":\"a\" \"x\":1}",
        "{\"path\":\"a\\x\"}", "{\"path\":\"a\\u12\"}", "nonsense",
        "{\"path\":\"a\",\"x\":01}", "{\"path\":\"a\",\"x\":+1}",
        "{\"path\":\"a\",\"x\":.5}", "{\"path\":\"a\",\"x\":NaN}",
        "{\"path\":\"a\",\"x\":1e999}", "{\"path\":\"a\"} // comment",
        "\xef\xbb\xbf{\"path\":\"a\"}",
    };

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        nsf_assert_error(decode(state, cases[i]), "broken JSON");
    }
}


static void
json_raw_control_byte_in_a_string(void **state)
{
    nsf_assert_error(decode(state, "{\"path\":\"a\nb\"}"), "broken JSON");
    nsf_assert_error(decode(state, "{\"path\":\"a\tb\"}"), "broken JSON");
}


static void
json_is_utf8(void **state)
{
    nsf_assert_error(decode(state, "{\"path\":\"\xff\"}"), "broken JSON");
    nsf_assert_error(decode(state, "{\"path\":\"\xc0\xae\"}"), "broken JSON");
    nsf_assert_error(decode(state, "{\"path\":\"\xe5\x86\"}"), "broken JSON");
    nsf_assert_error(decode(state, "{\"path\":\"\xed\xa0\x80\"}"),
                     "broken JSON");
}


static void
json_lone_surrogate(void **state)
{
    nsf_assert_error(decode(state, "{\"path\":\"\\ud83d\"}"), "broken JSON");
    nsf_assert_error(decode(state, "{\"path\":\"\\ude00\"}"), "broken JSON");
}


static void
json_not_an_object(void **state)
{
    nsf_assert_error(decode(state, "[]"), "JSON is not an object");
    nsf_assert_error(decode(state, "[{\"path\":\"a\"}]"),
                     "JSON is not an object");
    nsf_assert_error(decode(state, "\"a\""), "JSON is not an object");
    nsf_assert_error(decode(state, "1"), "JSON is not an object");
    nsf_assert_error(decode(state, "null"), "JSON is not an object");
    nsf_assert_error(decode(state, "true"), "JSON is not an object");
}


static void
json_nested_deep(void **state)
{
    char               json[5000];
    size_t             n;
    static const char  start[] = "{\"path\":\"a\",\"x\":";

    n = sizeof(start) - 1;
    memcpy(json, start, n);
    memset(json + n, '[', 2047);
    memset(json + n + 2047, ']', 2047);
    json[n + 4094] = '}';
    nsf_assert_good(decode_n(state, json, n + 4095));

    memset(json + n, '[', 2048);
    memset(json + n + 2048, ']', 2048);
    json[n + 4096] = '}';
    nsf_assert_error(decode_n(state, json, n + 4097), "JSON nested too deep");
}


static void
json_field_twice(void **state)
{
    nsf_assert_error(decode(state, "{\"path\":\"a\",\"path\":\"b\"}"),
                     "field given twice in JSON");
    nsf_assert_error(decode(state, "{\"path\":\"a\",\"pa\\u0074h\":\"b\"}"),
                     "field given twice in JSON");
    nsf_assert_error(decode(state, "{\"path\":\"a\",\"headers\":"
                                   "{\"ETag\":\"1\",\"ETag\":\"2\"}}"),
                     "field given twice in JSON");
    nsf_assert_error(decode(state, "{\"path\":\"a\",\"x\":1,\"x\":1}"),
                     "field given twice in JSON");
}


static void
json_nul_byte(void **state)
{
    nsf_assert_error(decode_n(state, "{\"path\":\"a\0b\"}", 14),
                     "NUL in JSON");
    nsf_assert_error(decode_n(state, "{\"path\":\"a\"}\0", 13),
                     "NUL in JSON");
    nsf_assert_error(decode_n(state, "\0{\"path\":\"a\"}", 13),
                     "NUL in JSON");
}


/* jansson by itself takes these two */

static void
json_nul_byte_after_a_number(void **state)
{
    nsf_assert_error(decode_n(state, "{\"path\":\"a\",\"x\":1\0}", 18),
                     "NUL in JSON");
    nsf_assert_error(decode_n(state, "{\"path\":\"a\",\"x\":null\0}", 21),
                     "NUL in JSON");
}


static void
json_nul_escaped(void **state)
{
    nsf_assert_error(decode(state, "{\"path\":\"a\\u0000b\"}"),
                     "NUL in JSON");
    nsf_assert_error(decode(state, "{\"path\":\"a\",\"name\":\"\\u0000\"}"),
                     "NUL in JSON");
    nsf_assert_error(decode(state, "{\"path\":\"a\",\"type\":\"\\u0000\"}"),
                     "NUL in JSON");
    nsf_assert_error(decode(state, "{\"path\":\"a\",\"x\\u0000\":1}"),
                     "NUL in JSON");
    nsf_assert_error(decode(state, "{\"path\":\"a\",\"headers\":"
                                   "{\"ETag\":\"\\u0000\"}}"),
                     "NUL in JSON");
}


static void
json_each_prefix_is_broken(void **state)
{
    size_t             len;
    static const char  json[] =
        "{\"path\":\"a/\xe5\x86\x99\\u771f.jpg\",\"type\":\"image/jpeg\","
        "\"name\":\"\\ud83d\\ude00 \\\"x\\\"\",\"disposition\":\"inline\","
        "\"headers\":{\"ETag\":\"\\\"1\\\"\",\"Link\":\"\"},"
        "\"expires\":1.5e9,\"x\":[true,false,null,-1]}";

    nsf_assert_good(decode(state, json));

    for (len = 0; len < sizeof(json) - 1; len++) {
        nsf_assert_error(decode_n(state, json, len), "broken JSON");
    }
}


static void
json_each_byte_flipped(void **state)
{
    char                json[] = "{\"path\":\"a/b\",\"name\":\"n\","
                                 "\"headers\":{\"ETag\":\"e\"},"
                                 "\"expires\":12}";
    size_t              i, bit;
    const nsf_target_t  *t;

    t = target(state);

    for (i = 0; i < sizeof(json) - 1; i++) {
        for (bit = 0; bit < 8; bit++) {
            json[i] = (char) (json[i] ^ (1 << bit));

            if (decode(state, json) == NULL) {
                nsf_assert_good(nsf_path_check(t->path.data, t->path.len));
                assert_true(t->nheaders <= 1);
                assert_true(t->expires >= 0);

            } else {
                assert_int_equal(t->path.len, 0);
            }

            json[i] = (char) (json[i] ^ (1 << bit));
        }
    }
}


static void
path_missing(void **state)
{
    nsf_assert_error(decode(state, "{}"), "no \"path\" in JSON");
    nsf_assert_error(decode(state, "{\"name\":\"a\"}"),
                     "no \"path\" in JSON");
    nsf_assert_error(decode(state, "{\"PATH\":\"a\"}"),
                     "no \"path\" in JSON");
}


static void
path_of_wrong_type(void **state)
{
    nsf_assert_error(decode(state, "{\"path\":1}"),
                     "\"path\" is not a string");
    nsf_assert_error(decode(state, "{\"path\":null}"),
                     "\"path\" is not a string");
    nsf_assert_error(decode(state, "{\"path\":true}"),
                     "\"path\" is not a string");
    nsf_assert_error(decode(state, "{\"path\":[\"a\"]}"),
                     "\"path\" is not a string");
    nsf_assert_error(decode(state, "{\"path\":{}}"),
                     "\"path\" is not a string");
}


static void
path_rules_hold(void **state)
{
    nsf_assert_error(decode(state, "{\"path\":\"\"}"), "empty path");
    nsf_assert_error(decode(state, "{\"path\":\"/etc/passwd\"}"),
                     "path starts with \"/\"");
    nsf_assert_error(decode(state, "{\"path\":\"a/\"}"),
                     "path ends with \"/\"");
    nsf_assert_error(decode(state, "{\"path\":\"a//b\"}"),
                     "empty path segment");
    nsf_assert_error(decode(state, "{\"path\":\"./a\"}"),
                     "\".\" in path");
    nsf_assert_error(decode(state, "{\"path\":\"../../etc/passwd\"}"),
                     "\"..\" in path");
    nsf_assert_error(decode(state, "{\"path\":\"a\\nb\"}"),
                     "control byte in path");
    nsf_assert_error(decode(state, "{\"path\":\"a\\u007f\"}"),
                     "control byte in path");
}


static void
path_rules_hold_after_unescaping(void **state)
{
    nsf_assert_error(decode(state, "{\"path\":\"\\u002e\\u002e\\/a\"}"),
                     "\"..\" in path");
    nsf_assert_error(decode(state, "{\"path\":\"\\/etc\\/passwd\"}"),
                     "path starts with \"/\"");
}


static void
path_longest(void **state)
{
    char               json[NSF_MAX_PATH + 16];
    size_t             n;
    static const char  start[] = "{\"path\":\"";

    n = sizeof(start) - 1;
    memcpy(json, start, n);
    memset(json + n, 'p', NSF_MAX_PATH + 1);

    memcpy(json + n + NSF_MAX_PATH, "\"}", 2);
    nsf_assert_good(decode_n(state, json, n + NSF_MAX_PATH + 2));
    assert_int_equal(target(state)->path.len, NSF_MAX_PATH);

    memcpy(json + n + NSF_MAX_PATH, "p\"}", 3);
    nsf_assert_error(decode_n(state, json, n + NSF_MAX_PATH + 3),
                     "path too long");
}


static void
path_unescaped(void **state)
{
    nsf_assert_good(decode(state,
        "{\"path\":\"\\u5199\\u771f\\/\\ud83d\\ude00 \\\"a\\\\b.jpg\"}"));
    nsf_assert_str(target(state)->path,
        "\xe5\x86\x99\xe7\x9c\x9f/\xf0\x9f\x98\x80 \"a\\b.jpg");
}


static void
path_is_not_percent_decoded(void **state)
{
    nsf_assert_good(decode(state, "{\"path\":\"%2e%2e/a?b#c %\"}"));
    nsf_assert_str(target(state)->path, "%2e%2e/a?b#c %");
}


static void
errors_are_few_words(void **state)
{
    size_t       i, words;
    const char  *err, *p;

    static const char * const  cases[] = {
        "", "[]", "{}", "{\"path\":1}", "{\"path\":\"a\",\"path\":1}",
        "{\"path\":\"a\",\"type\":1}", "{\"path\":\"a\",\"name\":1}",
        "{\"path\":\"a\",\"disposition\":1}",
        "{\"path\":\"a\",\"disposition\":\"\"}",
        "{\"path\":\"a\",\"expires\":-1}", "{\"path\":\"a\",\"headers\":1}",
        "{\"path\":\"a\",\"headers\":{\"ETag\":1}}"
    };

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        err = decode(state, cases[i]);
        assert_non_null(err);

        words = 1;

        for (p = err; *p != '\0'; p++) {
            assert_true(*p >= 0x20 && *p < 0x7f);
            words += *p == ' ';
        }

        assert_in_range(words, 2, 6);
    }
}


/*
 * No name or value here has more than 15 bytes with its quotes.  With longer
 * ones jansson 2.14 drops bytes, or aborts, when its scan buffer cannot grow,
 * see lex_save() there: nothing that a caller could notice.
 */

static const char  small[] =
    "{\"path\":\"aa/aa.dat\",\"type\":\"image/jpeg\",\"name\":\"photo.jpg\","
    "\"disposition\":\"attachment\",\"expires\":1893456000,"
    "\"headers\":{\"Cache-Control\":\"no-cache\",\"ETag\":\"\\\"1\\\"\","
    "\"X-Other\":\"x\"},\"other\":[1,2,{\"x\":true}]}";


static void
memory_each_allocation_of_the_pool(void **state)
{
    size_t            i, calls;
    nsf_json_test_t  *ctx;

    ctx = *state;

    nsf_assert_good(decode(state, small));

    calls = ctx->tp.calls;

    /* path, type, name, the array, two names and values */

    assert_int_equal(calls, 8);

    for (i = 1; i <= calls; i++) {
        ctx->tp.fail_at = i;

        nsf_assert_error(decode(state, small), NSF_ERR_MEMORY);
        assert_int_equal(ctx->tp.calls, i);
    }
}


static void *
json_test_malloc(size_t size)
{
    void  *p;

    if (++json_calls == json_fail_at) {
        return NULL;
    }

    p = malloc(size);
    json_live += p != NULL;

    return p;
}


static void
json_test_free(void *p)
{
    json_live -= p != NULL;
    free(p);
}


static const char *
decode_counted(void **state, const char *json, size_t fail_at)
{
    const char  *err;

    json_calls = 0;
    json_live = 0;
    json_fail_at = fail_at;

    json_set_alloc_funcs(json_test_malloc, json_test_free);
    err = decode(state, json);
    json_set_alloc_funcs(malloc, free);

    return err;
}


/* jansson takes a string without memory for a broken one */

static void
memory_each_allocation_of_jansson(void **state)
{
    size_t       i, calls, told;
    const char  *err;

    nsf_assert_good(decode_counted(state, small, 0));
    assert_int_equal(json_live, 0);

    calls = json_calls;
    told = 0;

    assert_true(calls > 20);

    for (i = 1; i <= calls; i++) {
        err = decode_counted(state, small, i);

        assert_non_null(err);
        assert_int_equal(json_live, 0);

        if (strcmp(err, NSF_ERR_MEMORY) == 0) {
            told++;

        } else {
            nsf_assert_error(err, "broken JSON");
        }
    }

    assert_true(told > 0);
}


static void
memory_is_freed_on_every_error(void **state)
{
    size_t  i;

    static const char * const  cases[] = {
        "", "{", "[]", "{}", "1", "{\"path\":1}", "{\"path\":\"..\"}",
        "{\"path\":\"a\"", "{\"path\":\"a\",\"path\":\"b\"}",
        "{\"path\":\"a\\u0000\"}", "{\"path\":\"a\",\"type\":1}",
        "{\"path\":\"a\",\"type\":\"\\n\"}", "{\"path\":\"a\",\"name\":1}",
        "{\"path\":\"a\",\"name\":\"\\n\"}",
        "{\"path\":\"a\",\"disposition\":1}",
        "{\"path\":\"a\",\"disposition\":\"x\"}",
        "{\"path\":\"a\",\"expires\":\"1\"}",
        "{\"path\":\"a\",\"expires\":-1}", "{\"path\":\"a\",\"headers\":1}",
        "{\"path\":\"a\",\"headers\":{\"ETag\":1}}",
        "{\"path\":\"a\",\"headers\":{\"ETag\":\"\\n\"}}",
        "{\"path\":\"a\",\"headers\":{\"\\n\":\"\"}}",
        "{\"path\":\"a\",\"headers\":{\"Vary\":\"\",\"VARY\":\"\"}}",
    };

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_non_null(decode_counted(state, cases[i], 0));
        assert_int_equal(json_live, 0);
    }
}


int
main(void)
{
    static const struct CMUnitTest  tests[] = {
        json_test(json_path_only),
        json_test(json_all_fields),
        json_test(json_fields_in_any_order),
        json_test(json_strings_are_in_the_pool),
        json_test(json_white_space),
        json_test(json_unknown_fields_are_ignored),
        json_test(json_big_numbers_in_unknown_fields),
        json_test(json_empty),
        json_test(json_broken),
        json_test(json_raw_control_byte_in_a_string),
        json_test(json_is_utf8),
        json_test(json_lone_surrogate),
        json_test(json_not_an_object),
        json_test(json_nested_deep),
        json_test(json_field_twice),
        json_test(json_nul_byte),
        json_test(json_nul_byte_after_a_number),
        json_test(json_nul_escaped),
        json_test(json_each_prefix_is_broken),
        json_test(json_each_byte_flipped),
        json_test(path_missing),
        json_test(path_of_wrong_type),
        json_test(path_rules_hold),
        json_test(path_rules_hold_after_unescaping),
        json_test(path_longest),
        json_test(path_unescaped),
        json_test(path_is_not_percent_decoded),
        json_test(errors_are_few_words),
        json_test(memory_each_allocation_of_the_pool),
        json_test(memory_each_allocation_of_jansson),
        json_test(memory_is_freed_on_every_error),
    };

    return cmocka_run_group_tests_name("nsf_json", tests, NULL, NULL);
}
