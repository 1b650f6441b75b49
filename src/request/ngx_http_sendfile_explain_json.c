
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * What is no text, such as a packed value, so that it can be read.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_explain.h"


static size_t ngx_http_sendfile_explain_utf8(u_char *p, u_char *last);


void
ngx_http_sendfile_explain_bytes(ngx_http_sendfile_out_t *out, const char *name,
    const void *data, size_t len)
{
    size_t      n;
    u_char     *src, *dst, *last;
    ngx_str_t   text;

    src = (u_char *) data;

    /* the longest that a byte becomes is \x00 */

    dst = ngx_pnalloc(out->pool, 4 * len + 1);
    if (dst == NULL) {
        out->failed = 1;
        return;
    }

    text.data = dst;

    for (last = src + len; src < last; src += n) {

        n = ngx_http_sendfile_explain_utf8(src, last);

        if (n) {
            dst = ngx_cpymem(dst, src, n);
            continue;
        }

        dst = ngx_snprintf(dst, sizeof("\\x00") - 1, "\\x%02xd", (u_int) *src);
        n = 1;
    }

    text.len = dst - text.data;

    ngx_http_sendfile_json_string(out, name, &text);
}


/* the bytes of a character that can be printed, 0 if it is none */

static size_t
ngx_http_sendfile_explain_utf8(u_char *p, u_char *last)
{
    u_char    *next;
    uint32_t   c;

    if (*p < 0x80) {
        return (*p < 0x20 || *p == 0x7f) ? 0 : 1;
    }

    next = p;
    c = ngx_utf8_decode(&next, last - p);

    /* surrogates are no characters, and 0x80 to 0x9f are controls */

    if (c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff) || c < 0xa0) {
        return 0;
    }

    return next - p;
}
