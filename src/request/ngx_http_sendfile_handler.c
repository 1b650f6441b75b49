
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * The state machine of a request, in the PRECONTENT phase: everything that
 * may deny the request has had its say.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_request.h"
#include "ngx_http_sendfile_deliver.h"
#include "ngx_http_sendfile_record.h"
#include "nsf_key.h"


static ngx_int_t ngx_http_sendfile_again(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf);
static void ngx_http_sendfile_loop(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf);
static ngx_int_t ngx_http_sendfile_script(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx);
static ngx_int_t ngx_http_sendfile_vanished(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf);
static ngx_int_t ngx_http_sendfile_find_record(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf);
static void ngx_http_sendfile_stale(ngx_http_sendfile_ctx_t *ctx);
static ngx_int_t ngx_http_sendfile_ask(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf);
static ngx_int_t ngx_http_sendfile_wait(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx);
static void ngx_http_sendfile_reply(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_http_sendfile_result_t *res);
static void ngx_http_sendfile_note_reply(ngx_http_sendfile_trial_t *trial,
    ngx_http_sendfile_result_t *res);
static void ngx_http_sendfile_reply_value(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_http_sendfile_result_t *res);
static void ngx_http_sendfile_reply_miss(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_http_sendfile_result_t *res, const char *reason);
static void ngx_http_sendfile_reply_substitute(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf);
static ngx_int_t ngx_http_sendfile_reply_failed(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf);
static void ngx_http_sendfile_replied(ngx_http_sendfile_waiter_t *w,
    ngx_http_sendfile_result_t *res);
static void ngx_http_sendfile_abort(void *data);


ngx_int_t
ngx_http_sendfile_handler(ngx_http_request_t *r)
{
    ngx_int_t                      rc;
    ngx_str_t                      id, key;
    ngx_http_sendfile_ctx_t       *ctx;
    ngx_http_sendfile_loc_conf_t  *slcf;

    slcf = ngx_http_get_module_loc_conf(r, ngx_http_sendfile_module);

    if (!ngx_http_sendfile_applies(r, slcf)) {
        return NGX_DECLINED;
    }

    ctx = ngx_http_sendfile_get_ctx(r);

    if (ctx && ctx->state == NGX_HTTP_SENDFILE_LOOKUP) {
        /* the reply has not come yet: the client has sent something */
        return NGX_AGAIN;
    }

    if (ctx && ctx->state != NGX_HTTP_SENDFILE_DONE) {
        return ngx_http_sendfile_run(r, ctx, slcf);
    }

    if (ctx) {
        rc = ngx_http_sendfile_again(r, ctx, slcf);

    } else {
        ngx_http_sendfile_id(r, &id);

        rc = ngx_http_sendfile_key(r, slcf, &id, &key);

        if (rc == NGX_OK) {
            ctx = ngx_http_sendfile_create_ctx(r);

            if (ctx == NULL) {
                return NGX_HTTP_INTERNAL_SERVER_ERROR;
            }

            ctx->id = id;
            ctx->key = key;
            ctx->lookups = 1;
        }
    }

    if (rc != NGX_OK) {
        return (rc == NGX_ERROR) ? NGX_HTTP_INTERNAL_SERVER_ERROR : rc;
    }

    rc = ngx_http_sendfile_start(r, ctx, slcf);

    return (rc == NGX_OK) ? ngx_http_sendfile_run(r, ctx, slcf) : rc;
}


ngx_int_t
ngx_http_sendfile_redirected(ngx_http_request_t *r)
{
    ngx_http_sendfile_ctx_t  *ctx;

    if (!r->internal) {
        return NGX_DECLINED;
    }

    ctx = ngx_http_sendfile_get_ctx(r);

    if (ctx && ctx->delivery == NGX_HTTP_SENDFILE_REDIRECTING) {
        ctx->delivery = NGX_HTTP_SENDFILE_DELIVERED;
        ngx_http_set_ctx(r, ctx, ngx_http_sendfile_filter_module);
    }

    return NGX_DECLINED;
}


ngx_int_t
ngx_http_sendfile_start(ngx_http_request_t *r, ngx_http_sendfile_ctx_t *ctx,
    ngx_http_sendfile_loc_conf_t *slcf)
{
    const char  *reason;

    if (!(r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))) {
        ctx->outcome.status = NGX_HTTP_SENDFILE_STATUS_BYPASS;
        ngx_http_sendfile_fail(ctx, NGX_HTTP_SENDFILE_ON_METHOD, 0,
                               "neither GET nor HEAD");
        return NGX_OK;
    }

    reason = nsf_key_check(ctx->key.data, ctx->key.len);

    if (reason) {
        ctx->outcome.status = NGX_HTTP_SENDFILE_STATUS_INVALID;
        ngx_http_sendfile_fail(ctx, NGX_HTTP_SENDFILE_ON_INVALID,
                               NGX_HTTP_NOT_FOUND, reason);
        return NGX_OK;
    }

    ctx->store = slcf->store;

    ngx_http_sendfile_ctx_subject(r, ctx, NGX_HTTP_SENDFILE_NAME_KEY,
                                  &ctx->key);

    if (slcf->cache
        && ngx_http_sendfile_find_record(r, ctx, slcf) == NGX_OK)
    {
        return NGX_OK;
    }

    return ngx_http_sendfile_ask(r, ctx, slcf);
}


/* NGX_OK: the zone has a record or a miss, the store need not be asked */

static ngx_int_t
ngx_http_sendfile_find_record(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf)
{
    nsf_target_t                target;
    ngx_atomic_uint_t           generation;
    ngx_http_sendfile_moment_t  moment;

    switch (ngx_http_sendfile_record_get(r, ctx, slcf, &target, &generation)) {

    case NGX_HTTP_SENDFILE_RECORD_FRESH:
        ctx->outcome.source = NGX_HTTP_SENDFILE_SOURCE_CACHE;
        ctx->outcome.status = NGX_HTTP_SENDFILE_STATUS_HIT;
        ctx->state = NGX_HTTP_SENDFILE_FOUND;
        ctx->outcome.target = target;
        return NGX_OK;

    case NGX_HTTP_SENDFILE_RECORD_NEGATIVE:
        ctx->outcome.source = NGX_HTTP_SENDFILE_SOURCE_CACHE;
        ctx->outcome.status = NGX_HTTP_SENDFILE_STATUS_NEGATIVE;
        ngx_http_sendfile_fail(ctx, NGX_HTTP_SENDFILE_ON_MISS,
                               NGX_HTTP_NOT_FOUND, "not in store");
        return NGX_OK;

    case NGX_HTTP_SENDFILE_RECORD_STALE:
        ctx->stale = ngx_palloc(r->pool, sizeof(nsf_target_t));

        if (ctx->stale == NULL) {
            return NGX_DECLINED;
        }

        *ctx->stale = target;
        ctx->stale_generation = generation;

        ngx_http_sendfile_ctx_moment(r, ctx, &moment);

        ctx->waiter.due = moment.due;

        if ((slcf->cache_use_stale & NGX_HTTP_SENDFILE_STALE_UPDATING)
            && ngx_http_sendfile_lookup_pending(slcf->store, &ctx->key,
                                      ngx_http_sendfile_time_limit(slcf),
                                      &ctx->waiter))
        {
            ngx_http_sendfile_stale(ctx);
            return NGX_OK;
        }

        return NGX_DECLINED;

    default: /* NGX_HTTP_SENDFILE_RECORD_NONE */
        return NGX_DECLINED;
    }
}


static void
ngx_http_sendfile_stale(ngx_http_sendfile_ctx_t *ctx)
{
    ngx_http_sendfile_outcome_reset(&ctx->outcome);

    ctx->outcome.source = NGX_HTTP_SENDFILE_SOURCE_CACHE;
    ctx->outcome.status = NGX_HTTP_SENDFILE_STATUS_STALE;
    ctx->outcome.target = *ctx->stale;
    ctx->state = NGX_HTTP_SENDFILE_FOUND;
}


ngx_int_t
ngx_http_sendfile_run(ngx_http_request_t *r, ngx_http_sendfile_ctx_t *ctx,
    ngx_http_sendfile_loc_conf_t *slcf)
{
    ngx_int_t  rc;

    if (ctx->state == NGX_HTTP_SENDFILE_FOUND
        && ngx_http_sendfile_script(r, ctx) != NGX_OK)
    {
        ctx->state = NGX_HTTP_SENDFILE_DONE;
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (ctx->state == NGX_HTTP_SENDFILE_FOUND
        && ctx->asked
        && ngx_http_sendfile_asked_record(r, ctx, slcf) != NGX_OK)
    {
        ctx->state = NGX_HTTP_SENDFILE_DONE;
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (ctx->state == NGX_HTTP_SENDFILE_FOUND) {

        if (slcf->deliver == NGX_HTTP_SENDFILE_DIRECT) {
            rc = ngx_http_sendfile_direct(r, ctx, slcf);

        } else {
            rc = ngx_http_sendfile_redirect(r, ctx, slcf);
        }

        if (rc == NGX_ERROR) {
            ctx->state = NGX_HTTP_SENDFILE_DONE;
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        if (rc != NGX_DECLINED) {
            return rc;
        }

        if (ngx_http_sendfile_outcome_known(&ctx->outcome)
            && ctx->outcome.failure == NGX_HTTP_SENDFILE_ON_MISSING_FILE)
        {
            return ngx_http_sendfile_vanished(r, ctx, slcf);
        }
    }

    if (ctx->asked) {
        rc = ngx_http_sendfile_asked_recall(r, ctx, slcf);

        if (rc != NGX_DECLINED) {
            return (rc == NGX_ERROR) ? NGX_HTTP_INTERNAL_SERVER_ERROR : rc;
        }
    }

    return ngx_http_sendfile_fallback(r, ctx, slcf);
}


/*
 * http_sendfile_ruby, if there is one: FOUND, with the target that it wants,
 * or FAILED.
 */

static ngx_int_t
ngx_http_sendfile_script(ngx_http_request_t *r, ngx_http_sendfile_ctx_t *ctx)
{
    ngx_int_t                       rc;
    const char                     *reason;
    ngx_http_sendfile_script_t      s;
    ngx_http_sendfile_main_conf_t  *smcf;

    smcf = ngx_http_get_module_main_conf(r, ngx_http_sendfile_module);

    if (smcf->script == NULL) {
        return NGX_OK;
    }

    ngx_memzero(&s, sizeof(ngx_http_sendfile_script_t));

    s.id = ctx->id;
    s.key = ctx->key;
    s.target = &ctx->outcome.target;
    s.trial = (ctx->trial != NULL);

    rc = smcf->script(r, &s);

    if (rc == NGX_AGAIN) {
        ctx->trial->script = 1;
        return NGX_OK;
    }

    if (rc == NGX_DECLINED) {
        ctx->fallback = s.fallback;
        ngx_http_sendfile_fail(ctx, NGX_HTTP_SENDFILE_ON_SCRIPT,
                               s.code ? s.code : NGX_HTTP_NOT_FOUND,
                               "refused by script");
        return NGX_OK;
    }

    if (rc != NGX_OK) {
        return NGX_ERROR;
    }

    reason = nsf_target_check(&ctx->outcome.target);

    if (reason) {
        ngx_memzero(&ctx->outcome.target, sizeof(nsf_target_t));

        ctx->outcome.status = NGX_HTTP_SENDFILE_STATUS_INVALID;
        ngx_http_sendfile_fail(ctx, NGX_HTTP_SENDFILE_ON_INVALID,
                               NGX_HTTP_BAD_GATEWAY, "invalid record");
        ctx->outcome.detail = reason;
    }

    return NGX_OK;
}


/*
 * The file that a cached record names is not there: the record is removed and
 * the store asked.
 */

static ngx_int_t
ngx_http_sendfile_vanished(ngx_http_request_t *r, ngx_http_sendfile_ctx_t *ctx,
    ngx_http_sendfile_loc_conf_t *slcf)
{
    ngx_int_t  rc;

    if (ctx->trial) {
        ctx->trial->vanished(ctx->trial);
    }

    ngx_http_sendfile_record_forget(ctx, slcf);

    ngx_http_sendfile_outcome_reset(&ctx->outcome);

    rc = ngx_http_sendfile_ask(r, ctx, slcf);

    return (rc == NGX_OK) ? ngx_http_sendfile_run(r, ctx, slcf) : rc;
}


/*
 * A request that has been through here goes on to whatever else is there,
 * but for one case: the application answered with X-Accel-Redirect to
 * another ID, or to the same one in another store.  Once; and not again, if
 * it was for that answer only that the request has a context.
 */

static ngx_int_t
ngx_http_sendfile_again(ngx_http_request_t *r, ngx_http_sendfile_ctx_t *ctx,
    ngx_http_sendfile_loc_conf_t *slcf)
{
    ngx_int_t                    rc;
    ngx_str_t                    id, key, before;
    ngx_uint_t                   lookups;
    ngx_http_cleanup_t          *cleanup;
    ngx_http_sendfile_learn_t   *learn;
    ngx_http_sendfile_answer_t  *answer;

    if (ctx->delivery != NGX_HTTP_SENDFILE_NOT_DELIVERED) {
        return NGX_DECLINED;
    }

    if (ctx->lookups
        && (ctx->lookups > 1
            || r->upstream == NULL
            || r->upstream->headers_in.x_accel_redirect == NULL))
    {
        if (ctx->fallen) {
            ngx_http_sendfile_loop(r, ctx, slcf);
        }

        return NGX_DECLINED;
    }

    /* the key's own variables look into the context */

    before = ctx->id;

    ngx_http_sendfile_id(r, &id);
    ctx->id = id;

    rc = ngx_http_sendfile_key(r, slcf, &id, &key);

    if (rc != NGX_OK) {
        ctx->id = before;
        return rc;
    }

    if (ctx->lookups
        && slcf->store == ctx->store
        && key.len == ctx->key.len
        && ngx_memcmp(key.data, ctx->key.data, key.len) == 0)
    {
        ctx->id = before;
        ngx_http_sendfile_loop(r, ctx, slcf);

        return NGX_DECLINED;
    }

    cleanup = ctx->cleanup;
    answer = ctx->answer;
    learn = ctx->learn;
    lookups = ctx->lookups;

    ngx_http_sendfile_init_ctx(ctx, r);

    if (answer) {
        answer->state = NGX_HTTP_SENDFILE_ANSWER_LOOKED_UP;
    }

    ctx->cleanup = cleanup;
    ctx->answer = answer;
    ctx->learn = learn;
    ctx->lookups = lookups + 1;
    ctx->id = id;
    ctx->key = key;

    return NGX_OK;
}


/*
 * The fallback, or a redirect, has led the request to a location that would
 * look it up once more: it is logged, and not done.
 */

static void
ngx_http_sendfile_loop(ngx_http_request_t *r, ngx_http_sendfile_ctx_t *ctx,
    ngx_http_sendfile_loc_conf_t *slcf)
{
    ngx_str_t  id, key;
    u_char     text[NGX_HTTP_SENDFILE_LOG_TEXT];

    ngx_http_sendfile_id(r, &id);

    if (ngx_http_sendfile_key(r, slcf, &id, &key) != NGX_OK) {
        return;
    }

    ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                  "http_sendfile: key \"%*s\" leads back to a location with "
                  "http_sendfile on, not looked up again",
                  ngx_http_sendfile_log_text(text, &ctx->key), text);
}


static ngx_int_t
ngx_http_sendfile_ask(ngx_http_request_t *r, ngx_http_sendfile_ctx_t *ctx,
    ngx_http_sendfile_loc_conf_t *slcf)
{
    ngx_int_t                   rc;
    ngx_http_sendfile_moment_t  moment;
    ngx_http_sendfile_result_t  res;

    if (slcf->store->type->async && ctx->cleanup == NULL) {
        ctx->cleanup = ngx_http_cleanup_add(r, 0);

        if (ctx->cleanup == NULL) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        ctx->cleanup->handler = ngx_http_sendfile_abort;
        ctx->cleanup->data = ctx;
    }

    ctx->start = ngx_current_msec;

    ngx_http_sendfile_ctx_moment(r, ctx, &moment);

    ctx->waiter.handler = ngx_http_sendfile_replied;
    ctx->waiter.data = ctx;
    ctx->waiter.generation = moment.now;
    ctx->waiter.due = moment.due;

    rc = ngx_http_sendfile_lookup(slcf->store, &ctx->key,
                                  ngx_http_sendfile_time_limit(slcf),
                                  &ctx->waiter, &res);

    if (rc == NGX_AGAIN) {
        return ngx_http_sendfile_wait(r, ctx);
    }

    if (rc != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_http_sendfile_reply(r, ctx, slcf, &res);

    return NGX_OK;
}


static ngx_int_t
ngx_http_sendfile_wait(ngx_http_request_t *r, ngx_http_sendfile_ctx_t *ctx)
{
    ctx->state = NGX_HTTP_SENDFILE_LOOKUP;

    if (ctx->trial == NULL && ngx_http_sendfile_suspend(r) != NGX_OK) {
        ngx_http_sendfile_abort(ctx);
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return NGX_AGAIN;
}


static void
ngx_http_sendfile_reply(ngx_http_request_t *r, ngx_http_sendfile_ctx_t *ctx,
    ngx_http_sendfile_loc_conf_t *slcf, ngx_http_sendfile_result_t *res)
{
    ctx->lookup_time = ngx_current_msec - ctx->start;
    ctx->outcome.source = NGX_HTTP_SENDFILE_SOURCE_STORE;
    ctx->outcome.detail = res->detail;
    ctx->outcome.err = res->err;
    ctx->server = res->server;

    if (ctx->trial) {
        ngx_http_sendfile_note_reply(ctx->trial, res);
    }

    if (slcf->store->limit.left_out
        && (res->rc == NGX_OK || res->rc == NGX_DECLINED))
    {
        /* the trouble is over, or it is another server that has it */

        ngx_http_sendfile_limit_tell(&slcf->store->limit, "store",
                                     &slcf->store->url, 0, ngx_cycle->log);
    }

    switch (res->rc) {

    case NGX_OK:
        ngx_http_sendfile_reply_value(r, ctx, slcf, res);
        return;

    case NGX_DECLINED:
        ngx_http_sendfile_reply_miss(r, ctx, slcf, res,
                                      res->reason ? res->reason
                                                  : "not in store");
        return;

    case NGX_HTTP_SENDFILE_TIMEDOUT:
        ctx->outcome.status = NGX_HTTP_SENDFILE_STATUS_TIMEOUT;
        ngx_http_sendfile_fail(ctx, NGX_HTTP_SENDFILE_ON_TIMEOUT,
                               NGX_HTTP_GATEWAY_TIME_OUT, res->reason);
        break;

    default: /* NGX_ERROR */
        ctx->outcome.status = NGX_HTTP_SENDFILE_STATUS_ERROR;
        ngx_http_sendfile_fail(ctx, NGX_HTTP_SENDFILE_ON_ERROR,
                               NGX_HTTP_BAD_GATEWAY,
                               res->reason ? res->reason : "store error");
    }

    (void) ngx_http_sendfile_reply_failed(r, ctx, slcf);
}


/* what is said of a request that is only explained */

static void
ngx_http_sendfile_note_reply(ngx_http_sendfile_trial_t *trial,
    ngx_http_sendfile_result_t *res)
{
    trial->replies = 1;
    trial->reply = *res;
    trial->reply.value.data = trial->value;

    if (res->rc == NGX_OK && res->value.len && res->value.len <= NSF_MAX_VALUE)
    {
        ngx_memcpy(trial->value, res->value.data,
                   ngx_min(res->value.len, NGX_HTTP_SENDFILE_TRIAL_VALUE));
    }
}


static void
ngx_http_sendfile_reply_value(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_http_sendfile_result_t *res)
{
    const char  *reason;

    reason = ngx_http_sendfile_decode(r, ctx, slcf->format, &res->value);

    if (reason) {
        ctx->outcome.status = NGX_HTTP_SENDFILE_STATUS_INVALID;
        ngx_http_sendfile_fail(ctx, NGX_HTTP_SENDFILE_ON_INVALID,
                               NGX_HTTP_BAD_GATEWAY, "invalid record");
        ctx->outcome.detail = reason;
        return;
    }

    if (ctx->outcome.target.valid_until
        && ctx->outcome.target.valid_until <= ngx_time())
    {
        ngx_http_sendfile_reply_miss(r, ctx, slcf, res,
                                      "record has expired");
        return;
    }

    ctx->state = NGX_HTTP_SENDFILE_FOUND;
    ctx->outcome.status = ctx->stale ? NGX_HTTP_SENDFILE_STATUS_EXPIRED
                             : NGX_HTTP_SENDFILE_STATUS_HIT;

    if (slcf->cache) {
        ngx_http_sendfile_record_keep(r, ctx, slcf, 0, res->generation);
    }
}


static void
ngx_http_sendfile_reply_miss(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_http_sendfile_result_t *res, const char *reason)
{
    if (res->substitute) {
        ngx_http_sendfile_reply_substitute(r, ctx, slcf);
        return;
    }

    ctx->outcome.status = NGX_HTTP_SENDFILE_STATUS_MISS;
    ngx_http_sendfile_fail(ctx, NGX_HTTP_SENDFILE_ON_MISS, NGX_HTTP_NOT_FOUND,
                           reason);

    if (slcf->cache) {
        ngx_http_sendfile_record_keep(r, ctx, slcf, 1, res->generation);
    }
}


/*
 * The key's own server is down, and the one asked instead has no such key.
 * That does not say what the store has: a stale record may be used, and no
 * miss is kept.
 */

static void
ngx_http_sendfile_reply_substitute(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf)
{
    ctx->outcome.status = NGX_HTTP_SENDFILE_STATUS_ERROR;
    ngx_http_sendfile_fail(ctx, NGX_HTTP_SENDFILE_ON_ERROR,
                           NGX_HTTP_BAD_GATEWAY, "server is down");

    if (ngx_http_sendfile_reply_failed(r, ctx, slcf) == NGX_OK) {
        return;
    }

    ctx->outcome.status = NGX_HTTP_SENDFILE_STATUS_MISS;
    ngx_http_sendfile_fail(ctx, NGX_HTTP_SENDFILE_ON_MISS, NGX_HTTP_NOT_FOUND,
                           "not in next server");
}


/*
 * The store is down or slow: a stale record is used, if there is one and
 * http_sendfile_cache_use_stale allows it.  NGX_OK, or NGX_DECLINED.
 */

static ngx_int_t
ngx_http_sendfile_reply_failed(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf)
{
    if (ctx->stale == NULL
        || !(slcf->cache_use_stale & ctx->outcome.failure)
        || ngx_http_sendfile_ctx_old(ctx, slcf->cache->generations,
                                     ctx->stale_generation))
    {
        return NGX_DECLINED;
    }

    ngx_http_sendfile_log_failure(r, ctx, "served stale", NULL, 0);
    ngx_http_sendfile_stale(ctx);

    return NGX_OK;
}


/* a store's reply that comes from the event loop */

static void
ngx_http_sendfile_replied(ngx_http_sendfile_waiter_t *w,
    ngx_http_sendfile_result_t *res)
{
    ngx_http_request_t            *r;
    ngx_http_sendfile_ctx_t       *ctx;
    ngx_http_sendfile_loc_conf_t  *slcf;

    ctx = w->data;
    r = ctx->request;

    slcf = ngx_http_get_module_loc_conf(r, ngx_http_sendfile_module);

    if (ctx->trial) {
        ngx_http_sendfile_reply(r, ctx, slcf, res);
        ctx->trial->replied(ctx->trial);
        return;
    }

    ngx_http_set_log_request(r->connection->log, r);

    ngx_http_sendfile_reply(r, ctx, slcf, res);
    ngx_http_sendfile_resume(r);
}


/* a cleanup of the request, whatever ends it; a lookup may be pending */

static void
ngx_http_sendfile_abort(void *data)
{
    ngx_http_sendfile_ctx_t  *ctx = data;

    ngx_http_sendfile_lookup_cancel(&ctx->waiter);

    if (ctx->state == NGX_HTTP_SENDFILE_LOOKUP) {
        ctx->state = NGX_HTTP_SENDFILE_DONE;
    }
}
