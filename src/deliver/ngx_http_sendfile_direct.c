
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
#include "ngx_http_sendfile_body.h"
#include "ngx_http_sendfile_descriptor.h"
#include "ngx_http_sendfile_root.h"


/* private to ngx_open_file_cache.c */

#ifndef NGX_MIN_READ_AHEAD
#define NGX_MIN_READ_AHEAD  (128 * 1024)
#endif


/* what is to be sent: a file, or a copy of it in memory */

typedef struct {
    /* "root/path", the name in logs; both are slices of it */
    ngx_str_t                   name;
    ngx_str_t                   root;
    ngx_str_t                   path;

    off_t                       size;
    time_t                      mtime;

    /* NULL if the data is; "cleanup" ends the use of file->fd */
    ngx_file_t                 *file;
    ngx_pool_cleanup_t         *cleanup;
    u_char                     *data;

    /* NULL: they have not been printed */
    ngx_http_sendfile_validators_t  *validators;

    /* when it was looked for */
    ngx_http_sendfile_moment_t  moment;

    /* the file was opened for this request, not for one before it */
    ngx_uint_t                  opened;  /* unsigned  opened:1; */
} ngx_http_sendfile_content_t;


static ngx_int_t ngx_http_sendfile_direct_trial(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_http_sendfile_content_t *content);
static ngx_int_t ngx_http_sendfile_direct_root(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_str_t *root);
static ngx_int_t ngx_http_sendfile_direct_name(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_http_sendfile_content_t *content);
static void ngx_http_sendfile_direct_known(
    ngx_http_sendfile_content_t *content, nsf_shard_key_t *name);
static ngx_int_t ngx_http_sendfile_direct_body(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_http_sendfile_content_t *content);
static ngx_int_t ngx_http_sendfile_direct_read(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_http_sendfile_content_t *content, ngx_http_sendfile_body_t *body);
static void ngx_http_sendfile_direct_memory(
    ngx_http_sendfile_content_t *content, ngx_http_sendfile_body_t *body);
static ngx_int_t ngx_http_sendfile_direct_file(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_http_sendfile_content_t *content);
static ngx_int_t ngx_http_sendfile_direct_descriptor(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_http_sendfile_content_t *content);
static ngx_uint_t ngx_http_sendfile_direct_shared(ngx_http_request_t *r,
    ngx_http_sendfile_loc_conf_t *slcf, ngx_file_t *file);
static void ngx_http_sendfile_direct_share(
    ngx_http_sendfile_content_t *content, ngx_http_sendfile_descriptor_t *d);
static ngx_int_t ngx_http_sendfile_direct_prepare(ngx_http_request_t *r,
    ngx_http_sendfile_content_t *content);
static ngx_int_t ngx_http_sendfile_direct_open(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_http_sendfile_content_t *content);
static const char *ngx_http_sendfile_direct_descend(ngx_http_request_t *r,
    ngx_http_sendfile_loc_conf_t *slcf, ngx_http_sendfile_content_t *content,
    ngx_err_t *err);
static void ngx_http_sendfile_direct_size(
    ngx_http_sendfile_content_t *content);
static ngx_uint_t ngx_http_sendfile_direct_code(ngx_err_t err);
static void ngx_http_sendfile_direct_hints(ngx_http_request_t *r,
    ngx_file_t *file);
static ngx_int_t ngx_http_sendfile_direct_type(ngx_http_request_t *r,
    nsf_target_t *target);
static ngx_int_t ngx_http_sendfile_direct_headers(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_content_t *content);
static ngx_int_t ngx_http_sendfile_direct_send(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_content_t *content);


ngx_int_t
ngx_http_sendfile_direct(ngx_http_request_t *r, ngx_http_sendfile_ctx_t *ctx,
    ngx_http_sendfile_loc_conf_t *slcf)
{
    ngx_int_t                    rc;
    ngx_http_sendfile_content_t  content;

    ngx_memzero(&content, sizeof(ngx_http_sendfile_content_t));

    rc = ngx_http_sendfile_direct_name(r, ctx, slcf, &content);

    if (rc != NGX_OK) {
        return rc;
    }

    ngx_http_sendfile_ctx_moment(r, ctx, &content.moment);

    if (ctx->trial) {
        return ngx_http_sendfile_direct_trial(r, ctx, slcf, &content);
    }

    if (slcf->cache && slcf->cache_body) {
        rc = ngx_http_sendfile_direct_body(r, ctx, slcf, &content);

    } else {
        rc = ngx_http_sendfile_direct_file(r, ctx, slcf, &content);
    }

    if (rc != NGX_OK) {
        return rc;
    }

    ctx->state = NGX_HTTP_SENDFILE_DONE;
    ctx->delivery = NGX_HTTP_SENDFILE_DELIVERED;
    ctx->direct = 1;
    ngx_http_set_ctx(r, ctx, ngx_http_sendfile_filter_module);

    rc = ngx_http_discard_request_body(r);

    if (rc == NGX_OK) {
        rc = ngx_http_sendfile_direct_send(r, ctx, &content);
    }

    ngx_http_finalize_request(r, rc);

    return NGX_DONE;
}


/* the file is opened, as its user may: from no cache, and to be closed */

static ngx_int_t
ngx_http_sendfile_direct_trial(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_http_sendfile_content_t *content)
{
    ngx_int_t  rc;

    ctx->trial->root = content->root;
    ctx->trial->file = content->name;

    if (ngx_http_sendfile_direct_prepare(r, content) != NGX_OK) {
        return NGX_ERROR;
    }

    rc = ngx_http_sendfile_direct_open(r, ctx, slcf, content);

    if (rc != NGX_OK) {
        return rc;
    }

    ctx->state = NGX_HTTP_SENDFILE_DONE;
    ctx->delivery = NGX_HTTP_SENDFILE_DELIVERED;

    return (ngx_http_sendfile_direct_headers(r, ctx, content) == NGX_OK)
           ? NGX_DONE : NGX_ERROR;
}


static ngx_int_t
ngx_http_sendfile_direct_root(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_str_t *root)
{
    if (ctx->root.len) {
        *root = ctx->root;
        return NGX_OK;
    }

    if (ngx_http_complex_value(r, slcf->root, root) != NGX_OK) {
        return NGX_ERROR;
    }

    if (slcf->root->lengths == NULL) {
        /* checked when the configuration was read */
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


/*
 * "root/path", null-terminated, and before it a byte that says how the file
 * is opened.
 */

static ngx_int_t
ngx_http_sendfile_direct_name(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_http_sendfile_content_t *content)
{
    u_char     *p;
    ngx_int_t   rc;

    rc = ngx_http_sendfile_direct_root(r, ctx, slcf, &content->root);

    if (rc != NGX_OK) {
        return rc;
    }

    content->path.len = ctx->outcome.target.path.len;
    content->name.len = content->root.len + 1 + content->path.len;

    p = ngx_pnalloc(r->pool, 1 + content->name.len + 1);
    if (p == NULL) {
        return NGX_ERROR;
    }

    *p++ = slcf->symlinks ? 'L' : 'F';

    content->name.data = p;
    p = ngx_cpymem(p, content->root.data, content->root.len);
    *p++ = '/';
    content->path.data = p;
    p = ngx_cpymem(p, ctx->outcome.target.path.data, content->path.len);
    *p = '\0';

    return NGX_OK;
}


/* what bodies and descriptors of a file are known by */

static void
ngx_http_sendfile_direct_known(ngx_http_sendfile_content_t *content,
    nsf_shard_key_t *name)
{
    name->scope.data = content->name.data - 1;
    name->scope.len = 1 + content->root.len;
    name->key.data = content->path.data;
    name->key.len = content->path.len;
}


/* a body from the cache, if the file is still that; else the file */

static ngx_int_t
ngx_http_sendfile_direct_body(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_http_sendfile_content_t *content)
{
    ngx_int_t                 rc, cached;
    ngx_http_sendfile_body_t  body;

    body.zone = slcf->cache;
    body.moment = content->moment;
    ngx_http_sendfile_direct_known(content, &body.name);

    cached = ngx_http_sendfile_body_get(&body, slcf->cache_check, r->pool);

    if (cached == NGX_OK) {
        ngx_http_sendfile_direct_memory(content, &body);
        return NGX_OK;
    }

    if (cached == NGX_AGAIN) {
        rc = ngx_http_sendfile_direct_prepare(r, content);

        if (rc == NGX_OK) {
            rc = ngx_http_sendfile_direct_open(r, ctx, slcf, content);
        }

    } else {
        rc = ngx_http_sendfile_direct_file(r, ctx, slcf, content);
    }

    if (rc != NGX_OK) {
        return rc;
    }

    if (cached == NGX_AGAIN
        && ngx_http_sendfile_body_check(&body, &content->file->info) == NGX_OK)
    {
        ngx_http_sendfile_direct_memory(content, &body);
        return NGX_OK;
    }

    return ngx_http_sendfile_direct_read(r, ctx, slcf, content, &body);
}


/* small files into memory, for this request and for others */

static ngx_int_t
ngx_http_sendfile_direct_read(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_http_sendfile_content_t *content, ngx_http_sendfile_body_t *body)
{
    /* at its second request: the first has brought the record only */

    if (!ngx_http_sendfile_outcome_known(&ctx->outcome)
        || content->size > (off_t) slcf->cache_body)
    {
        return NGX_OK;
    }

    if (ngx_http_sendfile_body_read(body, content->file, r->pool) == NGX_OK) {
        ngx_http_sendfile_direct_memory(content, body);
    }

    return NGX_OK;
}


static void
ngx_http_sendfile_direct_memory(ngx_http_sendfile_content_t *content,
    ngx_http_sendfile_body_t *body)
{
    content->data = body->data;
    content->validators = body->validators;
    content->size = body->ident.size;
    content->mtime = body->ident.mtime;
}


static ngx_int_t
ngx_http_sendfile_direct_file(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_http_sendfile_content_t *content)
{
    if (ngx_http_sendfile_direct_prepare(r, content) != NGX_OK) {
        return NGX_ERROR;
    }

    /* at its second request: as with bodies, a scan keeps nothing */

    if (ngx_http_sendfile_outcome_known(&ctx->outcome)
        && slcf->cache
        && slcf->cache_check)
    {
        return ngx_http_sendfile_direct_descriptor(r, ctx, slcf, content);
    }

    return ngx_http_sendfile_direct_open(r, ctx, slcf, content);
}


/* from a descriptor that is open already, or is left open for others */

static ngx_int_t
ngx_http_sendfile_direct_descriptor(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_http_sendfile_content_t *content)
{
    ngx_int_t                       rc, kept;
    ngx_http_sendfile_descriptor_t  d;

    d.zone = slcf->cache;
    d.moment = content->moment;
    ngx_http_sendfile_direct_known(content, &d.name);

    kept = ngx_http_sendfile_descriptor_get(&d, slcf->cache_check,
                                            content->file);

    if (kept == NGX_OK) {

        if (ngx_http_sendfile_direct_shared(r, slcf, content->file)) {
            ngx_http_sendfile_direct_share(content, &d);
            return NGX_OK;
        }

        ngx_http_sendfile_descriptor_release(d.kept);
    }

    rc = ngx_http_sendfile_direct_open(r, ctx, slcf, content);

    if (rc != NGX_OK) {
        ngx_http_sendfile_descriptor_forget(&d);
        return rc;
    }

    if (!ngx_http_sendfile_direct_shared(r, slcf, content->file)) {
        return NGX_OK;
    }

    rc = ngx_http_sendfile_descriptor_keep(&d, content->file);

    if (rc != NGX_DECLINED) {
        ngx_http_sendfile_direct_share(content, &d);
        content->opened = (rc == NGX_OK);
    }

    return NGX_OK;
}


/* O_DIRECT is the descriptor's own, and small files go into memory */

static ngx_uint_t
ngx_http_sendfile_direct_shared(ngx_http_request_t *r,
    ngx_http_sendfile_loc_conf_t *slcf, ngx_file_t *file)
{
    off_t                      size;
    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    size = ngx_file_size(&file->info);

    return size < clcf->directio && size > (off_t) slcf->cache_body;
}


static void
ngx_http_sendfile_direct_share(ngx_http_sendfile_content_t *content,
    ngx_http_sendfile_descriptor_t *d)
{
    content->cleanup->handler = ngx_http_sendfile_descriptor_release;
    content->cleanup->data = d->kept;

    ngx_http_sendfile_direct_size(content);
}


static ngx_int_t
ngx_http_sendfile_direct_prepare(ngx_http_request_t *r,
    ngx_http_sendfile_content_t *content)
{
    ngx_file_t  *file;

    file = ngx_pcalloc(r->pool, sizeof(ngx_file_t));
    if (file == NULL) {
        return NGX_ERROR;
    }

    content->cleanup = ngx_pool_cleanup_add(r->pool,
                                            sizeof(ngx_pool_cleanup_file_t));
    if (content->cleanup == NULL) {
        return NGX_ERROR;
    }

    file->name = content->name;
    file->valid_info = 1;
    file->log = r->connection->log;

    content->file = file;

    return NGX_OK;
}


static ngx_int_t
ngx_http_sendfile_direct_open(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_http_sendfile_content_t *content)
{
    ngx_int_t                 rc;
    ngx_err_t                 err;
    const char               *reason;
    ngx_pool_cleanup_file_t  *clnf;

    reason = ngx_http_sendfile_direct_descend(r, slcf, content, &err);

    if (reason != NULL) {
        rc = ngx_http_sendfile_direct_code(err);

        ngx_http_sendfile_fail(ctx,
                               (rc == NGX_HTTP_INTERNAL_SERVER_ERROR)
                               ? NGX_HTTP_SENDFILE_ON_ERROR
                               : NGX_HTTP_SENDFILE_ON_MISSING_FILE,
                               rc, reason);
        ctx->outcome.err = err;
        return NGX_DECLINED;
    }

    content->cleanup->handler = ngx_pool_cleanup_file;
    clnf = content->cleanup->data;

    clnf->fd = content->file->fd;
    clnf->name = content->name.data;
    clnf->log = r->pool->log;

    content->opened = 1;

    ngx_http_sendfile_direct_size(content);

    return NGX_OK;
}


/* NULL, or why the file could not be opened */

static const char *
ngx_http_sendfile_direct_descend(ngx_http_request_t *r,
    ngx_http_sendfile_loc_conf_t *slcf, ngx_http_sendfile_content_t *content,
    ngx_err_t *err)
{
    ngx_file_t  *file;
    const char  *reason;

    file = content->file;

    for ( ;; ) {
        *err = 0;

        file->fd = ngx_http_sendfile_root_open(&content->root, &content->path,
                                               slcf->symlinks,
                                               content->moment.now,
                                               &file->info, &reason, err,
                                               r->connection->log);

        if (file->fd != NGX_INVALID_FILE) {
            return NULL;
        }

        /* no descriptor is free: unused ones that are kept are closed */

        if ((*err != NGX_EMFILE && *err != NGX_ENFILE)
            || ngx_http_sendfile_descriptor_shrink() == 0)
        {
            return reason;
        }
    }
}


static void
ngx_http_sendfile_direct_size(ngx_http_sendfile_content_t *content)
{
    content->size = ngx_file_size(&content->file->info);
    content->mtime = ngx_file_mtime(&content->file->info);
}


/* as ngx_http_static_module, but 404 for a path that leads out of the root */

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
ngx_http_sendfile_direct_headers(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_content_t *content)
{
    r->headers_out.status = NGX_HTTP_OK;
    r->headers_out.content_length_n = content->size;
    r->headers_out.last_modified_time = content->mtime;

    if (ngx_http_sendfile_set_validators(r, content->validators) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_http_sendfile_direct_type(r, &ctx->outcome.target);
}


static ngx_int_t
ngx_http_sendfile_direct_send(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx, ngx_http_sendfile_content_t *content)
{
    ngx_int_t     rc;
    ngx_buf_t    *b;
    ngx_chain_t   out;

    if (content->data == NULL && content->opened) {
        ngx_http_sendfile_direct_hints(r, content->file);
    }

    r->connection->log->action = "sending response to client";

    if (ngx_http_sendfile_direct_headers(r, ctx, content) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    r->allow_ranges = (r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD)) ? 1 : 0;

    b = ngx_calloc_buf(r->pool);
    if (b == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    rc = ngx_http_send_header(r);

    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        return rc;
    }

    if (content->data == NULL) {
        b->file = content->file;
        b->file_last = content->size;
        b->in_file = content->size ? 1 : 0;

    } else if (content->size) {
        b->pos = content->data;
        b->last = content->data + content->size;
        b->start = b->pos;
        b->end = b->last;
        b->memory = 1;
    }

    b->last_buf = (r == r->main) ? 1 : 0;
    b->last_in_chain = 1;
    b->sync = (b->last_buf || content->size) ? 0 : 1;

    out.buf = b;
    out.next = NULL;

    return ngx_http_output_filter(r, &out);
}
