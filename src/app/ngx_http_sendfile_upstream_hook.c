
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Handlers of our own for the headers of an upstream's response: the one
 * owner of the hash in which nginx looks up what to do with a header.  Its
 * entries are a static table of nginx, which outlives a configuration and
 * this module, and is never written to: a hash of our own takes its place.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_upstream_hook.h"
#include "ngx_http_sendfile_compat.h"
#include "ngx_http_sendfile_headers.h"


#define NGX_HTTP_SENDFILE_HEADERS_MAX_SIZE     1024
#define NGX_HTTP_SENDFILE_HEADERS_BUCKET_SIZE  128


struct ngx_http_sendfile_upstream_next_s {
    ngx_http_sendfile_upstream_hook_pt   hook;

    /* NULL: nginx does not know the header */
    ngx_http_header_handler_pt           handler;
    ngx_uint_t                           offset;
};


static ngx_int_t ngx_http_sendfile_upstream_collect(ngx_hash_t *hash,
    ngx_array_t *keys);
static ngx_int_t ngx_http_sendfile_upstream_add(ngx_conf_t *cf,
    ngx_array_t *keys, ngx_http_sendfile_upstream_hook_t *hook);
static ngx_hash_key_t *ngx_http_sendfile_upstream_key(ngx_array_t *keys,
    ngx_str_t *name);
static ngx_int_t ngx_http_sendfile_upstream_handler(ngx_http_request_t *r,
    ngx_table_elt_t *h, ngx_uint_t offset);


ngx_int_t
ngx_http_sendfile_upstream_hook(ngx_conf_t *cf,
    ngx_http_sendfile_upstream_hook_t *hooks)
{
    ngx_array_t                     keys;
    ngx_hash_init_t                 hash;
    ngx_http_upstream_main_conf_t  *umcf;

    umcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_upstream_module);

    if (ngx_array_init(&keys, cf->temp_pool, 64, sizeof(ngx_hash_key_t))
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (ngx_http_sendfile_upstream_collect(&umcf->headers_in_hash, &keys)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    for ( /* void */ ; hooks->name.len; hooks++) {
        if (ngx_http_sendfile_upstream_add(cf, &keys, hooks) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    hash.hash = &umcf->headers_in_hash;
    hash.key = ngx_hash_key_lc;
    hash.max_size = NGX_HTTP_SENDFILE_HEADERS_MAX_SIZE;
    hash.bucket_size = ngx_align(NGX_HTTP_SENDFILE_HEADERS_BUCKET_SIZE,
                                 ngx_cacheline_size);
    hash.name = "upstream_headers_in_hash";
    hash.pool = cf->pool;
    hash.temp_pool = NULL;

    return ngx_hash_init(&hash, keys.elts, keys.nelts);
}


/* the entries as they are: nginx's own, another module's, earlier hooks */

static ngx_int_t
ngx_http_sendfile_upstream_collect(ngx_hash_t *hash, ngx_array_t *keys)
{
    ngx_uint_t       i;
    ngx_hash_key_t  *key;
    ngx_hash_elt_t  *elt;

    for (i = 0; i < hash->size; i++) {

        elt = hash->buckets[i];

        if (elt == NULL) {
            continue;
        }

        while (elt->value) {

            key = ngx_array_push(keys);
            if (key == NULL) {
                return NGX_ERROR;
            }

            key->key.len = elt->len;
            key->key.data = elt->name;
            key->key_hash = ngx_hash_key_lc(elt->name, elt->len);
            key->value = elt->value;

            elt = (ngx_hash_elt_t *) ngx_align_ptr(&elt->name[0] + elt->len,
                                                   sizeof(void *));
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_sendfile_upstream_add(ngx_conf_t *cf, ngx_array_t *keys,
    ngx_http_sendfile_upstream_hook_t *hook)
{
    ngx_hash_key_t                     *key;
    ngx_http_upstream_header_t         *header;
    ngx_http_sendfile_upstream_next_t  *next;

    header = ngx_pcalloc(cf->pool, sizeof(ngx_http_upstream_header_t));
    if (header == NULL) {
        return NGX_ERROR;
    }

    next = ngx_palloc(cf->pool, sizeof(ngx_http_sendfile_upstream_next_t));
    if (next == NULL) {
        return NGX_ERROR;
    }

    key = ngx_http_sendfile_upstream_key(keys, &hook->name);

    if (key) {
        *header = *(ngx_http_upstream_header_t *) key->value;

    } else {

        key = ngx_array_push(keys);
        if (key == NULL) {
            return NGX_ERROR;
        }

        key->key = hook->name;
        key->key_hash = ngx_hash_key_lc(hook->name.data, hook->name.len);

        header->name = hook->name;
        header->copy_handler = ngx_http_sendfile_upstream_copy;
    }

    next->hook = hook->handler;
    next->handler = header->handler;
    next->offset = header->offset;

    /* nginx hands the offset to the handler, and does nothing else with it */

    header->handler = ngx_http_sendfile_upstream_handler;
    header->offset = (ngx_uint_t) next;

    if (hook->copy) {
        header->copy_handler = hook->copy;
        header->redirect = 1;
    }

    key->value = header;

    return NGX_OK;
}


static ngx_hash_key_t *
ngx_http_sendfile_upstream_key(ngx_array_t *keys, ngx_str_t *name)
{
    ngx_uint_t       i;
    ngx_hash_key_t  *key;

    key = keys->elts;

    for (i = 0; i < keys->nelts; i++) {
        if (ngx_http_sendfile_name_same(&key[i].key, name)) {
            return &key[i];
        }
    }

    return NULL;
}


static ngx_int_t
ngx_http_sendfile_upstream_handler(ngx_http_request_t *r, ngx_table_elt_t *h,
    ngx_uint_t offset)
{
    ngx_http_sendfile_upstream_next_t  *next;

    next = (ngx_http_sendfile_upstream_next_t *) offset;

    return next->hook(r, h, next);
}


ngx_int_t
ngx_http_sendfile_upstream_next(ngx_http_request_t *r, ngx_table_elt_t *h,
    ngx_http_sendfile_upstream_next_t *next)
{
    if (next->handler == NULL) {
        return NGX_OK;
    }

    return next->handler(r, h, next->offset);
}


ngx_int_t
ngx_http_sendfile_upstream_copy(ngx_http_request_t *r, ngx_table_elt_t *h,
    ngx_uint_t offset)
{
    ngx_table_elt_t  *ho;

    ho = ngx_list_push(&r->headers_out.headers);
    if (ho == NULL) {
        return NGX_ERROR;
    }

    *ho = *h;
    ngx_http_sendfile_last_header(ho);

    return NGX_OK;
}
