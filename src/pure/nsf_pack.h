/*
 * Copyright (C) the ngx_sendfile authors
 *
 * A target as a flat string of bytes, for memory that processes share:
 *
 *     version | flags | [expires] [valid_until] [type] [name] [headers] | path
 *
 * What a target does not have takes no byte.  Times are 8 bytes, little
 * endian.  A string is its length and its bytes; a length is one byte below
 * 255, else a byte of 255 and 4 bytes, little endian.  Headers are their
 * number in one byte, then a name and a value for each.  A target has one
 * form only, which ends with its path.
 */


#ifndef _NSF_PACK_H_INCLUDED_
#define _NSF_PACK_H_INCLUDED_


#include "nsf_target.h"


/* no string of a target is longer than 4 GiB */

size_t nsf_pack_size(const nsf_target_t *t);


/* "buf" has nsf_pack_size() bytes */

void nsf_pack(unsigned char *buf, const nsf_target_t *t);


/*
 * Believes nothing that it reads: NULL, or what is wrong.  The strings are
 * slices of "data", which may lie at any address, the headers are from the
 * pool, of which nothing is asked without them.
 */

const char *nsf_unpack(nsf_target_t *t, const unsigned char *data, size_t len,
    nsf_pool_t *pool);


#endif /* _NSF_PACK_H_INCLUDED_ */
