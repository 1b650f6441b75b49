
/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_sendfile_recent.h"


/* IDs of failures that a process writes at once; then one a second */

#define NGX_HTTP_SENDFILE_RECENT_WRITES   16

/* requests of a process that are all looked at; one more each few seconds */

#define NGX_HTTP_SENDFILE_RECENT_EACH     64
#define NGX_HTTP_SENDFILE_RECENT_AGAIN    16

/* then one of so many, so that these are that many a second */

#define NGX_HTTP_SENDFILE_RECENT_ONE_OF   64
#define NGX_HTTP_SENDFILE_RECENT_SPARSE   65536
#define NGX_HTTP_SENDFILE_RECENT_SAMPLES  8

/* of "count": the count itself, and the number of the row's taking over */

#define NGX_HTTP_SENDFILE_RECENT_BITS     48
#define NGX_HTTP_SENDFILE_RECENT_COUNT                                        \
    (((uint64_t) 1 << NGX_HTTP_SENDFILE_RECENT_BITS) - 1)


static ngx_http_sendfile_recent_known_t *ngx_http_sendfile_recent_known(
    ngx_http_sendfile_recent_t *recent, ngx_http_sendfile_failed_t *failed);
static ngx_int_t ngx_http_sendfile_recent_count(
    ngx_http_sendfile_recent_failure_t *row, uint64_t hash, uint64_t *turn);
static ngx_http_sendfile_recent_failure_t *ngx_http_sendfile_recent_find(
    ngx_http_sendfile_recent_sh_t *sh, uint64_t hash, uint64_t *turn);
static ngx_http_sendfile_recent_failure_t *ngx_http_sendfile_recent_make(
    ngx_http_sendfile_stats_t *stats, ngx_http_sendfile_failed_t *failed,
    uint64_t hash, uint64_t *turn);
static void ngx_http_sendfile_recent_void(
    ngx_http_sendfile_recent_failure_t *row,
    ngx_http_sendfile_stats_t *stats, ngx_http_sendfile_failed_t *failed,
    uint64_t hash);
static void ngx_http_sendfile_recent_touch(ngx_http_sendfile_stats_t *stats,
    ngx_http_sendfile_recent_failure_t *row, uint64_t turn,
    ngx_http_sendfile_failed_t *failed);
static void ngx_http_sendfile_recent_tick(ngx_http_sendfile_recent_t *recent);
static void ngx_http_sendfile_recent_skip(ngx_http_sendfile_recent_t *recent);
static void ngx_http_sendfile_recent_keep(ngx_http_sendfile_recent_id_t *kept,
    ngx_str_t *id);
static void ngx_http_sendfile_recent_text(
    ngx_http_sendfile_recent_text_t *kept, const void *data, size_t len);
static uint64_t ngx_http_sendfile_recent_now(void);
static int ngx_libc_cdecl ngx_http_sendfile_recent_latest(const void *one,
    const void *two);


#define ngx_http_sendfile_recent_turn(count)                                  \
    ((count) >> NGX_HTTP_SENDFILE_RECENT_BITS)


void
ngx_http_sendfile_recent_failed(ngx_http_sendfile_stats_t *stats,
    ngx_http_sendfile_failed_t *failed)
{
    uint64_t                             hash, turn;
    ngx_http_sendfile_recent_t          *recent;
    ngx_http_sendfile_recent_known_t    *known;
    ngx_http_sendfile_recent_failure_t  *row;

    if (stats == NULL || failed->reason == NULL) {
        return;
    }

    recent = ngx_http_sendfile_stats_recent(stats);

    known = ngx_http_sendfile_recent_known(recent, failed);

    if (known && known->row) {
        row = known->row;
        turn = known->turn;

        if (ngx_http_sendfile_recent_count(row, 0, &turn) == NGX_OK) {
            ngx_http_sendfile_recent_touch(stats, row, turn, failed);
            return;
        }
    }

    hash = ngx_http_sendfile_stats_number(stats, failed->location) + 1;
    hash = (hash << 32) + ((uint64_t) failed->err << 8) + failed->kind;

    hash = nsf_top_hash(hash, failed->reason, ngx_strlen(failed->reason));

    if (failed->detail) {
        hash = nsf_top_hash(hash, failed->detail, ngx_strlen(failed->detail));
    }

    if (failed->store) {
        hash = nsf_top_hash(hash, failed->store->data, failed->store->len);
    }

    if (failed->server) {
        hash = nsf_top_hash(hash, failed->server->data, failed->server->len);
    }

    row = ngx_http_sendfile_recent_find(recent->sh, hash, &turn);

    if (row == NULL) {
        row = ngx_http_sendfile_recent_make(stats, failed, hash, &turn);

        if (row == NULL) {
            return;
        }
    }

    if (known) {
        known->location = failed->location;
        known->reason = failed->reason;
        known->store = failed->store;
        known->server = failed->server;
        known->kind = failed->kind;
        known->err = failed->err;
        known->turn = turn;
        known->row = row;
    }

    ngx_http_sendfile_recent_touch(stats, row, turn, failed);
}


/*
 * The place of a row in the process's own table, with the row if it is this
 * one's; NULL: what tells rows apart is not all constant.
 */

static ngx_http_sendfile_recent_known_t *
ngx_http_sendfile_recent_known(ngx_http_sendfile_recent_t *recent,
    ngx_http_sendfile_failed_t *failed)
{
    ngx_uint_t                         i;
    ngx_http_sendfile_recent_known_t  *known;

    if (failed->detail) {
        return NULL;
    }

    i = ((uintptr_t) failed->reason >> 3) ^ ((uintptr_t) failed->location >> 6)
        ^ ((uintptr_t) failed->server >> 4);

    known = &recent->known[i & (NGX_HTTP_SENDFILE_RECENT_KNOWN - 1)];

    if (known->location != failed->location
        || known->reason != failed->reason
        || known->store != failed->store
        || known->server != failed->server
        || known->kind != failed->kind
        || known->err != failed->err)
    {
        known->row = NULL;
    }

    return known;
}


/*
 * One more in a row.  With a hash of 0 it is to be the row of "*turn", which
 * is set else.  NGX_DECLINED: it is another's now.
 */

static ngx_int_t
ngx_http_sendfile_recent_count(ngx_http_sendfile_recent_failure_t *row,
    uint64_t hash, uint64_t *turn)
{
    uint64_t  old;

    old = __atomic_load_n(&row->count, __ATOMIC_ACQUIRE);

    if (hash) {

        /* count before hash: a row that is taken over has another count */

        if (__atomic_load_n(&row->hash, __ATOMIC_ACQUIRE) != hash) {
            return NGX_DECLINED;
        }

        *turn = ngx_http_sendfile_recent_turn(old);
    }

    while (ngx_http_sendfile_recent_turn(old) == *turn) {

        if ((old & NGX_HTTP_SENDFILE_RECENT_COUNT)
            == NGX_HTTP_SENDFILE_RECENT_COUNT
            || __atomic_compare_exchange_n(&row->count, &old, old + 1, 0,
                                           __ATOMIC_ACQ_REL,
                                           __ATOMIC_ACQUIRE))
        {
            return NGX_OK;
        }
    }

    return NGX_DECLINED;
}


/* the row, in which it has been counted; NULL: there is none */

static ngx_http_sendfile_recent_failure_t *
ngx_http_sendfile_recent_find(ngx_http_sendfile_recent_sh_t *sh, uint64_t hash,
    uint64_t *turn)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_HTTP_SENDFILE_RECENT_FAILURES; i++) {

        if (ngx_http_sendfile_recent_count(&sh->failures[i], hash, turn)
            == NGX_OK)
        {
            return &sh->failures[i];
        }
    }

    return NULL;
}


/* in place of that which was last seen before all others; the same */

static ngx_http_sendfile_recent_failure_t *
ngx_http_sendfile_recent_make(ngx_http_sendfile_stats_t *stats,
    ngx_http_sendfile_failed_t *failed, uint64_t hash, uint64_t *turn)
{
    uint64_t                             last, oldest;
    ngx_uint_t                           i;
    ngx_http_sendfile_recent_sh_t       *sh;
    ngx_http_sendfile_recent_failure_t  *row;

    if (ngx_http_sendfile_stats_lock(stats) != NGX_OK) {
        return NULL;
    }

    sh = ngx_http_sendfile_stats_recent(stats)->sh;

    /* another process may have made it */

    row = ngx_http_sendfile_recent_find(sh, hash, turn);

    if (row == NULL) {
        oldest = (uint64_t) -1;

        for (i = 0; i < NGX_HTTP_SENDFILE_RECENT_FAILURES; i++) {

            last = sh->failures[i].hash
                   ? __atomic_load_n(&sh->failures[i].last, __ATOMIC_RELAXED)
                   : 0;

            if (row == NULL || last < oldest) {
                oldest = last;
                row = &sh->failures[i];
            }
        }

        ngx_http_sendfile_recent_void(row, stats, failed, hash);
        *turn = ngx_http_sendfile_recent_turn(row->count);
    }

    ngx_http_sendfile_stats_unlock(stats);

    return row;
}


/* with the lock: the row becomes this one's, and has no ID yet */

static void
ngx_http_sendfile_recent_void(ngx_http_sendfile_recent_failure_t *row,
    ngx_http_sendfile_stats_t *stats, ngx_http_sendfile_failed_t *failed,
    uint64_t hash)
{
    uint64_t  turn;

    turn = ngx_http_sendfile_recent_turn(row->count) + 1;

    __atomic_store_n(&row->hash, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&row->count,
                     (turn << NGX_HTTP_SENDFILE_RECENT_BITS) + 1,
                     __ATOMIC_SEQ_CST);

    row->first = ngx_http_sendfile_recent_now();
    row->last = row->first;
    row->location = ngx_http_sendfile_stats_number(stats, failed->location);
    row->kind = failed->kind;
    row->err = failed->err;
    row->status = failed->status;
    row->id.len = 0;
    row->id.cut = 0;

    ngx_http_sendfile_recent_text(&row->reason, failed->reason,
                                  ngx_strlen(failed->reason));
    ngx_http_sendfile_recent_text(&row->detail, failed->detail,
                                  failed->detail ? ngx_strlen(failed->detail)
                                                 : 0);
    ngx_http_sendfile_recent_text(&row->store,
                                  failed->store ? failed->store->data : NULL,
                                  failed->store ? failed->store->len : 0);
    ngx_http_sendfile_recent_text(&row->server,
                                  failed->server ? failed->server->data : NULL,
                                  failed->server ? failed->server->len : 0);

    __atomic_store_n(&row->hash, hash, __ATOMIC_RELEASE);
}


/* what is of the last one only */

static void
ngx_http_sendfile_recent_touch(ngx_http_sendfile_stats_t *stats,
    ngx_http_sendfile_recent_failure_t *row, uint64_t turn,
    ngx_http_sendfile_failed_t *failed)
{
    ngx_http_sendfile_recent_t  *recent;

    __atomic_store_n(&row->last, ngx_http_sendfile_recent_now(),
                     __ATOMIC_RELAXED);
    __atomic_store_n(&row->status, (uint32_t) failed->status,
                     __ATOMIC_RELAXED);

    if (failed->id == NULL) {
        return;
    }

    recent = ngx_http_sendfile_stats_recent(stats);

    if (recent->wrote != ngx_time()) {
        recent->left = ngx_min(recent->left + (ngx_time() - recent->wrote),
                               NGX_HTTP_SENDFILE_RECENT_WRITES);
        recent->wrote = ngx_time();
    }

    if (recent->left == 0
        || ngx_http_sendfile_stats_trylock(stats) != NGX_OK)
    {
        return;
    }

    recent->left--;

    if (ngx_http_sendfile_recent_turn(row->count) == turn) {
        ngx_http_sendfile_recent_keep(&row->id, failed->id);
    }

    ngx_http_sendfile_stats_unlock(stats);
}


void
ngx_http_sendfile_recent_sample(ngx_http_sendfile_stats_t *stats,
    uint64_t *location, ngx_str_t *id)
{
    nsf_str_t                    name;
    uint64_t                     weight;
    ngx_http_sendfile_recent_t  *recent;

    recent = ngx_http_sendfile_stats_recent(stats);

    if (recent->second != ngx_time()) {
        ngx_http_sendfile_recent_tick(recent);
    }

    if (recent->seen < recent->next) {
        return;
    }

    weight = recent->seen - recent->last;
    recent->last = recent->seen;

    if (recent->each) {
        recent->each--;
        recent->next = recent->seen + 1;

    } else {
        ngx_http_sendfile_recent_skip(recent);
    }

    if (ngx_http_sendfile_stats_trylock(stats) != NGX_OK) {
        return;
    }

    name.data = id->data;
    name.len = id->len;

    nsf_top_add(&recent->sh->top,
                ngx_http_sendfile_stats_number(stats, location), &name,
                weight, ngx_time());

    ngx_http_sendfile_stats_unlock(stats);
}


/* another second: how many requests there are, and what comes next */

static void
ngx_http_sendfile_recent_tick(ngx_http_sendfile_recent_t *recent)
{
    time_t    now, passed;
    uint64_t  interval;

    now = ngx_time();
    passed = ngx_max(now - recent->second, 1);

    if (recent->second == 0) {
        recent->each = NGX_HTTP_SENDFILE_RECENT_EACH;
        recent->added = now;
    }

    interval = (recent->seen - recent->before) / passed
               / NGX_HTTP_SENDFILE_RECENT_SAMPLES;

    interval = ngx_max(interval, NGX_HTTP_SENDFILE_RECENT_ONE_OF);
    recent->interval = ngx_min(interval, NGX_HTTP_SENDFILE_RECENT_SPARSE);

    recent->second = now;
    recent->before = recent->seen;

    passed = (now - recent->added) / NGX_HTTP_SENDFILE_RECENT_AGAIN;

    if (passed) {
        recent->added = now;

        if (passed > 0) {
            recent->each = ngx_min(recent->each + (ngx_uint_t) passed,
                                   NGX_HTTP_SENDFILE_RECENT_EACH);
        }
    }

    if (recent->each) {
        recent->next = recent->seen;

    } else if (recent->next > recent->seen + 2 * recent->interval) {

        /* there are fewer requests than there were */

        ngx_http_sendfile_recent_skip(recent);
    }
}


/* at random, or it might go in step with what is asked for */

static void
ngx_http_sendfile_recent_skip(ngx_http_sendfile_recent_t *recent)
{
    recent->next = recent->seen + 1
                   + (uint64_t) ngx_random() % (2 * recent->interval - 1);
}


static void
ngx_http_sendfile_recent_keep(ngx_http_sendfile_recent_id_t *kept,
    ngx_str_t *id)
{
    size_t  len;

    kept->len = 0;
    ngx_memory_barrier();

    len = ngx_min(id->len, NGX_HTTP_SENDFILE_RECENT_ID);

    if (len) {
        ngx_memcpy(kept->data, id->data, len);
    }

    kept->cut = (len < id->len);

    ngx_memory_barrier();
    kept->len = (uint32_t) len;
}


static void
ngx_http_sendfile_recent_text(ngx_http_sendfile_recent_text_t *kept,
    const void *data, size_t len)
{
    kept->len = (uint32_t) ngx_min(len, NGX_HTTP_SENDFILE_RECENT_TEXT);

    if (kept->len) {
        ngx_memcpy(kept->data, data, kept->len);
    }
}


static uint64_t
ngx_http_sendfile_recent_now(void)
{
    ngx_time_t  *tp;

    tp = ngx_timeofday();

    return (uint64_t) tp->sec * 1000000 + tp->msec * 1000;
}


ngx_uint_t
ngx_http_sendfile_recent_failures(ngx_http_sendfile_stats_t *stats,
    ngx_http_sendfile_recent_failure_t *copy)
{
    ngx_int_t                            rc;
    ngx_uint_t                           i, n;
    ngx_http_sendfile_recent_sh_t       *sh;
    ngx_http_sendfile_recent_failure_t  *row;

    sh = ngx_http_sendfile_stats_recent(stats)->sh;

    /* without the lock, of a row that is being written, two may be mixed */

    rc = ngx_http_sendfile_stats_lock(stats);

    ngx_memcpy(copy, sh->failures, sizeof(sh->failures));

    if (rc == NGX_OK) {
        ngx_http_sendfile_stats_unlock(stats);
    }

    n = 0;

    for (i = 0; i < NGX_HTTP_SENDFILE_RECENT_FAILURES; i++) {
        row = &copy[i];

        if (row->hash == 0) {
            continue;
        }

        row->count &= NGX_HTTP_SENDFILE_RECENT_COUNT;

        if (i != n) {
            copy[n] = *row;
        }

        n++;
    }

    ngx_qsort(copy, n, sizeof(ngx_http_sendfile_recent_failure_t),
              ngx_http_sendfile_recent_latest);

    return n;
}


ngx_uint_t
ngx_http_sendfile_recent_ids(ngx_http_sendfile_stats_t *stats,
    nsf_top_t *copy)
{
    ngx_int_t                       rc;
    ngx_http_sendfile_recent_sh_t  *sh;

    sh = ngx_http_sendfile_stats_recent(stats)->sh;

    rc = ngx_http_sendfile_stats_lock(stats);

    ngx_memcpy(copy, &sh->top, sizeof(nsf_top_t));

    if (rc == NGX_OK) {
        ngx_http_sendfile_stats_unlock(stats);
    }

    nsf_top_halve(copy, ngx_time());

    return nsf_top_sort(copy);
}


static int ngx_libc_cdecl
ngx_http_sendfile_recent_latest(const void *one, const void *two)
{
    const ngx_http_sendfile_recent_failure_t  *a = one, *b = two;

    return (a->last < b->last) - (a->last > b->last);
}
