
/*
 * Copyright (C) the ngx_sendfile authors
 *
 *     DELETE <location>/cache/KEY        what was read of a key is old
 *     DELETE <location>/cache?url=URL    what was learned for a URL
 *     DELETE <location>/cache            everything
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_status.h"
#include "ngx_http_sendfile_generations.h"
#include "nsf_key.h"


static ngx_int_t ngx_http_sendfile_purge_key(ngx_http_request_t *r,
    ngx_str_t *rest, ngx_str_t *key);
static ngx_int_t ngx_http_sendfile_purge_url(ngx_http_request_t *r,
    ngx_str_t *url);
static ngx_int_t ngx_http_sendfile_purge_name(ngx_http_request_t *r,
    ngx_http_sendfile_name_e kind, ngx_str_t *name);


ngx_int_t
ngx_http_sendfile_purge(ngx_http_request_t *r, ngx_str_t *rest)
{
    ngx_int_t                  rc;
    ngx_str_t                  name;
    ngx_http_sendfile_name_e   kind;

    if (rest->data == NULL) {

        kind = NGX_HTTP_SENDFILE_NAME_URL;
        rc = ngx_http_sendfile_purge_url(r, &name);

        if (rc == NGX_DECLINED) {
            return ngx_http_sendfile_status_error(r, NGX_HTTP_BAD_REQUEST,
                          "unknown argument: there is only ?url=URL, percent-"
                          "encoded, such as ?url=http%3A%2F%2Fhost%2Ffile%2F7");
        }

    } else {

        kind = NGX_HTTP_SENDFILE_NAME_KEY;
        rc = ngx_http_sendfile_purge_key(r, rest, &name);

        if (rc == NGX_DECLINED) {
            return ngx_http_sendfile_status_error(r, NGX_HTTP_BAD_REQUEST,
                          "no key: it has 1 to 250 bytes, none of them a "
                          "space or a control byte");
        }
    }

    if (rc != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_sendfile_purge_name(r, kind, &name);
}


static ngx_int_t
ngx_http_sendfile_purge_key(ngx_http_request_t *r, ngx_str_t *rest,
    ngx_str_t *key)
{
    u_char  *src, *dst;

    dst = ngx_pnalloc(r->pool, rest->len + 1);
    if (dst == NULL) {
        return NGX_ERROR;
    }

    key->data = dst;
    src = rest->data;

    ngx_unescape_uri(&dst, &src, rest->len, 0);

    key->len = dst - key->data;

    return (nsf_key_check(key->data, key->len) == NULL) ? NGX_OK
                                                        : NGX_DECLINED;
}


/*
 * All that follows "url=", for a URL's own arguments may not be encoded.
 * NGX_OK, with a name of no bytes if there are no arguments.
 */

static ngx_int_t
ngx_http_sendfile_purge_url(ngx_http_request_t *r, ngx_str_t *url)
{
    u_char  *src, *dst;
    size_t   len;

    ngx_str_null(url);

    if (r->args.len == 0) {
        return NGX_OK;
    }

    len = sizeof("url=") - 1;

    if (r->args.len <= len || ngx_strncmp(r->args.data, "url=", len) != 0) {
        return NGX_DECLINED;
    }

    dst = ngx_pnalloc(r->pool, r->args.len);
    if (dst == NULL) {
        return NGX_ERROR;
    }

    url->data = dst;
    src = r->args.data + len;

    ngx_unescape_uri(&dst, &src, r->args.len - len, 0);

    url->len = dst - url->data;

    return NGX_OK;
}


/* a name, or with one of no bytes everything, in all zones */

static ngx_int_t
ngx_http_sendfile_purge_name(ngx_http_request_t *r,
    ngx_http_sendfile_name_e kind, ngx_str_t *name)
{
    ngx_http_sendfile_out_t         out;
    ngx_http_sendfile_main_conf_t  *smcf;

    smcf = ngx_http_get_module_main_conf(r, ngx_http_sendfile_module);

    ngx_http_sendfile_stats_add(smcf->counters,
                                NGX_HTTP_SENDFILE_STATS_PURGES
                                + (name->len == 0 ? 2
                                   : kind == NGX_HTTP_SENDFILE_NAME_URL), 1);

    if (smcf->generations) {

        if (name->len) {
            ngx_http_sendfile_generations_purge(smcf->generations, kind, name);

        } else {
            ngx_http_sendfile_generations_purge_all(smcf->generations);
        }
    }

    ngx_http_sendfile_out_init(&out, r->pool);
    ngx_http_sendfile_out_text(&out, "{\"purged\":true}\n");

    return ngx_http_sendfile_status_send(r, NGX_HTTP_OK,
                                         NGX_HTTP_SENDFILE_STATUS_JSON, &out);
}
