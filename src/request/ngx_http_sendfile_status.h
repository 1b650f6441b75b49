
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * The status location: what its files ask of each other.
 *
 *     status.c           the routes, and what answers have in common
 *     json.c             GET json, and the words of all figures
 *     recent_json.c      of it, the last failures and the most asked IDs
 *     advice.c           what to do about each failure
 *     metrics.c          GET metrics
 *     page.c             the page of the location itself
 *     purge.c            DELETE cache
 *     explain.c          GET explain
 */


#ifndef _NGX_HTTP_SENDFILE_STATUS_H_INCLUDED_
#define _NGX_HTTP_SENDFILE_STATUS_H_INCLUDED_


#include "ngx_http_sendfile_request.h"
#include "ngx_http_sendfile_out.h"
#include "ngx_http_sendfile_stats.h"


/*
 * A route's handler.  "rest" is what follows its name and a slash, as the
 * client has written it, of a route that may have more; else empty, as it is
 * of a route whose name is all there is (rest->data is NULL then).  Returns
 * what a content handler does.
 */

typedef ngx_int_t (*ngx_http_sendfile_status_pt)(ngx_http_request_t *r,
    ngx_str_t *rest);


#define NGX_HTTP_SENDFILE_STATUS_JSON  "application/json"

/* ends the request with this text; "type" is a string constant */

ngx_int_t ngx_http_sendfile_status_send(ngx_http_request_t *r,
    ngx_uint_t code, const char *type, ngx_http_sendfile_out_t *out);

/* {"error":"text"} */

ngx_int_t ngx_http_sendfile_status_error(ngx_http_request_t *r,
    ngx_uint_t code, const char *text);


/* the words of counters, in the order of their cells; NULL: no such thing */

extern const char  *ngx_http_sendfile_results[];
extern const char  *ngx_http_sendfile_sources[];
extern const char  *ngx_http_sendfile_failures[];
extern const char  *ngx_http_sendfile_deliveries[];
extern const char  *ngx_http_sendfile_outcomes[];
extern const char  *ngx_http_sendfile_entries[];
extern const char  *ngx_http_sendfile_misses[];
extern const char  *ngx_http_sendfile_signs[];
extern const char  *ngx_http_sendfile_purges[];


/* ngx_http_sendfile_json.c, ngx_http_sendfile_metrics.c */

ngx_int_t ngx_http_sendfile_json(ngx_http_request_t *r, ngx_str_t *rest);
ngx_int_t ngx_http_sendfile_metrics(ngx_http_request_t *r, ngx_str_t *rest);


/* ngx_http_sendfile_recent_json.c: members of the document */

void ngx_http_sendfile_json_recent(ngx_http_sendfile_out_t *out,
    ngx_http_sendfile_main_conf_t *smcf, ngx_uint_t ids);


/*
 * ngx_http_sendfile_advice.c: what to do about a failure, a sentence or more.
 * "kind" is an index of ngx_http_sendfile_failures[]; without a reason it is
 * what holds for all of this kind.  Never NULL.
 */

const char *ngx_http_sendfile_advice(ngx_uint_t kind, ngx_str_t *reason,
    ngx_str_t *detail);


/* ngx_http_sendfile_page.c */

ngx_int_t ngx_http_sendfile_page(ngx_http_request_t *r, ngx_str_t *rest);


/* ngx_http_sendfile_purge.c */

ngx_int_t ngx_http_sendfile_purge(ngx_http_request_t *r, ngx_str_t *rest);


/* ngx_http_sendfile_explain.c */

ngx_int_t ngx_http_sendfile_explain(ngx_http_request_t *r, ngx_str_t *rest);


#endif /* _NGX_HTTP_SENDFILE_STATUS_H_INCLUDED_ */
