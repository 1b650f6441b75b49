
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * The status location's page for people.  It is in src/status/; what it shows
 * it reads from "json", so that there is nothing to be done here but to send
 * its bytes.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_status.h"
#include "ngx_http_sendfile_compat.h"

/* made of src/status/ when the module is built, see config.make */
#include <ngx_http_sendfile_page_data.h>


static struct {
    ngx_str_t  name;
    ngx_str_t  value;
} ngx_http_sendfile_page_headers[] = {
    { ngx_string("Content-Security-Policy"),
      ngx_string(NGX_HTTP_SENDFILE_PAGE_POLICY) },
    { ngx_string("X-Content-Type-Options"), ngx_string("nosniff") },
    { ngx_string("Referrer-Policy"), ngx_string("no-referrer") }
};


ngx_int_t
ngx_http_sendfile_page(ngx_http_request_t *r, ngx_str_t *rest)
{
    ngx_uint_t                i;
    ngx_table_elt_t          *h;
    ngx_http_sendfile_out_t   out;

    for (i = 0; i < sizeof(ngx_http_sendfile_page_headers)
                    / sizeof(ngx_http_sendfile_page_headers[0]);
         i++)
    {
        h = ngx_list_push(&r->headers_out.headers);
        if (h == NULL) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        h->hash = 1;
        ngx_http_sendfile_last_header(h);
        h->key = ngx_http_sendfile_page_headers[i].name;
        h->value = ngx_http_sendfile_page_headers[i].value;
    }

    ngx_str_set(&r->headers_out.charset, "utf-8");

    ngx_http_sendfile_out_init(&out, r->pool);
    ngx_http_sendfile_out_bytes(&out, ngx_http_sendfile_page_data,
                                sizeof(ngx_http_sendfile_page_data));

    return ngx_http_sendfile_status_send(r, NGX_HTTP_OK, "text/html", &out);
}
