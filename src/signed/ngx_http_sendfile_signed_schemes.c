
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * The schemes of http_sendfile_signature: what is signed, and what a good
 * signature says.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_signed.h"
#include "nsf_base64.h"
#include "nsf_link.h"
#include "nsf_message.h"
#include "nsf_token.h"


static ngx_int_t ngx_http_sendfile_signed_no_input(ngx_http_request_t *r,
    ngx_http_sendfile_signature_t *sign, ngx_str_t *input);
static ngx_int_t ngx_http_sendfile_signed_address(ngx_http_request_t *r,
    ngx_http_sendfile_signature_t *sign, ngx_str_t *input);
static ngx_int_t ngx_http_sendfile_signed_base(ngx_http_request_t *r,
    ngx_http_sendfile_signature_t *sign, ngx_str_t *input);
static ngx_int_t ngx_http_sendfile_signed_token(ngx_http_request_t *r,
    ngx_http_sendfile_signature_t *sign, ngx_str_t *input);

static ngx_int_t ngx_http_sendfile_signed_hmac(ngx_http_request_t *r,
    ngx_http_sendfile_signature_t *sign, ngx_str_t *input,
    ngx_http_sendfile_signed_e *state, ngx_str_t *value);
static ngx_int_t ngx_http_sendfile_signed_laravel(ngx_http_request_t *r,
    ngx_http_sendfile_signature_t *sign, ngx_str_t *input,
    ngx_http_sendfile_signed_e *state, ngx_str_t *value);
static ngx_int_t ngx_http_sendfile_signed_django(ngx_http_request_t *r,
    ngx_http_sendfile_signature_t *sign, ngx_str_t *input,
    ngx_http_sendfile_signed_e *state, ngx_str_t *value);
static ngx_int_t ngx_http_sendfile_signed_imgproxy(ngx_http_request_t *r,
    ngx_http_sendfile_signature_t *sign, ngx_str_t *input,
    ngx_http_sendfile_signed_e *state, ngx_str_t *value);
static ngx_int_t ngx_http_sendfile_signed_rails(ngx_http_request_t *r,
    ngx_http_sendfile_signature_t *sign, ngx_str_t *input,
    ngx_http_sendfile_signed_e *state, ngx_str_t *value);

static ngx_int_t ngx_http_sendfile_signed_link(ngx_http_request_t *r,
    nsf_link_t *link, nsf_str_t *text);
static ngx_http_sendfile_signed_e ngx_http_sendfile_signed_until(
    nsf_until_e until);


const ngx_http_sendfile_scheme_t  ngx_http_sendfile_schemes[] = {

    { ngx_string("hmac"), EVP_sha256,
      NGX_HTTP_SENDFILE_SIGNED_ADDRESS, 0,
      ngx_http_sendfile_signed_address,
      ngx_http_sendfile_signed_hmac },

    { ngx_string("laravel"), EVP_sha256,
      NGX_HTTP_SENDFILE_SIGNED_BASE, 0,
      ngx_http_sendfile_signed_base,
      ngx_http_sendfile_signed_laravel },

    { ngx_string("django"), EVP_sha256,
      NGX_HTTP_SENDFILE_SIGNED_MAX_AGE|NGX_HTTP_SENDFILE_SIGNED_TOKEN, 0,
      ngx_http_sendfile_signed_token,
      ngx_http_sendfile_signed_django },

    { ngx_string("imgproxy"), EVP_sha256,
      NGX_HTTP_SENDFILE_SIGNED_PREFIX, 1,
      ngx_http_sendfile_signed_no_input,
      ngx_http_sendfile_signed_imgproxy },

    { ngx_string("rails"), EVP_sha1,
      NGX_HTTP_SENDFILE_SIGNED_PURPOSE|NGX_HTTP_SENDFILE_SIGNED_DIGEST
          |NGX_HTTP_SENDFILE_SIGNED_TOKEN, 0,
      ngx_http_sendfile_signed_token,
      ngx_http_sendfile_signed_rails },

    { ngx_null_string, NULL, 0, 0, NULL, NULL }
};


static ngx_int_t
ngx_http_sendfile_signed_no_input(ngx_http_request_t *r,
    ngx_http_sendfile_signature_t *sign, ngx_str_t *input)
{
    ngx_str_null(input);

    return NGX_OK;
}


static ngx_int_t
ngx_http_sendfile_signed_address(ngx_http_request_t *r,
    ngx_http_sendfile_signature_t *sign, ngx_str_t *input)
{
    if (sign->address) {
        *input = r->connection->addr_text;

    } else {
        ngx_str_null(input);
    }

    return NGX_OK;
}


/* scheme://host[:port] as the application sees it: no default port */

static ngx_int_t
ngx_http_sendfile_signed_base(ngx_http_request_t *r,
    ngx_http_sendfile_signature_t *sign, ngx_str_t *input)
{
    u_char     *p;
    ngx_str_t   host, port, scheme;

    if (sign->base) {
        return ngx_http_complex_value(r, sign->base, input);
    }

    ngx_str_set(&scheme, "http://");
    ngx_str_set(&port, ":80");

#if (NGX_HTTP_SSL)
    if (r->connection->ssl) {
        ngx_str_set(&scheme, "https://");
        ngx_str_set(&port, ":443");
    }
#endif

    host = r->headers_in.host ? r->headers_in.host->value
                              : r->headers_in.server;

    if (host.len > port.len
        && ngx_memcmp(host.data + host.len - port.len, port.data, port.len)
           == 0)
    {
        host.len -= port.len;
    }

    input->data = ngx_pnalloc(r->pool, scheme.len + host.len);
    if (input->data == NULL) {
        return NGX_ERROR;
    }

    p = ngx_cpymem(input->data, scheme.data, scheme.len);

    ngx_strlow(p, host.data, host.len);

    input->len = p + host.len - input->data;

    return NGX_OK;
}


static ngx_int_t
ngx_http_sendfile_signed_token(ngx_http_request_t *r,
    ngx_http_sendfile_signature_t *sign, ngx_str_t *input)
{
    nsf_str_t  segment;

    if (sign->token) {
        return ngx_http_complex_value(r, sign->token, input);
    }

    nsf_token_segment(&segment, r->unparsed_uri.data, r->unparsed_uri.len);

    input->data = (u_char *) segment.data;
    input->len = segment.len;

    return NGX_OK;
}


/*
 * The URI without its signature and, behind a line feed, which no URI has, the
 * client's address.
 */

static ngx_int_t
ngx_http_sendfile_signed_hmac(ngx_http_request_t *r,
    ngx_http_sendfile_signature_t *sign, ngx_str_t *input,
    ngx_http_sendfile_signed_e *state, ngx_str_t *value)
{
    ngx_int_t     rc;
    nsf_str_t     texts[3];
    nsf_link_t    link;
    nsf_until_e   until;

    rc = ngx_http_sendfile_signed_link(r, &link, &texts[0]);
    if (rc != NGX_OK) {
        return (rc == NGX_ERROR) ? NGX_ERROR : NGX_OK;
    }

    texts[1].data = (u_char *) "\n";
    texts[1].len = 1;

    texts[2].data = input->data;
    texts[2].len = input->len;

    if (!ngx_http_sendfile_signed_by(sign->keys, texts, sign->address ? 3 : 1,
                                     &link.signature,
                                     NGX_HTTP_SENDFILE_SIGNED_BASE64))
    {
        return NGX_OK;
    }

    until = nsf_link_until(&link.expires, ngx_time());
    *state = ngx_http_sendfile_signed_until(until);

    value->data = (u_char *) texts[0].data;
    value->len = texts[0].len;

    return NGX_OK;
}


/*
 * An absolute link is signed with scheme and host, a relative one without; the
 * text ends before "?" and, if it is no path but the root, before "/".
 */

static ngx_int_t
ngx_http_sendfile_signed_laravel(ngx_http_request_t *r,
    ngx_http_sendfile_signature_t *sign, ngx_str_t *input,
    ngx_http_sendfile_signed_e *state, ngx_str_t *value)
{
    ngx_int_t     rc;
    nsf_str_t     texts[2];
    nsf_link_t    link;
    nsf_until_e   until;

    rc = ngx_http_sendfile_signed_link(r, &link, &texts[1]);
    if (rc != NGX_OK) {
        return (rc == NGX_ERROR) ? NGX_ERROR : NGX_OK;
    }

    texts[0].data = input->data;
    texts[0].len = input->len;

    while (texts[1].len > 0 && texts[1].data[texts[1].len - 1] == '?') {
        texts[1].len--;
    }

    value->data = (u_char *) texts[1].data;
    value->len = texts[1].len;

    if (!ngx_http_sendfile_signed_by(sign->keys, &texts[1], 1, &link.signature,
                                     NGX_HTTP_SENDFILE_SIGNED_HEX))
    {
        if (link.path.len == 1) {
            texts[1].data++;
            texts[1].len--;
        }

        if (!ngx_http_sendfile_signed_by(sign->keys, texts, 2,
                                         &link.signature,
                                         NGX_HTTP_SENDFILE_SIGNED_HEX))
        {
            return NGX_OK;
        }
    }

    until = nsf_link_until(&link.expires, ngx_time());
    *state = ngx_http_sendfile_signed_until(until);

    return NGX_OK;
}


static ngx_int_t
ngx_http_sendfile_signed_django(ngx_http_request_t *r,
    ngx_http_sendfile_signature_t *sign, ngx_str_t *input,
    ngx_http_sendfile_signed_e *state, ngx_str_t *value)
{
    size_t        n;
    u_char       *p;
    int64_t       sec, age;
    nsf_str_t     s;
    nsf_token_t   token;

    p = ngx_pnalloc(r->pool, input->len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    if (nsf_token_unescape(p, &n, input->data, input->len)
        || nsf_token_django(&token, p, n)
        || !ngx_http_sendfile_signed_by(sign->keys, &token.text, 1, &token.mac,
                                        NGX_HTTP_SENDFILE_SIGNED_BASE64))
    {
        return NGX_OK;
    }

    s = token.text;

    *state = NGX_HTTP_SENDFILE_SIGNED_GOOD;

    if (sign->max_age) {

        if (nsf_token_stamp(&s, &sec, &token.text)) {
            *state = NGX_HTTP_SENDFILE_SIGNED_BAD;
            return NGX_OK;
        }

        age = ngx_http_sendfile_signed_now() - sec * 1000;

        if (age > (int64_t) sign->max_age * 1000) {
            *state = NGX_HTTP_SENDFILE_SIGNED_OVER;
        }
    }

    value->data = (u_char *) s.data;
    value->len = s.len;

    return NGX_OK;
}


static ngx_int_t
ngx_http_sendfile_signed_imgproxy(ngx_http_request_t *r,
    ngx_http_sendfile_signature_t *sign, ngx_str_t *input,
    ngx_http_sendfile_signed_e *state, ngx_str_t *value)
{
    nsf_str_t    prefix, signature, rest;
    nsf_until_e  until;

    prefix.data = sign->prefix.data;
    prefix.len = sign->prefix.len;

    if (nsf_imgproxy_parse(&signature, &rest, &prefix, r->unparsed_uri.data,
                           r->unparsed_uri.len)
        || !ngx_http_sendfile_signed_by(sign->keys, &rest, 1, &signature,
                                        NGX_HTTP_SENDFILE_SIGNED_BASE64))
    {
        return NGX_OK;
    }

    until = nsf_imgproxy_until(&rest, ngx_time());
    *state = ngx_http_sendfile_signed_until(until);

    value->data = (u_char *) rest.data;
    value->len = rest.len;

    return NGX_OK;
}


static ngx_int_t
ngx_http_sendfile_signed_rails(ngx_http_request_t *r,
    ngx_http_sendfile_signature_t *sign, ngx_str_t *input,
    ngx_http_sendfile_signed_e *state, ngx_str_t *value)
{
    size_t          n;
    u_char         *p;
    nsf_token_t     token;
    nsf_message_t  *m;

    p = ngx_pnalloc(r->pool, input->len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    if (nsf_token_unescape(p, &n, input->data, input->len)
        || nsf_token_rails(&token, p, n, 2 * sign->keys->size)
        || !ngx_http_sendfile_signed_by(sign->keys, &token.text, 1, &token.mac,
                                        NGX_HTTP_SENDFILE_SIGNED_HEX))
    {
        return NGX_OK;
    }

    m = ngx_palloc(r->pool, sizeof(nsf_message_t));
    if (m == NULL) {
        return NGX_ERROR;
    }

    if (nsf_base64_decode(p, &n, p, token.text.len)
        || nsf_message_decode(m, p, n)
        || m->purpose.len != sign->purpose.len
        || (m->purpose.len
            && ngx_memcmp(m->purpose.data, sign->purpose.data, m->purpose.len)
               != 0))
    {
        return NGX_OK;
    }

    if (ngx_http_sendfile_signed_now() >= m->expires) {
        *state = NGX_HTTP_SENDFILE_SIGNED_OVER;
        return NGX_OK;
    }

    *state = NGX_HTTP_SENDFILE_SIGNED_GOOD;

    if (m->kind == NSF_MESSAGE_STRING || m->kind == NSF_MESSAGE_INTEGER) {
        value->data = (u_char *) m->value.data;
        value->len = m->value.len;
    }

    return NGX_OK;
}


/*
 * Takes the link of a request apart, and makes the text that is signed;
 * NGX_DECLINED if it is no link with a signature.
 */

static ngx_int_t
ngx_http_sendfile_signed_link(ngx_http_request_t *r, nsf_link_t *link,
    nsf_str_t *text)
{
    u_char  *p;

    if (nsf_link_parse(link, r->unparsed_uri.data, r->unparsed_uri.len)) {
        return NGX_DECLINED;
    }

    p = ngx_pnalloc(r->pool, r->unparsed_uri.len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    text->data = p;
    text->len = nsf_link_text(link, p);

    return NGX_OK;
}


static ngx_http_sendfile_signed_e
ngx_http_sendfile_signed_until(nsf_until_e until)
{
    switch (until) {

    case NSF_UNTIL_GOOD:
        return NGX_HTTP_SENDFILE_SIGNED_GOOD;

    case NSF_UNTIL_OVER:
        return NGX_HTTP_SENDFILE_SIGNED_OVER;

    default: /* NSF_UNTIL_BROKEN */
        return NGX_HTTP_SENDFILE_SIGNED_BAD;
    }
}


int64_t
ngx_http_sendfile_signed_now(void)
{
    ngx_time_t  *tp;

    tp = ngx_timeofday();

    return (int64_t) tp->sec * 1000 + tp->msec;
}
