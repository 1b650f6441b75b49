/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <string.h>

#include "nsf_url.h"


#define NSF_URL_LMDB                                                          \
    "needs an absolute path: lmdb:/path"
#define NSF_URL_MEMCACHED                                                     \
    "write memcached://host[:port] or memcached:/unix/socket"
#define NSF_URL_OTHER                                                         \
    "write SCHEME://host[:port] or SCHEME:/path"
#define NSF_URL_SCHEME                                                        \
    "write a scheme in lower case first: lmdb:/path or memcached://host"


static const char *nsf_url_split(nsf_url_t *url, const unsigned char *p,
    size_t len);
static const char *nsf_url_name(nsf_url_t *url, const unsigned char *p,
    size_t len);
static const char *nsf_url_server(nsf_url_t *url, const unsigned char *p,
    size_t len);
static const char *nsf_url_host(nsf_url_t *url, const unsigned char *p,
    size_t len, size_t *end);
static const char *nsf_url_host6(nsf_url_t *url, const unsigned char *p,
    size_t len, size_t *end);
static const char *nsf_url_port(nsf_url_t *url, const unsigned char *p,
    size_t len);
static const char *nsf_url_shape(const nsf_url_t *url);
static int nsf_url_scheme_is(const nsf_url_t *url, const char *scheme);
static int nsf_url_scheme_valid(const nsf_str_t *scheme);
static int nsf_is_lower(unsigned char c);
static int nsf_is_alnum(unsigned char c);


const char *
nsf_url_parse(nsf_url_t *url, const unsigned char *p, size_t len)
{
    const char  *err;

    memset(url, 0, sizeof(nsf_url_t));

    err = nsf_url_split(url, p, len);

    if (err != NULL) {
        memset(url, 0, sizeof(nsf_url_t));
    }

    return err;
}


static const char *
nsf_url_split(nsf_url_t *url, const unsigned char *p, size_t len)
{
    size_t                i;
    const unsigned char  *colon;

    if (len == 0) {
        return "is empty: write lmdb:/path, memcached://host or a name";
    }

    for (i = 0; i < len; i++) {

        if (p[i] < 0x20 || p[i] == 0x7f) {
            return "has a control byte";
        }
    }

    colon = memchr(p, ':', len);

    if (colon == NULL) {
        return nsf_url_name(url, p, len);
    }

    url->scheme.data = p;
    url->scheme.len = (size_t) (colon - p);

    if (!nsf_url_scheme_valid(&url->scheme)) {
        return NSF_URL_SCHEME;
    }

    p = colon + 1;
    len -= url->scheme.len + 1;

    if (len < 2 || p[0] != '/') {
        return nsf_url_shape(url);
    }

    if (p[1] != '/') {

        /* scheme:/path */

        url->path.data = p;
        url->path.len = len;

        return NULL;
    }

    if (len > 3 && p[2] == '/' && p[3] != '/') {

        /* scheme:///path */

        url->path.data = p + 2;
        url->path.len = len - 2;

        return NULL;
    }

    /* scheme://host */

    return nsf_url_server(url, p + 2, len - 2);
}


static const char *
nsf_url_name(nsf_url_t *url, const unsigned char *p, size_t len)
{
    size_t  i;

    for (i = 0; i < len; i++) {

        if (p[i] == '/') {
            return "a path needs its scheme: lmdb:/path";
        }
    }

    for (i = 0; i < len; i++) {

        if (!nsf_is_alnum(p[i])
            && p[i] != '_' && p[i] != '.' && p[i] != '-')
        {
            return "a store's name has only A-Z, a-z, 0-9, _, . and -";
        }
    }

    url->path.data = p;
    url->path.len = len;

    return NULL;
}


static const char *
nsf_url_server(nsf_url_t *url, const unsigned char *p, size_t len)
{
    size_t       end;
    const char  *err;

    if (nsf_url_scheme_is(url, "lmdb")) {
        return "has no host, write one slash: lmdb:/path";
    }

    if (len == 0 || p[0] == '/') {
        return nsf_url_shape(url);
    }

    if (memchr(p, '/', len) != NULL) {
        return "has something after the host: write SCHEME://host[:port]";
    }

    if (p[0] == '[') {
        err = nsf_url_host6(url, p, len, &end);

    } else {
        err = nsf_url_host(url, p, len, &end);
    }

    if (err != NULL) {
        return err;
    }

    if (end == len) {
        return NULL;
    }

    return nsf_url_port(url, p + end + 1, len - end - 1);
}


/* "*end" is the position of the colon before the port, or "len" */

static const char *
nsf_url_host(nsf_url_t *url, const unsigned char *p, size_t len, size_t *end)
{
    size_t  i;

    for (i = 0; i < len && p[i] != ':'; i++) {

        if (!nsf_is_alnum(p[i])
            && p[i] != '_' && p[i] != '.' && p[i] != '-')
        {
            return "has a bad character in the host: write a name, "
                   "an IPv4 address or [IPv6]";
        }
    }

    if (i < len && memchr(&p[i + 1], ':', len - i - 1) != NULL) {
        return "needs brackets around an IPv6 address: SCHEME://[::1]:port";
    }

    if (i == 0) {
        return "has no host: write SCHEME://host[:port]";
    }

    url->host.data = p;
    url->host.len = i;

    *end = i;

    return NULL;
}


static const char *
nsf_url_host6(nsf_url_t *url, const unsigned char *p, size_t len, size_t *end)
{
    size_t  i, colons;

    colons = 0;

    for (i = 1; i < len && p[i] != ']'; i++) {

        if (p[i] == ':') {
            colons++;
            continue;
        }

        if ((p[i] < '0' || p[i] > '9')
            && (p[i] < 'a' || p[i] > 'f')
            && (p[i] < 'A' || p[i] > 'F')
            && p[i] != '.')
        {
            colons = 0;
            break;
        }
    }

    if (i == len || colons < 2) {
        return "has a bad IPv6 address: write SCHEME://[::1][:port]";
    }

    i++;

    if (i < len && p[i] != ':') {
        return "has something after the host: write SCHEME://host[:port]";
    }

    url->host.data = p;
    url->host.len = i;

    *end = i;

    return NULL;
}


static const char *
nsf_url_port(nsf_url_t *url, const unsigned char *p, size_t len)
{
    size_t    i;
    unsigned  port;

    port = 0;

    for (i = 0; i < len; i++) {

        if (p[i] < '0' || p[i] > '9') {
            port = 0;
            break;
        }

        port = port * 10 + (p[i] - (unsigned) '0');

        if (port > 65535) {
            port = 0;
            break;
        }
    }

    if (port == 0) {
        return "has a bad port: write a number from 1 to 65535";
    }

    url->port = port;

    return NULL;
}


static const char *
nsf_url_shape(const nsf_url_t *url)
{
    if (nsf_url_scheme_is(url, "lmdb")) {
        return NSF_URL_LMDB;
    }

    if (nsf_url_scheme_is(url, "memcached")) {
        return NSF_URL_MEMCACHED;
    }

    return NSF_URL_OTHER;
}


static int
nsf_url_scheme_is(const nsf_url_t *url, const char *scheme)
{
    return url->scheme.len == strlen(scheme)
           && memcmp(url->scheme.data, scheme, url->scheme.len) == 0;
}


static int
nsf_url_scheme_valid(const nsf_str_t *scheme)
{
    size_t         i;
    unsigned char  c;

    if (scheme->len == 0 || !nsf_is_lower(scheme->data[0])) {
        return 0;
    }

    for (i = 1; i < scheme->len; i++) {
        c = scheme->data[i];

        if (!nsf_is_lower(c) && (c < '0' || c > '9')
            && c != '_' && c != '+' && c != '-' && c != '.')
        {
            return 0;
        }
    }

    return 1;
}


static int
nsf_is_lower(unsigned char c)
{
    return c >= 'a' && c <= 'z';
}


static int
nsf_is_alnum(unsigned char c)
{
    return nsf_is_lower(c)
           || (c >= 'A' && c <= 'Z')
           || (c >= '0' && c <= '9');
}
