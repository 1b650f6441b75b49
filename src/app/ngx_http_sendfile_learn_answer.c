
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * What the application answers, and whether that may be kept for others.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_headers.h"
#include "ngx_http_sendfile_learn.h"
#include "nsf_lifetime.h"


static const char *ngx_http_sendfile_learn_judge(ngx_http_request_t *r,
    ngx_http_sendfile_learn_t *learn, nsf_target_t *kept);
static void ngx_http_sendfile_learn_header(nsf_lifetime_t *l,
    ngx_table_elt_t *h, ngx_uint_t ignored);
static const char *ngx_http_sendfile_learn_storable(nsf_target_t *t);
static const char *ngx_http_sendfile_learn_target(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_str_t *base);
static void ngx_http_sendfile_learn_used(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_uint_t delivered);
static void ngx_http_sendfile_learn_followed(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_uint_t delivered);
static void ngx_http_sendfile_learn_other(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx);
static void ngx_http_sendfile_learn_unsafe(ngx_http_request_t *r,
    ngx_http_sendfile_learn_t *learn);
static void ngx_http_sendfile_learn_say(ngx_http_sendfile_ctx_t *ctx,
    const char *reason);
static ngx_uint_t ngx_http_sendfile_learn_revoked(
    ngx_http_sendfile_learn_t *learn, ngx_uint_t status);
static ngx_uint_t ngx_http_sendfile_learn_sent(ngx_http_request_t *r);


void
ngx_http_sendfile_learn_leave(ngx_http_request_t *r,
    ngx_http_sendfile_learn_t *learn)
{
    if (!learn->left) {
        learn->upstream = ngx_http_sendfile_learn_upstream(r, learn);
        learn->left = 1;
    }
}


ngx_http_upstream_t *
ngx_http_sendfile_learn_upstream(ngx_http_request_t *r,
    ngx_http_sendfile_learn_t *learn)
{
    if (learn->left) {
        return learn->upstream;
    }

    return (r->upstream != learn->before) ? r->upstream : NULL;
}


void
ngx_http_sendfile_learn_answer(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_str_t *base, const char *refusal)
{
    ngx_http_sendfile_learn_t  *learn;

    learn = ctx->learn;

    if (learn->fate == NGX_HTTP_SENDFILE_LEARN_FOLLOWED
        || r->upstream != learn->upstream)
    {
        learn->refusal = "answer behind a redirect";
        return;
    }

    learn->fate = NGX_HTTP_SENDFILE_LEARN_FOLLOWED;
    learn->refusal = refusal;

    if (learn->refusal == NULL) {
        learn->refusal = ngx_http_sendfile_learn_judge(r, learn,
                                                      &ctx->answer->kept);
    }

    if (learn->refusal == NULL) {
        learn->refusal = ngx_http_sendfile_learn_target(r, ctx, base);
    }
}


static const char *
ngx_http_sendfile_learn_judge(ngx_http_request_t *r,
    ngx_http_sendfile_learn_t *learn, nsf_target_t *kept)
{
    const char                    *reason;
    nsf_lifetime_t                 lifetime;
    ngx_table_elt_t               *h;
    ngx_http_upstream_t           *u;
    ngx_http_sendfile_headers_t    it;
    ngx_http_sendfile_loc_conf_t  *slcf;

    u = learn->upstream;

    if (learn->kind != NGX_HTTP_SENDFILE_LEARN_PLAIN) {
        return "the request is no plain GET";
    }

    if (u->headers_in.status_n != NGX_HTTP_OK) {
        return "the status is not 200";
    }

    slcf = learn->loc_conf[ngx_http_sendfile_module.ctx_index];

    nsf_lifetime_init(&lifetime);

    lifetime.authorization = (r->headers_in.authorization != NULL);
    lifetime.delay = (ngx_current_msec - learn->asked) / 1000;

    if (slcf->learn_vary) {
        lifetime.known = slcf->learn_vary->elts;
        lifetime.nknown = slcf->learn_vary->nelts;
    }

    for (h = ngx_http_sendfile_headers_first(&it, &u->headers_in.headers.part);
         h;
         h = ngx_http_sendfile_headers_next(&it))
    {
        /* nginx applies these to this request, not to those that follow */

        if (ngx_http_sendfile_name_is(&h->key, "X-Accel-Limit-Rate")
            || ngx_http_sendfile_name_is(&h->key, "X-Accel-Charset"))
        {
            return "X-Accel-Limit-Rate or X-Accel-Charset";
        }

        ngx_http_sendfile_learn_header(&lifetime, h, u->conf->ignore_headers);
    }

#if (NGX_HTTP_CACHE)

    /* what nginx has stored of a gateway's has no Date */

    if (r->cached && r->cache) {
        nsf_lifetime_date(&lifetime, r->cache->date, ngx_time());
    }

#endif

    reason = nsf_lifetime(&lifetime, &learn->seconds);

    learn->revalidate = lifetime.revalidate;
    learn->learned.born = ngx_time() - nsf_lifetime_initial_age(&lifetime);

    return reason ? reason : ngx_http_sendfile_learn_storable(kept);
}


/* proxy_ignore_headers and its like hold here, too */

static void
ngx_http_sendfile_learn_header(nsf_lifetime_t *l, ngx_table_elt_t *h,
    ngx_uint_t ignored)
{
    nsf_str_t  value;

    value.data = h->value.data;
    value.len = h->value.len;

    if (ngx_http_sendfile_name_is(&h->key, "X-Accel-Expires")) {

        if (!(ignored & NGX_HTTP_UPSTREAM_IGN_XA_EXPIRES)) {
            nsf_lifetime_accel(l, &value, ngx_time());
        }

    } else if (ngx_http_sendfile_name_is(&h->key, "Cache-Control")) {

        if (!(ignored & NGX_HTTP_UPSTREAM_IGN_CACHE_CONTROL)) {
            nsf_lifetime_cache_control(l, &value);
        }

    } else if (ngx_http_sendfile_name_is(&h->key, "Expires")) {

        if (!(ignored & NGX_HTTP_UPSTREAM_IGN_EXPIRES)) {
            nsf_lifetime_expires(l, ngx_parse_http_time(h->value.data,
                                                        h->value.len),
                                 ngx_time());
        }

    } else if (ngx_http_sendfile_name_is(&h->key, "Age")) {
        nsf_lifetime_age(l, &value);

    } else if (ngx_http_sendfile_name_is(&h->key, "Date")) {
        nsf_lifetime_date(l, ngx_parse_http_time(h->value.data, h->value.len),
                          ngx_time());

    } else if (ngx_http_sendfile_name_is(&h->key, "Vary")) {
        nsf_lifetime_vary(l, &value);

    } else if (ngx_http_sendfile_name_is(&h->key, "Set-Cookie")
               || ngx_http_sendfile_name_is(&h->key, "Set-Cookie2"))
    {
        l->set_cookie = 1;
    }
}


/* by the rules of a record */

static const char *
ngx_http_sendfile_learn_storable(nsf_target_t *t)
{
    size_t  i;

    if (t->nheaders > NSF_MAX_HEADERS) {
        return "too many headers";
    }

    if (nsf_has_control(&t->type, 0)) {
        return "control byte in a header";
    }

    for (i = 0; i < t->nheaders; i++) {
        if (t->headers[i].name.len == 0
            || nsf_has_control(&t->headers[i].name, 0)
            || nsf_has_control(&t->headers[i].value, 1))
        {
            return "control byte in a header";
        }
    }

    return NULL;
}


static const char *
ngx_http_sendfile_learn_target(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_str_t *base)
{
    const char                   *err;
    nsf_target_t                  path;
    ngx_http_sendfile_learned_t  *learned;

    learned = &ctx->learn->learned;

    if (base) {
        learned->kind = NGX_HTTP_SENDFILE_LEARNED_FILE;
        learned->base = *base;

        path.path = ctx->outcome.target.path;

    } else {

        if (ctx->answer->line->value.data[0] == '@') {
            return "redirect to a named location";
        }

        if (ctx->answer->line->value.data[0] != '/') {
            return "redirect to a URI without a slash";
        }

        learned->kind = NGX_HTTP_SENDFILE_LEARNED_REDIRECT;
        learned->base = r->args;

        err = nsf_target_set_path(&path, r->uri.data + 1, r->uri.len - 1);
        if (err) {
            return err;
        }
    }

    if (learned->base.len > 65535) {
        return "too many arguments";
    }

    learned->target = ctx->answer->kept;
    learned->target.path = path.path;

    return NULL;
}


void
ngx_http_sendfile_learn_settle(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_uint_t delivered)
{
    ngx_http_sendfile_learn_t  *learn;

    learn = ctx->learn;

    if (learn->settled) {
        return;
    }

    learn->settled = 1;

    if (learn->kind == NGX_HTTP_SENDFILE_LEARN_UNSAFE) {
        ngx_http_sendfile_learn_unsafe(r, learn);

    } else if (learn->fate == NGX_HTTP_SENDFILE_LEARN_USED) {
        ngx_http_sendfile_learn_used(r, ctx, delivered);

    } else if (learn->fate == NGX_HTTP_SENDFILE_LEARN_FOLLOWED) {
        ngx_http_sendfile_learn_followed(r, ctx, delivered);

    } else {
        ngx_http_sendfile_learn_other(r, ctx);
    }

    ngx_http_sendfile_learn_release(learn);
}


void
ngx_http_sendfile_learn_cleanup(void *data)
{
    ngx_http_sendfile_learn_t  *learn = data;

    if (!learn->settled && learn->kind == NGX_HTTP_SENDFILE_LEARN_UNSAFE) {
        ngx_http_sendfile_learn_unsafe(learn->request, learn);
    }

    ngx_http_sendfile_learn_release(learn);
}


/* a learned answer was used: if no file was sent, it is forgotten */

static void
ngx_http_sendfile_learn_used(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_uint_t delivered)
{
    if (!delivered || !ngx_http_sendfile_learn_sent(r)) {
        ngx_http_sendfile_learn_forget(ctx->learn);
    }
}


/* the application has named a file */

static void
ngx_http_sendfile_learn_followed(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_uint_t delivered)
{
    ngx_uint_t                  sent;
    ngx_http_sendfile_learn_t  *learn;

    learn = ctx->learn;

    sent = delivered && ngx_http_sendfile_learn_sent(r);

    if (learn->refusal == NULL
        && ctx->answer->state == NGX_HTTP_SENDFILE_ANSWER_LOOKED_UP)
    {
        learn->refusal = "redirect to another ID";
    }

    if (learn->refusal == NULL && !sent) {
        learn->refusal = "the file was not sent";
    }

    if (learn->refusal == NULL) {

        if (learn->stale) {
            ctx->outcome.status = NGX_HTTP_SENDFILE_STATUS_EXPIRED;
        }

        ngx_http_sendfile_learn_keep(r, ctx);

        return;
    }

    if (!sent || ngx_http_sendfile_learn_revoked(learn,
                                     learn->upstream->headers_in.status_n))
    {
        ngx_http_sendfile_learn_forget(learn);
    }

    ngx_http_sendfile_learn_say(ctx, learn->refusal);
}


static void
ngx_http_sendfile_learn_other(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx)
{
    ngx_uint_t                  status;
    ngx_http_upstream_t        *u;
    ngx_http_sendfile_learn_t  *learn;

    learn = ctx->learn;

    u = ngx_http_sendfile_learn_upstream(r, learn);

    if (u == NULL || u->headers_in.status_n == 0) {
        return;
    }

    status = u->headers_in.status_n;

    if (ngx_http_sendfile_learn_revoked(learn, status)) {
        ngx_http_sendfile_learn_forget(learn);
    }

    ngx_http_sendfile_learn_say(ctx, (status == NGX_HTTP_OK)
                                     ? "no file is named"
                                     : "the status is not 200");
}


/*
 * RFC 9111, 4.4.  An application that was asked, and whose answer never came,
 * may have done it all the same.
 */

static void
ngx_http_sendfile_learn_unsafe(ngx_http_request_t *r,
    ngx_http_sendfile_learn_t *learn)
{
    ngx_uint_t            status;
    ngx_http_upstream_t  *u;

    u = ngx_http_sendfile_learn_upstream(r, learn);

    if (u == NULL) {
        /* it was not asked */
        return;
    }

    status = u->headers_in.status_n;

    if (status < NGX_HTTP_BAD_REQUEST) {
        ngx_http_sendfile_learn_take_back(learn);
    }
}


/*
 * Another answer than a file.  An application in trouble takes nothing back,
 * nor does one that has answered what a GET of the whole would not have asked.
 */

static ngx_uint_t
ngx_http_sendfile_learn_revoked(ngx_http_sendfile_learn_t *learn,
    ngx_uint_t status)
{
    switch (status) {

    case NGX_HTTP_PARTIAL_CONTENT:
    case NGX_HTTP_NOT_MODIFIED:
    case NGX_HTTP_PRECONDITION_FAILED:
    case NGX_HTTP_RANGE_NOT_SATISFIABLE:
        return 0;

    default:
        return status < NGX_HTTP_INTERNAL_SERVER_ERROR
               && (learn->kind == NGX_HTTP_SENDFILE_LEARN_PLAIN
                   || status >= NGX_HTTP_BAD_REQUEST);
    }
}


static ngx_uint_t
ngx_http_sendfile_learn_sent(ngx_http_request_t *r)
{
    switch (r->headers_out.status) {

    case NGX_HTTP_OK:
    case NGX_HTTP_PARTIAL_CONTENT:
    case NGX_HTTP_NOT_MODIFIED:
        return 1;

    default:
        return 0;
    }
}


static void
ngx_http_sendfile_learn_say(ngx_http_sendfile_ctx_t *ctx, const char *reason)
{
    uint64_t                       *cells;
    ngx_http_sendfile_main_conf_t  *smcf;

    smcf = ngx_http_get_module_main_conf(ctx->request,
                                         ngx_http_sendfile_module);

    cells = ngx_http_sendfile_stats_reason(smcf->stats, reason);

    ngx_http_sendfile_stats_add(cells, NGX_HTTP_SENDFILE_STATS_REFUSED, 1);

    /* the reason why no file was sent says more */

    if (ctx->outcome.failure
        && ctx->learn->fate == NGX_HTTP_SENDFILE_LEARN_FOLLOWED)
    {
        return;
    }

    if (ctx->outcome.failure && ctx->failed_reason == NULL) {
        ctx->failed_reason = ctx->outcome.reason;
        ctx->failed_detail = ctx->outcome.detail;
    }

    ctx->outcome.reason = "not learned";
    ctx->outcome.detail = reason;
}
