
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * What is done when no file can be sent, and the one log line about it.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_deliver.h"


#define NGX_HTTP_SENDFILE_LOG_KEY  256


static ngx_int_t ngx_http_sendfile_fallback_to(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf);
static void ngx_http_sendfile_fallback_app(ngx_http_sendfile_ctx_t *ctx);
static void ngx_http_sendfile_fallback_log(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, const char *done, ngx_str_t *to,
    ngx_uint_t code);
static ngx_uint_t ngx_http_sendfile_fallback_level(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx);
static size_t ngx_http_sendfile_fallback_key(u_char *buf, ngx_str_t *key);


ngx_int_t
ngx_http_sendfile_fallback(ngx_http_request_t *r, ngx_http_sendfile_ctx_t *ctx,
    ngx_http_sendfile_loc_conf_t *slcf)
{
    ngx_str_t   none;
    ngx_uint_t  type;

    ctx->state = NGX_HTTP_SENDFILE_DONE;

    ngx_str_null(&none);

    type = slcf->fallback;

    if (type == NGX_CONF_UNSET_UINT) {
        type = r->content_handler ? NGX_HTTP_SENDFILE_FALLBACK_HANDLER
                                  : NGX_HTTP_SENDFILE_FALLBACK_OFF;
    }

    if (ctx->failure == NGX_HTTP_SENDFILE_ON_METHOD) {

        if (type == NGX_HTTP_SENDFILE_FALLBACK_OFF) {
            return NGX_DECLINED;
        }

    } else if (!(slcf->fallback_on & ctx->failure)) {
        type = NGX_HTTP_SENDFILE_FALLBACK_OFF;
    }

    switch (type) {

    case NGX_HTTP_SENDFILE_FALLBACK_OFF:
        ngx_http_sendfile_fallback_log(r, ctx, "answered ", &none, ctx->code);
        return ctx->code;

    case NGX_HTTP_SENDFILE_FALLBACK_CODE:
        ngx_http_sendfile_fallback_log(r, ctx, "answered ", &none,
                                       slcf->fallback_code);
        return slcf->fallback_code;

    case NGX_HTTP_SENDFILE_FALLBACK_HANDLER:
        ngx_http_sendfile_fallback_log(r, ctx, "left to the location's "
                                       "own handler", &none, 0);
        ngx_http_sendfile_fallback_app(ctx);
        return NGX_DECLINED;

    default: /* NAMED, URI */
        return ngx_http_sendfile_fallback_to(r, ctx, slcf);
    }
}


static ngx_int_t
ngx_http_sendfile_fallback_to(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf)
{
    ngx_str_t  to, args;

    if (ngx_http_complex_value(r, slcf->fallback_to, &to) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_http_sendfile_fallback_log(r, ctx, "sent to ", &to, 0);
    ngx_http_sendfile_fallback_app(ctx);

    if (to.len && to.data[0] == '@') {
        (void) ngx_http_named_location(r, &to);
        ngx_http_finalize_request(r, NGX_DONE);

        return NGX_DONE;
    }

    if (to.len == 0 || to.data[0] != '/') {
        ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                      "http_sendfile: fallback \"%V\" does not start "
                      "with \"/\"", &to);
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    /* a "?" that came in by a variable is a part of the path */

    if (slcf->fallback_has_args) {
        ngx_http_split_args(r, &to, &args);

    } else {
        args = r->args;
    }

    (void) ngx_http_internal_redirect(r, &to, &args);
    ngx_http_finalize_request(r, NGX_DONE);

    return NGX_DONE;
}


static void
ngx_http_sendfile_fallback_app(ngx_http_sendfile_ctx_t *ctx)
{
    ngx_str_set(&ctx->source, "app");
}


/*
 * http_sendfile: key "7" in lmdb:/ids: invalid record: ".." in path,
 * sent to @app
 */

static void
ngx_http_sendfile_fallback_log(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, const char *done, ngx_str_t *to,
    ngx_uint_t code)
{
    u_char      *p;
    ngx_str_t    what, where, file, path;
    ngx_log_t   *log;
    ngx_uint_t   level;
    u_char       key[NGX_HTTP_SENDFILE_LOG_KEY];
    u_char       answer[NGX_INT_T_LEN];

    log = r->connection->log;
    level = ngx_http_sendfile_fallback_level(r, ctx);

    if (log->log_level < level) {
        return;
    }

    what.data = key;
    what.len = ngx_http_sendfile_fallback_key(key, &ctx->key);

    ngx_str_set(&where, "");
    ngx_str_null(&path);
    ngx_str_set(&file, "");

    if (ctx->store) {
        where = ctx->store->url;
    }

    if (ctx->target.path.len) {
        ngx_str_set(&file, ", file ");
        path.data = (u_char *) ctx->target.path.data;
        path.len = ctx->target.path.len;
    }

    p = answer;

    if (code) {
        p = ngx_snprintf(answer, NGX_INT_T_LEN, "%ui", code);
    }

    ngx_log_error(level, log, ctx->err,
                  "http_sendfile: key \"%V\" in %V%V%V: %s%s%s, %s%V%*s",
                  &what, &where, &file, &path, ctx->reason,
                  ctx->detail ? ": " : "", ctx->detail ? ctx->detail : "",
                  done, to, (size_t) (p - answer), answer);
}


/* an operator must act on a bad store or record; the rest is the client's */

static ngx_uint_t
ngx_http_sendfile_fallback_level(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx)
{
    ngx_http_core_loc_conf_t  *clcf;

    switch (ctx->failure) {

    case NGX_HTTP_SENDFILE_ON_MISS:
    case NGX_HTTP_SENDFILE_ON_METHOD:
        return NGX_LOG_INFO;

    case NGX_HTTP_SENDFILE_ON_INVALID:
        return ctx->store ? NGX_LOG_ERR : NGX_LOG_INFO;

    case NGX_HTTP_SENDFILE_ON_MISSING_FILE:
        clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);
        return clcf->log_not_found ? NGX_LOG_ERR : NGX_LOG_INFO;

    default:
        return NGX_LOG_ERR;
    }
}


/* a key may be anything that a client sent: one line, printable, not long */

static size_t
ngx_http_sendfile_fallback_key(u_char *buf, ngx_str_t *key)
{
    u_char  *p, *last;
    size_t   i;

    p = buf;
    last = buf + NGX_HTTP_SENDFILE_LOG_KEY - sizeof("\\x00...");

    for (i = 0; i < key->len; i++) {

        if (p > last) {
            p = ngx_cpymem(p, "...", 3);
            break;
        }

        if (key->data[i] < 0x20 || key->data[i] == 0x7f
            || key->data[i] == '"' || key->data[i] == '\\')
        {
            p = ngx_snprintf(p, sizeof("\\x00") - 1, "\\x%02xd",
                             (ngx_uint_t) key->data[i]);
            continue;
        }

        *p++ = key->data[i];
    }

    return p - buf;
}
