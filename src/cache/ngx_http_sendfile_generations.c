
/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_sendfile_generations.h"


/* for each kind of names, a power of two */

#define NGX_HTTP_SENDFILE_GENERATIONS_BITS   14
#define NGX_HTTP_SENDFILE_GENERATIONS_SLOTS                                   \
    (2 << NGX_HTTP_SENDFILE_GENERATIONS_BITS)


typedef struct {
    ngx_atomic_t                    counter;
    ngx_atomic_t                    all;
    ngx_atomic_t                    slots[NGX_HTTP_SENDFILE_GENERATIONS_SLOTS];
} ngx_http_sendfile_generations_sh_t;


/* with room for what the slab pool needs for itself */

#define NGX_HTTP_SENDFILE_GENERATIONS_SIZE                                    \
    (sizeof(ngx_http_sendfile_generations_sh_t) + 16 * ngx_pagesize)


struct ngx_http_sendfile_generations_s {
    ngx_http_sendfile_generations_sh_t  *sh;
};


static ngx_int_t ngx_http_sendfile_generations_init(ngx_shm_zone_t *shm_zone,
    void *data);
static void ngx_http_sendfile_generations_set(
    ngx_http_sendfile_generations_t *g, ngx_atomic_t *slot);


ngx_http_sendfile_generations_t *
ngx_http_sendfile_generations_create(ngx_conf_t *cf, void *tag)
{
    ngx_str_t                         name;
    ngx_shm_zone_t                   *shm_zone;
    ngx_http_sendfile_generations_t  *g;

    g = ngx_pcalloc(cf->pool, sizeof(ngx_http_sendfile_generations_t));
    if (g == NULL) {
        return NULL;
    }

    /* no name of a zone has a space */

    ngx_str_set(&name, "http_sendfile generations");

    shm_zone = ngx_shared_memory_add(cf, &name,
                                     NGX_HTTP_SENDFILE_GENERATIONS_SIZE, tag);
    if (shm_zone == NULL) {
        return NULL;
    }

    shm_zone->init = ngx_http_sendfile_generations_init;
    shm_zone->data = g;

    return g;
}


/* in the master; the clock of the cycle before goes on */

static ngx_int_t
ngx_http_sendfile_generations_init(ngx_shm_zone_t *shm_zone, void *data)
{
    ngx_slab_pool_t                  *pool;
    ngx_http_sendfile_generations_t  *g;

    g = shm_zone->data;
    pool = (ngx_slab_pool_t *) shm_zone->shm.addr;

    if (data || shm_zone->shm.exists) {
        g->sh = pool->data;
        return NGX_OK;
    }

    g->sh = ngx_slab_calloc(pool, sizeof(ngx_http_sendfile_generations_sh_t));
    if (g->sh == NULL) {
        return NGX_ERROR;
    }

    /* 0 is a generation that nothing has */

    g->sh->counter = 1;

    pool->data = g->sh;

    return NGX_OK;
}


uint32_t
ngx_http_sendfile_generations_slot(ngx_http_sendfile_name_e kind,
    ngx_str_t *name)
{
    uint32_t  hash;

    hash = (uint32_t) ngx_http_sendfile_mix(name->data, name->len,
                                      (kind == NGX_HTTP_SENDFILE_NAME_URL)
                                      ? NGX_HTTP_SENDFILE_MIX_LOWER : 0);
    hash = (hash * 0x9e3779b1U) >> (32 - NGX_HTTP_SENDFILE_GENERATIONS_BITS);

    return ((uint32_t) kind << NGX_HTTP_SENDFILE_GENERATIONS_BITS) + hash;
}


void
ngx_http_sendfile_subject_add(ngx_http_sendfile_subject_t *subject,
    uint32_t slot)
{
    ngx_uint_t  i;

    for (i = 0; i < subject->n; i++) {
        if (subject->slots[i] == slot) {
            return;
        }
    }

    if (i < NGX_HTTP_SENDFILE_SUBJECT_NAMES) {
        subject->slots[i] = slot;
        subject->n = i + 1;
    }
}


ngx_atomic_uint_t
ngx_http_sendfile_generations_now(ngx_http_sendfile_generations_t *g)
{
    ngx_atomic_uint_t  now;

    now = g->sh->counter;

    /* nothing that follows is read before it */

    ngx_memory_barrier();

    return now;
}


ngx_atomic_uint_t
ngx_http_sendfile_generations_due(ngx_http_sendfile_generations_t *g,
    ngx_http_sendfile_subject_t *subject)
{
    ngx_uint_t         i;
    ngx_atomic_uint_t  due, slot;

    due = g->sh->all;

    for (i = 0; i < subject->n; i++) {
        slot = g->sh->slots[subject->slots[i]];

        if (due < slot) {
            due = slot;
        }
    }

    return due;
}


void
ngx_http_sendfile_generations_purge(ngx_http_sendfile_generations_t *g,
    ngx_http_sendfile_name_e kind, ngx_str_t *name)
{
    uint32_t  slot;

    slot = ngx_http_sendfile_generations_slot(kind, name);

    ngx_http_sendfile_generations_set(g, &g->sh->slots[slot]);
}


void
ngx_http_sendfile_generations_purge_all(ngx_http_sendfile_generations_t *g)
{
    ngx_http_sendfile_generations_set(g, &g->sh->all);
}


/*
 * What is read from here on has a generation that is not less than the
 * slot's.  Of two that purge at once the later one's value stays.
 */

static void
ngx_http_sendfile_generations_set(ngx_http_sendfile_generations_t *g,
    ngx_atomic_t *slot)
{
    ngx_atomic_uint_t  next, old;

    next = ngx_atomic_fetch_add(&g->sh->counter, 1) + 1;

    do {
        old = *slot;

        if (old >= next) {
            return;
        }

    } while (!ngx_atomic_cmp_set(slot, old, next));
}
