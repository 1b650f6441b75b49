
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * A request, from its key to the file or the fallback: what the files here
 * ask of each other, and the module of them.
 */


#ifndef _NGX_HTTP_SENDFILE_REQUEST_H_INCLUDED_
#define _NGX_HTTP_SENDFILE_REQUEST_H_INCLUDED_


#include "ngx_http_sendfile_ctx.h"


/* ngx_http_sendfile_handler.c */

ngx_int_t ngx_http_sendfile_handler(ngx_http_request_t *r);

/* whether a location is ours to serve, be it that the request has a key */

#define ngx_http_sendfile_applies(r, slcf)                                    \
    ((slcf)->enable                                                           \
     && !(r)->error_page                                                      \
     && ((r)->content_handler == NULL || (slcf)->here))

/*
 * Looks ctx->key up.  NGX_OK: the state is FOUND or FAILED.  NGX_AGAIN: it is
 * LOOKUP, and the store's reply will come from the event loop.
 */

ngx_int_t ngx_http_sendfile_start(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf);

/* then sends the file, or takes the fallback: what the handler returns */

ngx_int_t ngx_http_sendfile_run(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf);

/*
 * In the SERVER_REWRITE phase, the first one after an internal redirect:
 * marks the request that delivers a target, in the filter's context.  The
 * next redirect of any kind (error_page, try_files, a named location) clears
 * all contexts and so the mark: what answers then is not the target.
 */

ngx_int_t ngx_http_sendfile_redirected(ngx_http_request_t *r);


/* ngx_http_sendfile_known.c */

/* for other modules: see ngx_http_sendfile_api_t */

ngx_int_t ngx_http_sendfile_send(ngx_http_request_t *r,
    ngx_http_sendfile_known_t *file);

/*
 * The context of a request whose file another module knows, or asks for.
 * NGX_DECLINED: it has been here before; else what the handler returns.
 */

ngx_int_t ngx_http_sendfile_claim(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t **ctxp);

/*
 * Sends such a file.  NGX_DECLINED: it cannot be, and the state is FAILED;
 * NGX_ERROR: no memory; else what the handler returns.
 */

ngx_int_t ngx_http_sendfile_known(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_http_sendfile_known_t *file, ngx_http_sendfile_source_e source);


/* ngx_http_sendfile_asked.c */

/* for other modules: see ngx_http_sendfile_api_t */

ngx_int_t ngx_http_sendfile_find(ngx_http_request_t *r,
    ngx_http_sendfile_asked_t *by);
ngx_int_t ngx_http_sendfile_resume_find(ngx_http_request_t *r);

/*
 * Of a request with ctx->asked: makes of the record that was found what is to
 * be sent.  NGX_OK: the state is FOUND or FAILED; NGX_ERROR: no memory.
 */

ngx_int_t ngx_http_sendfile_asked_record(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf);

/*
 * The same, before the fallback: sends the file of a redirect that was learned,
 * as ngx_http_sendfile_known() does.
 */

ngx_int_t ngx_http_sendfile_asked_recall(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf);

/* the header of the response, of the application: learns its redirect */

void ngx_http_sendfile_asked_settle(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx);


/* ngx_http_sendfile_value.c */

/* NULL and ctx->target, or why the value is no record */

const char *ngx_http_sendfile_decode(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_uint_t format,
    ngx_http_sendfile_value_t *value);


/* ngx_http_sendfile_filter_module.c */

/* type, name and headers of a record, on the response of its file */

ngx_int_t ngx_http_sendfile_add_record(ngx_http_request_t *r,
    nsf_target_t *t);


/* ngx_http_sendfile_cache_status.c */

/* Cache-Status, if the location wants it, or the one where the request began */

ngx_int_t ngx_http_sendfile_add_cache_status(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx);


/* ngx_http_sendfile_variables.c */

/* $sendfile_status and $sendfile_source; the latter of a store is its name */

ngx_str_t *ngx_http_sendfile_status_name(ngx_http_sendfile_ctx_t *ctx);
ngx_str_t *ngx_http_sendfile_source_name(ngx_http_sendfile_ctx_t *ctx);

/* $sendfile_reason: NGX_OK, NGX_DECLINED if there is none, NGX_ERROR */

ngx_int_t ngx_http_sendfile_reason(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_str_t *reason);

ngx_int_t ngx_http_sendfile_add_variables(ngx_conf_t *cf);


/* ngx_http_sendfile_count.c */

/*
 * In postconfiguration, if there is a status location: memory for counters,
 * and what counts each request in the LOG phase.
 */

ngx_int_t ngx_http_sendfile_count_init(ngx_conf_t *cf);

/* in a worker: finds the counters of all that stands in the configuration */

ngx_int_t ngx_http_sendfile_count_init_process(ngx_cycle_t *cycle,
    ngx_http_sendfile_main_conf_t *smcf);

/* the index in ngx_http_sendfile_failures[] of one of NGX_HTTP_SENDFILE_ON_ */

ngx_uint_t ngx_http_sendfile_count_kind(ngx_uint_t failure);

/* then, after the init() of a store: its own, unless its servers have some */

void ngx_http_sendfile_count_store(ngx_http_sendfile_store_t *store);


/* ngx_http_sendfile_explain.c */

/* 1: the request is only explained; a variable's script was left out */

ngx_uint_t ngx_http_sendfile_explain_variable(ngx_http_request_t *r);


/* ngx_http_sendfile_status.c */

char *ngx_http_sendfile_conf_status(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);


#endif /* _NGX_HTTP_SENDFILE_REQUEST_H_INCLUDED_ */
