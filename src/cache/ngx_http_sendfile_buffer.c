
/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <ngx_config.h>
#include <ngx_core.h>

#if (__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, size)
#define ASAN_UNPOISON_MEMORY_REGION(p, size)
#endif

#include "ngx_http_sendfile_buffer.h"


/* buffers of 4, 8, 16, 32 and 64 KiB; what is small is the pool's */

#define NGX_HTTP_SENDFILE_BUFFER_SMALL    512
#define NGX_HTTP_SENDFILE_BUFFER_SHIFT    12
#define NGX_HTTP_SENDFILE_BUFFER_CLASSES  5

/* bytes that a worker keeps while nobody uses them */

#define NGX_HTTP_SENDFILE_BUFFER_KEEP     (2 * 1024 * 1024)


typedef struct ngx_http_sendfile_buffer_s  ngx_http_sendfile_buffer_t;

/* the data follows */

struct ngx_http_sendfile_buffer_s {
    ngx_http_sendfile_buffer_t      *next;
    ngx_uint_t                       class;
};


static void ngx_http_sendfile_buffer_free(void *data);


static ngx_http_sendfile_buffer_t
    *ngx_http_sendfile_buffers[NGX_HTTP_SENDFILE_BUFFER_CLASSES];
static size_t  ngx_http_sendfile_buffers_size;


static ngx_inline size_t
ngx_http_sendfile_buffer_size(ngx_uint_t class)
{
    return (size_t) 1 << (NGX_HTTP_SENDFILE_BUFFER_SHIFT + class);
}


void *
ngx_http_sendfile_buffer_alloc(ngx_pool_t *pool, size_t size)
{
    ngx_uint_t                   class;
    ngx_pool_cleanup_t          *cln;
    ngx_http_sendfile_buffer_t  *b;

    if (size <= NGX_HTTP_SENDFILE_BUFFER_SMALL) {
        return ngx_palloc(pool, size);
    }

    for (class = 0; size > ngx_http_sendfile_buffer_size(class); class++) {
        if (class == NGX_HTTP_SENDFILE_BUFFER_CLASSES - 1) {
            return ngx_palloc(pool, size);
        }
    }

    cln = ngx_pool_cleanup_add(pool, 0);
    if (cln == NULL) {
        return NULL;
    }

    b = ngx_http_sendfile_buffers[class];

    if (b) {
        ngx_http_sendfile_buffers[class] = b->next;
        ngx_http_sendfile_buffers_size -= ngx_http_sendfile_buffer_size(class);

    } else {
        b = ngx_alloc(sizeof(ngx_http_sendfile_buffer_t)
                      + ngx_http_sendfile_buffer_size(class), pool->log);
        if (b == NULL) {
            return NULL;
        }

        b->class = class;
    }

    ASAN_POISON_MEMORY_REGION(b + 1, ngx_http_sendfile_buffer_size(class));
    ASAN_UNPOISON_MEMORY_REGION(b + 1, size);

    cln->handler = ngx_http_sendfile_buffer_free;
    cln->data = b;

    return b + 1;
}


static void
ngx_http_sendfile_buffer_free(void *data)
{
    ngx_http_sendfile_buffer_t  *b = data;

    size_t  size;

    size = ngx_http_sendfile_buffer_size(b->class);

    if (ngx_http_sendfile_buffers_size + size > NGX_HTTP_SENDFILE_BUFFER_KEEP)
    {
        ngx_free(b);
        return;
    }

    ASAN_POISON_MEMORY_REGION(b + 1, size);

    b->next = ngx_http_sendfile_buffers[b->class];

    ngx_http_sendfile_buffers[b->class] = b;
    ngx_http_sendfile_buffers_size += size;
}
