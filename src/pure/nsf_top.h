/*
 * Copyright (C) the ngx_sendfile authors
 *
 * The names that are asked for most, in memory of a fixed size: the algorithm
 * Space-Saving (Metwally, Agrawal and El Abbadi, 2005), whose counts halve as
 * time goes by.  A table lies in memory that processes share; a writer needs a
 * lock.  If one dies, the entry that it was writing is empty.
 */


#ifndef _NSF_TOP_H_INCLUDED_
#define _NSF_TOP_H_INCLUDED_


#include "nsf.h"


#define NSF_TOP_ENTRIES  64

/* seconds after which a count is half of what it was */

#define NSF_TOP_HALF     60

/* bits of a count that are behind the point */

#define NSF_TOP_POINT    16


typedef struct {
    uint64_t              hash;    /* 0: none */

    /* requests; at most "error" of them are not of this name */
    uint64_t              count;
    uint64_t              error;

    uint32_t              group;
    uint32_t              len;
    unsigned char         name[NSF_MAX_KEY + 6];
} nsf_top_entry_t;


/* all zeros: empty */

typedef struct {
    nsf_top_entry_t       entries[NSF_TOP_ENTRIES];

    /* all requests, by the same measure as counts */
    uint64_t              total;

    /* seconds: the time of the last halving that was due; 0: none yet */
    uint64_t              halved;
} nsf_top_t;


/*
 * "weight" more requests for a name of a group.  A name is 1 to NSF_MAX_KEY
 * bytes; "now" is in seconds.  If the table is full, that with the smallest
 * count makes room.
 */

void nsf_top_add(nsf_top_t *top, uint32_t group, const nsf_str_t *name,
    uint64_t weight, uint64_t now);

/* halves all counts as often as is due at "now"; what is 0 then is removed */

void nsf_top_halve(nsf_top_t *top, uint64_t now);

/*
 * Of a table that nobody else writes to: its entries, the largest count
 * first, and their number.
 */

size_t nsf_top_sort(nsf_top_t *top);

/* a count without what is behind the point */

#define nsf_top_requests(count)  ((count) >> NSF_TOP_POINT)

/* FNV-1a, for tables of this kind; never 0 */

uint64_t nsf_top_hash(uint64_t seed, const void *data, size_t len);


#endif /* _NSF_TOP_H_INCLUDED_ */
