/*
 * Copyright (C) the ngx_sendfile authors
 */


#include "nsf_test.h"
#include "nsf_plain.h"


#define LONGEST  33


/* what is said to be plain is, and with nothing else in it all words are */

static void
check(const unsigned char *text, size_t len, unsigned least)
{
    size_t          i, n;
    nsf_test_buf_t  buf;

    buf = nsf_test_copy(text, len);
    n = nsf_plain(buf.data, buf.len, least);
    nsf_test_free(&buf);

    assert_true(n <= len);

    for (i = 0; i < n; i++) {
        assert_true(text[i] >= least && text[i] != 0x7f);
    }

    while (i < len && text[i] >= least && text[i] != 0x7f) {
        i++;
    }

    /* a word is not left out; of less than one nothing is said */

    assert_true(i - n < 8);

    if (i == len && len >= 8) {
        assert_int_equal(n, len);
    }
}


static void
each_byte_in_each_place(void **state)
{
    size_t         i, len;
    unsigned       c;
    unsigned char  text[LONGEST];

    (void) state;

    for (len = 1; len <= LONGEST; len++) {
        for (i = 0; i < len; i++) {
            for (c = 0; c < 256; c++) {
                memset(text, '~', sizeof(text));
                text[i] = (unsigned char) c;

                check(text, len, 0x20);
                check(text, len, ' ' + 1);
            }
        }
    }
}


static void
each_pair_of_bytes(void **state)
{
    unsigned       a, b;
    unsigned char  text[8];

    (void) state;

    for (a = 0; a < 256; a++) {
        for (b = 0; b < 256; b++) {
            memset(text, 0x80, sizeof(text));
            text[3] = (unsigned char) a;
            text[4] = (unsigned char) b;

            check(text, sizeof(text), 0x20);
        }
    }
}


static void
nothing_is_read_of_no_text(void **state)
{
    (void) state;

    assert_int_equal(nsf_plain(NULL, 0, 0x20), 0);
}


int
main(void)
{
    static const struct CMUnitTest  tests[] = {
        cmocka_unit_test(each_byte_in_each_place),
        cmocka_unit_test(each_pair_of_bytes),
        cmocka_unit_test(nothing_is_read_of_no_text),
    };

    return cmocka_run_group_tests_name("nsf_plain", tests, NULL, NULL);
}
