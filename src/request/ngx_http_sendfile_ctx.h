
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * The context of a request, from where it begins to what has become of it;
 * its ID and key.
 */


#ifndef _NGX_HTTP_SENDFILE_CTX_H_INCLUDED_
#define _NGX_HTTP_SENDFILE_CTX_H_INCLUDED_


#include "ngx_http_sendfile.h"
#include "ngx_http_sendfile_lookup.h"


/*
 * What a request is at:
 *
 *     START --> LOOKUP --> FOUND ---> DONE
 *       |         |          |         ^
 *       `---------`-> FAILED <---------' (missing file)
 *
 * docs/architecture.md has the whole picture.
 */

typedef enum {
    NGX_HTTP_SENDFILE_START = 0,
    NGX_HTTP_SENDFILE_LOOKUP,
    NGX_HTTP_SENDFILE_FOUND,
    NGX_HTTP_SENDFILE_FAILED,
    NGX_HTTP_SENDFILE_DONE
} ngx_http_sendfile_state_e;


/* $sendfile_status */

typedef enum {
    NGX_HTTP_SENDFILE_STATUS_NONE = 0,
    NGX_HTTP_SENDFILE_STATUS_HIT,
    NGX_HTTP_SENDFILE_STATUS_MISS,
    NGX_HTTP_SENDFILE_STATUS_NEGATIVE,
    NGX_HTTP_SENDFILE_STATUS_EXPIRED,
    NGX_HTTP_SENDFILE_STATUS_STALE,
    NGX_HTTP_SENDFILE_STATUS_BYPASS,
    NGX_HTTP_SENDFILE_STATUS_ERROR,
    NGX_HTTP_SENDFILE_STATUS_TIMEOUT,
    NGX_HTTP_SENDFILE_STATUS_INVALID
} ngx_http_sendfile_status_e;


/* $sendfile_source: who has answered */

typedef enum {
    NGX_HTTP_SENDFILE_SOURCE_NONE = 0,
    NGX_HTTP_SENDFILE_SOURCE_STORE,
    NGX_HTTP_SENDFILE_SOURCE_CACHE,
    NGX_HTTP_SENDFILE_SOURCE_LEARNED,
    NGX_HTTP_SENDFILE_SOURCE_APP,
    NGX_HTTP_SENDFILE_SOURCE_SIGNED
} ngx_http_sendfile_source_e;


/*
 * What has become of trying to serve a file: the one thing that variables, the
 * log and the fallback speak of.
 */

typedef struct {
    ngx_http_sendfile_status_e      status;
    ngx_http_sendfile_source_e      source;

    /* what is to be sent; its path is empty if there is nothing */
    nsf_target_t                    target;

    /* why not a file: one of NGX_HTTP_SENDFILE_ON_, and in words */
    ngx_uint_t                      failure;
    ngx_uint_t                      code;
    const char                     *reason;
    const char                     *detail;
    ngx_err_t                       err;
} ngx_http_sendfile_outcome_t;


/* before another source is asked for the file */

#define ngx_http_sendfile_outcome_reset(outcome)                              \
    ngx_memzero(outcome, sizeof(ngx_http_sendfile_outcome_t))


/*
 * The target was in the zone before this request, so it is asked for more than
 * once: what is read of its file is worth keeping.  Not a stale record, of
 * which the store may say something else at any time.  Of what a token names
 * nobody knows how often it is asked for: each has another token.
 */

#define ngx_http_sendfile_outcome_known(outcome)                              \
    ((outcome)->source == NGX_HTTP_SENDFILE_SOURCE_LEARNED                    \
     || (outcome)->source == NGX_HTTP_SENDFILE_SOURCE_SIGNED                  \
     || ((outcome)->source == NGX_HTTP_SENDFILE_SOURCE_CACHE                  \
         && (outcome)->status == NGX_HTTP_SENDFILE_STATUS_HIT))


/* how far a target has got that was found */

typedef enum {
    NGX_HTTP_SENDFILE_NOT_DELIVERED = 0,

    /* by a redirect that has not yet begun: see ..._redirected() */
    NGX_HTTP_SENDFILE_REDIRECTING,

    NGX_HTTP_SENDFILE_DELIVERED
} ngx_http_sendfile_delivery_e;


/* what the cache may know of an application's answer, more in app/ */

typedef struct ngx_http_sendfile_learn_s  ngx_http_sendfile_learn_t;


/* a file that another module asks for by its key, more in request/ */

typedef struct ngx_http_sendfile_asking_s  ngx_http_sendfile_asking_t;


/* an application's answer: PENDING until nginx goes where it leads to */

typedef enum {
    NGX_HTTP_SENDFILE_ANSWER_DROPPED = 0,
    NGX_HTTP_SENDFILE_ANSWER_PENDING,
    NGX_HTTP_SENDFILE_ANSWER_FOLLOWED,

    /* the redirect led to a lookup */
    NGX_HTTP_SENDFILE_ANSWER_LOOKED_UP
} ngx_http_sendfile_answer_e;


/*
 * An application's answer with a header of http_sendfile_accept, of which
 * more is in app/.
 */

typedef struct {
    ngx_http_sendfile_answer_e      state;

    /* of the location that has asked the application */
    void                          **loc_conf;

    /* the line that is followed; what headers_in.x_accel_redirect was */
    ngx_table_elt_t                *line;
    ngx_table_elt_t                *redirect;
    unsigned                        keepalive:1;

    /* r->uri_changes just before nginx's redirect; 0: not redirected yet */
    ngx_uint_t                      uri_changes;

    /* its type and headers, for the response that sends the file */
    nsf_target_t                    kept;
} ngx_http_sendfile_answer_t;


/*
 * Of a request that is only explained: each step notes here what it has found
 * and would do, and does not do it.  Nothing of it is kept, sent or logged; the
 * store is asked, and the file is opened.
 */

#define NGX_HTTP_SENDFILE_TRIAL_VALUE  256

typedef struct ngx_http_sendfile_trial_s  ngx_http_sendfile_trial_t;

struct ngx_http_sendfile_trial_s {

    /* in place of going on: a reply came from the event loop */
    void                          (*replied)(ngx_http_sendfile_trial_t *trial);

    /* the file of a cached record is not there; the store is asked next */
    void                          (*vanished)(ngx_http_sendfile_trial_t *trial);

    /* what the application's redirect has said was looked for */
    void                          (*recalled)(ngx_http_sendfile_trial_t *trial);
    void                           *data;

    /* what the zone has of the key: its data is not kept here */
    nsf_shard_value_t               entry;

    /* the store's reply, and the beginning of its value */
    ngx_http_sendfile_result_t      reply;
    u_char                          value[NGX_HTTP_SENDFILE_TRIAL_VALUE];

    /* direct delivery: the file, and of it the directory */
    ngx_str_t                       root;
    ngx_str_t                       file;

    /* delivery by redirect, or a fallback that is a URI */
    ngx_str_t                       uri;
    ngx_str_t                       args;

    /* one of NGX_HTTP_SENDFILE_FALLBACK_, NGX_CONF_UNSET_UINT: spoilt */
    ngx_uint_t                      fallback;
    ngx_str_t                       to;

    /* of the answer that was learned */
    nsf_shard_value_t               learned;

    unsigned                        cached:1;
    unsigned                        purged:1;
    unsigned                        replies:1;
    unsigned                        falls:1;
    unsigned                        learns:1;
    unsigned                        learned_old:1;

    /* scripts that were not run: for a record, and for a variable */
    unsigned                        script:1;
    unsigned                        variable:1;

    /* the URL's scheme */
    unsigned                        https:1;
};


/*
 * The context of one request or subrequest.  It lives in a pool cleanup, for
 * internal redirects clear r->ctx.
 */

typedef struct {
    ngx_http_request_t             *request;
    ngx_http_sendfile_state_e       state;
    ngx_http_sendfile_outcome_t     outcome;
    ngx_http_sendfile_delivery_e    delivery;

    /* how many keys were to be looked up: 2 after an X-Accel-Redirect */
    ngx_uint_t                      lookups;

    ngx_str_t                       id;
    ngx_str_t                       key;
    ngx_http_sendfile_store_t      *store;

    /* of the store, the one that was asked; NULL: it has none */
    ngx_str_t                      *server;

    /* what outcome.reason and detail were when "not learned" replaced them */
    const char                     *failed_reason;
    const char                     *failed_detail;

    /* of a script, in place of the location's; empty: none */
    ngx_str_t                       fallback;

    ngx_msec_t                      start;
    ngx_msec_t                      lookup_time;  /* -1: none yet */

    ngx_http_sendfile_waiter_t      waiter;
    ngx_http_cleanup_t             *cleanup;

    /* whose purge makes what was read for this request old */
    ngx_http_sendfile_subject_t     subject;

    /* what the cache knows the record by */
    nsf_shard_key_t                 name;

    /* a cached record whose time is over, while the store is asked */
    nsf_target_t                   *stale;
    ngx_atomic_uint_t               stale_generation;

    /* NULL: none that we follow */
    ngx_http_sendfile_answer_t     *answer;

    /* NULL: nothing is learned of this request */
    ngx_http_sendfile_learn_t      *learn;

    /* NULL: no other module knows its key */
    ngx_http_sendfile_asking_t     *asked;

    /* for direct delivery; empty: that of the location */
    ngx_str_t                       root;

    /* of the location that it was looked up in; NULL: none */
    uint64_t                       *counters;

    /* what delivers is no redirect */
    unsigned                        direct:1;

    /* NULL: a request of a client's */
    ngx_http_sendfile_trial_t      *trial;

    /* until when the entry of the cache is good that is used; 0: none */
    ngx_msec_t                      valid;

    /* the record's headers are in the response */
    unsigned                        decorated:1;

    /* http_sendfile_cache_status of the location where it began */
    unsigned                        cache_status:1;

    /* the fallback was taken */
    unsigned                        fallen:1;
} ngx_http_sendfile_ctx_t;


/* NULL if this request has had nothing to do with us */

ngx_http_sendfile_ctx_t *ngx_http_sendfile_get_ctx(ngx_http_request_t *r);

/* for a request that has none; NULL if out of memory */

ngx_http_sendfile_ctx_t *ngx_http_sendfile_create_ctx(ngx_http_request_t *r);

/* sets all of a context as it is before the first lookup */

void ngx_http_sendfile_init_ctx(ngx_http_sendfile_ctx_t *ctx,
    ngx_http_request_t *r);

/* one more name whose purge makes what is read for this request old */

void ngx_http_sendfile_ctx_subject(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_name_e kind,
    ngx_str_t *name);

/* before a read; both are 0 where there is no clock */

void ngx_http_sendfile_ctx_moment(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_moment_t *moment);

/* whether what was read then is old for this request */

ngx_uint_t ngx_http_sendfile_ctx_old(ngx_http_sendfile_ctx_t *ctx,
    ngx_http_sendfile_generations_t *g, ngx_atomic_uint_t generation);

/*
 * What a phase handler does before it returns NGX_AGAIN: NGX_OK or NGX_ERROR;
 * and what is done from the event loop to have it called again.
 */

ngx_int_t ngx_http_sendfile_suspend(ngx_http_request_t *r);
void ngx_http_sendfile_resume(ngx_http_request_t *r);

/* the end of trying to serve a file; the next step is the fallback */

void ngx_http_sendfile_fail(ngx_http_sendfile_ctx_t *ctx, ngx_uint_t failure,
    ngx_uint_t code, const char *reason);

/* memory of a request's for a decoder */

void ngx_http_sendfile_pool(nsf_pool_t *np, ngx_pool_t *pool);


/* ngx_http_sendfile_key.c */

/* the ID in the URI of the request, empty if there is none */

void ngx_http_sendfile_id(ngx_http_request_t *r, ngx_str_t *id);

/*
 * The key of a location: NGX_OK, NGX_DECLINED if the request has no ID,
 * NGX_ERROR if out of memory.  "id" is that of the request.
 */

ngx_int_t ngx_http_sendfile_key(ngx_http_request_t *r,
    ngx_http_sendfile_loc_conf_t *slcf, ngx_str_t *id, ngx_str_t *key);


#endif /* _NGX_HTTP_SENDFILE_CTX_H_INCLUDED_ */
