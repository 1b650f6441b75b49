/*
 * Copyright (C) the ngx_sendfile authors
 *
 * The layout of a shard, and its readers.
 */


#include <string.h>

#include "nsf_shard_memory.h"


#define NSF_SHARD_MAGIC    UINT64_C(0x3164726168736e1a)
#define NSF_SHARD_VERSION  3

/* bytes of ring for one bucket, and buckets at least */

#define NSF_SHARD_DENSITY  128
#define NSF_SHARD_BUCKETS  16

/* the part of the memory that negative entries have, and bytes at least */

#define NSF_SHARD_NEGATIVE      16
#define NSF_SHARD_NEGATIVE_MIN  8192

/*
 * A reader pauses so often at most.  A copy that was in vain counts as a pause
 * for each so many bytes of it.
 */

#define NSF_SHARD_PAUSES      100
#define NSF_SHARD_PAUSE_COPY  2048

#if defined(__i386__) || defined(__x86_64__)
#define nsf_shard_pause()  __builtin_ia32_pause()
#elif defined(__aarch64__)
#define nsf_shard_pause()  __asm__ volatile ("yield" ::: "memory")
#else
#define nsf_shard_pause()  __atomic_signal_fence(__ATOMIC_SEQ_CST)
#endif


static const char *nsf_shard_layout(nsf_shard_t *sh, void *mem, size_t size);
static size_t nsf_shard_round(size_t size);
static nsf_shard_rc_e nsf_shard_read(const nsf_shard_t *sh,
    const nsf_shard_key_t *key, uint32_t hash, uint64_t now,
    nsf_shard_value_t *v, nsf_pool_t *pool, uint64_t stamp, size_t *taken);
static uint32_t nsf_shard_lookup(const nsf_shard_t *sh,
    const nsf_shard_key_t *key, uint32_t hash);
static size_t nsf_shard_room(const nsf_shard_t *sh, uint32_t offset);
static int nsf_shard_unchanged(const nsf_shard_t *sh, nsf_shard_word_t seq);


size_t
nsf_shard_max_entry(size_t size)
{
    nsf_shard_t  sh;

    if (nsf_shard_layout(&sh, NULL, size) != NULL) {
        return 0;
    }

    return (size_t) nsf_shard_longest(&sh, 0) * NSF_ARENA_UNIT
           - NSF_SHARD_HEADER;
}


const char *
nsf_shard_format(nsf_shard_t *sh, void *mem, size_t size)
{
    const char        *err;
    nsf_shard_head_t  *head;

    err = nsf_shard_layout(sh, mem, size);
    if (err != NULL) {
        return err;
    }

    head = sh->head;

    nsf_shard_store(&head->magic, 0);
    __atomic_thread_fence(__ATOMIC_RELEASE);

    memset(head, 0, sizeof(nsf_shard_head_t));

    head->size = size;
    head->version = NSF_SHARD_VERSION;
    head->mask = sh->mask;

    nsf_shard_reset(sh);

    __atomic_store_n(&head->magic, NSF_SHARD_MAGIC, __ATOMIC_RELEASE);

    return NULL;
}


const char *
nsf_shard_attach(nsf_shard_t *sh, void *mem, size_t size)
{
    const char              *err;
    const nsf_shard_head_t  *head;

    err = nsf_shard_layout(sh, mem, size);
    if (err != NULL) {
        return err;
    }

    head = sh->head;

    if (__atomic_load_n(&head->magic, __ATOMIC_ACQUIRE) != NSF_SHARD_MAGIC) {
        return "no shard";
    }

    if (head->version != NSF_SHARD_VERSION) {
        return "another version";
    }

    if (head->size != size || head->mask != sh->mask) {
        return "another size";
    }

    return NULL;
}


/* where all is depends on the size alone: it is not read from the memory */

static const char *
nsf_shard_layout(nsf_shard_t *sh, void *mem, size_t size)
{
    size_t    n, refs, head, negative;
    uint64_t  units;

    units = size / NSF_ARENA_UNIT;

    if (size < NSF_SHARD_MIN) {
        return "too small";
    }

    if (units > UINT32_MAX) {
        return "too large";
    }

    if ((uintptr_t) mem % NSF_ARENA_UNIT != 0) {
        return "not aligned";
    }

    head = nsf_shard_round(sizeof(nsf_shard_head_t));

    /* the power of two that is nearest */

    n = NSF_SHARD_BUCKETS;

    while (n + n / 2 < (size - head) / NSF_SHARD_DENSITY) {
        n *= 2;
    }

    refs = nsf_shard_round((size_t) units / NSF_SHARD_REF + 1);

    sh->base = mem;
    sh->head = mem;
    sh->buckets = NULL;
    sh->refs = NULL;
    sh->mask = (uint32_t) (n - 1);

    if (mem != NULL) {
        sh->buckets = (uint32_t *) (void *) (sh->base + head);
        sh->refs = sh->base + head + n * sizeof(uint32_t);
    }

    head += n * sizeof(uint32_t) + refs;

    negative = (size - head) / NSF_SHARD_NEGATIVE;

    if (negative < NSF_SHARD_NEGATIVE_MIN) {
        negative = NSF_SHARD_NEGATIVE_MIN;
    }

    sh->first[0] = (uint32_t) (head / NSF_ARENA_UNIT);
    sh->last[1] = (uint32_t) units;
    sh->first[1] = sh->last[1] - (uint32_t) (negative / NSF_ARENA_UNIT);
    sh->last[0] = sh->first[1];

    return NULL;
}


static size_t
nsf_shard_round(size_t size)
{
    return (size + NSF_ARENA_UNIT - 1) & ~(size_t) (NSF_ARENA_UNIT - 1);
}


void
nsf_shard_stat(const nsf_shard_t *sh, nsf_shard_stat_t *st)
{
    const nsf_shard_head_t  *head;

    head = sh->head;

    st->entries = nsf_shard_load(&head->entries[0]);
    st->negative = nsf_shard_load(&head->entries[1]);
    st->bytes = nsf_shard_load(&head->bytes);
    st->evicted = nsf_shard_load(&head->evicted);
    st->moved = nsf_shard_load(&head->moved);
    st->recovered = nsf_shard_load(&head->recovered);
}


/* Readers. */


nsf_shard_rc_e
nsf_shard_get(const nsf_shard_t *sh, const nsf_shard_key_t *key,
    uint64_t now, nsf_shard_value_t *v, nsf_pool_t *pool)
{
    return nsf_shard_get_changed(sh, key, now, v, pool, 0);
}


nsf_shard_rc_e
nsf_shard_get_changed(const nsf_shard_t *sh, const nsf_shard_key_t *key,
    uint64_t now, nsf_shard_value_t *v, nsf_pool_t *pool, uint64_t stamp)
{
    size_t             pauses, taken;
    uint32_t           hash;
    nsf_shard_rc_e     rc;
    nsf_shard_value_t  copy;

    hash = nsf_shard_hash(key->hash);

    __builtin_prefetch(&sh->buckets[hash & sh->mask]);

    copy.data = NULL;
    copy.len = 0;
    taken = 0;

    for (pauses = 0; pauses < NSF_SHARD_PAUSES; pauses++) {

        rc = nsf_shard_read(sh, key, hash, now, &copy, pool, stamp, &taken);

        if (rc == NSF_SHARD_OK) {
            *v = copy;
        }

        if (rc != NSF_SHARD_BUSY) {
            return rc;
        }

        /* a long copy is not begun anew all the time */

        pauses += copy.len / NSF_SHARD_PAUSE_COPY;
        copy.len = 0;

        nsf_shard_pause();
    }

    return NSF_SHARD_BUSY;
}


/* one attempt; "taken" is what is at v->data from one before */

static nsf_shard_rc_e
nsf_shard_read(const nsf_shard_t *sh, const nsf_shard_key_t *key,
    uint32_t hash, uint64_t now, nsf_shard_value_t *v, nsf_pool_t *pool,
    uint64_t stamp, size_t *taken)
{
    size_t                    names, len;
    uint32_t                  offset;
    uint64_t                  found;
    unsigned                  negative;
    unsigned char            *ref;
    nsf_shard_word_t          seq;
    nsf_shard_times_t         times;
    const nsf_shard_entry_t  *e;

    seq = __atomic_load_n(&sh->head->seq, __ATOMIC_ACQUIRE);

    if (seq & 1) {
        return NSF_SHARD_BUSY;
    }

    offset = nsf_shard_lookup(sh, key, hash);
    e = nsf_shard_at(sh, offset);

    names = key->scope.len + key->key.len;
    len = 0;
    found = 0;
    negative = 0;
    times.limit = 0;

    if (offset != 0) {
        negative = nsf_shard_load(&e->block.kind);
        memcpy(&found, &e->stamp, sizeof(uint64_t));
        len = nsf_shard_load(&e->value_len);
        memcpy(&times, &e->times, sizeof(nsf_shard_times_t));

        if (len > nsf_shard_room(sh, offset) - names) {
            offset = 0;
        }
    }

    /* known to be true before anything is taken from the pool */

    if (!nsf_shard_unchanged(sh, seq)) {
        return NSF_SHARD_BUSY;
    }

    if (offset == 0 || (times.limit != 0 && now >= times.limit)) {
        return NSF_SHARD_NONE;
    }

    if (stamp != 0 && found == stamp) {
        v->data = NULL;
        *taken = 0;

    } else if (pool != NULL && len != 0) {

        if (*taken < len) {
            v->data = pool->alloc(pool->ctx, len);
            if (v->data == NULL) {
                return NSF_SHARD_MEMORY;
            }

            *taken = len;
        }

        memcpy(v->data, (const unsigned char *) (e + 1) + names, len);

        v->len = len;

        if (!nsf_shard_unchanged(sh, seq)) {
            return NSF_SHARD_BUSY;
        }
    }

    v->len = len;
    v->valid = times.valid;
    v->limit = times.limit;
    v->generation = times.generation;
    v->claimed = times.claimed;
    v->stamp = found;
    v->negative = (negative != 0);

    /* negative ones are not moved when they get old */

    if (!negative) {
        ref = nsf_shard_ref(sh, offset);

        if (nsf_shard_load(ref) == 0) {
            nsf_shard_store(ref, 1);
        }
    }

    return NSF_SHARD_OK;
}


/*
 * The offset of the entry, 0 if there is none.  A writer may be anywhere
 * meanwhile: nothing that is read is believed.
 */

static uint32_t
nsf_shard_lookup(const nsf_shard_t *sh, const nsf_shard_key_t *key,
    uint32_t hash)
{
    size_t                    scope_len, key_len;
    uint32_t                  offset;
    unsigned                  n;
    const unsigned char      *p;
    const nsf_shard_entry_t  *e;

    offset = nsf_shard_load(&sh->buckets[hash & sh->mask]);

    for (n = 0; offset != 0 && n < NSF_SHARD_MAX_CHAIN; n++) {

        if (offset < sh->first[0]
            || offset > sh->last[1] - NSF_SHARD_HEADER_UNITS)
        {
            return 0;
        }

        e = nsf_shard_at(sh, offset);
        p = (const unsigned char *) (e + 1);

        /* what is needed next if this is the one */

        __builtin_prefetch((const unsigned char *) e + NSF_SHARD_LINE);
        __builtin_prefetch(nsf_shard_ref(sh, offset));

        if (nsf_shard_load(&e->hash) == hash) {
            scope_len = nsf_shard_load(&e->block.len);
            key_len = nsf_shard_load(&e->key_len);

            if (scope_len == key->scope.len && key_len == key->key.len
                && scope_len + key_len <= nsf_shard_room(sh, offset)
                && nsf_shard_same(p + scope_len, key->key.data, key_len)
                && nsf_shard_same(p, key->scope.data, scope_len))
            {
                return offset;
            }
        }

        offset = nsf_shard_load(&e->next);
    }

    return 0;
}


/*
 * What an entry may hold, by its place alone: up to the end of the memory,
 * and no more than the longest one does.
 */

static size_t
nsf_shard_room(const nsf_shard_t *sh, uint32_t offset)
{
    uint32_t  units, longest;

    units = sh->last[1] - offset;
    longest = nsf_shard_longest(sh, 0);

    if (units > longest) {
        units = longest;
    }

    return (size_t) units * NSF_ARENA_UNIT - NSF_SHARD_HEADER;
}


static int
nsf_shard_unchanged(const nsf_shard_t *sh, nsf_shard_word_t seq)
{
    __atomic_thread_fence(__ATOMIC_ACQUIRE);

    return nsf_shard_load(&sh->head->seq) == seq;
}
