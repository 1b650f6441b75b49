/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Compressed values, and nsf_inflate() with a memory for zlib that can fail.
 */


#ifndef _NSF_TEST_INFLATE_H_INCLUDED_
#define _NSF_TEST_INFLATE_H_INCLUDED_


#include "nsf_test.h"


/* the formats of deflateInit2() */

#define NSF_TEST_ZLIB  15
#define NSF_TEST_GZIP  (15 + 16)
#define NSF_TEST_RAW   (-15)


/* returns the length; "dst" has room for all of it or the test fails */

size_t nsf_test_deflate(unsigned char *dst, size_t size, int format,
    const void *data, size_t len);


/*
 * nsf_inflate(), the n-th allocation of zlib failing, n > 0.  "nalloc" is
 * how many there were, "nfree" how many were given back.
 */

typedef struct {
    size_t                fail_at;
    size_t                nalloc;
    size_t                nfree;
} nsf_test_zlib_t;


extern nsf_test_zlib_t  nsf_test_zlib;


const char *nsf_test_inflate(nsf_str_t *out, const unsigned char *p,
    size_t len, nsf_pool_t *pool);


#endif /* _NSF_TEST_INFLATE_H_INCLUDED_ */
