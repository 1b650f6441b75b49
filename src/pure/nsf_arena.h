/*
 * Copyright (C) the ngx_sendfile authors
 *
 * A ring of blocks in memory that processes share, for nsf_shard.c: taken at
 * the young end, freed at the old one.  It is for writers alone, of which
 * there is one at a time; readers never look at its state.
 *
 * Offsets and sizes are in units of 8 bytes; offset 0 is no block.  A block
 * never goes over the end of the ring's memory: what is left there becomes
 * a pad.
 */


#ifndef _NSF_ARENA_H_INCLUDED_
#define _NSF_ARENA_H_INCLUDED_


#include "nsf.h"


#define NSF_ARENA_UNIT  8

/* values that memory does not hold by chance */

#define NSF_ARENA_LIVE  0xa1
#define NSF_ARENA_DEAD  0xa2
#define NSF_ARENA_PAD   0xa3


/*
 * What any block begins with.  A pad may be as short as this; the last two
 * members are the owner's.
 */

typedef struct {
    uint32_t              size;
    uint8_t               state;
    uint8_t               kind;
    uint16_t              len;
} nsf_arena_block_t;


/*
 * In shared memory.  The blocks are from "tail" to "head", "used" units of
 * them; the two offsets are equal if it is empty or full.
 */

typedef struct {
    uint32_t              head;
    uint32_t              tail;
    uint32_t              used;
    uint32_t              unused;
} nsf_arena_state_t;


/* of one process */

typedef struct {
    unsigned char        *base;
    nsf_arena_state_t    *state;
    uint32_t              first;
    uint32_t              last;
} nsf_arena_t;


void nsf_arena_reset(const nsf_arena_t *a);

/* 1 if the state is consistent, on which all functions below rely */

int nsf_arena_sane(const nsf_arena_t *a);

/* whether a block of "size" can be taken, and "spare" units are left then */

int nsf_arena_fits(const nsf_arena_t *a, uint32_t size, uint32_t spare);

/*
 * Takes a live block, which must fit; returns its offset.  Its other members
 * are the caller's to set.
 */

uint32_t nsf_arena_take(const nsf_arena_t *a, uint32_t size);

/* The oldest block; 0 if there is nonsense in its place, or nothing. */

uint32_t nsf_arena_oldest(const nsf_arena_t *a);

/* Frees the oldest block, which nsf_arena_oldest() has found good. */

void nsf_arena_drop(const nsf_arena_t *a);


#endif /* _NSF_ARENA_H_INCLUDED_ */
