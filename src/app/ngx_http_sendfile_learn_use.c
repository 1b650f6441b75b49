
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Before the application is asked: what it has answered last time is done
 * again, by the rules of the configuration as it is now.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_learn.h"
#include "ngx_http_sendfile_accept.h"
#include "ngx_http_sendfile_deliver.h"
#include "ngx_http_sendfile_location.h"


static ngx_uint_t ngx_http_sendfile_learn_applies(ngx_http_request_t *r,
    ngx_http_sendfile_loc_conf_t *slcf);
static ngx_http_sendfile_learn_e ngx_http_sendfile_learn_kind(
    ngx_http_request_t *r);
static ngx_int_t ngx_http_sendfile_learn_create(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf);
static ngx_int_t ngx_http_sendfile_learn_care(ngx_http_request_t *r,
    ngx_http_sendfile_learn_t *learn);
static ngx_int_t ngx_http_sendfile_learn_ask(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf);
static ngx_int_t ngx_http_sendfile_learn_ask_anew(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_http_sendfile_learned_t *learned);
static ngx_int_t ngx_http_sendfile_learn_stand_in(ngx_http_request_t *r,
    ngx_http_sendfile_learn_t *learn, ngx_http_sendfile_loc_conf_t *slcf);
static ngx_int_t ngx_http_sendfile_learn_use(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_http_sendfile_learned_t *learned, ngx_http_sendfile_status_e status);
static ngx_int_t ngx_http_sendfile_learn_file(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_http_sendfile_learned_t *learned);
static ngx_int_t ngx_http_sendfile_learn_redirect(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_http_sendfile_learned_t *learned);
static ngx_int_t ngx_http_sendfile_learn_failed(ngx_http_request_t *r);


/* as that of http_sendfile_accept: no server may have another */

static ngx_str_t  ngx_http_sendfile_learn_stale =
    ngx_string("@http_sendfile_stale");


ngx_int_t
ngx_http_sendfile_learn_init(ngx_conf_t *cf)
{
    ngx_uint_t                   i;
    ngx_http_core_srv_conf_t   **cscfp;
    ngx_http_core_main_conf_t   *cmcf;

    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);
    cscfp = cmcf->servers.elts;

    /* where a request goes whose application has failed */

    for (i = 0; i < cmcf->servers.nelts; i++) {
        if (ngx_http_sendfile_add_named_location(cf, cscfp[i],
                                              &ngx_http_sendfile_learn_stale)
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    if (ngx_http_sendfile_add_handler(cf, NGX_HTTP_PRECONTENT_PHASE,
                                      ngx_http_sendfile_learn_handler)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_http_sendfile_add_last_handler(cf, NGX_HTTP_REWRITE_PHASE,
                                              ngx_http_sendfile_learn_failed);
}


ngx_int_t
ngx_http_sendfile_learn_handler(ngx_http_request_t *r)
{
    ngx_int_t                      rc;
    ngx_http_sendfile_ctx_t       *ctx;
    ngx_http_sendfile_loc_conf_t  *slcf;

    slcf = ngx_http_get_module_loc_conf(r, ngx_http_sendfile_module);

    if (!slcf->learn || !ngx_http_sendfile_learn_applies(r, slcf)) {
        return NGX_DECLINED;
    }

    ctx = ngx_http_sendfile_get_ctx(r);

    /* the request was redirected here to send a file that is known */

    if (ctx
        && (ctx->learn
            || ctx->delivery != NGX_HTTP_SENDFILE_NOT_DELIVERED
            || ctx->answer))
    {
        return NGX_DECLINED;
    }

    if (ctx == NULL) {
        ctx = ngx_http_sendfile_create_ctx(r);

        if (ctx == NULL) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        ctx->state = NGX_HTTP_SENDFILE_DONE;
    }

    if (ctx->outcome.source == NGX_HTTP_SENDFILE_SOURCE_NONE) {
        ctx->outcome.source = NGX_HTTP_SENDFILE_SOURCE_APP;
    }

    rc = ngx_http_sendfile_learn_create(r, ctx, slcf);

    if (rc == NGX_OK) {
        rc = ngx_http_sendfile_learn_ask(r, ctx, slcf);
    }

    return (rc == NGX_ERROR) ? NGX_HTTP_INTERNAL_SERVER_ERROR : rc;
}


/*
 * An upstream always is a content handler; the answer of an error page is not
 * about what was asked for.
 */

static ngx_uint_t
ngx_http_sendfile_learn_applies(ngx_http_request_t *r,
    ngx_http_sendfile_loc_conf_t *slcf)
{
    if (!slcf->accept
        || slcf->cache == NULL
        || r != r->main
        || r->content_handler == NULL
        || r->error_page)
    {
        return 0;
    }

    switch (r->method) {

    case NGX_HTTP_GET:
    case NGX_HTTP_HEAD:
        /* an answer may depend on a body */
        return !slcf->learn_blocked
               && r->headers_in.content_length_n <= 0
               && !r->headers_in.chunked;

    case NGX_HTTP_POST:
    case NGX_HTTP_PUT:
    case NGX_HTTP_PATCH:
    case NGX_HTTP_DELETE:
        return 1;

    default:
        return 0;
    }
}


static ngx_http_sendfile_learn_e
ngx_http_sendfile_learn_kind(ngx_http_request_t *r)
{
    ngx_http_headers_in_t  *in;

    in = &r->headers_in;

    if (!(r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))) {
        return NGX_HTTP_SENDFILE_LEARN_UNSAFE;
    }

    if (r->method == NGX_HTTP_HEAD
        || in->range
        || in->if_range
        || in->if_match
        || in->if_none_match
        || in->if_modified_since
        || in->if_unmodified_since)
    {
        return NGX_HTTP_SENDFILE_LEARN_ASIDE;
    }

    return NGX_HTTP_SENDFILE_LEARN_PLAIN;
}


/* NGX_DECLINED: nothing that a cache could know the answer by */

static ngx_int_t
ngx_http_sendfile_learn_create(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf)
{
    ngx_int_t                   rc;
    ngx_http_sendfile_learn_t  *learn;

    learn = ngx_pcalloc(r->pool, sizeof(ngx_http_sendfile_learn_t));
    if (learn == NULL) {
        return NGX_ERROR;
    }

    learn->request = r;
    learn->zone = slcf->cache;
    learn->kind = ngx_http_sendfile_learn_kind(r);
    learn->before = r->upstream;
    learn->loc_conf = r->loc_conf;
    learn->keepalive = r->keepalive;

    rc = ngx_http_sendfile_learn_key(r, ctx, slcf, learn);

    if (rc == NGX_OK) {
        ctx->learn = learn;
    }

    return rc;
}


/* settles also a request without a response: NGX_DECLINED, or NGX_ERROR */

static ngx_int_t
ngx_http_sendfile_learn_care(ngx_http_request_t *r,
    ngx_http_sendfile_learn_t *learn)
{
    ngx_http_cleanup_t  *cln;

    cln = ngx_http_cleanup_add(r, 0);
    if (cln == NULL) {
        return NGX_ERROR;
    }

    cln->handler = ngx_http_sendfile_learn_cleanup;
    cln->data = learn;

    return NGX_DECLINED;
}


/* NGX_DECLINED: the application is to be asked */

static ngx_int_t
ngx_http_sendfile_learn_ask(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf)
{
    ngx_http_sendfile_learn_t    *learn;
    ngx_http_sendfile_learned_e   found;
    ngx_http_sendfile_learned_t   learned;

    learn = ctx->learn;

    learn->asked = ngx_current_msec;
    learn->generation = ngx_http_sendfile_generations_now(
                                                   learn->zone->generations);

    if (learn->kind == NGX_HTTP_SENDFILE_LEARN_UNSAFE) {
        return ngx_http_sendfile_learn_care(r, learn);
    }

    found = ngx_http_sendfile_learn_find(r, ctx, &learned);

    if (ctx->trial) {
        ctx->trial->learns = 1;
        ctx->trial->learned = learned.value;
        ctx->trial->learned_old = (found == NGX_HTTP_SENDFILE_LEARNED_NONE);
    }

    switch (found) {

    case NGX_HTTP_SENDFILE_LEARNED_FRESH:
        return ngx_http_sendfile_learn_use(r, ctx, slcf, &learned,
                                           NGX_HTTP_SENDFILE_STATUS_HIT);

    case NGX_HTTP_SENDFILE_LEARNED_STALE:
        return ngx_http_sendfile_learn_ask_anew(r, ctx, slcf, &learned);

    default: /* NGX_HTTP_SENDFILE_LEARNED_NONE */
        return NGX_DECLINED;
    }
}


/* its time is over: one request asks the application, that claims it */

static ngx_int_t
ngx_http_sendfile_learn_ask_anew(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_http_sendfile_learned_t *learned)
{
    ngx_uint_t                    claimed;
    ngx_http_sendfile_learn_t    *learn;
    ngx_http_sendfile_learned_t  *stale;

    learn = ctx->learn;

    if (ctx->trial) {
        /* one that is claimed stays so: its renewal is another request's */

        return (ngx_http_sendfile_learn_claimed(learned)
                && (slcf->cache_use_stale & NGX_HTTP_SENDFILE_STALE_UPDATING))
               ? ngx_http_sendfile_learn_use(r, ctx, slcf, learned,
                                             NGX_HTTP_SENDFILE_STATUS_STALE)
               : NGX_DECLINED;
    }

    /* before the claim, so that no lack of memory can leave it taken */

    stale = ngx_palloc(r->pool, sizeof(ngx_http_sendfile_learned_t));

    if (stale == NULL
        || ngx_http_sendfile_learn_care(r, learn) == NGX_ERROR)
    {
        return NGX_ERROR;
    }

    claimed = ngx_http_sendfile_learn_claimed(learned);

    if (!claimed && learn->kind == NGX_HTTP_SENDFILE_LEARN_PLAIN) {
        claimed = !ngx_http_sendfile_learn_claim(learn, learned);
    }

    if (claimed
        && (slcf->cache_use_stale & NGX_HTTP_SENDFILE_STALE_UPDATING))
    {
        return ngx_http_sendfile_learn_use(r, ctx, slcf, learned,
                                           NGX_HTTP_SENDFILE_STATUS_STALE);
    }

    *stale = *learned;
    learn->stale = stale;

    return ngx_http_sendfile_learn_stand_in(r, learn, slcf);
}


/*
 * The location once more, for a request that has a stale answer: the errors
 * that mean that the application has failed lead to it.  NGX_DECLINED, or
 * NGX_ERROR.
 */

static ngx_int_t
ngx_http_sendfile_learn_stand_in(ngx_http_request_t *r,
    ngx_http_sendfile_learn_t *learn, ngx_http_sendfile_loc_conf_t *slcf)
{
    ngx_uint_t                 i;
    ngx_array_t               *pages, *own;
    ngx_http_err_page_t       *page;
    ngx_http_core_loc_conf_t  *clcf;

    static struct {
        ngx_uint_t  use_stale;
        ngx_int_t   status;
    } errors[] = {
        { NGX_HTTP_SENDFILE_ON_ERROR, NGX_HTTP_BAD_GATEWAY },
        { NGX_HTTP_SENDFILE_ON_TIMEOUT, NGX_HTTP_GATEWAY_TIME_OUT }
    };

    learn->stand_in = ngx_http_sendfile_copy_location(r->pool, r->loc_conf,
                                                      &clcf);
    if (learn->stand_in == NULL) {
        return NGX_ERROR;
    }

    own = clcf->error_pages;

    pages = ngx_array_create(r->pool, 2 + (own ? own->nelts : 0),
                             sizeof(ngx_http_err_page_t));
    if (pages == NULL) {
        return NGX_ERROR;
    }

    for (i = 0; i < 2; i++) {

        if (slcf->cache_use_stale & errors[i].use_stale) {
            page = ngx_array_push(pages);
            ngx_memzero(page, sizeof(ngx_http_err_page_t));

            page->status = errors[i].status;
            page->overwrite = -1;
            page->value.value = ngx_http_sendfile_learn_stale;
        }
    }

    /* the location's own, for all other errors; all of them have room */

    if (own) {
        page = ngx_array_push_n(pages, own->nelts);
        ngx_memcpy(page, own->elts, own->nelts * own->size);
    }

    clcf->error_pages = pages;
    r->loc_conf = learn->stand_in;

    return NGX_DECLINED;
}


/* NGX_DONE; or NGX_DECLINED: it could not be used, and is forgotten */

static ngx_int_t
ngx_http_sendfile_learn_use(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_http_sendfile_learned_t *learned, ngx_http_sendfile_status_e status)
{
    ngx_int_t                     rc;
    ngx_http_sendfile_outcome_t   before, *outcome;

    outcome = &ctx->outcome;
    before = *outcome;

    ngx_http_sendfile_outcome_reset(outcome);

    outcome->source = NGX_HTTP_SENDFILE_SOURCE_LEARNED;
    outcome->status = status;
    outcome->target = learned->target;

    ctx->valid = learned->value.valid;
    ctx->learn->fate = NGX_HTTP_SENDFILE_LEARN_USED;
    ctx->learn->age = ngx_max(0, ngx_time() - learned->born);

    if (learned->kind == NGX_HTTP_SENDFILE_LEARNED_FILE) {
        rc = ngx_http_sendfile_learn_file(r, ctx, slcf, learned);

    } else {
        rc = ngx_http_sendfile_learn_redirect(r, ctx, slcf, learned);
    }

    if (rc != NGX_DECLINED) {
        return rc;
    }

    if (ctx->trial == NULL) {
        ngx_http_sendfile_learn_forget(ctx->learn);
    }

    *outcome = before;

    ngx_str_null(&ctx->root);
    ctx->state = NGX_HTTP_SENDFILE_DONE;
    ctx->learn->fate = NGX_HTTP_SENDFILE_LEARN_NONE;

    return NGX_DECLINED;
}


static ngx_int_t
ngx_http_sendfile_learn_file(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_http_sendfile_learned_t *learned)
{
    nsf_str_t   *dir;
    ngx_uint_t   i;

    if (slcf->allow == NULL
        || !(slcf->accept & NGX_HTTP_SENDFILE_ACCEPT_FILES))
    {
        return NGX_DECLINED;
    }

    dir = slcf->allow->elts;

    for (i = 0; i < slcf->allow->nelts; i++) {

        if (dir[i].len == learned->base.len
            && ngx_memcmp(dir[i].data, learned->base.data, dir[i].len) == 0)
        {
            ctx->root.data = (u_char *) dir[i].data;
            ctx->root.len = dir[i].len;

            return ngx_http_sendfile_direct(r, ctx, slcf);
        }
    }

    /* the directory is no longer in http_sendfile_allow */

    return NGX_DECLINED;
}


static ngx_int_t
ngx_http_sendfile_learn_redirect(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_http_sendfile_learned_t *learned)
{
    ngx_str_t  uri;

    if (!(slcf->accept & NGX_HTTP_SENDFILE_ACCEPT_REDIRECT)) {
        return NGX_DECLINED;
    }

    uri.len = 1 + learned->target.path.len;

    uri.data = ngx_pnalloc(r->pool, uri.len);
    if (uri.data == NULL) {
        return NGX_ERROR;
    }

    uri.data[0] = '/';
    ngx_memcpy(uri.data + 1, learned->target.path.data, uri.len - 1);

    ctx->state = NGX_HTTP_SENDFILE_DONE;
    ctx->delivery = NGX_HTTP_SENDFILE_REDIRECTING;

    if (ctx->trial) {
        ctx->trial->uri = uri;
        ctx->trial->args = learned->base;
        return NGX_DONE;
    }

    (void) ngx_http_internal_redirect(r, &uri, &learned->base);
    ngx_http_finalize_request(r, NGX_DONE);

    return NGX_DONE;
}


/* in the named location: the application has failed, and there is the answer
 * that it has given before */

static ngx_int_t
ngx_http_sendfile_learn_failed(ngx_http_request_t *r)
{
    ngx_int_t                      rc, code;
    ngx_http_sendfile_ctx_t       *ctx;
    ngx_http_core_loc_conf_t      *clcf;
    ngx_http_sendfile_learn_t     *learn;
    ngx_http_sendfile_loc_conf_t  *slcf;

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    if (clcf->name.data != ngx_http_sendfile_learn_stale.data) {
        return NGX_DECLINED;
    }

    ctx = ngx_http_sendfile_get_ctx(r);
    learn = ctx ? ctx->learn : NULL;

    if (learn == NULL || learn->stand_in == NULL || r->err_status == 0) {
        return ngx_http_sendfile_no_location(r);
    }

    /* back to where it was, and to the location's own error_page */

    code = r->err_status;

    r->loc_conf = learn->loc_conf;
    r->keepalive = learn->keepalive;

    ngx_http_update_location_config(r);

    r->content_handler = NULL;
    r->error_page = 0;

    slcf = ngx_http_get_module_loc_conf(r, ngx_http_sendfile_module);

    if (learn->stale == NULL
        || learn->fate == NGX_HTTP_SENDFILE_LEARN_FOLLOWED
        || ngx_http_sendfile_ctx_old(ctx, learn->zone->generations,
                                     learn->stale->value.generation))
    {
        return code;
    }

    r->err_status = 0;

    ngx_log_error(NGX_LOG_INFO, r->connection->log, 0,
                  "http_sendfile: the application has failed (%i), its last "
                  "answer is used", code);

    rc = ngx_http_sendfile_learn_use(r, ctx, slcf, learn->stale,
                                     NGX_HTTP_SENDFILE_STATUS_STALE);

    return (rc == NGX_DECLINED) ? code
                                : (rc == NGX_ERROR)
                                  ? NGX_HTTP_INTERNAL_SERVER_ERROR : rc;
}
