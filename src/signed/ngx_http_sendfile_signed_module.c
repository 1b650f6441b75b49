
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Signed links: the directives and the variables of the third module.  It needs
 * libcrypto, which the first one is free of.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_signed.h"


/* the last check of this request, and what it was made of */

typedef struct {
    ngx_http_sendfile_signature_t  *signature;
    ngx_str_t                       input;
    ngx_http_sendfile_signed_e      state;
    ngx_str_t                       value;
} ngx_http_sendfile_signed_ctx_t;


static ngx_http_sendfile_signed_ctx_t *ngx_http_sendfile_signed_result(
    ngx_http_request_t *r);
static ngx_int_t ngx_http_sendfile_signed_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_sendfile_signed_value_variable(
    ngx_http_request_t *r, ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_sendfile_signed_add_variables(ngx_conf_t *cf);
static ngx_int_t ngx_http_sendfile_signed_init(ngx_conf_t *cf);
static void *ngx_http_sendfile_signed_create_main_conf(ngx_conf_t *cf);
static void *ngx_http_sendfile_signed_create_loc_conf(ngx_conf_t *cf);
static char *ngx_http_sendfile_signed_merge_loc_conf(ngx_conf_t *cf,
    void *parent, void *child);
static char *ngx_http_sendfile_signed_conf(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static const ngx_http_sendfile_scheme_t *ngx_http_sendfile_signed_scheme(
    ngx_str_t *name);
static ngx_int_t ngx_http_sendfile_signed_param(ngx_conf_t *cf,
    ngx_http_sendfile_signature_t *sign, ngx_str_t *param);
static ngx_uint_t ngx_http_sendfile_signed_named(
    ngx_http_sendfile_signature_t *sign, ngx_uint_t param, ngx_str_t *word,
    const char *name, ngx_str_t *value);
static ngx_int_t ngx_http_sendfile_signed_compile(ngx_conf_t *cf,
    ngx_http_complex_value_t **cv, ngx_str_t *value);


static ngx_command_t  ngx_http_sendfile_signed_commands[] = {

    { ngx_string("http_sendfile_signature"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_1MORE,
      ngx_http_sendfile_signed_conf,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("http_sendfile_activestorage"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE123,
      ngx_http_sendfile_activestorage_conf,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("http_sendfile_activestorage_service"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE3,
      ngx_http_sendfile_activestorage_service,
      NGX_HTTP_MAIN_CONF_OFFSET,
      0,
      NULL },

      ngx_null_command
};


static ngx_http_module_t  ngx_http_sendfile_signed_module_ctx = {
    ngx_http_sendfile_signed_add_variables, /* preconfiguration */
    ngx_http_sendfile_signed_init,         /* postconfiguration */

    ngx_http_sendfile_signed_create_main_conf, /* create main configuration */
    NULL,                                  /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    ngx_http_sendfile_signed_create_loc_conf, /* create location config */
    ngx_http_sendfile_signed_merge_loc_conf /* merge location config */
};


ngx_module_t  ngx_http_sendfile_signed_module = {
    NGX_MODULE_V1,
    &ngx_http_sendfile_signed_module_ctx,  /* module context */
    ngx_http_sendfile_signed_commands,     /* module directives */
    NGX_HTTP_MODULE,                       /* module type */
    NULL,                                  /* init master */
    NULL,                                  /* init module */
    NULL,                                  /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    NULL,                                  /* exit process */
    NULL,                                  /* exit master */
    NGX_MODULE_V1_PADDING
};


/*
 * Not cached by nginx, which would not see that a redirect has led to a
 * location with another key.
 */

static ngx_http_variable_t  ngx_http_sendfile_signed_vars[] = {

    { ngx_string("sendfile_signed"), NULL,
      ngx_http_sendfile_signed_variable, 0, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("sendfile_signed_value"), NULL,
      ngx_http_sendfile_signed_value_variable, 0, NGX_HTTP_VAR_NOCACHEABLE,
      0 },

      ngx_http_null_variable
};


/* NULL: out of memory */

static ngx_http_sendfile_signed_ctx_t *
ngx_http_sendfile_signed_result(ngx_http_request_t *r)
{
    ngx_str_t                             input;
    ngx_http_sendfile_signature_t        *sign;
    ngx_http_sendfile_signed_ctx_t       *ctx;
    ngx_http_sendfile_signed_loc_conf_t  *slcf;

    ctx = ngx_http_get_module_ctx(r, ngx_http_sendfile_signed_module);

    if (ctx == NULL) {
        ctx = ngx_pcalloc(r->pool, sizeof(ngx_http_sendfile_signed_ctx_t));
        if (ctx == NULL) {
            return NULL;
        }

        ngx_http_set_ctx(r, ctx, ngx_http_sendfile_signed_module);
    }

    slcf = ngx_http_get_module_loc_conf(r, ngx_http_sendfile_signed_module);
    sign = slcf->signature;

    if (sign->scheme == NULL) {
        ngx_memzero(ctx, sizeof(ngx_http_sendfile_signed_ctx_t));
        return ctx;
    }

    if (sign->scheme->input(r, sign, &input) != NGX_OK) {
        return NULL;
    }

    if (ctx->signature == sign
        && ctx->input.len == input.len
        && (input.len == 0
            || ngx_memcmp(ctx->input.data, input.data, input.len) == 0))
    {
        return ctx;
    }

    ngx_memzero(ctx, sizeof(ngx_http_sendfile_signed_ctx_t));

    if (input.len <= NGX_HTTP_SENDFILE_SIGNED_MAX_TOKEN
        && sign->scheme->check(r, sign, &input, &ctx->state, &ctx->value)
           != NGX_OK)
    {
        ngx_memzero(ctx, sizeof(ngx_http_sendfile_signed_ctx_t));
        return NULL;
    }

    ctx->signature = sign;
    ctx->input = input;

    if (ctx->state != NGX_HTTP_SENDFILE_SIGNED_GOOD) {
        ngx_str_null(&ctx->value);
    }

    return ctx;
}


static ngx_int_t
ngx_http_sendfile_signed_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_http_sendfile_signed_ctx_t  *ctx;

    ctx = ngx_http_sendfile_signed_result(r);

    if (ctx == NULL) {
        return NGX_ERROR;
    }

    if (ctx->state == NGX_HTTP_SENDFILE_SIGNED_BAD) {
        v->not_found = 1;
        return NGX_OK;
    }

    v->len = 1;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;
    v->data = (u_char *) ((ctx->state == NGX_HTTP_SENDFILE_SIGNED_GOOD)
                          ? "1" : "0");

    return NGX_OK;
}


static ngx_int_t
ngx_http_sendfile_signed_value_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_http_sendfile_signed_ctx_t  *ctx;

    ctx = ngx_http_sendfile_signed_result(r);

    if (ctx == NULL) {
        return NGX_ERROR;
    }

    if (ctx->value.len == 0) {
        v->not_found = 1;
        return NGX_OK;
    }

    v->len = ctx->value.len;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;
    v->data = ctx->value.data;

    return NGX_OK;
}


static ngx_int_t
ngx_http_sendfile_signed_add_variables(ngx_conf_t *cf)
{
    ngx_http_variable_t  *var, *v;

    for (v = ngx_http_sendfile_signed_vars; v->name.len; v++) {
        var = ngx_http_add_variable(cf, &v->name, v->flags);
        if (var == NULL) {
            return NGX_ERROR;
        }

        var->get_handler = v->get_handler;
        var->data = v->data;
    }

    return NGX_OK;
}


/* the directive alone lets everybody in: somebody has to read the variable */

static ngx_int_t
ngx_http_sendfile_signed_init(ngx_conf_t *cf)
{
    ngx_uint_t                             i;
    ngx_http_variable_t                   *v;
    ngx_http_core_main_conf_t             *cmcf;
    ngx_http_sendfile_signed_main_conf_t  *smcf;

    smcf = ngx_http_conf_get_module_main_conf(cf,
                                              ngx_http_sendfile_signed_module);

    if (ngx_http_sendfile_activestorage_init(cf) != NGX_OK) {
        return NGX_ERROR;
    }

    if (smcf->file == NULL) {
        return NGX_OK;
    }

    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);
    v = cmcf->variables.elts;

    for (i = 0; i < cmcf->variables.nelts; i++) {

        if (v[i].name.len >= sizeof("sendfile_signed") - 1
            && ngx_strncmp(v[i].name.data, "sendfile_signed",
                           sizeof("sendfile_signed") - 1)
               == 0)
        {
            return NGX_OK;
        }
    }

    ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                  "\"http_sendfile_signature\" by itself refuses nothing: test "
                  "$sendfile_signed in %s:%ui", smcf->file, smcf->line);

    return NGX_OK;
}


static void *
ngx_http_sendfile_signed_create_main_conf(ngx_conf_t *cf)
{
    ngx_http_sendfile_signed_main_conf_t  *smcf;

    smcf = ngx_pcalloc(cf->pool, sizeof(ngx_http_sendfile_signed_main_conf_t));
    if (smcf == NULL) {
        return NULL;
    }

    if (ngx_array_init(&smcf->services, cf->pool, 1,
                       sizeof(ngx_http_sendfile_service_t))
        != NGX_OK)
    {
        return NULL;
    }

    return smcf;
}


static void *
ngx_http_sendfile_signed_create_loc_conf(ngx_conf_t *cf)
{
    return ngx_pcalloc(cf->pool, sizeof(ngx_http_sendfile_signed_loc_conf_t));
}


static char *
ngx_http_sendfile_signed_merge_loc_conf(ngx_conf_t *cf, void *parent,
    void *child)
{
    ngx_http_sendfile_signed_loc_conf_t *prev = parent;
    ngx_http_sendfile_signed_loc_conf_t *conf = child;

    static ngx_http_sendfile_signature_t  off;

    if (conf->signature == NULL) {
        conf->signature = prev->signature ? prev->signature : &off;
    }

    if (ngx_http_sendfile_activestorage_merge(cf, prev, conf) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


static char *
ngx_http_sendfile_signed_conf(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_sendfile_signed_loc_conf_t *slcf = conf;

    ngx_str_t                             *value;
    ngx_uint_t                             i;
    ngx_http_sendfile_signature_t         *sign;
    ngx_http_sendfile_signed_main_conf_t  *smcf;

    if (slcf->signature) {
        return "is duplicate";
    }

    value = cf->args->elts;

    sign = ngx_pcalloc(cf->pool, sizeof(ngx_http_sendfile_signature_t));
    if (sign == NULL) {
        return NGX_CONF_ERROR;
    }

    slcf->signature = sign;

    if (cf->args->nelts == 2 && ngx_strcmp(value[1].data, "off") == 0) {
        return NGX_CONF_OK;
    }

    sign->scheme = ngx_http_sendfile_signed_scheme(&value[1]);

    if (sign->scheme == NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "unknown scheme \"%V\": write hmac, laravel, "
                           "django, imgproxy or rails", &value[1]);
        return NGX_CONF_ERROR;
    }

    if (cf->args->nelts == 2) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "no file of keys: write \"http_sendfile_signature "
                           "%V /etc/nginx/sendfile.key\"", &value[1]);
        return NGX_CONF_ERROR;
    }

    sign->digest = sign->scheme->digest();

    for (i = 3; i < cf->args->nelts; i++) {
        if (ngx_http_sendfile_signed_param(cf, sign, &value[i]) != NGX_OK) {
            return NGX_CONF_ERROR;
        }
    }

    sign->keys = ngx_http_sendfile_signed_keys(cf, &value[2], sign->digest,
                                               sign->scheme->salted);
    if (sign->keys == NULL) {
        return NGX_CONF_ERROR;
    }

    smcf = ngx_http_conf_get_module_main_conf(cf,
                                              ngx_http_sendfile_signed_module);

    if (smcf->file == NULL) {
        smcf->file = cf->conf_file->file.name.data;
        smcf->line = cf->conf_file->line;
    }

    return NGX_CONF_OK;
}


static const ngx_http_sendfile_scheme_t *
ngx_http_sendfile_signed_scheme(ngx_str_t *name)
{
    const ngx_http_sendfile_scheme_t  *s;

    for (s = ngx_http_sendfile_schemes; s->name.len; s++) {
        if (s->name.len == name->len
            && ngx_strncmp(s->name.data, name->data, name->len) == 0)
        {
            return s;
        }
    }

    return NULL;
}


static ngx_int_t
ngx_http_sendfile_signed_param(ngx_conf_t *cf,
    ngx_http_sendfile_signature_t *sign, ngx_str_t *param)
{
    ngx_str_t  value;

    if ((sign->scheme->params & NGX_HTTP_SENDFILE_SIGNED_ADDRESS)
        && ngx_strcmp(param->data, "address") == 0)
    {
        sign->address = 1;
        return NGX_OK;
    }

    if (ngx_http_sendfile_signed_named(sign, NGX_HTTP_SENDFILE_SIGNED_BASE,
                                       param, "base=", &value))
    {
        return ngx_http_sendfile_signed_compile(cf, &sign->base, &value);
    }

    if (ngx_http_sendfile_signed_named(sign, NGX_HTTP_SENDFILE_SIGNED_TOKEN,
                                       param, "token=", &value))
    {
        return ngx_http_sendfile_signed_compile(cf, &sign->token, &value);
    }

    if (ngx_http_sendfile_signed_named(sign, NGX_HTTP_SENDFILE_SIGNED_PURPOSE,
                                       param, "purpose=", &value))
    {
        sign->purpose = value;
        return NGX_OK;
    }

    if (ngx_http_sendfile_signed_named(sign, NGX_HTTP_SENDFILE_SIGNED_PREFIX,
                                       param, "prefix=", &value)
        && value.data[0] == '/' && value.data[value.len - 1] != '/')
    {
        sign->prefix = value;
        return NGX_OK;
    }

    if (ngx_http_sendfile_signed_named(sign, NGX_HTTP_SENDFILE_SIGNED_DIGEST,
                                       param, "digest=", &value)
        && (ngx_strcmp(value.data, "sha1") == 0
            || ngx_strcmp(value.data, "sha256") == 0))
    {
        sign->digest = (value.len == 4) ? EVP_sha1() : EVP_sha256();
        return NGX_OK;
    }

    if (ngx_http_sendfile_signed_named(sign, NGX_HTTP_SENDFILE_SIGNED_MAX_AGE,
                                       param, "max_age=", &value))
    {
        sign->max_age = ngx_parse_time(&value, 1);

        if (sign->max_age > 0) {
            return NGX_OK;
        }
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "invalid parameter \"%V\" of \"%V\": hmac has address, "
                       "laravel base=URL, django max_age=TIME and "
                       "token=STRING, imgproxy prefix=/PATH, rails "
                       "purpose=NAME, digest=sha1 or sha256 and token=STRING",
                       param, &sign->scheme->name);

    return NGX_ERROR;
}


/* a parameter that the scheme has, with something behind "=" */

static ngx_uint_t
ngx_http_sendfile_signed_named(ngx_http_sendfile_signature_t *sign,
    ngx_uint_t param, ngx_str_t *word, const char *name, ngx_str_t *value)
{
    size_t  len;

    len = ngx_strlen(name);

    if (!(sign->scheme->params & param)
        || word->len <= len
        || ngx_strncmp(word->data, name, len) != 0)
    {
        return 0;
    }

    value->data = word->data + len;
    value->len = word->len - len;

    return 1;
}


static ngx_int_t
ngx_http_sendfile_signed_compile(ngx_conf_t *cf, ngx_http_complex_value_t **cv,
    ngx_str_t *value)
{
    ngx_http_compile_complex_value_t  ccv;

    *cv = ngx_palloc(cf->pool, sizeof(ngx_http_complex_value_t));
    if (*cv == NULL) {
        return NGX_ERROR;
    }

    ngx_memzero(&ccv, sizeof(ngx_http_compile_complex_value_t));

    ccv.cf = cf;
    ccv.value = value;
    ccv.complex_value = *cv;

    return ngx_http_compile_complex_value(&ccv);
}
