/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Compressed values: zlib, gzip, and the FastLZ of php-memcached.
 */


#ifndef _NSF_INFLATE_H_INCLUDED_
#define _NSF_INFLATE_H_INCLUDED_


#include "nsf.h"


#define NSF_INFLATE_TOO_LONG  "value unpacks to more than 64 KiB"
#define NSF_INFLATE_BROKEN    "broken compressed value"


/*
 * Whether the bytes start as zlib or gzip data of a client does.  Of zlib
 * this is 78 and a check byte: the window is always the largest.  The only
 * text among them starts with "x^".
 */

int nsf_inflate_is_zlib(const unsigned char *p, size_t len);
int nsf_inflate_is_gzip(const unsigned char *p, size_t len);


/*
 * Unpacks zlib or gzip data, one stream and nothing behind it, of at most
 * NSF_MAX_VALUE bytes unpacked, to memory of the pool, just as much as it
 * takes.  Stops at the first byte more.
 */

const char *nsf_inflate(nsf_str_t *out, const unsigned char *p, size_t len,
    nsf_pool_t *pool);


/* unpacks FastLZ of level 1, that is, shorter than 64 KiB, to "size" bytes */

const char *nsf_fastlz(nsf_str_t *out, size_t size, const unsigned char *p,
    size_t len, nsf_pool_t *pool);


#endif /* _NSF_INFLATE_H_INCLUDED_ */
