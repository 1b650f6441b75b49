
/*
 * Copyright (C) the ngx_sendfile authors
 */


#include "nsf_base64.h"


#define NSF_BASE64_STANDARD  1
#define NSF_BASE64_URL       2


static int nsf_base64_value(unsigned char c, unsigned *alphabets);


const char *
nsf_base64_decode(unsigned char *dst, size_t *n, const unsigned char *p,
    size_t len)
{
    int       value;
    size_t    i, pads, out;
    unsigned  alphabets, nbits;
    uint32_t  bits;

    for (pads = 0; pads < 2 && pads < len && p[len - 1 - pads] == '='; pads++) {
        /* void */
    }

    if (pads > 0 && len % 4 != 0) {
        return "wrong padding of base64";
    }

    len -= pads;

    if (len % 4 == 1) {
        return "base64 cut off";
    }

    bits = 0;
    nbits = 0;
    out = 0;
    alphabets = 0;

    for (i = 0; i < len; i++) {
        value = nsf_base64_value(p[i], &alphabets);

        if (value < 0) {
            return "not base64";
        }

        bits = (bits << 6 | (uint32_t) value) & 0xffff;
        nbits += 6;

        if (nbits >= 8) {
            nbits -= 8;
            dst[out++] = (unsigned char) (bits >> nbits & 0xff);
        }
    }

    if (alphabets == (NSF_BASE64_STANDARD|NSF_BASE64_URL)) {
        return "base64 of two alphabets";
    }

    if (bits & ((1U << nbits) - 1)) {
        return "bits behind base64";
    }

    *n = out;

    return NULL;
}


static int
nsf_base64_value(unsigned char c, unsigned *alphabets)
{
    if (c >= 'A' && c <= 'Z') {
        return c - 'A';
    }

    if (c >= 'a' && c <= 'z') {
        return c - 'a' + 26;
    }

    if (c >= '0' && c <= '9') {
        return c - '0' + 52;
    }

    switch (c) {

    case '+':
        *alphabets |= NSF_BASE64_STANDARD;
        return 62;

    case '/':
        *alphabets |= NSF_BASE64_STANDARD;
        return 63;

    case '-':
        *alphabets |= NSF_BASE64_URL;
        return 62;

    case '_':
        *alphabets |= NSF_BASE64_URL;
        return 63;

    default:
        return -1;
    }
}


size_t
nsf_base64_url(unsigned char *dst, const unsigned char *p, size_t len)
{
    static const char  alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

    size_t    i, out;
    unsigned  nbits;
    uint32_t  bits;

    bits = 0;
    nbits = 0;
    out = 0;

    for (i = 0; i < len; i++) {
        bits = (bits << 8 | p[i]) & 0xffff;
        nbits += 8;

        while (nbits >= 6) {
            nbits -= 6;
            dst[out++] = (unsigned char) alphabet[bits >> nbits & 0x3f];
        }
    }

    if (nbits > 0) {
        dst[out++] = (unsigned char) alphabet[bits << (6 - nbits) & 0x3f];
    }

    return out;
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
