
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * A request, from its key to the file or the fallback: what the files here
 * ask of each other, and the module of them.
 */


#ifndef _NGX_HTTP_SENDFILE_REQUEST_H_INCLUDED_
#define _NGX_HTTP_SENDFILE_REQUEST_H_INCLUDED_


#include "ngx_http_sendfile_ctx.h"


/* ngx_http_sendfile_handler.c */

ngx_int_t ngx_http_sendfile_handler(ngx_http_request_t *r);

/*
 * In the SERVER_REWRITE phase, the first one after an internal redirect:
 * marks the request that delivers a target, in the filter's context.  The
 * next redirect of any kind (error_page, try_files, a named location) clears
 * all contexts and so the mark: what answers then is not the target.
 */

ngx_int_t ngx_http_sendfile_redirected(ngx_http_request_t *r);


/* ngx_http_sendfile_value.c */

/* NULL and ctx->target, or why the value is no record */

const char *ngx_http_sendfile_decode(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_uint_t format,
    ngx_http_sendfile_value_t *value);


/* ngx_http_sendfile_variables.c */

ngx_int_t ngx_http_sendfile_add_variables(ngx_conf_t *cf);


/* ngx_http_sendfile_status.c */

char *ngx_http_sendfile_conf_status(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);


#endif /* _NGX_HTTP_SENDFILE_REQUEST_H_INCLUDED_ */
