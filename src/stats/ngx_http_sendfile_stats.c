
/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_sendfile_stats.h"
#include "ngx_http_sendfile_recent.h"


/* how often the lock for a new row is tried; it is held for microseconds */

#define NGX_HTTP_SENDFILE_STATS_SPIN     64
#define NGX_HTTP_SENDFILE_STATS_YIELD    10000

/* reasons whose rows a process knows by their addresses, a power of two */

#define NGX_HTTP_SENDFILE_STATS_REASONS  64


typedef struct {
    uint64_t                        cells[NGX_HTTP_SENDFILE_STATS_CELLS];
    uint32_t                        kind;
    uint16_t                        len[2];
    u_char                          pad[8];
    u_char                          names[2][NGX_HTTP_SENDFILE_STATS_NAME];
} ngx_http_sendfile_stats_shrow_t;


/*
 * The first rows are those of "other" names, one for each kind; that of
 * WHOLE is the one there is.  A row is written before "nrows" counts it.
 */

typedef struct {
    uint64_t                        size;
    uint64_t                        start;
    uint64_t                        nrows;
    u_char                          pad[64 - 3 * sizeof(uint64_t)];

    ngx_http_sendfile_stats_shrow_t rows[NGX_HTTP_SENDFILE_STATS_ROWS];
    ngx_http_sendfile_recent_sh_t   recent;
} ngx_http_sendfile_stats_sh_t;


/* with room for what the slab pool needs for itself */

#define NGX_HTTP_SENDFILE_STATS_SIZE                                          \
    (sizeof(ngx_http_sendfile_stats_sh_t) + 32 * ngx_pagesize)


typedef struct {
    const char                     *reason;
    uint64_t                       *cells;
} ngx_http_sendfile_stats_reason_t;


struct ngx_http_sendfile_stats_s {
    ngx_http_sendfile_stats_sh_t   *sh;
    ngx_slab_pool_t                *pool;

    /* of this process */
    u_char                          used[NGX_HTTP_SENDFILE_STATS_ROWS];
    ngx_http_sendfile_stats_reason_t
                                    reasons[NGX_HTTP_SENDFILE_STATS_REASONS];
    ngx_http_sendfile_recent_t      recent;
};


static ngx_int_t ngx_http_sendfile_stats_init(ngx_shm_zone_t *shm_zone,
    void *data);
static void ngx_http_sendfile_stats_notice(ngx_shm_zone_t *shm_zone);
static ngx_uint_t ngx_http_sendfile_stats_find(
    ngx_http_sendfile_stats_sh_t *sh, ngx_http_sendfile_stats_kind_e kind,
    ngx_str_t *names);
static ngx_uint_t ngx_http_sendfile_stats_make(
    ngx_http_sendfile_stats_sh_t *sh, ngx_http_sendfile_stats_kind_e kind,
    ngx_str_t *names);


const uint64_t
ngx_http_sendfile_stats_durations[NGX_HTTP_SENDFILE_STATS_DURATIONS] = {
    100, 250, 500, 1000, 2500, 5000, 10000, 25000, 50000, 100000, 250000,
    500000, 1000000
};

const uint64_t
ngx_http_sendfile_stats_batches[NGX_HTTP_SENDFILE_STATS_BATCHES] = {
    1, 2, 4, 8, 16, 32, 64, 100
};


static ngx_str_t  ngx_http_sendfile_stats_prefix =
    ngx_string("http_sendfile stats ");


ngx_http_sendfile_stats_t *
ngx_http_sendfile_stats_create(ngx_conf_t *cf, void *tag)
{
    u_char                     *p;
    size_t                      len;
    ngx_str_t                   name;
    ngx_shm_zone_t             *shm_zone;
    ngx_http_sendfile_stats_t  *stats;

    stats = ngx_pcalloc(cf->pool, sizeof(ngx_http_sendfile_stats_t));
    if (stats == NULL) {
        return NULL;
    }

    /* another layout is another memory: workers of before go on in theirs */

    len = ngx_http_sendfile_stats_prefix.len + NGX_INT_T_LEN;

    p = ngx_pnalloc(cf->pool, len);
    if (p == NULL) {
        return NULL;
    }

    name.data = p;
    name.len = ngx_snprintf(p, len, "%V%d", &ngx_http_sendfile_stats_prefix,
                            NGX_HTTP_SENDFILE_STATS_LAYOUT)
               - p;

    shm_zone = ngx_shared_memory_add(cf, &name, NGX_HTTP_SENDFILE_STATS_SIZE,
                                     tag);
    if (shm_zone == NULL) {
        return NULL;
    }

    shm_zone->init = ngx_http_sendfile_stats_init;
    shm_zone->data = stats;

    return stats;
}


/* in the master; what was counted in the cycle before stays */

static ngx_int_t
ngx_http_sendfile_stats_init(ngx_shm_zone_t *shm_zone, void *data)
{
    ngx_time_t                    *tp;
    ngx_uint_t                     i;
    ngx_slab_pool_t               *pool;
    ngx_http_sendfile_stats_t     *stats;
    ngx_http_sendfile_stats_sh_t  *sh;

    stats = shm_zone->data;
    pool = (ngx_slab_pool_t *) shm_zone->shm.addr;

    stats->pool = pool;

    if (data || shm_zone->shm.exists) {

        sh = pool->data;

        if (sh == NULL || sh->size != sizeof(ngx_http_sendfile_stats_sh_t)) {
            ngx_log_error(NGX_LOG_EMERG, shm_zone->shm.log, 0,
                          "http_sendfile: the memory of the counters is not "
                          "of this module");
            return NGX_ERROR;
        }

        stats->sh = sh;
        stats->recent.sh = &sh->recent;

        return NGX_OK;
    }

    ngx_http_sendfile_stats_notice(shm_zone);

    sh = ngx_slab_calloc(pool, sizeof(ngx_http_sendfile_stats_sh_t));
    if (sh == NULL) {
        return NGX_ERROR;
    }

    tp = ngx_timeofday();

    sh->size = sizeof(ngx_http_sendfile_stats_sh_t);
    sh->start = (uint64_t) tp->sec * 1000000 + tp->msec * 1000;
    sh->nrows = NGX_HTTP_SENDFILE_STATS_KINDS;

    for (i = 0; i < NGX_HTTP_SENDFILE_STATS_KINDS; i++) {
        sh->rows[i].kind = i;

        if (i != NGX_HTTP_SENDFILE_STATS_WHOLE) {
            sh->rows[i].len[0] = sizeof("other") - 1;
            ngx_memcpy(sh->rows[i].names[0], "other", sizeof("other") - 1);
        }
    }

    pool->data = sh;
    stats->sh = sh;
    stats->recent.sh = &sh->recent;

    return NGX_OK;
}


/* says so if there are counters, but of another module than this one */

static void
ngx_http_sendfile_stats_notice(ngx_shm_zone_t *shm_zone)
{
    ngx_str_t        *name;
    ngx_uint_t        i;
    ngx_shm_zone_t   *old;
    ngx_list_part_t  *part;

    part = (ngx_list_part_t *) &ngx_cycle->shared_memory.part;

    for ( /* void */ ; part; part = part->next) {

        old = part->elts;

        for (i = 0; i < part->nelts; i++) {

            name = &old[i].shm.name;

            if (old[i].tag != shm_zone->tag
                && name->len > ngx_http_sendfile_stats_prefix.len
                && ngx_strncmp(name->data,
                               ngx_http_sendfile_stats_prefix.data,
                               ngx_http_sendfile_stats_prefix.len)
                   == 0)
            {
                ngx_log_error(NGX_LOG_NOTICE, shm_zone->shm.log, 0,
                              "http_sendfile: counters start at 0: the "
                              "module is another one");
                return;
            }
        }
    }
}


uint64_t *
ngx_http_sendfile_stats_cells(ngx_http_sendfile_stats_t *stats,
    ngx_http_sendfile_stats_kind_e kind, ngx_str_t *first, ngx_str_t *second)
{
    ngx_str_t                      names[2];
    ngx_uint_t                     i, n;
    ngx_http_sendfile_stats_sh_t  *sh;

    if (stats == NULL) {
        return NULL;
    }

    sh = stats->sh;

    if (kind == NGX_HTTP_SENDFILE_STATS_WHOLE) {
        return sh->rows[kind].cells;
    }

    ngx_str_null(&names[0]);
    ngx_str_null(&names[1]);

    if (first) {
        names[0] = *first;
    }

    if (second) {
        names[1] = *second;
    }

    for (i = 0; i < 2; i++) {
        names[i].len = ngx_min(names[i].len, NGX_HTTP_SENDFILE_STATS_NAME);
    }

    n = ngx_http_sendfile_stats_find(sh, kind, names);

    if (n == 0) {
        n = kind;

        if (ngx_http_sendfile_stats_lock(stats) == NGX_OK) {

            n = ngx_http_sendfile_stats_find(sh, kind, names);

            if (n == 0) {
                n = ngx_http_sendfile_stats_make(sh, kind, names);
            }

            ngx_http_sendfile_stats_unlock(stats);
        }
    }

    stats->used[n] = 1;

    return sh->rows[n].cells;
}


/* 0: there is none, for row 0 has no names */

static ngx_uint_t
ngx_http_sendfile_stats_find(ngx_http_sendfile_stats_sh_t *sh,
    ngx_http_sendfile_stats_kind_e kind, ngx_str_t *names)
{
    ngx_uint_t                        i, n;
    ngx_http_sendfile_stats_shrow_t  *row;

    n = __atomic_load_n(&sh->nrows, __ATOMIC_ACQUIRE);

    for (i = NGX_HTTP_SENDFILE_STATS_KINDS; i < n; i++) {
        row = &sh->rows[i];

        if (row->kind == (uint32_t) kind
            && row->len[0] == names[0].len
            && row->len[1] == names[1].len
            && ngx_memn2cmp(row->names[0], names[0].data, row->len[0],
                            names[0].len)
               == 0
            && ngx_memn2cmp(row->names[1], names[1].data, row->len[1],
                            names[1].len)
               == 0)
        {
            return i;
        }
    }

    return 0;
}


/* with the lock; the row of "other" ones if there is no room */

static ngx_uint_t
ngx_http_sendfile_stats_make(ngx_http_sendfile_stats_sh_t *sh,
    ngx_http_sendfile_stats_kind_e kind, ngx_str_t *names)
{
    ngx_uint_t                        i, n;
    ngx_http_sendfile_stats_shrow_t  *row;

    n = sh->nrows;

    if (n == NGX_HTTP_SENDFILE_STATS_ROWS) {
        return kind;
    }

    row = &sh->rows[n];
    row->kind = kind;

    for (i = 0; i < 2; i++) {
        row->len[i] = (uint16_t) names[i].len;

        if (names[i].len) {
            ngx_memcpy(row->names[i], names[i].data, names[i].len);
        }
    }

    __atomic_store_n(&sh->nrows, n + 1, __ATOMIC_RELEASE);

    return n;
}


/* as that of a cache zone: nobody sleeps, for the one with it may be dead */

ngx_int_t
ngx_http_sendfile_stats_lock(ngx_http_sendfile_stats_t *stats)
{
    ngx_uint_t  i;

    for (i = 0;
         i < NGX_HTTP_SENDFILE_STATS_SPIN + NGX_HTTP_SENDFILE_STATS_YIELD;
         i++)
    {
        if (ngx_shmtx_trylock(&stats->pool->mutex)) {
            return NGX_OK;
        }

        if (i < NGX_HTTP_SENDFILE_STATS_SPIN) {
            ngx_cpu_pause();

        } else {
            ngx_sched_yield();
        }
    }

    return NGX_BUSY;
}


ngx_int_t
ngx_http_sendfile_stats_trylock(ngx_http_sendfile_stats_t *stats)
{
    return ngx_shmtx_trylock(&stats->pool->mutex) ? NGX_OK : NGX_BUSY;
}


void
ngx_http_sendfile_stats_unlock(ngx_http_sendfile_stats_t *stats)
{
    ngx_shmtx_unlock(&stats->pool->mutex);
}


ngx_http_sendfile_recent_t *
ngx_http_sendfile_stats_recent(ngx_http_sendfile_stats_t *stats)
{
    return &stats->recent;
}


ngx_uint_t
ngx_http_sendfile_stats_number(ngx_http_sendfile_stats_t *stats,
    uint64_t *cells)
{
    return (ngx_http_sendfile_stats_shrow_t *) (void *) cells
           - stats->sh->rows;
}


void
ngx_http_sendfile_stats_row(ngx_http_sendfile_stats_t *stats,
    ngx_uint_t number, ngx_http_sendfile_stats_row_t *row)
{
    ngx_uint_t                        k;
    ngx_http_sendfile_stats_shrow_t  *shrow;

    shrow = &stats->sh->rows[number];

    row->kind = shrow->kind;
    row->cells = shrow->cells;
    row->used = stats->used[number];

    for (k = 0; k < 2; k++) {
        row->names[k].data = shrow->names[k];
        row->names[k].len = shrow->len[k];
    }
}


uint64_t *
ngx_http_sendfile_stats_reason(ngx_http_sendfile_stats_t *stats,
    const char *reason)
{
    ngx_str_t                          name;
    ngx_uint_t                         i, n;
    ngx_http_sendfile_stats_reason_t  *r;

    if (stats == NULL) {
        return NULL;
    }

    n = (ngx_uint_t) (uintptr_t) reason / 8;
    r = NULL;

    for (i = 0; i < NGX_HTTP_SENDFILE_STATS_REASONS; i++) {
        r = &stats->reasons[(n + i) % NGX_HTTP_SENDFILE_STATS_REASONS];

        if (r->reason == reason) {
            return r->cells;
        }

        if (r->reason == NULL) {
            break;
        }
    }

    /* with all places taken the last one looked at is taken anew */

    name.data = (u_char *) reason;
    name.len = ngx_strlen(reason);

    r->cells = ngx_http_sendfile_stats_cells(stats,
                                             NGX_HTTP_SENDFILE_STATS_REASON,
                                             &name, NULL);
    r->reason = reason;

    return r->cells;
}


ngx_int_t
ngx_http_sendfile_stats_next(ngx_http_sendfile_stats_t *stats,
    ngx_http_sendfile_stats_kind_e kind, ngx_uint_t *i,
    ngx_http_sendfile_stats_row_t *row)
{
    ngx_uint_t                        j, k, n;
    ngx_http_sendfile_stats_shrow_t  *shrow;

    n = __atomic_load_n(&stats->sh->nrows, __ATOMIC_ACQUIRE);

    for (j = *i; j < n; j++) {
        shrow = &stats->sh->rows[j];

        if (shrow->kind != (uint32_t) kind) {
            continue;
        }

        /* other names: once there are any */

        if (j < NGX_HTTP_SENDFILE_STATS_KINDS
            && kind != NGX_HTTP_SENDFILE_STATS_WHOLE)
        {
            for (k = 0; k < NGX_HTTP_SENDFILE_STATS_CELLS; k++) {
                if (ngx_http_sendfile_stats_get(shrow->cells, k)) {
                    break;
                }
            }

            if (k == NGX_HTTP_SENDFILE_STATS_CELLS) {
                continue;
            }
        }

        ngx_http_sendfile_stats_row(stats, j, row);

        *i = j + 1;

        return NGX_OK;
    }

    *i = j;

    return NGX_DONE;
}


uint64_t
ngx_http_sendfile_stats_start(ngx_http_sendfile_stats_t *stats)
{
    return stats->sh->start;
}


void
ngx_http_sendfile_stats_lookup(uint64_t *cells,
    ngx_http_sendfile_stats_outcome_e outcome, uint64_t began)
{
    uint64_t    usec;
    ngx_uint_t  i;

    if (cells == NULL) {
        return;
    }

    ngx_http_sendfile_stats_add(cells,
                                NGX_HTTP_SENDFILE_STATS_LOOKUPS + outcome, 1);

    if (outcome >= NGX_HTTP_SENDFILE_STATS_DOWN) {
        return;
    }

    usec = (ngx_http_sendfile_stats_clock() - began) / 1000;

    for (i = 0; i < NGX_HTTP_SENDFILE_STATS_DURATIONS; i++) {
        if (usec <= ngx_http_sendfile_stats_durations[i]) {
            break;
        }
    }

    ngx_http_sendfile_stats_add(cells, NGX_HTTP_SENDFILE_STATS_DURATION + i,
                                1);
    ngx_http_sendfile_stats_add(cells, NGX_HTTP_SENDFILE_STATS_DURATION_SUM,
                                usec);
}


void
ngx_http_sendfile_stats_batch(uint64_t *cells, ngx_uint_t keys)
{
    ngx_uint_t  i;

    if (cells == NULL) {
        return;
    }

    for (i = 0; i < NGX_HTTP_SENDFILE_STATS_BATCHES; i++) {
        if (keys <= ngx_http_sendfile_stats_batches[i]) {
            break;
        }
    }

    ngx_http_sendfile_stats_add(cells, NGX_HTTP_SENDFILE_STATS_BATCH + i, 1);
    ngx_http_sendfile_stats_add(cells, NGX_HTTP_SENDFILE_STATS_BATCH_SUM,
                                keys);
}
