
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Keys: from a file to HMAC contexts, which are wiped with the configuration
 * that they belong to.
 */


/* HMAC_CTX; ngx_event_openssl.h says so itself since nginx 1.21.2 */
#define OPENSSL_SUPPRESS_DEPRECATED

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_signed.h"
#include "nsf_base64.h"


static ngx_int_t ngx_http_sendfile_signed_read(ngx_conf_t *cf,
    ngx_str_t *file, u_char **text, size_t *size);
static ngx_int_t ngx_http_sendfile_signed_parse(ngx_conf_t *cf,
    ngx_http_sendfile_signed_keys_t *keys, ngx_str_t *file, u_char *text,
    size_t size, const EVP_MD *digest, ngx_uint_t salted);
static const char *ngx_http_sendfile_signed_line(ngx_conf_t *cf,
    ngx_http_sendfile_signed_keys_t *keys, u_char *p, u_char *last,
    const EVP_MD *digest, ngx_uint_t salted);
static const char *ngx_http_sendfile_signed_unhex(u_char **pos, u_char *last,
    ngx_str_t *bytes);
static const char *ngx_http_sendfile_signed_add(ngx_conf_t *cf,
    ngx_http_sendfile_signed_keys_t *keys, ngx_str_t *key, ngx_str_t *salt,
    const EVP_MD *digest);
static void ngx_http_sendfile_signed_wipe(void *data);


ngx_http_sendfile_signed_keys_t *
ngx_http_sendfile_signed_keys(ngx_conf_t *cf, ngx_str_t *file,
    const EVP_MD *digest, ngx_uint_t salted)
{
    size_t                            size;
    u_char                           *text;
    ngx_int_t                         rc;
    ngx_str_t                         name;
    ngx_pool_cleanup_t               *cln;
    ngx_http_sendfile_signed_keys_t  *keys;

    name = *file;

    if (ngx_conf_full_name(cf->cycle, &name, 1) != NGX_OK) {
        return NULL;
    }

    keys = ngx_pcalloc(cf->pool, sizeof(ngx_http_sendfile_signed_keys_t));
    if (keys == NULL) {
        return NULL;
    }

    if (ngx_array_init(&keys->keys, cf->pool, 2,
                       sizeof(ngx_http_sendfile_signed_key_t))
        != NGX_OK)
    {
        return NULL;
    }

    cln = ngx_pool_cleanup_add(cf->pool, 0);
    if (cln == NULL) {
        return NULL;
    }

    cln->handler = ngx_http_sendfile_signed_wipe;
    cln->data = keys;

    keys->size = EVP_MD_size(digest);

    if (ngx_http_sendfile_signed_read(cf, &name, &text, &size) != NGX_OK) {
        return NULL;
    }

    rc = ngx_http_sendfile_signed_parse(cf, keys, &name, text, size, digest,
                                        salted);

    OPENSSL_cleanse(text, NGX_HTTP_SENDFILE_SIGNED_MAX_FILE);
    ngx_free(text);

    return (rc == NGX_OK) ? keys : NULL;
}


/* to memory that is the caller's to wipe and to free */

static ngx_int_t
ngx_http_sendfile_signed_read(ngx_conf_t *cf, ngx_str_t *file, u_char **text,
    size_t *size)
{
    ssize_t          n;
    ngx_fd_t         fd;
    ngx_file_info_t  fi;

    fd = ngx_open_file(file->data, NGX_FILE_RDONLY|O_NONBLOCK, NGX_FILE_OPEN,
                       0);

    if (fd == NGX_INVALID_FILE) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, ngx_errno,
                           ngx_open_file_n " \"%V\" failed", file);
        return NGX_ERROR;
    }

    *text = NULL;

    if (ngx_fd_info(fd, &fi) == NGX_FILE_ERROR) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, ngx_errno,
                           ngx_fd_info_n " \"%V\" failed", file);
        goto failed;
    }

    if (!ngx_is_file(&fi)) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "\"%V\" is no regular file",
                           file);
        goto failed;
    }

    if (fi.st_mode & (S_IROTH|S_IWOTH)) {
        ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                           "everybody may read or write the keys in \"%V\": "
                           "chmod o-rwx it", file);
    }

    *text = ngx_alloc(NGX_HTTP_SENDFILE_SIGNED_MAX_FILE, cf->log);
    if (*text == NULL) {
        goto failed;
    }

    *size = 0;

    do {
        n = ngx_read_fd(fd, *text + *size,
                        NGX_HTTP_SENDFILE_SIGNED_MAX_FILE - *size);

        if (n == -1) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, ngx_errno,
                               ngx_read_fd_n " \"%V\" failed", file);
            goto failed;
        }

        *size += n;

    } while (n > 0 && *size < NGX_HTTP_SENDFILE_SIGNED_MAX_FILE);

    if (*size == NGX_HTTP_SENDFILE_SIGNED_MAX_FILE) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\" is too large for a file of keys", file);
        goto failed;
    }

    (void) ngx_close_file(fd);

    return NGX_OK;

failed:

    if (*text) {
        OPENSSL_cleanse(*text, NGX_HTTP_SENDFILE_SIGNED_MAX_FILE);
        ngx_free(*text);
    }

    (void) ngx_close_file(fd);

    return NGX_ERROR;
}


static ngx_int_t
ngx_http_sendfile_signed_parse(ngx_conf_t *cf,
    ngx_http_sendfile_signed_keys_t *keys, ngx_str_t *file, u_char *text,
    size_t size, const EVP_MD *digest, ngx_uint_t salted)
{
    u_char      *p, *end, *last;
    ngx_uint_t   line;
    const char  *err;

    last = text + size;
    line = 1;

    for (p = text; p < last; p = end + 1) {
        end = ngx_strlchr(p, last, LF);

        if (end == NULL) {
            end = last;
        }

        err = ngx_http_sendfile_signed_line(cf, keys, p, end, digest, salted);

        if (err) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "%V:%ui: %s", file, line,
                               err);
            return NGX_ERROR;
        }

        line++;
    }

    if (keys->keys.nelts == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "no key in \"%V\": write one a line, in hex", file);
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* a key and its salt, or nothing, and a comment behind that */

static const char *
ngx_http_sendfile_signed_line(ngx_conf_t *cf,
    ngx_http_sendfile_signed_keys_t *keys, u_char *p, u_char *last,
    const EVP_MD *digest, ngx_uint_t salted)
{
    ngx_str_t    key, salt;
    const char  *err;

    err = ngx_http_sendfile_signed_unhex(&p, last, &key);
    if (err) {
        return err;
    }

    if (key.len == 0) {
        return NULL;
    }

    err = ngx_http_sendfile_signed_unhex(&p, last, &salt);
    if (err) {
        return err;
    }

    if (salted && salt.len == 0) {
        return "a key without a salt: write both in hex, with a space between "
               "them";
    }

    if (!salted && salt.len) {
        return "more than a key: write one a line";
    }

    if (keys->keys.nelts == NGX_HTTP_SENDFILE_SIGNED_MAX_KEYS) {
        return "too many keys, 64 are the most";
    }

    return ngx_http_sendfile_signed_add(cf, keys, &key, &salt, digest);
}


/* the next word, in place; empty at the end of the line */

static const char *
ngx_http_sendfile_signed_unhex(u_char **pos, u_char *last, ngx_str_t *bytes)
{
    u_char     *p, *start;
    size_t      i;
    ngx_int_t   value;

    for (p = *pos; p < last && (*p == ' ' || *p == '\t' || *p == CR); p++) {
        /* void */
    }

    if (p < last && *p == '#') {
        p = last;
    }

    for (start = p;
         p < last && *p != ' ' && *p != '\t' && *p != CR && *p != '#';
         p++)
    {
        /* void */
    }

    bytes->data = start;
    bytes->len = (p - start) / 2;

    *pos = p;

    if ((p - start) % 2) {
        return "an odd number of characters: write each byte of a key as two "
               "hex digits";
    }

    if (bytes->len > NGX_HTTP_SENDFILE_SIGNED_MAX_KEY) {
        return "too long for a key, 1024 bytes are the most";
    }

    for (i = 0; i < bytes->len; i++) {
        value = ngx_hextoi(start + 2 * i, 2);

        if (value == NGX_ERROR) {
            return "not a key in hex: write each of its bytes as two hex "
                   "digits";
        }

        start[i] = (u_char) value;
    }

    return NULL;
}


static const char *
ngx_http_sendfile_signed_add(ngx_conf_t *cf,
    ngx_http_sendfile_signed_keys_t *keys, ngx_str_t *key, ngx_str_t *salt,
    const EVP_MD *digest)
{
    ngx_http_sendfile_signed_key_t  *k;

    k = ngx_array_push(&keys->keys);
    if (k == NULL) {
        return NSF_ERR_MEMORY;
    }

    ngx_memzero(k, sizeof(ngx_http_sendfile_signed_key_t));

    k->hmac = HMAC_CTX_new();

    if (k->hmac == NULL
        || !HMAC_Init_ex(k->hmac, key->data, key->len, digest, NULL))
    {
        return "libcrypto takes no key";
    }

    if (salt->len) {
        k->salt.data = ngx_pstrdup(cf->pool, salt);
        if (k->salt.data == NULL) {
            return NSF_ERR_MEMORY;
        }

        k->salt.len = salt->len;
    }

    return NULL;
}


static void
ngx_http_sendfile_signed_wipe(void *data)
{
    ngx_http_sendfile_signed_keys_t *keys = data;

    ngx_uint_t                       i;
    ngx_http_sendfile_signed_key_t  *k;

    k = keys->keys.elts;

    for (i = 0; i < keys->keys.nelts; i++) {
        HMAC_CTX_free(k[i].hmac);

        if (k[i].salt.len) {
            OPENSSL_cleanse(k[i].salt.data, k[i].salt.len);
        }
    }

    keys->keys.nelts = 0;
}


ngx_uint_t
ngx_http_sendfile_signed_by(ngx_http_sendfile_signed_keys_t *keys,
    const nsf_str_t *texts, ngx_uint_t n, const nsf_str_t *mac,
    ngx_http_sendfile_signed_encoding_e encoding)
{
    size_t                           len;
    u_char                           code[EVP_MAX_MD_SIZE];
    u_char                           text[2 * EVP_MAX_MD_SIZE];
    ngx_uint_t                       i, j;
    unsigned                         size;
    ngx_http_sendfile_signed_key_t  *k;

    len = (encoding == NGX_HTTP_SENDFILE_SIGNED_HEX)
          ? 2 * keys->size
          : nsf_base64_url_len(keys->size);

    if (mac->len != len) {
        return 0;
    }

    k = keys->keys.elts;

    for (i = 0; i < keys->keys.nelts; i++) {

        if (!HMAC_Init_ex(k[i].hmac, NULL, 0, NULL, NULL)
            || !HMAC_Update(k[i].hmac, k[i].salt.data, k[i].salt.len))
        {
            continue;
        }

        for (j = 0; j < n; j++) {
            if (!HMAC_Update(k[i].hmac, texts[j].data, texts[j].len)) {
                break;
            }
        }

        if (j != n || !HMAC_Final(k[i].hmac, code, &size)
            || size != keys->size)
        {
            continue;
        }

        if (encoding == NGX_HTTP_SENDFILE_SIGNED_HEX) {
            (void) nsf_hex(text, code, size);

        } else {
            (void) nsf_base64_url(text, code, size);
        }

        if (CRYPTO_memcmp(text, mac->data, len) == 0) {
            return 1;
        }
    }

    return 0;
}
