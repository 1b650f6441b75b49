
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Active Storage's /blobs/ and /representations/: the signed id says which blob
 * is asked for, the location's store or what was learned of Rails' redirect
 * which file that is.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_signed.h"
#include "ngx_http_sendfile_headers.h"
#include "nsf_base64.h"
#include "nsf_target.h"


#define NGX_HTTP_SENDFILE_BLOB_KEY      "activestorage:"
#define NGX_HTTP_SENDFILE_BLOB_HEADERS  2

/* of a URL whose blob is never another one: http_cache_forever */

#define NGX_HTTP_SENDFILE_BLOB_PUBLIC   "max-age=3155695200, public"


/*
 * What a request asks for; "asked" comes first, for it is cast.  The keys are
 * those of the location where it was asked for.
 */

typedef struct {
    ngx_http_sendfile_asked_t       asked;
    ngx_http_sendfile_signed_keys_t
                                   *keys;
    nsf_disposition_e               disposition;
    ngx_str_t                       cache_control;
} ngx_http_sendfile_blob_t;


static const char *ngx_http_sendfile_blob_key(ngx_http_request_t *r,
    nsf_blob_url_t *url, ngx_http_sendfile_blob_t *blob);
static const char *ngx_http_sendfile_blob_variant(ngx_http_request_t *r,
    nsf_str_t *id, ngx_http_sendfile_token_t *variation, ngx_str_t *key);
static ngx_int_t ngx_http_sendfile_blob_record(ngx_http_request_t *r,
    ngx_http_sendfile_asked_t *asked, nsf_target_t *t);
static ngx_int_t ngx_http_sendfile_blob_headers(ngx_http_request_t *r,
    ngx_http_sendfile_blob_t *blob, nsf_target_t *t);
static ngx_int_t ngx_http_sendfile_blob_redirect(ngx_http_request_t *r,
    ngx_http_sendfile_asked_t *asked, ngx_str_t *url, ngx_str_t *kept);
static void ngx_http_sendfile_blob_path(ngx_str_t *url);
static void ngx_http_sendfile_blob_recall(ngx_http_request_t *r,
    ngx_http_sendfile_asked_t *asked, ngx_str_t *kept,
    ngx_http_sendfile_known_t *file);


ngx_int_t
ngx_http_sendfile_activestorage_blob(ngx_http_request_t *r,
    ngx_http_sendfile_signed_keys_t *keys, nsf_blob_url_t *url)
{
    ngx_http_sendfile_blob_t              *blob;
    ngx_http_sendfile_known_t              none;
    ngx_http_sendfile_signed_main_conf_t  *smcf;

    smcf = ngx_http_get_module_main_conf(r, ngx_http_sendfile_signed_module);

    blob = ngx_pcalloc(r->pool, sizeof(ngx_http_sendfile_blob_t));
    if (blob == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    blob->keys = keys;

    ngx_memzero(&none, sizeof(ngx_http_sendfile_known_t));

    none.code = NGX_HTTP_NOT_FOUND;
    none.reason = ngx_http_sendfile_blob_key(r, url, blob);

    if (none.reason) {
        return smcf->api->send(r, &none);
    }

    blob->asked.record = ngx_http_sendfile_blob_record;
    blob->asked.redirect = ngx_http_sendfile_blob_redirect;
    blob->asked.recall = ngx_http_sendfile_blob_recall;

    blob->disposition = nsf_blob_asked(r->args.data, r->args.len);

    if (url->proxy) {
        ngx_str_set(&blob->cache_control, NGX_HTTP_SENDFILE_BLOB_PUBLIC);

    } else {
        ngx_str_set(&blob->cache_control, NGX_HTTP_SENDFILE_SIGNED_PRIVATE);
    }

    return smcf->api->find(r, &blob->asked);
}


/*
 * NULL and what the blob is known by, activestorage:ID, or why the URL is none;
 * of a representation a colon follows, and the SHA-256, in hex, of what its
 * variation key says.
 */

static const char *
ngx_http_sendfile_blob_key(ngx_http_request_t *r, nsf_blob_url_t *url,
    ngx_http_sendfile_blob_t *blob)
{
    u_char                     *p;
    ngx_str_t                  *key;
    const char                 *err;
    ngx_http_sendfile_token_t  *id, *variation;

    err = ngx_http_sendfile_token(r, blob->keys, &url->token,
                                  NGX_HTTP_SENDFILE_TOKEN_BLOB, &id);
    if (err == NULL) {
        err = ngx_http_sendfile_blob_id(&id->message);
    }

    if (err) {
        return err;
    }

    key = &blob->asked.key;

    key->data = ngx_pnalloc(r->pool, sizeof(NGX_HTTP_SENDFILE_BLOB_KEY)
                                     + id->message.value.len
                                     + 2 * NGX_HTTP_SENDFILE_TOKEN_DIGEST);
    if (key->data == NULL) {
        return NSF_ERR_MEMORY;
    }

    p = ngx_cpymem(key->data, NGX_HTTP_SENDFILE_BLOB_KEY,
                   sizeof(NGX_HTTP_SENDFILE_BLOB_KEY) - 1);
    p = ngx_cpymem(p, id->message.value.data, id->message.value.len);

    key->len = p - key->data;

    if (url->kind != NSF_BLOB_REPRESENTATION) {
        return NULL;
    }

    err = ngx_http_sendfile_token(r, blob->keys, &url->variation,
                                  NGX_HTTP_SENDFILE_TOKEN_VARIATION,
                                  &variation);
    if (err == NULL && variation->message.kind != NSF_MESSAGE_HASH) {
        err = "token of no variation";
    }

    if (err) {
        return err;
    }

    blob->asked.owner = *key;

    *p++ = ':';
    p += nsf_hex(p, variation->digest, NGX_HTTP_SENDFILE_TOKEN_DIGEST);

    key->len = p - key->data;

    return ngx_http_sendfile_blob_variant(r, &id->message.value, variation,
                                          &blob->asked.variant);
}


/* ID/DIGEST, if Rails' own digest is known */

static const char *
ngx_http_sendfile_blob_variant(ngx_http_request_t *r, nsf_str_t *id,
    ngx_http_sendfile_token_t *variation, ngx_str_t *key)
{
    u_char     *p;
    ngx_str_t   digest, text;

    if (variation->message.marshal.data == NULL) {
        return NULL;
    }

    digest.data = variation->tracked;
    digest.len = NGX_HTTP_SENDFILE_TOKEN_TRACKED;

    key->data = ngx_pnalloc(r->pool, id->len + 1
                                     + ngx_base64_encoded_length(digest.len));
    if (key->data == NULL) {
        return NSF_ERR_MEMORY;
    }

    p = ngx_cpymem(key->data, id->data, id->len);
    *p++ = '/';

    text.data = p;
    ngx_encode_base64(&text, &digest);

    key->len = p + text.len - key->data;

    return NULL;
}


/* a number or a UUID: nothing that could end a key */

const char *
ngx_http_sendfile_blob_id(const nsf_message_t *m)
{
    size_t  i;

    if ((m->kind != NSF_MESSAGE_INTEGER && m->kind != NSF_MESSAGE_STRING)
        || m->value.len == 0
        || m->value.len > NGX_HTTP_SENDFILE_SIGNED_MAX_ID)
    {
        return "token of no blob";
    }

    for (i = 0; i < m->value.len; i++) {
        if (m->value.data[i] <= ' '
            || m->value.data[i] >= 0x7f
            || m->value.data[i] == ':')
        {
            return "token of no blob";
        }
    }

    return NULL;
}


/* as ActiveStorage::Blob has it */

static ngx_int_t
ngx_http_sendfile_blob_record(ngx_http_request_t *r,
    ngx_http_sendfile_asked_t *asked, nsf_target_t *t)
{
    u_char                    *name;
    ngx_http_sendfile_blob_t  *blob;

    blob = (ngx_http_sendfile_blob_t *) asked;

    nsf_blob_serving(t);

    if (blob->disposition == NSF_DISPOSITION_ATTACHMENT) {
        t->disposition = NSF_DISPOSITION_ATTACHMENT;
    }

    if (t->name.len) {
        name = ngx_pnalloc(r->pool, t->name.len);
        if (name == NULL) {
            return NGX_ERROR;
        }

        t->name.len = nsf_blob_name(name, &t->name);
        t->name.data = name;
    }

    return ngx_http_sendfile_blob_headers(r, blob, t);
}


/* beside the record's own, which count */

static ngx_int_t
ngx_http_sendfile_blob_headers(ngx_http_request_t *r,
    ngx_http_sendfile_blob_t *blob, nsf_target_t *t)
{
    size_t         i, n;
    ngx_str_t      name;
    nsf_header_t  *h;

    static const char  sniff[] = "X-Content-Type-Options";
    static const char  cache[] = "Cache-Control";

    h = ngx_palloc(r->pool, (t->nheaders + NGX_HTTP_SENDFILE_BLOB_HEADERS)
                            * sizeof(nsf_header_t));
    if (h == NULL) {
        return NGX_ERROR;
    }

    h[0].name.data = (const u_char *) sniff;
    h[0].name.len = sizeof(sniff) - 1;
    h[0].value.data = (const u_char *) "nosniff";
    h[0].value.len = sizeof("nosniff") - 1;

    h[1].name.data = (const u_char *) cache;
    h[1].name.len = sizeof(cache) - 1;
    h[1].value.data = blob->cache_control.data;
    h[1].value.len = blob->cache_control.len;

    n = NGX_HTTP_SENDFILE_BLOB_HEADERS;

    for (i = 0; i < t->nheaders; i++) {
        name.data = (u_char *) t->headers[i].name.data;
        name.len = t->headers[i].name.len;

        if (ngx_http_sendfile_name_is(&name, cache)) {
            n = 1;
        }
    }

    if (t->nheaders) {
        ngx_memcpy(&h[n], t->headers, t->nheaders * sizeof(nsf_header_t));
    }

    t->headers = h;
    t->nheaders += n;

    return NGX_OK;
}


/*
 * Where Rails leads to: the token of a file of ours, or somewhere else, of
 * which nothing is remembered.  To who has asked for an attachment it does not
 * say whether the blob is always one.
 */

static ngx_int_t
ngx_http_sendfile_blob_redirect(ngx_http_request_t *r,
    ngx_http_sendfile_asked_t *asked, ngx_str_t *url, ngx_str_t *kept)
{
    u_char                     *p;
    ngx_str_t                   payload;
    nsf_message_t               m;
    nsf_blob_url_t              disk;
    ngx_http_sendfile_blob_t   *blob;
    ngx_http_sendfile_known_t   file;

    blob = (ngx_http_sendfile_blob_t *) asked;

    if (blob->disposition == NSF_DISPOSITION_ATTACHMENT) {
        return NGX_DECLINED;
    }

    ngx_http_sendfile_blob_path(url);

    if (!nsf_blob_url(&disk, url->data, url->len, 1)
        || disk.kind != NSF_BLOB_DISK
        || ngx_http_sendfile_activestorage_verify(r, blob->keys, &disk.token,
                                                  &payload))
    {
        return NGX_DECLINED;
    }

    p = ngx_pnalloc(r->pool, payload.len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(p, payload.data, payload.len);

    kept->data = p;
    kept->len = payload.len;

    ngx_memzero(&file, sizeof(ngx_http_sendfile_known_t));

    if (ngx_http_sendfile_activestorage_read(&payload,
                                             NGX_HTTP_SENDFILE_TOKEN_FILE, &m)
        || ngx_http_sendfile_activestorage_over(&m)
        || ngx_http_sendfile_activestorage_file(r, &m, &file))
    {
        return NGX_DECLINED;
    }

    return NGX_OK;
}


/* of an absolute URL what follows the host */

static void
ngx_http_sendfile_blob_path(ngx_str_t *url)
{
    u_char  *p, *last;

    last = url->data + url->len;
    p = ngx_strlchr(url->data, last, '/');

    if (p == NULL
        || p == url->data
        || p[-1] != ':'
        || last - p < 2
        || p[1] != '/')
    {
        return;
    }

    p = ngx_strlchr(p + 2, last, '/');

    if (p == NULL) {
        p = last;
    }

    url->len = last - p;
    url->data = p;
}


/* its time may be over: that was Rails' URL, not this one */

static void
ngx_http_sendfile_blob_recall(ngx_http_request_t *r,
    ngx_http_sendfile_asked_t *asked, ngx_str_t *kept,
    ngx_http_sendfile_known_t *file)
{
    u_char                    *p;
    nsf_message_t              m;
    ngx_http_sendfile_blob_t  *blob;

    static ngx_str_t  shown = ngx_string("inline");
    static ngx_str_t  saved = ngx_string("attachment");

    blob = (ngx_http_sendfile_blob_t *) asked;

    file->reason = ngx_http_sendfile_activestorage_read(kept,
                                             NGX_HTTP_SENDFILE_TOKEN_FILE, &m);
    if (file->reason == NULL) {
        file->reason = ngx_http_sendfile_activestorage_file(r, &m, file);
    }

    if (file->reason) {
        return;
    }

    file->cache_control = blob->cache_control;

    if (blob->disposition != NSF_DISPOSITION_ATTACHMENT
        || file->disposition.len < shown.len
        || ngx_strncmp(file->disposition.data, shown.data, shown.len) != 0)
    {
        return;
    }

    p = ngx_pnalloc(r->pool, saved.len + file->disposition.len);
    if (p == NULL) {
        file->reason = NSF_ERR_MEMORY;
        return;
    }

    ngx_memcpy(p, saved.data, saved.len);
    ngx_memcpy(p + saved.len, file->disposition.data + shown.len,
               file->disposition.len - shown.len);

    file->disposition.data = p;
    file->disposition.len += saved.len - shown.len;
}
