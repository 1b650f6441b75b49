
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


#include "ngx_http_sendfile_ctx.h"


/*
 * Where nginx goes for X-Sendfile, by its own way of X-Accel-Redirect.  No
 * server may have another one of the name, and a response that names it finds
 * none.
 */

#define NGX_HTTP_SENDFILE_ACCEPT_LOCATION  "@http_sendfile_accept"


/* in postconfiguration, if there is any location with http_sendfile_accept */

ngx_int_t ngx_http_sendfile_accept_init(ngx_conf_t *cf);

ngx_int_t ngx_http_sendfile_accept_hooks(ngx_conf_t *cf);

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
