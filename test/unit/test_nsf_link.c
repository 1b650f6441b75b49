/*
 * Copyright (C) the ngx_sendfile authors
 */


#include "nsf_test.h"
#include "nsf_link.h"


/* "text" is what is signed, NULL if the URI is refused */

static const char *
parse(const char *uri, const char *text)
{
    size_t           n;
    const char      *err;
    nsf_link_t       l;
    nsf_test_buf_t   buf, out;

    buf = nsf_test_copy(uri, strlen(uri));
    out = nsf_test_copy(uri, strlen(uri));

    err = nsf_link_parse(&l, buf.data, buf.len);

    if (err == NULL) {
        n = nsf_link_text(&l, out.data);

        assert_non_null(text);
        assert_int_equal(n, strlen(text));
        assert_memory_equal(out.data, text, n);
    }

    nsf_test_free(&out);
    nsf_test_free(&buf);

    return err;
}


static void
signature_is_taken_out(void **state)
{
    (void) state;

    nsf_assert_good(parse("/a?signature=x", "/a"));
    nsf_assert_good(parse("/a?b=1&signature=x", "/a?b=1"));
    nsf_assert_good(parse("/a?signature=x&b=1", "/a?b=1"));
    nsf_assert_good(parse("/a?b=1&signature=x&c=2", "/a?b=1&c=2"));
    nsf_assert_good(parse("/?signature=", "/"));
}


static void
rest_is_as_it_stands(void **state)
{
    (void) state;

    nsf_assert_good(parse("/%41//..?b&&=%zz&signature=x&&c=?",
                          "/%41//..?b&&=%zz&&c=?"));
    nsf_assert_good(parse("/a?&signature=x", "/a?"));
    nsf_assert_good(parse("/a?signature=x&", "/a?"));
    nsf_assert_good(parse("/a?signature2=1&xsignature=2&signature=x",
                          "/a?signature2=1&xsignature=2"));
}


static void
no_signature(void **state)
{
    (void) state;

    nsf_assert_error(parse("/a", NULL), "no signature");
    nsf_assert_error(parse("/a?", NULL), "no signature");
    nsf_assert_error(parse("/a?signature", NULL), "no signature");
    nsf_assert_error(parse("/a?Signature=x", NULL), "no signature");
    nsf_assert_error(parse("/a?%73ignature=x", NULL), "no signature");
    nsf_assert_error(parse("/signature=x", NULL), "no signature");
}


static void
two_of_them(void **state)
{
    (void) state;

    nsf_assert_error(parse("/a?signature=x&signature=x", NULL),
                     "more than one signature");
    nsf_assert_error(parse("/a?expires=1&signature=x&expires=2", NULL),
                     "more than one time of expiry");
}


static void
not_a_path(void **state)
{
    (void) state;

    nsf_assert_error(parse("", NULL), "not a path");
    nsf_assert_error(parse("?signature=x", NULL), "not a path");
    nsf_assert_error(parse("*", NULL), "not a path");
    nsf_assert_error(parse("http://h/a?signature=x", NULL), "not a path");
    nsf_assert_error(parse("/a\n127.0.0.1?signature=x", NULL), "not a path");
    nsf_assert_error(parse("/a b?signature=x", NULL), "not a path");
    nsf_assert_error(parse("/a\x7f?signature=x", NULL), "not a path");
}


static void
parts(void **state)
{
    nsf_link_t        l;
    static const char uri[] = "/a?expires=12&b=1&signature=xyz&c=2";

    (void) state;

    nsf_assert_good(nsf_link_parse(&l, (const unsigned char *) uri,
                                   sizeof(uri) - 1));
    nsf_assert_str(l.path, "/a");
    nsf_assert_str(l.before, "expires=12&b=1");
    nsf_assert_str(l.after, "c=2");
    nsf_assert_str(l.signature, "xyz");
    nsf_assert_str(l.expires, "12");
}


static nsf_until_e
until(const char *expires, int64_t now)
{
    nsf_str_t  s;

    s.data = (const unsigned char *) expires;
    s.len = expires ? strlen(expires) : 0;

    return nsf_link_until(&s, now);
}


static void
expiry(void **state)
{
    (void) state;

    assert_int_equal(until(NULL, 5), NSF_UNTIL_GOOD);
    assert_int_equal(until("5", 4), NSF_UNTIL_GOOD);
    assert_int_equal(until("5", 5), NSF_UNTIL_GOOD);
    assert_int_equal(until("5", 6), NSF_UNTIL_OVER);
    assert_int_equal(until("0", 6), NSF_UNTIL_OVER);
    assert_int_equal(until("999999999999999999", INT64_C(4000000000)),
                     NSF_UNTIL_GOOD);
}


static void
no_time(void **state)
{
    (void) state;

    assert_int_equal(until("", 5), NSF_UNTIL_BROKEN);
    assert_int_equal(until("-5", 5), NSF_UNTIL_BROKEN);
    assert_int_equal(until("+9", 5), NSF_UNTIL_BROKEN);
    assert_int_equal(until("9e9", 5), NSF_UNTIL_BROKEN);
    assert_int_equal(until("%39", 5), NSF_UNTIL_BROKEN);
    assert_int_equal(until("1000000000000000000", 5), NSF_UNTIL_BROKEN);
}


static const char *
imgproxy(const char *prefix, const char *uri, const char *signature,
    const char *rest)
{
    nsf_str_t        p, s, r;
    const char      *err;
    nsf_test_buf_t   buf;

    p.data = (const unsigned char *) prefix;
    p.len = strlen(prefix);

    buf = nsf_test_copy(uri, strlen(uri));
    err = nsf_imgproxy_parse(&s, &r, &p, buf.data, buf.len);

    if (err == NULL) {
        assert_int_equal(s.len, strlen(signature));
        assert_memory_equal(s.data, signature, s.len);
        assert_int_equal(r.len, strlen(rest));
        assert_memory_equal(r.data, rest, r.len);
    }

    nsf_test_free(&buf);

    return err;
}


static void
imgproxy_parts(void **state)
{
    (void) state;

    nsf_assert_good(imgproxy("", "/sig/w:5/plain/x", "sig", "/w:5/plain/x"));
    nsf_assert_good(imgproxy("/img", "/img/sig/x", "sig", "/x"));
    nsf_assert_good(imgproxy("", "/sig/x?y", "sig", "/x"));
    nsf_assert_good(imgproxy("", "//x", "", "/x"));
    nsf_assert_error(imgproxy("", "/sig", "", ""), "no signature");
    nsf_assert_error(imgproxy("", "", "", ""), "not below the prefix");
    nsf_assert_error(imgproxy("/img", "/img", "", ""), "not below the prefix");
    nsf_assert_error(imgproxy("/img", "/imgs/a/b", "", ""),
                     "not below the prefix");
    nsf_assert_error(imgproxy("/img", "/x/sig/a", "", ""),
                     "not below the prefix");
}


static nsf_until_e
imgproxy_until(const char *rest)
{
    nsf_str_t  s;

    s.data = (const unsigned char *) rest;
    s.len = strlen(rest);

    return nsf_imgproxy_until(&s, 100);
}


static void
imgproxy_expiry(void **state)
{
    (void) state;

    assert_int_equal(imgproxy_until("/w:5/aHR0"), NSF_UNTIL_GOOD);
    assert_int_equal(imgproxy_until("/w:5/exp:100/aHR0"), NSF_UNTIL_GOOD);
    assert_int_equal(imgproxy_until("/w:5/exp:99/aHR0"), NSF_UNTIL_OVER);
    assert_int_equal(imgproxy_until("/expires:99/plain/x"), NSF_UNTIL_OVER);
    assert_int_equal(imgproxy_until("/exp:99"), NSF_UNTIL_OVER);
    assert_int_equal(imgproxy_until("/exp:/x"), NSF_UNTIL_BROKEN);

    /* of the source's own path */
    assert_int_equal(imgproxy_until("/plain/http:/exp:99/x"), NSF_UNTIL_GOOD);
    assert_int_equal(imgproxy_until("/"), NSF_UNTIL_GOOD);
}


int
main(void)
{
    static const struct CMUnitTest  tests[] = {
        cmocka_unit_test(signature_is_taken_out),
        cmocka_unit_test(rest_is_as_it_stands),
        cmocka_unit_test(no_signature),
        cmocka_unit_test(two_of_them),
        cmocka_unit_test(not_a_path),
        cmocka_unit_test(parts),
        cmocka_unit_test(expiry),
        cmocka_unit_test(no_time),
        cmocka_unit_test(imgproxy_parts),
        cmocka_unit_test(imgproxy_expiry),
    };

    return cmocka_run_group_tests_name("nsf_link", tests, NULL, NULL);
}
