
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Which address of the configuration a URL comes to: its port chooses, then
 * its host if that is an address, or has a server there.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_explain.h"


/* how well an address fits */

#define NGX_HTTP_SENDFILE_FIT_ANY       1
#define NGX_HTTP_SENDFILE_FIT_WILDCARD  2
#define NGX_HTTP_SENDFILE_FIT_ASKED     4
#define NGX_HTTP_SENDFILE_FIT_NAME      8
#define NGX_HTTP_SENDFILE_FIT_ADDRESS   16


static const char *ngx_http_sendfile_explain_absolute(
    ngx_http_sendfile_explain_t *ex, u_char *p, u_char *last);
static const char *ngx_http_sendfile_explain_target(
    ngx_http_sendfile_explain_t *ex, u_char *p, u_char *last);
static const char *ngx_http_sendfile_explain_authority(
    ngx_http_sendfile_explain_t *ex, ngx_str_t *authority, ngx_uint_t port);
static void ngx_http_sendfile_explain_own(ngx_http_sendfile_explain_t *ex);
static ngx_uint_t ngx_http_sendfile_explain_fit(
    ngx_http_sendfile_explain_t *ex, ngx_listening_t *ls, ngx_uint_t i,
    ngx_http_addr_conf_t **conf, struct sockaddr *sa);
static ngx_http_addr_conf_t *ngx_http_sendfile_explain_addr(
    ngx_listening_t *ls, ngx_uint_t i, struct sockaddr *sa);
static ngx_int_t ngx_http_sendfile_explain_address(
    ngx_http_sendfile_explain_t *ex, ngx_listening_t *ls,
    struct sockaddr *sa);
static ngx_int_t ngx_http_sendfile_explain_take(
    ngx_http_sendfile_explain_t *ex, ngx_listening_t *ls,
    ngx_http_addr_conf_t *conf, struct sockaddr *sa, socklen_t socklen);


const char *
ngx_http_sendfile_explain_url(ngx_http_sendfile_explain_t *ex,
    ngx_str_t *url, ngx_str_t *host)
{
    u_char                           *p, *last;
    const char                       *error;
    ngx_http_sendfile_explain_url_t  *u;

    u = &ex->url;
    ex->text = *url;

    p = url->data;
    last = p + url->len;

    if (url->len && *p == '/') {
        u->here = 1;
        ngx_http_sendfile_explain_own(ex);

        error = ngx_http_sendfile_explain_target(ex, p, last);

    } else if (url->len > 7 && ngx_strncasecmp(p, (u_char *) "http://", 7) == 0)
    {
        error = ngx_http_sendfile_explain_absolute(ex, p + 7, last);

    } else if (url->len > 8
               && ngx_strncasecmp(p, (u_char *) "https://", 8) == 0)
    {
        u->https = 1;
        error = ngx_http_sendfile_explain_absolute(ex, p + 8, last);

    } else {
        error = "no URL: write ?url=http://host/path, or a path such as "
                "?url=/file/7";
    }

    if (error || host->len == 0) {
        return error;
    }

    return ngx_http_sendfile_explain_authority(ex, host, 0);
}


/* of a path: what the question itself came with */

static void
ngx_http_sendfile_explain_own(ngx_http_sendfile_explain_t *ex)
{
    ngx_http_request_t               *r;
    ngx_http_sendfile_explain_url_t  *u;

    r = ex->asker->main;
    u = &ex->url;

    u->host = r->headers_in.server;
    u->authority = r->headers_in.host ? r->headers_in.host->value
                                      : r->headers_in.server;
#if (NGX_HTTP_SSL)
    u->https = (r->connection->ssl != NULL);
#endif
}


static const char *
ngx_http_sendfile_explain_absolute(ngx_http_sendfile_explain_t *ex, u_char *p,
    u_char *last)
{
    u_char                           *end;
    ngx_str_t                         authority;
    const char                       *error;
    ngx_http_sendfile_explain_url_t  *u;

    u = &ex->url;

    if (last - p > 5 && ngx_strncmp(p, "unix:", 5) == 0) {

        /* as proxy_pass has it: unix:/path:/uri */

        p += 5;
        end = ngx_strlchr(p, last, ':');

        if (end == NULL) {
            end = last;
        }

        u->unix_socket = 1;
        u->address.data = p;
        u->address.len = end - p;

        ngx_str_set(&u->authority, "localhost");
        u->host = u->authority;

        return ngx_http_sendfile_explain_target(ex, end + (end < last), last);
    }

    for (end = p; end < last; end++) {
        if (*end == '/' || *end == '?' || *end == '#') {
            break;
        }
    }

    authority.data = p;
    authority.len = end - p;

    error = ngx_http_sendfile_explain_authority(ex, &authority, 1);

    return error ? error : ngx_http_sendfile_explain_target(ex, end, last);
}


/* what cannot stand in a request line is percent-encoded, as clients do */

static const char *
ngx_http_sendfile_explain_target(ngx_http_sendfile_explain_t *ex, u_char *p,
    u_char *last)
{
    u_char     *dst;
    ngx_str_t  *target;

    static u_char  hex[] = "0123456789ABCDEF";

    target = &ex->url.target;

    dst = ngx_pnalloc(ex->asker->pool, 3 * (last - p) + 1);
    if (dst == NULL) {
        return "no memory";
    }

    target->data = dst;

    if (p == last || *p != '/') {
        *dst++ = '/';
    }

    for ( /* void */ ; p < last && *p != '#'; p++) {

        if (*p > 0x20 && *p != 0x7f) {
            *dst++ = *p;
            continue;
        }

        *dst++ = '%';
        *dst++ = hex[*p >> 4];
        *dst++ = hex[*p & 0xf];
    }

    target->len = dst - target->data;

    return NULL;
}


/* "port": that it names is the one that the URL comes to */

static const char *
ngx_http_sendfile_explain_authority(ngx_http_sendfile_explain_t *ex,
    ngx_str_t *authority, ngx_uint_t port)
{
    u_char                           *p, *last, *colon;
    ngx_int_t                         n;
    ngx_http_sendfile_explain_url_t  *u;

    u = &ex->url;

    p = authority->data;
    last = p + authority->len;
    colon = NULL;

    for ( /* void */ ; p < last; p++) {

        if (*p <= 0x20 || *p == 0x7f || *p == '/' || *p == '@' || *p == '\\') {
            return "no host: it has no spaces, control bytes, \"/\" or \"@\"";
        }

        if (*p == ':') {
            colon = p;

        } else if (*p == ']') {
            colon = NULL;
        }
    }

    p = authority->data;

    if (p == last || colon == p || (*p == '[' && last[-1] != ']' && !colon)) {
        return "no host: write ?url=http://host/path";
    }

    n = u->https ? 443 : 80;

    if (colon && colon + 1 < last) {
        n = ngx_atoi(colon + 1, last - colon - 1);

        if (n < 1 || n > 65535) {
            return "no port: it is a number from 1 to 65535";
        }
    }

    u->host.len = (colon ? colon : last) - p;

    u->host.data = ngx_pnalloc(ex->asker->pool, u->host.len);
    if (u->host.data == NULL) {
        return "no memory";
    }

    ngx_strlow(u->host.data, p, u->host.len);

    /* as nginx takes a name from Host */

    if (u->host.len > 1 && u->host.data[u->host.len - 1] == '.') {
        u->host.len--;
    }

    u->authority = *authority;

    if (port) {
        u->port = (in_port_t) n;
        u->address = u->host;
    }

    return NULL;
}


const char *
ngx_http_sendfile_explain_listen(ngx_http_sendfile_explain_t *ex)
{
    ngx_uint_t             i, k, fit, best;
    ngx_listening_t       *ls;
    struct sockaddr       *sa;
    ngx_http_port_t       *port;
    ngx_connection_t      *c;
    ngx_http_addr_conf_t  *conf;
    ngx_sockaddr_t         sockaddr;

    c = ex->asker->connection;
    sa = &sockaddr.sockaddr;

    if (ex->url.here) {

        if (c->listening == NULL) {
            return "write a URL with host and port in url=";
        }

        return (ngx_http_sendfile_explain_take(ex, c->listening,
                               ex->asker->main->http_connection->addr_conf,
                               c->local_sockaddr, c->local_socklen)
                == NGX_OK) ? NULL : "no memory";
    }

    best = 0;
    ls = ngx_cycle->listening.elts;

    for (i = 0; i < ngx_cycle->listening.nelts; i++) {

        if (ls[i].handler != ngx_http_init_connection
            || ls[i].type != SOCK_STREAM
            || ls[i].servers == NULL)
        {
            continue;
        }

        port = ls[i].servers;

        for (k = 0; k < port->naddrs; k++) {

            fit = ngx_http_sendfile_explain_fit(ex, &ls[i], k, &conf, sa);

            if (fit <= best) {
                continue;
            }

            best = fit;

            if (ngx_http_sendfile_explain_take(ex, &ls[i], conf, sa,
                                               ls[i].socklen)
                != NGX_OK)
            {
                return "no memory";
            }
        }
    }

    if (best == 0) {
        return ex->url.unix_socket
               ? "this nginx does not listen on that socket"
               : "this nginx does not listen there: give the address that it "
                 "has itself in url=, and the name in host=";
    }

    return NULL;
}


/* 0: the URL does not come there; "sa" is the address, with its port */

static ngx_uint_t
ngx_http_sendfile_explain_fit(ngx_http_sendfile_explain_t *ex,
    ngx_listening_t *ls, ngx_uint_t i, ngx_http_addr_conf_t **conf,
    struct sockaddr *sa)
{
    ngx_uint_t   fit;
    ngx_str_t   *host;

    *conf = ngx_http_sendfile_explain_addr(ls, i, sa);

    if (ngx_inet_get_port(sa) != ex->url.port
        || (sa->sa_family == AF_UNIX) != ex->url.unix_socket)
    {
        return 0;
    }

    fit = ngx_inet_wildcard(sa) ? NGX_HTTP_SENDFILE_FIT_WILDCARD : 0;

    switch (ngx_http_sendfile_explain_address(ex, ls, sa)) {

    case NGX_OK:
        return fit | NGX_HTTP_SENDFILE_FIT_ADDRESS;

    case NGX_AGAIN:
        return fit;

    case NGX_DECLINED:
        return 0;
    }

    /* a name may lead to any address */

    fit |= NGX_HTTP_SENDFILE_FIT_ANY;
    host = &ex->url.host;

    if ((*conf)->virtual_names
        && ngx_hash_find_combined(&(*conf)->virtual_names->names,
                                  ngx_hash_key(host->data, host->len),
                                  host->data, host->len))
    {
        fit |= NGX_HTTP_SENDFILE_FIT_NAME;
    }

    if (*conf == ex->asker->main->http_connection->addr_conf) {
        fit |= NGX_HTTP_SENDFILE_FIT_ASKED;
    }

    return fit;
}


/* the configuration of one of the addresses of a socket, and the address */

static ngx_http_addr_conf_t *
ngx_http_sendfile_explain_addr(ngx_listening_t *ls, ngx_uint_t i,
    struct sockaddr *sa)
{
    ngx_http_port_t      *port;
    ngx_http_in_addr_t   *addr;
#if (NGX_HAVE_INET6)
    ngx_http_in6_addr_t  *addr6;
#endif

    port = ls->servers;

    ngx_memcpy(sa, ls->sockaddr, ls->socklen);

#if (NGX_HAVE_INET6)
    if (sa->sa_family == AF_INET6) {
        addr6 = port->addrs;

        if (port->naddrs > 1) {
            ((struct sockaddr_in6 *) sa)->sin6_addr = addr6[i].addr6;
        }

        return &addr6[i].conf;
    }
#endif

    addr = port->addrs;

    if (port->naddrs > 1) {
        ((struct sockaddr_in *) sa)->sin_addr.s_addr = addr[i].addr;
    }

    return &addr[i].conf;
}


/*
 * The host as an address.  NGX_OK: it is this one; NGX_AGAIN: another, which
 * a wildcard may stand for; NGX_DECLINED: one that does not come here;
 * NGX_ABORT: it is none, but a name.
 */

static ngx_int_t
ngx_http_sendfile_explain_address(ngx_http_sendfile_explain_t *ex,
    ngx_listening_t *ls, struct sockaddr *sa)
{
    u_char      *p;
    size_t       len;
    ngx_addr_t   a;

    p = ex->url.address.data;
    len = ex->url.address.len;

    if (sa->sa_family == AF_UNIX) {

        /* the text of its address begins with unix: */

        return (ls->addr_text.len == len + 5
                && ngx_strncmp(ls->addr_text.data + 5, p, len) == 0)
               ? NGX_OK : NGX_DECLINED;
    }

    if (len > 2 && p[0] == '[' && p[len - 1] == ']') {
        p++;
        len -= 2;
    }

    if (ngx_parse_addr(ex->asker->pool, &a, p, len) != NGX_OK) {
        return NGX_ABORT;
    }

    if (a.sockaddr->sa_family == sa->sa_family) {
        return (ngx_cmp_sockaddr(a.sockaddr, a.socklen, sa, a.socklen, 0)
                == NGX_OK) ? NGX_OK : NGX_AGAIN;
    }

#if (NGX_HAVE_INET6)
    if (sa->sa_family == AF_INET6 && !ls->ipv6only) {
        return NGX_AGAIN;
    }
#endif

    return NGX_DECLINED;
}


static ngx_int_t
ngx_http_sendfile_explain_take(ngx_http_sendfile_explain_t *ex,
    ngx_listening_t *ls, ngx_http_addr_conf_t *conf, struct sockaddr *sa,
    socklen_t socklen)
{
    u_char  *text;

    ex->listening = ls;
    ex->addr_conf = conf;
    ex->socklen = socklen;

    ex->sockaddr = ngx_palloc(ex->asker->pool, socklen);
    text = ngx_pnalloc(ex->asker->pool, NGX_SOCKADDR_STRLEN);

    if (ex->sockaddr == NULL || text == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(ex->sockaddr, sa, socklen);

    ex->listen.data = text;
    ex->listen.len = ngx_sock_ntop(ex->sockaddr, ex->socklen, text,
                                   NGX_SOCKADDR_STRLEN, 1);

    return NGX_OK;
}
