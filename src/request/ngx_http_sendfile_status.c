
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * The status location: which of its routes a request is for.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_status.h"
#include "ngx_http_sendfile_compat.h"


typedef struct {
    ngx_str_t                       name;
    ngx_uint_t                      methods;
    ngx_http_sendfile_status_pt     handler;

    /* only with "write"; more may follow the name, and a slash */
    unsigned                        write:1;
    unsigned                        more:1;

    /* what there is, for the error 404 */
    const char                     *usage;
} ngx_http_sendfile_route_t;


static ngx_int_t ngx_http_sendfile_status_handler(ngx_http_request_t *r);
static ngx_http_sendfile_route_t *ngx_http_sendfile_status_route(
    ngx_http_request_t *r, ngx_str_t *rest);
static ngx_uint_t ngx_http_sendfile_status_below(ngx_http_request_t *r,
    ngx_str_t *uri, ngx_str_t *path);
static ngx_uint_t ngx_http_sendfile_status_is(ngx_http_request_t *r,
    ngx_http_sendfile_route_t *route);
static ngx_uint_t ngx_http_sendfile_status_has(ngx_http_request_t *r,
    ngx_http_sendfile_route_t *route, ngx_str_t *rest);
static ngx_uint_t ngx_http_sendfile_status_begins(u_char *p, u_char *last,
    ngx_str_t *name);
static ngx_int_t ngx_http_sendfile_status_not_here(ngx_http_request_t *r);
static ngx_int_t ngx_http_sendfile_status_allow(ngx_http_request_t *r,
    ngx_http_sendfile_route_t *route);
static ngx_int_t ngx_http_sendfile_status_no_store(ngx_http_request_t *r);


/* an empty name: at the location itself */

static ngx_http_sendfile_route_t  ngx_http_sendfile_routes[] = {

    { ngx_string(""), NGX_HTTP_GET|NGX_HTTP_HEAD, ngx_http_sendfile_page, 0, 0,
      "GET / (a page)" },

    { ngx_string("metrics"), NGX_HTTP_GET|NGX_HTTP_HEAD,
      ngx_http_sendfile_metrics, 0, 0, "GET metrics" },

    { ngx_string("json"), NGX_HTTP_GET|NGX_HTTP_HEAD,
      ngx_http_sendfile_json, 0, 0, "GET json" },

    { ngx_string("explain"), NGX_HTTP_GET|NGX_HTTP_HEAD,
      ngx_http_sendfile_explain, 0, 0, "GET explain?url=URL" },

    { ngx_string("cache"), NGX_HTTP_DELETE, ngx_http_sendfile_purge, 1, 1,
      "DELETE cache, DELETE cache/KEY, DELETE cache?url=URL" },

    { ngx_null_string, 0, NULL, 0, 0, NULL }
};


static struct {
    ngx_uint_t   method;
    const char  *name;
} ngx_http_sendfile_status_methods[] = {
    { NGX_HTTP_GET, "GET" },
    { NGX_HTTP_HEAD, "HEAD" },
    { NGX_HTTP_DELETE, "DELETE" }
};


char *
ngx_http_sendfile_conf_status(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_sendfile_loc_conf_t  *slcf = conf;

    ngx_str_t                      *value;
    ngx_uint_t                      i;
    ngx_http_core_loc_conf_t       *clcf;
    ngx_http_sendfile_main_conf_t  *smcf;

    if (slcf->status) {
        return "is duplicate";
    }

    value = cf->args->elts;

    for (i = 1; i < cf->args->nelts; i++) {

        if (ngx_strcmp(value[i].data, "write") == 0) {
            slcf->status_write = 1;

        } else if (ngx_strcmp(value[i].data, "ids=off") == 0) {
            slcf->status_no_ids = 1;

        } else {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid value \"%V\": write "
                               "\"http_sendfile_status;\", with \"write\" to "
                               "take purges, with \"ids=off\" to show no IDs",
                               &value[i]);
            return NGX_CONF_ERROR;
        }
    }

    slcf->status = 1;

    smcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_sendfile_module);
    smcf->status = 1;
    smcf->status_ids |= !slcf->status_no_ids;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);
    clcf->handler = ngx_http_sendfile_status_handler;

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_http_sendfile_status_handler(ngx_http_request_t *r)
{
    ngx_int_t                      rc;
    ngx_str_t                      rest;
    ngx_http_sendfile_route_t     *route;
    ngx_http_sendfile_loc_conf_t  *slcf;

    rc = ngx_http_discard_request_body(r);

    if (rc != NGX_OK) {
        return rc;
    }

    route = ngx_http_sendfile_status_route(r, &rest);

    if (route == NULL) {
        return ngx_http_sendfile_status_not_here(r);
    }

    if (!(r->method & route->methods)) {
        return ngx_http_sendfile_status_allow(r, route);
    }

    slcf = ngx_http_get_module_loc_conf(r, ngx_http_sendfile_module);

    if (route->write && !slcf->status_write) {
        return ngx_http_sendfile_status_error(r, NGX_HTTP_FORBIDDEN,
                      "read only: the location needs http_sendfile_status "
                      "write");
    }

    return route->handler(r, &rest);
}


/*
 * NULL: there is none.  First those that a key may follow: with the key ".."
 * r->uri is another's.
 */

static ngx_http_sendfile_route_t *
ngx_http_sendfile_status_route(ngx_http_request_t *r, ngx_str_t *rest)
{
    ngx_http_sendfile_route_t  *route;

    ngx_str_null(rest);

    for (route = ngx_http_sendfile_routes; route->handler; route++) {
        if (route->more && ngx_http_sendfile_status_has(r, route, rest)) {
            return route;
        }
    }

    for (route = ngx_http_sendfile_routes; route->handler; route++) {
        if (!route->more && ngx_http_sendfile_status_is(r, route)) {
            return route;
        }
    }

    return NULL;
}


/* what follows the location's name, its slash included; 0: a regex, maybe */

static ngx_uint_t
ngx_http_sendfile_status_below(ngx_http_request_t *r, ngx_str_t *uri,
    ngx_str_t *path)
{
    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    if (uri->len < clcf->name.len
        || ngx_strncmp(uri->data, clcf->name.data, clcf->name.len) != 0)
    {
        return 0;
    }

    path->data = uri->data + clcf->name.len;

    if (clcf->name.len && path->data[-1] == '/') {
        path->data--;
    }

    path->len = uri->data + uri->len - path->data;

    return 1;
}


/* below a regex it is the end of the URI that says the name */

static ngx_uint_t
ngx_http_sendfile_status_is(ngx_http_request_t *r,
    ngx_http_sendfile_route_t *route)
{
    ngx_str_t  path;

    if (!ngx_http_sendfile_status_below(r, &r->uri, &path)) {
        path = r->uri;

        while (path.len && ngx_strlchr(path.data + 1, path.data + path.len,
                                       '/'))
        {
            path.data++;
            path.len--;
        }
    }

    if (path.len == 0) {
        return route->name.len == 0;
    }

    return path.len == route->name.len + 1
           && path.data[0] == '/'
           && ngx_strncmp(path.data + 1, route->name.data, route->name.len)
              == 0;
}


/*
 * "rest" is what follows the name, as the client has written it: nginx merges
 * slashes and resolves dots in r->uri, but keys may have both.
 */

static ngx_uint_t
ngx_http_sendfile_status_has(ngx_http_request_t *r,
    ngx_http_sendfile_route_t *route, ngx_str_t *rest)
{
    u_char     *p, *last;
    ngx_str_t   uri, path;

    uri = r->unparsed_uri;

    p = ngx_strlchr(uri.data, uri.data + uri.len, '?');

    if (p) {
        uri.len = p - uri.data;
    }

    last = uri.data + uri.len;

    if (ngx_http_sendfile_status_below(r, &uri, &path)) {
        p = path.data;

    } else {

        /* a regex, or a name that the client has percent-encoded */

        for (p = uri.data; p < last; p++) {
            if (ngx_http_sendfile_status_begins(p, last, &route->name)) {
                break;
            }
        }
    }

    if (!ngx_http_sendfile_status_begins(p, last, &route->name)) {
        return 0;
    }

    p += 1 + route->name.len;

    if (p < last) {
        rest->data = p + 1;
        rest->len = last - rest->data;
    }

    return 1;
}


static ngx_uint_t
ngx_http_sendfile_status_begins(u_char *p, u_char *last, ngx_str_t *name)
{
    return (size_t) (last - p) >= 1 + name->len
           && p[0] == '/'
           && ngx_strncmp(p + 1, name->data, name->len) == 0
           && (p + 1 + name->len == last || p[1 + name->len] == '/');
}


static ngx_int_t
ngx_http_sendfile_status_not_here(ngx_http_request_t *r)
{
    ngx_http_sendfile_out_t     out;
    ngx_http_sendfile_route_t  *route;

    ngx_http_sendfile_out_init(&out, r->pool);
    ngx_http_sendfile_out_text(&out, "{\"error\":\"not here: there are ");

    for (route = ngx_http_sendfile_routes; route->handler; route++) {

        if (route != ngx_http_sendfile_routes) {
            ngx_http_sendfile_out_text(&out, ", ");
        }

        ngx_http_sendfile_out_text(&out, route->usage);
    }

    ngx_http_sendfile_out_text(&out, "\"}\n");

    return ngx_http_sendfile_status_send(r, NGX_HTTP_NOT_FOUND,
                                         NGX_HTTP_SENDFILE_STATUS_JSON, &out);
}


static ngx_int_t
ngx_http_sendfile_status_allow(ngx_http_request_t *r,
    ngx_http_sendfile_route_t *route)
{
    u_char           *p, *last;
    ngx_uint_t        i;
    ngx_table_elt_t  *h;
    u_char            text[sizeof("only GET, HEAD, DELETE")];

    p = ngx_cpymem(text, "only", sizeof("only") - 1);
    last = text + sizeof(text) - 1;

    for (i = 0; i < sizeof(ngx_http_sendfile_status_methods)
                    / sizeof(ngx_http_sendfile_status_methods[0]);
         i++)
    {
        if (route->methods & ngx_http_sendfile_status_methods[i].method) {
            p = ngx_slprintf(p, last, "%s%s",
                             p == text + sizeof("only") - 1 ? " " : ", ",
                             ngx_http_sendfile_status_methods[i].name);
        }
    }

    *p = '\0';

    h = ngx_list_push(&r->headers_out.headers);
    if (h == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    h->hash = 1;
    ngx_http_sendfile_last_header(h);
    ngx_str_set(&h->key, "Allow");

    h->value.len = p - text - (sizeof("only ") - 1);
    h->value.data = ngx_pnalloc(r->pool, h->value.len);

    if (h->value.data == NULL) {
        h->hash = 0;
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_memcpy(h->value.data, text + sizeof("only ") - 1, h->value.len);

    return ngx_http_sendfile_status_error(r, NGX_HTTP_NOT_ALLOWED,
                                          (char *) text);
}


ngx_int_t
ngx_http_sendfile_status_error(ngx_http_request_t *r, ngx_uint_t code,
    const char *text)
{
    ngx_http_sendfile_out_t  out;

    ngx_http_sendfile_out_init(&out, r->pool);
    ngx_http_sendfile_json_open(&out, NULL, '{');
    ngx_http_sendfile_json_text(&out, "error", text);
    ngx_http_sendfile_json_close(&out, '}');
    ngx_http_sendfile_out_text(&out, "\n");

    return ngx_http_sendfile_status_send(r, code,
                                         NGX_HTTP_SENDFILE_STATUS_JSON, &out);
}


ngx_int_t
ngx_http_sendfile_status_send(ngx_http_request_t *r, ngx_uint_t code,
    const char *type, ngx_http_sendfile_out_t *out)
{
    ngx_int_t  rc;

    if (out->failed
        || out->last == NULL
        || ngx_http_sendfile_status_no_store(r) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    r->headers_out.status = code;
    r->headers_out.content_length_n = out->size;

    r->headers_out.content_type.data = (u_char *) type;
    r->headers_out.content_type.len = ngx_strlen(type);
    r->headers_out.content_type_len = r->headers_out.content_type.len;
    r->headers_out.content_type_lowcase = NULL;

    rc = ngx_http_send_header(r);

    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        return rc;
    }

    out->last->buf->last_buf = (r == r->main) ? 1 : 0;
    out->last->buf->last_in_chain = 1;

    return ngx_http_output_filter(r, out->chain);
}


/*
 * Not where the "expires" directive looks for it: it would put its own time
 * in its place, and so it adds a line, beside which this one still holds.
 */

static ngx_int_t
ngx_http_sendfile_status_no_store(ngx_http_request_t *r)
{
    ngx_table_elt_t  *h;

    h = ngx_list_push(&r->headers_out.headers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    h->hash = 1;
    ngx_http_sendfile_last_header(h);
    ngx_str_set(&h->key, "Cache-Control");
    ngx_str_set(&h->value, "no-store");

    return NGX_OK;
}
