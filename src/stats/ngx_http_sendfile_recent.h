
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * What is kept of the last minutes, in the memory of the counters: the last
 * failures, those that are alike in one row, and the IDs that are asked for
 * most, by a sample.
 *
 * A failure of a row that is there is counted by an atomic operation.  All
 * else is written under the memory's lock, for which no request waits: who
 * does not get it at once leaves out an ID or a sample.  Only a failure of a
 * new kind tries for some milliseconds.  What a process that dies was writing
 * is empty then: a row is void while it is written.
 */


#ifndef _NGX_HTTP_SENDFILE_RECENT_H_INCLUDED_
#define _NGX_HTTP_SENDFILE_RECENT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_sendfile_stats.h"
#include "nsf_top.h"


#define NGX_HTTP_SENDFILE_RECENT_FAILURES  32

/* of what is longer the beginning is kept; no valid key is longer */

#define NGX_HTTP_SENDFILE_RECENT_TEXT      160
#define NGX_HTTP_SENDFILE_RECENT_ID        NSF_MAX_KEY

/* rows that a process knows by addresses, a power of two */

#define NGX_HTTP_SENDFILE_RECENT_KNOWN     16


typedef struct {
    uint32_t                        len;

    /* there was more of it */
    uint32_t                        cut;

    u_char                          data[NGX_HTTP_SENDFILE_RECENT_ID + 2];
} ngx_http_sendfile_recent_id_t;


typedef struct {
    uint32_t                        len;
    u_char                          data[NGX_HTTP_SENDFILE_RECENT_TEXT];
} ngx_http_sendfile_recent_text_t;


/*
 * Failures of one kind.  "count" has the number of the row's taking over in
 * its upper 16 bits, so that nobody counts in a row that has become another's.
 */

typedef struct {
    uint64_t                        hash;    /* 0: none */
    uint64_t                        count;

    /* microseconds of Unix time */
    uint64_t                        first;
    uint64_t                        last;

    /* the row of the location; the index of the failure; an errno or 0 */
    uint32_t                        location;
    uint32_t                        kind;
    uint32_t                        err;

    /* of the last one: what the client has got */
    uint32_t                        status;

    ngx_http_sendfile_recent_text_t reason;
    ngx_http_sendfile_recent_text_t detail;
    ngx_http_sendfile_recent_text_t store;
    ngx_http_sendfile_recent_text_t server;

    /* of one of the last */
    ngx_http_sendfile_recent_id_t   id;
} ngx_http_sendfile_recent_failure_t;


typedef struct {
    ngx_http_sendfile_recent_failure_t
                                 failures[NGX_HTTP_SENDFILE_RECENT_FAILURES];
    nsf_top_t                       top;
} ngx_http_sendfile_recent_sh_t;


/* a failure, as it is counted; empty strings and NULL for what is not known */

typedef struct {
    uint64_t                       *location;
    ngx_uint_t                      kind;
    ngx_err_t                       err;
    ngx_uint_t                      status;

    /* a constant; and what follows it, which need not be one */
    const char                     *reason;
    const char                     *detail;

    /* of the configuration */
    ngx_str_t                      *store;
    ngx_str_t                      *server;

    /* NULL: not to be kept */
    ngx_str_t                      *id;
} ngx_http_sendfile_failed_t;


/* a row that the process has found: by addresses, which cost less */

typedef struct {
    uint64_t                       *location;
    const char                     *reason;
    ngx_str_t                      *store;
    ngx_str_t                      *server;
    ngx_uint_t                      kind;
    ngx_err_t                       err;
    uint64_t                        turn;
    ngx_http_sendfile_recent_failure_t
                                   *row;
} ngx_http_sendfile_recent_known_t;


/* of one process; the members are ngx_http_sendfile_recent.c's own */

typedef struct ngx_http_sendfile_recent_s {
    ngx_http_sendfile_recent_sh_t  *sh;

    ngx_http_sendfile_recent_known_t
                                    known[NGX_HTTP_SENDFILE_RECENT_KNOWN];

    /* IDs of failures that may still be written, and the second of the last */
    ngx_uint_t                      left;
    time_t                          wrote;

    /* requests; those before this second; the last sample, and the next one */
    uint64_t                        seen;
    uint64_t                        before;
    uint64_t                        last;
    uint64_t                        next;

    /* one of so many is a sample, but each of the next "each" */
    uint64_t                        interval;
    ngx_uint_t                      each;

    /* when that was added to; this second */
    time_t                          added;
    time_t                          second;
} ngx_http_sendfile_recent_t;


/* counts a failure; "stats" may be NULL */

void ngx_http_sendfile_recent_failed(ngx_http_sendfile_stats_t *stats,
    ngx_http_sendfile_failed_t *failed);


/*
 * A request for an ID of a location: each call is one, of which few are looked
 * at, by the second function.
 */

void ngx_http_sendfile_recent_sample(ngx_http_sendfile_stats_t *stats,
    uint64_t *location, ngx_str_t *id);


static ngx_inline void
ngx_http_sendfile_recent_asked(ngx_http_sendfile_stats_t *stats,
    ngx_http_sendfile_recent_t *recent, uint64_t *location, ngx_str_t *id)
{
    recent->seen++;

    if (recent->seen >= recent->next || recent->second != ngx_time()) {
        ngx_http_sendfile_recent_sample(stats, location, id);
    }
}


/*
 * Copies of what there is, with as many places as the memory has: the number
 * of failures, the latest first, with only the count in "count"; and of IDs,
 * the most asked first, all counts as they are after the halvings that are
 * due.
 */

ngx_uint_t ngx_http_sendfile_recent_failures(ngx_http_sendfile_stats_t *stats,
    ngx_http_sendfile_recent_failure_t *copy);
ngx_uint_t ngx_http_sendfile_recent_ids(ngx_http_sendfile_stats_t *stats,
    nsf_top_t *copy);


#endif /* _NGX_HTTP_SENDFILE_RECENT_H_INCLUDED_ */
