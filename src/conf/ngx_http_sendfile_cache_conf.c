
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * The directives of the cache, and what can be said of them when all has
 * been read.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_conf.h"


static ngx_http_sendfile_zone_t *ngx_http_sendfile_conf_zone(ngx_conf_t *cf,
    ngx_str_t *name);
static ngx_uint_t ngx_http_sendfile_check_body_used(
    ngx_http_sendfile_loc_conf_t *slcf);
static ngx_int_t ngx_http_sendfile_check_body_size(ngx_conf_t *cf,
    ngx_http_sendfile_loc_conf_t *slcf);
static void ngx_http_sendfile_check_body_unused(ngx_conf_t *cf,
    ngx_http_sendfile_main_conf_t *smcf, ngx_uint_t i);


/* named before its directive or after it */

static ngx_http_sendfile_zone_t *
ngx_http_sendfile_conf_zone(ngx_conf_t *cf, ngx_str_t *name)
{
    ngx_uint_t                       i;
    ngx_http_sendfile_zone_t        *zone, **zones;
    ngx_http_sendfile_place_t        place;
    ngx_http_sendfile_main_conf_t   *smcf;

    smcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_sendfile_module);

    zones = smcf->zones.elts;

    for (i = 0; i < smcf->zones.nelts; i++) {
        if (zones[i]->name.len == name->len
            && ngx_strncmp(zones[i]->name.data, name->data, name->len) == 0)
        {
            return zones[i];
        }
    }

    zone = ngx_pcalloc(cf->pool, sizeof(ngx_http_sendfile_zone_t));
    if (zone == NULL) {
        return NULL;
    }

    ngx_http_sendfile_conf_place(cf, &place);

    zone->name = *name;
    zone->file = place.file;
    zone->line = place.line;

    zones = ngx_array_push(&smcf->zones);
    if (zones == NULL) {
        return NULL;
    }

    *zones = zone;

    return zone;
}


char *
ngx_http_sendfile_conf_cache_zone(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_sendfile_main_conf_t  *smcf = conf;

    u_char                    *p;
    ssize_t                    size;
    ngx_str_t                 *value, name, s;
    ngx_http_sendfile_zone_t  *zone;

    value = cf->args->elts;

    p = (u_char *) ngx_strchr(value[1].data, ':');

    if (p == NULL || p == value[1].data) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid cache zone \"%V\": write its name and "
                           "its size, such as ids:64m", &value[1]);
        return NGX_CONF_ERROR;
    }

    name.data = value[1].data;
    name.len = p - name.data;

    if (name.len == 3 && ngx_strncmp(name.data, "off", 3) == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "a cache zone cannot be named \"off\": write "
                           "another name, such as ids:64m");
        return NGX_CONF_ERROR;
    }

    s.data = p + 1;
    s.len = value[1].len - name.len - 1;

    size = ngx_parse_size(&s);

    if (size == NGX_ERROR || size < NGX_HTTP_SENDFILE_ZONE_MIN) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid size \"%V\" of cache zone \"%V\": write "
                           "256k or more, such as %V:64m", &s, &name, &name);
        return NGX_CONF_ERROR;
    }

    zone = ngx_http_sendfile_conf_zone(cf, &name);

    if (zone == NULL) {
        return NGX_CONF_ERROR;
    }

    if (zone->size) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "duplicate cache zone \"%V\"", &name);
        return NGX_CONF_ERROR;
    }

    if (smcf->generations == NULL) {
        smcf->generations = ngx_http_sendfile_generations_create(cf,
                                                 &ngx_http_sendfile_module);
        if (smcf->generations == NULL) {
            return NGX_CONF_ERROR;
        }
    }

    zone->size = size;
    zone->generations = smcf->generations;

    if (ngx_http_sendfile_zone_create(cf, zone, &ngx_http_sendfile_module)
        != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


char *
ngx_http_sendfile_conf_cache(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_sendfile_loc_conf_t  *slcf = conf;

    ngx_str_t  *value;

    if (slcf->cache != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (ngx_strcmp(value[1].data, "off") == 0) {
        slcf->cache = NULL;
        return NGX_CONF_OK;
    }

    if (value[1].len == 0 || ngx_strchr(value[1].data, ':')) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid cache \"%V\": write the name of "
                           "a http_sendfile_cache_zone, or off", &value[1]);
        return NGX_CONF_ERROR;
    }

    slcf->cache = ngx_http_sendfile_conf_zone(cf, &value[1]);

    return slcf->cache ? NGX_CONF_OK : NGX_CONF_ERROR;
}


char *
ngx_http_sendfile_conf_cache_valid(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_sendfile_loc_conf_t  *slcf = conf;

    ngx_int_t    ms;
    ngx_str_t   *value, *time;
    ngx_msec_t  *valid;

    value = cf->args->elts;

    time = &value[cf->args->nelts - 1];

    if (cf->args->nelts == 2 || ngx_strcmp(value[1].data, "200") == 0) {
        valid = &slcf->cache_valid;

    } else if (ngx_strcmp(value[1].data, "404") == 0) {
        valid = &slcf->cache_valid_404;

    } else {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid code \"%V\": write 200, for what the "
                           "store has, or 404, for what it has not",
                           &value[1]);
        return NGX_CONF_ERROR;
    }

    if (*valid != NGX_CONF_UNSET_MSEC) {
        return "is duplicate";
    }

    ms = ngx_parse_time(time, 0);

    if (ms == NGX_ERROR) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid time \"%V\": write one such as 60s, "
                           "500ms, or 0 to keep nothing", time);
        return NGX_CONF_ERROR;
    }

    *valid = ms;

    return NGX_CONF_OK;
}


char *
ngx_http_sendfile_conf_cache_use_stale(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_sendfile_loc_conf_t  *slcf = conf;

    static ngx_conf_bitmask_t  masks[] = {
        { ngx_string("off"), NGX_HTTP_SENDFILE_STALE_OFF },
        { ngx_string("error"), NGX_HTTP_SENDFILE_ON_ERROR },
        { ngx_string("timeout"), NGX_HTTP_SENDFILE_ON_TIMEOUT },
        { ngx_string("updating"), NGX_HTTP_SENDFILE_STALE_UPDATING },
        { ngx_null_string, 0 }
    };

    if (slcf->cache_use_stale != NGX_CONF_UNSET_UINT) {
        return "is duplicate";
    }

    slcf->cache_use_stale = 0;

    if (ngx_http_sendfile_conf_masks(cf, masks, 0, &slcf->cache_use_stale,
                                     "any of error, timeout, updating, or off")
        != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    if ((slcf->cache_use_stale & NGX_HTTP_SENDFILE_STALE_OFF)
        && cf->args->nelts > 2)
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"off\" stands alone: write it, or any of error, "
                           "timeout, updating");
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


char *
ngx_http_sendfile_conf_cache_body(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_sendfile_loc_conf_t  *slcf = conf;

    ssize_t     size;
    ngx_str_t  *value;

    if (slcf->cache_body != NGX_CONF_UNSET_SIZE) {
        return "is duplicate";
    }

    value = cf->args->elts;

    ngx_http_sendfile_conf_place(cf, &slcf->places->cache_body);

    if (ngx_strcmp(value[1].data, "off") == 0) {
        slcf->cache_body = 0;
        return NGX_CONF_OK;
    }

    size = ngx_parse_size(&value[1]);

    if (size == NGX_ERROR || size == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid size \"%V\": write that of the largest "
                           "file to be kept in memory, such as 16k, or off",
                           &value[1]);
        return NGX_CONF_ERROR;
    }

    slcf->cache_body = size;

    return NGX_CONF_OK;
}


/* every zone that is used is there */

ngx_int_t
ngx_http_sendfile_check_zones(ngx_conf_t *cf)
{
    ngx_uint_t                       i;
    ngx_http_sendfile_zone_t       **zone;
    ngx_http_sendfile_main_conf_t   *smcf;

    smcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_sendfile_module);

    zone = smcf->zones.elts;

    for (i = 0; i < smcf->zones.nelts; i++) {

        if (zone[i]->size) {
            continue;
        }

        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "http_sendfile: unknown cache zone \"%V\": write "
                      "\"http_sendfile_cache_zone %V:64m;\" into http, "
                      "in %s:%ui",
                      &zone[i]->name, &zone[i]->name, zone[i]->file,
                      zone[i]->line);

        return NGX_ERROR;
    }

    return NGX_OK;
}


/*
 * What a location's records are known by: the store, what it stands for, and
 * how it is read.
 */

ngx_int_t
ngx_http_sendfile_check_cache(ngx_conf_t *cf, ngx_http_sendfile_enabled_t *e)
{
    u_char                        *p;
    size_t                         len;
    ngx_http_sendfile_store_t     *store;
    ngx_http_sendfile_loc_conf_t  *slcf;

    slcf = e->conf;

    if (slcf->cache == NULL) {
        return NGX_OK;
    }

    store = slcf->store;
    len = 2 + store->url.len + store->ident.len;

    p = ngx_pnalloc(cf->pool, len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    slcf->cache_scope.data = p;
    slcf->cache_scope.len = len;

    *p++ = 'r';
    *p++ = (u_char) ('0' + slcf->format);
    p = ngx_cpymem(p, store->url.data, store->url.len);

    /* the data of an empty string may be NULL */

    if (store->ident.len) {
        ngx_memcpy(p, store->ident.data, store->ident.len);
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_sendfile_check_bodies(ngx_conf_t *cf)
{
    ngx_uint_t                      i;
    ngx_http_sendfile_enabled_t    *e;
    ngx_http_sendfile_loc_conf_t   *slcf;
    ngx_http_sendfile_main_conf_t  *smcf;

    smcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_sendfile_module);

    e = smcf->enabled.elts;

    for (i = 0; i < smcf->enabled.nelts; i++) {

        slcf = e[i].conf;

        if (slcf->cache_body == 0) {
            continue;
        }

        if (!ngx_http_sendfile_check_body_used(slcf)) {
            ngx_http_sendfile_check_body_unused(cf, smcf, i);

        } else if (ngx_http_sendfile_check_body_size(cf, slcf) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    e = smcf->accepting.elts;

    for (i = 0; i < smcf->accepting.nelts; i++) {

        slcf = e[i].conf;

        if (slcf->cache_body
            && ngx_http_sendfile_check_body_used(slcf)
            && ngx_http_sendfile_check_body_size(cf, slcf) != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static ngx_uint_t
ngx_http_sendfile_check_body_used(ngx_http_sendfile_loc_conf_t *slcf)
{
    return slcf->cache
           && ((slcf->enable && slcf->deliver == NGX_HTTP_SENDFILE_DIRECT)
               || slcf->learn);
}


static ngx_int_t
ngx_http_sendfile_check_body_size(ngx_conf_t *cf,
    ngx_http_sendfile_loc_conf_t *slcf)
{
    ngx_uint_t  max;

    max = ngx_http_sendfile_zone_max_value(slcf->cache) / 1024;

    if (slcf->cache_body <= max * 1024) {
        return NGX_OK;
    }

    ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                  "http_sendfile: cache zone \"%V\" takes files of "
                  "up to %ui kilobytes: write a larger zone, or "
                  "\"http_sendfile_cache_body %uik;\", in %s:%ui",
                  &slcf->cache->name, max, max,
                  slcf->places->cache_body.file,
                  slcf->places->cache_body.line);

    return NGX_ERROR;
}


/* inherited by many: said once, and only if it is of use to none of them */

static void
ngx_http_sendfile_check_body_unused(ngx_conf_t *cf,
    ngx_http_sendfile_main_conf_t *smcf, ngx_uint_t i)
{
    ngx_uint_t                    j;
    ngx_http_sendfile_place_t    *place;
    ngx_http_sendfile_enabled_t  *enabled, *accepting;

    enabled = smcf->enabled.elts;
    accepting = smcf->accepting.elts;
    place = &enabled[i].conf->places->cache_body;

    for (j = 0; j < smcf->enabled.nelts; j++) {

        if (ngx_http_sendfile_same_place(&enabled[j].conf->places->cache_body,
                                         place)
            && (j < i
                || ngx_http_sendfile_check_body_used(enabled[j].conf)))
        {
            return;
        }
    }

    for (j = 0; j < smcf->accepting.nelts; j++) {

        if (ngx_http_sendfile_same_place(&accepting[j].conf->places->cache_body,
                                         place)
            && ngx_http_sendfile_check_body_used(accepting[j].conf))
        {
            return;
        }
    }

    if (enabled[i].conf->cache == NULL) {
        ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                      "http_sendfile: \"http_sendfile_cache_body\" does "
                      "nothing without \"http_sendfile_cache\": write "
                      "\"http_sendfile_cache NAME;\" beside it, in %s:%ui",
                      place->file, place->line);
        return;
    }

    ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                  "http_sendfile: \"http_sendfile_cache_body\" does nothing "
                  "with \"http_sendfile_prefix\", where another location "
                  "sends the file: write \"http_sendfile_root /directory;\" "
                  "instead, in %s:%ui", place->file, place->line);
}
