
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Records in a cache zone: what the store has said of a key, for a time.
 */


#ifndef _NGX_HTTP_SENDFILE_RECORD_H_INCLUDED_
#define _NGX_HTTP_SENDFILE_RECORD_H_INCLUDED_


#include "ngx_http_sendfile_ctx.h"


typedef enum {
    NGX_HTTP_SENDFILE_RECORD_NONE = 0,
    NGX_HTTP_SENDFILE_RECORD_FRESH,
    NGX_HTTP_SENDFILE_RECORD_STALE,
    NGX_HTTP_SENDFILE_RECORD_NEGATIVE
} ngx_http_sendfile_record_e;


/*
 * What the cache has for ctx->key; sets ctx->name, by which the others go.
 * FRESH and STALE: "t" is the record, in memory of the request's, and
 * "*generation" when it was read.
 */

ngx_http_sendfile_record_e ngx_http_sendfile_record_get(
    ngx_http_request_t *r, ngx_http_sendfile_ctx_t *ctx,
    ngx_http_sendfile_loc_conf_t *slcf, nsf_target_t *t,
    ngx_atomic_uint_t *generation);


/*
 * Keeps the outcome's target; with "negative", that the store has nothing.
 * "generation" is that of the lookup.
 */

void ngx_http_sendfile_record_keep(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_uint_t negative, ngx_atomic_uint_t generation);


void ngx_http_sendfile_record_forget(ngx_http_sendfile_ctx_t *ctx,
    ngx_http_sendfile_loc_conf_t *slcf);


#endif /* _NGX_HTTP_SENDFILE_RECORD_H_INCLUDED_ */
