
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * The context of a request, found again after every redirect.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_ctx.h"


static void ngx_http_sendfile_mark(void *data);
static void *ngx_http_sendfile_palloc(void *ctx, size_t size);


ngx_http_sendfile_ctx_t *
ngx_http_sendfile_get_ctx(ngx_http_request_t *r)
{
    ngx_pool_cleanup_t       *cln;
    ngx_http_sendfile_ctx_t  *ctx;

    ctx = ngx_http_get_module_ctx(r, ngx_http_sendfile_module);

    if (ctx || !(r->internal || r->filter_finalize)) {
        return ctx;
    }

    /*
     * A redirect, or a filter that has answered instead, has cleared the
     * contexts.  The pool is the main request's.
     */

    for (cln = r->pool->cleanup; cln; cln = cln->next) {

        if (cln->handler == ngx_http_sendfile_mark) {
            ctx = cln->data;

            if (ctx->request == r) {
                ngx_http_set_ctx(r, ctx, ngx_http_sendfile_module);
                return ctx;
            }
        }
    }

    return NULL;
}


ngx_http_sendfile_ctx_t *
ngx_http_sendfile_create_ctx(ngx_http_request_t *r)
{
    ngx_pool_cleanup_t       *cln;
    ngx_http_sendfile_ctx_t  *ctx;

    cln = ngx_pool_cleanup_add(r->pool, sizeof(ngx_http_sendfile_ctx_t));
    if (cln == NULL) {
        return NULL;
    }

    ctx = cln->data;
    ngx_http_sendfile_init_ctx(ctx, r);

    cln->handler = ngx_http_sendfile_mark;

    ngx_http_set_ctx(r, ctx, ngx_http_sendfile_module);

    return ctx;
}


void
ngx_http_sendfile_init_ctx(ngx_http_sendfile_ctx_t *ctx, ngx_http_request_t *r)
{
    ngx_http_sendfile_loc_conf_t  *slcf;

    ngx_memzero(ctx, sizeof(ngx_http_sendfile_ctx_t));

    slcf = ngx_http_get_module_loc_conf(r, ngx_http_sendfile_module);

    ctx->counters = slcf->counters;
    ctx->request = r;
    ctx->lookup_time = (ngx_msec_t) -1;
    ctx->cache_status = slcf->cache_status;
}


void
ngx_http_sendfile_fail(ngx_http_sendfile_ctx_t *ctx, ngx_uint_t failure,
    ngx_uint_t code, const char *reason)
{
    ctx->state = NGX_HTTP_SENDFILE_FAILED;
    ctx->outcome.failure = failure;
    ctx->outcome.code = code;
    ctx->outcome.reason = reason;
}


void
ngx_http_sendfile_ctx_subject(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_name_e kind,
    ngx_str_t *name)
{
    uint32_t                        slot;
    ngx_http_sendfile_main_conf_t  *smcf;

    smcf = ngx_http_get_module_main_conf(r, ngx_http_sendfile_module);

    if (smcf->generations) {
        slot = ngx_http_sendfile_generations_slot(kind, name);
        ngx_http_sendfile_subject_add(&ctx->subject, slot);
    }
}


void
ngx_http_sendfile_ctx_moment(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_moment_t *moment)
{
    ngx_http_sendfile_generations_t  *g;
    ngx_http_sendfile_main_conf_t    *smcf;

    smcf = ngx_http_get_module_main_conf(r, ngx_http_sendfile_module);
    g = smcf->generations;

    /* in this order: see ngx_http_sendfile_generations_now() */

    moment->now = g ? ngx_http_sendfile_generations_now(g) : 0;
    moment->due = g ? ngx_http_sendfile_generations_due(g, &ctx->subject) : 0;
}


ngx_uint_t
ngx_http_sendfile_ctx_old(ngx_http_sendfile_ctx_t *ctx,
    ngx_http_sendfile_generations_t *g, ngx_atomic_uint_t generation)
{
    return generation < ngx_http_sendfile_generations_due(g, &ctx->subject);
}


ngx_int_t
ngx_http_sendfile_suspend(ngx_http_request_t *r)
{
    ngx_event_t  *rev;

    /* so that it is noticed when the client closes the connection */

    rev = r->connection->read;

    if (rev->ready) {
        ngx_post_event(rev, &ngx_posted_events);

    } else if (ngx_handle_read_event(rev, 0) != NGX_OK) {
        return NGX_ERROR;
    }

    r->read_event_handler = ngx_http_test_reading;

    return NGX_OK;
}


void
ngx_http_sendfile_resume(ngx_http_request_t *r)
{
    ngx_connection_t  *c;

    c = r->connection;

    if (ngx_handle_read_event(c->read, 0) != NGX_OK) {
        ngx_http_finalize_request(r, NGX_HTTP_INTERNAL_SERVER_ERROR);

    } else {
        r->read_event_handler = ngx_http_block_reading;
        r->write_event_handler = ngx_http_core_run_phases;

        ngx_http_core_run_phases(r);
    }

    ngx_http_run_posted_requests(c);
}


void
ngx_http_sendfile_pool(nsf_pool_t *np, ngx_pool_t *pool)
{
    np->alloc = ngx_http_sendfile_palloc;
    np->ctx = pool;
}


static void *
ngx_http_sendfile_palloc(void *ctx, size_t size)
{
    return ngx_palloc(ctx, size);
}


/* does nothing: get_ctx() finds the context by this handler in the pool */

static void
ngx_http_sendfile_mark(void *data)
{
    return;
}
