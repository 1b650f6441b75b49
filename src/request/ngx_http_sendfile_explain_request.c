
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * A request of our own, with a connection that nothing can be read from or
 * written to.  Its memory is the asking request's, and it is never finalized.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_explain.h"
#include "ngx_http_sendfile_compat.h"


static ngx_connection_t *ngx_http_sendfile_explain_connection(
    ngx_http_sendfile_explain_t *ex);
static ngx_int_t ngx_http_sendfile_explain_init(
    ngx_http_sendfile_explain_t *ex, ngx_connection_t *c);
static ngx_int_t ngx_http_sendfile_explain_line(
    ngx_http_sendfile_explain_t *ex);
static ngx_int_t ngx_http_sendfile_explain_server(
    ngx_http_sendfile_explain_t *ex);
static ngx_int_t ngx_http_sendfile_explain_host(
    ngx_http_sendfile_explain_t *ex);
static ngx_int_t ngx_http_sendfile_explain_parse(
    ngx_http_sendfile_explain_t *ex);
static void ngx_http_sendfile_explain_set(ngx_http_request_t *r,
    const char *name, const char *value);


ngx_int_t
ngx_http_sendfile_explain_create(ngx_http_sendfile_explain_t *ex)
{
    ngx_int_t          rc;
    ngx_connection_t  *c;

    ex->request = ngx_pcalloc(ex->asker->pool, sizeof(ngx_http_request_t));
    c = ngx_http_sendfile_explain_connection(ex);

    if (ex->request == NULL || c == NULL) {
        return NGX_ERROR;
    }

    if (ngx_http_sendfile_explain_init(ex, c) != NGX_OK) {
        return NGX_ERROR;
    }

    rc = ngx_http_sendfile_explain_line(ex);

    if (rc != NGX_OK) {
        return rc;
    }

    if (ngx_http_sendfile_explain_server(ex) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_http_sendfile_explain_parse(ex);
}


/*
 * A copy of the asking client's, whose socket is the listening one: it can be
 * asked for its address.  Its events are in no event loop.
 */

static ngx_connection_t *
ngx_http_sendfile_explain_connection(ngx_http_sendfile_explain_t *ex)
{
    ngx_log_t              *log;
    ngx_event_t            *events;
    ngx_pool_t             *pool;
    ngx_connection_t       *c;
    ngx_http_connection_t  *hc;

    pool = ex->asker->pool;

    c = ngx_palloc(pool, sizeof(ngx_connection_t));
    hc = ngx_palloc(pool, sizeof(ngx_http_connection_t));
    log = ngx_palloc(pool, sizeof(ngx_log_t));
    events = ngx_pcalloc(pool, 2 * sizeof(ngx_event_t));

    if (c == NULL || hc == NULL || log == NULL || events == NULL) {
        return NULL;
    }

    *c = *ex->asker->connection;
    *hc = *ex->asker->main->http_connection;

    /* where its server logs to; a line says who has asked */

    *log = *c->log;
    c->log = log;

    events[0].data = c;
    events[0].log = log;
    events[1].data = c;
    events[1].log = log;
    events[1].write = 1;

    c->read = &events[0];
    c->write = &events[1];

    c->fd = ex->listening->fd;
    c->listening = ex->listening;
    c->local_sockaddr = ex->sockaddr;
    c->local_socklen = ex->socklen;
    c->data = ex->request;
    c->buffer = NULL;
    c->destroyed = 0;
    c->error = 0;
    c->requests = 1;
    ngx_memzero(&c->queue, sizeof(ngx_queue_t));

    hc->addr_conf = ex->addr_conf;
    hc->conf_ctx = ex->addr_conf->default_server->ctx;
    hc->busy = NULL;
    hc->free = NULL;

#if (NGX_HTTP_SSL)
    hc->ssl_servername = NULL;
    hc->ssl = ex->addr_conf->ssl;

    if (!ex->url.https) {
        c->ssl = NULL;
    }
#endif

    ex->request->http_connection = hc;

    return c;
}


/* as ngx_http_alloc_request() */

static ngx_int_t
ngx_http_sendfile_explain_init(ngx_http_sendfile_explain_t *ex,
    ngx_connection_t *c)
{
    ngx_time_t                 *tp;
    ngx_pool_t                 *pool;
    ngx_http_request_t         *r;
    ngx_http_conf_ctx_t        *ctx;
    ngx_http_core_main_conf_t  *cmcf;

    r = ex->request;
    pool = ex->asker->pool;

    r->pool = pool;
    r->signature = NGX_HTTP_MODULE;
    r->connection = c;

    ctx = r->http_connection->conf_ctx;

    r->main_conf = ctx->main_conf;
    r->srv_conf = ctx->srv_conf;
    r->loc_conf = ctx->loc_conf;

    r->read_event_handler = ngx_http_block_reading;
    r->write_event_handler = ngx_http_request_empty_handler;

    cmcf = ngx_http_get_module_main_conf(r, ngx_http_core_module);

    r->ctx = ngx_pcalloc(pool, sizeof(void *) * ngx_http_max_module);
    r->variables = ngx_pcalloc(pool, cmcf->variables.nelts
                                     * sizeof(ngx_http_variable_value_t));

    if (r->ctx == NULL
        || r->variables == NULL
        || ngx_list_init(&r->headers_in.headers, pool, 2,
                         sizeof(ngx_table_elt_t))
           != NGX_OK
        || ngx_list_init(&r->headers_out.headers, pool, 8,
                         sizeof(ngx_table_elt_t))
           != NGX_OK
        || ngx_list_init(&r->headers_out.trailers, pool, 1,
                         sizeof(ngx_table_elt_t))
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    r->main = r;
    r->count = 1;

    tp = ngx_timeofday();
    r->start_sec = tp->sec;
    r->start_msec = tp->msec;

    r->headers_in.content_length_n = -1;
    r->headers_in.keep_alive_n = -1;
    r->headers_out.content_length_n = -1;
    r->headers_out.last_modified_time = -1;

    r->uri_changes = NGX_HTTP_MAX_URI_CHANGES + 1;
    r->subrequests = NGX_HTTP_MAX_SUBREQUESTS + 1;

    r->http_state = NGX_HTTP_PROCESS_REQUEST_STATE;
    r->log_handler = ex->asker->log_handler;

    /*
     * What a "return 200 text" would send is not: after a post_action there is
     * no header, and of a header alone no body.  There is none to be read.
     */

    r->post_action = 1;
    r->header_only = 1;
    r->discard_body = 1;

    ex->ctx = ngx_http_sendfile_create_ctx(r);
    if (ex->ctx == NULL) {
        return NGX_ERROR;
    }

    ex->ctx->state = NGX_HTTP_SENDFILE_DONE;
    ex->ctx->trial = &ex->trial;

    return NGX_OK;
}


/* NGX_DECLINED: nginx answers 400 */

static ngx_int_t
ngx_http_sendfile_explain_line(ngx_http_sendfile_explain_t *ex)
{
    u_char              *p;
    size_t               len;
    ngx_buf_t           *b;
    ngx_int_t            rc;
    ngx_str_t           *target;
    ngx_http_request_t  *r;

    r = ex->request;
    target = &ex->url.target;

    len = sizeof("GET  HTTP/1.1" CRLF CRLF) - 1 + target->len;

    b = ngx_create_temp_buf(r->pool, len);
    if (b == NULL) {
        return NGX_ERROR;
    }

    p = b->last;
    b->last = ngx_snprintf(p, len, "GET %V HTTP/1.1" CRLF CRLF, target);

    r->header_in = b;

    rc = ngx_http_parse_request_line(r, b);

    r->request_line.data = p;
    r->request_line.len = len - 4;
    r->request_length = len;

    ngx_str_set(&r->method_name, "GET");
    ngx_str_set(&r->http_protocol, "HTTP/1.1");

    if (rc != NGX_OK) {
        ngx_http_sendfile_explain_end(ex, "not_ours", NGX_HTTP_BAD_REQUEST,
                                      "server",
                                      "400: nginx takes the request line for "
                                      "a bad one");
        return NGX_DECLINED;
    }

    return NGX_OK;
}


/* the server block that the host chooses, and the header Host */

static ngx_int_t
ngx_http_sendfile_explain_server(ngx_http_sendfile_explain_t *ex)
{
    u_char              *port;
    ngx_table_elt_t     *h;
    ngx_http_request_t  *r;

    r = ex->request;

    h = ngx_list_push(&r->headers_in.headers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    ngx_memzero(h, sizeof(ngx_table_elt_t));

    ngx_str_set(&h->key, "Host");
    h->lowcase_key = (u_char *) "host";
    h->hash = ngx_hash_key(h->lowcase_key, h->key.len);
    h->value = ex->url.authority;

    r->headers_in.host = h;
    r->headers_in.server = ex->url.host;

    /* what else says that the connection has TLS is not there */

    ex->trial.https = ex->url.https;

#if (NGX_HTTP_SSL)
    if (ex->url.https && r->connection->ssl == NULL) {
        ngx_http_sendfile_explain_set(r, "scheme", "https");
        ngx_http_sendfile_explain_set(r, "https", "on");
    }
#endif

    if (ex->sockaddr->sa_family != AF_UNIX) {

        /* of a wildcard the port is known */

        port = ngx_pnalloc(r->pool, sizeof("65535"));
        if (port == NULL) {
            return NGX_ERROR;
        }

        (void) ngx_snprintf(port, sizeof("65535"), "%ui%Z",
                            (ngx_uint_t) ngx_inet_get_port(ex->sockaddr));

        ngx_http_sendfile_explain_set(r, "server_port", (char *) port);
    }

    return ngx_http_sendfile_explain_host(ex);
}


/* as ngx_http_set_virtual_server(), which ends the request on an error */

static ngx_int_t
ngx_http_sendfile_explain_host(ngx_http_sendfile_explain_t *ex)
{
    ngx_str_t                 *host;
    ngx_http_request_t        *r;
    ngx_http_core_srv_conf_t  *cscf;
    ngx_http_core_loc_conf_t  *clcf;
    ngx_http_virtual_names_t  *names;
#if (NGX_PCRE)
    ngx_int_t                  rc;
    ngx_uint_t                 i;
#endif

    r = ex->request;
    host = &ex->url.host;
    names = ex->addr_conf->virtual_names;

    cscf = NULL;

    if (names) {
        cscf = ngx_hash_find_combined(&names->names,
                                      ngx_hash_key(host->data, host->len),
                                      host->data, host->len);
    }

#if (NGX_PCRE)

    for (i = 0; cscf == NULL && names && host->len && i < names->nregex; i++) {

        rc = ngx_http_regex_exec(r, names->regex[i].regex, host);

        if (rc == NGX_OK) {
            cscf = names->regex[i].server;

        } else if (rc != NGX_DECLINED) {
            return NGX_ERROR;
        }
    }

#endif

    if (cscf == NULL) {
        ex->default_server = 1;

    } else {
        r->srv_conf = cscf->ctx->srv_conf;
        r->loc_conf = cscf->ctx->loc_conf;
    }

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    ngx_set_connection_log(r->connection, clcf->error_log);

    return NGX_OK;
}


/* as ngx_http_process_request_uri(), which ends the request on an error */

static ngx_int_t
ngx_http_sendfile_explain_parse(ngx_http_sendfile_explain_t *ex)
{
    u_char                    *last;
    ngx_http_request_t        *r;
    ngx_http_core_srv_conf_t  *cscf;

    r = ex->request;

    last = r->args_start ? r->args_start - 1 : r->uri_end;
    r->uri.len = last - r->uri_start;
    r->uri.data = r->uri_start;

    r->unparsed_uri.data = r->uri_start;
    r->unparsed_uri.len = r->uri_end - r->uri_start;
    r->valid_unparsed_uri = 1;

    if (r->uri_ext) {
        r->exten.data = r->uri_ext;
        r->exten.len = last - r->uri_ext;
    }

    if (r->args_start && r->uri_end > r->args_start) {
        r->args.data = r->args_start;
        r->args.len = r->uri_end - r->args_start;
    }

    if (!r->complex_uri && !r->quoted_uri) {
        return NGX_OK;
    }

    r->uri.data = ngx_pnalloc(r->pool, r->uri.len);
    if (r->uri.data == NULL) {
        return NGX_ERROR;
    }

    cscf = ngx_http_get_module_srv_conf(r, ngx_http_core_module);

    if (ngx_http_parse_complex_uri(r, cscf->merge_slashes) == NGX_OK) {
        return NGX_OK;
    }

    r->uri.len = 0;

    ngx_http_sendfile_explain_end(ex, "not_ours", NGX_HTTP_BAD_REQUEST,
                                  "server",
                                  "400: nginx takes the URI for a bad one");
    return NGX_DECLINED;
}


/* a variable of nginx's, where a configuration has use for it */

static void
ngx_http_sendfile_explain_set(ngx_http_request_t *r, const char *name,
    const char *value)
{
    size_t                      len;
    ngx_uint_t                  i;
    ngx_http_variable_t        *v;
    ngx_http_core_main_conf_t  *cmcf;

    cmcf = ngx_http_get_module_main_conf(r, ngx_http_core_module);

    v = cmcf->variables.elts;
    len = ngx_strlen(name);

    for (i = 0; i < cmcf->variables.nelts; i++) {

        if (v[i].name.len == len && ngx_strncmp(v[i].name.data, name, len) == 0)
        {
            r->variables[i].data = (u_char *) value;
            r->variables[i].len = ngx_strlen(value);
            r->variables[i].valid = 1;
            return;
        }
    }
}


void
ngx_http_sendfile_explain_destroy(ngx_http_sendfile_explain_t *ex)
{
    ngx_http_cleanup_t  *cln;

    if (ex->request == NULL) {
        return;
    }

    for (cln = ex->request->cleanup; cln; cln = cln->next) {
        if (cln->handler) {
            cln->handler(cln->data);
            cln->handler = NULL;
        }
    }
}
