/*
 * Copyright (C) the ngx_sendfile authors
 *
 * A shard of a cache, in memory that processes share.
 *
 * Readers take no lock and never wait: they copy an entry out, then look at
 * a sequence number whether a writer was there meanwhile.  Writers are one at
 * a time, the caller has a lock for them.  Any process may die at any
 * instruction: what it leaves is either whole, or known to be not.
 *
 *     head | buckets | refs | ring of positive entries | ring of negative ones
 *
 * Entries are chained from the buckets by a hash of their name, and lie in
 * a ring in the order in which they were written.  Room is made at the old
 * end: CLOCK, where an entry used since then is written anew at the young
 * end.  "refs" says which were used, by their place; it holds nothing else,
 * so that a reader may mark an entry that is gone meanwhile and do no harm.
 */


#ifndef _NSF_SHARD_H_INCLUDED_
#define _NSF_SHARD_H_INCLUDED_


#include "nsf.h"


/* the smallest memory that makes a shard */

#define NSF_SHARD_MIN       65536

/* of one key's bytes and scope's bytes */

#define NSF_SHARD_MAX_NAME  8192

/* entries in one bucket: more push the oldest of them out */

#define NSF_SHARD_MAX_CHAIN  64


typedef struct nsf_shard_head_s  nsf_shard_head_t;


/* of one process; all of it is checked against before memory is believed */

typedef struct {
    unsigned char        *base;
    nsf_shard_head_t     *head;
    uint32_t             *buckets;
    unsigned char        *refs;
    uint32_t              mask;
    uint32_t              first[2];
    uint32_t              last[2];
} nsf_shard_t;


/* What an entry is known by.  The hash, a keyed one, is of both. */

typedef struct {
    uint64_t              hash;
    nsf_str_t             scope;
    nsf_str_t             key;
} nsf_shard_key_t;


/*
 * Times are in milliseconds of the caller's clock.  From "valid" on the
 * entry is to be asked anew; from "limit" on (0: never) it is gone.  Until
 * "claimed" (0: nobody does) somebody is asking.  "generation" is the
 * caller's own: when what the entry says was read.  "stamp", of get() only and
 * never 0, is another one for other data: of all that is ever put into this
 * memory no two have the same.
 */

typedef struct {
    unsigned char        *data;
    size_t                len;
    uint64_t              valid;
    uint64_t              limit;
    uint64_t              generation;
    uint64_t              claimed;
    uint64_t              stamp;
    unsigned              negative:1;
} nsf_shard_value_t;


typedef enum {
    NSF_SHARD_OK = 0,

    /* get: not there, or past its limit */
    NSF_SHARD_NONE,

    /*
     * get: writers were in the way all the time, or one died on its way
     * put: not kept, for there was nonsense in the memory, and again when
     * that had been emptied: somebody writes there without the lock
     */
    NSF_SHARD_BUSY,

    /* get: the pool has no memory */
    NSF_SHARD_MEMORY,

    /* put: longer than nsf_shard_max_entry(), not kept */
    NSF_SHARD_TOO_LARGE
} nsf_shard_rc_e;


typedef struct {

    /* positive entries, negative ones, and what both take in their rings */
    uint64_t              entries;
    uint64_t              negative;
    uint64_t              bytes;

    /*
     * Since the memory was formatted: entries of both kinds that made room,
     * be they past their limit or not; those that were in use and moved;
     * how often the shard was emptied after a writer's death.
     */
    uint64_t              evicted;
    uint64_t              moved;
    uint64_t              recovered;
} nsf_shard_stat_t;


/*
 * The longest that scope, key and value of one entry may be together, in
 * a shard of "size" bytes; 0 if that makes no shard.  Negative entries have
 * a smaller ring: an eighth as much can be kept, or 900 bytes.
 */

size_t nsf_shard_max_entry(size_t size);


/*
 * Formats "size" bytes, aligned to 8.  NULL, or what is wrong.
 */

const char *nsf_shard_format(nsf_shard_t *sh, void *mem, size_t size);


/*
 * Memory that another process has formatted, and may be using.  NULL, or why
 * it can't be used: another version, another size, no shard at all.
 */

const char *nsf_shard_attach(nsf_shard_t *sh, void *mem, size_t size);


/*
 * Without a lock.  NSF_SHARD_OK: "v" holds a copy, its data from the pool (of
 * which more than "len" bytes may have been taken).  With "pool" NULL the
 * data is not copied, v->data is NULL.  With any other result the caller has
 * no entry, "v" is as it was.  "now" is compared with the limit only.
 */

nsf_shard_rc_e nsf_shard_get(const nsf_shard_t *sh,
    const nsf_shard_key_t *key, uint64_t now, nsf_shard_value_t *v,
    nsf_pool_t *pool);


/*
 * The same for a caller that has a copy of the data with this stamp: if the
 * entry still has that one, the data is not copied, v->data is NULL.
 */

nsf_shard_rc_e nsf_shard_get_changed(const nsf_shard_t *sh,
    const nsf_shard_key_t *key, uint64_t now, nsf_shard_value_t *v,
    nsf_pool_t *pool, uint64_t stamp);


/* What follows is for a caller that has the lock. */


/*
 * Keeps a copy of "v" in place of what was there.  The same bytes again
 * change only the times and the generation.  Makes room as it must: never
 * fails for want of it.
 */

nsf_shard_rc_e nsf_shard_put(nsf_shard_t *sh, const nsf_shard_key_t *key,
    uint64_t now, const nsf_shard_value_t *v);


/*
 * Claims an entry until then, or with 0 gives it back, if it still is the one
 * that "v" was got from, with its "valid", "generation" and "claimed": 1, and
 * of all that try only one has it.  Else 0.
 */

int nsf_shard_claim(nsf_shard_t *sh, const nsf_shard_key_t *key,
    const nsf_shard_value_t *v, uint64_t until);


/* Forgets one entry: 1 if it was there. */

size_t nsf_shard_del(nsf_shard_t *sh, const nsf_shard_key_t *key);


/* Figures; without the lock they are of no one moment. */

void nsf_shard_stat(const nsf_shard_t *sh, nsf_shard_stat_t *st);


#endif /* _NSF_SHARD_H_INCLUDED_ */
