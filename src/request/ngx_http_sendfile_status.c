
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * The status location: for now, what is written to it.
 *
 *     DELETE <location>/cache/KEY        what was read of a key is old
 *     DELETE <location>/cache?url=URL    what was learned for a URL
 *     DELETE <location>/cache            everything
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_request.h"
#include "ngx_http_sendfile_compat.h"
#include "ngx_http_sendfile_generations.h"
#include "nsf_key.h"


typedef enum {
    NGX_HTTP_SENDFILE_STATUS_UNKNOWN = 0,
    NGX_HTTP_SENDFILE_STATUS_CACHE,
    NGX_HTTP_SENDFILE_STATUS_CACHE_KEY
} ngx_http_sendfile_status_path_e;


static ngx_int_t ngx_http_sendfile_status_handler(ngx_http_request_t *r);
static ngx_http_sendfile_status_path_e ngx_http_sendfile_status_path(
    ngx_http_request_t *r, ngx_str_t *rest);
static ngx_uint_t ngx_http_sendfile_status_is_cache(u_char *p, u_char *last);
static ngx_int_t ngx_http_sendfile_status_key(ngx_http_request_t *r,
    ngx_str_t *rest, ngx_str_t *key);
static ngx_int_t ngx_http_sendfile_status_url(ngx_http_request_t *r,
    ngx_str_t *url);
static ngx_int_t ngx_http_sendfile_status_purge(ngx_http_request_t *r,
    ngx_http_sendfile_name_e kind, ngx_str_t *name);
static ngx_int_t ngx_http_sendfile_status_allow(ngx_http_request_t *r);
static ngx_int_t ngx_http_sendfile_status_error(ngx_http_request_t *r,
    ngx_uint_t code, const char *text);
static ngx_int_t ngx_http_sendfile_status_send(ngx_http_request_t *r,
    ngx_uint_t code, u_char *data, size_t len);


char *
ngx_http_sendfile_conf_status(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_sendfile_loc_conf_t  *slcf = conf;

    ngx_str_t                 *value;
    ngx_http_core_loc_conf_t  *clcf;

    if (slcf->status) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (cf->args->nelts == 2) {

        if (ngx_strcmp(value[1].data, "write") != 0) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid value \"%V\": write "
                               "\"http_sendfile_status;\" or "
                               "\"http_sendfile_status write;\"", &value[1]);
            return NGX_CONF_ERROR;
        }

        slcf->status_write = 1;
    }

    slcf->status = 1;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);
    clcf->handler = ngx_http_sendfile_status_handler;

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_http_sendfile_status_handler(ngx_http_request_t *r)
{
    ngx_int_t                         rc;
    ngx_str_t                         rest, name;
    ngx_http_sendfile_name_e          kind;
    ngx_http_sendfile_loc_conf_t     *slcf;
    ngx_http_sendfile_status_path_e   path;

    rc = ngx_http_discard_request_body(r);

    if (rc != NGX_OK) {
        return rc;
    }

    path = ngx_http_sendfile_status_path(r, &rest);

    if (path == NGX_HTTP_SENDFILE_STATUS_UNKNOWN) {
        return ngx_http_sendfile_status_error(r, NGX_HTTP_NOT_FOUND,
                      "not here: there are DELETE cache/KEY, DELETE "
                      "cache?url=URL and DELETE cache");
    }

    if (r->method != NGX_HTTP_DELETE) {
        return ngx_http_sendfile_status_allow(r);
    }

    slcf = ngx_http_get_module_loc_conf(r, ngx_http_sendfile_module);

    if (!slcf->status_write) {
        return ngx_http_sendfile_status_error(r, NGX_HTTP_FORBIDDEN,
                      "read only: the location needs http_sendfile_status "
                      "write");
    }

    if (path == NGX_HTTP_SENDFILE_STATUS_CACHE) {

        kind = NGX_HTTP_SENDFILE_NAME_URL;
        rc = ngx_http_sendfile_status_url(r, &name);

        if (rc == NGX_DECLINED) {
            return ngx_http_sendfile_status_error(r, NGX_HTTP_BAD_REQUEST,
                          "unknown argument: there is only ?url=URL, percent-"
                          "encoded, such as ?url=http%3A%2F%2Fhost%2Ffile%2F7");
        }

    } else {

        kind = NGX_HTTP_SENDFILE_NAME_KEY;
        rc = ngx_http_sendfile_status_key(r, &rest, &name);

        if (rc == NGX_DECLINED) {
            return ngx_http_sendfile_status_error(r, NGX_HTTP_BAD_REQUEST,
                          "no key: it has 1 to 250 bytes, none of them a "
                          "space or a control byte");
        }
    }

    if (rc != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_sendfile_status_purge(r, kind, &name);
}


/*
 * What follows the location's name.  "rest" is what follows "cache/", as the
 * client has written it: nginx merges slashes and resolves dots in r->uri,
 * but keys may have both.
 */

static ngx_http_sendfile_status_path_e
ngx_http_sendfile_status_path(ngx_http_request_t *r, ngx_str_t *rest)
{
    u_char                    *p, *last;
    ngx_str_t                  uri;
    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    uri = r->unparsed_uri;

    p = ngx_strlchr(uri.data, uri.data + uri.len, '?');

    last = p ? p : uri.data + uri.len;
    p = uri.data;

    if ((size_t) (last - p) >= clcf->name.len
        && ngx_strncmp(p, clcf->name.data, clcf->name.len) == 0)
    {
        p += clcf->name.len;

        if (clcf->name.len && p[-1] == '/') {
            p--;
        }

    } else {

        /* a regex, or a name that the client has percent-encoded */

        while (p < last && !ngx_http_sendfile_status_is_cache(p, last)) {
            p++;
        }
    }

    if (!ngx_http_sendfile_status_is_cache(p, last)) {
        return NGX_HTTP_SENDFILE_STATUS_UNKNOWN;
    }

    p += sizeof("/cache") - 1;

    if (p == last) {
        return NGX_HTTP_SENDFILE_STATUS_CACHE;
    }

    rest->data = p + 1;
    rest->len = last - rest->data;

    return NGX_HTTP_SENDFILE_STATUS_CACHE_KEY;
}


static ngx_uint_t
ngx_http_sendfile_status_is_cache(u_char *p, u_char *last)
{
    size_t  len;

    len = sizeof("/cache") - 1;

    return (size_t) (last - p) >= len
           && ngx_strncmp(p, "/cache", len) == 0
           && (p + len == last || p[len] == '/');
}


static ngx_int_t
ngx_http_sendfile_status_key(ngx_http_request_t *r, ngx_str_t *rest,
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
ngx_http_sendfile_status_url(ngx_http_request_t *r, ngx_str_t *url)
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
ngx_http_sendfile_status_purge(ngx_http_request_t *r,
    ngx_http_sendfile_name_e kind, ngx_str_t *name)
{
    ngx_str_t                       answer;
    ngx_http_sendfile_main_conf_t  *smcf;

    smcf = ngx_http_get_module_main_conf(r, ngx_http_sendfile_module);

    if (smcf->generations) {

        if (name->len) {
            ngx_http_sendfile_generations_purge(smcf->generations, kind, name);

        } else {
            ngx_http_sendfile_generations_purge_all(smcf->generations);
        }
    }

    ngx_str_set(&answer, "{\"purged\":true}\n");

    return ngx_http_sendfile_status_send(r, NGX_HTTP_OK, answer.data,
                                         answer.len);
}


static ngx_int_t
ngx_http_sendfile_status_allow(ngx_http_request_t *r)
{
    ngx_table_elt_t  *h;

    h = ngx_list_push(&r->headers_out.headers);
    if (h == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    h->hash = 1;
    ngx_http_sendfile_last_header(h);
    ngx_str_set(&h->key, "Allow");
    ngx_str_set(&h->value, "DELETE");

    return ngx_http_sendfile_status_error(r, NGX_HTTP_NOT_ALLOWED,
                                          "only DELETE");
}


static ngx_int_t
ngx_http_sendfile_status_error(ngx_http_request_t *r, ngx_uint_t code,
    const char *text)
{
    u_char  *p;
    size_t   len;

    len = sizeof("{\"error\":\"\"}\n") + ngx_strlen(text);

    p = ngx_pnalloc(r->pool, len);
    if (p == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    len = ngx_snprintf(p, len, "{\"error\":\"%s\"}\n", text) - p;

    return ngx_http_sendfile_status_send(r, code, p, len);
}


static ngx_int_t
ngx_http_sendfile_status_send(ngx_http_request_t *r, ngx_uint_t code,
    u_char *data, size_t len)
{
    ngx_int_t     rc;
    ngx_buf_t    *b;
    ngx_chain_t   out;

    r->headers_out.status = code;
    r->headers_out.content_length_n = len;

    ngx_str_set(&r->headers_out.content_type, "application/json");
    r->headers_out.content_type_len = r->headers_out.content_type.len;
    r->headers_out.content_type_lowcase = NULL;

    rc = ngx_http_send_header(r);

    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        return rc;
    }

    b = ngx_calloc_buf(r->pool);
    if (b == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    b->pos = data;
    b->last = data + len;
    b->memory = 1;
    b->last_buf = (r == r->main) ? 1 : 0;
    b->last_in_chain = 1;

    out.buf = b;
    out.next = NULL;

    return ngx_http_output_filter(r, &out);
}
