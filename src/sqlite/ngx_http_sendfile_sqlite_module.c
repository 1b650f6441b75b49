
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * A module of its own, since not everybody has SQLite: it gives the kind of
 * store "sqlite" to ngx_http_sendfile_module.
 */


#include "ngx_http_sendfile_sqlite.h"


#define NGX_HTTP_SENDFILE_SQLITE_EXAMPLE                                      \
    "query \"SELECT path FROM files WHERE id = ?\";"


static ngx_int_t ngx_http_sendfile_sqlite_preconfiguration(ngx_conf_t *cf);
static ngx_int_t ngx_http_sendfile_sqlite_server(ngx_conf_t *cf,
    ngx_http_sendfile_server_conf_t *server);
static ngx_int_t ngx_http_sendfile_sqlite_servers(ngx_conf_t *cf,
    ngx_http_sendfile_store_t *store, ngx_http_sendfile_servers_conf_t *set);
static ngx_int_t ngx_http_sendfile_sqlite_set(ngx_conf_t *cf,
    ngx_http_sendfile_store_t *store, ngx_http_sendfile_servers_conf_t *set);
static ngx_int_t ngx_http_sendfile_sqlite_try(ngx_conf_t *cf,
    ngx_http_sendfile_store_t *store, ngx_http_sendfile_sqlite_t *sq,
    ngx_http_sendfile_line_t *line);
static void ngx_http_sendfile_sqlite_cleanup(void *data);


static ngx_http_module_t  ngx_http_sendfile_sqlite_module_ctx = {
    ngx_http_sendfile_sqlite_preconfiguration,
    NULL,                                  /* postconfiguration */

    NULL,                                  /* create main configuration */
    NULL,                                  /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    NULL,                                  /* create location configuration */
    NULL                                   /* merge location configuration */
};


ngx_module_t  ngx_http_sendfile_sqlite_module = {
    NGX_MODULE_V1,
    &ngx_http_sendfile_sqlite_module_ctx,  /* module context */
    NULL,                                  /* module directives */
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


static ngx_str_t  ngx_http_sendfile_sqlite_lines[] = {
    ngx_string("query"),
    ngx_null_string
};


static ngx_http_sendfile_store_type_t  ngx_http_sendfile_sqlite_store = {
    ngx_string("sqlite"),
    ngx_null_string,                       /* as a lookup: only as a block */
    ngx_string("sqlite:/path"),
    0,                                     /* asynchronous */
    NULL,                                  /* create: of servers */
    ngx_http_sendfile_sqlite_server,
    ngx_http_sendfile_sqlite_servers,
    ngx_http_sendfile_sqlite_init,
    ngx_http_sendfile_sqlite_exit,
    ngx_http_sendfile_sqlite_get,
    ngx_http_sendfile_sqlite_cancel,
    ngx_http_sendfile_sqlite_lines
};


static ngx_int_t
ngx_http_sendfile_sqlite_preconfiguration(ngx_conf_t *cf)
{
    ngx_uint_t                i;
    ngx_module_t             *module;
    ngx_http_sendfile_api_t  *api;

    for (i = 0; cf->cycle->modules[i]; i++) {
        module = cf->cycle->modules[i];

        if (ngx_strcmp(module->name, "ngx_http_sendfile_module") != 0) {
            continue;
        }

        api = (ngx_http_sendfile_api_t *) module->spare_hook0;

        if (api->version != NGX_HTTP_SENDFILE_API) {
            ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                          "ngx_http_sendfile_module.so and "
                          "ngx_http_sendfile_sqlite_module.so are of "
                          "different versions: install both anew "
                          "and restart nginx");
            return NGX_ERROR;
        }

        return api->add_store(cf, &ngx_http_sendfile_sqlite_store);
    }

    ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                  "ngx_http_sendfile_sqlite_module needs "
                  "ngx_http_sendfile_module: "
                  "add load_module modules/ngx_http_sendfile_module.so");

    return NGX_ERROR;
}


static ngx_int_t
ngx_http_sendfile_sqlite_server(ngx_conf_t *cf,
    ngx_http_sendfile_server_conf_t *server)
{
    nsf_str_t  *path;

    path = &server->url.path;

    if (server->url.host.len || path->len == 0 || path->data[0] != '/') {
        return NGX_DECLINED;
    }

    server->name.data = (u_char *) path->data;
    server->name.len = path->len;

    if (path->len > NGX_MAX_PATH) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "the path is too long");
        return NGX_ERROR;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_sendfile_sqlite_servers(ngx_conf_t *cf,
    ngx_http_sendfile_store_t *store, ngx_http_sendfile_servers_conf_t *set)
{
    ngx_http_sendfile_server_conf_t  *server, defaults;

    server = set->servers;

    if (set->lines == NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\" needs a query: write "
                           "http_sendfile_store NAME { server %V; "
                           NGX_HTTP_SENDFILE_SQLITE_EXAMPLE " } into http, "
                           "and the name here", &store->url, &store->url);
        return NGX_ERROR;
    }

    if (set->lines[0].value.data == NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "no query in store \"%V\": write "
                           NGX_HTTP_SENDFILE_SQLITE_EXAMPLE, &store->url);
        return NGX_ERROR;
    }

    ngx_http_sendfile_server_defaults(&defaults);

    if (set->nservers != 1
        || server->weight != defaults.weight
        || server->max_fails != defaults.max_fails
        || server->fail_timeout != defaults.fail_timeout
        || set->distribution != NGX_HTTP_SENDFILE_DISTRIBUTION
        || set->connections != NGX_HTTP_SENDFILE_CONNECTIONS
        || set->connect_timeout != NGX_HTTP_SENDFILE_CONNECT_TIMEOUT)
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "store \"%V\" is a file: write one server without "
                           "parameters, a query and, if need be, timeout",
                           &store->url);
        return NGX_ERROR;
    }

    return ngx_http_sendfile_sqlite_set(cf, store, set);
}


static ngx_int_t
ngx_http_sendfile_sqlite_set(ngx_conf_t *cf, ngx_http_sendfile_store_t *store,
    ngx_http_sendfile_servers_conf_t *set)
{
    const char                  *err;
    ngx_pool_cleanup_t          *cln;
    ngx_http_sendfile_line_t    *line;
    ngx_http_sendfile_sqlite_t  *sq;

    line = &set->lines[0];

    sq = ngx_pcalloc(cf->pool, sizeof(ngx_http_sendfile_sqlite_t));
    if (sq == NULL) {
        return NGX_ERROR;
    }

    sq->path.len = set->servers->name.len;
    sq->path.data = ngx_pnalloc(cf->pool, sq->path.len + 1);
    if (sq->path.data == NULL) {
        return NGX_ERROR;
    }

    (void) ngx_cpystrn(sq->path.data, set->servers->name.data,
                       sq->path.len + 1);

    err = ngx_http_sendfile_sqlite_query_set(&sq->query, &line->value);

    if (err) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "query \"%V\" %s: write a SELECT, activestorage or "
                      "solid_cache in %s:%ui", &line->value, err,
                      line->place.file, line->place.line);
        return NGX_ERROR;
    }

    if (ngx_http_sendfile_sqlite_try(cf, store, sq, line) != NGX_OK) {
        return NGX_ERROR;
    }

    cln = ngx_pool_cleanup_add(cf->pool, 0);
    if (cln == NULL) {
        return NGX_ERROR;
    }

    cln->handler = ngx_http_sendfile_sqlite_cleanup;
    cln->data = sq;

    store->ctx = sq;
    store->variants = sq->query.variants;

    return NGX_OK;
}


/*
 * What is wrong with the query whatever the database has refuses the
 * configuration, and with nginx -t also what is wrong with this database.  That
 * it cannot be read now does not: nginx starts before applications do.  Nothing
 * stays open: workers open it themselves.
 */

static ngx_int_t
ngx_http_sendfile_sqlite_try(ngx_conf_t *cf, ngx_http_sendfile_store_t *store,
    ngx_http_sendfile_sqlite_t *sq, ngx_http_sendfile_line_t *line)
{
    ngx_uint_t                        level;
    ngx_file_info_t                   fi;
    ngx_http_sendfile_sqlite_db_t     db;
    ngx_http_sendfile_sqlite_error_t  error;

    if (ngx_http_sendfile_sqlite_db_open(&db, NULL, &sq->query, &error)
        == NGX_OK)
    {
        ngx_http_sendfile_sqlite_db_close(&db);

    } else if (error.fault == NGX_HTTP_SENDFILE_SQLITE_QUERY) {
        goto failed;
    }

    if (!ngx_test_config) {
        /* a master process, often root's, reads no file of an application's */
        return NGX_OK;
    }

    if (ngx_file_info(sq->path.data, &fi) == NGX_FILE_ERROR) {
        ngx_log_error(NGX_LOG_WARN, cf->log, ngx_errno,
                      "http_sendfile: cannot check the query of store \"%V\" "
                      "with %V in %s:%ui", &store->url, &sq->path,
                      line->place.file, line->place.line);
        return NGX_OK;
    }

    if (ngx_http_sendfile_sqlite_db_open(&db, &sq->path, &sq->query, &error)
        == NGX_OK)
    {
        ngx_http_sendfile_sqlite_db_close(&db);
        return NGX_OK;
    }

failed:

    level = (error.fault == NGX_HTTP_SENDFILE_SQLITE_QUERY) ? NGX_LOG_EMERG
                                                            : NGX_LOG_WARN;

    ngx_log_error(level, cf->log, 0,
                  "http_sendfile: query of store \"%V\" with %V: %s in %s:%ui",
                  &store->url, &sq->path, error.text, line->place.file,
                  line->place.line);

    return (level == NGX_LOG_EMERG) ? NGX_ERROR : NGX_OK;
}


static void
ngx_http_sendfile_sqlite_cleanup(void *data)
{
    ngx_http_sendfile_sqlite_t *sq = data;

    ngx_http_sendfile_sqlite_close(sq);
}
