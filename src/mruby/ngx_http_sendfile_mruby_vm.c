
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * The VM of a worker, and how it runs a script.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_mruby.h"


typedef struct {
    ngx_http_sendfile_mrb_script_t     *script;
    ngx_pool_t                         *pool;
    ngx_str_t                          *result;
} ngx_http_sendfile_mrb_call_t;


static mrb_value ngx_http_sendfile_mrb_init(mrb_state *mrb, void *data);
static mrb_value ngx_http_sendfile_mrb_allocate(mrb_state *mrb,
    mrb_value self);
static void ngx_http_sendfile_mrb_start(ngx_http_sendfile_mrb_vm_t *vm,
    ngx_http_sendfile_mrb_script_t *script);
static ngx_int_t ngx_http_sendfile_mrb_load(ngx_http_sendfile_mrb_vm_t *vm,
    ngx_http_sendfile_mrb_script_t *script, ngx_pool_t *pool);
static ngx_int_t ngx_http_sendfile_mrb_reload(ngx_http_sendfile_mrb_vm_t *vm,
    ngx_http_sendfile_mrb_script_t *script, ngx_pool_t *pool,
    ngx_str_t *code);
static mrb_value ngx_http_sendfile_mrb_load_code(mrb_state *mrb, void *data);
static mrb_value ngx_http_sendfile_mrb_call(mrb_state *mrb, void *data);
static ngx_int_t ngx_http_sendfile_mrb_protect(ngx_http_sendfile_mrb_vm_t *vm,
    ngx_http_sendfile_mrb_call_t *call);
static void ngx_http_sendfile_mrb_finish(ngx_http_sendfile_mrb_vm_t *vm,
    ngx_log_t *log);
static ngx_uint_t ngx_http_sendfile_mrb_preallocated(mrb_state *mrb,
    mrb_value exc);
static ngx_uint_t ngx_http_sendfile_mrb_too_deep(mrb_state *mrb);
static void ngx_http_sendfile_mrb_forget_depth(mrb_state *mrb);


ngx_http_sendfile_mrb_vm_t *
ngx_http_sendfile_mrb_open(ngx_http_sendfile_mrb_main_conf_t *mmcf,
    ngx_log_t *log)
{
    mrb_bool                     error;
    ngx_http_sendfile_mrb_vm_t  *vm;

    vm = ngx_calloc(sizeof(ngx_http_sendfile_mrb_vm_t), log);
    if (vm == NULL) {
        return NULL;
    }

    vm->main = mmcf;
    vm->log = log;
    vm->limit_error = mrb_nil_value();
    vm->headers = mrb_nil_value();

    vm->mrb = mrb_open_allocf(ngx_http_sendfile_mrb_alloc, vm);

    if (vm->mrb == NULL) {
        ngx_log_error(NGX_LOG_ERR, log, 0, "mruby: cannot open a VM");
        ngx_free(vm);
        return NULL;
    }

    vm->mrb->ud = vm;
    mmcf->vm = vm;

    (void) mrb_protect_error(vm->mrb, ngx_http_sendfile_mrb_init, NULL,
                             &error);

    if (error) {
        ngx_log_error(NGX_LOG_ERR, log, 0, "mruby: cannot set up a VM");
        ngx_http_sendfile_mrb_close(mmcf);
        return NULL;
    }

    ngx_http_sendfile_mrb_hook(vm);

    ngx_http_sendfile_mrb_start(vm, mmcf->prelude);
    ngx_http_sendfile_mrb_start(vm, mmcf->init);
    ngx_http_sendfile_mrb_start(vm, mmcf->init_worker);

    mrb_full_gc(vm->mrb);

    vm->base = vm->used;
    vm->symbols = vm->mrb->symidx;

    /* only its depth limits an init script, which may have rescued that */

    vm->hit = 0;
    ngx_http_sendfile_mrb_forget_depth(vm->mrb);

    vm->gc_off = vm->mrb->gc.disabled;
    vm->gc_interval = vm->mrb->gc.interval_ratio;
    vm->gc_step = vm->mrb->gc.step_ratio;

    return vm;
}


void
ngx_http_sendfile_mrb_close(ngx_http_sendfile_mrb_main_conf_t *mmcf)
{
    ngx_uint_t                        i;
    ngx_http_sendfile_mrb_vm_t       *vm;
    ngx_http_sendfile_mrb_script_t  **script;

    vm = mmcf->vm;

    if (vm == NULL) {
        return;
    }

    mrb_close(vm->mrb);
    ngx_free(vm);

    mmcf->vm = NULL;

    script = mmcf->scripts.elts;

    for (i = 0; i < mmcf->scripts.nelts; i++) {
        script[i]->proc = NULL;
        script[i]->uniq = 0;
    }
}


static mrb_value
ngx_http_sendfile_mrb_init(mrb_state *mrb, void *data)
{
    struct RClass               *gc, *nginx;
    ngx_http_sendfile_mrb_vm_t  *vm;

    vm = ngx_http_sendfile_mrb_vm(mrb);
    gc = mrb_module_get(mrb, "GC");

    /* mruby 3.2 in its generational mode loses backtraces that are in use */

    mrb_funcall(mrb, mrb_obj_value(gc), "generational_mode=", 1,
                mrb_false_value());
    mrb_undef_class_method(mrb, gc, "generational_mode=");

    mrb_define_method(mrb, mrb->class_class, "allocate",
                      ngx_http_sendfile_mrb_allocate, MRB_ARGS_NONE());

    nginx = mrb_define_class(mrb, "Nginx", mrb->object_class);

    /* no StandardError: a plain "rescue" is not meant for it */

    vm->limit_class = mrb_define_class_under(mrb, nginx, "LimitExceeded",
                                             mrb->eException_class);

    ngx_http_sendfile_mrb_init_nginx(mrb, nginx);
    ngx_http_sendfile_mrb_init_request(mrb, nginx);
    ngx_http_sendfile_mrb_init_headers(mrb, nginx);
    ngx_http_sendfile_mrb_init_var(mrb, nginx);
    ngx_http_sendfile_mrb_init_file(mrb);

    return mrb_nil_value();
}


/*
 * Class#allocate, in place of mruby's, which also makes objects that mruby
 * itself takes for finished ones: a Proc without code, a String whose bytes
 * are at NULL.
 */

static mrb_value
ngx_http_sendfile_mrb_allocate(mrb_state *mrb, mrb_value self)
{
    mrb_value       s;
    struct RClass  *c;

    c = mrb_class_ptr(self);

    if (c->tt == MRB_TT_SCLASS) {
        mrb_raise(mrb, E_TYPE_ERROR, "can't create instance of singleton "
                  "class");
    }

    if (c == mrb->nil_class || c == mrb->false_class) {
        mrb_raisef(mrb, E_TYPE_ERROR, "allocator undefined for %v", self);
    }

    switch (MRB_INSTANCE_TT(c)) {

    case MRB_TT_FALSE:
        return mrb_obj_value(mrb_obj_alloc(mrb, MRB_TT_OBJECT, c));

    case MRB_TT_STRING:
        s = mrb_str_new(mrb, NULL, 0);
        mrb_basic_ptr(s)->c = c;
        return s;

    /* their methods refuse an object that is not initialized, or do well */

    case MRB_TT_OBJECT:
    case MRB_TT_ARRAY:
    case MRB_TT_HASH:
    case MRB_TT_RANGE:
    case MRB_TT_STRUCT:
    case MRB_TT_EXCEPTION:
    case MRB_TT_FIBER:
    case MRB_TT_MODULE:
    case MRB_TT_ISTRUCT:
    case MRB_TT_DATA:
        return mrb_obj_value(mrb_obj_alloc(mrb, MRB_INSTANCE_TT(c), c));

    default:
        mrb_raisef(mrb, E_TYPE_ERROR, "allocator undefined for %v", self);
    }

    return mrb_nil_value();
}


/* runs a script once in a VM, without a request and without limits */

static void
ngx_http_sendfile_mrb_start(ngx_http_sendfile_mrb_vm_t *vm,
    ngx_http_sendfile_mrb_script_t *script)
{
    ngx_pool_t                    *pool;
    ngx_http_sendfile_mrb_call_t   call;

    if (script == NULL) {
        return;
    }

    pool = ngx_create_pool(NGX_MIN_POOL_SIZE, vm->log);
    if (pool == NULL) {
        return;
    }

    if (ngx_http_sendfile_mrb_load(vm, script, pool) == NGX_OK) {
        call.script = script;
        call.pool = pool;
        call.result = NULL;

        (void) ngx_http_sendfile_mrb_protect(vm, &call);

        ngx_http_sendfile_mrb_unlimit(vm);
    }

    ngx_destroy_pool(pool);
}


static ngx_int_t
ngx_http_sendfile_mrb_load(ngx_http_sendfile_mrb_vm_t *vm,
    ngx_http_sendfile_mrb_script_t *script, ngx_pool_t *pool)
{
    ngx_int_t  rc;
    ngx_str_t  code;
    mrb_bool   error;
    mrb_value  proc;

    code = script->code;

    if (script->watch) {
        rc = ngx_http_sendfile_mrb_reload(vm, script, pool, &code);

        if (rc != NGX_OK) {
            return (rc == NGX_DECLINED && script->proc) ? NGX_OK : NGX_ERROR;
        }

        if (script->proc) {
            mrb_gc_unregister(vm->mrb, mrb_obj_value(script->proc));
            script->proc = NULL;
        }

    } else if (script->proc) {
        return NGX_OK;
    }

    proc = mrb_protect_error(vm->mrb, ngx_http_sendfile_mrb_load_code, &code,
                             &error);

    if (error) {
        ngx_log_error(NGX_LOG_ERR, vm->log, 0,
                      "mruby: \"%V\" cannot be loaded", &script->name);

        /* a watched file is read again */
        script->uniq = 0;

        return NGX_ERROR;
    }

    script->proc = mrb_proc_ptr(proc);

    return NGX_OK;
}


/* NGX_DECLINED: the file is what it was */

static ngx_int_t
ngx_http_sendfile_mrb_reload(ngx_http_sendfile_mrb_vm_t *vm,
    ngx_http_sendfile_mrb_script_t *script, ngx_pool_t *pool, ngx_str_t *code)
{
    ngx_int_t                      rc;
    ngx_str_t                      source;
    ngx_file_info_t                fi;
    ngx_http_sendfile_mrb_error_t  err;

    if (ngx_file_info(script->name.data, &fi) == NGX_FILE_ERROR) {
        ngx_log_error(NGX_LOG_ERR, vm->log, ngx_errno,
                      "mruby: " ngx_file_info_n " \"%V\" failed",
                      &script->name);
        return NGX_ERROR;
    }

    if (ngx_file_uniq(&fi) == script->uniq
        && ngx_file_size(&fi) == script->size
        && fi.st_mtim.tv_sec == script->mtime.tv_sec
        && fi.st_mtim.tv_nsec == script->mtime.tv_nsec)
    {
        return NGX_DECLINED;
    }

    if (ngx_http_sendfile_mrb_read(pool, vm->log, &script->name, &source, &fi)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    rc = ngx_http_sendfile_mrb_compile(pool, &source, &script->name, 1, code,
                                       &err);

    if (rc == NGX_DECLINED) {
        ngx_log_error(NGX_LOG_ERR, vm->log, 0, "mruby: %V:%ui: %s",
                      &script->name, err.line, err.text);
    }

    if (rc != NGX_OK) {
        return NGX_ERROR;
    }

    script->uniq = ngx_file_uniq(&fi);
    script->size = ngx_file_size(&fi);
    script->mtime = fi.st_mtim;

    return NGX_OK;
}


static mrb_value
ngx_http_sendfile_mrb_load_code(mrb_state *mrb, void *data)
{
    ngx_str_t *code = data;

    mrb_value      proc;
    mrbc_context  *c;

    c = mrbc_context_new(mrb);
    c->no_exec = 1;

    proc = mrb_load_irep_buf_cxt(mrb, code->data, code->len, c);

    mrbc_context_free(mrb, c);

    if (mrb->exc || mrb_type(proc) != MRB_TT_PROC) {
        mrb->exc = NULL;
        mrb_raise(mrb, E_SCRIPT_ERROR, "no bytecode");
    }

    MRB_PROC_SET_TARGET_CLASS(mrb_proc_ptr(proc), mrb->object_class);
    mrb_gc_register(mrb, proc);

    return proc;
}


ngx_int_t
ngx_http_sendfile_mrb_run(ngx_http_request_t *r,
    ngx_http_sendfile_mrb_script_t *script, ngx_str_t *result,
    ngx_http_sendfile_script_t *file)
{
    ngx_int_t                          rc;
    ngx_log_t                         *log;
    ngx_http_sendfile_mrb_vm_t        *vm;
    ngx_http_sendfile_mrb_call_t       call;
    ngx_http_sendfile_mrb_loc_conf_t  *mlcf;

    vm = script->main->vm;

    if (vm == NULL) {
        vm = ngx_http_sendfile_mrb_open(script->main, ngx_cycle->log);
        if (vm == NULL) {
            return NGX_ERROR;
        }
    }

    log = vm->log;
    vm->log = r->connection->log;

    if ((script->proc == NULL || script->watch)
        && ngx_http_sendfile_mrb_load(vm, script, r->pool) != NGX_OK)
    {
        vm->log = log;
        return NGX_ERROR;
    }

    vm->request = r;
    vm->file = file;

    mlcf = ngx_http_get_module_loc_conf(r, ngx_http_sendfile_mruby_module);

    ngx_http_sendfile_mrb_limit(vm, mlcf->instructions, mlcf->memory,
                                mlcf->time);

    call.script = script;
    call.pool = r->pool;
    call.result = result;

    rc = ngx_http_sendfile_mrb_protect(vm, &call);

    vm->request = NULL;
    vm->file = NULL;

    ngx_http_sendfile_mrb_finish(vm, log);

    return rc;
}


static ngx_int_t
ngx_http_sendfile_mrb_protect(ngx_http_sendfile_mrb_vm_t *vm,
    ngx_http_sendfile_mrb_call_t *call)
{
    int         ai;
    mrb_bool    error;
    mrb_value   v;
    mrb_state  *mrb;

    mrb = vm->mrb;
    ai = mrb_gc_arena_save(mrb);

    v = mrb_protect_error(mrb, ngx_http_sendfile_mrb_call, call, &error);

    if (mrb->exc) {
        v = mrb_obj_value(mrb->exc);
        mrb->exc = NULL;
        error = 1;
    }

    if (error) {
        mrb_gc_protect(mrb, v);

        if (ngx_http_sendfile_mrb_preallocated(mrb, v)) {
            vm->hit = 1;
        }

        ngx_http_sendfile_mrb_log_error(vm, call->script, v);
    }

    mrb_gc_arena_restore(mrb, ai);

    return error ? NGX_ERROR : NGX_OK;
}


static mrb_value
ngx_http_sendfile_mrb_call(mrb_state *mrb, void *data)
{
    ngx_http_sendfile_mrb_call_t *call = data;

    mrb_value  v;

    v = mrb_top_run(mrb, call->script->proc, mrb_top_self(mrb), 0);

    if (mrb->exc) {
        return mrb_nil_value();
    }

    ngx_http_sendfile_mrb_file_done(mrb);

    if (call->result == NULL) {
        return mrb_nil_value();
    }

    if (mrb_nil_p(v)) {
        ngx_str_null(call->result);
        return v;
    }

    if (!mrb_string_p(v)) {
        v = mrb_obj_as_string(mrb, v);
    }

    ngx_http_sendfile_mrb_copy(mrb, v, call->result);

    return mrb_nil_value();
}


/*
 * A script that a limit has ended may have left a global variable that fills
 * the memory, or mruby in no good state: then there is a new VM.
 */

static void
ngx_http_sendfile_mrb_finish(ngx_http_sendfile_mrb_vm_t *vm, ngx_log_t *log)
{
    mrb_state                          *mrb;
    ngx_uint_t                          hit;
    const char                         *why;
    ngx_http_sendfile_mrb_main_conf_t  *mmcf;

    mrb = vm->mrb;
    mmcf = vm->main;
    why = NULL;

    ngx_http_sendfile_mrb_unlimit(vm);

    hit = vm->hit || ngx_http_sendfile_mrb_too_deep(mrb);

    if (mmcf->api) {
        mmcf->api->count_script(vm->spent || hit);
    }

    if (vm->spent) {
        why = "a script ran out of memory";

    } else if (hit) {
        why = "a script reached a limit";

    } else if (mrb->symidx > vm->symbols + NGX_HTTP_SENDFILE_MRB_SYMBOLS / 2) {
        why = "scripts have made many symbols";

    } else if (mrb->c != mrb->root_c || mrb->c->ci != mrb->c->cibase) {
        why = "a script did not end as it should";
    }

    if (why) {
        ngx_log_error(NGX_LOG_WARN, vm->log, 0, "mruby: a new VM, since %s",
                      why);

        ngx_http_sendfile_mrb_close(mmcf);
        (void) ngx_http_sendfile_mrb_open(mmcf, log);

        return;
    }

    if (!mrb_nil_p(vm->headers)) {
        mrb_gc_unregister(mrb, vm->headers);
        vm->headers = mrb_nil_value();
    }

    /* as the init scripts have left it */

    mrb->gc.disabled = vm->gc_off;
    mrb->gc.interval_ratio = vm->gc_interval;
    mrb->gc.step_ratio = vm->gc_step;

    vm->log = log;
}


/* mruby has these two made beforehand, with the place of their last use */

static ngx_uint_t
ngx_http_sendfile_mrb_preallocated(mrb_state *mrb, mrb_value exc)
{
    return mrb_type(exc) == MRB_TT_EXCEPTION
           && (mrb_obj_ptr(exc) == mrb->stack_err
               || mrb_obj_ptr(exc) == mrb->nomem_err);
}


/* 1 if calls were nested too deep, also if the script has rescued that */

static ngx_uint_t
ngx_http_sendfile_mrb_too_deep(mrb_state *mrb)
{
#if (MRUBY_RELEASE_NO >= 30200)
    return ((struct RException *) mrb->stack_err)->backtrace != NULL;
#else
    return 0;
#endif
}


static void
ngx_http_sendfile_mrb_forget_depth(mrb_state *mrb)
{
#if (MRUBY_RELEASE_NO >= 30200)
    ((struct RException *) mrb->stack_err)->backtrace = NULL;
#endif
}


ngx_http_request_t *
ngx_http_sendfile_mrb_request(mrb_state *mrb)
{
    ngx_http_sendfile_mrb_vm_t  *vm;

    vm = ngx_http_sendfile_mrb_vm(mrb);

    if (vm->request == NULL) {
        mrb_raise(mrb, E_RUNTIME_ERROR, "there is no request here");
    }

    return vm->request;
}


void *
ngx_http_sendfile_mrb_palloc(mrb_state *mrb, size_t size)
{
    void                        *p;
    ngx_http_request_t          *r;
    ngx_http_sendfile_mrb_vm_t  *vm;

    vm = ngx_http_sendfile_mrb_vm(mrb);
    r = ngx_http_sendfile_mrb_request(mrb);

    vm->pool_used += size;

    if (vm->limited && vm->pool_used > vm->memory) {
        vm->hit = 1;
        mrb_raisef(mrb, vm->limit_class, "more than %i bytes of output",
                   (mrb_int) vm->memory);
    }

    p = ngx_palloc(r->pool, size);

    if (p == NULL) {
        mrb_raise(mrb, E_RUNTIME_ERROR, "no memory");
    }

    return p;
}


void
ngx_http_sendfile_mrb_copy(mrb_state *mrb, mrb_value value, ngx_str_t *s)
{
    s->len = RSTRING_LEN(value);
    s->data = ngx_http_sendfile_mrb_palloc(mrb, s->len + 1);

    ngx_memcpy(s->data, RSTRING_PTR(value), s->len);
    s->data[s->len] = '\0';
}


mrb_value
ngx_http_sendfile_mrb_str(mrb_state *mrb, ngx_str_t *s)
{
    return mrb_str_new(mrb, (const char *) s->data, s->len);
}


void
ngx_http_sendfile_mrb_methods(mrb_state *mrb, struct RClass *c,
    const ngx_http_sendfile_mrb_method_t *methods)
{
    for ( /* void */ ; methods->name; methods++) {
        mrb_define_method(mrb, c, methods->name, methods->handler,
                          methods->args);
    }
}


void
ngx_http_sendfile_mrb_functions(mrb_state *mrb, struct RClass *c,
    const ngx_http_sendfile_mrb_method_t *methods)
{
    for ( /* void */ ; methods->name; methods++) {
        mrb_define_class_method(mrb, c, methods->name, methods->handler,
                                methods->args);
    }
}
