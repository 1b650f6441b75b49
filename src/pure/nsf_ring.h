/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Which of several memcached servers has a key, as other clients see it:
 *
 * dalli   Ruby's Dalli, all versions with a ring
 * ketama  libmemcached's KETAMA_WEIGHTED: pylibmc's "ketama_weighted",
 *         php-memcached's OPT_LIBKETAMA_COMPATIBLE
 */


#ifndef _NSF_RING_H_INCLUDED_
#define _NSF_RING_H_INCLUDED_


#include "nsf.h"


#define NSF_RING_MAX_SERVERS  4096
#define NSF_RING_MAX_HOST     1024


typedef enum {
    NSF_RING_DALLI = 0,
    NSF_RING_KETAMA
} nsf_ring_e;


/*
 * The host as the clients are configured with it, since its name is hashed;
 * the brackets of [::1] may be given and are left out.  A port of 0 makes it
 * the path of a unix socket.
 */

typedef struct {
    nsf_str_t             host;
    unsigned              port;
    unsigned              weight;
} nsf_server_t;


typedef struct {
    uint32_t              hash;
    uint32_t              server;
} nsf_point_t;


/* by the caller: nginx's or the test's; crc32 is zlib's */

typedef struct {
    void                (*sha1)(unsigned char out[20], const void *p,
                              size_t len);
    void                (*md5)(unsigned char out[16], const void *p,
                             size_t len);
    uint32_t            (*crc32)(const void *p, size_t len);
} nsf_hashes_t;


/*
 * How many points nsf_ring_build() makes; at most 160 for each server.
 * 0 without servers, with more than NSF_RING_MAX_SERVERS, with a host longer
 * than NSF_RING_MAX_HOST, and of Dalli's ring if all weights are 0.
 */

size_t nsf_ring_size(nsf_ring_e kind, const nsf_server_t *servers, size_t n);


/* the points in the order of their hashes; returns nsf_ring_size() */

size_t nsf_ring_build(nsf_ring_e kind, const nsf_server_t *servers, size_t n,
    const nsf_hashes_t *h, nsf_point_t *points);

uint32_t nsf_ring_hash(nsf_ring_e kind, const unsigned char *key, size_t len,
    const nsf_hashes_t *h);


/* the index of the server; 0 if there are no points */

uint32_t nsf_ring_find(nsf_ring_e kind, const nsf_point_t *points, size_t n,
    uint32_t hash);


/*
 * Dalli's next choice while the servers that it found are down: the hash of
 * "<attempt><key>", the attempt 0 being the first one after
 * nsf_ring_hash().  Dalli looks at 20 servers in all, that is, goes up to
 * the attempt 18.  The key has at most NSF_MAX_KEY bytes.
 */

uint32_t nsf_ring_dalli_retry(const unsigned char *key, size_t len,
    unsigned attempt, const nsf_hashes_t *h);


#endif /* _NSF_RING_H_INCLUDED_ */
