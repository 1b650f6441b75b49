
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Answers of an application that it lets us use again:
 *
 *     learn_use.c       before the application is asked: is its answer known?
 *     learn_key.c       what an answer is for, and where it was learned
 *     learn_kept.c      answers in the cache: find, keep, forget, claim
 *     learn_answer.c    what it answers, and whether that may be kept
 */


#ifndef _NGX_HTTP_SENDFILE_LEARN_H_INCLUDED_
#define _NGX_HTTP_SENDFILE_LEARN_H_INCLUDED_


#include "ngx_http_sendfile_ctx.h"


typedef enum {
    NGX_HTTP_SENDFILE_LEARNED_NONE = 0,
    NGX_HTTP_SENDFILE_LEARNED_FRESH,
    NGX_HTTP_SENDFILE_LEARNED_STALE
} ngx_http_sendfile_learned_e;


/*
 * An answer as it is kept.  FILE: "base" is the directory that had allowed
 * it; REDIRECT: the path is that of a URI, without its first slash, "base"
 * its arguments.  "born" is the Unix time at which its age was 0.
 */

#define NGX_HTTP_SENDFILE_LEARNED_FILE      'F'
#define NGX_HTTP_SENDFILE_LEARNED_REDIRECT  'R'

typedef struct {
    u_char                          kind;
    ngx_str_t                       base;
    int64_t                         born;
    nsf_target_t                    target;

    /* as it is in the cache */
    nsf_shard_value_t               value;
} ngx_http_sendfile_learned_t;


/* what a request may do with an answer */

typedef enum {

    /* a GET of the whole, without conditions: it teaches */
    NGX_HTTP_SENDFILE_LEARN_PLAIN = 0,

    /* HEAD, Range, If-None-Match...: it is answered */
    NGX_HTTP_SENDFILE_LEARN_ASIDE,

    /* POST, PUT, PATCH, DELETE: it takes back */
    NGX_HTTP_SENDFILE_LEARN_UNSAFE
} ngx_http_sendfile_learn_e;


/* what has become of it */

typedef enum {
    NGX_HTTP_SENDFILE_LEARN_NONE = 0,

    /* a learned answer has been used */
    NGX_HTTP_SENDFILE_LEARN_USED,

    /* the application has named a file, and nginx goes there */
    NGX_HTTP_SENDFILE_LEARN_FOLLOWED
} ngx_http_sendfile_learn_fate_e;


/* of one request, in its pool */

struct ngx_http_sendfile_learn_s {
    ngx_http_request_t             *request;
    ngx_http_sendfile_zone_t       *zone;
    ngx_http_sendfile_learn_e       kind;
    ngx_http_sendfile_learn_fate_e  fate;

    /* what the answer is kept by, and what it is for */
    nsf_shard_key_t                 name;
    ngx_str_t                       key;
    ngx_str_t                       id;  /* empty: none */

    /* from before the application is asked */
    ngx_atomic_uint_t               generation;
    ngx_msec_t                      asked;

    /*
     * The upstream of this very request: the one that it has when it leaves
     * the location, unless it had that before it came there.
     */
    ngx_http_upstream_t            *before;
    ngx_http_upstream_t            *upstream;

    /* the location's, and of one that stands in for it */
    void                          **loc_conf;
    void                          **stand_in;

    /* past its time: in case that the application does not answer */
    ngx_http_sendfile_learned_t    *stale;

    /* the answer to be kept, and for how many seconds; or why not */
    ngx_http_sendfile_learned_t     learned;
    int64_t                         seconds;
    const char                     *refusal;

    /* of the learned answer that was used */
    int64_t                         age;

    unsigned                        keepalive:1;

    /* the stale answer's renewal is this request's */
    unsigned                        claimed:1;

    /* there is a learned answer, be it old for this request */
    unsigned                        found:1;

    /* the request has left the location */
    unsigned                        left:1;

    /* the answer is not to be used stale */
    unsigned                        revalidate:1;

    /* the answer lies in the cache */
    unsigned                        stored:1;

    unsigned                        settled:1;
};


/* in postconfiguration, if there is any location with http_sendfile_learn */

ngx_int_t ngx_http_sendfile_learn_init(ngx_conf_t *cf);

/* of the PRECONTENT phase: is the application's answer known? */

ngx_int_t ngx_http_sendfile_learn_handler(ngx_http_request_t *r);


/*
 * The first thing after any redirect: from here on another upstream's answer
 * is not the application's about this request, be it that of an error page,
 * of a named location or of the one that X-Accel-Redirect has led to.
 */

void ngx_http_sendfile_learn_leave(ngx_http_request_t *r,
    ngx_http_sendfile_learn_t *learn);

/*
 * Whose answer is this?  The upstream that has been asked about this very
 * request, in the location where it could have been answered from the cache;
 * NULL if there is none.
 */

ngx_http_upstream_t *ngx_http_sendfile_learn_upstream(ngx_http_request_t *r,
    ngx_http_sendfile_learn_t *learn);


/* the ID in the request line as the client has sent it, empty: none */

ngx_int_t ngx_http_sendfile_learn_line_id(ngx_http_request_t *r,
    ngx_str_t *id);


/*
 * What the answer is for: learn->name, key and id, and the request's subject.
 * NGX_OK; NGX_DECLINED: nothing that an answer could be known by; NGX_ERROR:
 * no memory.
 */

ngx_int_t ngx_http_sendfile_learn_key(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_http_sendfile_learn_t *learn);

/* $scheme://$http_host$request_uri; NGX_OK, NGX_DECLINED, NGX_ERROR */

ngx_int_t ngx_http_sendfile_learn_url(ngx_http_request_t *r, ngx_str_t *url);


/*
 * Where something is learned that is known by another key than the answer's:
 * the location and the host, or what http_sendfile_learn_key says.  NGX_OK;
 * NGX_DECLINED: it cannot be said; NGX_ERROR: no memory.
 */

ngx_int_t ngx_http_sendfile_learn_place(ngx_http_request_t *r,
    ngx_http_sendfile_loc_conf_t *slcf, nsf_str_t *scope);


/*
 * An answer that names a file, just before it is followed: if it is the
 * application's, judges by its headers.  "base" is the directory of a file;
 * NULL for a redirect, which the request has made.  "refusal": why it is not
 * to be kept, NULL if that is yet to be found out.
 */

void ngx_http_sendfile_learn_answer(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_str_t *base, const char *refusal);


/*
 * The header of the response, for the first time: keeps the answer, or
 * forgets it.  "delivered": the response is the file that was named.
 */

void ngx_http_sendfile_learn_settle(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_uint_t delivered);

/* a cleanup of the request: there was no response, maybe */

void ngx_http_sendfile_learn_cleanup(void *data);


/* to and from the cache; what is found lies in memory of the request's */

ngx_http_sendfile_learned_e ngx_http_sendfile_learn_find(
    ngx_http_request_t *r, ngx_http_sendfile_ctx_t *ctx,
    ngx_http_sendfile_learned_t *learned);
void ngx_http_sendfile_learn_keep(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx);
void ngx_http_sendfile_learn_forget(ngx_http_sendfile_learn_t *learn);

/* any answer for this learn key is old from now on, wherever it was learned */

void ngx_http_sendfile_learn_take_back(ngx_http_sendfile_learn_t *learn);


/*
 * 1: of the requests of all workers it is this one's to ask for an answer
 * whose time is over, until it gives that back, or for a few seconds.
 */

ngx_uint_t ngx_http_sendfile_learn_claim(ngx_http_sendfile_learn_t *learn,
    ngx_http_sendfile_learned_t *learned);
ngx_uint_t ngx_http_sendfile_learn_claimed(
    ngx_http_sendfile_learned_t *learned);
void ngx_http_sendfile_learn_release(ngx_http_sendfile_learn_t *learn);


#endif /* _NGX_HTTP_SENDFILE_LEARN_H_INCLUDED_ */
