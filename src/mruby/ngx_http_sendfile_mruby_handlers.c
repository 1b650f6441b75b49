
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * The handlers that run a script, and what is done with what it said.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_mruby.h"


static void ngx_http_sendfile_mrb_body(ngx_http_request_t *r);
static ngx_int_t ngx_http_sendfile_mrb_content(ngx_http_request_t *r);
static ngx_int_t ngx_http_sendfile_mrb_redirect(ngx_http_request_t *r,
    ngx_http_sendfile_mrb_ctx_t *ctx);
static ngx_int_t ngx_http_sendfile_mrb_send(ngx_http_request_t *r,
    ngx_http_sendfile_mrb_ctx_t *ctx);


ngx_http_sendfile_mrb_ctx_t *
ngx_http_sendfile_mrb_ctx(ngx_http_request_t *r)
{
    ngx_http_sendfile_mrb_ctx_t  *ctx;

    ctx = ngx_http_get_module_ctx(r, ngx_http_sendfile_mruby_module);

    if (ctx == NULL) {
        ctx = ngx_pcalloc(r->pool, sizeof(ngx_http_sendfile_mrb_ctx_t));
        if (ctx == NULL) {
            return NULL;
        }

        ctx->last = &ctx->out;

        ngx_http_set_ctx(r, ctx, ngx_http_sendfile_mruby_module);
    }

    return ctx;
}


ngx_int_t
ngx_http_sendfile_mrb_content_handler(ngx_http_request_t *r)
{
    ngx_int_t  rc;

    if (r->headers_in.content_length_n > 0 || r->headers_in.chunked) {
        r->request_body_in_single_buf = 1;

        rc = ngx_http_read_client_request_body(r, ngx_http_sendfile_mrb_body);

        return (rc >= NGX_HTTP_SPECIAL_RESPONSE) ? rc : NGX_DONE;
    }

    rc = ngx_http_discard_request_body(r);

    if (rc != NGX_OK) {
        return rc;
    }

    return ngx_http_sendfile_mrb_content(r);
}


static void
ngx_http_sendfile_mrb_body(ngx_http_request_t *r)
{
    ngx_http_finalize_request(r, ngx_http_sendfile_mrb_content(r));
}


static ngx_int_t
ngx_http_sendfile_mrb_content(ngx_http_request_t *r)
{
    ngx_http_sendfile_mrb_ctx_t       *ctx;
    ngx_http_sendfile_mrb_loc_conf_t  *mlcf;

    mlcf = ngx_http_get_module_loc_conf(r, ngx_http_sendfile_mruby_module);

    ctx = ngx_http_sendfile_mrb_ctx(r);

    if (ctx == NULL
        || mlcf->content == NULL
        || ngx_http_sendfile_mrb_run(r, mlcf->content, NULL, NULL) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (ctx->redirect.len) {
        return ngx_http_sendfile_mrb_redirect(r, ctx);
    }

    if (ctx->has_status) {

        if (ctx->status == NGX_DECLINED) {
            return NGX_DECLINED;
        }

        if (ctx->status == NGX_ERROR) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        if (ctx->status >= NGX_HTTP_SPECIAL_RESPONSE && ctx->out == NULL) {
            return ctx->status;
        }
    }

    return ngx_http_sendfile_mrb_send(r, ctx);
}


ngx_int_t
ngx_http_sendfile_mrb_access_handler(ngx_http_request_t *r)
{
    ngx_int_t                          rc;
    ngx_http_sendfile_mrb_ctx_t       *ctx;
    ngx_http_sendfile_mrb_loc_conf_t  *mlcf;

    mlcf = ngx_http_get_module_loc_conf(r, ngx_http_sendfile_mruby_module);

    if (mlcf->access == NULL) {
        return NGX_DECLINED;
    }

    if (ngx_http_sendfile_mrb_run(r, mlcf->access, NULL, NULL) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ctx = ngx_http_get_module_ctx(r, ngx_http_sendfile_mruby_module);

    if (ctx == NULL) {
        return NGX_OK;
    }

    if (ctx->redirect.len) {
        rc = ngx_http_sendfile_mrb_redirect(r, ctx);

    } else if (!ctx->has_status && ctx->out == NULL) {
        return NGX_OK;

    } else if (ctx->has_status
               && (ctx->status < NGX_HTTP_OK
                   || (ctx->status >= NGX_HTTP_SPECIAL_RESPONSE
                       && ctx->out == NULL)))
    {
        ctx->has_status = 0;
        return (ctx->status == NGX_ERROR) ? NGX_HTTP_INTERNAL_SERVER_ERROR
                                          : ctx->status;

    } else {

        /* else the body would be taken for the connection's next request */

        rc = ngx_http_discard_request_body(r);

        if (rc == NGX_OK) {
            rc = ngx_http_sendfile_mrb_send(r, ctx);
        }
    }

    if (rc >= NGX_HTTP_SPECIAL_RESPONSE) {
        return rc;
    }

    ngx_http_finalize_request(r, rc);

    return NGX_DONE;
}


ngx_int_t
ngx_http_sendfile_mrb_file_handler(ngx_http_request_t *r,
    ngx_http_sendfile_script_t *s)
{
    ngx_int_t                          rc;
    ngx_http_sendfile_mrb_loc_conf_t  *mlcf;

    mlcf = ngx_http_get_module_loc_conf(r, ngx_http_sendfile_mruby_module);

    if (mlcf->file == NULL) {
        return NGX_OK;
    }

    if (s->trial) {
        return NGX_AGAIN;
    }

    rc = ngx_http_sendfile_mrb_run(r, mlcf->file, NULL, s);

    if (rc != NGX_OK) {
        return NGX_ERROR;
    }

    return (s->code || s->fallback.len) ? NGX_DECLINED : NGX_OK;
}


/* where the script has sent the request, once it has ended */

static ngx_int_t
ngx_http_sendfile_mrb_redirect(ngx_http_request_t *r,
    ngx_http_sendfile_mrb_ctx_t *ctx)
{
    ngx_str_t   uri, args;
    ngx_uint_t  flags;

    if (ctx->redirect.data[0] == '@') {
        (void) ngx_http_named_location(r, &ctx->redirect);
        return NGX_DONE;
    }

    uri = ctx->redirect;
    args = r->args;
    flags = NGX_HTTP_LOG_UNSAFE;

    if (ngx_strlchr(uri.data, uri.data + uri.len, '?')) {
        ngx_str_null(&args);
    }

    if (ngx_http_parse_unsafe_uri(r, &uri, &args, &flags) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    (void) ngx_http_internal_redirect(r, &uri, &args);

    return NGX_DONE;
}


static ngx_int_t
ngx_http_sendfile_mrb_send(ngx_http_request_t *r,
    ngx_http_sendfile_mrb_ctx_t *ctx)
{
    ngx_int_t     rc;
    ngx_buf_t    *b;
    ngx_chain_t  *cl;

    r->headers_out.status = ctx->has_status ? ctx->status : NGX_HTTP_OK;
    r->headers_out.content_length_n = ctx->size;

    if (r->headers_out.content_type.len == 0
        && ngx_http_set_content_type(r) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    rc = ngx_http_send_header(r);

    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        return rc;
    }

    if (ctx->out == NULL) {
        cl = ngx_alloc_chain_link(r->pool);
        b = ngx_calloc_buf(r->pool);

        if (cl == NULL || b == NULL) {
            return NGX_ERROR;
        }

        cl->buf = b;
        cl->next = NULL;
        ctx->out = cl;

    } else {
        for (cl = ctx->out; cl->next; cl = cl->next) { /* void */ }
        b = cl->buf;
    }

    b->last_buf = (r == r->main);
    b->last_in_chain = 1;
    b->sync = (ctx->size == 0);

    return ngx_http_output_filter(r, ctx->out);
}
