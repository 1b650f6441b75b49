
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * A file that another module asks for by its key: the record of the location's
 * store and, where there is none, what the application's redirect has said.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_request.h"
#include "ngx_http_sendfile_deliver.h"
#include "ngx_http_sendfile_headers.h"
#include "ngx_http_sendfile_learn.h"
#include "nsf_lifetime.h"


/*
 * "zone" is where a redirect is learned, NULL if none is; "generation" is from
 * before the application is asked.
 */

struct ngx_http_sendfile_asking_s {
    ngx_http_sendfile_asked_t      *by;
    ngx_http_sendfile_zone_t       *zone;
    nsf_shard_key_t                 name;
    ngx_atomic_uint_t               generation;
    ngx_msec_t                      valid;

    unsigned                        recalled:1;
    unsigned                        settled:1;
};


static ngx_int_t ngx_http_sendfile_asked_create(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_http_sendfile_asked_t *by);
static ngx_int_t ngx_http_sendfile_asked_learns(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_http_sendfile_asking_t *asked);
static ngx_int_t ngx_http_sendfile_asked_run(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf);
static ngx_int_t ngx_http_sendfile_asked_kept(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_str_t *kept);
static void ngx_http_sendfile_asked_forget(ngx_http_sendfile_ctx_t *ctx);
static ngx_uint_t ngx_http_sendfile_asked_refused(ngx_http_request_t *r);
static void ngx_http_sendfile_asked_keep(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_str_t *kept);


ngx_int_t
ngx_http_sendfile_find(ngx_http_request_t *r, ngx_http_sendfile_asked_t *by)
{
    ngx_int_t                      rc;
    ngx_http_sendfile_ctx_t       *ctx;
    ngx_http_sendfile_loc_conf_t  *slcf;

    rc = ngx_http_sendfile_claim(r, &ctx);

    if (rc != NGX_OK) {
        return rc;
    }

    slcf = ngx_http_get_module_loc_conf(r, ngx_http_sendfile_module);

    if (ngx_http_sendfile_asked_create(r, ctx, slcf, by) != NGX_OK) {
        ctx->state = NGX_HTTP_SENDFILE_DONE;
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (slcf->store) {
        rc = ngx_http_sendfile_start(r, ctx, slcf);

        if (rc != NGX_OK) {
            return rc;
        }

    } else {
        ctx->outcome.status = NGX_HTTP_SENDFILE_STATUS_MISS;
        ngx_http_sendfile_fail(ctx, NGX_HTTP_SENDFILE_ON_MISS,
                               NGX_HTTP_NOT_FOUND, "not learned yet");
    }

    return ctx->trial ? NGX_OK : ngx_http_sendfile_asked_run(r, ctx, slcf);
}


ngx_int_t
ngx_http_sendfile_resume_find(ngx_http_request_t *r)
{
    ngx_http_sendfile_ctx_t       *ctx;
    ngx_http_sendfile_loc_conf_t  *slcf;

    ctx = ngx_http_sendfile_get_ctx(r);

    if (ctx == NULL
        || ctx->asked == NULL
        || ctx->state == NGX_HTTP_SENDFILE_DONE)
    {
        return NGX_DECLINED;
    }

    if (ctx->state == NGX_HTTP_SENDFILE_LOOKUP) {
        /* the reply has not come yet: the client has sent something */
        return NGX_AGAIN;
    }

    slcf = ngx_http_get_module_loc_conf(r, ngx_http_sendfile_module);

    return ngx_http_sendfile_asked_run(r, ctx, slcf);
}


static ngx_int_t
ngx_http_sendfile_asked_create(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_http_sendfile_asked_t *by)
{
    ngx_http_sendfile_asking_t  *asked;

    asked = ngx_pcalloc(r->pool, sizeof(ngx_http_sendfile_asking_t));
    if (asked == NULL) {
        return NGX_ERROR;
    }

    asked->by = by;

    ctx->asked = asked;
    ctx->key = by->key;

    if (slcf->store && slcf->store->variants && by->variant.len) {
        ctx->key = by->variant;
    }

    ngx_http_sendfile_ctx_subject(r, ctx, NGX_HTTP_SENDFILE_NAME_KEY,
                                  &ctx->key);

    if (by->owner.len) {
        ngx_http_sendfile_ctx_subject(r, ctx, NGX_HTTP_SENDFILE_NAME_KEY,
                                      &by->owner);
    }

    return (slcf->learn && slcf->cache)
           ? ngx_http_sendfile_asked_learns(r, ctx, slcf, asked) : NGX_OK;
}


static ngx_int_t
ngx_http_sendfile_asked_learns(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_http_sendfile_asking_t *asked)
{
    ngx_int_t  rc;

    if (r->headers_in.content_length_n > 0 || r->headers_in.chunked) {
        /* an answer may depend on a body */
        return NGX_OK;
    }

    rc = ngx_http_sendfile_learn_place(r, slcf, &asked->name.scope);

    if (rc != NGX_OK) {
        return (rc == NGX_DECLINED) ? NGX_OK : NGX_ERROR;
    }

    asked->zone = slcf->cache;
    asked->valid = slcf->cache_valid;
    asked->name.key.data = ctx->key.data;
    asked->name.key.len = ctx->key.len;

    ngx_http_sendfile_zone_hash(asked->zone, &asked->name);

    asked->generation = ngx_http_sendfile_generations_now(
                                                   asked->zone->generations);
    return NGX_OK;
}


static ngx_int_t
ngx_http_sendfile_asked_run(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf)
{
    ngx_int_t  rc;

    rc = ngx_http_sendfile_run(r, ctx, slcf);

    if (rc == NGX_DECLINED) {
        /* not yet anywhere that it could come back from */
        ctx->fallen = 0;
    }

    return rc;
}


ngx_int_t
ngx_http_sendfile_asked_record(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf)
{
    ngx_http_sendfile_asked_t  *by;

    if (slcf->deliver != NGX_HTTP_SENDFILE_DIRECT) {
        ctx->outcome.status = NGX_HTTP_SENDFILE_STATUS_ERROR;
        ngx_http_sendfile_fail(ctx, NGX_HTTP_SENDFILE_ON_ERROR,
                               NGX_HTTP_INTERNAL_SERVER_ERROR,
                               "no http_sendfile_root");
        return NGX_OK;
    }

    by = ctx->asked->by;

    return by->record(r, by, &ctx->outcome.target);
}


ngx_int_t
ngx_http_sendfile_asked_recall(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf)
{
    ngx_int_t                     rc;
    ngx_str_t                     kept;
    ngx_http_sendfile_known_t     file;
    ngx_http_sendfile_asking_t   *asked;
    ngx_http_sendfile_outcome_t   before;

    asked = ctx->asked;

    if (asked->zone == NULL || asked->recalled) {
        return NGX_DECLINED;
    }

    asked->recalled = 1;

    rc = ngx_http_sendfile_asked_kept(r, ctx, &kept);

    if (ctx->trial) {
        ctx->trial->recalled(ctx->trial);

    } else {
        ngx_http_sendfile_zone_looked(asked->zone,
                                      NGX_HTTP_SENDFILE_STATS_ANSWER,
                                      rc == NGX_OK);
    }

    if (rc != NGX_OK) {
        return rc;
    }

    ngx_memzero(&file, sizeof(ngx_http_sendfile_known_t));

    asked->by->recall(r, asked->by, &kept, &file);

    if (file.reason) {

        /* the configuration is another now */

        ngx_http_sendfile_asked_forget(ctx);
        return NGX_DECLINED;
    }

    file.key = ctx->key;
    before = ctx->outcome;

    ngx_http_sendfile_outcome_reset(&ctx->outcome);

    rc = ngx_http_sendfile_known(r, ctx, slcf, &file,
                                 NGX_HTTP_SENDFILE_SOURCE_LEARNED);

    if (rc == NGX_DECLINED) {
        ngx_http_sendfile_asked_forget(ctx);

        if (before.failure != NGX_HTTP_SENDFILE_ON_MISS) {
            ctx->outcome = before;
        }

        ngx_str_null(&ctx->root);
    }

    return rc;
}


/* NGX_DECLINED: nothing was learned, or it is too long ago, or purged */

static ngx_int_t
ngx_http_sendfile_asked_kept(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_str_t *kept)
{
    ngx_uint_t                   old;
    nsf_shard_value_t            v;
    ngx_http_sendfile_asking_t  *asked;

    asked = ctx->asked;

    if (ngx_http_sendfile_zone_get(asked->zone, &asked->name, &v, r->pool)
        != NSF_SHARD_OK)
    {
        return NGX_DECLINED;
    }

    old = ngx_http_sendfile_ctx_old(ctx, asked->zone->generations,
                                    v.generation);

    if (ctx->trial) {
        ctx->trial->learns = 1;
        ctx->trial->learned = v;
        ctx->trial->learned_old = old;
    }

    if (v.valid <= ngx_current_msec || old) {
        return NGX_DECLINED;
    }

    ctx->valid = v.valid;

    kept->data = v.data;
    kept->len = v.len;

    return NGX_OK;
}


/* what was learned leads to no file any more */

static void
ngx_http_sendfile_asked_forget(ngx_http_sendfile_ctx_t *ctx)
{
    if (ctx->trial == NULL) {
        ngx_http_sendfile_zone_delete(ctx->asked->zone, &ctx->asked->name);
    }
}


void
ngx_http_sendfile_asked_settle(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx)
{
    ngx_str_t                    kept, url;
    ngx_http_upstream_t         *u;
    ngx_http_sendfile_asking_t  *asked;

    asked = ctx->asked;

    if (asked->settled) {
        return;
    }

    asked->settled = 1;

    u = r->upstream;

    if (asked->zone == NULL
        || asked->valid == 0
        || u == NULL
        || u->headers_in.status_n != NGX_HTTP_MOVED_TEMPORARILY
        || r->headers_out.status != NGX_HTTP_MOVED_TEMPORARILY
        || u->headers_in.location == NULL
        || ngx_http_sendfile_asked_refused(r))
    {
        return;
    }

    /* as the application has written it, before proxy_redirect */

    url = u->headers_in.location->value;

    if (asked->by->redirect(r, asked->by, &url, &kept) == NGX_OK) {
        ngx_http_sendfile_asked_keep(r, ctx, &kept);
    }
}


/*
 * A redirect that is for one client only.  It is always private, for its URL
 * is soon over, so that says nothing.
 */

static ngx_uint_t
ngx_http_sendfile_asked_refused(ngx_http_request_t *r)
{
    nsf_str_t                     value;
    nsf_lifetime_t                lifetime;
    ngx_table_elt_t              *h;
    ngx_http_sendfile_headers_t   it;

    if (r->headers_in.authorization) {
        return 1;
    }

    nsf_lifetime_init(&lifetime);

    for (h = ngx_http_sendfile_headers_first(&it,
                                     &r->upstream->headers_in.headers.part);
         h;
         h = ngx_http_sendfile_headers_next(&it))
    {
        value.data = h->value.data;
        value.len = h->value.len;

        if (ngx_http_sendfile_name_is(&h->key, "Cache-Control")) {
            nsf_lifetime_cache_control(&lifetime, &value);

        } else if (ngx_http_sendfile_name_is(&h->key, "Set-Cookie")) {
            lifetime.set_cookie = 1;
        }
    }

    return lifetime.set_cookie || lifetime.no_store;
}


static void
ngx_http_sendfile_asked_keep(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_str_t *kept)
{
    nsf_shard_rc_e                  rc;
    nsf_shard_value_t               v;
    ngx_http_sendfile_asking_t     *asked;
    ngx_http_sendfile_main_conf_t  *smcf;

    asked = ctx->asked;

    if (ngx_http_sendfile_ctx_old(ctx, asked->zone->generations,
                                  asked->generation))
    {
        /* a purge came after the application was asked */
        return;
    }

    ngx_memzero(&v, sizeof(nsf_shard_value_t));

    v.generation = asked->generation;
    v.valid = ngx_current_msec + asked->valid;
    v.limit = v.valid;
    v.data = kept->data;
    v.len = kept->len;

    rc = ngx_http_sendfile_zone_put(asked->zone, &asked->name, &v);

    ngx_http_sendfile_zone_kept(asked->zone, NGX_HTTP_SENDFILE_STATS_ANSWER,
                                rc);

    if (rc == NSF_SHARD_OK) {
        smcf = ngx_http_get_module_main_conf(r, ngx_http_sendfile_module);

        ngx_http_sendfile_stats_add(smcf->counters,
                                    NGX_HTTP_SENDFILE_STATS_LEARNED, 1);
    }
}
