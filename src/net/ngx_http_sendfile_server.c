
/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "ngx_http_sendfile_server.h"


static ngx_int_t ngx_http_sendfile_server_addrs(ngx_conf_t *cf,
    ngx_http_sendfile_server_t *server);


ngx_int_t
ngx_http_sendfile_server_create(ngx_conf_t *cf,
    ngx_http_sendfile_server_conf_t *conf, in_port_t port)
{
    nsf_url_t                   *url;
    ngx_http_sendfile_server_t  *server;

    server = ngx_pcalloc(cf->pool, sizeof(ngx_http_sendfile_server_t));
    if (server == NULL) {
        return NGX_ERROR;
    }

    url = &conf->url;

    if (url->host.len) {
        server->host.data = (u_char *) url->host.data;
        server->host.len = url->host.len;
        server->port = url->port ? url->port : port;

    } else {
        server->host.data = (u_char *) url->path.data;
        server->host.len = url->path.len;
    }

    if (ngx_http_sendfile_server_addrs(cf, server) != NGX_OK) {
        return NGX_ERROR;
    }

    conf->name = server->name;
    conf->ctx = server;

    return NGX_OK;
}


static ngx_int_t
ngx_http_sendfile_server_addrs(ngx_conf_t *cf,
    ngx_http_sendfile_server_t *server)
{
    u_char     *p;
    size_t      len;
    ngx_url_t   u;

    len = sizeof("unix:") + server->host.len + sizeof(":65535");

    p = ngx_pnalloc(cf->pool, len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    ngx_memzero(&u, sizeof(ngx_url_t));

    u.url.data = p;

    if (server->port == 0) {
        u.url.len = ngx_snprintf(p, len, "unix:%V%Z", &server->host) - p - 1;
        server->name = server->host;

    } else {
        u.url.len = ngx_snprintf(p, len, "%V:%d%Z", &server->host,
                                 (int) server->port)
                    - p - 1;
        server->name = u.url;
    }

    if (ngx_parse_url(cf->pool, &u) != NGX_OK) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "%s in server \"%V\"",
                           u.err ? u.err : "no memory", &server->name);
        return NGX_ERROR;
    }

    server->addrs = u.addrs;
    server->naddrs = u.naddrs;

    if (server->port) {
        server->resolve = (ngx_inet_addr(server->host.data, server->host.len)
                           == INADDR_NONE)
                          && server->host.data[0] != '[';
    }

    return NGX_OK;
}


ngx_uint_t
ngx_http_sendfile_server_up(ngx_http_sendfile_server_t *server)
{
    if (server->max_fails == 0 || server->fails < server->max_fails) {
        return 1;
    }

    if ((ngx_msec_int_t) (server->down_until - ngx_current_msec) > 0
        || (ngx_msec_int_t) (server->probe_until - ngx_current_msec) > 0)
    {
        return 0;
    }

    /* the probe */

    server->probe_until = ngx_current_msec + server->fail_timeout;

    return 1;
}


void
ngx_http_sendfile_server_ok(ngx_http_sendfile_server_t *server)
{
    if (server->max_fails && server->fails >= server->max_fails) {
        ngx_log_error(NGX_LOG_NOTICE, ngx_cycle->log, 0,
                      "http_sendfile: server %V is up again", &server->name);
    }

    if (server->limit.left_out) {
        ngx_http_sendfile_limit_tell(&server->limit, "server", &server->name,
                                     0, ngx_cycle->log);
    }

    server->fails = 0;
    server->probe_until = ngx_current_msec;

    ngx_http_sendfile_stats_set(server->counters,
                                NGX_HTTP_SENDFILE_STATS_IS_DOWN, 0);
}


void
ngx_http_sendfile_server_fail(ngx_http_sendfile_server_t *server,
    ngx_uint_t n, ngx_log_t *log)
{
    ngx_uint_t  was_up;

    if (server->max_fails == 0) {
        return;
    }

    was_up = (server->fails < server->max_fails);

    server->fails += n;

    if (server->fails < server->max_fails) {
        return;
    }

    ngx_http_sendfile_stats_set(server->counters,
                                NGX_HTTP_SENDFILE_STATS_IS_DOWN, 1);

    server->fails = server->max_fails;
    server->down_until = ngx_current_msec + server->fail_timeout;
    server->probe_until = ngx_current_msec;

    if (was_up) {
        ngx_log_error(NGX_LOG_ERR, log, 0,
                      "http_sendfile: server %V is down, lookups in it fail "
                      "at once; it is tried again every %Mms",
                      &server->name, server->fail_timeout);
    }
}
