
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * The servers of a store and the connections to them: which has a key.
 */


#ifndef _NGX_HTTP_SENDFILE_POOL_H_INCLUDED_
#define _NGX_HTTP_SENDFILE_POOL_H_INCLUDED_


#include "ngx_http_sendfile_conn.h"
#include "nsf_ring.h"


typedef struct {
    ngx_http_sendfile_server_t      *servers;
    ngx_uint_t                       nservers;
    nsf_ring_e                       distribution;
    ngx_uint_t                       connections;

    ngx_http_sendfile_conn_t        *conns;     /* per server, in a row */
    ngx_uint_t                       next;
    nsf_point_t                     *points;
    size_t                           npoints;
} ngx_http_sendfile_pool_t;


/*
 * Configuration time, for the servers() of a store: lays out ring and
 * connections; makes none.  NULL after a log line.  The servers have passed
 * ngx_http_sendfile_server_create().  It is dropped with the configuration.
 */

ngx_http_sendfile_pool_t *ngx_http_sendfile_pool_create(ngx_conf_t *cf,
    ngx_http_sendfile_servers_conf_t *set, ngx_http_sendfile_codec_t *codec);

/* for the init() of a store: what its servers count */

void ngx_http_sendfile_pool_counters(ngx_http_sendfile_pool_t *pool,
    ngx_http_sendfile_store_t *store);

/*
 * The connection for op->key, NULL if its server is down and no other one
 * stands in for it; sets op->substitute, op->down and op->counters.
 */

ngx_http_sendfile_conn_t *ngx_http_sendfile_pool_get(
    ngx_http_sendfile_pool_t *pool, ngx_http_sendfile_op_t *op);

/* the end of a worker */

void ngx_http_sendfile_pool_drop(ngx_http_sendfile_pool_t *pool);


#endif /* _NGX_HTTP_SENDFILE_POOL_H_INCLUDED_ */
