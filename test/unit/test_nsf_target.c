/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <string.h>

#include "nsf_test.h"
#include "nsf_target.h"


static const char *
check(const void *path, size_t len)
{
    const char      *err;
    nsf_test_buf_t   buf;

    buf = nsf_test_copy(path, len);
    err = nsf_path_check(buf.data, buf.len);
    nsf_test_free(&buf);

    return err;
}


#define check_str(s)  check(s, sizeof(s) - 1)


static void
path_empty(void **state)
{
    (void) state;

    nsf_assert_error(check("", 0), "empty path");
    nsf_assert_error(nsf_path_check(NULL, 0), "empty path");
}


static void
path_one_byte(void **state)
{
    (void) state;

    nsf_assert_good(check_str("a"));
}


static void
path_of_a_file(void **state)
{
    (void) state;

    nsf_assert_good(check_str("aa/aa.dat"));
}


static void
path_deep(void **state)
{
    (void) state;

    nsf_assert_good(check_str("1/2/3/4/5/6/7/8/9/a/b/c/d/e/f"));
}


static void
path_longest(void **state)
{
    char  path[NSF_MAX_PATH];

    (void) state;

    memset(path, 'p', sizeof(path));
    nsf_assert_good(check(path, sizeof(path)));
}


static void
path_is_4096_bytes_at_most(void **state)
{
    (void) state;

    assert_int_equal(NSF_MAX_PATH, 4096);
}


static void
path_one_too_long(void **state)
{
    char  path[NSF_MAX_PATH + 1];

    (void) state;

    memset(path, 'p', sizeof(path));
    nsf_assert_error(check(path, sizeof(path)), "path too long");
}


static void
path_too_long_is_not_scanned(void **state)
{
    (void) state;

    nsf_assert_error(nsf_path_check((const unsigned char *) "p", SIZE_MAX),
                     "path too long");
}


static void
path_of_most_segments(void **state)
{
    char    path[NSF_MAX_PATH - 1];
    size_t  i;

    (void) state;

    for (i = 0; i < sizeof(path); i++) {
        path[i] = i % 2 ? '/' : 'p';
    }

    nsf_assert_good(check(path, sizeof(path)));
}


static void
path_absolute(void **state)
{
    (void) state;

    nsf_assert_error(check_str("/etc/passwd"), "path starts with \"/\"");
    nsf_assert_error(check_str("/"), "path starts with \"/\"");
    nsf_assert_error(check_str("//"), "path starts with \"/\"");
    nsf_assert_error(check_str("//host/share"), "path starts with \"/\"");
}


static void
path_trailing_slash(void **state)
{
    (void) state;

    nsf_assert_error(check_str("a/"), "path ends with \"/\"");
    nsf_assert_error(check_str("a/b/"), "path ends with \"/\"");
    nsf_assert_error(check_str("a//"), "path ends with \"/\"");
    nsf_assert_error(check_str("../"), "path ends with \"/\"");
}


static void
path_empty_segment(void **state)
{
    (void) state;

    nsf_assert_error(check_str("a//b"), "empty path segment");
    nsf_assert_error(check_str("a///b"), "empty path segment");
    nsf_assert_error(check_str("a/b//c"), "empty path segment");
}


static void
path_dot_segment(void **state)
{
    (void) state;

    nsf_assert_error(check_str("."), "\".\" in path");
    nsf_assert_error(check_str("./a"), "\".\" in path");
    nsf_assert_error(check_str("a/./b"), "\".\" in path");
    nsf_assert_error(check_str("a/."), "\".\" in path");
}


static void
path_dot_dot_segment(void **state)
{
    (void) state;

    nsf_assert_error(check_str(".."), "\"..\" in path");
    nsf_assert_error(check_str("../a"), "\"..\" in path");
    nsf_assert_error(check_str("a/../b"), "\"..\" in path");
    nsf_assert_error(check_str("a/.."), "\"..\" in path");
    nsf_assert_error(check_str("../../etc/passwd"), "\"..\" in path");
    nsf_assert_error(check_str("a/b/c/../../../../d"), "\"..\" in path");
}


static void
path_dots_within_a_name(void **state)
{
    (void) state;

    nsf_assert_good(check_str("..."));
    nsf_assert_good(check_str("...."));
    nsf_assert_good(check_str(".a"));
    nsf_assert_good(check_str("a."));
    nsf_assert_good(check_str("..a"));
    nsf_assert_good(check_str("a.."));
    nsf_assert_good(check_str(".a./..b/c../.../d.e"));
    nsf_assert_good(check_str(". "));
    nsf_assert_good(check_str(" ."));
    nsf_assert_good(check_str(".. "));
}


static void
path_with_nul(void **state)
{
    (void) state;

    nsf_assert_error(check_str("a\0b"), "control byte in path");
    nsf_assert_error(check_str("\0"), "control byte in path");
    nsf_assert_error(check_str("a.jpg\0"), "control byte in path");
    nsf_assert_error(check_str("a/..\0/b"), "control byte in path");
}


static void
path_with_line_break(void **state)
{
    (void) state;

    nsf_assert_error(check_str("a\r\nX: y"), "control byte in path");
    nsf_assert_error(check_str("a\n"), "control byte in path");
    nsf_assert_error(check_str("\ra"), "control byte in path");
}


static void
path_with_tab_or_del(void **state)
{
    (void) state;

    nsf_assert_error(check_str("a\tb"), "control byte in path");
    nsf_assert_error(check_str("a\x7f"), "control byte in path");
}


static void
path_each_byte(void **state)
{
    unsigned       c;
    unsigned char  path[3];

    (void) state;

    for (c = 0; c < 256; c++) {
        path[0] = 'a';
        path[1] = (unsigned char) c;
        path[2] = 'b';

        if (c < 0x20 || c == 0x7f) {
            nsf_assert_error(check(path, 3), "control byte in path");

        } else {
            nsf_assert_good(check(path, 3));
        }
    }
}


static void
path_each_single_byte(void **state)
{
    unsigned       c;
    unsigned char  path;

    (void) state;

    for (c = 0; c < 256; c++) {
        path = (unsigned char) c;

        if (c < 0x20 || c == 0x7f) {
            nsf_assert_error(check(&path, 1), "control byte in path");

        } else if (c == '/') {
            nsf_assert_error(check(&path, 1), "path starts with \"/\"");

        } else if (c == '.') {
            nsf_assert_error(check(&path, 1), "\".\" in path");

        } else {
            nsf_assert_good(check(&path, 1));
        }
    }
}


static void
path_bad_byte_at_each_position(void **state)
{
    char    path[300];
    size_t  i;

    (void) state;

    for (i = 0; i < sizeof(path); i++) {
        memset(path, 'p', sizeof(path));
        path[i] = '\0';
        nsf_assert_error(check(path, sizeof(path)), "control byte in path");
    }
}


static void
path_bytes_are_not_decoded(void **state)
{
    (void) state;

    nsf_assert_good(check_str("%2e%2e/%2e%2e/etc/passwd"));
    nsf_assert_good(check_str("..%2f..%2fetc"));
    nsf_assert_good(check_str("a%00b"));
    nsf_assert_good(check_str("a?b=c#d"));
    nsf_assert_good(check_str("100% a b"));
    nsf_assert_good(check_str("%"));
}


static void
path_backslash_is_a_byte(void **state)
{
    (void) state;

    nsf_assert_good(check_str("..\\..\\x"));
    nsf_assert_good(check_str("\\"));
}


static void
path_utf8(void **state)
{
    (void) state;

    nsf_assert_good(check_str("\xe5\x86\x99\xe7\x9c\x9f/\xe2\x98\x83.jpg"));
}


static void
path_high_bytes_that_are_no_utf8(void **state)
{
    (void) state;

    nsf_assert_good(check_str("\x80\xff/\xc0\xae\xc0\xae/x"));
}


static void
path_spaces(void **state)
{
    (void) state;

    nsf_assert_good(check_str(" "));
    nsf_assert_good(check_str(" a/b "));
}


static void
path_each_prefix(void **state)
{
    size_t             len;
    const char        *expected;
    static const char  path[] = "ab/.c/..d/e";

    (void) state;

    for (len = 0; len <= sizeof(path) - 1; len++) {

        switch (len) {

        case 0:
            expected = "empty path";
            break;

        case 3:
        case 6:
        case 10:
            expected = "path ends with \"/\"";
            break;

        case 4:
        case 7:
            expected = "\".\" in path";
            break;

        case 8:
            expected = "\"..\" in path";
            break;

        default:
            expected = NULL;
            break;
        }

        nsf_assert_error(check(path, len), expected);
    }
}


/* every path of up to 7 bytes over an alphabet that has all the cases */

static void
path_all_short_ones(void **state)
{
    char                  path[7], around[7 + 3];
    size_t                len, i, n, count;
    const char           *err;
    static const char     alphabet[] = "./a\n";

    (void) state;

    count = 1;

    for (len = 1; len <= sizeof(path); len++) {
        count *= 4;

        for (n = 0; n < count; n++) {
            for (i = 0; i < len; i++) {
                path[i] = alphabet[n >> (2 * i) & 3];
            }

            around[0] = '/';
            memcpy(around + 1, path, len);
            around[len + 1] = '/';
            around[len + 2] = '\0';

            err = check(path, len);

            if (strstr(around, "//") != NULL
                || strstr(around, "/./") != NULL
                || strstr(around, "/../") != NULL
                || strchr(around, '\n') != NULL)
            {
                assert_non_null(err);

            } else {
                nsf_assert_good(err);
            }
        }
    }
}


static void
target_has_the_path(void **state)
{
    nsf_target_t         t;
    const unsigned char  path[] = "aa/aa.dat";

    (void) state;

    nsf_assert_good(nsf_target_set_path(&t, path, sizeof(path) - 1));
    assert_ptr_equal(t.path.data, path);
    assert_int_equal(t.path.len, sizeof(path) - 1);
}


static void
target_has_nothing_else(void **state)
{
    nsf_target_t  t;

    (void) state;

    memset(&t, 0xff, sizeof(nsf_target_t));

    nsf_assert_good(nsf_target_set_path(&t, (const unsigned char *) "a", 1));

    assert_int_equal(t.type.len, 0);
    assert_int_equal(t.name.len, 0);
    assert_int_equal(t.disposition, NSF_DISPOSITION_NONE);
    assert_null(t.headers);
    assert_int_equal(t.nheaders, 0);
    assert_int_equal(t.expires, 0);
}


static void
target_of_a_bad_path_is_empty(void **state)
{
    nsf_target_t  t, zero;

    (void) state;

    memset(&t, 0xff, sizeof(nsf_target_t));
    memset(&zero, 0, sizeof(nsf_target_t));

    nsf_assert_error(nsf_target_set_path(&t, (const unsigned char *) "..", 2),
                     "\"..\" in path");

    assert_memory_equal(&t, &zero, sizeof(nsf_target_t));
}


static void
target_passes_each_error_on(void **state)
{
    size_t        i;
    nsf_target_t  t;

    static const struct {
        const char  *path;
        const char  *err;
    } cases[] = {
        { "", "empty path" },
        { "/a", "path starts with \"/\"" },
        { "a/", "path ends with \"/\"" },
        { "a//b", "empty path segment" },
        { "./a", "\".\" in path" },
        { "a/../b", "\"..\" in path" },
        { "a\nb", "control byte in path" },
    };

    (void) state;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        nsf_assert_error(
            nsf_target_set_path(&t, (const unsigned char *) cases[i].path,
                                strlen(cases[i].path)),
            cases[i].err);
    }
}


static void
base_check(void **state)
{
    size_t  i;

    static const char *good[] = { "/", "/a", "/a/", "/a/b", "/a/b/", "/a b/" };

    static const struct {
        const char  *base;
        const char  *err;
    } bad[] = {
        { "//", "path starts with \"/\"" },
        { "/a//", "path ends with \"/\"" },
        { "/a//b", "empty path segment" },
        { "/..", "\"..\" in path" },
        { "/a/../b/", "\"..\" in path" },
        { "/./", "\".\" in path" },
        { "/a\n", "control byte in path" }
    };

    (void) state;

    for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_null(nsf_base_check((const unsigned char *) good[i],
                                   strlen(good[i])));
    }

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_string_equal(nsf_base_check(
                                (const unsigned char *) bad[i].base,
                                strlen(bad[i].base)),
                            bad[i].err);
    }
}


static int
below(const char *base, const char *path, const char *expected)
{
    int        rc;
    nsf_str_t  b, p, rest;

    b.data = (const unsigned char *) base;
    b.len = strlen(base);
    p.data = (const unsigned char *) path;
    p.len = strlen(path);

    rc = nsf_path_below(&b, &p, &rest);

    if (rc) {
        assert_int_equal(rest.len, strlen(expected));
        assert_memory_equal(rest.data, expected, rest.len);
    }

    return rc;
}


static void
below_its_directory(void **state)
{
    (void) state;

    assert_int_equal(below("/data", "/data/a", "a"), 1);
    assert_int_equal(below("/data", "/data/a/b c", "a/b c"), 1);
    assert_int_equal(below("/", "/data/a", "data/a"), 1);
    assert_int_equal(below("/data", "/data//a", "/a"), 1);
    assert_int_equal(below("/data", "/data/", ""), 1);
    assert_int_equal(below("/", "/", ""), 1);
}


static void
below_another_directory(void **state)
{
    (void) state;

    assert_int_equal(below("/data", "/data-private/a", ""), 0);
    assert_int_equal(below("/data", "/dat/a", ""), 0);
    assert_int_equal(below("/data", "/data", ""), 0);
    assert_int_equal(below("/data", "/dat", ""), 0);
    assert_int_equal(below("/data", "/Data/a", ""), 0);
    assert_int_equal(below("/data", "/x/data/a", ""), 0);
    assert_int_equal(below("/data", "", ""), 0);
    assert_int_equal(below("/data/a", "/data/b/a", ""), 0);
}


static nsf_str_t
str(const char *text)
{
    nsf_str_t  s;

    s.data = (const unsigned char *) text;
    s.len = strlen(text);

    return s;
}


static const char *
check_target(const char *path, const char *type, const char *name,
    nsf_header_t *headers, size_t nheaders)
{
    nsf_target_t  t;

    memset(&t, 0, sizeof(nsf_target_t));

    t.path = str(path);
    t.type = str(type);
    t.name = str(name);
    t.headers = headers;
    t.nheaders = nheaders;

    return nsf_target_check(&t);
}


static nsf_header_t
header(const char *name, const char *value)
{
    nsf_header_t  h;

    h.name = str(name);
    h.value = str(value);

    return h;
}


static void
changed_target_that_is_good(void **state)
{
    nsf_header_t  headers[2];

    (void) state;

    headers[0] = header("ETag", "\"a\tb\"");
    headers[1] = header("access-control-allow-origin", "*");

    nsf_assert_good(check_target("a/b", "", "", NULL, 0));
    nsf_assert_good(check_target("a/b", "text/x", "\xc3\xa4", headers, 2));
}


static void
changed_target_that_is_bad(void **state)
{
    size_t        i;
    nsf_header_t  headers[NSF_MAX_HEADERS + 1];

    (void) state;

    nsf_assert_error(check_target("", "", "", NULL, 0), "empty path");
    nsf_assert_error(check_target("../a", "", "", NULL, 0), "\"..\" in path");
    nsf_assert_error(check_target("a", "b\r\nc", "", NULL, 0),
                     "control byte in \"type\"");
    nsf_assert_error(check_target("a", "", "b\tc", NULL, 0),
                     "control byte in \"name\"");

    headers[0] = header("Set-Cookie", "a");
    nsf_assert_error(check_target("a", "", "", headers, 1),
                     "header not allowed");

    headers[0] = header("Vary", "a\nb");
    nsf_assert_error(check_target("a", "", "", headers, 1),
                     "control byte in header value");

    headers[0] = header("Vary", "a");
    headers[1] = header("vary", "b");
    nsf_assert_error(check_target("a", "", "", headers, 2),
                     "header given twice");

    for (i = 0; i <= NSF_MAX_HEADERS; i++) {
        headers[i] = header("Vary", "a");
    }

    nsf_assert_error(check_target("a", "", "", headers, NSF_MAX_HEADERS + 1),
                     "too many headers");
}


/* each string a slice of the input, as a decoder may give them */

static const char  input[] = "a/b.txt text/plain n.txt ETag \"1\" Vary Accept";


static void
slices(nsf_target_t *t, nsf_header_t *headers, const unsigned char *data)
{
    memset(t, 0, sizeof(nsf_target_t));

    t->path.data = data;
    t->path.len = 7;
    t->type.data = data + 8;
    t->type.len = 10;
    t->name.data = data + 19;
    t->name.len = 5;

    headers[0].name.data = data + 25;
    headers[0].name.len = 4;
    headers[0].value.data = data + 30;
    headers[0].value.len = 3;
    headers[1].name.data = data + 34;
    headers[1].name.len = 4;
    headers[1].value.data = data + 39;
    headers[1].value.len = 6;

    t->headers = headers;
    t->nheaders = 2;
}


static void
target_kept_outlives_the_input(void **state)
{
    size_t            i;
    nsf_target_t      t;
    nsf_header_t      headers[2];
    nsf_test_buf_t    buf;
    nsf_test_pool_t   tp;
    const nsf_str_t  *strings[7];
    const char       *texts[7] = { "a/b.txt", "text/plain", "n.txt", "ETag",
                                   "\"1\"", "Vary", "Accept" };

    (void) state;

    nsf_test_pool_init(&tp, 0);
    buf = nsf_test_copy(input, sizeof(input) - 1);

    slices(&t, headers, buf.data);
    nsf_assert_good(nsf_target_keep(&t, buf.data, buf.len, &tp.pool));

    memset(buf.data, 'x', buf.len);
    nsf_test_free(&buf);

    strings[0] = &t.path;
    strings[1] = &t.type;
    strings[2] = &t.name;
    strings[3] = &headers[0].name;
    strings[4] = &headers[0].value;
    strings[5] = &headers[1].name;
    strings[6] = &headers[1].value;

    for (i = 0; i < 7; i++) {
        assert_int_equal(strings[i]->len, strlen(texts[i]));
        assert_memory_equal(strings[i]->data, texts[i], strings[i]->len);
    }

    nsf_test_pool_free(&tp);
}


static void
target_kept_copies_nothing_else(void **state)
{
    nsf_target_t      t;
    nsf_header_t      headers[2];
    nsf_test_buf_t    buf;
    nsf_test_pool_t   tp;

    (void) state;

    nsf_test_pool_init(&tp, 0);
    buf = nsf_test_copy(input, sizeof(input) - 1);

    slices(&t, headers, buf.data);
    nsf_assert_good(nsf_target_keep(&t, (const unsigned char *) "x", 1,
                                    &tp.pool));

    assert_int_equal(tp.calls, 0);
    assert_ptr_equal(headers[1].value.data, buf.data + 39);

    nsf_test_free(&buf);
    nsf_test_pool_free(&tp);
}


static void
target_kept_without_memory(void **state)
{
    size_t            i;
    nsf_target_t      t;
    nsf_header_t      headers[2];
    nsf_test_buf_t    buf;
    nsf_test_pool_t   tp;

    (void) state;

    buf = nsf_test_copy(input, sizeof(input) - 1);

    for (i = 1; i <= 7; i++) {
        nsf_test_pool_init(&tp, i);
        slices(&t, headers, buf.data);
        nsf_assert_error(nsf_target_keep(&t, buf.data, buf.len, &tp.pool),
                         NSF_ERR_MEMORY);
        nsf_test_pool_free(&tp);
    }

    nsf_test_free(&buf);
}


int
main(void)
{
    static const struct CMUnitTest  tests[] = {
        cmocka_unit_test(changed_target_that_is_good),
        cmocka_unit_test(changed_target_that_is_bad),
        cmocka_unit_test(below_its_directory),
        cmocka_unit_test(below_another_directory),
        cmocka_unit_test(path_empty),
        cmocka_unit_test(path_one_byte),
        cmocka_unit_test(path_of_a_file),
        cmocka_unit_test(path_deep),
        cmocka_unit_test(path_longest),
        cmocka_unit_test(path_is_4096_bytes_at_most),
        cmocka_unit_test(path_one_too_long),
        cmocka_unit_test(path_too_long_is_not_scanned),
        cmocka_unit_test(path_of_most_segments),
        cmocka_unit_test(path_absolute),
        cmocka_unit_test(path_trailing_slash),
        cmocka_unit_test(path_empty_segment),
        cmocka_unit_test(path_dot_segment),
        cmocka_unit_test(path_dot_dot_segment),
        cmocka_unit_test(path_dots_within_a_name),
        cmocka_unit_test(path_with_nul),
        cmocka_unit_test(path_with_line_break),
        cmocka_unit_test(path_with_tab_or_del),
        cmocka_unit_test(path_each_byte),
        cmocka_unit_test(path_each_single_byte),
        cmocka_unit_test(path_bad_byte_at_each_position),
        cmocka_unit_test(path_bytes_are_not_decoded),
        cmocka_unit_test(path_backslash_is_a_byte),
        cmocka_unit_test(path_utf8),
        cmocka_unit_test(path_high_bytes_that_are_no_utf8),
        cmocka_unit_test(path_spaces),
        cmocka_unit_test(path_each_prefix),
        cmocka_unit_test(path_all_short_ones),
        cmocka_unit_test(base_check),
        cmocka_unit_test(target_has_the_path),
        cmocka_unit_test(target_has_nothing_else),
        cmocka_unit_test(target_of_a_bad_path_is_empty),
        cmocka_unit_test(target_passes_each_error_on),
        cmocka_unit_test(target_kept_outlives_the_input),
        cmocka_unit_test(target_kept_copies_nothing_else),
        cmocka_unit_test(target_kept_without_memory),
    };

    return cmocka_run_group_tests_name("nsf_target", tests, NULL, NULL);
}
