
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Reads an application's answer while nginx reads it.  What is to be done is
 * decided anew with every line that has a say in it, from the lines read so
 * far: nothing is to be forgotten when another server is tried.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_accept.h"
#include "ngx_http_sendfile_learn.h"
#include "ngx_http_sendfile_upstream_hook.h"


static ngx_int_t ngx_http_sendfile_answer_file(ngx_http_request_t *r,
    ngx_table_elt_t *h, ngx_http_sendfile_upstream_next_t *next);
static ngx_int_t ngx_http_sendfile_answer_redirect(ngx_http_request_t *r,
    ngx_table_elt_t *h, ngx_http_sendfile_upstream_next_t *next);
static ngx_int_t ngx_http_sendfile_answer_status(ngx_http_request_t *r,
    ngx_table_elt_t *h, ngx_http_sendfile_upstream_next_t *next);
static ngx_int_t ngx_http_sendfile_answer_copy(ngx_http_request_t *r,
    ngx_table_elt_t *h, ngx_uint_t offset);
static void ngx_http_sendfile_answer_go(ngx_http_request_t *r, ngx_str_t *to);
static ngx_int_t ngx_http_sendfile_answer_decide(ngx_http_request_t *r,
    ngx_http_sendfile_loc_conf_t *slcf);
static ngx_uint_t ngx_http_sendfile_answer_is_good(ngx_http_upstream_t *u);
static void ngx_http_sendfile_answer_lines(ngx_http_upstream_t *u,
    ngx_uint_t accept, ngx_table_elt_t **file, ngx_table_elt_t **redirect);
static ngx_int_t ngx_http_sendfile_answer_follow(ngx_http_request_t *r,
    ngx_table_elt_t *line);
static ngx_int_t ngx_http_sendfile_answer_cached(ngx_http_request_t *r);


static ngx_http_sendfile_upstream_hook_t  ngx_http_sendfile_answer_hooks[] = {

    { ngx_string("X-Sendfile"), ngx_http_sendfile_answer_file,
      ngx_http_sendfile_answer_copy },

    { ngx_string("X-LIGHTTPD-send-file"), ngx_http_sendfile_answer_file,
      ngx_http_sendfile_answer_copy },

    { ngx_string("X-Accel-Redirect"), ngx_http_sendfile_answer_redirect,
      ngx_http_sendfile_answer_copy },

    /* FastCGI, SCGI and uwsgi have their status here, or by Location */

    { ngx_string("Status"), ngx_http_sendfile_answer_status, NULL },

    { ngx_string("Location"), ngx_http_sendfile_answer_status, NULL },

    { ngx_null_string, NULL, NULL }
};


ngx_table_elt_t  ngx_http_sendfile_accept_redirect = {
    .hash = 1,
    .key = ngx_string("X-Sendfile"),
    .value = ngx_string(NGX_HTTP_SENDFILE_ACCEPT_LOCATION),
    .lowcase_key = (u_char *) "x-sendfile"
};


ngx_int_t
ngx_http_sendfile_accept_hooks(ngx_conf_t *cf)
{
    return ngx_http_sendfile_upstream_hook(cf, ngx_http_sendfile_answer_hooks);
}


ngx_uint_t
ngx_http_sendfile_accept_name(ngx_str_t *name)
{
    switch (name->len) {

    case 10:
        if (ngx_strncasecmp(name->data, (u_char *) "X-Sendfile", 10) == 0) {
            return NGX_HTTP_SENDFILE_ACCEPT_FILE;
        }

        return 0;

    case 16:
        if (ngx_strncasecmp(name->data, (u_char *) "X-Accel-Redirect", 16)
            == 0)
        {
            return NGX_HTTP_SENDFILE_ACCEPT_REDIRECT;
        }

        return 0;

    case 20:
        if (ngx_strncasecmp(name->data, (u_char *) "X-LIGHTTPD-send-file", 20)
            == 0)
        {
            return NGX_HTTP_SENDFILE_ACCEPT_LIGHTTPD;
        }

        return 0;

    default:
        return 0;
    }
}


static ngx_int_t
ngx_http_sendfile_answer_file(ngx_http_request_t *r, ngx_table_elt_t *h,
    ngx_http_sendfile_upstream_next_t *next)
{
    ngx_int_t                      rc;
    ngx_http_sendfile_loc_conf_t  *slcf;

    rc = ngx_http_sendfile_upstream_next(r, h, next);

    slcf = ngx_http_get_module_loc_conf(r, ngx_http_sendfile_module);

    if (rc != NGX_OK || !(slcf->accept & NGX_HTTP_SENDFILE_ACCEPT_FILES)) {
        return rc;
    }

    return ngx_http_sendfile_answer_decide(r, slcf);
}


static ngx_int_t
ngx_http_sendfile_answer_redirect(ngx_http_request_t *r, ngx_table_elt_t *h,
    ngx_http_sendfile_upstream_next_t *next)
{
    ngx_http_sendfile_loc_conf_t  *slcf;

    slcf = ngx_http_get_module_loc_conf(r, ngx_http_sendfile_module);

    if (slcf->accept == 0) {
        return ngx_http_sendfile_upstream_next(r, h, next);
    }

    return ngx_http_sendfile_answer_decide(r, slcf);
}


static ngx_int_t
ngx_http_sendfile_answer_status(ngx_http_request_t *r, ngx_table_elt_t *h,
    ngx_http_sendfile_upstream_next_t *next)
{
    ngx_int_t                      rc;
    ngx_http_sendfile_loc_conf_t  *slcf;

    rc = ngx_http_sendfile_upstream_next(r, h, next);

    slcf = ngx_http_get_module_loc_conf(r, ngx_http_sendfile_module);

    if (rc != NGX_OK || slcf->accept == 0) {
        return rc;
    }

    return ngx_http_sendfile_answer_decide(r, slcf);
}


/* accepted or not, the paths of a site are not for its clients */

static ngx_int_t
ngx_http_sendfile_answer_copy(ngx_http_request_t *r, ngx_table_elt_t *h,
    ngx_uint_t offset)
{
    ngx_http_upstream_t           *u;
    ngx_http_sendfile_loc_conf_t  *slcf;

    u = r->upstream;

    if (u->headers_in.x_accel_redirect
        && !(u->conf->ignore_headers & NGX_HTTP_UPSTREAM_IGN_XA_REDIRECT))
    {
        ngx_http_sendfile_answer_go(r, &u->headers_in.x_accel_redirect->value);
        return NGX_OK;
    }

    slcf = ngx_http_get_module_loc_conf(r, ngx_http_sendfile_module);

    return slcf->accept ? NGX_OK
                        : ngx_http_sendfile_upstream_copy(r, h, offset);
}


/* the header is whole, and was not bad: nginx redirects the request */

static void
ngx_http_sendfile_answer_go(ngx_http_request_t *r, ngx_str_t *to)
{
    ngx_str_t                 uri, args;
    ngx_uint_t                flags;
    ngx_http_sendfile_ctx_t  *ctx;

    ctx = ngx_http_sendfile_get_ctx(r);

    if (ctx == NULL
        || ctx->answer == NULL
        || ctx->answer->state != NGX_HTTP_SENDFILE_ANSWER_PENDING)
    {
        return;
    }

    uri = *to;
    ngx_str_null(&args);
    flags = 0;

    if (uri.data[0] == '@'
        || ngx_http_parse_unsafe_uri(r, &uri, &args, &flags) == NGX_OK)
    {
        ctx->answer->uri_changes = r->uri_changes;
    }
}


static ngx_int_t
ngx_http_sendfile_answer_decide(ngx_http_request_t *r,
    ngx_http_sendfile_loc_conf_t *slcf)
{
    ngx_uint_t                good;
    ngx_table_elt_t          *file, *redirect;
    ngx_http_upstream_t      *u;
    ngx_http_sendfile_ctx_t  *ctx;

    u = r->upstream;
    ctx = ngx_http_sendfile_get_ctx(r);

    if (ctx
        && ctx->answer
        && ctx->answer->state == NGX_HTTP_SENDFILE_ANSWER_PENDING)
    {
        ctx->answer->state = NGX_HTTP_SENDFILE_ANSWER_DROPPED;
    }

    ngx_http_sendfile_answer_lines(u, slcf->accept, &file, &redirect);

    good = ngx_http_sendfile_answer_is_good(u);

    if (file && good) {
        u->headers_in.x_accel_redirect = &ngx_http_sendfile_accept_redirect;
        return ngx_http_sendfile_answer_follow(r, file);
    }

    u->headers_in.x_accel_redirect = redirect;

    if (redirect == NULL
        || !good
        || !(slcf->accept & NGX_HTTP_SENDFILE_ACCEPT_REDIRECT))
    {
        /* nginx follows it, whatever the status, with the headers it keeps */
        return NGX_OK;
    }

    return ngx_http_sendfile_answer_follow(r, redirect);
}


/*
 * 200, by the rules of ngx_http_fastcgi_process_header() and its like; or 206
 * of an application that has looked at the request's Range, as nginx will.
 */

static ngx_uint_t
ngx_http_sendfile_answer_is_good(ngx_http_upstream_t *u)
{
    ngx_str_t  *status;

    if (u->headers_in.status_n) {
        return u->headers_in.status_n == NGX_HTTP_OK
               || u->headers_in.status_n == NGX_HTTP_PARTIAL_CONTENT;
    }

    if (u->headers_in.status) {
        status = &u->headers_in.status->value;

        return status->len >= 3
               && (ngx_strncmp(status->data, "200", 3) == 0
                   || ngx_strncmp(status->data, "206", 3) == 0);
    }

    return u->headers_in.location == NULL;
}


/* the first line of each kind */

static void
ngx_http_sendfile_answer_lines(ngx_http_upstream_t *u, ngx_uint_t accept,
    ngx_table_elt_t **file, ngx_table_elt_t **redirect)
{
    ngx_uint_t        i, name;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    *file = NULL;
    *redirect = NULL;

    part = &u->headers_in.headers.part;
    h = part->elts;

    for (i = 0; /* void */ ; i++) {

        if (i >= part->nelts) {
            if (part->next == NULL) {
                return;
            }

            part = part->next;
            h = part->elts;
            i = 0;
        }

        name = ngx_http_sendfile_accept_name(&h[i].key);

        if (name & NGX_HTTP_SENDFILE_ACCEPT_REDIRECT) {
            if (*redirect == NULL) {
                *redirect = &h[i];
            }

        } else if ((name & accept) && *file == NULL) {
            *file = &h[i];
        }
    }
}


/* nginx will redirect the request, unless the rest of the header is bad */

static ngx_int_t
ngx_http_sendfile_answer_follow(ngx_http_request_t *r, ngx_table_elt_t *line)
{
    ngx_http_sendfile_ctx_t     *ctx;
    ngx_http_sendfile_answer_t  *answer;

    if (r->upstream->conf->ignore_headers & NGX_HTTP_UPSTREAM_IGN_XA_REDIRECT)
    {
        return NGX_OK;
    }

    ctx = ngx_http_sendfile_get_ctx(r);

    if (ctx == NULL) {
        ctx = ngx_http_sendfile_create_ctx(r);

        if (ctx == NULL) {
            return NGX_ERROR;
        }

        ctx->state = NGX_HTTP_SENDFILE_DONE;
    }

    answer = ctx->answer;

    if (answer == NULL || answer->uri_changes) {
        answer = ngx_pcalloc(r->pool, sizeof(ngx_http_sendfile_answer_t));
        if (answer == NULL) {
            return NGX_ERROR;
        }

        ctx->answer = answer;
    }

    answer->state = NGX_HTTP_SENDFILE_ANSWER_PENDING;

    /* the location itself, and not one that stands in for it */

    answer->loc_conf = (ctx->learn && r->loc_conf == ctx->learn->stand_in)
                       ? ctx->learn->loc_conf : r->loc_conf;
    answer->line = line;
    answer->redirect = r->upstream->headers_in.x_accel_redirect;
    answer->uri_changes = 0;
    answer->keepalive = r->keepalive;

    return ngx_http_sendfile_answer_cached(r);
}


/*
 * ngx_http_upstream_finalize_request() takes an upstream without a cleanup
 * for one that has been finalized, and gives up a reference to the request
 * that is still needed.  With an answer from proxy_cache there is none yet.
 */

static ngx_int_t
ngx_http_sendfile_answer_cached(ngx_http_request_t *r)
{
    ngx_http_cleanup_t  *cln;

    if (r->upstream->cleanup) {
        return NGX_OK;
    }

    cln = ngx_http_cleanup_add(r, 0);
    if (cln == NULL) {
        return NGX_ERROR;
    }

    r->upstream->cleanup = &cln->handler;

    return NGX_OK;
}
