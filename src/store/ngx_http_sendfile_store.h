
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * The interface of a store, synchronous or asynchronous.  A store knows
 * nothing of HTTP: it is given a vetted key and answers with bytes.
 */


#ifndef _NGX_HTTP_SENDFILE_STORE_H_INCLUDED_
#define _NGX_HTTP_SENDFILE_STORE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "ngx_http_sendfile_limit.h"
#include "nsf_ring.h"
#include "nsf_url.h"


/* a lookup's end by its deadline, beside NGX_OK, NGX_DECLINED, NGX_ERROR */

#define NGX_HTTP_SENDFILE_TIMEDOUT  -32


typedef struct ngx_http_sendfile_store_s  ngx_http_sendfile_store_t;
typedef struct ngx_http_sendfile_op_s     ngx_http_sendfile_op_t;


/*
 * What a store has for a key.  The bytes stay the store's: they are good
 * until get() is called again or, of an asynchronous answer, until done()
 * returns.  Of a value longer than NSF_MAX_VALUE only "len" is good.
 *
 * "json" says that the store itself made a JSON record of what it has, and
 * is 0 of bytes that somebody has put there: these are what the location's
 * format says.
 */

typedef struct {
    u_char                         *data;
    size_t                          len;
    uint32_t                        flags;
    unsigned                        json:1;
} ngx_http_sendfile_value_t;


/*
 * One get.  The caller fills in "key" (1..250 vetted bytes) and, for an
 * asynchronous store, "done" and "data", and keeps the memory until the end
 * of the operation.  "queue" and what follows it, but for "gone", is the
 * store's own.
 *
 * "generation" is 0, or changes whenever somebody has declared all that was
 * read before to be old: with another one than the last time a store answers
 * from what is there now, and not from a snapshot or a file that it has open.
 *
 * "substitute" says that the key's own server is down, and that another one
 * was asked: that this has nothing does not mean that the store has nothing.
 *
 * "server" is the one that was asked, of a store that has servers; NULL where
 * there are none.
 *
 * On NGX_ERROR "reason" says in a few words what failed (on NGX_DECLINED it
 * may say why there is nothing), "err" is an errno
 * or 0, and "detail" may hold an error text that is no errno.
 */

struct ngx_http_sendfile_op_s {
    ngx_str_t                       key;
    ngx_atomic_uint_t               generation;

    void                          (*done)(ngx_http_sendfile_op_t *op,
                                          ngx_int_t rc);
    void                           *data;

    ngx_http_sendfile_value_t       value;
    const char                     *reason;
    const char                     *detail;
    ngx_err_t                       err;
    ngx_str_t                      *server;
    unsigned                        substitute:1;

    /* on NGX_ERROR: the server was not asked, for it is down */
    unsigned                        down:1;

    /* set before get() to the store's; a store of servers sets the server's */
    uint64_t                       *counters;

    ngx_queue_t                     queue;
    void                           *ctx;
    uint64_t                        tag;
    ngx_msec_t                      start;

    /* not answered in the time that the server has for it, and counted */
    unsigned                        overdue:1;

    /* set by the caller before cancel(): nobody waits any more */
    unsigned                        gone:1;
};


/* where something stands in the configuration, for what is checked later */

typedef struct {
    u_char                         *file;
    ngx_uint_t                      line;
} ngx_http_sendfile_place_t;


/*
 * A directive of a store block, "name value;", that one kind of store has and
 * others do not.  One that is not given has a value of NULL.
 */

typedef struct {
    ngx_str_t                       name;
    ngx_str_t                       value;
    ngx_http_sendfile_place_t       place;
} ngx_http_sendfile_line_t;


/*
 * The servers of a store: those of a store block, or the one that a URL
 * names.  "name", which is of logs, and "ctx" are set by the store.
 */

typedef struct {
    nsf_url_t                       url;
    ngx_uint_t                      weight;
    ngx_uint_t                      max_fails;
    ngx_msec_t                      fail_timeout;

    ngx_str_t                       name;
    void                           *ctx;
} ngx_http_sendfile_server_conf_t;


typedef struct {
    ngx_http_sendfile_server_conf_t
                                   *servers;
    ngx_uint_t                      nservers;
    nsf_ring_e                      distribution;
    ngx_uint_t                      connections;
    ngx_msec_t                      connect_timeout;

    /* one for each of the type's "lines"; NULL: there is no block */
    ngx_http_sendfile_line_t       *lines;
} ngx_http_sendfile_servers_conf_t;


/* what holds where nothing is said of it */

#define ngx_http_sendfile_server_defaults(server)                             \
    (server)->weight = 1;                                                     \
    (server)->max_fails = 3;                                                  \
    (server)->fail_timeout = 1000

#define NGX_HTTP_SENDFILE_DISTRIBUTION     NSF_RING_DALLI
#define NGX_HTTP_SENDFILE_CONNECTIONS      1
#define NGX_HTTP_SENDFILE_CONNECT_TIMEOUT  100


typedef struct {
    ngx_str_t                       scheme;

    /*
     * What to write, for the messages of nginx -t: as a lookup, and as a
     * server of a store block; the latter is empty if server() is NULL.
     */
    ngx_str_t                       usage;
    ngx_str_t                       server_usage;

    /* get() may return NGX_AGAIN */
    ngx_uint_t                      async;  /* unsigned  async:1; */

    /*
     * Configuration time: checks the URL, sets store->ctx.  Returns
     * NGX_CONF_OK, a static text that says what to write instead, or
     * NGX_CONF_ERROR if that has been logged.  NULL: there is server().
     */
    char                         *(*create)(ngx_conf_t *cf,
                                            ngx_http_sendfile_store_t *store,
                                            nsf_url_t *url);

    /*
     * Configuration time, of a store that has servers: checks the URL of
     * one, sets its name and ctx.  NGX_DECLINED: the URL is not one of
     * server_usage; NGX_ERROR after a log line.  NULL: it has none, and no
     * blocks.
     */
    ngx_int_t                     (*server)(ngx_conf_t *cf,
                                       ngx_http_sendfile_server_conf_t *server);

    /* then: of all of them, sets store->ctx.  NGX_ERROR after a log line */
    ngx_int_t                     (*servers)(ngx_conf_t *cf,
                                        ngx_http_sendfile_store_t *store,
                                        ngx_http_sendfile_servers_conf_t *set);

    /* in a worker, after fork; errors are logged and tried again by get() */
    void                          (*init)(ngx_http_sendfile_store_t *store,
                                          ngx_log_t *log);

    /* in a worker, at its end */
    void                          (*exit)(ngx_http_sendfile_store_t *store);

    /*
     * NGX_OK: op->value is the answer, NGX_DECLINED: no such key,
     * NGX_ERROR: op->reason says why.  NGX_AGAIN: op->done() will be called
     * once with one of these, later and from the event loop, never from
     * inside get() or cancel().
     */
    ngx_int_t                     (*get)(ngx_http_sendfile_store_t *store,
                                         ngx_http_sendfile_op_t *op);

    /*
     * Nobody waits for the answer any more.  NGX_OK: the operation is
     * forgotten and done() will not be called; NGX_AGAIN: done() will be
     * called, with whatever comes.
     */
    ngx_int_t                     (*cancel)(ngx_http_sendfile_store_t *store,
                                            ngx_http_sendfile_op_t *op);

    /*
     * The names of the directives, of one parameter each, that its blocks
     * have beside those of all blocks, up to an empty one; NULL: none.
     */
    ngx_str_t                      *lines;
} ngx_http_sendfile_store_type_t;


struct ngx_http_sendfile_store_s {
    /* the URL or the name as written, and where it was first */
    ngx_str_t                       url;
    ngx_http_sendfile_place_t       place;

    /* of a name, which data it stands for; empty: the URL says it */
    ngx_str_t                       ident;

    /* NULL: a name whose block has not been read */
    ngx_http_sendfile_store_type_t *type;
    void                           *ctx;

    /* it has variants of Active Storage, by ID/DIGEST */
    ngx_uint_t                      variants; /* unsigned  variants:1; */

    /* of a store block; 0: the location's */
    ngx_msec_t                      timeout;

    /* the longest of any lookup, set before init() */
    ngx_msec_t                      max_timeout;

    /* of this worker: error lines about requests for it */
    ngx_http_sendfile_limit_t       limit;

    /* of the http block, set before init(); may be NULL */
    ngx_resolver_t                 *resolver;
    ngx_msec_t                      resolver_timeout;

    /* set before init(); NULL: nothing is counted */
    struct ngx_http_sendfile_stats_s
                                   *stats;

    /* set by an init() that gives each server's lookups their counters */
    ngx_uint_t                      by_server; /* unsigned  by_server:1; */

    /* set after init() */
    uint64_t                       *counters;
};


/*
 * The table of the stores that are built in, in the order in which messages
 * name them: NAME stands for ngx_http_sendfile_NAME_store.
 */

#define NGX_HTTP_SENDFILE_STORES(store)                                       \
    store(memcached)                                                          \
    store(lmdb)


#define ngx_http_sendfile_store_extern(name)                                  \
    extern ngx_http_sendfile_store_type_t  ngx_http_sendfile_##name##_store;

NGX_HTTP_SENDFILE_STORES(ngx_http_sendfile_store_extern)


#endif /* _NGX_HTTP_SENDFILE_STORE_H_INCLUDED_ */
