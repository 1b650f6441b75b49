/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <stdlib.h>
#include <string.h>

#include "nsf_top.h"


static int nsf_top_larger(const void *one, const void *two);


void
nsf_top_add(nsf_top_t *top, uint32_t group, const nsf_str_t *name,
    uint64_t weight, uint64_t now)
{
    size_t            i, len;
    uint64_t          hash;
    nsf_top_entry_t  *e, *least;

    nsf_top_halve(top, now);

    weight <<= NSF_TOP_POINT;
    top->total += weight;

    hash = nsf_top_hash(group, name->data, name->len);

    for (i = 0; i < NSF_TOP_ENTRIES; i++) {
        if (top->entries[i].hash == hash) {
            top->entries[i].count += weight;
            return;
        }
    }

    least = &top->entries[0];

    for (i = 0; i < NSF_TOP_ENTRIES && least->hash; i++) {
        e = &top->entries[i];

        if (e->hash == 0 || e->count < least->count) {
            least = e;
        }
    }

    e = least;

    if (e->hash == 0) {
        e->count = 0;
    }

    /* it is empty while it is written, whoever looks, or dies */

    __atomic_store_n(&e->hash, 0, __ATOMIC_SEQ_CST);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);

    len = (name->len < NSF_MAX_KEY) ? name->len : NSF_MAX_KEY;

    e->error = e->count;
    e->count += weight;
    e->group = group;
    e->len = (uint32_t) len;
    memcpy(e->name, name->data, len);

    __atomic_store_n(&e->hash, hash, __ATOMIC_SEQ_CST);
}


void
nsf_top_halve(nsf_top_t *top, uint64_t now)
{
    size_t    i;
    uint64_t  times;

    if (top->halved == 0 || top->halved > now) {

        /* the first time, or the clock was set back */

        top->halved = now;
        return;
    }

    times = (now - top->halved) / NSF_TOP_HALF;

    if (times == 0) {
        return;
    }

    top->halved += times * NSF_TOP_HALF;

    if (times > 63) {
        times = 63;
    }

    top->total >>= times;

    for (i = 0; i < NSF_TOP_ENTRIES; i++) {
        top->entries[i].count >>= times;
        top->entries[i].error >>= times;

        if (nsf_top_requests(top->entries[i].count) == 0) {
            top->entries[i].hash = 0;
        }
    }
}


size_t
nsf_top_sort(nsf_top_t *top)
{
    size_t  i, n;

    n = 0;

    for (i = 0; i < NSF_TOP_ENTRIES; i++) {

        if (top->entries[i].hash == 0) {
            continue;
        }

        if (i != n) {
            top->entries[n] = top->entries[i];
            top->entries[i].hash = 0;
        }

        n++;
    }

    qsort(top->entries, n, sizeof(nsf_top_entry_t), nsf_top_larger);

    return n;
}


static int
nsf_top_larger(const void *one, const void *two)
{
    const nsf_top_entry_t  *a = one, *b = two;

    return (a->count < b->count) - (a->count > b->count);
}


uint64_t
nsf_top_hash(uint64_t seed, const void *data, size_t len)
{
    size_t                i;
    uint64_t              hash;
    const unsigned char  *p;

    p = data;

    /* far from that of another seed, whatever the first byte is */

    hash = (seed ^ UINT64_C(0xcbf29ce484222325)) * UINT64_C(0x100000001b3);
    hash ^= hash >> 32;

    for (i = 0; i < len; i++) {
        hash = (hash ^ p[i]) * UINT64_C(0x100000001b3);
    }

    hash ^= hash >> 32;

    return hash ? hash : 1;
}
