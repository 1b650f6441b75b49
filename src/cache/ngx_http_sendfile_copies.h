
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * What a worker has copied out of the zones, for its next requests: as long
 * as an entry has the stamp that it had, its bytes are the same, and are not
 * copied again for each response.
 */


#ifndef _NGX_HTTP_SENDFILE_COPIES_H_INCLUDED_
#define _NGX_HTTP_SENDFILE_COPIES_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


typedef struct ngx_http_sendfile_copy_s  ngx_http_sendfile_copy_t;


/* an entry of a shard, by its keyed hash, and its data, not to be written */

struct ngx_http_sendfile_copy_s {
    void                            *shard;
    uint64_t                         hash;
    uint64_t                         stamp;
    size_t                           len;
    u_char                          *data;
    ngx_uint_t                       users;
    ngx_uint_t                       kept;  /* unsigned  kept:1; */
};


/* the copy of an entry that there is, perhaps of an old one; NULL if none */

ngx_http_sendfile_copy_t *ngx_http_sendfile_copies_find(void *shard,
    uint64_t hash);

/*
 * A new one, its data still to be written.  The pool uses it as long as it
 * lasts; NULL if there is no memory.
 */

ngx_http_sendfile_copy_t *ngx_http_sendfile_copies_create(ngx_pool_t *pool,
    size_t len);

/* one more pool that uses a copy as long as it lasts */

ngx_int_t ngx_http_sendfile_copies_use(ngx_http_sendfile_copy_t *copy,
    ngx_pool_t *pool);

/* keeps a new one, its shard, hash and stamp set, in place of an older one */

void ngx_http_sendfile_copies_keep(ngx_http_sendfile_copy_t *copy);


#endif /* _NGX_HTTP_SENDFILE_COPIES_H_INCLUDED_ */
