
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Tokens of Rails: from a segment of a URL to what it says.  A worker remembers
 * those that were good, for the URL of a blob has the same one each time.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_signed.h"


/* no longer one is remembered; those of Rails have some 300 bytes */

#define NGX_HTTP_SENDFILE_TOKEN_KEPT    1024

/* the last digits of its code say in which set a token is */

#define NGX_HTTP_SENDFILE_TOKEN_DIGITS  3
#define NGX_HTTP_SENDFILE_TOKEN_SETS    4096


/* the newer one comes first */

struct ngx_http_sendfile_tokens_s {
    ngx_http_sendfile_token_t      *newer;
    ngx_http_sendfile_token_t      *older;
};


static ngx_http_sendfile_tokens_t *ngx_http_sendfile_token_set(
    ngx_http_sendfile_signed_keys_t *keys, const nsf_str_t *segment);
static ngx_uint_t ngx_http_sendfile_token_is(
    const ngx_http_sendfile_token_t *token, const nsf_str_t *segment);
static const char *ngx_http_sendfile_token_make(ngx_http_request_t *r,
    ngx_http_sendfile_signed_keys_t *keys, nsf_str_t *segment,
    const char *purpose, ngx_http_sendfile_token_t **token);
static const char *ngx_http_sendfile_token_fill(
    ngx_http_sendfile_token_t *token, ngx_str_t *payload,
    const char *purpose);
static void ngx_http_sendfile_token_release(void *data);
static void ngx_http_sendfile_token_forget(void *data);


const char *
ngx_http_sendfile_token(ngx_http_request_t *r,
    ngx_http_sendfile_signed_keys_t *keys, nsf_str_t *segment,
    const char *purpose, ngx_http_sendfile_token_t **token)
{
    const char                  *err;
    ngx_pool_cleanup_t          *cln;
    ngx_http_sendfile_tokens_t  *set;

    cln = ngx_pool_cleanup_add(r->pool, 0);
    if (cln == NULL) {
        return NSF_ERR_MEMORY;
    }

    set = ngx_http_sendfile_token_set(keys, segment);

    if (set && ngx_http_sendfile_token_is(set->newer, segment)) {
        *token = set->newer;

    } else if (set && ngx_http_sendfile_token_is(set->older, segment)) {
        *token = set->older;

    } else {
        err = ngx_http_sendfile_token_make(r, keys, segment, purpose, token);
        if (err) {
            return err;
        }

        if (set) {
            ngx_http_sendfile_token_release(set->older);

            set->older = set->newer;
            set->newer = *token;
            (*token)->users++;
        }
    }

    (*token)->users++;

    cln->handler = ngx_http_sendfile_token_release;
    cln->data = *token;

    if (!nsf_message_is(&(*token)->message.purpose, purpose)) {
        return "token of no file";
    }

    return ngx_http_sendfile_activestorage_over(&(*token)->message);
}


/*
 * NULL if nothing is remembered.  The digits are of a code that only those who
 * have a key can make, so nobody can have many tokens in one set.
 */

static ngx_http_sendfile_tokens_t *
ngx_http_sendfile_token_set(ngx_http_sendfile_signed_keys_t *keys,
    const nsf_str_t *segment)
{
    ngx_int_t  n;

    if (keys->tokens == NULL
        || segment->len < NGX_HTTP_SENDFILE_TOKEN_DIGITS
        || segment->len > NGX_HTTP_SENDFILE_TOKEN_KEPT)
    {
        return NULL;
    }

    n = ngx_hextoi((u_char *) segment->data + segment->len
                   - NGX_HTTP_SENDFILE_TOKEN_DIGITS,
                   NGX_HTTP_SENDFILE_TOKEN_DIGITS);

    return (n == NGX_ERROR) ? NULL : &keys->tokens[n];
}


/* what is before the code is no secret */

static ngx_uint_t
ngx_http_sendfile_token_is(const ngx_http_sendfile_token_t *token,
    const nsf_str_t *segment)
{
    size_t  n;

    if (token == NULL || token->len != segment->len) {
        return 0;
    }

    n = token->len - token->code;

    return ngx_memcmp(token->data, segment->data, n) == 0
           && CRYPTO_memcmp(token->data + n, segment->data + n, token->code)
              == 0;
}


/* of a token that is good and for this purpose; it has no user yet */

static const char *
ngx_http_sendfile_token_make(ngx_http_request_t *r,
    ngx_http_sendfile_signed_keys_t *keys, nsf_str_t *segment,
    const char *purpose, ngx_http_sendfile_token_t **token)
{
    u_char                     *p;
    ngx_str_t                   payload;
    const char                 *err;
    ngx_http_sendfile_token_t  *t;

    err = ngx_http_sendfile_activestorage_verify(r, keys, segment, &payload);
    if (err) {
        return err;
    }

    t = ngx_alloc(sizeof(ngx_http_sendfile_token_t) + segment->len
                  + payload.len, r->connection->log);
    if (t == NULL) {
        return NSF_ERR_MEMORY;
    }

    t->users = 0;
    t->len = segment->len;
    t->code = ngx_min(segment->len, 2 * keys->size);

    p = ngx_cpymem(t->data, segment->data, segment->len);
    ngx_memcpy(p, payload.data, payload.len);

    payload.data = p;

    err = ngx_http_sendfile_token_fill(t, &payload, purpose);

    if (err) {
        ngx_free(t);
        return err;
    }

    *token = t;

    return NULL;
}


static const char *
ngx_http_sendfile_token_fill(ngx_http_sendfile_token_t *token,
    ngx_str_t *payload, const char *purpose)
{
    const char     *err;
    nsf_message_t  *m;

    m = &token->message;

    if (ngx_strcmp(purpose, NGX_HTTP_SENDFILE_TOKEN_VARIATION) != 0) {
        return ngx_http_sendfile_activestorage_read(payload, purpose, m);
    }

    /* before it is read, which changes it */

    if (EVP_Digest(payload->data, payload->len, token->digest, NULL,
                   EVP_sha256(), NULL)
        != 1)
    {
        return NSF_ERR_MEMORY;
    }

    err = ngx_http_sendfile_activestorage_read(payload, purpose, m);

    /* ActiveStorage::Variation#digest is of the same bytes */

    if (err == NULL
        && m->marshal.data
        && EVP_Digest(m->marshal.data, m->marshal.len, token->tracked, NULL,
                      EVP_sha1(), NULL)
           != 1)
    {
        return NSF_ERR_MEMORY;
    }

    return err;
}


static void
ngx_http_sendfile_token_release(void *data)
{
    ngx_http_sendfile_token_t *token = data;

    if (token && --token->users == 0) {
        ngx_free(token);
    }
}


ngx_int_t
ngx_http_sendfile_tokens(ngx_conf_t *cf, ngx_http_sendfile_signed_keys_t *keys)
{
    ngx_pool_cleanup_t  *cln;

    cln = ngx_pool_cleanup_add(cf->pool, 0);
    if (cln == NULL) {
        return NGX_ERROR;
    }

    keys->tokens = ngx_pcalloc(cf->pool,
                               NGX_HTTP_SENDFILE_TOKEN_SETS
                               * sizeof(ngx_http_sendfile_tokens_t));
    if (keys->tokens == NULL) {
        return NGX_ERROR;
    }

    cln->handler = ngx_http_sendfile_token_forget;
    cln->data = keys->tokens;

    return NGX_OK;
}


static void
ngx_http_sendfile_token_forget(void *data)
{
    ngx_http_sendfile_tokens_t *set = data;

    ngx_uint_t  i;

    for (i = 0; i < NGX_HTTP_SENDFILE_TOKEN_SETS; i++) {
        ngx_http_sendfile_token_release(set[i].newer);
        ngx_http_sendfile_token_release(set[i].older);
    }
}
