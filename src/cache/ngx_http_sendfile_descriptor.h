
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * A worker keeps the descriptors of files that it has sent, for requests
 * to come.
 */


#ifndef _NGX_HTTP_SENDFILE_DESCRIPTOR_H_INCLUDED_
#define _NGX_HTTP_SENDFILE_DESCRIPTOR_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_sendfile_zone.h"


typedef struct ngx_http_sendfile_kept_s  ngx_http_sendfile_kept_t;


/*
 * "name" is that of a body: the scope a byte that says how the file is opened,
 * and the root; the key the path below it.
 */

typedef struct {
    ngx_http_sendfile_zone_t       *zone;
    nsf_shard_key_t                 name;
    ngx_http_sendfile_moment_t      moment;
    ngx_http_sendfile_kept_t       *kept;
} ngx_http_sendfile_descriptor_t;


/*
 * Takes d->zone, d->name and d->moment, fills in the rest.  NGX_OK: file->fd
 * and file->info are good to be used until release(d->kept), for the path was
 * looked at no more than "check" milliseconds ago, and not before what is due,
 * and the file is as it was then.  NGX_AGAIN: the path has to be opened, then
 * comes keep() or forget().  NGX_DECLINED: there is none; keep() may follow.
 */

ngx_int_t ngx_http_sendfile_descriptor_get(ngx_http_sendfile_descriptor_t *d,
    ngx_msec_t check, ngx_file_t *file);


/*
 * After get(), "file" being what the path has led to since.  NGX_OK: it is
 * kept.  NGX_DONE: the same file is kept already, file->fd is now that one
 * and the other is closed.  After both it is release(d->kept) that ends its
 * use, nothing else may close it.  NGX_DECLINED: it stays the caller's.
 */

ngx_int_t ngx_http_sendfile_descriptor_keep(ngx_http_sendfile_descriptor_t *d,
    ngx_file_t *file);


/* a ngx_pool_cleanup_pt */

void ngx_http_sendfile_descriptor_release(void *data);


/* the path leads nowhere */

void ngx_http_sendfile_descriptor_forget(ngx_http_sendfile_descriptor_t *d);


/* closes what nobody uses; how many that were */

ngx_uint_t ngx_http_sendfile_descriptor_shrink(void);


#endif /* _NGX_HTTP_SENDFILE_DESCRIPTOR_H_INCLUDED_ */
