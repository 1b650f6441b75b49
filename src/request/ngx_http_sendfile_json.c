
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * GET <location>/json: all figures, for programs.  docs/status.md is its
 * description, and a promise: fields are added, not changed.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_status.h"


static void ngx_http_sendfile_json_head(ngx_http_sendfile_out_t *out,
    ngx_http_sendfile_main_conf_t *smcf);
static void ngx_http_sendfile_json_requests(ngx_http_sendfile_out_t *out,
    ngx_http_sendfile_stats_t *stats);
static void ngx_http_sendfile_json_locations(ngx_http_sendfile_out_t *out,
    ngx_http_sendfile_stats_t *stats);
static void ngx_http_sendfile_json_location(ngx_http_sendfile_out_t *out,
    uint64_t *cells);
static uint64_t ngx_http_sendfile_json_total(uint64_t *cells);
static void ngx_http_sendfile_json_stores(ngx_http_sendfile_out_t *out,
    ngx_http_sendfile_stats_t *stats);
static void ngx_http_sendfile_json_histogram(ngx_http_sendfile_out_t *out,
    uint64_t *cells, const uint64_t *bounds, ngx_uint_t n,
    ngx_uint_t seconds);
static void ngx_http_sendfile_json_zones(ngx_http_sendfile_out_t *out,
    ngx_http_sendfile_main_conf_t *smcf);
static void ngx_http_sendfile_json_zone(ngx_http_sendfile_out_t *out,
    ngx_http_sendfile_zone_t *zone);
static void ngx_http_sendfile_json_learn(ngx_http_sendfile_out_t *out,
    ngx_http_sendfile_main_conf_t *smcf);
static void ngx_http_sendfile_json_words(ngx_http_sendfile_out_t *out,
    const char *name, const char **words, uint64_t *cells, ngx_uint_t n);


/* $sendfile_status, in lower case */

const char  *ngx_http_sendfile_results[] = {
    "none", "hit", "miss", "negative", "expired", "stale", "bypass", "error",
    "timeout", "invalid"
};

/* $sendfile_source, but of all stores one word */

const char  *ngx_http_sendfile_sources[] = {
    "none", "store", "cache", "learned", "app", "signed"
};

const char  *ngx_http_sendfile_failures[] = {
    "miss", "error", "timeout", "invalid", "missing_file", "method", "script"
};

const char  *ngx_http_sendfile_deliveries[] = { "direct", "redirect" };

const char  *ngx_http_sendfile_outcomes[] = {
    "hit", "miss", "error", "timeout", "down", "cancelled"
};

const char  *ngx_http_sendfile_entries[] = {
    "record", "negative", "learned", "body"
};

/* who finds no negative entry has looked for a record */

const char  *ngx_http_sendfile_misses[] = {
    "record", NULL, "learned", "body"
};

const char  *ngx_http_sendfile_signs[] = { "positive", "negative" };

const char  *ngx_http_sendfile_purges[] = { "key", "url", "all" };


ngx_int_t
ngx_http_sendfile_json(ngx_http_request_t *r, ngx_str_t *rest)
{
    ngx_http_sendfile_out_t         out;
    ngx_http_sendfile_loc_conf_t   *slcf;
    ngx_http_sendfile_main_conf_t  *smcf;

    slcf = ngx_http_get_module_loc_conf(r, ngx_http_sendfile_module);
    smcf = ngx_http_get_module_main_conf(r, ngx_http_sendfile_module);

    ngx_http_sendfile_out_init(&out, r->pool);

    ngx_http_sendfile_json_open(&out, NULL, '{');

    ngx_http_sendfile_json_head(&out, smcf);
    ngx_http_sendfile_json_requests(&out, smcf->stats);
    ngx_http_sendfile_json_locations(&out, smcf->stats);
    ngx_http_sendfile_json_stores(&out, smcf->stats);
    ngx_http_sendfile_json_zones(&out, smcf);
    ngx_http_sendfile_json_learn(&out, smcf);

    ngx_http_sendfile_json_words(&out, "purges", ngx_http_sendfile_purges,
                                 smcf->counters
                                 + NGX_HTTP_SENDFILE_STATS_PURGES, 3);

    ngx_http_sendfile_json_open(&out, "ruby", '{');
    ngx_http_sendfile_json_uint(&out, "runs",
                                ngx_http_sendfile_stats_get(smcf->counters,
                                       NGX_HTTP_SENDFILE_STATS_RUBY_RUNS));
    ngx_http_sendfile_json_uint(&out, "stopped",
                                ngx_http_sendfile_stats_get(smcf->counters,
                                       NGX_HTTP_SENDFILE_STATS_RUBY_STOPPED));
    ngx_http_sendfile_json_close(&out, '}');

    ngx_http_sendfile_json_recent(&out, smcf, !slcf->status_no_ids);

    ngx_http_sendfile_json_close(&out, '}');
    ngx_http_sendfile_out_text(&out, "\n");

    return ngx_http_sendfile_status_send(r, NGX_HTTP_OK,
                                         NGX_HTTP_SENDFILE_STATUS_JSON, &out);
}


static void
ngx_http_sendfile_json_head(ngx_http_sendfile_out_t *out,
    ngx_http_sendfile_main_conf_t *smcf)
{
    ngx_time_t  *tp;

    tp = ngx_timeofday();

    ngx_http_sendfile_json_uint(out, "version", 1);
    ngx_http_sendfile_json_text(out, "module", NGX_HTTP_SENDFILE_VERSION);
    ngx_http_sendfile_json_text(out, "nginx", NGINX_VERSION);
    ngx_http_sendfile_json_seconds(out, "time",
                                   (uint64_t) tp->sec * 1000000
                                   + tp->msec * 1000);
    ngx_http_sendfile_json_seconds(out, "start",
                                   ngx_http_sendfile_stats_start(smcf->stats));
}


/* the sums of all locations */

static void
ngx_http_sendfile_json_requests(ngx_http_sendfile_out_t *out,
    ngx_http_sendfile_stats_t *stats)
{
    uint64_t                       n, sum[NGX_HTTP_SENDFILE_STATS_CELLS];
    ngx_uint_t                     i, k;
    ngx_http_sendfile_stats_row_t  row;

    ngx_memzero(sum, sizeof(sum));

    i = 0;

    while (ngx_http_sendfile_stats_next(stats,
                                        NGX_HTTP_SENDFILE_STATS_LOCATION, &i,
                                        &row)
           == NGX_OK)
    {
        for (k = 0; k < NGX_HTTP_SENDFILE_STATS_CELLS; k++) {
            sum[k] += ngx_http_sendfile_stats_get(row.cells, k);
        }
    }

    ngx_http_sendfile_json_open(out, "requests", '{');
    ngx_http_sendfile_json_uint(out, "total",
                                ngx_http_sendfile_json_total(sum));

    ngx_http_sendfile_json_open(out, "results", '{');

    for (i = 0; i < NGX_HTTP_SENDFILE_STATS_RESULTS; i++) {

        n = 0;

        for (k = 0; k < NGX_HTTP_SENDFILE_STATS_SOURCES; k++) {
            n += sum[ngx_http_sendfile_stats_request(i, k)];
        }

        if (n) {
            ngx_http_sendfile_json_uint(out, ngx_http_sendfile_results[i], n);
        }
    }

    ngx_http_sendfile_json_close(out, '}');

    ngx_http_sendfile_json_open(out, "sources", '{');

    for (k = 0; k < NGX_HTTP_SENDFILE_STATS_SOURCES; k++) {

        n = 0;

        for (i = 0; i < NGX_HTTP_SENDFILE_STATS_RESULTS; i++) {
            n += sum[ngx_http_sendfile_stats_request(i, k)];
        }

        if (n) {
            ngx_http_sendfile_json_uint(out, ngx_http_sendfile_sources[k], n);
        }
    }

    ngx_http_sendfile_json_close(out, '}');

    ngx_http_sendfile_json_location(out, sum);
    ngx_http_sendfile_json_close(out, '}');
}


static void
ngx_http_sendfile_json_locations(ngx_http_sendfile_out_t *out,
    ngx_http_sendfile_stats_t *stats)
{
    uint64_t                       n;
    ngx_uint_t                     i, k, source, result;
    ngx_http_sendfile_stats_row_t  row;

    i = 0;

    ngx_http_sendfile_json_open(out, "locations", '[');

    while (ngx_http_sendfile_stats_next(stats,
                                        NGX_HTTP_SENDFILE_STATS_LOCATION, &i,
                                        &row)
           == NGX_OK)
    {
        ngx_http_sendfile_json_open(out, NULL, '{');
        ngx_http_sendfile_json_string(out, "location", &row.names[0]);
        ngx_http_sendfile_json_string(out, "host", &row.names[1]);
        ngx_http_sendfile_json_bool(out, "configured", row.used);
        ngx_http_sendfile_json_uint(out, "total",
                                    ngx_http_sendfile_json_total(row.cells));

        ngx_http_sendfile_json_open(out, "requests", '[');

        for (k = 0;
             k < NGX_HTTP_SENDFILE_STATS_RESULTS
                 * NGX_HTTP_SENDFILE_STATS_SOURCES;
             k++)
        {
            n = ngx_http_sendfile_stats_get(row.cells,
                                            NGX_HTTP_SENDFILE_STATS_REQUESTS
                                            + k);
            if (n == 0) {
                continue;
            }

            result = k / NGX_HTTP_SENDFILE_STATS_SOURCES;
            source = k % NGX_HTTP_SENDFILE_STATS_SOURCES;

            ngx_http_sendfile_json_open(out, NULL, '{');
            ngx_http_sendfile_json_text(out, "result",
                                        ngx_http_sendfile_results[result]);
            ngx_http_sendfile_json_text(out, "source",
                                        ngx_http_sendfile_sources[source]);
            ngx_http_sendfile_json_uint(out, "count", n);
            ngx_http_sendfile_json_close(out, '}');
        }

        ngx_http_sendfile_json_close(out, ']');

        ngx_http_sendfile_json_location(out, row.cells);
        ngx_http_sendfile_json_close(out, '}');
    }

    ngx_http_sendfile_json_close(out, ']');
}


/* what a location and all of them have in common */

static void
ngx_http_sendfile_json_location(ngx_http_sendfile_out_t *out, uint64_t *cells)
{
    ngx_uint_t  i;

    ngx_http_sendfile_json_words(out, "failures", ngx_http_sendfile_failures,
                                 cells + NGX_HTTP_SENDFILE_STATS_FAILED,
                                 NGX_HTTP_SENDFILE_STATS_FAILURES);

    ngx_http_sendfile_json_uint(out, "app_avoided",
                                ngx_http_sendfile_stats_get(cells,
                                             NGX_HTTP_SENDFILE_STATS_AVOIDED));

    ngx_http_sendfile_json_open(out, "sent", '{');

    for (i = 0; i < 2; i++) {
        ngx_http_sendfile_json_open(out, ngx_http_sendfile_deliveries[i], '{');
        ngx_http_sendfile_json_uint(out, "files",
                                    ngx_http_sendfile_stats_get(cells,
                                           NGX_HTTP_SENDFILE_STATS_FILES + i));
        ngx_http_sendfile_json_uint(out, "bytes",
                                    ngx_http_sendfile_stats_get(cells,
                                           NGX_HTTP_SENDFILE_STATS_BYTES + i));
        ngx_http_sendfile_json_close(out, '}');
    }

    ngx_http_sendfile_json_close(out, '}');
}


static uint64_t
ngx_http_sendfile_json_total(uint64_t *cells)
{
    uint64_t    n;
    ngx_uint_t  i;

    n = 0;

    for (i = 0;
         i < NGX_HTTP_SENDFILE_STATS_RESULTS * NGX_HTTP_SENDFILE_STATS_SOURCES;
         i++)
    {
        n += ngx_http_sendfile_stats_get(cells,
                                         NGX_HTTP_SENDFILE_STATS_REQUESTS + i);
    }

    return n;
}


static void
ngx_http_sendfile_json_stores(ngx_http_sendfile_out_t *out,
    ngx_http_sendfile_stats_t *stats)
{
    ngx_uint_t                     i;
    ngx_http_sendfile_stats_row_t  row;

    i = 0;

    ngx_http_sendfile_json_open(out, "stores", '[');

    while (ngx_http_sendfile_stats_next(stats, NGX_HTTP_SENDFILE_STATS_STORE,
                                        &i, &row)
           == NGX_OK)
    {
        ngx_http_sendfile_json_open(out, NULL, '{');
        ngx_http_sendfile_json_string(out, "store", &row.names[0]);
        ngx_http_sendfile_json_string(out, "server", &row.names[1]);
        ngx_http_sendfile_json_bool(out, "configured", row.used);
        ngx_http_sendfile_json_bool(out, "up",
                                    !ngx_http_sendfile_stats_get(row.cells,
                                            NGX_HTTP_SENDFILE_STATS_IS_DOWN));

        ngx_http_sendfile_json_words(out, "lookups",
                                     ngx_http_sendfile_outcomes, row.cells
                                     + NGX_HTTP_SENDFILE_STATS_LOOKUPS,
                                     NGX_HTTP_SENDFILE_STATS_OUTCOMES);

        ngx_http_sendfile_json_uint(out, "joined",
                                    ngx_http_sendfile_stats_get(row.cells,
                                             NGX_HTTP_SENDFILE_STATS_JOINED));

        ngx_http_sendfile_json_open(out, "duration", '{');
        ngx_http_sendfile_json_histogram(out, row.cells
                                         + NGX_HTTP_SENDFILE_STATS_DURATION,
                                         ngx_http_sendfile_stats_durations,
                                         NGX_HTTP_SENDFILE_STATS_DURATIONS, 1);
        ngx_http_sendfile_json_close(out, '}');

        ngx_http_sendfile_json_open(out, "batch", '{');
        ngx_http_sendfile_json_histogram(out, row.cells
                                         + NGX_HTTP_SENDFILE_STATS_BATCH,
                                         ngx_http_sendfile_stats_batches,
                                         NGX_HTTP_SENDFILE_STATS_BATCHES, 0);
        ngx_http_sendfile_json_close(out, '}');

        ngx_http_sendfile_json_close(out, '}');
    }

    ngx_http_sendfile_json_close(out, ']');
}


/* n buckets, the one for all that is more, and the sum */

static void
ngx_http_sendfile_json_histogram(ngx_http_sendfile_out_t *out,
    uint64_t *cells, const uint64_t *bounds, ngx_uint_t n,
    ngx_uint_t seconds)
{
    uint64_t    count;
    ngx_uint_t  i;

    count = 0;

    ngx_http_sendfile_json_open(out, "buckets", '[');

    for (i = 0; i < n; i++) {
        count += ngx_http_sendfile_stats_get(cells, i);

        ngx_http_sendfile_json_open(out, NULL, '{');

        if (seconds) {
            ngx_http_sendfile_json_seconds(out, "le", bounds[i]);

        } else {
            ngx_http_sendfile_json_uint(out, "le", bounds[i]);
        }

        ngx_http_sendfile_json_uint(out, "count", count);
        ngx_http_sendfile_json_close(out, '}');
    }

    ngx_http_sendfile_json_close(out, ']');

    count += ngx_http_sendfile_stats_get(cells, n);

    ngx_http_sendfile_json_uint(out, "count", count);

    if (seconds) {
        ngx_http_sendfile_json_seconds(out, "sum",
                                       ngx_http_sendfile_stats_get(cells,
                                                                   n + 1));

    } else {
        ngx_http_sendfile_json_uint(out, "sum",
                                    ngx_http_sendfile_stats_get(cells, n + 1));
    }
}


static void
ngx_http_sendfile_json_zones(ngx_http_sendfile_out_t *out,
    ngx_http_sendfile_main_conf_t *smcf)
{
    ngx_uint_t                  i;
    ngx_http_sendfile_zone_t  **zone;

    ngx_http_sendfile_json_open(out, "zones", '[');

    zone = smcf->zones.elts;

    for (i = 0; i < smcf->zones.nelts; i++) {
        ngx_http_sendfile_json_open(out, NULL, '{');
        ngx_http_sendfile_json_zone(out, zone[i]);
        ngx_http_sendfile_json_close(out, '}');
    }

    ngx_http_sendfile_json_close(out, ']');
}


static void
ngx_http_sendfile_json_zone(ngx_http_sendfile_out_t *out,
    ngx_http_sendfile_zone_t *zone)
{
    nsf_shard_stat_t  stat;

    ngx_http_sendfile_zone_stat(zone, &stat);

    ngx_http_sendfile_json_string(out, "zone", &zone->name);
    ngx_http_sendfile_json_uint(out, "size", zone->size);

    ngx_http_sendfile_json_open(out, "entries", '{');
    ngx_http_sendfile_json_uint(out, "positive", stat.entries);
    ngx_http_sendfile_json_uint(out, "negative", stat.negative);
    ngx_http_sendfile_json_close(out, '}');

    ngx_http_sendfile_json_uint(out, "bytes", stat.bytes);

    ngx_http_sendfile_json_words(out, "hits", ngx_http_sendfile_entries,
                                 zone->counters + NGX_HTTP_SENDFILE_STATS_HITS,
                                 NGX_HTTP_SENDFILE_STATS_ENTRIES);

    ngx_http_sendfile_json_words(out, "misses", ngx_http_sendfile_misses,
                                 zone->counters
                                 + NGX_HTTP_SENDFILE_STATS_MISSES,
                                 NGX_HTTP_SENDFILE_STATS_ENTRIES);
    ngx_http_sendfile_json_words(out, "evictions", ngx_http_sendfile_signs,
                                 zone->counters
                                 + NGX_HTTP_SENDFILE_STATS_EVICTIONS, 2);
    ngx_http_sendfile_json_words(out, "refusals", ngx_http_sendfile_entries,
                                 zone->counters
                                 + NGX_HTTP_SENDFILE_STATS_REFUSALS,
                                 NGX_HTTP_SENDFILE_STATS_ENTRIES);
}


static void
ngx_http_sendfile_json_learn(ngx_http_sendfile_out_t *out,
    ngx_http_sendfile_main_conf_t *smcf)
{
    ngx_uint_t                     i;
    ngx_http_sendfile_stats_row_t  row;

    i = 0;

    ngx_http_sendfile_json_open(out, "learn", '{');
    ngx_http_sendfile_json_uint(out, "kept",
                                ngx_http_sendfile_stats_get(smcf->counters,
                                             NGX_HTTP_SENDFILE_STATS_LEARNED));

    ngx_http_sendfile_json_open(out, "refused", '[');

    while (ngx_http_sendfile_stats_next(smcf->stats,
                                        NGX_HTTP_SENDFILE_STATS_REASON, &i,
                                        &row)
           == NGX_OK)
    {
        ngx_http_sendfile_json_open(out, NULL, '{');
        ngx_http_sendfile_json_string(out, "reason", &row.names[0]);
        ngx_http_sendfile_json_uint(out, "count",
                                    ngx_http_sendfile_stats_get(row.cells,
                                             NGX_HTTP_SENDFILE_STATS_REFUSED));
        ngx_http_sendfile_json_close(out, '}');
    }

    ngx_http_sendfile_json_close(out, ']');
    ngx_http_sendfile_json_close(out, '}');
}


static void
ngx_http_sendfile_json_words(ngx_http_sendfile_out_t *out, const char *name,
    const char **words, uint64_t *cells, ngx_uint_t n)
{
    ngx_uint_t  i;

    ngx_http_sendfile_json_open(out, name, '{');

    for (i = 0; i < n; i++) {
        if (words[i]) {
            ngx_http_sendfile_json_uint(out, words[i],
                                        ngx_http_sendfile_stats_get(cells, i));
        }
    }

    ngx_http_sendfile_json_close(out, '}');
}
