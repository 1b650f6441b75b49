
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Small files in a cache zone.
 */


#ifndef _NGX_HTTP_SENDFILE_BODY_H_INCLUDED_
#define _NGX_HTTP_SENDFILE_BODY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_sendfile_ident.h"
#include "ngx_http_sendfile_print.h"
#include "ngx_http_sendfile_zone.h"


/*
 * "name.scope" is a byte that says how the file is opened, and the root;
 * "name.key" is the path below it.  "ident" and "data" are those that the
 * cache has, "data" is NULL if it has none.
 */

typedef struct {
    ngx_http_sendfile_zone_t       *zone;
    nsf_shard_key_t                 name;
    ngx_http_sendfile_ident_t       ident;
    u_char                         *data;
    ngx_http_sendfile_validators_t *validators;
    ngx_http_sendfile_moment_t      moment;
} ngx_http_sendfile_body_t;


/*
 * Takes body->zone, body->name and body->moment, fills in the rest, data from
 * the pool.  NGX_OK: good to be sent, for the file was looked at no more than
 * "check" milliseconds ago, and not before what is due.  NGX_AGAIN: the file
 * has to be looked at.  NGX_DECLINED: not in the cache.
 */

ngx_int_t ngx_http_sendfile_body_get(ngx_http_sendfile_body_t *body,
    ngx_msec_t check, ngx_pool_t *pool);


/*
 * After NGX_AGAIN, "fi" being what was opened since.  NGX_OK: the data is
 * that file's, and good for everybody for a while.  NGX_DECLINED: it is not,
 * and has been dropped.
 */

ngx_int_t ngx_http_sendfile_body_check(ngx_http_sendfile_body_t *body,
    ngx_file_info_t *fi);


/*
 * Reads all of an open file and keeps it.  NGX_OK: body->data is the file,
 * from the pool, and body->ident what it is; NGX_DECLINED: it was changed
 * just now, or meanwhile; NGX_ERROR: it could not be read, or no memory.
 */

ngx_int_t ngx_http_sendfile_body_read(ngx_http_sendfile_body_t *body,
    ngx_file_t *file, ngx_pool_t *pool);


#endif /* _NGX_HTTP_SENDFILE_BODY_H_INCLUDED_ */
