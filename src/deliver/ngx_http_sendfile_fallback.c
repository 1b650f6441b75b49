
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * What is done when no file can be sent, and the one log line about it.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_deliver.h"


/* what to run next, with a URL of usual length */

#define NGX_HTTP_SENDFILE_HINT  256


static ngx_uint_t ngx_http_sendfile_fallback_type(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_str_t *to, ngx_uint_t *code);
static ngx_uint_t ngx_http_sendfile_fallback_text(ngx_str_t *to,
    ngx_uint_t *code);
static ngx_int_t ngx_http_sendfile_fallback_uri(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_str_t *to);
static ngx_int_t ngx_http_sendfile_fallback_args(ngx_http_request_t *r,
    ngx_str_t *args);
static void ngx_http_sendfile_fallback_app(ngx_http_sendfile_ctx_t *ctx);
static ngx_uint_t ngx_http_sendfile_fallback_limited(
    ngx_http_sendfile_ctx_t *ctx, u_char *more);
static void ngx_http_sendfile_fallback_hint(ngx_http_request_t *r,
    u_char *hint);
static ngx_uint_t ngx_http_sendfile_fallback_level(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx);


ngx_int_t
ngx_http_sendfile_fallback(ngx_http_request_t *r, ngx_http_sendfile_ctx_t *ctx,
    ngx_http_sendfile_loc_conf_t *slcf)
{
    ngx_str_t   to;
    ngx_uint_t  type, code;
    u_char      text[NGX_HTTP_SENDFILE_LOG_TEXT];

    ctx->state = NGX_HTTP_SENDFILE_DONE;

    ngx_str_null(&to);

    type = ngx_http_sendfile_fallback_type(r, ctx, slcf, &to, &code);

    if (ctx->trial) {
        ctx->trial->falls = 1;
        ctx->trial->fallback = type;
        ctx->trial->to = to;
    }

    switch (type) {

    case NGX_HTTP_SENDFILE_FALLBACK_OFF:

        if (ctx->outcome.failure == NGX_HTTP_SENDFILE_ON_METHOD) {
            return NGX_DECLINED;
        }

        code = ctx->outcome.code;

        /* fall through */

    case NGX_HTTP_SENDFILE_FALLBACK_CODE:
        ngx_http_sendfile_log_failure(r, ctx, "answered ", &to, code);
        return code;

    case NGX_HTTP_SENDFILE_FALLBACK_HANDLER:
        ngx_http_sendfile_log_failure(r, ctx, "left to the location's "
                                      "own handler", &to, 0);
        ngx_http_sendfile_fallback_app(ctx);
        return NGX_DECLINED;

    case NGX_HTTP_SENDFILE_FALLBACK_NAMED:
        ngx_http_sendfile_log_failure(r, ctx, "sent to ", &to, 0);
        ngx_http_sendfile_fallback_app(ctx);

        if (ctx->trial) {
            return NGX_DONE;
        }

        (void) ngx_http_named_location(r, &to);
        ngx_http_finalize_request(r, NGX_DONE);

        return NGX_DONE;

    case NGX_HTTP_SENDFILE_FALLBACK_URI:
        return ngx_http_sendfile_fallback_uri(r, ctx, slcf, &to);

    default:
        if (ctx->trial) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                      "http_sendfile: invalid fallback \"%*s\": it must be "
                      "a named location (@app), a URI (/app), a code (=404) "
                      "or off", ngx_http_sendfile_log_text(text, &to), text);
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
}


/* its type for this request; NGX_CONF_UNSET_UINT if a variable spoils it */

static ngx_uint_t
ngx_http_sendfile_fallback_type(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_str_t *to, ngx_uint_t *code)
{
    *code = slcf->fallback_code;

    if (ctx->outcome.failure == NGX_HTTP_SENDFILE_ON_SCRIPT) {

        if (ctx->fallback.len == 0) {
            return NGX_HTTP_SENDFILE_FALLBACK_OFF;
        }

        *to = ctx->fallback;

        return ngx_http_sendfile_fallback_text(to, code);
    }

    if (ctx->outcome.failure != NGX_HTTP_SENDFILE_ON_METHOD
        && !(slcf->fallback_on & ctx->outcome.failure))
    {
        return NGX_HTTP_SENDFILE_FALLBACK_OFF;
    }

    if (slcf->fallback == NGX_CONF_UNSET_UINT) {
        return r->content_handler ? NGX_HTTP_SENDFILE_FALLBACK_HANDLER
                                  : NGX_HTTP_SENDFILE_FALLBACK_OFF;
    }

    if (slcf->fallback != NGX_HTTP_SENDFILE_FALLBACK_NAMED
        && slcf->fallback != NGX_HTTP_SENDFILE_FALLBACK_URI)
    {
        return slcf->fallback;
    }

    if (ngx_http_complex_value(r, slcf->fallback_to, to) != NGX_OK) {
        return NGX_CONF_UNSET_UINT;
    }

    return ngx_http_sendfile_fallback_text(to, code);
}


/* the type of a fallback whose variables have been replaced */

static ngx_uint_t
ngx_http_sendfile_fallback_text(ngx_str_t *to, ngx_uint_t *code)
{
    ngx_int_t  n;

    if (to->len == 3 && ngx_strncmp(to->data, "off", 3) == 0) {
        return NGX_HTTP_SENDFILE_FALLBACK_OFF;
    }

    switch (to->len ? to->data[0] : '\0') {

    case '@':
        return NGX_HTTP_SENDFILE_FALLBACK_NAMED;

    case '/':
        return NGX_HTTP_SENDFILE_FALLBACK_URI;

    case '=':
        n = ngx_atoi(to->data + 1, to->len - 1);

        if (ngx_http_sendfile_valid_code(n)) {
            *code = n;
            to->len = 0;
            return NGX_HTTP_SENDFILE_FALLBACK_CODE;
        }

        return NGX_CONF_UNSET_UINT;

    default:
        return NGX_CONF_UNSET_UINT;
    }
}


static ngx_int_t
ngx_http_sendfile_fallback_uri(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_str_t *to)
{
    ngx_str_t   args;
    ngx_uint_t  has_args;

    ngx_http_sendfile_log_failure(r, ctx, "sent to ", to, 0);
    ngx_http_sendfile_fallback_app(ctx);

    /* a "?" that came in by a variable is a part of the path */

    has_args = ctx->fallback.len
               ? ngx_strlchr(to->data, to->data + to->len, '?') != NULL
               : slcf->fallback_has_args;

    if (has_args) {
        ngx_http_split_args(r, to, &args);

        if (ngx_http_sendfile_fallback_args(r, &args) != NGX_OK) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

    } else {
        args = r->args;
    }

    if (ctx->trial) {
        ctx->trial->uri = *to;
        ctx->trial->args = args;
        return NGX_DONE;
    }

    (void) ngx_http_internal_redirect(r, to, &args);
    ngx_http_finalize_request(r, NGX_DONE);

    return NGX_DONE;
}


/*
 * What a variable has brought into the arguments may become a line of a
 * request to an upstream: spaces and control bytes are escaped.
 */

static ngx_int_t
ngx_http_sendfile_fallback_args(ngx_http_request_t *r, ngx_str_t *args)
{
    u_char  *p, *escaped;
    size_t   i, n;

    static u_char  hex[] = "0123456789ABCDEF";

    n = 0;

    for (i = 0; i < args->len; i++) {
        n += (args->data[i] <= 0x20 || args->data[i] == 0x7f);
    }

    if (n == 0) {
        return NGX_OK;
    }

    escaped = ngx_pnalloc(r->pool, args->len + 2 * n);
    if (escaped == NULL) {
        return NGX_ERROR;
    }

    p = escaped;

    for (i = 0; i < args->len; i++) {

        if (args->data[i] > 0x20 && args->data[i] != 0x7f) {
            *p++ = args->data[i];
            continue;
        }

        *p++ = '%';
        *p++ = hex[args->data[i] >> 4];
        *p++ = hex[args->data[i] & 0xf];
    }

    args->data = escaped;
    args->len = p - escaped;

    return NGX_OK;
}


static void
ngx_http_sendfile_fallback_app(ngx_http_sendfile_ctx_t *ctx)
{
    ctx->outcome.source = NGX_HTTP_SENDFILE_SOURCE_APP;
    ctx->fallen = 1;
}


/*
 * http_sendfile: key "7" in lmdb:/ids: invalid record: ".." in path,
 * sent to @app
 */

void
ngx_http_sendfile_log_failure(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, const char *done, ngx_str_t *to,
    ngx_uint_t code)
{
    u_char      *p;
    size_t       len;
    ngx_str_t    url, path;
    ngx_log_t   *log;
    ngx_uint_t   level;
    u_char       key[NGX_HTTP_SENDFILE_LOG_TEXT];
    u_char       where[NGX_HTTP_SENDFILE_LOG_TEXT];
    u_char       more[NGX_HTTP_SENDFILE_LIMIT_TEXT];
    u_char       hint[NGX_HTTP_SENDFILE_HINT];

    log = r->connection->log;
    level = ngx_http_sendfile_fallback_level(r, ctx);

    if (log->log_level < level
        || ctx->trial
        || ngx_http_sendfile_fallback_limited(ctx, more))
    {
        return;
    }

    p = where;
    *hint = '\0';

    if (code) {
        ngx_http_sendfile_fallback_hint(r, hint);
        p = ngx_snprintf(where, NGX_HTTP_SENDFILE_LOG_TEXT, "%ui", code);

    } else if (to) {
        p = where + ngx_http_sendfile_log_text(where, to);
    }

    ngx_str_null(&url);
    ngx_str_null(&path);

    if (ctx->store) {
        url = ctx->store->url;
    }

    if (ctx->outcome.target.path.len) {
        path.data = (u_char *) ctx->outcome.target.path.data;
        path.len = ctx->outcome.target.path.len;
    }

    len = ngx_http_sendfile_log_text(key, &ctx->key);

    ngx_log_error(level, log, ctx->outcome.err,
                  "http_sendfile: key \"%*s\"%s%V%s%V: %s%s%s, %s%*s%s%s",
                  len, key,
                  url.len ? " in " : "", &url,
                  path.len ? ", file " : "", &path,
                  ctx->outcome.reason, ctx->outcome.detail ? ": " : "",
                  ctx->outcome.detail ? ctx->outcome.detail : "",
                  done, (size_t) (p - where), where, hint, more);
}


/* while a store is down, a line for each reason and second is enough */

static ngx_uint_t
ngx_http_sendfile_fallback_limited(ngx_http_sendfile_ctx_t *ctx, u_char *more)
{
    *more = '\0';

    if (!(ctx->outcome.failure & (NGX_HTTP_SENDFILE_ON_ERROR
                                  |NGX_HTTP_SENDFILE_ON_TIMEOUT))
        || ctx->store == NULL
        || ctx->outcome.reason == NULL
        || ctx->outcome.target.path.len)
    {
        return 0;
    }

    return !ngx_http_sendfile_limit(&ctx->store->limit, ctx->outcome.reason,
                                    more);
}


/*
 * What to run next.  The URL is the client's, and may be pasted into a shell:
 * it is left out if there is anything in it that quotes do not hold.
 */

static void
ngx_http_sendfile_fallback_hint(ngx_http_request_t *r, u_char *hint)
{
    u_char      *p, *last;
    ngx_str_t    host;
    const char  *scheme;

    last = hint + NGX_HTTP_SENDFILE_HINT - 1;

    scheme = "http";

#if (NGX_HTTP_SSL)
    if (r->connection->ssl) {
        scheme = "https";
    }
#endif

    host = r->headers_in.host ? r->headers_in.host->value
                              : r->headers_in.server;

    p = ngx_slprintf(hint, last, ", see: sendfilectl explain ");

    p = ngx_slprintf(p, last, host.len ? "'%s://%V%V'" : "'%s%V%V'",
                     host.len ? scheme : "", &host, &r->unparsed_uri);

    *p = '\0';

    if (p < last) {
        p = hint + sizeof(", see: sendfilectl explain '") - 1;

        while (*p > 0x20 && *p < 0x7f && *p != '\'' && *p != '\\') {
            p++;
        }

        if (p[0] == '\'' && p[1] == '\0') {
            return;
        }
    }

    hint[sizeof(", see: sendfilectl explain") - 1] = '\0';
}


/* an operator must act on a bad store or record; the rest is the client's */

static ngx_uint_t
ngx_http_sendfile_fallback_level(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx)
{
    ngx_http_core_loc_conf_t  *clcf;

    switch (ctx->outcome.failure) {

    case NGX_HTTP_SENDFILE_ON_MISS:
    case NGX_HTTP_SENDFILE_ON_METHOD:
    case NGX_HTTP_SENDFILE_ON_SCRIPT:
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


size_t
ngx_http_sendfile_log_text(u_char *buf, ngx_str_t *text)
{
    u_char  *p, *last;
    size_t   i;

    p = buf;
    last = buf + NGX_HTTP_SENDFILE_LOG_TEXT - sizeof("\\x00...");

    for (i = 0; i < text->len; i++) {

        if (p > last) {
            p = ngx_cpymem(p, "...", 3);
            break;
        }

        if (text->data[i] < 0x20 || text->data[i] == 0x7f
            || text->data[i] == '"' || text->data[i] == '\\')
        {
            p = ngx_snprintf(p, sizeof("\\x00") - 1, "\\x%02xd",
                             (u_int) text->data[i]);
            continue;
        }

        *p++ = text->data[i];
    }

    return p - buf;
}
