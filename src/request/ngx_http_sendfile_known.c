
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * A file that another module knows: no key, no store, but the same delivery,
 * fallback, log and variables.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_request.h"
#include "ngx_http_sendfile_deliver.h"


#define NGX_HTTP_SENDFILE_KNOWN_HEADERS  3


static void ngx_http_sendfile_known_target(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_http_sendfile_known_t *file);
static ngx_int_t ngx_http_sendfile_known_headers(ngx_http_request_t *r,
    nsf_target_t *t, ngx_http_sendfile_known_t *file);
static void ngx_http_sendfile_known_header(nsf_target_t *t, const char *name,
    ngx_str_t *value);


ngx_int_t
ngx_http_sendfile_send(ngx_http_request_t *r, ngx_http_sendfile_known_t *file)
{
    ngx_int_t                      rc;
    ngx_http_sendfile_ctx_t       *ctx;
    ngx_http_sendfile_loc_conf_t  *slcf;

    rc = ngx_http_sendfile_claim(r, &ctx);

    if (rc != NGX_OK) {
        return rc;
    }

    slcf = ngx_http_get_module_loc_conf(r, ngx_http_sendfile_module);

    rc = ngx_http_sendfile_known(r, ctx, slcf, file,
                                 NGX_HTTP_SENDFILE_SOURCE_SIGNED);

    if (rc == NGX_ERROR) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (rc != NGX_DECLINED) {
        return rc;
    }

    rc = ngx_http_sendfile_fallback(r, ctx, slcf);

    if (rc == NGX_DECLINED) {
        /* not yet anywhere that it could come back from */
        ctx->fallen = 0;
    }

    return rc;
}


ngx_int_t
ngx_http_sendfile_claim(ngx_http_request_t *r, ngx_http_sendfile_ctx_t **ctxp)
{
    ngx_http_sendfile_ctx_t  *ctx;

    ctx = ngx_http_sendfile_get_ctx(r);

    if (ctx && (ctx->trial == NULL || ctx->lookups)) {
        /* it has been here: on its way to the application, or from there */
        return NGX_DECLINED;
    }

    if (ctx == NULL) {
        ctx = ngx_http_sendfile_create_ctx(r);
    }

    if (ctx == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ctx->state = NGX_HTTP_SENDFILE_START;

    /* as if it were one: an X-Accel-Redirect may lead to another */

    ctx->lookups = 1;

    ngx_http_sendfile_id(r, &ctx->id);

    *ctxp = ctx;

    return NGX_OK;
}


ngx_int_t
ngx_http_sendfile_known(ngx_http_request_t *r, ngx_http_sendfile_ctx_t *ctx,
    ngx_http_sendfile_loc_conf_t *slcf, ngx_http_sendfile_known_t *file,
    ngx_http_sendfile_source_e source)
{
    ngx_int_t  rc;

    ctx->outcome.source = source;

    ngx_http_sendfile_known_target(r, ctx, slcf, file);

    if (ctx->state != NGX_HTTP_SENDFILE_FOUND) {
        return NGX_DECLINED;
    }

    rc = ngx_http_sendfile_known_headers(r, &ctx->outcome.target, file);

    if (rc == NGX_OK) {
        rc = ngx_http_sendfile_direct(r, ctx, slcf);
    }

    if (rc == NGX_ERROR) {
        ctx->state = NGX_HTTP_SENDFILE_DONE;
    }

    return rc;
}


/* FOUND or FAILED */

static void
ngx_http_sendfile_known_target(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_http_sendfile_known_t *file)
{
    nsf_str_t    disposition;
    const char  *reason;

    ctx->key = file->key;

    if (file->reason) {
        ctx->outcome.status = NGX_HTTP_SENDFILE_STATUS_INVALID;
        ngx_http_sendfile_fail(ctx, NGX_HTTP_SENDFILE_ON_INVALID, file->code,
                               file->reason);
        return;
    }

    reason = nsf_target_check(&file->target);

    disposition.data = file->disposition.data;
    disposition.len = file->disposition.len;

    if (reason == NULL && nsf_has_control(&disposition, 1)) {
        reason = "control byte in disposition";
    }

    if (reason) {
        ctx->outcome.status = NGX_HTTP_SENDFILE_STATUS_INVALID;
        ngx_http_sendfile_fail(ctx, NGX_HTTP_SENDFILE_ON_INVALID,
                               NGX_HTTP_NOT_FOUND, "invalid token");
        ctx->outcome.detail = reason;
        return;
    }

    if (file->root.len == 0 && slcf->deliver != NGX_HTTP_SENDFILE_DIRECT) {
        ctx->outcome.status = NGX_HTTP_SENDFILE_STATUS_ERROR;
        ngx_http_sendfile_fail(ctx, NGX_HTTP_SENDFILE_ON_ERROR,
                               NGX_HTTP_INTERNAL_SERVER_ERROR,
                               "no http_sendfile_root");
        return;
    }

    ngx_http_sendfile_ctx_subject(r, ctx, NGX_HTTP_SENDFILE_NAME_KEY,
                                  &ctx->key);

    ctx->outcome.status = NGX_HTTP_SENDFILE_STATUS_HIT;
    ctx->outcome.target = file->target;
    ctx->root = file->root;
    ctx->state = NGX_HTTP_SENDFILE_FOUND;
}


/* beside the target's, of which the module has none */

static ngx_int_t
ngx_http_sendfile_known_headers(ngx_http_request_t *r, nsf_target_t *t,
    ngx_http_sendfile_known_t *file)
{
    ngx_str_t  nosniff;

    t->headers = ngx_palloc(r->pool, NGX_HTTP_SENDFILE_KNOWN_HEADERS
                                     * sizeof(nsf_header_t));
    if (t->headers == NULL) {
        return NGX_ERROR;
    }

    t->nheaders = 0;

    ngx_str_set(&nosniff, "nosniff");

    ngx_http_sendfile_known_header(t, "Content-Disposition",
                                   &file->disposition);
    ngx_http_sendfile_known_header(t, "Cache-Control", &file->cache_control);
    ngx_http_sendfile_known_header(t, "X-Content-Type-Options", &nosniff);

    return NGX_OK;
}


static void
ngx_http_sendfile_known_header(nsf_target_t *t, const char *name,
    ngx_str_t *value)
{
    nsf_header_t  *h;

    h = &t->headers[t->nheaders];

    h->name.data = (const u_char *) name;
    h->name.len = ngx_strlen(name);
    h->value.data = value->data;
    h->value.len = value->len;

    if (value->len) {
        t->nheaders++;
    }
}
