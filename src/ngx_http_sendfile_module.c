
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Files by ID: the module's directives, configurations and processes.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_md5.h>

#include "ngx_http_sendfile.h"
#include "ngx_http_sendfile_compat.h"
#include "ngx_http_sendfile_conf.h"
#include "ngx_http_sendfile_location.h"
#include "ngx_http_sendfile_lookup.h"
#include "ngx_http_sendfile_request.h"
#include "ngx_http_sendfile_accept.h"
#include "ngx_http_sendfile_learn.h"
#include "nsf_json.h"


static ngx_int_t ngx_http_sendfile_preconfiguration(ngx_conf_t *cf);
static ngx_int_t ngx_http_sendfile_postconfiguration(ngx_conf_t *cf);
static void *ngx_http_sendfile_create_main_conf(ngx_conf_t *cf);
static void *ngx_http_sendfile_create_loc_conf(ngx_conf_t *cf);
static char *ngx_http_sendfile_merge_loc_conf(ngx_conf_t *cf, void *parent,
    void *child);
static void ngx_http_sendfile_merge_where(ngx_conf_t *cf,
    ngx_http_sendfile_loc_conf_t *prev, ngx_http_sendfile_loc_conf_t *conf);
static ngx_int_t ngx_http_sendfile_create_block(ngx_conf_t *cf,
    ngx_str_t *block);
static ngx_int_t ngx_http_sendfile_add_location(ngx_conf_t *cf,
    ngx_array_t *locations, ngx_http_sendfile_loc_conf_t *slcf);
static void ngx_http_sendfile_merge_places(
    ngx_http_sendfile_loc_conf_t *prev, ngx_http_sendfile_loc_conf_t *conf);
static void ngx_http_sendfile_merge_fallback(
    ngx_http_sendfile_loc_conf_t *prev, ngx_http_sendfile_loc_conf_t *conf);
static char *ngx_http_sendfile_timeout(ngx_conf_t *cf, void *post,
    void *data);
static ngx_int_t ngx_http_sendfile_init_process(ngx_cycle_t *cycle);
static void ngx_http_sendfile_exit_process(ngx_cycle_t *cycle);
static ngx_int_t ngx_http_sendfile_add_store(ngx_conf_t *cf,
    ngx_http_sendfile_store_type_t *type);
static ngx_int_t ngx_http_sendfile_add_type(
    ngx_http_sendfile_main_conf_t *smcf, ngx_http_sendfile_store_type_t *type);
static ngx_int_t ngx_http_sendfile_set_script(ngx_conf_t *cf,
    ngx_http_sendfile_script_pt script);
static ngx_int_t ngx_http_sendfile_set_tell(ngx_conf_t *cf,
    ngx_http_sendfile_tell_pt tell);
static void ngx_http_sendfile_count_script(ngx_uint_t stopped);
static ngx_uint_t ngx_http_sendfile_is_trial(ngx_http_request_t *r);
static ngx_int_t ngx_http_sendfile_add_sender(ngx_conf_t *cf, ngx_uint_t asks);


static ngx_conf_post_t  ngx_http_sendfile_timeout_post = {
    ngx_http_sendfile_timeout
};


#define NGX_HTTP_SENDFILE_ANY_CONF                                            \
    (NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF)


static ngx_command_t  ngx_http_sendfile_commands[] = {

    { ngx_string("http_sendfile"),
      NGX_HTTP_SENDFILE_ANY_CONF|NGX_HTTP_LIF_CONF|NGX_CONF_FLAG,
      ngx_http_sendfile_conf_enable,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_sendfile_loc_conf_t, enable),
      NULL },

    { ngx_string("http_sendfile_lookup"),
      NGX_HTTP_SENDFILE_ANY_CONF|NGX_CONF_TAKE1,
      ngx_http_sendfile_conf_lookup,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("http_sendfile_store"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_BLOCK|NGX_CONF_TAKE1,
      ngx_http_sendfile_conf_block,
      NGX_HTTP_MAIN_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("http_sendfile_key"),
      NGX_HTTP_SENDFILE_ANY_CONF|NGX_CONF_TAKE1,
      ngx_http_sendfile_conf_key,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("http_sendfile_format"),
      NGX_HTTP_SENDFILE_ANY_CONF|NGX_CONF_TAKE1,
      ngx_http_sendfile_conf_format,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("http_sendfile_prefix"),
      NGX_HTTP_SENDFILE_ANY_CONF|NGX_CONF_TAKE1,
      ngx_http_sendfile_conf_prefix,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("http_sendfile_root"),
      NGX_HTTP_SENDFILE_ANY_CONF|NGX_CONF_TAKE1,
      ngx_http_sendfile_conf_root,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("http_sendfile_cache_status"),
      NGX_HTTP_SENDFILE_ANY_CONF|NGX_CONF_FLAG,
      ngx_conf_set_flag_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_sendfile_loc_conf_t, cache_status),
      NULL },

    { ngx_string("http_sendfile_symlinks"),
      NGX_HTTP_SENDFILE_ANY_CONF|NGX_CONF_FLAG,
      ngx_conf_set_flag_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_sendfile_loc_conf_t, symlinks),
      NULL },

    { ngx_string("http_sendfile_fallback"),
      NGX_HTTP_SENDFILE_ANY_CONF|NGX_CONF_TAKE1,
      ngx_http_sendfile_conf_fallback,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("http_sendfile_fallback_on"),
      NGX_HTTP_SENDFILE_ANY_CONF|NGX_CONF_1MORE,
      ngx_http_sendfile_conf_fallback_on,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("http_sendfile_timeout"),
      NGX_HTTP_SENDFILE_ANY_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_msec_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_sendfile_loc_conf_t, timeout),
      &ngx_http_sendfile_timeout_post },

    { ngx_string("http_sendfile_cache_zone"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_http_sendfile_conf_cache_zone,
      NGX_HTTP_MAIN_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("http_sendfile_cache"),
      NGX_HTTP_SENDFILE_ANY_CONF|NGX_CONF_TAKE1,
      ngx_http_sendfile_conf_cache,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("http_sendfile_cache_valid"),
      NGX_HTTP_SENDFILE_ANY_CONF|NGX_CONF_TAKE12,
      ngx_http_sendfile_conf_cache_valid,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("http_sendfile_cache_use_stale"),
      NGX_HTTP_SENDFILE_ANY_CONF|NGX_CONF_1MORE,
      ngx_http_sendfile_conf_cache_use_stale,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("http_sendfile_cache_body"),
      NGX_HTTP_SENDFILE_ANY_CONF|NGX_CONF_TAKE1,
      ngx_http_sendfile_conf_cache_body,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("http_sendfile_cache_check"),
      NGX_HTTP_SENDFILE_ANY_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_msec_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_sendfile_loc_conf_t, cache_check),
      NULL },

    { ngx_string("http_sendfile_accept"),
      NGX_HTTP_SENDFILE_ANY_CONF|NGX_CONF_1MORE,
      ngx_http_sendfile_conf_accept,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("http_sendfile_allow"),
      NGX_HTTP_SENDFILE_ANY_CONF|NGX_CONF_TAKE1,
      ngx_http_sendfile_conf_allow,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("http_sendfile_learn"),
      NGX_HTTP_SENDFILE_ANY_CONF|NGX_HTTP_LIF_CONF|NGX_CONF_FLAG,
      ngx_http_sendfile_conf_learn,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_sendfile_loc_conf_t, learn),
      NULL },

    { ngx_string("http_sendfile_learn_key"),
      NGX_HTTP_SENDFILE_ANY_CONF|NGX_HTTP_LIF_CONF|NGX_CONF_TAKE1,
      ngx_http_sendfile_conf_learn_key,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("http_sendfile_status"),
      NGX_HTTP_LOC_CONF|NGX_CONF_NOARGS|NGX_CONF_TAKE12,
      ngx_http_sendfile_conf_status,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

      ngx_null_command
};


static ngx_http_module_t  ngx_http_sendfile_module_ctx = {
    ngx_http_sendfile_preconfiguration,    /* preconfiguration */
    ngx_http_sendfile_postconfiguration,   /* postconfiguration */

    ngx_http_sendfile_create_main_conf,    /* create main configuration */
    NULL,                                  /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    ngx_http_sendfile_create_loc_conf,     /* create location configuration */
    ngx_http_sendfile_merge_loc_conf       /* merge location configuration */
};


static ngx_http_sendfile_api_t  ngx_http_sendfile_api = {
    NGX_HTTP_SENDFILE_API,
    ngx_http_sendfile_add_store,
    ngx_http_sendfile_set_script,
    ngx_http_sendfile_count_script,
    ngx_http_sendfile_is_trial,
    ngx_http_sendfile_send,
    ngx_http_sendfile_find,
    ngx_http_sendfile_resume_find,
    ngx_http_sendfile_add_sender,
    ngx_http_sendfile_set_tell
};


ngx_module_t  ngx_http_sendfile_module = {
    NGX_MODULE_V1,
    &ngx_http_sendfile_module_ctx,         /* module context */
    ngx_http_sendfile_commands,            /* module directives */
    NGX_HTTP_MODULE,                       /* module type */
    NULL,                                  /* init master */
    NULL,                                  /* init module */
    ngx_http_sendfile_init_process,        /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    ngx_http_sendfile_exit_process,        /* exit process */
    NULL,                                  /* exit master */
    (uintptr_t) &ngx_http_sendfile_api,    /* spare_hook0: our API */
    0, 0, 0, 0, 0, 0, 0
};


#define ngx_http_sendfile_store_type(name)                                    \
    &ngx_http_sendfile_##name##_store,

static ngx_http_sendfile_store_type_t  *ngx_http_sendfile_stores[] = {
    NGX_HTTP_SENDFILE_STORES(ngx_http_sendfile_store_type)
    NULL
};


static ngx_http_complex_value_t  ngx_http_sendfile_default_prefix = {
    ngx_string("/files/"), NULL, NULL, NULL, { 0 }
};


static ngx_int_t
ngx_http_sendfile_preconfiguration(ngx_conf_t *cf)
{
    return ngx_http_sendfile_add_variables(cf);
}


static ngx_int_t
ngx_http_sendfile_postconfiguration(ngx_conf_t *cf)
{
    ngx_http_sendfile_main_conf_t  *smcf;

    smcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_sendfile_module);

    if (ngx_http_sendfile_conf_check(cf) != NGX_OK) {
        return NGX_ERROR;
    }

    if (smcf->status && ngx_http_sendfile_count_init(cf) != NGX_OK) {
        return NGX_ERROR;
    }

    if (smcf->enabled.nelts == 0 && smcf->accepting.nelts == 0) {
        return NGX_OK;
    }

    if (ngx_http_sendfile_add_handler(cf, NGX_HTTP_SERVER_REWRITE_PHASE,
                                      ngx_http_sendfile_redirected)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    /* of the handlers of one phase the last is called first */

    if (smcf->accepting.nelts
        && (ngx_http_sendfile_learn_init(cf) != NGX_OK
            || ngx_http_sendfile_accept_init(cf) != NGX_OK))
    {
        return NGX_ERROR;
    }

    if (smcf->enabled.nelts == 0) {
        return NGX_OK;
    }

    return ngx_http_sendfile_add_handler(cf, NGX_HTTP_PRECONTENT_PHASE,
                                         ngx_http_sendfile_handler);
}


static void *
ngx_http_sendfile_create_main_conf(ngx_conf_t *cf)
{
    ngx_http_sendfile_main_conf_t    *smcf;
    ngx_http_sendfile_store_type_t  **type;

    smcf = ngx_pcalloc(cf->pool, sizeof(ngx_http_sendfile_main_conf_t));
    if (smcf == NULL) {
        return NULL;
    }

    if (ngx_array_init(&smcf->stores, cf->pool, 4,
                       sizeof(ngx_http_sendfile_store_t *))
        != NGX_OK
        || ngx_array_init(&smcf->types, cf->pool, 4,
                          sizeof(ngx_http_sendfile_store_type_t *))
           != NGX_OK
        || ngx_array_init(&smcf->enabled, cf->pool, 4,
                          sizeof(ngx_http_sendfile_enabled_t))
           != NGX_OK
        || ngx_array_init(&smcf->sending, cf->pool, 1,
                          sizeof(ngx_http_sendfile_enabled_t))
           != NGX_OK
        || ngx_array_init(&smcf->accepting, cf->pool, 4,
                          sizeof(ngx_http_sendfile_enabled_t))
           != NGX_OK
        || ngx_array_init(&smcf->zones, cf->pool, 4,
                          sizeof(ngx_http_sendfile_zone_t *))
           != NGX_OK)
    {
        return NULL;
    }

    for (type = ngx_http_sendfile_stores; *type; type++) {
        if (ngx_http_sendfile_add_type(smcf, *type) != NGX_OK) {
            return NULL;
        }
    }

    return smcf;
}


static void *
ngx_http_sendfile_create_loc_conf(ngx_conf_t *cf)
{
    ngx_http_sendfile_loc_conf_t  *slcf;

    slcf = ngx_pcalloc(cf->pool, sizeof(ngx_http_sendfile_loc_conf_t));
    if (slcf == NULL) {
        return NULL;
    }

    slcf->places = ngx_pcalloc(cf->pool, sizeof(ngx_http_sendfile_places_t));
    if (slcf->places == NULL) {
        return NULL;
    }

    /*
     * set by ngx_pcalloc():
     *
     *     slcf->here, key_has_id, fallback_to, fallback_has_args,
     *     fallback_code, cache_scope, learn_vary, learn_blocked, where, asks
     */

    slcf->enable = NGX_CONF_UNSET;
    slcf->store = NGX_CONF_UNSET_PTR;
    slcf->key = NGX_CONF_UNSET_PTR;
    slcf->format = NGX_CONF_UNSET_UINT;
    slcf->deliver = NGX_CONF_UNSET_UINT;
    slcf->prefix = NGX_CONF_UNSET_PTR;
    slcf->root = NGX_CONF_UNSET_PTR;
    slcf->symlinks = NGX_CONF_UNSET;
    slcf->cache_status = NGX_CONF_UNSET;
    slcf->fallback = NGX_CONF_UNSET_UINT;
    slcf->fallback_on = NGX_CONF_UNSET_UINT;
    slcf->timeout = NGX_CONF_UNSET_MSEC;
    slcf->cache = NGX_CONF_UNSET_PTR;
    slcf->cache_valid = NGX_CONF_UNSET_MSEC;
    slcf->cache_valid_404 = NGX_CONF_UNSET_MSEC;
    slcf->cache_use_stale = NGX_CONF_UNSET_UINT;
    slcf->cache_body = NGX_CONF_UNSET_SIZE;
    slcf->cache_check = NGX_CONF_UNSET_MSEC;
    slcf->accept = NGX_CONF_UNSET_UINT;
    slcf->allow = NGX_CONF_UNSET_PTR;
    slcf->learn = NGX_CONF_UNSET;
    slcf->learn_key = NGX_CONF_UNSET_PTR;

    if (ngx_http_sendfile_create_block(cf, &slcf->block) != NGX_OK) {
        return NULL;
    }

    return slcf;
}


static char *
ngx_http_sendfile_merge_loc_conf(ngx_conf_t *cf, void *parent, void *child)
{
    ngx_http_sendfile_loc_conf_t *prev = parent;
    ngx_http_sendfile_loc_conf_t *conf = child;

    ngx_http_core_loc_conf_t       *clcf;
    ngx_http_sendfile_main_conf_t  *smcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    /* "if" and "limit_except" are their location, as far as "here" goes */

    conf->here = (conf->enable == NGX_CONF_UNSET)
                 ? (clcf->noname && prev->here) : (ngx_uint_t) conf->enable;

    if (conf->key == NGX_CONF_UNSET_PTR) {
        conf->key_has_id = prev->key_has_id;
    }

    if (conf->learn_key == NGX_CONF_UNSET_PTR) {
        conf->learn_vary = prev->learn_vary;
        conf->learn_blocked = clcf->noname;
    }

    ngx_http_sendfile_merge_places(prev, conf);
    ngx_http_sendfile_merge_fallback(prev, conf);

    ngx_conf_merge_value(conf->enable, prev->enable, 0);
    ngx_conf_merge_ptr_value(conf->store, prev->store, NULL);
    ngx_conf_merge_ptr_value(conf->key, prev->key, NULL);
    ngx_conf_merge_uint_value(conf->format, prev->format, NSF_FORMAT_AUTO);
    ngx_conf_merge_uint_value(conf->deliver, prev->deliver,
                              NGX_HTTP_SENDFILE_REDIRECT);
    ngx_conf_merge_ptr_value(conf->prefix, prev->prefix,
                             &ngx_http_sendfile_default_prefix);
    ngx_conf_merge_ptr_value(conf->root, prev->root, NULL);
    ngx_conf_merge_value(conf->symlinks, prev->symlinks, 0);
    ngx_conf_merge_value(conf->cache_status, prev->cache_status, 0);
    ngx_conf_merge_uint_value(conf->fallback_on, prev->fallback_on,
                              NGX_HTTP_SENDFILE_ON_ALL);
    ngx_conf_merge_msec_value(conf->timeout, prev->timeout, 250);
    ngx_conf_merge_ptr_value(conf->cache, prev->cache, NULL);
    ngx_conf_merge_msec_value(conf->cache_valid, prev->cache_valid, 60000);
    ngx_conf_merge_msec_value(conf->cache_valid_404, prev->cache_valid_404,
                              1000);
    ngx_conf_merge_uint_value(conf->cache_use_stale, prev->cache_use_stale,
                              NGX_HTTP_SENDFILE_ON_ERROR
                              |NGX_HTTP_SENDFILE_ON_TIMEOUT
                              |NGX_HTTP_SENDFILE_STALE_UPDATING);
    ngx_conf_merge_size_value(conf->cache_body, prev->cache_body, 0);
    ngx_conf_merge_msec_value(conf->cache_check, prev->cache_check, 1000);
    ngx_conf_merge_uint_value(conf->accept, prev->accept, 0);
    ngx_conf_merge_ptr_value(conf->allow, prev->allow, NULL);
    ngx_conf_merge_value(conf->learn, prev->learn, 0);
    ngx_conf_merge_ptr_value(conf->learn_key, prev->learn_key, NULL);

    ngx_http_sendfile_merge_where(cf, prev, conf);

    smcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_sendfile_module);

    if (conf->enable
        && ngx_http_sendfile_add_location(cf, &smcf->enabled, conf) != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    if ((conf->accept || conf->learn)
        && ngx_http_sendfile_add_location(cf, &smcf->accepting, conf)
           != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


/*
 * The place of a location in the configuration: the directives of the blocks
 * that it stands in, the server's name, and how its learn key is written.
 * What stands before or behind them does not change it.
 */

static void
ngx_http_sendfile_merge_where(ngx_conf_t *cf,
    ngx_http_sendfile_loc_conf_t *prev, ngx_http_sendfile_loc_conf_t *conf)
{
    ngx_md5_t                  md5;
    ngx_http_core_srv_conf_t  *cscf;

    cscf = ngx_http_conf_get_module_srv_conf(cf, ngx_http_core_module);

    ngx_md5_init(&md5);
    ngx_md5_update(&md5, prev->where, sizeof(prev->where));
    ngx_md5_update(&md5, conf->block.data, conf->block.len);
    ngx_md5_update(&md5, "\n", 1);
    ngx_md5_update(&md5, cscf->server_name.data, cscf->server_name.len);

    if (conf->learn_key) {
        ngx_md5_update(&md5, "\n", 1);
        ngx_md5_update(&md5, conf->learn_key->value.data,
                       conf->learn_key->value.len);
    }

    ngx_md5_final(conf->where, &md5);
}


/* the directive of the block that is being read */

static ngx_int_t
ngx_http_sendfile_create_block(ngx_conf_t *cf, ngx_str_t *block)
{
    u_char      *p;
    ngx_str_t   *value;
    ngx_uint_t   i;

    value = cf->args->elts;

    for (i = 0; i < cf->args->nelts; i++) {
        block->len += (i ? 1 : 0) + value[i].len;
    }

    p = ngx_pnalloc(cf->pool, block->len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    block->data = p;

    for (i = 0; i < cf->args->nelts; i++) {

        if (i) {
            *p++ = ' ';
        }

        p = ngx_cpymem(p, value[i].data, value[i].len);
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_sendfile_add_location(ngx_conf_t *cf, ngx_array_t *locations,
    ngx_http_sendfile_loc_conf_t *slcf)
{
    ngx_http_sendfile_enabled_t  *e;

    e = ngx_array_push(locations);
    if (e == NULL) {
        return NGX_ERROR;
    }

    e->conf = slcf;
    e->clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);
    e->cscf = ngx_http_conf_get_module_srv_conf(cf, ngx_http_core_module);

    return NGX_OK;
}


/* before the rest is merged: a place is inherited with its directive */

static void
ngx_http_sendfile_merge_places(ngx_http_sendfile_loc_conf_t *prev,
    ngx_http_sendfile_loc_conf_t *conf)
{
    ngx_http_sendfile_places_t  *from, *to;

    from = prev->places;
    to = conf->places;

    if (conf->enable == NGX_CONF_UNSET) {
        to->enable = from->enable;
    }

    if (conf->prefix == NGX_CONF_UNSET_PTR) {
        to->prefix = from->prefix;
    }

    if (conf->fallback == NGX_CONF_UNSET_UINT) {
        to->fallback = from->fallback;
    }

    if (conf->fallback_on == NGX_CONF_UNSET_UINT) {
        to->fallback_on = from->fallback_on;
    }

    if (conf->cache_body == NGX_CONF_UNSET_SIZE) {
        to->cache_body = from->cache_body;
    }

    if (conf->accept == NGX_CONF_UNSET_UINT) {
        to->accept = from->accept;
    }

    if (conf->learn == NGX_CONF_UNSET) {
        to->learn = from->learn;
    }
}


/* an unset fallback stays so: it depends on the location's handler */

static void
ngx_http_sendfile_merge_fallback(ngx_http_sendfile_loc_conf_t *prev,
    ngx_http_sendfile_loc_conf_t *conf)
{
    if (conf->fallback != NGX_CONF_UNSET_UINT) {
        return;
    }

    conf->fallback = prev->fallback;
    conf->fallback_to = prev->fallback_to;
    conf->fallback_code = prev->fallback_code;
    conf->fallback_has_args = prev->fallback_has_args;
}


static char *
ngx_http_sendfile_timeout(ngx_conf_t *cf, void *post, void *data)
{
    ngx_msec_t  *timeout = data;

    if (*timeout == 0) {
        return "must not be 0: write a time such as 250ms";
    }

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_http_sendfile_init_process(ngx_cycle_t *cycle)
{
    ngx_uint_t                      i;
    ngx_http_conf_ctx_t            *ctx;
    ngx_http_core_loc_conf_t       *clcf;
    ngx_http_sendfile_store_t     **store;
    ngx_http_sendfile_main_conf_t  *smcf;

    if (ngx_process != NGX_PROCESS_WORKER
        && ngx_process != NGX_PROCESS_SINGLE)
    {
        return NGX_OK;
    }

    nsf_json_init();
    ngx_http_sendfile_lookup_init_process();

    smcf = ngx_http_cycle_get_module_main_conf(cycle,
                                               ngx_http_sendfile_module);
    if (smcf == NULL) {
        return NGX_OK;
    }

    if (ngx_http_sendfile_count_init_process(cycle, smcf) != NGX_OK) {
        return NGX_ERROR;
    }

    store = smcf->stores.elts;

    /* the resolver of the http block */

    ctx = (ngx_http_conf_ctx_t *) ngx_get_conf(cycle->conf_ctx,
                                               ngx_http_module);
    clcf = ctx->loc_conf[ngx_http_core_module.ctx_index];

    for (i = 0; i < smcf->stores.nelts; i++) {

        if (clcf->resolver
            && ngx_http_sendfile_resolver_servers(clcf->resolver))
        {
            store[i]->resolver = clcf->resolver;
            store[i]->resolver_timeout =
                             (clcf->resolver_timeout == NGX_CONF_UNSET_MSEC)
                             ? 30000 : clcf->resolver_timeout;
        }

        if (store[i]->type->init) {
            store[i]->type->init(store[i], cycle->log);
        }

        ngx_http_sendfile_count_store(store[i]);
    }

    return NGX_OK;
}


static void
ngx_http_sendfile_exit_process(ngx_cycle_t *cycle)
{
    ngx_uint_t                      i;
    ngx_http_sendfile_store_t     **store;
    ngx_http_sendfile_main_conf_t  *smcf;

    smcf = ngx_http_cycle_get_module_main_conf(cycle,
                                               ngx_http_sendfile_module);
    if (smcf == NULL) {
        return;
    }

    store = smcf->stores.elts;

    for (i = 0; i < smcf->stores.nelts; i++) {
        ngx_http_sendfile_limit_tell(&store[i]->limit, "store",
                                     &store[i]->url, 1, cycle->log);

        if (store[i]->type->exit) {
            store[i]->type->exit(store[i]);
        }
    }
}


/* for a module's preconfiguration */

static ngx_int_t
ngx_http_sendfile_add_store(ngx_conf_t *cf,
    ngx_http_sendfile_store_type_t *type)
{
    ngx_http_sendfile_main_conf_t  *smcf;

    smcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_sendfile_module);

    return ngx_http_sendfile_add_type(smcf, type);
}


static ngx_int_t
ngx_http_sendfile_add_type(ngx_http_sendfile_main_conf_t *smcf,
    ngx_http_sendfile_store_type_t *type)
{
    ngx_http_sendfile_store_type_t  **typep;

    typep = ngx_array_push(&smcf->types);
    if (typep == NULL) {
        return NGX_ERROR;
    }

    *typep = type;

    return NGX_OK;
}


/* for a module's postconfiguration */

static ngx_int_t
ngx_http_sendfile_set_script(ngx_conf_t *cf,
    ngx_http_sendfile_script_pt script)
{
    ngx_http_sendfile_main_conf_t  *smcf;

    smcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_sendfile_module);

    smcf->script = script;

    return NGX_OK;
}


static ngx_int_t
ngx_http_sendfile_set_tell(ngx_conf_t *cf, ngx_http_sendfile_tell_pt tell)
{
    ngx_http_sendfile_main_conf_t  *smcf;

    smcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_sendfile_module);

    smcf->tell = tell;

    return NGX_OK;
}


/* for a worker's request, after a script */

static void
ngx_http_sendfile_count_script(ngx_uint_t stopped)
{
    ngx_http_sendfile_main_conf_t  *smcf;

    smcf = ngx_http_cycle_get_module_main_conf(ngx_cycle,
                                               ngx_http_sendfile_module);
    if (smcf == NULL) {
        return;
    }

    ngx_http_sendfile_stats_add(smcf->counters,
                                NGX_HTTP_SENDFILE_STATS_RUBY_RUNS, 1);

    if (stopped) {
        ngx_http_sendfile_stats_add(smcf->counters,
                                    NGX_HTTP_SENDFILE_STATS_RUBY_STOPPED, 1);
    }
}


static ngx_uint_t
ngx_http_sendfile_is_trial(ngx_http_request_t *r)
{
    return ngx_http_sendfile_explain_variable(r);
}


static ngx_int_t
ngx_http_sendfile_add_sender(ngx_conf_t *cf, ngx_uint_t asks)
{
    ngx_http_sendfile_loc_conf_t   *slcf;
    ngx_http_sendfile_main_conf_t  *smcf;

    smcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_sendfile_module);
    slcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_sendfile_module);

    if (ngx_http_sendfile_add_location(cf, &smcf->sending, slcf) != NGX_OK) {
        return NGX_ERROR;
    }

    slcf->asks = asks;

    if (slcf->deliver != NGX_HTTP_SENDFILE_DIRECT) {
        return NGX_DECLINED;
    }

    return (asks && slcf->store == NULL && !slcf->enable && !slcf->learn)
           ? NGX_ABORT : NGX_OK;
}
