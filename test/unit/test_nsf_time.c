/*
 * Copyright (C) the ngx_sendfile authors
 */


#include "nsf_test.h"
#include "nsf_time.h"


static nsf_time_t  t;


static const char *
decimal_n(const char *text, size_t len)
{
    const char      *err;
    nsf_test_buf_t   buf;

    memset(&t, 0xff, sizeof(nsf_time_t));

    buf = nsf_test_copy(text, len);
    err = nsf_time_decimal(&t, buf.data, buf.len);
    nsf_test_free(&buf);

    return err;
}


static const char *
decimal(const char *text)
{
    return decimal_n(text, strlen(text));
}


static void
is(int64_t sec, uint32_t nsec)
{
    assert_int_equal(t.kind, NSF_TIME_FINITE);
    assert_true(t.sec == sec);
    assert_int_equal(t.nsec, nsec);
}


#define decimal_is(text, sec, nsec)                                           \
    do {                                                                      \
        nsf_assert_good(decimal(text));                                       \
        is(sec, nsec);                                                        \
    } while (0)


static void
decimal_plain(void **state)
{
    (void) state;

    decimal_is("0", 0, 0);
    decimal_is("1", 1, 0);
    decimal_is("1795158525", 1795158525, 0);
    decimal_is("1795158525.909137", 1795158525, 909137000);
    decimal_is("1795189426.9293122", 1795189426, 929312200);
    decimal_is("1795189426.999999999", 1795189426, 999999999);
    decimal_is("0.5", 0, 500000000);
    decimal_is("0.000000001", 0, 1);
    decimal_is("00012.50", 12, 500000000);
}


/* beyond the nanoseconds it is cut, not rounded */

static void
decimal_with_more_digits(void **state)
{
    (void) state;

    decimal_is("1.99999999999999999999", 1, 999999999);
    decimal_is("0.00000000099", 0, 0);
}


static void
decimal_negative(void **state)
{
    (void) state;

    decimal_is("-0", 0, 0);
    decimal_is("-0.0", 0, 0);
    decimal_is("-1", -1, 0);
    decimal_is("-0.25", -1, 750000000);
    decimal_is("-1.5", -2, 500000000);
}


/* as Ruby writes what has few digits */

static void
decimal_with_exponent(void **state)
{
    (void) state;

    decimal_is("1.8e9", 1800000000, 0);
    decimal_is("1.795158e9", 1795158000, 0);
    decimal_is("1.795158e+09", 1795158000, 0);
    decimal_is("1.795158525909137e9", 1795158525, 909137000);
    decimal_is("2e0", 2, 0);
    decimal_is("12345e-3", 12, 345000000);
    decimal_is("1.0e-05", 0, 10000);
    decimal_is("1e-10", 0, 0);
    decimal_is("1e-99999999999999999999", 0, 0);
    decimal_is("-1e-3", -1, 999000000);
    decimal_is("0e99999999999999999999", 0, 0);
    decimal_is("0.000e99999999999999999999", 0, 0);
    decimal_is("0.0001e4", 1, 0);
}


static void
decimal_far_away(void **state)
{
    (void) state;

    decimal_is("999999999999999", INT64_C(999999999999999), 0);
    decimal_is("9.99999999999999e14", INT64_C(999999999999999), 0);

    nsf_assert_good(decimal("1000000000000000"));
    assert_int_equal(t.kind, NSF_TIME_NEVER);
    nsf_assert_good(decimal("1e15"));
    assert_int_equal(t.kind, NSF_TIME_NEVER);
    nsf_assert_good(decimal("1e308"));
    assert_int_equal(t.kind, NSF_TIME_NEVER);
    nsf_assert_good(decimal("1e99999999999999999999"));
    assert_int_equal(t.kind, NSF_TIME_NEVER);
    nsf_assert_good(decimal("99999999999999999999999999999999999999"));
    assert_int_equal(t.kind, NSF_TIME_NEVER);
    nsf_assert_good(decimal("-1e15"));
    assert_int_equal(t.kind, NSF_TIME_LONG_AGO);
}


static void
decimal_words(void **state)
{
    (void) state;

    nsf_assert_good(decimal("inf"));
    assert_int_equal(t.kind, NSF_TIME_NEVER);
    nsf_assert_good(decimal("nan"));
    assert_int_equal(t.kind, NSF_TIME_NEVER);
    nsf_assert_good(decimal("-inf"));
    assert_int_equal(t.kind, NSF_TIME_LONG_AGO);
}


static void
decimal_broken(void **state)
{
    size_t  i;

    static const char *const  texts[] = {
        "", "-", ".", ".5", "5.", "-.", "--1", "+1", "1..2", "1.2.3", "e",
        "e5", "1e", "1e-", "1e+", "1.e5", "1e5.0", "1e5e5", "1e--5", " 1",
        "1 ", "1,5", "0x1p3", "Inf", "NaN", "-nan", "infinity", "1_000",
        "1\n", "in", "nanx"
    };

    (void) state;

    for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        nsf_assert_error(decimal(texts[i]), "broken number");
        assert_int_equal(t.kind, NSF_TIME_NONE);
    }

    nsf_assert_error(decimal_n("1\0", 2), "broken number");
    nsf_assert_error(decimal_n("12.5\0\x12\x34", 7), "broken number");
}


static void
decimal_every_prefix(void **state)
{
    size_t       len;
    const char  *err;

    static const char  text[] = "-1795158525.909137e-5";

    (void) state;

    for (len = 0; len < sizeof(text); len++) {
        err = decimal_n(text, len);

        if (len == 0 || strchr("-.e", text[len - 1]) != NULL) {
            nsf_assert_error(err, "broken number");

        } else {
            nsf_assert_good(err);
        }
    }
}


static void
double_of(double number)
{
    size_t           i;
    uint64_t         bits;
    nsf_test_buf_t   buf;
    unsigned char    bytes[8];

    memcpy(&bits, &number, 8);

    for (i = 0; i < 8; i++) {
        bytes[i] = (unsigned char) (bits >> (8 * i));
    }

    memset(&t, 0xff, sizeof(nsf_time_t));

    buf = nsf_test_copy(bytes, 8);
    nsf_time_double(&t, buf.data);
    nsf_test_free(&buf);
}


static void
doubles(void **state)
{
    (void) state;

    double_of(0);
    is(0, 0);
    double_of(1795189426.5);
    is(1795189426, 500000000);
    double_of(-1);
    is(-1, 0);
    double_of(-0.5);
    is(-1, 500000000);
    double_of(-1e-300);
    is(0, 0);
    double_of(999999999999999);
    is(INT64_C(999999999999999), 0);
}


static void
doubles_far_away(void **state)
{
    volatile double  zero = 0;

    (void) state;

    double_of(1e15);
    assert_int_equal(t.kind, NSF_TIME_NEVER);
    double_of(1.7e308);
    assert_int_equal(t.kind, NSF_TIME_NEVER);
    double_of(-1e15);
    assert_int_equal(t.kind, NSF_TIME_LONG_AGO);
    double_of(-1.7e308);
    assert_int_equal(t.kind, NSF_TIME_LONG_AGO);

    double_of(1e308 * 10);
    assert_int_equal(t.kind, NSF_TIME_NEVER);
    double_of(-1e308 * 10);
    assert_int_equal(t.kind, NSF_TIME_LONG_AGO);

    double_of(zero / zero);
    assert_int_equal(t.kind, NSF_TIME_NEVER);
    double_of(-(zero / zero));
    assert_int_equal(t.kind, NSF_TIME_NEVER);
}


static void
double_is_little_endian(void **state)
{
    (void) state;

    /* of a Rails 7.1 entry */

    nsf_time_double(&t, (const unsigned char *)
                    "\x2a\x26\xc7\xaf\x1a\xc0\xda\x41");
    assert_int_equal(t.kind, NSF_TIME_FINITE);
    assert_true(t.sec == 1795189439);
}


static void
integers(void **state)
{
    (void) state;

    nsf_time_integer(&t, 1795189426);
    is(1795189426, 0);
    nsf_time_integer(&t, -3);
    is(-3, 0);
    nsf_time_integer(&t, INT64_MAX);
    assert_int_equal(t.kind, NSF_TIME_NEVER);
    nsf_time_integer(&t, INT64_MIN);
    assert_int_equal(t.kind, NSF_TIME_LONG_AGO);
}


static void
sums(void **state)
{
    nsf_time_t  more;

    (void) state;

    nsf_assert_good(decimal("1795158525.75"));
    more = t;
    nsf_assert_good(decimal("60.5"));
    nsf_time_add(&t, &more);
    is(1795158586, 250000000);

    nsf_assert_good(decimal("-0.75"));
    more = t;
    nsf_assert_good(decimal("1.5"));
    nsf_time_add(&t, &more);
    is(0, 750000000);

    nsf_assert_good(decimal("999999999999999"));
    more = t;
    nsf_time_add(&t, &more);
    is(INT64_C(1999999999999998), 0);
}


static void
sums_of_what_is_no_number(void **state)
{
    nsf_time_t  never, ago, one;

    (void) state;

    nsf_assert_good(decimal("inf"));
    never = t;
    nsf_assert_good(decimal("-inf"));
    ago = t;
    nsf_assert_good(decimal("1"));
    one = t;

    nsf_time_add(&t, &never);
    assert_int_equal(t.kind, NSF_TIME_NEVER);
    nsf_time_add(&t, &one);
    assert_int_equal(t.kind, NSF_TIME_NEVER);
    nsf_time_add(&t, &ago);
    assert_int_equal(t.kind, NSF_TIME_NEVER);

    t = ago;
    nsf_time_add(&t, &one);
    assert_int_equal(t.kind, NSF_TIME_LONG_AGO);

    t = one;
    nsf_time_add(&t, &ago);
    assert_int_equal(t.kind, NSF_TIME_LONG_AGO);
}


static int64_t
until(const char *text)
{
    nsf_assert_good(decimal(text));

    return nsf_time_valid_until(&t);
}


static void
valid_until(void **state)
{
    (void) state;

    assert_true(until("1795189426.99") == 1795189426);
    assert_true(until("1.99") == 1);
    assert_true(until("0.99") == 1);
    assert_true(until("0") == 1);
    assert_true(until("-5") == 1);
    assert_true(until("-inf") == 1);
    assert_true(until("inf") == 0);
    assert_true(until("nan") == 0);
    assert_true(until("253402300799.9") == INT64_C(253402300799));
    assert_true(until("253402300800") == 0);
    assert_true(until("1e300") == 0);

    memset(&t, 0, sizeof(nsf_time_t));
    assert_int_equal(t.kind, NSF_TIME_NONE);
    assert_true(nsf_time_valid_until(&t) == 0);
}


int
main(void)
{
    static const struct CMUnitTest  tests[] = {
        cmocka_unit_test(decimal_plain),
        cmocka_unit_test(decimal_with_more_digits),
        cmocka_unit_test(decimal_negative),
        cmocka_unit_test(decimal_with_exponent),
        cmocka_unit_test(decimal_far_away),
        cmocka_unit_test(decimal_words),
        cmocka_unit_test(decimal_broken),
        cmocka_unit_test(decimal_every_prefix),
        cmocka_unit_test(doubles),
        cmocka_unit_test(doubles_far_away),
        cmocka_unit_test(double_is_little_endian),
        cmocka_unit_test(integers),
        cmocka_unit_test(sums),
        cmocka_unit_test(sums_of_what_is_no_number),
        cmocka_unit_test(valid_until),
    };

    return cmocka_run_group_tests_name("nsf_time", tests, NULL, NULL);
}
