/*
 * Copyright (C) the ngx_sendfile authors
 *
 * What the tests of a shard share: random numbers, values that say what they
 * are, memory with walls around it, a pool without an end.
 */


#ifndef _NSF_TEST_SHARD_H_INCLUDED_
#define _NSF_TEST_SHARD_H_INCLUDED_


#include "nsf_test.h"
#include "nsf_shard.h"


/*
 * NSF_TEST_SEED of the environment, or a fixed number, so that a run is as
 * the one before.  It is printed.
 */

uint64_t nsf_test_seed(void);

uint64_t nsf_test_random(uint64_t *state);

/* 0 .. n - 1 */

size_t nsf_test_below(uint64_t *state, size_t n);


/* no hash for the product: anybody can aim collisions at it */

uint64_t nsf_test_hash(const void *data, size_t len);


/* bytes of which nearly all are wrong under any other id or at any shift */

void nsf_test_fill(unsigned char *p, size_t len, uint64_t id);
int nsf_test_filled(const unsigned char *p, size_t len, uint64_t id);


/*
 * Memory that is shared with forked processes and aligned to 8, if the size
 * is.  What lies before and behind it can't be touched.
 */

typedef struct {
    unsigned char        *mem;
    size_t                size;
    void                 *pages;
    size_t                all;
} nsf_test_map_t;


void nsf_test_map(nsf_test_map_t *map, size_t size);
void nsf_test_unmap(nsf_test_map_t *map);


/*
 * A pool for one get() after the other: nsf_test_pond_reset() takes back all
 * that was allocated.
 */

#define NSF_TEST_POND  (1024 * 1024)

typedef struct {
    nsf_pool_t            pool;
    size_t                used;
    unsigned char        *memory;
} nsf_test_pond_t;


void nsf_test_pond_init(nsf_test_pond_t *pond);
void nsf_test_pond_reset(nsf_test_pond_t *pond);
void nsf_test_pond_free(nsf_test_pond_t *pond);


/*
 * The key is the digits of "i", the scope a store's URL that ends in "scope";
 * the hash is of both.  "bytes" has to live as long as the key.
 */

#define NSF_TEST_NAME  64

void nsf_test_key(nsf_shard_key_t *key, char bytes[NSF_TEST_NAME],
    unsigned scope, unsigned i);


/*
 * Waits for a child; its exit status, or 256 and the number of the signal
 * that ended it.
 */

int nsf_test_wait(int pid);


#endif /* _NSF_TEST_SHARD_H_INCLUDED_ */
