
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Handlers of our own for the headers of an upstream's response.
 */


#ifndef _NGX_HTTP_SENDFILE_UPSTREAM_HOOK_H_INCLUDED_
#define _NGX_HTTP_SENDFILE_UPSTREAM_HOOK_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


/* what is done with a header without the hook */

typedef struct ngx_http_sendfile_upstream_next_s
    ngx_http_sendfile_upstream_next_t;

/*
 * For each header line of that name which proxy, grpc, fastcgi, uwsgi or scgi
 * reads, from the upstream or from the cache (r->cached, and r->upstream->
 * upstream may be NULL).  The line is the last of u->headers_in.headers.
 * NGX_OK, NGX_ERROR or NGX_HTTP_UPSTREAM_INVALID_HEADER.
 */

typedef ngx_int_t (*ngx_http_sendfile_upstream_hook_pt)(ngx_http_request_t *r,
    ngx_table_elt_t *h, ngx_http_sendfile_upstream_next_t *next);


typedef struct {
    ngx_str_t                            name;
    ngx_http_sendfile_upstream_hook_pt   handler;

    /*
     * puts the header into the answer to the client; NULL: as without the
     * hook.  Its last argument is what nginx has for a header that it knows,
     * else 0.  It is called, too, when nginx follows X-Accel-Redirect, just
     * before it goes there.
     */
    ngx_http_header_handler_pt           copy;
} ngx_http_sendfile_upstream_hook_t;


/*
 * In postconfiguration, where the order of modules does not matter: adds the
 * hooks of a table that ends with an empty name.  A name may be hooked by
 * several; who comes last is called first, and sees the others as "next".
 * The hooks are part of that configuration, and end with it.
 */

ngx_int_t ngx_http_sendfile_upstream_hook(ngx_conf_t *cf,
    ngx_http_sendfile_upstream_hook_t *hooks);

/* calls it; who does not, replaces it */

ngx_int_t ngx_http_sendfile_upstream_next(ngx_http_request_t *r,
    ngx_table_elt_t *h, ngx_http_sendfile_upstream_next_t *next);

/*
 * What nginx does with a header that it does not know: puts it into the
 * answer to the client.  "offset" is not used.
 */

ngx_int_t ngx_http_sendfile_upstream_copy(ngx_http_request_t *r,
    ngx_table_elt_t *h, ngx_uint_t offset);


#endif /* _NGX_HTTP_SENDFILE_UPSTREAM_HOOK_H_INCLUDED_ */
