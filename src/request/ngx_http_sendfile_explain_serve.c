
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * What our handlers of PRECONTENT would do in the location, by their own
 * functions; and then what is left to others.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_explain.h"
#include "ngx_http_sendfile_deliver.h"
#include "ngx_http_sendfile_learn.h"


static ngx_int_t ngx_http_sendfile_explain_key(
    ngx_http_sendfile_explain_t *ex, ngx_http_sendfile_loc_conf_t *slcf);
static ngx_int_t ngx_http_sendfile_explain_run(
    ngx_http_sendfile_explain_t *ex);
static ngx_int_t ngx_http_sendfile_explain_ran(
    ngx_http_sendfile_explain_t *ex, ngx_int_t rc);
static ngx_int_t ngx_http_sendfile_explain_sent(
    ngx_http_sendfile_explain_t *ex);
static ngx_int_t ngx_http_sendfile_explain_target(
    ngx_http_sendfile_explain_t *ex);
static ngx_int_t ngx_http_sendfile_explain_fallback(
    ngx_http_sendfile_explain_t *ex);
static void ngx_http_sendfile_explain_once(ngx_http_sendfile_explain_t *ex);
static ngx_int_t ngx_http_sendfile_explain_content(
    ngx_http_sendfile_explain_t *ex, const char *outcome);
static ngx_int_t ngx_http_sendfile_explain_learned(
    ngx_http_sendfile_explain_t *ex);
static void ngx_http_sendfile_explain_note_learned(
    ngx_http_sendfile_explain_t *ex, ngx_int_t rc);
static ngx_uint_t ngx_http_sendfile_explain_tries(ngx_http_request_t *r);
static ngx_int_t ngx_http_sendfile_explain_static_file(
    ngx_http_sendfile_explain_t *ex, ngx_str_t *path, ngx_uint_t *status);
static void ngx_http_sendfile_explain_vanished(
    ngx_http_sendfile_trial_t *trial);


ngx_int_t
ngx_http_sendfile_explain_serve(ngx_http_sendfile_explain_t *ex)
{
    ngx_int_t                       rc;
    ngx_http_request_t             *r;
    ngx_http_sendfile_loc_conf_t   *slcf;
    ngx_http_sendfile_main_conf_t  *smcf;

    r = ex->request;

    ex->trial.vanished = ngx_http_sendfile_explain_vanished;
    ex->trial.recalled = ngx_http_sendfile_explain_recalled;

    smcf = ngx_http_get_module_main_conf(r, ngx_http_sendfile_module);

    rc = smcf->tell ? smcf->tell(r, ngx_http_sendfile_explain_told, ex)
                    : NGX_DECLINED;

    if (rc == NGX_HTTP_INTERNAL_SERVER_ERROR && !ex->trial.falls) {
        return NGX_ERROR;
    }

    if (ex->ctx->asked) {
        return (rc == NGX_OK) ? ngx_http_sendfile_explain_run(ex) : rc;
    }

    if (ex->ctx->lookups) {
        return ngx_http_sendfile_explain_ran(ex, rc);
    }

    slcf = ngx_http_get_module_loc_conf(r, ngx_http_sendfile_module);

    if (!ngx_http_sendfile_applies(r, slcf)) {

        ngx_http_sendfile_explain_step(ex, "http_sendfile", "note",
                                       slcf->enable
                                       ? "http_sendfile is on above, and the "
                                         "location has a content handler of "
                                         "its own"
                                       : "http_sendfile is off here");
        ngx_http_sendfile_json_bool(&ex->steps, "enabled", slcf->enable);
        ngx_http_sendfile_json_bool(&ex->steps, "handler",
                                    r->content_handler != NULL);
        ngx_http_sendfile_explain_step_end(ex);

        if (slcf->enable) {
            ngx_http_sendfile_explain_advise(ex, "write \"http_sendfile on;\" "
                                             "in the location itself, beside "
                                             "its content handler");
        } else if (!slcf->learn && !slcf->status) {
            ngx_http_sendfile_explain_advise(ex, "write \"http_sendfile on;\" "
                                             "in the location, if it is the "
                                             "one that was meant");
        }

        return ngx_http_sendfile_explain_content(ex, "not_ours");
    }

    ngx_http_sendfile_explain_step(ex, "http_sendfile", "ok",
                                   "http_sendfile is on here");
    ngx_http_sendfile_json_bool(&ex->steps, "enabled", 1);
    ngx_http_sendfile_json_bool(&ex->steps, "handler",
                                r->content_handler != NULL);
    ngx_http_sendfile_explain_step_end(ex);

    rc = ngx_http_sendfile_explain_key(ex, slcf);

    if (rc == NGX_DECLINED) {
        return ngx_http_sendfile_explain_content(ex, "not_ours");
    }

    if (rc != NGX_OK) {
        return rc;
    }

    ex->ctx->state = NGX_HTTP_SENDFILE_START;
    ex->ctx->lookups = 1;

    rc = ngx_http_sendfile_start(r, ex->ctx, slcf);

    if (rc == NGX_OK) {
        return ngx_http_sendfile_explain_run(ex);
    }

    return (rc == NGX_AGAIN) ? rc : NGX_ERROR;
}


/* NGX_DECLINED: the request has none */

static ngx_int_t
ngx_http_sendfile_explain_key(ngx_http_sendfile_explain_t *ex,
    ngx_http_sendfile_loc_conf_t *slcf)
{
    ngx_int_t  rc;
    ngx_str_t  id, key;

    ngx_http_sendfile_id(ex->request, &id);

    /* as there is no context then, variables of the key are read anew */

    ex->ctx->id = id;

    rc = ngx_http_sendfile_key(ex->request, slcf, &id, &key);

    if (rc == NGX_DECLINED) {
        ex->ctx->id.len = 0;

        ngx_http_sendfile_explain_step(ex, "key", "note",
                                       "the request has no key");
        ngx_http_sendfile_explain_str(&ex->steps, "id", &id);
        ngx_http_sendfile_explain_step_end(ex);

        if (slcf->key_has_id || slcf->key == NULL) {
            ngx_http_sendfile_explain_advise(ex, "an ID is the last segment "
                                             "of the URI, of 1 to 20 digits: "
                                             "for another key write "
                                             "http_sendfile_key");
        } else {
            ngx_http_sendfile_explain_advise(ex, "http_sendfile_key is empty "
                                             "for this request");
        }
    }

    if (rc != NGX_OK) {
        return rc;
    }

    ex->ctx->key = key;

    ngx_http_sendfile_explain_step(ex, "key", "ok", "the key is \"%V\"", &key);
    ngx_http_sendfile_explain_str(&ex->steps, "id", &id);
    ngx_http_sendfile_explain_str(&ex->steps, "key", &key);
    ngx_http_sendfile_explain_step_end(ex);

    return NGX_OK;
}


ngx_int_t
ngx_http_sendfile_explain_replied(ngx_http_sendfile_explain_t *ex)
{
    return ngx_http_sendfile_explain_run(ex);
}


static ngx_int_t
ngx_http_sendfile_explain_run(ngx_http_sendfile_explain_t *ex)
{
    ngx_int_t                      rc;
    ngx_http_sendfile_loc_conf_t  *slcf;

    slcf = ngx_http_get_module_loc_conf(ex->request, ngx_http_sendfile_module);

    ngx_http_sendfile_explain_note_lookup(ex);

    rc = ngx_http_sendfile_run(ex->request, ex->ctx, slcf);

    if (rc == NGX_AGAIN) {
        return NGX_AGAIN;
    }

    if (rc == NGX_HTTP_INTERNAL_SERVER_ERROR && !ex->trial.falls) {
        return NGX_ERROR;
    }

    /* of a second lookup, of a record whose file was gone */

    ngx_http_sendfile_explain_note_lookup(ex);

    return ngx_http_sendfile_explain_ran(ex, rc);
}


/* the cached record's file is not there, and the store is asked */

static void
ngx_http_sendfile_explain_vanished(ngx_http_sendfile_trial_t *trial)
{
    ngx_http_sendfile_explain_t  *ex;

    ex = trial->data;

    ngx_http_sendfile_explain_note_file(ex, 0);

    /* what was said of it is of the record that is not used any more */

    ex->advice.nelts = 0;
    ex->noted = 0;
    trial->cached = 0;
}


/* "rc": what the handler of the phase would return */

static ngx_int_t
ngx_http_sendfile_explain_ran(ngx_http_sendfile_explain_t *ex, ngx_int_t rc)
{
    ngx_str_t                 reason;
    const char               *step;
    ngx_http_sendfile_ctx_t  *ctx;

    ctx = ex->ctx;

    if (ex->trial.script) {
        ngx_http_sendfile_explain_step(ex, "script", "note",
                                       "http_sendfile_ruby would run its "
                                       "script now; what it makes of the "
                                       "record is not known");
        ngx_http_sendfile_explain_step_end(ex);
    }

    if (ctx->delivery == NGX_HTTP_SENDFILE_DELIVERED) {
        ngx_http_sendfile_explain_note_file(ex, 1);
        return ngx_http_sendfile_explain_sent(ex);
    }

    if (ctx->delivery == NGX_HTTP_SENDFILE_REDIRECTING) {
        return ngx_http_sendfile_explain_target(ex);
    }

    ngx_http_sendfile_explain_note_file(ex, 0);
    step = ngx_http_sendfile_explain_note_failure(ex);

    if (ngx_http_sendfile_reason(ex->request, ctx, &reason) != NGX_OK) {
        ngx_str_null(&reason);
    }

    if (rc == NGX_DONE || rc == NGX_DECLINED) {
        return ngx_http_sendfile_explain_fallback(ex);
    }

    if (ex->trial.fallback == NGX_CONF_UNSET_UINT) {
        ngx_http_sendfile_explain_end(ex, "failed", rc, "fallback",
                                      "500: the fallback \"%V\" is neither "
                                      "@name, /uri, =code nor off",
                                      &ex->trial.to);
        return NGX_OK;
    }

    ngx_http_sendfile_explain_end(ex, "failed", rc, step,
                                  ctx->key.len ? "%i: key \"%V\": %V"
                                               : "%i: %V%V",
                                  rc, &ctx->key, &reason);
    return NGX_OK;
}


/* the file's response, with the headers of its record */

static ngx_int_t
ngx_http_sendfile_explain_sent(ngx_http_sendfile_explain_t *ex)
{
    ngx_str_t                *source;
    ngx_http_request_t       *r;
    ngx_http_sendfile_ctx_t  *ctx;

    r = ex->request;
    ctx = ex->ctx;

    if (ngx_http_sendfile_add_record(r, &ctx->outcome.target) != NGX_OK) {
        return NGX_ERROR;
    }

    ex->headers = 1;
    source = ngx_http_sendfile_source_name(ctx);

    /* the file can be read, so nothing is to be changed */

    ex->advice.nelts = 0;

    ngx_http_sendfile_explain_end(ex, ex->trial.script ? "unknown" : "sent",
                                  ex->trial.script ? 0 : NGX_HTTP_OK,
                                  ex->trial.script ? "script" : "file",
                                  "%s: the file \"%*s\" is sent (%V, %V)%s",
                                  ex->trial.script ? "not known" : "200",
                                  ctx->outcome.target.path.len,
                                  ctx->outcome.target.path.data, source,
                                  ngx_http_sendfile_status_name(ctx),
                                  ex->trial.script
                                  ? ", unless http_sendfile_ruby decides "
                                    "otherwise" : "");
    return NGX_OK;
}


/* a redirect to where the file is: the location there sends it */

static ngx_int_t
ngx_http_sendfile_explain_target(ngx_http_sendfile_explain_t *ex)
{
    ngx_int_t                  rc;
    ngx_str_t                  name, path;
    ngx_uint_t                 status;
    ngx_http_request_t        *r;

    r = ex->request;

    ngx_http_sendfile_explain_step(ex, "redirect", "ok",
                                   "nginx goes to \"%V\" for the file",
                                   &ex->trial.uri);
    ngx_http_sendfile_explain_str(&ex->steps, "uri", &ex->trial.uri);
    ngx_http_sendfile_explain_str(&ex->steps, "args", &ex->trial.args);
    ngx_http_sendfile_explain_step_end(ex);

    rc = ngx_http_sendfile_explain_uri(ex, &ex->trial.uri, &ex->trial.args);

    if (rc != NGX_OK) {
        return (rc == NGX_DONE) ? NGX_OK : rc;
    }

    name = ngx_http_sendfile_explain_location(ex);

    if (r->content_handler || ngx_http_sendfile_explain_tries(r)) {
        ngx_http_sendfile_explain_end(ex, "unknown", 0, "content",
                                      "not known: location \"%V\" sends the "
                                      "file by %s, which was not asked",
                                      &name, r->content_handler
                                      ? "a content handler of its own"
                                      : "try_files");
        return NGX_OK;
    }

    rc = ngx_http_sendfile_explain_static_file(ex, &path, &status);

    if (rc != NGX_OK) {
        return rc;
    }

    if (status == NGX_HTTP_OK) {
        return ngx_http_sendfile_explain_sent(ex);
    }

    if (status == NGX_HTTP_NOT_FOUND) {
        ngx_http_sendfile_explain_advise(ex, "check root or alias of location "
                                         "\"%V\": it makes \"%V\" of the path",
                                         &name, &path);
    }

    ngx_http_sendfile_explain_end(ex, ex->trial.script ? "unknown" : "failed",
                                  ex->trial.script ? 0 : status, "file",
                                  "%ui: location \"%V\" cannot send \"%V\"",
                                  status, &name, &path);
    return NGX_OK;
}


/* as ngx_http_static_module; "*path" is what the location makes of the URI */

static ngx_int_t
ngx_http_sendfile_explain_static_file(ngx_http_sendfile_explain_t *ex,
    ngx_str_t *path, ngx_uint_t *status)
{
    size_t                     root;
    u_char                    *last;
    ngx_http_request_t        *r;
    ngx_open_file_info_t       of;
    ngx_http_sendfile_out_t   *j;
    ngx_http_core_loc_conf_t  *clcf;

    r = ex->request;
    j = &ex->steps;

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    if (clcf->alias && !r->valid_location) {

        /* nginx would log it as an alert */

        *path = r->uri;
        *status = NGX_HTTP_INTERNAL_SERVER_ERROR;

        ngx_http_sendfile_explain_advise(ex, "a rewrite rule has changed the "
                                         "URI in a location with alias: write "
                                         "root there");
        return NGX_OK;
    }

    last = ngx_http_map_uri_to_path(r, path, &root, 0);
    if (last == NULL) {
        return NGX_ERROR;
    }

    path->len = last - path->data;

    ngx_memzero(&of, sizeof(ngx_open_file_info_t));

    of.directio = NGX_MAX_OFF_T_VALUE;

    if (ngx_http_set_disable_symlinks(r, clcf, path, &of) != NGX_OK) {
        return NGX_ERROR;
    }

    if (ngx_open_cached_file(NULL, path, &of, r->pool) == NGX_OK) {
        *status = of.is_dir ? NGX_HTTP_MOVED_PERMANENTLY
                            : of.is_file ? NGX_HTTP_OK : NGX_HTTP_NOT_FOUND;
    } else {

        switch (of.err) {

        case NGX_ENOENT:
        case NGX_ENOTDIR:
        case NGX_ENAMETOOLONG:
            *status = NGX_HTTP_NOT_FOUND;
            break;

        case NGX_EACCES:
#if (NGX_HAVE_OPENAT)
        case NGX_EMLINK:
        case NGX_ELOOP:
#endif
            *status = NGX_HTTP_FORBIDDEN;
            break;

        default:
            *status = NGX_HTTP_INTERNAL_SERVER_ERROR;
        }
    }

    ngx_http_sendfile_explain_step(ex, "file",
                                   (*status == NGX_HTTP_OK) ? "ok" : "failed",
                                   (*status == NGX_HTTP_OK)
                                   ? "the file \"%V\" can be read"
                                   : "the file \"%V\" cannot be sent", path);
    ngx_http_sendfile_explain_str(j, "path", path);

    if (*status == NGX_HTTP_OK) {
        ngx_http_sendfile_json_uint(j, "size", of.size);
        ngx_http_sendfile_json_uint(j, "modified", of.mtime);

        r->headers_out.status = NGX_HTTP_OK;
        r->headers_out.content_length_n = of.size;
        r->headers_out.last_modified_time = of.mtime;

        if (ngx_http_set_etag(r) != NGX_OK
            || ngx_http_set_content_type(r) != NGX_OK)
        {
            return NGX_ERROR;
        }

    } else if (of.err) {
        ngx_http_sendfile_json_uint(j, "errno", of.err);
    }

    ngx_http_sendfile_explain_folders(ex, path);
    ngx_http_sendfile_explain_step_end(ex);

    return NGX_OK;
}


/* to another location, or to the content handler of this one */

static ngx_int_t
ngx_http_sendfile_explain_fallback(ngx_http_sendfile_explain_t *ex)
{
    ngx_int_t   rc;
    ngx_str_t  *to;

    to = &ex->trial.to;

    if (ex->trial.fallback == NGX_HTTP_SENDFILE_FALLBACK_HANDLER) {
        ngx_http_sendfile_explain_step(ex, "fallback", "note",
                                       "the location's own content handler "
                                       "is the fallback");
        ngx_http_sendfile_explain_step_end(ex);

        return ngx_http_sendfile_explain_content(ex, "application");
    }

    ngx_http_sendfile_explain_step(ex, "fallback", "note",
                                   "the fallback is \"%V\"", to);
    ngx_http_sendfile_explain_str(&ex->steps, "to", to);
    ngx_http_sendfile_explain_step_end(ex);

    if (ex->trial.fallback == NGX_HTTP_SENDFILE_FALLBACK_NAMED) {
        rc = ngx_http_sendfile_explain_named(ex, to);

    } else {
        rc = ngx_http_sendfile_explain_uri(ex, &ex->trial.uri,
                                           &ex->trial.args);
    }

    if (rc != NGX_OK) {
        return (rc == NGX_DONE) ? NGX_OK : rc;
    }

    ngx_http_sendfile_explain_once(ex);

    return ngx_http_sendfile_explain_content(ex, "application");
}


/*
 * The fallback has led to a location that would look the request up, which is
 * done once for each: see ngx_http_sendfile_loop().
 */

static void
ngx_http_sendfile_explain_once(ngx_http_sendfile_explain_t *ex)
{
    ngx_str_t                      id, key, name;
    ngx_http_request_t            *r;
    ngx_http_sendfile_ctx_t       *ctx;
    ngx_http_sendfile_loc_conf_t  *slcf;

    r = ex->request;
    ctx = ex->ctx;

    slcf = ngx_http_get_module_loc_conf(r, ngx_http_sendfile_module);

    if (!ngx_http_sendfile_applies(r, slcf)) {
        return;
    }

    ngx_http_sendfile_id(r, &id);

    if (ngx_http_sendfile_key(r, slcf, &id, &key) != NGX_OK) {
        return;
    }

    name = ngx_http_sendfile_explain_location(ex);

    ngx_http_sendfile_explain_step(ex, "http_sendfile", "note",
                                   "http_sendfile is on here, but the store "
                                   "%V is not asked: a request is looked up "
                                   "once, and this one was in %V",
                                   &slcf->store->url,
                                   ctx->store ? &ctx->store->url
                                              : &slcf->store->url);
    ngx_http_sendfile_json_bool(&ex->steps, "enabled", 1);
    ngx_http_sendfile_json_bool(&ex->steps, "handler",
                                r->content_handler != NULL);
    ngx_http_sendfile_explain_step_end(ex);

    if (ctx->store && slcf->store != ctx->store) {
        ngx_http_sendfile_explain_advise(ex, "one request asks one store: "
                                         "have all records in one of them, "
                                         "or let the application choose, by "
                                         "X-Accel-Redirect to location "
                                         "\"%V\"", &name);
    }

    ngx_http_sendfile_explain_advise(ex, "write \"http_sendfile off;\" in "
                                     "location \"%V\", which is a fallback",
                                     &name);
}


/* a learned answer, or whatever answers in the location */

static ngx_int_t
ngx_http_sendfile_explain_content(ngx_http_sendfile_explain_t *ex,
    const char *outcome)
{
    ngx_int_t            rc;
    ngx_str_t            name, reason;
    const char          *how;
    ngx_http_request_t  *r;

    r = ex->request;

    rc = ngx_http_sendfile_explain_learned(ex);

    if (rc != NGX_DECLINED) {
        return rc;
    }

    name = ngx_http_sendfile_explain_location(ex);

    how = r->content_handler ? "a content handler of its own (proxy_pass or "
                               "the like)"
          : ngx_http_sendfile_explain_tries(r) ? "try_files"
                                               : "nginx's files";

    ngx_http_sendfile_explain_step(ex, "content", "note",
                                   "location \"%V\" answers by %s, which was "
                                   "not asked", &name, how);
    ngx_http_sendfile_explain_step_end(ex);

    if (ngx_http_sendfile_reason(r, ex->ctx, &reason) != NGX_OK) {
        ngx_str_null(&reason);
    }

    ngx_http_sendfile_explain_end(ex, outcome, 0,
                                  (outcome[0] == 'n') ? "http_sendfile"
                                                      : "fallback",
                                  "%s: location \"%V\" answers by %s%s%V",
                                  (outcome[0] == 'n')
                                  ? "not ours" : "to the application",
                                  &name, how, reason.len ? ", because: " : "",
                                  &reason);
    return NGX_OK;
}


/* try_files of the location: its module's configuration begins with them */

static ngx_uint_t
ngx_http_sendfile_explain_tries(ngx_http_request_t *r)
{
    void          **conf;
    ngx_uint_t      i;
    ngx_module_t   *module;

    for (i = 0; ngx_cycle->modules[i]; i++) {
        module = ngx_cycle->modules[i];

        if (module->type == NGX_HTTP_MODULE
            && ngx_strcmp(module->name, "ngx_http_try_files_module") == 0)
        {
            conf = r->loc_conf[module->ctx_index];

            return conf && *conf;
        }
    }

    return 0;
}


/* NGX_DECLINED: the application is asked */

static ngx_int_t
ngx_http_sendfile_explain_learned(ngx_http_sendfile_explain_t *ex)
{
    ngx_int_t  rc;

    rc = ngx_http_sendfile_learn_handler(ex->request);

    if (rc == NGX_HTTP_INTERNAL_SERVER_ERROR) {
        return NGX_ERROR;
    }

    if (!ex->trial.learns) {
        return NGX_DECLINED;
    }

    ngx_http_sendfile_explain_note_learned(ex, rc);

    if (rc != NGX_DONE) {
        ngx_http_sendfile_explain_note_file(ex, 0);
        return NGX_DECLINED;
    }

    if (ex->ctx->delivery == NGX_HTTP_SENDFILE_DELIVERED) {
        ngx_http_sendfile_explain_note_file(ex, 1);
        return ngx_http_sendfile_explain_sent(ex);
    }

    return ngx_http_sendfile_explain_target(ex);
}


static void
ngx_http_sendfile_explain_note_learned(ngx_http_sendfile_explain_t *ex,
    ngx_int_t rc)
{
    const char                 *entry, *text;
    nsf_shard_value_t          *v;
    ngx_http_sendfile_learn_t  *learn;

    learn = ex->ctx->learn;
    v = &ex->trial.learned;

    if (!learn->found) {
        entry = "none";
        text = "nothing has been learned for it";

    } else if (ex->trial.learned_old) {
        entry = "old";
        text = "an answer was learned, but it was purged";

    } else if (v->valid > ngx_current_msec) {
        entry = "fresh";
        text = (rc == NGX_DONE) ? "a learned answer is used"
                                : "a learned answer could not be used";
    } else {
        entry = "old";
        text = (rc == NGX_DONE) ? "a learned answer is used stale, while "
                                  "another request renews it"
                                : "an answer was learned, but its time is "
                                  "over";
    }

    ngx_http_sendfile_explain_step(ex, "learned", "ok", "%s", text);
    ngx_http_sendfile_explain_str(&ex->steps, "key", &learn->key);
    ngx_http_sendfile_json_text(&ex->steps, "entry", entry);

    if (learn->found) {
        ngx_http_sendfile_json_uint(&ex->steps, "left_ms",
                                      (v->valid > ngx_current_msec)
                                    ? v->valid - ngx_current_msec : 0);
    }

    if (rc == NGX_DONE) {
        ngx_http_sendfile_json_uint(&ex->steps, "age", learn->age);
    }

    ngx_http_sendfile_explain_step_end(ex);
}
