/*
 * Copyright (C) the ngx_sendfile authors
 *
 * The writers of a shard: one at a time, in any of the processes.  Whatever
 * they read in the memory is checked; nonsense makes them empty the shard.
 */


#include <string.h>

#include "nsf_shard_memory.h"


/*
 * The work that one put() does to make room, in units of memory moved, beside
 * 4 times its own; and what an entry costs that is looked at.
 */

#define NSF_SHARD_WORK  2048
#define NSF_SHARD_LOOK  16


static void nsf_shard_begin(nsf_shard_t *sh);
static void nsf_shard_end(nsf_shard_t *sh);
static void nsf_shard_open(nsf_shard_t *sh);
static void nsf_shard_close(nsf_shard_t *sh);
static void nsf_shard_recover(nsf_shard_t *sh);
static nsf_arena_t nsf_shard_arena(const nsf_shard_t *sh, unsigned negative);

static nsf_shard_rc_e nsf_shard_keep(nsf_shard_t *sh,
    const nsf_shard_key_t *key, uint64_t now, const nsf_shard_value_t *v);
static int nsf_shard_renew(nsf_shard_t *sh, uint32_t offset,
    const nsf_shard_value_t *v);
static uint32_t *nsf_shard_prepare(nsf_shard_t *sh,
    const nsf_shard_key_t *key, uint64_t now, unsigned negative,
    uint32_t need);
static uint32_t nsf_shard_need(const nsf_shard_t *sh,
    const nsf_shard_key_t *key, const nsf_shard_value_t *v);
static uint32_t nsf_shard_write(nsf_shard_t *sh, const nsf_shard_key_t *key,
    const nsf_shard_value_t *v, uint32_t size);
static void nsf_shard_publish(nsf_shard_t *sh, uint32_t *link,
    uint32_t offset);
static int nsf_shard_make_room(nsf_shard_t *sh, unsigned negative,
    uint32_t need, uint64_t now);
static int nsf_shard_retire(nsf_shard_t *sh, const nsf_arena_t *a,
    uint32_t offset, uint64_t now, int64_t *work);
static void nsf_shard_move(nsf_shard_t *sh, const nsf_arena_t *a,
    uint32_t *link);
static void nsf_shard_evict(nsf_shard_t *sh, uint32_t *link);
static void nsf_shard_unlink(nsf_shard_t *sh, uint32_t *link);
static void nsf_shard_gone(nsf_shard_t *sh, nsf_shard_entry_t *e);
static nsf_shard_entry_t *nsf_shard_entry(const nsf_shard_t *sh,
    uint32_t offset);
static uint32_t *nsf_shard_find(const nsf_shard_t *sh,
    const nsf_shard_key_t *key, unsigned *depth);
static uint32_t *nsf_shard_link(const nsf_shard_t *sh, uint32_t hash,
    uint32_t offset, unsigned depth);
static int nsf_shard_is(const nsf_shard_entry_t *e,
    const nsf_shard_key_t *key, uint32_t hash);


nsf_shard_rc_e
nsf_shard_put(nsf_shard_t *sh, const nsf_shard_key_t *key, uint64_t now,
    const nsf_shard_value_t *v)
{
    nsf_shard_rc_e  rc;

    if (nsf_shard_need(sh, key, v) == 0) {

        /* the entry that is there goes as well: it is older */

        (void) nsf_shard_del(sh, key);

        return NSF_SHARD_TOO_LARGE;
    }

    nsf_shard_begin(sh);

    rc = nsf_shard_keep(sh, key, now, v);

    if (rc == NSF_SHARD_BUSY) {
        nsf_shard_recover(sh);
        rc = nsf_shard_keep(sh, key, now, v);
    }

    nsf_shard_end(sh);

    return rc;
}


int
nsf_shard_claim(nsf_shard_t *sh, const nsf_shard_key_t *key,
    const nsf_shard_value_t *v, uint64_t until)
{
    int                 rc;
    uint32_t           *link;
    unsigned            depth;
    nsf_shard_times_t   times;
    nsf_shard_entry_t  *e;

    rc = 0;

    nsf_shard_begin(sh);

    link = nsf_shard_find(sh, key, &depth);

    if (link == NULL) {
        nsf_shard_recover(sh);

    } else if (*link != 0) {

        e = nsf_shard_at(sh, *link);
        memcpy(&times, &e->times, sizeof(nsf_shard_times_t));

        if (times.valid == v->valid
            && times.generation == v->generation
            && times.claimed == v->claimed)
        {
            times.claimed = until;

            nsf_shard_open(sh);
            memcpy(&e->times, &times, sizeof(nsf_shard_times_t));
            nsf_shard_close(sh);

            rc = 1;
        }
    }

    nsf_shard_end(sh);

    return rc;
}


size_t
nsf_shard_del(nsf_shard_t *sh, const nsf_shard_key_t *key)
{
    size_t     n;
    uint32_t  *link;
    unsigned   depth;

    n = 0;

    nsf_shard_begin(sh);

    link = nsf_shard_find(sh, key, &depth);

    if (link == NULL) {
        nsf_shard_recover(sh);

    } else if (*link != 0) {
        nsf_shard_unlink(sh, link);
        n = 1;
    }

    nsf_shard_end(sh);

    return n;
}


static void
nsf_shard_begin(nsf_shard_t *sh)
{
    nsf_arena_t        positive, negative;
    nsf_shard_head_t  *head;

    head = sh->head;

    positive = nsf_shard_arena(sh, 0);
    negative = nsf_shard_arena(sh, 1);

    if (head->busy || (head->seq & 1)
        || !nsf_arena_sane(&positive) || !nsf_arena_sane(&negative))
    {
        nsf_shard_store(&head->busy, 1);
        __atomic_thread_fence(__ATOMIC_RELEASE);

        nsf_shard_recover(sh);

        return;
    }

    nsf_shard_store(&head->busy, 1);
    __atomic_thread_fence(__ATOMIC_RELEASE);
}


static void
nsf_shard_end(nsf_shard_t *sh)
{
    __atomic_store_n(&sh->head->busy, 0, __ATOMIC_RELEASE);
}


/* what readers can reach may change from here on */

static void
nsf_shard_open(nsf_shard_t *sh)
{
    nsf_shard_store(&sh->head->seq, sh->head->seq + 1);
    __atomic_thread_fence(__ATOMIC_RELEASE);
}


/* ... up to here; what was unlinked may be overwritten after it */

static void
nsf_shard_close(nsf_shard_t *sh)
{
    __atomic_store_n(&sh->head->seq, sh->head->seq + 1, __ATOMIC_RELEASE);
    __atomic_thread_fence(__ATOMIC_RELEASE);
}


/* a writer died, or there is nonsense in the memory: all begins anew */

static void
nsf_shard_recover(nsf_shard_t *sh)
{
    nsf_shard_head_t  *head;

    head = sh->head;

    nsf_shard_store(&head->recovered, head->recovered + 1);

    nsf_shard_reset(sh);
}


/* "seq" goes on from where it is, or readers would take new for old */

void
nsf_shard_reset(nsf_shard_t *sh)
{
    size_t             n;
    nsf_arena_t        a;
    nsf_shard_head_t  *head;

    head = sh->head;
    n = (size_t) sh->mask + 1;

    if ((head->seq & 1) == 0) {
        nsf_shard_open(sh);
    }

    memset(sh->buckets, 0, n * sizeof(uint32_t));
    memset(sh->refs, 0, (size_t) sh->last[1] / NSF_SHARD_REF + 1);

    nsf_shard_close(sh);

    a = nsf_shard_arena(sh, 0);
    nsf_arena_reset(&a);

    a = nsf_shard_arena(sh, 1);
    nsf_arena_reset(&a);

    nsf_shard_store(&head->entries[0], 0);
    nsf_shard_store(&head->entries[1], 0);
    nsf_shard_store(&head->bytes, 0);
}


static nsf_arena_t
nsf_shard_arena(const nsf_shard_t *sh, unsigned negative)
{
    nsf_arena_t  a;

    a.base = sh->base;
    a.state = &sh->head->arenas[negative];
    a.first = sh->first[negative];
    a.last = sh->last[negative];

    return a;
}


/* NSF_SHARD_BUSY: there was nonsense in the memory */

static nsf_shard_rc_e
nsf_shard_keep(nsf_shard_t *sh, const nsf_shard_key_t *key, uint64_t now,
    const nsf_shard_value_t *v)
{
    int        there;
    uint32_t   need, offset, *link;
    unsigned   depth;

    link = nsf_shard_find(sh, key, &depth);
    if (link == NULL) {
        return NSF_SHARD_BUSY;
    }

    there = (*link != 0);

    if (there) {

        /*
         * In use, since it was asked for again, and so not evicted before it
         * is replaced.
         */

        nsf_shard_store(nsf_shard_ref(sh, *link), 1);

        if (nsf_shard_renew(sh, *link, v)) {
            return NSF_SHARD_OK;
        }
    }

    need = nsf_shard_need(sh, key, v);

    link = nsf_shard_prepare(sh, key, now, v->negative, need);
    if (link == NULL) {
        return NSF_SHARD_BUSY;
    }

    if (there && *link == 0) {

        /* it made room itself: it was replaced, not evicted */

        nsf_shard_store(&sh->head->evicted, sh->head->evicted - 1);
    }

    offset = nsf_shard_write(sh, key, v, need);
    nsf_shard_store(nsf_shard_ref(sh, offset), (unsigned char) there);

    nsf_shard_publish(sh, link, offset);

    return NSF_SHARD_OK;
}


/* 1 if the entry holds the same: then it gets the new times */

static int
nsf_shard_renew(nsf_shard_t *sh, uint32_t offset, const nsf_shard_value_t *v)
{
    nsf_shard_times_t     times;
    nsf_shard_entry_t    *e;
    const unsigned char  *p;

    e = nsf_shard_at(sh, offset);
    p = (const unsigned char *) (e + 1) + e->block.len + e->key_len;

    if (e->block.kind != v->negative
        || e->value_len != v->len
        || (v->len != 0 && memcmp(p, v->data, v->len) != 0))
    {
        return 0;
    }

    times.valid = v->valid;
    times.limit = v->limit;
    times.generation = v->generation;
    times.claimed = v->claimed;

    nsf_shard_open(sh);
    memcpy(&e->times, &times, sizeof(nsf_shard_times_t));
    nsf_shard_close(sh);

    return 1;
}


/*
 * Makes room in the ring and in the chain.  Returns what leads to the entry
 * to be replaced, or to the chain's end; NULL: there was nonsense in the
 * memory.
 */

static uint32_t *
nsf_shard_prepare(nsf_shard_t *sh, const nsf_shard_key_t *key, uint64_t now,
    unsigned negative, uint32_t need)
{
    uint32_t  *link;
    unsigned   depth;

    if (!nsf_shard_make_room(sh, negative, need, now)) {
        return NULL;
    }

    link = nsf_shard_find(sh, key, &depth);

    if (link == NULL || *link != 0 || depth < NSF_SHARD_MAX_CHAIN) {
        return link;
    }

    link = nsf_shard_link(sh, nsf_shard_hash(key->hash), 0,
                          NSF_SHARD_MAX_CHAIN - 1);

    if (link != NULL) {
        nsf_shard_evict(sh, link);
    }

    return link;
}


/* the units of an entry, 0 if it is too large to be kept */

static uint32_t
nsf_shard_need(const nsf_shard_t *sh, const nsf_shard_key_t *key,
    const nsf_shard_value_t *v)
{
    size_t    size;
    uint32_t  max;

    max = nsf_shard_longest(sh, v->negative);

    if (key->scope.len > NSF_SHARD_MAX_NAME
        || key->key.len > NSF_SHARD_MAX_NAME
        || v->len / NSF_ARENA_UNIT > max)
    {
        return 0;
    }

    size = NSF_SHARD_HEADER + key->scope.len + key->key.len + v->len;
    size = (size + NSF_ARENA_UNIT - 1) / NSF_ARENA_UNIT;

    return size <= max ? (uint32_t) size : 0;
}


/*
 * To free room, that is, readers can't see it yet.  Before the next one is
 * written "seq" moves on, be it that this one is published or that the shard is
 * emptied, and it never goes back: so the stamp is this one's alone.
 */

static uint32_t
nsf_shard_write(nsf_shard_t *sh, const nsf_shard_key_t *key,
    const nsf_shard_value_t *v, uint32_t size)
{
    uint32_t            offset;
    nsf_arena_t         a;
    unsigned char      *p;
    nsf_shard_entry_t  *e;

    a = nsf_shard_arena(sh, v->negative);
    offset = nsf_arena_take(&a, size);

    e = nsf_shard_at(sh, offset);

    e->block.kind = v->negative;
    e->block.len = (uint16_t) key->scope.len;
    e->hash = nsf_shard_hash(key->hash);
    e->value_len = (uint32_t) v->len;
    e->key_len = (uint16_t) key->key.len;
    e->unused = 0;
    e->stamp = sh->head->seq + 1;
    e->times.valid = v->valid;
    e->times.limit = v->limit;
    e->times.generation = v->generation;
    e->times.claimed = v->claimed;

    p = (unsigned char *) (e + 1);

    if (key->scope.len != 0) {
        memcpy(p, key->scope.data, key->scope.len);
        p += key->scope.len;
    }

    if (key->key.len != 0) {
        memcpy(p, key->key.data, key->key.len);
        p += key->key.len;
    }

    if (v->len != 0) {
        memcpy(p, v->data, v->len);
    }

    return offset;
}


/* in place of the entry that "link" leads to, or as the bucket's first */

static void
nsf_shard_publish(nsf_shard_t *sh, uint32_t *link, uint32_t offset)
{
    nsf_shard_head_t   *head;
    nsf_shard_entry_t  *e, *old;

    head = sh->head;
    e = nsf_shard_at(sh, offset);
    old = NULL;

    if (*link != 0) {
        old = nsf_shard_at(sh, *link);
        e->next = old->next;

    } else {
        link = &sh->buckets[e->hash & sh->mask];
        e->next = *link;
    }

    nsf_shard_open(sh);
    nsf_shard_store(link, offset);
    nsf_shard_close(sh);

    nsf_shard_store(&head->entries[e->block.kind],
                    head->entries[e->block.kind] + 1);
    nsf_shard_store(&head->bytes, head->bytes
                                  + (size_t) e->block.size * NSF_ARENA_UNIT);

    if (old != NULL) {
        nsf_shard_gone(sh, old);
    }
}


/*
 * Frees from the old end until there is room, and as much again as the longest
 * entry takes.  To that reserve entries in use are moved; and if there are
 * many of them in a row, the entry to be kept takes it, and the next calls go
 * on with the work.  Entries in use go only if the reserve is used up.  0:
 * there was nonsense in the memory.
 */

static int
nsf_shard_make_room(nsf_shard_t *sh, unsigned negative, uint32_t need,
    uint64_t now)
{
    int64_t      work;
    uint32_t     offset, reserve;
    nsf_arena_t  a;

    a = nsf_shard_arena(sh, negative);

    reserve = negative ? 0 : nsf_shard_longest(sh, 0);
    work = NSF_SHARD_WORK + 4 * (int64_t) need;

    while (!nsf_arena_fits(&a, need, reserve)) {

        if (work <= 0 && nsf_arena_fits(&a, need, 0)) {
            break;
        }

        offset = nsf_arena_oldest(&a);

        if (offset == 0 || !nsf_shard_retire(sh, &a, offset, now, &work)) {
            return 0;
        }

        nsf_arena_drop(&a);
    }

    return 1;
}


/*
 * Moves the oldest entry to the young end, or takes it off its chain.  0:
 * there was nonsense in the memory.
 */

static int
nsf_shard_retire(nsf_shard_t *sh, const nsf_arena_t *a, uint32_t offset,
    uint64_t now, int64_t *work)
{
    int                 late, move;
    uint32_t           *link;
    nsf_shard_entry_t  *e;

    e = nsf_shard_at(sh, offset);

    move = (*work > 0);
    *work -= NSF_SHARD_LOOK;

    if (e->block.state != NSF_ARENA_LIVE) {
        return 1;
    }

    if (nsf_shard_entry(sh, offset) == NULL) {
        return 0;
    }

    link = nsf_shard_link(sh, e->hash, offset, NSF_SHARD_MAX_CHAIN - 1);
    if (link == NULL) {
        return 0;
    }

    late = (e->times.limit != 0 && now >= e->times.limit);

    if (!move || late || e->block.kind
        || nsf_shard_load(nsf_shard_ref(sh, offset)) == 0
        || !nsf_arena_fits(a, e->block.size, 0))
    {
        nsf_shard_evict(sh, link);
        return 1;
    }

    *work -= e->block.size;

    nsf_shard_move(sh, a, link);

    return 1;
}


static void
nsf_shard_move(nsf_shard_t *sh, const nsf_arena_t *a, uint32_t *link)
{
    uint32_t            size, offset;
    nsf_shard_entry_t  *e;

    e = nsf_shard_at(sh, *link);
    size = e->block.size;

    offset = nsf_arena_take(a, size);

    memcpy(nsf_shard_at(sh, offset), e, (size_t) size * NSF_ARENA_UNIT);
    nsf_shard_store(nsf_shard_ref(sh, offset), 0);

    nsf_shard_open(sh);
    nsf_shard_store(link, offset);
    nsf_shard_close(sh);

    nsf_shard_store(&sh->head->moved, sh->head->moved + 1);
}


static void
nsf_shard_evict(nsf_shard_t *sh, uint32_t *link)
{
    nsf_shard_unlink(sh, link);
    nsf_shard_store(&sh->head->evicted, sh->head->evicted + 1);
}


static void
nsf_shard_unlink(nsf_shard_t *sh, uint32_t *link)
{
    nsf_shard_entry_t  *e;

    e = nsf_shard_at(sh, *link);

    nsf_shard_open(sh);
    nsf_shard_store(link, e->next);
    nsf_shard_close(sh);

    nsf_shard_gone(sh, e);
}


/* readers can't reach it any more: its room is freed when it is the oldest */

static void
nsf_shard_gone(nsf_shard_t *sh, nsf_shard_entry_t *e)
{
    nsf_shard_head_t  *head;

    head = sh->head;

    e->block.state = NSF_ARENA_DEAD;

    nsf_shard_store(&head->entries[e->block.kind],
                    head->entries[e->block.kind] - 1);
    nsf_shard_store(&head->bytes, head->bytes
                                  - (size_t) e->block.size * NSF_ARENA_UNIT);
}


/* an entry that a chain or a ring leads a writer to, NULL if it is none */

static nsf_shard_entry_t *
nsf_shard_entry(const nsf_shard_t *sh, uint32_t offset)
{
    size_t              len;
    unsigned            negative;
    nsf_shard_entry_t  *e;

    negative = (offset >= sh->first[1]);

    if (offset < sh->first[negative]
        || offset > sh->last[negative] - NSF_SHARD_HEADER_UNITS)
    {
        return NULL;
    }

    e = nsf_shard_at(sh, offset);

    if (e->block.state != NSF_ARENA_LIVE || e->block.kind != negative
        || e->block.size > sh->last[negative] - offset)
    {
        return NULL;
    }

    len = NSF_SHARD_HEADER + (size_t) e->block.len + e->key_len;

    if (len > (size_t) e->block.size * NSF_ARENA_UNIT
        || e->value_len > (size_t) e->block.size * NSF_ARENA_UNIT - len)
    {
        return NULL;
    }

    return e;
}


/*
 * What leads to an entry; if there is none, to the end of the chain after
 * "depth" entries.  NULL: there was nonsense in the memory.
 */

static uint32_t *
nsf_shard_find(const nsf_shard_t *sh, const nsf_shard_key_t *key,
    unsigned *depth)
{
    uint32_t            hash, *link;
    nsf_shard_entry_t  *e;

    hash = nsf_shard_hash(key->hash);
    link = &sh->buckets[hash & sh->mask];

    for (*depth = 0; *link != 0; (*depth)++) {
        e = nsf_shard_entry(sh, *link);

        if (e == NULL || *depth == NSF_SHARD_MAX_CHAIN) {
            return NULL;
        }

        if (nsf_shard_is(e, key, hash)) {
            break;
        }

        link = &e->next;
    }

    return link;
}


/*
 * What leads to "offset", after at most "depth" entries; with "offset" 0 to
 * the one after that many.  NULL: there is no such one.
 */

static uint32_t *
nsf_shard_link(const nsf_shard_t *sh, uint32_t hash, uint32_t offset,
    unsigned depth)
{
    uint32_t           *link;
    unsigned            n;
    nsf_shard_entry_t  *e;

    link = &sh->buckets[hash & sh->mask];

    for (n = 0; *link != 0; n++) {
        e = nsf_shard_entry(sh, *link);

        if (e == NULL) {
            return NULL;
        }

        if (*link == offset || (offset == 0 && n == depth)) {
            return link;
        }

        if (n == depth) {
            return NULL;
        }

        link = &e->next;
    }

    return NULL;
}


/* for a writer, that is, the entry does not change */

static int
nsf_shard_is(const nsf_shard_entry_t *e, const nsf_shard_key_t *key,
    uint32_t hash)
{
    const unsigned char  *p;

    p = (const unsigned char *) (e + 1);

    return e->hash == hash
           && e->block.len == key->scope.len
           && e->key_len == key->key.len
           && nsf_shard_same(p + e->block.len, key->key.data, e->key_len)
           && nsf_shard_same(p, key->scope.data, e->block.len);
}
