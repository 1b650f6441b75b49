/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <stdio.h>

#include "nsf_test.h"
#include "nsf_disposition.h"


/*
 * The value as a C string.  It is written to memory of exactly the length
 * that was told for it, from a name that ends where its memory does.
 */

static char *
make(nsf_disposition_e disposition, const void *name, size_t len)
{
    char            *s;
    size_t           n;
    nsf_str_t        str;
    nsf_test_buf_t   in, out;

    in = nsf_test_copy(name, len);
    str.data = in.data;
    str.len = in.len;

    n = nsf_disposition(NULL, disposition, &str);

    s = calloc(1, n + 1);
    assert_non_null(s);

    out = nsf_test_copy(s, n);

    assert_int_equal(nsf_disposition(out.data, disposition, &str), n);

    memcpy(s, out.data, n);
    assert_int_equal(strlen(s), n);

    nsf_test_free(&in);
    nsf_test_free(&out);

    return s;
}


static void
assert_made(nsf_disposition_e disposition, const void *name, size_t len,
    const char *expected)
{
    char  *s;

    s = make(disposition, name, len);
    assert_string_equal(s, expected);
    free(s);
}


#define assert_attachment(name, expected)                                     \
    assert_made(NSF_DISPOSITION_ATTACHMENT, name, sizeof(name) - 1,           \
                "attachment; " expected)


static void
none_at_all(void **state)
{
    nsf_str_t      name;
    unsigned char  c;

    (void) state;

    name.data = NULL;
    name.len = 0;
    c = 'x';

    assert_int_equal(nsf_disposition(NULL, NSF_DISPOSITION_NONE, &name), 0);
    assert_int_equal(nsf_disposition(&c, NSF_DISPOSITION_NONE, &name), 0);
    assert_int_equal(c, 'x');
}


static void
inline_without_name(void **state)
{
    (void) state;

    assert_made(NSF_DISPOSITION_INLINE, "", 0, "inline");
}


static void
attachment_without_name(void **state)
{
    (void) state;

    assert_made(NSF_DISPOSITION_ATTACHMENT, "", 0, "attachment");
}


static void
name_without_disposition_is_inline(void **state)
{
    (void) state;

    assert_made(NSF_DISPOSITION_NONE, "a.jpg", 5,
                "inline; filename=\"a.jpg\"");
}


static void
inline_with_name(void **state)
{
    (void) state;

    assert_made(NSF_DISPOSITION_INLINE, "a.jpg", 5,
                "inline; filename=\"a.jpg\"");
}


static void
attachment_with_name(void **state)
{
    (void) state;

    assert_attachment("a.jpg", "filename=\"a.jpg\"");
}


static void
name_of_one_byte(void **state)
{
    (void) state;

    assert_attachment("a", "filename=\"a\"");
}


static void
name_with_spaces(void **state)
{
    (void) state;

    assert_attachment(" my file .jpg ", "filename=\" my file .jpg \"");
}


static void
name_with_quote(void **state)
{
    (void) state;

    assert_attachment("a\"b", "filename=\"a\\\"b\"");
    assert_attachment("\"", "filename=\"\\\"\"");
    assert_attachment("\"\"", "filename=\"\\\"\\\"\"");
}


static void
name_with_slash(void **state)
{
    (void) state;

    assert_attachment("a/b.jpg", "filename=\"a_b.jpg\"");
    assert_attachment("/etc/passwd", "filename=\"_etc_passwd\"");
    assert_attachment("../x", "filename=\".._x\"");
}


static void
name_with_backslash(void **state)
{
    (void) state;

    assert_attachment("C:\\a.exe", "filename=\"C:_a.exe\"");
    assert_attachment("a\\", "filename=\"a_\"");
    assert_attachment("\\\"", "filename=\"_\\\"\"");
}


static void
name_with_semicolon(void **state)
{
    (void) state;

    assert_attachment("a; filename=b", "filename=\"a; filename=b\"");
}


static void
name_with_percent(void **state)
{
    (void) state;

    assert_attachment("100%.txt",
                      "filename=\"100%.txt\"; filename*=UTF-8''100%25.txt");
    assert_attachment("%41",
                      "filename=\"%41\"; filename*=UTF-8''%2541");
}


static void
name_with_control_bytes(void **state)
{
    (void) state;

    assert_attachment("a\r\nSet-Cookie: b",
                      "filename=\"a__Set-Cookie: b\"; "
                      "filename*=UTF-8''a__Set-Cookie%3A%20b");
    assert_attachment("\0", "filename=\"_\"; filename*=UTF-8''_");
    assert_attachment("\x7f", "filename=\"_\"; filename*=UTF-8''_");
}


static void
name_of_each_ascii_byte(void **state)
{
    char           plain[64];
    unsigned       c;
    const char    *expected;
    unsigned char  name;

    (void) state;

    for (c = 0; c < 0x80; c++) {
        name = (unsigned char) c;

        if (c < 0x20 || c == 0x7f) {
            expected = "inline; filename=\"_\"; filename*=UTF-8''_";

        } else if (c == '/' || c == '\\') {
            expected = "inline; filename=\"_\"";

        } else if (c == '"') {
            expected = "inline; filename=\"\\\"\"";

        } else if (c == '%') {
            expected = "inline; filename=\"%\"; filename*=UTF-8''%25";

        } else {
            snprintf(plain, sizeof(plain), "inline; filename=\"%c\"",
                     (int) c);
            expected = plain;
        }

        assert_made(NSF_DISPOSITION_INLINE, &name, 1, expected);
    }
}


/* of the attr-char of RFC 5987, after a character that needs filename* */

static void
ext_of_each_ascii_byte(void **state)
{
    char        *s, name[2], expected[16];
    unsigned     c;
    const char  *ext;

    (void) state;

    name[0] = '%';

    for (c = 0; c < 0x80; c++) {
        name[1] = (char) c;
        s = make(NSF_DISPOSITION_INLINE, name, 2);

        if (c < 0x20 || c == 0x7f || c == '/' || c == '\\') {
            snprintf(expected, sizeof(expected), "%%25_");

        } else if (strchr("abcdefghijklmnopqrstuvwxyz"
                          "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                          "0123456789!#$&+-.^_`|~", (int) c) != NULL)
        {
            snprintf(expected, sizeof(expected), "%%25%c", (int) c);

        } else {
            snprintf(expected, sizeof(expected), "%%25%%%02X", c);
        }

        ext = strstr(s, "; filename*=UTF-8''");
        assert_non_null(ext);
        assert_string_equal(ext + strlen("; filename*=UTF-8''"), expected);

        free(s);
    }
}


static void
ext_escapes_what_a_parser_splits_at(void **state)
{
    (void) state;

    assert_attachment("\xc3\xa4 '*(),;=\"",
                      "filename=\"_ '*(),;=\\\"\"; "
                      "filename*=UTF-8''%C3%A4%20%27%2A%28%29%2C%3B%3D%22");
}


static void
name_of_two_byte_characters(void **state)
{
    (void) state;

    assert_attachment("\xc3\xa4\xc3\xb6.txt",
                      "filename=\"__.txt\"; "
                      "filename*=UTF-8''%C3%A4%C3%B6.txt");
}


static void
name_in_japanese(void **state)
{
    (void) state;

    assert_attachment("\xe5\x86\x99\xe7\x9c\x9f.jpg",
                      "filename=\"__.jpg\"; "
                      "filename*=UTF-8''%E5%86%99%E7%9C%9F.jpg");
}


static void
name_with_emoji(void **state)
{
    (void) state;

    assert_attachment("a\xf0\x9f\x98\x80" "b",
                      "filename=\"a_b\"; filename*=UTF-8''a%F0%9F%98%80b");
}


static void
ext_has_no_slashes(void **state)
{
    (void) state;

    assert_attachment("\xc3\xa4/b\\c",
                      "filename=\"__b_c\"; filename*=UTF-8''%C3%A4_b_c");
}


static void
first_and_last_character_of_each_length(void **state)
{
    (void) state;

    assert_attachment("\xc2\x80",
                      "filename=\"_\"; filename*=UTF-8''%C2%80");
    assert_attachment("\xdf\xbf",
                      "filename=\"_\"; filename*=UTF-8''%DF%BF");
    assert_attachment("\xe0\xa0\x80",
                      "filename=\"_\"; filename*=UTF-8''%E0%A0%80");
    assert_attachment("\xed\x9f\xbf",
                      "filename=\"_\"; filename*=UTF-8''%ED%9F%BF");
    assert_attachment("\xee\x80\x80",
                      "filename=\"_\"; filename*=UTF-8''%EE%80%80");
    assert_attachment("\xef\xbf\xbf",
                      "filename=\"_\"; filename*=UTF-8''%EF%BF%BF");
    assert_attachment("\xf0\x90\x80\x80",
                      "filename=\"_\"; filename*=UTF-8''%F0%90%80%80");
    assert_attachment("\xf4\x8f\xbf\xbf",
                      "filename=\"_\"; filename*=UTF-8''%F4%8F%BF%BF");
}


static void
bad_byte_is_one_character(void **state)
{
    (void) state;

    assert_attachment("a\xff" "b", "filename=\"a_b\"; filename*=UTF-8''a_b");
    assert_attachment("\x80\x81",
                      "filename=\"__\"; filename*=UTF-8''__");
    assert_attachment("\x80\x90\x80\x80",
                      "filename=\"____\"; filename*=UTF-8''____");
    assert_attachment("\xbf", "filename=\"_\"; filename*=UTF-8''_");
    assert_attachment("\xf8\x88\x80\x80\x80",
                      "filename=\"_____\"; filename*=UTF-8''_____");
}


static void
overlong_forms_are_bad_bytes(void **state)
{
    (void) state;

    assert_attachment("\xc0\xaf", "filename=\"__\"; filename*=UTF-8''__");
    assert_attachment("\xc1\xbf", "filename=\"__\"; filename*=UTF-8''__");
    assert_attachment("\xe0\x80\xaf",
                      "filename=\"___\"; filename*=UTF-8''___");
    assert_attachment("\xe0\x9f\xbf",
                      "filename=\"___\"; filename*=UTF-8''___");
    assert_attachment("\xf0\x80\x80\xaf",
                      "filename=\"____\"; filename*=UTF-8''____");
    assert_attachment("\xf0\x8f\xbf\xbf",
                      "filename=\"____\"; filename*=UTF-8''____");
}


static void
surrogates_are_bad_bytes(void **state)
{
    (void) state;

    assert_attachment("\xed\xa0\x80",
                      "filename=\"___\"; filename*=UTF-8''___");
    assert_attachment("\xed\xbf\xbf",
                      "filename=\"___\"; filename*=UTF-8''___");
}


static void
beyond_unicode_are_bad_bytes(void **state)
{
    (void) state;

    assert_attachment("\xf4\x90\x80\x80",
                      "filename=\"____\"; filename*=UTF-8''____");
    assert_attachment("\xf7\xbf\xbf\xbf",
                      "filename=\"____\"; filename*=UTF-8''____");
}


static void
cut_character_keeps_what_follows(void **state)
{
    (void) state;

    assert_attachment("\xe5\x86" "a",
                      "filename=\"__a\"; filename*=UTF-8''__a");
    assert_attachment("\xe5\"",
                      "filename=\"_\\\"\"; filename*=UTF-8''_%22");
    assert_attachment("\xf0\x9f\xc3\xa4",
                      "filename=\"___\"; filename*=UTF-8''__%C3%A4");
}


static void
character_cut_at_the_end(void **state)
{
    (void) state;

    assert_attachment("a\xc3", "filename=\"a_\"; filename*=UTF-8''a_");
    assert_attachment("a\xe5\x86",
                      "filename=\"a__\"; filename*=UTF-8''a__");
    assert_attachment("a\xf0\x9f\x98",
                      "filename=\"a___\"; filename*=UTF-8''a___");
}


static void
each_prefix_of_a_name(void **state)
{
    char               *s, *p;
    size_t              len;
    static const char   name[] = "a\xc3\xa4\xe5\x86\x99\xf0\x9f\x98\x80\"%\\";

    (void) state;

    for (len = 1; len <= sizeof(name) - 1; len++) {
        s = make(NSF_DISPOSITION_ATTACHMENT, name, len);

        assert_int_equal(strncmp(s, "attachment; filename=\"a", 23), 0);

        for (p = s; *p != '\0'; p++) {
            assert_true(*p >= 0x20 && *p < 0x7f);
        }

        assert_int_equal(strstr(s, "filename*=") != NULL, len > 1);
        free(s);
    }
}


static void
longest_name(void **state)
{
    char    *name, *s;
    size_t   len;

    (void) state;

    len = NSF_MAX_VALUE;
    name = malloc(len);
    assert_non_null(name);
    memset(name, 0xc3, len);

    s = make(NSF_DISPOSITION_INLINE, name, len);
    assert_int_equal(strlen(s), sizeof("inline; filename=\"\"; "
                                       "filename*=UTF-8''") - 1 + 2 * len);
    free(s);
    free(name);
}


static void
every_three_bytes_of_an_alphabet(void **state)
{
    char               *s, *p;
    size_t              n;
    unsigned char       name[3];
    static const char   alphabet[] = "a\"\\/%\n\x80\xc3\xe5\xf0\xff\xa4\x9f ;'";

    (void) state;

    for (n = 0; n < 16 * 16 * 16; n++) {
        name[0] = (unsigned char) alphabet[n & 15];
        name[1] = (unsigned char) alphabet[n >> 4 & 15];
        name[2] = (unsigned char) alphabet[n >> 8 & 15];

        s = make(NSF_DISPOSITION_NONE, name, 3);

        assert_int_equal(strncmp(s, "inline; filename=\"", 18), 0);

        for (p = s + 18; *p != '"'; p++) {
            assert_true(*p >= 0x20 && *p < 0x7f && *p != '/');

            if (*p == '\\') {
                p++;
                assert_int_equal(*p, '"');
            }
        }

        p++;

        if (*p != '\0') {
            assert_int_equal(strncmp(p, "; filename*=UTF-8''", 19), 0);
            assert_null(strpbrk(p + 19, "\"\\/ ;'"));
        }

        free(s);
    }
}


int
main(void)
{
    static const struct CMUnitTest  tests[] = {
        cmocka_unit_test(none_at_all),
        cmocka_unit_test(inline_without_name),
        cmocka_unit_test(attachment_without_name),
        cmocka_unit_test(name_without_disposition_is_inline),
        cmocka_unit_test(inline_with_name),
        cmocka_unit_test(attachment_with_name),
        cmocka_unit_test(name_of_one_byte),
        cmocka_unit_test(name_with_spaces),
        cmocka_unit_test(name_with_quote),
        cmocka_unit_test(name_with_slash),
        cmocka_unit_test(name_with_backslash),
        cmocka_unit_test(name_with_semicolon),
        cmocka_unit_test(name_with_percent),
        cmocka_unit_test(name_with_control_bytes),
        cmocka_unit_test(name_of_each_ascii_byte),
        cmocka_unit_test(ext_of_each_ascii_byte),
        cmocka_unit_test(ext_escapes_what_a_parser_splits_at),
        cmocka_unit_test(name_of_two_byte_characters),
        cmocka_unit_test(name_in_japanese),
        cmocka_unit_test(name_with_emoji),
        cmocka_unit_test(ext_has_no_slashes),
        cmocka_unit_test(first_and_last_character_of_each_length),
        cmocka_unit_test(bad_byte_is_one_character),
        cmocka_unit_test(overlong_forms_are_bad_bytes),
        cmocka_unit_test(surrogates_are_bad_bytes),
        cmocka_unit_test(beyond_unicode_are_bad_bytes),
        cmocka_unit_test(cut_character_keeps_what_follows),
        cmocka_unit_test(character_cut_at_the_end),
        cmocka_unit_test(each_prefix_of_a_name),
        cmocka_unit_test(longest_name),
        cmocka_unit_test(every_three_bytes_of_an_alphabet),
    };

    return cmocka_run_group_tests_name("nsf_disposition", tests, NULL, NULL);
}
