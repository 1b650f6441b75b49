/*
 * Copyright (C) the ngx_sendfile authors
 */


#include "nsf_siphash.h"


typedef struct {
    uint64_t              v0;
    uint64_t              v1;
    uint64_t              v2;
    uint64_t              v3;
} nsf_siphash_t;


static inline void nsf_siphash_round(nsf_siphash_t *s);
static inline uint64_t nsf_siphash_rotate(uint64_t x, unsigned n);
static inline uint64_t nsf_siphash_word(const unsigned char *p);


uint64_t
nsf_siphash(const uint64_t key[2], const void *data, size_t len)
{
    size_t                n;
    uint64_t              word;
    nsf_siphash_t         s;
    const unsigned char  *p;

    p = data;

    s.v0 = key[0] ^ UINT64_C(0x736f6d6570736575);
    s.v1 = key[1] ^ UINT64_C(0x646f72616e646f6d);
    s.v2 = key[0] ^ UINT64_C(0x6c7967656e657261);
    s.v3 = key[1] ^ UINT64_C(0x7465646279746573);

    for (n = len; n >= 8; n -= 8) {
        word = nsf_siphash_word(p);
        p += 8;

        s.v3 ^= word;
        nsf_siphash_round(&s);
        s.v0 ^= word;
    }

    /* the last word: the bytes left, and the length above them */

    word = (uint64_t) len << 56;

    while (n > 0) {
        n--;
        word |= (uint64_t) p[n] << (8 * n);
    }

    s.v3 ^= word;
    nsf_siphash_round(&s);
    s.v0 ^= word;

    s.v2 ^= 0xff;
    nsf_siphash_round(&s);
    nsf_siphash_round(&s);
    nsf_siphash_round(&s);

    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}


static inline void
nsf_siphash_round(nsf_siphash_t *s)
{
    s->v0 += s->v1;
    s->v1 = nsf_siphash_rotate(s->v1, 13);
    s->v1 ^= s->v0;
    s->v0 = nsf_siphash_rotate(s->v0, 32);

    s->v2 += s->v3;
    s->v3 = nsf_siphash_rotate(s->v3, 16);
    s->v3 ^= s->v2;

    s->v0 += s->v3;
    s->v3 = nsf_siphash_rotate(s->v3, 21);
    s->v3 ^= s->v0;

    s->v2 += s->v1;
    s->v1 = nsf_siphash_rotate(s->v1, 17);
    s->v1 ^= s->v2;
    s->v2 = nsf_siphash_rotate(s->v2, 32);
}


static inline uint64_t
nsf_siphash_rotate(uint64_t x, unsigned n)
{
    return (x << n) | (x >> (64 - n));
}


/* compilers make one load of it where they can */

static inline uint64_t
nsf_siphash_word(const unsigned char *p)
{
    return (uint64_t) p[0]
           | (uint64_t) p[1] << 8
           | (uint64_t) p[2] << 16
           | (uint64_t) p[3] << 24
           | (uint64_t) p[4] << 32
           | (uint64_t) p[5] << 40
           | (uint64_t) p[6] << 48
           | (uint64_t) p[7] << 56;
}
