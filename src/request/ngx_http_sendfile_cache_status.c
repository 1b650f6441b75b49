
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Cache-Status (RFC 9211): whether a request has got its answer here, or has
 * gone forward to the application, and why.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_request.h"
#include "ngx_http_sendfile_compat.h"
#include "ngx_http_sendfile_headers.h"
#include "ngx_http_sendfile_learn.h"


/* the longest, with a store's name of whatever length cut off */

#define NGX_HTTP_SENDFILE_CACHE_STATUS  256


static u_char *ngx_http_sendfile_cache_status_hit(u_char *p, u_char *last,
    ngx_http_sendfile_ctx_t *ctx);
static u_char *ngx_http_sendfile_cache_status_forward(u_char *p, u_char *last,
    ngx_http_request_t *r, ngx_http_sendfile_ctx_t *ctx);


static ngx_str_t  ngx_http_sendfile_cache_status_name =
    ngx_string("Cache-Status");


ngx_int_t
ngx_http_sendfile_add_cache_status(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx)
{
    u_char                        *p, *last;
    ngx_str_t                      value;
    ngx_table_elt_t               *h;
    ngx_http_sendfile_headers_t    it;
    ngx_http_sendfile_loc_conf_t  *slcf;

    slcf = ngx_http_get_module_loc_conf(r, ngx_http_sendfile_module);

    if (!ctx->cache_status && !slcf->cache_status) {
        return NGX_OK;
    }

    /* a filter has answered instead, and this is its response's header */

    for (h = ngx_http_sendfile_headers_first(&it,
                                             &r->headers_out.headers.part);
         h;
         h = ngx_http_sendfile_headers_next(&it))
    {
        if (h->key.data == ngx_http_sendfile_cache_status_name.data) {
            h->hash = 0;
        }
    }

    p = ngx_pnalloc(r->pool, NGX_HTTP_SENDFILE_CACHE_STATUS);
    if (p == NULL) {
        return NGX_ERROR;
    }

    value.data = p;
    last = p + NGX_HTTP_SENDFILE_CACHE_STATUS;

    p = ngx_slprintf(p, last, "ngx_sendfile");

    /* the application may have named another ID, which was looked up then */

    if (ctx->outcome.source == NGX_HTTP_SENDFILE_SOURCE_APP
        || ctx->lookups > 1
        || ctx->answer)
    {
        p = ngx_http_sendfile_cache_status_forward(p, last, r, ctx);

    } else if (ctx->outcome.source != NGX_HTTP_SENDFILE_SOURCE_NONE) {
        p = ngx_http_sendfile_cache_status_hit(p, last, ctx);
    }

    p = ngx_slprintf(p, last, "; detail=%V",
                     ngx_http_sendfile_status_name(ctx));

    /* no status is "-", which is no token */

    if (p[-1] == '-') {
        p -= sizeof("; detail=-") - 1;
    }

    value.len = p - value.data;

    h = ngx_list_push(&r->headers_out.headers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    h->hash = 1;
    ngx_http_sendfile_last_header(h);
    h->key = ngx_http_sendfile_cache_status_name;
    h->value = value;

    return NGX_OK;
}


/* a file is sent, and the application was not asked; or an error */

static u_char *
ngx_http_sendfile_cache_status_hit(u_char *p, u_char *last,
    ngx_http_sendfile_ctx_t *ctx)
{
    ngx_msec_int_t  left;

    if (ctx->outcome.reason
        && ctx->outcome.status != NGX_HTTP_SENDFILE_STATUS_NEGATIVE)
    {
        /* neither from here nor from there */
        return p;
    }

    p = ngx_slprintf(p, last, "; hit");

    if (ctx->valid
        && ctx->outcome.source != NGX_HTTP_SENDFILE_SOURCE_STORE)
    {
        /* whole seconds, rounded down: it is stale when they are negative */

        left = (ngx_msec_int_t) (ctx->valid - ngx_current_msec);
        left = (left >= 0) ? left / 1000 : -((999 - left) / 1000);

        p = ngx_slprintf(p, last, "; ttl=%i", (ngx_int_t) left);
    }

    return p;
}


static u_char *
ngx_http_sendfile_cache_status_forward(u_char *p, u_char *last,
    ngx_http_request_t *r, ngx_http_sendfile_ctx_t *ctx)
{
    const char           *why;
    ngx_http_upstream_t  *u;

    if (!(r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))) {
        why = "method";

    } else if (ctx->stale || (ctx->learn && ctx->learn->stale)) {
        why = "stale";

    } else {
        why = "miss";
    }

    p = ngx_slprintf(p, last, "; fwd=%s", why);

    u = r->upstream;

    if (u && u->headers_in.status_n) {
        p = ngx_slprintf(p, last, "; fwd-status=%ui", u->headers_in.status_n);
    }

    if (ctx->learn && ctx->learn->stored) {
        p = ngx_slprintf(p, last, "; stored");
    }

    return p;
}
