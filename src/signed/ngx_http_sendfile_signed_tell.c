
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * What explain says of a location with http_sendfile_activestorage: which URL
 * it is, and what its tokens say.  Nothing of a key or a code is told.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_signed.h"


static ngx_uint_t ngx_http_sendfile_tell_url(ngx_http_request_t *r,
    nsf_blob_url_t *url, ngx_http_sendfile_note_pt note, void *data);
static ngx_uint_t ngx_http_sendfile_tell_token(ngx_http_request_t *r,
    nsf_str_t *segment, const char *purpose, ngx_http_sendfile_note_pt note,
    void *data);
static const char *ngx_http_sendfile_tell_reason(ngx_http_request_t *r,
    nsf_str_t *segment, const char *purpose, nsf_message_t *m);


ngx_int_t
ngx_http_sendfile_activestorage_tell(ngx_http_request_t *r,
    ngx_http_sendfile_note_pt note, void *data)
{
    const char      *purpose;
    nsf_blob_url_t   url;

    if (!ngx_http_sendfile_tell_url(r, &url, note, data)) {
        return NGX_DECLINED;
    }

    purpose = (url.kind == NSF_BLOB_DISK) ? NGX_HTTP_SENDFILE_TOKEN_FILE
                                          : NGX_HTTP_SENDFILE_TOKEN_BLOB;

    if (ngx_http_sendfile_tell_token(r, &url.token, purpose, note, data)
        && url.kind == NSF_BLOB_REPRESENTATION)
    {
        (void) ngx_http_sendfile_tell_token(r, &url.variation,
                                            NGX_HTTP_SENDFILE_TOKEN_VARIATION,
                                            note, data);
    }

    return ngx_http_sendfile_activestorage_handler(r);
}


/* 1: the handler takes it */

static ngx_uint_t
ngx_http_sendfile_tell_url(ngx_http_request_t *r, nsf_blob_url_t *url,
    ngx_http_sendfile_note_pt note, void *data)
{
    ngx_http_sendfile_signed_loc_conf_t  *slcf;

    static const char  step[] = "activestorage";

    slcf = ngx_http_get_module_loc_conf(r, ngx_http_sendfile_signed_module);

    if (slcf->activestorage->keys == NULL) {
        return 0;
    }

    if (!nsf_blob_url(url, r->unparsed_uri.data, r->unparsed_uri.len, 1)) {
        note(data, step, "note", NULL, "http_sendfile_activestorage is on "
             "here, but the URL has no token and name behind /disk/, /blobs/ "
             "or /representations/");
        return 0;
    }

    if (url->kind != NSF_BLOB_DISK && !slcf->activestorage->blobs) {
        note(data, step, "note", "write \"blobs\" behind the key file of "
             "http_sendfile_activestorage", "http_sendfile_activestorage is "
             "on here for /disk/ alone");
        return 0;
    }

    if (r->content_handler && !slcf->here) {
        note(data, step, "note", "write http_sendfile_activestorage in the "
             "location itself, beside its content handler",
             "http_sendfile_activestorage is on above, and the location has "
             "a content handler of its own");
        return 0;
    }

    note(data, step, "ok", NULL, "http_sendfile_activestorage is on here");

    return 1;
}


/* 1: it is good */

static ngx_uint_t
ngx_http_sendfile_tell_token(ngx_http_request_t *r, nsf_str_t *segment,
    const char *purpose, ngx_http_sendfile_note_pt note, void *data)
{
    nsf_str_t      *value;
    const char     *reason, *advice;
    nsf_message_t   m;
    u_char          end[sizeof("Mon, 28 Sep 1970 06:00:00 GMT")
                        + NGX_TIME_T_LEN];

    ngx_memzero(&m, sizeof(nsf_message_t));

    reason = ngx_http_sendfile_tell_reason(r, segment, purpose, &m);

    if (m.purpose.data == NULL) {
        note(data, "token", "failed", NULL, "a token that has to be a %s: %s",
             purpose, reason);
        return 0;
    }

    advice = nsf_message_is(&m.purpose, purpose)
             ? NULL : "take the link as the application has made it: the "
                      "token was made for another purpose";

    value = m.key.data ? &m.key : &m.value;
    ngx_memcpy(end, "never", sizeof("never"));

    if (m.expires != NSF_MESSAGE_EVER) {
        *ngx_http_time(end, (time_t) (m.expires / 1000)) = '\0';
    }

    note(data, "token", reason ? "failed" : "ok", advice,
         "a %*s, \"%*s\", service \"%*s\", that ends %s: %s",
         m.purpose.len, m.purpose.data, value->len, value->data,
         m.service.len, m.service.data, end, reason ? reason : "good");

    return reason == NULL;
}


/* as the handler finds it; "m" is what a token says whose signature is good */

static const char *
ngx_http_sendfile_tell_reason(ngx_http_request_t *r, nsf_str_t *segment,
    const char *purpose, nsf_message_t *m)
{
    ngx_str_t                             payload;
    const char                           *reason;
    ngx_http_sendfile_known_t             file;
    ngx_http_sendfile_token_t            *token;
    ngx_http_sendfile_signed_keys_t      *keys;
    ngx_http_sendfile_signed_loc_conf_t  *slcf;

    slcf = ngx_http_get_module_loc_conf(r, ngx_http_sendfile_signed_module);
    keys = slcf->activestorage->keys;

    reason = ngx_http_sendfile_activestorage_verify(r, keys, segment,
                                                    &payload);
    if (reason) {
        return reason;
    }

    (void) ngx_http_sendfile_activestorage_read(&payload, purpose, m);

    reason = ngx_http_sendfile_token(r, keys, segment, purpose, &token);
    if (reason) {
        return reason;
    }

    if (nsf_message_is(&m->purpose, NGX_HTTP_SENDFILE_TOKEN_BLOB)) {
        return ngx_http_sendfile_blob_id(m);
    }

    if (nsf_message_is(&m->purpose, NGX_HTTP_SENDFILE_TOKEN_VARIATION)) {
        return (m->kind == NSF_MESSAGE_HASH) ? NULL : "token of no variation";
    }

    ngx_memzero(&file, sizeof(ngx_http_sendfile_known_t));

    return ngx_http_sendfile_activestorage_file(r, m, &file);
}
