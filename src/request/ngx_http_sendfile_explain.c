
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * The question, the wait for a store, the answer.  The request that asks owns
 * all memory, and its end is the end of it all.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_explain.h"


static const char *ngx_http_sendfile_explain_args(
    ngx_http_sendfile_explain_t *ex);
static ngx_int_t ngx_http_sendfile_explain_unescape(
    ngx_http_sendfile_explain_t *ex, u_char *p, u_char *last, ngx_str_t *to);
static ngx_int_t ngx_http_sendfile_explain_begin(
    ngx_http_sendfile_explain_t *ex);
static void ngx_http_sendfile_explain_note_server(
    ngx_http_sendfile_explain_t *ex);
static ngx_int_t ngx_http_sendfile_explain_wait(
    ngx_http_sendfile_explain_t *ex);
static void ngx_http_sendfile_explain_resume(
    ngx_http_sendfile_trial_t *trial);
static void ngx_http_sendfile_explain_cleanup(void *data);
static ngx_int_t ngx_http_sendfile_explain_answer(
    ngx_http_sendfile_explain_t *ex);
static void ngx_http_sendfile_explain_outcome(ngx_http_sendfile_explain_t *ex,
    ngx_http_sendfile_out_t *out);
static void ngx_http_sendfile_explain_headers(ngx_http_sendfile_explain_t *ex,
    ngx_http_sendfile_out_t *out);
static void ngx_http_sendfile_explain_header(ngx_http_sendfile_out_t *out,
    const char *name, ngx_str_t *value);


ngx_int_t
ngx_http_sendfile_explain(ngx_http_request_t *r, ngx_str_t *rest)
{
    ngx_int_t                     rc;
    const char                   *error;
    ngx_http_cleanup_t           *cln;
    ngx_http_sendfile_explain_t  *ex;

    ex = ngx_pcalloc(r->pool, sizeof(ngx_http_sendfile_explain_t));

    if (ex == NULL
        || ngx_array_init(&ex->advice, r->pool, 4, sizeof(ngx_str_t))
           != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ex->asker = r;
    ex->trial.data = ex;
    ex->trial.replied = ngx_http_sendfile_explain_resume;

    ngx_http_sendfile_out_init(&ex->steps, r->pool);

    error = ngx_http_sendfile_explain_args(ex);

    if (error == NULL) {
        error = ngx_http_sendfile_explain_listen(ex);
    }

    if (error) {
        return ngx_http_sendfile_status_error(r, NGX_HTTP_BAD_REQUEST, error);
    }

    cln = ngx_http_cleanup_add(r, 0);
    if (cln == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    cln->handler = ngx_http_sendfile_explain_cleanup;
    cln->data = ex;

    rc = ngx_http_sendfile_explain_begin(ex);

    if (rc == NGX_AGAIN) {
        return ngx_http_sendfile_explain_wait(ex);
    }

    return (rc == NGX_OK) ? ngx_http_sendfile_explain_answer(ex)
                          : NGX_HTTP_INTERNAL_SERVER_ERROR;
}


ngx_uint_t
ngx_http_sendfile_explain_variable(ngx_http_request_t *r)
{
    ngx_http_sendfile_ctx_t  *ctx;

    ctx = ngx_http_sendfile_get_ctx(r);

    if (ctx == NULL || ctx->trial == NULL) {
        return 0;
    }

    ctx->trial->variable = 1;

    return 1;
}


/*
 * "url=" and all that follows it, for a URL's own arguments may not be
 * encoded; "&host=" at its end, or "host=" before it.
 */

static const char *
ngx_http_sendfile_explain_args(ngx_http_sendfile_explain_t *ex)
{
    u_char     *p, *last, *h, *host_last;
    ngx_str_t   args, url, host;

    static const char  usage[] = "write ?url=URL, percent-encoded, such as "
                                 "?url=http%3A%2F%2Fhost%2Ffile%2F7, and "
                                 "&host=NAME for another Host";

    args = ex->asker->args;

    ngx_str_null(&host);

    p = args.data;
    last = p + args.len;

    if (args.len > 5 && ngx_strncmp(p, "host=", 5) == 0) {

        h = p + 5;
        host_last = ngx_strlchr(h, last, '&');

        if (host_last == NULL) {
            return usage;
        }

        p = host_last + 1;

    } else {

        for (h = last; h > args.data; h--) {
            if (last - h >= 6 && ngx_strncmp(h, "&host=", 6) == 0) {
                break;
            }
        }

        if (h > args.data) {
            host_last = last;
            last = h;
            h += 6;

        } else {
            h = NULL;
            host_last = NULL;
        }
    }

    if (last - p <= 4 || ngx_strncmp(p, "url=", 4) != 0) {
        return usage;
    }

    if (ngx_http_sendfile_explain_unescape(ex, p + 4, last, &url) != NGX_OK
        || (h && ngx_http_sendfile_explain_unescape(ex, h, host_last, &host)
                 != NGX_OK))
    {
        return "no memory";
    }

    return ngx_http_sendfile_explain_url(ex, &url, &host);
}


static ngx_int_t
ngx_http_sendfile_explain_unescape(ngx_http_sendfile_explain_t *ex, u_char *p,
    u_char *last, ngx_str_t *to)
{
    u_char  *dst;

    dst = ngx_pnalloc(ex->asker->pool, last - p + 1);
    if (dst == NULL) {
        return NGX_ERROR;
    }

    to->data = dst;

    ngx_unescape_uri(&dst, &p, last - p, 0);

    to->len = dst - to->data;

    return NGX_OK;
}


/* NGX_OK: all is noted; NGX_AGAIN: a store is asked; NGX_ERROR */

static ngx_int_t
ngx_http_sendfile_explain_begin(ngx_http_sendfile_explain_t *ex)
{
    ngx_int_t  rc;

    rc = ngx_http_sendfile_explain_create(ex);

    if (rc != NGX_OK) {
        return (rc == NGX_DECLINED) ? NGX_OK : rc;
    }

    ngx_http_sendfile_explain_note_server(ex);

#if (NGX_HTTP_SSL)

    if (ex->addr_conf->ssl && !ex->url.https) {
        ngx_http_sendfile_explain_end(ex, "not_ours", NGX_HTTP_BAD_REQUEST,
                                      "server",
                                      "400: %V speaks TLS, and the URL does "
                                      "not", &ex->listen);
        ngx_http_sendfile_explain_advise(ex, "write https:// in the URL");

        return NGX_OK;
    }

#endif

    rc = ngx_http_sendfile_explain_find(ex);

    if (rc == NGX_OK) {
        return ngx_http_sendfile_explain_serve(ex);
    }

    return (rc == NGX_DONE) ? NGX_OK : rc;
}


static void
ngx_http_sendfile_explain_note_server(ngx_http_sendfile_explain_t *ex)
{
    ngx_http_sendfile_out_t   *j;
    ngx_http_core_srv_conf_t  *cscf;

    j = &ex->steps;

    cscf = ngx_http_get_module_srv_conf(ex->request, ngx_http_core_module);

    ngx_http_sendfile_explain_step(ex, "server", "ok",
                                   "%V listens, and the server at %s:%ui %s",
                                   &ex->listen, cscf->file_name, cscf->line,
                                   ex->default_server
                                   ? "is the default: no server_name fits"
                                   : "has the name");

    ngx_http_sendfile_explain_str(j, "listen", &ex->listen);
    ngx_http_sendfile_explain_str(j, "server_name", &cscf->server_name);
    ngx_http_sendfile_explain_bytes(j, "file", cscf->file_name,
                                    ngx_strlen(cscf->file_name));
    ngx_http_sendfile_json_uint(j, "line", cscf->line);
    ngx_http_sendfile_json_bool(j, "default", ex->default_server);

    ngx_http_sendfile_explain_step_end(ex);
}


static ngx_int_t
ngx_http_sendfile_explain_wait(ngx_http_sendfile_explain_t *ex)
{
    if (ngx_http_sendfile_suspend(ex->asker) != NGX_OK) {
        ngx_http_sendfile_explain_destroy(ex);
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ex->asker->main->count++;

    return NGX_DONE;
}


/* from the event loop: the store has answered, or its time is over */

static void
ngx_http_sendfile_explain_resume(ngx_http_sendfile_trial_t *trial)
{
    ngx_int_t                     rc;
    ngx_connection_t             *c;
    ngx_http_request_t           *r;
    ngx_http_sendfile_explain_t  *ex;

    ex = trial->data;
    r = ex->asker;
    c = r->connection;

    ngx_http_set_log_request(c->log, r);

    rc = ngx_http_sendfile_explain_replied(ex);

    if (rc == NGX_AGAIN) {
        return;
    }

    r->read_event_handler = ngx_http_block_reading;

    rc = (rc == NGX_OK) ? ngx_http_sendfile_explain_answer(ex)
                        : NGX_HTTP_INTERNAL_SERVER_ERROR;

    ngx_http_finalize_request(r, rc);
    ngx_http_run_posted_requests(c);
}


/* of the request that asks, whatever ends it */

static void
ngx_http_sendfile_explain_cleanup(void *data)
{
    ngx_http_sendfile_explain_destroy(data);
}


static ngx_int_t
ngx_http_sendfile_explain_answer(ngx_http_sendfile_explain_t *ex)
{
    ngx_uint_t                i;
    ngx_str_t                *advice;
    ngx_chain_t              *cl;
    ngx_http_sendfile_out_t   out;

    ngx_http_sendfile_explain_destroy(ex);

    if (ex->steps.failed || ex->outcome == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_http_sendfile_out_init(&out, ex->asker->pool);
    ngx_http_sendfile_json_open(&out, NULL, '{');

    ngx_http_sendfile_explain_str(&out, "url", &ex->text);
    ngx_http_sendfile_explain_outcome(ex, &out);

    ngx_http_sendfile_json_open(&out, "advice", '[');
    advice = ex->advice.elts;

    for (i = 0; i < ex->advice.nelts; i++) {
        ngx_http_sendfile_explain_str(&out, NULL, &advice[i]);
    }

    ngx_http_sendfile_json_close(&out, ']');

    ngx_http_sendfile_json_open(&out, "steps", '[');

    for (cl = ex->steps.chain; cl; cl = cl->next) {
        ngx_http_sendfile_out_bytes(&out, cl->buf->pos,
                                    cl->buf->last - cl->buf->pos);
    }

    ngx_http_sendfile_json_close(&out, ']');

    ngx_http_sendfile_explain_headers(ex, &out);

    ngx_http_sendfile_json_open(&out, "worker", '{');
    ngx_http_sendfile_json_uint(&out, "pid", ngx_pid);
    ngx_http_sendfile_json_uint(&out, "uid", geteuid());
    ngx_http_sendfile_json_uint(&out, "gid", getegid());
    ngx_http_sendfile_json_close(&out, '}');

    ngx_http_sendfile_json_close(&out, '}');
    ngx_http_sendfile_out_text(&out, "\n");

    return ngx_http_sendfile_status_send(ex->asker, NGX_HTTP_OK,
                                         NGX_HTTP_SENDFILE_STATUS_JSON, &out);
}


static void
ngx_http_sendfile_explain_outcome(ngx_http_sendfile_explain_t *ex,
    ngx_http_sendfile_out_t *out)
{
    size_t       len;
    ngx_str_t    reason;
    const char  *unknown;

    /* a rule that has not run may have led elsewhere */

    unknown = ex->trial.variable ? "not known, for mruby_set was not run; with "
                                   "an empty variable: " : "";

    len = ngx_strlen(unknown) + ex->verdict.len;

    reason.data = ngx_pnalloc(out->pool, len);
    if (reason.data == NULL) {
        out->failed = 1;
        return;
    }

    reason.len = ngx_snprintf(reason.data, len, "%s%V", unknown, &ex->verdict)
                 - reason.data;

    ngx_http_sendfile_explain_str(out, "verdict", &reason);
    ngx_http_sendfile_json_text(out, "outcome",
                                ex->trial.variable ? "unknown" : ex->outcome);

    if (ex->status && !ex->trial.variable) {
        ngx_http_sendfile_json_uint(out, "status", ex->status);

    } else {
        ngx_http_sendfile_json_null(out, "status");
    }

    ngx_http_sendfile_json_string(out, "source",
                                  ngx_http_sendfile_source_name(ex->ctx));
    ngx_http_sendfile_json_string(out, "result",
                                  ngx_http_sendfile_status_name(ex->ctx));

    if (ngx_http_sendfile_reason(ex->request, ex->ctx, &reason) == NGX_OK) {
        ngx_http_sendfile_explain_str(out, "reason", &reason);

    } else {
        ngx_http_sendfile_json_null(out, "reason");
    }

    ngx_http_sendfile_json_text(out, "step", ex->step);
}


/* of the file's response, as far as they are known */

static void
ngx_http_sendfile_explain_headers(ngx_http_sendfile_explain_t *ex,
    ngx_http_sendfile_out_t *out)
{
    size_t                    len;
    ngx_str_t                 value;
    ngx_uint_t                i;
    ngx_list_part_t          *part;
    ngx_table_elt_t          *h;
    ngx_http_headers_out_t   *headers;
    u_char                    text[sizeof("Mon, 28 Sep 1970 06:00:00 GMT")];

    ngx_http_sendfile_json_open(out, "headers", '[');

    headers = &ex->request->headers_out;

    if (!ex->headers) {
        ngx_http_sendfile_json_close(out, ']');
        return;
    }

    value = headers->content_type;

    if (headers->content_type_len == value.len && headers->charset.len) {

        len = value.len + sizeof("; charset=") + headers->charset.len;

        value.data = ngx_pnalloc(out->pool, len);
        if (value.data == NULL) {
            out->failed = 1;
            return;
        }

        value.len = ngx_snprintf(value.data, len, "%V; charset=%V",
                                 &headers->content_type, &headers->charset)
                    - value.data;
    }

    if (value.len) {
        ngx_http_sendfile_explain_header(out, "Content-Type", &value);
    }

    value.data = text;
    value.len = ngx_snprintf(text, sizeof(text), "%O",
                             headers->content_length_n)
                - text;

    ngx_http_sendfile_explain_header(out, "Content-Length", &value);

    if (headers->last_modified_time != -1) {
        value.len = ngx_http_time(text, headers->last_modified_time) - text;

        ngx_http_sendfile_explain_header(out, "Last-Modified", &value);
    }

    part = &headers->headers.part;
    h = part->elts;

    for (i = 0; /* void */ ; i++) {

        if (i >= part->nelts) {

            if (part->next == NULL) {
                break;
            }

            part = part->next;
            h = part->elts;
            i = 0;
        }

        if (h[i].hash) {
            ngx_http_sendfile_json_open(out, NULL, '[');
            ngx_http_sendfile_explain_str(out, NULL, &h[i].key);
            ngx_http_sendfile_explain_str(out, NULL, &h[i].value);
            ngx_http_sendfile_json_close(out, ']');
        }
    }

    ngx_http_sendfile_json_close(out, ']');
}


static void
ngx_http_sendfile_explain_header(ngx_http_sendfile_out_t *out,
    const char *name, ngx_str_t *value)
{
    ngx_http_sendfile_json_open(out, NULL, '[');
    ngx_http_sendfile_json_text(out, NULL, name);
    ngx_http_sendfile_explain_str(out, NULL, value);
    ngx_http_sendfile_json_close(out, ']');
}
