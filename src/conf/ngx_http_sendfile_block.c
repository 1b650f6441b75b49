
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * http_sendfile_store NAME { ... }: several servers under one name.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_md5.h>

#include "ngx_http_sendfile_conf.h"


#define NGX_HTTP_SENDFILE_MAX_WEIGHT       1000
#define NGX_HTTP_SENDFILE_MAX_CONNECTIONS  64


typedef struct {
    /* all servers are of one kind */
    ngx_http_sendfile_store_type_t  *type;
    ngx_array_t                      servers;

    /* directives that not every kind of store has */
    ngx_array_t                      lines;

    ngx_int_t                        distribution;
    ngx_int_t                        connections;
    ngx_msec_t                       connect_timeout;
    ngx_msec_t                       timeout;
} ngx_http_sendfile_block_t;


static char *ngx_http_sendfile_block_line(ngx_conf_t *cf, ngx_command_t *dummy,
    void *conf);
static char *ngx_http_sendfile_block_server(ngx_conf_t *cf,
    ngx_http_sendfile_block_t *b, ngx_str_t *value, ngx_uint_t nelts);
static ngx_int_t ngx_http_sendfile_block_type(ngx_conf_t *cf,
    ngx_http_sendfile_block_t *b, ngx_str_t *value, nsf_url_t *url);
static void ngx_http_sendfile_block_usage(ngx_conf_t *cf,
    ngx_http_sendfile_block_t *b, ngx_str_t *value);
static char *ngx_http_sendfile_block_param(ngx_conf_t *cf,
    ngx_http_sendfile_server_conf_t *server, ngx_str_t *param);
static char *ngx_http_sendfile_block_distribution(ngx_conf_t *cf,
    ngx_http_sendfile_block_t *b, ngx_str_t *value);
static char *ngx_http_sendfile_block_connections(ngx_conf_t *cf,
    ngx_http_sendfile_block_t *b, ngx_str_t *value);
static char *ngx_http_sendfile_block_time(ngx_conf_t *cf, ngx_msec_t *msec,
    ngx_str_t *name, ngx_str_t *value);
static char *ngx_http_sendfile_block_own(ngx_conf_t *cf,
    ngx_http_sendfile_block_t *b, ngx_str_t *value);
static ngx_int_t ngx_http_sendfile_block_find(
    ngx_http_sendfile_store_type_t *type, ngx_str_t *name);
static char *ngx_http_sendfile_block_unknown(ngx_conf_t *cf, ngx_str_t *name);
static char *ngx_http_sendfile_block_duplicate(ngx_conf_t *cf);
static ngx_int_t ngx_http_sendfile_block_lines(ngx_conf_t *cf,
    ngx_http_sendfile_block_t *b, ngx_http_sendfile_servers_conf_t *set);
static ngx_int_t ngx_http_sendfile_block_store(ngx_conf_t *cf,
    ngx_http_sendfile_store_t *store, ngx_http_sendfile_block_t *b);
static ngx_int_t ngx_http_sendfile_block_ident(ngx_conf_t *cf,
    ngx_http_sendfile_store_t *store, ngx_http_sendfile_servers_conf_t *set);
static ngx_int_t ngx_libc_cdecl ngx_http_sendfile_block_cmp(const void *one,
    const void *two);


char *
ngx_http_sendfile_conf_block(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    char                       *rv;
    ngx_str_t                  *value;
    nsf_url_t                   url;
    ngx_conf_t                  save;
    ngx_http_sendfile_block_t   b;
    ngx_http_sendfile_store_t  *store;

    value = cf->args->elts;

    if (nsf_url_parse(&url, value[1].data, value[1].len) != NULL
        || url.scheme.len)
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid name \"%V\" of a store: write letters, "
                           "digits, \"_\", \"-\" and \".\"", &value[1]);
        return NGX_CONF_ERROR;
    }

    store = ngx_http_sendfile_conf_store(cf, &value[1]);
    if (store == NULL) {
        return NGX_CONF_ERROR;
    }

    if (store->type) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "duplicate store \"%V\"", &value[1]);
        return NGX_CONF_ERROR;
    }

    ngx_memzero(&b, sizeof(ngx_http_sendfile_block_t));

    if (ngx_array_init(&b.servers, cf->pool, 4,
                       sizeof(ngx_http_sendfile_server_conf_t))
        != NGX_OK
        || ngx_array_init(&b.lines, cf->pool, 1,
                          sizeof(ngx_http_sendfile_line_t))
           != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    b.distribution = NGX_CONF_UNSET;
    b.connections = NGX_CONF_UNSET;
    b.connect_timeout = NGX_CONF_UNSET_MSEC;
    b.timeout = NGX_CONF_UNSET_MSEC;

    save = *cf;
    cf->handler = ngx_http_sendfile_block_line;
    cf->handler_conf = (void *) &b;

    rv = ngx_conf_parse(cf, NULL);

    *cf = save;

    if (rv != NGX_CONF_OK) {
        return rv;
    }

    if (b.servers.nelts == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "no servers in store \"%V\": write \"server "
                           NGX_HTTP_SENDFILE_DEFAULT_URL ";\"", &store->url);
        return NGX_CONF_ERROR;
    }

    ngx_conf_init_value(b.distribution, NGX_HTTP_SENDFILE_DISTRIBUTION);
    ngx_conf_init_value(b.connections, NGX_HTTP_SENDFILE_CONNECTIONS);
    ngx_conf_init_msec_value(b.connect_timeout,
                             NGX_HTTP_SENDFILE_CONNECT_TIMEOUT);
    ngx_conf_init_msec_value(b.timeout, 250);

    store->timeout = b.timeout;

    if (ngx_http_sendfile_block_store(cf, store, &b) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


static char *
ngx_http_sendfile_block_line(ngx_conf_t *cf, ngx_command_t *dummy, void *conf)
{
    ngx_http_sendfile_block_t *b = conf;

    ngx_str_t  *value;

    value = cf->args->elts;

    if (ngx_strcmp(value[0].data, "server") == 0 && cf->args->nelts > 1) {
        return ngx_http_sendfile_block_server(cf, b, value, cf->args->nelts);
    }

    if (cf->args->nelts != 2) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid number of arguments in \"%V\"",
                           &value[0]);
        return NGX_CONF_ERROR;
    }

    if (ngx_strcmp(value[0].data, "distribution") == 0) {
        return ngx_http_sendfile_block_distribution(cf, b, &value[1]);
    }

    if (ngx_strcmp(value[0].data, "connections") == 0) {
        return ngx_http_sendfile_block_connections(cf, b, &value[1]);
    }

    if (ngx_strcmp(value[0].data, "connect_timeout") == 0) {
        return ngx_http_sendfile_block_time(cf, &b->connect_timeout,
                                            &value[0], &value[1]);
    }

    if (ngx_strcmp(value[0].data, "timeout") == 0) {
        return ngx_http_sendfile_block_time(cf, &b->timeout, &value[0],
                                            &value[1]);
    }

    return ngx_http_sendfile_block_own(cf, b, value);
}


static char *
ngx_http_sendfile_block_server(ngx_conf_t *cf, ngx_http_sendfile_block_t *b,
    ngx_str_t *value, ngx_uint_t nelts)
{
    char                             *rv;
    ngx_int_t                         rc;
    ngx_uint_t                        i;
    ngx_http_sendfile_server_conf_t  *server, *other;

    server = ngx_array_push(&b->servers);
    if (server == NULL) {
        return NGX_CONF_ERROR;
    }

    ngx_memzero(server, sizeof(ngx_http_sendfile_server_conf_t));

    if (ngx_http_sendfile_block_type(cf, b, &value[1], &server->url)
        != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    ngx_http_sendfile_server_defaults(server);

    for (i = 2; i < nelts; i++) {
        rv = ngx_http_sendfile_block_param(cf, server, &value[i]);

        if (rv != NGX_CONF_OK) {
            return rv;
        }
    }

    rc = b->type->server(cf, server);

    if (rc == NGX_DECLINED) {
        ngx_http_sendfile_block_usage(cf, b, &value[1]);
    }

    if (rc != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    other = b->servers.elts;

    for (i = 0; i < b->servers.nelts - 1; i++) {
        if (other[i].name.len == server->name.len
            && ngx_strncmp(other[i].name.data, server->name.data,
                           server->name.len)
               == 0)
        {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "duplicate server \"%V\": write weight=2 to "
                               "give it more keys", &server->name);
            return NGX_CONF_ERROR;
        }
    }

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_http_sendfile_block_type(ngx_conf_t *cf, ngx_http_sendfile_block_t *b,
    ngx_str_t *value, nsf_url_t *url)
{
    const char                      *err;
    ngx_http_sendfile_store_type_t  *type;

    err = nsf_url_parse(url, value->data, value->len);

    if (err) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid server: \"%V\" %s", value, err);
        return NGX_ERROR;
    }

    type = ngx_http_sendfile_conf_type(cf, &url->scheme);

    if (type == NULL || type->server == NULL || (b->type && b->type != type)) {
        ngx_http_sendfile_block_usage(cf, b, value);
        return NGX_ERROR;
    }

    b->type = type;

    return NGX_OK;
}


/* of the kind that the servers before have, if there are any */

static void
ngx_http_sendfile_block_usage(ngx_conf_t *cf, ngx_http_sendfile_block_t *b,
    ngx_str_t *value)
{
    ngx_str_t  usage;

    usage = b->type ? b->type->server_usage
                    : ngx_http_sendfile_conf_usage(cf, 1);

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "invalid server \"%V\": write %V", value, &usage);
}


static char *
ngx_http_sendfile_block_param(ngx_conf_t *cf,
    ngx_http_sendfile_server_conf_t *server, ngx_str_t *param)
{
    ngx_int_t  n;
    ngx_str_t  s;

    if (ngx_strncmp(param->data, "weight=", 7) == 0) {

        n = ngx_atoi(param->data + 7, param->len - 7);

        if (n >= 1 && n <= NGX_HTTP_SENDFILE_MAX_WEIGHT) {
            server->weight = n;
            return NGX_CONF_OK;
        }

    } else if (ngx_strncmp(param->data, "max_fails=", 10) == 0) {

        n = ngx_atoi(param->data + 10, param->len - 10);

        if (n != NGX_ERROR) {
            server->max_fails = n;
            return NGX_CONF_OK;
        }

    } else if (ngx_strncmp(param->data, "fail_timeout=", 13) == 0) {

        s.data = param->data + 13;
        s.len = param->len - 13;

        n = ngx_parse_time(&s, 0);

        if (n > 0) {
            server->fail_timeout = n;
            return NGX_CONF_OK;
        }
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "invalid parameter \"%V\": write weight=n (1 to %d), "
                       "max_fails=n or fail_timeout=time", param,
                       NGX_HTTP_SENDFILE_MAX_WEIGHT);

    return NGX_CONF_ERROR;
}


static char *
ngx_http_sendfile_block_distribution(ngx_conf_t *cf,
    ngx_http_sendfile_block_t *b, ngx_str_t *value)
{
    if (b->distribution != NGX_CONF_UNSET) {
        return ngx_http_sendfile_block_duplicate(cf);
    }

    if (ngx_strcmp(value->data, "dalli") == 0) {
        b->distribution = NSF_RING_DALLI;

    } else if (ngx_strcmp(value->data, "ketama") == 0) {
        b->distribution = NSF_RING_KETAMA;

    } else {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid distribution \"%V\": write dalli or "
                           "ketama, as the clients that fill the store do",
                           value);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


static char *
ngx_http_sendfile_block_connections(ngx_conf_t *cf,
    ngx_http_sendfile_block_t *b, ngx_str_t *value)
{
    if (b->connections != NGX_CONF_UNSET) {
        return ngx_http_sendfile_block_duplicate(cf);
    }

    b->connections = ngx_atoi(value->data, value->len);

    if (b->connections < 1
        || b->connections > NGX_HTTP_SENDFILE_MAX_CONNECTIONS)
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid connections \"%V\": write a number from "
                           "1 to %d", value,
                           NGX_HTTP_SENDFILE_MAX_CONNECTIONS);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


static char *
ngx_http_sendfile_block_time(ngx_conf_t *cf, ngx_msec_t *msec,
    ngx_str_t *name, ngx_str_t *value)
{
    ngx_int_t  n;

    if (*msec != NGX_CONF_UNSET_MSEC) {
        return ngx_http_sendfile_block_duplicate(cf);
    }

    n = ngx_parse_time(value, 0);

    if (n == NGX_ERROR || n == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid %V \"%V\": write a time such as 250ms",
                           name, value);
        return NGX_CONF_ERROR;
    }

    *msec = n;

    return NGX_CONF_OK;
}


/* the kind of the block's store may be known only later */

static char *
ngx_http_sendfile_block_own(ngx_conf_t *cf, ngx_http_sendfile_block_t *b,
    ngx_str_t *value)
{
    ngx_uint_t                        i;
    ngx_http_sendfile_line_t         *line;
    ngx_http_sendfile_main_conf_t    *smcf;
    ngx_http_sendfile_store_type_t  **types;

    smcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_sendfile_module);

    types = smcf->types.elts;

    for (i = 0; i < smcf->types.nelts; i++) {
        if (ngx_http_sendfile_block_find(types[i], &value[0]) != NGX_ERROR) {
            break;
        }
    }

    if (i == smcf->types.nelts) {
        return ngx_http_sendfile_block_unknown(cf, &value[0]);
    }

    line = b->lines.elts;

    for (i = 0; i < b->lines.nelts; i++) {
        if (ngx_strcmp(line[i].name.data, value[0].data) == 0) {
            return ngx_http_sendfile_block_duplicate(cf);
        }
    }

    line = ngx_array_push(&b->lines);
    if (line == NULL) {
        return NGX_CONF_ERROR;
    }

    line->name = value[0];
    line->value = value[1];
    ngx_http_sendfile_conf_place(cf, &line->place);

    return NGX_CONF_OK;
}


/* which of the type's own directives has the name, or NGX_ERROR */

static ngx_int_t
ngx_http_sendfile_block_find(ngx_http_sendfile_store_type_t *type,
    ngx_str_t *name)
{
    ngx_int_t  i;

    if (type->lines == NULL) {
        return NGX_ERROR;
    }

    for (i = 0; type->lines[i].len; i++) {
        if (type->lines[i].len == name->len
            && ngx_strncmp(type->lines[i].data, name->data, name->len) == 0)
        {
            return i;
        }
    }

    return NGX_ERROR;
}


static char *
ngx_http_sendfile_block_unknown(ngx_conf_t *cf, ngx_str_t *name)
{
    u_char                           *p, *last;
    ngx_str_t                        *line;
    ngx_uint_t                        i;
    ngx_http_sendfile_main_conf_t    *smcf;
    ngx_http_sendfile_store_type_t  **types;
    u_char                            text[NGX_MAX_CONF_ERRSTR];

    smcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_sendfile_module);

    p = text;
    last = text + NGX_MAX_CONF_ERRSTR;

    types = smcf->types.elts;

    for (i = 0; i < smcf->types.nelts; i++) {
        for (line = types[i]->lines; line && line->len; line++) {
            p = ngx_slprintf(p, last, ", or %V for a server %V", line,
                             &types[i]->server_usage);
        }
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "unknown directive \"%V\" in a store: write server, "
                       "distribution, connections, connect_timeout or "
                       "timeout%*s", name, (size_t) (p - text), text);

    return NGX_CONF_ERROR;
}


/* of a line in a block nginx prints no name */

static char *
ngx_http_sendfile_block_duplicate(ngx_conf_t *cf)
{
    ngx_str_t  *value;

    value = cf->args->elts;

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "\"%V\" is duplicate",
                       &value[0]);

    return NGX_CONF_ERROR;
}


static ngx_int_t
ngx_http_sendfile_block_store(ngx_conf_t *cf,
    ngx_http_sendfile_store_t *store, ngx_http_sendfile_block_t *b)
{
    ngx_http_sendfile_servers_conf_t  set;

    set.servers = b->servers.elts;
    set.nservers = b->servers.nelts;
    set.distribution = b->distribution;
    set.connections = b->connections;
    set.connect_timeout = b->connect_timeout;

    store->type = b->type;

    if (ngx_http_sendfile_block_lines(cf, b, &set) != NGX_OK) {
        return NGX_ERROR;
    }

    if (ngx_http_sendfile_block_ident(cf, store, &set) != NGX_OK) {
        return NGX_ERROR;
    }

    return b->type->servers(cf, store, &set);
}


static ngx_int_t
ngx_http_sendfile_block_lines(ngx_conf_t *cf, ngx_http_sendfile_block_t *b,
    ngx_http_sendfile_servers_conf_t *set)
{
    ngx_int_t                  n;
    ngx_uint_t                 i;
    ngx_http_sendfile_line_t  *line;

    n = 0;

    while (b->type->lines && b->type->lines[n].len) {
        n++;
    }

    set->lines = ngx_pcalloc(cf->pool,
                             (n + 1) * sizeof(ngx_http_sendfile_line_t));
    if (set->lines == NULL) {
        return NGX_ERROR;
    }

    line = b->lines.elts;

    for (i = 0; i < b->lines.nelts; i++) {
        n = ngx_http_sendfile_block_find(b->type, &line[i].name);

        if (n == NGX_ERROR) {
            ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                          "\"%V\" is not for %V servers: leave it out in "
                          "%s:%ui", &line[i].name, &b->type->scheme,
                          line[i].place.file, line[i].place.line);
            return NGX_ERROR;
        }

        set->lines[n] = line[i];
    }

    return NGX_OK;
}


/*
 * With other servers, or the keys spread over them in another way, or with
 * another value of a directive that only this kind has, the name stands for
 * other data, and what a cache has of it is not to be used.  The order of the
 * servers does not count, as it does not for the clients.
 */

static ngx_int_t
ngx_http_sendfile_block_ident(ngx_conf_t *cf, ngx_http_sendfile_store_t *store,
    ngx_http_sendfile_servers_conf_t *set)
{
    u_char                            *p;
    ngx_md5_t                          md5;
    ngx_uint_t                         i;
    ngx_http_sendfile_line_t          *line;
    ngx_http_sendfile_server_conf_t   *server, **servers;
    u_char                             text[NGX_INT_T_LEN + 2];

    servers = ngx_palloc(cf->temp_pool,
                         set->nservers
                         * sizeof(ngx_http_sendfile_server_conf_t *));
    if (servers == NULL) {
        return NGX_ERROR;
    }

    for (i = 0; i < set->nservers; i++) {
        servers[i] = &set->servers[i];
    }

    ngx_sort(servers, set->nservers,
             sizeof(ngx_http_sendfile_server_conf_t *),
             ngx_http_sendfile_block_cmp);

    ngx_md5_init(&md5);
    ngx_md5_update(&md5, store->type->scheme.data, store->type->scheme.len);

    for (i = 0; i < set->nservers; i++) {
        server = servers[i];

        ngx_md5_update(&md5, server->name.data, server->name.len);

        /* one server has all keys, whatever its weight */

        if (set->nservers > 1) {
            p = ngx_snprintf(text, sizeof(text), " %ui\n", server->weight);
            ngx_md5_update(&md5, text, p - text);
        }
    }

    if (set->nservers > 1) {
        p = ngx_snprintf(text, sizeof(text), "%ui",
                         (ngx_uint_t) set->distribution);
        ngx_md5_update(&md5, text, p - text);
    }

    for (i = 0; store->type->lines && store->type->lines[i].len; i++) {
        line = &set->lines[i];

        if (line->value.data) {
            ngx_md5_update(&md5, line->name.data, line->name.len + 1);
            ngx_md5_update(&md5, line->value.data, line->value.len + 1);
        }
    }

    p = ngx_pnalloc(cf->pool, 16);
    if (p == NULL) {
        return NGX_ERROR;
    }

    ngx_md5_final(p, &md5);

    store->ident.data = p;
    store->ident.len = 16;

    return NGX_OK;
}


static ngx_int_t ngx_libc_cdecl
ngx_http_sendfile_block_cmp(const void *one, const void *two)
{
    ngx_http_sendfile_server_conf_t *const *a = one;
    ngx_http_sendfile_server_conf_t *const *b = two;

    return ngx_memn2cmp((*a)->name.data, (*b)->name.data, (*a)->name.len,
                        (*b)->name.len);
}
