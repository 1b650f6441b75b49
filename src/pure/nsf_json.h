/*
 * Copyright (C) the ngx_sendfile authors
 *
 * A record as a JSON object, see docs/records.md.
 */


#ifndef _NSF_JSON_H_INCLUDED_
#define _NSF_JSON_H_INCLUDED_


#include "nsf_target.h"


/* once in a process, lest the first decode opens /dev/urandom */

void nsf_json_init(void);


/* every string of the target is copied to the pool */

const char *nsf_json_decode(nsf_target_t *t, const unsigned char *value,
    size_t len, nsf_pool_t *pool);


#endif /* _NSF_JSON_H_INCLUDED_ */
