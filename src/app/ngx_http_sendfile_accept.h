
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Answers of an application that name the file to be sent:
 *
 *     answer.c     reads them: the hooks for a response's headers
 *     accept.c     follows them
 *     headers.c    what is kept of them, and what clients may not say
 */


#ifndef _NGX_HTTP_SENDFILE_ACCEPT_H_INCLUDED_
#define _NGX_HTTP_SENDFILE_ACCEPT_H_INCLUDED_


#include "ngx_http_sendfile.h"


/*
 * Where nginx goes for X-Sendfile, by its own way of X-Accel-Redirect.  No
 * server may have another one of the name, and a response that names it finds
 * none.
 */

#define NGX_HTTP_SENDFILE_ACCEPT_LOCATION  "@http_sendfile_accept"


/* in postconfiguration, if there is any location with http_sendfile_accept */

ngx_int_t ngx_http_sendfile_accept_init(ngx_conf_t *cf);

ngx_int_t ngx_http_sendfile_accept_hooks(ngx_conf_t *cf);

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


/* how nginx knows, by u->headers_in.x_accel_redirect, what we have found */

extern ngx_table_elt_t  ngx_http_sendfile_accept_redirect;


/* which of them a header is, or 0 */

ngx_uint_t ngx_http_sendfile_accept_name(ngx_str_t *name);


/*
 * Fills answer->kept with what the client is to get of the upstream's
 * headers, in memory of the request's, and takes back what nginx has put
 * into the response on its way here.
 */

ngx_int_t ngx_http_sendfile_accept_headers(ngx_http_request_t *r,
    ngx_http_sendfile_answer_t *answer);


/* takes the headers that name files out of a response that is not the last */

void ngx_http_sendfile_accept_hide(ngx_http_request_t *r);


/* a handler of the PRECONTENT phase: what a client may not tell */

ngx_int_t ngx_http_sendfile_accept_clean(ngx_http_request_t *r);


#endif /* _NGX_HTTP_SENDFILE_ACCEPT_H_INCLUDED_ */
