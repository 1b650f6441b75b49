
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * GET <location>/metrics: Prometheus' text format 0.0.4, or OpenMetrics 1.0.
 * No text can be both: in the first one a counter's name ends in "_total"
 * everywhere, in the second one everywhere but where it is declared.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_headers.h"
#include "ngx_http_sendfile_status.h"
#include "nsf_accept.h"


#define NGX_HTTP_SENDFILE_METRICS_TEXT                                        \
    "text/plain; version=0.0.4; charset=utf-8"
#define NGX_HTTP_SENDFILE_METRICS_OPEN                                        \
    "application/openmetrics-text; version=1.0.0; charset=utf-8"


typedef struct {
    ngx_http_sendfile_out_t        *out;
    ngx_http_sendfile_stats_t      *stats;
    ngx_uint_t                      open;      /* OpenMetrics */

    /* of the metric that is being written */
    const char                     *name;
    ngx_uint_t                      counter;
    ngx_uint_t                      labels;
} ngx_http_sendfile_metrics_t;


/* a counter for each row of a kind, and for each word of some */

typedef struct {
    const char                     *name;
    const char                     *help;
    ngx_http_sendfile_stats_kind_e  kind;
    ngx_uint_t                      cell;
    ngx_uint_t                      n;
    const char                     *label;
    const char                    **words;
} ngx_http_sendfile_metric_t;


static ngx_uint_t ngx_http_sendfile_metrics_open(ngx_http_request_t *r);
static void ngx_http_sendfile_metrics_requests(ngx_http_sendfile_metrics_t *m);
static void ngx_http_sendfile_metrics_avoided(ngx_http_sendfile_metrics_t *m);
static void ngx_http_sendfile_metrics_rows(ngx_http_sendfile_metrics_t *m,
    ngx_http_sendfile_metric_t *metric);
static void ngx_http_sendfile_metrics_up(ngx_http_sendfile_metrics_t *m);
static void ngx_http_sendfile_metrics_histogram(ngx_http_sendfile_metrics_t *m,
    const char *name, const char *help, ngx_uint_t cell,
    const uint64_t *bounds, ngx_uint_t n, ngx_uint_t seconds);
static void ngx_http_sendfile_metrics_buckets(ngx_http_sendfile_metrics_t *m,
    ngx_http_sendfile_stats_row_t *row, ngx_uint_t cell,
    const uint64_t *bounds, ngx_uint_t n, ngx_uint_t seconds);
static void ngx_http_sendfile_metrics_zones(ngx_http_sendfile_metrics_t *m,
    ngx_http_sendfile_main_conf_t *smcf);
static void ngx_http_sendfile_metrics_module(ngx_http_sendfile_metrics_t *m);
static void ngx_http_sendfile_metrics_declare(ngx_http_sendfile_metrics_t *m,
    const char *name, const char *type, const char *help);
static void ngx_http_sendfile_metrics_sample(ngx_http_sendfile_metrics_t *m,
    const char *suffix);
static void ngx_http_sendfile_metrics_label(ngx_http_sendfile_metrics_t *m,
    const char *name, ngx_str_t *value);
static void ngx_http_sendfile_metrics_word(ngx_http_sendfile_metrics_t *m,
    const char *name, const char *value);
static void ngx_http_sendfile_metrics_names(ngx_http_sendfile_metrics_t *m,
    ngx_http_sendfile_stats_row_t *row);
static void ngx_http_sendfile_metrics_end(ngx_http_sendfile_metrics_t *m);
static void ngx_http_sendfile_metrics_value(ngx_http_sendfile_metrics_t *m,
    uint64_t value);


/* the labels of a row's names */

static const char
    *ngx_http_sendfile_metrics_labels[NGX_HTTP_SENDFILE_STATS_KINDS][2] = {
    { NULL, NULL },
    { "location", "host" },
    { "store", "server" },
    { "zone", NULL },
    { "reason", NULL }
};


static ngx_http_sendfile_metric_t  ngx_http_sendfile_metrics_table[] = {

    { "failures", "Requests for which no file was sent.",
      NGX_HTTP_SENDFILE_STATS_LOCATION, NGX_HTTP_SENDFILE_STATS_FAILED,
      NGX_HTTP_SENDFILE_STATS_FAILURES, "kind", ngx_http_sendfile_failures },

    { "files_sent", "Files sent.",
      NGX_HTTP_SENDFILE_STATS_LOCATION, NGX_HTTP_SENDFILE_STATS_FILES,
      2, "delivery", ngx_http_sendfile_deliveries },

    { "sent_bytes", "Bytes of the bodies of files sent.",
      NGX_HTTP_SENDFILE_STATS_LOCATION, NGX_HTTP_SENDFILE_STATS_BYTES,
      2, "delivery", ngx_http_sendfile_deliveries },

    { "lookups", "Keys that a store was asked for.",
      NGX_HTTP_SENDFILE_STATS_STORE, NGX_HTTP_SENDFILE_STATS_LOOKUPS,
      NGX_HTTP_SENDFILE_STATS_OUTCOMES, "outcome",
      ngx_http_sendfile_outcomes },

    { "lookups_joined", "Requests that waited for another one's lookup.",
      NGX_HTTP_SENDFILE_STATS_STORE, NGX_HTTP_SENDFILE_STATS_JOINED,
      1, NULL, NULL },

    { "cache_hits", "Entries that were found and used.",
      NGX_HTTP_SENDFILE_STATS_ZONE, NGX_HTTP_SENDFILE_STATS_HITS,
      NGX_HTTP_SENDFILE_STATS_ENTRIES, "kind", ngx_http_sendfile_entries },

    { "cache_misses", "Entries that were looked for in vain.",
      NGX_HTTP_SENDFILE_STATS_ZONE, NGX_HTTP_SENDFILE_STATS_MISSES,
      NGX_HTTP_SENDFILE_STATS_ENTRIES, "kind", ngx_http_sendfile_misses },

    { "cache_evictions", "Entries that made room for others.",
      NGX_HTTP_SENDFILE_STATS_ZONE, NGX_HTTP_SENDFILE_STATS_EVICTIONS,
      2, "kind", ngx_http_sendfile_signs },

    { "cache_refusals", "Entries that were not kept.",
      NGX_HTTP_SENDFILE_STATS_ZONE, NGX_HTTP_SENDFILE_STATS_REFUSALS,
      NGX_HTTP_SENDFILE_STATS_ENTRIES, "kind", ngx_http_sendfile_entries },

    { "learned", "Answers of the application that were kept.",
      NGX_HTTP_SENDFILE_STATS_WHOLE, NGX_HTTP_SENDFILE_STATS_LEARNED,
      1, NULL, NULL },

    { "learn_refusals", "Answers of the application that were not kept.",
      NGX_HTTP_SENDFILE_STATS_REASON, NGX_HTTP_SENDFILE_STATS_REFUSED,
      1, NULL, NULL },

    { "purges", "Purges.",
      NGX_HTTP_SENDFILE_STATS_WHOLE, NGX_HTTP_SENDFILE_STATS_PURGES,
      3, "kind", ngx_http_sendfile_purges },

    { "ruby_runs", "Ruby scripts run for requests.",
      NGX_HTTP_SENDFILE_STATS_WHOLE, NGX_HTTP_SENDFILE_STATS_RUBY_RUNS,
      1, NULL, NULL },

    { "ruby_stopped", "Ruby scripts that a limit has stopped.",
      NGX_HTTP_SENDFILE_STATS_WHOLE, NGX_HTTP_SENDFILE_STATS_RUBY_STOPPED,
      1, NULL, NULL },

    { NULL, NULL, NGX_HTTP_SENDFILE_STATS_WHOLE, 0, 0, NULL, NULL }
};


ngx_int_t
ngx_http_sendfile_metrics(ngx_http_request_t *r, ngx_str_t *rest)
{
    ngx_http_sendfile_out_t         out;
    ngx_http_sendfile_metric_t     *metric;
    ngx_http_sendfile_metrics_t     m;
    ngx_http_sendfile_main_conf_t  *smcf;

    smcf = ngx_http_get_module_main_conf(r, ngx_http_sendfile_module);

    ngx_http_sendfile_out_init(&out, r->pool);

    ngx_memzero(&m, sizeof(ngx_http_sendfile_metrics_t));

    m.out = &out;
    m.stats = smcf->stats;
    m.open = ngx_http_sendfile_metrics_open(r);

    ngx_http_sendfile_metrics_requests(&m);
    ngx_http_sendfile_metrics_avoided(&m);

    for (metric = ngx_http_sendfile_metrics_table; metric->name; metric++) {
        ngx_http_sendfile_metrics_rows(&m, metric);
    }

    ngx_http_sendfile_metrics_up(&m);

    ngx_http_sendfile_metrics_histogram(&m, "lookup_duration_seconds",
                                        "From question to answer.",
                                        NGX_HTTP_SENDFILE_STATS_DURATION,
                                        ngx_http_sendfile_stats_durations,
                                        NGX_HTTP_SENDFILE_STATS_DURATIONS, 1);
    ngx_http_sendfile_metrics_histogram(&m, "store_batch_keys",
                                        "Keys in one request to a server.",
                                        NGX_HTTP_SENDFILE_STATS_BATCH,
                                        ngx_http_sendfile_stats_batches,
                                        NGX_HTTP_SENDFILE_STATS_BATCHES, 0);

    ngx_http_sendfile_metrics_zones(&m, smcf);
    ngx_http_sendfile_metrics_module(&m);

    if (m.open) {
        ngx_http_sendfile_out_text(&out, "# EOF\n");
    }

    return ngx_http_sendfile_status_send(r, NGX_HTTP_OK,
                                         m.open
                                         ? NGX_HTTP_SENDFILE_METRICS_OPEN
                                         : NGX_HTTP_SENDFILE_METRICS_TEXT,
                                         &out);
}


static ngx_uint_t
ngx_http_sendfile_metrics_open(ngx_http_request_t *r)
{
    nsf_str_t                     value;
    nsf_accept_t                  accept;
    ngx_table_elt_t              *h;
    ngx_http_sendfile_headers_t   it;

    nsf_accept_init(&accept);

    for (h = ngx_http_sendfile_headers_first(&it, &r->headers_in.headers.part);
         h;
         h = ngx_http_sendfile_headers_next(&it))
    {
        if (ngx_http_sendfile_name_is(&h->key, "Accept")) {
            value.data = h->value.data;
            value.len = h->value.len;

            nsf_accept_line(&accept, &value);
        }
    }

    return nsf_accept_openmetrics(&accept);
}


static void
ngx_http_sendfile_metrics_requests(ngx_http_sendfile_metrics_t *m)
{
    uint64_t                       n;
    ngx_uint_t                     i, result, source;
    ngx_http_sendfile_stats_row_t  row;

    ngx_http_sendfile_metrics_declare(m, "requests", "counter", "Requests.");

    i = 0;

    while (ngx_http_sendfile_stats_next(m->stats,
                                        NGX_HTTP_SENDFILE_STATS_LOCATION, &i,
                                        &row)
           == NGX_OK)
    {
        for (result = 0; result < NGX_HTTP_SENDFILE_STATS_RESULTS; result++) {
            for (source = 0;
                 source < NGX_HTTP_SENDFILE_STATS_SOURCES;
                 source++)
            {
                n = ngx_http_sendfile_stats_get(row.cells,
                              ngx_http_sendfile_stats_request(result, source));

                /* most of them never happen */

                if (n == 0) {
                    continue;
                }

                ngx_http_sendfile_metrics_sample(m, "");
                ngx_http_sendfile_metrics_names(m, &row);
                ngx_http_sendfile_metrics_word(m, "result",
                                            ngx_http_sendfile_results[result]);
                ngx_http_sendfile_metrics_word(m, "source",
                                            ngx_http_sendfile_sources[source]);
                ngx_http_sendfile_metrics_value(m, n);
            }
        }
    }
}


static void
ngx_http_sendfile_metrics_avoided(ngx_http_sendfile_metrics_t *m)
{
    uint64_t                       n;
    ngx_uint_t                     i;
    ngx_http_sendfile_stats_row_t  row;

    i = 0;
    n = 0;

    while (ngx_http_sendfile_stats_next(m->stats,
                                        NGX_HTTP_SENDFILE_STATS_LOCATION, &i,
                                        &row)
           == NGX_OK)
    {
        n += ngx_http_sendfile_stats_get(row.cells,
                                         NGX_HTTP_SENDFILE_STATS_AVOIDED);
    }

    ngx_http_sendfile_metrics_declare(m, "app_requests_avoided", "counter",
                                      "Requests that the application was "
                                      "spared.");
    ngx_http_sendfile_metrics_sample(m, "");
    ngx_http_sendfile_metrics_value(m, n);
}


static void
ngx_http_sendfile_metrics_rows(ngx_http_sendfile_metrics_t *m,
    ngx_http_sendfile_metric_t *metric)
{
    ngx_uint_t                     i, k;
    ngx_http_sendfile_stats_row_t  row;

    ngx_http_sendfile_metrics_declare(m, metric->name, "counter",
                                      metric->help);

    i = 0;

    while (ngx_http_sendfile_stats_next(m->stats, metric->kind, &i, &row)
           == NGX_OK)
    {
        for (k = 0; k < metric->n; k++) {

            if (metric->words && metric->words[k] == NULL) {
                continue;
            }

            ngx_http_sendfile_metrics_sample(m, "");
            ngx_http_sendfile_metrics_names(m, &row);

            if (metric->words) {
                ngx_http_sendfile_metrics_word(m, metric->label,
                                               metric->words[k]);
            }

            ngx_http_sendfile_metrics_value(m,
                                      ngx_http_sendfile_stats_get(row.cells,
                                                            metric->cell + k));
        }
    }
}


/* of the servers that are in the configuration as it is now */

static void
ngx_http_sendfile_metrics_up(ngx_http_sendfile_metrics_t *m)
{
    ngx_uint_t                     i;
    ngx_http_sendfile_stats_row_t  row;

    ngx_http_sendfile_metrics_declare(m, "store_up", "gauge",
                                      "0: the server is down.");

    i = 0;

    while (ngx_http_sendfile_stats_next(m->stats,
                                        NGX_HTTP_SENDFILE_STATS_STORE, &i,
                                        &row)
           == NGX_OK)
    {
        if (row.used) {
            ngx_http_sendfile_metrics_sample(m, "");
            ngx_http_sendfile_metrics_names(m, &row);
            ngx_http_sendfile_metrics_value(m,
                                      !ngx_http_sendfile_stats_get(row.cells,
                                            NGX_HTTP_SENDFILE_STATS_IS_DOWN));
        }
    }
}


static void
ngx_http_sendfile_metrics_histogram(ngx_http_sendfile_metrics_t *m,
    const char *name, const char *help, ngx_uint_t cell,
    const uint64_t *bounds, ngx_uint_t n, ngx_uint_t seconds)
{
    ngx_uint_t                     i;
    ngx_http_sendfile_stats_row_t  row;

    ngx_http_sendfile_metrics_declare(m, name, "histogram", help);

    i = 0;

    while (ngx_http_sendfile_stats_next(m->stats,
                                        NGX_HTTP_SENDFILE_STATS_STORE, &i,
                                        &row)
           == NGX_OK)
    {
        ngx_http_sendfile_metrics_buckets(m, &row, cell, bounds, n, seconds);
    }
}


/* the last bucket has all that the others have, so it is the count */

static void
ngx_http_sendfile_metrics_buckets(ngx_http_sendfile_metrics_t *m,
    ngx_http_sendfile_stats_row_t *row, ngx_uint_t cell,
    const uint64_t *bounds, ngx_uint_t n, ngx_uint_t seconds)
{
    u_char      *p, text[NGX_INT64_LEN + 8];
    uint64_t     count, sum;
    ngx_str_t    le;
    ngx_uint_t   i;

    count = 0;

    for (i = 0; i <= n; i++) {
        count += ngx_http_sendfile_stats_get(row->cells, cell + i);

        if (i == n) {
            ngx_str_set(&le, "+Inf");

        } else if (seconds) {
            p = ngx_snprintf(text, sizeof(text), "%uL.%06uL",
                             bounds[i] / 1000000, bounds[i] % 1000000);

            /* as other clients write it: "0.1", "1.0" */

            while (p[-1] == '0' && p[-2] != '.') {
                p--;
            }

            le.data = text;
            le.len = p - text;

        } else {
            le.data = text;
            le.len = ngx_snprintf(text, sizeof(text), "%uL.0", bounds[i])
                     - text;
        }

        ngx_http_sendfile_metrics_sample(m, "_bucket");
        ngx_http_sendfile_metrics_names(m, row);
        ngx_http_sendfile_metrics_label(m, "le", &le);
        ngx_http_sendfile_metrics_value(m, count);
    }

    sum = ngx_http_sendfile_stats_get(row->cells, cell + n + 1);

    ngx_http_sendfile_metrics_sample(m, "_sum");
    ngx_http_sendfile_metrics_names(m, row);

    if (seconds) {
        ngx_http_sendfile_metrics_end(m);
        ngx_http_sendfile_out_seconds(m->out, sum);
        ngx_http_sendfile_out_text(m->out, "\n");

    } else {
        ngx_http_sendfile_metrics_value(m, sum);
    }

    ngx_http_sendfile_metrics_sample(m, "_count");
    ngx_http_sendfile_metrics_names(m, row);
    ngx_http_sendfile_metrics_value(m, count);
}


static void
ngx_http_sendfile_metrics_zones(ngx_http_sendfile_metrics_t *m,
    ngx_http_sendfile_main_conf_t *smcf)
{
    ngx_uint_t                  i, k;
    nsf_shard_stat_t            stat;
    ngx_http_sendfile_zone_t  **zone;

    zone = smcf->zones.elts;

    ngx_http_sendfile_metrics_declare(m, "cache_entries", "gauge",
                                      "Entries there are.");

    for (i = 0; i < smcf->zones.nelts; i++) {

        ngx_http_sendfile_zone_stat(zone[i], &stat);

        for (k = 0; k < 2; k++) {
            ngx_http_sendfile_metrics_sample(m, "");
            ngx_http_sendfile_metrics_label(m, "zone", &zone[i]->name);
            ngx_http_sendfile_metrics_word(m, "kind",
                                           ngx_http_sendfile_signs[k]);
            ngx_http_sendfile_metrics_value(m, k ? stat.negative
                                                 : stat.entries);
        }
    }

    ngx_http_sendfile_metrics_declare(m, "cache_bytes", "gauge",
                                      "Bytes that entries take.");

    for (i = 0; i < smcf->zones.nelts; i++) {

        ngx_http_sendfile_zone_stat(zone[i], &stat);

        ngx_http_sendfile_metrics_sample(m, "");
        ngx_http_sendfile_metrics_label(m, "zone", &zone[i]->name);
        ngx_http_sendfile_metrics_value(m, stat.bytes);
    }

    ngx_http_sendfile_metrics_declare(m, "cache_size_bytes", "gauge",
                                      "Bytes of the zone.");

    for (i = 0; i < smcf->zones.nelts; i++) {
        ngx_http_sendfile_metrics_sample(m, "");
        ngx_http_sendfile_metrics_label(m, "zone", &zone[i]->name);
        ngx_http_sendfile_metrics_value(m, zone[i]->size);
    }
}


static void
ngx_http_sendfile_metrics_module(ngx_http_sendfile_metrics_t *m)
{
    ngx_http_sendfile_metrics_declare(m, "start_time_seconds", "gauge",
                                      "Since when is counted, Unix time.");
    ngx_http_sendfile_metrics_sample(m, "");
    ngx_http_sendfile_metrics_end(m);
    ngx_http_sendfile_out_seconds(m->out,
                                  ngx_http_sendfile_stats_start(m->stats));
    ngx_http_sendfile_out_text(m->out, "\n");

    ngx_http_sendfile_metrics_declare(m, "build_info", "gauge",
                                      "The module's version and nginx's.");
    ngx_http_sendfile_metrics_sample(m, "");
    ngx_http_sendfile_metrics_word(m, "version", NGX_HTTP_SENDFILE_VERSION);
    ngx_http_sendfile_metrics_word(m, "nginx", NGINX_VERSION);
    ngx_http_sendfile_metrics_value(m, 1);
}


/* "help" has neither a backslash nor a line feed */

static void
ngx_http_sendfile_metrics_declare(ngx_http_sendfile_metrics_t *m,
    const char *name, const char *type, const char *help)
{
    const char  *suffix;

    m->name = name;
    m->counter = (ngx_strcmp(type, "counter") == 0);

    suffix = (m->counter && !m->open) ? "_total " : " ";

    ngx_http_sendfile_out_text(m->out, "# HELP ngx_sendfile_");
    ngx_http_sendfile_out_text(m->out, name);
    ngx_http_sendfile_out_text(m->out, suffix);
    ngx_http_sendfile_out_text(m->out, help);
    ngx_http_sendfile_out_text(m->out, "\n# TYPE ngx_sendfile_");
    ngx_http_sendfile_out_text(m->out, name);
    ngx_http_sendfile_out_text(m->out, suffix);
    ngx_http_sendfile_out_text(m->out, type);
    ngx_http_sendfile_out_text(m->out, "\n");
}


static void
ngx_http_sendfile_metrics_sample(ngx_http_sendfile_metrics_t *m,
    const char *suffix)
{
    ngx_http_sendfile_out_text(m->out, "ngx_sendfile_");
    ngx_http_sendfile_out_text(m->out, m->name);
    ngx_http_sendfile_out_text(m->out, m->counter ? "_total" : suffix);

    m->labels = 0;
}


/* an empty one is as good as none */

static void
ngx_http_sendfile_metrics_label(ngx_http_sendfile_metrics_t *m,
    const char *name, ngx_str_t *value)
{
    if (value->len == 0) {
        return;
    }

    ngx_http_sendfile_out_text(m->out, m->labels++ ? "," : "{");
    ngx_http_sendfile_out_text(m->out, name);
    ngx_http_sendfile_out_text(m->out, "=\"");
    ngx_http_sendfile_out_label_escaped(m->out, value);
    ngx_http_sendfile_out_text(m->out, "\"");
}


static void
ngx_http_sendfile_metrics_word(ngx_http_sendfile_metrics_t *m,
    const char *name, const char *value)
{
    ngx_str_t  s;

    s.data = (u_char *) value;
    s.len = ngx_strlen(value);

    ngx_http_sendfile_metrics_label(m, name, &s);
}


static void
ngx_http_sendfile_metrics_names(ngx_http_sendfile_metrics_t *m,
    ngx_http_sendfile_stats_row_t *row)
{
    ngx_uint_t   i;
    const char  *name;

    for (i = 0; i < 2; i++) {
        name = ngx_http_sendfile_metrics_labels[row->kind][i];

        if (name) {
            ngx_http_sendfile_metrics_label(m, name, &row->names[i]);
        }
    }
}


static void
ngx_http_sendfile_metrics_end(ngx_http_sendfile_metrics_t *m)
{
    ngx_http_sendfile_out_text(m->out, m->labels ? "} " : " ");
}


static void
ngx_http_sendfile_metrics_value(ngx_http_sendfile_metrics_t *m,
    uint64_t value)
{
    ngx_http_sendfile_metrics_end(m);
    ngx_http_sendfile_out_uint(m->out, value);
    ngx_http_sendfile_out_text(m->out, "\n");
}
