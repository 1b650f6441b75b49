/*
 * Copyright (C) the ngx_sendfile authors
 */


#include "nsf_test.h"
#include "nsf_key.h"


static const char *
check(const void *key, size_t len)
{
    const char      *err;
    nsf_test_buf_t   buf;

    buf = nsf_test_copy(key, len);
    err = nsf_key_check(buf.data, buf.len);
    nsf_test_free(&buf);

    return err;
}


#define check_str(s)  check(s, sizeof(s) - 1)


/* the ID's length, and its position in the URI as *pos */

static size_t
find(const void *uri, size_t len, size_t *pos)
{
    size_t                n;
    nsf_test_buf_t        buf;
    const unsigned char  *id;

    id = NULL;

    buf = nsf_test_copy(uri, len);
    n = nsf_id_from_uri(buf.data, buf.len, &id);

    if (n == 0) {
        assert_null(id);

    } else {
        assert_true(id >= buf.data && id + n == buf.data + buf.len);
        *pos = (size_t) (id - buf.data);
    }

    nsf_test_free(&buf);

    return n;
}


static void
assert_id(const char *uri, const char *id)
{
    size_t  n, pos;

    pos = 0;
    n = find(uri, strlen(uri), &pos);

    assert_int_equal(n, strlen(id));
    assert_memory_equal(uri + pos, id, n);
}


static void
assert_no_id(const char *uri)
{
    size_t  pos;

    assert_int_equal(find(uri, strlen(uri), &pos), 0);
}


static void
key_empty(void **state)
{
    (void) state;

    nsf_assert_error(check("", 0), "empty key");
}


static void
key_empty_reads_nothing(void **state)
{
    (void) state;

    nsf_assert_error(nsf_key_check(NULL, 0), "empty key");
}


static void
key_one_byte(void **state)
{
    (void) state;

    nsf_assert_good(check_str("1"));
}


static void
key_digits(void **state)
{
    (void) state;

    nsf_assert_good(check_str("297887"));
}


static void
key_with_prefix(void **state)
{
    (void) state;

    nsf_assert_good(check_str("production:file:297887"));
}


static void
key_longest(void **state)
{
    char  key[NSF_MAX_KEY];

    (void) state;

    memset(key, 'k', sizeof(key));
    nsf_assert_good(check(key, sizeof(key)));
}


static void
key_is_250_bytes_at_most(void **state)
{
    (void) state;

    assert_int_equal(NSF_MAX_KEY, 250);
}


static void
key_one_too_long(void **state)
{
    char  key[NSF_MAX_KEY + 1];

    (void) state;

    memset(key, 'k', sizeof(key));
    nsf_assert_error(check(key, sizeof(key)), "key too long");
}


static void
key_too_long_is_not_scanned(void **state)
{
    (void) state;

    nsf_assert_error(nsf_key_check((const unsigned char *) "k", SIZE_MAX),
                     "key too long");
}


static void
key_with_space(void **state)
{
    (void) state;

    nsf_assert_error(check_str("a b"), "space in key");
    nsf_assert_error(check_str(" a"), "space in key");
    nsf_assert_error(check_str("a "), "space in key");
    nsf_assert_error(check_str(" "), "space in key");
}


static void
key_with_nul(void **state)
{
    (void) state;

    nsf_assert_error(check_str("a\0b"), "control byte in key");
    nsf_assert_error(check_str("\0"), "control byte in key");
    nsf_assert_error(check_str("1\0"), "control byte in key");
}


static void
key_with_line_break(void **state)
{
    (void) state;

    nsf_assert_error(check_str("1\r\nflush_all"), "control byte in key");
    nsf_assert_error(check_str("1\n"), "control byte in key");
    nsf_assert_error(check_str("\r1"), "control byte in key");
}


static void
key_with_tab(void **state)
{
    (void) state;

    nsf_assert_error(check_str("1\t2"), "control byte in key");
}


static void
key_with_del(void **state)
{
    (void) state;

    nsf_assert_error(check_str("1\x7f"), "control byte in key");
}


static void
key_each_byte(void **state)
{
    unsigned       c;
    unsigned char  key;

    (void) state;

    for (c = 0; c < 256; c++) {
        key = (unsigned char) c;

        if (c == 0x20) {
            nsf_assert_error(check(&key, 1), "space in key");

        } else if (c < 0x20 || c == 0x7f) {
            nsf_assert_error(check(&key, 1), "control byte in key");

        } else {
            nsf_assert_good(check(&key, 1));
        }
    }
}


static void
key_bad_byte_at_each_position(void **state)
{
    char    key[NSF_MAX_KEY];
    size_t  i;

    (void) state;

    for (i = 0; i < sizeof(key); i++) {
        memset(key, 'k', sizeof(key));
        key[i] = '\n';
        nsf_assert_error(check(key, sizeof(key)), "control byte in key");
    }
}


static void
key_first_bad_byte_decides(void **state)
{
    (void) state;

    nsf_assert_error(check_str("a b\n"), "space in key");
    nsf_assert_error(check_str("a\nb "), "control byte in key");
}


static void
key_utf8_as_it_is(void **state)
{
    (void) state;

    nsf_assert_good(check_str("\xe5\x86\x99\xe7\x9c\x9f"));
}


static void
key_high_bytes_as_they_are(void **state)
{
    (void) state;

    nsf_assert_good(check_str("\x80\xa0\xfe\xff"));
}


static void
key_percent_is_not_decoded(void **state)
{
    (void) state;

    nsf_assert_good(check_str("%00%0d%0a"));
}


static void
key_each_prefix(void **state)
{
    size_t             len;
    static const char  key[] = "ns:297887";

    (void) state;

    for (len = 1; len <= sizeof(key) - 1; len++) {
        nsf_assert_good(check(key, len));
    }
}


static void
id_last_segment(void **state)
{
    (void) state;

    assert_id("/file/297887", "297887");
}


static void
id_at_the_root(void **state)
{
    (void) state;

    assert_id("/1", "1");
}


static void
id_deep(void **state)
{
    (void) state;

    assert_id("/a/b/c/d/e/42", "42");
}


static void
id_after_digits(void **state)
{
    (void) state;

    assert_id("/1/2/3", "3");
}


static void
id_after_two_slashes(void **state)
{
    (void) state;

    assert_id("/file//7", "7");
}


static void
id_without_slash(void **state)
{
    (void) state;

    assert_id("123", "123");
}


static void
id_keeps_leading_zeros(void **state)
{
    (void) state;

    assert_id("/file/0007", "0007");
    assert_id("/file/0", "0");
}


static void
id_of_each_length(void **state)
{
    char               uri[3 + NSF_MAX_ID + 1];
    size_t             len;
    static const char  digits[] = "12345678901234567890";

    (void) state;

    for (len = 1; len <= NSF_MAX_ID; len++) {
        memcpy(uri, "/f/", 3);
        memcpy(uri + 3, digits, len);
        uri[3 + len] = '\0';
        assert_id(uri, uri + 3);
    }
}


static void
id_one_too_long(void **state)
{
    (void) state;

    assert_id("/file/12345678901234567890", "12345678901234567890");
    assert_no_id("/file/123456789012345678901");
    assert_no_id("123456789012345678901");
}


static void
id_is_20_digits_at_most(void **state)
{
    (void) state;

    assert_int_equal(NSF_MAX_ID, 20);
}


static void
id_of_empty_uri(void **state)
{
    size_t  pos;

    (void) state;

    assert_int_equal(find("", 0, &pos), 0);
}


static void
id_of_root(void **state)
{
    (void) state;

    assert_no_id("/");
}


static void
id_trailing_slash(void **state)
{
    (void) state;

    assert_no_id("/file/297887/");
}


static void
id_with_extension(void **state)
{
    (void) state;

    assert_no_id("/file/297887.jpg");
}


static void
id_with_letter(void **state)
{
    (void) state;

    assert_no_id("/file/a297887");
    assert_no_id("/file/297887a");
    assert_no_id("/file/297a887");
}


static void
id_signed(void **state)
{
    (void) state;

    assert_no_id("/file/-1");
    assert_no_id("/file/+1");
}


static void
id_neighbours_of_digits(void **state)
{
    (void) state;

    /* the slash before "0" in ASCII separates; ":" follows "9" */

    assert_id("/file/1/2", "2");
    assert_no_id("/file/1:2");
}


static void
id_with_space(void **state)
{
    (void) state;

    assert_no_id("/file/1 2");
    assert_no_id("/file/ 12");
    assert_no_id("/file/12 ");
}


static void
id_with_control_byte(void **state)
{
    size_t  pos;

    (void) state;

    assert_int_equal(find("/file/1\0" "2", 9, &pos), 0);
    assert_int_equal(find("/file/12\0", 9, &pos), 0);
    assert_int_equal(find("/file/12\r\n", 10, &pos), 0);
}


static void
id_full_width_digits(void **state)
{
    (void) state;

    assert_no_id("/file/\xef\xbc\x91");
}


static void
id_each_byte(void **state)
{
    char      uri[] = "/file/1?2";
    size_t    pos;
    unsigned  c;

    (void) state;

    for (c = 0; c < 256; c++) {
        uri[7] = (char) c;

        if (c >= '0' && c <= '9') {
            assert_int_equal(find(uri, 9, &pos), 3);

        } else if (c == '/') {
            assert_int_equal(find(uri, 9, &pos), 1);

        } else {
            assert_int_equal(find(uri, 9, &pos), 0);
        }
    }
}


static void
id_each_prefix(void **state)
{
    size_t             len, n, pos;
    static const char  uri[] = "/file/297887";

    (void) state;

    for (len = 0; len <= sizeof(uri) - 1; len++) {
        n = find(uri, len, &pos);
        assert_int_equal(n, len > 6 ? len - 6 : 0);
    }
}


int
main(void)
{
    static const struct CMUnitTest  tests[] = {
        cmocka_unit_test(key_empty),
        cmocka_unit_test(key_empty_reads_nothing),
        cmocka_unit_test(key_one_byte),
        cmocka_unit_test(key_digits),
        cmocka_unit_test(key_with_prefix),
        cmocka_unit_test(key_longest),
        cmocka_unit_test(key_is_250_bytes_at_most),
        cmocka_unit_test(key_one_too_long),
        cmocka_unit_test(key_too_long_is_not_scanned),
        cmocka_unit_test(key_with_space),
        cmocka_unit_test(key_with_nul),
        cmocka_unit_test(key_with_line_break),
        cmocka_unit_test(key_with_tab),
        cmocka_unit_test(key_with_del),
        cmocka_unit_test(key_each_byte),
        cmocka_unit_test(key_bad_byte_at_each_position),
        cmocka_unit_test(key_first_bad_byte_decides),
        cmocka_unit_test(key_utf8_as_it_is),
        cmocka_unit_test(key_high_bytes_as_they_are),
        cmocka_unit_test(key_percent_is_not_decoded),
        cmocka_unit_test(key_each_prefix),
        cmocka_unit_test(id_last_segment),
        cmocka_unit_test(id_at_the_root),
        cmocka_unit_test(id_deep),
        cmocka_unit_test(id_after_digits),
        cmocka_unit_test(id_after_two_slashes),
        cmocka_unit_test(id_without_slash),
        cmocka_unit_test(id_keeps_leading_zeros),
        cmocka_unit_test(id_of_each_length),
        cmocka_unit_test(id_one_too_long),
        cmocka_unit_test(id_is_20_digits_at_most),
        cmocka_unit_test(id_of_empty_uri),
        cmocka_unit_test(id_of_root),
        cmocka_unit_test(id_trailing_slash),
        cmocka_unit_test(id_with_extension),
        cmocka_unit_test(id_with_letter),
        cmocka_unit_test(id_signed),
        cmocka_unit_test(id_neighbours_of_digits),
        cmocka_unit_test(id_with_space),
        cmocka_unit_test(id_with_control_byte),
        cmocka_unit_test(id_full_width_digits),
        cmocka_unit_test(id_each_byte),
        cmocka_unit_test(id_each_prefix),
    };

    return cmocka_run_group_tests_name("nsf_key", tests, NULL, NULL);
}
