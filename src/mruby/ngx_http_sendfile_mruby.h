
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Private to the module for Ruby: scripts, the VM of a worker, what a request
 * has got from its scripts.
 */


#ifndef _NGX_HTTP_SENDFILE_MRUBY_H_INCLUDED_
#define _NGX_HTTP_SENDFILE_MRUBY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_api.h"
#include "ngx_http_sendfile_mruby_lib.h"


#define NGX_HTTP_SENDFILE_MRB_VERSION  "0.1.0"

/*
 * Symbols that scripts may make in a VM: mruby never forgets one, and takes
 * the longer for each the more there are.
 */

#define NGX_HTTP_SENDFILE_MRB_SYMBOLS  10000


typedef struct ngx_http_sendfile_mrb_main_conf_s
    ngx_http_sendfile_mrb_main_conf_t;


/*
 * A script is compiled when the configuration is read; "code" is mruby's
 * bytecode.  What is below "proc" belongs to the worker.
 */

typedef struct {
    ngx_http_sendfile_mrb_main_conf_t  *main;

    /* for backtraces: the script's file, or the configuration's */
    ngx_str_t                           name;
    ngx_uint_t                          line;
    ngx_str_t                           code;

    /* a file that is looked at before each run, and read anew if changed */
    ngx_uint_t                          watch;  /* unsigned  watch:1; */

    struct RProc                       *proc;
    ngx_file_uniq_t                     uniq;
    off_t                               size;
    struct timespec                     mtime;
} ngx_http_sendfile_mrb_script_t;


typedef struct {
    ngx_http_sendfile_mrb_main_conf_t  *main;
    mrb_state                          *mrb;

    /* of the script that runs; NULL if none does */
    ngx_http_request_t                 *request;
    ngx_http_sendfile_script_t         *file;
    ngx_log_t                          *log;

    /* bytes: allocated, allocated before the first script, and the limit */
    size_t                              used;
    size_t                              base;
    size_t                              memory;

    /* bytes of the request's pool that were allocated for the script */
    size_t                              pool_used;

    ngx_uint_t                          instructions;

    /* made before the first script; they stay as long as the VM does */
    mrb_sym                             symbols;

    struct RClass                      *limit_class;
    mrb_value                           limit_error;
    mrb_value                           headers;

    /* the backtrace of where memory ran out, which mruby does not keep */
    size_t                              trace_len;
    u_char                              trace[512];

    /* instructions: left, and how many until the next look at the clock */
    ngx_uint_t                          rest;
    ngx_uint_t                          slice;

    /*
     * The limit in milliseconds; and in nanoseconds: when the monotonic clock
     * was read last, when the processor time is to be read next, and at which
     * processor time the script ends.
     */
    ngx_msec_t                          time;
    uint64_t                            looked;
    uint64_t                            look_at;
    uint64_t                            used_up;

    unsigned                            limited:1;

    /* a limit other than memory's was reached; it is that of time */
    unsigned                            hit:1;
    unsigned                            late:1;

    /* the script has ended, and the message of its exception is being made */
    unsigned                            asking:1;

    /* memory: above the limit; also without garbage; far above it */
    unsigned                            over:1;
    unsigned                            spent:1;
    unsigned                            exhausted:1;

    unsigned                            refused:1;
    unsigned                            gc_disabled:1;

    /* the settings of the garbage collector as the init scripts left them */
    unsigned                            gc_off:1;
    int                                 gc_interval;
    int                                 gc_step;
} ngx_http_sendfile_mrb_vm_t;


struct ngx_http_sendfile_mrb_main_conf_s {
    ngx_array_t                         scripts;   /* of script_t * */

    ngx_http_sendfile_mrb_script_t     *prelude;
    ngx_http_sendfile_mrb_script_t     *init;
    ngx_http_sendfile_mrb_script_t     *init_worker;

    unsigned                            has_access:1;
    unsigned                            has_file:1;

    /* of the module for files; NULL: not there, or of another version */
    ngx_http_sendfile_api_t            *api;

    /* of the worker; NULL: not open */
    ngx_http_sendfile_mrb_vm_t         *vm;
};


typedef struct {
    ngx_http_sendfile_mrb_script_t     *content;
    ngx_http_sendfile_mrb_script_t     *access;
    ngx_http_sendfile_mrb_script_t     *file;

    ngx_uint_t                          instructions;
    size_t                              memory;
    ngx_msec_t                          time;
} ngx_http_sendfile_mrb_loc_conf_t;


/* the response to a request, as far as its scripts have made it */

typedef struct {
    ngx_chain_t                        *out;
    ngx_chain_t                       **last;
    off_t                               size;

    ngx_int_t                           status;
    ngx_str_t                           redirect;

    unsigned                            has_status:1;

    /* the list of headers is the subrequest's own, no longer its parent's */
    unsigned                            own_headers:1;
} ngx_http_sendfile_mrb_ctx_t;


/* ngx_http_sendfile_mruby_compile.c */

typedef struct {
    ngx_uint_t                          line;
    u_char                              text[256];
} ngx_http_sendfile_mrb_error_t;

/*
 * Source to bytecode, in memory of the pool.  NGX_DECLINED: "err" says what
 * is wrong; NGX_ERROR: out of memory.
 */

ngx_int_t ngx_http_sendfile_mrb_compile(ngx_pool_t *pool, ngx_str_t *source,
    ngx_str_t *name, ngx_uint_t line, ngx_str_t *code,
    ngx_http_sendfile_mrb_error_t *err);

/* the text of a file; logs what is wrong with it */

ngx_int_t ngx_http_sendfile_mrb_read(ngx_pool_t *pool, ngx_log_t *log,
    ngx_str_t *name, ngx_str_t *source, ngx_file_info_t *fi);


/* ngx_http_sendfile_mruby_vm.c */

ngx_http_sendfile_mrb_vm_t *ngx_http_sendfile_mrb_open(
    ngx_http_sendfile_mrb_main_conf_t *mmcf, ngx_log_t *log);
void ngx_http_sendfile_mrb_close(ngx_http_sendfile_mrb_main_conf_t *mmcf);

/*
 * Runs a script for a request, with its limits.  "result" is NULL, or is set
 * to its value as a string.  NGX_ERROR: it failed, which has been logged.
 */

ngx_int_t ngx_http_sendfile_mrb_run(ngx_http_request_t *r,
    ngx_http_sendfile_mrb_script_t *script, ngx_str_t *result,
    ngx_http_sendfile_script_t *file);

/* the VM of a method; the request of a method that needs one, or it raises */

#define ngx_http_sendfile_mrb_vm(mrb)                                         \
    ((ngx_http_sendfile_mrb_vm_t *) (mrb)->ud)

ngx_http_request_t *ngx_http_sendfile_mrb_request(mrb_state *mrb);

/* memory of the request, counted as the script's; raises */

void *ngx_http_sendfile_mrb_palloc(mrb_state *mrb, size_t size);

/* a copy of a string in memory of the request */

void ngx_http_sendfile_mrb_copy(mrb_state *mrb, mrb_value value,
    ngx_str_t *s);

mrb_value ngx_http_sendfile_mrb_str(mrb_state *mrb, ngx_str_t *s);


/* the limits: ngx_http_sendfile_mruby_limits.c */

void *ngx_http_sendfile_mrb_alloc(mrb_state *mrb, void *p, size_t size,
    void *data);
void ngx_http_sendfile_mrb_limit(ngx_http_sendfile_mrb_vm_t *vm,
    ngx_uint_t instructions, size_t memory, ngx_msec_t time);
void ngx_http_sendfile_mrb_unlimit(ngx_http_sendfile_mrb_vm_t *vm);
void ngx_http_sendfile_mrb_hook(ngx_http_sendfile_mrb_vm_t *vm);

/* logs the exception of a script */

void ngx_http_sendfile_mrb_log_error(ngx_http_sendfile_mrb_vm_t *vm,
    ngx_http_sendfile_mrb_script_t *script, mrb_value exc);

/* text for the log: a line is one line, whatever a client has sent */

u_char *ngx_http_sendfile_mrb_text(u_char *p, u_char *last, const char *text,
    size_t len);


/* the classes that scripts see */

void ngx_http_sendfile_mrb_init_nginx(mrb_state *mrb, struct RClass *nginx);
void ngx_http_sendfile_mrb_init_request(mrb_state *mrb, struct RClass *nginx);
void ngx_http_sendfile_mrb_init_headers(mrb_state *mrb, struct RClass *nginx);
void ngx_http_sendfile_mrb_init_var(mrb_state *mrb, struct RClass *nginx);
void ngx_http_sendfile_mrb_init_file(mrb_state *mrb);
void ngx_http_sendfile_mrb_file_done(mrb_state *mrb);

extern ngx_str_t  ngx_http_sendfile_mrb_prelude;

/* a header of the response, in place of any of that name; raises */

void ngx_http_sendfile_mrb_set_out(mrb_state *mrb, ngx_http_request_t *r,
    ngx_str_t *name, ngx_str_t *value);

/* raises, if these are no arguments of a URI */

void ngx_http_sendfile_mrb_check_args(mrb_state *mrb, u_char *args,
    size_t len);

/* the value of one of nginx's variables, nil if it has none */

mrb_value ngx_http_sendfile_mrb_variable(mrb_state *mrb, const char *name,
    size_t len);

/* a table of methods, ended by a NULL name */

typedef struct {
    const char                         *name;
    mrb_func_t                          handler;
    mrb_aspec                           args;
} ngx_http_sendfile_mrb_method_t;

/* "on" a class: its instances have them, or itself */

void ngx_http_sendfile_mrb_methods(mrb_state *mrb, struct RClass *c,
    const ngx_http_sendfile_mrb_method_t *methods);
void ngx_http_sendfile_mrb_functions(mrb_state *mrb, struct RClass *c,
    const ngx_http_sendfile_mrb_method_t *methods);


/* ngx_http_sendfile_mruby_handlers.c */

ngx_http_sendfile_mrb_ctx_t *ngx_http_sendfile_mrb_ctx(ngx_http_request_t *r);

ngx_int_t ngx_http_sendfile_mrb_content_handler(ngx_http_request_t *r);
ngx_int_t ngx_http_sendfile_mrb_access_handler(ngx_http_request_t *r);
ngx_int_t ngx_http_sendfile_mrb_file_handler(ngx_http_request_t *r,
    ngx_http_sendfile_script_t *s);


extern ngx_module_t  ngx_http_sendfile_mruby_module;


#endif /* _NGX_HTTP_SENDFILE_MRUBY_H_INCLUDED_ */
