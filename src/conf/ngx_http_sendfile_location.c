
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * What the module puts into nginx's configuration: handlers of phases, and
 * locations.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_location.h"
#include "ngx_http_sendfile_compat.h"


static ngx_int_t ngx_http_sendfile_drop_rules(ngx_conf_t *cf,
    void **loc_conf);


ngx_int_t
ngx_http_sendfile_add_handler(ngx_conf_t *cf, ngx_uint_t phase,
    ngx_http_handler_pt handler)
{
    ngx_http_handler_pt        *h;
    ngx_http_core_main_conf_t  *cmcf;

    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);

    h = ngx_array_push(&cmcf->phases[phase].handlers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    *h = handler;

    return NGX_OK;
}


ngx_int_t
ngx_http_sendfile_add_last_handler(ngx_conf_t *cf, ngx_uint_t phase,
    ngx_http_handler_pt handler)
{
    ngx_array_t                *handlers;
    ngx_http_handler_pt        *h;
    ngx_http_core_main_conf_t  *cmcf;

    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);

    handlers = &cmcf->phases[phase].handlers;

    if (ngx_array_push(handlers) == NULL) {
        return NGX_ERROR;
    }

    h = handlers->elts;

    ngx_memmove(h + 1, h,
                (handlers->nelts - 1) * sizeof(ngx_http_handler_pt));

    *h = handler;

    return NGX_OK;
}


ngx_int_t
ngx_http_sendfile_add_named_location(ngx_conf_t *cf,
    ngx_http_core_srv_conf_t *cscf, ngx_str_t *name)
{
    void                      **loc_conf;
    ngx_uint_t                  n;
    ngx_http_sendfile_loc_t   **locations;
    ngx_http_core_loc_conf_t   *clcf;

    loc_conf = ngx_http_sendfile_copy_location(cf->pool, cscf->ctx->loc_conf,
                                               &clcf);
    if (loc_conf == NULL) {
        return NGX_ERROR;
    }

    if (ngx_http_sendfile_drop_rules(cf, loc_conf) != NGX_OK) {
        return NGX_ERROR;
    }

    if (ngx_http_sendfile_named_location(cscf, name)) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "http_sendfile: \"location %V\" in %s:%ui has a name "
                      "that the module needs for itself: write another one",
                      name, cscf->file_name, cscf->line);
        return NGX_ERROR;
    }

    n = 0;

    if (cscf->named_locations) {
        while (cscf->named_locations[n]) {
            n++;
        }
    }

    locations = ngx_pcalloc(cf->pool,
                            (n + 2) * sizeof(ngx_http_sendfile_loc_t *));
    if (locations == NULL) {
        return NGX_ERROR;
    }

    clcf->name = *name;
    clcf->named = 1;

    if (n) {
        ngx_memcpy(locations, cscf->named_locations,
                   n * sizeof(ngx_http_sendfile_loc_t *));
    }

    locations[n] = ngx_http_sendfile_make_loc(cf->pool, clcf);
    if (locations[n] == NULL) {
        return NGX_ERROR;
    }

    cscf->named_locations = locations;

    return NGX_OK;
}


/* nginx may have been built without the module */

static ngx_int_t
ngx_http_sendfile_drop_rules(ngx_conf_t *cf, void **loc_conf)
{
    void               *conf;
    ngx_uint_t          i;
    ngx_module_t       *module;
    ngx_http_module_t  *ctx;

    for (i = 0; cf->cycle->modules[i]; i++) {

        module = cf->cycle->modules[i];

        if (module->type != NGX_HTTP_MODULE
            || ngx_strcmp(module->name, "ngx_http_rewrite_module") != 0)
        {
            continue;
        }

        ctx = module->ctx;

        conf = ctx->create_loc_conf(cf);
        if (conf == NULL) {
            return NGX_ERROR;
        }

        loc_conf[module->ctx_index] = conf;
    }

    return NGX_OK;
}


void **
ngx_http_sendfile_copy_location(ngx_pool_t *pool, void **loc_conf,
    ngx_http_core_loc_conf_t **clcf)
{
    void  **copy;

    copy = ngx_palloc(pool, sizeof(void *) * ngx_http_max_module);
    if (copy == NULL) {
        return NULL;
    }

    *clcf = ngx_palloc(pool, sizeof(ngx_http_core_loc_conf_t));
    if (*clcf == NULL) {
        return NULL;
    }

    ngx_memcpy(copy, loc_conf, sizeof(void *) * ngx_http_max_module);

    **clcf = *(ngx_http_core_loc_conf_t *)
                                    loc_conf[ngx_http_core_module.ctx_index];

    (*clcf)->loc_conf = copy;
    copy[ngx_http_core_module.ctx_index] = *clcf;

    return copy;
}


ngx_int_t
ngx_http_sendfile_no_location(ngx_http_request_t *r)
{
    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                  "could not find named location \"%V\"", &clcf->name);

    return NGX_HTTP_INTERNAL_SERVER_ERROR;
}
