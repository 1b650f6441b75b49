
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Rails' Active Storage without Rails: the directives, and /disk/TOKEN/name,
 * whose token says all that there is to know of the file.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_signed.h"
#include "nsf_base64.h"
#include "nsf_blob.h"
#include "nsf_message.h"
#include "nsf_target.h"
#include "nsf_token.h"


static ngx_int_t ngx_http_sendfile_activestorage_disk(ngx_http_request_t *r,
    ngx_http_sendfile_signed_keys_t *keys, nsf_blob_url_t *url);
static const char *ngx_http_sendfile_activestorage_root(
    ngx_http_sendfile_signed_main_conf_t *smcf, const nsf_str_t *name,
    ngx_str_t *root);
static ngx_int_t ngx_http_sendfile_activestorage_location(ngx_conf_t *cf,
    ngx_http_sendfile_signed_loc_conf_t *conf);
static ngx_int_t ngx_http_sendfile_activestorage_api(ngx_conf_t *cf,
    ngx_http_sendfile_signed_main_conf_t *smcf);


ngx_int_t
ngx_http_sendfile_activestorage_handler(ngx_http_request_t *r)
{
    ngx_int_t                              rc;
    nsf_blob_url_t                         url;
    ngx_http_sendfile_signed_keys_t       *keys;
    ngx_http_sendfile_signed_loc_conf_t   *slcf;
    ngx_http_sendfile_signed_main_conf_t  *smcf;

    slcf = ngx_http_get_module_loc_conf(r, ngx_http_sendfile_signed_module);

    /*
     * The token is of the client's own request line, so that of a request that
     * has not been redirected.  PUT is an upload.
     */

    if (slcf->activestorage->keys == NULL
        || r != r->main
        || r->internal
        || r->error_page
        || !(r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))
        || (r->content_handler && !slcf->here)
        || !nsf_blob_url(&url, r->unparsed_uri.data, r->unparsed_uri.len,
                         slcf->activestorage->blobs))
    {
        return NGX_DECLINED;
    }

    keys = slcf->activestorage->keys;

    if (url.kind == NSF_BLOB_DISK) {
        return ngx_http_sendfile_activestorage_disk(r, keys, &url);
    }

    smcf = ngx_http_get_module_main_conf(r, ngx_http_sendfile_signed_module);

    rc = smcf->api->resume(r);

    return (rc == NGX_DECLINED)
           ? ngx_http_sendfile_activestorage_blob(r, keys, &url) : rc;
}


static ngx_int_t
ngx_http_sendfile_activestorage_disk(ngx_http_request_t *r,
    ngx_http_sendfile_signed_keys_t *keys, nsf_blob_url_t *url)
{
    ngx_http_sendfile_known_t              file;
    ngx_http_sendfile_token_t             *token;
    ngx_http_sendfile_signed_main_conf_t  *smcf;

    smcf = ngx_http_get_module_main_conf(r, ngx_http_sendfile_signed_module);

    ngx_memzero(&file, sizeof(ngx_http_sendfile_known_t));

    file.code = NGX_HTTP_NOT_FOUND;
    file.reason = ngx_http_sendfile_token(r, keys, &url->token,
                                          NGX_HTTP_SENDFILE_TOKEN_FILE,
                                          &token);
    if (file.reason == NULL) {
        file.reason = ngx_http_sendfile_activestorage_file(r, &token->message,
                                                           &file);
    }

    return smcf->api->send(r, &file);
}


const char *
ngx_http_sendfile_activestorage_verify(ngx_http_request_t *r,
    ngx_http_sendfile_signed_keys_t *keys, nsf_str_t *segment,
    ngx_str_t *payload)
{
    size_t        n;
    u_char       *p;
    nsf_token_t   token;

    if (segment->len > NGX_HTTP_SENDFILE_SIGNED_MAX_TOKEN) {
        return "token too long";
    }

    p = ngx_pnalloc(r->pool, segment->len);
    if (p == NULL) {
        return NSF_ERR_MEMORY;
    }

    if (nsf_token_unescape(p, &n, segment->data, segment->len)
        || nsf_token_rails(&token, p, n, 2 * keys->size)
        || !ngx_http_sendfile_signed_by(keys, &token.text, 1, &token.mac,
                                        NGX_HTTP_SENDFILE_SIGNED_HEX))
    {
        return "bad signature";
    }

    if (nsf_base64_decode(p, &n, p, token.text.len)) {
        return "token of no file";
    }

    payload->data = p;
    payload->len = n;

    return NULL;
}


const char *
ngx_http_sendfile_activestorage_read(ngx_str_t *payload, const char *purpose,
    nsf_message_t *m)
{
    if (nsf_message_decode(m, payload->data, payload->len)
        || !nsf_message_is(&m->purpose, purpose))
    {
        return "token of no file";
    }

    return NULL;
}


const char *
ngx_http_sendfile_activestorage_over(const nsf_message_t *m)
{
    return (ngx_http_sendfile_signed_now() >= m->expires) ? "expired token"
                                                          : NULL;
}


/* as ActiveStorage::DiskController has it */

const char *
ngx_http_sendfile_activestorage_file(ngx_http_request_t *r,
    const nsf_message_t *m, ngx_http_sendfile_known_t *file)
{
    size_t                                 n;
    u_char                                *p;
    const char                            *err;
    ngx_http_sendfile_signed_main_conf_t  *smcf;

    if (m->kind != NSF_MESSAGE_HASH || m->key.data == NULL) {
        return "token of no file";
    }

    file->key.data = (u_char *) m->key.data;
    file->key.len = m->key.len;

    if (m->key.len > NSF_MAX_PATH) {
        return "key too long";
    }

    p = ngx_pnalloc(r->pool, m->key.len + NSF_BLOB_FOLDERS);
    if (p == NULL) {
        return NSF_ERR_MEMORY;
    }

    err = nsf_blob_path(p, &n, &m->key);
    if (err) {
        return err;
    }

    file->target.path.data = p;
    file->target.path.len = n;

    file->target.type = m->type;

    if (m->type.len == 0) {
        file->target.type.data = (u_char *) "application/octet-stream";
        file->target.type.len = sizeof("application/octet-stream") - 1;
    }

    file->disposition.data = (u_char *) m->disposition.data;
    file->disposition.len = m->disposition.len;

    if (m->disposition.len == 0) {
        ngx_str_set(&file->disposition, "attachment");
    }

    ngx_str_set(&file->cache_control, NGX_HTTP_SENDFILE_SIGNED_PRIVATE);

    smcf = ngx_http_get_module_main_conf(r, ngx_http_sendfile_signed_module);

    return ngx_http_sendfile_activestorage_root(smcf, &m->service,
                                                &file->root);
}


/*
 * Without any http_sendfile_activestorage_service all services are one: the
 * location's root.
 */

static const char *
ngx_http_sendfile_activestorage_root(
    ngx_http_sendfile_signed_main_conf_t *smcf, const nsf_str_t *name,
    ngx_str_t *root)
{
    ngx_uint_t                    i;
    ngx_http_sendfile_service_t  *s;

    if (name->data == NULL || smcf->services.nelts == 0) {
        return NULL;
    }

    s = smcf->services.elts;

    for (i = 0; i < smcf->services.nelts; i++) {
        if (s[i].name.len == name->len
            && ngx_memcmp(s[i].name.data, name->data, name->len) == 0)
        {
            *root = s[i].root;
            return NULL;
        }
    }

    return "unknown service";
}


char *
ngx_http_sendfile_activestorage_conf(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_sendfile_signed_loc_conf_t *slcf = conf;

    ngx_str_t                          *value;
    ngx_uint_t                          i;
    const EVP_MD                       *digest;
    ngx_http_sendfile_activestorage_t  *as;

    if (slcf->activestorage) {
        return "is duplicate";
    }

    value = cf->args->elts;

    as = ngx_pcalloc(cf->pool, sizeof(ngx_http_sendfile_activestorage_t));
    if (as == NULL) {
        return NGX_CONF_ERROR;
    }

    slcf->activestorage = as;

    if (cf->args->nelts == 2 && ngx_strcmp(value[1].data, "off") == 0) {
        return NGX_CONF_OK;
    }

    digest = EVP_sha1();

    for (i = 2; i < cf->args->nelts; i++) {

        if (ngx_strcmp(value[i].data, "blobs") == 0) {
            as->blobs = 1;

        } else if (ngx_strcmp(value[i].data, "digest=sha256") == 0) {
            digest = EVP_sha256();

        } else if (ngx_strcmp(value[i].data, "digest=sha1") != 0) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid parameter \"%V\": write digest=sha256, "
                               "or nothing, which is sha1, or blobs",
                               &value[i]);
            return NGX_CONF_ERROR;
        }
    }

    as->keys = ngx_http_sendfile_signed_keys(cf, &value[1], digest, 0);
    if (as->keys == NULL || ngx_http_sendfile_tokens(cf, as->keys) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    slcf->here = (cf->cmd_type & NGX_HTTP_LOC_CONF) != 0;
    slcf->file = cf->conf_file->file.name.data;
    slcf->line = cf->conf_file->line;

    return NGX_CONF_OK;
}


char *
ngx_http_sendfile_activestorage_service(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_sendfile_signed_main_conf_t *smcf = conf;

    ngx_str_t                    *value, root;
    ngx_uint_t                    i;
    const char                   *err;
    ngx_http_sendfile_service_t  *s;

    value = cf->args->elts;

    if (ngx_strcmp(value[2].data, "root") != 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "a service has a \"root\", not \"%V\": write "
                           "\"http_sendfile_activestorage_service %V root "
                           "/srv/app/storage\"", &value[2], &value[1]);
        return NGX_CONF_ERROR;
    }

    root = value[3];

    while (root.len > 1 && root.data[root.len - 1] == '/') {
        root.len--;
    }

    err = (root.data[0] != '/') ? "not absolute"
                                : nsf_base_check(root.data, root.len);

    if (err || ngx_strchr(root.data, '$')) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid root \"%V\": %s", &value[3],
                           err ? err : "it can have no variables");
        return NGX_CONF_ERROR;
    }

    s = smcf->services.elts;

    for (i = 0; i < smcf->services.nelts; i++) {
        if (s[i].name.len == value[1].len
            && ngx_memcmp(s[i].name.data, value[1].data, value[1].len) == 0)
        {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "the service \"%V\" has a root already",
                               &value[1]);
            return NGX_CONF_ERROR;
        }
    }

    s = ngx_array_push(&smcf->services);
    if (s == NULL) {
        return NGX_CONF_ERROR;
    }

    s->name = value[1];
    s->root = root;

    return NGX_CONF_OK;
}


ngx_int_t
ngx_http_sendfile_activestorage_merge(ngx_conf_t *cf,
    ngx_http_sendfile_signed_loc_conf_t *prev,
    ngx_http_sendfile_signed_loc_conf_t *conf)
{
    ngx_http_core_loc_conf_t  *clcf;

    static ngx_http_sendfile_activestorage_t  off;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (conf->activestorage == NULL) {
        conf->activestorage = prev->activestorage ? prev->activestorage : &off;

        /* "if" and "limit_except" are their location */

        conf->here = clcf->noname && prev->here;
        conf->file = prev->file;
        conf->line = prev->line;
    }

    return conf->activestorage->keys
           ? ngx_http_sendfile_activestorage_location(cf, conf) : NGX_OK;
}


/* the first module's configuration of the location is merged already */

static ngx_int_t
ngx_http_sendfile_activestorage_location(ngx_conf_t *cf,
    ngx_http_sendfile_signed_loc_conf_t *conf)
{
    ngx_int_t                              rc;
    const char                            *text;
    ngx_http_sendfile_signed_main_conf_t  *smcf;

    smcf = ngx_http_conf_get_module_main_conf(cf,
                                              ngx_http_sendfile_signed_module);

    if (smcf->api == NULL
        && ngx_http_sendfile_activestorage_api(cf, smcf) != NGX_OK)
    {
        return NGX_ERROR;
    }

    rc = smcf->api->add_location(cf, conf->activestorage->blobs);

    /* what a server hands down may get what it needs below */

    if (rc == NGX_OK || rc == NGX_ERROR || !conf->here) {
        return (rc == NGX_ERROR) ? NGX_ERROR : NGX_OK;
    }

    text = (rc == NGX_DECLINED)
           ? "needs the folder of the files: write \"http_sendfile_root "
             "/srv/app/storage;\""
           : "with \"blobs\" needs to know which file a blob is: write "
             "\"http_sendfile_lookup STORE;\" or \"http_sendfile_learn on;\"";

    ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                  "\"http_sendfile_activestorage\" %s beside it, in %s:%ui",
                  text, conf->file, conf->line);

    return NGX_ERROR;
}


ngx_int_t
ngx_http_sendfile_activestorage_init(ngx_conf_t *cf)
{
    ngx_http_handler_pt                   *h;
    ngx_http_core_main_conf_t             *cmcf;
    ngx_http_sendfile_signed_main_conf_t  *smcf;

    smcf = ngx_http_conf_get_module_main_conf(cf,
                                              ngx_http_sendfile_signed_module);

    if (smcf->api == NULL) {
        /* it is on nowhere */
        return NGX_OK;
    }

    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);

    h = ngx_array_push(&cmcf->phases[NGX_HTTP_PRECONTENT_PHASE].handlers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    *h = ngx_http_sendfile_activestorage_handler;

    return smcf->api->set_tell(cf, ngx_http_sendfile_activestorage_tell);
}


/* the handler added last runs first, so the first module comes before us */

static ngx_int_t
ngx_http_sendfile_activestorage_api(ngx_conf_t *cf,
    ngx_http_sendfile_signed_main_conf_t *smcf)
{
    ngx_uint_t     i;
    ngx_module_t  *module;

    for (i = 0; cf->cycle->modules[i]; i++) {
        module = cf->cycle->modules[i];

        if (module == &ngx_http_sendfile_signed_module) {
            break;
        }

        if (ngx_strcmp(module->name, "ngx_http_sendfile_module") == 0) {
            smcf->api = (ngx_http_sendfile_api_t *) module->spare_hook0;
        }
    }

    if (smcf->api == NULL) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "\"http_sendfile_activestorage\" needs "
                      "ngx_http_sendfile_module: load it before "
                      "ngx_http_sendfile_signed_module");
        return NGX_ERROR;
    }

    if (smcf->api->version != NGX_HTTP_SENDFILE_API) {
        smcf->api = NULL;

        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "ngx_http_sendfile_module.so and "
                      "ngx_http_sendfile_signed_module.so are of "
                      "different versions: install both anew "
                      "and restart nginx");
        return NGX_ERROR;
    }

    return NGX_OK;
}
