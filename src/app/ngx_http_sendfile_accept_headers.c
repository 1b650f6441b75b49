
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Headers on their way through: what of an application's answer goes on the
 * file that it names, and what of a client's request does not reach the
 * application.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_accept.h"
#include "ngx_http_sendfile_compat.h"
#include "ngx_http_sendfile_headers.h"


static ngx_int_t ngx_http_sendfile_headers_add(ngx_http_request_t *r,
    nsf_target_t *kept, ngx_table_elt_t *h);
static ngx_int_t ngx_http_sendfile_headers_join(ngx_http_request_t *r,
    nsf_header_t *header, ngx_table_elt_t *h);
static nsf_header_t *ngx_http_sendfile_headers_cache_control(
    nsf_target_t *kept, ngx_table_elt_t *h);
static size_t ngx_http_sendfile_headers_count(ngx_list_t *headers);
static ngx_uint_t ngx_http_sendfile_headers_kept(ngx_http_upstream_t *u,
    ngx_table_elt_t *h);
static void ngx_http_sendfile_headers_take_back(ngx_http_request_t *r);
static ngx_table_elt_t *ngx_http_sendfile_headers_find(ngx_list_t *headers,
    u_char *key);
static ngx_uint_t ngx_http_sendfile_clean_is(ngx_str_t *name);
static ngx_uint_t ngx_http_sendfile_clean_begins(ngx_str_t *name,
    const char *prefix, size_t len);
static ngx_uint_t ngx_http_sendfile_clean_any(ngx_list_t *headers);


/*
 * Of the connection to the application; of its body, in place of which there
 * is a file; what nginx says itself.
 */

static ngx_str_t  ngx_http_sendfile_headers_dropped[] = {
    ngx_string("Accept-Ranges"),
    ngx_string("Age"),
    ngx_string("Connection"),
    ngx_string("Content-Digest"),
    ngx_string("Content-Encoding"),
    ngx_string("Content-Length"),
    ngx_string("Content-MD5"),
    ngx_string("Content-Range"),
    ngx_string("Date"),
    ngx_string("Digest"),
    ngx_string("Keep-Alive"),
    ngx_string("Location"),
    ngx_string("Proxy-Authenticate"),
    ngx_string("Proxy-Connection"),
    ngx_string("Refresh"),
    ngx_string("Repr-Digest"),
    ngx_string("Server"),
    ngx_string("Status"),
    ngx_string("TE"),
    ngx_string("Trailer"),
    ngx_string("Transfer-Encoding"),
    ngx_string("Upgrade"),
    ngx_null_string
};


ngx_int_t
ngx_http_sendfile_accept_headers(ngx_http_request_t *r,
    ngx_http_sendfile_answer_t *answer)
{
    size_t                        n;
    nsf_target_t                 *kept;
    ngx_table_elt_t              *h;
    ngx_http_upstream_t          *u;
    ngx_http_sendfile_headers_t   it;

    u = r->upstream;
    kept = &answer->kept;

    n = ngx_http_sendfile_headers_count(&u->headers_in.headers);

    kept->headers = ngx_palloc(r->pool, n * sizeof(nsf_header_t));
    if (kept->headers == NULL) {
        return NGX_ERROR;
    }

    for (h = ngx_http_sendfile_headers_first(&it, &u->headers_in.headers.part);
         h;
         h = ngx_http_sendfile_headers_next(&it))
    {
        if (ngx_http_sendfile_headers_kept(u, h)
            && ngx_http_sendfile_headers_add(r, kept, h) != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    ngx_http_sendfile_headers_take_back(r);

    return NGX_OK;
}


static ngx_int_t
ngx_http_sendfile_headers_add(ngx_http_request_t *r, nsf_target_t *kept,
    ngx_table_elt_t *h)
{
    nsf_header_t     *header;
    ngx_table_elt_t  *copy;

    if (ngx_http_sendfile_name_is(&h->key, "Content-Type")) {
        if (kept->type.len == 0) {
            kept->type.data = h->value.data;
            kept->type.len = h->value.len;
        }

        return NGX_OK;
    }

    /* nginx may have rewritten it: proxy_cookie_path */

    copy = ngx_http_sendfile_headers_find(&r->headers_out.headers,
                                          h->key.data);
    if (copy) {
        h = copy;
    }

    header = ngx_http_sendfile_headers_cache_control(kept, h);

    if (header) {
        return ngx_http_sendfile_headers_join(r, header, h);
    }

    header = &kept->headers[kept->nheaders++];

    header->name.data = h->key.data;
    header->name.len = h->key.len;
    header->value.data = h->value.data;
    header->value.len = h->value.len;

    return NGX_OK;
}


/* nginx has one line of it that "expires" changes: several are made one */

static nsf_header_t *
ngx_http_sendfile_headers_cache_control(nsf_target_t *kept,
    ngx_table_elt_t *h)
{
    size_t     i;
    ngx_str_t  name;

    if (!ngx_http_sendfile_name_is(&h->key, "Cache-Control")) {
        return NULL;
    }

    for (i = 0; i < kept->nheaders; i++) {
        name.data = (u_char *) kept->headers[i].name.data;
        name.len = kept->headers[i].name.len;

        if (ngx_http_sendfile_name_same(&name, &h->key)) {
            return &kept->headers[i];
        }
    }

    return NULL;
}


static ngx_int_t
ngx_http_sendfile_headers_join(ngx_http_request_t *r, nsf_header_t *header,
    ngx_table_elt_t *h)
{
    u_char  *p, *value;
    size_t   len;

    len = header->value.len + 2 + h->value.len;

    value = ngx_pnalloc(r->pool, len);
    if (value == NULL) {
        return NGX_ERROR;
    }

    p = ngx_cpymem(value, header->value.data, header->value.len);
    *p++ = ',';
    *p++ = ' ';
    (void) ngx_cpymem(p, h->value.data, h->value.len);

    header->value.data = value;
    header->value.len = len;

    return NGX_OK;
}


static size_t
ngx_http_sendfile_headers_count(ngx_list_t *headers)
{
    size_t            n;
    ngx_list_part_t  *part;

    n = 0;

    for (part = &headers->part; part; part = part->next) {
        n += part->nelts;
    }

    return n;
}


static ngx_uint_t
ngx_http_sendfile_headers_kept(ngx_http_upstream_t *u, ngx_table_elt_t *h)
{
    ngx_str_t  *name;

    if (h->hash == 0
        || ngx_hash_find(&u->conf->hide_headers_hash, h->hash,
                         h->lowcase_key, h->key.len)
        || ngx_http_sendfile_clean_is(&h->key))
    {
        return 0;
    }

    for (name = ngx_http_sendfile_headers_dropped; name->len; name++) {
        if (ngx_http_sendfile_name_same(name, &h->key)) {
            return 0;
        }
    }

    return 1;
}


/*
 * nginx has copied the few headers that it keeps itself, whatever the answer
 * will be: a missing file is not to be cached, nor to be downloaded.
 */

static void
ngx_http_sendfile_headers_take_back(ngx_http_request_t *r)
{
    ngx_list_t                   *headers;
    ngx_table_elt_t              *h;
    ngx_http_sendfile_headers_t   it;

    headers = &r->upstream->headers_in.headers;

    for (h = ngx_http_sendfile_headers_first(&it,
                                             &r->headers_out.headers.part);
         h;
         h = ngx_http_sendfile_headers_next(&it))
    {
        if (ngx_http_sendfile_headers_find(headers, h->key.data)) {
            h->hash = 0;
        }
    }

    ngx_http_sendfile_clean_headers_out(r);

    ngx_str_null(&r->headers_out.charset);
    ngx_str_null(&r->headers_out.content_type);
    r->headers_out.content_type_len = 0;
    r->headers_out.content_type_lowcase = NULL;

    r->allow_ranges = 0;
    r->single_range = 0;
}


void
ngx_http_sendfile_accept_hide(ngx_http_request_t *r)
{
    ngx_table_elt_t               *h;
    ngx_http_sendfile_headers_t    it;
    ngx_http_sendfile_loc_conf_t  *slcf;

    slcf = ngx_http_get_module_loc_conf(r, ngx_http_sendfile_module);

    if (slcf->accept == 0) {
        return;
    }

    for (h = ngx_http_sendfile_headers_first(&it,
                                             &r->headers_out.headers.part);
         h;
         h = ngx_http_sendfile_headers_next(&it))
    {
        if (ngx_http_sendfile_clean_is(&h->key)) {
            h->hash = 0;
        }
    }
}


/* a line that has been copied has the name's very bytes */

static ngx_table_elt_t *
ngx_http_sendfile_headers_find(ngx_list_t *headers, u_char *key)
{
    ngx_table_elt_t              *h;
    ngx_http_sendfile_headers_t   it;

    for (h = ngx_http_sendfile_headers_first(&it, &headers->part);
         h;
         h = ngx_http_sendfile_headers_next(&it))
    {
        if (h->key.data == key) {
            return h;
        }
    }

    return NULL;
}


/*
 * A new list without them: other parts of nginx point into the old one, and
 * to remove a line by its hash is not enough for all that send headers on.
 */

ngx_int_t
ngx_http_sendfile_accept_clean(ngx_http_request_t *r)
{
    ngx_list_t                    *headers;
    ngx_list_part_t                old;
    ngx_table_elt_t               *h, *copy;
    ngx_http_sendfile_headers_t    it;
    ngx_http_sendfile_loc_conf_t  *slcf;

    slcf = ngx_http_get_module_loc_conf(r, ngx_http_sendfile_module);
    headers = &r->headers_in.headers;

    if (slcf->accept == 0 || !ngx_http_sendfile_clean_any(headers)) {
        return NGX_DECLINED;
    }

    old = headers->part;

    if (ngx_list_init(headers, r->pool, 20, sizeof(ngx_table_elt_t))
        != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    for (h = ngx_http_sendfile_headers_first(&it, &old);
         h;
         h = ngx_http_sendfile_headers_next(&it))
    {
        if (ngx_http_sendfile_clean_is(&h->key)) {
            continue;
        }

        copy = ngx_list_push(headers);
        if (copy == NULL) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        *copy = *h;
    }

    return NGX_DECLINED;
}


static ngx_uint_t
ngx_http_sendfile_clean_any(ngx_list_t *headers)
{
    ngx_table_elt_t              *h;
    ngx_http_sendfile_headers_t   it;

    for (h = ngx_http_sendfile_headers_first(&it, &headers->part);
         h;
         h = ngx_http_sendfile_headers_next(&it))
    {
        if (ngx_http_sendfile_clean_is(&h->key)) {
            return 1;
        }
    }

    return 0;
}


/* X-Sendfile, X-Sendfile-Type, X-Accel-Mapping... in any spelling of CGI's */

static ngx_uint_t
ngx_http_sendfile_clean_is(ngx_str_t *name)
{
    if (name->len == 0 || (name->data[0] | 0x20) != 'x') {
        return 0;
    }

    return ngx_http_sendfile_clean_begins(name, "x-sendfile", 10)
           || ngx_http_sendfile_clean_begins(name, "x-accel-", 8)
           || ngx_http_sendfile_clean_begins(name, "x-lighttpd-send-", 16);
}


static ngx_uint_t
ngx_http_sendfile_clean_begins(ngx_str_t *name, const char *prefix, size_t len)
{
    u_char  c;
    size_t  i;

    if (name->len < len) {
        return 0;
    }

    for (i = 0; i < len; i++) {

        c = name->data[i];

        if (c >= 'A' && c <= 'Z') {
            c |= 0x20;

        } else if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))) {
            c = '-';
        }

        if (c != (u_char) prefix[i]) {
            return 0;
        }
    }

    return 1;
}
