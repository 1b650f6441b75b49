
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Records in a cache zone: what the store has said of a key, for a time.
 */


#ifndef _NGX_HTTP_SENDFILE_RECORD_H_INCLUDED_
#define _NGX_HTTP_SENDFILE_RECORD_H_INCLUDED_


#include "ngx_http_sendfile.h"


typedef enum {
    NGX_HTTP_SENDFILE_RECORD_NONE = 0,
    NGX_HTTP_SENDFILE_RECORD_FRESH,
    NGX_HTTP_SENDFILE_RECORD_STALE,
    NGX_HTTP_SENDFILE_RECORD_NEGATIVE
} ngx_http_sendfile_record_e;


/*
 * What the cache has for ctx->key; sets ctx->name, by which the others go.
 * FRESH and STALE: "t" is the record, in memory of the request's.
 */

ngx_http_sendfile_record_e ngx_http_sendfile_record_get(
    ngx_http_request_t *r, ngx_http_sendfile_ctx_t *ctx,
    ngx_http_sendfile_loc_conf_t *slcf, nsf_target_t *t);


/*
 * To be called before the store is asked: sets what makes keep() drop an
 * answer that is older than a purge of the key.
 */

void ngx_http_sendfile_record_begin(ngx_http_sendfile_ctx_t *ctx,
    ngx_http_sendfile_loc_conf_t *slcf);


/*
 * Keeps ctx->target; with "negative", that the store has nothing.  "token" is
 * that of the lookup.
 */

void ngx_http_sendfile_record_keep(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_uint_t negative, uint32_t token);


void ngx_http_sendfile_record_forget(ngx_http_sendfile_ctx_t *ctx,
    ngx_http_sendfile_loc_conf_t *slcf);


#endif /* _NGX_HTTP_SENDFILE_RECORD_H_INCLUDED_ */
