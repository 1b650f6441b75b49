
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Of GET <location>/json: the last failures, with what to do about them, and
 * the IDs that are asked for most.  Of all figures these alone have IDs.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_status.h"
#include "ngx_http_sendfile_recent.h"


/* of those in memory: the others are too few to be sure of their order */

#define NGX_HTTP_SENDFILE_TOP_IDS  20


static void ngx_http_sendfile_json_failures(ngx_http_sendfile_out_t *out,
    ngx_http_sendfile_stats_t *stats, ngx_uint_t ids);
static void ngx_http_sendfile_json_failure(ngx_http_sendfile_out_t *out,
    ngx_http_sendfile_stats_t *stats,
    ngx_http_sendfile_recent_failure_t *failure, ngx_uint_t ids);
static void ngx_http_sendfile_json_ids(ngx_http_sendfile_out_t *out,
    ngx_http_sendfile_stats_t *stats);
static void ngx_http_sendfile_json_place(ngx_http_sendfile_out_t *out,
    ngx_http_sendfile_stats_t *stats, ngx_uint_t number);
static void ngx_http_sendfile_json_advice(ngx_http_sendfile_out_t *out);


/* what is in shared memory: no more of it than there can be */

#define ngx_http_sendfile_recent_str(str, kept)                               \
    (str)->data = (kept)->data;                                               \
    (str)->len = ngx_min((kept)->len, sizeof((kept)->data))


void
ngx_http_sendfile_json_recent(ngx_http_sendfile_out_t *out,
    ngx_http_sendfile_main_conf_t *smcf, ngx_uint_t ids)
{
    ngx_http_sendfile_json_failures(out, smcf->stats, ids);

    if (ids) {
        ngx_http_sendfile_json_ids(out, smcf->stats);
    }

    ngx_http_sendfile_json_advice(out);
}


static void
ngx_http_sendfile_json_failures(ngx_http_sendfile_out_t *out,
    ngx_http_sendfile_stats_t *stats, ngx_uint_t ids)
{
    ngx_uint_t                           i, n;
    ngx_http_sendfile_recent_failure_t  *failures;

    failures = ngx_palloc(out->pool,
                          NGX_HTTP_SENDFILE_RECENT_FAILURES
                          * sizeof(ngx_http_sendfile_recent_failure_t));
    if (failures == NULL) {
        out->failed = 1;
        return;
    }

    n = ngx_http_sendfile_recent_failures(stats, failures);

    ngx_http_sendfile_json_open(out, "last_failures", '[');

    for (i = 0; i < n; i++) {
        ngx_http_sendfile_json_failure(out, stats, &failures[i], ids);
    }

    ngx_http_sendfile_json_close(out, ']');
}


static void
ngx_http_sendfile_json_failure(ngx_http_sendfile_out_t *out,
    ngx_http_sendfile_stats_t *stats,
    ngx_http_sendfile_recent_failure_t *failure, ngx_uint_t ids)
{
    ngx_str_t   reason, detail, s;
    ngx_uint_t  kind;
    u_char      text[NGX_MAX_ERROR_STR / 8];

    kind = ngx_min(failure->kind, NGX_HTTP_SENDFILE_STATS_FAILURES - 1);

    ngx_http_sendfile_json_open(out, NULL, '{');
    ngx_http_sendfile_json_seconds(out, "time", failure->last);
    ngx_http_sendfile_json_seconds(out, "first", failure->first);
    ngx_http_sendfile_json_uint(out, "count", failure->count);
    ngx_http_sendfile_json_place(out, stats, failure->location);
    ngx_http_sendfile_json_text(out, "kind", ngx_http_sendfile_failures[kind]);

    ngx_http_sendfile_recent_str(&reason, &failure->reason);
    ngx_http_sendfile_recent_str(&detail, &failure->detail);

    ngx_http_sendfile_json_string(out, "reason", &reason);
    ngx_http_sendfile_json_string(out, "detail", &detail);
    ngx_http_sendfile_json_uint(out, "errno", failure->err);

    s.data = text;
    s.len = failure->err ? ngx_strerror(failure->err, text, sizeof(text))
                           - text
                         : 0;

    ngx_http_sendfile_json_string(out, "error", &s);

    ngx_http_sendfile_recent_str(&s, &failure->store);
    ngx_http_sendfile_json_string(out, "store", &s);

    ngx_http_sendfile_recent_str(&s, &failure->server);
    ngx_http_sendfile_json_string(out, "server", &s);

    ngx_http_sendfile_json_uint(out, "status", failure->status);

    if (ids) {
        ngx_http_sendfile_recent_str(&s, &failure->id);
        ngx_http_sendfile_json_string(out, "id", &s);
        ngx_http_sendfile_json_bool(out, "truncated", failure->id.cut);
    }

    ngx_http_sendfile_json_text(out, "advice",
                                ngx_http_sendfile_advice(kind, &reason,
                                                         &detail));
    ngx_http_sendfile_json_close(out, '}');
}


static void
ngx_http_sendfile_json_ids(ngx_http_sendfile_out_t *out,
    ngx_http_sendfile_stats_t *stats)
{
    ngx_str_t         id;
    nsf_top_t        *top;
    ngx_uint_t        i, n;
    nsf_top_entry_t  *e;

    top = ngx_palloc(out->pool, sizeof(nsf_top_t));

    if (top == NULL) {
        out->failed = 1;
        return;
    }

    n = ngx_http_sendfile_recent_ids(stats, top);

    ngx_http_sendfile_json_open(out, "top_ids", '{');
    ngx_http_sendfile_json_uint(out, "half_life", NSF_TOP_HALF);
    ngx_http_sendfile_json_uint(out, "requests",
                                nsf_top_requests(top->total));
    ngx_http_sendfile_json_open(out, "ids", '[');

    for (i = 0; i < n && i < NGX_HTTP_SENDFILE_TOP_IDS; i++) {
        e = &top->entries[i];

        id.data = e->name;
        id.len = ngx_min(e->len, NSF_MAX_KEY);

        ngx_http_sendfile_json_open(out, NULL, '{');
        ngx_http_sendfile_json_string(out, "id", &id);
        ngx_http_sendfile_json_place(out, stats, e->group);
        ngx_http_sendfile_json_uint(out, "requests",
                                    nsf_top_requests(e->count));
        ngx_http_sendfile_json_uint(out, "error", nsf_top_requests(e->error));
        ngx_http_sendfile_json_close(out, '}');
    }

    ngx_http_sendfile_json_close(out, ']');
    ngx_http_sendfile_json_close(out, '}');
}


static void
ngx_http_sendfile_json_place(ngx_http_sendfile_out_t *out,
    ngx_http_sendfile_stats_t *stats, ngx_uint_t number)
{
    ngx_http_sendfile_stats_row_t  row;

    ngx_http_sendfile_stats_row(stats,
                                number % NGX_HTTP_SENDFILE_STATS_ROWS, &row);

    ngx_http_sendfile_json_string(out, "location", &row.names[0]);
    ngx_http_sendfile_json_string(out, "host", &row.names[1]);
}


/* of each kind */

static void
ngx_http_sendfile_json_advice(ngx_http_sendfile_out_t *out)
{
    ngx_uint_t  i;

    ngx_http_sendfile_json_open(out, "advice", '{');

    for (i = 0; i < NGX_HTTP_SENDFILE_STATS_FAILURES; i++) {
        ngx_http_sendfile_json_text(out, ngx_http_sendfile_failures[i],
                                    ngx_http_sendfile_advice(i, NULL, NULL));
    }

    ngx_http_sendfile_json_close(out, '}');
}
