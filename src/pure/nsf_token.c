
/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <string.h>

#include "nsf_token.h"
#include "nsf_time.h"


static int nsf_token_digit(unsigned char c);
static const unsigned char *nsf_token_colon(const nsf_str_t *s);


void
nsf_token_segment(nsf_str_t *s, const unsigned char *uri, size_t len)
{
    size_t                i;
    const unsigned char  *end;

    end = (len > 0) ? memchr(uri, '?', len) : NULL;

    if (end != NULL) {
        len = (size_t) (end - uri);
    }

    for (i = len; i > 0 && uri[i - 1] != '/'; i--) {
        /* void */
    }

    s->data = uri + i;
    s->len = len - i;
}


const char *
nsf_token_unescape(unsigned char *dst, size_t *n, const unsigned char *p,
    size_t len)
{
    int                   high, low;
    size_t                i, out, plain;
    const unsigned char  *escape;

    out = 0;

    for (i = 0; i < len; i++) {
        escape = memchr(p + i, '%', len - i);
        plain = (escape != NULL) ? (size_t) (escape - p) - i : len - i;

        memmove(dst + out, p + i, plain);

        out += plain;
        i += plain;

        if (escape == NULL) {
            break;
        }

        high = (len - i > 2) ? nsf_token_digit(p[i + 1]) : -1;
        low = (len - i > 2) ? nsf_token_digit(p[i + 2]) : -1;

        if (high < 0 || low < 0) {
            return "broken percent-encoding";
        }

        dst[out++] = (unsigned char) (high << 4 | low);
        i += 2;
    }

    *n = out;

    return NULL;
}


static int
nsf_token_digit(unsigned char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }

    c |= 0x20;

    return (c >= 'a' && c <= 'f') ? c - 'a' + 10 : -1;
}


const char *
nsf_token_rails(nsf_token_t *t, const unsigned char *p, size_t len, size_t mac)
{
    size_t  n;

    if (len <= mac + 2) {
        return "token too short";
    }

    n = len - mac - 2;

    if (p[n] != '-' || p[n + 1] != '-') {
        return "no signature in token";
    }

    t->text.data = p;
    t->text.len = n;

    t->mac.data = p + n + 2;
    t->mac.len = mac;

    return NULL;
}


const char *
nsf_token_django(nsf_token_t *t, const unsigned char *p, size_t len)
{
    nsf_str_t             s;
    const unsigned char  *colon;

    s.data = p;
    s.len = len;

    colon = nsf_token_colon(&s);

    if (colon == NULL) {
        return "no signature in token";
    }

    t->text.data = p;
    t->text.len = (size_t) (colon - p);

    t->mac.data = colon + 1;
    t->mac.len = len - t->text.len - 1;

    return NULL;
}


const char *
nsf_token_stamp(nsf_str_t *value, int64_t *sec, const nsf_str_t *text)
{
    int                   digit;
    const unsigned char  *p, *colon;

    colon = nsf_token_colon(text);

    if (colon == NULL || colon + 1 == text->data + text->len) {
        return "no time in token";
    }

    *sec = 0;

    for (p = colon + 1; p < text->data + text->len; p++) {

        if (*p >= '0' && *p <= '9') {
            digit = *p - '0';

        } else if (*p >= 'A' && *p <= 'Z') {
            digit = *p - 'A' + 10;

        } else if (*p >= 'a' && *p <= 'z') {
            digit = *p - 'a' + 36;

        } else {
            return "broken time in token";
        }

        *sec = *sec * 62 + digit;

        if (*sec > NSF_TIME_MAX) {
            return "broken time in token";
        }
    }

    value->data = text->data;
    value->len = (size_t) (colon - text->data);

    return NULL;
}


/* the last colon, or NULL */

static const unsigned char *
nsf_token_colon(const nsf_str_t *s)
{
    size_t  i;

    for (i = s->len; i > 0; i--) {
        if (s->data[i - 1] == ':') {
            return s->data + i - 1;
        }
    }

    return NULL;
}
