/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <stdio.h>

#include "nsf_test.h"
#include "nsf_test_hash.h"
#include "nsf_test_vectors.h"


#define MAX_SERVERS  64
#define KEYS         50


typedef struct {
    nsf_ring_e     kind;
    size_t         nservers;
    nsf_server_t   servers[MAX_SERVERS];
    char           names[MAX_SERVERS][64];
    size_t         npoints;
    nsf_point_t   *points;
} ring_t;


/* exactly as many points as nsf_ring_size() says */

static void
ring_points(ring_t *ring, const nsf_hashes_t *h)
{
    size_t  size;

    size = nsf_ring_size(ring->kind, ring->servers, ring->nservers);
    assert_true(size > 0);
    assert_true(size <= 160 * ring->nservers + 160);

    ring->points = malloc(size * sizeof(nsf_point_t));
    assert_non_null(ring->points);

    ring->npoints = nsf_ring_build(ring->kind, ring->servers, ring->nservers,
                                   h, ring->points);
    assert_int_equal(ring->npoints, size);
}


static void
ring_free(ring_t *ring)
{
    free(ring->points);
    ring->points = NULL;
}


/* 127.0.0.1 with ports in a row */

static void
ring_init(ring_t *ring, nsf_ring_e kind, size_t n, unsigned port,
    const unsigned *weights)
{
    size_t  i;

    ring->kind = kind;
    ring->nservers = n;

    for (i = 0; i < n; i++) {
        ring->servers[i].host.data = (const unsigned char *) "127.0.0.1";
        ring->servers[i].host.len = 9;
        ring->servers[i].port = port + (unsigned) i;
        ring->servers[i].weight = weights[i];

        assert_true(snprintf(ring->names[i], sizeof(ring->names[i]),
                             "127.0.0.1:%u", ring->servers[i].port)
                    < (int) sizeof(ring->names[i]));
    }

    ring_points(ring, &nsf_test_hashes);
}


static const char *
ring_server(const ring_t *ring, const char *key)
{
    uint32_t  hash, server;

    hash = nsf_ring_hash(ring->kind, (const unsigned char *) key,
                         strlen(key), &nsf_test_hashes);
    server = nsf_ring_find(ring->kind, ring->points, ring->npoints, hash);

    assert_true(server < ring->nservers);

    return ring->names[server];
}


/* as Dalli looks for a server that lives */

static const char *
ring_alive(const ring_t *ring, const char *key, const char *dead)
{
    uint32_t     hash;
    unsigned     attempt;
    const char  *name;

    name = ring_server(ring, key);

    for (attempt = 0; strcmp(name, dead) == 0; attempt++) {
        assert_true(attempt < 19);

        hash = nsf_ring_dalli_retry((const unsigned char *) key, strlen(key),
                                    attempt, &nsf_test_hashes);
        name = ring->names[nsf_ring_find(ring->kind, ring->points,
                                         ring->npoints, hash)];
    }

    return name;
}


static void
compare(const char *file, size_t nfields, const char *column,
    const ring_t *ring, const char *dead)
{
    size_t               i, field;
    const char          *name;
    nsf_test_vectors_t   v;

    nsf_test_vectors(&v, file, nfields, KEYS + 1);
    field = nsf_test_column(&v, column);

    for (i = 1; i <= KEYS; i++) {
        name = (dead == NULL) ? ring_server(ring, v.rows[i][0])
                              : ring_alive(ring, v.rows[i][0], dead);

        assert_string_equal(name, v.rows[i][field]);
    }

    nsf_test_vectors_free(&v);
}


static const unsigned  w111[] = { 1, 1, 1 };
static const unsigned  w123[] = { 1, 2, 3 };
static const unsigned  w000[] = { 0, 0, 0 };


static void
dalli_vectors(void **state)
{
    ring_t  ring;

    (void) state;

    ring_init(&ring, NSF_RING_DALLI, 3, 11211, w111);
    assert_int_equal(ring.npoints, 480);

    compare("ring_dalli.tsv", 4, "unweighted_11211_11212_11213", &ring, NULL);
    compare("ring_dalli.tsv", 4, "unweighted_with_11212_dead", &ring,
            "127.0.0.1:11212");

    ring_free(&ring);
}


static void
dalli_vectors_weighted(void **state)
{
    ring_t  ring;

    (void) state;

    ring_init(&ring, NSF_RING_DALLI, 3, 11211, w123);
    assert_int_equal(ring.npoints, 80 + 160 + 240);

    compare("ring_dalli.tsv", 4, "weighted_1_2_3", &ring, NULL);

    ring_free(&ring);
}


static void
libmemcached_vectors(void **state)
{
    ring_t  ring;

    (void) state;

    ring_init(&ring, NSF_RING_KETAMA, 3, 11211, w111);
    assert_int_equal(ring.npoints, 480);

    compare("ring_libmemcached.tsv", 8, "ketama_weighted_md5_w111", &ring,
            NULL);
    ring_free(&ring);
}


static void
libmemcached_vectors_weighted(void **state)
{
    ring_t  ring;

    (void) state;

    ring_init(&ring, NSF_RING_KETAMA, 3, 11211, w123);
    compare("ring_libmemcached.tsv", 8, "ketama_weighted_md5_w123", &ring,
            NULL);
    ring_free(&ring);
}


static void
libmemcached_vectors_other_ports(void **state)
{
    ring_t  ring;

    (void) state;

    ring_init(&ring, NSF_RING_KETAMA, 3, 12211, w111);
    compare("ring_libmemcached.tsv", 8, "ketama_weighted_md5_ports12211-3",
            &ring, NULL);
    ring_free(&ring);
}


static void
php_vectors(void **state)
{
    ring_t  ring;

    (void) state;

    ring_init(&ring, NSF_RING_KETAMA, 3, 11211, w111);
    compare("ring_php_memcached.tsv", 7, "libketama_compatible", &ring, NULL);

    /* libmemcached hashes the key without php's prefix */

    compare("ring_php_memcached.tsv", 7, "libketama_compat_prefix", &ring,
            NULL);
    ring_free(&ring);

    ring_init(&ring, NSF_RING_KETAMA, 3, 11211, w123);
    compare("ring_php_memcached.tsv", 7, "libketama_compatible_w123", &ring,
            NULL);
    ring_free(&ring);
}


static void
php_vectors_without_weights(void **state)
{
    ring_t  ring;

    (void) state;

    ring_init(&ring, NSF_RING_KETAMA, 3, 11211, w000);
    compare("ring_php_memcached.tsv", 7, "libketama_compatible_w0", &ring,
            NULL);
    ring_free(&ring);
}


static size_t
size_of(nsf_ring_e kind, size_t n, const unsigned *weights)
{
    size_t        i;
    nsf_server_t  servers[8];

    memset(servers, 0, sizeof(servers));

    for (i = 0; i < n; i++) {
        servers[i].weight = weights[i];
    }

    return nsf_ring_size(kind, servers, n);
}


static void
size_dalli(void **state)
{
    static const unsigned  w7[] = { 7 };
    static const unsigned  w12[] = { 1, 2 };
    static const unsigned  w1117[] = { 1, 1, 1, 7 };
    static const unsigned  w0[] = { 0, 1 };
    static const unsigned  max[] = { 1, UINT32_MAX };

    (void) state;

    assert_int_equal(size_of(NSF_RING_DALLI, 1, w7), 160);

    /* 106.67 and 213.33 */

    assert_int_equal(size_of(NSF_RING_DALLI, 2, w12), 106 + 213);
    assert_int_equal(size_of(NSF_RING_DALLI, 4, w1117), 3 * 64 + 448);
    assert_int_equal(size_of(NSF_RING_DALLI, 2, w0), 320);
    assert_int_equal(size_of(NSF_RING_DALLI, 2, max), 319);
    assert_int_equal(size_of(NSF_RING_DALLI, 3, w000), 0);
}


static void
size_ketama(void **state)
{
    static const unsigned  w7[] = { 7 };
    static const unsigned  w12[] = { 1, 2 };
    static const unsigned  w0[] = { 0, 1 };
    static const unsigned  max[] = { 1, UINT32_MAX };

    (void) state;

    assert_int_equal(size_of(NSF_RING_KETAMA, 1, w7), 160);

    /* 26.67 and 53.33 times four */

    assert_int_equal(size_of(NSF_RING_KETAMA, 2, w12), 4 * (26 + 53));

    /* a weight of 0 is one of 1 */

    assert_int_equal(size_of(NSF_RING_KETAMA, 2, w0), 320);
    assert_int_equal(size_of(NSF_RING_KETAMA, 3, w000), 480);
    assert_int_equal(size_of(NSF_RING_KETAMA, 2, max), 320);
}


static void
size_of_nothing(void **state)
{
    (void) state;

    assert_int_equal(nsf_ring_size(NSF_RING_DALLI, NULL, 0), 0);
    assert_int_equal(nsf_ring_size(NSF_RING_KETAMA, NULL, 0), 0);
    assert_int_equal(nsf_ring_build(NSF_RING_DALLI, NULL, 0,
                                    &nsf_test_hashes, NULL), 0);
    assert_int_equal(nsf_ring_build(NSF_RING_KETAMA, NULL, 0,
                                    &nsf_test_hashes, NULL), 0);
    assert_int_equal(nsf_ring_find(NSF_RING_DALLI, NULL, 0, 7), 0);
    assert_int_equal(nsf_ring_find(NSF_RING_KETAMA, NULL, 0, 7), 0);
}


static void
size_of_too_much(void **state)
{
    size_t         i;
    nsf_server_t  *servers;

    (void) state;

    servers = calloc(NSF_RING_MAX_SERVERS + 1, sizeof(nsf_server_t));
    assert_non_null(servers);

    for (i = 0; i <= NSF_RING_MAX_SERVERS; i++) {
        servers[i].weight = 1;
    }

    assert_int_equal(nsf_ring_size(NSF_RING_DALLI, servers,
                                   NSF_RING_MAX_SERVERS),
                     160 * NSF_RING_MAX_SERVERS);
    assert_int_equal(nsf_ring_size(NSF_RING_DALLI, servers,
                                   NSF_RING_MAX_SERVERS + 1), 0);
    assert_int_equal(nsf_ring_build(NSF_RING_DALLI, servers,
                                    NSF_RING_MAX_SERVERS + 1,
                                    &nsf_test_hashes, NULL), 0);

    /* refused before it is read */

    servers[0].host.len = NSF_RING_MAX_HOST + 1;
    assert_int_equal(nsf_ring_size(NSF_RING_KETAMA, servers, 2), 0);

    free(servers);
}


/* what is hashed, with a hash that only writes it down */

#define MAX_HASHED  2048

static size_t  nhashed;
static char    hashed[MAX_HASHED][NSF_RING_MAX_HOST + 32];


static void
note(const void *p, size_t len)
{
    assert_true(nhashed < MAX_HASHED);
    assert_true(len < sizeof(hashed[0]));

    memcpy(hashed[nhashed], p, len);
    hashed[nhashed][len] = '\0';
    nhashed++;
}


static void
note_sha1(unsigned char out[20], const void *p, size_t len)
{
    note(p, len);
    memset(out, 0x55, 20);
}


static void
note_md5(unsigned char out[16], const void *p, size_t len)
{
    note(p, len);
    memset(out, 0x55, 16);
}


static uint32_t
note_crc32(const void *p, size_t len)
{
    note(p, len);

    return 0x55555555;
}


static const nsf_hashes_t  note_hashes = { note_sha1, note_md5, note_crc32 };


static void
names_of(nsf_ring_e kind, const char *host, unsigned port)
{
    ring_t  ring;

    ring.kind = kind;
    ring.nservers = 1;
    ring.servers[0].host.data = (const unsigned char *) host;
    ring.servers[0].host.len = strlen(host);
    ring.servers[0].port = port;
    ring.servers[0].weight = 1;

    nhashed = 0;
    ring_points(&ring, &note_hashes);
    ring_free(&ring);
}


static void
names_dalli(void **state)
{
    (void) state;

    names_of(NSF_RING_DALLI, "127.0.0.1", 11211);
    assert_int_equal(nhashed, 160);
    assert_string_equal(hashed[0], "127.0.0.1:11211:0");
    assert_string_equal(hashed[9], "127.0.0.1:11211:9");
    assert_string_equal(hashed[10], "127.0.0.1:11211:10");
    assert_string_equal(hashed[159], "127.0.0.1:11211:159");

    names_of(NSF_RING_DALLI, "cache.example", 1);
    assert_string_equal(hashed[0], "cache.example:1:0");

    names_of(NSF_RING_DALLI, "::1", 65535);
    assert_string_equal(hashed[0], "::1:65535:0");

    names_of(NSF_RING_DALLI, "[::1]", 65535);
    assert_string_equal(hashed[0], "::1:65535:0");

    names_of(NSF_RING_DALLI, "/run/memcached.sock", 0);
    assert_string_equal(hashed[0], "/run/memcached.sock:0");
}


static void
names_ketama(void **state)
{
    (void) state;

    names_of(NSF_RING_KETAMA, "127.0.0.1", 11211);
    assert_int_equal(nhashed, 40);
    assert_string_equal(hashed[0], "127.0.0.1-0");
    assert_string_equal(hashed[39], "127.0.0.1-39");

    names_of(NSF_RING_KETAMA, "127.0.0.1", 11212);
    assert_string_equal(hashed[39], "127.0.0.1:11212-39");

    names_of(NSF_RING_KETAMA, "[::1]", 11211);
    assert_string_equal(hashed[0], "::1-0");

    names_of(NSF_RING_KETAMA, "/run/memcached.sock", 0);
    assert_string_equal(hashed[0], "/run/memcached.sock:0-0");
}


static void
names_of_odd_hosts(void **state)
{
    char  host[NSF_RING_MAX_HOST + 1];

    (void) state;

    names_of(NSF_RING_DALLI, "", 1);
    assert_string_equal(hashed[0], ":1:0");

    names_of(NSF_RING_DALLI, "[]", 1);
    assert_string_equal(hashed[0], "[]:1:0");

    names_of(NSF_RING_DALLI, "[", 1);
    assert_string_equal(hashed[0], "[:1:0");

    memset(host, 'h', NSF_RING_MAX_HOST);
    host[NSF_RING_MAX_HOST] = '\0';

    names_of(NSF_RING_DALLI, host, UINT32_MAX);
    assert_int_equal(strlen(hashed[159]), NSF_RING_MAX_HOST + 15);
    assert_string_equal(hashed[159] + NSF_RING_MAX_HOST, ":4294967295:159");

    names_of(NSF_RING_KETAMA, host, UINT32_MAX);
    assert_string_equal(hashed[39] + NSF_RING_MAX_HOST, ":4294967295-39");
}


static void
points_are_of_the_right_bytes(void **state)
{
    ring_t  ring;
    size_t  i, dalli, ketama;

    static const unsigned  w1[] = { 1 };

    (void) state;

    /* sha1sum of "127.0.0.1:11211:0" and md5sum of "127.0.0.1-0" */

    ring_init(&ring, NSF_RING_DALLI, 1, 11211, w1);

    dalli = 0;

    for (i = 0; i < ring.npoints; i++) {
        dalli += (ring.points[i].hash == 0x60449ed6);
    }

    ring_free(&ring);

    ring_init(&ring, NSF_RING_KETAMA, 1, 11211, w1);

    ketama = 0;

    for (i = 0; i < ring.npoints; i++) {
        ketama += (ring.points[i].hash == 0xbdffa47f
                   || ring.points[i].hash == 0xac7ecb6e
                   || ring.points[i].hash == 0x30801bbb
                   || ring.points[i].hash == 0xffe0f4b2);
    }

    ring_free(&ring);

    assert_int_equal(dalli, 1);
    assert_int_equal(ketama, 4);
}


static void
points_are_sorted(void **state)
{
    size_t    i, n, counts[MAX_SERVERS];
    ring_t    ring;
    unsigned  weights[MAX_SERVERS];

    (void) state;

    for (n = 1; n <= MAX_SERVERS; n += 7) {

        for (i = 0; i < n; i++) {
            weights[i] = 1 + (unsigned) (i * i) % 11;
        }

        ring_init(&ring, (n % 2) ? NSF_RING_DALLI : NSF_RING_KETAMA, n, 11211,
                  weights);
        memset(counts, 0, sizeof(counts));

        for (i = 0; i < ring.npoints; i++) {
            assert_true(ring.points[i].server < n);
            counts[ring.points[i].server]++;

            assert_true(i == 0
                        || ring.points[i - 1].hash < ring.points[i].hash
                        || (ring.points[i - 1].hash == ring.points[i].hash
                            && ring.points[i - 1].server
                               <= ring.points[i].server));
        }

        for (i = 0; i < n; i++) {
            assert_true(counts[i] > 0);
        }

        ring_free(&ring);
    }
}


/* all points the same: Dalli finds the last server, libmemcached the first */

static void
points_that_are_equal(void **state)
{
    size_t  i;
    ring_t  ring;

    static const unsigned  w11[] = { 1, 1, 1, 1, 1 };

    (void) state;

    ring_init(&ring, NSF_RING_DALLI, 5, 11211, w11);
    ring_free(&ring);

    nhashed = 0;
    ring_points(&ring, &note_hashes);

    for (i = 0; i < ring.npoints; i++) {
        assert_int_equal(ring.points[i].server, i / 160);
        assert_true(ring.points[i].hash == 0x55555555);
    }

    assert_int_equal(nsf_ring_find(NSF_RING_DALLI, ring.points, ring.npoints,
                                   0x55555554), 4);
    assert_int_equal(nsf_ring_find(NSF_RING_DALLI, ring.points, ring.npoints,
                                   0x55555555), 4);
    assert_int_equal(nsf_ring_find(NSF_RING_DALLI, ring.points, ring.npoints,
                                   0x55555556), 4);

    assert_int_equal(nsf_ring_find(NSF_RING_KETAMA, ring.points, ring.npoints,
                                   0x55555554), 0);
    assert_int_equal(nsf_ring_find(NSF_RING_KETAMA, ring.points, ring.npoints,
                                   0x55555555), 0);
    assert_int_equal(nsf_ring_find(NSF_RING_KETAMA, ring.points, ring.npoints,
                                   0x55555556), 0);

    ring_free(&ring);
}


static void
find_dalli(void **state)
{
    static const nsf_point_t  points[] = {
        { 10, 3 }, { 20, 1 }, { 20, 2 }, { 30, 0 }, { UINT32_MAX, 4 }
    };

    (void) state;

    /* the last one not above the hash; before the first one: the last */

    assert_int_equal(nsf_ring_find(NSF_RING_DALLI, points, 5, 0), 4);
    assert_int_equal(nsf_ring_find(NSF_RING_DALLI, points, 5, 9), 4);
    assert_int_equal(nsf_ring_find(NSF_RING_DALLI, points, 5, 10), 3);
    assert_int_equal(nsf_ring_find(NSF_RING_DALLI, points, 5, 19), 3);
    assert_int_equal(nsf_ring_find(NSF_RING_DALLI, points, 5, 20), 2);
    assert_int_equal(nsf_ring_find(NSF_RING_DALLI, points, 5, 29), 2);
    assert_int_equal(nsf_ring_find(NSF_RING_DALLI, points, 5, 30), 0);
    assert_int_equal(nsf_ring_find(NSF_RING_DALLI, points, 5,
                                   UINT32_MAX - 1), 0);
    assert_int_equal(nsf_ring_find(NSF_RING_DALLI, points, 5, UINT32_MAX), 4);
    assert_int_equal(nsf_ring_find(NSF_RING_DALLI, points, 4, UINT32_MAX), 0);
    assert_int_equal(nsf_ring_find(NSF_RING_DALLI, points, 1, 0), 3);
}


static void
find_ketama(void **state)
{
    static const nsf_point_t  points[] = {
        { 10, 3 }, { 20, 1 }, { 20, 2 }, { 30, 0 }, { UINT32_MAX, 4 }
    };

    (void) state;

    /* the first one not below the hash; behind the last one: the first */

    assert_int_equal(nsf_ring_find(NSF_RING_KETAMA, points, 5, 0), 3);
    assert_int_equal(nsf_ring_find(NSF_RING_KETAMA, points, 5, 10), 3);
    assert_int_equal(nsf_ring_find(NSF_RING_KETAMA, points, 5, 11), 1);
    assert_int_equal(nsf_ring_find(NSF_RING_KETAMA, points, 5, 20), 1);
    assert_int_equal(nsf_ring_find(NSF_RING_KETAMA, points, 5, 21), 0);
    assert_int_equal(nsf_ring_find(NSF_RING_KETAMA, points, 5, 31), 4);
    assert_int_equal(nsf_ring_find(NSF_RING_KETAMA, points, 5, UINT32_MAX), 4);
    assert_int_equal(nsf_ring_find(NSF_RING_KETAMA, points, 4, 31), 3);
    assert_int_equal(nsf_ring_find(NSF_RING_KETAMA, points, 1, UINT32_MAX), 3);
}


/* against a walk along the points, at each of them and beside it */

static void
find_like_a_walk(void **state)
{
    int       off;
    size_t    i, k, dalli, ketama;
    ring_t    ring;
    uint32_t  hash;

    (void) state;

    ring_init(&ring, NSF_RING_DALLI, 3, 11211, w123);

    for (i = 0; i < ring.npoints; i++) {

        for (off = -1; off <= 1; off++) {
            hash = ring.points[i].hash + (uint32_t) off;

            dalli = ring.npoints - 1;
            ketama = 0;

            for (k = 0; k < ring.npoints && ring.points[k].hash <= hash; k++) {
                dalli = k;
            }

            for (k = ring.npoints; k > 0 && ring.points[k - 1].hash >= hash;
                 k--)
            {
                ketama = k - 1;
            }

            assert_int_equal(nsf_ring_find(NSF_RING_DALLI, ring.points,
                                           ring.npoints, hash),
                             ring.points[dalli].server);
            assert_int_equal(nsf_ring_find(NSF_RING_KETAMA, ring.points,
                                           ring.npoints, hash),
                             ring.points[ketama].server);
        }
    }

    ring_free(&ring);
}


static void
hash_of_a_key(void **state)
{
    nsf_test_buf_t  buf;

    (void) state;

    buf = nsf_test_copy("297887", 6);

    /* crc32 and md5sum of it */

    assert_true(nsf_ring_hash(NSF_RING_DALLI, buf.data, buf.len,
                              &nsf_test_hashes) == 0xbce7b036);
    assert_true(nsf_ring_hash(NSF_RING_KETAMA, buf.data, buf.len,
                              &nsf_test_hashes) == 0x2af624b5);

    nsf_test_free(&buf);
}


static void
retry_hashes_number_and_key(void **state)
{
    char            name[NSF_MAX_KEY + 3];
    unsigned        attempt;
    nsf_test_buf_t  buf;

    (void) state;

    nhashed = 0;

    for (attempt = 0; attempt <= 19; attempt++) {
        buf = nsf_test_copy("ns:297887", 9);
        assert_true(nsf_ring_dalli_retry(buf.data, buf.len, attempt,
                                         &note_hashes) == 0x55555555);
        nsf_test_free(&buf);

        assert_true(snprintf(name, sizeof(name), "%uns:297887", attempt) > 0);
        assert_string_equal(hashed[attempt], name);
    }
}


static void
retry_of_the_longest_key(void **state)
{
    char            key[NSF_MAX_KEY + 1];
    nsf_test_buf_t  buf;

    (void) state;

    memset(key, 'k', sizeof(key));
    buf = nsf_test_copy(key, NSF_MAX_KEY);

    nhashed = 0;
    (void) nsf_ring_dalli_retry(buf.data, buf.len, UINT32_MAX, &note_hashes);
    assert_int_equal(strlen(hashed[0]), 10 + NSF_MAX_KEY);
    assert_memory_equal(hashed[0], "4294967295kkk", 13);

    nsf_test_free(&buf);

    /* no key is longer; it would be cut, not written past its buffer */

    (void) nsf_ring_dalli_retry((unsigned char *) key, sizeof(key), 0,
                                &note_hashes);
    assert_int_equal(strlen(hashed[1]), 1 + NSF_MAX_KEY);

    (void) nsf_ring_dalli_retry(NULL, 0, 7, &note_hashes);
    assert_string_equal(hashed[2], "7");
}


int
main(void)
{
    static const struct CMUnitTest  tests[] = {
        cmocka_unit_test(dalli_vectors),
        cmocka_unit_test(dalli_vectors_weighted),
        cmocka_unit_test(libmemcached_vectors),
        cmocka_unit_test(libmemcached_vectors_weighted),
        cmocka_unit_test(libmemcached_vectors_other_ports),
        cmocka_unit_test(php_vectors),
        cmocka_unit_test(php_vectors_without_weights),
        cmocka_unit_test(size_dalli),
        cmocka_unit_test(size_ketama),
        cmocka_unit_test(size_of_nothing),
        cmocka_unit_test(size_of_too_much),
        cmocka_unit_test(names_dalli),
        cmocka_unit_test(names_ketama),
        cmocka_unit_test(names_of_odd_hosts),
        cmocka_unit_test(points_are_of_the_right_bytes),
        cmocka_unit_test(points_are_sorted),
        cmocka_unit_test(points_that_are_equal),
        cmocka_unit_test(find_dalli),
        cmocka_unit_test(find_ketama),
        cmocka_unit_test(find_like_a_walk),
        cmocka_unit_test(hash_of_a_key),
        cmocka_unit_test(retry_hashes_number_and_key),
        cmocka_unit_test(retry_of_the_longest_key),
    };

    return cmocka_run_group_tests_name("nsf_ring", tests, NULL, NULL);
}
