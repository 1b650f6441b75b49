/*
 * Copyright (C) the ngx_sendfile authors
 */


#include "nsf_test.h"
#include "nsf_encoding.h"


/* lines up to a NULL */

static const char *
encoding(const char *const *lines)
{
    nsf_str_t       value;
    nsf_encoding_t  e;
    nsf_test_buf_t  buf;

    memset(&e, 0, sizeof(nsf_encoding_t));

    for ( /* void */ ; *lines != NULL; lines++) {

        /* a buffer of its own, so that a byte too many is seen */

        buf = nsf_test_copy((const unsigned char *) *lines, strlen(*lines));

        value.data = buf.data;
        value.len = strlen(*lines);

        nsf_encoding_line(&e, &value);

        nsf_test_free(&buf);
    }

    assert_true(e.br <= 1000 && e.gzip <= 1000);

    return nsf_encoding(&e);
}


static void
is(const char *expected, const char *const *lines)
{
    const char  *got;

    got = encoding(lines);

    if (strcmp(got, expected) != 0) {
        print_error("%s: \"%s\", not \"%s\"\n",
                    lines[0] ? lines[0] : "nothing", got, expected);
    }

    assert_string_equal(got, expected);
}


#define LINES(...)  ((const char *const []) { __VA_ARGS__, NULL })


static void
nothing(void **state)
{
    (void) state;

    is("", (const char *const []) { NULL });
    is("", LINES(""));
    is("", LINES(" "));
    is("", LINES(","));
    is("", LINES(", ,\t,"));
    is("", LINES("identity"));
    is("", LINES("*"));
    is("", LINES("*;q=1"));
    is("", LINES("deflate, zstd, compress"));
}


static void
names(void **state)
{
    (void) state;

    is("gzip", LINES("gzip"));
    is("br", LINES("br"));
    is("br", LINES("gzip, br"));
    is("br", LINES("br, gzip"));
    is("br", LINES("gzip, deflate, br, zstd"));
    is("gzip", LINES("gzip, deflate"));
    is("gzip", LINES("identity, gzip"));
}


/* 8.4.1.3: x-gzip is the same */

static void
x_gzip(void **state)
{
    (void) state;

    is("gzip", LINES("x-gzip"));
    is("gzip", LINES("X-GZIP;q=0.5"));
    is("", LINES("x-gzip;q=0"));
    is("br", LINES("x-gzip, br"));
}


static void
letters(void **state)
{
    (void) state;

    is("gzip", LINES("GZIP"));
    is("gzip", LINES("gZip"));
    is("br", LINES("BR"));
    is("br", LINES("Br;Q=0.5"));
    is("", LINES("gzip;Q=0"));
}


static void
spaces(void **state)
{
    (void) state;

    is("gzip", LINES(" gzip "));
    is("gzip", LINES("\tgzip\t"));
    is("br", LINES("gzip ,\tbr"));
    is("br", LINES("gzip,br"));
    is("gzip", LINES("gzip ; q=0.5 , br ;\tq=0"));
    is("gzip", LINES("gzip;q=1 ,br;q=0.9"));
    is("", LINES("gzip;\t q=0\t"));
}


static void
weights(void **state)
{
    (void) state;

    is("gzip", LINES("gzip;q=1"));
    is("gzip", LINES("gzip;q=1."));
    is("gzip", LINES("gzip;q=1.0"));
    is("gzip", LINES("gzip;q=1.000"));
    is("gzip", LINES("gzip;q=0.001"));
    is("gzip", LINES("gzip;q=0.5"));
    is("", LINES("gzip;q=0"));
    is("", LINES("gzip;q=0."));
    is("", LINES("gzip;q=0.0"));
    is("", LINES("gzip;q=0.000"));
    is("", LINES("br;q=0, gzip;q=0"));

    is("gzip", LINES("gzip, br;q=0"));
    is("gzip", LINES("gzip;q=1.0, br;q=0.9"));
    is("gzip", LINES("gzip;q=0.502, br;q=0.501"));
    is("br", LINES("gzip;q=0.501, br;q=0.502"));
    is("br", LINES("gzip;q=0.5, br;q=0.5"));
    is("br", LINES("gzip;q=0.5, br;q=0.50"));
    is("br", LINES("gzip;q=0.5, br"));
}


/* what is no weight does not say that it is acceptable */

static void
garbage(void **state)
{
    (void) state;

    is("", LINES("gzip;"));
    is("", LINES("gzip;q"));
    is("", LINES("gzip;q="));
    is("", LINES("gzip;q=x"));
    is("", LINES("gzip;q= 1"));
    is("", LINES("gzip;q =1"));
    is("", LINES("gzip;q=-1"));
    is("", LINES("gzip;q=2"));
    is("", LINES("gzip;q=1.001"));
    is("", LINES("gzip;q=1.5"));
    is("", LINES("gzip;q=0.5x"));
    is("", LINES("gzip;q=0,5"));
    is("", LINES("gzip;q=0.5.5"));
    is("", LINES("gzip;q=0.5000"));
    is("", LINES("gzip;q=00.5"));
    is("", LINES("gzip;q=.5"));
    is("", LINES("gzip;q=\"1\""));
    is("", LINES("gzip;level=1"));
    is("", LINES("gzip;q=1;q=1"));
    is("", LINES("q=1"));
    is("", LINES(";q=1"));
    is("", LINES("gzip br"));
    is("", LINES("gzi, gzipp, xgzip, b, brr, x-br"));
    is("", LINES("gzip\x01"));
    is("", LINES("\"gzip\""));
    is("br", LINES("gzip;q=;,;;,=,br"));
}


static void
said_twice(void **state)
{
    (void) state;

    is("", LINES("gzip, gzip;q=0"));
    is("gzip", LINES("gzip;q=0, gzip"));
    is("", LINES("gzip, x-gzip;q=0"));
    is("gzip", LINES("br, br;q=0, gzip"));
}


static void
lines(void **state)
{
    (void) state;

    is("br", LINES("gzip", "br"));
    is("br", LINES("br", "gzip"));
    is("gzip", LINES("", "gzip", ""));
    is("", LINES("gzip", "gzip;q=0"));
    is("gzip", LINES("gzip;q=0", "gzip;q=0.1"));
    is("gzip", LINES("br;q=0.5", "gzip"));

    /* a line is whole by itself */

    is("", LINES("gzip;q", "=1"));
    is("", LINES("gz", "ip"));
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(nothing),
        cmocka_unit_test(names),
        cmocka_unit_test(x_gzip),
        cmocka_unit_test(letters),
        cmocka_unit_test(spaces),
        cmocka_unit_test(weights),
        cmocka_unit_test(garbage),
        cmocka_unit_test(said_twice),
        cmocka_unit_test(lines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
