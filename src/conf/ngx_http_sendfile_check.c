
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * What can be said of a configuration only when all of it has been read.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_conf.h"
#include "ngx_http_sendfile_compat.h"


static ngx_int_t ngx_http_sendfile_check_asking(ngx_conf_t *cf,
    ngx_http_sendfile_main_conf_t *smcf);
static ngx_int_t ngx_http_sendfile_check_names(ngx_conf_t *cf,
    ngx_http_sendfile_main_conf_t *smcf);
static ngx_int_t ngx_http_sendfile_check_store(ngx_conf_t *cf,
    ngx_http_sendfile_enabled_t *e);
static void ngx_http_sendfile_check_prefix(ngx_conf_t *cf,
    ngx_http_sendfile_enabled_t *e);
static ngx_int_t ngx_http_sendfile_check_fallback(ngx_conf_t *cf,
    ngx_http_sendfile_enabled_t *e);
static void ngx_http_sendfile_check_fallback_on(ngx_conf_t *cf,
    ngx_http_sendfile_enabled_t *enabled, ngx_uint_t n);
static ngx_uint_t ngx_http_sendfile_shadowed(ngx_http_sendfile_enabled_t *e);
static ngx_http_core_loc_conf_t *ngx_http_sendfile_find_location(
    ngx_http_core_loc_conf_t *clcf, ngx_str_t *uri);


ngx_int_t
ngx_http_sendfile_conf_check(ngx_conf_t *cf)
{
    ngx_uint_t                      i;
    ngx_http_sendfile_enabled_t    *e;
    ngx_http_sendfile_main_conf_t  *smcf;

    smcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_sendfile_module);

    if (ngx_http_sendfile_check_names(cf, smcf) != NGX_OK
        || ngx_http_sendfile_check_zones(cf) != NGX_OK)
    {
        return NGX_ERROR;
    }

    e = smcf->enabled.elts;

    for (i = 0; i < smcf->enabled.nelts; i++) {

        if (ngx_http_sendfile_check_store(cf, &e[i]) != NGX_OK
            || ngx_http_sendfile_check_cache(cf, &e[i]) != NGX_OK)
        {
            return NGX_ERROR;
        }

        if (ngx_http_sendfile_shadowed(&e[i])) {
            continue;
        }

        if (ngx_http_sendfile_check_fallback(cf, &e[i]) != NGX_OK) {
            return NGX_ERROR;
        }

        ngx_http_sendfile_check_prefix(cf, &e[i]);
        ngx_http_sendfile_check_fallback_on(cf, e, i);
    }

    if (ngx_http_sendfile_check_asking(cf, smcf) != NGX_OK
        || ngx_http_sendfile_check_accept(cf) != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_http_sendfile_check_bodies(cf);
}


/* locations with a store in which only another module looks something up */

static ngx_int_t
ngx_http_sendfile_check_asking(ngx_conf_t *cf,
    ngx_http_sendfile_main_conf_t *smcf)
{
    ngx_uint_t                     i;
    ngx_http_sendfile_enabled_t   *e;
    ngx_http_sendfile_loc_conf_t  *slcf;

    e = smcf->sending.elts;

    for (i = 0; i < smcf->sending.nelts; i++) {

        slcf = e[i].conf;

        if (!slcf->asks || slcf->enable || slcf->store == NULL) {
            continue;
        }

        if (ngx_http_sendfile_check_store(cf, &e[i]) != NGX_OK
            || ngx_http_sendfile_check_cache(cf, &e[i]) != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/* every name that is used has a block */

static ngx_int_t
ngx_http_sendfile_check_names(ngx_conf_t *cf,
    ngx_http_sendfile_main_conf_t *smcf)
{
    ngx_str_t                    usage;
    ngx_uint_t                   i;
    ngx_http_sendfile_store_t  **store;

    store = smcf->stores.elts;

    for (i = 0; i < smcf->stores.nelts; i++) {

        if (store[i]->type) {
            continue;
        }

        usage = ngx_http_sendfile_conf_usage(cf, 0);

        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "http_sendfile: unknown store \"%V\": write "
                      "\"http_sendfile_store %V { server "
                      NGX_HTTP_SENDFILE_DEFAULT_URL "; }\" into http, or a URL "
                      "such as %V, in %s:%ui",
                      &store[i]->url, &store[i]->url, &usage,
                      store[i]->place.file, store[i]->place.line);

        return NGX_ERROR;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_sendfile_check_store(ngx_conf_t *cf, ngx_http_sendfile_enabled_t *e)
{
    static ngx_str_t  url = ngx_string(NGX_HTTP_SENDFILE_DEFAULT_URL);

    ngx_http_sendfile_store_t  *store;

    if (e->conf->store == NULL) {
        e->conf->store = ngx_http_sendfile_conf_store(cf, &url);
    }

    store = e->conf->store;

    if (store == NULL) {
        return NGX_ERROR;
    }

    store->max_timeout = ngx_max(store->max_timeout,
                                 ngx_http_sendfile_time_limit(e->conf));

    return NGX_OK;
}


/*
 * A location that is not internal would serve the files to anybody who
 * knows their names.
 */

static void
ngx_http_sendfile_check_prefix(ngx_conf_t *cf, ngx_http_sendfile_enabled_t *e)
{
    void                         **loc_conf;
    u_char                        *p;
    ngx_str_t                      uri, *prefix;
    ngx_http_core_loc_conf_t      *clcf;
    ngx_http_sendfile_place_t     *place;
    ngx_http_sendfile_loc_conf_t  *slcf, *target;
    u_char                         buf[NGX_MAX_PATH];

    slcf = e->conf;

    if (slcf->deliver != NGX_HTTP_SENDFILE_REDIRECT
        || slcf->prefix->lengths)
    {
        return;
    }

    prefix = &slcf->prefix->value;

    if (prefix->len > NGX_MAX_PATH - 2) {
        return;
    }

    /* some file below the prefix */

    p = ngx_cpymem(buf, prefix->data, prefix->len);

    if (p[-1] != '/') {
        *p++ = '/';
    }

    *p++ = '0';

    uri.data = buf;
    uri.len = p - buf;

    clcf = e->cscf->ctx->loc_conf[ngx_http_core_module.ctx_index];
    clcf = ngx_http_sendfile_find_location(clcf, &uri);

    /* the server's own configuration has no loc_conf of its own */

    loc_conf = clcf->loc_conf ? clcf->loc_conf : e->cscf->ctx->loc_conf;
    target = loc_conf[ngx_http_sendfile_module.ctx_index];

    if (target->places->warned) {
        return;
    }

    target->places->warned = 1;

    place = slcf->places->prefix.file ? &slcf->places->prefix
                                      : &slcf->places->enable;

    if (!clcf->internal) {
        ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                      "http_sendfile: anybody may ask for the files below "
                      "\"%V\" by their names: write \"internal;\" into "
                      "\"location ^~ %V\" in %s:%ui",
                      prefix, prefix, place->file, place->line);
    }

    if (target->enable) {
        ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                      "http_sendfile: the files below \"%V\" are served in "
                      "a location that has \"http_sendfile on\" itself: "
                      "write \"http_sendfile off;\" into "
                      "\"location ^~ %V\" in %s:%ui",
                      prefix, prefix, place->file, place->line);
    }
}


static ngx_int_t
ngx_http_sendfile_check_fallback(ngx_conf_t *cf,
    ngx_http_sendfile_enabled_t *e)
{
    ngx_str_t                   *name;
    ngx_http_sendfile_place_t   *place;

    if (e->conf->fallback != NGX_HTTP_SENDFILE_FALLBACK_NAMED
        || e->conf->fallback_to->lengths)
    {
        return NGX_OK;
    }

    name = &e->conf->fallback_to->value;

    if (ngx_http_sendfile_named_location(e->cscf, name)) {
        return NGX_OK;
    }

    place = &e->conf->places->fallback;

    ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                  "http_sendfile: no \"location %V\" in the server: write "
                  "one, or another fallback, in %s:%ui",
                  name, place->file, place->line);

    return NGX_ERROR;
}


static void
ngx_http_sendfile_check_fallback_on(ngx_conf_t *cf,
    ngx_http_sendfile_enabled_t *enabled, ngx_uint_t n)
{
    ngx_uint_t                    i;
    ngx_http_sendfile_place_t    *place, *other;
    ngx_http_sendfile_enabled_t  *e;

    e = &enabled[n];

    place = &e->conf->places->fallback_on;

    if (place->file == NULL
        || e->conf->deliver == NGX_HTTP_SENDFILE_DIRECT
        || !(e->conf->fallback_on & NGX_HTTP_SENDFILE_ON_MISSING_FILE))
    {
        return;
    }

    /* inherited by many, said once */

    for (i = 0; i < n; i++) {
        other = &enabled[i].conf->places->fallback_on;

        if (other->file == place->file
            && other->line == place->line
            && enabled[i].conf->deliver != NGX_HTTP_SENDFILE_DIRECT
            && !ngx_http_sendfile_shadowed(&enabled[i]))
        {
            return;
        }
    }

    ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                  "http_sendfile: \"missing_file\" is known with "
                  "\"http_sendfile_root\" only; a file missing after "
                  "a redirect is for the error_page of that location, "
                  "in %s:%ui", place->file, place->line);
}


/* a server's own level that no request reaches: there is a "location /" */

static ngx_uint_t
ngx_http_sendfile_shadowed(ngx_http_sendfile_enabled_t *e)
{
    ngx_http_core_loc_conf_t  *clcf;

    static ngx_str_t  any = ngx_string("/\001");

    clcf = e->cscf->ctx->loc_conf[ngx_http_core_module.ctx_index];

    return e->clcf == clcf
           && ngx_http_sendfile_find_location(clcf, &any) != clcf;
}


/* as ngx_http_core_find_location(), of locations that are not regexes */

static ngx_http_core_loc_conf_t *
ngx_http_sendfile_find_location(ngx_http_core_loc_conf_t *clcf, ngx_str_t *uri)
{
    u_char                         *name;
    size_t                          len, n;
    ngx_int_t                       rc;
    ngx_http_sendfile_loc_t        *found;
    ngx_http_location_tree_node_t  *node;

    name = uri->data;
    len = uri->len;
    node = clcf->static_locations;
    found = NULL;

    while (node) {

        n = (len <= (size_t) node->len) ? len : node->len;

        rc = ngx_filename_cmp(name, node->name, n);

        if (rc != 0) {
            node = (rc < 0) ? node->left : node->right;
            continue;
        }

        if (len < (size_t) node->len) {
            node = node->left;
            continue;
        }

        if (len == (size_t) node->len) {
            if (node->exact || node->inclusive) {
                found = node->exact ? node->exact : node->inclusive;
            }

            break;
        }

        if (node->inclusive) {
            found = node->inclusive;
            node = node->tree;
            name += n;
            len -= n;
            continue;
        }

        node = node->right;
    }

    return found ? ngx_http_sendfile_find_location(
                                      ngx_http_sendfile_loc_conf(found), uri)
                 : clcf;
}
