/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <string.h>

#include "nsf_pack.h"
#include "nsf_time.h"


#define NSF_PACK_VERSION      1

/* version and flags */

#define NSF_PACK_PREFIX       2

/* an nsf_disposition_e, and what there is */

#define NSF_PACK_DISPOSITION  0x03
#define NSF_PACK_EXPIRES      0x04
#define NSF_PACK_VALID_UNTIL  0x08
#define NSF_PACK_TYPE         0x10
#define NSF_PACK_NAME         0x20
#define NSF_PACK_HEADERS      0x40
#define NSF_PACK_UNKNOWN      0x80

#define NSF_PACK_LONG         255

#define NSF_PACK_CUT_OFF      "packed target cut off"
#define NSF_PACK_BROKEN       "broken packed target"


/* what is left to be read */

typedef struct {
    const unsigned char  *pos;
    size_t                len;
} nsf_pack_in_t;


static unsigned nsf_pack_flags(const nsf_target_t *t);
static size_t nsf_pack_string_size(const nsf_str_t *s);
static unsigned char *nsf_pack_number(unsigned char *p, uint64_t n,
    size_t size);
static unsigned char *nsf_pack_string(unsigned char *p, const nsf_str_t *s);
static const char *nsf_unpack_path(nsf_target_t *t, nsf_pack_in_t *in);
static const char *nsf_unpack_fields(nsf_target_t *t, nsf_pack_in_t *in,
    unsigned flags, nsf_pool_t *pool);
static const char *nsf_unpack_times(nsf_target_t *t, nsf_pack_in_t *in,
    unsigned flags);
static const char *nsf_unpack_headers(nsf_target_t *t, nsf_pack_in_t *in,
    nsf_pool_t *pool);
static const char *nsf_unpack_time(int64_t *sec, nsf_pack_in_t *in);
static const char *nsf_unpack_text(nsf_str_t *s, nsf_pack_in_t *in);
static const char *nsf_unpack_string(nsf_str_t *s, nsf_pack_in_t *in);
static const char *nsf_unpack_number(uint64_t *n, nsf_pack_in_t *in,
    size_t size);


size_t
nsf_pack_size(const nsf_target_t *t)
{
    size_t    i, size;
    unsigned  flags;

    size = NSF_PACK_PREFIX + nsf_pack_string_size(&t->path);

    flags = nsf_pack_flags(t);

    if (flags & NSF_PACK_EXPIRES) {
        size += 8;
    }

    if (flags & NSF_PACK_VALID_UNTIL) {
        size += 8;
    }

    if (flags & NSF_PACK_TYPE) {
        size += nsf_pack_string_size(&t->type);
    }

    if (flags & NSF_PACK_NAME) {
        size += nsf_pack_string_size(&t->name);
    }

    if (flags & NSF_PACK_HEADERS) {
        size++;

        for (i = 0; i < t->nheaders; i++) {
            size += nsf_pack_string_size(&t->headers[i].name)
                    + nsf_pack_string_size(&t->headers[i].value);
        }
    }

    return size;
}


void
nsf_pack(unsigned char *buf, const nsf_target_t *t)
{
    size_t          i;
    unsigned        flags;
    unsigned char  *p;

    flags = nsf_pack_flags(t);

    p = buf;

    *p++ = NSF_PACK_VERSION;
    *p++ = (unsigned char) flags;

    if (flags & NSF_PACK_EXPIRES) {
        p = nsf_pack_number(p, (uint64_t) t->expires, 8);
    }

    if (flags & NSF_PACK_VALID_UNTIL) {
        p = nsf_pack_number(p, (uint64_t) t->valid_until, 8);
    }

    if (flags & NSF_PACK_TYPE) {
        p = nsf_pack_string(p, &t->type);
    }

    if (flags & NSF_PACK_NAME) {
        p = nsf_pack_string(p, &t->name);
    }

    if (flags & NSF_PACK_HEADERS) {
        *p++ = (unsigned char) t->nheaders;

        for (i = 0; i < t->nheaders; i++) {
            p = nsf_pack_string(p, &t->headers[i].name);
            p = nsf_pack_string(p, &t->headers[i].value);
        }
    }

    (void) nsf_pack_string(p, &t->path);
}


static unsigned
nsf_pack_flags(const nsf_target_t *t)
{
    unsigned  flags;

    flags = (unsigned) t->disposition;

    if (t->expires != 0) {
        flags |= NSF_PACK_EXPIRES;
    }

    if (t->valid_until != 0) {
        flags |= NSF_PACK_VALID_UNTIL;
    }

    if (t->type.len != 0) {
        flags |= NSF_PACK_TYPE;
    }

    if (t->name.len != 0) {
        flags |= NSF_PACK_NAME;
    }

    if (t->nheaders != 0) {
        flags |= NSF_PACK_HEADERS;
    }

    return flags;
}


static size_t
nsf_pack_string_size(const nsf_str_t *s)
{
    return (s->len < NSF_PACK_LONG ? 1 : 5) + s->len;
}


/* little endian */

static unsigned char *
nsf_pack_number(unsigned char *p, uint64_t n, size_t size)
{
    while (size != 0) {
        *p++ = (unsigned char) (n & 0xff);
        n >>= 8;
        size--;
    }

    return p;
}


static unsigned char *
nsf_pack_string(unsigned char *p, const nsf_str_t *s)
{
    if (s->len < NSF_PACK_LONG) {
        *p++ = (unsigned char) s->len;

    } else {
        *p++ = NSF_PACK_LONG;
        p = nsf_pack_number(p, s->len, 4);
    }

    /* an empty one may be NULL, which memcpy() must not get */

    if (s->len != 0) {
        memcpy(p, s->data, s->len);
        p += s->len;
    }

    return p;
}


const char *
nsf_unpack(nsf_target_t *t, const unsigned char *data, size_t len,
    nsf_pool_t *pool)
{
    unsigned        flags;
    const char     *err;
    nsf_target_t    fields;
    nsf_pack_in_t   in;

    if (len < NSF_PACK_PREFIX) {
        memset(t, 0, sizeof(nsf_target_t));
        return NSF_PACK_CUT_OFF;
    }

    if (data[0] != NSF_PACK_VERSION) {
        memset(t, 0, sizeof(nsf_target_t));
        return "packed target of another version";
    }

    flags = data[1];

    in.pos = data + NSF_PACK_PREFIX;
    in.len = len - NSF_PACK_PREFIX;

    /* most targets are just a path */

    if (flags == 0) {
        return nsf_unpack_path(t, &in);
    }

    memset(&fields, 0, sizeof(nsf_target_t));

    err = nsf_unpack_fields(&fields, &in, flags, pool);
    if (err != NULL) {
        memset(t, 0, sizeof(nsf_target_t));
        return err;
    }

    err = nsf_unpack_path(t, &in);
    if (err != NULL) {
        return err;
    }

    fields.path = t->path;
    *t = fields;

    return NULL;
}


/* the path, behind which there is nothing */

static const char *
nsf_unpack_path(nsf_target_t *t, nsf_pack_in_t *in)
{
    nsf_str_t    path;
    const char  *err;

    err = nsf_unpack_string(&path, in);

    if (err == NULL && in->len != 0) {
        err = NSF_PACK_BROKEN;
    }

    if (err != NULL) {
        memset(t, 0, sizeof(nsf_target_t));
        return err;
    }

    return nsf_target_set_path(t, path.data, path.len);
}


/* what precedes the path */

static const char *
nsf_unpack_fields(nsf_target_t *t, nsf_pack_in_t *in, unsigned flags,
    nsf_pool_t *pool)
{
    const char  *err;

    if (flags & NSF_PACK_UNKNOWN) {
        return NSF_PACK_BROKEN;
    }

    t->disposition = (nsf_disposition_e) (flags & NSF_PACK_DISPOSITION);

    if (t->disposition == NSF_DISPOSITION_NAMED && !(flags & NSF_PACK_NAME)) {
        return NSF_PACK_BROKEN;
    }

    err = nsf_unpack_times(t, in, flags);
    if (err != NULL) {
        return err;
    }

    if (flags & NSF_PACK_TYPE) {
        err = nsf_unpack_text(&t->type, in);
        if (err != NULL) {
            return err;
        }
    }

    if (flags & NSF_PACK_NAME) {
        err = nsf_unpack_text(&t->name, in);
        if (err != NULL) {
            return err;
        }
    }

    if (flags & NSF_PACK_HEADERS) {
        return nsf_unpack_headers(t, in, pool);
    }

    return NULL;
}


static const char *
nsf_unpack_times(nsf_target_t *t, nsf_pack_in_t *in, unsigned flags)
{
    const char  *err;

    if (flags & NSF_PACK_EXPIRES) {
        err = nsf_unpack_time(&t->expires, in);
        if (err != NULL) {
            return err;
        }
    }

    if (flags & NSF_PACK_VALID_UNTIL) {
        err = nsf_unpack_time(&t->valid_until, in);
        if (err != NULL) {
            return err;
        }

        if (t->expires == 0 || t->expires > t->valid_until) {
            return NSF_PACK_BROKEN;
        }
    }

    return NULL;
}


static const char *
nsf_unpack_headers(nsf_target_t *t, nsf_pack_in_t *in, nsf_pool_t *pool)
{
    size_t         i;
    uint64_t       n;
    const char    *err;
    nsf_header_t  *h;

    err = nsf_unpack_number(&n, in, 1);
    if (err != NULL) {
        return err;
    }

    if (n == 0 || n > NSF_MAX_HEADERS) {
        return NSF_PACK_BROKEN;
    }

    t->nheaders = (size_t) n;

    t->headers = pool->alloc(pool->ctx, t->nheaders * sizeof(nsf_header_t));
    if (t->headers == NULL) {
        return NSF_ERR_MEMORY;
    }

    for (i = 0; i < t->nheaders; i++) {
        h = &t->headers[i];

        err = nsf_unpack_text(&h->name, in);
        if (err != NULL) {
            return err;
        }

        err = nsf_unpack_string(&h->value, in);
        if (err != NULL) {
            return err;
        }

        if (nsf_has_control(&h->value, 1)) {
            return NSF_PACK_BROKEN;
        }
    }

    return NULL;
}


static const char *
nsf_unpack_time(int64_t *sec, nsf_pack_in_t *in)
{
    uint64_t     n;
    const char  *err;

    err = nsf_unpack_number(&n, in, 8);
    if (err != NULL) {
        return err;
    }

    if (n == 0 || n > (uint64_t) NSF_TIME_MAX) {
        return NSF_PACK_BROKEN;
    }

    *sec = (int64_t) n;

    return NULL;
}


/* a string that is left out if it is empty */

static const char *
nsf_unpack_text(nsf_str_t *s, nsf_pack_in_t *in)
{
    const char  *err;

    err = nsf_unpack_string(s, in);
    if (err != NULL) {
        return err;
    }

    if (s->len == 0 || nsf_has_control(s, 0)) {
        return NSF_PACK_BROKEN;
    }

    return NULL;
}


static const char *
nsf_unpack_string(nsf_str_t *s, nsf_pack_in_t *in)
{
    uint64_t     n;
    const char  *err;

    err = nsf_unpack_number(&n, in, 1);
    if (err != NULL) {
        return err;
    }

    if (n == NSF_PACK_LONG) {
        err = nsf_unpack_number(&n, in, 4);
        if (err != NULL) {
            return err;
        }

        if (n < NSF_PACK_LONG) {
            return NSF_PACK_BROKEN;
        }
    }

    if (n > in->len) {
        return NSF_PACK_CUT_OFF;
    }

    s->data = (n == 0) ? NULL : in->pos;
    s->len = (size_t) n;

    in->pos += s->len;
    in->len -= s->len;

    return NULL;
}


/* little endian */

static const char *
nsf_unpack_number(uint64_t *n, nsf_pack_in_t *in, size_t size)
{
    size_t  i;

    if (size > in->len) {
        return NSF_PACK_CUT_OFF;
    }

    *n = 0;

    for (i = size; i != 0; i--) {
        *n = *n << 8 | in->pos[i - 1];
    }

    in->pos += size;
    in->len -= size;

    return NULL;
}
