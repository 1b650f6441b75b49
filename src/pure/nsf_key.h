/*
 * Copyright (C) the ngx_sendfile authors
 *
 * The ID in a URI and the rules of a key.
 */


#ifndef _NSF_KEY_H_INCLUDED_
#define _NSF_KEY_H_INCLUDED_


#include "nsf.h"


/* 1..250 bytes, none a control byte, a space or 0x7f; NULL if so */

const char *nsf_key_check(const unsigned char *key, size_t len);


/*
 * The last segment of a (decoded) URI if it is 1..20 decimal digits: its
 * length, and "*id" points to it; else 0.
 */

size_t nsf_id_from_uri(const unsigned char *uri, size_t len,
    const unsigned char **id);


#endif /* _NSF_KEY_H_INCLUDED_ */
