
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * SHA-256 (FIPS 180-4), of the few bytes of a key.
 */


#include "ngx_http_sendfile_sqlite.h"


#define ngx_http_sendfile_ror(x, n)  (((x) >> (n)) | ((x) << (32 - (n))))


static void ngx_http_sendfile_sqlite_sha256_block(uint32_t *h,
    const u_char *p);


static const uint32_t  ngx_http_sendfile_sqlite_sha256_k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5,
    0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
    0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc,
    0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
    0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
    0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5,
    0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2
};


void
ngx_http_sendfile_sqlite_sha256(u_char *digest, const u_char *p, size_t len)
{
    u_char      last[128];
    size_t      rest, size;
    uint32_t    h[8];
    uint64_t    bits;
    ngx_uint_t  i;

    static const uint32_t  start[8] = {
        0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19
    };

    ngx_memcpy(h, start, sizeof(h));

    for (rest = len; rest >= 64; rest -= 64, p += 64) {
        ngx_http_sendfile_sqlite_sha256_block(h, p);
    }

    /* a bit of 1, zeros, and the length in the last 8 bytes of a block */

    size = (rest < 56) ? 64 : 128;
    bits = (uint64_t) len * 8;

    ngx_memzero(last, sizeof(last));
    ngx_memcpy(last, p, rest);
    last[rest] = 0x80;

    for (i = 0; i < 8; i++) {
        last[size - 1 - i] = (u_char) (bits >> (8 * i));
    }

    ngx_http_sendfile_sqlite_sha256_block(h, last);

    if (size == 128) {
        ngx_http_sendfile_sqlite_sha256_block(h, last + 64);
    }

    for (i = 0; i < NGX_HTTP_SENDFILE_SHA256_LEN; i++) {
        digest[i] = (u_char) (h[i / 4] >> (24 - 8 * (i % 4)));
    }
}


static void
ngx_http_sendfile_sqlite_sha256_block(uint32_t *h, const u_char *p)
{
    uint32_t    w[64], s[8], a, b;
    ngx_uint_t  i;

    for (i = 0; i < 16; i++, p += 4) {
        w[i] = (uint32_t) p[0] << 24 | (uint32_t) p[1] << 16
               | (uint32_t) p[2] << 8 | p[3];
    }

    for (i = 16; i < 64; i++) {
        a = ngx_http_sendfile_ror(w[i - 15], 7)
            ^ ngx_http_sendfile_ror(w[i - 15], 18) ^ (w[i - 15] >> 3);
        b = ngx_http_sendfile_ror(w[i - 2], 17)
            ^ ngx_http_sendfile_ror(w[i - 2], 19) ^ (w[i - 2] >> 10);
        w[i] = w[i - 16] + a + w[i - 7] + b;
    }

    ngx_memcpy(s, h, sizeof(s));

    for (i = 0; i < 64; i++) {
        a = s[7]
            + (ngx_http_sendfile_ror(s[4], 6) ^ ngx_http_sendfile_ror(s[4], 11)
               ^ ngx_http_sendfile_ror(s[4], 25))
            + ((s[4] & s[5]) ^ (~s[4] & s[6]))
            + ngx_http_sendfile_sqlite_sha256_k[i] + w[i];
        b = (ngx_http_sendfile_ror(s[0], 2) ^ ngx_http_sendfile_ror(s[0], 13)
             ^ ngx_http_sendfile_ror(s[0], 22))
            + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));

        ngx_memmove(&s[1], &s[0], 7 * sizeof(uint32_t));

        s[4] += a;
        s[0] = a + b;
    }

    for (i = 0; i < 8; i++) {
        h[i] += s[i];
    }
}
