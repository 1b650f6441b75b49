/*
 * Copyright (C) the ngx_sendfile authors
 */


#include "nsf_test.h"
#include "nsf_blob.h"


/* the token, NULL if there is none */

static void
assert_token(const char *uri, const char *expected)
{
    int             found;
    nsf_str_t       token;
    nsf_test_buf_t  buf;

    buf = nsf_test_copy(uri, strlen(uri));
    found = nsf_blob_token(&token, buf.data, buf.len);

    assert_int_equal(found, expected != NULL);

    if (found) {
        assert_int_equal(token.len, strlen(expected));
        assert_memory_equal(token.data, expected, token.len);
    }

    nsf_test_free(&buf);
}


static void
token(void **state)
{
    (void) state;

    assert_token("/rails/active_storage/disk/abc--1/name.jpg", "abc--1");
    assert_token("/disk/abc/n?x=/disk/d/e", "abc");
    assert_token("/disk/%2Fa%3D/n", "%2Fa%3D");
    assert_token("/disk/a/b/c", "a");
}


static void
first_one_counts(void **state)
{
    (void) state;

    assert_token("/disk/a/disk/b/c", "a");
    assert_token("/disk/disk/b/c", "disk");
}


static void
no_token(void **state)
{
    (void) state;

    assert_token("", NULL);
    assert_token("/", NULL);
    assert_token("/disk", NULL);
    assert_token("/disk/", NULL);
    assert_token("/disk/a", NULL);
    assert_token("/disk/a/", NULL);
    assert_token("/disk//a", NULL);
    assert_token("/disks/a/b", NULL);
    assert_token("disk/a/b", NULL);
    assert_token("/x?/disk/a/b", NULL);
    assert_token("/disk/a?/b", NULL);
}


static const char *
path(const char *key, const char *expected)
{
    size_t           n;
    nsf_str_t        s;
    const char      *err;
    unsigned char   *out;
    nsf_test_buf_t   buf;

    buf = nsf_test_copy(key, strlen(key));
    s.data = buf.data;
    s.len = buf.len;

    out = malloc(buf.len + NSF_BLOB_FOLDERS);
    assert_non_null(out);

    err = nsf_blob_path(out, &n, &s);

    if (err == NULL) {
        assert_int_equal(n, strlen(expected));
        assert_memory_equal(out, expected, n);
    }

    free(out);
    nsf_test_free(&buf);

    return err;
}


static void
folders(void **state)
{
    (void) state;

    nsf_assert_good(path("iaz0tj96y7moxhu8", "ia/z0/iaz0tj96y7moxhu8"));
    nsf_assert_good(path("abcd", "ab/cd/abcd"));
    nsf_assert_good(path("variants/a/b", "va/ri/variants/a/b"));
    nsf_assert_good(path("abcd\xc3\xa9", "ab/cd/abcd\xc3\xa9"));
}


/* File.join("root", "a/", "bc", "a/bcd") has "//", which the system does not */

static void
slash_in_the_folders(void **state)
{
    (void) state;

    nsf_assert_good(path("a/bcd", "a/bc/a/bcd"));
    nsf_assert_good(path("ab/cd", "ab/c/ab/cd"));
    nsf_assert_good(path("abc/d", "ab/c/abc/d"));
    nsf_assert_good(path("a/b/c", "a/b/a/b/c"));
}


static void
refused(void **state)
{
    (void) state;

    assert_non_null(path("", ""));
    nsf_assert_error(path("abc", ""), "key too short");
    nsf_assert_error(path("ab\xc3\xa9", ""), "key not ASCII");
    assert_non_null(path("/abcd", ""));
    assert_non_null(path("../etc/passwd", ""));
    assert_non_null(path("abcd/../../x", ""));
    assert_non_null(path("abcd/..", ""));
    assert_non_null(path("abcd//x", ""));
    assert_non_null(path("abcd/", ""));
    assert_non_null(path("abcd/./x", ""));
    assert_non_null(path("ab\ncd", ""));

    /* whose folders would be ".." */
    assert_non_null(path("..abcd", ""));
    assert_non_null(path("ab..cd", ""));
    assert_non_null(path("./abcd", ""));
}


int
main(void)
{
    static const struct CMUnitTest  tests[] = {
        cmocka_unit_test(token),
        cmocka_unit_test(first_one_counts),
        cmocka_unit_test(no_token),
        cmocka_unit_test(folders),
        cmocka_unit_test(slash_in_the_folders),
        cmocka_unit_test(refused),
    };

    return cmocka_run_group_tests_name("nsf_blob", tests, NULL, NULL);
}
