
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Learned answers whose time is over, and which a request of this worker is
 * asking the application for.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_learn.h"


#define NGX_HTTP_SENDFILE_LEARN_UPDATES  256

#define ngx_http_sendfile_learn_slot(learn)                                   \
    (&ngx_http_sendfile_learn_updates[(learn)->name.hash                      \
                                      % NGX_HTTP_SENDFILE_LEARN_UPDATES])


static void ngx_http_sendfile_learn_leave(ngx_http_sendfile_learn_t *learn);
static void ngx_http_sendfile_learn_woken(ngx_event_t *ev);
static ngx_uint_t ngx_http_sendfile_learn_same(nsf_shard_key_t *a,
    nsf_shard_key_t *b);


static ngx_queue_t
    ngx_http_sendfile_learn_updates[NGX_HTTP_SENDFILE_LEARN_UPDATES];


void
ngx_http_sendfile_learn_init_process(void)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_HTTP_SENDFILE_LEARN_UPDATES; i++) {
        ngx_queue_init(&ngx_http_sendfile_learn_updates[i]);
    }
}


ngx_http_sendfile_learn_t *
ngx_http_sendfile_learn_updater(ngx_http_sendfile_learn_t *learn)
{
    ngx_queue_t                *q, *slot;
    ngx_http_sendfile_learn_t  *other;

    slot = ngx_http_sendfile_learn_slot(learn);

    for (q = ngx_queue_head(slot);
         q != ngx_queue_sentinel(slot);
         q = ngx_queue_next(q))
    {
        other = ngx_queue_data(q, ngx_http_sendfile_learn_t, update);

        if (other->zone == learn->zone
            && ngx_http_sendfile_learn_same(&other->name, &learn->name))
        {
            return other;
        }
    }

    return NULL;
}


static ngx_uint_t
ngx_http_sendfile_learn_same(nsf_shard_key_t *a, nsf_shard_key_t *b)
{
    return a->hash == b->hash
           && a->key.len == b->key.len
           && a->scope.len == b->scope.len
           && ngx_memcmp(a->key.data, b->key.data, a->key.len) == 0
           && ngx_memcmp(a->scope.data, b->scope.data, a->scope.len) == 0;
}


void
ngx_http_sendfile_learn_update(ngx_http_sendfile_learn_t *learn)
{
    learn->updating = 1;

    ngx_queue_init(&learn->waiters);
    ngx_queue_insert_tail(ngx_http_sendfile_learn_slot(learn),
                          &learn->update);
}


/* the others go on in a turn of their own */

void
ngx_http_sendfile_learn_updated(ngx_http_sendfile_learn_t *learn)
{
    ngx_queue_t                *q;
    ngx_http_sendfile_learn_t  *waiter;

    if (!learn->updating) {
        return;
    }

    learn->updating = 0;

    ngx_queue_remove(&learn->update);

    while (!ngx_queue_empty(&learn->waiters)) {

        q = ngx_queue_head(&learn->waiters);
        waiter = ngx_queue_data(q, ngx_http_sendfile_learn_t, waiter);

        ngx_http_sendfile_learn_leave(waiter);

        waiter->waiting = 1;
        ngx_post_event(&waiter->event, &ngx_posted_events);
    }
}


ngx_int_t
ngx_http_sendfile_learn_wait(ngx_http_request_t *r,
    ngx_http_sendfile_learn_t *learn, ngx_http_sendfile_learn_t *updater)
{
    ngx_msec_t  now;

    now = ngx_current_msec;

    if (learn->deadline == 0) {
        learn->deadline = now + NGX_HTTP_SENDFILE_LEARN_WAIT;
    }

    if ((ngx_msec_int_t) (learn->deadline - now) <= 0) {
        return NGX_DECLINED;
    }

    if (ngx_http_sendfile_suspend(r) != NGX_OK) {
        return NGX_ERROR;
    }

    learn->waiting = 1;

    learn->event.handler = ngx_http_sendfile_learn_woken;
    learn->event.data = learn;
    learn->event.log = r->connection->log;
    learn->event.cancelable = 0;

    ngx_queue_insert_tail(&updater->waiters, &learn->waiter);
    ngx_add_timer(&learn->event, learn->deadline - now);

    return NGX_AGAIN;
}


/* out of the queue, and no event is to come */

static void
ngx_http_sendfile_learn_leave(ngx_http_sendfile_learn_t *learn)
{
    if (!learn->waiting) {
        return;
    }

    learn->waiting = 0;

    if (learn->event.posted) {
        /* has left the queue before */
        ngx_delete_posted_event(&learn->event);
        return;
    }

    ngx_queue_remove(&learn->waiter);

    if (learn->event.timer_set) {
        ngx_del_timer(&learn->event);
    }
}


static void
ngx_http_sendfile_learn_woken(ngx_event_t *ev)
{
    ngx_http_request_t         *r;
    ngx_http_sendfile_learn_t  *learn;

    learn = ev->data;
    r = learn->request;

    ngx_http_set_log_request(r->connection->log, r);

    if (ev->timedout) {
        ev->timedout = 0;
        ngx_queue_remove(&learn->waiter);
    }

    learn->waiting = 0;
    learn->woken = 1;

    ngx_http_sendfile_resume(r);
}


void
ngx_http_sendfile_learn_cleanup(void *data)
{
    ngx_http_sendfile_learn_t  *learn = data;

    ngx_http_sendfile_learn_leave(learn);

    ngx_http_sendfile_learn_updated(learn);
}
