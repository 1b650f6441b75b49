
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Private to the module: its configuration, and the enums in it.
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
#include "ngx_http_sendfile_zone.h"
#include "ngx_http_sendfile_stats.h"


#define NGX_HTTP_SENDFILE_VERSION          "0.1.0"

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

    /* of enabled_t: those in which another module sends files */
    ngx_array_t                     sending;

    /* of the module for Ruby; NULL: none */
    ngx_http_sendfile_script_pt     script;

    /* of a module that sends files, for explain; NULL: none */
    ngx_http_sendfile_tell_pt       tell;

    /* there is a status location, and so counters; NULL: none */
    ngx_uint_t                      status;

    /* and one that shows IDs */
    ngx_uint_t                      status_ids;
    ngx_http_sendfile_stats_t      *stats;
    uint64_t                       *counters;

    /* of this process, for the sample of IDs; NULL: none is taken */
    struct ngx_http_sendfile_recent_s
                                   *recent;
} ngx_http_sendfile_main_conf_t;


/*
 * What the checks of a level need to know: what is written on it, and where
 * the directives are that it has or inherits.
 */

typedef struct {
    ngx_uint_t                      has_prefix;
    ngx_uint_t                      has_root;

    /* nginx -t has warned of it, as the target of a prefix */
    ngx_uint_t                      warned;

    ngx_http_sendfile_place_t       enable;
    ngx_http_sendfile_place_t       prefix;
    ngx_http_sendfile_place_t       fallback;
    ngx_http_sendfile_place_t       fallback_on;
    ngx_http_sendfile_place_t       cache_body;
    ngx_http_sendfile_place_t       accept;
    ngx_http_sendfile_place_t       learn;
} ngx_http_sendfile_places_t;


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

    /* another module asks for files by their keys here */
    ngx_uint_t                      asks;      /* unsigned  asks:1; */

    /* an "if" block whose key is not said in it */
    ngx_uint_t                      learn_blocked;

    /* the directive of this block; a digest of all those around it */
    ngx_str_t                       block;
    u_char                          where[16];

    /* the response says what the cache has done: RFC 9211 */
    ngx_flag_t                      cache_status;

    /* http_sendfile_status of this very location */
    ngx_uint_t                      status;
    ngx_uint_t                      status_write;
    ngx_uint_t                      status_no_ids;

    /* of its requests, set when a worker starts; NULL: none */
    uint64_t                       *counters;

    /* used while the configuration is read, by no request */
    ngx_http_sendfile_places_t     *places;
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


extern ngx_module_t  ngx_http_sendfile_module;
extern ngx_module_t  ngx_http_sendfile_filter_module;


#endif /* _NGX_HTTP_SENDFILE_H_INCLUDED_ */
