
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

#include "ngx_http_sendfile_generations.h"
#include "ngx_http_sendfile_stats.h"
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

    /* by which entries are old; that of all zones */
    ngx_http_sendfile_generations_t *generations;

    /* what is counted, set when a worker starts; NULL: nothing is */
    uint64_t                        *counters;

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


/* fills in the hash of a name, of its scope and its key */

void ngx_http_sendfile_zone_hash(ngx_http_sendfile_zone_t *zone,
    nsf_shard_key_t *name);


/*
 * As the functions of nsf_shard.h, on the shard that the name belongs to.
 * get() takes no lock; the value's data is from the pool.  put(), claim() and
 * delete() do nothing if the shard's lock can't be had in about a millisecond.
 */

nsf_shard_rc_e ngx_http_sendfile_zone_get(ngx_http_sendfile_zone_t *zone,
    nsf_shard_key_t *name, nsf_shard_value_t *v, ngx_pool_t *pool);
nsf_shard_rc_e ngx_http_sendfile_zone_put(ngx_http_sendfile_zone_t *zone,
    nsf_shard_key_t *name, nsf_shard_value_t *v);
ngx_uint_t ngx_http_sendfile_zone_claim(ngx_http_sendfile_zone_t *zone,
    nsf_shard_key_t *name, nsf_shard_value_t *v, uint64_t until);
void ngx_http_sendfile_zone_delete(ngx_http_sendfile_zone_t *zone,
    nsf_shard_key_t *name);


/*
 * Counting, for those who know what for they have looked: whether what was
 * found could be used, and what has become of an entry that was to be kept.
 */

void ngx_http_sendfile_zone_looked(ngx_http_sendfile_zone_t *zone,
    ngx_http_sendfile_stats_entry_e entry, ngx_uint_t found);
void ngx_http_sendfile_zone_kept(ngx_http_sendfile_zone_t *zone,
    ngx_http_sendfile_stats_entry_e entry, nsf_shard_rc_e rc);

/* the sums of all shards, of no one moment */

void ngx_http_sendfile_zone_stat(ngx_http_sendfile_zone_t *zone,
    nsf_shard_stat_t *stat);


#endif /* _NGX_HTTP_SENDFILE_ZONE_H_INCLUDED_ */
