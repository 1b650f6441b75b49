
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Private to the module: configuration, the context of a request, enums.
 */


#ifndef _NGX_HTTP_SENDFILE_H_INCLUDED_
#define _NGX_HTTP_SENDFILE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "nsf.h"
#include "nsf_target.h"
#include "nsf_record.h"
#include "ngx_http_sendfile_api.h"
#include "ngx_http_sendfile_lookup.h"
#include "ngx_http_sendfile_zone.h"


/* where a location looks that does not say where */

#define NGX_HTTP_SENDFILE_DEFAULT_URL      "memcached://127.0.0.1:11211"

/* kinds of failure, as http_sendfile_fallback_on names them */

#define NGX_HTTP_SENDFILE_ON_MISS          0x0002
#define NGX_HTTP_SENDFILE_ON_ERROR         0x0004
#define NGX_HTTP_SENDFILE_ON_TIMEOUT       0x0008
#define NGX_HTTP_SENDFILE_ON_INVALID       0x0010
#define NGX_HTTP_SENDFILE_ON_MISSING_FILE  0x0020
#define NGX_HTTP_SENDFILE_ON_ALL           0x003e

/* what the client may get; 408, 444 and 499 would get it nothing at all */

#define ngx_http_sendfile_valid_code(code)                                    \
    ((code) >= 400 && (code) <= 599                                           \
     && (code) != NGX_HTTP_REQUEST_TIME_OUT                                   \
     && (code) != NGX_HTTP_CLOSE                                              \
     && (code) != NGX_HTTP_CLIENT_CLOSED_REQUEST)

/* another method than GET and HEAD: always for the application */

#define NGX_HTTP_SENDFILE_ON_METHOD        0x0040

/* a script has refused the file, and said what to do instead */

#define NGX_HTTP_SENDFILE_ON_SCRIPT        0x0100


/* http_sendfile_accept */

#define NGX_HTTP_SENDFILE_ACCEPT_OFF       0x0001
#define NGX_HTTP_SENDFILE_ACCEPT_FILE      0x0002
#define NGX_HTTP_SENDFILE_ACCEPT_LIGHTTPD  0x0004
#define NGX_HTTP_SENDFILE_ACCEPT_REDIRECT  0x0008

/* those that name a file by its path */

#define NGX_HTTP_SENDFILE_ACCEPT_FILES                                        \
    (NGX_HTTP_SENDFILE_ACCEPT_FILE|NGX_HTTP_SENDFILE_ACCEPT_LIGHTTPD)


/* http_sendfile_cache_use_stale: ON_ERROR, ON_TIMEOUT, and this one */

#define NGX_HTTP_SENDFILE_STALE_OFF        0x0001
#define NGX_HTTP_SENDFILE_STALE_UPDATING   0x0080


typedef enum {
    NGX_HTTP_SENDFILE_REDIRECT = 0,
    NGX_HTTP_SENDFILE_DIRECT
} ngx_http_sendfile_deliver_e;


typedef enum {
    NGX_HTTP_SENDFILE_FALLBACK_OFF = 0,
    NGX_HTTP_SENDFILE_FALLBACK_NAMED,
    NGX_HTTP_SENDFILE_FALLBACK_URI,
    NGX_HTTP_SENDFILE_FALLBACK_CODE,
    NGX_HTTP_SENDFILE_FALLBACK_HANDLER
} ngx_http_sendfile_fallback_e;


typedef struct {
    ngx_array_t                     stores;    /* of store_t * */
    ngx_array_t                     types;     /* of store_type_t * */
    ngx_array_t                     enabled;   /* of enabled_t */
    ngx_array_t                     zones;     /* of zone_t * */

    /* of all zones; NULL: there are none */
    ngx_http_sendfile_generations_t
                                   *generations;

    ngx_array_t                     accepting; /* of enabled_t */

    /* of the module for Ruby; NULL: none */
    ngx_http_sendfile_script_pt     script;
} ngx_http_sendfile_main_conf_t;


typedef struct {
    ngx_flag_t                      enable;

    /* "on" stands in this very location, not above */
    ngx_uint_t                      here;      /* unsigned  here:1; */

    ngx_http_sendfile_store_t      *store;

    /* NULL: $sendfile_id */
    ngx_http_complex_value_t       *key;
    ngx_uint_t                      key_has_id;

    ngx_uint_t                      format;

    ngx_uint_t                      deliver;
    ngx_http_complex_value_t       *prefix;
    ngx_http_complex_value_t       *root;
    ngx_flag_t                      symlinks;

    ngx_uint_t                      fallback;
    ngx_http_complex_value_t       *fallback_to;
    ngx_uint_t                      fallback_has_args;
    ngx_uint_t                      fallback_code;
    ngx_uint_t                      fallback_on;

    ngx_msec_t                      timeout;

    /* NULL: off */
    ngx_http_sendfile_zone_t       *cache;
    ngx_msec_t                      cache_valid;
    ngx_msec_t                      cache_valid_404;
    ngx_uint_t                      cache_use_stale;
    size_t                          cache_body;  /* 0: off */
    ngx_msec_t                      cache_check;

    /* what records are known by, beside their keys */
    ngx_str_t                       cache_scope;

    /* 0: off */
    ngx_uint_t                      accept;
    ngx_array_t                    *allow;     /* of nsf_str_t, or NULL */
    ngx_flag_t                      learn;

    /* NULL: $scheme://$http_host$request_uri */
    ngx_http_complex_value_t       *learn_key;

    /* of nsf_str_t: the request's headers that the key names, or NULL */
    ngx_array_t                    *learn_vary;

    /* an "if" block whose key is not said in it */
    ngx_uint_t                      learn_blocked;

    /* the directive of this block; a digest of all those around it */
    ngx_str_t                       block;
    u_char                          where[16];

    /* http_sendfile_status of this very location */
    ngx_uint_t                      status;
    ngx_uint_t                      status_write;

    /* for the checks: what stands on this level, and where */
    ngx_uint_t                      has_prefix;
    ngx_uint_t                      has_root;
    ngx_uint_t                      warned;
    ngx_http_sendfile_place_t       enable_place;
    ngx_http_sendfile_place_t       prefix_place;
    ngx_http_sendfile_place_t       fallback_place;
    ngx_http_sendfile_place_t       fallback_on_place;
    ngx_http_sendfile_place_t       cache_body_place;
    ngx_http_sendfile_place_t       accept_place;
    ngx_http_sendfile_place_t       allow_place;
    ngx_http_sendfile_place_t       learn_place;
} ngx_http_sendfile_loc_conf_t;


/* of one lookup: the store's own, or that of the location */

#define ngx_http_sendfile_time_limit(slcf)                                    \
    ((slcf)->store->timeout ? (slcf)->store->timeout : (slcf)->timeout)


/*
 * A location with http_sendfile on, or with http_sendfile_accept or _learn, for
 * the checks of the whole.
 */

typedef struct {
    ngx_http_sendfile_loc_conf_t   *conf;
    ngx_http_core_loc_conf_t       *clcf;
    ngx_http_core_srv_conf_t       *cscf;
} ngx_http_sendfile_enabled_t;


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


/*
 * What has become of trying to serve a file: the one thing that variables, the
 * log and the fallback speak of.
 */

typedef struct {
    ngx_http_sendfile_status_e      status;

    /* what is to be sent; its path is empty if there is nothing */
    nsf_target_t                    target;

    /* "lmdb", "app"...; empty: nobody has answered */
    ngx_str_t                       source;

    /* why not a file: one of NGX_HTTP_SENDFILE_ON_, and in words */
    ngx_uint_t                      failure;
    ngx_uint_t                      code;
    const char                     *reason;
    const char                     *detail;
    ngx_err_t                       err;
} ngx_http_sendfile_outcome_t;


/* another try begins: nothing of the one before is true of it */

#define ngx_http_sendfile_outcome_reset(outcome)                              \
    ngx_memzero(outcome, sizeof(ngx_http_sendfile_outcome_t))


/* what the cache may know of an application's answer, more in app/ */

typedef struct ngx_http_sendfile_learn_s  ngx_http_sendfile_learn_t;


/*
 * An application's answer with a header of http_sendfile_accept, of which
 * more is in app/.  It has been read, but not yet followed: PENDING.
 */

typedef struct {
    /* of the location that has asked the application */
    void                          **loc_conf;

    /* the line that is followed, and what the response was until then */
    ngx_table_elt_t                *line;
    ngx_table_elt_t                *redirect;
    unsigned                        keepalive:1;
    unsigned                        pending:1;

    /* nginx goes there now: r->uri_changes before; 0: not yet */
    ngx_uint_t                      uri_changes;

    /* the redirect led to a lookup */
    unsigned                        looked_up:1;

    /* type and headers, for the answer of whoever sends the file */
    nsf_target_t                    kept;
} ngx_http_sendfile_answer_t;


/*
 * The context of one request or subrequest.  It lives in a pool cleanup, for
 * internal redirects clear r->ctx.
 */

typedef struct {
    ngx_http_request_t             *request;
    ngx_http_sendfile_state_e       state;
    ngx_http_sendfile_outcome_t     outcome;

    ngx_str_t                       id;
    ngx_str_t                       key;
    ngx_http_sendfile_store_t      *store;

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

    /* a cached record past its time, while the store is asked anew */
    nsf_target_t                   *stale;
    ngx_atomic_uint_t               stale_generation;

    /* NULL: none that we follow */
    ngx_http_sendfile_answer_t     *answer;

    /* NULL: nothing is learned of this request */
    ngx_http_sendfile_learn_t      *learn;

    /* for direct delivery; empty: that of the location */
    ngx_str_t                       root;

    /* the target is the cache's, and fresh */
    unsigned                        cached:1;

    /* a target has been found and is on its way */
    unsigned                        delivered:1;

    /* by a redirect that has not yet begun: see ..._redirected() */
    unsigned                        redirecting:1;

    /* the record's headers are in the answer */
    unsigned                        decorated:1;

    /* there was a key to look up */
    unsigned                        looked_up:1;

    /* the fallback was taken */
    unsigned                        fallen:1;

    /* asked once more, after an X-Accel-Redirect */
    unsigned                        again:1;
} ngx_http_sendfile_ctx_t;


/* the handlers, and what the rest asks of them */

ngx_int_t ngx_http_sendfile_handler(ngx_http_request_t *r);

/*
 * In the SERVER_REWRITE phase, the first one after an internal redirect:
 * marks the request that delivers a target, in the filter's context.  The
 * next redirect of any kind (error_page, try_files, a named location) clears
 * all contexts and so the mark: what answers then is not the target.
 */

ngx_int_t ngx_http_sendfile_redirected(ngx_http_request_t *r);

/* NULL if this request has had nothing to do with us */

ngx_http_sendfile_ctx_t *ngx_http_sendfile_get_ctx(ngx_http_request_t *r);

/* for a request that has none; NULL if out of memory */

ngx_http_sendfile_ctx_t *ngx_http_sendfile_create_ctx(ngx_http_request_t *r);

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


/* ngx_http_sendfile_key.c */

/* the ID in the URI of the request, empty if there is none */

void ngx_http_sendfile_id(ngx_http_request_t *r, ngx_str_t *id);

/*
 * The key of a location: NGX_OK, NGX_DECLINED if the request has no ID,
 * NGX_ERROR if out of memory.  "id" is that of the request.
 */

ngx_int_t ngx_http_sendfile_key(ngx_http_request_t *r,
    ngx_http_sendfile_loc_conf_t *slcf, ngx_str_t *id, ngx_str_t *key);


/* ngx_http_sendfile_value.c */

/* memory of a request's for a decoder */

void ngx_http_sendfile_pool(nsf_pool_t *np, ngx_pool_t *pool);

/* NULL and ctx->target, or why the value is no record */

const char *ngx_http_sendfile_decode(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_uint_t format,
    ngx_http_sendfile_value_t *value);


/* ngx_http_sendfile_variables.c */

ngx_int_t ngx_http_sendfile_add_variables(ngx_conf_t *cf);


/* ngx_http_sendfile_conf.c */

/* the kind of store that a scheme stands for, NULL if there is none */

ngx_http_sendfile_store_type_t *ngx_http_sendfile_conf_type(ngx_conf_t *cf,
    nsf_str_t *scheme);

/* what one may write, of all kinds: as a lookup, or as a block's server */

ngx_str_t ngx_http_sendfile_conf_usage(ngx_conf_t *cf, ngx_uint_t server);

ngx_http_sendfile_store_t *ngx_http_sendfile_conf_store(ngx_conf_t *cf,
    ngx_str_t *url);
void ngx_http_sendfile_conf_place(ngx_conf_t *cf,
    ngx_http_sendfile_place_t *place);
ngx_int_t ngx_http_sendfile_conf_masks(ngx_conf_t *cf,
    ngx_conf_bitmask_t *masks, ngx_uint_t caseless, ngx_uint_t *set,
    const char *write);
ngx_uint_t ngx_http_sendfile_same_place(ngx_http_sendfile_place_t *a,
    ngx_http_sendfile_place_t *b);
char *ngx_http_sendfile_conf_enable(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_sendfile_conf_lookup(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_sendfile_conf_key(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_sendfile_conf_format(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_sendfile_conf_prefix(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_sendfile_conf_root(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_sendfile_conf_fallback(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_sendfile_conf_fallback_on(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);


/* ngx_http_sendfile_cache_conf.c */

char *ngx_http_sendfile_conf_cache_zone(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_sendfile_conf_cache(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_sendfile_conf_cache_valid(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_sendfile_conf_cache_use_stale(ngx_conf_t *cf,
    ngx_command_t *cmd, void *conf);
char *ngx_http_sendfile_conf_cache_body(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/* what can be said when all has been read */

ngx_int_t ngx_http_sendfile_check_zones(ngx_conf_t *cf);
ngx_int_t ngx_http_sendfile_check_cache(ngx_conf_t *cf,
    ngx_http_sendfile_enabled_t *e);
ngx_int_t ngx_http_sendfile_check_bodies(ngx_conf_t *cf);


/* ngx_http_sendfile_accept_conf.c */

char *ngx_http_sendfile_conf_accept(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_sendfile_conf_allow(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_sendfile_conf_learn(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_sendfile_conf_learn_key(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
ngx_int_t ngx_http_sendfile_check_accept(ngx_conf_t *cf);


/* ngx_http_sendfile_status.c */

char *ngx_http_sendfile_conf_status(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);


/* ngx_http_sendfile_block.c */

char *ngx_http_sendfile_conf_block(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);


/* ngx_http_sendfile_check.c */

ngx_int_t ngx_http_sendfile_conf_check(ngx_conf_t *cf);


/* ngx_http_sendfile_module.c */

/* in postconfiguration: a handler of a phase */

ngx_int_t ngx_http_sendfile_add_handler(ngx_conf_t *cf, ngx_uint_t phase,
    ngx_http_handler_pt handler);

/*
 * The same, but behind all others.  In the REWRITE phase the rewrite module has
 * to be the first: by that it knows that a server's rules have been run.
 */

ngx_int_t ngx_http_sendfile_add_last_handler(ngx_conf_t *cf, ngx_uint_t phase,
    ngx_http_handler_pt handler);


extern ngx_module_t  ngx_http_sendfile_module;
extern ngx_module_t  ngx_http_sendfile_filter_module;


#endif /* _NGX_HTTP_SENDFILE_H_INCLUDED_ */
