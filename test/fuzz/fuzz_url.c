/*
 * Copyright (C) the ngx_sendfile authors
 *
 * nsf_url_parse(): what it takes is put together again, and must be the same.
 */


#include "fuzz.h"


static int
within(const nsf_str_t *s, const unsigned char *p, size_t len)
{
    return s->len == 0
           || (s->data >= p && s->data + s->len <= p + len);
}


static int
only(const nsf_str_t *s, const char *chars)
{
    size_t  i;

    for (i = 0; i < s->len; i++) {

        if (s->data[i] == '\0' || strchr(chars, s->data[i]) == NULL) {
            return 0;
        }
    }

    return 1;
}


static int
same(const nsf_str_t *a, const nsf_str_t *b)
{
    return a->len == b->len
           && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}


static void
check(const nsf_url_t *url)
{
    if (url->scheme.len == 0) {
        fuzz_require(url->host.len == 0 && url->port == 0);
        fuzz_require(url->path.len > 0);
        fuzz_require(only(&url->path, "abcdefghijklmnopqrstuvwxyz"
                                      "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                      "0123456789_.-"));
        return;
    }

    fuzz_require(only(&url->scheme,
                      "abcdefghijklmnopqrstuvwxyz0123456789_+.-"));
    fuzz_require((url->host.len == 0) == (url->path.len != 0));

    if (url->path.len != 0) {
        fuzz_require(url->port == 0);
        fuzz_require(url->path.len >= 2 && url->path.data[0] == '/');
        fuzz_require(url->path.data[1] != '/');
        fuzz_require(!fuzz_has_control(url->path.data, url->path.len, ""));
        return;
    }

    fuzz_require(url->port <= 65535);
    fuzz_require(url->scheme.len != 4
                 || memcmp(url->scheme.data, "lmdb", 4) != 0);

    if (url->host.data[0] == '[') {
        fuzz_require(url->host.data[url->host.len - 1] == ']');
        fuzz_require(only(&url->host, "0123456789abcdefABCDEF:.[]"));
        return;
    }

    fuzz_require(only(&url->host, "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789_.-"));
}


static void
check_again(const nsf_url_t *url)
{
    int         n;
    char       *text;
    size_t      size;
    nsf_url_t   again;

    size = url->scheme.len + url->host.len + url->path.len + 16;
    text = malloc(size);
    fuzz_require(text != NULL);

    if (url->scheme.len == 0) {
        n = snprintf(text, size, "%.*s", (int) url->path.len,
                     (const char *) url->path.data);

    } else if (url->path.len != 0) {
        n = snprintf(text, size, "%.*s:%.*s", (int) url->scheme.len,
                     (const char *) url->scheme.data, (int) url->path.len,
                     (const char *) url->path.data);

    } else if (url->port != 0) {
        n = snprintf(text, size, "%.*s://%.*s:%u", (int) url->scheme.len,
                     (const char *) url->scheme.data, (int) url->host.len,
                     (const char *) url->host.data, url->port);

    } else {
        n = snprintf(text, size, "%.*s://%.*s", (int) url->scheme.len,
                     (const char *) url->scheme.data, (int) url->host.len,
                     (const char *) url->host.data);
    }

    fuzz_require(n > 0 && (size_t) n < size);
    fuzz_require(nsf_url_parse(&again, (unsigned char *) text, (size_t) n)
                 == NULL);

    fuzz_require(same(&url->scheme, &again.scheme));
    fuzz_require(same(&url->host, &again.host));
    fuzz_require(same(&url->path, &again.path));
    fuzz_require(url->port == again.port);

    free(text);
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    void           *memory;
    nsf_url_t       url;
    const char     *err;
    unsigned char  *p;

    p = fuzz_copy(data, size, &memory);
    memset(&url, 0xff, sizeof(nsf_url_t));

    err = nsf_url_parse(&url, p, size);

    if (err != NULL) {
        fuzz_check_error(err);
        fuzz_require(url.scheme.len == 0 && url.host.len == 0
                     && url.path.len == 0 && url.port == 0);

    } else {
        fuzz_require(within(&url.scheme, p, size));
        fuzz_require(within(&url.host, p, size));
        fuzz_require(within(&url.path, p, size));

        check(&url);
        check_again(&url);
    }

    free(memory);

    return 0;
}
