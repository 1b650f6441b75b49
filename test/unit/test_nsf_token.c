/*
 * Copyright (C) the ngx_sendfile authors
 */


#include "nsf_test.h"
#include "nsf_token.h"


static void
assert_segment(const char *uri, const char *expected)
{
    nsf_str_t       s;
    nsf_test_buf_t  buf;

    buf = nsf_test_copy(uri, strlen(uri));
    nsf_token_segment(&s, buf.data, buf.len);

    assert_int_equal(s.len, strlen(expected));
    assert_memory_equal(s.data, expected, s.len);

    nsf_test_free(&buf);
}


static void
segment(void **state)
{
    (void) state;

    assert_segment("/a/b", "b");
    assert_segment("/a/b?c/d", "b");
    assert_segment("/a%2Fb", "a%2Fb");
    assert_segment("/a/", "");
    assert_segment("a", "a");
    assert_segment("", "");
    assert_segment("?a/b", "");
}


static const char *
unescape(const char *text, const char *expected)
{
    size_t           n;
    const char      *err;
    nsf_test_buf_t   buf, out;

    buf = nsf_test_copy(text, strlen(text));
    out = nsf_test_copy(text, strlen(text));

    err = nsf_token_unescape(out.data, &n, buf.data, buf.len);

    if (err == NULL) {
        assert_int_equal(n, strlen(expected));
        assert_memory_equal(out.data, expected, n);

        /* in place, too */

        assert_null(nsf_token_unescape(buf.data, &n, buf.data, buf.len));
        assert_int_equal(n, strlen(expected));
        assert_memory_equal(buf.data, expected, n);
    }

    nsf_test_free(&out);
    nsf_test_free(&buf);

    return err;
}


static void
percent_encoding(void **state)
{
    (void) state;

    nsf_assert_good(unescape("", ""));
    nsf_assert_good(unescape("a+b", "a+b"));
    nsf_assert_good(unescape("%3D%3d%2F", "==/"));
    nsf_assert_good(unescape("%2541", "%41"));
    nsf_assert_good(unescape("%41a long text moves%42 as well",
                             "Aa long text movesB as well"));
    nsf_assert_error(unescape("%", ""), "broken percent-encoding");
    nsf_assert_error(unescape("%4", ""), "broken percent-encoding");
    nsf_assert_error(unescape("a%4g", ""), "broken percent-encoding");
    nsf_assert_error(unescape("%%41", ""), "broken percent-encoding");
}


static const char *
rails(const char *text, nsf_token_t *t)
{
    return nsf_token_rails(t, (const unsigned char *) text, strlen(text), 4);
}


static void
rails_from_the_end(void **state)
{
    nsf_token_t  t;

    (void) state;

    nsf_assert_good(rails("abc--1234", &t));
    nsf_assert_str(t.text, "abc");
    nsf_assert_str(t.mac, "1234");

    nsf_assert_good(rails("a--bc--1234", &t));
    nsf_assert_str(t.text, "a--bc");

    nsf_assert_good(rails("a----34", &t));
    nsf_assert_str(t.text, "a");
    nsf_assert_str(t.mac, "--34");
}


static void
rails_broken(void **state)
{
    nsf_token_t  t;

    (void) state;

    nsf_assert_error(rails("", &t), "token too short");
    nsf_assert_error(rails("--1234", &t), "token too short");
    nsf_assert_error(rails("abc-1234", &t), "no signature in token");
    nsf_assert_error(rails("abc--12345", &t), "no signature in token");
    nsf_assert_error(rails("abc1234--", &t), "no signature in token");
}


static void
django(void **state)
{
    nsf_token_t  t;

    (void) state;

    nsf_assert_good(nsf_token_django(&t, (const unsigned char *) "a:b:sig",
                                     7));
    nsf_assert_str(t.text, "a:b");
    nsf_assert_str(t.mac, "sig");

    nsf_assert_good(nsf_token_django(&t, (const unsigned char *) ":", 1));
    assert_int_equal(t.text.len, 0);
    assert_int_equal(t.mac.len, 0);

    nsf_assert_error(nsf_token_django(&t, (const unsigned char *) "abc", 3),
                     "no signature in token");
}


static const char *
stamp(const char *text, int64_t expected)
{
    int64_t      sec;
    nsf_str_t    s, value;
    const char  *err;

    s.data = (const unsigned char *) text;
    s.len = strlen(text);

    err = nsf_token_stamp(&value, &sec, &s);

    if (err == NULL) {
        assert_int_equal(sec, expected);
    }

    return err;
}


static void
django_time(void **state)
{
    (void) state;

    nsf_assert_good(stamp("files/1.jpg:1xV5jh", 1795346877));
    nsf_assert_good(stamp("a:b:0", 0));
    nsf_assert_good(stamp(":z", 61));
    nsf_assert_error(stamp("a", 0), "no time in token");
    nsf_assert_error(stamp("a:", 0), "no time in token");
    nsf_assert_error(stamp("a:-1", 0), "broken time in token");
    nsf_assert_error(stamp("a:zzzzzzzzzzzzzzzzzzzzzzzzzzzzzz", 0),
                     "broken time in token");
}


int
main(void)
{
    static const struct CMUnitTest  tests[] = {
        cmocka_unit_test(segment),
        cmocka_unit_test(percent_encoding),
        cmocka_unit_test(rails_from_the_end),
        cmocka_unit_test(rails_broken),
        cmocka_unit_test(django),
        cmocka_unit_test(django_time),
    };

    return cmocka_run_group_tests_name("nsf_token", tests, NULL, NULL);
}
