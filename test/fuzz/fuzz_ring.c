/*
 * Copyright (C) the ngx_sendfile authors
 *
 * nsf_ring_*(): one byte of kind, then servers of three bytes (port, weight,
 * length of the host) and a host.  The hashes are weak ones, so that many
 * points are the same.
 */


#include "fuzz.h"
#include "nsf_ring.h"


#define MAX_SERVERS  24


static unsigned  bits;


static uint32_t
weak(const void *p, size_t len)
{
    size_t                i;
    uint32_t              hash;
    const unsigned char  *s;

    s = p;
    hash = 2166136261;

    for (i = 0; i < len; i++) {
        hash = (hash ^ s[i]) * 16777619;
    }

    /* few values, spread over all of the range */

    return (hash >> bits) << bits;
}


static void
weak_sha1(unsigned char out[20], const void *p, size_t len)
{
    size_t    i;
    uint32_t  hash;

    hash = weak(p, len);

    for (i = 0; i < 20; i++) {
        out[i] = (unsigned char) (hash >> (24 - 8 * (i % 4)));
    }
}


static void
weak_md5(unsigned char out[16], const void *p, size_t len)
{
    size_t    i;
    uint32_t  hash;

    hash = weak(p, len);

    for (i = 0; i < 16; i++) {
        out[i] = (unsigned char) ((hash + i / 4) >> (8 * (i % 4)));
    }
}


static const nsf_hashes_t  hashes = { weak_sha1, weak_md5, weak };


/* by a walk along all points, in whatever order */

static uint32_t
walk(nsf_ring_e kind, const nsf_point_t *points, size_t n, uint32_t hash)
{
    size_t  i, best, edge;

    best = n;
    edge = 0;

    for (i = 1; i < n; i++) {

        if (kind == NSF_RING_DALLI ? points[i].hash >= points[edge].hash
                                   : points[i].hash < points[edge].hash)
        {
            edge = i;
        }
    }

    for (i = 0; i < n; i++) {

        if (kind == NSF_RING_DALLI) {

            if (points[i].hash <= hash
                && (best == n || points[i].hash >= points[best].hash))
            {
                best = i;
            }

        } else if (points[i].hash >= hash
                   && (best == n || points[i].hash < points[best].hash))
        {
            best = i;
        }
    }

    return points[best == n ? edge : best].server;
}


static size_t
read_servers(nsf_server_t *servers, const uint8_t *data, size_t size)
{
    size_t  n, len;

    for (n = 0; n < MAX_SERVERS && size >= 3; n++) {
        servers[n].port = data[0] % 3 == 0 ? 0 : 11210U + data[0] % 3;
        servers[n].weight = data[1];

        if (data[1] == 255) {
            servers[n].weight = UINT32_MAX;
        }

        len = data[2] % 32;
        data += 3;
        size -= 3;

        if (len > size) {
            len = size;
        }

        servers[n].host.data = data;
        servers[n].host.len = len;

        data += len;
        size -= len;
    }

    return n;
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t         i, n, npoints;
    uint32_t       hash;
    nsf_ring_e     kind;
    nsf_point_t   *points;
    nsf_server_t   servers[MAX_SERVERS];

    if (size == 0) {
        return 0;
    }

    kind = (data[0] & 1) ? NSF_RING_KETAMA : NSF_RING_DALLI;
    bits = (data[0] >> 1) % 32;

    n = read_servers(servers, data + 1, size - 1);

    npoints = nsf_ring_size(kind, servers, n);
    fuzz_require(npoints <= 160 * n + 4);

    points = malloc(npoints * sizeof(nsf_point_t) + 1);
    fuzz_require(points != NULL);

    fuzz_require(nsf_ring_build(kind, servers, n, &hashes, points)
                 == npoints);

    for (i = 0; i < npoints; i++) {
        fuzz_require(points[i].server < n);
        fuzz_require(i == 0 || points[i - 1].hash < points[i].hash
                     || (points[i - 1].hash == points[i].hash
                         && points[i - 1].server <= points[i].server));
    }

    for (i = 0; i < size && i < 16; i++) {
        hash = nsf_ring_hash(kind, data, i, &hashes);

        if (npoints == 0) {
            fuzz_require(nsf_ring_find(kind, points, 0, hash) == 0);
            continue;
        }

        fuzz_require(nsf_ring_find(kind, points, npoints, hash)
                     == walk(kind, points, npoints, hash));

        hash = points[i % npoints].hash + data[i] % 3 - 1;

        fuzz_require(nsf_ring_find(kind, points, npoints, hash)
                     == walk(kind, points, npoints, hash));
    }

    (void) nsf_ring_dalli_retry(data, size, data[0], &hashes);

    free(points);

    return 0;
}
