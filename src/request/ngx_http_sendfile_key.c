
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * ID and key of a request.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_ctx.h"
#include "nsf_key.h"


void
ngx_http_sendfile_id(ngx_http_request_t *r, ngx_str_t *id)
{
    const unsigned char  *p;

    p = r->uri.data;

    id->len = nsf_id_from_uri(r->uri.data, r->uri.len, &p);
    id->data = (u_char *) p;
}


ngx_int_t
ngx_http_sendfile_key(ngx_http_request_t *r,
    ngx_http_sendfile_loc_conf_t *slcf, ngx_str_t *id, ngx_str_t *key)
{
    if (slcf->key == NULL) {
        *key = *id;

    } else {

        if (slcf->key_has_id && id->len == 0) {
            return NGX_DECLINED;
        }

        if (ngx_http_complex_value(r, slcf->key, key) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return key->len ? NGX_OK : NGX_DECLINED;
}
