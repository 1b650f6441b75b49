
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * A lookup: the one owner of everything asynchronous between a request and
 * a store.
 */


#ifndef _NGX_HTTP_SENDFILE_LOOKUP_H_INCLUDED_
#define _NGX_HTTP_SENDFILE_LOOKUP_H_INCLUDED_


#include "ngx_http_sendfile_store.h"


typedef struct ngx_http_sendfile_lookup_s  ngx_http_sendfile_lookup_t;
typedef struct ngx_http_sendfile_waiter_s  ngx_http_sendfile_waiter_t;


/*
 * How a lookup ended; the value's bytes are good for the call only.
 * "generation" is that of the waiter that began it, "substitute" as in the
 * operation.
 */

typedef struct {
    ngx_int_t                       rc;
    ngx_atomic_uint_t               generation;
    ngx_http_sendfile_value_t       value;
    const char                     *reason;
    const char                     *detail;
    ngx_err_t                       err;
    ngx_str_t                      *server;
    ngx_uint_t                      substitute; /* unsigned  substitute:1; */
} ngx_http_sendfile_result_t;


/*
 * Whoever waits, in memory of its own.  The caller sets "handler" and
 * "data"; "lookup" is not NULL while it waits.  "generation" is the clock's,
 * from before the lookup begins; one that was begun before "due" is not
 * joined, for what it brings is old.  Both are 0 where there is no clock.
 */

struct ngx_http_sendfile_waiter_s {
    ngx_queue_t                     queue;
    ngx_http_sendfile_lookup_t     *lookup;
    void                          (*handler)(ngx_http_sendfile_waiter_t *w,
                                        ngx_http_sendfile_result_t *res);
    void                           *data;
    ngx_atomic_uint_t               generation;
    ngx_atomic_uint_t               due;
};


/*
 * Asks the store for a vetted key.  NGX_OK: "res" holds the end of it.
 * NGX_AGAIN: the handler will be called once, from the event loop, within
 * "timeout" milliseconds, unless the waiter is cancelled before.  NGX_ERROR:
 * no memory.
 */

ngx_int_t ngx_http_sendfile_lookup(ngx_http_sendfile_store_t *store,
    ngx_str_t *key, ngx_msec_t timeout, ngx_http_sendfile_waiter_t *w,
    ngx_http_sendfile_result_t *res);

/* whether a lookup of these would join one that is in flight */

ngx_uint_t ngx_http_sendfile_lookup_pending(ngx_http_sendfile_store_t *store,
    ngx_str_t *key, ngx_msec_t timeout, ngx_http_sendfile_waiter_t *w);

/* the handler will not be called; for a waiter that does not wait a no-op */

void ngx_http_sendfile_lookup_cancel(ngx_http_sendfile_waiter_t *w);

void ngx_http_sendfile_lookup_init_process(void);


#endif /* _NGX_HTTP_SENDFILE_LOOKUP_H_INCLUDED_ */
