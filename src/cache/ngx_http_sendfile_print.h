
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * ETag and Last-Modified of a file, printed: the same bytes as nginx's own,
 * which prints them by a format for each response.
 */


#ifndef _NGX_HTTP_SENDFILE_PRINT_H_INCLUDED_
#define _NGX_HTTP_SENDFILE_PRINT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* two numbers of 64 bits in hex with signs, a dash, two quotes */

#define NGX_HTTP_SENDFILE_ETAG  (2 * 17 + 3)
#define NGX_HTTP_SENDFILE_DATE  (sizeof("Sun, 06 Nov 1994 08:49:37 GMT") - 1)


/* the ETag is the last bytes of its array; a length of 0: there is none */

typedef struct {
    u_char                          date_len;
    u_char                          etag_len;
    u_char                          date[NGX_HTTP_SENDFILE_DATE];
    u_char                          etag[NGX_HTTP_SENDFILE_ETAG];
} ngx_http_sendfile_validators_t;


void ngx_http_sendfile_print_validators(ngx_http_sendfile_validators_t *v,
    time_t mtime, off_t size);

/* as ngx_http_time(); 0: no date that HTTP has, nothing was written */

size_t ngx_http_sendfile_print_date(u_char *p, time_t time);


#endif /* _NGX_HTTP_SENDFILE_PRINT_H_INCLUDED_ */
