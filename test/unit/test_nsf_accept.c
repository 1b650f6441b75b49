/*
 * Copyright (C) the ngx_sendfile authors
 */


#include "nsf_test.h"
#include "nsf_accept.h"


#define OPEN  "application/openmetrics-text"


/* lines up to a NULL */

static int
openmetrics(const char *const *lines)
{
    nsf_str_t       value;
    nsf_accept_t    a;
    nsf_test_buf_t  buf;

    nsf_accept_init(&a);

    for ( /* void */ ; *lines != NULL; lines++) {

        /* a buffer of its own, so that a byte too many is seen */

        buf = nsf_test_copy((const unsigned char *) *lines, strlen(*lines));

        value.data = buf.data;
        value.len = strlen(*lines);

        nsf_accept_line(&a, &value);

        nsf_test_free(&buf);
    }

    assert_in_range(a.openmetrics + 1, 0, 1001);
    assert_in_range(a.plain + 1, 0, 1001);

    return nsf_accept_openmetrics(&a);
}


#define YES(...)                                                              \
    assert_int_equal(openmetrics((const char *const []) { __VA_ARGS__,        \
                                                          NULL }), 1)
#define NO(...)                                                               \
    assert_int_equal(openmetrics((const char *const []) { __VA_ARGS__,        \
                                                          NULL }), 0)


static void
nothing(void **state)
{
    (void) state;

    NO("");
    NO(" ");
    NO(",");
    NO(";");
    NO(",;=,;=");
    NO("*/*");
    NO("application/*");
    NO("text/plain");
    NO("application/json");
    NO(OPEN "x");
    NO("x" OPEN);
}


static void
named(void **state)
{
    (void) state;

    YES(OPEN);
    YES(" \t" OPEN "\t ");
    YES("APPLICATION/OpenMetrics-Text");
    YES("text/html, " OPEN);
    YES("text/html", OPEN);
    YES(OPEN ";charset=utf-8");
    YES(OPEN ";=;;");
}


static void
versions(void **state)
{
    (void) state;

    YES(OPEN ";version=1.0.0");
    YES(OPEN " ; Version=1.0.0 ");
    YES(OPEN ";version=\"1.0.0\"");
    NO(OPEN ";version=0.0.1");
    NO(OPEN ";version=2.0.0");
    NO(OPEN ";version=");
    NO(OPEN ";version=1.0.00");
    YES(OPEN ";version=0.0.1," OPEN ";version=1.0.0;q=0.1");
    /* that of text/plain does not matter */
    NO(OPEN ";q=0.5, text/plain;version=9;q=0.6");
}


static void
weights(void **state)
{
    (void) state;

    NO(OPEN ";q=0");
    NO(OPEN ";q=0.000");
    YES(OPEN ";q=0.001");
    YES(OPEN ";Q=1.000");
    YES(OPEN ";q=0.5,text/plain;q=0.5");
    YES(OPEN ";q=0.501,text/plain;q=0.5");
    NO(OPEN ";q=0.5,text/plain;q=0.501");
    NO("text/plain", OPEN ";q=0.9");
    YES("text/plain;q=0", OPEN ";q=0.1");
    YES("*/*;q=1", OPEN ";q=0.1");

    /* what is no weight */
    NO(OPEN ";q=");
    NO(OPEN ";q=2");
    NO(OPEN ";q=1.001");
    NO(OPEN ";q=0.1234");
    NO(OPEN ";q=.5");
    NO(OPEN ";q=0,5");
    NO(OPEN ";q=0.x");
    NO(OPEN ";q=1x");
    NO(OPEN ";q=-1");
}


/* what Prometheus 2 and 3 send */

static void
prometheus(void **state)
{
    (void) state;

    YES("application/openmetrics-text;version=1.0.0,"
        "application/openmetrics-text;version=0.0.1;q=0.75,"
        "text/plain;version=0.0.4;q=0.5,*/*;q=0.1");
    YES("application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;"
        "q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,"
        "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,"
        "text/plain;version=0.0.4;q=0.2,/;q=0.1");
    NO("text/plain;version=0.0.4;q=0.5,*/*;q=0.1");
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(nothing),
        cmocka_unit_test(named),
        cmocka_unit_test(versions),
        cmocka_unit_test(weights),
        cmocka_unit_test(prometheus),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
