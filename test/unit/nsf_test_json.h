/*
 * Copyright (C) the ngx_sendfile authors
 *
 * What the tests of the JSON decoder share.
 */


#ifndef _NSF_TEST_JSON_H_INCLUDED_
#define _NSF_TEST_JSON_H_INCLUDED_


#include "nsf_test.h"
#include "nsf_json.h"


/* the state of a test: what it decoded last, and the pool that this is in */

typedef struct {
    nsf_test_pool_t       tp;
    nsf_target_t          t;
} nsf_json_test_t;


int nsf_json_setup(void **state);
int nsf_json_teardown(void **state);

#define json_test(f)                                                          \
    cmocka_unit_test_setup_teardown(f, nsf_json_setup, nsf_json_teardown)


/*
 * Decode a value, a string, or a format; the result is the error.  The pool
 * is a new one each time.  The value is freed at once, so that the target
 * must have copied what it needs, and a target of a bad value must be empty.
 */

const char *decode_n(void **state, const void *json, size_t len);
const char *decode(void **state, const char *json);
const char *decode_f(void **state, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

nsf_target_t *target(void **state);

void assert_header(void **state, size_t i, const char *name,
    const char *value);


#endif /* _NSF_TEST_JSON_H_INCLUDED_ */
