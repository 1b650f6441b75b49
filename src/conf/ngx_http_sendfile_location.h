
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * What the module puts into nginx's configuration: handlers of phases, and
 * locations.
 */


#ifndef _NGX_HTTP_SENDFILE_LOCATION_H_INCLUDED_
#define _NGX_HTTP_SENDFILE_LOCATION_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


/* in postconfiguration: a handler of a phase */

ngx_int_t ngx_http_sendfile_add_handler(ngx_conf_t *cf, ngx_uint_t phase,
    ngx_http_handler_pt handler);

/*
 * The same, but behind all others.  In the REWRITE phase the rewrite module has
 * to be the first: by that it knows that a server's rules have been run.
 */

ngx_int_t ngx_http_sendfile_add_last_handler(ngx_conf_t *cf, ngx_uint_t phase,
    ngx_http_handler_pt handler);


/*
 * In postconfiguration: one more for a server, with the server's own
 * configuration, but without its rewrite rules, which have been run.
 */

ngx_int_t ngx_http_sendfile_add_named_location(ngx_conf_t *cf,
    ngx_http_core_srv_conf_t *cscf, ngx_str_t *name);

/*
 * Nobody but nginx on our behalf has a way to these: an error as if there were
 * none, in nginx's words.
 */

ngx_int_t ngx_http_sendfile_no_location(ngx_http_request_t *r);

/* a location once more; *clcf is what it may be changed in */

void **ngx_http_sendfile_copy_location(ngx_pool_t *pool, void **loc_conf,
    ngx_http_core_loc_conf_t **clcf);


#endif /* _NGX_HTTP_SENDFILE_LOCATION_H_INCLUDED_ */
