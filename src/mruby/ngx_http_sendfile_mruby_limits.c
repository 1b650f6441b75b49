
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * What a script may use: bytes, by the allocator; instructions, by a hook
 * before each of them; time, by a look at the clock at some of them, and within
 * methods that take long (tools/mruby_source.rb).  There is one VM in a
 * process, so that the counts are static variables.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_mruby.h"


/* in front of each block, and as aligned as malloc() */

#define NGX_HTTP_SENDFILE_MRB_HEADER   16

/* instructions, or calls within methods, between two looks at the clock */

#define NGX_HTTP_SENDFILE_MRB_SLICE    64

/* after so many nanoseconds for a slice the next one is the shortest */

#define NGX_HTTP_SENDFILE_MRB_SLOW     1000000

/* what is left to tell about it when a limit has been reached */

#define NGX_HTTP_SENDFILE_MRB_RESERVE  (256 * 1024)

#define NGX_HTTP_SENDFILE_MRB_DESCRIBE 100000
#define NGX_HTTP_SENDFILE_MRB_DESCRIBE_TIME  20

/* how often garbage may be collected for want of memory */

#define NGX_HTTP_SENDFILE_MRB_GCS      16

/* of a backtrace, in the log */

#define NGX_HTTP_SENDFILE_MRB_FRAMES   12

#define NGX_HTTP_SENDFILE_MRB_NO_LIMIT 0x7fffffff


typedef struct {
    mrb_value                           exc;
    const char                         *name;
    mrb_value                           message;
    mrb_value                           backtrace;
} ngx_http_sendfile_mrb_description_t;


static ngx_uint_t ngx_http_sendfile_mrb_refuse(ngx_http_sendfile_mrb_vm_t *vm,
    size_t used, size_t size);
static void ngx_http_sendfile_mrb_exhaust(ngx_http_sendfile_mrb_vm_t *vm);
static void ngx_http_sendfile_mrb_trace(ngx_http_sendfile_mrb_vm_t *vm);
static void ngx_http_sendfile_mrb_start_clock(ngx_http_sendfile_mrb_vm_t *vm,
    ngx_msec_t time);
static uint64_t ngx_http_sendfile_mrb_clock(clockid_t id);
#ifdef MRB_USE_DEBUG_HOOK
static void ngx_http_sendfile_mrb_fetch(mrb_state *mrb,
    const struct mrb_irep *irep, const mrb_code *pc, mrb_value *regs);
static void ngx_http_sendfile_mrb_long_call(mrb_state *mrb, int weight);
static void ngx_http_sendfile_mrb_look_soon(ngx_http_sendfile_mrb_vm_t *vm);
static ngx_uint_t ngx_http_sendfile_mrb_look(ngx_http_sendfile_mrb_vm_t *vm);
static ngx_uint_t ngx_http_sendfile_mrb_collect(
    ngx_http_sendfile_mrb_vm_t *vm);
static ngx_uint_t ngx_http_sendfile_mrb_late(ngx_http_sendfile_mrb_vm_t *vm);
static void ngx_http_sendfile_mrb_exceeded(ngx_http_sendfile_mrb_vm_t *vm);
static mrb_value ngx_http_sendfile_mrb_limit_error(
    ngx_http_sendfile_mrb_vm_t *vm);
#endif
static void ngx_http_sendfile_mrb_ask(ngx_http_sendfile_mrb_vm_t *vm,
    ngx_http_sendfile_mrb_description_t *d);
static mrb_value ngx_http_sendfile_mrb_describe(mrb_state *mrb, void *data);


/* instructions until the next look at the limits */

static ngx_int_t  ngx_http_sendfile_mrb_budget =
    NGX_HTTP_SENDFILE_MRB_NO_LIMIT;

#ifdef MRB_USE_DEBUG_HOOK

/* the same of calls within methods */

static ngx_int_t  ngx_http_sendfile_mrb_calls = NGX_HTTP_SENDFILE_MRB_SLICE;

#endif

static mrb_sym  ngx_http_sendfile_mrb_max_symbols =
    NGX_HTTP_SENDFILE_MRB_NO_LIMIT;


/*
 * Above the limit the next instruction collects garbage, and ends the script
 * if that does not help.  An allocation that is far above it fails at once.
 * mruby collects garbage then, and tries again; but many of its methods do not
 * expect a collection, so that it is switched off until mruby has tried.
 */

void *
ngx_http_sendfile_mrb_alloc(mrb_state *mrb, void *p, size_t size, void *data)
{
    ngx_http_sendfile_mrb_vm_t *vm = data;

    u_char  *block;
    size_t   old;

    block = p ? (u_char *) p - NGX_HTTP_SENDFILE_MRB_HEADER : NULL;
    old = block ? *(size_t *) block : 0;

    if (size == 0) {
        vm->used -= old;
        free(block);
        return NULL;
    }

    if (vm->limited && size > old
        && ngx_http_sendfile_mrb_refuse(vm, vm->used - old, size))
    {
        return NULL;
    }

    if (size > NGX_MAX_SIZE_T_VALUE - NGX_HTTP_SENDFILE_MRB_HEADER) {
        return NULL;
    }

    block = realloc(block, size + NGX_HTTP_SENDFILE_MRB_HEADER);
    if (block == NULL) {
        return NULL;
    }

    vm->used += size - old;

    *(size_t *) block = size;

    return block + NGX_HTTP_SENDFILE_MRB_HEADER;
}


#ifdef MRB_USE_DEBUG_HOOK

static ngx_uint_t
ngx_http_sendfile_mrb_refuse(ngx_http_sendfile_mrb_vm_t *vm, size_t used,
    size_t size)
{
    size_t  limit;

    limit = vm->base + vm->memory;

    if (size <= limit && used <= limit - size) {
        return 0;
    }

    limit += vm->memory;

    if (vm->exhausted) {
        limit += NGX_HTTP_SENDFILE_MRB_RESERVE;
    }

    if (size <= limit && used <= limit - size) {

        if (!vm->over && !vm->spent && !vm->asking) {
            vm->over = 1;
            ngx_http_sendfile_mrb_look_soon(vm);
        }

        return 0;
    }

    /* mruby tries twice, in between with the garbage collector switched off */

    if (!vm->refused) {
        vm->refused = 1;
        vm->gc_disabled = vm->mrb->gc.disabled;
        vm->mrb->gc.disabled = 1;
        return 1;
    }

    vm->refused = 0;
    vm->mrb->gc.disabled = vm->gc_disabled;

    ngx_http_sendfile_mrb_exhaust(vm);

    return 1;
}


#else


static ngx_uint_t
ngx_http_sendfile_mrb_refuse(ngx_http_sendfile_mrb_vm_t *vm, size_t used,
    size_t size)
{
    size_t  limit;

    limit = vm->base + vm->memory;

    if (vm->exhausted) {
        limit += NGX_HTTP_SENDFILE_MRB_RESERVE;
    }

    if (size <= limit && used <= limit - size) {
        vm->refused = 0;
        return 0;
    }

    /* mruby tries twice, and has collected garbage in between */

    if (!vm->refused) {
        vm->refused = 1;
        return 1;
    }

    vm->refused = 0;

    ngx_http_sendfile_mrb_exhaust(vm);

    return 1;
}

#endif


static void
ngx_http_sendfile_mrb_exhaust(ngx_http_sendfile_mrb_vm_t *vm)
{
    if (!vm->exhausted) {
        vm->exhausted = 1;
        vm->spent = 1;
        ngx_http_sendfile_mrb_trace(vm);
    }

    ngx_http_sendfile_mrb_budget = 1;
}


/* "file:line" of the frames, without memory of mruby's */

static void
ngx_http_sendfile_mrb_trace(ngx_http_sendfile_mrb_vm_t *vm)
{
    u_char              *p, *last;
    int32_t              line;
    uint32_t             at;
    const char          *file;
    mrb_state           *mrb;
    mrb_callinfo        *ci;
    const mrb_irep      *irep;
    const struct RProc  *proc;

    mrb = vm->mrb;
    p = vm->trace;
    last = vm->trace + sizeof(vm->trace);

    if (mrb == NULL || mrb->c == NULL || mrb->c->cibase == NULL) {
        return;
    }

    for (ci = mrb->c->ci; ci >= mrb->c->cibase; ci--) {
        proc = ci->proc;

        if (proc == NULL || MRB_PROC_CFUNC_P(proc) || ci->pc == NULL) {
            continue;
        }

        irep = proc->body.irep;

        if (irep == NULL || ci->pc <= irep->iseq) {
            continue;
        }

        at = (uint32_t) (ci->pc - irep->iseq - 1);
        file = mrb_debug_get_filename(mrb, irep, at);
        line = mrb_debug_get_line(mrb, irep, at);

        if (file && line > 0) {
            p = ngx_slprintf(p, last, "%s%s:%D",
                             (p == vm->trace) ? "" : ", ", file, line);
        }
    }

    vm->trace_len = p - vm->trace;
}


void
ngx_http_sendfile_mrb_limit(ngx_http_sendfile_mrb_vm_t *vm,
    ngx_uint_t instructions, size_t memory, ngx_msec_t time)
{
    vm->instructions = instructions;
    vm->memory = memory;
    vm->time = time;
    vm->pool_used = 0;
    vm->limited = 1;
    vm->over = 0;
    vm->spent = 0;
    vm->late = 0;

    vm->rest = instructions;
    vm->slice = NGX_HTTP_SENDFILE_MRB_SLICE;

    ngx_http_sendfile_mrb_start_clock(vm, time);

    ngx_http_sendfile_mrb_budget = 1;
    ngx_http_sendfile_mrb_max_symbols = vm->symbols
                                        + NGX_HTTP_SENDFILE_MRB_SYMBOLS;
}


void
ngx_http_sendfile_mrb_unlimit(ngx_http_sendfile_mrb_vm_t *vm)
{
    vm->limited = 0;
    vm->refused = 0;

    ngx_http_sendfile_mrb_budget = NGX_HTTP_SENDFILE_MRB_NO_LIMIT;
    ngx_http_sendfile_mrb_max_symbols = NGX_HTTP_SENDFILE_MRB_NO_LIMIT;
}


void
ngx_http_sendfile_mrb_hook(ngx_http_sendfile_mrb_vm_t *vm)
{
#ifdef MRB_USE_DEBUG_HOOK
    vm->mrb->code_fetch_hook = ngx_http_sendfile_mrb_fetch;
    mrb_long_call = ngx_http_sendfile_mrb_long_call;
#endif
}


/*
 * The time that counts is the worker's own on a processor, so that a busy
 * machine ends no script that would else be in time.  To ask for it is a
 * system call, which the monotonic clock is not; and since no more of the one
 * can have passed than of the other, it is asked for when that has got so far.
 */

static void
ngx_http_sendfile_mrb_start_clock(ngx_http_sendfile_mrb_vm_t *vm,
    ngx_msec_t time)
{
    vm->looked = ngx_http_sendfile_mrb_clock(CLOCK_MONOTONIC);
    vm->used_up = ngx_http_sendfile_mrb_clock(CLOCK_THREAD_CPUTIME_ID)
                  + (uint64_t) time * 1000000;
    vm->look_at = vm->looked + (uint64_t) time * 1000000;
}


static uint64_t
ngx_http_sendfile_mrb_clock(clockid_t id)
{
    struct timespec  ts;

    /* neither clock can fail on Linux */

    (void) clock_gettime(id, &ts);

    return (uint64_t) ts.tv_sec * 1000000000 + ts.tv_nsec;
}


#ifdef MRB_USE_DEBUG_HOOK

static void
ngx_http_sendfile_mrb_fetch(mrb_state *mrb, const struct mrb_irep *irep,
    const mrb_code *pc, mrb_value *regs)
{
    ngx_http_sendfile_mrb_vm_t  *vm;

    if (--ngx_http_sendfile_mrb_budget > 0
        && mrb->symidx < ngx_http_sendfile_mrb_max_symbols)
    {
        return;
    }

    vm = ngx_http_sendfile_mrb_vm(mrb);

    if (!vm->limited) {
        ngx_http_sendfile_mrb_unlimit(vm);
        return;
    }

    if (ngx_http_sendfile_mrb_look(vm)) {
        return;
    }

    /* mruby looks for what is to be run next by what was run last */

    mrb->c->ci->pc = pc + 1;

    ngx_http_sendfile_mrb_exceeded(vm);
}


/* within a method of mruby's, where it can raise */

static void
ngx_http_sendfile_mrb_long_call(mrb_state *mrb, int weight)
{
    ngx_http_sendfile_mrb_vm_t  *vm;

    ngx_http_sendfile_mrb_calls -= weight;

    if (ngx_http_sendfile_mrb_calls > 0) {
        return;
    }

    ngx_http_sendfile_mrb_calls = NGX_HTTP_SENDFILE_MRB_SLICE;

    /* NULL: one that is being opened, or that only compiles */

    vm = ngx_http_sendfile_mrb_vm(mrb);

    if (vm && vm->limited && ngx_http_sendfile_mrb_late(vm)) {
        ngx_http_sendfile_mrb_exceeded(vm);
    }
}


static void
ngx_http_sendfile_mrb_look_soon(ngx_http_sendfile_mrb_vm_t *vm)
{
    if (ngx_http_sendfile_mrb_budget > 1) {
        vm->rest += ngx_http_sendfile_mrb_budget - 1;
        ngx_http_sendfile_mrb_budget = 1;
    }
}


/* between two instructions; 1: the script may go on */

static ngx_uint_t
ngx_http_sendfile_mrb_look(ngx_http_sendfile_mrb_vm_t *vm)
{
    ngx_uint_t  n;

    if (!vm->asking) {

        if (!mrb_nil_p(vm->limit_error)) {
            return 0;
        }

        if (vm->over && !ngx_http_sendfile_mrb_collect(vm)) {
            return 0;
        }

        if (vm->spent) {
            return 0;
        }
    }

    if (vm->rest == 0
        || vm->mrb->symidx >= ngx_http_sendfile_mrb_max_symbols
        || ngx_http_sendfile_mrb_late(vm))
    {
        return 0;
    }

    n = ngx_min(vm->rest, vm->slice);

    vm->rest -= n;
    ngx_http_sendfile_mrb_budget = n;

    return 1;
}


/* 1: there is enough memory */

static ngx_uint_t
ngx_http_sendfile_mrb_collect(ngx_http_sendfile_mrb_vm_t *vm)
{
    ngx_uint_t  n;

    vm->over = 0;

    mrb_full_gc(vm->mrb);

    n = vm->instructions / NGX_HTTP_SENDFILE_MRB_GCS;
    vm->rest -= ngx_min(vm->rest, n);

    vm->spent = vm->used > vm->base + vm->memory;

    return !vm->spent;
}


/*
 * A slice that has taken long is followed by short ones, as long as they do:
 * the script calls methods that work on much memory.
 */

static ngx_uint_t
ngx_http_sendfile_mrb_late(ngx_http_sendfile_mrb_vm_t *vm)
{
    uint64_t  now, used;

    if (vm->late) {
        return 1;
    }

    now = ngx_http_sendfile_mrb_clock(CLOCK_MONOTONIC);

    if (now - vm->looked > NGX_HTTP_SENDFILE_MRB_SLOW) {
        vm->slice = 1;

    } else {
        vm->slice = ngx_min(vm->slice * 2, NGX_HTTP_SENDFILE_MRB_SLICE);
    }

    vm->looked = now;

    if (now < vm->look_at) {
        return 0;
    }

    used = ngx_http_sendfile_mrb_clock(CLOCK_THREAD_CPUTIME_ID);

    if (used < vm->used_up) {
        vm->look_at = now + (vm->used_up - used);
        return 0;
    }

    vm->late = 1;

    return 1;
}


/*
 * Raised at every instruction from now on, so that no "rescue" and no
 * "ensure" goes on: each raise leaves at least one of them behind.
 */

static void
ngx_http_sendfile_mrb_exceeded(ngx_http_sendfile_mrb_vm_t *vm)
{
    vm->hit = 1;

    ngx_http_sendfile_mrb_budget = 1;

    if (mrb_nil_p(vm->limit_error)) {
        vm->limit_error = ngx_http_sendfile_mrb_limit_error(vm);
        mrb_gc_register(vm->mrb, vm->limit_error);
    }

    mrb_exc_raise(vm->mrb, vm->limit_error);
}


static mrb_value
ngx_http_sendfile_mrb_limit_error(ngx_http_sendfile_mrb_vm_t *vm)
{
    mrb_value       text;
    mrb_state      *mrb;
    struct RClass  *c;

    mrb = vm->mrb;
    c = vm->limit_class;

    if (vm->exhausted) {
        return mrb_obj_value(mrb->nomem_err);
    }

    if (vm->spent) {
        c = mrb_class_get(mrb, "NoMemoryError");
        text = mrb_format(mrb, "more than %i bytes", (mrb_int) vm->memory);

    } else if (mrb->symidx >= ngx_http_sendfile_mrb_max_symbols) {
        text = mrb_format(mrb, "more than %i symbols",
                          (mrb_int) NGX_HTTP_SENDFILE_MRB_SYMBOLS);

    } else if (vm->late) {
        text = mrb_format(mrb, "more than %i ms", (mrb_int) vm->time);

    } else {
        text = mrb_format(mrb, "more than %i instructions",
                          (mrb_int) vm->instructions);
    }

    return mrb_exc_new_str(mrb, c, text);
}

#endif


/*
 * mruby: /etc/nginx/a.rb: RuntimeError: message, at /etc/nginx/a.rb:2:in f,
 * /etc/nginx/a.rb:5
 */

void
ngx_http_sendfile_mrb_log_error(ngx_http_sendfile_mrb_vm_t *vm,
    ngx_http_sendfile_mrb_script_t *script, mrb_value exc)
{
    u_char                               *p, *last;
    mrb_int                               i, n;
    mrb_value                             line;
    u_char                                buf[1400];
    ngx_http_sendfile_mrb_description_t   d;

    p = buf;
    last = buf + sizeof(buf);

    if (vm->exhausted) {
        p = ngx_slprintf(p, last, "NoMemoryError: more than %uz bytes, at ",
                         vm->memory);
        p = ngx_slprintf(p, last, "%*s", vm->trace_len, vm->trace);

    } else {
        d.exc = exc;
        d.name = "exception";
        d.message = mrb_nil_value();
        d.backtrace = mrb_nil_value();

        if (mrb_type(exc) == MRB_TT_EXCEPTION) {
            ngx_http_sendfile_mrb_ask(vm, &d);
        }

        p = ngx_slprintf(p, last, "%s: ", d.name);

        if (mrb_string_p(d.message)) {
            p = ngx_http_sendfile_mrb_text(p, buf + 700,
                                           RSTRING_PTR(d.message),
                                           RSTRING_LEN(d.message));
        }

        n = mrb_array_p(d.backtrace) ? RARRAY_LEN(d.backtrace) : 0;

        for (i = 0; i < n && i < NGX_HTTP_SENDFILE_MRB_FRAMES; i++) {
            line = RARRAY_PTR(d.backtrace)[i];

            if (mrb_string_p(line)) {
                p = ngx_slprintf(p, last, "%s", i ? ", " : ", at ");
                p = ngx_http_sendfile_mrb_text(p, last, RSTRING_PTR(line),
                                               RSTRING_LEN(line));
            }
        }
    }

    ngx_log_error(NGX_LOG_ERR, vm->log, 0, "mruby: %V: %*s", &script->name,
                  (size_t) (p - buf), buf);
}


/* methods of the script's are asked, and they may be endless as well */

static void
ngx_http_sendfile_mrb_ask(ngx_http_sendfile_mrb_vm_t *vm,
    ngx_http_sendfile_mrb_description_t *d)
{
    mrb_bool   error;
    mrb_value  limit_error;

    limit_error = vm->limit_error;

    vm->asking = 1;
    vm->limit_error = mrb_nil_value();
    vm->late = 0;
    vm->base += NGX_HTTP_SENDFILE_MRB_RESERVE;

    if (vm->limited) {
        vm->rest = NGX_HTTP_SENDFILE_MRB_DESCRIBE;
        ngx_http_sendfile_mrb_budget = 1;
        ngx_http_sendfile_mrb_max_symbols += NGX_HTTP_SENDFILE_MRB_SYMBOLS;
        ngx_http_sendfile_mrb_start_clock(vm,
                                          NGX_HTTP_SENDFILE_MRB_DESCRIBE_TIME);
    }

    (void) mrb_protect_error(vm->mrb, ngx_http_sendfile_mrb_describe, d,
                             &error);

    vm->base -= NGX_HTTP_SENDFILE_MRB_RESERVE;
    vm->limit_error = limit_error;
    vm->asking = 0;
}


static mrb_value
ngx_http_sendfile_mrb_describe(mrb_state *mrb, void *data)
{
    ngx_http_sendfile_mrb_description_t *d = data;

    d->name = mrb_obj_classname(mrb, d->exc);
    d->backtrace = mrb_funcall(mrb, d->exc, "backtrace", 0);
    d->message = mrb_funcall(mrb, d->exc, "message", 0);

    return mrb_nil_value();
}


u_char *
ngx_http_sendfile_mrb_text(u_char *p, u_char *last, const char *text,
    size_t len)
{
    size_t  i;

    for (i = 0; i < len && p < last; i++) {
        *p++ = ((u_char) text[i] < 0x20 || text[i] == 0x7f) ? ' ' : text[i];
    }

    return p;
}
