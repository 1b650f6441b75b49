/*
 * Copyright (C) the ngx_sendfile authors
 *
 * What the unit tests share: exactly sized buffers and a pool that counts,
 * and can refuse, its allocations.
 */


#ifndef _NSF_TEST_H_INCLUDED_
#define _NSF_TEST_H_INCLUDED_


#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <string.h>
#include <stdlib.h>

#include <cmocka.h>

#include "nsf.h"


/*
 * A copy of some bytes that ends where its memory ends, so that a read of
 * one byte more is seen by the address sanitizer and by valgrind, even with
 * a length of 0.  To be freed with nsf_test_free().
 */

typedef struct {
    unsigned char        *data;
    size_t                len;
    void                 *memory;
} nsf_test_buf_t;


nsf_test_buf_t nsf_test_copy(const void *data, size_t len);
void nsf_test_free(nsf_test_buf_t *buf);


/*
 * "pool" is what the code under test gets.  With "fail_at" n > 0 the n-th
 * allocation fails; "calls" counts them all.
 */

#define NSF_TEST_BLOCKS  256

typedef struct {
    nsf_pool_t            pool;
    size_t                calls;
    size_t                fail_at;
    size_t                nblocks;
    void                 *blocks[NSF_TEST_BLOCKS];
    size_t                sizes[NSF_TEST_BLOCKS];
} nsf_test_pool_t;


void nsf_test_pool_init(nsf_test_pool_t *tp, size_t fail_at);
void nsf_test_pool_free(nsf_test_pool_t *tp);

/* whether a string lies within one block of the pool */

int nsf_test_pool_owns(const nsf_test_pool_t *tp, const nsf_str_t *s);


/* NULL, or the same words */

#define nsf_assert_error(err, expected)                                       \
    _nsf_assert_error(err, expected, __FILE__, __LINE__)

#define nsf_assert_good(err)                                                  \
    _nsf_assert_error(err, NULL, __FILE__, __LINE__)

void _nsf_assert_error(const char *err, const char *expected,
    const char *file, int line);


#define nsf_assert_str(s, expected)                                           \
    do {                                                                      \
        assert_int_equal((s).len, sizeof(expected) - 1);                      \
        assert_memory_equal((s).data, expected, sizeof(expected) - 1);        \
    } while (0)


#endif /* _NSF_TEST_H_INCLUDED_ */
