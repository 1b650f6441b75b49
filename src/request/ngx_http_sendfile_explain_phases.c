
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * nginx's own way to a location, with nothing on it that could answer: of the
 * handlers only that of the rewrite module is called.  The checkers of nginx's
 * phases finalize the request, so what they do is done here.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_explain.h"
#include "ngx_http_sendfile_compat.h"


static ngx_int_t ngx_http_sendfile_explain_rules(
    ngx_http_sendfile_explain_t *ex, ngx_uint_t phase, ngx_uint_t index);
static ngx_http_handler_pt ngx_http_sendfile_explain_handler(
    ngx_http_core_main_conf_t *cmcf);
static void ngx_http_sendfile_explain_answered(
    ngx_http_sendfile_explain_t *ex, ngx_int_t rc);
static ngx_int_t ngx_http_sendfile_explain_enter(
    ngx_http_sendfile_explain_t *ex);
static ngx_int_t ngx_http_sendfile_explain_look(ngx_http_request_t *r);
static ngx_int_t ngx_http_sendfile_explain_static(ngx_http_request_t *r,
    ngx_http_location_tree_node_t *node);
static ngx_int_t ngx_http_sendfile_explain_rewritten(
    ngx_http_sendfile_explain_t *ex);
static void ngx_http_sendfile_explain_redirected(
    ngx_http_sendfile_explain_t *ex);
static void ngx_http_sendfile_explain_note_location(
    ngx_http_sendfile_explain_t *ex);


#define ngx_http_sendfile_node_conf(node)                                     \
    ngx_http_sendfile_loc_conf(node)->loc_conf


ngx_int_t
ngx_http_sendfile_explain_find(ngx_http_sendfile_explain_t *ex)
{
    ngx_int_t                   rc;
    ngx_http_request_t         *r;
    ngx_http_core_main_conf_t  *cmcf;

    r = ex->request;
    cmcf = ngx_http_get_module_main_conf(r, ngx_http_core_module);

    /* as ngx_http_handler() */

    r->valid_location = 1;

    rc = ngx_http_sendfile_explain_rules(ex, NGX_HTTP_SERVER_REWRITE_PHASE,
                                       cmcf->phase_engine.server_rewrite_index);

    if (rc != NGX_OK) {
        return rc;
    }

    rc = ngx_http_sendfile_explain_enter(ex);

    return (rc == NGX_OK) ? ngx_http_sendfile_explain_rewritten(ex) : rc;
}


/* the location's rules, and where they lead to */

static ngx_int_t
ngx_http_sendfile_explain_rewritten(ngx_http_sendfile_explain_t *ex)
{
    ngx_int_t                   rc;
    ngx_http_request_t         *r;
    ngx_http_core_srv_conf_t   *cscf;
    ngx_http_core_main_conf_t  *cmcf;

    r = ex->request;
    cmcf = ngx_http_get_module_main_conf(r, ngx_http_core_module);

    for ( ;; ) {
        rc = ngx_http_sendfile_explain_rules(ex, NGX_HTTP_REWRITE_PHASE,
                                     cmcf->phase_engine.location_rewrite_index);

        if (rc != NGX_OK) {
            return rc;
        }

        if (!r->uri_changed) {
            ngx_http_sendfile_explain_note_location(ex);
            return NGX_OK;
        }

        r->uri_changes--;

        if (r->uri_changes == 0) {
            ngx_http_sendfile_explain_end(ex, "not_ours",
                                          NGX_HTTP_INTERNAL_SERVER_ERROR,
                                          "rewrite",
                                          "500: the rewrite rules lead in a "
                                          "circle, at last to \"%V\"",
                                          &r->uri);
            return NGX_DONE;
        }

        cscf = ngx_http_get_module_srv_conf(r, ngx_http_core_module);
        r->loc_conf = cscf->ctx->loc_conf;

        rc = ngx_http_sendfile_explain_enter(ex);

        if (rc != NGX_OK) {
            return rc;
        }
    }
}


ngx_int_t
ngx_http_sendfile_explain_uri(ngx_http_sendfile_explain_t *ex, ngx_str_t *uri,
    ngx_str_t *args)
{
    ngx_http_request_t        *r;
    ngx_http_core_srv_conf_t  *cscf;

    r = ex->request;

    r->uri = *uri;
    r->args = *args;
    ngx_http_set_exten(r);

    cscf = ngx_http_get_module_srv_conf(r, ngx_http_core_module);
    r->loc_conf = cscf->ctx->loc_conf;
    r->valid_unparsed_uri = 0;
    r->add_uri_to_alias = 0;

    ngx_http_sendfile_explain_redirected(ex);

    if (r->uri_changes == 0) {
        ngx_http_sendfile_explain_end(ex, "failed",
                                      NGX_HTTP_INTERNAL_SERVER_ERROR,
                                      "redirect",
                                      "500: too many redirects, the last one "
                                      "to \"%V\"", uri);
        return NGX_DONE;
    }

    return ngx_http_sendfile_explain_find(ex);
}


ngx_int_t
ngx_http_sendfile_explain_named(ngx_http_sendfile_explain_t *ex,
    ngx_str_t *name)
{
    ngx_http_request_t         *r;
    ngx_http_sendfile_loc_t   **loc;
    ngx_http_core_srv_conf_t   *cscf;

    r = ex->request;
    cscf = ngx_http_get_module_srv_conf(r, ngx_http_core_module);

    for (loc = cscf->named_locations; loc && *loc; loc++) {

        if ((*loc)->name.len != name->len
            || ngx_strncmp((*loc)->name.data, name->data, name->len) != 0)
        {
            continue;
        }

        r->loc_conf = ngx_http_sendfile_node_conf(*loc);

        ngx_http_sendfile_explain_redirected(ex);

        return ngx_http_sendfile_explain_rewritten(ex);
    }

    ngx_http_sendfile_explain_end(ex, "failed", NGX_HTTP_INTERNAL_SERVER_ERROR,
                                  "fallback",
                                  "500: there is no location \"%V\" in the "
                                  "server", name);
    ngx_http_sendfile_explain_advise(ex, "write \"location %V { ... }\" in "
                                     "this server, or another "
                                     "http_sendfile_fallback", name);
    return NGX_DONE;
}


static void
ngx_http_sendfile_explain_redirected(ngx_http_sendfile_explain_t *ex)
{
    ngx_http_request_t  *r;

    r = ex->request;

    r->internal = 1;
    r->uri_changed = 0;
    r->content_handler = NULL;
    r->uri_changes--;

    /* ours is found again */

    ngx_memzero(r->ctx, sizeof(void *) * ngx_http_max_module);

    ngx_http_update_location_config(r);
}


/* the rewrite module's handler, if it is in the phase */

static ngx_int_t
ngx_http_sendfile_explain_rules(ngx_http_sendfile_explain_t *ex,
    ngx_uint_t phase, ngx_uint_t index)
{
    ngx_int_t                   rc;
    ngx_str_t                   uri, args;
    ngx_http_request_t         *r;
    ngx_http_handler_pt         handler;
    ngx_http_core_main_conf_t  *cmcf;

    r = ex->request;
    cmcf = ngx_http_get_module_main_conf(r, ngx_http_core_module);

    handler = ngx_http_sendfile_explain_handler(cmcf);

    if (handler == NULL) {
        return NGX_OK;
    }

    uri = r->uri;
    args = r->args;

    /* by this the handler knows in which phase it is */

    r->phase_handler = index;

    rc = handler(r);

    if (rc != NGX_DECLINED) {
        ngx_http_sendfile_explain_answered(ex, rc);
        return NGX_DONE;
    }

    if (uri.data != r->uri.data || uri.len != r->uri.len
        || args.data != r->args.data || args.len != r->args.len)
    {
        ngx_http_sendfile_explain_step(ex, "rewrite", "ok",
                                       "the rewrite rules of the %s make "
                                       "\"%V%s%V\" of it",
                                       (phase == NGX_HTTP_REWRITE_PHASE)
                                       ? "location" : "server",
                                       &r->uri, r->args.len ? "?" : "",
                                       &r->args);
        ngx_http_sendfile_explain_str(&ex->steps, "uri", &r->uri);
        ngx_http_sendfile_explain_str(&ex->steps, "args", &r->args);
        ngx_http_sendfile_explain_step_end(ex);
    }

    return NGX_OK;
}


/* it is the one that is in both phases; NULL: nginx was built without it */

static ngx_http_handler_pt
ngx_http_sendfile_explain_handler(ngx_http_core_main_conf_t *cmcf)
{
    ngx_uint_t            i, k;
    ngx_array_t          *server, *location;
    ngx_http_handler_pt  *s, *l;

    server = &cmcf->phases[NGX_HTTP_SERVER_REWRITE_PHASE].handlers;
    location = &cmcf->phases[NGX_HTTP_REWRITE_PHASE].handlers;

    s = server->elts;
    l = location->elts;

    for (i = 0; i < server->nelts; i++) {
        for (k = 0; k < location->nelts; k++) {
            if (s[i] == l[k]) {
                return s[i];
            }
        }
    }

    return NULL;
}


/* "return", "rewrite ... redirect", or an error in a rule */

static void
ngx_http_sendfile_explain_answered(ngx_http_sendfile_explain_t *ex,
    ngx_int_t rc)
{
    ngx_str_t            to;
    ngx_http_request_t  *r;

    r = ex->request;

    if (rc == NGX_OK) {
        rc = r->headers_out.status;
    }

    if (rc < NGX_HTTP_OK || rc > 999) {
        ngx_http_sendfile_explain_end(ex, "not_ours",
                                      NGX_HTTP_INTERNAL_SERVER_ERROR,
                                      "rewrite",
                                      "500: a rewrite rule fails");
        return;
    }

    ngx_str_null(&to);

    if (r->headers_out.location) {
        to = r->headers_out.location->value;
    }

    ngx_http_sendfile_explain_step(ex, "rewrite", "note",
                                   "a rewrite rule answers %i", rc);
    ngx_http_sendfile_explain_step_end(ex);

    ngx_http_sendfile_explain_end(ex, ex->trial.falls ? "application"
                                                      : "not_ours",
                                  rc, "rewrite",
                                  "%i%s%V: a rewrite rule (return, rewrite) "
                                  "answers%s", rc, to.len ? " to " : "", &to,
                                  ex->trial.falls ? " as the fallback"
                                  : ", http_sendfile is not reached");
}


/* as ngx_http_core_find_config_phase() */

static ngx_int_t
ngx_http_sendfile_explain_enter(ngx_http_sendfile_explain_t *ex)
{
    ngx_int_t                  rc;
    ngx_str_t                  name;
    ngx_http_request_t        *r;
    ngx_http_core_loc_conf_t  *clcf;

    r = ex->request;

    r->content_handler = NULL;
    r->uri_changed = 0;

    rc = ngx_http_sendfile_explain_look(r);

    if (rc == NGX_ERROR) {
        return NGX_ERROR;
    }

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    if (!r->internal && clcf->internal) {
        ngx_http_sendfile_explain_note_location(ex);
        name = ngx_http_sendfile_explain_location(ex);

        ngx_http_sendfile_explain_end(ex, "not_ours", NGX_HTTP_NOT_FOUND,
                                      "location",
                                      "404: location \"%V\" is internal, no "
                                      "client may ask for it", &name);
        ngx_http_sendfile_explain_advise(ex, "ask for the URL with the ID: "
                                         "files of an internal location are "
                                         "sent by http_sendfile only");
        return NGX_DONE;
    }

    ngx_http_update_location_config(r);

    if (rc == NGX_DONE) {
        ngx_http_sendfile_explain_note_location(ex);

        ngx_http_sendfile_explain_end(ex, "not_ours",
                                      NGX_HTTP_MOVED_PERMANENTLY, "location",
                                      "301: nginx adds a slash to \"%V\"",
                                      &r->uri);
        return NGX_DONE;
    }

    return NGX_OK;
}


/*
 * As ngx_http_core_find_location(), which is nginx's own: NGX_OK, NGX_AGAIN,
 * NGX_DECLINED: r->loc_conf is it; NGX_DONE: it wants one more slash.
 */

static ngx_int_t
ngx_http_sendfile_explain_look(ngx_http_request_t *r)
{
    ngx_int_t                   rc;
    ngx_http_core_loc_conf_t   *pclcf;
#if (NGX_PCRE)
    ngx_int_t                   n;
    ngx_uint_t                  noregex;
    ngx_http_sendfile_loc_t   **loc;
    ngx_http_core_loc_conf_t   *clcf;

    noregex = 0;
#endif

    pclcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    rc = ngx_http_sendfile_explain_static(r, pclcf->static_locations);

    if (rc == NGX_AGAIN) {

#if (NGX_PCRE)
        clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);
        noregex = clcf->noregex;
#endif

        /* nested locations */

        rc = ngx_http_sendfile_explain_look(r);
    }

    if (rc == NGX_OK || rc == NGX_DONE) {
        return rc;
    }

#if (NGX_PCRE)

    if (noregex || pclcf->regex_locations == NULL) {
        return rc;
    }

    for (loc = pclcf->regex_locations; *loc; loc++) {

        n = ngx_http_regex_exec(r, ngx_http_sendfile_loc_regex(*loc), &r->uri);

        if (n == NGX_OK) {
            r->loc_conf = ngx_http_sendfile_node_conf(*loc);

            rc = ngx_http_sendfile_explain_look(r);

            return (rc == NGX_ERROR) ? rc : NGX_OK;
        }

        if (n != NGX_DECLINED) {
            return NGX_ERROR;
        }
    }

#endif

    return rc;
}


/* as ngx_http_core_find_static_location() */

static ngx_int_t
ngx_http_sendfile_explain_static(ngx_http_request_t *r,
    ngx_http_location_tree_node_t *node)
{
    u_char     *uri;
    size_t      len, n;
    ngx_int_t   rc, rv;

    len = r->uri.len;
    uri = r->uri.data;

    rv = NGX_DECLINED;

    while (node) {

        n = ngx_min(len, (size_t) node->len);

        rc = ngx_filename_cmp(uri, node->name, n);

        if (rc != 0) {
            node = (rc < 0) ? node->left : node->right;
            continue;
        }

        if (len > (size_t) node->len) {

            if (node->inclusive == NULL) {
                node = node->right;
                continue;
            }

            r->loc_conf = ngx_http_sendfile_node_conf(node->inclusive);
            rv = NGX_AGAIN;

            node = node->tree;
            uri += n;
            len -= n;

            continue;
        }

        if (len == (size_t) node->len) {

            if (node->exact) {
                r->loc_conf = ngx_http_sendfile_node_conf(node->exact);
                return NGX_OK;
            }

            r->loc_conf = ngx_http_sendfile_node_conf(node->inclusive);
            return NGX_AGAIN;
        }

        if (len + 1 == (size_t) node->len && node->auto_redirect) {

            r->loc_conf = node->exact
                          ? ngx_http_sendfile_node_conf(node->exact)
                          : ngx_http_sendfile_node_conf(node->inclusive);
            rv = NGX_DONE;
        }

        node = node->left;
    }

    return rv;
}


static void
ngx_http_sendfile_explain_note_location(ngx_http_sendfile_explain_t *ex)
{
    ngx_str_t            name;
    ngx_http_request_t  *r;

    r = ex->request;
    name = ngx_http_sendfile_explain_location(ex);

    if (name.len) {
        ngx_http_sendfile_explain_step(ex, "location", "ok",
                                       "location \"%V\" takes \"%V\"",
                                       &name, &r->uri);
    } else {
        ngx_http_sendfile_explain_step(ex, "location", "ok",
                                       "no location takes \"%V\": the server "
                                       "block itself does", &r->uri);
    }

    ngx_http_sendfile_explain_str(&ex->steps, "location", &name);
    ngx_http_sendfile_explain_str(&ex->steps, "uri", &r->uri);
    ngx_http_sendfile_explain_step_end(ex);
}
