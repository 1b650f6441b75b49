
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * What other modules may use: a table of functions in spare_hook0 of
 * ngx_http_sendfile_module, which they find by its name in cycle->modules,
 * whatever the order in which the modules are loaded.
 */


#ifndef _NGX_HTTP_SENDFILE_API_H_INCLUDED_
#define _NGX_HTTP_SENDFILE_API_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_store.h"
#include "nsf_target.h"


/*
 * What a script sees of a record that was found, and what it decides.  The
 * target is the request's own copy: the script may change it, with strings
 * that live as long as the request, and it is checked anew.  "fallback" may
 * be set to what http_sendfile_fallback takes, without variables.
 */

typedef struct {
    ngx_str_t                       id;
    ngx_str_t                       key;
    nsf_target_t                   *target;

    ngx_str_t                       fallback;
    ngx_uint_t                      code;

    /* the request is only explained: the script is not to be run */
    ngx_uint_t                      trial;  /* unsigned  trial:1; */
} ngx_http_sendfile_script_t;


/*
 * NGX_OK: the target is to be sent.  NGX_DECLINED: it is not, "code" is the
 * answer, or "fallback" if that is set.  NGX_ERROR: the answer is 500.
 * NGX_AGAIN, of a trial only: there is a script.
 */

typedef ngx_int_t (*ngx_http_sendfile_script_pt)(ngx_http_request_t *r,
    ngx_http_sendfile_script_t *s);


/*
 * A file that another module knows, or with "reason", why there is none and
 * with which status that is to be answered, unless there is a fallback.  "key"
 * is what it is called in logs, and purged by.  "root" is an absolute path, or
 * empty for that of the location.  The target is checked; "disposition" and
 * "cache_control" are headers as they are, or empty.
 */

typedef struct {
    ngx_str_t                       key;
    ngx_str_t                       root;
    nsf_target_t                    target;
    ngx_str_t                       disposition;
    ngx_str_t                       cache_control;

    const char                     *reason;
    ngx_uint_t                      code;
} ngx_http_sendfile_known_t;


/*
 * A file of which another module knows the key, in memory that lives as long as
 * the request.  Its record is that of the location's store; where there is
 * none, and http_sendfile_learn is on, what was kept of a redirect with which
 * the application has answered before.
 */

typedef struct ngx_http_sendfile_asked_s  ngx_http_sendfile_asked_t;

struct ngx_http_sendfile_asked_s {
    ngx_str_t                       key;

    /* the key in a store with "variants"; empty: it is the same */
    ngx_str_t                       variant;

    /* whose purge is one of this file, too; empty: nobody's */
    ngx_str_t                       owner;

    /*
     * Makes of a record what is to be sent, with strings that live as long as
     * the request.  NGX_OK, or NGX_ERROR: no memory.
     */
    ngx_int_t                     (*record)(ngx_http_request_t *r,
                                        ngx_http_sendfile_asked_t *asked,
                                        nsf_target_t *t);

    /*
     * The application has redirected to this URL.  NGX_OK: "kept" is what to
     * remember of it; NGX_DECLINED: nothing; NGX_ERROR: no memory.
     */
    ngx_int_t                     (*redirect)(ngx_http_request_t *r,
                                        ngx_http_sendfile_asked_t *asked,
                                        ngx_str_t *url, ngx_str_t *kept);

    /*
     * What was remembered, a copy that may be changed, to a file: all but its
     * key is set, "reason" if there is none.
     */
    void                          (*recall)(ngx_http_request_t *r,
                                        ngx_http_sendfile_asked_t *asked,
                                        ngx_str_t *kept,
                                        ngx_http_sendfile_known_t *file);
};


/*
 * For a request that is only explained: notes steps, with a sentence each and
 * what to change or NULL, and returns what the module's handler returns of it.
 * "send" sends nothing then; "find" returns NGX_OK when the store was asked.
 */

typedef void (*ngx_http_sendfile_note_pt)(void *data, const char *step,
    const char *state, const char *advice, const char *fmt, ...);

typedef ngx_int_t (*ngx_http_sendfile_tell_pt)(ngx_http_request_t *r,
    ngx_http_sendfile_note_pt note, void *data);


#define NGX_HTTP_SENDFILE_API  6

typedef struct {
    ngx_uint_t                      version;

    /* for preconfiguration */
    ngx_int_t                     (*add_store)(ngx_conf_t *cf,
                                        ngx_http_sendfile_store_type_t *type);

    /*
     * For postconfiguration: called for each record that is found, before
     * it is sent.
     */
    ngx_int_t                     (*set_script)(ngx_conf_t *cf,
                                        ngx_http_sendfile_script_pt script);

    /* in a worker, after a script of a request's: a limit has stopped it */
    void                          (*count_script)(ngx_uint_t stopped);

    /*
     * 1: the request is only explained, so a script that makes a variable is
     * not to be run, and that is said.
     */
    ngx_uint_t                    (*trial)(ngx_http_request_t *r);

    /*
     * For a handler of the PRECONTENT phase that runs before ours, GET and
     * HEAD: returns what the handler is to return.
     */
    ngx_int_t                     (*send)(ngx_http_request_t *r,
                                        ngx_http_sendfile_known_t *file);

    /*
     * The same, of a file whose key is known.  When the store has not answered
     * yet the handler is called again: then "resume" goes on, and returns
     * NGX_DECLINED, too, if there is nothing to go on with.
     */
    ngx_int_t                     (*find)(ngx_http_request_t *r,
                                        ngx_http_sendfile_asked_t *asked);
    ngx_int_t                     (*resume)(ngx_http_request_t *r);

    /*
     * When locations are merged, for each in which "send" may be called, and
     * with "asks" 1 "find": so that it is counted and checked.  NGX_DECLINED:
     * it has no root; NGX_ABORT: nor a store, and learns nothing.
     */
    ngx_int_t                     (*add_location)(ngx_conf_t *cf,
                                        ngx_uint_t asks);

    /* for postconfiguration, of a module that calls "send" or "find" */
    ngx_int_t                     (*set_tell)(ngx_conf_t *cf,
                                        ngx_http_sendfile_tell_pt tell);
} ngx_http_sendfile_api_t;


#endif /* _NGX_HTTP_SENDFILE_API_H_INCLUDED_ */
