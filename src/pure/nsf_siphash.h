/*
 * Copyright (C) the ngx_sendfile authors
 *
 * SipHash-1-3: a hash that nobody can aim collisions at without knowing its
 * key.  That many rounds have the hash tables of Rust, Ruby and Python, too.
 */


#ifndef _NSF_SIPHASH_H_INCLUDED_
#define _NSF_SIPHASH_H_INCLUDED_


#include "nsf.h"


/*
 * "key" has 128 random bits; the algorithm's key of 16 bytes is key[0] and
 * key[1], each little endian.
 */

uint64_t nsf_siphash(const uint64_t key[2], const void *data, size_t len);


#endif /* _NSF_SIPHASH_H_INCLUDED_ */
