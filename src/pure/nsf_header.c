/*
 * Copyright (C) the ngx_sendfile authors
 */


#include "nsf_header.h"


static int nsf_header_equal(const unsigned char *a, const unsigned char *b,
    size_t len);
static unsigned nsf_header_lower(unsigned char c);


#define nsf_header_name(s)                                                    \
    { (const unsigned char *) s, sizeof(s) - 1 }

const nsf_str_t  nsf_header_names[] = {
    nsf_header_name("Cache-Control"),
    nsf_header_name("Expires"),
    nsf_header_name("ETag"),
    nsf_header_name("Last-Modified"),
    nsf_header_name("Content-Language"),
    nsf_header_name("Content-Encoding"),
    nsf_header_name("Vary"),
    nsf_header_name("Link"),
    nsf_header_name("Content-Security-Policy"),
    nsf_header_name("X-Robots-Tag"),
    nsf_header_name("X-Frame-Options"),
    { NULL, 0 }
};

static const nsf_str_t  nsf_header_cors = nsf_header_name("Access-Control-");


int
nsf_header_allowed(const nsf_str_t *name)
{
    size_t            i;
    unsigned          c;
    const nsf_str_t  *known;

    for (known = nsf_header_names; known->data != NULL; known++) {

        if (nsf_header_same(known, name)) {
            return 1;
        }
    }

    known = &nsf_header_cors;

    if (name->len <= known->len
        || !nsf_header_equal(known->data, name->data, known->len))
    {
        return 0;
    }

    /* no colon, space or the like in what follows the prefix */

    for (i = known->len; i < name->len; i++) {
        c = nsf_header_lower(name->data[i]);

        if ((c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-') {
            return 0;
        }
    }

    return 1;
}


int
nsf_header_same(const nsf_str_t *a, const nsf_str_t *b)
{
    return a->len == b->len && nsf_header_equal(a->data, b->data, a->len);
}


static int
nsf_header_equal(const unsigned char *a, const unsigned char *b, size_t len)
{
    size_t  i;

    for (i = 0; i < len; i++) {

        if (nsf_header_lower(a[i]) != nsf_header_lower(b[i])) {
            return 0;
        }
    }

    return 1;
}


static unsigned
nsf_header_lower(unsigned char c)
{
    if (c >= 'A' && c <= 'Z') {
        return (unsigned) c + ('a' - 'A');
    }

    return c;
}
