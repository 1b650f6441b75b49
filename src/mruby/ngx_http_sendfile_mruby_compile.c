
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Ruby to bytecode, in a VM that lives no longer than this takes: nothing of
 * it stays in the master.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_mruby.h"


#define NGX_HTTP_SENDFILE_MRB_MAX_FILE  (4 * 1024 * 1024)


static ngx_int_t ngx_http_sendfile_mrb_parse(mrb_state *mrb, ngx_pool_t *pool,
    ngx_str_t *source, mrbc_context *c, ngx_str_t *code,
    ngx_http_sendfile_mrb_error_t *err);
static ngx_int_t ngx_http_sendfile_mrb_dump(mrb_state *mrb, ngx_pool_t *pool,
    const struct RProc *proc, ngx_str_t *code);


ngx_int_t
ngx_http_sendfile_mrb_compile(ngx_pool_t *pool, ngx_str_t *source,
    ngx_str_t *name, ngx_uint_t line, ngx_str_t *code,
    ngx_http_sendfile_mrb_error_t *err)
{
    ngx_int_t      rc;
    mrb_state     *mrb;
    mrbc_context  *c;

    mrb = mrb_open_core(NULL, NULL);
    if (mrb == NULL) {
        return NGX_ERROR;
    }

    rc = NGX_ERROR;

    c = mrbc_context_new(mrb);

    if (c) {
        c->capture_errors = 1;
        c->lineno = (uint16_t) ngx_min(line, 65535);
        mrbc_filename(mrb, c, (const char *) name->data);

        rc = ngx_http_sendfile_mrb_parse(mrb, pool, source, c, code, err);

        mrbc_context_free(mrb, c);
    }

    mrb_close(mrb);

    return rc;
}


static ngx_int_t
ngx_http_sendfile_mrb_parse(mrb_state *mrb, ngx_pool_t *pool,
    ngx_str_t *source, mrbc_context *c, ngx_str_t *code,
    ngx_http_sendfile_mrb_error_t *err)
{
    u_char                   *last;
    ngx_int_t                 rc;
    struct RProc             *proc;
    struct mrb_parser_state  *p;

    p = mrb_parse_nstring(mrb, (const char *) source->data, source->len, c);
    if (p == NULL) {
        return NGX_ERROR;
    }

    if (p->nerr || p->tree == NULL) {
        err->line = p->error_buffer[0].lineno;
        last = ngx_snprintf(err->text, sizeof(err->text) - 1, "%s",
                            p->error_buffer[0].message
                            ? p->error_buffer[0].message : "syntax error");
        *last = '\0';

        rc = NGX_DECLINED;

    } else {
        proc = mrb_generate_code(mrb, p);

        if (proc) {
            rc = ngx_http_sendfile_mrb_dump(mrb, pool, proc, code);

        } else {
            err->line = c->lineno;
            ngx_memcpy(err->text, "too complex", sizeof("too complex"));
            rc = NGX_DECLINED;
        }
    }

    mrb_parser_free(p);

    return rc;
}


static ngx_int_t
ngx_http_sendfile_mrb_dump(mrb_state *mrb, ngx_pool_t *pool,
    const struct RProc *proc, ngx_str_t *code)
{
    size_t     size;
    uint8_t   *bin;
    ngx_int_t  rc;

    bin = NULL;

    if (mrb_dump_irep(mrb, proc->body.irep, MRB_DUMP_DEBUG_INFO, &bin, &size)
        != MRB_DUMP_OK)
    {
        mrb_free(mrb, bin);
        return NGX_ERROR;
    }

    rc = NGX_ERROR;

    code->len = size;
    code->data = ngx_pnalloc(pool, size);

    if (code->data) {
        ngx_memcpy(code->data, bin, size);
        rc = NGX_OK;
    }

    mrb_free(mrb, bin);

    return rc;
}


ngx_int_t
ngx_http_sendfile_mrb_read(ngx_pool_t *pool, ngx_log_t *log, ngx_str_t *name,
    ngx_str_t *source, ngx_file_info_t *fi)
{
    ssize_t     n;
    ngx_file_t  file;

    ngx_memzero(&file, sizeof(ngx_file_t));

    file.name = *name;
    file.log = log;
    file.fd = ngx_open_file(name->data, NGX_FILE_RDONLY|NGX_FILE_NONBLOCK,
                            NGX_FILE_OPEN, 0);

    if (file.fd == NGX_INVALID_FILE) {
        ngx_log_error(NGX_LOG_ERR, log, ngx_errno,
                      "mruby: " ngx_open_file_n " \"%V\" failed", name);
        return NGX_ERROR;
    }

    source->data = NULL;

    if (ngx_fd_info(file.fd, fi) == NGX_FILE_ERROR) {
        ngx_log_error(NGX_LOG_ERR, log, ngx_errno,
                      "mruby: " ngx_fd_info_n " \"%V\" failed", name);
        goto done;
    }

    if (!ngx_is_file(fi) || ngx_file_size(fi) > NGX_HTTP_SENDFILE_MRB_MAX_FILE)
    {
        ngx_log_error(NGX_LOG_ERR, log, 0,
                      "mruby: \"%V\" is no regular file of at most %d bytes",
                      name, NGX_HTTP_SENDFILE_MRB_MAX_FILE);
        goto done;
    }

    source->len = (size_t) ngx_file_size(fi);
    source->data = ngx_pnalloc(pool, source->len + 1);

    if (source->data == NULL) {
        goto done;
    }

    n = ngx_read_file(&file, source->data, source->len, 0);

    if (n != (ssize_t) source->len) {
        source->data = NULL;
    }

done:

    if (ngx_close_file(file.fd) == NGX_FILE_ERROR) {
        ngx_log_error(NGX_LOG_ALERT, log, ngx_errno,
                      "mruby: " ngx_close_file_n " \"%V\" failed", name);
    }

    return source->data ? NGX_OK : NGX_ERROR;
}
