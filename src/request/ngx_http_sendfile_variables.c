
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * $sendfile_*: read from the request's context, wherever it has been
 * redirected to since.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_headers.h"
#include "ngx_http_sendfile_request.h"
#include "nsf_encoding.h"


static ngx_int_t ngx_http_sendfile_variable_id(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_sendfile_variable_key(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_sendfile_variable_target(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_sendfile_variable_status(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_sendfile_variable_source(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_sendfile_variable_lookup_time(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_sendfile_variable_reason(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_sendfile_variable_accept_encoding(
    ngx_http_request_t *r, ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_sendfile_variable_set(ngx_http_variable_value_t *v,
    ngx_str_t *s);


static ngx_http_variable_t  ngx_http_sendfile_vars[] = {

    { ngx_string("sendfile_id"), NULL,
      ngx_http_sendfile_variable_id, 0, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("sendfile_key"), NULL,
      ngx_http_sendfile_variable_key, 0, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("sendfile_target"), NULL,
      ngx_http_sendfile_variable_target, 0, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("sendfile_status"), NULL,
      ngx_http_sendfile_variable_status, 0, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("sendfile_source"), NULL,
      ngx_http_sendfile_variable_source, 0, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("sendfile_lookup_time"), NULL,
      ngx_http_sendfile_variable_lookup_time, 0, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("sendfile_reason"), NULL,
      ngx_http_sendfile_variable_reason, 0, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("sendfile_accept_encoding"), NULL,
      ngx_http_sendfile_variable_accept_encoding, 0, 0, 0 },

      ngx_http_null_variable
};


/* in the order of ngx_http_sendfile_status_e */

static ngx_str_t  ngx_http_sendfile_status_names[] = {
    ngx_string("-"),
    ngx_string("HIT"),
    ngx_string("MISS"),
    ngx_string("NEGATIVE"),
    ngx_string("EXPIRED"),
    ngx_string("STALE"),
    ngx_string("BYPASS"),
    ngx_string("ERROR"),
    ngx_string("TIMEOUT"),
    ngx_string("INVALID")
};


/* in the order of ngx_http_sendfile_source_e; a store has the name it has */

static ngx_str_t  ngx_http_sendfile_source_names[] = {
    ngx_string("-"),
    ngx_null_string,
    ngx_string("cache"),
    ngx_string("learned"),
    ngx_string("app"),
    ngx_string("signed")
};


ngx_int_t
ngx_http_sendfile_add_variables(ngx_conf_t *cf)
{
    ngx_http_variable_t  *var, *v;

    for (v = ngx_http_sendfile_vars; v->name.len; v++) {
        var = ngx_http_add_variable(cf, &v->name, v->flags);
        if (var == NULL) {
            return NGX_ERROR;
        }

        var->get_handler = v->get_handler;
        var->data = v->data;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_sendfile_variable_id(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_str_t                 id;
    ngx_http_sendfile_ctx_t  *ctx;

    ctx = ngx_http_sendfile_get_ctx(r);

    if (ctx) {
        id = ctx->id;

    } else {
        ngx_http_sendfile_id(r, &id);
    }

    /* empty, and not "not found": there always is an answer */

    return ngx_http_sendfile_variable_set(v, &id);
}


static ngx_int_t
ngx_http_sendfile_variable_key(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_int_t                      rc;
    ngx_str_t                      id, key;
    ngx_http_sendfile_ctx_t       *ctx;
    ngx_http_sendfile_loc_conf_t  *slcf;

    ctx = ngx_http_sendfile_get_ctx(r);

    if (ctx) {
        return ngx_http_sendfile_variable_set(v, &ctx->key);
    }

    slcf = ngx_http_get_module_loc_conf(r, ngx_http_sendfile_module);

    ngx_http_sendfile_id(r, &id);

    rc = ngx_http_sendfile_key(r, slcf, &id, &key);

    if (rc == NGX_ERROR) {
        return NGX_ERROR;
    }

    if (rc == NGX_DECLINED) {
        v->not_found = 1;
        return NGX_OK;
    }

    return ngx_http_sendfile_variable_set(v, &key);
}


static ngx_int_t
ngx_http_sendfile_variable_target(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_str_t                 path;
    ngx_http_sendfile_ctx_t  *ctx;

    ctx = ngx_http_sendfile_get_ctx(r);

    if (ctx == NULL || ctx->outcome.target.path.len == 0) {
        v->not_found = 1;
        return NGX_OK;
    }

    path.data = (u_char *) ctx->outcome.target.path.data;
    path.len = ctx->outcome.target.path.len;

    return ngx_http_sendfile_variable_set(v, &path);
}


static ngx_int_t
ngx_http_sendfile_variable_status(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_http_sendfile_ctx_t  *ctx;

    ctx = ngx_http_sendfile_get_ctx(r);

    return ngx_http_sendfile_variable_set(v,
                                          ngx_http_sendfile_status_name(ctx));
}


ngx_str_t *
ngx_http_sendfile_status_name(ngx_http_sendfile_ctx_t *ctx)
{
    ngx_http_sendfile_status_e  status;

    status = ctx ? ctx->outcome.status : NGX_HTTP_SENDFILE_STATUS_NONE;

    return &ngx_http_sendfile_status_names[status];
}


static ngx_int_t
ngx_http_sendfile_variable_source(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_http_sendfile_ctx_t  *ctx;

    ctx = ngx_http_sendfile_get_ctx(r);

    return ngx_http_sendfile_variable_set(v,
                                          ngx_http_sendfile_source_name(ctx));
}


ngx_str_t *
ngx_http_sendfile_source_name(ngx_http_sendfile_ctx_t *ctx)
{
    ngx_http_sendfile_source_e  source;

    source = ctx ? ctx->outcome.source : NGX_HTTP_SENDFILE_SOURCE_NONE;

    if (source == NGX_HTTP_SENDFILE_SOURCE_STORE) {
        return &ctx->store->type->scheme;
    }

    return &ngx_http_sendfile_source_names[source];
}


static ngx_int_t
ngx_http_sendfile_variable_lookup_time(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    u_char                   *p;
    ngx_str_t                 time;
    ngx_http_sendfile_ctx_t  *ctx;

    ctx = ngx_http_sendfile_get_ctx(r);

    if (ctx == NULL || ctx->lookup_time == (ngx_msec_t) -1) {
        v->not_found = 1;
        return NGX_OK;
    }

    p = ngx_pnalloc(r->pool, NGX_TIME_T_LEN + 4);
    if (p == NULL) {
        return NGX_ERROR;
    }

    time.data = p;
    time.len = ngx_snprintf(p, NGX_TIME_T_LEN + 4, "%T.%03M",
                            (time_t) ctx->lookup_time / 1000,
                            ctx->lookup_time % 1000)
               - p;

    return ngx_http_sendfile_variable_set(v, &time);
}


/* "missing file (2: No such file or directory)", "invalid record: ..." */

static ngx_int_t
ngx_http_sendfile_variable_reason(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_int_t  rc;
    ngx_str_t  reason;

    rc = ngx_http_sendfile_reason(r, ngx_http_sendfile_get_ctx(r), &reason);

    if (rc == NGX_DECLINED) {
        v->not_found = 1;
        return NGX_OK;
    }

    return (rc == NGX_OK) ? ngx_http_sendfile_variable_set(v, &reason) : rc;
}


ngx_int_t
ngx_http_sendfile_reason(ngx_http_request_t *r, ngx_http_sendfile_ctx_t *ctx,
    ngx_str_t *reason)
{
    u_char                       *p, *last;
    ngx_http_sendfile_outcome_t  *outcome;

    if (ctx == NULL || ctx->outcome.reason == NULL) {
        return NGX_DECLINED;
    }

    p = ngx_pnalloc(r->pool, NGX_MAX_ERROR_STR);
    if (p == NULL) {
        return NGX_ERROR;
    }

    reason->data = p;
    last = p + NGX_MAX_ERROR_STR;

    outcome = &ctx->outcome;

    p = ngx_slprintf(p, last, "%s%s%s", outcome->reason,
                     outcome->detail ? ": " : "",
                     outcome->detail ? outcome->detail : "");

    if (outcome->err) {
        p = ngx_slprintf(p, last, " (%d: ", outcome->err);
        p = ngx_strerror(outcome->err, p, last - p);
        p = ngx_slprintf(p, last, ")");
    }

    reason->len = p - reason->data;

    return NGX_OK;
}


static ngx_int_t
ngx_http_sendfile_variable_accept_encoding(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    nsf_str_t                     value;
    ngx_str_t                     name;
    nsf_encoding_t                encoding;
    ngx_table_elt_t              *h;
    ngx_http_sendfile_headers_t   it;

    ngx_memzero(&encoding, sizeof(nsf_encoding_t));

    for (h = ngx_http_sendfile_headers_first(&it, &r->headers_in.headers.part);
         h;
         h = ngx_http_sendfile_headers_next(&it))
    {
        if (ngx_http_sendfile_name_is(&h->key, "Accept-Encoding")) {
            value.data = h->value.data;
            value.len = h->value.len;

            nsf_encoding_line(&encoding, &value);
        }
    }

    name.data = (u_char *) nsf_encoding(&encoding);
    name.len = ngx_strlen(name.data);

    return ngx_http_sendfile_variable_set(v, &name);
}


static ngx_int_t
ngx_http_sendfile_variable_set(ngx_http_variable_value_t *v, ngx_str_t *s)
{
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;
    v->len = s->len;
    v->data = s->data;

    return NGX_OK;
}
