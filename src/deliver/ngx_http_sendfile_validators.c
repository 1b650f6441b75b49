
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * ETag and Last-Modified of a file on the response.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_deliver.h"
#include "ngx_http_sendfile_compat.h"


static ngx_int_t ngx_http_sendfile_set_date(ngx_http_request_t *r,
    u_char *date, size_t len);
static ngx_table_elt_t *ngx_http_sendfile_validator(ngx_http_request_t *r,
    u_char *value, size_t len);


ngx_str_t  ngx_http_sendfile_last_modified = ngx_string("Last-Modified");


ngx_int_t
ngx_http_sendfile_set_validators(ngx_http_request_t *r,
    ngx_http_sendfile_validators_t *v)
{
    ngx_table_elt_t           *h;
    ngx_http_core_loc_conf_t  *clcf;

    if (v == NULL) {
        v = ngx_pnalloc(r->pool, sizeof(ngx_http_sendfile_validators_t));
        if (v == NULL) {
            return NGX_ERROR;
        }

        ngx_http_sendfile_print_validators(v,
                                           r->headers_out.last_modified_time,
                                           r->headers_out.content_length_n);
    }

    if (ngx_http_sendfile_set_date(r, v->date, v->date_len) != NGX_OK) {
        return NGX_ERROR;
    }

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    if (!clcf->etag) {
        return NGX_OK;
    }

    h = ngx_http_sendfile_validator(r, v->etag + NGX_HTTP_SENDFILE_ETAG
                                       - v->etag_len, v->etag_len);
    if (h == NULL) {
        return NGX_ERROR;
    }

    ngx_str_set(&h->key, "ETag");

    r->headers_out.etag = h;

    return NGX_OK;
}


ngx_int_t
ngx_http_sendfile_set_last_modified(ngx_http_request_t *r)
{
    u_char  *p;

    if (r->headers_out.last_modified
        || r->headers_out.last_modified_time == -1)
    {
        return NGX_OK;
    }

    p = ngx_pnalloc(r->pool, NGX_HTTP_SENDFILE_DATE);
    if (p == NULL) {
        return NGX_ERROR;
    }

    return ngx_http_sendfile_set_date(r, p,
              ngx_http_sendfile_print_date(p,
                                           r->headers_out.last_modified_time));
}


/* none: that is left to nginx */

static ngx_int_t
ngx_http_sendfile_set_date(ngx_http_request_t *r, u_char *date, size_t len)
{
    ngx_table_elt_t  *h;

    if (len == 0) {
        return NGX_OK;
    }

    h = ngx_http_sendfile_validator(r, date, len);
    if (h == NULL) {
        return NGX_ERROR;
    }

    h->key = ngx_http_sendfile_last_modified;

    r->headers_out.last_modified = h;

    return NGX_OK;
}


static ngx_table_elt_t *
ngx_http_sendfile_validator(ngx_http_request_t *r, u_char *value, size_t len)
{
    ngx_table_elt_t  *h;

    h = ngx_list_push(&r->headers_out.headers);
    if (h == NULL) {
        return NULL;
    }

    h->hash = 1;
    ngx_http_sendfile_last_header(h);
    h->value.data = value;
    h->value.len = len;

    return h;
}
