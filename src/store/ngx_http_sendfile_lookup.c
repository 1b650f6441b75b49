
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Lookups in flight of this worker.  Requests for the same key, store and
 * time limit share one, unless a purge has come in between.  A lookup lives in
 * its own memory, for the store may hold its operation longer than any request
 * does:
 *
 *     start --> PENDING -- answer ----> every waiter told, freed
 *                  |------ deadline --> every waiter told,
 *                  |                    operation cancelled --> freed, or
 *                  `------ last waiter  GONE until the store lets go of it
 *                          cancelled --^
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "ngx_http_sendfile_lookup.h"
#include "ngx_http_sendfile_stats.h"


/* nginx 1.23.4 */

#ifndef ngx_rbtree_data
#define ngx_rbtree_data(node, type, link)                                     \
    (type *) ((u_char *) (node) - offsetof(type, link))
#endif


typedef enum {
    NGX_HTTP_SENDFILE_LOOKUP_PENDING = 0,
    NGX_HTTP_SENDFILE_LOOKUP_TELLING,
    NGX_HTTP_SENDFILE_LOOKUP_GONE
} ngx_http_sendfile_lookup_state_e;


struct ngx_http_sendfile_lookup_s {
    ngx_rbtree_node_t                 node;
    ngx_http_sendfile_op_t            op;
    ngx_http_sendfile_store_t        *store;
    ngx_queue_t                       waiters;
    ngx_event_t                       timer;
    ngx_msec_t                        timeout;
    uint64_t                          began;
    ngx_http_sendfile_lookup_state_e  state;

    /* others may join it */
    ngx_uint_t                        listed;  /* unsigned  listed:1; */
    u_char                            key[NSF_MAX_KEY];
};


static ngx_http_sendfile_lookup_t *ngx_http_sendfile_lookup_find(
    ngx_http_sendfile_store_t *store, ngx_str_t *key, ngx_msec_t timeout,
    ngx_http_sendfile_waiter_t *w, uint32_t hash);
static ngx_http_sendfile_lookup_t *ngx_http_sendfile_lookup_create(
    ngx_http_sendfile_store_t *store, ngx_str_t *key, ngx_msec_t timeout,
    ngx_http_sendfile_waiter_t *w, uint32_t hash);
static void ngx_http_sendfile_lookup_free(ngx_http_sendfile_lookup_t *l);
static void ngx_http_sendfile_lookup_insert(ngx_rbtree_node_t *temp,
    ngx_rbtree_node_t *node, ngx_rbtree_node_t *sentinel);
static ngx_int_t ngx_http_sendfile_lookup_cmp(ngx_http_sendfile_lookup_t *l,
    ngx_http_sendfile_store_t *store, ngx_str_t *key, ngx_msec_t timeout);
static void ngx_http_sendfile_lookup_result(ngx_http_sendfile_op_t *op,
    ngx_int_t rc, ngx_http_sendfile_result_t *res);
static void ngx_http_sendfile_lookup_count(ngx_http_sendfile_op_t *op,
    ngx_int_t rc, uint64_t began);
static void ngx_http_sendfile_lookup_done(ngx_http_sendfile_op_t *op,
    ngx_int_t rc);
static void ngx_http_sendfile_lookup_timeout(ngx_event_t *ev);
static void ngx_http_sendfile_lookup_tell(ngx_http_sendfile_lookup_t *l,
    ngx_http_sendfile_result_t *res);
static void ngx_http_sendfile_lookup_leave(ngx_http_sendfile_lookup_t *l);
static void ngx_http_sendfile_lookup_unlist(ngx_http_sendfile_lookup_t *l);
static void ngx_http_sendfile_lookup_abandon(ngx_http_sendfile_lookup_t *l);


/* how many ended lookups keep their memory, to be used again */

#define NGX_HTTP_SENDFILE_LOOKUPS_FREE  1024


static ngx_rbtree_t       ngx_http_sendfile_lookups;
static ngx_rbtree_node_t  ngx_http_sendfile_lookups_sentinel;

static ngx_http_sendfile_lookup_t  *ngx_http_sendfile_lookups_free;
static ngx_uint_t                   ngx_http_sendfile_lookups_nfree;


void
ngx_http_sendfile_lookup_init_process(void)
{
    ngx_rbtree_init(&ngx_http_sendfile_lookups,
                    &ngx_http_sendfile_lookups_sentinel,
                    ngx_http_sendfile_lookup_insert);
}


ngx_int_t
ngx_http_sendfile_lookup(ngx_http_sendfile_store_t *store, ngx_str_t *key,
    ngx_msec_t timeout, ngx_http_sendfile_waiter_t *w,
    ngx_http_sendfile_result_t *res)
{
    uint32_t                     hash;
    uint64_t                     began;
    ngx_int_t                    rc;
    ngx_http_sendfile_op_t       op;
    ngx_http_sendfile_lookup_t  *l;

    if (!store->type->async) {
        ngx_memzero(&op, sizeof(ngx_http_sendfile_op_t));
        op.key = *key;
        op.generation = w->generation;
        op.counters = store->counters;

        began = ngx_http_sendfile_stats_now(store->counters);

        rc = store->type->get(store, &op);

        ngx_http_sendfile_lookup_count(&op, rc, began);
        ngx_http_sendfile_lookup_result(&op, rc, res);
        res->generation = w->generation;
        return NGX_OK;
    }

    hash = ngx_crc32_short(key->data, key->len);

    l = ngx_http_sendfile_lookup_find(store, key, timeout, w, hash);

    if (l == NULL) {
        l = ngx_http_sendfile_lookup_create(store, key, timeout, w, hash);
        if (l == NULL) {
            return NGX_ERROR;
        }

        rc = store->type->get(store, &l->op);

        if (rc != NGX_AGAIN) {
            ngx_http_sendfile_lookup_count(&l->op, rc, l->began);
            ngx_http_sendfile_lookup_result(&l->op, rc, res);
            res->generation = w->generation;
            ngx_http_sendfile_lookup_free(l);
            return NGX_OK;
        }

        ngx_rbtree_insert(&ngx_http_sendfile_lookups, &l->node);
        l->listed = 1;
        ngx_add_timer(&l->timer, timeout);

    } else {
        ngx_http_sendfile_stats_add(l->op.counters,
                                    NGX_HTTP_SENDFILE_STATS_JOINED, 1);
    }

    w->lookup = l;
    ngx_queue_insert_tail(&l->waiters, &w->queue);

    return NGX_AGAIN;
}


ngx_uint_t
ngx_http_sendfile_lookup_pending(ngx_http_sendfile_store_t *store,
    ngx_str_t *key, ngx_msec_t timeout, ngx_http_sendfile_waiter_t *w)
{
    uint32_t  hash;

    if (!store->type->async) {
        return 0;
    }

    hash = ngx_crc32_short(key->data, key->len);

    return ngx_http_sendfile_lookup_find(store, key, timeout, w, hash)
           != NULL;
}


void
ngx_http_sendfile_lookup_cancel(ngx_http_sendfile_waiter_t *w)
{
    ngx_http_sendfile_lookup_t  *l;

    l = w->lookup;

    if (l == NULL) {
        return;
    }

    w->lookup = NULL;
    ngx_queue_remove(&w->queue);

    if (l->state == NGX_HTTP_SENDFILE_LOOKUP_PENDING
        && ngx_queue_empty(&l->waiters))
    {
        ngx_http_sendfile_stats_lookup(l->op.counters,
                                       NGX_HTTP_SENDFILE_STATS_CANCELLED, 0);
        ngx_http_sendfile_lookup_leave(l);
        ngx_http_sendfile_lookup_abandon(l);
    }
}


static ngx_http_sendfile_lookup_t *
ngx_http_sendfile_lookup_find(ngx_http_sendfile_store_t *store, ngx_str_t *key,
    ngx_msec_t timeout, ngx_http_sendfile_waiter_t *w, uint32_t hash)
{
    ngx_int_t                    rc;
    ngx_rbtree_node_t           *node, *sentinel;
    ngx_http_sendfile_lookup_t  *l;

    node = ngx_http_sendfile_lookups.root;
    sentinel = ngx_http_sendfile_lookups.sentinel;

    while (node != sentinel) {

        if (hash != node->key) {
            node = (hash < node->key) ? node->left : node->right;
            continue;
        }

        l = ngx_rbtree_data(node, ngx_http_sendfile_lookup_t, node);

        rc = ngx_http_sendfile_lookup_cmp(l, store, key, timeout);

        if (rc == 0) {

            if (l->op.generation >= w->due) {
                return l;
            }

            /* it began before a purge: its reply is old for a new waiter */

            ngx_http_sendfile_lookup_unlist(l);

            return NULL;
        }

        node = (rc < 0) ? node->left : node->right;
    }

    return NULL;
}


static ngx_http_sendfile_lookup_t *
ngx_http_sendfile_lookup_create(ngx_http_sendfile_store_t *store,
    ngx_str_t *key, ngx_msec_t timeout, ngx_http_sendfile_waiter_t *w,
    uint32_t hash)
{
    ngx_http_sendfile_lookup_t  *l;

    l = ngx_http_sendfile_lookups_free;

    if (l) {
        ngx_http_sendfile_lookups_free = l->op.data;
        ngx_http_sendfile_lookups_nfree--;

    } else {
        l = ngx_alloc(sizeof(ngx_http_sendfile_lookup_t), ngx_cycle->log);
        if (l == NULL) {
            return NULL;
        }
    }

    ngx_memzero(l, offsetof(ngx_http_sendfile_lookup_t, key));
    ngx_memcpy(l->key, key->data, key->len);

    l->node.key = hash;
    l->store = store;
    l->timeout = timeout;
    ngx_queue_init(&l->waiters);

    /* not cancelable: a worker that exits must still answer its requests */
    l->timer.handler = ngx_http_sendfile_lookup_timeout;
    l->timer.data = l;
    l->timer.log = ngx_cycle->log;

    l->op.key.data = l->key;
    l->op.key.len = key->len;
    l->op.generation = w->generation;
    l->op.done = ngx_http_sendfile_lookup_done;
    l->op.data = l;

    l->op.counters = store->counters;
    l->began = store->stats ? ngx_http_sendfile_stats_clock() : 0;

    return l;
}


static void
ngx_http_sendfile_lookup_free(ngx_http_sendfile_lookup_t *l)
{
    if (ngx_http_sendfile_lookups_nfree == NGX_HTTP_SENDFILE_LOOKUPS_FREE) {
        ngx_free(l);
        return;
    }

    l->op.data = ngx_http_sendfile_lookups_free;
    ngx_http_sendfile_lookups_free = l;
    ngx_http_sendfile_lookups_nfree++;
}


static void
ngx_http_sendfile_lookup_insert(ngx_rbtree_node_t *temp,
    ngx_rbtree_node_t *node, ngx_rbtree_node_t *sentinel)
{
    ngx_rbtree_node_t           **p;
    ngx_http_sendfile_lookup_t   *l, *t;

    l = ngx_rbtree_data(node, ngx_http_sendfile_lookup_t, node);

    for ( ;; ) {

        if (node->key != temp->key) {
            p = (node->key < temp->key) ? &temp->left : &temp->right;

        } else {
            t = ngx_rbtree_data(temp, ngx_http_sendfile_lookup_t, node);

            p = (ngx_http_sendfile_lookup_cmp(t, l->store, &l->op.key,
                                              l->timeout)
                 < 0)
                ? &temp->left : &temp->right;
        }

        if (*p == sentinel) {
            break;
        }

        temp = *p;
    }

    *p = node;
    node->parent = temp;
    node->left = sentinel;
    node->right = sentinel;
    ngx_rbt_red(node);
}


/* the sign of (store, timeout, key) compared with the lookup's */

static ngx_int_t
ngx_http_sendfile_lookup_cmp(ngx_http_sendfile_lookup_t *l,
    ngx_http_sendfile_store_t *store, ngx_str_t *key, ngx_msec_t timeout)
{
    if (store != l->store) {
        return (store < l->store) ? -1 : 1;
    }

    if (timeout != l->timeout) {
        return (timeout < l->timeout) ? -1 : 1;
    }

    return ngx_memn2cmp(key->data, l->op.key.data, key->len, l->op.key.len);
}


static void
ngx_http_sendfile_lookup_result(ngx_http_sendfile_op_t *op, ngx_int_t rc,
    ngx_http_sendfile_result_t *res)
{
    res->rc = rc;
    res->value = op->value;
    res->reason = op->reason;
    res->detail = op->detail;
    res->err = op->err;
    res->server = op->server;
    res->substitute = op->substitute;
}


static void
ngx_http_sendfile_lookup_count(ngx_http_sendfile_op_t *op, ngx_int_t rc,
    uint64_t began)
{
    ngx_http_sendfile_stats_outcome_e  outcome;

    switch (rc) {

    case NGX_OK:
        outcome = NGX_HTTP_SENDFILE_STATS_HIT;
        break;

    case NGX_DECLINED:
        outcome = NGX_HTTP_SENDFILE_STATS_MISS;
        break;

    case NGX_HTTP_SENDFILE_TIMEDOUT:
        outcome = NGX_HTTP_SENDFILE_STATS_TIMEOUT;
        break;

    default: /* NGX_ERROR */
        outcome = op->down ? NGX_HTTP_SENDFILE_STATS_DOWN
                           : NGX_HTTP_SENDFILE_STATS_ERROR;
    }

    ngx_http_sendfile_stats_lookup(op->counters, outcome, began);
}


static void
ngx_http_sendfile_lookup_done(ngx_http_sendfile_op_t *op, ngx_int_t rc)
{
    ngx_http_sendfile_lookup_t  *l;
    ngx_http_sendfile_result_t   res;

    l = op->data;

    if (l->state == NGX_HTTP_SENDFILE_LOOKUP_GONE) {
        ngx_http_sendfile_lookup_free(l);
        return;
    }

    ngx_http_sendfile_lookup_leave(l);
    ngx_http_sendfile_lookup_count(op, rc, l->began);

    ngx_http_sendfile_lookup_result(op, rc, &res);
    ngx_http_sendfile_lookup_tell(l, &res);

    ngx_http_sendfile_lookup_free(l);
}


static void
ngx_http_sendfile_lookup_timeout(ngx_event_t *ev)
{
    ngx_http_sendfile_lookup_t  *l;
    ngx_http_sendfile_result_t   res;

    l = ev->data;

    ngx_http_sendfile_lookup_leave(l);
    ngx_http_sendfile_lookup_count(&l->op, NGX_HTTP_SENDFILE_TIMEDOUT,
                                   l->began);

    ngx_memzero(&res, sizeof(ngx_http_sendfile_result_t));
    res.rc = NGX_HTTP_SENDFILE_TIMEDOUT;
    res.reason = "lookup timed out";
    res.server = l->op.server;

    ngx_http_sendfile_lookup_tell(l, &res);
    ngx_http_sendfile_lookup_abandon(l);
}


/*
 * Any handler may end its request, and with it other waiters of this very
 * lookup, so the queue is read anew each time.
 */

static void
ngx_http_sendfile_lookup_tell(ngx_http_sendfile_lookup_t *l,
    ngx_http_sendfile_result_t *res)
{
    ngx_queue_t                 *q;
    ngx_http_sendfile_waiter_t  *w;

    l->state = NGX_HTTP_SENDFILE_LOOKUP_TELLING;
    res->generation = l->op.generation;

    while (!ngx_queue_empty(&l->waiters)) {
        q = ngx_queue_head(&l->waiters);
        w = ngx_queue_data(q, ngx_http_sendfile_waiter_t, queue);

        ngx_queue_remove(q);
        w->lookup = NULL;

        w->handler(w, res);
    }
}


/* no request can join it from here on; its timer is deleted */

static void
ngx_http_sendfile_lookup_leave(ngx_http_sendfile_lookup_t *l)
{
    ngx_http_sendfile_lookup_unlist(l);

    if (l->timer.timer_set) {
        ngx_del_timer(&l->timer);
    }
}


static void
ngx_http_sendfile_lookup_unlist(ngx_http_sendfile_lookup_t *l)
{
    if (l->listed) {
        l->listed = 0;
        ngx_rbtree_delete(&ngx_http_sendfile_lookups, &l->node);
    }
}


static void
ngx_http_sendfile_lookup_abandon(ngx_http_sendfile_lookup_t *l)
{
    l->state = NGX_HTTP_SENDFILE_LOOKUP_GONE;
    l->op.gone = 1;

    if (l->store->type->cancel(l->store, &l->op) == NGX_OK) {
        ngx_http_sendfile_lookup_free(l);
    }
}
