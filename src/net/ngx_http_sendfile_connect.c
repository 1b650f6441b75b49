
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * From a closed connection to a socket: the name, the address, connect().
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_connect.h>

#include "nsf.h"
#include "ngx_http_sendfile_conn.h"


static ngx_int_t ngx_http_sendfile_connect_resolve(
    ngx_http_sendfile_conn_t *conn);
static void ngx_http_sendfile_connect_resolved(ngx_resolver_ctx_t *ctx);
static ngx_int_t ngx_http_sendfile_connect_addr(
    ngx_http_sendfile_conn_t *conn);
static ngx_int_t ngx_http_sendfile_connect_to(ngx_http_sendfile_conn_t *conn,
    struct sockaddr *sockaddr, socklen_t socklen);


static ngx_resolver_t  *ngx_http_sendfile_resolver;
static ngx_msec_t       ngx_http_sendfile_resolver_timeout;


void
ngx_http_sendfile_conn_resolver(ngx_resolver_t *resolver, ngx_msec_t timeout)
{
    ngx_http_sendfile_resolver = resolver;
    ngx_http_sendfile_resolver_timeout = timeout;
}


ngx_int_t
ngx_http_sendfile_conn_connect(ngx_http_sendfile_conn_t *conn)
{
    if (conn->server->resolve && ngx_http_sendfile_resolver) {
        return ngx_http_sendfile_connect_resolve(conn);
    }

    return ngx_http_sendfile_connect_addr(conn);
}


static ngx_int_t
ngx_http_sendfile_connect_resolve(ngx_http_sendfile_conn_t *conn)
{
    ngx_resolver_ctx_t  *ctx, temp;

    ngx_memzero(&temp, sizeof(ngx_resolver_ctx_t));
    temp.name = conn->server->host;

    ctx = ngx_resolve_start(ngx_http_sendfile_resolver, &temp);

    if (ctx == NULL) {
        conn->reason = NSF_ERR_MEMORY;
        conn->err = 0;
        return NGX_ERROR;
    }

    if (ctx == NGX_NO_RESOLVER) {
        return ngx_http_sendfile_connect_addr(conn);
    }

    ctx->name = conn->server->host;
    ctx->handler = ngx_http_sendfile_connect_resolved;
    ctx->data = conn;

    /* a name server that is silent must not take the server away */

    ctx->timeout = ngx_min(ngx_http_sendfile_resolver_timeout,
                           conn->server->connect_timeout);
    ctx->cancelable = 1;

    conn->resolving = ctx;
    conn->start_rc = NGX_OK;
    conn->state = NGX_HTTP_SENDFILE_CONN_RESOLVING;

    if (ngx_resolve_name(ctx) != NGX_OK) {
        /* it has freed "ctx" */
        conn->resolving = NULL;
        conn->reason = "cannot resolve";
        conn->err = 0;
        return NGX_ERROR;
    }

    return conn->start_rc;
}


/* may be called from inside of ngx_resolve_name() */

static void
ngx_http_sendfile_connect_resolved(ngx_resolver_ctx_t *ctx)
{
    ngx_int_t                  rc;
    ngx_uint_t                 i;
    ngx_sockaddr_t             sockaddr;
    ngx_http_sendfile_conn_t  *conn;
    u_char                     more[NGX_HTTP_SENDFILE_LIMIT_TEXT];

    conn = ctx->data;

    if (ctx->state || ctx->naddrs == 0) {
        if (ngx_http_sendfile_limit(&conn->server->limit,
                                    "could not be resolved", more))
        {
            ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                          "http_sendfile: %V could not be resolved (%i: %s), "
                          "its last addresses are used%s",
                          &ctx->name, ctx->state,
                          ngx_resolver_strerror(ctx->state), more);
        }

        rc = ngx_http_sendfile_connect_addr(conn);

    } else {
        i = conn->server->addr++ % ctx->naddrs;

        ngx_memcpy(&sockaddr, ctx->addrs[i].sockaddr, ctx->addrs[i].socklen);
        ngx_inet_set_port(&sockaddr.sockaddr, conn->server->port);

        rc = ngx_http_sendfile_connect_to(conn, &sockaddr.sockaddr,
                                          ctx->addrs[i].socklen);
    }

    ngx_resolve_name_done(ctx);
    conn->resolving = NULL;

    if (rc == NGX_OK) {
        return;
    }

    if (conn->starting) {
        conn->start_rc = rc;
        return;
    }

    ngx_http_sendfile_conn_broken(conn, conn->reason, conn->err,
                                  (rc == NGX_DECLINED) ? 1 : 0);
}


static ngx_int_t
ngx_http_sendfile_connect_addr(ngx_http_sendfile_conn_t *conn)
{
    ngx_addr_t  *addr;

    addr = &conn->server->addrs[conn->server->addr++ % conn->server->naddrs];

    return ngx_http_sendfile_connect_to(conn, addr->sockaddr, addr->socklen);
}


static ngx_int_t
ngx_http_sendfile_connect_to(ngx_http_sendfile_conn_t *conn,
    struct sockaddr *sockaddr, socklen_t socklen)
{
    ngx_int_t               rc;
    ngx_peer_connection_t  *pc;

    pc = &conn->peer;

    ngx_memzero(pc, sizeof(ngx_peer_connection_t));

    pc->sockaddr = sockaddr;
    pc->socklen = socklen;
    pc->name = &conn->server->name;
    pc->get = ngx_event_get_peer;
    pc->log = ngx_cycle->log;
    pc->log_error = NGX_ERROR_ERR;

    conn->reason = "cannot connect";
    conn->state = NGX_HTTP_SENDFILE_CONN_CONNECTING;

    conn->err = 0;

    rc = ngx_event_connect_peer(pc);

    /* the address may be on the caller's stack */

    pc->sockaddr = NULL;

    if (rc != NGX_OK && rc != NGX_AGAIN) {

        if (pc->connection) {
            ngx_close_connection(pc->connection);
            pc->connection = NULL;
        }

        /* nginx has logged why; errno is another call's by now */

        return (rc == NGX_DECLINED) ? NGX_DECLINED : NGX_ERROR;
    }

    ngx_http_sendfile_conn_opened(conn, rc);

    return NGX_OK;
}
