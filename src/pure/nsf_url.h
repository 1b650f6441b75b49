/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Where a store is: lmdb:/path, memcached://host[:port],
 * memcached:/unix/socket; anything without a colon is the name of a store.
 */


#ifndef _NSF_URL_H_INCLUDED_
#define _NSF_URL_H_INCLUDED_


#include "nsf.h"


typedef struct {
    nsf_str_t             scheme;  /* "lmdb", empty for a NAME */
    nsf_str_t             host;    /* of scheme://host[:port], [] kept */
    nsf_str_t             path;    /* of scheme:/path, or the NAME */
    unsigned              port;    /* 0 if not given */
} nsf_url_t;


/*
 * Splits the URL of any scheme; NULL, or what is wrong and what to write
 * instead.
 */

const char *nsf_url_parse(nsf_url_t *url, const unsigned char *p, size_t len);


#endif /* _NSF_URL_H_INCLUDED_ */
