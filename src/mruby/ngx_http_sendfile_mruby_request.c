
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Nginx::Request: what the client has sent.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_mruby.h"


static mrb_value ngx_http_sendfile_mrb_request_line(mrb_state *mrb,
    mrb_value self);
static mrb_value ngx_http_sendfile_mrb_uri(mrb_state *mrb, mrb_value self);
static mrb_value ngx_http_sendfile_mrb_set_uri(mrb_state *mrb,
    mrb_value self);
static mrb_value ngx_http_sendfile_mrb_unparsed_uri(mrb_state *mrb,
    mrb_value self);
static mrb_value ngx_http_sendfile_mrb_method(mrb_state *mrb, mrb_value self);
static mrb_value ngx_http_sendfile_mrb_protocol(mrb_state *mrb,
    mrb_value self);
static mrb_value ngx_http_sendfile_mrb_args(mrb_state *mrb, mrb_value self);
static mrb_value ngx_http_sendfile_mrb_set_args(mrb_state *mrb,
    mrb_value self);
static mrb_value ngx_http_sendfile_mrb_content_type(mrb_state *mrb,
    mrb_value self);
static mrb_value ngx_http_sendfile_mrb_set_content_type(mrb_state *mrb,
    mrb_value self);
static mrb_value ngx_http_sendfile_mrb_hostname(mrb_state *mrb,
    mrb_value self);
static mrb_value ngx_http_sendfile_mrb_authority(mrb_state *mrb,
    mrb_value self);
static mrb_value ngx_http_sendfile_mrb_filename(mrb_state *mrb,
    mrb_value self);
static mrb_value ngx_http_sendfile_mrb_user(mrb_state *mrb, mrb_value self);
static mrb_value ngx_http_sendfile_mrb_is_subrequest(mrb_state *mrb,
    mrb_value self);
static mrb_value ngx_http_sendfile_mrb_get_body(mrb_state *mrb,
    mrb_value self);
static void ngx_http_sendfile_mrb_read_buf(mrb_state *mrb,
    ngx_http_request_t *r, mrb_value body, ngx_buf_t *b);
static mrb_value ngx_http_sendfile_mrb_part(mrb_state *mrb, mrb_value self,
    const char *name);
static mrb_value ngx_http_sendfile_mrb_request_var(mrb_state *mrb,
    mrb_value self);
static mrb_value ngx_http_sendfile_mrb_request_in(mrb_state *mrb,
    mrb_value self);
static mrb_value ngx_http_sendfile_mrb_request_out(mrb_state *mrb,
    mrb_value self);


static const ngx_http_sendfile_mrb_method_t
    ngx_http_sendfile_mrb_request_methods[] =
{
    { "request_line", ngx_http_sendfile_mrb_request_line, MRB_ARGS_NONE() },
    { "uri", ngx_http_sendfile_mrb_uri, MRB_ARGS_NONE() },
    { "uri=", ngx_http_sendfile_mrb_set_uri, MRB_ARGS_REQ(1) },
    { "unparsed_uri", ngx_http_sendfile_mrb_unparsed_uri, MRB_ARGS_NONE() },
    { "method", ngx_http_sendfile_mrb_method, MRB_ARGS_NONE() },
    { "protocol", ngx_http_sendfile_mrb_protocol, MRB_ARGS_NONE() },
    { "args", ngx_http_sendfile_mrb_args, MRB_ARGS_NONE() },
    { "args=", ngx_http_sendfile_mrb_set_args, MRB_ARGS_REQ(1) },
    { "content_type", ngx_http_sendfile_mrb_content_type, MRB_ARGS_NONE() },
    { "content_type=", ngx_http_sendfile_mrb_set_content_type,
      MRB_ARGS_REQ(1) },
    { "hostname", ngx_http_sendfile_mrb_hostname, MRB_ARGS_NONE() },
    { "authority", ngx_http_sendfile_mrb_authority, MRB_ARGS_NONE() },
    { "filename", ngx_http_sendfile_mrb_filename, MRB_ARGS_NONE() },
    { "user", ngx_http_sendfile_mrb_user, MRB_ARGS_NONE() },
    { "sub_request?", ngx_http_sendfile_mrb_is_subrequest, MRB_ARGS_NONE() },
    { "body", ngx_http_sendfile_mrb_get_body, MRB_ARGS_NONE() },
    { "get_body", ngx_http_sendfile_mrb_get_body, MRB_ARGS_NONE() },
    { "var", ngx_http_sendfile_mrb_request_var, MRB_ARGS_NONE() },
    { "headers_in", ngx_http_sendfile_mrb_request_in, MRB_ARGS_NONE() },
    { "headers_out", ngx_http_sendfile_mrb_request_out, MRB_ARGS_NONE() },
    { NULL, NULL, 0 }
};


void
ngx_http_sendfile_mrb_init_request(mrb_state *mrb, struct RClass *nginx)
{
    struct RClass  *c;

    c = mrb_define_class_under(mrb, nginx, "Request", mrb->object_class);

    ngx_http_sendfile_mrb_methods(mrb, c,
                                  ngx_http_sendfile_mrb_request_methods);
}


static mrb_value
ngx_http_sendfile_mrb_request_line(mrb_state *mrb, mrb_value self)
{
    return ngx_http_sendfile_mrb_variable(mrb, "request", 7);
}


static mrb_value
ngx_http_sendfile_mrb_uri(mrb_state *mrb, mrb_value self)
{
    return ngx_http_sendfile_mrb_str(mrb,
                                  &ngx_http_sendfile_mrb_request(mrb)->uri);
}


/* as a rewrite without a new search for the location */

static mrb_value
ngx_http_sendfile_mrb_set_uri(mrb_state *mrb, mrb_value self)
{
    mrb_value            value;
    ngx_str_t            uri, args;
    ngx_uint_t           flags;
    ngx_http_request_t  *r;

    mrb_get_args(mrb, "S", &value);

    r = ngx_http_sendfile_mrb_request(mrb);

    ngx_http_sendfile_mrb_copy(mrb, value, &uri);

    ngx_str_null(&args);
    flags = NGX_HTTP_LOG_UNSAFE;

    if (uri.len == 0 || uri.data[0] != '/'
        || ngx_strlchr(uri.data, uri.data + uri.len, '?')
        || ngx_http_parse_unsafe_uri(r, &uri, &args, &flags) != NGX_OK)
    {
        mrb_raise(mrb, E_ARGUMENT_ERROR, "unsafe or relative URI");
    }

    r->uri = uri;
    r->valid_unparsed_uri = 0;

    ngx_http_set_exten(r);

    return value;
}


static mrb_value
ngx_http_sendfile_mrb_unparsed_uri(mrb_state *mrb, mrb_value self)
{
    return ngx_http_sendfile_mrb_str(mrb,
                         &ngx_http_sendfile_mrb_request(mrb)->unparsed_uri);
}


static mrb_value
ngx_http_sendfile_mrb_method(mrb_state *mrb, mrb_value self)
{
    return ngx_http_sendfile_mrb_str(mrb,
                          &ngx_http_sendfile_mrb_request(mrb)->method_name);
}


static mrb_value
ngx_http_sendfile_mrb_protocol(mrb_state *mrb, mrb_value self)
{
    return ngx_http_sendfile_mrb_variable(mrb, "server_protocol", 15);
}


static mrb_value
ngx_http_sendfile_mrb_args(mrb_state *mrb, mrb_value self)
{
    return ngx_http_sendfile_mrb_str(mrb,
                                 &ngx_http_sendfile_mrb_request(mrb)->args);
}


/* arguments may become part of the request line to an upstream */

void
ngx_http_sendfile_mrb_check_args(mrb_state *mrb, u_char *args, size_t len)
{
    size_t  i;

    for (i = 0; i < len; i++) {
        if (args[i] <= 0x20 || args[i] == 0x7f) {
            mrb_raise(mrb, E_ARGUMENT_ERROR,
                      "space or control byte in arguments");
        }
    }
}


static mrb_value
ngx_http_sendfile_mrb_set_args(mrb_state *mrb, mrb_value self)
{
    mrb_value            value;
    ngx_str_t            args;
    ngx_http_request_t  *r;

    mrb_get_args(mrb, "S", &value);

    r = ngx_http_sendfile_mrb_request(mrb);

    ngx_http_sendfile_mrb_copy(mrb, value, &args);

    ngx_http_sendfile_mrb_check_args(mrb, args.data, args.len);

    r->args = args;
    r->valid_unparsed_uri = 0;

    return value;
}


static mrb_value
ngx_http_sendfile_mrb_content_type(mrb_state *mrb, mrb_value self)
{
    ngx_http_request_t  *r;

    r = ngx_http_sendfile_mrb_request(mrb);

    return ngx_http_sendfile_mrb_str(mrb, &r->headers_out.content_type);
}


static mrb_value
ngx_http_sendfile_mrb_set_content_type(mrb_state *mrb, mrb_value self)
{
    mrb_value   value;
    ngx_str_t   name, type;

    mrb_get_args(mrb, "S", &value);

    ngx_str_set(&name, "Content-Type");
    ngx_http_sendfile_mrb_copy(mrb, value, &type);

    ngx_http_sendfile_mrb_set_out(mrb, ngx_http_sendfile_mrb_request(mrb),
                                  &name, &type);
    return value;
}


static mrb_value
ngx_http_sendfile_mrb_hostname(mrb_state *mrb, mrb_value self)
{
    return ngx_http_sendfile_mrb_variable(mrb, "host", 4);
}


static mrb_value
ngx_http_sendfile_mrb_authority(mrb_state *mrb, mrb_value self)
{
    return ngx_http_sendfile_mrb_variable(mrb, "http_host", 9);
}


static mrb_value
ngx_http_sendfile_mrb_filename(mrb_state *mrb, mrb_value self)
{
    return ngx_http_sendfile_mrb_variable(mrb, "request_filename", 16);
}


static mrb_value
ngx_http_sendfile_mrb_user(mrb_state *mrb, mrb_value self)
{
    return ngx_http_sendfile_mrb_variable(mrb, "remote_user", 11);
}


static mrb_value
ngx_http_sendfile_mrb_is_subrequest(mrb_state *mrb, mrb_value self)
{
    ngx_http_request_t  *r;

    r = ngx_http_sendfile_mrb_request(mrb);

    return mrb_bool_value(r != r->main);
}


/* nil where it has not been read: only a content handler waits for it */

static mrb_value
ngx_http_sendfile_mrb_get_body(mrb_state *mrb, mrb_value self)
{
    mrb_value            body;
    ngx_chain_t         *cl;
    ngx_http_request_t  *r;

    r = ngx_http_sendfile_mrb_request(mrb);

    if (r->request_body == NULL || r->request_body->bufs == NULL) {
        return mrb_nil_value();
    }

    body = mrb_str_new_capa(mrb, 0);

    for (cl = r->request_body->bufs; cl; cl = cl->next) {
        ngx_http_sendfile_mrb_read_buf(mrb, r, body, cl->buf);
    }

    return body;
}


static void
ngx_http_sendfile_mrb_read_buf(mrb_state *mrb, ngx_http_request_t *r,
    mrb_value body, ngx_buf_t *b)
{
    off_t    size;
    ssize_t  n;
    mrb_int  len;

    if (ngx_buf_in_memory(b)) {
        mrb_str_cat(mrb, body, (const char *) b->pos, b->last - b->pos);
        return;
    }

    if (!b->in_file) {
        return;
    }

    size = b->file_last - b->file_pos;
    len = RSTRING_LEN(body);

    mrb_str_resize(mrb, body, len + (mrb_int) size);

    n = ngx_read_file(b->file, (u_char *) RSTRING_PTR(body) + len,
                      (size_t) size, b->file_pos);

    if (n != size) {
        mrb_raise(mrb, E_RUNTIME_ERROR, "the request's body cannot be read");
    }
}


/* an object that stands for a part of the request, made once */

static mrb_value
ngx_http_sendfile_mrb_part(mrb_state *mrb, mrb_value self, const char *name)
{
    mrb_sym         id;
    mrb_value       part;
    struct RClass  *nginx;

    id = mrb_intern_cstr(mrb, name);
    part = mrb_iv_get(mrb, self, id);

    if (mrb_nil_p(part)) {
        nginx = mrb_class_get(mrb, "Nginx");
        part = mrb_obj_new(mrb, mrb_class_get_under(mrb, nginx, name), 0,
                           NULL);
        mrb_iv_set(mrb, self, id, part);
    }

    return part;
}


static mrb_value
ngx_http_sendfile_mrb_request_var(mrb_state *mrb, mrb_value self)
{
    return ngx_http_sendfile_mrb_part(mrb, self, "Var");
}


static mrb_value
ngx_http_sendfile_mrb_request_in(mrb_state *mrb, mrb_value self)
{
    return ngx_http_sendfile_mrb_part(mrb, self, "Headers_in");
}


static mrb_value
ngx_http_sendfile_mrb_request_out(mrb_state *mrb, mrb_value self)
{
    return ngx_http_sendfile_mrb_part(mrb, self, "Headers_out");
}
