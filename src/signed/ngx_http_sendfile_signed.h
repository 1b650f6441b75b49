
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Private to the module for signatures: keys, schemes, what a request's
 * signature is worth.
 */


#ifndef _NGX_HTTP_SENDFILE_SIGNED_H_INCLUDED_
#define _NGX_HTTP_SENDFILE_SIGNED_H_INCLUDED_


/* as nginx does: HMAC_CTX is in all versions of OpenSSL */

#define OPENSSL_SUPPRESS_DEPRECATED

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "ngx_http_sendfile_api.h"
#include "nsf.h"
#include "nsf_blob.h"
#include "nsf_message.h"


/* of one file; a key that fits in no line of it is a mistake */

#define NGX_HTTP_SENDFILE_SIGNED_MAX_KEYS   64
#define NGX_HTTP_SENDFILE_SIGNED_MAX_KEY    1024
#define NGX_HTTP_SENDFILE_SIGNED_MAX_FILE   (256 * 1024)

/* no longer token is looked at; those of Rails have some 500 bytes */

#define NGX_HTTP_SENDFILE_SIGNED_MAX_TOKEN  16384

/* of a blob: a number or a UUID */

#define NGX_HTTP_SENDFILE_SIGNED_MAX_ID     64


/* a key is prepared once; its "salt" goes before what is signed */

typedef struct {
    HMAC_CTX                       *hmac;
    ngx_str_t                       salt;
} ngx_http_sendfile_signed_key_t;


/* how a code is written */

typedef enum {
    NGX_HTTP_SENDFILE_SIGNED_HEX = 0,
    NGX_HTTP_SENDFILE_SIGNED_BASE64
} ngx_http_sendfile_signed_encoding_e;


typedef struct ngx_http_sendfile_tokens_s  ngx_http_sendfile_tokens_t;


/* "tokens" are those that were good, NULL: none is remembered */

typedef struct {
    ngx_array_t                     keys;  /* of signed_key_t */
    size_t                          size;  /* bytes of a code */
    ngx_http_sendfile_tokens_t     *tokens;
} ngx_http_sendfile_signed_keys_t;


/*
 * A token of Rails that is good, with all that it says; "digest" is that of a
 * variation, "tracked" Rails' own if it was said in Marshal.  It lives until
 * its last user has gone: a request, or the memory of the keys.
 */

#define NGX_HTTP_SENDFILE_TOKEN_FILE       "blob_key"
#define NGX_HTTP_SENDFILE_TOKEN_BLOB       "blob_id"
#define NGX_HTTP_SENDFILE_TOKEN_VARIATION  "variation"

#define NGX_HTTP_SENDFILE_TOKEN_DIGEST     32
#define NGX_HTTP_SENDFILE_TOKEN_TRACKED    20

typedef struct {
    nsf_message_t                   message;
    u_char                          digest[NGX_HTTP_SENDFILE_TOKEN_DIGEST];
    u_char                          tracked[NGX_HTTP_SENDFILE_TOKEN_TRACKED];

    ngx_uint_t                      users;

    /* as it stands in a URL, its code last; what it was decoded to follows */
    size_t                          len;
    size_t                          code;
    u_char                          data[];
} ngx_http_sendfile_token_t;


typedef struct ngx_http_sendfile_signature_s  ngx_http_sendfile_signature_t;


/* what a request's signature is worth */

typedef enum {
    NGX_HTTP_SENDFILE_SIGNED_BAD = 0,
    NGX_HTTP_SENDFILE_SIGNED_OVER,
    NGX_HTTP_SENDFILE_SIGNED_GOOD
} ngx_http_sendfile_signed_e;


/*
 * One way to sign.  "input" makes what there is to check, beside the request's
 * own URI; "check" sets "value" if the signature is good, and returns
 * NGX_ERROR if out of memory.
 */

typedef struct {
    ngx_str_t                       name;
    const EVP_MD                 *(*digest)(void);
    ngx_uint_t                      params;
    ngx_uint_t                      salted;  /* unsigned  salted:1; */

    ngx_int_t                     (*input)(ngx_http_request_t *r,
                                        ngx_http_sendfile_signature_t *sign,
                                        ngx_str_t *input);
    ngx_int_t                     (*check)(ngx_http_request_t *r,
                                        ngx_http_sendfile_signature_t *sign,
                                        ngx_str_t *input,
                                        ngx_http_sendfile_signed_e *state,
                                        ngx_str_t *value);
} ngx_http_sendfile_scheme_t;


/* parameters that a scheme may have */

#define NGX_HTTP_SENDFILE_SIGNED_ADDRESS    0x0001
#define NGX_HTTP_SENDFILE_SIGNED_BASE       0x0002
#define NGX_HTTP_SENDFILE_SIGNED_MAX_AGE    0x0004
#define NGX_HTTP_SENDFILE_SIGNED_TOKEN      0x0008
#define NGX_HTTP_SENDFILE_SIGNED_PREFIX     0x0010
#define NGX_HTTP_SENDFILE_SIGNED_PURPOSE    0x0020
#define NGX_HTTP_SENDFILE_SIGNED_DIGEST     0x0040


/* http_sendfile_signature; "scheme" is NULL if it is off */

struct ngx_http_sendfile_signature_s {
    const ngx_http_sendfile_scheme_t   *scheme;
    ngx_http_sendfile_signed_keys_t    *keys;

    ngx_uint_t                      address;  /* unsigned  address:1; */
    ngx_http_complex_value_t       *base;
    ngx_http_complex_value_t       *token;
    time_t                          max_age;  /* 0: none */
    ngx_str_t                       prefix;
    ngx_str_t                       purpose;
    const EVP_MD                   *digest;
};


/*
 * http_sendfile_activestorage; "keys" is NULL if it is off; with "blobs" blobs
 * and representations are served, beside files whose URL says which
 */

typedef struct {
    ngx_http_sendfile_signed_keys_t    *keys;
    ngx_uint_t                          blobs;  /* unsigned  blobs:1; */
} ngx_http_sendfile_activestorage_t;


/* http_sendfile_activestorage_service */

typedef struct {
    ngx_str_t                           name;
    ngx_str_t                           root;
} ngx_http_sendfile_service_t;


typedef struct {
    /* where the first http_sendfile_signature is, NULL: nowhere */
    u_char                             *file;
    ngx_uint_t                          line;

    /* of the first module, if there is http_sendfile_activestorage */
    ngx_http_sendfile_api_t            *api;

    ngx_array_t                         services;  /* of service_t */
} ngx_http_sendfile_signed_main_conf_t;


typedef struct {
    /* NULL: not said; of "off" the scheme is NULL */
    ngx_http_sendfile_signature_t      *signature;

    /* NULL: not said; it stands in this very location, not above */
    ngx_http_sendfile_activestorage_t  *activestorage;
    ngx_uint_t                          here;  /* unsigned  here:1; */
    u_char                             *file;
    ngx_uint_t                          line;
} ngx_http_sendfile_signed_loc_conf_t;


/* ngx_http_sendfile_signed_keys.c */

/*
 * Reads a file of keys in hex, one a line, with a salt behind it if "salted".
 * NULL, and what is wrong has been logged: never what the file has.
 */

ngx_http_sendfile_signed_keys_t *ngx_http_sendfile_signed_keys(ngx_conf_t *cf,
    ngx_str_t *file, const EVP_MD *digest, ngx_uint_t salted);

/* whether "mac" is the code of the texts, one behind the other, by any key */

ngx_uint_t ngx_http_sendfile_signed_by(ngx_http_sendfile_signed_keys_t *keys,
    const nsf_str_t *texts, ngx_uint_t n, const nsf_str_t *mac,
    ngx_http_sendfile_signed_encoding_e encoding);


extern ngx_module_t  ngx_http_sendfile_signed_module;


/* ngx_http_sendfile_signed_schemes.c */

extern const ngx_http_sendfile_scheme_t  ngx_http_sendfile_schemes[];

/* milliseconds since 1970 */

int64_t ngx_http_sendfile_signed_now(void);


/* ngx_http_sendfile_signed_activestorage.c */

char *ngx_http_sendfile_activestorage_conf(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_sendfile_activestorage_service(ngx_conf_t *cf,
    ngx_command_t *cmd, void *conf);

/* what browsers and proxies may keep of a file whose URL is soon over */

#define NGX_HTTP_SENDFILE_SIGNED_PRIVATE  "max-age=0, private, must-revalidate"

/*
 * NULL and what a token says that is good by any of the keys, or why it is not;
 * "segment" is as it stands in a URL.
 */

const char *ngx_http_sendfile_activestorage_verify(ngx_http_request_t *r,
    ngx_http_sendfile_signed_keys_t *keys, nsf_str_t *segment,
    ngx_str_t *payload);

/*
 * NULL and a token for this purpose, or why it is none; "m" is of slices of
 * "payload", which is changed.
 */

const char *ngx_http_sendfile_activestorage_read(ngx_str_t *payload,
    const char *purpose, nsf_message_t *m);

/* NULL, or that its time is over */

const char *ngx_http_sendfile_activestorage_over(const nsf_message_t *m);

/* NULL and the file of a good token, or why there is none */

const char *ngx_http_sendfile_activestorage_file(ngx_http_request_t *r,
    const nsf_message_t *m, ngx_http_sendfile_known_t *file);

/* of the PRECONTENT phase */

ngx_int_t ngx_http_sendfile_activestorage_handler(ngx_http_request_t *r);

/* the end of the configuration: a handler, if there is anything to handle */

ngx_int_t ngx_http_sendfile_activestorage_init(ngx_conf_t *cf);

/* of a location, beside the configuration of the level above */

ngx_int_t ngx_http_sendfile_activestorage_merge(ngx_conf_t *cf,
    ngx_http_sendfile_signed_loc_conf_t *prev,
    ngx_http_sendfile_signed_loc_conf_t *conf);


/* ngx_http_sendfile_signed_tokens.c */

/*
 * NULL and a token that is good by any of the keys, for this purpose, and whose
 * time is not over, or why it is not; the request keeps it to its end.
 */

const char *ngx_http_sendfile_token(ngx_http_request_t *r,
    ngx_http_sendfile_signed_keys_t *keys, nsf_str_t *segment,
    const char *purpose, ngx_http_sendfile_token_t **token);

/* from now on each worker remembers which tokens were good by these keys */

ngx_int_t ngx_http_sendfile_tokens(ngx_conf_t *cf,
    ngx_http_sendfile_signed_keys_t *keys);


/* ngx_http_sendfile_signed_blobs.c */

/* /blobs/ and /representations/: what the handler returns */

ngx_int_t ngx_http_sendfile_activestorage_blob(ngx_http_request_t *r,
    ngx_http_sendfile_signed_keys_t *keys, nsf_blob_url_t *url);

/* NULL, or why what a signed id says is the id of no blob */

const char *ngx_http_sendfile_blob_id(const nsf_message_t *m);


/* ngx_http_sendfile_signed_tell.c */

/* for explain: see ngx_http_sendfile_tell_pt */

ngx_int_t ngx_http_sendfile_activestorage_tell(ngx_http_request_t *r,
    ngx_http_sendfile_note_pt note, void *data);


#endif /* _NGX_HTTP_SENDFILE_SIGNED_H_INCLUDED_ */
