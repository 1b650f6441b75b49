
/*
 * Copyright (C) the ngx_sendfile authors
 *
 *     CLOSED --> RESOLVING --> CONNECTING --> READY
 *       ^  `--------------------^  |            |
 *       `----------------- close --+------------'
 *
 * A connection without operations is idle: it keeps no timer, and goes when
 * the server closes it, or nginx, which does so when a worker is to exit or
 * runs out of connections.  While there are operations their own
 * deadlines keep a worker alive that is told to exit.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_connect.h>

#include "nsf.h"
#include "ngx_http_sendfile_conn.h"


#define NGX_HTTP_SENDFILE_CONN_OUT  16384
#define NGX_HTTP_SENDFILE_CONN_IN   (NSF_MAX_VALUE + 4096)

/* the operations that one connection has at a time, at most */

#define NGX_HTTP_SENDFILE_CONN_OPS  4096


static void ngx_http_sendfile_conn_close(ngx_http_sendfile_conn_t *conn,
    ngx_int_t rc, const char *reason, ngx_err_t err);
static void ngx_http_sendfile_conn_reset(ngx_http_sendfile_conn_t *conn);
static ngx_int_t ngx_http_sendfile_conn_start(ngx_http_sendfile_conn_t *conn,
    ngx_http_sendfile_op_t *op);
static ngx_int_t ngx_http_sendfile_conn_buffers(
    ngx_http_sendfile_conn_t *conn);
static ngx_int_t ngx_http_sendfile_conn_test(ngx_connection_t *c,
    ngx_err_t *err);
static void ngx_http_sendfile_conn_ready(ngx_http_sendfile_conn_t *conn);
static void ngx_http_sendfile_conn_write_handler(ngx_event_t *wev);
static void ngx_http_sendfile_conn_read_handler(ngx_event_t *rev);
static void ngx_http_sendfile_conn_read(ngx_http_sendfile_conn_t *conn);
static void ngx_http_sendfile_conn_flush_handler(ngx_event_t *ev);
static void ngx_http_sendfile_conn_write(ngx_http_sendfile_conn_t *conn);
static void ngx_http_sendfile_conn_watch(ngx_http_sendfile_conn_t *conn);
static void ngx_http_sendfile_conn_silence_handler(ngx_event_t *ev);
static ngx_uint_t ngx_http_sendfile_conn_overdue(
    ngx_http_sendfile_conn_t *conn, ngx_msec_t age);
static void ngx_http_sendfile_conn_idle(ngx_http_sendfile_conn_t *conn);
static void ngx_http_sendfile_conn_reusable(ngx_connection_t *c,
    ngx_uint_t reusable);
static void ngx_http_sendfile_conn_timedout(ngx_http_sendfile_conn_t *conn,
    const char *reason, ngx_uint_t fails);
static void ngx_http_sendfile_conn_fail(ngx_queue_t *ops, ngx_int_t rc,
    const char *reason, ngx_err_t err);


ngx_int_t
ngx_http_sendfile_conn_add(ngx_http_sendfile_conn_t *conn,
    ngx_http_sendfile_op_t *op)
{
    if (conn->nops >= NGX_HTTP_SENDFILE_CONN_OPS) {
        op->reason = "too many lookups in flight";
        return NGX_ERROR;
    }

    if (conn->state == NGX_HTTP_SENDFILE_CONN_CLOSED) {
        if (ngx_http_sendfile_conn_start(conn, op) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    op->ctx = conn;
    op->tag = 0;
    op->start = ngx_current_msec;
    ngx_queue_insert_tail(&conn->queue, &op->queue);

    if (conn->nops++ == 0 && conn->peer.connection) {
        conn->peer.connection->idle = 0;
        conn->peer.connection->log_error = NGX_ERROR_ERR;
        ngx_http_sendfile_conn_reusable(conn->peer.connection, 0);
    }

    if (conn->state == NGX_HTTP_SENDFILE_CONN_READY && !conn->flush.posted) {
        ngx_post_event(&conn->flush, &ngx_posted_events);
    }

    return NGX_AGAIN;
}


void
ngx_http_sendfile_conn_done(ngx_http_sendfile_conn_t *conn,
    ngx_http_sendfile_op_t *op, ngx_int_t rc)
{
    ngx_queue_remove(&op->queue);
    conn->nops--;

    if (rc != NGX_ERROR && !op->overdue) {
        ngx_http_sendfile_server_ok(conn->server);
    }

    op->done(op, rc);
}


ngx_int_t
ngx_http_sendfile_conn_cancel(ngx_http_sendfile_op_t *op)
{
    ngx_http_sendfile_conn_t  *conn;

    conn = op->ctx;

    if (conn == NULL) {
        /* its connection is closed, and done() is about to be called */
        return NGX_AGAIN;
    }

    if (op->tag) {
        /* it was sent: the reply to it has to be read */
        return NGX_AGAIN;
    }

    ngx_queue_remove(&op->queue);
    conn->nops--;

    ngx_http_sendfile_conn_idle(conn);

    return NGX_OK;
}


/* closes the socket; every operation ends with "rc", "reason" and "err" */

static void
ngx_http_sendfile_conn_close(ngx_http_sendfile_conn_t *conn, ngx_int_t rc,
    const char *reason, ngx_err_t err)
{
    ngx_queue_t              ops, *q;
    ngx_http_sendfile_op_t  *op;

    if (conn->state == NGX_HTTP_SENDFILE_CONN_CLOSED) {
        return;
    }

    ngx_http_sendfile_conn_reset(conn);

    /* from now on done() may use this connection again */

    ngx_queue_init(&ops);

    if (!ngx_queue_empty(&conn->sent)) {
        ngx_queue_add(&ops, &conn->sent);
        ngx_queue_init(&conn->sent);
    }

    if (!ngx_queue_empty(&conn->queue)) {
        ngx_queue_add(&ops, &conn->queue);
        ngx_queue_init(&conn->queue);
    }

    for (q = ngx_queue_head(&ops);
         q != ngx_queue_sentinel(&ops);
         q = ngx_queue_next(q))
    {
        op = ngx_queue_data(q, ngx_http_sendfile_op_t, queue);
        op->ctx = NULL;
    }

    ngx_http_sendfile_conn_fail(&ops, rc, reason, err);
}


void
ngx_http_sendfile_conn_drop(ngx_http_sendfile_conn_t *conn)
{
    ngx_queue_t             *q;
    ngx_http_sendfile_op_t  *op;

    ngx_http_sendfile_conn_reset(conn);

    /* done() frees a cancelled operation; any other ends with its request */

    while (!ngx_queue_empty(&conn->sent)) {
        q = ngx_queue_head(&conn->sent);
        op = ngx_queue_data(q, ngx_http_sendfile_op_t, queue);

        ngx_queue_remove(q);

        if (op->gone) {
            op->done(op, NGX_ERROR);
        }
    }

    ngx_queue_init(&conn->queue);

    if (conn->in.start) {
        ngx_free(conn->in.start);
        conn->in.start = NULL;
    }
}


static void
ngx_http_sendfile_conn_reset(ngx_http_sendfile_conn_t *conn)
{
    if (conn->resolving) {
        ngx_resolve_name_done(conn->resolving);
        conn->resolving = NULL;
    }

    if (conn->flush.posted) {
        ngx_delete_posted_event(&conn->flush);
    }

    if (conn->silence.timer_set) {
        ngx_del_timer(&conn->silence);
    }

    if (conn->peer.connection) {
        ngx_http_sendfile_conn_reusable(conn->peer.connection, 0);
        ngx_close_connection(conn->peer.connection);
        conn->peer.connection = NULL;
    }

    conn->state = NGX_HTTP_SENDFILE_CONN_CLOSED;
    conn->nops = 0;
}


/*
 * Begins to connect.  This is inside of get(), so what fails at once must
 * not call anybody back.
 */

static ngx_int_t
ngx_http_sendfile_conn_start(ngx_http_sendfile_conn_t *conn,
    ngx_http_sendfile_op_t *op)
{
    ngx_int_t  rc;

    if (ngx_http_sendfile_conn_buffers(conn) != NGX_OK) {
        op->reason = NSF_ERR_MEMORY;
        return NGX_ERROR;
    }

    conn->starting = 1;
    rc = ngx_http_sendfile_conn_connect(conn);
    conn->starting = 0;

    if (rc == NGX_OK) {
        return NGX_OK;
    }

    op->reason = conn->reason;
    op->err = conn->err;

    /* want of memory or connections is no fault of the server's */

    if (rc == NGX_DECLINED) {
        ngx_http_sendfile_server_fail(conn->server, 1, ngx_cycle->log);
    }

    ngx_http_sendfile_conn_close(conn, NGX_ERROR, conn->reason, conn->err);

    return NGX_ERROR;
}


static ngx_int_t
ngx_http_sendfile_conn_buffers(ngx_http_sendfile_conn_t *conn)
{
    u_char  *p;

    if (conn->in.start == NULL) {

        p = ngx_alloc(NGX_HTTP_SENDFILE_CONN_IN + NGX_HTTP_SENDFILE_CONN_OUT,
                      ngx_cycle->log);
        if (p == NULL) {
            return NGX_ERROR;
        }

        conn->in.start = p;
        conn->in.end = p + NGX_HTTP_SENDFILE_CONN_IN;

        conn->out.start = conn->in.end;
        conn->out.end = conn->out.start + NGX_HTTP_SENDFILE_CONN_OUT;

        conn->flush.handler = ngx_http_sendfile_conn_flush_handler;
        conn->flush.data = conn;

        conn->silence.handler = ngx_http_sendfile_conn_silence_handler;
        conn->silence.data = conn;
        conn->silence.cancelable = 1;
    }

    conn->flush.log = ngx_cycle->log;
    conn->silence.log = ngx_cycle->log;

    conn->in.pos = conn->in.start;
    conn->in.last = conn->in.start;
    conn->out.pos = conn->out.start;
    conn->out.last = conn->out.start;

    ngx_memzero(conn->codec_state, conn->codec->size);

    return NGX_OK;
}


/* the socket is there; NGX_AGAIN: not connected yet */

void
ngx_http_sendfile_conn_opened(ngx_http_sendfile_conn_t *conn, ngx_int_t rc)
{
    int                tcp_nodelay;
    ngx_connection_t  *c;

    c = conn->peer.connection;

    c->data = conn;
    c->read->handler = ngx_http_sendfile_conn_read_handler;
    c->write->handler = ngx_http_sendfile_conn_write_handler;
    c->log = ngx_cycle->log;
    c->read->log = c->log;
    c->write->log = c->log;

    if (conn->server->port) {
        tcp_nodelay = 1;

        (void) setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY,
                          (const void *) &tcp_nodelay, sizeof(int));
    }

    if (rc == NGX_OK) {
        /* connected at once: the operation is not queued yet */
        conn->state = NGX_HTTP_SENDFILE_CONN_READY;
        ngx_post_event(&conn->flush, &ngx_posted_events);
        return;
    }

    ngx_add_timer(c->write, conn->server->connect_timeout);
}


static ngx_int_t
ngx_http_sendfile_conn_test(ngx_connection_t *c, ngx_err_t *err)
{
    int        error;
    socklen_t  len;

    error = 0;
    len = sizeof(int);

    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, (void *) &error, &len) == -1) {
        error = ngx_socket_errno;
    }

    *err = error;

    return error ? NGX_ERROR : NGX_OK;
}


static void
ngx_http_sendfile_conn_ready(ngx_http_sendfile_conn_t *conn)
{
    ngx_err_t          err;
    ngx_connection_t  *c;

    c = conn->peer.connection;

    if (c->write->timer_set) {
        ngx_del_timer(c->write);
    }

    if (ngx_http_sendfile_conn_test(c, &err) != NGX_OK) {
        ngx_http_sendfile_conn_broken(conn, "cannot connect", err, 1);
        return;
    }

    conn->state = NGX_HTTP_SENDFILE_CONN_READY;

    if (ngx_handle_read_event(c->read, 0) != NGX_OK) {
        ngx_http_sendfile_conn_broken(conn, "no event", 0, 1);
        return;
    }

    ngx_http_sendfile_conn_write(conn);
    ngx_http_sendfile_conn_idle(conn);
}


static void
ngx_http_sendfile_conn_write_handler(ngx_event_t *wev)
{
    ngx_connection_t          *c;
    ngx_http_sendfile_conn_t  *conn;

    c = wev->data;
    conn = c->data;

    if (conn->state == NGX_HTTP_SENDFILE_CONN_CONNECTING) {

        if (wev->timedout) {
            ngx_http_sendfile_conn_timedout(conn, "connect timed out", 1);
            return;
        }

        ngx_http_sendfile_conn_ready(conn);
        return;
    }

    ngx_http_sendfile_conn_write(conn);
}


static void
ngx_http_sendfile_conn_read_handler(ngx_event_t *rev)
{
    ngx_connection_t          *c;
    ngx_http_sendfile_conn_t  *conn;

    c = rev->data;
    conn = c->data;

    if (c->close && conn->nops == 0) {
        /* nginx has run out of connections, or the worker exits */
        ngx_http_sendfile_conn_close(conn, NGX_ERROR, "closed", 0);
        return;
    }

    if (conn->state == NGX_HTTP_SENDFILE_CONN_CONNECTING) {
        ngx_http_sendfile_conn_ready(conn);
        return;
    }

    ngx_http_sendfile_conn_read(conn);
}


static void
ngx_http_sendfile_conn_read(ngx_http_sendfile_conn_t *conn)
{
    size_t             size;
    ssize_t            n;
    ngx_int_t          rc;
    ngx_buf_t         *b;
    ngx_connection_t  *c;

    c = conn->peer.connection;
    b = &conn->in;

    for ( ;; ) {

        size = b->end - b->last;

        n = c->recv(c, b->last, size);

        if (n == NGX_AGAIN) {
            break;
        }

        if (n == 0 || n == NGX_ERROR) {
            ngx_http_sendfile_conn_broken(conn, (n == 0)
                                          ? "connection closed by server"
                                          : "cannot read",
                                          (n == 0) ? 0 : ngx_socket_errno,
                                          conn->nops ? 1 : 0);
            return;
        }

        b->last += n;
        conn->heard = ngx_current_msec;

        conn->receiving = 1;
        rc = conn->codec->receive(conn);
        conn->receiving = 0;

        if (rc != NGX_OK) {
            ngx_http_sendfile_conn_broken(conn, conn->reason, 0, 1);
            return;
        }

        /* what is left is the beginning of a reply */

        if (b->pos == b->last) {
            b->pos = b->start;
            b->last = b->start;

        } else if (b->pos != b->start) {
            ngx_memmove(b->start, b->pos, b->last - b->pos);
            b->last = b->start + (b->last - b->pos);
            b->pos = b->start;
        }

        if (b->last == b->end) {
            ngx_http_sendfile_conn_broken(conn, "answer too long", 0, 1);
            return;
        }

        /* a short read has taken all there was */

        if (!c->read->ready) {
            break;
        }
    }

    if (ngx_handle_read_event(c->read, 0) != NGX_OK) {
        ngx_http_sendfile_conn_broken(conn, "no event", 0, 1);
        return;
    }

    ngx_http_sendfile_conn_idle(conn);
}


static void
ngx_http_sendfile_conn_flush_handler(ngx_event_t *ev)
{
    ngx_http_sendfile_conn_write(ev->data);
}


/* sends as much as the socket takes, and the rest when it takes more */

static void
ngx_http_sendfile_conn_write(ngx_http_sendfile_conn_t *conn)
{
    ssize_t            n;
    ngx_buf_t         *b;
    ngx_connection_t  *c;

    if (conn->state != NGX_HTTP_SENDFILE_CONN_READY) {
        return;
    }

    c = conn->peer.connection;
    b = &conn->out;

    for ( ;; ) {

        if (b->pos == b->last) {

            if (ngx_queue_empty(&conn->queue)) {
                break;
            }

            b->pos = b->start;
            b->last = conn->codec->compose(conn, b->start, b->end);
        }

        n = c->send(c, b->pos, b->last - b->pos);

        if (n == NGX_AGAIN) {
            break;
        }

        if (n == NGX_ERROR) {
            ngx_http_sendfile_conn_broken(conn, "cannot write",
                                          ngx_socket_errno, 1);
            return;
        }

        b->pos += n;
    }

    if (ngx_handle_write_event(c->write, 0) != NGX_OK) {
        ngx_http_sendfile_conn_broken(conn, "no event", 0, 1);
        return;
    }

    if (!ngx_queue_empty(&conn->sent) && !conn->silence.timer_set) {
        conn->heard = ngx_current_msec;
        ngx_http_sendfile_conn_watch(conn);
    }
}


/*
 * Sets the timer to the next moment at which the server may have been silent
 * for too long, or an operation be overdue.
 */

static void
ngx_http_sendfile_conn_watch(ngx_http_sendfile_conn_t *conn)
{
    ngx_msec_t               since;
    ngx_queue_t             *q;
    ngx_msec_int_t           left;
    ngx_http_sendfile_op_t  *op;

    since = conn->heard;

    for (q = ngx_queue_head(&conn->sent);
         q != ngx_queue_sentinel(&conn->sent);
         q = ngx_queue_next(q))
    {
        op = ngx_queue_data(q, ngx_http_sendfile_op_t, queue);

        if (!op->overdue) {

            if ((ngx_msec_int_t) (op->start - since) < 0) {
                since = op->start;
            }

            break;
        }
    }

    left = since + conn->server->timeout - ngx_current_msec;

    ngx_add_timer(&conn->silence, (ngx_msec_t) ngx_max(left, 1));
}


/*
 * A server's time for a reply is the longest deadline of its lookups; a
 * shorter one ends its own lookup only.  An operation without a reply by then
 * is a failure of the server's, whether or not a request still waits for it.
 * If no byte at all has come, the server hangs: the connection is closed, and
 * all of its operations time out.
 */

static void
ngx_http_sendfile_conn_silence_handler(ngx_event_t *ev)
{
    ngx_uint_t                 n;
    ngx_msec_t                 timeout;
    ngx_http_sendfile_conn_t  *conn;

    conn = ev->data;
    timeout = conn->server->timeout;

    if (ngx_queue_empty(&conn->sent)) {
        return;
    }

    if (ngx_current_msec - conn->heard >= timeout) {
        n = ngx_http_sendfile_conn_overdue(conn, 0);
        ngx_http_sendfile_conn_timedout(conn, "server does not answer", n);
        return;
    }

    n = ngx_http_sendfile_conn_overdue(conn, timeout);

    if (n) {
        ngx_http_sendfile_server_fail(conn->server, n, ngx_cycle->log);
    }

    ngx_http_sendfile_conn_watch(conn);
}


/* counts the operations that were sent and are "age" or older, each once */

static ngx_uint_t
ngx_http_sendfile_conn_overdue(ngx_http_sendfile_conn_t *conn, ngx_msec_t age)
{
    ngx_uint_t               n;
    ngx_queue_t             *q;
    ngx_http_sendfile_op_t  *op;

    n = 0;

    for (q = ngx_queue_head(&conn->sent);
         q != ngx_queue_sentinel(&conn->sent);
         q = ngx_queue_next(q))
    {
        op = ngx_queue_data(q, ngx_http_sendfile_op_t, queue);

        if (ngx_current_msec - op->start < age) {
            break;
        }

        if (!op->overdue) {
            op->overdue = 1;
            n++;
        }
    }

    return n;
}


/*
 * After operations have ended: a connection without any is idle, or closed
 * when the worker exits.
 */

static void
ngx_http_sendfile_conn_idle(ngx_http_sendfile_conn_t *conn)
{
    ngx_connection_t  *c;

    if (conn->nops || conn->receiving) {
        return;
    }

    if (conn->silence.timer_set) {
        ngx_del_timer(&conn->silence);
    }

    c = conn->peer.connection;

    if (ngx_exiting || ngx_terminate || (c && c->close)) {
        ngx_http_sendfile_conn_close(conn, NGX_ERROR, "closed", 0);
        return;
    }

    if (c) {
        /* no lookup fails if the server closes it now */
        c->idle = 1;
        c->log_error = NGX_ERROR_INFO;
        ngx_http_sendfile_conn_reusable(c, 1);
    }
}


/*
 * Whether nginx may close the connection when it runs out of them. nginx
 * counts each that it may close among the waiting clients of stub_status; this
 * one is no client, and is taken off that count.
 */

static void
ngx_http_sendfile_conn_reusable(ngx_connection_t *c, ngx_uint_t reusable)
{
    if (c->reusable == reusable) {
        return;
    }

    ngx_reusable_connection(c, reusable);

#if (NGX_STAT_STUB)
    (void) ngx_atomic_fetch_add(ngx_stat_waiting, reusable ? -1 : 1);
#endif
}


void
ngx_http_sendfile_conn_broken(ngx_http_sendfile_conn_t *conn,
    const char *reason, ngx_err_t err, ngx_uint_t fails)
{
    u_char  more[NGX_HTTP_SENDFILE_LIMIT_TEXT];

    if (fails) {
        if (ngx_http_sendfile_limit(&conn->server->limit, reason, more)) {
            ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, err,
                          "http_sendfile: server %V: %s, %ui lookups fail%s",
                          &conn->server->name, reason, conn->nops, more);
        }

        ngx_http_sendfile_server_fail(conn->server, fails, ngx_cycle->log);
    }

    ngx_http_sendfile_conn_close(conn, NGX_ERROR, reason, err);
}


static void
ngx_http_sendfile_conn_timedout(ngx_http_sendfile_conn_t *conn,
    const char *reason, ngx_uint_t fails)
{
    u_char  more[NGX_HTTP_SENDFILE_LIMIT_TEXT];

    if (ngx_http_sendfile_limit(&conn->server->limit, reason, more)) {
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "http_sendfile: server %V: %s, %ui lookups time out%s",
                      &conn->server->name, reason, conn->nops, more);
    }

    if (fails) {
        ngx_http_sendfile_server_fail(conn->server, fails, ngx_cycle->log);
    }

    ngx_http_sendfile_conn_close(conn, NGX_HTTP_SENDFILE_TIMEDOUT, reason, 0);
}


static void
ngx_http_sendfile_conn_fail(ngx_queue_t *ops, ngx_int_t rc,
    const char *reason, ngx_err_t err)
{
    ngx_queue_t             *q;
    ngx_http_sendfile_op_t  *op;

    while (!ngx_queue_empty(ops)) {
        q = ngx_queue_head(ops);
        op = ngx_queue_data(q, ngx_http_sendfile_op_t, queue);

        ngx_queue_remove(q);

        op->reason = reason;
        op->err = err;
        op->done(op, rc);
    }
}
