
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
#include "nsf_key.h"


static ngx_uint_t ngx_http_sendfile_learn_number(
    ngx_http_sendfile_enabled_t *locations, ngx_uint_t i);
static ngx_uint_t ngx_http_sendfile_learn_alike(ngx_str_t *a, ngx_str_t *b);
static ngx_int_t ngx_http_sendfile_learn_location(ngx_conf_t *cf,
    ngx_http_sendfile_enabled_t *e);
static ngx_int_t ngx_http_sendfile_learn_error_pages(ngx_conf_t *cf,
    ngx_http_core_loc_conf_t *clcf, ngx_uint_t use_stale);
static ngx_int_t ngx_http_sendfile_learn_error_page(ngx_conf_t *cf,
    ngx_array_t *pages, ngx_int_t status);
static ngx_int_t ngx_http_sendfile_learn_handler(ngx_http_request_t *r);
static ngx_uint_t ngx_http_sendfile_learn_applies(ngx_http_request_t *r,
    ngx_http_sendfile_loc_conf_t *slcf);
static ngx_int_t ngx_http_sendfile_learn_create(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf);
static ngx_int_t ngx_http_sendfile_learn_name(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_http_sendfile_learn_t *learn);
static ngx_int_t ngx_http_sendfile_learn_scope(ngx_http_request_t *r,
    ngx_http_sendfile_loc_conf_t *slcf, ngx_http_sendfile_learn_t *learn,
    ngx_str_t *other);
static ngx_int_t ngx_http_sendfile_learn_host(ngx_http_request_t *r,
    ngx_str_t *host);
static u_char *ngx_http_sendfile_learn_part(u_char *p, ngx_str_t *s);
static ngx_int_t ngx_http_sendfile_learn_ask(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf);
static ngx_int_t ngx_http_sendfile_learn_ask_anew(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_http_sendfile_learned_t *learned);
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


/* as that of http_sendfile_accept: no other name can be like it */

static ngx_str_t  ngx_http_sendfile_learn_stale =
    ngx_string("@http_sendfile_stale\0");


ngx_int_t
ngx_http_sendfile_learn_init(ngx_conf_t *cf)
{
    ngx_uint_t                       i;
    ngx_http_core_srv_conf_t       **cscfp;
    ngx_http_core_main_conf_t       *cmcf;
    ngx_http_sendfile_enabled_t     *e;
    ngx_http_sendfile_main_conf_t   *smcf;

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

    smcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_sendfile_module);
    e = smcf->accepting.elts;

    for (i = 0; i < smcf->accepting.nelts; i++) {
        if (!e[i].conf->learn) {
            continue;
        }

        e[i].conf->learn_number = ngx_http_sendfile_learn_number(e, i);

        if (ngx_http_sendfile_learn_location(cf, &e[i]) != NGX_OK) {
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


/*
 * How many locations of that name there were before, in servers of that name:
 * the one of an "if", or of a server with another address on the same socket.
 */

static ngx_uint_t
ngx_http_sendfile_learn_number(ngx_http_sendfile_enabled_t *locations,
    ngx_uint_t i)
{
    ngx_uint_t                    j, n;
    ngx_http_sendfile_enabled_t  *e;

    n = 0;

    for (j = 0; j < i; j++) {

        e = &locations[j];

        if (e->conf->learn
            && ngx_http_sendfile_learn_alike(&e->clcf->name,
                                             &locations[i].clcf->name)
            && ngx_http_sendfile_learn_alike(&e->cscf->server_name,
                                             &locations[i].cscf->server_name))
        {
            n++;
        }
    }

    return n;
}


static ngx_uint_t
ngx_http_sendfile_learn_alike(ngx_str_t *a, ngx_str_t *b)
{
    return a->len == b->len
           && (a->len == 0 || ngx_memcmp(a->data, b->data, a->len) == 0);
}


/*
 * The location once more, for requests that have a stale answer: the errors
 * that mean that the application has failed lead to it.
 */

static ngx_int_t
ngx_http_sendfile_learn_location(ngx_conf_t *cf,
    ngx_http_sendfile_enabled_t *e)
{
    void                      **loc_conf;
    ngx_uint_t                  use_stale;
    ngx_http_core_loc_conf_t   *clcf;

    use_stale = e->conf->cache_use_stale
                & (NGX_HTTP_SENDFILE_ON_ERROR|NGX_HTTP_SENDFILE_ON_TIMEOUT);

    if (use_stale == 0) {
        return NGX_OK;
    }

    /* the server's own configuration has no loc_conf of its own */

    loc_conf = e->clcf->loc_conf ? e->clcf->loc_conf : e->cscf->ctx->loc_conf;

    e->conf->stale_conf = ngx_http_sendfile_copy_location(cf, loc_conf, &clcf);
    if (e->conf->stale_conf == NULL) {
        return NGX_ERROR;
    }

    return ngx_http_sendfile_learn_error_pages(cf, clcf, use_stale);
}


static ngx_int_t
ngx_http_sendfile_learn_error_pages(ngx_conf_t *cf,
    ngx_http_core_loc_conf_t *clcf, ngx_uint_t use_stale)
{
    ngx_array_t          *pages;
    ngx_http_err_page_t  *page;

    pages = ngx_array_create(cf->pool, 4, sizeof(ngx_http_err_page_t));
    if (pages == NULL) {
        return NGX_ERROR;
    }

    if ((use_stale & NGX_HTTP_SENDFILE_ON_ERROR)
        && ngx_http_sendfile_learn_error_page(cf, pages, NGX_HTTP_BAD_GATEWAY)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    if ((use_stale & NGX_HTTP_SENDFILE_ON_TIMEOUT)
        && ngx_http_sendfile_learn_error_page(cf, pages,
                                              NGX_HTTP_GATEWAY_TIME_OUT)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    /* the location's own, for all other errors */

    if (clcf->error_pages) {

        page = ngx_array_push_n(pages, clcf->error_pages->nelts);
        if (page == NULL) {
            return NGX_ERROR;
        }

        ngx_memcpy(page, clcf->error_pages->elts,
                   clcf->error_pages->nelts * sizeof(ngx_http_err_page_t));
    }

    clcf->error_pages = pages;

    return NGX_OK;
}


static ngx_int_t
ngx_http_sendfile_learn_error_page(ngx_conf_t *cf, ngx_array_t *pages,
    ngx_int_t status)
{
    ngx_http_err_page_t  *page;

    page = ngx_array_push(pages);
    if (page == NULL) {
        return NGX_ERROR;
    }

    ngx_memzero(page, sizeof(ngx_http_err_page_t));

    page->status = status;
    page->overwrite = -1;
    page->value.value = ngx_http_sendfile_learn_stale;

    return NGX_OK;
}


static ngx_int_t
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

    if (ctx && ctx->learn) {

        if (ctx->learn->waiting) {
            /* an event of the client's */
            return NGX_AGAIN;
        }

        if (!ctx->learn->woken) {
            return NGX_DECLINED;
        }

        ctx->learn->woken = 0;

        return ngx_http_sendfile_learn_ask(r, ctx, slcf);
    }

    /* a file is on its way already: this location is a part of that */

    if (ctx && (ctx->delivered || ctx->answer)) {
        return NGX_DECLINED;
    }

    if (ctx == NULL) {
        ctx = ngx_http_sendfile_create_ctx(r);

        if (ctx == NULL) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        ctx->state = NGX_HTTP_SENDFILE_DONE;
    }

    if (ctx->outcome.source.len == 0) {
        ngx_str_set(&ctx->outcome.source, "app");
    }

    rc = ngx_http_sendfile_learn_create(r, ctx, slcf);

    return (rc == NGX_OK) ? ngx_http_sendfile_learn_ask(r, ctx, slcf) : rc;
}


/* an upstream always is a content handler; an answer may depend on a body */

static ngx_uint_t
ngx_http_sendfile_learn_applies(ngx_http_request_t *r,
    ngx_http_sendfile_loc_conf_t *slcf)
{
    return slcf->accept
           && slcf->cache
           && r == r->main
           && r->content_handler
           && r->err_status == 0
           && (r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))
           && r->headers_in.content_length_n <= 0
           && !r->headers_in.chunked;
}


static ngx_int_t
ngx_http_sendfile_learn_create(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf)
{
    ngx_int_t                   rc;
    ngx_http_sendfile_learn_t  *learn;

    learn = ngx_pcalloc(r->pool, sizeof(ngx_http_sendfile_learn_t));
    if (learn == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    learn->request = r;
    learn->zone = slcf->cache;
    learn->loc_conf = r->loc_conf;
    learn->uri_changes = r->uri_changes;
    learn->keepalive = r->keepalive;
    learn->get = (r->method == NGX_HTTP_GET);

    rc = ngx_http_sendfile_learn_name(r, ctx, slcf, learn);

    if (rc == NGX_OK) {
        ctx->learn = learn;
    }

    return rc;
}


/* NGX_DECLINED: nothing that a cache could know the answer by */

static ngx_int_t
ngx_http_sendfile_learn_name(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_http_sendfile_learn_t *learn)
{
    ngx_int_t  rc;
    ngx_str_t  id, key, other;

    ngx_str_null(&other);

    ngx_http_sendfile_id(r, &id);

    if (!ctx->looked_up) {
        ctx->id = id;
    }

    rc = ngx_http_sendfile_key(r, slcf, &id, &key);

    if (rc == NGX_ERROR) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (rc == NGX_DECLINED || nsf_key_check(key.data, key.len)) {

        /* not to be looked up by, but it may tell users from each other */

        if (slcf->key && ngx_http_complex_value(r, slcf->key, &other) != NGX_OK)
        {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        key = r->uri;
        learn->by_uri = 1;

    } else if (!ctx->looked_up) {
        ctx->key = key;
    }

    learn->name.key.data = key.data;
    learn->name.key.len = key.len;

    rc = ngx_http_sendfile_learn_scope(r, slcf, learn, &other);

    if (rc != NGX_OK) {
        return rc;
    }

    if (key.len > NSF_SHARD_MAX_NAME
        || learn->name.scope.len > NSF_SHARD_MAX_NAME)
    {
        return NGX_DECLINED;
    }

    ngx_http_sendfile_zone_hash(learn->zone, &learn->name);

    return NGX_OK;
}


/*
 * Whatever an application may go by without saying so: the server and its
 * address, the host, the header Host, which may be another than that of an
 * absolute URI, the location, the URI as it is and as it came, the arguments.
 * None of it has a null byte, except for a key that is none, the last.
 */

static ngx_int_t
ngx_http_sendfile_learn_scope(ngx_http_request_t *r,
    ngx_http_sendfile_loc_conf_t *slcf, ngx_http_sendfile_learn_t *learn,
    ngx_str_t *other)
{
    u_char                    *p;
    nsf_str_t                 *scope;
    ngx_str_t                  host, unparsed, place;
    ngx_http_core_srv_conf_t  *cscf;
    ngx_http_core_loc_conf_t  *clcf;
    u_char                     number[NGX_INT_T_LEN];

    cscf = ngx_http_get_module_srv_conf(r, ngx_http_core_module);
    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    if (ngx_http_sendfile_learn_host(r, &host) != NGX_OK) {
        return NGX_DECLINED;
    }

    ngx_str_null(&unparsed);

    if (r->valid_unparsed_uri) {
        unparsed = r->unparsed_uri;
    }

    place.data = number;
    place.len = 0;

    if (slcf->learn_number) {
        place.len = ngx_snprintf(number, NGX_INT_T_LEN, "%ui",
                                 slcf->learn_number)
                    - number;
    }

    scope = &learn->name.scope;

    scope->len = 1 + cscf->server_name.len
                 + 1 + r->connection->listening->addr_text.len
                 + 1 + r->headers_in.server.len
                 + 1 + host.len
                 + 1 + clcf->name.len
                 + 1 + place.len
                 + 1 + r->uri.len
                 + 1 + r->args.len
                 + 1 + unparsed.len
                 + 1 + other->len;

    p = ngx_pnalloc(r->pool, scope->len);
    if (p == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    scope->data = p;

    *p++ = learn->by_uri ? 'u' : 'l';
    p = ngx_cpymem(p, cscf->server_name.data, cscf->server_name.len);
    p = ngx_http_sendfile_learn_part(p,
                                     &r->connection->listening->addr_text);
    p = ngx_http_sendfile_learn_part(p, &r->headers_in.server);
    p = ngx_http_sendfile_learn_part(p, &host);
    p = ngx_http_sendfile_learn_part(p, &clcf->name);
    p = ngx_http_sendfile_learn_part(p, &place);
    p = ngx_http_sendfile_learn_part(p, &r->uri);
    p = ngx_http_sendfile_learn_part(p, &r->args);
    p = ngx_http_sendfile_learn_part(p, &unparsed);
    (void) ngx_http_sendfile_learn_part(p, other);

    return NGX_OK;
}


/*
 * The header Host as it came; NGX_DECLINED: there are several, of which nginx
 * before 1.23 takes the first, and an application may take another.
 */

static ngx_int_t
ngx_http_sendfile_learn_host(ngx_http_request_t *r, ngx_str_t *host)
{
    ngx_uint_t        i, n;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    n = 0;
    ngx_str_null(host);

    for (part = &r->headers_in.headers.part; part; part = part->next) {

        h = part->elts;

        for (i = 0; i < part->nelts; i++) {

            if (h[i].key.len == 4
                && ngx_strncasecmp(h[i].key.data, (u_char *) "host", 4) == 0)
            {
                *host = h[i].value;
                n++;
            }
        }
    }

    return (n > 1) ? NGX_DECLINED : NGX_OK;
}


static u_char *
ngx_http_sendfile_learn_part(u_char *p, ngx_str_t *s)
{
    *p++ = '\0';

    /* the data of an empty string may be NULL */

    return s->len ? ngx_cpymem(p, s->data, s->len) : p;
}


static ngx_int_t
ngx_http_sendfile_learn_ask(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf)
{
    ngx_int_t                     rc;
    ngx_http_sendfile_learn_t    *learn;
    ngx_http_sendfile_learned_t   learned;

    learn = ctx->learn;

    learn->token = ngx_http_sendfile_zone_token(learn->zone, &learn->name);

    switch (ngx_http_sendfile_learn_find(r, learn, &learned)) {

    case NGX_HTTP_SENDFILE_LEARNED_FRESH:
        rc = ngx_http_sendfile_learn_use(r, ctx, slcf, &learned,
                                         NGX_HTTP_SENDFILE_STATUS_HIT);
        break;

    case NGX_HTTP_SENDFILE_LEARNED_STALE:
        rc = ngx_http_sendfile_learn_ask_anew(r, ctx, slcf, &learned);
        break;

    default: /* NGX_HTTP_SENDFILE_LEARNED_NONE */
        return NGX_DECLINED;
    }

    return (rc == NGX_ERROR) ? NGX_HTTP_INTERNAL_SERVER_ERROR : rc;
}


/* its time is over: one request asks the application */

static ngx_int_t
ngx_http_sendfile_learn_ask_anew(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_http_sendfile_learned_t *learned)
{
    ngx_int_t                   rc;
    ngx_http_sendfile_learn_t  *learn, *updater;

    learn = ctx->learn;
    updater = ngx_http_sendfile_learn_updater(learn);

    if ((slcf->cache_use_stale & NGX_HTTP_SENDFILE_STALE_UPDATING)
        && (updater || !ngx_http_sendfile_learn_claim(learn, learned)))
    {
        return ngx_http_sendfile_learn_use(r, ctx, slcf, learned,
                                           NGX_HTTP_SENDFILE_STATUS_STALE);
    }

    if (learn->cleanup == NULL) {
        learn->cleanup = ngx_http_cleanup_add(r, 0);

        if (learn->cleanup == NULL) {
            return NGX_ERROR;
        }

        learn->cleanup->handler = ngx_http_sendfile_learn_cleanup;
        learn->cleanup->data = learn;
    }

    if (updater) {
        rc = ngx_http_sendfile_learn_wait(r, learn, updater);

        if (rc != NGX_DECLINED) {
            return rc;
        }

    } else {
        ngx_http_sendfile_learn_update(learn);
    }

    learn->stale = ngx_palloc(r->pool, sizeof(ngx_http_sendfile_learned_t));
    if (learn->stale == NULL) {
        return NGX_ERROR;
    }

    *learn->stale = *learned;

    if (slcf->stale_conf) {
        r->loc_conf = slcf->stale_conf;

        /* a location that an error_page has led to has none of its own, but
         * these */

        learn->error_page = r->error_page;
        r->error_page = 0;
    }

    return NGX_DECLINED;
}


/* NGX_DONE; or NGX_DECLINED: it could not be used, and is forgotten */

static ngx_int_t
ngx_http_sendfile_learn_use(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_http_sendfile_learned_t *learned, ngx_http_sendfile_status_e status)
{
    ngx_int_t                    rc;
    ngx_str_t                    source;
    ngx_http_sendfile_status_e   before;

    before = ctx->outcome.status;
    source = ctx->outcome.source;

    ngx_str_set(&ctx->outcome.source, "learned");

    ctx->outcome.status = status;
    ctx->outcome.target = learned->target;
    ctx->outcome.reason = NULL;
    ctx->outcome.detail = NULL;
    ctx->outcome.err = 0;
    ctx->learn->used = 1;

    if (learned->kind == NGX_HTTP_SENDFILE_LEARNED_FILE) {
        rc = ngx_http_sendfile_learn_file(r, ctx, slcf, learned);

    } else {
        rc = ngx_http_sendfile_learn_redirect(r, ctx, slcf, learned);
    }

    if (rc != NGX_DECLINED) {
        return rc;
    }

    ngx_http_sendfile_learn_forget(ctx->learn);

    ngx_memzero(&ctx->outcome.target, sizeof(nsf_target_t));
    ngx_str_null(&ctx->root);

    ctx->outcome.status = before;
    ctx->outcome.source = source;
    ctx->cached = 0;
    ctx->state = NGX_HTTP_SENDFILE_DONE;
    ctx->outcome.failure = 0;
    ctx->learn->used = 0;

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
            ctx->cached = 1;

            return ngx_http_sendfile_direct(r, ctx, slcf);
        }
    }

    /* allowed no more */

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
    ctx->delivered = 1;
    ctx->redirecting = 1;

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

    if (learn == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    /* back to where it was, and to the location's own error_page */

    code = r->err_status;

    r->loc_conf = learn->loc_conf;
    r->keepalive = learn->keepalive;

    ngx_http_update_location_config(r);

    r->content_handler = NULL;
    r->error_page = learn->error_page;

    if (learn->stale == NULL || learn->followed) {
        return code;
    }

    r->err_status = 0;

    ngx_log_error(NGX_LOG_INFO, r->connection->log, 0,
                  "http_sendfile: the application has failed (%i), its last "
                  "answer is used", code);

    slcf = ngx_http_get_module_loc_conf(r, ngx_http_sendfile_module);

    rc = ngx_http_sendfile_learn_use(r, ctx, slcf, learn->stale,
                                     NGX_HTTP_SENDFILE_STATUS_STALE);

    return (rc == NGX_DECLINED) ? code
                                : (rc == NGX_ERROR)
                                  ? NGX_HTTP_INTERNAL_SERVER_ERROR : rc;
}
