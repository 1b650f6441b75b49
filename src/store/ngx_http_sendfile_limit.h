
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * How often the same thing is logged: once a second for each reason, with a
 * count of what was left out.  Of this worker.
 */


#ifndef _NGX_HTTP_SENDFILE_LIMIT_H_INCLUDED_
#define _NGX_HTTP_SENDFILE_LIMIT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* reasons at once; of more the one that was logged longest ago is dropped */

#define NGX_HTTP_SENDFILE_LIMIT_REASONS  4

typedef struct {
    /* a text that is never freed; NULL: unused */
    const char                     *reason;

    /* of the last line, and how many like it were left out since */
    ngx_msec_t                      logged;
    ngx_uint_t                      left_out;
} ngx_http_sendfile_limited_t;


/* zero: nothing was logged */

typedef struct {
    ngx_http_sendfile_limited_t     reasons[NGX_HTTP_SENDFILE_LIMIT_REASONS];

    /* of all reasons */
    ngx_uint_t                      left_out;
} ngx_http_sendfile_limit_t;


/*
 * 1: this line is to be logged, with "text", which says what was left out
 * before it or is empty.
 */

#define NGX_HTTP_SENDFILE_LIMIT_TEXT                                          \
    (sizeof(" (18446744073709551615 more of these not logged)"))

ngx_uint_t ngx_http_sendfile_limit(ngx_http_sendfile_limit_t *limit,
    const char *reason, u_char *text);

/*
 * What was left out and is older than a second, or with "all" all of it, is
 * said, for there is no trouble any more.  "what" is a store or a server.
 */

void ngx_http_sendfile_limit_tell(ngx_http_sendfile_limit_t *limit,
    const char *what, ngx_str_t *name, ngx_uint_t all, ngx_log_t *log);


#endif /* _NGX_HTTP_SENDFILE_LIMIT_H_INCLUDED_ */
