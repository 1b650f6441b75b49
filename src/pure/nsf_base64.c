
/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <string.h>

#include "nsf_base64.h"


/* what a character stands for, with a bit if it is of one alphabet only */

#define NSF_BASE64_VALUE     0x3f
#define NSF_BASE64_STANDARD  0x40
#define NSF_BASE64_URL       0x80
#define NSF_BASE64_BOTH      (NSF_BASE64_STANDARD|NSF_BASE64_URL)
#define NSF_BASE64_NONE      0xff


static inline uint32_t nsf_base64_quad(const unsigned char *p,
    unsigned *seen);
static const char *nsf_base64_wrong(const unsigned char *p);


static const unsigned char  nsf_base64_values[256] = {
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7e, 0xff, 0xbe, 0xff, 0x7f,
    0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3a, 0x3b, 0x3c, 0x3d, 0xff, 0xff,
    0xff, 0xff, 0xff, 0xff, 0xff, 0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06,
    0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x10, 0x11, 0x12,
    0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0xff, 0xff, 0xff, 0xff, 0xbf,
    0xff, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f, 0x20, 0x21, 0x22, 0x23, 0x24,
    0x25, 0x26, 0x27, 0x28, 0x29, 0x2a, 0x2b, 0x2c, 0x2d, 0x2e, 0x2f, 0x30,
    0x31, 0x32, 0x33, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    0xff, 0xff, 0xff, 0xff
};


/* four characters to 24 bits; "seen" gets the bits of their alphabets */

static inline uint32_t
nsf_base64_quad(const unsigned char *p, unsigned *seen)
{
    unsigned  a, b, c, d;

    a = nsf_base64_values[p[0]];
    b = nsf_base64_values[p[1]];
    c = nsf_base64_values[p[2]];
    d = nsf_base64_values[p[3]];

    *seen |= a | b | c | d;

    return (a & NSF_BASE64_VALUE) << 18 | (b & NSF_BASE64_VALUE) << 12
           | (c & NSF_BASE64_VALUE) << 6 | (d & NSF_BASE64_VALUE);
}


const char *
nsf_base64_decode(unsigned char *dst, size_t *n, const unsigned char *p,
    size_t len)
{
    size_t          i, pads, rest;
    uint32_t        bits;
    unsigned        seen;
    unsigned char  *out, last[4];

    for (pads = 0; pads < 2 && pads < len && p[len - 1 - pads] == '='; pads++) {
        /* void */
    }

    if (pads > 0 && len % 4 != 0) {
        return "wrong padding of base64";
    }

    len -= pads;
    rest = len % 4;

    if (rest == 1) {
        return "base64 cut off";
    }

    out = dst;
    seen = 0;

    for (i = 0; i < len - rest; i += 4) {
        bits = nsf_base64_quad(p + i, &seen);

        if (seen >= NSF_BASE64_BOTH) {
            return nsf_base64_wrong(p + i);
        }

        *out++ = (unsigned char) (bits >> 16);
        *out++ = (unsigned char) (bits >> 8);
        *out++ = (unsigned char) bits;
    }

    if (rest > 0) {
        memset(last, 'A', sizeof(last));
        memcpy(last, p + i, rest);

        bits = nsf_base64_quad(last, &seen);

        if (seen >= NSF_BASE64_BOTH) {
            return nsf_base64_wrong(last);
        }

        if (bits & ((rest == 3) ? 0xff : 0xffff)) {
            return "bits behind base64";
        }

        *out++ = (unsigned char) (bits >> 16);

        if (rest == 3) {
            *out++ = (unsigned char) (bits >> 8);
        }
    }

    *n = (size_t) (out - dst);

    return NULL;
}


/* of four characters, and those before them */

static const char *
nsf_base64_wrong(const unsigned char *p)
{
    size_t  i;

    for (i = 0; i < 4; i++) {
        if (nsf_base64_values[p[i]] == NSF_BASE64_NONE) {
            return "not base64";
        }
    }

    return "base64 of two alphabets";
}


size_t
nsf_base64_url(unsigned char *dst, const unsigned char *p, size_t len)
{
    static const char  alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

    size_t          i;
    uint32_t        bits;
    unsigned char  *out;

    out = dst;

    for (i = 0; i + 3 <= len; i += 3) {
        bits = (uint32_t) p[i] << 16 | (uint32_t) p[i + 1] << 8 | p[i + 2];

        *out++ = (unsigned char) alphabet[bits >> 18];
        *out++ = (unsigned char) alphabet[bits >> 12 & 0x3f];
        *out++ = (unsigned char) alphabet[bits >> 6 & 0x3f];
        *out++ = (unsigned char) alphabet[bits & 0x3f];
    }

    if (i < len) {
        bits = (uint32_t) p[i] << 16;

        if (i + 1 < len) {
            bits |= (uint32_t) p[i + 1] << 8;
        }

        *out++ = (unsigned char) alphabet[bits >> 18];
        *out++ = (unsigned char) alphabet[bits >> 12 & 0x3f];

        if (i + 1 < len) {
            *out++ = (unsigned char) alphabet[bits >> 6 & 0x3f];
        }
    }

    return (size_t) (out - dst);
}


size_t
nsf_hex(unsigned char *dst, const unsigned char *p, size_t len)
{
    static const char  digits[] = "0123456789abcdef";

    size_t  i;

    for (i = 0; i < len; i++) {
        dst[2 * i] = (unsigned char) digits[p[i] >> 4];
        dst[2 * i + 1] = (unsigned char) digits[p[i] & 0xf];
    }

    return 2 * len;
}
