/*
 * Copyright (C) the ngx_sendfile authors
 *
 * The value of a key: bytes from a store to a target.
 */


#ifndef _NSF_RECORD_H_INCLUDED_
#define _NSF_RECORD_H_INCLUDED_


#include "nsf_target.h"


typedef enum {
    NSF_FORMAT_AUTO = 0,
    NSF_FORMAT_PATH,
    NSF_FORMAT_JSON,
    NSF_FORMAT_MARSHAL
} nsf_format_e;


/*
 * Decodes a value of at most 64 KiB.  "flags" are the client flags of the
 * store (0 where it has none).  Returns NULL and fills "t", whose strings
 * may point into the value or into memory of the pool; else what is wrong,
 * as a static string.
 */

const char *nsf_record_decode(nsf_target_t *t, nsf_format_e format,
    uint32_t flags, const unsigned char *value, size_t len, nsf_pool_t *pool);


#endif /* _NSF_RECORD_H_INCLUDED_ */
