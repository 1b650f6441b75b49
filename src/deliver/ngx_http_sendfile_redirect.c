
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Delivery by an internal redirect to prefix + path: the location found
 * there sends the file, with all that is configured in it.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_deliver.h"


static ngx_int_t ngx_http_sendfile_redirect_prefix(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_str_t *prefix);


ngx_int_t
ngx_http_sendfile_redirect(ngx_http_request_t *r, ngx_http_sendfile_ctx_t *ctx,
    ngx_http_sendfile_loc_conf_t *slcf)
{
    u_char     *p;
    ngx_int_t   rc;
    ngx_str_t   uri, args, prefix;
    nsf_str_t  *path;

    rc = ngx_http_sendfile_redirect_prefix(r, ctx, slcf, &prefix);

    if (rc != NGX_OK) {
        return rc;
    }

    path = &ctx->outcome.target.path;

    uri.data = ngx_pnalloc(r->pool, prefix.len + 1 + path->len);
    if (uri.data == NULL) {
        return NGX_ERROR;
    }

    p = ngx_cpymem(uri.data, prefix.data, prefix.len);

    if (p[-1] != '/') {
        *p++ = '/';
    }

    p = ngx_cpymem(p, path->data, path->len);

    uri.len = p - uri.data;

    /* for what the location may do with them: mp4, image_filter */

    args = r->args;

    ctx->state = NGX_HTTP_SENDFILE_DONE;
    ctx->delivery = NGX_HTTP_SENDFILE_REDIRECTING;

    if (ctx->trial) {
        ctx->trial->uri = uri;
        ctx->trial->args = args;
        return NGX_DONE;
    }

    (void) ngx_http_internal_redirect(r, &uri, &args);
    ngx_http_finalize_request(r, NGX_DONE);

    return NGX_DONE;
}


static ngx_int_t
ngx_http_sendfile_redirect_prefix(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_str_t *prefix)
{
    if (ngx_http_complex_value(r, slcf->prefix, prefix) != NGX_OK) {
        return NGX_ERROR;
    }

    if (slcf->prefix->lengths == NULL) {
        /* checked when the configuration was read */
        return NGX_OK;
    }

    if (prefix->len == 0
        || prefix->data[0] != '/'
        || nsf_base_check(prefix->data, prefix->len) != NULL)
    {
        ngx_http_sendfile_fail(ctx, NGX_HTTP_SENDFILE_ON_INVALID,
                               NGX_HTTP_INTERNAL_SERVER_ERROR,
                               "prefix is no absolute URI");
        return NGX_DECLINED;
    }

    return NGX_OK;
}
