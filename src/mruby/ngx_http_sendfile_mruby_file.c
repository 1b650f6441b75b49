
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * The module Sendfile: what has been found, and what is to become of it.
 * What a script makes of a record is checked by the core.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_mruby.h"


static ngx_http_sendfile_script_t *ngx_http_sendfile_mrb_file(
    mrb_state *mrb);
static mrb_value ngx_http_sendfile_mrb_slice(mrb_state *mrb,
    const nsf_str_t *s);
static mrb_value ngx_http_sendfile_mrb_slot(mrb_state *mrb, nsf_str_t *s);
static void ngx_http_sendfile_mrb_nsf(mrb_state *mrb, mrb_value value,
    nsf_str_t *s);
static mrb_value ngx_http_sendfile_mrb_file_id(mrb_state *mrb,
    mrb_value self);
static mrb_value ngx_http_sendfile_mrb_file_key(mrb_state *mrb,
    mrb_value self);
static mrb_value ngx_http_sendfile_mrb_file_record(mrb_state *mrb,
    mrb_value self);
static mrb_value ngx_http_sendfile_mrb_file_refuse(mrb_state *mrb,
    mrb_value self);
static mrb_value ngx_http_sendfile_mrb_file_fallback(mrb_state *mrb,
    mrb_value self);
static mrb_value ngx_http_sendfile_mrb_path(mrb_state *mrb, mrb_value self);
static mrb_value ngx_http_sendfile_mrb_set_path(mrb_state *mrb,
    mrb_value self);
static mrb_value ngx_http_sendfile_mrb_type(mrb_state *mrb, mrb_value self);
static mrb_value ngx_http_sendfile_mrb_set_type(mrb_state *mrb,
    mrb_value self);
static mrb_value ngx_http_sendfile_mrb_name(mrb_state *mrb, mrb_value self);
static mrb_value ngx_http_sendfile_mrb_set_name(mrb_state *mrb,
    mrb_value self);
static mrb_value ngx_http_sendfile_mrb_disposition(mrb_state *mrb,
    mrb_value self);
static mrb_value ngx_http_sendfile_mrb_set_disposition(mrb_state *mrb,
    mrb_value self);
static mrb_value ngx_http_sendfile_mrb_headers(mrb_state *mrb,
    mrb_value self);
static mrb_value ngx_http_sendfile_mrb_set_headers(mrb_state *mrb,
    mrb_value self);
static void ngx_http_sendfile_mrb_keep_headers(mrb_state *mrb,
    mrb_value headers);


static const ngx_http_sendfile_mrb_method_t
    ngx_http_sendfile_mrb_file_functions[] =
{
    { "id", ngx_http_sendfile_mrb_file_id, MRB_ARGS_NONE() },
    { "key", ngx_http_sendfile_mrb_file_key, MRB_ARGS_NONE() },
    { "record", ngx_http_sendfile_mrb_file_record, MRB_ARGS_NONE() },
    { "refuse", ngx_http_sendfile_mrb_file_refuse, MRB_ARGS_OPT(1) },
    { "fallback", ngx_http_sendfile_mrb_file_fallback, MRB_ARGS_REQ(1) },
    { "fallback=", ngx_http_sendfile_mrb_file_fallback, MRB_ARGS_REQ(1) },
    { NULL, NULL, 0 }
};


static const ngx_http_sendfile_mrb_method_t
    ngx_http_sendfile_mrb_record_methods[] =
{
    { "path", ngx_http_sendfile_mrb_path, MRB_ARGS_NONE() },
    { "path=", ngx_http_sendfile_mrb_set_path, MRB_ARGS_REQ(1) },
    { "type", ngx_http_sendfile_mrb_type, MRB_ARGS_NONE() },
    { "type=", ngx_http_sendfile_mrb_set_type, MRB_ARGS_REQ(1) },
    { "name", ngx_http_sendfile_mrb_name, MRB_ARGS_NONE() },
    { "name=", ngx_http_sendfile_mrb_set_name, MRB_ARGS_REQ(1) },
    { "disposition", ngx_http_sendfile_mrb_disposition, MRB_ARGS_NONE() },
    { "disposition=", ngx_http_sendfile_mrb_set_disposition,
      MRB_ARGS_REQ(1) },
    { "headers", ngx_http_sendfile_mrb_headers, MRB_ARGS_NONE() },
    { "headers=", ngx_http_sendfile_mrb_set_headers, MRB_ARGS_REQ(1) },
    { NULL, NULL, 0 }
};


void
ngx_http_sendfile_mrb_init_file(mrb_state *mrb)
{
    struct RClass  *c, *sendfile;

    sendfile = mrb_define_module(mrb, "Sendfile");
    ngx_http_sendfile_mrb_functions(mrb, sendfile,
                                    ngx_http_sendfile_mrb_file_functions);

    c = mrb_define_class_under(mrb, sendfile, "Record", mrb->object_class);
    ngx_http_sendfile_mrb_methods(mrb, c,
                                  ngx_http_sendfile_mrb_record_methods);
}


/* puts the Hash that the script got from record.headers into the target */

void
ngx_http_sendfile_mrb_file_done(mrb_state *mrb)
{
    mrb_int                      i, n;
    mrb_value                    keys, key, value;
    nsf_header_t                *headers;
    ngx_http_sendfile_mrb_vm_t  *vm;

    vm = ngx_http_sendfile_mrb_vm(mrb);

    if (vm->file == NULL || mrb_nil_p(vm->headers)) {
        return;
    }

    keys = mrb_hash_keys(mrb, vm->headers);
    n = RARRAY_LEN(keys);

    if (n > NSF_MAX_HEADERS) {
        mrb_raisef(mrb, E_ARGUMENT_ERROR, "more than %i headers",
                   (mrb_int) NSF_MAX_HEADERS);
    }

    headers = ngx_http_sendfile_mrb_palloc(mrb, (n + 1)
                                                * sizeof(nsf_header_t));

    for (i = 0; i < n; i++) {
        key = mrb_ary_ref(mrb, keys, i);
        value = mrb_hash_get(mrb, vm->headers, key);

        ngx_http_sendfile_mrb_nsf(mrb, key, &headers[i].name);
        ngx_http_sendfile_mrb_nsf(mrb, value, &headers[i].value);
    }

    vm->file->target->headers = headers;
    vm->file->target->nheaders = n;
}


static ngx_http_sendfile_script_t *
ngx_http_sendfile_mrb_file(mrb_state *mrb)
{
    ngx_http_sendfile_mrb_vm_t  *vm;

    vm = ngx_http_sendfile_mrb_vm(mrb);

    if (vm->file == NULL) {
        mrb_raise(mrb, E_RUNTIME_ERROR, "there is a record only in "
                  "http_sendfile_ruby and http_sendfile_ruby_code");
    }

    return vm->file;
}


static mrb_value
ngx_http_sendfile_mrb_slice(mrb_state *mrb, const nsf_str_t *s)
{
    return s->len ? mrb_str_new(mrb, (const char *) s->data, s->len)
                  : mrb_nil_value();
}


/* sets a string of the target to the argument, nil removes it */

static mrb_value
ngx_http_sendfile_mrb_slot(mrb_state *mrb, nsf_str_t *s)
{
    mrb_value  value;

    value = mrb_get_arg1(mrb);

    if (mrb_nil_p(value)) {
        s->len = 0;

    } else {
        ngx_http_sendfile_mrb_nsf(mrb, value, s);
    }

    return value;
}


static void
ngx_http_sendfile_mrb_nsf(mrb_state *mrb, mrb_value value, nsf_str_t *s)
{
    ngx_str_t  copy;

    ngx_http_sendfile_mrb_copy(mrb, mrb_obj_as_string(mrb, value), &copy);

    s->data = copy.data;
    s->len = copy.len;
}


static mrb_value
ngx_http_sendfile_mrb_file_id(mrb_state *mrb, mrb_value self)
{
    return ngx_http_sendfile_mrb_str(mrb,
                                     &ngx_http_sendfile_mrb_file(mrb)->id);
}


static mrb_value
ngx_http_sendfile_mrb_file_key(mrb_state *mrb, mrb_value self)
{
    return ngx_http_sendfile_mrb_str(mrb,
                                     &ngx_http_sendfile_mrb_file(mrb)->key);
}


static mrb_value
ngx_http_sendfile_mrb_file_record(mrb_state *mrb, mrb_value self)
{
    (void) ngx_http_sendfile_mrb_file(mrb);

    return mrb_obj_new(mrb, mrb_class_get_under(mrb, mrb_class_ptr(self),
                                                "Record"), 0, NULL);
}


static mrb_value
ngx_http_sendfile_mrb_file_refuse(mrb_state *mrb, mrb_value self)
{
    mrb_int                      code;
    ngx_http_sendfile_script_t  *s;

    code = NGX_HTTP_FORBIDDEN;

    mrb_get_args(mrb, "|i", &code);

    s = ngx_http_sendfile_mrb_file(mrb);

    if (code < 400 || code > 599 || code == NGX_HTTP_REQUEST_TIME_OUT
        || code == NGX_HTTP_CLOSE || code == NGX_HTTP_CLIENT_CLOSED_REQUEST)
    {
        mrb_raisef(mrb, E_ARGUMENT_ERROR, "%i is no status to refuse a file "
                   "with: 400 to 599 are, but for 408, 444 and 499", code);
    }

    s->code = (ngx_uint_t) code;
    ngx_str_null(&s->fallback);

    return self;
}


static mrb_value
ngx_http_sendfile_mrb_file_fallback(mrb_state *mrb, mrb_value self)
{
    mrb_value                    to;
    ngx_http_sendfile_script_t  *s;

    mrb_get_args(mrb, "S", &to);

    s = ngx_http_sendfile_mrb_file(mrb);

    if (RSTRING_LEN(to) < 2
        || (RSTRING_PTR(to)[0] != '@' && RSTRING_PTR(to)[0] != '/'))
    {
        mrb_raise(mrb, E_ARGUMENT_ERROR, "a fallback is a named location "
                  "(\"@app\") or a URI (\"/app\")");
    }

    ngx_http_sendfile_mrb_copy(mrb, to, &s->fallback);
    s->code = 0;

    return self;
}


static mrb_value
ngx_http_sendfile_mrb_path(mrb_state *mrb, mrb_value self)
{
    return ngx_http_sendfile_mrb_slice(mrb,
                            &ngx_http_sendfile_mrb_file(mrb)->target->path);
}


static mrb_value
ngx_http_sendfile_mrb_set_path(mrb_state *mrb, mrb_value self)
{
    return ngx_http_sendfile_mrb_slot(mrb,
                            &ngx_http_sendfile_mrb_file(mrb)->target->path);
}


static mrb_value
ngx_http_sendfile_mrb_type(mrb_state *mrb, mrb_value self)
{
    return ngx_http_sendfile_mrb_slice(mrb,
                            &ngx_http_sendfile_mrb_file(mrb)->target->type);
}


static mrb_value
ngx_http_sendfile_mrb_set_type(mrb_state *mrb, mrb_value self)
{
    return ngx_http_sendfile_mrb_slot(mrb,
                            &ngx_http_sendfile_mrb_file(mrb)->target->type);
}


static mrb_value
ngx_http_sendfile_mrb_name(mrb_state *mrb, mrb_value self)
{
    return ngx_http_sendfile_mrb_slice(mrb,
                            &ngx_http_sendfile_mrb_file(mrb)->target->name);
}


static mrb_value
ngx_http_sendfile_mrb_set_name(mrb_state *mrb, mrb_value self)
{
    mrb_value      value;
    nsf_target_t  *t;

    t = ngx_http_sendfile_mrb_file(mrb)->target;
    value = ngx_http_sendfile_mrb_slot(mrb, &t->name);

    /* as a record with a name and nothing else about it */

    if (t->name.len && t->disposition == NSF_DISPOSITION_NONE) {
        t->disposition = NSF_DISPOSITION_NAMED;
    }

    return value;
}


static mrb_value
ngx_http_sendfile_mrb_disposition(mrb_state *mrb, mrb_value self)
{
    switch (ngx_http_sendfile_mrb_file(mrb)->target->disposition) {

    case NSF_DISPOSITION_INLINE:
    case NSF_DISPOSITION_NAMED:
        return mrb_str_new_lit(mrb, "inline");

    case NSF_DISPOSITION_ATTACHMENT:
        return mrb_str_new_lit(mrb, "attachment");

    default: /* NSF_DISPOSITION_NONE */
        return mrb_nil_value();
    }
}


static mrb_value
ngx_http_sendfile_mrb_set_disposition(mrb_state *mrb, mrb_value self)
{
    mrb_value      value, s;
    nsf_target_t  *t;

    value = mrb_get_arg1(mrb);
    t = ngx_http_sendfile_mrb_file(mrb)->target;

    if (mrb_nil_p(value)) {
        t->disposition = t->name.len ? NSF_DISPOSITION_NAMED
                                     : NSF_DISPOSITION_NONE;
        return value;
    }

    s = mrb_obj_as_string(mrb, value);

    if (mrb_str_equal(mrb, s, mrb_str_new_lit(mrb, "inline"))) {
        t->disposition = NSF_DISPOSITION_INLINE;

    } else if (mrb_str_equal(mrb, s, mrb_str_new_lit(mrb, "attachment"))) {
        t->disposition = NSF_DISPOSITION_ATTACHMENT;

    } else {
        mrb_raise(mrb, E_ARGUMENT_ERROR,
                  "a disposition is \"inline\" or \"attachment\"");
    }

    return value;
}


static mrb_value
ngx_http_sendfile_mrb_headers(mrb_state *mrb, mrb_value self)
{
    size_t                       i;
    mrb_value                    headers;
    nsf_target_t                *t;
    ngx_http_sendfile_mrb_vm_t  *vm;

    vm = ngx_http_sendfile_mrb_vm(mrb);
    t = ngx_http_sendfile_mrb_file(mrb)->target;

    if (!mrb_nil_p(vm->headers)) {
        return vm->headers;
    }

    headers = mrb_hash_new(mrb);

    for (i = 0; i < t->nheaders; i++) {
        mrb_hash_set(mrb, headers,
                   ngx_http_sendfile_mrb_slice(mrb, &t->headers[i].name),
                   ngx_http_sendfile_mrb_slice(mrb, &t->headers[i].value));
    }

    ngx_http_sendfile_mrb_keep_headers(mrb, headers);

    return headers;
}


static mrb_value
ngx_http_sendfile_mrb_set_headers(mrb_state *mrb, mrb_value self)
{
    mrb_value  headers;

    mrb_get_args(mrb, "H", &headers);

    (void) ngx_http_sendfile_mrb_file(mrb);
    ngx_http_sendfile_mrb_keep_headers(mrb, headers);

    return headers;
}


static void
ngx_http_sendfile_mrb_keep_headers(mrb_state *mrb, mrb_value headers)
{
    ngx_http_sendfile_mrb_vm_t  *vm;

    vm = ngx_http_sendfile_mrb_vm(mrb);

    if (!mrb_nil_p(vm->headers)) {
        mrb_gc_unregister(mrb, vm->headers);
        vm->headers = mrb_nil_value();
    }

    mrb_gc_register(mrb, headers);
    vm->headers = headers;
}
