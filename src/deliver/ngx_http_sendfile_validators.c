
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * ETag and Last-Modified of a file, the same bytes as nginx's own, which it
 * prints by a format for each response: a tenth of what a hit costs.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_deliver.h"
#include "ngx_http_sendfile_compat.h"


/* two numbers of 64 bits in hex with signs, a dash, two quotes */

#define NGX_HTTP_SENDFILE_ETAG  (2 * 17 + 3)
#define NGX_HTTP_SENDFILE_DATE  (sizeof("Sun, 06 Nov 1994 08:49:37 GMT") - 1)


static ngx_int_t ngx_http_sendfile_set_etag(ngx_http_request_t *r);
static ngx_int_t ngx_http_sendfile_set_last_modified(ngx_http_request_t *r);
static ngx_table_elt_t *ngx_http_sendfile_validator(ngx_http_request_t *r,
    size_t len);
static u_char *ngx_http_sendfile_hex(u_char *p, int64_t n);
static u_char *ngx_http_sendfile_two_digits(u_char *p, ngx_uint_t n);


ngx_int_t
ngx_http_sendfile_set_validators(ngx_http_request_t *r)
{
    if (ngx_http_sendfile_set_last_modified(r) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_http_sendfile_set_etag(r);
}


/* as ngx_http_set_etag() */

static ngx_int_t
ngx_http_sendfile_set_etag(ngx_http_request_t *r)
{
    u_char                    *p;
    ngx_table_elt_t           *h;
    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    if (!clcf->etag) {
        return NGX_OK;
    }

    h = ngx_http_sendfile_validator(r, NGX_HTTP_SENDFILE_ETAG);
    if (h == NULL) {
        return NGX_ERROR;
    }

    /* from the last byte on */

    p = h->value.data + NGX_HTTP_SENDFILE_ETAG;

    *--p = '"';
    p = ngx_http_sendfile_hex(p, r->headers_out.content_length_n);
    *--p = '-';
    p = ngx_http_sendfile_hex(p, r->headers_out.last_modified_time);
    *--p = '"';

    h->value.len -= p - h->value.data;
    h->value.data = p;

    ngx_str_set(&h->key, "ETag");

    r->headers_out.etag = h;

    return NGX_OK;
}


/* as ngx_http_time() */

static ngx_int_t
ngx_http_sendfile_set_last_modified(ngx_http_request_t *r)
{
    u_char           *p;
    ngx_tm_t          tm;
    ngx_table_elt_t  *h;

    static const char  days[] = "Sun, Mon, Tue, Wed, Thu, Fri, Sat, ";
    static const char  months[] =
        " Jan  Feb  Mar  Apr  May  Jun  Jul  Aug  Sep  Oct  Nov  Dec ";

    ngx_gmtime(r->headers_out.last_modified_time, &tm);

    if (r->headers_out.last_modified_time == -1 || tm.ngx_tm_year > 9999) {
        /* left to nginx */
        return NGX_OK;
    }

    h = ngx_http_sendfile_validator(r, NGX_HTTP_SENDFILE_DATE);
    if (h == NULL) {
        return NGX_ERROR;
    }

    p = ngx_cpymem(h->value.data, &days[tm.ngx_tm_wday * 5], 5);
    p = ngx_http_sendfile_two_digits(p, tm.ngx_tm_mday);
    p = ngx_cpymem(p, &months[(tm.ngx_tm_mon - 1) * 5], 5);
    p = ngx_http_sendfile_two_digits(p, tm.ngx_tm_year / 100);
    p = ngx_http_sendfile_two_digits(p, tm.ngx_tm_year % 100);
    *p++ = ' ';
    p = ngx_http_sendfile_two_digits(p, tm.ngx_tm_hour);
    *p++ = ':';
    p = ngx_http_sendfile_two_digits(p, tm.ngx_tm_min);
    *p++ = ':';
    p = ngx_http_sendfile_two_digits(p, tm.ngx_tm_sec);
    ngx_memcpy(p, " GMT", 4);

    ngx_str_set(&h->key, "Last-Modified");

    r->headers_out.last_modified = h;

    return NGX_OK;
}


/* a header with a value of so many bytes, all of them still to be written */

static ngx_table_elt_t *
ngx_http_sendfile_validator(ngx_http_request_t *r, size_t len)
{
    u_char           *p;
    ngx_table_elt_t  *h;

    p = ngx_pnalloc(r->pool, len);
    if (p == NULL) {
        return NULL;
    }

    h = ngx_list_push(&r->headers_out.headers);
    if (h == NULL) {
        return NULL;
    }

    h->hash = 1;
    ngx_http_sendfile_last_header(h);
    h->value.data = p;
    h->value.len = len;

    return h;
}


/* before "p"; returns where it begins */

static u_char *
ngx_http_sendfile_hex(u_char *p, int64_t n)
{
    uint64_t  rest;

    static const u_char  hex[] = "0123456789abcdef";

    rest = (n < 0) ? 0 - (uint64_t) n : (uint64_t) n;

    do {
        *--p = hex[rest & 0xf];
        rest >>= 4;
    } while (rest);

    if (n < 0) {
        *--p = '-';
    }

    return p;
}


static u_char *
ngx_http_sendfile_two_digits(u_char *p, ngx_uint_t n)
{
    *p++ = (u_char) ('0' + n / 10);
    *p++ = (u_char) ('0' + n % 10);

    return p;
}
