
/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_sendfile_out.h"


/* of a buffer: small answers are one, large ones many */

#define NGX_HTTP_SENDFILE_OUT_SIZE  4096


static size_t ngx_http_sendfile_out_utf8(u_char *p, u_char *last);
static void ngx_http_sendfile_json_begin(ngx_http_sendfile_out_t *out,
    const char *name);


void
ngx_http_sendfile_out_init(ngx_http_sendfile_out_t *out, ngx_pool_t *pool)
{
    ngx_memzero(out, sizeof(ngx_http_sendfile_out_t));

    out->pool = pool;
}


void
ngx_http_sendfile_out_bytes(ngx_http_sendfile_out_t *out, const void *data,
    size_t len)
{
    size_t         n;
    ngx_buf_t     *b;
    ngx_chain_t   *cl;
    const u_char  *p;

    p = data;

    while (len && !out->failed) {

        b = out->last ? out->last->buf : NULL;

        if (b == NULL || b->last == b->end) {

            cl = ngx_alloc_chain_link(out->pool);
            b = cl ? ngx_create_temp_buf(out->pool, NGX_HTTP_SENDFILE_OUT_SIZE)
                   : NULL;

            if (b == NULL) {
                out->failed = 1;
                return;
            }

            cl->buf = b;
            cl->next = NULL;

            if (out->last) {
                out->last->next = cl;

            } else {
                out->chain = cl;
            }

            out->last = cl;
        }

        n = ngx_min(len, (size_t) (b->end - b->last));

        b->last = ngx_cpymem(b->last, p, n);
        p += n;
        len -= n;
        out->size += n;
    }
}


void
ngx_http_sendfile_out_text(ngx_http_sendfile_out_t *out, const char *text)
{
    ngx_http_sendfile_out_bytes(out, text, ngx_strlen(text));
}


void
ngx_http_sendfile_out_uint(ngx_http_sendfile_out_t *out, uint64_t n)
{
    u_char  *p, text[NGX_INT64_LEN];

    p = ngx_snprintf(text, NGX_INT64_LEN, "%uL", n);

    ngx_http_sendfile_out_bytes(out, text, p - text);
}


void
ngx_http_sendfile_out_seconds(ngx_http_sendfile_out_t *out, uint64_t usec)
{
    u_char  *p, text[NGX_INT64_LEN + 8];

    p = ngx_snprintf(text, sizeof(text), "%uL.%06uL", usec / 1000000,
                     usec % 1000000);

    ngx_http_sendfile_out_bytes(out, text, p - text);
}


void
ngx_http_sendfile_out_json_escaped(ngx_http_sendfile_out_t *out, ngx_str_t *s)
{
    u_char  *p, *last, *q, text[sizeof("\\u0000")];
    size_t   n;

    last = s->data + s->len;

    for (p = s->data; p < last; p += n) {

        n = ngx_http_sendfile_out_utf8(p, last);

        if (n == 0) {
            n = 1;
            ngx_http_sendfile_out_text(out, "\\ufffd");

        } else if (*p == '"' || *p == '\\') {
            ngx_http_sendfile_out_bytes(out, "\\", 1);
            ngx_http_sendfile_out_bytes(out, p, 1);

        } else if (*p < 0x20 || *p == 0x7f) {
            q = ngx_snprintf(text, sizeof(text), "\\u%04xd", (u_int) *p);
            ngx_http_sendfile_out_bytes(out, text, q - text);

        } else {
            ngx_http_sendfile_out_bytes(out, p, n);
        }
    }
}


void
ngx_http_sendfile_out_label_escaped(ngx_http_sendfile_out_t *out,
    ngx_str_t *s)
{
    u_char  *p, *last;
    size_t   n;

    last = s->data + s->len;

    for (p = s->data; p < last; p += n) {

        n = ngx_http_sendfile_out_utf8(p, last);

        if (n == 0 || ((*p < 0x20 || *p == 0x7f) && *p != '\n')) {
            n = 1;
            ngx_http_sendfile_out_text(out, "\xef\xbf\xbd");

        } else if (*p == '"' || *p == '\\') {
            ngx_http_sendfile_out_bytes(out, "\\", 1);
            ngx_http_sendfile_out_bytes(out, p, 1);

        } else if (*p == '\n') {
            ngx_http_sendfile_out_bytes(out, "\\n", 2);

        } else {
            ngx_http_sendfile_out_bytes(out, p, n);
        }
    }
}


/* the length of the character at "p", 0 if there is none (RFC 3629, 4) */

static size_t
ngx_http_sendfile_out_utf8(u_char *p, u_char *last)
{
    size_t  i, len;

    if (*p < 0x80) {
        return 1;
    }

    if (*p < 0xc2 || *p > 0xf4) {
        return 0;
    }

    len = (*p < 0xe0) ? 2 : (*p < 0xf0) ? 3 : 4;

    if ((size_t) (last - p) < len) {
        return 0;
    }

    for (i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            return 0;
        }
    }

    /* longer than it need be, a surrogate, beyond U+10FFFF */

    if ((*p == 0xe0 && p[1] < 0xa0)
        || (*p == 0xed && p[1] > 0x9f)
        || (*p == 0xf0 && p[1] < 0x90)
        || (*p == 0xf4 && p[1] > 0x8f))
    {
        return 0;
    }

    return len;
}


void
ngx_http_sendfile_json_open(ngx_http_sendfile_out_t *out, const char *name,
    char bracket)
{
    ngx_http_sendfile_json_begin(out, name);
    ngx_http_sendfile_out_bytes(out, &bracket, 1);

    out->comma = 0;
}


void
ngx_http_sendfile_json_close(ngx_http_sendfile_out_t *out, char bracket)
{
    ngx_http_sendfile_out_bytes(out, &bracket, 1);

    out->comma = 1;
}


void
ngx_http_sendfile_json_string(ngx_http_sendfile_out_t *out, const char *name,
    ngx_str_t *value)
{
    ngx_http_sendfile_json_begin(out, name);
    ngx_http_sendfile_out_bytes(out, "\"", 1);
    ngx_http_sendfile_out_json_escaped(out, value);
    ngx_http_sendfile_out_bytes(out, "\"", 1);
}


void
ngx_http_sendfile_json_text(ngx_http_sendfile_out_t *out, const char *name,
    const char *value)
{
    ngx_str_t  s;

    s.data = (u_char *) value;
    s.len = ngx_strlen(value);

    ngx_http_sendfile_json_string(out, name, &s);
}


void
ngx_http_sendfile_json_uint(ngx_http_sendfile_out_t *out, const char *name,
    uint64_t value)
{
    ngx_http_sendfile_json_begin(out, name);
    ngx_http_sendfile_out_uint(out, value);
}


void
ngx_http_sendfile_json_seconds(ngx_http_sendfile_out_t *out, const char *name,
    uint64_t usec)
{
    ngx_http_sendfile_json_begin(out, name);
    ngx_http_sendfile_out_seconds(out, usec);
}


void
ngx_http_sendfile_json_bool(ngx_http_sendfile_out_t *out, const char *name,
    ngx_uint_t value)
{
    ngx_http_sendfile_json_begin(out, name);
    ngx_http_sendfile_out_text(out, value ? "true" : "false");
}


void
ngx_http_sendfile_json_null(ngx_http_sendfile_out_t *out, const char *name)
{
    ngx_http_sendfile_json_begin(out, name);
    ngx_http_sendfile_out_text(out, "null");
}


/* what stands before a value */

static void
ngx_http_sendfile_json_begin(ngx_http_sendfile_out_t *out, const char *name)
{
    if (out->comma) {
        ngx_http_sendfile_out_bytes(out, ",", 1);
    }

    out->comma = 1;

    if (name) {
        ngx_http_sendfile_out_bytes(out, "\"", 1);
        ngx_http_sendfile_out_text(out, name);
        ngx_http_sendfile_out_bytes(out, "\":", 2);
    }
}
