
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * What the application answers, and whether that may be kept for others.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_learn.h"
#include "nsf_lifetime.h"
#include "nsf_pack.h"


/* kind, and the length of the base */

#define NGX_HTTP_SENDFILE_LEARNED_PREFIX  3


static const char *ngx_http_sendfile_learn_judge(ngx_http_request_t *r,
    ngx_http_sendfile_learn_t *learn, nsf_target_t *kept);
static void ngx_http_sendfile_learn_header(nsf_lifetime_t *l,
    ngx_table_elt_t *h);
static ngx_uint_t ngx_http_sendfile_learn_is(ngx_table_elt_t *h,
    const char *name);
static const char *ngx_http_sendfile_learn_storable(nsf_target_t *t);
static const char *ngx_http_sendfile_learn_target(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_str_t *base);
static void ngx_http_sendfile_learn_say(ngx_http_sendfile_ctx_t *ctx,
    const char *reason);
static ngx_uint_t ngx_http_sendfile_learn_revoked(
    ngx_http_sendfile_learn_t *learn, ngx_uint_t status);
static ngx_uint_t ngx_http_sendfile_learn_sent(ngx_http_request_t *r);


void
ngx_http_sendfile_learn_answer(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_str_t *base)
{
    ngx_http_sendfile_learn_t  *learn;

    learn = ctx->learn;

    if (!ctx->answer->own) {
        ngx_http_sendfile_learn_refuse(ctx, "answer behind a redirect");
        return;
    }

    learn->followed = 1;
    learn->refusal = ngx_http_sendfile_learn_judge(r, learn,
                                                  &ctx->answer->kept);

    if (learn->refusal == NULL) {
        learn->refusal = ngx_http_sendfile_learn_target(r, ctx, base);
    }
}


void
ngx_http_sendfile_learn_refuse(ngx_http_sendfile_ctx_t *ctx,
    const char *reason)
{
    ctx->learn->followed = 1;
    ctx->learn->refusal = reason;
}


static const char *
ngx_http_sendfile_learn_judge(ngx_http_request_t *r,
    ngx_http_sendfile_learn_t *learn, nsf_target_t *kept)
{
    ngx_uint_t        i, status;
    const char       *reason;
    nsf_lifetime_t    lifetime;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    status = r->upstream->headers_in.status_n;
    learn->aside = !ngx_http_sendfile_learn_revoked(learn, status);

    if (!learn->get) {
        return "the request is not GET";
    }

    if (status != NGX_HTTP_OK) {
        return "the status is not 200";
    }

    nsf_lifetime_init(&lifetime);

    lifetime.authorization = (r->headers_in.authorization != NULL);

    part = &r->upstream->headers_in.headers.part;
    h = part->elts;

    for (i = 0; /* void */ ; i++) {

        if (i >= part->nelts) {
            if (part->next == NULL) {
                break;
            }

            part = part->next;
            h = part->elts;
            i = 0;
        }

        /* what nginx does with them it does to this request only */

        if (ngx_http_sendfile_learn_is(&h[i], "X-Accel-Limit-Rate")
            || ngx_http_sendfile_learn_is(&h[i], "X-Accel-Charset"))
        {
            return "X-Accel-Limit-Rate or X-Accel-Charset";
        }

        ngx_http_sendfile_learn_header(&lifetime, &h[i]);
    }

    reason = nsf_lifetime(&lifetime, &learn->seconds);

    return reason ? reason : ngx_http_sendfile_learn_storable(kept);
}


static void
ngx_http_sendfile_learn_header(nsf_lifetime_t *l, ngx_table_elt_t *h)
{
    nsf_str_t  value;

    value.data = h->value.data;
    value.len = h->value.len;

    if (ngx_http_sendfile_learn_is(h, "X-Accel-Expires")) {
        nsf_lifetime_accel(l, &value, ngx_time());

    } else if (ngx_http_sendfile_learn_is(h, "Cache-Control")) {
        nsf_lifetime_cache_control(l, &value);

    } else if (ngx_http_sendfile_learn_is(h, "Expires")) {
        nsf_lifetime_expires(l, ngx_parse_http_time(h->value.data,
                                                    h->value.len),
                             ngx_time());

    } else if (ngx_http_sendfile_learn_is(h, "Age")) {
        nsf_lifetime_age(l, &value);

    } else if (ngx_http_sendfile_learn_is(h, "Vary")) {
        nsf_lifetime_vary(l, &value);

    } else if (ngx_http_sendfile_learn_is(h, "Set-Cookie")
               || ngx_http_sendfile_learn_is(h, "Set-Cookie2"))
    {
        l->set_cookie = 1;
    }
}


static ngx_uint_t
ngx_http_sendfile_learn_is(ngx_table_elt_t *h, const char *name)
{
    return h->key.len == ngx_strlen(name)
           && ngx_strncasecmp(h->key.data, (u_char *) name, h->key.len) == 0;
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

    learned = &ctx->learn->answer;

    if (base) {
        learned->kind = NGX_HTTP_SENDFILE_LEARNED_FILE;
        learned->base = *base;

        path.path = ctx->outcome.target.path;

    } else {

        if (ctx->answer->line->value.data[0] == '@') {
            return "redirect to a named location";
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
    ngx_uint_t                  sent, status;
    ngx_http_sendfile_learn_t  *learn;

    learn = ctx->learn;

    if (learn->settled) {
        return;
    }

    learn->settled = 1;

    if (learn->used) {

        /* a redirect to a file that is gone */

        if (!delivered || !ngx_http_sendfile_learn_sent(r)) {
            ngx_http_sendfile_learn_forget(learn);
        }

    } else if (learn->followed) {

        if (learn->refusal == NULL && ctx->answer->looked_up) {
            learn->refusal = "redirect to another ID";
        }

        sent = delivered && ngx_http_sendfile_learn_sent(r);

        if (learn->refusal == NULL && !sent) {
            learn->refusal = "the file was not sent";
        }

        if (learn->refusal) {

            if (!learn->aside || !sent) {
                ngx_http_sendfile_learn_forget(learn);
            }

            ngx_http_sendfile_learn_say(ctx, learn->refusal);

        } else {

            if (learn->stale) {
                ctx->outcome.status = NGX_HTTP_SENDFILE_STATUS_EXPIRED;
            }

            ngx_http_sendfile_learn_keep(r, learn);
        }

    } else if (r->upstream && r->upstream->headers_in.status_n) {

        status = r->upstream->headers_in.status_n;

        if (ngx_http_sendfile_learn_revoked(learn, status)) {
            ngx_http_sendfile_learn_forget(learn);
        }

        ngx_http_sendfile_learn_say(ctx, (status == NGX_HTTP_OK)
                                         ? "no file is named"
                                         : "the status is not 200");
    }

    ngx_http_sendfile_learn_updated(learn);
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
               && (learn->get || status >= NGX_HTTP_BAD_REQUEST);
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
    /* why there is no file is more to the point */

    if (ctx->outcome.failure && ctx->learn->followed) {
        return;
    }

    ctx->outcome.reason = "not learned";
    ctx->outcome.detail = reason;
    ctx->outcome.err = 0;
}


ngx_http_sendfile_learned_e
ngx_http_sendfile_learn_find(ngx_http_request_t *r,
    ngx_http_sendfile_learn_t *learn, ngx_http_sendfile_learned_t *learned)
{
    size_t              len;
    u_char             *p, *last;
    const char         *err;
    nsf_pool_t          pool;
    nsf_shard_value_t  *v;

    v = &learned->value;

    if (ngx_http_sendfile_zone_get(learn->zone, &learn->name, v, r->pool)
        != NSF_SHARD_OK)
    {
        return NGX_HTTP_SENDFILE_LEARNED_NONE;
    }

    p = v->data;
    last = p + v->len;

    if (v->len < NGX_HTTP_SENDFILE_LEARNED_PREFIX) {
        return NGX_HTTP_SENDFILE_LEARNED_NONE;
    }

    learned->kind = p[0];
    len = p[1] + ((size_t) p[2] << 8);

    p += NGX_HTTP_SENDFILE_LEARNED_PREFIX;

    if (len > (size_t) (last - p)) {
        return NGX_HTTP_SENDFILE_LEARNED_NONE;
    }

    learned->base.data = p;
    learned->base.len = len;

    p += len;

    ngx_http_sendfile_pool(&pool, r->pool);

    err = nsf_unpack(&learned->target, p, last - p, &pool);

    if (err) {
        ngx_log_error(NGX_LOG_ALERT, r->connection->log, 0,
                      "http_sendfile: a learned answer is damaged: %s", err);
        return NGX_HTTP_SENDFILE_LEARNED_NONE;
    }

    return (v->valid > ngx_current_msec) ? NGX_HTTP_SENDFILE_LEARNED_FRESH
                                         : NGX_HTTP_SENDFILE_LEARNED_STALE;
}


void
ngx_http_sendfile_learn_keep(ngx_http_request_t *r,
    ngx_http_sendfile_learn_t *learn)
{
    u_char                       *p;
    nsf_shard_value_t             v;
    ngx_http_sendfile_learned_t  *learned;

    learned = &learn->answer;

    ngx_memzero(&v, sizeof(nsf_shard_value_t));

    v.valid = ngx_current_msec + learn->seconds * 1000;
    v.len = NGX_HTTP_SENDFILE_LEARNED_PREFIX + learned->base.len
            + nsf_pack_size(&learned->target);

    v.data = ngx_pnalloc(r->pool, v.len);
    if (v.data == NULL) {
        return;
    }

    p = v.data;

    *p++ = learned->kind;
    *p++ = (u_char) (learned->base.len & 0xff);
    *p++ = (u_char) (learned->base.len >> 8);

    /* the data of an empty string may be NULL */

    if (learned->base.len) {
        p = ngx_cpymem(p, learned->base.data, learned->base.len);
    }

    nsf_pack(p, &learned->target);

    (void) ngx_http_sendfile_zone_put(learn->zone, &learn->name, &v,
                                      learn->token);
}


/* what is not there need not be forgotten: no lock for each such answer */

void
ngx_http_sendfile_learn_forget(ngx_http_sendfile_learn_t *learn)
{
    if (learn->stale || learn->used) {
        ngx_http_sendfile_zone_delete(learn->zone, &learn->name);
        learn->stale = NULL;
    }
}


/* the mark of a learned answer is the time until which it is claimed */

ngx_uint_t
ngx_http_sendfile_learn_claim(ngx_http_sendfile_learn_t *learn,
    ngx_http_sendfile_learned_t *learned)
{
    uint64_t            now, end;
    nsf_shard_value_t  *v;

    v = &learned->value;

    now = ngx_current_msec;
    end = now + NGX_HTTP_SENDFILE_LEARN_CLAIM;

    if (v->mark > now && v->mark <= end) {
        return 0;
    }

    return ngx_http_sendfile_zone_mark(learn->zone, &learn->name, v, end);
}
