
/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_sendfile_ident.h"


#if (NGX_DARWIN)
#define ngx_http_sendfile_mtim(fi)  (fi)->st_mtimespec
#define ngx_http_sendfile_ctim(fi)  (fi)->st_ctimespec
#else
#define ngx_http_sendfile_mtim(fi)  (fi)->st_mtim
#define ngx_http_sendfile_ctim(fi)  (fi)->st_ctim
#endif


void
ngx_http_sendfile_ident_set(ngx_http_sendfile_ident_t *ident,
    ngx_file_info_t *fi)
{
    ident->dev = fi->st_dev;
    ident->ino = ngx_file_uniq(fi);
    ident->size = ngx_file_size(fi);
    ident->mtime = ngx_file_mtime(fi);
    ident->ctime = fi->st_ctime;
    ident->mtime_nsec = ngx_http_sendfile_mtim(fi).tv_nsec;
    ident->ctime_nsec = ngx_http_sendfile_ctim(fi).tv_nsec;
}


ngx_uint_t
ngx_http_sendfile_ident_same(ngx_http_sendfile_ident_t *a,
    ngx_http_sendfile_ident_t *b)
{
    return a->dev == b->dev
           && a->ino == b->ino
           && a->size == b->size
           && a->mtime == b->mtime
           && a->ctime == b->ctime
           && a->mtime_nsec == b->mtime_nsec
           && a->ctime_nsec == b->ctime_nsec;
}
