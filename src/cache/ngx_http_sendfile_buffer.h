
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Memory for what is copied out of a zone: a body that malloc() gives and
 * free() takes costs each request more than the copy.
 */


#ifndef _NGX_HTTP_SENDFILE_BUFFER_H_INCLUDED_
#define _NGX_HTTP_SENDFILE_BUFFER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * As ngx_palloc(): memory for as long as the pool lasts, NULL if there is
 * none.  What is large comes from buffers that the worker keeps, and goes back
 * to them.
 */

void *ngx_http_sendfile_buffer_alloc(ngx_pool_t *pool, size_t size);


#endif /* _NGX_HTTP_SENDFILE_BUFFER_H_INCLUDED_ */
