
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * The last step of a request: a target, or the application.
 */


#ifndef _NGX_HTTP_SENDFILE_DELIVER_H_INCLUDED_
#define _NGX_HTTP_SENDFILE_DELIVER_H_INCLUDED_


#include "ngx_http_sendfile_ctx.h"
#include "ngx_http_sendfile_print.h"


/*
 * Both send ctx->target.  NGX_DONE: the request has been finalized, don't
 * touch it; NGX_DECLINED: it has failed, ctx says why, nothing was sent;
 * NGX_ERROR: the request is lost.
 */

ngx_int_t ngx_http_sendfile_redirect(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf);
ngx_int_t ngx_http_sendfile_direct(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf);


/*
 * ETag and Last-Modified: "v", which has to last as long as the request, or
 * with NULL by r->headers_out's length and time of modification; NGX_ERROR if
 * there is no memory.
 */

ngx_int_t ngx_http_sendfile_set_validators(ngx_http_request_t *r,
    ngx_http_sendfile_validators_t *v);

/*
 * The same for Last-Modified alone, if it is to be sent and has not been
 * printed: nginx prints it by a format, which costs four times as much.
 */

ngx_int_t ngx_http_sendfile_set_last_modified(ngx_http_request_t *r);

/* its name: a line that both have added has this very pointer */

extern ngx_str_t  ngx_http_sendfile_last_modified;


/*
 * Says what has failed and what is done about it, and does it: a code for a
 * phase handler to return (NGX_DONE, NGX_DECLINED, an HTTP status).
 */

ngx_int_t ngx_http_sendfile_fallback(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf);


/*
 * The one log line about a failure: "done" says what was done about it,
 * followed by the code, or by "to" if that is not NULL.
 */

void ngx_http_sendfile_log_failure(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, const char *done, ngx_str_t *to,
    ngx_uint_t code);


/*
 * Text of a client's for a log: one line, printable, not long.  Returns the
 * number of bytes written to "buf".
 */

#define NGX_HTTP_SENDFILE_LOG_TEXT  256

size_t ngx_http_sendfile_log_text(u_char *buf, ngx_str_t *text);


#endif /* _NGX_HTTP_SENDFILE_DELIVER_H_INCLUDED_ */
