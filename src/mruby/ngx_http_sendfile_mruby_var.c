
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * nginx's variables, and what is but another name of one.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_mruby.h"


#define NGX_HTTP_SENDFILE_MRB_MAX_NAME  256


static ngx_http_variable_value_t *ngx_http_sendfile_mrb_find(mrb_state *mrb,
    const char *name, size_t len);
static void ngx_http_sendfile_mrb_var_assign(mrb_state *mrb, const char *name,
    size_t len, mrb_value value);
static mrb_value ngx_http_sendfile_mrb_var_missing(mrb_state *mrb,
    mrb_value self);
static mrb_value ngx_http_sendfile_mrb_var_exist(mrb_state *mrb,
    mrb_value self);
static mrb_value ngx_http_sendfile_mrb_var_set(mrb_state *mrb,
    mrb_value self);
static mrb_value ngx_http_sendfile_mrb_remote_ip(mrb_state *mrb,
    mrb_value self);
static mrb_value ngx_http_sendfile_mrb_remote_port(mrb_state *mrb,
    mrb_value self);
static mrb_value ngx_http_sendfile_mrb_local_ip(mrb_state *mrb,
    mrb_value self);
static mrb_value ngx_http_sendfile_mrb_local_port(mrb_state *mrb,
    mrb_value self);


static const ngx_http_sendfile_mrb_method_t  ngx_http_sendfile_mrb_var[] = {

    { "method_missing", ngx_http_sendfile_mrb_var_missing, MRB_ARGS_ANY() },
    { "exist?", ngx_http_sendfile_mrb_var_exist, MRB_ARGS_REQ(1) },
    { "set", ngx_http_sendfile_mrb_var_set, MRB_ARGS_REQ(2) },
    { NULL, NULL, 0 }
};


static const ngx_http_sendfile_mrb_method_t
    ngx_http_sendfile_mrb_connection[] =
{
    { "remote_ip", ngx_http_sendfile_mrb_remote_ip, MRB_ARGS_NONE() },
    { "remote_port", ngx_http_sendfile_mrb_remote_port, MRB_ARGS_NONE() },
    { "local_ip", ngx_http_sendfile_mrb_local_ip, MRB_ARGS_NONE() },
    { "local_port", ngx_http_sendfile_mrb_local_port, MRB_ARGS_NONE() },
    { NULL, NULL, 0 }
};


void
ngx_http_sendfile_mrb_init_var(mrb_state *mrb, struct RClass *nginx)
{
    struct RClass  *c;

    c = mrb_define_class_under(mrb, nginx, "Var", mrb->object_class);
    ngx_http_sendfile_mrb_methods(mrb, c, ngx_http_sendfile_mrb_var);

    c = mrb_define_class_under(mrb, nginx, "Connection", mrb->object_class);
    ngx_http_sendfile_mrb_methods(mrb, c, ngx_http_sendfile_mrb_connection);

    (void) mrb_define_class_under(mrb, nginx, "Server", mrb->object_class);
}


mrb_value
ngx_http_sendfile_mrb_variable(mrb_state *mrb, const char *name, size_t len)
{
    ngx_http_variable_value_t  *v;

    v = ngx_http_sendfile_mrb_find(mrb, name, len);

    if (v == NULL || v->not_found) {
        return mrb_nil_value();
    }

    return mrb_str_new(mrb, (const char *) v->data, v->len);
}


static ngx_http_variable_value_t *
ngx_http_sendfile_mrb_find(mrb_state *mrb, const char *name, size_t len)
{
    ngx_str_t            s;
    ngx_uint_t           key;
    ngx_http_request_t  *r;
    u_char               low[NGX_HTTP_SENDFILE_MRB_MAX_NAME];

    r = ngx_http_sendfile_mrb_request(mrb);

    if (len == 0 || len > NGX_HTTP_SENDFILE_MRB_MAX_NAME) {
        return NULL;
    }

    key = ngx_hash_strlow(low, (u_char *) name, len);

    s.data = low;
    s.len = len;

    return ngx_http_get_variable(r, &s, key);
}


static void
ngx_http_sendfile_mrb_var_assign(mrb_state *mrb, const char *name, size_t len,
    mrb_value value)
{
    ngx_str_t                   s;
    ngx_uint_t                  key;
    ngx_http_request_t         *r;
    ngx_http_variable_t        *v;
    ngx_http_variable_value_t  *vv;
    ngx_http_core_main_conf_t  *cmcf;
    u_char                      low[NGX_HTTP_SENDFILE_MRB_MAX_NAME];

    r = ngx_http_sendfile_mrb_request(mrb);
    v = NULL;

    if (len && len <= NGX_HTTP_SENDFILE_MRB_MAX_NAME) {
        cmcf = ngx_http_get_module_main_conf(r, ngx_http_core_module);

        key = ngx_hash_strlow(low, (u_char *) name, len);
        v = ngx_hash_find(&cmcf->variables_hash, key, low, len);
    }

    if (v == NULL
        || !(v->flags & NGX_HTTP_VAR_CHANGEABLE)
        || (v->set_handler == NULL && !(v->flags & NGX_HTTP_VAR_INDEXED)))
    {
        mrb_raisef(mrb, E_ARGUMENT_ERROR, "$%l cannot be set: it needs a "
                   "\"set\" or \"mruby_set\" in the configuration", name,
                   len);
    }

    value = mrb_obj_as_string(mrb, value);
    ngx_http_sendfile_mrb_copy(mrb, value, &s);

    if (len == 4 && ngx_memcmp(low, "args", 4) == 0) {
        ngx_http_sendfile_mrb_check_args(mrb, s.data, s.len);
    }

    if (v->set_handler) {
        vv = ngx_http_sendfile_mrb_palloc(mrb,
                                          sizeof(ngx_http_variable_value_t));
    } else {
        vv = &r->variables[v->index];
    }

    ngx_memzero(vv, sizeof(ngx_http_variable_value_t));

    vv->valid = 1;
    vv->data = s.data;
    vv->len = s.len;

    if (v->set_handler) {
        v->set_handler(r, vv, v->data);
    }
}


static mrb_value
ngx_http_sendfile_mrb_var_missing(mrb_state *mrb, mrb_value self)
{
    mrb_int           n, len;
    mrb_sym           id;
    const char       *name;
    const mrb_value  *args;

    mrb_get_args(mrb, "n*", &id, &args, &n);

    name = mrb_sym_name_len(mrb, id, &len);

    if (n == 1 && len > 1 && name[len - 1] == '=') {
        ngx_http_sendfile_mrb_var_assign(mrb, name, len - 1, args[0]);
        return args[0];
    }

    if (n != 0) {
        mrb_raisef(mrb, E_ARGUMENT_ERROR, "a variable takes no arguments");
    }

    return ngx_http_sendfile_mrb_variable(mrb, name, len);
}


static mrb_value
ngx_http_sendfile_mrb_var_exist(mrb_state *mrb, mrb_value self)
{
    mrb_int                     len;
    const char                 *name;
    ngx_http_variable_value_t  *v;

    mrb_get_args(mrb, "s", &name, &len);

    v = ngx_http_sendfile_mrb_find(mrb, name, len);

    return mrb_bool_value(v && !v->not_found);
}


static mrb_value
ngx_http_sendfile_mrb_var_set(mrb_state *mrb, mrb_value self)
{
    mrb_value  name, value;

    mrb_get_args(mrb, "oo", &name, &value);

    name = mrb_obj_as_string(mrb, name);

    ngx_http_sendfile_mrb_var_assign(mrb, RSTRING_PTR(name),
                                     RSTRING_LEN(name), value);
    return value;
}


static mrb_value
ngx_http_sendfile_mrb_remote_ip(mrb_state *mrb, mrb_value self)
{
    return ngx_http_sendfile_mrb_variable(mrb, "remote_addr", 11);
}


static mrb_value
ngx_http_sendfile_mrb_remote_port(mrb_state *mrb, mrb_value self)
{
    return ngx_http_sendfile_mrb_variable(mrb, "remote_port", 11);
}


static mrb_value
ngx_http_sendfile_mrb_local_ip(mrb_state *mrb, mrb_value self)
{
    return ngx_http_sendfile_mrb_variable(mrb, "server_addr", 11);
}


static mrb_value
ngx_http_sendfile_mrb_local_port(mrb_state *mrb, mrb_value self)
{
    return ngx_http_sendfile_mrb_variable(mrb, "server_port", 11);
}
