/*
 * Copyright (C) the ngx_sendfile authors
 *
 * What is in a shard's memory, for nsf_shard.c and nsf_shard_write.c alone.
 *
 * How it stays whole.  What readers can reach changes only while "seq" is
 * odd.  A new entry is written to free room before that, and reached by one
 * store to a link in between.  An entry is unlinked first, and its memory is
 * free to be overwritten after "seq" is even again: a reader that was in it
 * finds "seq" changed.  So whatever a reader can reach while "seq" is even is
 * whole, also after a writer died anywhere; if it died while "seq" was odd,
 * readers are told so.  What only writers look at is guarded by "busy": the
 * next writer finds it set, believes nothing, and empties the shard.
 *
 * In C's terms readers and writers race for the bytes of names and values:
 * what was read in a race is thrown away, and until it is known it is used
 * only within bounds.  All else is read by relaxed atomic loads.
 */


#ifndef _NSF_SHARD_MEMORY_H_INCLUDED_
#define _NSF_SHARD_MEMORY_H_INCLUDED_


#include "nsf_shard.h"
#include "nsf_arena.h"


#define NSF_SHARD_LINE  64

/* units of ring for one byte of "refs": the shortest useful entry has more */

#define NSF_SHARD_REF  8

#define nsf_shard_load(p)      __atomic_load_n(p, __ATOMIC_RELAXED)
#define nsf_shard_store(p, v)  __atomic_store_n(p, v, __ATOMIC_RELAXED)


/* "seq" and the counters: as wide as the processor stores in one piece */

typedef uintptr_t  nsf_shard_word_t;


/*
 * What readers read often is kept off the cache lines that writers write,
 * whatever the memory is aligned to.
 */

struct nsf_shard_head_s {
    uint64_t              magic;
    uint64_t              size;
    uint32_t              version;
    uint32_t              mask;

    unsigned char         before[NSF_SHARD_LINE];
    nsf_shard_word_t      seq;
    unsigned char         after[NSF_SHARD_LINE];

    /* writers only; the pairs: of positive entries, of negative ones */

    uint32_t              busy;
    uint32_t              unused;
    nsf_arena_state_t     arenas[2];
    nsf_shard_word_t      entries[2];
    nsf_shard_word_t      bytes;
    nsf_shard_word_t      evicted;
    nsf_shard_word_t      moved;
    nsf_shard_word_t      recovered;
};


typedef struct {
    uint64_t              valid;
    uint64_t              limit;
    uint64_t              generation;
    uint64_t              claimed;
} nsf_shard_times_t;


/*
 * Scope, key and value follow.  The block's "kind" is 1 for a negative
 * entry, its "len" the scope's.  "next" is an offset, 0 at the end.
 */

typedef struct {
    nsf_arena_block_t     block;
    uint32_t              next;
    uint32_t              hash;
    uint32_t              value_len;
    uint16_t              key_len;
    uint16_t              unused;
    uint64_t              stamp;
    nsf_shard_times_t     times;
} nsf_shard_entry_t;


#define NSF_SHARD_HEADER        sizeof(nsf_shard_entry_t)
#define NSF_SHARD_HEADER_UNITS  8

typedef char  nsf_shard_header_is[NSF_SHARD_HEADER
                                  == NSF_SHARD_HEADER_UNITS * NSF_ARENA_UNIT
                                  ? 1 : -1];


/*
 * Callers may choose the shard by any bits of the hash, which are then the
 * same all over it: the others decide here.
 */

static inline uint32_t
nsf_shard_hash(uint64_t hash)
{
    return (uint32_t) ((hash * UINT64_C(0x9e3779b97f4a7c15)) >> 32);
}


static inline nsf_shard_entry_t *
nsf_shard_at(const nsf_shard_t *sh, uint32_t offset)
{
    return (nsf_shard_entry_t *) (void *)
           (sh->base + (size_t) offset * NSF_ARENA_UNIT);
}


static inline unsigned char *
nsf_shard_ref(const nsf_shard_t *sh, uint32_t offset)
{
    return &sh->refs[offset / NSF_SHARD_REF];
}


/* the units of the longest entry */

static inline uint32_t
nsf_shard_longest(const nsf_shard_t *sh, unsigned negative)
{
    return (sh->last[negative] - sh->first[negative]) / (negative ? 8 : 16);
}


/*
 * Not memcmp(): bytes that change meanwhile have made one library's memcmp()
 * read beyond their end.
 */

static inline int
nsf_shard_same(const unsigned char *a, const unsigned char *b, size_t len)
{
    uint64_t  x, y;

    while (len >= 8) {
        __builtin_memcpy(&x, a, 8);
        __builtin_memcpy(&y, b, 8);

        if (x != y) {
            return 0;
        }

        a += 8;
        b += 8;
        len -= 8;
    }

    while (len > 0) {
        len--;

        if (a[len] != b[len]) {
            return 0;
        }
    }

    return 1;
}


/* for a writer: empties it, "seq" odd or even */

void nsf_shard_reset(nsf_shard_t *sh);


#endif /* _NSF_SHARD_MEMORY_H_INCLUDED_ */
