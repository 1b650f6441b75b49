
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Follows an application's answer: the file of X-Sendfile is sent in the
 * location that has asked the application, X-Accel-Redirect is left to
 * nginx.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_accept.h"
#include "ngx_http_sendfile_compat.h"
#include "ngx_http_sendfile_deliver.h"
#include "ngx_http_sendfile_location.h"
#include "ngx_http_sendfile_learn.h"
#include "nsf_key.h"


static ngx_int_t ngx_http_sendfile_accept_redirected(ngx_http_request_t *r);
static ngx_int_t ngx_http_sendfile_accept_strayed(ngx_http_request_t *r);
static ngx_uint_t ngx_http_sendfile_accept_pending(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx);
static ngx_int_t ngx_http_sendfile_accept_send(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_answer_t *answer);
static ngx_int_t ngx_http_sendfile_accept_subject(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf);
static const char *ngx_http_sendfile_accept_path(ngx_http_sendfile_ctx_t *ctx,
    ngx_http_sendfile_loc_conf_t *slcf, ngx_str_t *value);
static ngx_int_t ngx_http_sendfile_accept_failed(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_str_t *value);


ngx_int_t
ngx_http_sendfile_accept_init(ngx_conf_t *cf)
{
    ngx_uint_t                   i;
    ngx_http_core_srv_conf_t   **cscfp;
    ngx_http_core_main_conf_t   *cmcf;

    if (ngx_http_sendfile_accept_hooks(cf) != NGX_OK) {
        return NGX_ERROR;
    }

    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);
    cscfp = cmcf->servers.elts;

    for (i = 0; i < cmcf->servers.nelts; i++) {
        if (ngx_http_sendfile_add_named_location(cf, cscfp[i],
                                      &ngx_http_sendfile_accept_redirect.value)
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    if (ngx_http_sendfile_add_handler(cf, NGX_HTTP_PRECONTENT_PHASE,
                                      ngx_http_sendfile_accept_clean)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    /* a URI's first phase, and that of a named location */

    if (ngx_http_sendfile_add_handler(cf, NGX_HTTP_SERVER_REWRITE_PHASE,
                                      ngx_http_sendfile_accept_redirected)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_http_sendfile_add_last_handler(cf, NGX_HTTP_REWRITE_PHASE,
                                          ngx_http_sendfile_accept_redirected);
}


/* in the first phase after any redirect: follows the answer */

static ngx_int_t
ngx_http_sendfile_accept_redirected(ngx_http_request_t *r)
{
    ngx_int_t                    rc;
    ngx_http_sendfile_ctx_t     *ctx;
    ngx_http_sendfile_answer_t  *answer;
    ngx_http_sendfile_status_e   status;

    /* a subrequest is internal from its start: it may have no answer yet */

    if (!r->internal || (r->upstream == NULL && r != r->main)) {
        return ngx_http_sendfile_accept_strayed(r);
    }

    ctx = ngx_http_sendfile_get_ctx(r);

    if (ctx == NULL) {
        return ngx_http_sendfile_accept_strayed(r);
    }

    if (ctx->learn) {
        ngx_http_sendfile_learn_leave(r, ctx->learn);
    }

    if (!ngx_http_sendfile_accept_pending(r, ctx)) {
        return ngx_http_sendfile_accept_strayed(r);
    }

    answer = ctx->answer;
    answer->state = NGX_HTTP_SENDFILE_ANSWER_FOLLOWED;

    if (ngx_http_sendfile_accept_headers(r, answer) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    /* of a lookup before it only the status is kept */

    status = ctx->outcome.status;

    ngx_http_sendfile_outcome_reset(&ctx->outcome);

    ctx->outcome.source = NGX_HTTP_SENDFILE_SOURCE_APP;
    ctx->outcome.status = status;

    if (answer->redirect == &ngx_http_sendfile_accept_redirect) {
        return ngx_http_sendfile_accept_send(r, ctx, answer);
    }

    rc = ngx_http_sendfile_accept_strayed(r);
    if (rc != NGX_DECLINED) {
        return rc;
    }

    if (ctx->learn) {
        ngx_http_sendfile_learn_answer(r, ctx, NULL, NULL);
    }

    ngx_http_set_ctx(r, ctx, ngx_http_sendfile_filter_module);

    return NGX_DECLINED;
}


static ngx_int_t
ngx_http_sendfile_accept_strayed(ngx_http_request_t *r)
{
    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    if (clcf->name.data != ngx_http_sendfile_accept_redirect.value.data) {
        return NGX_DECLINED;
    }

    return ngx_http_sendfile_no_location(r);
}


/*
 * Whether it was an answer of the application that brought the request here,
 * and not an error_page after an answer that could not be used, or after a
 * redirect that led nowhere.
 */

static ngx_uint_t
ngx_http_sendfile_accept_pending(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx)
{
    ngx_http_sendfile_answer_t  *answer;

    answer = ctx->answer;

    if (answer == NULL
        || answer->state != NGX_HTTP_SENDFILE_ANSWER_PENDING
        || r->upstream == NULL)
    {
        return 0;
    }

    if (r->upstream->headers_in.x_accel_redirect != answer->redirect
        || answer->uri_changes != (ngx_uint_t) r->uri_changes + 1)
    {
        answer->state = NGX_HTTP_SENDFILE_ANSWER_DROPPED;
        return 0;
    }

    return 1;
}


static ngx_int_t
ngx_http_sendfile_accept_send(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_answer_t *answer)
{
    ngx_int_t                      rc;
    ngx_str_t                     *value;
    const char                    *err;
    ngx_http_sendfile_loc_conf_t  *slcf;

    /* or again() would take it for an X-Accel-Redirect of the answer */

    r->upstream->headers_in.x_accel_redirect = NULL;

    r->loc_conf = answer->loc_conf;
    r->keepalive = answer->keepalive;

    ngx_http_update_location_config(r);

    r->content_handler = NULL;

    if (!(r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))) {
        r->disable_not_modified = 1;
    }

    slcf = ngx_http_get_module_loc_conf(r, ngx_http_sendfile_module);
    value = &answer->line->value;

    err = ngx_http_sendfile_accept_path(ctx, slcf, value);

    if (ctx->learn) {
        ngx_http_sendfile_learn_answer(r, ctx, &ctx->root, err);
    }

    if (err) {
        ngx_http_sendfile_fail(ctx, NGX_HTTP_SENDFILE_ON_INVALID,
                               NGX_HTTP_BAD_GATEWAY, "invalid X-Sendfile");
        ctx->outcome.detail = err;
        return ngx_http_sendfile_accept_failed(r, ctx, value);
    }

    if (ngx_http_sendfile_accept_subject(r, ctx, slcf) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    rc = ngx_http_sendfile_direct(r, ctx, slcf);

    if (rc == NGX_DECLINED) {
        return ngx_http_sendfile_accept_failed(r, ctx, value);
    }

    ctx->state = NGX_HTTP_SENDFILE_DONE;

    return (rc == NGX_ERROR) ? NGX_HTTP_INTERNAL_SERVER_ERROR : rc;
}


/*
 * The key whose purge makes what is known of the file old: the location's, or,
 * where a rewrite has left none, the ID in the request line.
 */

static ngx_int_t
ngx_http_sendfile_accept_subject(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf)
{
    ngx_int_t  rc;
    ngx_str_t  id, key;

    if (slcf->cache == NULL || ctx->learn) {
        return NGX_OK;
    }

    ngx_http_sendfile_id(r, &id);

    rc = ngx_http_sendfile_key(r, slcf, &id, &key);

    if (rc == NGX_DECLINED
        || (rc == NGX_OK && nsf_key_check(key.data, key.len) != NULL))
    {
        rc = ngx_http_sendfile_learn_line_id(r, &key);
    }

    if (rc != NGX_OK) {
        return NGX_ERROR;
    }

    if (key.len) {
        ngx_http_sendfile_ctx_subject(r, ctx, NGX_HTTP_SENDFILE_NAME_KEY,
                                      &key);
    }

    return NGX_OK;
}


/* NULL and ctx->root, ctx->outcome.target; or what is wrong */

static const char *
ngx_http_sendfile_accept_path(ngx_http_sendfile_ctx_t *ctx,
    ngx_http_sendfile_loc_conf_t *slcf, ngx_str_t *value)
{
    nsf_str_t   *dir, path, rest;
    ngx_uint_t   i;

    path.data = value->data;
    path.len = value->len;

    if (path.len == 0 || path.data[0] != '/') {
        return "no absolute path";
    }

    if (slcf->allow == NULL) {
        return "no http_sendfile_allow";
    }

    dir = slcf->allow->elts;

    for (i = 0; i < slcf->allow->nelts; i++) {

        if (nsf_path_below(&dir[i], &path, &rest)) {
            ctx->root.data = (u_char *) dir[i].data;
            ctx->root.len = dir[i].len;

            return nsf_target_set_path(&ctx->outcome.target, rest.data,
                                       rest.len);
        }
    }

    return "not below http_sendfile_allow";
}


static ngx_int_t
ngx_http_sendfile_accept_failed(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_str_t *value)
{
    ngx_uint_t                    level;
    ngx_http_core_loc_conf_t     *clcf;
    ngx_http_sendfile_outcome_t  *outcome;
    u_char                        text[NGX_HTTP_SENDFILE_LOG_TEXT];

    outcome = &ctx->outcome;
    ctx->state = NGX_HTTP_SENDFILE_DONE;

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    level = (outcome->failure == NGX_HTTP_SENDFILE_ON_MISSING_FILE
             && !clcf->log_not_found)
            ? NGX_LOG_INFO : NGX_LOG_ERR;

    ngx_log_error(level, r->connection->log, outcome->err,
                  "http_sendfile: the application's file \"%*s\": %s%s%s, "
                  "answered %ui",
                  ngx_http_sendfile_log_text(text, value), text,
                  outcome->reason, outcome->detail ? ": " : "",
                  outcome->detail ? outcome->detail : "", outcome->code);

    return outcome->code;
}
