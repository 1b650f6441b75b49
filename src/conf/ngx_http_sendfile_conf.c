
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Directives that are no plain slot.  A mistake is answered with what to
 * write instead.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_conf.h"


static ngx_int_t ngx_http_sendfile_conf_create(ngx_conf_t *cf,
    ngx_http_sendfile_store_t *store, nsf_url_t *url);
static ngx_http_complex_value_t *ngx_http_sendfile_conf_value(ngx_conf_t *cf,
    ngx_str_t *value);
static char *ngx_http_sendfile_conf_server(ngx_conf_t *cf,
    ngx_http_sendfile_store_t *store, nsf_url_t *url);
static ngx_uint_t ngx_http_sendfile_conf_has_id(ngx_str_t *value);
static char *ngx_http_sendfile_conf_code(ngx_conf_t *cf,
    ngx_http_sendfile_loc_conf_t *slcf, ngx_str_t *value);


ngx_http_sendfile_store_t *
ngx_http_sendfile_conf_store(ngx_conf_t *cf, ngx_str_t *url)
{
    nsf_url_t                        u;
    ngx_uint_t                       i;
    const char                      *err;
    ngx_http_sendfile_store_t       *store, **stores, **storep;
    ngx_http_sendfile_main_conf_t   *smcf;

    smcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_sendfile_module);

    stores = smcf->stores.elts;

    for (i = 0; i < smcf->stores.nelts; i++) {
        if (stores[i]->url.len == url->len
            && ngx_strncmp(stores[i]->url.data, url->data, url->len) == 0)
        {
            return stores[i];
        }
    }

    err = nsf_url_parse(&u, url->data, url->len);

    if (err) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid store \"%V\": %s", url, err);
        return NULL;
    }

    store = ngx_pcalloc(cf->pool, sizeof(ngx_http_sendfile_store_t));
    if (store == NULL) {
        return NULL;
    }

    store->url = *url;
    ngx_http_sendfile_conf_place(cf, &store->place);

    if (u.scheme.len && ngx_http_sendfile_conf_create(cf, store, &u) != NGX_OK)
    {
        return NULL;
    }

    /* a NAME gets its type from its block, before or after this line */

    storep = ngx_array_push(&smcf->stores);
    if (storep == NULL) {
        return NULL;
    }

    *storep = store;

    return store;
}


static ngx_int_t
ngx_http_sendfile_conf_create(ngx_conf_t *cf,
    ngx_http_sendfile_store_t *store, nsf_url_t *url)
{
    char                            *rv;
    ngx_str_t                        usage;
    ngx_http_sendfile_store_type_t  *type;

    type = ngx_http_sendfile_conf_type(cf, &url->scheme);

    if (type == NULL) {
        usage = ngx_http_sendfile_conf_usage(cf, 0);

        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "unknown kind of store \"%*s\" in \"%V\": write %V",
                           url->scheme.len, url->scheme.data, &store->url,
                           &usage);
        return NGX_ERROR;
    }

    store->type = type;

    rv = type->server ? ngx_http_sendfile_conf_server(cf, store, url)
                      : type->create(cf, store, url);

    if (rv == NGX_CONF_ERROR) {
        return NGX_ERROR;
    }

    if (rv != NGX_CONF_OK) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid store: \"%V\" %s", &store->url, rv);
        return NGX_ERROR;
    }

    return NGX_OK;
}


char *
ngx_http_sendfile_conf_enable(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_sendfile_loc_conf_t  *slcf = conf;

    ngx_http_sendfile_conf_place(cf, &slcf->places->enable);

    return ngx_conf_set_flag_slot(cf, cmd, conf);
}


char *
ngx_http_sendfile_conf_lookup(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_sendfile_loc_conf_t  *slcf = conf;

    ngx_str_t  *value;

    if (slcf->store != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }

    value = cf->args->elts;

    slcf->store = ngx_http_sendfile_conf_store(cf, &value[1]);

    return slcf->store ? NGX_CONF_OK : NGX_CONF_ERROR;
}


char *
ngx_http_sendfile_conf_key(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_sendfile_loc_conf_t  *slcf = conf;

    ngx_str_t  *value;

    if (slcf->key != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (ngx_strcmp(value[1].data, "$sendfile_id") == 0) {
        slcf->key = NULL;
        return NGX_CONF_OK;
    }

    if (value[1].len == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "empty key: write one, such as $sendfile_id or "
                           "\"file:$sendfile_id\"");
        return NGX_CONF_ERROR;
    }

    slcf->key = ngx_http_sendfile_conf_value(cf, &value[1]);
    slcf->key_has_id = ngx_http_sendfile_conf_has_id(&value[1]);

    return slcf->key ? NGX_CONF_OK : NGX_CONF_ERROR;
}


char *
ngx_http_sendfile_conf_format(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_sendfile_loc_conf_t  *slcf = conf;

    ngx_str_t  *value;

    if (slcf->format != NGX_CONF_UNSET_UINT) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (ngx_strcmp(value[1].data, "auto") == 0) {
        slcf->format = NSF_FORMAT_AUTO;

    } else if (ngx_strcmp(value[1].data, "path") == 0) {
        slcf->format = NSF_FORMAT_PATH;

    } else if (ngx_strcmp(value[1].data, "json") == 0) {
        slcf->format = NSF_FORMAT_JSON;

    } else if (ngx_strcmp(value[1].data, "marshal") == 0) {
        slcf->format = NSF_FORMAT_MARSHAL;

    } else {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid format \"%V\": write auto, path, json "
                           "or marshal", &value[1]);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


char *
ngx_http_sendfile_conf_prefix(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_sendfile_loc_conf_t  *slcf = conf;

    ngx_str_t   *value;
    const char  *err;

    if (slcf->prefix != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }

    if (slcf->places->has_root) {
        return "and \"http_sendfile_root\" are on one level: keep one of them";
    }

    value = cf->args->elts;

    if (value[1].len == 0
        || (value[1].data[0] != '/' && value[1].data[0] != '$'))
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "prefix \"%V\" is no absolute URI: write "
                           "a location's, such as /files/", &value[1]);
        return NGX_CONF_ERROR;
    }

    if (ngx_http_script_variables_count(&value[1]) == 0) {

        err = nsf_base_check(value[1].data, value[1].len);

        if (err == NULL && ngx_strchr(value[1].data, '?')) {
            err = "\"?\" in it";
        }

        if (err) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid prefix \"%V\": %s; write "
                               "a location's URI, such as /files/",
                               &value[1], err);
            return NGX_CONF_ERROR;
        }
    }

    slcf->prefix = ngx_http_sendfile_conf_value(cf, &value[1]);
    if (slcf->prefix == NULL) {
        return NGX_CONF_ERROR;
    }

    slcf->places->has_prefix = 1;
    slcf->deliver = NGX_HTTP_SENDFILE_REDIRECT;
    ngx_http_sendfile_conf_place(cf, &slcf->places->prefix);

    return NGX_CONF_OK;
}


char *
ngx_http_sendfile_conf_root(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_sendfile_loc_conf_t  *slcf = conf;

    ngx_str_t   *value;
    const char  *err;

    if (slcf->root != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (ngx_strcmp(value[1].data, "off") == 0) {
        slcf->root = NULL;
        slcf->deliver = NGX_HTTP_SENDFILE_REDIRECT;
        return NGX_CONF_OK;
    }

    if (slcf->places->has_prefix) {
        return "and \"http_sendfile_prefix\" are on one level: "
               "keep one of them";
    }

    if (value[1].len == 0
        || (value[1].data[0] != '/' && value[1].data[0] != '$'))
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "root \"%V\" is no absolute path: write one, "
                           "such as /srv/files, or off", &value[1]);
        return NGX_CONF_ERROR;
    }

    if (ngx_http_script_variables_count(&value[1]) == 0) {

        while (value[1].len > 1 && value[1].data[value[1].len - 1] == '/') {
            value[1].data[--value[1].len] = '\0';
        }

        err = nsf_base_check(value[1].data, value[1].len);

        if (err) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid root \"%V\": %s", &value[1], err);
            return NGX_CONF_ERROR;
        }
    }

    slcf->root = ngx_http_sendfile_conf_value(cf, &value[1]);
    if (slcf->root == NULL) {
        return NGX_CONF_ERROR;
    }

    slcf->places->has_root = 1;
    slcf->deliver = NGX_HTTP_SENDFILE_DIRECT;

    return NGX_CONF_OK;
}


char *
ngx_http_sendfile_conf_fallback(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_sendfile_loc_conf_t  *slcf = conf;

    ngx_str_t  *value;

    if (slcf->fallback != NGX_CONF_UNSET_UINT) {
        return "is duplicate";
    }

    value = cf->args->elts;

    ngx_http_sendfile_conf_place(cf, &slcf->places->fallback);

    if (ngx_strcmp(value[1].data, "off") == 0) {
        slcf->fallback = NGX_HTTP_SENDFILE_FALLBACK_OFF;
        return NGX_CONF_OK;
    }

    switch (value[1].data[0]) {

    case '=':
        return ngx_http_sendfile_conf_code(cf, slcf, &value[1]);

    case '@':
        slcf->fallback = NGX_HTTP_SENDFILE_FALLBACK_NAMED;
        break;

    case '/':
    case '$':
        slcf->fallback = NGX_HTTP_SENDFILE_FALLBACK_URI;
        slcf->fallback_has_args = (ngx_strchr(value[1].data, '?') != NULL);
        break;

    default:
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid fallback \"%V\": write a named location "
                           "(@app), a URI (/app), a code (=404) or off",
                           &value[1]);
        return NGX_CONF_ERROR;
    }

    slcf->fallback_to = ngx_http_sendfile_conf_value(cf, &value[1]);

    return slcf->fallback_to ? NGX_CONF_OK : NGX_CONF_ERROR;
}


char *
ngx_http_sendfile_conf_fallback_on(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_sendfile_loc_conf_t  *slcf = conf;

    static ngx_conf_bitmask_t  masks[] = {
        { ngx_string("miss"), NGX_HTTP_SENDFILE_ON_MISS },
        { ngx_string("error"), NGX_HTTP_SENDFILE_ON_ERROR },
        { ngx_string("timeout"), NGX_HTTP_SENDFILE_ON_TIMEOUT },
        { ngx_string("invalid"), NGX_HTTP_SENDFILE_ON_INVALID },
        { ngx_string("missing_file"), NGX_HTTP_SENDFILE_ON_MISSING_FILE },
        { ngx_null_string, 0 }
    };

    if (slcf->fallback_on != NGX_CONF_UNSET_UINT) {
        return "is duplicate";
    }

    slcf->fallback_on = 0;

    if (ngx_http_sendfile_conf_masks(cf, masks, 0, &slcf->fallback_on,
                                     "any of miss, error, timeout, invalid, "
                                     "missing_file")
        != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    ngx_http_sendfile_conf_place(cf, &slcf->places->fallback_on);

    return NGX_CONF_OK;
}


/*
 * ngx_conf_set_bitmask_slot() with an error that says what to write; the
 * words are exact, or, with caseless, names of headers
 */

ngx_int_t
ngx_http_sendfile_conf_masks(ngx_conf_t *cf, ngx_conf_bitmask_t *masks,
    ngx_uint_t caseless, ngx_uint_t *set, const char *write)
{
    ngx_int_t    rc;
    ngx_str_t   *value;
    ngx_uint_t   i, j;

    value = cf->args->elts;

    for (i = 1; i < cf->args->nelts; i++) {

        for (j = 0; masks[j].name.len; j++) {
            rc = caseless
                 ? ngx_strcasecmp(value[i].data, masks[j].name.data)
                 : ngx_strcmp(value[i].data, masks[j].name.data);

            if (rc == 0) {
                break;
            }
        }

        if (masks[j].name.len == 0) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid value \"%V\": write %s",
                               &value[i], write);
            return NGX_ERROR;
        }

        if (*set & masks[j].mask) {
            ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                               "duplicate value \"%V\"", &value[i]);
        }

        *set |= masks[j].mask;
    }

    return NGX_OK;
}


void
ngx_http_sendfile_conf_place(ngx_conf_t *cf, ngx_http_sendfile_place_t *place)
{
    place->file = cf->conf_file->file.name.data;
    place->line = cf->conf_file->line;
}


ngx_uint_t
ngx_http_sendfile_same_place(ngx_http_sendfile_place_t *a,
    ngx_http_sendfile_place_t *b)
{
    return a->file == b->file && a->line == b->line;
}


static ngx_http_complex_value_t *
ngx_http_sendfile_conf_value(ngx_conf_t *cf, ngx_str_t *value)
{
    ngx_http_complex_value_t          *cv;
    ngx_http_compile_complex_value_t   ccv;

    cv = ngx_palloc(cf->pool, sizeof(ngx_http_complex_value_t));
    if (cv == NULL) {
        return NULL;
    }

    ngx_memzero(&ccv, sizeof(ngx_http_compile_complex_value_t));

    ccv.cf = cf;
    ccv.value = value;
    ccv.complex_value = cv;

    if (ngx_http_compile_complex_value(&ccv) != NGX_OK) {
        return NULL;
    }

    return cv;
}


/* a block of one server, of which nothing else is said */

static char *
ngx_http_sendfile_conf_server(ngx_conf_t *cf,
    ngx_http_sendfile_store_t *store, nsf_url_t *url)
{
    ngx_int_t                          rc;
    ngx_http_sendfile_server_conf_t    server;
    ngx_http_sendfile_servers_conf_t   set;

    ngx_memzero(&server, sizeof(ngx_http_sendfile_server_conf_t));

    server.url = *url;
    ngx_http_sendfile_server_defaults(&server);

    rc = store->type->server(cf, &server);

    if (rc == NGX_DECLINED) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid store \"%V\": write %V", &store->url,
                           &store->type->server_usage);
    }

    if (rc != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    set.servers = &server;
    set.nservers = 1;
    set.distribution = NGX_HTTP_SENDFILE_DISTRIBUTION;
    set.connections = NGX_HTTP_SENDFILE_CONNECTIONS;
    set.connect_timeout = NGX_HTTP_SENDFILE_CONNECT_TIMEOUT;
    set.lines = NULL;

    return (store->type->servers(cf, store, &set) == NGX_OK) ? NGX_CONF_OK
                                                             : NGX_CONF_ERROR;
}


ngx_http_sendfile_store_type_t *
ngx_http_sendfile_conf_type(ngx_conf_t *cf, nsf_str_t *scheme)
{
    ngx_uint_t                        i;
    ngx_http_sendfile_main_conf_t    *smcf;
    ngx_http_sendfile_store_type_t  **types;

    smcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_sendfile_module);

    types = smcf->types.elts;

    for (i = 0; i < smcf->types.nelts; i++) {
        if (types[i]->scheme.len == scheme->len
            && ngx_strncmp(types[i]->scheme.data, scheme->data, scheme->len)
               == 0)
        {
            return types[i];
        }
    }

    return NULL;
}


ngx_str_t
ngx_http_sendfile_conf_usage(ngx_conf_t *cf, ngx_uint_t server)
{
    u_char                           *p, *last;
    ngx_str_t                         text, *usage;
    ngx_uint_t                        i;
    ngx_http_sendfile_main_conf_t    *smcf;
    ngx_http_sendfile_store_type_t  **types;

    ngx_str_null(&text);

    smcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_sendfile_module);

    p = ngx_pnalloc(cf->temp_pool, NGX_MAX_CONF_ERRSTR);
    if (p == NULL) {
        return text;
    }

    text.data = p;
    last = p + NGX_MAX_CONF_ERRSTR;

    types = smcf->types.elts;

    for (i = 0; i < smcf->types.nelts; i++) {
        usage = server ? &types[i]->server_usage : &types[i]->usage;

        if (usage->len) {
            p = ngx_slprintf(p, last, "%s%V", (p == text.data) ? "" : " or ",
                             usage);
        }
    }

    text.len = p - text.data;

    return text;
}


/* whether the text uses $sendfile_id, in either spelling */

static ngx_uint_t
ngx_http_sendfile_conf_has_id(ngx_str_t *value)
{
    u_char  *p, c;

    p = value->data;

    if (ngx_strstr(p, "${sendfile_id}")) {
        return 1;
    }

    for ( ;; ) {
        p = (u_char *) ngx_strstr(p, "$sendfile_id");

        if (p == NULL) {
            return 0;
        }

        p += sizeof("$sendfile_id") - 1;
        c = *p;

        if (!(c == '_'
              || (c >= '0' && c <= '9')
              || (c >= 'a' && c <= 'z')
              || (c >= 'A' && c <= 'Z')))
        {
            return 1;
        }
    }
}


static char *
ngx_http_sendfile_conf_code(ngx_conf_t *cf, ngx_http_sendfile_loc_conf_t *slcf,
    ngx_str_t *value)
{
    ngx_int_t  code;

    code = ngx_atoi(value->data + 1, value->len - 1);

    if (!ngx_http_sendfile_valid_code(code)) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid code \"%V\": write one from =400 to "
                           "=599, but not 408, 444 or 499", value);
        return NGX_CONF_ERROR;
    }

    slcf->fallback = NGX_HTTP_SENDFILE_FALLBACK_CODE;
    slcf->fallback_code = code;

    return NGX_CONF_OK;
}
