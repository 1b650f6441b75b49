
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * For tests only: an asynchronous store that does as its URL says.
 *
 *     test:/delay=100,value=aa/%.txt   after 100 ms: aa/KEY.txt
 *     test:/delay=100,miss             after 100 ms: no such key
 *     test:/delay=100,error            after 100 ms: an error
 *     test:/never                      no answer at all
 *     test:/now,value=...              get() itself answers; also with
 *                                      miss, error
 *     keep                             a cancelled operation stays until its
 *                                      time and is then done nevertheless
 *
 * In a store block the servers are asked in turn.
 *
 * Each get, answer and cancel is logged at "notice".
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_api.h"


#define NGX_HTTP_SENDFILE_TEST_VALUE  1024


typedef struct {
    ngx_msec_t                delay;
    nsf_str_t                 value;
    ngx_int_t                 rc;
    unsigned                  never:1;
    unsigned                  now:1;
    unsigned                  keep:1;
} ngx_http_sendfile_test_t;


typedef struct {
    ngx_http_sendfile_test_t **tests;
    ngx_uint_t                 ntests;
    ngx_uint_t                 next;
} ngx_http_sendfile_test_turn_t;


typedef struct {
    ngx_event_t               timer;
    ngx_http_sendfile_op_t   *op;
    ngx_http_sendfile_test_t *test;
} ngx_http_sendfile_test_op_t;


static ngx_int_t ngx_http_sendfile_test_preconfiguration(ngx_conf_t *cf);
static ngx_int_t ngx_http_sendfile_test_server(ngx_conf_t *cf,
    ngx_http_sendfile_server_conf_t *server);
static ngx_int_t ngx_http_sendfile_test_servers(ngx_conf_t *cf,
    ngx_http_sendfile_store_t *store, ngx_http_sendfile_servers_conf_t *set);
static char *ngx_http_sendfile_test_options(ngx_http_sendfile_test_t *test,
    u_char *p, u_char *last);
static ngx_int_t ngx_http_sendfile_test_get(ngx_http_sendfile_store_t *store,
    ngx_http_sendfile_op_t *op);
static ngx_int_t ngx_http_sendfile_test_cancel(
    ngx_http_sendfile_store_t *store, ngx_http_sendfile_op_t *op);
static void ngx_http_sendfile_test_timer(ngx_event_t *ev);
static ngx_int_t ngx_http_sendfile_test_answer(ngx_http_sendfile_test_t *test,
    ngx_http_sendfile_op_t *op);


static ngx_http_module_t  ngx_http_sendfile_test_module_ctx = {
    ngx_http_sendfile_test_preconfiguration,
    NULL,                                  /* postconfiguration */

    NULL,                                  /* create main configuration */
    NULL,                                  /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    NULL,                                  /* create location configuration */
    NULL                                   /* merge location configuration */
};


ngx_module_t  ngx_http_sendfile_test_module = {
    NGX_MODULE_V1,
    &ngx_http_sendfile_test_module_ctx,    /* module context */
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


static ngx_http_sendfile_store_type_t  ngx_http_sendfile_test_store = {
    ngx_string("test"),
    ngx_string("test:/options"),
    ngx_string("test:/options"),
    1,                                     /* asynchronous */
    NULL,                                  /* create: of servers */
    ngx_http_sendfile_test_server,
    ngx_http_sendfile_test_servers,
    NULL,                                  /* init */
    NULL,                                  /* exit */
    ngx_http_sendfile_test_get,
    ngx_http_sendfile_test_cancel,
    NULL                                   /* directives of a block */
};


static u_char  ngx_http_sendfile_test_value[NGX_HTTP_SENDFILE_TEST_VALUE];


static ngx_int_t
ngx_http_sendfile_test_preconfiguration(ngx_conf_t *cf)
{
    ngx_uint_t                i;
    ngx_module_t             *module;
    ngx_http_sendfile_api_t  *api;

    for (i = 0; cf->cycle->modules[i]; i++) {
        module = cf->cycle->modules[i];

        if (ngx_strcmp(module->name, "ngx_http_sendfile_module") == 0) {
            api = (ngx_http_sendfile_api_t *) module->spare_hook0;

            if (api->version != NGX_HTTP_SENDFILE_API) {
                ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                                   "API version %ui, needed %d",
                                   api->version, NGX_HTTP_SENDFILE_API);
                return NGX_ERROR;
            }

            return api->add_store(cf, &ngx_http_sendfile_test_store);
        }
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "ngx_http_sendfile_module is not loaded");

    return NGX_ERROR;
}


static ngx_int_t
ngx_http_sendfile_test_server(ngx_conf_t *cf,
    ngx_http_sendfile_server_conf_t *server)
{
    char                      *rv;
    u_char                    *p;
    ngx_http_sendfile_test_t  *test;

    test = ngx_pcalloc(cf->pool, sizeof(ngx_http_sendfile_test_t));
    if (test == NULL) {
        return NGX_ERROR;
    }

    server->name.data = (u_char *) server->url.path.data;
    server->name.len = server->url.path.len;
    server->ctx = test;

    p = server->name.data;

    rv = ngx_http_sendfile_test_options(test, p + 1, p + server->name.len);

    if (rv != NGX_CONF_OK) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "test store: \"%V\": %s",
                           &server->name, rv);
        return NGX_ERROR;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_sendfile_test_servers(ngx_conf_t *cf,
    ngx_http_sendfile_store_t *store, ngx_http_sendfile_servers_conf_t *set)
{
    ngx_uint_t                      i;
    ngx_http_sendfile_test_turn_t  *turn;

    turn = ngx_pcalloc(cf->pool, sizeof(ngx_http_sendfile_test_turn_t));
    if (turn == NULL) {
        return NGX_ERROR;
    }

    turn->tests = ngx_palloc(cf->pool,
                             set->nservers
                             * sizeof(ngx_http_sendfile_test_t *));
    if (turn->tests == NULL) {
        return NGX_ERROR;
    }

    for (i = 0; i < set->nservers; i++) {
        turn->tests[i] = set->servers[i].ctx;
    }

    turn->ntests = set->nservers;
    store->ctx = turn;

    return NGX_OK;
}


static char *
ngx_http_sendfile_test_options(ngx_http_sendfile_test_t *test, u_char *p,
    u_char *last)
{
    size_t      len;
    u_char     *comma;
    ngx_int_t   n;

    while (p < last) {
        comma = ngx_strlchr(p, last, ',');

        if (comma == NULL) {
            comma = last;
        }

        len = comma - p;

        if (len > 6 && ngx_strncmp(p, "delay=", 6) == 0) {
            n = ngx_atoi(p + 6, len - 6);
            if (n == NGX_ERROR) {
                return "bad delay";
            }

            test->delay = n;

        } else if (len > 6 && ngx_strncmp(p, "value=", 6) == 0) {
            test->value.data = p + 6;
            test->value.len = len - 6;

        } else if (len == 4 && ngx_strncmp(p, "miss", 4) == 0) {
            test->rc = NGX_DECLINED;

        } else if (len == 5 && ngx_strncmp(p, "error", 5) == 0) {
            test->rc = NGX_ERROR;

        } else if (len == 5 && ngx_strncmp(p, "never", 5) == 0) {
            test->never = 1;

        } else if (len == 3 && ngx_strncmp(p, "now", 3) == 0) {
            test->now = 1;

        } else if (len == 4 && ngx_strncmp(p, "keep", 4) == 0) {
            test->keep = 1;

        } else {
            return "unknown option";
        }

        p = comma + 1;
    }

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_http_sendfile_test_get(ngx_http_sendfile_store_t *store,
    ngx_http_sendfile_op_t *op)
{
    ngx_http_sendfile_test_t       *test;
    ngx_http_sendfile_test_op_t    *top;
    ngx_http_sendfile_test_turn_t  *turn;

    turn = store->ctx;
    test = turn->tests[turn->next++ % turn->ntests];

    ngx_log_error(NGX_LOG_NOTICE, ngx_cycle->log, 0,
                  "test store: get \"%V\"", &op->key);

    if (test->now) {
        return ngx_http_sendfile_test_answer(test, op);
    }

    top = ngx_calloc(sizeof(ngx_http_sendfile_test_op_t), ngx_cycle->log);
    if (top == NULL) {
        op->reason = "no memory";
        return NGX_ERROR;
    }

    top->op = op;
    top->test = test;
    op->ctx = top;

    if (!test->never) {
        top->timer.handler = ngx_http_sendfile_test_timer;
        top->timer.data = top;
        top->timer.log = ngx_cycle->log;

        ngx_add_timer(&top->timer, test->delay);
    }

    return NGX_AGAIN;
}


static ngx_int_t
ngx_http_sendfile_test_cancel(ngx_http_sendfile_store_t *store,
    ngx_http_sendfile_op_t *op)
{
    ngx_http_sendfile_test_op_t  *top;

    top = op->ctx;

    ngx_log_error(NGX_LOG_NOTICE, ngx_cycle->log, 0,
                  "test store: cancel \"%V\"", &op->key);

    if (top->test->keep && top->timer.timer_set) {
        return NGX_AGAIN;
    }

    if (top->timer.timer_set) {
        ngx_del_timer(&top->timer);
    }

    ngx_free(top);

    return NGX_OK;
}


static void
ngx_http_sendfile_test_timer(ngx_event_t *ev)
{
    ngx_int_t                     rc;
    ngx_http_sendfile_op_t       *op;
    ngx_http_sendfile_test_op_t  *top;

    top = ev->data;
    op = top->op;

    ngx_log_error(NGX_LOG_NOTICE, ev->log, 0,
                  "test store: done \"%V\"", &op->key);

    rc = ngx_http_sendfile_test_answer(top->test, op);

    ngx_free(top);

    op->done(op, rc);
}


static ngx_int_t
ngx_http_sendfile_test_answer(ngx_http_sendfile_test_t *test,
    ngx_http_sendfile_op_t *op)
{
    size_t   i;
    u_char  *p, *last;

    if (test->rc == NGX_ERROR) {
        op->reason = "test error";
        op->err = ECONNREFUSED;
        return NGX_ERROR;
    }

    if (test->rc == NGX_DECLINED) {
        return NGX_DECLINED;
    }

    p = ngx_http_sendfile_test_value;
    last = p + NGX_HTTP_SENDFILE_TEST_VALUE;

    for (i = 0; i < test->value.len; i++) {
        if (test->value.data[i] == '%') {
            p = ngx_slprintf(p, last, "%V", &op->key);

        } else {
            p = ngx_slprintf(p, last, "%c", (int) test->value.data[i]);
        }
    }

    op->value.data = ngx_http_sendfile_test_value;
    op->value.len = p - ngx_http_sendfile_test_value;

    return NGX_OK;
}
