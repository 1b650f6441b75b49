
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Ruby in nginx.conf: the directives, configurations and processes of the
 * second module.  The names are those of ngx_mruby.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_mruby.h"


#define NGX_HTTP_SENDFILE_MRB_MIN_MEMORY   (64 * 1024)
#define NGX_HTTP_SENDFILE_MRB_MAX_COUNT    1000000000
#define NGX_HTTP_SENDFILE_MRB_MAX_TIME     (60 * 60 * 1000)


/* how ngx_http_rewrite_loc_conf_t begins, which is in no header file */

typedef struct {
    ngx_array_t                        *codes;
} ngx_http_sendfile_mrb_rewrite_conf_t;


/* the code of mruby_set, among those of "set" and "if" */

typedef struct {
    ngx_http_script_code_pt             code;
    ngx_int_t                           index;
    ngx_http_sendfile_mrb_script_t     *script;
} ngx_http_sendfile_mrb_set_code_t;


static ngx_int_t ngx_http_sendfile_mrb_postconfiguration(ngx_conf_t *cf);
static ngx_int_t ngx_http_sendfile_mrb_add_prelude(ngx_conf_t *cf,
    ngx_http_sendfile_mrb_main_conf_t *mmcf);
static ngx_http_sendfile_api_t *ngx_http_sendfile_mrb_api(ngx_conf_t *cf);
static ngx_int_t ngx_http_sendfile_mrb_set_file(ngx_conf_t *cf,
    ngx_http_sendfile_mrb_main_conf_t *mmcf);
static void *ngx_http_sendfile_mrb_create_main_conf(ngx_conf_t *cf);
static void *ngx_http_sendfile_mrb_create_loc_conf(ngx_conf_t *cf);
static char *ngx_http_sendfile_mrb_merge_loc_conf(ngx_conf_t *cf,
    void *parent, void *child);
static ngx_http_sendfile_mrb_script_t *ngx_http_sendfile_mrb_add(
    ngx_conf_t *cf, ngx_str_t *source, ngx_str_t *name, ngx_uint_t line);
static ngx_http_sendfile_mrb_script_t *ngx_http_sendfile_mrb_add_file(
    ngx_conf_t *cf, ngx_str_t *value, ngx_uint_t n);
static ngx_http_sendfile_mrb_script_t *ngx_http_sendfile_mrb_add_code(
    ngx_conf_t *cf, ngx_str_t *value);
static char *ngx_http_sendfile_mrb_conf_script(ngx_conf_t *cf,
    ngx_command_t *cmd, void *conf);
static char *ngx_http_sendfile_mrb_conf_content(ngx_conf_t *cf,
    ngx_command_t *cmd, void *conf);
static char *ngx_http_sendfile_mrb_conf_access(ngx_conf_t *cf,
    ngx_command_t *cmd, void *conf);
static char *ngx_http_sendfile_mrb_conf_file(ngx_conf_t *cf,
    ngx_command_t *cmd, void *conf);
static char *ngx_http_sendfile_mrb_conf_set(ngx_conf_t *cf,
    ngx_command_t *cmd, void *conf);
static char *ngx_http_sendfile_mrb_conf_limits(ngx_conf_t *cf,
    ngx_command_t *cmd, void *conf);
static char *ngx_http_sendfile_mrb_conf_time(ngx_conf_t *cf,
    ngx_command_t *cmd, void *conf);
static void ngx_http_sendfile_mrb_set(ngx_http_script_engine_t *e);
static ngx_int_t ngx_http_sendfile_mrb_set_value(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_sendfile_mrb_init_process(ngx_cycle_t *cycle);
static void ngx_http_sendfile_mrb_exit_process(ngx_cycle_t *cycle);


extern ngx_module_t  ngx_http_rewrite_module;

/* the end of all codes */

static uintptr_t  ngx_http_sendfile_mrb_exit_code = (uintptr_t) NULL;


#define NGX_HTTP_SENDFILE_MRB_ANY_CONF                                        \
    (NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF)

/* the post of a directive: its argument is a file, or the script itself */

#define NGX_HTTP_SENDFILE_MRB_FILE  NULL
#define NGX_HTTP_SENDFILE_MRB_CODE  &ngx_http_sendfile_mrb_code

static ngx_uint_t  ngx_http_sendfile_mrb_code;


static ngx_command_t  ngx_http_sendfile_mrb_commands[] = {

    { ngx_string("mruby_content_handler"),
      NGX_HTTP_LOC_CONF|NGX_HTTP_LIF_CONF|NGX_CONF_TAKE12,
      ngx_http_sendfile_mrb_conf_content,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_sendfile_mrb_loc_conf_t, content),
      NGX_HTTP_SENDFILE_MRB_FILE },

    { ngx_string("mruby_content_handler_code"),
      NGX_HTTP_LOC_CONF|NGX_HTTP_LIF_CONF|NGX_CONF_TAKE1,
      ngx_http_sendfile_mrb_conf_content,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_sendfile_mrb_loc_conf_t, content),
      NGX_HTTP_SENDFILE_MRB_CODE },

    { ngx_string("mruby_access_handler"),
      NGX_HTTP_SENDFILE_MRB_ANY_CONF|NGX_HTTP_LIF_CONF|NGX_CONF_TAKE12,
      ngx_http_sendfile_mrb_conf_access,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_sendfile_mrb_loc_conf_t, access),
      NGX_HTTP_SENDFILE_MRB_FILE },

    { ngx_string("mruby_access_handler_code"),
      NGX_HTTP_SENDFILE_MRB_ANY_CONF|NGX_HTTP_LIF_CONF|NGX_CONF_TAKE1,
      ngx_http_sendfile_mrb_conf_access,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_sendfile_mrb_loc_conf_t, access),
      NGX_HTTP_SENDFILE_MRB_CODE },

    { ngx_string("mruby_set"),
      NGX_HTTP_SRV_CONF|NGX_HTTP_SIF_CONF|NGX_HTTP_LOC_CONF
          |NGX_HTTP_LIF_CONF|NGX_CONF_TAKE23,
      ngx_http_sendfile_mrb_conf_set,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NGX_HTTP_SENDFILE_MRB_FILE },

    { ngx_string("mruby_set_code"),
      NGX_HTTP_SRV_CONF|NGX_HTTP_SIF_CONF|NGX_HTTP_LOC_CONF
          |NGX_HTTP_LIF_CONF|NGX_CONF_TAKE2,
      ngx_http_sendfile_mrb_conf_set,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NGX_HTTP_SENDFILE_MRB_CODE },

    { ngx_string("mruby_init"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE12,
      ngx_http_sendfile_mrb_conf_script,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(ngx_http_sendfile_mrb_main_conf_t, init),
      NGX_HTTP_SENDFILE_MRB_FILE },

    { ngx_string("mruby_init_code"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_http_sendfile_mrb_conf_script,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(ngx_http_sendfile_mrb_main_conf_t, init),
      NGX_HTTP_SENDFILE_MRB_CODE },

    { ngx_string("mruby_init_worker"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE12,
      ngx_http_sendfile_mrb_conf_script,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(ngx_http_sendfile_mrb_main_conf_t, init_worker),
      NGX_HTTP_SENDFILE_MRB_FILE },

    { ngx_string("mruby_init_worker_code"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_http_sendfile_mrb_conf_script,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(ngx_http_sendfile_mrb_main_conf_t, init_worker),
      NGX_HTTP_SENDFILE_MRB_CODE },

    { ngx_string("mruby_limits"),
      NGX_HTTP_SENDFILE_MRB_ANY_CONF|NGX_CONF_TAKE12,
      ngx_http_sendfile_mrb_conf_limits,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mruby_time_limit"),
      NGX_HTTP_SENDFILE_MRB_ANY_CONF|NGX_CONF_TAKE1,
      ngx_http_sendfile_mrb_conf_time,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("http_sendfile_ruby"),
      NGX_HTTP_SENDFILE_MRB_ANY_CONF|NGX_CONF_TAKE12,
      ngx_http_sendfile_mrb_conf_file,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_sendfile_mrb_loc_conf_t, file),
      NGX_HTTP_SENDFILE_MRB_FILE },

    { ngx_string("http_sendfile_ruby_code"),
      NGX_HTTP_SENDFILE_MRB_ANY_CONF|NGX_CONF_TAKE1,
      ngx_http_sendfile_mrb_conf_file,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_sendfile_mrb_loc_conf_t, file),
      NGX_HTTP_SENDFILE_MRB_CODE },

      ngx_null_command
};


static ngx_http_module_t  ngx_http_sendfile_mruby_module_ctx = {
    NULL,                                  /* preconfiguration */
    ngx_http_sendfile_mrb_postconfiguration, /* postconfiguration */

    ngx_http_sendfile_mrb_create_main_conf, /* create main configuration */
    NULL,                                  /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    ngx_http_sendfile_mrb_create_loc_conf, /* create location configuration */
    ngx_http_sendfile_mrb_merge_loc_conf   /* merge location configuration */
};


ngx_module_t  ngx_http_sendfile_mruby_module = {
    NGX_MODULE_V1,
    &ngx_http_sendfile_mruby_module_ctx,   /* module context */
    ngx_http_sendfile_mrb_commands,        /* module directives */
    NGX_HTTP_MODULE,                       /* module type */
    NULL,                                  /* init master */
    NULL,                                  /* init module */
    ngx_http_sendfile_mrb_init_process,    /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    ngx_http_sendfile_mrb_exit_process,    /* exit process */
    NULL,                                  /* exit master */
    NGX_MODULE_V1_PADDING
};


static ngx_int_t
ngx_http_sendfile_mrb_postconfiguration(ngx_conf_t *cf)
{
    ngx_http_handler_pt                *h;
    ngx_http_core_main_conf_t          *cmcf;
    ngx_http_sendfile_mrb_main_conf_t  *mmcf;

    mmcf = ngx_http_conf_get_module_main_conf(cf,
                                              ngx_http_sendfile_mruby_module);

    if (mmcf->scripts.nelts == 0) {
        return NGX_OK;
    }

    mmcf->api = ngx_http_sendfile_mrb_api(cf);

    if (ngx_http_sendfile_mrb_add_prelude(cf, mmcf) != NGX_OK) {
        return NGX_ERROR;
    }

#ifndef MRB_USE_DEBUG_HOOK
    ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                  "mruby: this module was built with the distribution's "
                  "libmruby: an endless loop in a script is not ended");
#endif

    if (mmcf->has_access) {
        cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);

        h = ngx_array_push(&cmcf->phases[NGX_HTTP_ACCESS_PHASE].handlers);
        if (h == NULL) {
            return NGX_ERROR;
        }

        *h = ngx_http_sendfile_mrb_access_handler;
    }

    if (mmcf->has_file && ngx_http_sendfile_mrb_set_file(cf, mmcf) != NGX_OK) {
        return NGX_ERROR;
    }

    if (mmcf->api && mmcf->api->version != NGX_HTTP_SENDFILE_API) {
        mmcf->api = NULL;
    }

    return NGX_OK;
}


/* of the module for files; NULL if it is not loaded */

static ngx_http_sendfile_api_t *
ngx_http_sendfile_mrb_api(ngx_conf_t *cf)
{
    ngx_uint_t     i;
    ngx_module_t  *module;

    for (i = 0; cf->cycle->modules[i]; i++) {
        module = cf->cycle->modules[i];

        if (ngx_strcmp(module->name, "ngx_http_sendfile_module") == 0) {
            return (ngx_http_sendfile_api_t *) module->spare_hook0;
        }
    }

    return NULL;
}


/* the part of the classes that is written in Ruby */

static ngx_int_t
ngx_http_sendfile_mrb_add_prelude(ngx_conf_t *cf,
    ngx_http_sendfile_mrb_main_conf_t *mmcf)
{
    ngx_str_t  name;

    ngx_str_set(&name, "(nginx)");

    mmcf->prelude = ngx_http_sendfile_mrb_add(cf,
                                              &ngx_http_sendfile_mrb_prelude,
                                              &name, 1);

    return mmcf->prelude ? NGX_OK : NGX_ERROR;
}


static ngx_int_t
ngx_http_sendfile_mrb_set_file(ngx_conf_t *cf,
    ngx_http_sendfile_mrb_main_conf_t *mmcf)
{
    if (mmcf->api == NULL) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "\"http_sendfile_ruby\" needs ngx_http_sendfile_module: "
                      "add load_module modules/ngx_http_sendfile_module.so");
        return NGX_ERROR;
    }

    if (mmcf->api->version != NGX_HTTP_SENDFILE_API) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "ngx_http_sendfile_module.so and "
                      "ngx_http_sendfile_mruby_module.so are of "
                      "different versions: install both anew "
                      "and restart nginx");
        return NGX_ERROR;
    }

    return mmcf->api->set_script(cf, ngx_http_sendfile_mrb_file_handler);
}


static void *
ngx_http_sendfile_mrb_create_main_conf(ngx_conf_t *cf)
{
    ngx_http_sendfile_mrb_main_conf_t  *mmcf;

    mmcf = ngx_pcalloc(cf->pool, sizeof(ngx_http_sendfile_mrb_main_conf_t));
    if (mmcf == NULL) {
        return NULL;
    }

    if (ngx_array_init(&mmcf->scripts, cf->pool, 4,
                       sizeof(ngx_http_sendfile_mrb_script_t *))
        != NGX_OK)
    {
        return NULL;
    }

    return mmcf;
}


static void *
ngx_http_sendfile_mrb_create_loc_conf(ngx_conf_t *cf)
{
    ngx_http_sendfile_mrb_loc_conf_t  *mlcf;

    mlcf = ngx_pcalloc(cf->pool, sizeof(ngx_http_sendfile_mrb_loc_conf_t));
    if (mlcf == NULL) {
        return NULL;
    }

    /*
     * set by ngx_pcalloc():
     *
     *     mlcf->content, access, file
     */

    mlcf->instructions = NGX_CONF_UNSET_UINT;
    mlcf->memory = NGX_CONF_UNSET_SIZE;
    mlcf->time = NGX_CONF_UNSET_MSEC;

    return mlcf;
}


static char *
ngx_http_sendfile_mrb_merge_loc_conf(ngx_conf_t *cf, void *parent, void *child)
{
    ngx_http_sendfile_mrb_loc_conf_t *prev = parent;
    ngx_http_sendfile_mrb_loc_conf_t *conf = child;

    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    /* "if" and "limit_except" have the handler of the location around them */

    if (conf->content == NULL && clcf->noname) {
        conf->content = prev->content;
    }

    if (conf->access == NULL) {
        conf->access = prev->access;
    }

    if (conf->file == NULL) {
        conf->file = prev->file;
    }

    ngx_conf_merge_uint_value(conf->instructions, prev->instructions, 1000000);
    ngx_conf_merge_size_value(conf->memory, prev->memory, 8 * 1024 * 1024);
    ngx_conf_merge_msec_value(conf->time, prev->time, 100);

    return NGX_CONF_OK;
}


/* compiles a script; NULL if that fails, which has been logged */

static ngx_http_sendfile_mrb_script_t *
ngx_http_sendfile_mrb_add(ngx_conf_t *cf, ngx_str_t *source, ngx_str_t *name,
    ngx_uint_t line)
{
    ngx_int_t                           rc;
    ngx_http_sendfile_mrb_error_t       err;
    ngx_http_sendfile_mrb_script_t     *script, **scriptp;
    ngx_http_sendfile_mrb_main_conf_t  *mmcf;

    mmcf = ngx_http_conf_get_module_main_conf(cf,
                                              ngx_http_sendfile_mruby_module);

    script = ngx_pcalloc(cf->pool, sizeof(ngx_http_sendfile_mrb_script_t));
    if (script == NULL) {
        return NULL;
    }

    scriptp = ngx_array_push(&mmcf->scripts);
    if (scriptp == NULL) {
        return NULL;
    }

    *scriptp = script;

    script->main = mmcf;
    script->name = *name;
    script->line = line;

    rc = ngx_http_sendfile_mrb_compile(cf->pool, source, name, line,
                                       &script->code, &err);

    if (rc == NGX_DECLINED) {

        if (cf->conf_file && name->data == cf->conf_file->file.name.data) {
            cf->conf_file->line = err.line;
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "Ruby: %s", err.text);

        } else {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "Ruby: %V:%ui: %s,",
                               name, err.line, err.text);
        }

        return NULL;
    }

    return (rc == NGX_OK) ? script : NULL;
}


static ngx_http_sendfile_mrb_script_t *
ngx_http_sendfile_mrb_add_file(ngx_conf_t *cf, ngx_str_t *value, ngx_uint_t n)
{
    ngx_str_t                        name, source;
    ngx_file_info_t                  fi;
    ngx_http_sendfile_mrb_script_t  *script;

    if (n == 2 && ngx_strcmp(value[1].data, "cache") != 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid parameter \"%V\": write \"cache\" or "
                           "nothing after the file", &value[1]);
        return NULL;
    }

    name = value[0];

    if (ngx_conf_full_name(cf->cycle, &name, 0) != NGX_OK) {
        return NULL;
    }

    if (ngx_http_sendfile_mrb_read(cf->temp_pool, cf->log, &name, &source, &fi)
        != NGX_OK)
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "the script \"%V\" cannot be read", &name);
        return NULL;
    }

    script = ngx_http_sendfile_mrb_add(cf, &source, &name, 1);

    if (script) {
        script->watch = (n == 1);
    }

    return script;
}


static ngx_http_sendfile_mrb_script_t *
ngx_http_sendfile_mrb_add_code(ngx_conf_t *cf, ngx_str_t *value)
{
    size_t      i;
    ngx_uint_t  line, lines;

    lines = 0;

    for (i = 0; i < value->len; i++) {
        if (value->data[i] == LF) {
            lines++;
        }
    }

    /* the directive has been read up to its ";" */

    line = cf->conf_file->line;
    line = (line > lines) ? line - lines : 1;

    return ngx_http_sendfile_mrb_add(cf, value, &cf->conf_file->file.name,
                                     line);
}


static char *
ngx_http_sendfile_mrb_conf_script(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    char  *p = conf;

    ngx_str_t                        *value;
    ngx_http_sendfile_mrb_script_t  **script;

    script = (ngx_http_sendfile_mrb_script_t **) (p + cmd->offset);

    if (*script) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (cmd->post == NGX_HTTP_SENDFILE_MRB_CODE) {
        *script = ngx_http_sendfile_mrb_add_code(cf, &value[1]);

    } else {
        *script = ngx_http_sendfile_mrb_add_file(cf, &value[1],
                                                 cf->args->nelts - 1);
    }

    return *script ? NGX_CONF_OK : NGX_CONF_ERROR;
}


static char *
ngx_http_sendfile_mrb_conf_content(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);
    clcf->handler = ngx_http_sendfile_mrb_content_handler;

    return ngx_http_sendfile_mrb_conf_script(cf, cmd, conf);
}


static char *
ngx_http_sendfile_mrb_conf_access(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_sendfile_mrb_main_conf_t  *mmcf;

    mmcf = ngx_http_conf_get_module_main_conf(cf,
                                              ngx_http_sendfile_mruby_module);
    mmcf->has_access = 1;

    return ngx_http_sendfile_mrb_conf_script(cf, cmd, conf);
}


static char *
ngx_http_sendfile_mrb_conf_file(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_sendfile_mrb_main_conf_t  *mmcf;

    mmcf = ngx_http_conf_get_module_main_conf(cf,
                                              ngx_http_sendfile_mruby_module);
    mmcf->has_file = 1;

    return ngx_http_sendfile_mrb_conf_script(cf, cmd, conf);
}


/* as ngx_http_rewrite_set() */

static char *
ngx_http_sendfile_mrb_conf_set(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_int_t                              index;
    ngx_str_t                             *value;
    ngx_http_variable_t                   *v;
    ngx_http_sendfile_mrb_script_t        *script;
    ngx_http_sendfile_mrb_set_code_t      *code;
    ngx_http_sendfile_mrb_rewrite_conf_t  *rlcf;

    value = cf->args->elts;

    if (value[1].data[0] != '$' || value[1].len == 1) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid variable name \"%V\": write it with a "
                           "\"$\"", &value[1]);
        return NGX_CONF_ERROR;
    }

    value[1].len--;
    value[1].data++;

    v = ngx_http_add_variable(cf, &value[1], NGX_HTTP_VAR_CHANGEABLE
                                             |NGX_HTTP_VAR_WEAK);
    if (v == NULL) {
        return NGX_CONF_ERROR;
    }

    index = ngx_http_get_variable_index(cf, &value[1]);
    if (index == NGX_ERROR) {
        return NGX_CONF_ERROR;
    }

    if (v->get_handler == NULL) {
        v->get_handler = ngx_http_sendfile_mrb_set_value;
    }

    if (cmd->post == NGX_HTTP_SENDFILE_MRB_CODE) {
        script = ngx_http_sendfile_mrb_add_code(cf, &value[2]);

    } else {
        script = ngx_http_sendfile_mrb_add_file(cf, &value[2],
                                                cf->args->nelts - 2);
    }

    if (script == NULL) {
        return NGX_CONF_ERROR;
    }

    rlcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_rewrite_module);

    code = ngx_http_script_start_code(cf->pool, &rlcf->codes,
                                     sizeof(ngx_http_sendfile_mrb_set_code_t));
    if (code == NULL) {
        return NGX_CONF_ERROR;
    }

    code->code = ngx_http_sendfile_mrb_set;
    code->index = index;
    code->script = script;

    return NGX_CONF_OK;
}


static char *
ngx_http_sendfile_mrb_conf_limits(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_sendfile_mrb_loc_conf_t *mlcf = conf;

    ssize_t     size;
    ngx_int_t   n;
    ngx_str_t  *value, s;
    ngx_uint_t  i;

    value = cf->args->elts;

    for (i = 1; i < cf->args->nelts; i++) {

        if (ngx_strncmp(value[i].data, "instructions=", 13) == 0) {

            if (mlcf->instructions != NGX_CONF_UNSET_UINT) {
                return "is duplicate";
            }

#ifndef MRB_USE_DEBUG_HOOK
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "\"instructions=\" needs the module's own "
                               "build of mruby, and this module was built "
                               "with the distribution's libmruby: build it "
                               "where mruby's source can be had, or leave "
                               "\"instructions=\" out");
            return NGX_CONF_ERROR;
#endif

            n = ngx_atoi(value[i].data + 13, value[i].len - 13);

            if (n < 1 || n > NGX_HTTP_SENDFILE_MRB_MAX_COUNT) {
                goto invalid;
            }

            mlcf->instructions = n;
            continue;
        }

        if (ngx_strncmp(value[i].data, "memory=", 7) == 0) {

            if (mlcf->memory != NGX_CONF_UNSET_SIZE) {
                return "is duplicate";
            }

            s.data = value[i].data + 7;
            s.len = value[i].len - 7;

            size = ngx_parse_size(&s);

            if (size < NGX_HTTP_SENDFILE_MRB_MIN_MEMORY) {
                goto invalid;
            }

            mlcf->memory = size;
            continue;
        }

        goto invalid;
    }

    return NGX_CONF_OK;

invalid:

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "invalid parameter \"%V\": write instructions=1000000 "
                       "(1 to %d), memory=8m (at least 64k), or both",
                       &value[i], NGX_HTTP_SENDFILE_MRB_MAX_COUNT);

    return NGX_CONF_ERROR;
}


static char *
ngx_http_sendfile_mrb_conf_time(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_sendfile_mrb_loc_conf_t *mlcf = conf;

    ngx_int_t   time;
    ngx_str_t  *value;

    if (mlcf->time != NGX_CONF_UNSET_MSEC) {
        return "is duplicate";
    }

#ifndef MRB_USE_DEBUG_HOOK
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "\"mruby_time_limit\" needs the module's own build of "
                       "mruby, and this module was built with the "
                       "distribution's libmruby: build it where mruby's "
                       "source can be had, or leave \"mruby_time_limit\" "
                       "out");
    return NGX_CONF_ERROR;
#endif

    value = cf->args->elts;

    time = ngx_parse_time(&value[1], 0);

    if (time < 1 || time > NGX_HTTP_SENDFILE_MRB_MAX_TIME) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid value \"%V\": write 100ms (1ms to 1h)",
                           &value[1]);
        return NGX_CONF_ERROR;
    }

    mlcf->time = time;

    return NGX_CONF_OK;
}


/* runs in the rewrite phase, in the order of "set" and "if" */

static void
ngx_http_sendfile_mrb_set(ngx_http_script_engine_t *e)
{
    ngx_str_t                           value;
    ngx_http_variable_value_t          *v;
    ngx_http_sendfile_mrb_set_code_t   *code;
    ngx_http_sendfile_mrb_main_conf_t  *mmcf;

    code = (ngx_http_sendfile_mrb_set_code_t *) e->ip;

    e->ip += sizeof(ngx_http_sendfile_mrb_set_code_t);

    mmcf = ngx_http_get_module_main_conf(e->request,
                                         ngx_http_sendfile_mruby_module);

    if (mmcf->api && mmcf->api->trial(e->request))
    {
        e->request->variables[code->index] = ngx_http_variable_null_value;
        return;
    }

    if (ngx_http_sendfile_mrb_run(e->request, code->script, &value, NULL)
        != NGX_OK)
    {
        e->ip = (u_char *) &ngx_http_sendfile_mrb_exit_code;
        e->status = NGX_HTTP_INTERNAL_SERVER_ERROR;
        return;
    }

    v = &e->request->variables[code->index];

    v->len = value.len;
    v->data = value.data;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;
}


/* the value where no mruby_set has run: none */

static ngx_int_t
ngx_http_sendfile_mrb_set_value(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    *v = ngx_http_variable_null_value;

    return NGX_OK;
}


static ngx_int_t
ngx_http_sendfile_mrb_init_process(ngx_cycle_t *cycle)
{
    ngx_http_sendfile_mrb_main_conf_t  *mmcf;

    if (ngx_process != NGX_PROCESS_WORKER
        && ngx_process != NGX_PROCESS_SINGLE)
    {
        return NGX_OK;
    }

    mmcf = ngx_http_cycle_get_module_main_conf(cycle,
                                               ngx_http_sendfile_mruby_module);

    if (mmcf && mmcf->scripts.nelts) {
        (void) ngx_http_sendfile_mrb_open(mmcf, cycle->log);
    }

    return NGX_OK;
}


static void
ngx_http_sendfile_mrb_exit_process(ngx_cycle_t *cycle)
{
    ngx_http_sendfile_mrb_main_conf_t  *mmcf;

    mmcf = ngx_http_cycle_get_module_main_conf(cycle,
                                               ngx_http_sendfile_mruby_module);

    if (mmcf) {
        ngx_http_sendfile_mrb_close(mmcf);
    }
}
