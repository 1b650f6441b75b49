
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * GET <status location>/explain?url=URL: what a request would do, without
 * doing it.  docs/explain.md describes the answer.
 *
 *     explain.c           the question, the wait for a store, the answer
 *     explain_url.c       the URL, and which server it comes to
 *     explain_request.c   a request of our own
 *     explain_phases.c    nginx's way of it: rewrite rules, locations
 *     explain_serve.c     our way of it, by the handlers' own functions
 *     explain_note.c      the steps, and what is to be said of them
 *     explain_files.c     the folders on the way to a file, and who may enter
 *     explain_json.c      bytes that are no text
 */


#ifndef _NGX_HTTP_SENDFILE_EXPLAIN_H_INCLUDED_
#define _NGX_HTTP_SENDFILE_EXPLAIN_H_INCLUDED_


#include "ngx_http_sendfile_status.h"


/* where a URL leads to */

typedef struct {
    /* without port, in lower case: it chooses the server block */
    ngx_str_t                       host;

    /* the URL's own host, or the path of a unix socket, and its port */
    ngx_str_t                       address;
    in_port_t                       port;

    /* the header Host */
    ngx_str_t                       authority;

    /* what stands in the request line */
    ngx_str_t                       target;

    unsigned                        https:1;
    unsigned                        unix_socket:1;

    /* a path only: the address that the question came to */
    unsigned                        here:1;
} ngx_http_sendfile_explain_url_t;


typedef struct {
    /* who asks, and the request that is explained */
    ngx_http_request_t             *asker;
    ngx_http_request_t             *request;

    ngx_http_sendfile_ctx_t        *ctx;
    ngx_http_sendfile_trial_t       trial;

    ngx_str_t                       text;
    ngx_http_sendfile_explain_url_t
                                    url;

    /* the address that it comes to */
    ngx_listening_t                *listening;
    ngx_http_addr_conf_t           *addr_conf;
    ngx_str_t                       listen;
    struct sockaddr                *sockaddr;
    socklen_t                       socklen;
    unsigned                        default_server:1;

    /* what the client would get */
    const char                     *outcome;
    ngx_uint_t                      status;  /* 0: not known */
    const char                     *step;
    ngx_str_t                       verdict;
    ngx_array_t                     advice;  /* of ngx_str_t */

    ngx_http_sendfile_out_t         steps;

    /* the reply of the store has been noted */
    unsigned                        noted:1;

    /* the headers of a response are in request->headers_out */
    unsigned                        headers:1;
} ngx_http_sendfile_explain_t;


/*
 * NULL, or why the URL cannot be explained.  "*error" is set if there is no
 * memory.
 */

const char *ngx_http_sendfile_explain_url(ngx_http_sendfile_explain_t *ex,
    ngx_str_t *url, ngx_str_t *host);

/* the same: finds the address of the configuration that the URL comes to */

const char *ngx_http_sendfile_explain_listen(ngx_http_sendfile_explain_t *ex);


/*
 * Makes ex->request, at its server.  NGX_OK; NGX_DECLINED: nginx refuses the
 * request as a bad one, that is noted; NGX_ERROR: no memory.
 */

ngx_int_t ngx_http_sendfile_explain_create(ngx_http_sendfile_explain_t *ex);

/* ends what is still under way for it */

void ngx_http_sendfile_explain_destroy(ngx_http_sendfile_explain_t *ex);


/*
 * nginx's own way, from SERVER_REWRITE to the handlers of PRECONTENT: NGX_OK
 * in the location; NGX_DONE: it ended before, that is noted; NGX_ERROR: no
 * memory.  The others are that of an internal redirect.
 */

ngx_int_t ngx_http_sendfile_explain_find(ngx_http_sendfile_explain_t *ex);
ngx_int_t ngx_http_sendfile_explain_uri(ngx_http_sendfile_explain_t *ex,
    ngx_str_t *uri, ngx_str_t *args);
ngx_int_t ngx_http_sendfile_explain_named(ngx_http_sendfile_explain_t *ex,
    ngx_str_t *name);


/*
 * From the handlers of PRECONTENT on: NGX_OK: all is noted; NGX_AGAIN: the
 * store's reply will come; NGX_ERROR: no memory.
 */

ngx_int_t ngx_http_sendfile_explain_serve(ngx_http_sendfile_explain_t *ex);

/* the store has answered: the same */

ngx_int_t ngx_http_sendfile_explain_replied(ngx_http_sendfile_explain_t *ex);


/* -- steps */

/* begins one, up to its fields; "state" is "ok", "failed" or "note" */

void ngx_http_sendfile_explain_step(ngx_http_sendfile_explain_t *ex,
    const char *step, const char *state, const char *fmt, ...);
void ngx_http_sendfile_explain_step_end(ngx_http_sendfile_explain_t *ex);

/* the end: what the client gets, in words; the first end is the one */

void ngx_http_sendfile_explain_end(ngx_http_sendfile_explain_t *ex,
    const char *outcome, ngx_uint_t status, const char *step,
    const char *fmt, ...);

/* a sentence of what to change */

void ngx_http_sendfile_explain_advise(ngx_http_sendfile_explain_t *ex,
    const char *fmt, ...);

/* the same, for another module; "data" is an ngx_http_sendfile_explain_t */

void ngx_http_sendfile_explain_told(void *data, const char *step,
    const char *state, const char *advice, const char *fmt, ...);

/* what was learned of a redirect, before its file is tried */

void ngx_http_sendfile_explain_recalled(ngx_http_sendfile_trial_t *trial);

/* what the cache and the store have said of the key */

void ngx_http_sendfile_explain_note_lookup(ngx_http_sendfile_explain_t *ex);

/* the file that was tried */

void ngx_http_sendfile_explain_note_file(ngx_http_sendfile_explain_t *ex,
    ngx_uint_t found);

/* why the request has failed: the step, and what to change */

const char *ngx_http_sendfile_explain_note_failure(
    ngx_http_sendfile_explain_t *ex);

/* how the location is written */

ngx_str_t ngx_http_sendfile_explain_location(ngx_http_sendfile_explain_t *ex);

/* the field "folders" of the step that was begun; who lacks what is advised */

void ngx_http_sendfile_explain_folders(ngx_http_sendfile_explain_t *ex,
    ngx_str_t *path);


/* a string of a document, whatever its bytes */

void ngx_http_sendfile_explain_bytes(ngx_http_sendfile_out_t *out,
    const char *name, const void *data, size_t len);

#define ngx_http_sendfile_explain_str(out, name, s)                           \
    ngx_http_sendfile_explain_bytes(out, name, (s)->data, (s)->len)


#endif /* _NGX_HTTP_SENDFILE_EXPLAIN_H_INCLUDED_ */
