
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * One socket to a server, shared by every lookup of the worker.  It knows
 * bytes and operations; what they look like on the wire is the codec's.
 */


#ifndef _NGX_HTTP_SENDFILE_CONN_H_INCLUDED_
#define _NGX_HTTP_SENDFILE_CONN_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_connect.h>

#include "ngx_http_sendfile_server.h"
#include "ngx_http_sendfile_store.h"


typedef struct ngx_http_sendfile_conn_s  ngx_http_sendfile_conn_t;


typedef struct {

    /* bytes of conn->codec_state, which are zeroed for each new connection */
    size_t                          size;

    /*
     * Takes operations off conn->queue, as many as there is room for, writes
     * requests for them between "p" and "last", sets their "tag", which is 0
     * of what was not sent, and moves them to conn->sent; returns the new "p".
     */
    u_char                       *(*compose)(ngx_http_sendfile_conn_t *conn,
                                             u_char *p, u_char *last);

    /*
     * Reads conn->in from "pos" and ends the operations of conn->sent whose
     * replies are there.  NGX_ERROR: the connection is of no use any more,
     * conn->reason says why.
     */
    ngx_int_t                     (*receive)(ngx_http_sendfile_conn_t *conn);
} ngx_http_sendfile_codec_t;


typedef enum {
    NGX_HTTP_SENDFILE_CONN_CLOSED = 0,
    NGX_HTTP_SENDFILE_CONN_RESOLVING,
    NGX_HTTP_SENDFILE_CONN_CONNECTING,
    NGX_HTTP_SENDFILE_CONN_READY
} ngx_http_sendfile_conn_state_e;


struct ngx_http_sendfile_conn_s {
    ngx_http_sendfile_server_t      *server;
    ngx_http_sendfile_codec_t       *codec;
    ngx_http_sendfile_conn_state_e   state;

    ngx_peer_connection_t            peer;
    ngx_resolver_ctx_t              *resolving;

    /* operations: not sent yet, and waiting for their replies */
    ngx_queue_t                      queue;
    ngx_queue_t                      sent;
    ngx_uint_t                       nops;

    void                            *codec_state;

    ngx_buf_t                        in;
    ngx_buf_t                        out;

    /* writes at the end of the event loop's turn */
    ngx_event_t                      flush;

    /* finds a server that is silent since "heard" */
    ngx_event_t                      silence;
    ngx_msec_t                       heard;

    const char                      *reason;
    ngx_err_t                        err;

    /* what came of a name that was resolved within ngx_resolve_name() */
    ngx_int_t                        start_rc;

    unsigned                         starting:1;
    unsigned                         receiving:1;
};


/*
 * Gives an operation to the connection, which is made if there is none.
 * NGX_AGAIN: op->done() will be called; NGX_ERROR: it will not, op->reason
 * and op->err say why.
 */

ngx_int_t ngx_http_sendfile_conn_add(ngx_http_sendfile_conn_t *conn,
    ngx_http_sendfile_op_t *op);

/* for the codec: ends one of conn->sent; with NGX_OK op->value is the value */

void ngx_http_sendfile_conn_done(ngx_http_sendfile_conn_t *conn,
    ngx_http_sendfile_op_t *op, ngx_int_t rc);

/* as cancel() of ngx_http_sendfile_store_type_t */

ngx_int_t ngx_http_sendfile_conn_cancel(ngx_http_sendfile_op_t *op);

/*
 * Names are resolved with this; NULL: they stay what they were when the
 * configuration was read.  Set when a worker starts.
 */

void ngx_http_sendfile_conn_resolver(ngx_resolver_t *resolver,
    ngx_msec_t timeout);

/* the end of the process: no request is told of its lookup any more */

void ngx_http_sendfile_conn_drop(ngx_http_sendfile_conn_t *conn);


/* -- between the files of a connection */

/*
 * Begins to connect, to the next address.  NGX_OK: connecting, or connected;
 * NGX_DECLINED: the server's fault, NGX_ERROR: ours; conn->reason says what
 * failed.
 */

ngx_int_t ngx_http_sendfile_conn_connect(ngx_http_sendfile_conn_t *conn);

/* the socket is there; "rc" NGX_AGAIN: not connected yet */

void ngx_http_sendfile_conn_opened(ngx_http_sendfile_conn_t *conn,
    ngx_int_t rc);

/* closes; every operation fails, and counts for the server "fails" times */

void ngx_http_sendfile_conn_broken(ngx_http_sendfile_conn_t *conn,
    const char *reason, ngx_err_t err, ngx_uint_t fails);


#endif /* _NGX_HTTP_SENDFILE_CONN_H_INCLUDED_ */
