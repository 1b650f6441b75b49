/*
 * Copyright (C) the ngx_sendfile authors
 */


#include "nsf_test.h"
#include "nsf_base64.h"


/* decodes in place, as tokens are */

static const char *
decode(const char *text, const char *expected)
{
    size_t           n;
    const char      *err;
    nsf_test_buf_t   buf;

    buf = nsf_test_copy(text, strlen(text));
    err = nsf_base64_decode(buf.data, &n, buf.data, buf.len);

    if (err == NULL) {
        assert_int_equal(n, strlen(expected));
        assert_memory_equal(buf.data, expected, n);
    }

    nsf_test_free(&buf);

    return err;
}


static void
rfc_4648(void **state)
{
    (void) state;

    nsf_assert_good(decode("", ""));
    nsf_assert_good(decode("Zg==", "f"));
    nsf_assert_good(decode("Zm8=", "fo"));
    nsf_assert_good(decode("Zm9v", "foo"));
    nsf_assert_good(decode("Zm9vYg==", "foob"));
    nsf_assert_good(decode("Zm9vYmE=", "fooba"));
    nsf_assert_good(decode("Zm9vYmFy", "foobar"));
}


static void
padding_may_be_left_out(void **state)
{
    (void) state;

    nsf_assert_good(decode("Zg", "f"));
    nsf_assert_good(decode("Zm8", "fo"));
    nsf_assert_good(decode("Zm9vYmE", "fooba"));
}


static void
wrong_padding(void **state)
{
    (void) state;

    nsf_assert_error(decode("Zg=", ""), "wrong padding of base64");
    nsf_assert_error(decode("Zm9v=", ""), "wrong padding of base64");
    nsf_assert_error(decode("=", ""), "wrong padding of base64");
    nsf_assert_error(decode("Z===", ""), "not base64");
    nsf_assert_error(decode("Zg==Zg==", ""), "not base64");
}


static void
both_alphabets(void **state)
{
    (void) state;

    nsf_assert_good(decode("+/+/", "\xfb\xff\xbf"));
    nsf_assert_good(decode("-_-_", "\xfb\xff\xbf"));
    nsf_assert_error(decode("+_+_", ""), "base64 of two alphabets");
}


static void
cut_off(void **state)
{
    (void) state;

    nsf_assert_error(decode("Z", ""), "base64 cut off");
    nsf_assert_error(decode("Zm9vZ", ""), "base64 cut off");
}


static void
bits_left(void **state)
{
    (void) state;

    nsf_assert_error(decode("Zh==", ""), "bits behind base64");
    nsf_assert_error(decode("Zm9", ""), "bits behind base64");
}


static void
other_bytes(void **state)
{
    char      text[] = "AAAA";
    unsigned  c;

    (void) state;

    for (c = 1; c < 256; c++) {
        text[1] = (char) c;

        if (strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                   "0123456789+/-_", (int) c)
            == NULL)
        {
            nsf_assert_error(decode(text, ""), "not base64");
        }
    }
}


static void
url_and_back(void **state)
{
    size_t         i, len, n, back;
    unsigned char  bytes[70], text[100], again[100];

    (void) state;

    for (len = 0; len <= sizeof(bytes); len++) {
        for (i = 0; i < len; i++) {
            bytes[i] = (unsigned char) (i * 89 + len * 31);
        }

        n = nsf_base64_url(text, bytes, len);

        assert_int_equal(n, nsf_base64_url_len(len));
        nsf_assert_good(nsf_base64_decode(again, &back, text, n));
        assert_int_equal(back, len);
        assert_memory_equal(again, bytes, len);
    }
}


static void
hex(void **state)
{
    unsigned char  text[8];

    (void) state;

    assert_int_equal(nsf_hex(text, (const unsigned char *) "\x00\x9a\xff\x0c",
                             4), 8);
    assert_memory_equal(text, "009aff0c", 8);
}


int
main(void)
{
    static const struct CMUnitTest  tests[] = {
        cmocka_unit_test(rfc_4648),
        cmocka_unit_test(padding_may_be_left_out),
        cmocka_unit_test(wrong_padding),
        cmocka_unit_test(both_alphabets),
        cmocka_unit_test(cut_off),
        cmocka_unit_test(bits_left),
        cmocka_unit_test(other_bytes),
        cmocka_unit_test(url_and_back),
        cmocka_unit_test(hex),
    };

    return cmocka_run_group_tests_name("nsf_base64", tests, NULL, NULL);
}
