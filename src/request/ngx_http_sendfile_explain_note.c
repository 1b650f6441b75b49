
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * The steps of the answer, and what is to be said of them.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_explain.h"
#include "ngx_http_sendfile_compat.h"


#define NGX_HTTP_SENDFILE_SENTENCE  2048


static ngx_str_t ngx_http_sendfile_explain_format(
    ngx_http_sendfile_explain_t *ex, const char *fmt, va_list args);
static void ngx_http_sendfile_explain_note_cache(
    ngx_http_sendfile_explain_t *ex);
static void ngx_http_sendfile_explain_note_store(
    ngx_http_sendfile_explain_t *ex);
static void ngx_http_sendfile_explain_note_value(
    ngx_http_sendfile_explain_t *ex);
static void ngx_http_sendfile_explain_note_record(
    ngx_http_sendfile_explain_t *ex);
static void ngx_http_sendfile_explain_known(ngx_http_sendfile_explain_t *ex);
static const char *ngx_http_sendfile_explain_note_missing(
    ngx_http_sendfile_explain_t *ex);


/* a sentence, as long as one may be */

static ngx_str_t
ngx_http_sendfile_explain_format(ngx_http_sendfile_explain_t *ex,
    const char *fmt, va_list args)
{
    u_char     *p;
    ngx_str_t   s;
    u_char      buf[NGX_HTTP_SENDFILE_SENTENCE];

    p = ngx_vslprintf(buf, buf + NGX_HTTP_SENDFILE_SENTENCE, fmt, args);

    s.len = p - buf;

    s.data = ngx_pnalloc(ex->asker->pool, s.len + 1);
    if (s.data == NULL) {
        ex->steps.failed = 1;
        s.len = 0;
        return s;
    }

    ngx_memcpy(s.data, buf, s.len);

    return s;
}


void
ngx_http_sendfile_explain_step(ngx_http_sendfile_explain_t *ex,
    const char *step, const char *state, const char *fmt, ...)
{
    va_list    args;
    ngx_str_t  text;

    va_start(args, fmt);
    text = ngx_http_sendfile_explain_format(ex, fmt, args);
    va_end(args);

    ngx_http_sendfile_json_open(&ex->steps, NULL, '{');
    ngx_http_sendfile_json_text(&ex->steps, "step", step);
    ngx_http_sendfile_json_text(&ex->steps, "state", state);
    ngx_http_sendfile_explain_str(&ex->steps, "text", &text);
}


void
ngx_http_sendfile_explain_step_end(ngx_http_sendfile_explain_t *ex)
{
    ngx_http_sendfile_json_close(&ex->steps, '}');
}


void
ngx_http_sendfile_explain_told(void *data, const char *step,
    const char *state, const char *advice, const char *fmt, ...)
{
    va_list                       args;
    ngx_str_t                     text;
    ngx_http_sendfile_explain_t  *ex;

    ex = data;

    va_start(args, fmt);
    text = ngx_http_sendfile_explain_format(ex, fmt, args);
    va_end(args);

    ngx_http_sendfile_explain_step(ex, step, state, "%V", &text);
    ngx_http_sendfile_explain_step_end(ex);

    if (advice) {
        ngx_http_sendfile_explain_advise(ex, "%s", advice);
    }
}


void
ngx_http_sendfile_explain_recalled(ngx_http_sendfile_trial_t *trial)
{
    ngx_uint_t                    fresh;
    const char                   *entry, *text;
    ngx_http_sendfile_explain_t  *ex;

    ex = trial->data;

    /* that of a record */

    ngx_http_sendfile_explain_note_file(ex, 0);

    fresh = (trial->learned.valid > ngx_current_msec);

    if (!trial->learns) {
        entry = "none";
        text = "no redirect of the application's was learned for it";

    } else if (trial->learned_old) {
        entry = "old";
        text = "a redirect was learned, but it was purged";

    } else {
        entry = fresh ? "fresh" : "old";
        text = fresh ? "a redirect of the application's was learned"
                     : "a redirect was learned, but its time is over";
    }

    ngx_http_sendfile_explain_step(ex, "learned", "ok", "%s", text);
    ngx_http_sendfile_explain_str(&ex->steps, "key", &ex->ctx->key);
    ngx_http_sendfile_json_text(&ex->steps, "entry", entry);

    if (trial->learns) {
        ngx_http_sendfile_json_uint(&ex->steps, "left_ms",
                                    fresh ? trial->learned.valid
                                            - ngx_current_msec : 0);
    }

    ngx_http_sendfile_explain_step_end(ex);

    /* of a whole answer, which is another step, nothing is known yet */

    trial->learns = 0;
}


void
ngx_http_sendfile_explain_end(ngx_http_sendfile_explain_t *ex,
    const char *outcome, ngx_uint_t status, const char *step,
    const char *fmt, ...)
{
    va_list  args;

    if (ex->outcome) {
        return;
    }

    ex->outcome = outcome;
    ex->status = status;
    ex->step = step;

    va_start(args, fmt);
    ex->verdict = ngx_http_sendfile_explain_format(ex, fmt, args);
    va_end(args);
}


void
ngx_http_sendfile_explain_advise(ngx_http_sendfile_explain_t *ex,
    const char *fmt, ...)
{
    va_list     args;
    ngx_str_t  *sentence;

    sentence = ngx_array_push(&ex->advice);

    if (sentence == NULL) {
        ex->steps.failed = 1;
        return;
    }

    va_start(args, fmt);
    *sentence = ngx_http_sendfile_explain_format(ex, fmt, args);
    va_end(args);
}


ngx_str_t
ngx_http_sendfile_explain_location(ngx_http_sendfile_explain_t *ex)
{
    size_t                     len;
    ngx_str_t                  name;
    const char                *modifier;
    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_get_module_loc_conf(ex->request, ngx_http_core_module);

    modifier = ngx_http_sendfile_loc_modifier(clcf);

    len = ngx_strlen(modifier) + clcf->name.len;

    name.len = 0;
    name.data = ngx_pnalloc(ex->asker->pool, len + 1);

    if (name.data == NULL) {
        ex->steps.failed = 1;
        return name;
    }

    name.len = ngx_snprintf(name.data, len, "%s%V", modifier, &clcf->name)
               - name.data;

    return name;
}


void
ngx_http_sendfile_explain_note_lookup(ngx_http_sendfile_explain_t *ex)
{
    if (ex->noted) {
        return;
    }

    ex->noted = 1;

    ngx_http_sendfile_explain_note_cache(ex);

    if (ex->trial.replies) {
        ngx_http_sendfile_explain_note_store(ex);

        if (ex->trial.reply.rc == NGX_OK) {
            ngx_http_sendfile_explain_note_value(ex);
        }
    }

    if (ex->ctx->outcome.target.path.len) {
        ngx_http_sendfile_explain_note_record(ex);
    }
}


static void
ngx_http_sendfile_explain_note_cache(ngx_http_sendfile_explain_t *ex)
{
    ngx_uint_t                     fresh;
    const char                    *entry, *text;
    ngx_http_sendfile_trial_t     *trial;
    ngx_http_sendfile_loc_conf_t  *slcf;

    trial = &ex->trial;

    slcf = ngx_http_get_module_loc_conf(ex->request, ngx_http_sendfile_module);

    if (slcf->cache == NULL || ex->ctx->store == NULL) {
        return;
    }

    fresh = (trial->entry.valid > ngx_current_msec);

    if (!trial->cached) {
        entry = "none";
        text = "has nothing for the key";

    } else if (trial->purged) {
        entry = "old";
        text = "has an entry, but it was purged";

    } else if (trial->entry.negative) {
        entry = fresh ? "miss" : "old";
        text = fresh ? "knows that the store has no such key"
                     : "knew that the store has no such key, for too long";
    } else {
        entry = fresh ? "fresh" : "old";
        text = fresh ? "has the record"
                     : "has the record, but its time is over";
    }

    ngx_http_sendfile_explain_step(ex, "cache", "ok", "the cache \"%V\" %s",
                                   &slcf->cache->name, text);
    ngx_http_sendfile_explain_str(&ex->steps, "zone", &slcf->cache->name);
    ngx_http_sendfile_json_text(&ex->steps, "entry", entry);

    if (trial->cached) {
        ngx_http_sendfile_json_uint(&ex->steps, "left_ms",
                                   fresh ? trial->entry.valid
                                           - ngx_current_msec : 0);
    }

    ngx_http_sendfile_explain_step_end(ex);
}


static void
ngx_http_sendfile_explain_note_store(ngx_http_sendfile_explain_t *ex)
{
    const char                  *text;
    ngx_str_t                    reason;
    ngx_http_sendfile_ctx_t     *ctx;
    ngx_http_sendfile_out_t     *j;
    ngx_http_sendfile_result_t  *reply;

    j = &ex->steps;
    ctx = ex->ctx;
    reply = &ex->trial.reply;

    switch (reply->rc) {

    case NGX_OK:
        text = "has the key";
        break;

    case NGX_DECLINED:
        text = reply->substitute ? "has no such key, but the key's own server "
                                   "is down"
                                 : "has no such key";
        break;

    case NGX_HTTP_SENDFILE_TIMEDOUT:
        text = "does not answer in time";
        break;

    default:
        text = "cannot be asked";
    }

    ngx_http_sendfile_explain_step(ex, "store",
                                   (reply->rc == NGX_OK) ? "ok" : "failed",
                                   "the store %V %s", &ctx->store->url, text);

    ngx_http_sendfile_explain_str(j, "store", &ctx->store->url);

    if (reply->server) {
        ngx_http_sendfile_explain_str(j, "server", reply->server);
    }

    if (ctx->lookup_time != (ngx_msec_t) -1) {
        ngx_http_sendfile_json_uint(j, "time_ms", ctx->lookup_time);
    }

    if (reply->rc != NGX_OK
        && ngx_http_sendfile_reason(ex->request, ctx, &reason) == NGX_OK)
    {
        ngx_http_sendfile_explain_str(j, "error", &reason);
    }

    ngx_http_sendfile_explain_step_end(ex);
}


static void
ngx_http_sendfile_explain_note_value(ngx_http_sendfile_explain_t *ex)
{
    size_t                      n;
    ngx_http_sendfile_out_t    *j;
    ngx_http_sendfile_value_t  *value;

    j = &ex->steps;
    value = &ex->trial.reply.value;

    n = (value->len <= NSF_MAX_VALUE)
        ? ngx_min(value->len, NGX_HTTP_SENDFILE_TRIAL_VALUE) : 0;

    ngx_http_sendfile_explain_step(ex, "value", "ok",
                                   "the value has %uz bytes", value->len);
    ngx_http_sendfile_json_uint(j, "bytes", value->len);
    ngx_http_sendfile_json_uint(j, "flags", value->flags);
    ngx_http_sendfile_explain_bytes(j, "value", value->data, n);
    ngx_http_sendfile_json_bool(j, "truncated", n < value->len);
    ngx_http_sendfile_explain_step_end(ex);
}


static void
ngx_http_sendfile_explain_note_record(ngx_http_sendfile_explain_t *ex)
{
    size_t                     i;
    nsf_target_t              *t;
    ngx_http_sendfile_out_t   *j;

    j = &ex->steps;
    t = &ex->ctx->outcome.target;

    ngx_http_sendfile_explain_step(ex, "record", "ok",
                                   "the record names the file \"%*s\"",
                                   t->path.len, t->path.data);
    ngx_http_sendfile_explain_str(j, "path", &t->path);

    if (t->type.len) {
        ngx_http_sendfile_explain_str(j, "type", &t->type);
    }

    if (t->name.len) {
        ngx_http_sendfile_explain_str(j, "name", &t->name);
    }

    if (t->disposition != NSF_DISPOSITION_NONE) {
        ngx_http_sendfile_json_text(j, "disposition",
                                    (t->disposition
                                     == NSF_DISPOSITION_ATTACHMENT)
                                    ? "attachment" : "inline");
    }

    if (t->expires) {
        ngx_http_sendfile_json_uint(j, "expires", t->expires);
    }

    if (t->nheaders) {
        ngx_http_sendfile_json_open(j, "headers", '[');

        for (i = 0; i < t->nheaders; i++) {
            ngx_http_sendfile_json_open(j, NULL, '[');
            ngx_http_sendfile_explain_str(j, NULL, &t->headers[i].name);
            ngx_http_sendfile_explain_str(j, NULL, &t->headers[i].value);
            ngx_http_sendfile_json_close(j, ']');
        }

        ngx_http_sendfile_json_close(j, ']');
    }

    ngx_http_sendfile_explain_step_end(ex);
}


void
ngx_http_sendfile_explain_note_file(ngx_http_sendfile_explain_t *ex,
    ngx_uint_t found)
{
    ngx_http_request_t           *r;
    ngx_http_sendfile_out_t      *j;
    ngx_http_sendfile_outcome_t  *outcome;

    r = ex->request;
    j = &ex->steps;
    outcome = &ex->ctx->outcome;

    if (ex->trial.file.len == 0) {
        return;
    }

    ngx_http_sendfile_explain_step(ex, "root", "ok", "the root is \"%V\"",
                                   &ex->trial.root);
    ngx_http_sendfile_explain_str(j, "root", &ex->trial.root);
    ngx_http_sendfile_explain_step_end(ex);

    if (found) {
        ngx_http_sendfile_explain_step(ex, "file", "ok",
                                       "the file \"%V\" can be read",
                                       &ex->trial.file);
        ngx_http_sendfile_explain_str(j, "path", &ex->trial.file);
        ngx_http_sendfile_json_uint(j, "size",
                                      r->headers_out.content_length_n);
        ngx_http_sendfile_json_uint(j, "modified",
                                      r->headers_out.last_modified_time);
    } else {
        ngx_http_sendfile_explain_step(ex, "file", "failed",
                                       "the file \"%V\" cannot be read: %s",
                                       &ex->trial.file,
                                       outcome->reason ? outcome->reason : "");
        ngx_http_sendfile_explain_str(j, "path", &ex->trial.file);

        if (outcome->err) {
            ngx_http_sendfile_json_uint(j, "errno", outcome->err);
        }
    }

    ngx_http_sendfile_explain_folders(ex, &ex->trial.file);
    ngx_http_sendfile_explain_step_end(ex);

    /* it is noted */

    ex->trial.file.len = 0;
}


const char *
ngx_http_sendfile_explain_note_failure(ngx_http_sendfile_explain_t *ex)
{
    const char                   *format;
    ngx_http_sendfile_ctx_t      *ctx;
    ngx_http_sendfile_outcome_t  *outcome;

    ctx = ex->ctx;
    outcome = &ctx->outcome;

    switch (outcome->failure) {

    case NGX_HTTP_SENDFILE_ON_MISS:
        return ngx_http_sendfile_explain_note_missing(ex);

    case NGX_HTTP_SENDFILE_ON_ERROR:

        if (ngx_strcmp(outcome->reason, "no http_sendfile_root") == 0) {
            ngx_http_sendfile_explain_known(ex);
            return "root";
        }

        if (outcome->target.path.len) {
            return "file";
        }

        if (!ctx->store->type->async) {
            ngx_http_sendfile_explain_known(ex);
            return "store";
        }

        ngx_http_sendfile_explain_advise(ex, "start the store %V, or write "
                                         "its address in http_sendfile_lookup",
                                         &ctx->store->url);
        return "store";

    case NGX_HTTP_SENDFILE_ON_TIMEOUT:
        ngx_http_sendfile_explain_advise(ex, "find out why the store %V is "
                                         "slow; its time limit is "
                                         "http_sendfile_timeout, or timeout "
                                         "of its block", &ctx->store->url);
        return "store";

    case NGX_HTTP_SENDFILE_ON_MISSING_FILE:

        /* of permissions the folders say more */

        if (outcome->err == NGX_ELOOP
            || outcome->err == NGX_EXDEV
            || outcome->err == 0)
        {
            ngx_http_sendfile_explain_known(ex);
        }

        return "file";

    case NGX_HTTP_SENDFILE_ON_INVALID:
        break;

    default:
        return "http_sendfile";
    }

    if (outcome->source == NGX_HTTP_SENDFILE_SOURCE_SIGNED) {
        ngx_http_sendfile_explain_known(ex);
        return "token";
    }

    if (ctx->store == NULL) {
        ngx_http_sendfile_explain_advise(ex, "a key has 1 to 250 bytes, none "
                                         "of them a space or a control byte: "
                                         "see http_sendfile_key");
        return "key";
    }

    if (outcome->code == NGX_HTTP_INTERNAL_SERVER_ERROR) {
        ngx_http_sendfile_explain_advise(ex, "http_sendfile_root or _prefix "
                                         "has a variable that makes no "
                                         "absolute path of it");
        return "root";
    }

    format = outcome->detail ? outcome->detail : "";

    ngx_http_sendfile_explain_advise(ex, "write a record for the key \"%V\" "
                                     "as docs/records.md has them: %s",
                                     &ctx->key, format);
    return "record";
}


/* what the table of reasons has to say */

static void
ngx_http_sendfile_explain_known(ngx_http_sendfile_explain_t *ex)
{
    ngx_str_t                     reason, detail;
    ngx_uint_t                    kind;
    ngx_http_sendfile_outcome_t  *outcome;

    outcome = &ex->ctx->outcome;

    reason.data = (u_char *) (outcome->reason ? outcome->reason : "");
    reason.len = ngx_strlen(reason.data);

    detail.data = (u_char *) (outcome->detail ? outcome->detail : "");
    detail.len = ngx_strlen(detail.data);

    kind = ngx_http_sendfile_count_kind(outcome->failure);

    ngx_http_sendfile_explain_advise(ex, "%s",
                                     ngx_http_sendfile_advice(kind, &reason,
                                                              &detail));
}


static const char *
ngx_http_sendfile_explain_note_missing(ngx_http_sendfile_explain_t *ex)
{
    ngx_http_sendfile_ctx_t  *ctx;

    ctx = ex->ctx;

    if (ctx->store == NULL) {
        ngx_http_sendfile_explain_known(ex);
        return "learned";
    }

    if (ctx->outcome.status == NGX_HTTP_SENDFILE_STATUS_NEGATIVE) {
        ngx_http_sendfile_explain_advise(ex, "if the store has it by now: the "
                                         "cache knows better after "
                                         "http_sendfile_cache_valid 404, or a "
                                         "purge of the key \"%V\"", &ctx->key);
        return "cache";
    }

    if (ex->trial.reply.substitute) {
        ngx_http_sendfile_explain_advise(ex, "start the key's own server");
        return "store";
    }

    if (ex->trial.reply.rc == NGX_OK) {
        ngx_http_sendfile_explain_advise(ex, "the record of the key \"%V\" "
                                         "has expired: write it anew",
                                         &ctx->key);
        return "record";
    }

    ngx_http_sendfile_explain_advise(ex, "write the key: sendfilectl set %V "
                                     "%V PATH, if %V is the store and \"%V\" "
                                     "the key that were meant",
                                     &ctx->store->url, &ctx->key,
                                     &ctx->store->url, &ctx->key);
    return "store";
}
