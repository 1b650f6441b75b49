
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * The directives about an application's answers, and what can be said of
 * them when all has been read.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_conf.h"


static ngx_int_t ngx_http_sendfile_check_accept_allow(ngx_conf_t *cf,
    ngx_http_sendfile_enabled_t *e);
static ngx_uint_t ngx_http_sendfile_check_learn_works(
    ngx_http_sendfile_main_conf_t *smcf, ngx_http_sendfile_enabled_t *e);
static ngx_int_t ngx_http_sendfile_check_learn(ngx_conf_t *cf,
    ngx_http_sendfile_loc_conf_t *slcf);
static ngx_array_t *ngx_http_sendfile_conf_learn_vary(ngx_conf_t *cf,
    ngx_str_t *key);
static ngx_int_t ngx_http_sendfile_conf_learn_header(ngx_array_t *headers,
    u_char *name, size_t len);
static void ngx_http_sendfile_check_learn_blocked(ngx_conf_t *cf,
    ngx_http_sendfile_main_conf_t *smcf, ngx_uint_t i);
static ngx_uint_t ngx_http_sendfile_check_accept_said(
    ngx_http_sendfile_main_conf_t *smcf, ngx_http_sendfile_enabled_t *e);


char *
ngx_http_sendfile_conf_accept(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_sendfile_loc_conf_t  *slcf = conf;

    static ngx_conf_bitmask_t  masks[] = {
        { ngx_string("off"), NGX_HTTP_SENDFILE_ACCEPT_OFF },
        { ngx_string("X-Sendfile"), NGX_HTTP_SENDFILE_ACCEPT_FILE },
        { ngx_string("X-LIGHTTPD-send-file"),
          NGX_HTTP_SENDFILE_ACCEPT_LIGHTTPD },
        { ngx_string("X-Accel-Redirect"), NGX_HTTP_SENDFILE_ACCEPT_REDIRECT },
        { ngx_null_string, 0 }
    };

    ngx_uint_t  accept;

    if (slcf->accept != NGX_CONF_UNSET_UINT) {
        return "is duplicate";
    }

    accept = 0;

    if (ngx_http_sendfile_conf_masks(cf, masks, 1, &accept,
                                     "any of X-Sendfile, X-Accel-Redirect, "
                                     "X-LIGHTTPD-send-file, or off")
        != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    if (accept == NGX_HTTP_SENDFILE_ACCEPT_OFF) {
        accept = 0;

    } else if (accept & NGX_HTTP_SENDFILE_ACCEPT_OFF) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"off\" stands alone: write it, or any of "
                           "X-Sendfile, X-Accel-Redirect, "
                           "X-LIGHTTPD-send-file");
        return NGX_CONF_ERROR;
    }

    slcf->accept = accept;
    ngx_http_sendfile_conf_place(cf, &slcf->places->accept);

    return NGX_CONF_OK;
}


char *
ngx_http_sendfile_conf_allow(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_sendfile_loc_conf_t  *slcf = conf;

    nsf_str_t   *dir;
    ngx_str_t   *value;
    const char  *err;

    value = cf->args->elts;

    while (value[1].len > 1 && value[1].data[value[1].len - 1] == '/') {
        value[1].data[--value[1].len] = '\0';
    }

    if (value[1].len == 0 || value[1].data[0] != '/') {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\" is no absolute path: write that of the "
                           "directory below which the application's files "
                           "lie, such as /srv/files", &value[1]);
        return NGX_CONF_ERROR;
    }

    if (ngx_http_script_variables_count(&value[1])) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\" has a variable: write the directory "
                           "itself, such as /srv/files", &value[1]);
        return NGX_CONF_ERROR;
    }

    err = nsf_base_check(value[1].data, value[1].len);

    if (err) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid directory \"%V\": %s", &value[1], err);
        return NGX_CONF_ERROR;
    }

    if (slcf->allow == NGX_CONF_UNSET_PTR) {
        slcf->allow = ngx_array_create(cf->pool, 2, sizeof(nsf_str_t));

        if (slcf->allow == NULL) {
            return NGX_CONF_ERROR;
        }
    }

    dir = ngx_array_push(slcf->allow);
    if (dir == NULL) {
        return NGX_CONF_ERROR;
    }

    dir->data = value[1].data;
    dir->len = value[1].len;

    return NGX_CONF_OK;
}


char *
ngx_http_sendfile_conf_learn(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_sendfile_loc_conf_t  *slcf = conf;

    ngx_http_sendfile_conf_place(cf, &slcf->places->learn);

    return ngx_conf_set_flag_slot(cf, cmd, conf);
}


char *
ngx_http_sendfile_conf_learn_key(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_sendfile_loc_conf_t  *slcf = conf;

    ngx_str_t                         *value;
    ngx_http_compile_complex_value_t   ccv;

    if (slcf->learn_key != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (ngx_http_script_variables_count(&value[1]) == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\" has no variable, one answer would be for "
                           "all requests: write what an answer is for, such "
                           "as $scheme://$http_host$request_uri", &value[1]);
        return NGX_CONF_ERROR;
    }

    slcf->learn_vary = ngx_http_sendfile_conf_learn_vary(cf, &value[1]);

    if (slcf->learn_vary == NULL) {
        return NGX_CONF_ERROR;
    }

    slcf->learn_key = ngx_palloc(cf->pool, sizeof(ngx_http_complex_value_t));

    if (slcf->learn_key == NULL) {
        return NGX_CONF_ERROR;
    }

    ngx_memzero(&ccv, sizeof(ngx_http_compile_complex_value_t));

    ccv.cf = cf;
    ccv.value = &value[1];
    ccv.complex_value = slcf->learn_key;

    return (ngx_http_compile_complex_value(&ccv) == NGX_OK) ? NGX_CONF_OK
                                                            : NGX_CONF_ERROR;
}


/*
 * The request's headers that the key names, which an answer may vary by:
 * $http_accept_language, ${http_accept_language}, $sendfile_accept_encoding.
 */

static ngx_array_t *
ngx_http_sendfile_conf_learn_vary(ngx_conf_t *cf, ngx_str_t *key)
{
    u_char       *p, *last, *name;
    ngx_array_t  *headers;

    headers = ngx_array_create(cf->pool, 2, sizeof(nsf_str_t));
    if (headers == NULL) {
        return NULL;
    }

    p = key->data;
    last = p + key->len;

    while (p < last) {

        if (*p++ != '$') {
            continue;
        }

        if (p < last && *p == '{') {
            p++;
        }

        name = p;

        while (p < last
               && ((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z')
                   || (*p >= '0' && *p <= '9') || *p == '_'))
        {
            p++;
        }

        if (ngx_http_sendfile_conf_learn_header(headers, name, p - name)
            != NGX_OK)
        {
            return NULL;
        }
    }

    return headers;
}


static ngx_int_t
ngx_http_sendfile_conf_learn_header(ngx_array_t *headers, u_char *name,
    size_t len)
{
    u_char     *data;
    nsf_str_t  *header;

    if (len == sizeof("sendfile_accept_encoding") - 1
        && ngx_strncasecmp(name, (u_char *) "sendfile_accept_encoding", len)
           == 0)
    {
        name += sizeof("sendfile_") - 1;
        len -= sizeof("sendfile_") - 1;

    } else if (len > sizeof("http_") - 1
               && ngx_strncasecmp(name, (u_char *) "http_",
                                  sizeof("http_") - 1)
                  == 0)
    {
        name += sizeof("http_") - 1;
        len -= sizeof("http_") - 1;

    } else {
        return NGX_OK;
    }

    data = ngx_pnalloc(headers->pool, len);
    if (data == NULL) {
        return NGX_ERROR;
    }

    ngx_strlow(data, name, len);

    header = ngx_array_push(headers);
    if (header == NULL) {
        return NGX_ERROR;
    }

    header->data = data;
    header->len = len;

    return NGX_OK;
}


ngx_int_t
ngx_http_sendfile_check_accept(ngx_conf_t *cf)
{
    ngx_uint_t                      i;
    ngx_http_sendfile_enabled_t    *e;
    ngx_http_sendfile_main_conf_t  *smcf;

    smcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_sendfile_module);

    e = smcf->accepting.elts;

    for (i = 0; i < smcf->accepting.nelts; i++) {

        if (e[i].conf->accept
            && !ngx_http_sendfile_check_accept_said(smcf, &e[i])
            && ngx_http_sendfile_check_accept_allow(cf, &e[i]) != NGX_OK)
        {
            return NGX_ERROR;
        }

        if (e[i].conf->learn
            && !ngx_http_sendfile_check_learn_works(smcf, &e[i]))
        {
            return ngx_http_sendfile_check_learn(cf, e[i].conf);
        }

        if (e[i].conf->learn && e[i].conf->learn_blocked) {
            ngx_http_sendfile_check_learn_blocked(cf, smcf, i);
        }
    }

    return NGX_OK;
}


/*
 * What leads into an "if" is not said by the key of its location: said once
 * for all blocks that have inherited the same directive.
 */

static void
ngx_http_sendfile_check_learn_blocked(ngx_conf_t *cf,
    ngx_http_sendfile_main_conf_t *smcf, ngx_uint_t i)
{
    ngx_uint_t                    j;
    ngx_http_sendfile_place_t    *place;
    ngx_http_sendfile_enabled_t  *e;

    e = smcf->accepting.elts;
    place = &e[i].conf->places->learn;

    for (j = 0; j < i; j++) {
        if (e[j].conf->learn
            && e[j].conf->learn_blocked
            && ngx_http_sendfile_same_place(&e[j].conf->places->learn, place))
        {
            return;
        }
    }

    ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                  "http_sendfile: \"http_sendfile_learn\" is off inside "
                  "\"if\" and \"limit_except\" blocks: write "
                  "\"http_sendfile_learn_key STRING;\" into the block, with "
                  "all that its answers are for, if they are to be learned, "
                  "in %s:%ui", place->file, place->line);
}


static ngx_int_t
ngx_http_sendfile_check_accept_allow(ngx_conf_t *cf,
    ngx_http_sendfile_enabled_t *e)
{
    ngx_http_sendfile_place_t     *place;
    ngx_http_sendfile_loc_conf_t  *slcf;

    slcf = e->conf;
    place = &slcf->places->accept;

    if (slcf->allow || !(slcf->accept & NGX_HTTP_SENDFILE_ACCEPT_FILES)) {
        return NGX_OK;
    }

    ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                  "http_sendfile: no file may be sent for X-Sendfile: write "
                  "\"http_sendfile_allow /directory;\" beside "
                  "\"http_sendfile_accept\", in %s:%ui",
                  place->file, place->line);

    return NGX_ERROR;
}


/* inherited by many: it works for one of them */

static ngx_uint_t
ngx_http_sendfile_check_learn_works(ngx_http_sendfile_main_conf_t *smcf,
    ngx_http_sendfile_enabled_t *e)
{
    ngx_uint_t                    i;
    ngx_http_sendfile_enabled_t  *other;

    other = smcf->accepting.elts;

    for (i = 0; i < smcf->accepting.nelts; i++) {
        if (other[i].conf->learn
            && other[i].conf->cache
            && (other[i].conf->accept || other[i].conf->asks)
            && ngx_http_sendfile_same_place(&other[i].conf->places->learn,
                                            &e->conf->places->learn))
        {
            return 1;
        }
    }

    return 0;
}


static ngx_int_t
ngx_http_sendfile_check_learn(ngx_conf_t *cf,
    ngx_http_sendfile_loc_conf_t *slcf)
{
    ngx_http_sendfile_place_t  *place;

    place = &slcf->places->learn;

    if (slcf->accept == 0 && !slcf->asks) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "http_sendfile: there is nothing to learn: write "
                      "\"http_sendfile_accept X-Sendfile;\" and "
                      "\"http_sendfile_allow /directory;\" beside "
                      "\"http_sendfile_learn\", in %s:%ui",
                      place->file, place->line);
        return NGX_ERROR;
    }

    ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                  "http_sendfile: there is no cache to learn into: write "
                  "\"http_sendfile_cache_zone NAME:64m;\" into http and "
                  "\"http_sendfile_cache NAME;\" beside "
                  "\"http_sendfile_learn\", in %s:%ui",
                  place->file, place->line);

    return NGX_ERROR;
}


/* inherited by many: it is of use to one of them */

static ngx_uint_t
ngx_http_sendfile_check_accept_said(ngx_http_sendfile_main_conf_t *smcf,
    ngx_http_sendfile_enabled_t *e)
{
    ngx_uint_t                    i;
    ngx_http_sendfile_enabled_t  *other;

    other = smcf->accepting.elts;

    for (i = 0; i < smcf->accepting.nelts; i++) {
        if (other[i].conf->accept
            && other[i].conf->allow
            && ngx_http_sendfile_same_place(&other[i].conf->places->accept,
                                            &e->conf->places->accept))
        {
            return 1;
        }
    }

    return 0;
}
