
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * A text that is written from its beginning to its end, into a chain of
 * buffers: JSON, and the lines of metrics.
 *
 * Nothing here fails: when there is no memory the rest is dropped, and
 * out->failed says so in the end.
 */


#ifndef _NGX_HTTP_SENDFILE_OUT_H_INCLUDED_
#define _NGX_HTTP_SENDFILE_OUT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


typedef struct {
    ngx_pool_t                     *pool;
    ngx_chain_t                    *chain;
    ngx_chain_t                    *last;
    off_t                           size;

    /* of JSON: the next value of this object or array is not its first */
    unsigned                        comma:1;

    unsigned                        failed:1;
} ngx_http_sendfile_out_t;


void ngx_http_sendfile_out_init(ngx_http_sendfile_out_t *out,
    ngx_pool_t *pool);


/* bytes as they are, numbers, microseconds as decimal seconds */

void ngx_http_sendfile_out_bytes(ngx_http_sendfile_out_t *out,
    const void *data, size_t len);
void ngx_http_sendfile_out_text(ngx_http_sendfile_out_t *out,
    const char *text);
void ngx_http_sendfile_out_uint(ngx_http_sendfile_out_t *out, uint64_t n);
void ngx_http_sendfile_out_seconds(ngx_http_sendfile_out_t *out,
    uint64_t usec);

/*
 * The inside of a quoted string, of JSON or of a metric's label.  A byte that
 * is not of UTF-8 becomes U+FFFD, and so does what a label cannot have: any
 * control byte but a line feed.
 */

void ngx_http_sendfile_out_json_escaped(ngx_http_sendfile_out_t *out,
    ngx_str_t *s);
void ngx_http_sendfile_out_label_escaped(ngx_http_sendfile_out_t *out,
    ngx_str_t *s);


/*
 * JSON.  "name" is that of a member, NULL in an array and at the top.
 *
 *     ngx_http_sendfile_json_open(out, NULL, '{');
 *     ngx_http_sendfile_json_uint(out, "count", 7);
 *     ngx_http_sendfile_json_open(out, "steps", '[');
 *     ngx_http_sendfile_json_string(out, NULL, &step);
 *     ngx_http_sendfile_json_close(out, ']');
 *     ngx_http_sendfile_json_close(out, '}');
 */

void ngx_http_sendfile_json_open(ngx_http_sendfile_out_t *out,
    const char *name, char bracket);
void ngx_http_sendfile_json_close(ngx_http_sendfile_out_t *out,
    char bracket);
void ngx_http_sendfile_json_string(ngx_http_sendfile_out_t *out,
    const char *name, ngx_str_t *value);
void ngx_http_sendfile_json_text(ngx_http_sendfile_out_t *out,
    const char *name, const char *value);
void ngx_http_sendfile_json_uint(ngx_http_sendfile_out_t *out,
    const char *name, uint64_t value);
void ngx_http_sendfile_json_seconds(ngx_http_sendfile_out_t *out,
    const char *name, uint64_t usec);
void ngx_http_sendfile_json_bool(ngx_http_sendfile_out_t *out,
    const char *name, ngx_uint_t value);
void ngx_http_sendfile_json_null(ngx_http_sendfile_out_t *out,
    const char *name);


#endif /* _NGX_HTTP_SENDFILE_OUT_H_INCLUDED_ */
