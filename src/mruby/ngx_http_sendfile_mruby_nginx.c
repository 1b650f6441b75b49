
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * The class Nginx: what a script says, and constants.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_mruby.h"


#define NGX_HTTP_SENDFILE_MRB_FIRST_BUF  128
#define NGX_HTTP_SENDFILE_MRB_NEXT_BUF   4096


typedef struct {
    const char                         *name;
    mrb_int                             value;
} ngx_http_sendfile_mrb_const_t;


static void ngx_http_sendfile_mrb_append(mrb_state *mrb,
    ngx_http_sendfile_mrb_ctx_t *ctx, const char *data, size_t len);
static ngx_http_sendfile_mrb_ctx_t *ngx_http_sendfile_mrb_get_ctx(
    mrb_state *mrb);
static mrb_value ngx_http_sendfile_mrb_rputs(mrb_state *mrb, mrb_value self);
static mrb_value ngx_http_sendfile_mrb_echo(mrb_state *mrb, mrb_value self);
static mrb_value ngx_http_sendfile_mrb_return(mrb_state *mrb, mrb_value self);
static mrb_value ngx_http_sendfile_mrb_log(mrb_state *mrb, mrb_value self);
static mrb_value ngx_http_sendfile_mrb_module_name(mrb_state *mrb,
    mrb_value self);
static mrb_value ngx_http_sendfile_mrb_module_version(mrb_state *mrb,
    mrb_value self);
static mrb_value ngx_http_sendfile_mrb_nginx_version(mrb_state *mrb,
    mrb_value self);
static mrb_value ngx_http_sendfile_mrb_configure(mrb_state *mrb,
    mrb_value self);
static mrb_value ngx_http_sendfile_mrb_redirect_to(mrb_state *mrb,
    mrb_value self);
static mrb_value ngx_http_sendfile_mrb_remove_global(mrb_state *mrb,
    mrb_value self);
static mrb_value ngx_http_sendfile_mrb_server_name(mrb_state *mrb,
    mrb_value self);
static mrb_value ngx_http_sendfile_mrb_print(mrb_state *mrb, mrb_value self);
static mrb_value ngx_http_sendfile_mrb_p(mrb_state *mrb, mrb_value self);
static void ngx_http_sendfile_mrb_write(mrb_state *mrb, ngx_uint_t level,
    mrb_value text);


static const ngx_http_sendfile_mrb_method_t  ngx_http_sendfile_mrb_nginx[] = {

    { "rputs", ngx_http_sendfile_mrb_rputs, MRB_ARGS_REQ(1) },
    { "print", ngx_http_sendfile_mrb_rputs, MRB_ARGS_REQ(1) },
    { "echo", ngx_http_sendfile_mrb_echo, MRB_ARGS_REQ(1) },
    { "return", ngx_http_sendfile_mrb_return, MRB_ARGS_REQ(1) },
    { "send_header", ngx_http_sendfile_mrb_return, MRB_ARGS_REQ(1) },
    { "status_code=", ngx_http_sendfile_mrb_return, MRB_ARGS_REQ(1) },
    { "log", ngx_http_sendfile_mrb_log, MRB_ARGS_REQ(2) },
    { "errlogger", ngx_http_sendfile_mrb_log, MRB_ARGS_REQ(2) },
    { "redirect", ngx_http_sendfile_mrb_redirect_to, MRB_ARGS_ARG(1, 1) },
    { "module_name", ngx_http_sendfile_mrb_module_name, MRB_ARGS_NONE() },
    { "module_version", ngx_http_sendfile_mrb_module_version,
      MRB_ARGS_NONE() },
    { "nginx_version", ngx_http_sendfile_mrb_nginx_version,
      MRB_ARGS_NONE() },
    { "server_version", ngx_http_sendfile_mrb_nginx_version,
      MRB_ARGS_NONE() },
    { "configure", ngx_http_sendfile_mrb_configure, MRB_ARGS_NONE() },
    { "remove_global_variable", ngx_http_sendfile_mrb_remove_global,
      MRB_ARGS_REQ(1) },
    { NULL, NULL, 0 }
};


static const ngx_http_sendfile_mrb_method_t  ngx_http_sendfile_mrb_kernel[] = {

    { "server_name", ngx_http_sendfile_mrb_server_name, MRB_ARGS_NONE() },
    { "print", ngx_http_sendfile_mrb_print, MRB_ARGS_ANY() },
    { "puts", ngx_http_sendfile_mrb_print, MRB_ARGS_ANY() },
    { "p", ngx_http_sendfile_mrb_p, MRB_ARGS_ANY() },
    { NULL, NULL, 0 }
};


/* with and without "HTTP_" and "NGX_", as scripts for ngx_mruby have them */

static const ngx_http_sendfile_mrb_const_t  ngx_http_sendfile_mrb_consts[] = {

    { "OK", NGX_OK },
    { "ERROR", NGX_ERROR },
    { "AGAIN", NGX_AGAIN },
    { "BUSY", NGX_BUSY },
    { "DONE", NGX_DONE },
    { "DECLINED", NGX_DECLINED },
    { "ABORT", NGX_ABORT },

    { "HTTP_CONTINUE", NGX_HTTP_CONTINUE },
    { "HTTP_SWITCHING_PROTOCOLS", NGX_HTTP_SWITCHING_PROTOCOLS },
    { "HTTP_PROCESSING", NGX_HTTP_PROCESSING },
    { "HTTP_OK", NGX_HTTP_OK },
    { "HTTP_CREATED", NGX_HTTP_CREATED },
    { "HTTP_ACCEPTED", NGX_HTTP_ACCEPTED },
    { "HTTP_NO_CONTENT", NGX_HTTP_NO_CONTENT },
    { "HTTP_PARTIAL_CONTENT", NGX_HTTP_PARTIAL_CONTENT },
    { "HTTP_SPECIAL_RESPONSE", NGX_HTTP_SPECIAL_RESPONSE },
    { "HTTP_MOVED_PERMANENTLY", NGX_HTTP_MOVED_PERMANENTLY },
    { "HTTP_MOVED_TEMPORARILY", NGX_HTTP_MOVED_TEMPORARILY },
    { "HTTP_SEE_OTHER", NGX_HTTP_SEE_OTHER },
    { "HTTP_NOT_MODIFIED", NGX_HTTP_NOT_MODIFIED },
    { "HTTP_TEMPORARY_REDIRECT", NGX_HTTP_TEMPORARY_REDIRECT },
    { "HTTP_PERMANENT_REDIRECT", NGX_HTTP_PERMANENT_REDIRECT },
    { "HTTP_BAD_REQUEST", NGX_HTTP_BAD_REQUEST },
    { "HTTP_UNAUTHORIZED", NGX_HTTP_UNAUTHORIZED },
    { "HTTP_FORBIDDEN", NGX_HTTP_FORBIDDEN },
    { "HTTP_NOT_FOUND", NGX_HTTP_NOT_FOUND },
    { "HTTP_NOT_ALLOWED", NGX_HTTP_NOT_ALLOWED },
    { "HTTP_REQUEST_TIME_OUT", NGX_HTTP_REQUEST_TIME_OUT },
    { "HTTP_CONFLICT", NGX_HTTP_CONFLICT },
    { "HTTP_LENGTH_REQUIRED", NGX_HTTP_LENGTH_REQUIRED },
    { "HTTP_PRECONDITION_FAILED", NGX_HTTP_PRECONDITION_FAILED },
    { "HTTP_REQUEST_ENTITY_TOO_LARGE", NGX_HTTP_REQUEST_ENTITY_TOO_LARGE },
    { "HTTP_REQUEST_URI_TOO_LARGE", NGX_HTTP_REQUEST_URI_TOO_LARGE },
    { "HTTP_UNSUPPORTED_MEDIA_TYPE", NGX_HTTP_UNSUPPORTED_MEDIA_TYPE },
    { "HTTP_RANGE_NOT_SATISFIABLE", NGX_HTTP_RANGE_NOT_SATISFIABLE },
    { "HTTP_TOO_MANY_REQUESTS", NGX_HTTP_TOO_MANY_REQUESTS },
    { "HTTP_CLOSE", NGX_HTTP_CLOSE },
    { "HTTP_NGINX_CODES", NGX_HTTP_NGINX_CODES },
    { "HTTP_REQUEST_HEADER_TOO_LARGE", NGX_HTTP_REQUEST_HEADER_TOO_LARGE },
    { "HTTPS_CERT_ERROR", NGX_HTTPS_CERT_ERROR },
    { "HTTPS_NO_CERT", NGX_HTTPS_NO_CERT },
    { "HTTP_TO_HTTPS", NGX_HTTP_TO_HTTPS },
    { "HTTP_CLIENT_CLOSED_REQUEST", NGX_HTTP_CLIENT_CLOSED_REQUEST },
    { "HTTP_INTERNAL_SERVER_ERROR", NGX_HTTP_INTERNAL_SERVER_ERROR },
    { "HTTP_NOT_IMPLEMENTED", NGX_HTTP_NOT_IMPLEMENTED },
    { "HTTP_BAD_GATEWAY", NGX_HTTP_BAD_GATEWAY },
    { "HTTP_SERVICE_UNAVAILABLE", NGX_HTTP_SERVICE_UNAVAILABLE },
    { "HTTP_GATEWAY_TIME_OUT", NGX_HTTP_GATEWAY_TIME_OUT },
    { "HTTP_INSUFFICIENT_STORAGE", NGX_HTTP_INSUFFICIENT_STORAGE },

    { "LOG_STDERR", NGX_LOG_STDERR },
    { "LOG_EMERG", NGX_LOG_EMERG },
    { "LOG_ALERT", NGX_LOG_ALERT },
    { "LOG_CRIT", NGX_LOG_CRIT },
    { "LOG_ERR", NGX_LOG_ERR },
    { "LOG_WARN", NGX_LOG_WARN },
    { "LOG_NOTICE", NGX_LOG_NOTICE },
    { "LOG_INFO", NGX_LOG_INFO },
    { "LOG_DEBUG", NGX_LOG_DEBUG },

    { NULL, 0 }
};


void
ngx_http_sendfile_mrb_init_nginx(mrb_state *mrb, struct RClass *nginx)
{
    u_char                                name[64];
    const ngx_http_sendfile_mrb_const_t  *c;

    ngx_http_sendfile_mrb_functions(mrb, nginx, ngx_http_sendfile_mrb_nginx);
    ngx_http_sendfile_mrb_methods(mrb, mrb->kernel_module,
                                  ngx_http_sendfile_mrb_kernel);

    for (c = ngx_http_sendfile_mrb_consts; c->name; c++) {
        mrb_define_const(mrb, nginx, c->name, mrb_int_value(mrb, c->value));

        *ngx_snprintf(name, sizeof(name) - 1, "NGX_%s", c->name) = '\0';
        mrb_define_const(mrb, nginx, (const char *) name,
                         mrb_int_value(mrb, c->value));
    }

    mrb_define_const(mrb, nginx, "TRUE", mrb_str_new_lit(mrb, "1"));
    mrb_define_const(mrb, nginx, "FALSE", mrb_str_new_lit(mrb, "0"));
}


static void
ngx_http_sendfile_mrb_append(mrb_state *mrb, ngx_http_sendfile_mrb_ctx_t *ctx,
    const char *data, size_t len)
{
    size_t        size;
    ngx_buf_t    *b;
    ngx_chain_t  *cl, *new;

    if (len == 0) {
        return;
    }

    cl = *ctx->last;

    if (cl && (size_t) (cl->buf->end - cl->buf->last) >= len) {
        cl->buf->last = ngx_cpymem(cl->buf->last, data, len);
        ctx->size += len;
        return;
    }

    size = cl ? NGX_HTTP_SENDFILE_MRB_NEXT_BUF
              : NGX_HTTP_SENDFILE_MRB_FIRST_BUF;
    size = ngx_max(size, len);

    new = ngx_http_sendfile_mrb_palloc(mrb, sizeof(ngx_chain_t)
                                            + sizeof(ngx_buf_t) + size);
    b = (ngx_buf_t *) &new[1];

    ngx_memzero(b, sizeof(ngx_buf_t));

    b->start = (u_char *) &b[1];
    b->end = b->start + size;
    b->pos = b->start;
    b->last = ngx_cpymem(b->start, data, len);
    b->temporary = 1;

    new->buf = b;
    new->next = NULL;

    if (cl) {
        ctx->last = &cl->next;
    }

    *ctx->last = new;
    ctx->size += len;
}


static ngx_http_sendfile_mrb_ctx_t *
ngx_http_sendfile_mrb_get_ctx(mrb_state *mrb)
{
    ngx_http_sendfile_mrb_ctx_t  *ctx;

    ctx = ngx_http_sendfile_mrb_ctx(ngx_http_sendfile_mrb_request(mrb));

    if (ctx == NULL) {
        mrb_raise(mrb, E_RUNTIME_ERROR, "no memory");
    }

    return ctx;
}


static mrb_value
ngx_http_sendfile_mrb_rputs(mrb_state *mrb, mrb_value self)
{
    mrb_value  s;

    s = mrb_get_arg1(mrb);

    if (!mrb_string_p(s)) {
        s = mrb_obj_as_string(mrb, s);
    }

    ngx_http_sendfile_mrb_append(mrb, ngx_http_sendfile_mrb_get_ctx(mrb),
                                 RSTRING_PTR(s), RSTRING_LEN(s));

    return self;
}


static mrb_value
ngx_http_sendfile_mrb_echo(mrb_state *mrb, mrb_value self)
{
    self = ngx_http_sendfile_mrb_rputs(mrb, self);

    ngx_http_sendfile_mrb_append(mrb, ngx_http_sendfile_mrb_get_ctx(mrb),
                                 "\n", 1);

    return self;
}


static mrb_value
ngx_http_sendfile_mrb_return(mrb_state *mrb, mrb_value self)
{
    mrb_int                       status;
    ngx_http_sendfile_mrb_ctx_t  *ctx;

    mrb_get_args(mrb, "i", &status);

    if (status != NGX_OK && status != NGX_ERROR && status != NGX_DECLINED
        && (status < NGX_HTTP_OK || status > 599))
    {
        mrb_raisef(mrb, E_ARGUMENT_ERROR, "%i is no status to return: "
                   "200 to 599, OK, ERROR and DECLINED are", status);
    }

    ctx = ngx_http_sendfile_mrb_get_ctx(mrb);

    ctx->status = (ngx_int_t) status;
    ctx->has_status = (status != NGX_OK);

    return self;
}


static mrb_value
ngx_http_sendfile_mrb_log(mrb_state *mrb, mrb_value self)
{
    mrb_int    level;
    mrb_value  text;

    mrb_get_args(mrb, "io", &level, &text);

    if (level < NGX_LOG_STDERR || level > NGX_LOG_DEBUG) {
        mrb_raisef(mrb, E_ARGUMENT_ERROR, "%i is no log level", level);
    }

    ngx_http_sendfile_mrb_write(mrb, (ngx_uint_t) level, text);

    return self;
}


static void
ngx_http_sendfile_mrb_write(mrb_state *mrb, ngx_uint_t level, mrb_value text)
{
    u_char                      *p;
    ngx_http_sendfile_mrb_vm_t  *vm;
    u_char                       buf[NGX_MAX_ERROR_STR];

    vm = ngx_http_sendfile_mrb_vm(mrb);
    text = mrb_obj_as_string(mrb, text);

    p = ngx_http_sendfile_mrb_text(buf, buf + sizeof(buf), RSTRING_PTR(text),
                                   RSTRING_LEN(text));

    ngx_log_error(level, vm->log, 0, "%*s", (size_t) (p - buf), buf);
}


static mrb_value
ngx_http_sendfile_mrb_module_name(mrb_state *mrb, mrb_value self)
{
    return mrb_str_new_lit(mrb, "ngx_http_sendfile_mruby_module");
}


static mrb_value
ngx_http_sendfile_mrb_module_version(mrb_state *mrb, mrb_value self)
{
    return mrb_str_new_lit(mrb, NGX_HTTP_SENDFILE_MRB_VERSION);
}


static mrb_value
ngx_http_sendfile_mrb_nginx_version(mrb_state *mrb, mrb_value self)
{
    return mrb_str_new_lit(mrb, NGINX_VERSION);
}


static mrb_value
ngx_http_sendfile_mrb_configure(mrb_state *mrb, mrb_value self)
{
    return mrb_str_new_lit(mrb, NGX_CONFIGURE);
}


static mrb_value
ngx_http_sendfile_mrb_redirect_to(mrb_state *mrb, mrb_value self)
{
    u_char                       *args;
    mrb_int                       status;
    mrb_value                     to;
    ngx_str_t                     name, uri;
    ngx_http_request_t           *r;
    ngx_http_sendfile_mrb_ctx_t  *ctx;

    status = NGX_HTTP_MOVED_TEMPORARILY;

    mrb_get_args(mrb, "S|i", &to, &status);

    r = ngx_http_sendfile_mrb_request(mrb);
    ctx = ngx_http_sendfile_mrb_get_ctx(mrb);

    ngx_http_sendfile_mrb_copy(mrb, to, &uri);

    if (uri.len && (uri.data[0] == '/' || uri.data[0] == '@')) {

        args = ngx_strlchr(uri.data, uri.data + uri.len, '?');

        if (args) {
            ngx_http_sendfile_mrb_check_args(mrb, args,
                                             uri.data + uri.len - args);
        }

        ctx->redirect = uri;
        return self;
    }

    if (ngx_strncasecmp(uri.data, (u_char *) "http://", 7) != 0
        && ngx_strncasecmp(uri.data, (u_char *) "https://", 8) != 0)
    {
        mrb_raise(mrb, E_ARGUMENT_ERROR, "a redirect goes to http://..., "
                  "https://..., /a/location or @name");
    }

    if (status < NGX_HTTP_MOVED_PERMANENTLY || status > 308
        || status == NGX_HTTP_NOT_MODIFIED)
    {
        mrb_raisef(mrb, E_ARGUMENT_ERROR, "%i is no redirect", status);
    }

    ngx_str_set(&name, "Location");
    ngx_http_sendfile_mrb_set_out(mrb, r, &name, &uri);

    ngx_str_null(&ctx->redirect);
    ctx->status = (ngx_int_t) status;
    ctx->has_status = 1;

    return self;
}


static mrb_value
ngx_http_sendfile_mrb_remove_global(mrb_state *mrb, mrb_value self)
{
    mrb_sym  name;

    mrb_get_args(mrb, "n", &name);
    mrb_gv_remove(mrb, name);

    return mrb_funcall(mrb, self, "global_variables", 0);
}


static mrb_value
ngx_http_sendfile_mrb_server_name(mrb_state *mrb, mrb_value self)
{
    return mrb_str_new_lit(mrb, NGINX_VAR);
}


/* there is no standard output: to the error log, at "notice" */

static mrb_value
ngx_http_sendfile_mrb_print(mrb_state *mrb, mrb_value self)
{
    mrb_int           i, n;
    const mrb_value  *args;

    mrb_get_args(mrb, "*", &args, &n);

    for (i = 0; i < n; i++) {
        ngx_http_sendfile_mrb_write(mrb, NGX_LOG_NOTICE, args[i]);
    }

    return mrb_nil_value();
}


static mrb_value
ngx_http_sendfile_mrb_p(mrb_state *mrb, mrb_value self)
{
    mrb_int           i, n;
    const mrb_value  *args;

    mrb_get_args(mrb, "*", &args, &n);

    for (i = 0; i < n; i++) {
        ngx_http_sendfile_mrb_write(mrb, NGX_LOG_NOTICE,
                                    mrb_inspect(mrb, args[i]));
    }

    return n ? args[0] : mrb_nil_value();
}
