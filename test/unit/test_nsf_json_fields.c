/*
 * Copyright (C) the ngx_sendfile authors
 *
 * The decoder of JSON records: type, name, disposition, expires, headers.
 */


#include <stdio.h>

#include "nsf_test_json.h"


/* a record with n headers, all allowed or all not */

static char *
many_headers(size_t n, const char *prefix)
{
    char    *json, *p, *end;
    size_t   i, size;

    size = 64 + n * (strlen(prefix) + 32);
    json = malloc(size);
    assert_non_null(json);

    p = json;
    end = json + size;

    p += snprintf(p, (size_t) (end - p), "{\"path\":\"a\",\"headers\":{");

    for (i = 0; i < n; i++) {
        p += snprintf(p, (size_t) (end - p), "%s\"%s%u\":\"v%u\"",
                      i ? "," : "", prefix, (unsigned) i, (unsigned) i);
    }

    p += snprintf(p, (size_t) (end - p), "}}");
    assert_true(p < end);

    return json;
}


static void
type_of_wrong_type(void **state)
{
    nsf_assert_error(decode(state, "{\"path\":\"a\",\"type\":1}"),
                     "\"type\" is not a string");
    nsf_assert_error(decode(state, "{\"path\":\"a\",\"type\":null}"),
                     "\"type\" is not a string");
    nsf_assert_error(decode(state, "{\"path\":\"a\",\"type\":[]}"),
                     "\"type\" is not a string");
}


static void
type_with_control_byte(void **state)
{
    nsf_assert_error(decode(state,
        "{\"path\":\"a\",\"type\":\"text/html\\r\\nX: y\"}"),
        "control byte in \"type\"");
    nsf_assert_error(decode(state, "{\"path\":\"a\",\"type\":\"a\\tb\"}"),
                     "control byte in \"type\"");
    nsf_assert_error(decode(state, "{\"path\":\"a\",\"type\":\"a\\u007f\"}"),
                     "control byte in \"type\"");
}


static void
type_empty_is_none(void **state)
{
    nsf_assert_good(decode(state, "{\"path\":\"a\",\"type\":\"\"}"));
    assert_int_equal(target(state)->type.len, 0);
}


static void
type_with_parameter(void **state)
{
    nsf_assert_good(decode(state,
        "{\"path\":\"a\",\"type\":\"text/plain; charset=utf-8\"}"));
    nsf_assert_str(target(state)->type, "text/plain; charset=utf-8");
}


static void
name_of_wrong_type(void **state)
{
    nsf_assert_error(decode(state, "{\"path\":\"a\",\"name\":1}"),
                     "\"name\" is not a string");
    nsf_assert_error(decode(state, "{\"path\":\"a\",\"name\":null}"),
                     "\"name\" is not a string");
    nsf_assert_error(decode(state, "{\"path\":\"a\",\"name\":{}}"),
                     "\"name\" is not a string");
}


static void
name_with_control_byte(void **state)
{
    unsigned     c;
    const char  *err;

    for (c = 1; c < 0x80; c++) {
        err = decode_f(state, "{\"path\":\"a\",\"name\":\"x\\u%04xy\"}", c);

        if (c < 0x20 || c == 0x7f) {
            nsf_assert_error(err, "control byte in \"name\"");

        } else {
            nsf_assert_good(err);
            assert_int_equal(target(state)->name.data[1], c);
        }
    }
}


static void
name_utf8(void **state)
{
    nsf_assert_good(decode(state,
        "{\"path\":\"a\",\"name\":\"\xe5\x86\x99\xe7\x9c\x9f.jpg\"}"));
    nsf_assert_str(target(state)->name, "\xe5\x86\x99\xe7\x9c\x9f.jpg");
}


static void
name_with_quotes_and_slashes(void **state)
{
    nsf_assert_good(decode(state,
        "{\"path\":\"a\",\"name\":\"../\\\"x\\\\y\\\"\"}"));
    nsf_assert_str(target(state)->name, "../\"x\\y\"");
}


static void
name_alone_means_inline(void **state)
{
    nsf_assert_good(decode(state, "{\"path\":\"a\",\"name\":\"n\"}"));
    assert_int_equal(target(state)->disposition, NSF_DISPOSITION_NAMED);
}


static void
name_empty_is_none(void **state)
{
    nsf_assert_good(decode(state, "{\"path\":\"a\",\"name\":\"\"}"));
    assert_int_equal(target(state)->name.len, 0);
    assert_int_equal(target(state)->disposition, NSF_DISPOSITION_NONE);
}


static void
disposition_inline(void **state)
{
    nsf_assert_good(decode(state,
        "{\"path\":\"a\",\"disposition\":\"inline\"}"));
    assert_int_equal(target(state)->disposition, NSF_DISPOSITION_INLINE);
}


static void
disposition_attachment(void **state)
{
    nsf_assert_good(decode(state,
        "{\"path\":\"a\",\"disposition\":\"attachment\"}"));
    assert_int_equal(target(state)->disposition, NSF_DISPOSITION_ATTACHMENT);
    assert_int_equal(target(state)->name.len, 0);
}


static void
disposition_of_a_name(void **state)
{
    nsf_assert_good(decode(state, "{\"path\":\"a\",\"name\":\"n\","
                                  "\"disposition\":\"attachment\"}"));
    assert_int_equal(target(state)->disposition, NSF_DISPOSITION_ATTACHMENT);
}


static void
disposition_other(void **state)
{
    size_t  i;

    static const char * const  cases[] = {
        "", "Inline", "ATTACHMENT", "inlin", "inline ", "attachments",
        "form-data", "attachment; x", "inline\\r\\n"
    };

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        nsf_assert_error(
            decode_f(state, "{\"path\":\"a\",\"disposition\":\"%s\"}",
                     cases[i]),
            "\"disposition\" not inline or attachment");
    }
}


static void
disposition_of_wrong_type(void **state)
{
    nsf_assert_error(decode(state, "{\"path\":\"a\",\"disposition\":1}"),
                     "\"disposition\" is not a string");
    nsf_assert_error(decode(state, "{\"path\":\"a\",\"disposition\":null}"),
                     "\"disposition\" is not a string");
    nsf_assert_error(decode(state, "{\"path\":\"a\",\"disposition\":true}"),
                     "\"disposition\" is not a string");
}


static void
expires_integer(void **state)
{
    nsf_assert_good(decode(state, "{\"path\":\"a\",\"expires\":1}"));
    assert_int_equal(target(state)->expires, 1);

    nsf_assert_good(decode(state, "{\"path\":\"a\",\"expires\":2147483648}"));
    assert_int_equal(target(state)->expires, 2147483648);

    nsf_assert_good(decode(state, "{\"path\":\"a\",\"expires\":4294967296}"));
    assert_int_equal(target(state)->expires, 4294967296);
}


static void
expires_real_is_truncated(void **state)
{
    nsf_assert_good(decode(state,
        "{\"path\":\"a\",\"expires\":1893456000.999}"));
    assert_int_equal(target(state)->expires, 1893456000);

    nsf_assert_good(decode(state, "{\"path\":\"a\",\"expires\":1.5e9}"));
    assert_int_equal(target(state)->expires, 1500000000);
}


/* 0 in a target means that a record never expires; 1970 is long gone */

static void
expires_zero_has_expired(void **state)
{
    nsf_assert_good(decode(state, "{\"path\":\"a\",\"expires\":0}"));
    assert_int_equal(target(state)->expires, 1);

    nsf_assert_good(decode(state, "{\"path\":\"a\",\"expires\":0.9}"));
    assert_int_equal(target(state)->expires, 1);
}


static void
expires_negative(void **state)
{
    nsf_assert_error(decode(state, "{\"path\":\"a\",\"expires\":-1}"),
                     "\"expires\" out of range");
    nsf_assert_error(decode(state, "{\"path\":\"a\",\"expires\":-0.5}"),
                     "\"expires\" out of range");
    nsf_assert_error(decode(state, "{\"path\":\"a\",\"expires\":-1e300}"),
                     "\"expires\" out of range");
}


static void
expires_absurd(void **state)
{
    nsf_assert_good(decode(state,
        "{\"path\":\"a\",\"expires\":253402300799}"));
    assert_int_equal(target(state)->expires, 253402300799);

    nsf_assert_error(decode(state,
        "{\"path\":\"a\",\"expires\":253402300800}"),
        "\"expires\" out of range");
    nsf_assert_error(decode(state,
        "{\"path\":\"a\",\"expires\":9223372036854775808}"),
        "\"expires\" out of range");
    nsf_assert_error(decode(state, "{\"path\":\"a\",\"expires\":1e308}"),
                     "\"expires\" out of range");
}


static void
expires_of_wrong_type(void **state)
{
    nsf_assert_error(decode(state, "{\"path\":\"a\",\"expires\":\"1\"}"),
                     "\"expires\" is not a number");
    nsf_assert_error(decode(state, "{\"path\":\"a\",\"expires\":null}"),
                     "\"expires\" is not a number");
    nsf_assert_error(decode(state, "{\"path\":\"a\",\"expires\":true}"),
                     "\"expires\" is not a number");
}


static void
headers_empty(void **state)
{
    nsf_assert_good(decode(state, "{\"path\":\"a\",\"headers\":{}}"));
    assert_null(target(state)->headers);
    assert_int_equal(target(state)->nheaders, 0);
}


static void
headers_of_wrong_type(void **state)
{
    nsf_assert_error(decode(state, "{\"path\":\"a\",\"headers\":[]}"),
                     "\"headers\" is not an object");
    nsf_assert_error(decode(state, "{\"path\":\"a\",\"headers\":null}"),
                     "\"headers\" is not an object");
    nsf_assert_error(decode(state, "{\"path\":\"a\",\"headers\":\"ETag\"}"),
                     "\"headers\" is not an object");
    nsf_assert_error(decode(state, "{\"path\":\"a\",\"headers\":1}"),
                     "\"headers\" is not an object");
}


static const char * const  allowed[] = {
    "Cache-Control", "Expires", "ETag", "Last-Modified", "Content-Language",
    "Content-Encoding", "Vary", "Link", "Content-Security-Policy",
    "X-Robots-Tag", "X-Frame-Options", "Access-Control-Allow-Origin",
    "Access-Control-Expose-Headers", "Access-Control-azAZ09-",
    "ACCESS-CONTROL-Z", "CACHE-CONTROL"
};


static void
headers_each_allowed_one(void **state)
{
    size_t  i;

    for (i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++) {
        nsf_assert_good(decode_f(state,
            "{\"path\":\"a\",\"headers\":{\"%s\":\"v\"}}", allowed[i]));
        assert_int_equal(target(state)->nheaders, 1);
        assert_header(state, 0, allowed[i], "v");
    }
}


static void
headers_in_any_case(void **state)
{
    nsf_assert_good(decode(state, "{\"path\":\"a\",\"headers\":{"
        "\"cache-control\":\"1\",\"ETAG\":\"2\",\"vArY\":\"3\","
        "\"ACCESS-CONTROL-ALLOW-ORIGIN\":\"*\"}}"));

    assert_int_equal(target(state)->nheaders, 4);
    assert_header(state, 0, "cache-control", "1");
    assert_header(state, 1, "ETAG", "2");
    assert_header(state, 2, "vArY", "3");
    assert_header(state, 3, "ACCESS-CONTROL-ALLOW-ORIGIN", "*");
}


static void
headers_others_are_ignored(void **state)
{
    size_t  i;

    static const char * const  ignored[] = {
        "Set-Cookie", "Content-Type", "Content-Length", "Location", "Server",
        "Transfer-Encoding", "Connection", "X-Accel-Redirect", "X-Sendfile",
        "X-Custom", "Content-Disposition", "ETa", "ETagX", "E-Tag", "", " ",
        "Cache_Control", "Cache-Control ", " Cache-Control", "X-ETag",
        "Access-Control", "Access-Control-", "Access_Control_Allow_Origin",
        "\xe2\x84\xaa"
    };

    for (i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++) {
        nsf_assert_good(decode_f(state,
            "{\"path\":\"a\",\"headers\":{\"%s\":\"v\"}}", ignored[i]));
        assert_null(target(state)->headers);
        assert_int_equal(target(state)->nheaders, 0);
    }
}


/* what follows the prefix must not end the name */

static void
headers_cors_name_is_a_token(void **state)
{
    size_t  i;

    static const char * const  ignored[] = {
        "Access-Control-X: y", "Access-Control-X:", "Access-Control- X",
        "Access-Control-X ", "Access-Control-\xc3\xa4", "Access-Control-X,Y",
        "Access-Control-\\\"", "Access-Control-a_b"
    };

    for (i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++) {
        nsf_assert_good(decode_f(state,
            "{\"path\":\"a\",\"headers\":{\"%s\":\"v\"}}", ignored[i]));
        assert_int_equal(target(state)->nheaders, 0);
    }
}


static void
headers_ignored_between_allowed(void **state)
{
    nsf_assert_good(decode(state, "{\"path\":\"a\",\"headers\":{"
        "\"Set-Cookie\":\"a=b\",\"Vary\":\"1\",\"X-A\":[],\"Link\":\"2\","
        "\"X-B\":null}}"));

    assert_int_equal(target(state)->nheaders, 2);
    assert_header(state, 0, "Vary", "1");
    assert_header(state, 1, "Link", "2");
}


static void
headers_value_of_wrong_type(void **state)
{
    nsf_assert_error(decode(state,
        "{\"path\":\"a\",\"headers\":{\"Expires\":0}}"),
        "header value is not a string");
    nsf_assert_error(decode(state,
        "{\"path\":\"a\",\"headers\":{\"ETag\":null}}"),
        "header value is not a string");
    nsf_assert_error(decode(state,
        "{\"path\":\"a\",\"headers\":{\"Vary\":[\"Accept\"]}}"),
        "header value is not a string");
}


static void
headers_value_empty(void **state)
{
    nsf_assert_good(decode(state,
        "{\"path\":\"a\",\"headers\":{\"Vary\":\"\"}}"));
    assert_int_equal(target(state)->nheaders, 1);
    assert_header(state, 0, "Vary", "");
}


static void
headers_value_each_control_byte(void **state)
{
    unsigned     c;
    const char  *err;

    for (c = 1; c < 0x80; c++) {
        err = decode_f(state,
            "{\"path\":\"a\",\"headers\":{\"ETag\":\"x\\u%04xy\"}}", c);

        if ((c < 0x20 && c != '\t') || c == 0x7f) {
            nsf_assert_error(err, "control byte in header value");

        } else {
            nsf_assert_good(err);
            assert_int_equal(target(state)->headers[0].value.data[1], c);
        }
    }
}


static void
headers_name_each_control_byte(void **state)
{
    unsigned  c;

    for (c = 1; c < 0x20; c++) {
        nsf_assert_error(decode_f(state,
            "{\"path\":\"a\",\"headers\":{\"ETag\\u%04x\":\"x\"}}", c),
            "control byte in header name");
    }

    nsf_assert_error(decode(state,
        "{\"path\":\"a\",\"headers\":{\"Access-Control-\\u007f\":\"x\"}}"),
        "control byte in header name");
}


static void
headers_line_break_in_an_ignored_one(void **state)
{
    nsf_assert_error(decode(state,
        "{\"path\":\"a\",\"headers\":{\"X-A\":\"1\\r\\nSet-Cookie: a=b\"}}"),
        "control byte in header value");
    nsf_assert_error(decode(state,
        "{\"path\":\"a\",\"headers\":{\"X-A\\r\\nX-B\":\"1\"}}"),
        "control byte in header name");
    nsf_assert_error(decode(state,
        "{\"path\":\"a\",\"headers\":{\"X-A\\nX-B\":1}}"),
        "control byte in header name");
}


static void
headers_value_utf8(void **state)
{
    nsf_assert_good(decode(state,
        "{\"path\":\"a\",\"headers\":{\"Link\":\"\xc3\xa4\"}}"));
    assert_header(state, 0, "Link", "\xc3\xa4");
}


static void
headers_twice_in_another_case(void **state)
{
    nsf_assert_error(decode(state,
        "{\"path\":\"a\",\"headers\":{\"ETag\":\"1\",\"etag\":\"2\"}}"),
        "header given twice");
    nsf_assert_error(decode(state, "{\"path\":\"a\",\"headers\":{"
        "\"Access-Control-Max-Age\":\"1\",\"Vary\":\"x\","
        "\"access-control-max-age\":\"1\"}}"),
        "header given twice");
    nsf_assert_error(decode(state, "{\"path\":\"a\",\"headers\":{"
        "\"Vary\":\"1\",\"Link\":\"2\",\"LINK\":\"3\"}}"),
        "header given twice");
}


static void
headers_ignored_twice_in_another_case(void **state)
{
    nsf_assert_good(decode(state,
        "{\"path\":\"a\",\"headers\":{\"X-A\":\"1\",\"x-a\":\"2\"}}"));
    assert_int_equal(target(state)->nheaders, 0);
}


static void
headers_as_many_as_allowed(void **state)
{
    char    *json, name[32], value[16];
    size_t   i;

    json = many_headers(NSF_MAX_HEADERS, "Access-Control-");
    nsf_assert_good(decode(state, json));
    free(json);

    assert_int_equal(target(state)->nheaders, NSF_MAX_HEADERS);

    for (i = 0; i < NSF_MAX_HEADERS; i++) {
        snprintf(name, sizeof(name), "Access-Control-%u", (unsigned) i);
        snprintf(value, sizeof(value), "v%u", (unsigned) i);
        assert_header(state, i, name, value);
    }
}


static void
headers_one_too_many(void **state)
{
    char  *json;

    json = many_headers(NSF_MAX_HEADERS + 1, "Access-Control-");
    nsf_assert_error(decode(state, json), "too many headers");
    free(json);
}


static void
headers_thousands_too_many(void **state)
{
    char  *json;

    json = many_headers(2000, "Access-Control-");
    nsf_assert_error(decode(state, json), "too many headers");
    free(json);
}


static void
headers_ignored_ones_do_not_count(void **state)
{
    char             *json;
    nsf_json_test_t  *ctx;

    ctx = *state;

    json = many_headers(2000, "X-");
    nsf_assert_good(decode(state, json));
    free(json);

    assert_int_equal(target(state)->nheaders, 0);

    /* the path */

    assert_int_equal(ctx->tp.calls, 1);
}


int
main(void)
{
    static const struct CMUnitTest  tests[] = {
        json_test(type_of_wrong_type),
        json_test(type_with_control_byte),
        json_test(type_empty_is_none),
        json_test(type_with_parameter),
        json_test(name_of_wrong_type),
        json_test(name_with_control_byte),
        json_test(name_utf8),
        json_test(name_with_quotes_and_slashes),
        json_test(name_alone_means_inline),
        json_test(name_empty_is_none),
        json_test(disposition_inline),
        json_test(disposition_attachment),
        json_test(disposition_of_a_name),
        json_test(disposition_other),
        json_test(disposition_of_wrong_type),
        json_test(expires_integer),
        json_test(expires_real_is_truncated),
        json_test(expires_zero_has_expired),
        json_test(expires_negative),
        json_test(expires_absurd),
        json_test(expires_of_wrong_type),
        json_test(headers_empty),
        json_test(headers_of_wrong_type),
        json_test(headers_each_allowed_one),
        json_test(headers_in_any_case),
        json_test(headers_others_are_ignored),
        json_test(headers_cors_name_is_a_token),
        json_test(headers_ignored_between_allowed),
        json_test(headers_value_of_wrong_type),
        json_test(headers_value_empty),
        json_test(headers_value_each_control_byte),
        json_test(headers_name_each_control_byte),
        json_test(headers_line_break_in_an_ignored_one),
        json_test(headers_value_utf8),
        json_test(headers_twice_in_another_case),
        json_test(headers_ignored_twice_in_another_case),
        json_test(headers_as_many_as_allowed),
        json_test(headers_one_too_many),
        json_test(headers_thousands_too_many),
        json_test(headers_ignored_ones_do_not_count),
    };

    return cmocka_run_group_tests_name("nsf_json fields", tests, NULL, NULL);
}
