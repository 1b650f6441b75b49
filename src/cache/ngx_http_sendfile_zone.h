
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * A cache zone: shards in shared memory, each a shm zone of its own, for
 * what the master unlocks when a worker dies is the mutex at the start of
 * a shm zone.
 */


#ifndef _NGX_HTTP_SENDFILE_ZONE_H_INCLUDED_
#define _NGX_HTTP_SENDFILE_ZONE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>

#include "nsf_shard.h"


#define NGX_HTTP_SENDFILE_ZONE_MIN     (256 * 1024)
#define NGX_HTTP_SENDFILE_ZONE_SHARD   (4 * 1024 * 1024)
#define NGX_HTTP_SENDFILE_ZONE_SHARDS  32


typedef struct ngx_http_sendfile_zone_s        ngx_http_sendfile_zone_t;
typedef struct ngx_http_sendfile_zone_head_s   ngx_http_sendfile_zone_head_t;
typedef struct ngx_http_sendfile_zone_shard_s  ngx_http_sendfile_zone_shard_t;


struct ngx_http_sendfile_zone_s {
    ngx_str_t                        name;

    /* 0: a name whose directive has not been read */
    size_t                           size;

    ngx_uint_t                       nshards;
    ngx_http_sendfile_zone_shard_t  *shards;

    /* in the shared memory of the first shard */
    ngx_http_sendfile_zone_head_t   *head;

    /* where the name is first used, for the checks */
    u_char                          *file;
    ngx_uint_t                       line;
};


/*
 * Configuration time: makes the shards of a zone whose name and size are
 * set.
 */

ngx_int_t ngx_http_sendfile_zone_create(ngx_conf_t *cf,
    ngx_http_sendfile_zone_t *zone, void *tag);


/* the longest value that the zone takes, beside a name of usual length */

size_t ngx_http_sendfile_zone_max_value(ngx_http_sendfile_zone_t *zone);


/* fills in the hash of a name */

void ngx_http_sendfile_zone_hash(ngx_http_sendfile_zone_t *zone,
    nsf_shard_key_t *name);


/*
 * As the functions of nsf_shard.h, on the shard that the name belongs to.
 * get() takes no lock; the value's data is from the pool.  put(), mark() and
 * delete() do nothing if the shard's lock can't be had in about a millisecond.
 * mark() takes "valid" and the mark before from "v".
 */

nsf_shard_rc_e ngx_http_sendfile_zone_get(ngx_http_sendfile_zone_t *zone,
    nsf_shard_key_t *name, nsf_shard_value_t *v, ngx_pool_t *pool);
uint32_t ngx_http_sendfile_zone_token(ngx_http_sendfile_zone_t *zone,
    nsf_shard_key_t *name);

nsf_shard_rc_e ngx_http_sendfile_zone_put(ngx_http_sendfile_zone_t *zone,
    nsf_shard_key_t *name, nsf_shard_value_t *v, uint32_t token);
ngx_uint_t ngx_http_sendfile_zone_mark(ngx_http_sendfile_zone_t *zone,
    nsf_shard_key_t *name, nsf_shard_value_t *v, uint64_t mark);
void ngx_http_sendfile_zone_delete(ngx_http_sendfile_zone_t *zone,
    nsf_shard_key_t *name);


/* changes with each purge, before anything else does; seldom 0 */

ngx_atomic_uint_t ngx_http_sendfile_zone_purges(
    ngx_http_sendfile_zone_t *zone);


/*
 * Forget a key in every scope, or everything; "*n" grows by how many entries
 * that were.  NGX_BUSY: some part could not be locked within a second or so,
 * what is in it is still there.
 */

ngx_int_t ngx_http_sendfile_zone_purge(ngx_http_sendfile_zone_t *zone,
    ngx_str_t *key, size_t *n);
ngx_int_t ngx_http_sendfile_zone_clear(ngx_http_sendfile_zone_t *zone,
    size_t *n);


#endif /* _NGX_HTTP_SENDFILE_ZONE_H_INCLUDED_ */
