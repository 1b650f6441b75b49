/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <stdlib.h>
#include <string.h>

#define ZLIB_CONST
#include <zlib.h>

#include "nsf_inflate.h"


/* the largest window, and both headers */

#define NSF_INFLATE_WBITS  (15 + 32)

#define NSF_INFLATE_CHUNK  4096


static voidpf nsf_inflate_alloc(voidpf ctx, uInt items, uInt size);
static void nsf_inflate_free(voidpf ctx, voidpf p);
static const char *nsf_inflate_stream(nsf_str_t *out, z_stream *z,
    nsf_pool_t *pool);
static const char *nsf_inflate_end(const z_stream *z, int rc);


int
nsf_inflate_is_zlib(const unsigned char *p, size_t len)
{
    if (len < 2 || p[0] != 0x78) {
        return 0;
    }

    /* the check bits are right, and no preset dictionary is needed */

    return ((unsigned) p[0] << 8 | p[1]) % 31 == 0 && !(p[1] & 0x20);
}


int
nsf_inflate_is_gzip(const unsigned char *p, size_t len)
{
    return len >= 3 && p[0] == 0x1f && p[1] == 0x8b && p[2] == 0x08;
}


const char *
nsf_inflate(nsf_str_t *out, const unsigned char *p, size_t len,
    nsf_pool_t *pool)
{
    int          rc;
    z_stream     z;
    const char  *err;

    if (len > NSF_MAX_VALUE) {
        return "value too long";
    }

    memset(&z, 0, sizeof(z_stream));

    z.zalloc = nsf_inflate_alloc;
    z.zfree = nsf_inflate_free;
    z.next_in = p;
    z.avail_in = (uInt) len;

    rc = inflateInit2(&z, NSF_INFLATE_WBITS);
    if (rc != Z_OK) {
        return NSF_ERR_MEMORY;
    }

    err = nsf_inflate_stream(out, &z, pool);

    (void) inflateEnd(&z);

    return err;
}


/*
 * The first pass counts the bytes, through a small buffer.  There is a second
 * one only if they did not fit there, which those of long JSON do not.
 */

static const char *
nsf_inflate_stream(nsf_str_t *out, z_stream *z, nsf_pool_t *pool)
{
    int                   rc;
    uInt                  avail;
    size_t                total;
    const char           *err;
    unsigned char        *data, buf[NSF_INFLATE_CHUNK];
    const unsigned char  *next;

    total = 0;
    next = z->next_in;
    avail = z->avail_in;

    do {
        z->next_out = buf;
        z->avail_out = NSF_INFLATE_CHUNK;

        rc = inflate(z, Z_NO_FLUSH);

        total += NSF_INFLATE_CHUNK - z->avail_out;

        if (total > NSF_MAX_VALUE) {
            return NSF_INFLATE_TOO_LONG;
        }

    } while (rc == Z_OK && z->avail_out == 0);

    err = nsf_inflate_end(z, rc);
    if (err != NULL) {
        return err;
    }

    if (total == 0) {
        out->data = next;
        out->len = 0;
        return NULL;
    }

    data = pool->alloc(pool->ctx, total);
    if (data == NULL) {
        return NSF_ERR_MEMORY;
    }

    if (total < NSF_INFLATE_CHUNK) {
        memcpy(data, buf, total);

    } else {
        z->next_in = next;
        z->avail_in = avail;
        z->next_out = data;
        z->avail_out = (uInt) total;

        if (inflateReset(z) != Z_OK
            || inflate(z, Z_FINISH) != Z_STREAM_END
            || z->avail_out != 0)
        {
            return NSF_INFLATE_BROKEN;
        }
    }

    out->data = data;
    out->len = total;

    return NULL;
}


static const char *
nsf_inflate_end(const z_stream *z, int rc)
{
    switch (rc) {

    case Z_STREAM_END:
        return (z->avail_in == 0) ? NULL : "bytes behind the compressed value";

    case Z_OK:
    case Z_BUF_ERROR:
        return "compressed value cut off";

    case Z_MEM_ERROR:
        return NSF_ERR_MEMORY;

    default: /* Z_DATA_ERROR, Z_NEED_DICT */
        return NSF_INFLATE_BROKEN;
    }
}


static voidpf
nsf_inflate_alloc(voidpf ctx, uInt items, uInt size)
{
    (void) ctx;

    return calloc(items, size);
}


static void
nsf_inflate_free(voidpf ctx, voidpf p)
{
    (void) ctx;

    free(p);
}


/*
 * Each step is a control byte and what belongs to it:
 *
 *   000nnnnn           n + 1 bytes follow, to be taken as they are
 *   lllddddd d         l + 2 bytes again, from d + 1 bytes back (13 bits)
 *   111ddddd l d       l + 9 bytes again
 *
 * The first one is always of the first kind; its upper bits are the level.
 */

const char *
nsf_fastlz(nsf_str_t *out, size_t size, const unsigned char *p, size_t len,
    nsf_pool_t *pool)
{
    size_t                n, distance;
    unsigned              control;
    unsigned char        *data, *dst, *end;
    const unsigned char  *last;

    if (size > NSF_MAX_VALUE) {
        return NSF_INFLATE_TOO_LONG;
    }

    /* three bytes give 264 at most */

    if (len == 0 || size == 0 || size / 88 > len) {
        return NSF_INFLATE_BROKEN;
    }

    if (p[0] >> 5 != 0) {
        return "FastLZ of a level other than 1";
    }

    data = pool->alloc(pool->ctx, size);
    if (data == NULL) {
        return NSF_ERR_MEMORY;
    }

    dst = data;
    end = data + size;
    last = p + len;

    while (p < last) {
        control = *p++;

        if (control < 32) {
            n = control + 1;

            if ((size_t) (last - p) < n || (size_t) (end - dst) < n) {
                return NSF_INFLATE_BROKEN;
            }

            memcpy(dst, p, n);
            p += n;
            dst += n;

            continue;
        }

        n = (control >> 5) + 2;

        if (last - p < ((n == 9) ? 2 : 1)) {
            return NSF_INFLATE_BROKEN;
        }

        if (n == 9) {
            n += *p++;
        }

        distance = (size_t) (control & 31) << 8;
        distance += (size_t) *p++ + 1;

        if ((size_t) (dst - data) < distance || (size_t) (end - dst) < n) {
            return NSF_INFLATE_BROKEN;
        }

        /* byte by byte, since the copy may overlap itself */

        for ( /* void */ ; n > 0; n--) {
            *dst = *(dst - distance);
            dst++;
        }
    }

    if (dst != end) {
        return NSF_INFLATE_BROKEN;
    }

    out->data = data;
    out->len = size;

    return NULL;
}
