/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <string.h>

#include "nsf_test.h"
#include "nsf_header.h"


static int
allowed(const char *name)
{
    nsf_str_t  s;

    s.data = (const unsigned char *) name;
    s.len = strlen(name);

    return nsf_header_allowed(&s);
}


static void
names_of_records(void **state)
{
    (void) state;

    assert_int_equal(allowed("Cache-Control"), 1);
    assert_int_equal(allowed("cache-control"), 1);
    assert_int_equal(allowed("ETAG"), 1);
    assert_int_equal(allowed("X-Frame-Options"), 1);
    assert_int_equal(allowed("Access-Control-Allow-Origin"), 1);
    assert_int_equal(allowed("access-control-x1"), 1);
}


static void
other_names(void **state)
{
    (void) state;

    assert_int_equal(allowed(""), 0);
    assert_int_equal(allowed("Content-Length"), 0);
    assert_int_equal(allowed("Set-Cookie"), 0);
    assert_int_equal(allowed("ETa"), 0);
    assert_int_equal(allowed("ETag2"), 0);
    assert_int_equal(allowed("ETag:"), 0);
    assert_int_equal(allowed("Access-Control-"), 0);
    assert_int_equal(allowed("Access-Control-a b"), 0);
    assert_int_equal(allowed("Access-Control-a:"), 0);
    assert_int_equal(allowed("Access-Control-\xc3\xa4"), 0);
}


static void
same_names(void **state)
{
    nsf_str_t  a, b;

    (void) state;

    a.data = (const unsigned char *) "ETag[";
    b.data = (const unsigned char *) "etAG{";
    a.len = b.len = 4;

    assert_int_equal(nsf_header_same(&a, &b), 1);

    /* no letters, though 32 apart */

    a.len = b.len = 5;
    assert_int_equal(nsf_header_same(&a, &b), 0);

    a.len = 3;
    assert_int_equal(nsf_header_same(&a, &b), 0);
}


int
main(void)
{
    static const struct CMUnitTest  tests[] = {
        cmocka_unit_test(names_of_records),
        cmocka_unit_test(other_names),
        cmocka_unit_test(same_names),
    };

    return cmocka_run_group_tests_name("nsf_header", tests, NULL, NULL);
}
