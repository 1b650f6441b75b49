/*
 * Copyright (C) the ngx_sendfile authors
 */


#include "nsf_test.h"
#include "nsf_blob.h"


/* what there is, NULL if nothing */

static void
assert_url(const char *uri, int records, nsf_blob_e kind, int proxy,
    const char *token, const char *variation)
{
    int              found;
    nsf_blob_url_t   url;
    nsf_test_buf_t   buf;

    buf = nsf_test_copy(uri, strlen(uri));
    found = nsf_blob_url(&url, buf.data, buf.len, records);

    assert_int_equal(found, token != NULL);

    if (found) {
        assert_int_equal(url.kind, kind);
        assert_int_equal(url.proxy, proxy);
        assert_int_equal(url.token.len, strlen(token));
        assert_memory_equal(url.token.data, token, url.token.len);
        assert_int_equal(url.variation.len, strlen(variation));

        if (url.variation.len) {
            assert_memory_equal(url.variation.data, variation,
                                url.variation.len);
        }
    }

    nsf_test_free(&buf);
}


static void
assert_token(const char *uri, const char *expected)
{
    assert_url(uri, 0, NSF_BLOB_DISK, 0, expected, "");
    assert_url(uri, 1, NSF_BLOB_DISK, 0, expected, "");
}


static void
assert_record(const char *uri, int proxy, const char *expected)
{
    assert_url(uri, 1, NSF_BLOB_RECORD, proxy, expected, "");
    assert_url(uri, 0, NSF_BLOB_RECORD, proxy, NULL, "");
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


static void
record(void **state)
{
    (void) state;

    assert_record("/rails/active_storage/blobs/redirect/ab--1/n.jpg?a=/b/", 0,
                  "ab--1");
    assert_record("/blobs/proxy/ab--1/n", 1, "ab--1");
    assert_record("/blobs/ab--1/n/m", 0, "ab--1");
    assert_record("/blobs/redirection/n", 0, "redirection");
    assert_record("/blobs/redirect/redirect/n", 0, "redirect");

    assert_record("/blobs", 0, NULL);
    assert_record("/blobs/", 0, NULL);
    assert_record("/blobs/a", 0, NULL);
    assert_record("/blobs/a/", 0, NULL);
    assert_record("/blobs//n", 0, NULL);
    assert_record("/blobs/redirect/n", 0, NULL);
    assert_record("/blobs/proxy//n", 0, NULL);
    assert_record("/blob/a/n", 0, NULL);
}


static void
representation(void **state)
{
    (void) state;

    assert_url("/x/representations/redirect/ab--1/cd--2/n", 1,
               NSF_BLOB_REPRESENTATION, 0, "ab--1", "cd--2");
    assert_url("/x/representations/proxy/ab--1/cd--2/n/m", 1,
               NSF_BLOB_REPRESENTATION, 1, "ab--1", "cd--2");
    assert_url("/x/representations/ab--1/cd--2/n", 1,
               NSF_BLOB_REPRESENTATION, 0, "ab--1", "cd--2");

    assert_url("/representations/ab--1/cd--2/", 1, NSF_BLOB_DISK, 0, NULL, "");
    assert_url("/representations/ab--1/cd--2", 1, NSF_BLOB_DISK, 0, NULL, "");
    assert_url("/representations/ab--1//n", 1, NSF_BLOB_DISK, 0, NULL, "");
    assert_url("/representations/proxy/ab--1/n", 1, NSF_BLOB_DISK, 0, NULL,
               "");
}


static void
first_word_counts(void **state)
{
    (void) state;

    assert_url("/blobs/a/disk/b/c", 1, NSF_BLOB_RECORD, 0, "a", "");
    assert_url("/blobs/a/disk/b/c", 0, NSF_BLOB_DISK, 0, "b", "");
    assert_url("/disk/a/blobs/b/c", 1, NSF_BLOB_DISK, 0, "a", "");
}


static nsf_disposition_e
asked(const char *args)
{
    nsf_test_buf_t     buf;
    nsf_disposition_e  found;

    buf = nsf_test_copy(args, strlen(args));
    found = nsf_blob_asked(buf.data, buf.len);

    nsf_test_free(&buf);

    return found;
}


static void
disposition(void **state)
{
    (void) state;

    assert_int_equal(asked(""), NSF_DISPOSITION_NONE);
    assert_int_equal(asked("a=b&dispositions=attachment"),
                     NSF_DISPOSITION_NONE);
    assert_int_equal(asked("=attachment"), NSF_DISPOSITION_NONE);

    assert_int_equal(asked("disposition=attachment"),
                     NSF_DISPOSITION_ATTACHMENT);
    assert_int_equal(asked("a=1&disposition=attachment&b"),
                     NSF_DISPOSITION_ATTACHMENT);
    assert_int_equal(asked("a;disposition=attachment"),
                     NSF_DISPOSITION_ATTACHMENT);
    assert_int_equal(asked("%64%69%73position=%61ttachment"),
                     NSF_DISPOSITION_ATTACHMENT);
    assert_int_equal(asked("disposition=inline&disposition=attachment"),
                     NSF_DISPOSITION_ATTACHMENT);

    assert_int_equal(asked("disposition=inline"), NSF_DISPOSITION_INLINE);
    assert_int_equal(asked("disposition"), NSF_DISPOSITION_INLINE);
    assert_int_equal(asked("disposition="), NSF_DISPOSITION_INLINE);
    assert_int_equal(asked("disposition=%zz"), NSF_DISPOSITION_INLINE);
    assert_int_equal(asked("disposition=attachments"), NSF_DISPOSITION_INLINE);
    assert_int_equal(asked("disposition=attachment&disposition=x"),
                     NSF_DISPOSITION_INLINE);
}


static void
assert_serving(const char *type, nsf_disposition_e said, const char *expected,
    nsf_disposition_e disposition)
{
    nsf_target_t  t;

    memset(&t, 0, sizeof(nsf_target_t));

    t.type.data = (const unsigned char *) type;
    t.type.len = strlen(type);
    t.disposition = said;

    nsf_blob_serving(&t);

    assert_int_equal(t.disposition, disposition);
    assert_int_equal(t.type.len, strlen(expected));
    assert_memory_equal(t.type.data, expected, t.type.len);
}


static void
serving(void **state)
{
    static const char  binary[] = "application/octet-stream";

    (void) state;

    assert_serving("image/png", NSF_DISPOSITION_NONE, "image/png",
                   NSF_DISPOSITION_INLINE);
    assert_serving("application/pdf", NSF_DISPOSITION_NONE, "application/pdf",
                   NSF_DISPOSITION_INLINE);
    assert_serving("text/plain", NSF_DISPOSITION_NONE, "text/plain",
                   NSF_DISPOSITION_ATTACHMENT);
    assert_serving("image/pngx", NSF_DISPOSITION_NONE, "image/pngx",
                   NSF_DISPOSITION_ATTACHMENT);
    assert_serving("image/png; x", NSF_DISPOSITION_NONE, "image/png; x",
                   NSF_DISPOSITION_ATTACHMENT);
    assert_serving("text/html", NSF_DISPOSITION_NONE, binary,
                   NSF_DISPOSITION_ATTACHMENT);
    assert_serving("text/html", NSF_DISPOSITION_NAMED, binary,
                   NSF_DISPOSITION_ATTACHMENT);
    assert_serving("image/gif", NSF_DISPOSITION_NAMED, "image/gif",
                   NSF_DISPOSITION_INLINE);
    assert_serving("Text/HTML; charset=utf-8", NSF_DISPOSITION_NONE, binary,
                   NSF_DISPOSITION_ATTACHMENT);
    assert_serving("image/svg+xml", NSF_DISPOSITION_NONE, binary,
                   NSF_DISPOSITION_ATTACHMENT);
    assert_serving("", NSF_DISPOSITION_NONE, binary,
                   NSF_DISPOSITION_ATTACHMENT);

    /* who has written the record has lists of their own */

    assert_serving("image/svg+xml", NSF_DISPOSITION_INLINE, "image/svg+xml",
                   NSF_DISPOSITION_INLINE);
    assert_serving("", NSF_DISPOSITION_INLINE, binary,
                   NSF_DISPOSITION_INLINE);
}


static void
assert_name(const char *name, const char *expected)
{
    size_t          n;
    nsf_str_t       s;
    unsigned char   out[64];

    s.data = (const unsigned char *) name;
    s.len = strlen(name);

    n = nsf_blob_name(out, &s);

    assert_int_equal(n, strlen(expected));
    assert_memory_equal(out, expected, n);
}


static void
names(void **state)
{
    (void) state;

    assert_name("", "");
    assert_name("a b.jpg", "a b.jpg");
    assert_name("h\xc3\xa9.txt", "h\xc3\xa9.txt");
    assert_name("a/b\\c:d;e|f$g%h", "a-b-c-d-e-f-g-h");
    assert_name("<a>?*\"", "-a----");
    assert_name("exe\xe2\x80\xaegpj", "exe-gpj");
    assert_name("\xe2\x80", "\xe2\x80");
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
        cmocka_unit_test(record),
        cmocka_unit_test(representation),
        cmocka_unit_test(first_word_counts),
        cmocka_unit_test(disposition),
        cmocka_unit_test(serving),
        cmocka_unit_test(names),
        cmocka_unit_test(folders),
        cmocka_unit_test(slash_in_the_folders),
        cmocka_unit_test(refused),
    };

    return cmocka_run_group_tests_name("nsf_blob", tests, NULL, NULL);
}
