
/*
 * Copyright (C) the ngx_sendfile authors
 */


#ifndef _NGX_HTTP_SENDFILE_MEMCACHED_H_INCLUDED_
#define _NGX_HTTP_SENDFILE_MEMCACHED_H_INCLUDED_


#include "ngx_http_sendfile_pool.h"


/*
 * Configuration time: makes a store of the servers, distribution and number
 * of connections in "pool".  NGX_ERROR after a log line.
 */

ngx_int_t ngx_http_sendfile_memcached_servers(ngx_conf_t *cf,
    ngx_http_sendfile_store_t *store, ngx_http_sendfile_pool_t *pool);

/* one server, as it is when only a URL is given */

void ngx_http_sendfile_memcached_server(ngx_http_sendfile_server_t *server,
    nsf_url_t *url);


#endif /* _NGX_HTTP_SENDFILE_MEMCACHED_H_INCLUDED_ */
