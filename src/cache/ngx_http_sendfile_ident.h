
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Which file it is, and in which state.
 */


#ifndef _NGX_HTTP_SENDFILE_IDENT_H_INCLUDED_
#define _NGX_HTTP_SENDFILE_IDENT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* a file is the one that was looked at if all of these are the same */

typedef struct {
    uint64_t                        dev;
    uint64_t                        ino;
    uint64_t                        size;
    int64_t                         mtime;
    int64_t                         ctime;
    uint32_t                        mtime_nsec;
    uint32_t                        ctime_nsec;
} ngx_http_sendfile_ident_t;


void ngx_http_sendfile_ident_set(ngx_http_sendfile_ident_t *ident,
    ngx_file_info_t *fi);
ngx_uint_t ngx_http_sendfile_ident_same(ngx_http_sendfile_ident_t *a,
    ngx_http_sendfile_ident_t *b);


#endif /* _NGX_HTTP_SENDFILE_IDENT_H_INCLUDED_ */
