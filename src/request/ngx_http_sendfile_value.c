
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Bytes from a store to a target.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_request.h"


const char *
ngx_http_sendfile_decode(ngx_http_request_t *r, ngx_http_sendfile_ctx_t *ctx,
    ngx_uint_t format, ngx_http_sendfile_value_t *value)
{
    nsf_pool_t     pool;
    const char    *reason;
    nsf_target_t  *t;

    ngx_http_sendfile_pool(&pool, r->pool);

    t = &ctx->outcome.target;

    if (value->json) {
        format = NSF_FORMAT_JSON;
    }

    reason = nsf_record_decode(t, (nsf_format_e) format, value->flags,
                               value->data, value->len, &pool);

    if (reason == NULL) {
        /* the value is the store's, and gone soon */
        reason = nsf_target_keep(t, value->data, value->len, &pool);
    }

    if (reason) {
        ngx_memzero(t, sizeof(nsf_target_t));
    }

    return reason;
}
