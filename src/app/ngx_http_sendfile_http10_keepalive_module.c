
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Keep-alive with backends that speak HTTP/1.0.  nginx takes every HTTP/1.0
 * answer for the connection's last one, so that "keepalive" has nothing to
 * keep.  Here the answer's own word counts.  When the body has ended, and
 * whether anything is left unread, stays nginx's affair.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_headers.h"
#include "ngx_http_sendfile_upstream_hook.h"


typedef struct {
    ngx_flag_t   enable;

    /* where it stands */
    u_char      *file;
    ngx_uint_t   line;
} ngx_http_sendfile_http10_conf_t;


static ngx_int_t ngx_http_sendfile_http10_connection(ngx_http_request_t *r,
    ngx_table_elt_t *h, ngx_http_sendfile_upstream_next_t *next);
static ngx_int_t ngx_http_sendfile_http10_transfer_encoding(
    ngx_http_request_t *r, ngx_table_elt_t *h,
    ngx_http_sendfile_upstream_next_t *next);
static ngx_uint_t ngx_http_sendfile_http10_enabled(ngx_http_request_t *r);
static ngx_uint_t ngx_http_sendfile_http10_says_keep_alive(ngx_str_t *value);
static ngx_uint_t ngx_http_sendfile_http10_says_close(ngx_http_upstream_t *u);
static ngx_uint_t ngx_http_sendfile_http10_kept(ngx_http_upstream_t *u);
static void *ngx_http_sendfile_http10_create_conf(ngx_conf_t *cf);
static char *ngx_http_sendfile_http10_keepalive(ngx_conf_t *cf,
    ngx_command_t *cmd, void *conf);
static ngx_int_t ngx_http_sendfile_http10_postconfiguration(ngx_conf_t *cf);
static ngx_uint_t ngx_http_sendfile_http10_pooled(ngx_conf_t *cf,
    ngx_http_upstream_srv_conf_t *uscf);


static ngx_command_t  ngx_http_sendfile_http10_commands[] = {

    { ngx_string("http10_keepalive"),
      NGX_HTTP_UPS_CONF|NGX_CONF_FLAG,
      ngx_http_sendfile_http10_keepalive,
      NGX_HTTP_SRV_CONF_OFFSET,
      offsetof(ngx_http_sendfile_http10_conf_t, enable),
      NULL },

      ngx_null_command
};


static ngx_http_module_t  ngx_http_sendfile_http10_keepalive_module_ctx = {
    NULL,                                  /* preconfiguration */
    ngx_http_sendfile_http10_postconfiguration, /* postconfiguration */

    NULL,                                  /* create main configuration */
    NULL,                                  /* init main configuration */

    ngx_http_sendfile_http10_create_conf,  /* create server configuration */
    NULL,                                  /* merge server configuration */

    NULL,                                  /* create location configuration */
    NULL                                   /* merge location configuration */
};


ngx_module_t  ngx_http_sendfile_http10_keepalive_module = {
    NGX_MODULE_V1,
    &ngx_http_sendfile_http10_keepalive_module_ctx, /* module context */
    ngx_http_sendfile_http10_commands,     /* module directives */
    NGX_HTTP_MODULE,                       /* module type */
    NULL,                                  /* init master */
    NULL,                                  /* init module */
    NULL,                                  /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    NULL,                                  /* exit process */
    NULL,                                  /* exit master */
    NGX_MODULE_V1_PADDING
};


static ngx_http_sendfile_upstream_hook_t  ngx_http_sendfile_http10_hooks[] = {

    { ngx_string("Connection"), ngx_http_sendfile_http10_connection, NULL },

    { ngx_string("Transfer-Encoding"),
      ngx_http_sendfile_http10_transfer_encoding, NULL },

    { ngx_null_string, NULL, NULL }
};


/*
 * The name of the line for which a connection is kept: it is known by its
 * very bytes.  A mark in the response's headers goes with them when another
 * server is tried.
 */

static u_char  ngx_http_sendfile_http10_mark[] = "connection";


static ngx_int_t
ngx_http_sendfile_http10_connection(ngx_http_request_t *r, ngx_table_elt_t *h,
    ngx_http_sendfile_upstream_next_t *next)
{
    ngx_int_t             rc;
    ngx_uint_t            close;
    ngx_http_upstream_t  *u;

    u = r->upstream;

    /* by HTTP/1.0, or by an earlier line */

    close = u->headers_in.connection_close;

    rc = ngx_http_sendfile_upstream_next(r, h, next);

    if (rc != NGX_OK || !close || !ngx_http_sendfile_http10_enabled(r)) {
        return rc;
    }

    /* an answer is to follow one of 1xx; chunks are not of HTTP/1.0 */

    if (u->headers_in.status_n < NGX_HTTP_OK
        || u->headers_in.chunked
        || !ngx_http_sendfile_http10_says_keep_alive(&h->value)
        || ngx_http_sendfile_http10_says_close(u))
    {
        return NGX_OK;
    }

    h->lowcase_key = ngx_http_sendfile_http10_mark;

    u->headers_in.connection_close = 0;

    return NGX_OK;
}


/* behind the Connection line it takes back what that one did */

static ngx_int_t
ngx_http_sendfile_http10_transfer_encoding(ngx_http_request_t *r,
    ngx_table_elt_t *h, ngx_http_sendfile_upstream_next_t *next)
{
    ngx_http_upstream_t  *u;

    u = r->upstream;

    if (!u->headers_in.connection_close && ngx_http_sendfile_http10_kept(u)) {
        u->headers_in.connection_close = 1;
    }

    return ngx_http_sendfile_upstream_next(r, h, next);
}


static ngx_uint_t
ngx_http_sendfile_http10_enabled(ngx_http_request_t *r)
{
    ngx_http_upstream_srv_conf_t     *uscf;
    ngx_http_sendfile_http10_conf_t  *conf;

#if (NGX_HTTP_CACHE)

    /*
     * The header is of a stored answer, the connection may be that of an
     * error in the place of which it is sent.
     */

    if (r->cached) {
        return 0;
    }

#endif

    /* NULL: an address by a variable; no srv_conf: one in proxy_pass */

    uscf = r->upstream->upstream;

    if (uscf == NULL || uscf->srv_conf == NULL) {
        return 0;
    }

    conf = ngx_http_conf_upstream_srv_conf(uscf,
                                    ngx_http_sendfile_http10_keepalive_module);

    return conf->enable == 1;
}


/* one of "a, b, c" */

static ngx_uint_t
ngx_http_sendfile_http10_says_keep_alive(ngx_str_t *value)
{
    u_char  *p, *last, *token, *end;

    p = value->data;
    last = p + value->len;

    for ( ;; ) {

        while (p < last && (*p == ' ' || *p == '\t')) {
            p++;
        }

        token = p;

        while (p < last && *p != ',') {
            p++;
        }

        end = p;

        while (end > token && (end[-1] == ' ' || end[-1] == '\t')) {
            end--;
        }

        if (end - token == 10
            && ngx_strncasecmp(token, (u_char *) "keep-alive", 10) == 0)
        {
            return 1;
        }

        if (p == last) {
            return 0;
        }

        p++;
    }
}


/* any Connection line so far, by nginx's own rule */

static ngx_uint_t
ngx_http_sendfile_http10_says_close(ngx_http_upstream_t *u)
{
    ngx_table_elt_t              *h;
    ngx_http_sendfile_headers_t   it;

    for (h = ngx_http_sendfile_headers_first(&it, &u->headers_in.headers.part);
         h;
         h = ngx_http_sendfile_headers_next(&it))
    {
        if (ngx_http_sendfile_name_is(&h->key, "Connection")
            && ngx_strlcasestrn(h->value.data, h->value.data + h->value.len,
                                (u_char *) "close", 5 - 1))
        {
            return 1;
        }
    }

    return 0;
}


static ngx_uint_t
ngx_http_sendfile_http10_kept(ngx_http_upstream_t *u)
{
    ngx_table_elt_t              *h;
    ngx_http_sendfile_headers_t   it;

    for (h = ngx_http_sendfile_headers_first(&it, &u->headers_in.headers.part);
         h;
         h = ngx_http_sendfile_headers_next(&it))
    {
        if (h->lowcase_key == ngx_http_sendfile_http10_mark) {
            return 1;
        }
    }

    return 0;
}


static void *
ngx_http_sendfile_http10_create_conf(ngx_conf_t *cf)
{
    ngx_http_sendfile_http10_conf_t  *conf;

    conf = ngx_pcalloc(cf->pool, sizeof(ngx_http_sendfile_http10_conf_t));
    if (conf == NULL) {
        return NULL;
    }

    /*
     * set by ngx_pcalloc():
     *
     *     conf->file, line
     */

    conf->enable = NGX_CONF_UNSET;

    return conf;
}


static char *
ngx_http_sendfile_http10_keepalive(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_sendfile_http10_conf_t  *hcf = conf;

    hcf->file = cf->conf_file->file.name.data;
    hcf->line = cf->conf_file->line;

    return ngx_conf_set_flag_slot(cf, cmd, conf);
}


static ngx_int_t
ngx_http_sendfile_http10_postconfiguration(ngx_conf_t *cf)
{
    ngx_uint_t                        i, enabled;
    ngx_http_upstream_srv_conf_t    **uscfp;
    ngx_http_upstream_main_conf_t    *umcf;
    ngx_http_sendfile_http10_conf_t  *conf;

    enabled = 0;

    umcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_upstream_module);
    uscfp = umcf->upstreams.elts;

    for (i = 0; i < umcf->upstreams.nelts; i++) {

        /* that of an address in proxy_pass has none */

        if (uscfp[i]->srv_conf == NULL) {
            continue;
        }

        conf = ngx_http_conf_upstream_srv_conf(uscfp[i],
                                    ngx_http_sendfile_http10_keepalive_module);

        if (conf->enable != 1) {
            continue;
        }

        enabled = 1;

        if (!ngx_http_sendfile_http10_pooled(cf, uscfp[i])) {
            ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                          "http_sendfile: \"http10_keepalive\" does nothing "
                          "without \"keepalive\": write \"keepalive 32;\" at "
                          "the end of upstream \"%V\", in %s:%ui",
                          &uscfp[i]->host, conf->file, conf->line);
        }
    }

    if (!enabled) {
        return NGX_OK;
    }

    return ngx_http_sendfile_upstream_hook(cf, ngx_http_sendfile_http10_hooks);
}


/*
 * Whether the upstream keeps connections, because of "keepalive" or, since
 * nginx 1.29.7, without it.  What the keepalive module knows of an upstream
 * is its own, but in all its versions begins with the number of connections,
 * which at this time is 0 if there are none to keep.
 */

static ngx_uint_t
ngx_http_sendfile_http10_pooled(ngx_conf_t *cf,
    ngx_http_upstream_srv_conf_t *uscf)
{
    ngx_uint_t     i;
    ngx_uint_t    *connections;
    ngx_module_t  *module;

    for (i = 0; cf->cycle->modules[i]; i++) {

        module = cf->cycle->modules[i];

        if (ngx_strcmp(module->name, "ngx_http_upstream_keepalive_module")
            == 0)
        {
            connections = uscf->srv_conf[module->ctx_index];
            return *connections != 0;
        }
    }

    return 0;
}
