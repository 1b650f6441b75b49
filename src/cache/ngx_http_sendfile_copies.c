
/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_sendfile_copies.h"


/* Bytes that a worker keeps, places for them, and places for one hash. */

#define NGX_HTTP_SENDFILE_COPIES_SIZE    (16 * 1024 * 1024)
#define NGX_HTTP_SENDFILE_COPIES_PLACES  8192
#define NGX_HTTP_SENDFILE_COPIES_WAYS    2


static ngx_http_sendfile_copy_t **ngx_http_sendfile_copies_places(
    uint64_t hash);
static void ngx_http_sendfile_copies_drop(ngx_http_sendfile_copy_t **place);
static void ngx_http_sendfile_copies_release(void *data);


static ngx_http_sendfile_copy_t
    *ngx_http_sendfile_copies[NGX_HTTP_SENDFILE_COPIES_PLACES];

static size_t      ngx_http_sendfile_copies_size;

/* where room is made next */
static ngx_uint_t  ngx_http_sendfile_copies_hand;


static ngx_http_sendfile_copy_t **
ngx_http_sendfile_copies_places(uint64_t hash)
{
    ngx_uint_t  n;

    n = hash & (NGX_HTTP_SENDFILE_COPIES_PLACES - 1);

    return &ngx_http_sendfile_copies[n & ~(NGX_HTTP_SENDFILE_COPIES_WAYS - 1)];
}


ngx_http_sendfile_copy_t *
ngx_http_sendfile_copies_find(void *shard, uint64_t hash)
{
    ngx_uint_t                  i;
    ngx_http_sendfile_copy_t  **places;

    places = ngx_http_sendfile_copies_places(hash);

    for (i = 0; i < NGX_HTTP_SENDFILE_COPIES_WAYS; i++) {

        if (places[i]
            && places[i]->hash == hash
            && places[i]->shard == shard)
        {
            return places[i];
        }
    }

    return NULL;
}


ngx_http_sendfile_copy_t *
ngx_http_sendfile_copies_create(ngx_pool_t *pool, size_t len)
{
    ngx_pool_cleanup_t        *cln;
    ngx_http_sendfile_copy_t  *copy;

    cln = ngx_pool_cleanup_add(pool, 0);
    if (cln == NULL) {
        return NULL;
    }

    copy = ngx_alloc(sizeof(ngx_http_sendfile_copy_t) + len, pool->log);
    if (copy == NULL) {
        return NULL;
    }

    copy->data = (u_char *) (copy + 1);
    copy->len = len;
    copy->users = 1;
    copy->kept = 0;

    cln->handler = ngx_http_sendfile_copies_release;
    cln->data = copy;

    return copy;
}


ngx_int_t
ngx_http_sendfile_copies_use(ngx_http_sendfile_copy_t *copy, ngx_pool_t *pool)
{
    ngx_pool_cleanup_t  *cln;

    cln = ngx_pool_cleanup_add(pool, 0);
    if (cln == NULL) {
        return NGX_ERROR;
    }

    cln->handler = ngx_http_sendfile_copies_release;
    cln->data = copy;

    copy->users++;

    return NGX_OK;
}


/*
 * In place of one of the same hash, or in a free place, or in one of those
 * that the hash has, by chance.
 */

void
ngx_http_sendfile_copies_keep(ngx_http_sendfile_copy_t *copy)
{
    ngx_uint_t                  i;
    ngx_http_sendfile_copy_t  **places, **place;

    places = ngx_http_sendfile_copies_places(copy->hash);
    place = NULL;

    for (i = 0; i < NGX_HTTP_SENDFILE_COPIES_WAYS; i++) {

        if (places[i]
            && places[i]->hash == copy->hash
            && places[i]->shard == copy->shard)
        {
            place = &places[i];
            break;
        }

        if (places[i] == NULL) {
            place = &places[i];
        }
    }

    if (place == NULL) {
        place = &places[ngx_random() % NGX_HTTP_SENDFILE_COPIES_WAYS];
    }

    ngx_http_sendfile_copies_drop(place);

    while (ngx_http_sendfile_copies_size + copy->len
           > NGX_HTTP_SENDFILE_COPIES_SIZE)
    {
        i = ngx_http_sendfile_copies_hand++ % NGX_HTTP_SENDFILE_COPIES_PLACES;

        ngx_http_sendfile_copies_drop(&ngx_http_sendfile_copies[i]);
    }

    *place = copy;

    copy->kept = 1;
    ngx_http_sendfile_copies_size += copy->len;
}


/* who uses it goes on */

static void
ngx_http_sendfile_copies_drop(ngx_http_sendfile_copy_t **place)
{
    ngx_http_sendfile_copy_t  *copy;

    copy = *place;

    if (copy == NULL) {
        return;
    }

    *place = NULL;

    copy->kept = 0;
    ngx_http_sendfile_copies_size -= copy->len;

    if (copy->users == 0) {
        ngx_free(copy);
    }
}


static void
ngx_http_sendfile_copies_release(void *data)
{
    ngx_http_sendfile_copy_t  *copy = data;

    copy->users--;

    if (copy->users == 0 && !copy->kept) {
        ngx_free(copy);
    }
}
