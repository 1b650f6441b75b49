
/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_md5.h>
#include <ngx_sha1.h>

#include "ngx_http_sendfile_pool.h"


/* a client of Dalli's tries so many other servers */

#define NGX_HTTP_SENDFILE_POOL_TRIES  20


static ngx_int_t ngx_http_sendfile_pool_servers(ngx_conf_t *cf,
    ngx_http_sendfile_pool_t *pool, ngx_http_sendfile_servers_conf_t *set);
static ngx_int_t ngx_http_sendfile_pool_conns(ngx_conf_t *cf,
    ngx_http_sendfile_pool_t *pool, ngx_http_sendfile_codec_t *codec);
static void ngx_http_sendfile_pool_cleanup(void *data);
static ngx_int_t ngx_http_sendfile_pool_ring(ngx_conf_t *cf,
    ngx_http_sendfile_pool_t *pool);
static ngx_int_t ngx_http_sendfile_pool_server(ngx_http_sendfile_pool_t *pool,
    ngx_http_sendfile_op_t *op);
static void ngx_http_sendfile_pool_sha1(unsigned char out[20], const void *p,
    size_t len);
static void ngx_http_sendfile_pool_md5(unsigned char out[16], const void *p,
    size_t len);
static uint32_t ngx_http_sendfile_pool_crc32(const void *p, size_t len);


static nsf_hashes_t  ngx_http_sendfile_pool_hashes = {
    ngx_http_sendfile_pool_sha1,
    ngx_http_sendfile_pool_md5,
    ngx_http_sendfile_pool_crc32
};


ngx_http_sendfile_pool_t *
ngx_http_sendfile_pool_create(ngx_conf_t *cf,
    ngx_http_sendfile_servers_conf_t *set, ngx_http_sendfile_codec_t *codec)
{
    ngx_pool_cleanup_t        *cln;
    ngx_http_sendfile_pool_t  *pool;

    pool = ngx_pcalloc(cf->pool, sizeof(ngx_http_sendfile_pool_t));
    if (pool == NULL) {
        return NULL;
    }

    pool->distribution = set->distribution;
    pool->connections = set->connections;

    if (ngx_http_sendfile_pool_servers(cf, pool, set) != NGX_OK
        || ngx_http_sendfile_pool_conns(cf, pool, codec) != NGX_OK)
    {
        return NULL;
    }

    if (pool->nservers > 1
        && ngx_http_sendfile_pool_ring(cf, pool) != NGX_OK)
    {
        return NULL;
    }

    cln = ngx_pool_cleanup_add(cf->pool, 0);
    if (cln == NULL) {
        return NULL;
    }

    cln->handler = ngx_http_sendfile_pool_cleanup;
    cln->data = pool;

    return pool;
}


static ngx_int_t
ngx_http_sendfile_pool_servers(ngx_conf_t *cf, ngx_http_sendfile_pool_t *pool,
    ngx_http_sendfile_servers_conf_t *set)
{
    ngx_uint_t                        i;
    ngx_http_sendfile_server_t       *server;
    ngx_http_sendfile_server_conf_t  *conf;

    server = ngx_palloc(cf->pool,
                        set->nservers * sizeof(ngx_http_sendfile_server_t));
    if (server == NULL) {
        return NGX_ERROR;
    }

    pool->servers = server;
    pool->nservers = set->nservers;

    for (i = 0; i < set->nservers; i++) {
        conf = &set->servers[i];

        server[i] = *(ngx_http_sendfile_server_t *) conf->ctx;

        server[i].weight = conf->weight;
        server[i].max_fails = conf->max_fails;
        server[i].fail_timeout = conf->fail_timeout;
        server[i].connect_timeout = set->connect_timeout;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_sendfile_pool_conns(ngx_conf_t *cf, ngx_http_sendfile_pool_t *pool,
    ngx_http_sendfile_codec_t *codec)
{
    size_t                     size;
    u_char                    *state;
    ngx_uint_t                 i, n;
    ngx_http_sendfile_conn_t  *conn;

    n = pool->nservers * pool->connections;

    pool->conns = ngx_pcalloc(cf->pool, n * sizeof(ngx_http_sendfile_conn_t));
    if (pool->conns == NULL) {
        return NGX_ERROR;
    }

    size = ngx_align(codec->size, NGX_ALIGNMENT);

    state = ngx_palloc(cf->pool, n * size);
    if (state == NULL) {
        return NGX_ERROR;
    }

    for (i = 0; i < n; i++) {
        conn = &pool->conns[i];

        conn->server = &pool->servers[i / pool->connections];
        conn->codec = codec;
        conn->codec_state = state + i * size;

        ngx_queue_init(&conn->queue);
        ngx_queue_init(&conn->sent);
    }

    return NGX_OK;
}


static void
ngx_http_sendfile_pool_cleanup(void *data)
{
    ngx_http_sendfile_pool_drop(data);
}


static ngx_int_t
ngx_http_sendfile_pool_ring(ngx_conf_t *cf, ngx_http_sendfile_pool_t *pool)
{
    ngx_uint_t     i;
    nsf_server_t  *servers;

    servers = ngx_palloc(cf->temp_pool, pool->nservers * sizeof(nsf_server_t));
    if (servers == NULL) {
        return NGX_ERROR;
    }

    for (i = 0; i < pool->nservers; i++) {
        servers[i].host.data = pool->servers[i].host.data;
        servers[i].host.len = pool->servers[i].host.len;
        servers[i].port = pool->servers[i].port;
        servers[i].weight = pool->servers[i].weight;
    }

    i = nsf_ring_size(pool->distribution, servers, pool->nservers);

    pool->points = ngx_palloc(cf->pool, i * sizeof(nsf_point_t));
    if (pool->points == NULL) {
        return NGX_ERROR;
    }

    pool->npoints = nsf_ring_build(pool->distribution, servers,
                                   pool->nservers,
                                   &ngx_http_sendfile_pool_hashes,
                                   pool->points);

    if (pool->npoints == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "the servers' weights leave nothing to share");
        return NGX_ERROR;
    }

    return NGX_OK;
}


void
ngx_http_sendfile_pool_counters(ngx_http_sendfile_pool_t *pool,
    ngx_http_sendfile_store_t *store)
{
    ngx_uint_t                   i;
    ngx_http_sendfile_server_t  *server;

    store->by_server = 1;

    for (i = 0; i < pool->nservers; i++) {
        server = &pool->servers[i];

        server->counters = ngx_http_sendfile_stats_cells(store->stats,
                                                NGX_HTTP_SENDFILE_STATS_STORE,
                                                &store->url, &server->name);
    }
}


ngx_http_sendfile_conn_t *
ngx_http_sendfile_pool_get(ngx_http_sendfile_pool_t *pool,
    ngx_http_sendfile_op_t *op)
{
    ngx_int_t                  server;
    ngx_uint_t                 i;
    ngx_http_sendfile_conn_t  *conn, *best;

    server = ngx_http_sendfile_pool_server(pool, op);

    if (server == NGX_ERROR) {
        op->down = 1;
        return NULL;
    }

    op->counters = pool->servers[server].counters;

    conn = &pool->conns[server * pool->connections];

    if (pool->connections == 1) {
        return conn;
    }

    /* the one with the fewest operations, taking turns among equals */

    best = &conn[pool->next++ % pool->connections];

    for (i = 0; i < pool->connections; i++) {
        if (conn[i].nops < best->nops) {
            best = &conn[i];
        }
    }

    return best;
}


/* the index of the server to ask, NGX_ERROR if it is down */

static ngx_int_t
ngx_http_sendfile_pool_server(ngx_http_sendfile_pool_t *pool,
    ngx_http_sendfile_op_t *op)
{
    uint32_t     hash;
    ngx_int_t    server;
    ngx_str_t   *key;
    ngx_uint_t   i;

    if (pool->nservers == 1) {
        op->counters = pool->servers->counters;
        op->server = &pool->servers->name;

        return ngx_http_sendfile_server_up(pool->servers) ? 0 : NGX_ERROR;
    }

    key = &op->key;

    hash = nsf_ring_hash(pool->distribution, key->data, key->len,
                         &ngx_http_sendfile_pool_hashes);

    for (i = 0; /* void */ ; i++) {

        server = nsf_ring_find(pool->distribution, pool->points,
                               pool->npoints, hash);

        if (i == 0) {
            /* it counts for the server of the key, if no other stands in */
            op->counters = pool->servers[server].counters;
        }
        op->server = &pool->servers[server].name;

        if (ngx_http_sendfile_server_up(&pool->servers[server])) {
            op->substitute = (i != 0);
            return server;
        }

        if (pool->distribution != NSF_RING_DALLI
            || i == NGX_HTTP_SENDFILE_POOL_TRIES - 1)
        {
            return NGX_ERROR;
        }

        hash = nsf_ring_dalli_retry(key->data, key->len, i,
                                    &ngx_http_sendfile_pool_hashes);
    }
}


void
ngx_http_sendfile_pool_drop(ngx_http_sendfile_pool_t *pool)
{
    ngx_uint_t  i;

    for (i = 0; i < pool->nservers * pool->connections; i++) {
        ngx_http_sendfile_conn_drop(&pool->conns[i]);
    }
}


static void
ngx_http_sendfile_pool_sha1(unsigned char out[20], const void *p, size_t len)
{
    ngx_sha1_t  sha1;

    ngx_sha1_init(&sha1);
    ngx_sha1_update(&sha1, p, len);
    ngx_sha1_final(out, &sha1);
}


static void
ngx_http_sendfile_pool_md5(unsigned char out[16], const void *p, size_t len)
{
    ngx_md5_t  md5;

    ngx_md5_init(&md5);
    ngx_md5_update(&md5, p, len);
    ngx_md5_final(out, &md5);
}


static uint32_t
ngx_http_sendfile_pool_crc32(const void *p, size_t len)
{
    return ngx_crc32_long((u_char *) p, len);
}
