/*
 * Copyright (C) the ngx_sendfile authors
 *
 * What the clients of memcached wrap around a string, and how they say so.
 */


#ifndef _NSF_UNWRAP_H_INCLUDED_
#define _NSF_UNWRAP_H_INCLUDED_


#include "nsf_record.h"


/*
 * "*s" is the value on entry and the string in it afterwards: a slice of the
 * value or memory of the pool.  "*valid_until" is set as in a target.
 *
 * AUTO:     by the flags and, where these leave it open, the first bytes
 * MARSHAL:  unpacked if the flags say so, then Marshal or a Rails.cache entry
 * others:   unpacked if the flags say so, and no more
 */

const char *nsf_unwrap(nsf_str_t *s, int64_t *valid_until,
    nsf_format_e format, uint32_t flags, nsf_pool_t *pool);


#endif /* _NSF_UNWRAP_H_INCLUDED_ */
