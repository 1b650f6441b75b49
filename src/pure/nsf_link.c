
/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <string.h>

#include "nsf_link.h"


/* no time has more digits: the year 30 billion */

#define NSF_LINK_DIGITS  18


static const char *nsf_link_argument(nsf_link_t *l, const unsigned char *first,
    const unsigned char *last, const unsigned char *p,
    const unsigned char *end);
static int nsf_link_named(nsf_str_t *value, const unsigned char *p,
    const unsigned char *end, const char *name);
static size_t nsf_link_add(unsigned char *dst, size_t n, const nsf_str_t *s);
static int nsf_link_visible(const unsigned char *p, size_t len);


const char *
nsf_link_parse(nsf_link_t *l, const unsigned char *uri, size_t len)
{
    const char           *err;
    const unsigned char  *p, *end, *first, *last;

    memset(l, 0, sizeof(nsf_link_t));

    if (len == 0 || uri[0] != '/' || !nsf_link_visible(uri, len)) {
        return "not a path";
    }

    last = uri + len;
    first = memchr(uri, '?', len);

    l->path.data = uri;
    l->path.len = (first != NULL) ? (size_t) (first - uri) : len;

    if (first == NULL) {
        return "no signature";
    }

    first++;

    for (p = first; /* void */ ; p = end + 1) {
        end = memchr(p, '&', (size_t) (last - p));

        if (end == NULL) {
            end = last;
        }

        err = nsf_link_argument(l, first, last, p, end);
        if (err != NULL) {
            return err;
        }

        if (end == last) {
            break;
        }
    }

    return (l->signature.data != NULL) ? NULL : "no signature";
}


static const char *
nsf_link_argument(nsf_link_t *l, const unsigned char *first,
    const unsigned char *last, const unsigned char *p,
    const unsigned char *end)
{
    nsf_str_t  value;

    if (nsf_link_named(&value, p, end, "expires")) {

        if (l->expires.data != NULL) {
            return "more than one time of expiry";
        }

        l->expires = value;
        return NULL;
    }

    if (!nsf_link_named(&value, p, end, "signature")) {
        return NULL;
    }

    if (l->signature.data != NULL) {
        return "more than one signature";
    }

    l->signature = value;

    if (p != first) {
        l->before.data = first;
        l->before.len = (size_t) (p - 1 - first);
    }

    if (end != last) {
        l->after.data = end + 1;
        l->after.len = (size_t) (last - end - 1);
    }

    return NULL;
}


static int
nsf_link_named(nsf_str_t *value, const unsigned char *p,
    const unsigned char *end, const char *name)
{
    size_t  len;

    len = strlen(name);

    if ((size_t) (end - p) <= len
        || memcmp(p, name, len) != 0
        || p[len] != '=')
    {
        return 0;
    }

    value->data = p + len + 1;
    value->len = (size_t) (end - value->data);

    return 1;
}


size_t
nsf_link_text(const nsf_link_t *l, unsigned char *dst)
{
    size_t  n;

    n = nsf_link_add(dst, 0, &l->path);

    if (l->before.data != NULL || l->after.data != NULL) {
        dst[n++] = '?';
    }

    n = nsf_link_add(dst, n, &l->before);

    if (l->before.data != NULL && l->after.data != NULL) {
        dst[n++] = '&';
    }

    return nsf_link_add(dst, n, &l->after);
}


static size_t
nsf_link_add(unsigned char *dst, size_t n, const nsf_str_t *s)
{
    if (s->len > 0) {
        memcpy(dst + n, s->data, s->len);
    }

    return n + s->len;
}


nsf_until_e
nsf_link_until(const nsf_str_t *expires, int64_t now)
{
    size_t   i;
    int64_t  until;

    if (expires->data == NULL) {
        return NSF_UNTIL_GOOD;
    }

    if (expires->len == 0 || expires->len > NSF_LINK_DIGITS) {
        return NSF_UNTIL_BROKEN;
    }

    until = 0;

    for (i = 0; i < expires->len; i++) {

        if (expires->data[i] < '0' || expires->data[i] > '9') {
            return NSF_UNTIL_BROKEN;
        }

        until = until * 10 + (expires->data[i] - '0');
    }

    return (now <= until) ? NSF_UNTIL_GOOD : NSF_UNTIL_OVER;
}


const char *
nsf_imgproxy_parse(nsf_str_t *signature, nsf_str_t *rest,
    const nsf_str_t *prefix, const unsigned char *uri, size_t len)
{
    const unsigned char  *p, *end, *last;

    if (!nsf_link_visible(uri, len)) {
        return "not a path";
    }

    end = (len > 0) ? memchr(uri, '?', len) : NULL;
    last = (end != NULL) ? end : uri + len;

    if ((size_t) (last - uri) <= prefix->len
        || (prefix->len > 0 && memcmp(uri, prefix->data, prefix->len) != 0)
        || uri[prefix->len] != '/')
    {
        return "not below the prefix";
    }

    p = uri + prefix->len + 1;
    end = memchr(p, '/', (size_t) (last - p));

    if (end == NULL) {
        return "no signature";
    }

    signature->data = p;
    signature->len = (size_t) (end - p);

    rest->data = end;
    rest->len = (size_t) (last - end);

    return NULL;
}


/* options come first, and have a ":" each; the source begins with none */

nsf_until_e
nsf_imgproxy_until(const nsf_str_t *rest, int64_t now)
{
    nsf_str_t             value;
    const unsigned char  *p, *end, *last, *colon;

    p = rest->data;
    last = p + rest->len;
    value.data = NULL;
    value.len = 0;

    while (p < last) {
        p++;
        end = memchr(p, '/', (size_t) (last - p));

        if (end == NULL) {
            end = last;
        }

        colon = memchr(p, ':', (size_t) (end - p));

        if (colon == NULL) {
            break;
        }

        if ((colon - p == 3 && memcmp(p, "exp", 3) == 0)
            || (colon - p == 7 && memcmp(p, "expires", 7) == 0))
        {
            value.data = colon + 1;
            value.len = (size_t) (end - value.data);
        }

        p = end;
    }

    return nsf_link_until(&value, now);
}


/* what a request line can't have is in no signed text either */

static int
nsf_link_visible(const unsigned char *p, size_t len)
{
    size_t  i;

    for (i = 0; i < len; i++) {
        if (p[i] <= 0x20 || p[i] == 0x7f) {
            return 0;
        }
    }

    return 1;
}
