
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * A record is kept packed, by the store's URL, or its name and servers, the
 * format and the key: what another configuration made of the same store is
 * another record.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_record.h"
#include "ngx_http_sendfile_zone.h"
#include "nsf_pack.h"


static ngx_http_sendfile_record_e ngx_http_sendfile_record_find(
    ngx_http_request_t *r, ngx_http_sendfile_ctx_t *ctx,
    ngx_http_sendfile_loc_conf_t *slcf, nsf_target_t *t,
    ngx_atomic_uint_t *generation);
static ngx_int_t ngx_http_sendfile_record_unpack(ngx_http_request_t *r,
    nsf_target_t *t, nsf_shard_value_t *v);
static ngx_int_t ngx_http_sendfile_record_limit(nsf_target_t *t,
    nsf_shard_value_t *v);


ngx_http_sendfile_record_e
ngx_http_sendfile_record_get(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    nsf_target_t *t, ngx_atomic_uint_t *generation)
{
    ngx_http_sendfile_record_e  rc;

    rc = ngx_http_sendfile_record_find(r, ctx, slcf, t, generation);

    if (ctx->trial) {
        return rc;
    }

    ngx_http_sendfile_zone_looked(slcf->cache,
                                  (rc == NGX_HTTP_SENDFILE_RECORD_NEGATIVE)
                                  ? NGX_HTTP_SENDFILE_STATS_NEGATIVE
                                  : NGX_HTTP_SENDFILE_STATS_RECORD,
                                  rc == NGX_HTTP_SENDFILE_RECORD_NEGATIVE
                                  || rc == NGX_HTTP_SENDFILE_RECORD_FRESH);

    return rc;
}


static ngx_http_sendfile_record_e
ngx_http_sendfile_record_find(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    nsf_target_t *t, ngx_atomic_uint_t *generation)
{
    ngx_uint_t          fresh;
    nsf_shard_key_t    *name;
    nsf_shard_value_t   v;

    name = &ctx->name;

    name->scope.data = slcf->cache_scope.data;
    name->scope.len = slcf->cache_scope.len;
    name->key.data = ctx->key.data;
    name->key.len = ctx->key.len;

    ngx_http_sendfile_zone_hash(slcf->cache, name);

    if (ngx_http_sendfile_zone_get(slcf->cache, name, &v, r->pool)
        != NSF_SHARD_OK)
    {
        return NGX_HTTP_SENDFILE_RECORD_NONE;
    }

    if (ctx->trial) {
        ctx->trial->cached = 1;
        ctx->trial->entry = v;
    }

    if (ngx_http_sendfile_ctx_old(ctx, slcf->cache->generations,
                                  v.generation))
    {
        if (ctx->trial) {
            ctx->trial->purged = 1;
        }

        return NGX_HTTP_SENDFILE_RECORD_NONE;
    }

    *generation = v.generation;
    ctx->valid = v.valid;

    fresh = (v.valid > ngx_current_msec);

    if (v.negative) {
        return fresh ? NGX_HTTP_SENDFILE_RECORD_NEGATIVE
                     : NGX_HTTP_SENDFILE_RECORD_NONE;
    }

    if (ngx_http_sendfile_record_unpack(r, t, &v) != NGX_OK) {
        return NGX_HTTP_SENDFILE_RECORD_NONE;
    }

    return fresh ? NGX_HTTP_SENDFILE_RECORD_FRESH
                 : NGX_HTTP_SENDFILE_RECORD_STALE;
}


void
ngx_http_sendfile_record_keep(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_uint_t negative, ngx_atomic_uint_t generation)
{
    ngx_msec_t         valid;
    nsf_shard_rc_e     rc;
    nsf_shard_value_t  v;

    valid = negative ? slcf->cache_valid_404 : slcf->cache_valid;

    if (valid == 0
        || ctx->trial
        || ngx_http_sendfile_ctx_old(ctx, slcf->cache->generations,
                                     generation))
    {
        /* a purge came after the lookup began: others may have read since */
        return;
    }

    ngx_memzero(&v, sizeof(nsf_shard_value_t));

    v.negative = negative ? 1 : 0;
    v.valid = ngx_current_msec + valid;
    v.generation = generation;

    if (!negative
        && ngx_http_sendfile_record_limit(&ctx->outcome.target, &v) != NGX_OK)
    {
        /* what the zone has for the key is older than this record */

        ngx_http_sendfile_zone_delete(slcf->cache, &ctx->name);
        return;
    }

    if (!negative) {
        v.len = nsf_pack_size(&ctx->outcome.target);

        v.data = ngx_palloc(r->pool, v.len);
        if (v.data == NULL) {
            return;
        }

        nsf_pack(v.data, &ctx->outcome.target);
    }

    rc = ngx_http_sendfile_zone_put(slcf->cache, &ctx->name, &v);

    ngx_http_sendfile_zone_kept(slcf->cache,
                                negative ? NGX_HTTP_SENDFILE_STATS_NEGATIVE
                                         : NGX_HTTP_SENDFILE_STATS_RECORD,
                                rc);
}


void
ngx_http_sendfile_record_forget(ngx_http_sendfile_ctx_t *ctx,
    ngx_http_sendfile_loc_conf_t *slcf)
{
    if (ctx->trial == NULL) {
        ngx_http_sendfile_zone_delete(slcf->cache, &ctx->name);
    }
}


static ngx_int_t
ngx_http_sendfile_record_unpack(ngx_http_request_t *r, nsf_target_t *t,
    nsf_shard_value_t *v)
{
    nsf_pool_t   pool;
    const char  *err;

    ngx_http_sendfile_pool(&pool, r->pool);

    err = nsf_unpack(t, v->data, v->len, &pool);

    if (err == NULL) {
        return NGX_OK;
    }

    ngx_memzero(t, sizeof(nsf_target_t));

    ngx_log_error(NGX_LOG_ALERT, r->connection->log, 0,
                  "http_sendfile: a cached record is damaged: %s", err);

    return NGX_ERROR;
}


/*
 * The time that the record itself says it expires at, on the zone's clock:
 * the end of its use, stale or not.  NGX_DECLINED if it has passed.
 */

static ngx_int_t
ngx_http_sendfile_record_limit(nsf_target_t *t, nsf_shard_value_t *v)
{
    int64_t      left;
    ngx_time_t  *tp;

    if (t->expires == 0) {
        return NGX_OK;
    }

    tp = ngx_timeofday();

    if (t->expires <= tp->sec) {
        return NGX_DECLINED;
    }

    left = t->expires - tp->sec;

    if (left > NGX_MAX_INT32_VALUE) {
        return NGX_OK;
    }

    v->limit = ngx_current_msec + left * 1000 - tp->msec;

    if (v->valid > v->limit) {
        v->valid = v->limit;
    }

    return NGX_OK;
}
