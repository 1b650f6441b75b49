
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Counters in shared memory: a table of rows, each with its names and its
 * cells.  A cell only grows, by an atomic addition, so that what all workers
 * have counted is exact whatever becomes of one of them.  The memory is that
 * of the cycle before, and rows are found by their names: a reload keeps what
 * has been counted.
 */


#ifndef _NGX_HTTP_SENDFILE_STATS_H_INCLUDED_
#define _NGX_HTTP_SENDFILE_STATS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* changes with the number, the order or the meaning of anything below */

#define NGX_HTTP_SENDFILE_STATS_LAYOUT  3

#define NGX_HTTP_SENDFILE_STATS_ROWS    1024
#define NGX_HTTP_SENDFILE_STATS_CELLS   72

/* of a name that is longer the beginning counts */

#define NGX_HTTP_SENDFILE_STATS_NAME    120


typedef struct ngx_http_sendfile_stats_s  ngx_http_sendfile_stats_t;


/* kinds of rows, and what their two names are */

typedef enum {
    /* one row without names */
    NGX_HTTP_SENDFILE_STATS_WHOLE = 0,

    /* the location, the name of its server */
    NGX_HTTP_SENDFILE_STATS_LOCATION,

    /* a store, a server of its */
    NGX_HTTP_SENDFILE_STATS_STORE,

    /* a cache zone */
    NGX_HTTP_SENDFILE_STATS_ZONE,

    /* why an answer was not learned */
    NGX_HTTP_SENDFILE_STATS_REASON,

    NGX_HTTP_SENDFILE_STATS_KINDS
} ngx_http_sendfile_stats_kind_e;


/* cells of WHOLE; purges in the order of key, url, all */

#define NGX_HTTP_SENDFILE_STATS_LEARNED       0
#define NGX_HTTP_SENDFILE_STATS_PURGES        1
#define NGX_HTTP_SENDFILE_STATS_RUBY_RUNS     4
#define NGX_HTTP_SENDFILE_STATS_RUBY_STOPPED  5

/*
 * Of a LOCATION: requests by result and source, failures by kind, files and
 * bytes sent directly and by a redirect, requests that the application was
 * spared.
 */

#define NGX_HTTP_SENDFILE_STATS_RESULTS       10
#define NGX_HTTP_SENDFILE_STATS_SOURCES       6
#define NGX_HTTP_SENDFILE_STATS_FAILURES      7

#define NGX_HTTP_SENDFILE_STATS_REQUESTS      0
#define NGX_HTTP_SENDFILE_STATS_FAILED        60
#define NGX_HTTP_SENDFILE_STATS_FILES         67
#define NGX_HTTP_SENDFILE_STATS_BYTES         69
#define NGX_HTTP_SENDFILE_STATS_AVOIDED       71

#define ngx_http_sendfile_stats_request(result, source)                       \
    (NGX_HTTP_SENDFILE_STATS_REQUESTS                                         \
     + (result) * NGX_HTTP_SENDFILE_STATS_SOURCES + (source))

/*
 * Of a STORE: lookups by outcome, those that joined another, whether it is
 * down (the one cell that is set), how long they took, and of batches how
 * many keys they had, with the sums of both (microseconds; keys).
 */

typedef enum {
    NGX_HTTP_SENDFILE_STATS_HIT = 0,
    NGX_HTTP_SENDFILE_STATS_MISS,
    NGX_HTTP_SENDFILE_STATS_ERROR,
    NGX_HTTP_SENDFILE_STATS_TIMEOUT,

    /* these two take no time */
    NGX_HTTP_SENDFILE_STATS_DOWN,
    NGX_HTTP_SENDFILE_STATS_CANCELLED,

    NGX_HTTP_SENDFILE_STATS_OUTCOMES
} ngx_http_sendfile_stats_outcome_e;

#define NGX_HTTP_SENDFILE_STATS_LOOKUPS       0
#define NGX_HTTP_SENDFILE_STATS_JOINED        6
#define NGX_HTTP_SENDFILE_STATS_IS_DOWN       7
#define NGX_HTTP_SENDFILE_STATS_DURATION      8
#define NGX_HTTP_SENDFILE_STATS_DURATION_SUM  22
#define NGX_HTTP_SENDFILE_STATS_BATCH         23
#define NGX_HTTP_SENDFILE_STATS_BATCH_SUM     32

/* their buckets, but for the last one, which takes all that is more */

#define NGX_HTTP_SENDFILE_STATS_DURATIONS     13
#define NGX_HTTP_SENDFILE_STATS_BATCHES       8

extern const uint64_t
    ngx_http_sendfile_stats_durations[NGX_HTTP_SENDFILE_STATS_DURATIONS];
extern const uint64_t
    ngx_http_sendfile_stats_batches[NGX_HTTP_SENDFILE_STATS_BATCHES];

/*
 * Of a ZONE: looks into it, and what was not kept, by what for; evictions of
 * positive and negative entries.
 */

typedef enum {
    NGX_HTTP_SENDFILE_STATS_RECORD = 0,
    NGX_HTTP_SENDFILE_STATS_NEGATIVE,
    NGX_HTTP_SENDFILE_STATS_ANSWER,
    NGX_HTTP_SENDFILE_STATS_BODY,
    NGX_HTTP_SENDFILE_STATS_ENTRIES
} ngx_http_sendfile_stats_entry_e;

#define NGX_HTTP_SENDFILE_STATS_HITS          0
#define NGX_HTTP_SENDFILE_STATS_MISSES        4
#define NGX_HTTP_SENDFILE_STATS_REFUSALS      8
#define NGX_HTTP_SENDFILE_STATS_EVICTIONS     12

/* of a REASON */

#define NGX_HTTP_SENDFILE_STATS_REFUSED       0


/* a row, as it is read */

typedef struct {
    ngx_http_sendfile_stats_kind_e  kind;
    ngx_str_t                       names[2];
    uint64_t                       *cells;

    /* this process counts in it: it is of the configuration */
    ngx_uint_t                      used;  /* unsigned  used:1; */
} ngx_http_sendfile_stats_row_t;


/* Configuration time: NULL after a log line. */

ngx_http_sendfile_stats_t *ngx_http_sendfile_stats_create(ngx_conf_t *cf,
    void *tag);


/*
 * In a worker: the cells of the row with these names, which is made if there
 * is none; that of all "other" ones when the table is full.  Either name may
 * be NULL.  With "stats" NULL there are no counters: NULL.
 */

uint64_t *ngx_http_sendfile_stats_cells(ngx_http_sendfile_stats_t *stats,
    ngx_http_sendfile_stats_kind_e kind, ngx_str_t *first, ngx_str_t *second);


/* the cell of a REASON; "reason" is a constant, and found by its address */

uint64_t *ngx_http_sendfile_stats_reason(ngx_http_sendfile_stats_t *stats,
    const char *reason);


/* the next row of a kind: "*i" is 0 at first; NGX_DONE: there is none */

ngx_int_t ngx_http_sendfile_stats_next(ngx_http_sendfile_stats_t *stats,
    ngx_http_sendfile_stats_kind_e kind, ngx_uint_t *i,
    ngx_http_sendfile_stats_row_t *row);


/*
 * The number of the row that has these cells, and the row of a number, which
 * is less than NGX_HTTP_SENDFILE_STATS_ROWS.  Numbers are the same in all
 * processes.
 */

ngx_uint_t ngx_http_sendfile_stats_number(ngx_http_sendfile_stats_t *stats,
    uint64_t *cells);
void ngx_http_sendfile_stats_row(ngx_http_sendfile_stats_t *stats,
    ngx_uint_t number, ngx_http_sendfile_stats_row_t *row);


/* what is kept of the last minutes, in the same memory */

struct ngx_http_sendfile_recent_s *ngx_http_sendfile_stats_recent(
    ngx_http_sendfile_stats_t *stats);


/*
 * The lock of the memory: NGX_OK, or NGX_BUSY after some ten thousand tries,
 * for the process that has it may be dead.  The master then frees it.
 */

ngx_int_t ngx_http_sendfile_stats_lock(ngx_http_sendfile_stats_t *stats);

/* tries once */

ngx_int_t ngx_http_sendfile_stats_trylock(ngx_http_sendfile_stats_t *stats);
void ngx_http_sendfile_stats_unlock(ngx_http_sendfile_stats_t *stats);


/* since when is counted, microseconds of Unix time */

uint64_t ngx_http_sendfile_stats_start(ngx_http_sendfile_stats_t *stats);


/*
 * Counting.  "cells" may be NULL.  The compiler's addition and not nginx's,
 * which is of 32 bits where addresses are.
 */

static ngx_inline void
ngx_http_sendfile_stats_add(uint64_t *cells, ngx_uint_t cell, uint64_t n)
{
    if (cells) {
        (void) __atomic_fetch_add(&cells[cell], n, __ATOMIC_RELAXED);
    }
}


static ngx_inline uint64_t
ngx_http_sendfile_stats_get(uint64_t *cells, ngx_uint_t cell)
{
    return __atomic_load_n(&cells[cell], __ATOMIC_RELAXED);
}


/* of a cell that is set: written only if it changes */

static ngx_inline void
ngx_http_sendfile_stats_set(uint64_t *cells, ngx_uint_t cell, uint64_t n)
{
    if (cells && ngx_http_sendfile_stats_get(cells, cell) != n) {
        __atomic_store_n(&cells[cell], n, __ATOMIC_RELAXED);
    }
}


/* nanoseconds of a clock that nobody sets */

static ngx_inline uint64_t
ngx_http_sendfile_stats_clock(void)
{
    struct timespec  ts;

    (void) clock_gettime(CLOCK_MONOTONIC, &ts);

    return (uint64_t) ts.tv_sec * 1000000000 + (uint64_t) ts.tv_nsec;
}


#define ngx_http_sendfile_stats_now(cells)                                    \
    ((cells) ? ngx_http_sendfile_stats_clock() : 0)

/* a lookup's end; "began" is the clock's */

void ngx_http_sendfile_stats_lookup(uint64_t *cells,
    ngx_http_sendfile_stats_outcome_e outcome, uint64_t began);

void ngx_http_sendfile_stats_batch(uint64_t *cells, ngx_uint_t keys);


#endif /* _NGX_HTTP_SENDFILE_STATS_H_INCLUDED_ */
