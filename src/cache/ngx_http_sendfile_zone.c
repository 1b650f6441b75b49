
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * The shards hold the entries (pure/nsf_shard.c); here are their memory, the
 * locks of writers, and the seed of the hash.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_sendfile_zone.h"
#include "ngx_http_sendfile_copies.h"
#include "nsf_siphash.h"


/*
 * How often a lock is tried, about a millisecond: nothing has to be written.
 * It is held for microseconds, or by a worker that has died and until the
 * master has noticed.
 */

#define NGX_HTTP_SENDFILE_ZONE_SPIN   64
#define NGX_HTTP_SENDFILE_ZONE_YIELD  1000


/*
 * Values that the worker keeps copies of: shorter ones are copied sooner than
 * looked for, and few long ones would fill the room.
 */

#define NGX_HTTP_SENDFILE_ZONE_COPY_MIN  512
#define NGX_HTTP_SENDFILE_ZONE_COPY_MAX  65536


/* a name of usual length, beside a value */

#define NGX_HTTP_SENDFILE_ZONE_NAME  512


/* at the start of each shard's memory; those of the first one are used */

struct ngx_http_sendfile_zone_head_s {
    uint64_t                         seed[2];
    u_char                           pad[64 - 2 * sizeof(uint64_t)];
};


struct ngx_http_sendfile_zone_shard_s {
    ngx_http_sendfile_zone_t        *zone;
    ngx_slab_pool_t                 *pool;
    nsf_shard_t                      shard;
};


/* where a copy goes: "copy" is NULL if it is the pool's alone */

typedef struct {
    ngx_pool_t                      *pool;
    ngx_http_sendfile_copy_t        *copy;
} ngx_http_sendfile_zone_alloc_t;


static size_t ngx_http_sendfile_zone_shard_size(
    ngx_http_sendfile_zone_t *zone);
static ngx_int_t ngx_http_sendfile_zone_init(ngx_shm_zone_t *shm_zone,
    void *data);
static ngx_int_t ngx_http_sendfile_zone_seed(ngx_shm_zone_t *shm_zone,
    ngx_http_sendfile_zone_head_t *head);
static void ngx_http_sendfile_zone_notice(ngx_shm_zone_t *shm_zone,
    ngx_http_sendfile_zone_t *zone);
static ngx_uint_t ngx_http_sendfile_zone_named(ngx_str_t *name,
    ngx_http_sendfile_zone_t *zone);
static ngx_http_sendfile_zone_shard_t *ngx_http_sendfile_zone_shard(
    ngx_http_sendfile_zone_t *zone, nsf_shard_key_t *name);
static ngx_int_t ngx_http_sendfile_zone_lock(
    ngx_http_sendfile_zone_shard_t *s);
static void *ngx_http_sendfile_zone_alloc(void *ctx, size_t size);


static ngx_str_t  ngx_http_sendfile_zone_prefix =
    ngx_string("http_sendfile ");


ngx_int_t
ngx_http_sendfile_zone_create(ngx_conf_t *cf, ngx_http_sendfile_zone_t *zone,
    void *tag)
{
    u_char          *p;
    size_t           len;
    ngx_str_t        name;
    ngx_uint_t       i;
    ngx_shm_zone_t  *shm_zone;

    zone->nshards = 1;

    while (zone->nshards < NGX_HTTP_SENDFILE_ZONE_SHARDS
           && zone->size / (zone->nshards * 2) >= NGX_HTTP_SENDFILE_ZONE_SHARD)
    {
        zone->nshards *= 2;
    }

    zone->shards = ngx_pcalloc(cf->pool, zone->nshards
                                     * sizeof(ngx_http_sendfile_zone_shard_t));
    if (zone->shards == NULL) {
        return NGX_ERROR;
    }

    /* the size is in the name: all shards are those of before, or none is */

    len = ngx_http_sendfile_zone_prefix.len + zone->name.len
          + sizeof("  ") - 1 + NGX_SIZE_T_LEN + NGX_INT_T_LEN;

    for (i = 0; i < zone->nshards; i++) {

        p = ngx_pnalloc(cf->pool, len);
        if (p == NULL) {
            return NGX_ERROR;
        }

        name.data = p;
        name.len = ngx_snprintf(p, len, "%V%V %uz %ui",
                                &ngx_http_sendfile_zone_prefix, &zone->name,
                                zone->size, i)
                   - p;

        shm_zone = ngx_shared_memory_add(cf, &name,
                                ngx_http_sendfile_zone_shard_size(zone), tag);
        if (shm_zone == NULL) {
            return NGX_ERROR;
        }

        zone->shards[i].zone = zone;

        shm_zone->init = ngx_http_sendfile_zone_init;
        shm_zone->data = &zone->shards[i];
    }

    return NGX_OK;
}


static size_t
ngx_http_sendfile_zone_shard_size(ngx_http_sendfile_zone_t *zone)
{
    return ngx_align(zone->size / zone->nshards, ngx_pagesize);
}


size_t
ngx_http_sendfile_zone_max_value(ngx_http_sendfile_zone_t *zone)
{
    size_t  size, max;

    /* less what the slab pool keeps for itself: a page in 128, and some */

    size = ngx_http_sendfile_zone_shard_size(zone);
    size -= size / 128 + 2 * ngx_pagesize;

    max = nsf_shard_max_entry(size);

    return (max > NGX_HTTP_SENDFILE_ZONE_NAME)
           ? max - NGX_HTTP_SENDFILE_ZONE_NAME : 0;
}


/*
 * In the master, or in "nginx -t".  "data" is the shard of the cycle before,
 * if its memory is taken over: only if the tag is the same, which is an
 * address in the very .so that made it.  A module of another file has other
 * memory, while workers of before go on in theirs.
 */

static ngx_int_t
ngx_http_sendfile_zone_init(ngx_shm_zone_t *shm_zone, void *data)
{
    u_char                          *p;
    size_t                           size;
    const char                      *err;
    ngx_http_sendfile_zone_t        *zone;
    ngx_http_sendfile_zone_head_t   *head;
    ngx_http_sendfile_zone_shard_t  *s;

    s = shm_zone->data;
    zone = s->zone;

    s->pool = (ngx_slab_pool_t *) shm_zone->shm.addr;

    /* all the pages of the pool, in one allocation */

    size = (s->pool->last - s->pool->pages) * ngx_pagesize;

    if (data == NULL && !shm_zone->shm.exists) {

        p = ngx_slab_alloc(s->pool, size);
        if (p == NULL) {
            return NGX_ERROR;
        }

        head = (ngx_http_sendfile_zone_head_t *) p;
        ngx_memzero(head, sizeof(ngx_http_sendfile_zone_head_t));

        err = nsf_shard_format(&s->shard, p + sizeof(*head),
                               size - sizeof(*head));
        s->pool->data = head;

        if (s == zone->shards) {

            if (ngx_http_sendfile_zone_seed(shm_zone, head) != NGX_OK) {
                return NGX_ERROR;
            }

            ngx_http_sendfile_zone_notice(shm_zone, zone);
        }

    } else {
        head = s->pool->data;
        p = (u_char *) head;

        err = nsf_shard_attach(&s->shard, p + sizeof(*head),
                               size - sizeof(*head));
    }

    if (err) {
        ngx_log_error(NGX_LOG_EMERG, shm_zone->shm.log, 0,
                      "http_sendfile: cache zone \"%V\" cannot be used: %s",
                      &zone->name, err);
        return NGX_ERROR;
    }

    if (s == zone->shards) {
        zone->head = head;
    }

    return NGX_OK;
}


/* nobody outside is to know which names share a bucket */

static ngx_int_t
ngx_http_sendfile_zone_seed(ngx_shm_zone_t *shm_zone,
    ngx_http_sendfile_zone_head_t *head)
{
    ssize_t   n;
    ngx_fd_t  fd;

    fd = ngx_open_file((u_char *) "/dev/urandom", NGX_FILE_RDONLY,
                       NGX_FILE_OPEN, 0);

    if (fd == NGX_INVALID_FILE) {
        ngx_log_error(NGX_LOG_EMERG, shm_zone->shm.log, ngx_errno,
                      ngx_open_file_n " \"/dev/urandom\" failed");
        return NGX_ERROR;
    }

    n = ngx_read_fd(fd, head, offsetof(ngx_http_sendfile_zone_head_t, pad));

    if (n != offsetof(ngx_http_sendfile_zone_head_t, pad)) {
        ngx_log_error(NGX_LOG_EMERG, shm_zone->shm.log,
                      (n == -1) ? ngx_errno : 0,
                      ngx_read_fd_n " \"/dev/urandom\" failed");
    }

    (void) ngx_close_file(fd);

    return (n == offsetof(ngx_http_sendfile_zone_head_t, pad)) ? NGX_OK
                                                               : NGX_ERROR;
}


/*
 * Says so if a zone of that name is given up: it is of another size, or of
 * another module, whose data is not looked at.
 */

static void
ngx_http_sendfile_zone_notice(ngx_shm_zone_t *shm_zone,
    ngx_http_sendfile_zone_t *zone)
{
    ngx_uint_t                       i;
    ngx_list_part_t                 *part;
    ngx_shm_zone_t                  *old;
    ngx_http_sendfile_zone_shard_t  *s;

    part = (ngx_list_part_t *) &ngx_cycle->shared_memory.part;

    for ( /* void */ ; part; part = part->next) {

        old = part->elts;

        for (i = 0; i < part->nelts; i++) {

            if (!ngx_http_sendfile_zone_named(&old[i].shm.name, zone)) {
                continue;
            }

            if (old[i].tag != shm_zone->tag) {
                ngx_log_error(NGX_LOG_NOTICE, shm_zone->shm.log, 0,
                              "http_sendfile: cache zone \"%V\" starts "
                              "empty: the module is another one",
                              &zone->name);
                return;
            }

            s = old[i].data;

            ngx_log_error(NGX_LOG_NOTICE, shm_zone->shm.log, 0,
                          "http_sendfile: cache zone \"%V\" starts "
                          "empty: its size was %uz and is %uz",
                          &zone->name, s->zone->size, zone->size);
            return;
        }
    }
}


/* is "name" that of a shard of such a zone, of whatever size? */

static ngx_uint_t
ngx_http_sendfile_zone_named(ngx_str_t *name, ngx_http_sendfile_zone_t *zone)
{
    u_char     *p, *last;
    size_t      len;
    ngx_uint_t  spaces;

    len = ngx_http_sendfile_zone_prefix.len;

    if (name->len <= len + zone->name.len
        || ngx_memcmp(name->data, ngx_http_sendfile_zone_prefix.data, len) != 0
        || ngx_memcmp(name->data + len, zone->name.data, zone->name.len) != 0)
    {
        return 0;
    }

    /* " SIZE SHARD", while the counters' name goes on with one number */

    p = name->data + len + zone->name.len;
    last = name->data + name->len;

    if (*p != ' ') {
        return 0;
    }

    for (spaces = 0; p < last; p++) {

        if (*p == ' ') {
            spaces++;

        } else if (*p < '0' || *p > '9') {
            return 0;
        }
    }

    return spaces == 2;
}


void
ngx_http_sendfile_zone_hash(ngx_http_sendfile_zone_t *zone,
    nsf_shard_key_t *name)
{
    uint64_t  seed[2];

    /* a scope is the configuration's, and many names have the same */

    seed[0] = zone->head->seed[0]
              ^ ngx_http_sendfile_mix(name->scope.data, name->scope.len, 0);
    seed[1] = zone->head->seed[1];

    name->hash = nsf_siphash(seed, name->key.data, name->key.len);
}


/* the low bits of a hash are the shard's own business */

static ngx_http_sendfile_zone_shard_t *
ngx_http_sendfile_zone_shard(ngx_http_sendfile_zone_t *zone,
    nsf_shard_key_t *name)
{
    return &zone->shards[(name->hash >> 48) & (zone->nshards - 1)];
}


nsf_shard_rc_e
ngx_http_sendfile_zone_get(ngx_http_sendfile_zone_t *zone,
    nsf_shard_key_t *name, nsf_shard_value_t *v, ngx_pool_t *pool)
{
    nsf_pool_t                       np;
    nsf_shard_rc_e                   rc;
    ngx_http_sendfile_copy_t        *copy;
    ngx_http_sendfile_zone_alloc_t   ctx;
    ngx_http_sendfile_zone_shard_t  *s;

    s = ngx_http_sendfile_zone_shard(zone, name);

    ctx.pool = pool;
    ctx.copy = NULL;

    np.alloc = ngx_http_sendfile_zone_alloc;
    np.ctx = &ctx;

    copy = ngx_http_sendfile_copies_find(s, name->hash);

    rc = nsf_shard_get_changed(&s->shard, name, ngx_current_msec, v, &np,
                               copy ? copy->stamp : 0);

    if (rc != NSF_SHARD_OK) {
        return rc;
    }

    if (copy && v->stamp == copy->stamp) {

        /* a length that is not the copy's is nonsense in the memory */

        if (v->len != copy->len
            || ngx_http_sendfile_copies_use(copy, pool) != NGX_OK)
        {
            return NSF_SHARD_MEMORY;
        }

        v->data = copy->data;

    } else if (ctx.copy && v->data == ctx.copy->data
               && v->len == ctx.copy->len)
    {
        ctx.copy->shard = s;
        ctx.copy->hash = name->hash;
        ctx.copy->stamp = v->stamp;

        ngx_http_sendfile_copies_keep(ctx.copy);
    }

    return NSF_SHARD_OK;
}


static void *
ngx_http_sendfile_zone_alloc(void *data, size_t size)
{
    ngx_http_sendfile_zone_alloc_t  *ctx = data;

    if (size <= NGX_HTTP_SENDFILE_ZONE_COPY_MIN
        || size > NGX_HTTP_SENDFILE_ZONE_COPY_MAX)
    {
        ctx->copy = NULL;
        return ngx_palloc(ctx->pool, size);
    }

    ctx->copy = ngx_http_sendfile_copies_create(ctx->pool, size);

    return ctx->copy ? ctx->copy->data : NULL;
}


/*
 * Not ngx_shmtx_lock(): a process that dies in ngx_shmtx_unlock(), after the
 * lock is free and before the next one is woken, leaves that one asleep for
 * good, and the master sees nothing to unlock.  Here nobody sleeps.
 */

static ngx_int_t
ngx_http_sendfile_zone_lock(ngx_http_sendfile_zone_shard_t *s)
{
    ngx_uint_t  i;

    for (i = 0;
         i < NGX_HTTP_SENDFILE_ZONE_SPIN + NGX_HTTP_SENDFILE_ZONE_YIELD;
         i++)
    {

        if (ngx_shmtx_trylock(&s->pool->mutex)) {
            return NGX_OK;
        }

        if (i < NGX_HTTP_SENDFILE_ZONE_SPIN) {
            ngx_cpu_pause();

        } else {
            ngx_sched_yield();
        }
    }

    return NGX_BUSY;
}


nsf_shard_rc_e
ngx_http_sendfile_zone_put(ngx_http_sendfile_zone_t *zone,
    nsf_shard_key_t *name, nsf_shard_value_t *v)
{
    nsf_shard_rc_e                   rc;
    nsf_shard_stat_t                 before, after;
    ngx_http_sendfile_zone_shard_t  *s;

    s = ngx_http_sendfile_zone_shard(zone, name);

    if (ngx_http_sendfile_zone_lock(s) != NGX_OK) {
        return NSF_SHARD_BUSY;
    }

    if (zone->counters == NULL) {
        rc = nsf_shard_put(&s->shard, name, ngx_current_msec, v);

        ngx_shmtx_unlock(&s->pool->mutex);

        return rc;
    }

    /* an entry makes room in the ring of its own kind only */

    nsf_shard_stat(&s->shard, &before);

    rc = nsf_shard_put(&s->shard, name, ngx_current_msec, v);

    nsf_shard_stat(&s->shard, &after);

    ngx_shmtx_unlock(&s->pool->mutex);

    if (after.evicted > before.evicted) {
        ngx_http_sendfile_stats_add(zone->counters,
                                    NGX_HTTP_SENDFILE_STATS_EVICTIONS
                                    + v->negative,
                                    after.evicted - before.evicted);
    }

    return rc;
}


ngx_uint_t
ngx_http_sendfile_zone_claim(ngx_http_sendfile_zone_t *zone,
    nsf_shard_key_t *name, nsf_shard_value_t *v, uint64_t until)
{
    ngx_uint_t                       claimed;
    ngx_http_sendfile_zone_shard_t  *s;

    s = ngx_http_sendfile_zone_shard(zone, name);

    if (ngx_http_sendfile_zone_lock(s) != NGX_OK) {
        return 0;
    }

    claimed = nsf_shard_claim(&s->shard, name, v, until);

    ngx_shmtx_unlock(&s->pool->mutex);

    return claimed;
}


void
ngx_http_sendfile_zone_delete(ngx_http_sendfile_zone_t *zone,
    nsf_shard_key_t *name)
{
    ngx_http_sendfile_zone_shard_t  *s;

    s = ngx_http_sendfile_zone_shard(zone, name);

    if (ngx_http_sendfile_zone_lock(s) != NGX_OK) {
        return;
    }

    (void) nsf_shard_del(&s->shard, name);

    ngx_shmtx_unlock(&s->pool->mutex);
}


void
ngx_http_sendfile_zone_looked(ngx_http_sendfile_zone_t *zone,
    ngx_http_sendfile_stats_entry_e entry, ngx_uint_t found)
{
    ngx_http_sendfile_stats_add(zone->counters, entry
                                + (found ? NGX_HTTP_SENDFILE_STATS_HITS
                                         : NGX_HTTP_SENDFILE_STATS_MISSES),
                                1);
}


void
ngx_http_sendfile_zone_kept(ngx_http_sendfile_zone_t *zone,
    ngx_http_sendfile_stats_entry_e entry, nsf_shard_rc_e rc)
{
    if (rc != NSF_SHARD_OK) {
        ngx_http_sendfile_stats_add(zone->counters,
                                    NGX_HTTP_SENDFILE_STATS_REFUSALS + entry,
                                    1);
    }
}


void
ngx_http_sendfile_zone_stat(ngx_http_sendfile_zone_t *zone,
    nsf_shard_stat_t *stat)
{
    ngx_uint_t        i;
    nsf_shard_stat_t  one;

    ngx_memzero(stat, sizeof(nsf_shard_stat_t));

    for (i = 0; i < zone->nshards; i++) {
        nsf_shard_stat(&zone->shards[i].shard, &one);

        stat->entries += one.entries;
        stat->negative += one.negative;
        stat->bytes += one.bytes;
        stat->evicted += one.evicted;
        stat->moved += one.moved;
        stat->recovered += one.recovered;
    }
}
