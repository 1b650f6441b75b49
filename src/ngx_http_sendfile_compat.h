
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Differences between nginx, its versions, and Angie.  The only place that
 * tests them.  freenginx has the number of the nginx that it is like.
 */


#ifndef _NGX_HTTP_SENDFILE_COMPAT_H_INCLUDED_
#define _NGX_HTTP_SENDFILE_COMPAT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


/* 1.29.0: a filter for 103 */

#if (nginx_version >= 1029000)
#define NGX_HTTP_SENDFILE_EARLY_HINTS  1
#endif


/* 1.23.0: headers of the same name are a linked list, no more an array */

#if (nginx_version >= 1023000)

#define ngx_http_sendfile_last_header(h)   (h)->next = NULL

#else

#define ngx_http_sendfile_last_header(h)

#endif


/*
 * Makes h the response's only Cache-Control, where the "expires" directive
 * looks for it.  Any previous one is dropped.
 */

static ngx_inline ngx_int_t
ngx_http_sendfile_set_cache_control(ngx_http_request_t *r, ngx_table_elt_t *h)
{
#if (nginx_version >= 1023000)

    ngx_table_elt_t  *cc;

    for (cc = r->headers_out.cache_control; cc; cc = cc->next) {
        cc->hash = 0;
    }

    r->headers_out.cache_control = h;

#else

    ngx_uint_t         i;
    ngx_table_elt_t  **ccp;

    if (r->headers_out.cache_control.elts == NULL) {
        if (ngx_array_init(&r->headers_out.cache_control, r->pool, 1,
                           sizeof(ngx_table_elt_t *))
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    ccp = r->headers_out.cache_control.elts;

    for (i = 0; i < r->headers_out.cache_control.nelts; i++) {
        ccp[i]->hash = 0;
    }

    r->headers_out.cache_control.nelts = 0;

    ccp = ngx_array_push(&r->headers_out.cache_control);
    if (ccp == NULL) {
        return NGX_ERROR;
    }

    *ccp = h;

#endif

    return NGX_OK;
}


/*
 * Lines of one name that nginx looks for in one place, as it does for
 * Cache-Control and Link.
 */

#if (nginx_version >= 1023000)

typedef ngx_table_elt_t  *ngx_http_sendfile_lines_t;

#else

typedef ngx_array_t       ngx_http_sendfile_lines_t;

#endif


/* h becomes the last of them */

static ngx_inline ngx_int_t
ngx_http_sendfile_add_line(ngx_http_request_t *r,
    ngx_http_sendfile_lines_t *lines, ngx_table_elt_t *h)
{
#if (nginx_version >= 1023000)

    while (*lines) {
        lines = &(*lines)->next;
    }

    *lines = h;

#else

    ngx_table_elt_t  **hp;

    if (lines->elts == NULL) {
        if (ngx_array_init(lines, r->pool, 2, sizeof(ngx_table_elt_t *))
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    hp = ngx_array_push(lines);
    if (hp == NULL) {
        return NGX_ERROR;
    }

    *hp = h;

#endif

    return NGX_OK;
}


static ngx_inline void
ngx_http_sendfile_forget_lines(ngx_http_sendfile_lines_t *lines)
{
#if (nginx_version >= 1023000)
    *lines = NULL;
#else
    lines->nelts = 0;
#endif
}


/* 1.23.0: "satisfy any" drops each WWW-Authenticate, not the last one only */

static ngx_inline void
ngx_http_sendfile_add_authenticate(ngx_http_request_t *r, ngx_table_elt_t *h)
{
#if (nginx_version >= 1023000)
    (void) ngx_http_sendfile_add_line(r, &r->headers_out.www_authenticate, h);
#else
    r->headers_out.www_authenticate = h;
#endif
}


/* forgets Cache-Control headers that have been dropped */

static ngx_inline void
ngx_http_sendfile_clean_cache_control(ngx_http_request_t *r)
{
#if (nginx_version >= 1023000)

    ngx_table_elt_t  *cc;

    cc = r->headers_out.cache_control;

    if (cc && cc->hash == 0) {
        r->headers_out.cache_control = NULL;
    }

#else

    ngx_table_elt_t  **ccp;

    ccp = r->headers_out.cache_control.elts;

    if (r->headers_out.cache_control.nelts && ccp[0]->hash == 0) {
        r->headers_out.cache_control.nelts = 0;
    }

#endif
}


/* forgets headers that nginx acts on and that have been dropped */

static ngx_inline void
ngx_http_sendfile_clean_headers_out(ngx_http_request_t *r)
{
    ngx_http_headers_out_t  *out;

    out = &r->headers_out;

    if (out->etag && out->etag->hash == 0) {
        out->etag = NULL;
    }

    if (out->last_modified && out->last_modified->hash == 0) {
        out->last_modified = NULL;
    }

    if (out->expires && out->expires->hash == 0) {
        out->expires = NULL;
    }

    if (out->content_encoding && out->content_encoding->hash == 0) {
        out->content_encoding = NULL;
    }

    if (out->accept_ranges && out->accept_ranges->hash == 0) {
        out->accept_ranges = NULL;
    }

    ngx_http_sendfile_clean_cache_control(r);
}


/*
 * Angie since 1.3.0: one configuration may have several names, so the lists
 * and trees of locations are of names that lead to one.
 */

#if (defined angie_version && angie_version >= 1003000)

typedef ngx_http_core_loc_t       ngx_http_sendfile_loc_t;

#define ngx_http_sendfile_loc_conf(loc)   (loc)->conf
#define ngx_http_sendfile_loc_regex(loc)  (loc)->regex

/* of the names, not of the configuration */

#define ngx_http_sendfile_loc_modifier(clcf)  ""

#else

typedef ngx_http_core_loc_conf_t  ngx_http_sendfile_loc_t;

#define ngx_http_sendfile_loc_conf(loc)   (loc)
#define ngx_http_sendfile_loc_regex(loc)  (loc)->regex

#if (NGX_PCRE)

#define ngx_http_sendfile_loc_modifier(clcf)                                  \
    ((clcf)->exact_match ? "= " : (clcf)->noregex ? "^~ "                     \
                                : (clcf)->regex ? "~ " : "")
#else

#define ngx_http_sendfile_loc_modifier(clcf)                                  \
    ((clcf)->exact_match ? "= " : (clcf)->noregex ? "^~ " : "")

#endif

#endif


/* what a list of named locations has of one */

static ngx_inline ngx_http_sendfile_loc_t *
ngx_http_sendfile_make_loc(ngx_pool_t *pool, ngx_http_core_loc_conf_t *clcf)
{
#if (defined angie_version && angie_version >= 1003000)

    ngx_http_sendfile_loc_t  *loc;

    loc = ngx_pcalloc(pool, sizeof(ngx_http_sendfile_loc_t));
    if (loc == NULL) {
        return NULL;
    }

    loc->name = clcf->name;
    loc->conf = clcf;
    loc->named = 1;

    return loc;

#else

    return clcf;

#endif
}


/* whether the server has a named location of that name */

static ngx_inline ngx_uint_t
ngx_http_sendfile_named_location(ngx_http_core_srv_conf_t *cscf,
    ngx_str_t *name)
{
    ngx_http_sendfile_loc_t  **loc;

    for (loc = cscf->named_locations; loc && *loc; loc++) {
        if ((*loc)->name.len == name->len
            && ngx_strncmp((*loc)->name.data, name->data, name->len) == 0)
        {
            return 1;
        }
    }

    return 0;
}


/* whether a resolver has servers: "resolver off" has none.  Angie 1.12.0 */

#if (defined angie_version && angie_version >= 1012000)

#define ngx_http_sendfile_resolver_servers(r)  ((r)->connections != NULL)

#else

#define ngx_http_sendfile_resolver_servers(r)  ((r)->connections.nelts != 0)

#endif


#endif /* _NGX_HTTP_SENDFILE_COMPAT_H_INCLUDED_ */
