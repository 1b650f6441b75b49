
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * memcached, in its classic text protocol: one "get k1 k2 ... kn" for all
 * lookups of a turn of the event loop, any number of them in flight.
 *
 * An answer holds the keys that are there, most often in the order of the
 * question; END tells that the others are missing.  A key that is not one of
 * the batch means that the connection is out of step, and it is given up: a
 * lookup must never get another's value.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "ngx_http_sendfile_pool.h"
#include "nsf_memcached.h"


#define NGX_HTTP_SENDFILE_MEMCACHED_PORT   11211

/* of one "get" */

#define NGX_HTTP_SENDFILE_MEMCACHED_KEYS   100
#define NGX_HTTP_SENDFILE_MEMCACHED_BYTES  8192


/*
 * Of a connection: batches written and answered so far, where in "sent" the
 * next value is expected, and bytes of one that are to be dropped.
 */

typedef struct {
    uint64_t                 written;
    uint64_t                 answered;
    ngx_queue_t             *next;
    size_t                   skip;
} ngx_http_sendfile_memcached_state_t;


static ngx_int_t ngx_http_sendfile_memcached_server(ngx_conf_t *cf,
    ngx_http_sendfile_server_conf_t *server);
static ngx_int_t ngx_http_sendfile_memcached_servers(ngx_conf_t *cf,
    ngx_http_sendfile_store_t *store, ngx_http_sendfile_servers_conf_t *set);
static void ngx_http_sendfile_memcached_init(
    ngx_http_sendfile_store_t *store, ngx_log_t *log);
static void ngx_http_sendfile_memcached_exit(
    ngx_http_sendfile_store_t *store);
static ngx_int_t ngx_http_sendfile_memcached_get(
    ngx_http_sendfile_store_t *store, ngx_http_sendfile_op_t *op);
static ngx_int_t ngx_http_sendfile_memcached_cancel(
    ngx_http_sendfile_store_t *store, ngx_http_sendfile_op_t *op);

static u_char *ngx_http_sendfile_memcached_compose(
    ngx_http_sendfile_conn_t *conn, u_char *p, u_char *last);
static ngx_int_t ngx_http_sendfile_memcached_receive(
    ngx_http_sendfile_conn_t *conn);
static void ngx_http_sendfile_memcached_says(ngx_http_sendfile_conn_t *conn,
    nsf_mc_reply_t *reply);
static ngx_int_t ngx_http_sendfile_memcached_skip(
    ngx_http_sendfile_conn_t *conn);
static ngx_int_t ngx_http_sendfile_memcached_value(
    ngx_http_sendfile_conn_t *conn, nsf_mc_reply_t *reply);
static void ngx_http_sendfile_memcached_end(ngx_http_sendfile_conn_t *conn,
    ngx_int_t rc, const char *reason);
static ngx_http_sendfile_op_t *ngx_http_sendfile_memcached_head(
    ngx_http_sendfile_conn_t *conn);


ngx_http_sendfile_store_type_t  ngx_http_sendfile_memcached_store = {
    ngx_string("memcached"),
    ngx_string("memcached://host:port"),
    ngx_string("memcached://host:port or memcached:/unix/socket"),
    1,                                     /* asynchronous */
    NULL,                                  /* create: of servers */
    ngx_http_sendfile_memcached_server,
    ngx_http_sendfile_memcached_servers,
    ngx_http_sendfile_memcached_init,
    ngx_http_sendfile_memcached_exit,
    ngx_http_sendfile_memcached_get,
    ngx_http_sendfile_memcached_cancel,
    NULL                                   /* directives of a block */
};


static ngx_http_sendfile_codec_t  ngx_http_sendfile_memcached_codec = {
    sizeof(ngx_http_sendfile_memcached_state_t),
    ngx_http_sendfile_memcached_compose,
    ngx_http_sendfile_memcached_receive
};


/* the host or the path of a socket, never both */

static ngx_int_t
ngx_http_sendfile_memcached_server(ngx_conf_t *cf,
    ngx_http_sendfile_server_conf_t *server)
{
    if (server->url.host.len && server->url.path.len) {
        return NGX_DECLINED;
    }

    return ngx_http_sendfile_server_create(cf, server,
                                           NGX_HTTP_SENDFILE_MEMCACHED_PORT);
}


static ngx_int_t
ngx_http_sendfile_memcached_servers(ngx_conf_t *cf,
    ngx_http_sendfile_store_t *store, ngx_http_sendfile_servers_conf_t *set)
{
    store->ctx = ngx_http_sendfile_pool_create(cf, set,
                                           &ngx_http_sendfile_memcached_codec);

    return store->ctx ? NGX_OK : NGX_ERROR;
}


static void
ngx_http_sendfile_memcached_init(ngx_http_sendfile_store_t *store,
    ngx_log_t *log)
{
    ngx_uint_t                 i;
    ngx_http_sendfile_pool_t  *pool;

    pool = store->ctx;

    for (i = 0; i < pool->nservers; i++) {
        pool->servers[i].timeout = store->max_timeout;
    }

    ngx_http_sendfile_pool_counters(pool, store);
    ngx_http_sendfile_conn_resolver(store->resolver, store->resolver_timeout);
}


static void
ngx_http_sendfile_memcached_exit(ngx_http_sendfile_store_t *store)
{
    ngx_http_sendfile_pool_drop(store->ctx);
}


static ngx_int_t
ngx_http_sendfile_memcached_get(ngx_http_sendfile_store_t *store,
    ngx_http_sendfile_op_t *op)
{
    ngx_http_sendfile_conn_t  *conn;

    conn = ngx_http_sendfile_pool_get(store->ctx, op);

    if (conn == NULL) {
        op->reason = "server is down";
        return NGX_ERROR;
    }

    return ngx_http_sendfile_conn_add(conn, op);
}


static ngx_int_t
ngx_http_sendfile_memcached_cancel(ngx_http_sendfile_store_t *store,
    ngx_http_sendfile_op_t *op)
{
    return ngx_http_sendfile_conn_cancel(op);
}


static u_char *
ngx_http_sendfile_memcached_compose(ngx_http_sendfile_conn_t *conn, u_char *p,
    u_char *last)
{
    u_char                               *start;
    ngx_uint_t                            n;
    ngx_queue_t                          *q;
    ngx_http_sendfile_op_t               *op;
    ngx_http_sendfile_memcached_state_t  *state;

    state = conn->codec_state;

    while (!ngx_queue_empty(&conn->queue)
           && last - p >= NGX_HTTP_SENDFILE_MEMCACHED_BYTES)
    {
        start = p;
        n = 0;

        state->written++;

        p = ngx_cpymem(p, "get", 3);

        while (!ngx_queue_empty(&conn->queue)
               && n < NGX_HTTP_SENDFILE_MEMCACHED_KEYS
               && p - start < NGX_HTTP_SENDFILE_MEMCACHED_BYTES
                              - NSF_MAX_KEY - 3)
        {
            q = ngx_queue_head(&conn->queue);
            op = ngx_queue_data(q, ngx_http_sendfile_op_t, queue);

            *p++ = ' ';
            p = ngx_cpymem(p, op->key.data, op->key.len);

            op->tag = state->written;

            ngx_queue_remove(q);
            ngx_queue_insert_tail(&conn->sent, q);
            n++;
        }

        *p++ = CR;
        *p++ = LF;

        ngx_http_sendfile_stats_batch(conn->server->counters, n);
    }

    return p;
}


static ngx_int_t
ngx_http_sendfile_memcached_receive(ngx_http_sendfile_conn_t *conn)
{
    ngx_buf_t                            *b;
    nsf_mc_reply_t                        reply;
    const unsigned char                  *next;
    ngx_http_sendfile_memcached_state_t  *state;

    b = &conn->in;
    state = conn->codec_state;

    while (b->pos < b->last) {

        if (state->skip) {
            if (ngx_http_sendfile_memcached_skip(conn) != NGX_OK) {
                return NGX_ERROR;
            }

            continue;
        }

        if (state->answered == state->written) {
            conn->reason = "unexpected bytes";
            return NGX_ERROR;
        }

        switch (nsf_mc_parse(b->pos, b->last, &reply, &next)) {

        case NSF_MC_AGAIN:
            return NGX_OK;

        case NSF_MC_LARGE:
            state->skip = reply.len + 2;

            /* fall through */

        case NSF_MC_VALUE:
            if (ngx_http_sendfile_memcached_value(conn, &reply) != NGX_OK) {
                return NGX_ERROR;
            }

            break;

        case NSF_MC_END:
            ngx_http_sendfile_memcached_end(conn, NGX_DECLINED, NULL);
            break;

        case NSF_MC_ERROR:
            ngx_http_sendfile_memcached_says(conn, &reply);

            ngx_http_sendfile_memcached_end(conn, NGX_ERROR,
                                            "server reports an error");
            break;

        default: /* NSF_MC_BAD */
            conn->reason = "bad answer";
            return NGX_ERROR;
        }

        b->pos = (u_char *) next;
    }

    return NGX_OK;
}


/* an error that it sends, in its own words */

static void
ngx_http_sendfile_memcached_says(ngx_http_sendfile_conn_t *conn,
    nsf_mc_reply_t *reply)
{
    u_char  more[NGX_HTTP_SENDFILE_LIMIT_TEXT];

    if (ngx_http_sendfile_limit(&conn->server->limit,
                                "server reports an error", more))
    {
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "http_sendfile: server %V says \"%*s\"%s",
                      &conn->server->name, reply->error.len,
                      reply->error.data, more);
    }
}


/* a value that is too long, and the end of its line */

static ngx_int_t
ngx_http_sendfile_memcached_skip(ngx_http_sendfile_conn_t *conn)
{
    size_t                                n;
    ngx_buf_t                            *b;
    ngx_http_sendfile_memcached_state_t  *state;

    b = &conn->in;
    state = conn->codec_state;

    n = b->last - b->pos;

    if (state->skip > 2) {
        n = ngx_min(n, state->skip - 2);

        b->pos += n;
        state->skip -= n;

        return NGX_OK;
    }

    if (*b->pos != ((state->skip == 2) ? CR : LF)) {
        conn->reason = "bad answer";
        return NGX_ERROR;
    }

    b->pos++;
    state->skip--;

    return NGX_OK;
}


/*
 * Finds the key in the batch that is being answered.  memcached keeps the
 * order of the keys, so the next one is most often the one; a proxy need
 * not.  What is missing is known at END.
 */

static ngx_int_t
ngx_http_sendfile_memcached_value(ngx_http_sendfile_conn_t *conn,
    nsf_mc_reply_t *reply)
{
    ngx_queue_t                          *q, *stop;
    ngx_http_sendfile_op_t               *op;
    ngx_http_sendfile_memcached_state_t  *state;

    state = conn->codec_state;

    stop = state->next ? state->next : ngx_queue_head(&conn->sent);
    q = stop;

    for ( ;; ) {

        if (q != ngx_queue_sentinel(&conn->sent)) {
            op = ngx_queue_data(q, ngx_http_sendfile_op_t, queue);

            if (op->tag == state->answered + 1) {

                if (op->key.len == reply->key.len
                    && ngx_memcmp(op->key.data, reply->key.data,
                                  reply->key.len)
                       == 0)
                {
                    break;
                }

                q = ngx_queue_next(q);

            } else {
                /* of the next batch */
                q = ngx_queue_head(&conn->sent);
            }

        } else {
            q = ngx_queue_head(&conn->sent);
        }

        if (q == stop) {
            conn->reason = "answer to another question";
            return NGX_ERROR;
        }
    }

    /* what is on the wire stays in the queue until we take it */

    state->next = ngx_queue_next(q);

    op->value.data = (u_char *) reply->data;
    op->value.len = reply->len;
    op->value.flags = reply->flags;

    ngx_http_sendfile_conn_done(conn, op, NGX_OK);

    return NGX_OK;
}


/* END, or an error line instead of the whole answer */

static void
ngx_http_sendfile_memcached_end(ngx_http_sendfile_conn_t *conn, ngx_int_t rc,
    const char *reason)
{
    ngx_http_sendfile_op_t               *op;
    ngx_http_sendfile_memcached_state_t  *state;

    state = conn->codec_state;

    state->answered++;
    state->next = NULL;

    for ( ;; ) {
        op = ngx_http_sendfile_memcached_head(conn);

        if (op == NULL || op->tag != state->answered) {
            break;
        }

        op->reason = reason;
        ngx_http_sendfile_conn_done(conn, op, rc);
    }
}


static ngx_http_sendfile_op_t *
ngx_http_sendfile_memcached_head(ngx_http_sendfile_conn_t *conn)
{
    ngx_queue_t  *q;

    if (ngx_queue_empty(&conn->sent)) {
        return NULL;
    }

    q = ngx_queue_head(&conn->sent);

    return ngx_queue_data(q, ngx_http_sendfile_op_t, queue);
}
