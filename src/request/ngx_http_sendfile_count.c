
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Requests are counted in the LOG phase, when all of their outcome is known.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_request.h"
#include "ngx_http_sendfile_recent.h"


static ngx_int_t ngx_http_sendfile_count(ngx_http_request_t *r);
static void ngx_http_sendfile_count_failed(ngx_http_request_t *r,
    ngx_http_sendfile_main_conf_t *smcf, ngx_http_sendfile_ctx_t *ctx);
static void ngx_http_sendfile_count_sent(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx);
static ngx_int_t ngx_http_sendfile_count_locations(ngx_cycle_t *cycle,
    ngx_http_sendfile_stats_t *stats, ngx_array_t *locations);
static ngx_int_t ngx_http_sendfile_count_location(ngx_cycle_t *cycle,
    ngx_http_core_loc_conf_t *clcf, ngx_str_t *name);


/* by the kinds that http_sendfile_fallback_on names, and the other two */

static ngx_uint_t  ngx_http_sendfile_count_failures[
                                          NGX_HTTP_SENDFILE_STATS_FAILURES] = {
    NGX_HTTP_SENDFILE_ON_MISS,
    NGX_HTTP_SENDFILE_ON_ERROR,
    NGX_HTTP_SENDFILE_ON_TIMEOUT,
    NGX_HTTP_SENDFILE_ON_INVALID,
    NGX_HTTP_SENDFILE_ON_MISSING_FILE,
    NGX_HTTP_SENDFILE_ON_METHOD,
    NGX_HTTP_SENDFILE_ON_SCRIPT
};


ngx_int_t
ngx_http_sendfile_count_init(ngx_conf_t *cf)
{
    ngx_http_handler_pt            *h;
    ngx_http_core_main_conf_t      *cmcf;
    ngx_http_sendfile_main_conf_t  *smcf;

    smcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_sendfile_module);
    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);

    smcf->stats = ngx_http_sendfile_stats_create(cf,
                                                 &ngx_http_sendfile_module);
    if (smcf->stats == NULL) {
        return NGX_ERROR;
    }

    h = ngx_array_push(&cmcf->phases[NGX_HTTP_LOG_PHASE].handlers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    *h = ngx_http_sendfile_count;

    return NGX_OK;
}


ngx_int_t
ngx_http_sendfile_count_init_process(ngx_cycle_t *cycle,
    ngx_http_sendfile_main_conf_t *smcf)
{
    ngx_uint_t                   i;
    ngx_http_sendfile_zone_t   **zone;
    ngx_http_sendfile_store_t  **store;

    if (smcf->stats == NULL) {
        return NGX_OK;
    }

    if (smcf->status_ids) {
        smcf->recent = ngx_http_sendfile_stats_recent(smcf->stats);
    }

    smcf->counters = ngx_http_sendfile_stats_cells(smcf->stats,
                                                NGX_HTTP_SENDFILE_STATS_WHOLE,
                                                NULL, NULL);

    if (ngx_http_sendfile_count_locations(cycle, smcf->stats, &smcf->enabled)
        != NGX_OK
        || ngx_http_sendfile_count_locations(cycle, smcf->stats,
                                             &smcf->accepting)
           != NGX_OK
        || ngx_http_sendfile_count_locations(cycle, smcf->stats,
                                             &smcf->sending)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    zone = smcf->zones.elts;

    for (i = 0; i < smcf->zones.nelts; i++) {
        zone[i]->counters = ngx_http_sendfile_stats_cells(smcf->stats,
                                                 NGX_HTTP_SENDFILE_STATS_ZONE,
                                                 &zone[i]->name, NULL);
    }

    store = smcf->stores.elts;

    for (i = 0; i < smcf->stores.nelts; i++) {
        store[i]->stats = smcf->stats;
    }

    return NGX_OK;
}


void
ngx_http_sendfile_count_store(ngx_http_sendfile_store_t *store)
{
    if (!store->by_server) {
        store->counters = ngx_http_sendfile_stats_cells(store->stats,
                                                NGX_HTTP_SENDFILE_STATS_STORE,
                                                &store->url, NULL);
    }
}


static ngx_int_t
ngx_http_sendfile_count_locations(ngx_cycle_t *cycle,
    ngx_http_sendfile_stats_t *stats, ngx_array_t *locations)
{
    ngx_str_t                     name;
    ngx_uint_t                    i;
    ngx_http_sendfile_enabled_t  *e;

    e = locations->elts;

    for (i = 0; i < locations->nelts; i++) {

        if (ngx_http_sendfile_count_location(cycle, e[i].clcf, &name)
            != NGX_OK)
        {
            return NGX_ERROR;
        }

        e[i].conf->counters = ngx_http_sendfile_stats_cells(stats,
                                             NGX_HTTP_SENDFILE_STATS_LOCATION,
                                             &name, &e[i].cscf->server_name);
    }

    return NGX_OK;
}


/* an "if" has the name of its location */

static ngx_int_t
ngx_http_sendfile_count_location(ngx_cycle_t *cycle,
    ngx_http_core_loc_conf_t *clcf, ngx_str_t *name)
{
    u_char      *p;
    const char  *modifier;

    if (clcf->name.len == 0) {
        ngx_str_set(name, "server");
        return NGX_OK;
    }

    modifier = "";

    if (clcf->exact_match) {
        modifier = "= ";
    }

#if (NGX_PCRE)
    if (clcf->regex) {
        modifier = "~ ";
    }
#endif

    name->len = ngx_strlen(modifier) + clcf->name.len;

    name->data = ngx_pnalloc(cycle->pool, name->len);
    if (name->data == NULL) {
        return NGX_ERROR;
    }

    p = ngx_cpymem(name->data, modifier, ngx_strlen(modifier));
    ngx_memcpy(p, clcf->name.data, clcf->name.len);

    return NGX_OK;
}


static ngx_int_t
ngx_http_sendfile_count(ngx_http_request_t *r)
{
    ngx_http_sendfile_ctx_t        *ctx;
    ngx_http_sendfile_outcome_t    *outcome;
    ngx_http_sendfile_main_conf_t  *smcf;

    ctx = ngx_http_sendfile_get_ctx(r);

    if (ctx == NULL || ctx->counters == NULL) {
        return NGX_OK;
    }

    outcome = &ctx->outcome;

    ngx_http_sendfile_stats_add(ctx->counters,
                             ngx_http_sendfile_stats_request(outcome->status,
                                                             outcome->source),
                             1);

    smcf = ngx_http_get_module_main_conf(r, ngx_http_sendfile_module);

    if (outcome->failure) {
        ngx_http_sendfile_count_failed(r, smcf, ctx);
    }

    if (smcf->recent
        && ctx->key.len - 1 < NGX_HTTP_SENDFILE_RECENT_ID)
    {
        ngx_http_sendfile_recent_asked(smcf->stats, smcf->recent,
                                       ctx->counters, &ctx->key);
    }

    if (ngx_http_get_module_ctx(r, ngx_http_sendfile_filter_module)) {
        ngx_http_sendfile_count_sent(r, ctx);
    }

    return NGX_OK;
}


static void
ngx_http_sendfile_count_failed(ngx_http_request_t *r,
    ngx_http_sendfile_main_conf_t *smcf, ngx_http_sendfile_ctx_t *ctx)
{
    ngx_uint_t                    kind;
    ngx_http_sendfile_failed_t    failed;
    ngx_http_sendfile_outcome_t  *outcome;

    outcome = &ctx->outcome;

    kind = ngx_http_sendfile_count_kind(outcome->failure);

    ngx_http_sendfile_stats_add(ctx->counters,
                                NGX_HTTP_SENDFILE_STATS_FAILED + kind, 1);

    failed.location = ctx->counters;
    failed.kind = kind;
    failed.err = outcome->err;
    failed.status = r->err_status ? r->err_status : r->headers_out.status;
    failed.reason = ctx->failed_reason ? ctx->failed_reason : outcome->reason;
    failed.detail = ctx->failed_reason ? ctx->failed_detail : outcome->detail;
    failed.store = ctx->store ? &ctx->store->url : NULL;
    failed.server = ctx->server;
    failed.id = (smcf->recent && ctx->key.len) ? &ctx->key : NULL;

    ngx_http_sendfile_recent_failed(smcf->stats, &failed);
}


ngx_uint_t
ngx_http_sendfile_count_kind(ngx_uint_t failure)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_HTTP_SENDFILE_STATS_FAILURES - 1; i++) {
        if (failure == ngx_http_sendfile_count_failures[i]) {
            break;
        }
    }

    return i;
}


/* the response is the file that was named, unless its status says otherwise */

static void
ngx_http_sendfile_count_sent(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx)
{
    off_t       bytes;
    ngx_uint_t  how;

    switch (r->headers_out.status) {

    case NGX_HTTP_OK:
    case NGX_HTTP_PARTIAL_CONTENT:
    case NGX_HTTP_NOT_MODIFIED:
        break;

    default:
        return;
    }

    if (ctx->outcome.source != NGX_HTTP_SENDFILE_SOURCE_APP) {
        ngx_http_sendfile_stats_add(ctx->counters,
                                    NGX_HTTP_SENDFILE_STATS_AVOIDED, 1);
    }

    if (r->headers_out.status == NGX_HTTP_NOT_MODIFIED
        || r->method == NGX_HTTP_HEAD
        || r->header_size == 0)
    {
        return;
    }

    how = ctx->direct ? 0 : 1;

    ngx_http_sendfile_stats_add(ctx->counters,
                                NGX_HTTP_SENDFILE_STATS_FILES + how, 1);

    /* as $body_bytes_sent */

    bytes = r->connection->sent - (off_t) r->header_size;

    if (bytes > 0) {
        ngx_http_sendfile_stats_add(ctx->counters,
                                    NGX_HTTP_SENDFILE_STATS_BYTES + how,
                                    bytes);
    }
}
