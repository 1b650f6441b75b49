
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Directives that are no plain slot, and the checks of the whole.
 */


#ifndef _NGX_HTTP_SENDFILE_CONF_H_INCLUDED_
#define _NGX_HTTP_SENDFILE_CONF_H_INCLUDED_


#include "ngx_http_sendfile.h"


/* ngx_http_sendfile_conf.c */

ngx_http_sendfile_store_t *ngx_http_sendfile_conf_store(ngx_conf_t *cf,
    ngx_str_t *url);
void ngx_http_sendfile_conf_place(ngx_conf_t *cf,
    ngx_http_sendfile_place_t *place);
ngx_int_t ngx_http_sendfile_conf_masks(ngx_conf_t *cf,
    ngx_conf_bitmask_t *masks, ngx_uint_t caseless, ngx_uint_t *set,
    const char *write);
ngx_uint_t ngx_http_sendfile_same_place(ngx_http_sendfile_place_t *a,
    ngx_http_sendfile_place_t *b);
char *ngx_http_sendfile_conf_enable(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_sendfile_conf_lookup(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_sendfile_conf_key(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_sendfile_conf_format(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_sendfile_conf_prefix(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_sendfile_conf_root(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_sendfile_conf_fallback(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_sendfile_conf_fallback_on(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);


/* ngx_http_sendfile_cache_conf.c */

char *ngx_http_sendfile_conf_cache_zone(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_sendfile_conf_cache(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_sendfile_conf_cache_valid(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_sendfile_conf_cache_use_stale(ngx_conf_t *cf,
    ngx_command_t *cmd, void *conf);
char *ngx_http_sendfile_conf_cache_body(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/* what can be said when all has been read */

ngx_int_t ngx_http_sendfile_check_zones(ngx_conf_t *cf);
ngx_int_t ngx_http_sendfile_check_cache(ngx_conf_t *cf,
    ngx_http_sendfile_enabled_t *e);
ngx_int_t ngx_http_sendfile_check_bodies(ngx_conf_t *cf);


/* ngx_http_sendfile_accept_conf.c */

char *ngx_http_sendfile_conf_accept(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_sendfile_conf_allow(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_sendfile_conf_learn(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_sendfile_conf_learn_key(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
ngx_int_t ngx_http_sendfile_check_accept(ngx_conf_t *cf);


/* ngx_http_sendfile_block.c */

char *ngx_http_sendfile_conf_block(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);


/* ngx_http_sendfile_check.c */

ngx_int_t ngx_http_sendfile_conf_check(ngx_conf_t *cf);


#endif /* _NGX_HTTP_SENDFILE_CONF_H_INCLUDED_ */
