
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Answers of an application that it lets us use again:
 *
 *     learn.c           before the application is asked: is its answer known?
 *     learn_answer.c    what it answers, and whether that may be kept
 *     learn_update.c    one request asks anew, others wait for it
 */


#ifndef _NGX_HTTP_SENDFILE_LEARN_H_INCLUDED_
#define _NGX_HTTP_SENDFILE_LEARN_H_INCLUDED_


#include "ngx_http_sendfile.h"


/* how long a request waits for another's answer, at most */

#define NGX_HTTP_SENDFILE_LEARN_WAIT   5000

/* how long other workers leave an update to the one that has begun it */

#define NGX_HTTP_SENDFILE_LEARN_CLAIM  5000


typedef enum {
    NGX_HTTP_SENDFILE_LEARNED_NONE = 0,
    NGX_HTTP_SENDFILE_LEARNED_FRESH,
    NGX_HTTP_SENDFILE_LEARNED_STALE
} ngx_http_sendfile_learned_e;


/*
 * An answer as it is kept.  FILE: "base" is the directory that had allowed
 * it; REDIRECT: the path is that of a URI, without its first slash, "base"
 * its arguments.
 */

#define NGX_HTTP_SENDFILE_LEARNED_FILE      'F'
#define NGX_HTTP_SENDFILE_LEARNED_REDIRECT  'R'

typedef struct {
    u_char                          kind;
    ngx_str_t                       base;
    nsf_target_t                    target;
    nsf_shard_value_t               value;
} ngx_http_sendfile_learned_t;


/* of one request, in its pool */

struct ngx_http_sendfile_learn_s {
    ngx_http_request_t             *request;
    ngx_http_sendfile_zone_t       *zone;

    /* what the answer is kept by; the token is of before it was asked for */
    nsf_shard_key_t                 name;
    uint32_t                        token;

    /* the location's, which another may stand in for */
    void                          **loc_conf;

    /* r->uri_changes: another number is that of a redirected request */
    ngx_uint_t                      uri_changes;

    /* past its time: in case that the application does not answer */
    ngx_http_sendfile_learned_t    *stale;

    /* the answer to be kept, and for how many seconds; or why not */
    ngx_http_sendfile_learned_t     answer;
    int64_t                         seconds;
    const char                     *refusal;

    /* this request asks anew: others of this worker may wait for it */
    ngx_queue_t                     update;
    ngx_queue_t                     waiters;

    /* or waits itself */
    ngx_queue_t                     waiter;
    ngx_event_t                     event;
    ngx_msec_t                      deadline;

    ngx_http_cleanup_t             *cleanup;

    unsigned                        get:1;

    /* there is no key: the URI is in its place */
    unsigned                        by_uri:1;

    unsigned                        keepalive:1;
    unsigned                        error_page:1;
    unsigned                        updating:1;
    unsigned                        waiting:1;
    unsigned                        woken:1;

    /* a learned answer has been used */
    unsigned                        used:1;

    /* the application has named a file, and nginx goes there */
    unsigned                        followed:1;

    /* its answer says nothing of a GET of the whole */
    unsigned                        aside:1;
    unsigned                        settled:1;
};


/* in postconfiguration, if there is any location with http_sendfile_learn */

ngx_int_t ngx_http_sendfile_learn_init(ngx_conf_t *cf);

void ngx_http_sendfile_learn_init_process(void);


/*
 * The application's answer, just before it is followed: judges by its
 * headers.  "base" is the directory of a file; NULL for a redirect, which
 * the request has made.
 */

void ngx_http_sendfile_learn_answer(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_str_t *base);

/* the answer is followed, and not to be kept */

void ngx_http_sendfile_learn_refuse(ngx_http_sendfile_ctx_t *ctx,
    const char *reason);


/*
 * The header of the response, for the first time: keeps the answer, or
 * forgets it.  "delivered": the response is the file that was named.
 */

void ngx_http_sendfile_learn_settle(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_uint_t delivered);


/* to and from the cache; what is found lies in memory of the request's */

ngx_http_sendfile_learned_e ngx_http_sendfile_learn_find(
    ngx_http_request_t *r, ngx_http_sendfile_learn_t *learn,
    ngx_http_sendfile_learned_t *learned);
void ngx_http_sendfile_learn_keep(ngx_http_request_t *r,
    ngx_http_sendfile_learn_t *learn);
void ngx_http_sendfile_learn_forget(ngx_http_sendfile_learn_t *learn);


/*
 * 1: of the requests of all workers it is this one's to ask for an answer
 * whose time is over, for a few seconds.
 */

ngx_uint_t ngx_http_sendfile_learn_claim(ngx_http_sendfile_learn_t *learn,
    ngx_http_sendfile_learned_t *learned);


/* learn_update.c, of this worker */

ngx_http_sendfile_learn_t *ngx_http_sendfile_learn_updater(
    ngx_http_sendfile_learn_t *learn);
void ngx_http_sendfile_learn_update(ngx_http_sendfile_learn_t *learn);
void ngx_http_sendfile_learn_updated(ngx_http_sendfile_learn_t *learn);

/* NGX_AGAIN; or NGX_DECLINED, if there is no time left; or NGX_ERROR */

ngx_int_t ngx_http_sendfile_learn_wait(ngx_http_request_t *r,
    ngx_http_sendfile_learn_t *learn, ngx_http_sendfile_learn_t *updater);

/* a cleanup of the request */

void ngx_http_sendfile_learn_cleanup(void *data);


#endif /* _NGX_HTTP_SENDFILE_LEARN_H_INCLUDED_ */
