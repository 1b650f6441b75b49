
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * A kept descriptor is used while the file itself (fstat) and, at times, its
 * path say that it would be opened again just so.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include <sys/resource.h>

#include "ngx_http_sendfile_descriptor.h"
#include "ngx_http_sendfile_ident.h"


#define NGX_HTTP_SENDFILE_KEPT_MAX      16384

/* for a worker's own: logs, channels, stores, listening sockets */

#define NGX_HTTP_SENDFILE_KEPT_RESERVE  128

/* milliseconds that one may be unused; how many are closed in one go */

#define NGX_HTTP_SENDFILE_KEPT_IDLE     60000
#define NGX_HTTP_SENDFILE_KEPT_BATCH    128
#define NGX_HTTP_SENDFILE_KEPT_PAUSE    10


/* one that is used by requests lives on without being in the table */

struct ngx_http_sendfile_kept_s {
    ngx_http_sendfile_kept_t  *next;
    ngx_http_sendfile_zone_t  *zone;
    nsf_shard_key_t            name;

    ngx_fd_t                   fd;
    ngx_http_sendfile_ident_t  ident;

    /* when the path was last looked at, and the clock before that */
    ngx_msec_t                 checked;
    ngx_atomic_uint_t          generation;

    ngx_queue_t                queue;
    ngx_msec_t                 used;
    ngx_uint_t                 requests;
    ngx_uint_t                 listed;     /* unsigned  listed:1; */
};


static ngx_http_sendfile_kept_t *ngx_http_sendfile_kept_find(
    ngx_http_sendfile_descriptor_t *d);
static ngx_http_sendfile_kept_t **ngx_http_sendfile_kept_chain(uint64_t hash);
static ngx_uint_t ngx_http_sendfile_kept_valid(ngx_http_sendfile_kept_t *kept,
    ngx_file_info_t *fi);
static void ngx_http_sendfile_kept_use(ngx_http_sendfile_descriptor_t *d,
    ngx_http_sendfile_kept_t *kept);
static void ngx_http_sendfile_kept_checked(ngx_http_sendfile_descriptor_t *d,
    ngx_http_sendfile_kept_t *kept);
static ngx_http_sendfile_kept_t *ngx_http_sendfile_kept_create(
    ngx_http_sendfile_descriptor_t *d);
static void ngx_http_sendfile_kept_remove(ngx_http_sendfile_kept_t *kept);
static void ngx_http_sendfile_kept_free(ngx_http_sendfile_kept_t *kept);
static void ngx_http_sendfile_kept_close(ngx_fd_t fd, nsf_shard_key_t *name);
static ngx_int_t ngx_http_sendfile_kept_init(void);
static ngx_uint_t ngx_http_sendfile_kept_limit(void);
static void ngx_http_sendfile_kept_expire(ngx_event_t *ev);


/*
 * Of this worker: chains by hash, their number a power of two, and a queue,
 * most recently used first.
 */

static ngx_http_sendfile_kept_t  **ngx_http_sendfile_kept;
static ngx_uint_t                  ngx_http_sendfile_kept_chains;
static ngx_queue_t                 ngx_http_sendfile_kept_queue;
static ngx_uint_t                  ngx_http_sendfile_nkept;
static ngx_uint_t                  ngx_http_sendfile_kept_max;

/* a log of its own, which drops what is written, and outlives every cycle */

static ngx_event_t                 ngx_http_sendfile_kept_timer;
static ngx_connection_t            ngx_http_sendfile_kept_dumb;
static ngx_log_t                   ngx_http_sendfile_kept_log;


ngx_int_t
ngx_http_sendfile_descriptor_get(ngx_http_sendfile_descriptor_t *d,
    ngx_msec_t check, ngx_file_t *file)
{
    ngx_http_sendfile_kept_t  *kept;

    ngx_http_sendfile_zone_hash(d->zone, &d->name);

    kept = ngx_http_sendfile_kept_find(d);

    if (kept == NULL) {
        return NGX_DECLINED;
    }

    if (kept->generation < d->moment.due
        || ngx_current_msec - kept->checked >= check)
    {
        return NGX_AGAIN;
    }

    if (!ngx_http_sendfile_kept_valid(kept, &file->info)) {
        ngx_http_sendfile_kept_remove(kept);
        return NGX_DECLINED;
    }

    file->fd = kept->fd;

    ngx_http_sendfile_kept_use(d, kept);

    return NGX_OK;
}


static ngx_http_sendfile_kept_t *
ngx_http_sendfile_kept_find(ngx_http_sendfile_descriptor_t *d)
{
    nsf_shard_key_t           *name;
    ngx_http_sendfile_kept_t  *kept;

    if (ngx_http_sendfile_nkept == 0) {
        return NULL;
    }

    name = &d->name;

    for (kept = *ngx_http_sendfile_kept_chain(name->hash);
         kept;
         kept = kept->next)
    {
        if (kept->name.hash == name->hash
            && kept->zone == d->zone
            && kept->name.scope.len == name->scope.len
            && kept->name.key.len == name->key.len
            && ngx_memcmp(kept->name.scope.data, name->scope.data,
                          name->scope.len)
               == 0
            && ngx_memcmp(kept->name.key.data, name->key.data, name->key.len)
               == 0)
        {
            return kept;
        }
    }

    return NULL;
}


static ngx_http_sendfile_kept_t **
ngx_http_sendfile_kept_chain(uint64_t hash)
{
    return &ngx_http_sendfile_kept[hash & (ngx_http_sendfile_kept_chains - 1)];
}


/*
 * Any change of the inode counts, for that may be one of its permissions, or
 * of the names that it has.
 */

static ngx_uint_t
ngx_http_sendfile_kept_valid(ngx_http_sendfile_kept_t *kept,
    ngx_file_info_t *fi)
{
    ngx_http_sendfile_ident_t  ident;

    if (ngx_fd_info(kept->fd, fi) == NGX_FILE_ERROR
        || fi->st_nlink == 0
        || !ngx_is_file(fi))
    {
        return 0;
    }

    ngx_http_sendfile_ident_set(&ident, fi);

    return ngx_http_sendfile_ident_same(&ident, &kept->ident);
}


static void
ngx_http_sendfile_kept_use(ngx_http_sendfile_descriptor_t *d,
    ngx_http_sendfile_kept_t *kept)
{
    ngx_queue_remove(&kept->queue);
    ngx_queue_insert_head(&ngx_http_sendfile_kept_queue, &kept->queue);

    kept->used = ngx_current_msec;
    kept->requests++;

    d->kept = kept;
}


ngx_int_t
ngx_http_sendfile_descriptor_keep(ngx_http_sendfile_descriptor_t *d,
    ngx_file_t *file)
{
    ngx_http_sendfile_kept_t  *kept;
    ngx_http_sendfile_ident_t  ident;

    ngx_http_sendfile_ident_set(&ident, &file->info);

    kept = ngx_http_sendfile_kept_find(d);

    if (kept && ngx_http_sendfile_ident_same(&ident, &kept->ident)) {
        ngx_http_sendfile_kept_close(file->fd, &kept->name);
        file->fd = kept->fd;

        ngx_http_sendfile_kept_checked(d, kept);
        ngx_http_sendfile_kept_use(d, kept);

        return NGX_DONE;
    }

    if (kept) {
        ngx_http_sendfile_kept_remove(kept);
    }

    kept = ngx_http_sendfile_kept_create(d);
    if (kept == NULL) {
        return NGX_DECLINED;
    }

    kept->fd = file->fd;
    kept->ident = ident;

    ngx_http_sendfile_kept_checked(d, kept);
    ngx_http_sendfile_kept_use(d, kept);

    return NGX_OK;
}


/* the path was looked at in this turn of the event loop */

static void
ngx_http_sendfile_kept_checked(ngx_http_sendfile_descriptor_t *d,
    ngx_http_sendfile_kept_t *kept)
{
    kept->checked = ngx_current_msec;
    kept->generation = d->moment.now;
}


/* a place in the table, if need be that of the one unused for longest */

static ngx_http_sendfile_kept_t *
ngx_http_sendfile_kept_create(ngx_http_sendfile_descriptor_t *d)
{
    u_char                     *p;
    ngx_queue_t                *q;
    ngx_http_sendfile_kept_t   *kept, **chain;

    if (ngx_http_sendfile_kept_init() != NGX_OK) {
        return NULL;
    }

    kept = ngx_alloc(sizeof(ngx_http_sendfile_kept_t)
                     + d->name.scope.len + d->name.key.len, ngx_cycle->log);
    if (kept == NULL) {
        return NULL;
    }

    if (ngx_http_sendfile_nkept == ngx_http_sendfile_kept_max) {
        q = ngx_queue_last(&ngx_http_sendfile_kept_queue);
        ngx_http_sendfile_kept_remove(
                           ngx_queue_data(q, ngx_http_sendfile_kept_t, queue));
    }

    ngx_memzero(kept, sizeof(ngx_http_sendfile_kept_t));

    kept->zone = d->zone;
    kept->name = d->name;

    p = (u_char *) kept + sizeof(ngx_http_sendfile_kept_t);
    kept->name.scope.data = p;
    p = ngx_cpymem(p, d->name.scope.data, d->name.scope.len);
    kept->name.key.data = p;
    ngx_memcpy(p, d->name.key.data, d->name.key.len);

    chain = ngx_http_sendfile_kept_chain(kept->name.hash);
    kept->next = *chain;
    *chain = kept;

    ngx_queue_insert_head(&ngx_http_sendfile_kept_queue, &kept->queue);
    kept->listed = 1;
    ngx_http_sendfile_nkept++;

    if (!ngx_http_sendfile_kept_timer.timer_set) {
        ngx_add_timer(&ngx_http_sendfile_kept_timer,
                      NGX_HTTP_SENDFILE_KEPT_IDLE);
    }

    return kept;
}


/* requests that send from it do so to their end */

static void
ngx_http_sendfile_kept_remove(ngx_http_sendfile_kept_t *kept)
{
    ngx_http_sendfile_kept_t  **p;

    p = ngx_http_sendfile_kept_chain(kept->name.hash);

    while (*p != kept) {
        p = &(*p)->next;
    }

    *p = kept->next;

    ngx_queue_remove(&kept->queue);
    kept->listed = 0;
    ngx_http_sendfile_nkept--;

    if (kept->requests == 0) {
        ngx_http_sendfile_kept_free(kept);
    }
}


void
ngx_http_sendfile_descriptor_release(void *data)
{
    ngx_http_sendfile_kept_t *kept = data;

    kept->requests--;

    if (kept->requests == 0 && !kept->listed) {
        ngx_http_sendfile_kept_free(kept);
    }
}


static void
ngx_http_sendfile_kept_free(ngx_http_sendfile_kept_t *kept)
{
    ngx_http_sendfile_kept_close(kept->fd, &kept->name);
    ngx_free(kept);
}


static void
ngx_http_sendfile_kept_close(ngx_fd_t fd, nsf_shard_key_t *name)
{
    if (ngx_close_file(fd) == NGX_FILE_ERROR) {
        ngx_log_error(NGX_LOG_ALERT, ngx_cycle->log, ngx_errno,
                      ngx_close_file_n " \"%*s\" failed",
                      name->key.len, name->key.data);
    }
}


void
ngx_http_sendfile_descriptor_forget(ngx_http_sendfile_descriptor_t *d)
{
    ngx_http_sendfile_kept_t  *kept;

    kept = ngx_http_sendfile_kept_find(d);

    if (kept) {
        ngx_http_sendfile_kept_remove(kept);
    }
}


ngx_uint_t
ngx_http_sendfile_descriptor_shrink(void)
{
    ngx_uint_t                 n;
    ngx_queue_t               *q, *prev;
    ngx_http_sendfile_kept_t  *kept;

    n = 0;

    if (ngx_http_sendfile_nkept == 0) {
        return n;
    }

    for (q = ngx_queue_last(&ngx_http_sendfile_kept_queue);
         q != ngx_queue_sentinel(&ngx_http_sendfile_kept_queue);
         q = prev)
    {
        prev = ngx_queue_prev(q);
        kept = ngx_queue_data(q, ngx_http_sendfile_kept_t, queue);

        if (kept->requests == 0) {
            ngx_http_sendfile_kept_remove(kept);
            n++;
        }
    }

    return n;
}


/* in the worker, that is, after worker_rlimit_nofile */

static ngx_int_t
ngx_http_sendfile_kept_init(void)
{
    if (ngx_http_sendfile_kept_chains == 0) {
        ngx_http_sendfile_kept_max = ngx_http_sendfile_kept_limit();

        ngx_http_sendfile_kept_chains = 1;

        while (ngx_http_sendfile_kept_chains < ngx_http_sendfile_kept_max) {
            ngx_http_sendfile_kept_chains *= 2;
        }

        ngx_queue_init(&ngx_http_sendfile_kept_queue);

        ngx_http_sendfile_kept_dumb.fd = (ngx_socket_t) -1;

        ngx_http_sendfile_kept_timer.data = &ngx_http_sendfile_kept_dumb;
        ngx_http_sendfile_kept_timer.handler = ngx_http_sendfile_kept_expire;
        ngx_http_sendfile_kept_timer.log = &ngx_http_sendfile_kept_log;

        /* a worker that is to exit does not wait for this timer */

        ngx_http_sendfile_kept_timer.cancelable = 1;
    }

    if (ngx_http_sendfile_kept_max == 0) {
        return NGX_DECLINED;
    }

    if (ngx_http_sendfile_kept == NULL) {
        ngx_http_sendfile_kept = ngx_calloc(
                                       ngx_http_sendfile_kept_chains
                                       * sizeof(ngx_http_sendfile_kept_t *),
                                       ngx_cycle->log);
        if (ngx_http_sendfile_kept == NULL) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/*
 * Each connection may need a descriptor for itself and one for a file of its
 * own; of the rest half is left to whatever else there is.
 */

static ngx_uint_t
ngx_http_sendfile_kept_limit(void)
{
    rlim_t         used;
    struct rlimit  rlmt;

    if (getrlimit(RLIMIT_NOFILE, &rlmt) == -1) {
        ngx_log_error(NGX_LOG_ALERT, ngx_cycle->log, ngx_errno,
                      "getrlimit(RLIMIT_NOFILE) failed, "
                      "no descriptors of files are kept");
        return 0;
    }

    used = 2 * (rlim_t) ngx_cycle->connection_n
           + NGX_HTTP_SENDFILE_KEPT_RESERVE;

    if (rlmt.rlim_cur <= used) {
        return 0;
    }

    /* RLIM_INFINITY is a large number */

    return ngx_min((rlmt.rlim_cur - used) / 2, NGX_HTTP_SENDFILE_KEPT_MAX);
}


/* an idle worker, too, lets go of files that have been deleted */

static void
ngx_http_sendfile_kept_expire(ngx_event_t *ev)
{
    ngx_uint_t                 n;
    ngx_msec_t                 unused;
    ngx_queue_t               *q;
    ngx_http_sendfile_kept_t  *kept;

    for (n = 0; ngx_http_sendfile_nkept; n++) {

        q = ngx_queue_last(&ngx_http_sendfile_kept_queue);
        kept = ngx_queue_data(q, ngx_http_sendfile_kept_t, queue);

        unused = ngx_current_msec - kept->used;

        if (unused < NGX_HTTP_SENDFILE_KEPT_IDLE) {
            ngx_add_timer(ev, NGX_HTTP_SENDFILE_KEPT_IDLE - unused
                              + NGX_HTTP_SENDFILE_KEPT_PAUSE);
            return;
        }

        if (n == NGX_HTTP_SENDFILE_KEPT_BATCH) {
            ngx_add_timer(ev, NGX_HTTP_SENDFILE_KEPT_PAUSE);
            return;
        }

        ngx_http_sendfile_kept_remove(kept);
    }
}
