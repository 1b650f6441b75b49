
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Direct delivery: the file below the root, with the headers that
 * ngx_http_static_module would give it, in the location of the request.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_deliver.h"
#include "ngx_http_sendfile_root.h"


/* private to ngx_open_file_cache.c */

#ifndef NGX_MIN_READ_AHEAD
#define NGX_MIN_READ_AHEAD  (128 * 1024)
#endif


static ngx_int_t ngx_http_sendfile_direct_root(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_str_t *root);
static ngx_int_t ngx_http_sendfile_direct_open(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_file_t *file);
static ngx_uint_t ngx_http_sendfile_direct_code(ngx_err_t err);
static void ngx_http_sendfile_direct_hints(ngx_http_request_t *r,
    ngx_file_t *file);
static ngx_int_t ngx_http_sendfile_direct_type(ngx_http_request_t *r,
    nsf_target_t *target);
static ngx_int_t ngx_http_sendfile_direct_send(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_file_t *file);


ngx_int_t
ngx_http_sendfile_direct(ngx_http_request_t *r, ngx_http_sendfile_ctx_t *ctx,
    ngx_http_sendfile_loc_conf_t *slcf)
{
    ngx_int_t    rc;
    ngx_file_t  *file;

    file = ngx_pcalloc(r->pool, sizeof(ngx_file_t));
    if (file == NULL) {
        return NGX_ERROR;
    }

    rc = ngx_http_sendfile_direct_open(r, ctx, slcf, file);

    if (rc != NGX_OK) {
        return rc;
    }

    ctx->state = NGX_HTTP_SENDFILE_DONE;
    ctx->delivered = 1;
    ngx_http_set_ctx(r, ctx, ngx_http_sendfile_filter_module);

    rc = ngx_http_discard_request_body(r);

    if (rc == NGX_OK) {
        rc = ngx_http_sendfile_direct_send(r, ctx, file);
    }

    ngx_http_finalize_request(r, rc);

    return NGX_DONE;
}


static ngx_int_t
ngx_http_sendfile_direct_root(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_str_t *root)
{
    if (ngx_http_complex_value(r, slcf->root, root) != NGX_OK) {
        return NGX_ERROR;
    }

    if (slcf->root->lengths == NULL) {
        /* has been checked */
        return NGX_OK;
    }

    while (root->len > 1 && root->data[root->len - 1] == '/') {
        root->len--;
    }

    if (root->len == 0
        || root->data[0] != '/'
        || nsf_base_check(root->data, root->len) != NULL)
    {
        ngx_http_sendfile_fail(ctx, NGX_HTTP_SENDFILE_ON_INVALID,
                               NGX_HTTP_INTERNAL_SERVER_ERROR,
                               "root is no absolute path");
        return NGX_DECLINED;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_sendfile_direct_open(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_file_t *file)
{
    ngx_int_t                  rc;
    ngx_err_t                  err;
    ngx_str_t                  root, path;
    const char                *reason;
    ngx_pool_cleanup_t        *cln;
    ngx_pool_cleanup_file_t   *clnf;

    rc = ngx_http_sendfile_direct_root(r, ctx, slcf, &root);

    if (rc != NGX_OK) {
        return rc;
    }

    /* "root/path": the name is for logs, the path is opened */

    file->name.len = root.len + 1 + ctx->target.path.len;
    file->name.data = ngx_pnalloc(r->pool, file->name.len + 1);
    if (file->name.data == NULL) {
        return NGX_ERROR;
    }

    path.len = ctx->target.path.len;
    path.data = ngx_cpymem(file->name.data, root.data, root.len);
    *path.data++ = '/';
    (void) ngx_cpystrn(path.data, (u_char *) ctx->target.path.data,
                       path.len + 1);

    cln = ngx_pool_cleanup_add(r->pool, sizeof(ngx_pool_cleanup_file_t));
    if (cln == NULL) {
        return NGX_ERROR;
    }

    err = 0;

    file->fd = ngx_http_sendfile_root_open(&root, &path, slcf->symlinks,
                                           &file->info, &reason, &err,
                                           r->connection->log);

    if (file->fd == NGX_INVALID_FILE) {
        rc = ngx_http_sendfile_direct_code(err);

        ngx_http_sendfile_fail(ctx,
                               (rc == NGX_HTTP_INTERNAL_SERVER_ERROR)
                               ? NGX_HTTP_SENDFILE_ON_ERROR
                               : NGX_HTTP_SENDFILE_ON_MISSING_FILE,
                               rc, reason);
        ctx->err = err;
        return NGX_DECLINED;
    }

    cln->handler = ngx_pool_cleanup_file;
    clnf = cln->data;

    clnf->fd = file->fd;
    clnf->name = file->name.data;
    clnf->log = r->pool->log;

    file->valid_info = 1;
    file->log = r->connection->log;

    return NGX_OK;
}


/* as ngx_http_static_module answers them, but what is refused is not there */

static ngx_uint_t
ngx_http_sendfile_direct_code(ngx_err_t err)
{
    switch (err) {

    case 0:
    case NGX_ENOENT:
    case NGX_ENOTDIR:
    case NGX_ENAMETOOLONG:
    case NGX_ELOOP:
    case NGX_EXDEV:
    case ENXIO:
    case ENODEV:
        return NGX_HTTP_NOT_FOUND;

    case NGX_EACCES:
        return NGX_HTTP_FORBIDDEN;

    default:
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
}


/* what ngx_open_cached_file() does for a file that it has opened */

static void
ngx_http_sendfile_direct_hints(ngx_http_request_t *r, ngx_file_t *file)
{
    off_t                      size;
    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    size = ngx_file_size(&file->info);

    if (clcf->read_ahead && size > NGX_MIN_READ_AHEAD) {
        if (ngx_read_ahead(file->fd, clcf->read_ahead) == NGX_ERROR) {
            ngx_log_error(NGX_LOG_ALERT, r->connection->log, ngx_errno,
                          ngx_read_ahead_n " \"%V\" failed", &file->name);
        }
    }

    if (clcf->directio <= size) {
        if (ngx_directio_on(file->fd) == NGX_FILE_ERROR) {
            ngx_log_error(NGX_LOG_ALERT, r->connection->log, ngx_errno,
                          ngx_directio_on_n " \"%V\" failed", &file->name);

        } else {
            file->directio = 1;
        }
    }
}


/* by the extension of the path; the filter knows of a record's own type */

static ngx_int_t
ngx_http_sendfile_direct_type(ngx_http_request_t *r, nsf_target_t *target)
{
    size_t     i;
    ngx_int_t  rc;
    ngx_str_t  exten;

    exten = r->exten;

    ngx_str_null(&r->exten);

    /* as ngx_http_set_exten(): a name that starts with a dot has none */

    for (i = target->path.len - 1; i > 0; i--) {

        if (target->path.data[i] == '/') {
            break;
        }

        if (target->path.data[i] == '.' && target->path.data[i - 1] != '/') {
            r->exten.data = (u_char *) target->path.data + i + 1;
            r->exten.len = target->path.len - i - 1;
            break;
        }
    }

    rc = ngx_http_set_content_type(r);

    r->exten = exten;

    return rc;
}


static ngx_int_t
ngx_http_sendfile_direct_send(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_file_t *file)
{
    ngx_int_t     rc;
    ngx_buf_t    *b;
    ngx_chain_t   out;

    ngx_http_sendfile_direct_hints(r, file);

    r->connection->log->action = "sending response to client";

    r->headers_out.status = NGX_HTTP_OK;
    r->headers_out.content_length_n = ngx_file_size(&file->info);
    r->headers_out.last_modified_time = ngx_file_mtime(&file->info);

    if (ngx_http_set_etag(r) != NGX_OK
        || ngx_http_sendfile_direct_type(r, &ctx->target) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    r->allow_ranges = 1;

    b = ngx_calloc_buf(r->pool);
    if (b == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    rc = ngx_http_send_header(r);

    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        return rc;
    }

    b->file_pos = 0;
    b->file_last = ngx_file_size(&file->info);

    b->in_file = b->file_last ? 1 : 0;
    b->last_buf = (r == r->main) ? 1 : 0;
    b->last_in_chain = 1;
    b->sync = (b->last_buf || b->in_file) ? 0 : 1;

    b->file = file;

    out.buf = b;
    out.next = NULL;

    return ngx_http_output_filter(r, &out);
}
