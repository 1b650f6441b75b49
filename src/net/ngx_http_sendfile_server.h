
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * A server: where it is, and whether it is down.
 */


#ifndef _NGX_HTTP_SENDFILE_SERVER_H_INCLUDED_
#define _NGX_HTTP_SENDFILE_SERVER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_sendfile_stats.h"
#include "ngx_http_sendfile_store.h"


typedef struct {
    ngx_str_t                        name;      /* for logs */
    ngx_str_t                        host;
    in_port_t                        port;      /* 0: a unix socket */

    ngx_addr_t                      *addrs;
    ngx_uint_t                       naddrs;

    ngx_uint_t                       weight;
    ngx_uint_t                       max_fails;
    ngx_msec_t                       fail_timeout;
    ngx_msec_t                       connect_timeout;

    /*
     * The time that it has for a reply, the longest deadline of all its
     * lookups; set when a worker starts.
     */
    ngx_msec_t                       timeout;

    /* of its lookups, set when a worker starts; NULL: none */
    uint64_t                        *counters;

    /* a name, not an address: asked anew for each connection */
    unsigned                         resolve:1;

    /* of this worker: error lines about it */
    ngx_http_sendfile_limit_t        limit;

    ngx_uint_t                       addr;      /* the next one to try */
    ngx_uint_t                       fails;     /* in a row */
    ngx_msec_t                       down_until;
    ngx_msec_t                       probe_until;
} ngx_http_sendfile_server_t;


/*
 * Configuration time, for the server() of a store: "port" is the one that a
 * URL without a port means.  NGX_ERROR and a log line if the name is unknown.
 */

ngx_int_t ngx_http_sendfile_server_create(ngx_conf_t *cf,
    ngx_http_sendfile_server_conf_t *conf, in_port_t port);

/*
 * Whether a lookup may go there.  A server that is down gets one, the probe,
 * when fail_timeout is over, and another fail_timeout later if the probe had
 * no end.
 */

ngx_uint_t ngx_http_sendfile_server_up(ngx_http_sendfile_server_t *server);

/* it has replied: it is up */

void ngx_http_sendfile_server_ok(ngx_http_sendfile_server_t *server);

/* "n" operations have failed */

void ngx_http_sendfile_server_fail(ngx_http_sendfile_server_t *server,
    ngx_uint_t n, ngx_log_t *log);


#endif /* _NGX_HTTP_SENDFILE_SERVER_H_INCLUDED_ */
