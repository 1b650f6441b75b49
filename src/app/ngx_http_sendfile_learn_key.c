
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * What an answer is for: http_sendfile_learn_key says it.  Beside that counts
 * where it was learned, and nothing else.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_learn.h"
#include "ngx_http_sendfile_headers.h"
#include "nsf_key.h"


static ngx_int_t ngx_http_sendfile_learn_host(ngx_http_request_t *r,
    ngx_str_t *host);
static ngx_int_t ngx_http_sendfile_learn_join(ngx_http_request_t *r,
    ngx_str_t *host, ngx_str_t *url);
static ngx_uint_t ngx_http_sendfile_learn_https(ngx_http_request_t *r);
static ngx_int_t ngx_http_sendfile_learn_id(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_str_t *id);
static ngx_int_t ngx_http_sendfile_learn_scope(ngx_http_request_t *r,
    ngx_http_sendfile_loc_conf_t *slcf, ngx_str_t *host, nsf_str_t *scope);


ngx_int_t
ngx_http_sendfile_learn_key(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_http_sendfile_learn_t *learn)
{
    ngx_int_t   rc;
    ngx_str_t  *key, host;

    rc = ngx_http_sendfile_learn_host(r, &host);

    if (rc != NGX_OK) {
        return rc;
    }

    key = &learn->key;

    /* first the ID: it is what $sendfile_id and $sendfile_key say in a key */

    if (ngx_http_sendfile_learn_id(r, ctx, slcf, &learn->id) != NGX_OK
        || ngx_http_sendfile_learn_join(r, &host, key) != NGX_OK
        || ngx_http_sendfile_learn_scope(r, slcf, &host, &learn->name.scope)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (slcf->learn_key) {

        /* a purge of the URL is a purge of what would answer it */

        ngx_http_sendfile_ctx_subject(r, ctx, NGX_HTTP_SENDFILE_NAME_URL, key);

        if (ngx_http_complex_value(r, slcf->learn_key, key) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    if (key->len == 0
        || key->len > NSF_SHARD_MAX_NAME
        || learn->name.scope.len > NSF_SHARD_MAX_NAME)
    {
        return NGX_DECLINED;
    }

    learn->name.key.data = key->data;
    learn->name.key.len = key->len;

    ngx_http_sendfile_zone_hash(learn->zone, &learn->name);

    ngx_http_sendfile_ctx_subject(r, ctx, NGX_HTTP_SENDFILE_NAME_URL, key);

    if (learn->id.len) {
        ngx_http_sendfile_ctx_subject(r, ctx, NGX_HTTP_SENDFILE_NAME_KEY,
                                      &learn->id);
    }

    return NGX_OK;
}


/* with the request line as the client has sent it, whatever was made of it */

ngx_int_t
ngx_http_sendfile_learn_url(ngx_http_request_t *r, ngx_str_t *url)
{
    ngx_int_t  rc;
    ngx_str_t  host;

    rc = ngx_http_sendfile_learn_host(r, &host);

    return (rc == NGX_OK) ? ngx_http_sendfile_learn_join(r, &host, url) : rc;
}


/* of http_sendfile_learn_key all counts, since nobody knows what is in it */

ngx_int_t
ngx_http_sendfile_learn_place(ngx_http_request_t *r,
    ngx_http_sendfile_loc_conf_t *slcf, nsf_str_t *scope)
{
    u_char     *p;
    ngx_int_t   rc;
    ngx_str_t   host;
    nsf_str_t   where;

    rc = ngx_http_sendfile_learn_host(r, &host);

    if (rc != NGX_OK) {
        return rc;
    }

    if (ngx_http_sendfile_learn_scope(r, slcf, &host, &where) != NGX_OK) {
        return NGX_ERROR;
    }

    if (slcf->learn_key
        && ngx_http_complex_value(r, slcf->learn_key, &host) != NGX_OK)
    {
        return NGX_ERROR;
    }

    scope->len = where.len + host.len;

    if (host.len == 0 || scope->len > NSF_SHARD_MAX_NAME) {
        return NGX_DECLINED;
    }

    p = ngx_pnalloc(r->pool, scope->len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    scope->data = p;
    *p++ = '\1';

    /* without its first byte, a 0: no other scope begins so */

    p = ngx_cpymem(p, where.data + 1, where.len - 1);
    ngx_memcpy(p, host.data, host.len);

    return NGX_OK;
}


static ngx_int_t
ngx_http_sendfile_learn_join(ngx_http_request_t *r, ngx_str_t *host,
    ngx_str_t *url)
{
    u_char     *p;
    ngx_str_t   scheme;

    ngx_str_set(&scheme, "http://");

    if (ngx_http_sendfile_learn_https(r)) {
        ngx_str_set(&scheme, "https://");
    }

    url->len = scheme.len + host->len + r->unparsed_uri.len;

    url->data = ngx_pnalloc(r->pool, url->len);
    if (url->data == NULL) {
        return NGX_ERROR;
    }

    p = ngx_cpymem(url->data, scheme.data, scheme.len);

    /* the data of an empty string may be NULL */

    if (host->len) {
        p = ngx_cpymem(p, host->data, host->len);
    }

    ngx_memcpy(p, r->unparsed_uri.data, r->unparsed_uri.len);

    return NGX_OK;
}


static ngx_uint_t
ngx_http_sendfile_learn_https(ngx_http_request_t *r)
{
    ngx_http_sendfile_ctx_t  *ctx;

    ctx = ngx_http_sendfile_get_ctx(r);

    if (ctx && ctx->trial) {
        return ctx->trial->https;
    }

#if (NGX_HTTP_SSL)
    return r->connection->ssl != NULL;
#else
    return 0;
#endif
}


/*
 * The header Host as it came, or $host where a protocol has none.
 * NGX_DECLINED: there are several, of which nginx before 1.23 takes the first,
 * and an application may take another.
 */

static ngx_int_t
ngx_http_sendfile_learn_host(ngx_http_request_t *r, ngx_str_t *host)
{
    ngx_uint_t                    n;
    ngx_table_elt_t              *h;
    ngx_http_core_srv_conf_t     *cscf;
    ngx_http_sendfile_headers_t   it;

    n = 0;
    *host = r->headers_in.server;

    if (host->len == 0) {
        cscf = ngx_http_get_module_srv_conf(r, ngx_http_core_module);
        *host = cscf->server_name;
    }

    for (h = ngx_http_sendfile_headers_first(&it, &r->headers_in.headers.part);
         h;
         h = ngx_http_sendfile_headers_next(&it))
    {
        if (ngx_http_sendfile_name_is(&h->key, "Host")) {
            n++;

            if (h->value.len) {
                *host = h->value;
            }
        }
    }

    return (n > 1) ? NGX_DECLINED : NGX_OK;
}


/*
 * Whose purge takes the answer back: the location's key, or, where a rewrite
 * has left none, the ID in the request line.
 */

static ngx_int_t
ngx_http_sendfile_learn_id(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_str_t *id)
{
    ngx_int_t  rc;
    ngx_str_t  key;

    ngx_http_sendfile_id(r, id);

    if (ctx->lookups == 0) {
        ctx->id = *id;
    }

    rc = ngx_http_sendfile_key(r, slcf, id, &key);

    if (rc == NGX_ERROR) {
        return NGX_ERROR;
    }

    if (rc == NGX_OK && nsf_key_check(key.data, key.len) == NULL) {

        if (ctx->lookups == 0) {
            ctx->key = key;
        }

        *id = key;

        return NGX_OK;
    }

    return ngx_http_sendfile_learn_line_id(r, id);
}


ngx_int_t
ngx_http_sendfile_learn_line_id(ngx_http_request_t *r, ngx_str_t *id)
{
    size_t                len;
    u_char               *src, *dst, *last;
    const unsigned char  *p;

    src = r->unparsed_uri.data;
    last = src + r->unparsed_uri.len;

    for (len = 0; src + len < last; len++) {
        if (src[len] == '?' || src[len] == '#') {
            break;
        }
    }

    dst = ngx_pnalloc(r->pool, len);
    if (dst == NULL) {
        return NGX_ERROR;
    }

    p = dst;

    ngx_unescape_uri(&dst, &src, len, 0);

    id->len = nsf_id_from_uri(p, dst - p, &p);
    id->data = (u_char *) p;

    return NGX_OK;
}


/*
 * The server, the location, how its key is written, the socket that was asked;
 * and the host of an absolute URI if it is another, for nginx goes by that,
 * and an application may go by Host.
 */

static ngx_int_t
ngx_http_sendfile_learn_scope(ngx_http_request_t *r,
    ngx_http_sendfile_loc_conf_t *slcf, ngx_str_t *host, nsf_str_t *scope)
{
    u_char            *p;
    ngx_str_t          server;
    ngx_connection_t  *c;

    c = r->connection;

    ngx_str_null(&server);

    if (slcf->learn_key == NULL && r->host_start && r->host_end) {
        server = r->headers_in.server;

        if (server.len == host->len
            && ngx_strncasecmp(server.data, host->data, server.len) == 0)
        {
            server.len = 0;
        }
    }

    scope->len = 1 + sizeof(slcf->where) + 1 + c->local_socklen + server.len;

    p = ngx_pnalloc(r->pool, scope->len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    scope->data = p;

    /* no other scope begins so */

    *p++ = '\0';

    p = ngx_cpymem(p, slcf->where, sizeof(slcf->where));
    *p++ = (u_char) c->type;
    p = ngx_cpymem(p, c->local_sockaddr, c->local_socklen);

    /* the data of an empty string may be NULL */

    if (server.len) {
        ngx_memcpy(p, server.data, server.len);
    }

    return NGX_OK;
}
