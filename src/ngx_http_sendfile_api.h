
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


#define NGX_HTTP_SENDFILE_API  4

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
     * In postconfiguration, for each location in which "send" may be called:
     * so that it is counted.  NGX_DECLINED: it has no root.
     */
    ngx_int_t                     (*add_location)(ngx_conf_t *cf,
                                        void **srv_conf, void **loc_conf);
} ngx_http_sendfile_api_t;


#endif /* _NGX_HTTP_SENDFILE_API_H_INCLUDED_ */
