
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Learned answers in the cache.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_learn.h"
#include "nsf_pack.h"


/* milliseconds that a renewal is left to who has claimed it, at most */

#define NGX_HTTP_SENDFILE_LEARN_CLAIM  5000


/* before the base, and the packed target */

typedef struct {
    int64_t                         born;

    /* whose purge takes the answer back, whoever asks for it */
    uint32_t                        slots[2];

    uint16_t                        base_len;
    u_char                          kind;
    u_char                          unused[5];
} ngx_http_sendfile_kept_prefix_t;


static ngx_http_sendfile_learned_e ngx_http_sendfile_learn_look(
    ngx_http_request_t *r, ngx_http_sendfile_ctx_t *ctx,
    ngx_http_sendfile_learned_t *learned);
static const char *ngx_http_sendfile_learn_unpack(ngx_http_request_t *r,
    ngx_http_sendfile_learned_t *learned,
    ngx_http_sendfile_kept_prefix_t *prefix);
static ngx_uint_t ngx_http_sendfile_learn_old(ngx_http_sendfile_ctx_t *ctx,
    ngx_http_sendfile_kept_prefix_t *prefix, uint64_t generation);
static ngx_int_t ngx_http_sendfile_learn_prefix(ngx_http_request_t *r,
    ngx_http_sendfile_learn_t *learn, ngx_http_sendfile_kept_prefix_t *prefix);


ngx_http_sendfile_learned_e
ngx_http_sendfile_learn_find(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_learned_t *learned)
{
    ngx_http_sendfile_learned_e  rc;

    rc = ngx_http_sendfile_learn_look(r, ctx, learned);

    if (ctx->trial == NULL) {
        ngx_http_sendfile_zone_looked(ctx->learn->zone,
                                      NGX_HTTP_SENDFILE_STATS_ANSWER,
                                      rc == NGX_HTTP_SENDFILE_LEARNED_FRESH);
    }

    return rc;
}


static ngx_http_sendfile_learned_e
ngx_http_sendfile_learn_look(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_learned_t *learned)
{
    const char                       *err;
    nsf_shard_value_t                *v;
    ngx_http_sendfile_learn_t        *learn;
    ngx_http_sendfile_kept_prefix_t   prefix;

    learn = ctx->learn;
    v = &learned->value;

    if (ngx_http_sendfile_zone_get(learn->zone, &learn->name, v, r->pool)
        != NSF_SHARD_OK)
    {
        return NGX_HTTP_SENDFILE_LEARNED_NONE;
    }

    learn->found = 1;

    err = ngx_http_sendfile_learn_unpack(r, learned, &prefix);

    if (err) {
        ngx_log_error(NGX_LOG_ALERT, r->connection->log, 0,
                      "http_sendfile: a learned answer is damaged: %s", err);
        return NGX_HTTP_SENDFILE_LEARNED_NONE;
    }

    if (ngx_http_sendfile_learn_old(ctx, &prefix, v->generation)) {
        return NGX_HTTP_SENDFILE_LEARNED_NONE;
    }

    return (v->valid > ngx_current_msec) ? NGX_HTTP_SENDFILE_LEARNED_FRESH
                                         : NGX_HTTP_SENDFILE_LEARNED_STALE;
}


static const char *
ngx_http_sendfile_learn_unpack(ngx_http_request_t *r,
    ngx_http_sendfile_learned_t *learned,
    ngx_http_sendfile_kept_prefix_t *prefix)
{
    u_char      *p, *last;
    nsf_pool_t   pool;

    p = learned->value.data;
    last = p + learned->value.len;

    if (learned->value.len < sizeof(ngx_http_sendfile_kept_prefix_t)) {
        return "too short";
    }

    ngx_memcpy(prefix, p, sizeof(ngx_http_sendfile_kept_prefix_t));

    p += sizeof(ngx_http_sendfile_kept_prefix_t);

    if (prefix->base_len > (size_t) (last - p)) {
        return "too short";
    }

    learned->kind = prefix->kind;
    learned->born = prefix->born;
    learned->base.data = p;
    learned->base.len = prefix->base_len;

    p += prefix->base_len;

    ngx_http_sendfile_pool(&pool, r->pool);

    return nsf_unpack(&learned->target, p, last - p, &pool);
}


/* for the names of this request, and of the one that it was learned from */

static ngx_uint_t
ngx_http_sendfile_learn_old(ngx_http_sendfile_ctx_t *ctx,
    ngx_http_sendfile_kept_prefix_t *prefix, uint64_t generation)
{
    ngx_http_sendfile_subject_add(&ctx->subject, prefix->slots[0]);
    ngx_http_sendfile_subject_add(&ctx->subject, prefix->slots[1]);

    return ngx_http_sendfile_ctx_old(ctx, ctx->learn->zone->generations,
                                     generation);
}


void
ngx_http_sendfile_learn_keep(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx)
{
    u_char                           *p;
    nsf_shard_rc_e                    rc;
    nsf_shard_value_t                 v;
    ngx_http_sendfile_learn_t        *learn;
    ngx_http_sendfile_learned_t      *learned;
    ngx_http_sendfile_main_conf_t    *smcf;
    ngx_http_sendfile_kept_prefix_t   prefix;

    learn = ctx->learn;
    learned = &learn->learned;

    if (ngx_http_sendfile_learn_prefix(r, learn, &prefix) != NGX_OK) {
        return;
    }

    if (ngx_http_sendfile_learn_old(ctx, &prefix, learn->generation)) {

        /* not kept, but the one before has been replaced all the same */

        ngx_http_sendfile_learn_forget(learn);
        return;
    }

    ngx_memzero(&v, sizeof(nsf_shard_value_t));

    v.generation = learn->generation;
    v.valid = ngx_current_msec + learn->seconds * 1000;

    if (learn->revalidate) {
        v.limit = v.valid;
    }

    v.len = sizeof(ngx_http_sendfile_kept_prefix_t) + learned->base.len
            + nsf_pack_size(&learned->target);

    v.data = ngx_pnalloc(r->pool, v.len);
    if (v.data == NULL) {
        return;
    }

    p = ngx_cpymem(v.data, &prefix, sizeof(ngx_http_sendfile_kept_prefix_t));

    /* the data of an empty string may be NULL */

    if (learned->base.len) {
        p = ngx_cpymem(p, learned->base.data, learned->base.len);
    }

    nsf_pack(p, &learned->target);

    rc = ngx_http_sendfile_zone_put(learn->zone, &learn->name, &v);

    learn->stored = (rc == NSF_SHARD_OK);
    learn->claimed = 0;

    ngx_http_sendfile_zone_kept(learn->zone, NGX_HTTP_SENDFILE_STATS_ANSWER,
                                rc);

    if (rc == NSF_SHARD_OK) {
        smcf = ngx_http_get_module_main_conf(r, ngx_http_sendfile_module);

        ngx_http_sendfile_stats_add(smcf->counters,
                                    NGX_HTTP_SENDFILE_STATS_LEARNED, 1);
    }
}


static ngx_int_t
ngx_http_sendfile_learn_prefix(ngx_http_request_t *r,
    ngx_http_sendfile_learn_t *learn, ngx_http_sendfile_kept_prefix_t *prefix)
{
    ngx_str_t  url;

    ngx_memzero(prefix, sizeof(ngx_http_sendfile_kept_prefix_t));

    if (ngx_http_sendfile_learn_url(r, &url) != NGX_OK) {
        return NGX_ERROR;
    }

    prefix->born = learn->learned.born;
    prefix->kind = learn->learned.kind;
    prefix->base_len = (uint16_t) learn->learned.base.len;

    prefix->slots[0] = ngx_http_sendfile_generations_slot(
                                            NGX_HTTP_SENDFILE_NAME_URL, &url);
    prefix->slots[1] = prefix->slots[0];

    if (learn->id.len) {
        prefix->slots[1] = ngx_http_sendfile_generations_slot(
                                      NGX_HTTP_SENDFILE_NAME_KEY, &learn->id);
    }

    return NGX_OK;
}


/* takes the shard's lock only if there is an answer to be removed */

void
ngx_http_sendfile_learn_forget(ngx_http_sendfile_learn_t *learn)
{
    if (learn->found) {
        ngx_http_sendfile_zone_delete(learn->zone, &learn->name);
        learn->found = 0;
        learn->stale = NULL;
        learn->claimed = 0;
    }
}


void
ngx_http_sendfile_learn_take_back(ngx_http_sendfile_learn_t *learn)
{
    ngx_http_sendfile_generations_purge(learn->zone->generations,
                                        NGX_HTTP_SENDFILE_NAME_URL,
                                        &learn->key);
}


ngx_uint_t
ngx_http_sendfile_learn_claim(ngx_http_sendfile_learn_t *learn,
    ngx_http_sendfile_learned_t *learned)
{
    uint64_t  end;

    end = ngx_current_msec + NGX_HTTP_SENDFILE_LEARN_CLAIM;

    learn->claimed = ngx_http_sendfile_zone_claim(learn->zone, &learn->name,
                                                  &learned->value, end);
    if (learn->claimed) {
        learned->value.claimed = end;
    }

    return learn->claimed;
}


ngx_uint_t
ngx_http_sendfile_learn_claimed(ngx_http_sendfile_learned_t *learned)
{
    uint64_t  now, claimed;

    now = ngx_current_msec;
    claimed = learned->value.claimed;

    return claimed > now && claimed <= now + NGX_HTTP_SENDFILE_LEARN_CLAIM;
}


void
ngx_http_sendfile_learn_release(ngx_http_sendfile_learn_t *learn)
{
    if (learn->claimed) {
        learn->claimed = 0;

        (void) ngx_http_sendfile_zone_claim(learn->zone, &learn->name,
                                            &learn->stale->value, 0);
    }
}
