/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <string.h>

#include "nsf_ring.h"


#define NSF_RING_POINTS     160
#define NSF_RING_MD5_POINTS  4
#define NSF_RING_PORT       11211

/* the digits of an unsigned number of up to 32 bits */

#define NSF_RING_DIGITS     10


static size_t nsf_ring_count(nsf_ring_e kind, const nsf_server_t *servers,
    size_t n, size_t i);
static uint64_t nsf_ring_weight(nsf_ring_e kind, const nsf_server_t *server);
static size_t nsf_ring_name(nsf_ring_e kind, const nsf_server_t *server,
    unsigned char *buf);
static size_t nsf_ring_number(unsigned char *buf, uint32_t number);
static nsf_point_t *nsf_ring_dalli_points(nsf_point_t *point,
    const unsigned char *name, size_t len, const nsf_hashes_t *h);
static nsf_point_t *nsf_ring_ketama_points(nsf_point_t *point,
    const unsigned char *name, size_t len, const nsf_hashes_t *h);
static void nsf_ring_sort(nsf_point_t *points, size_t n);
static void nsf_ring_sift(nsf_point_t *points, size_t i, size_t n);
static int nsf_ring_less(const nsf_point_t *a, const nsf_point_t *b);


size_t
nsf_ring_size(nsf_ring_e kind, const nsf_server_t *servers, size_t n)
{
    size_t  i, size;

    if (n > NSF_RING_MAX_SERVERS) {
        return 0;
    }

    size = 0;

    for (i = 0; i < n; i++) {

        if (servers[i].host.len > NSF_RING_MAX_HOST) {
            return 0;
        }

        size += nsf_ring_count(kind, servers, n, i);
    }

    return size;
}


/* the points of one server */

static size_t
nsf_ring_count(nsf_ring_e kind, const nsf_server_t *servers, size_t n,
    size_t i)
{
    float     share;
    size_t    k;
    uint64_t  weight, total;

    total = 0;

    for (k = 0; k < n; k++) {
        total += nsf_ring_weight(kind, &servers[k]);
    }

    weight = nsf_ring_weight(kind, &servers[i]);

    if (total == 0) {
        return 0;
    }

    if (kind == NSF_RING_DALLI) {

        /* floor((n * 160 * weight) / Float(total)) */

        return (size_t) ((double) (n * NSF_RING_POINTS * weight)
                         / (double) total);
    }

    /* single precision as in libmemcached, and its steps in its order */

    share = (float) weight / (float) total;
    share = share * NSF_RING_POINTS;
    share = share / NSF_RING_MD5_POINTS;
    share = share * (float) n;
    share = share + 0.0000000001F;

    return (size_t) share * NSF_RING_MD5_POINTS;
}


static uint64_t
nsf_ring_weight(nsf_ring_e kind, const nsf_server_t *server)
{
    /* libmemcached takes a weight of 0 for none given, Dalli does not */

    if (kind == NSF_RING_KETAMA && server->weight == 0) {
        return 1;
    }

    return server->weight;
}


size_t
nsf_ring_build(nsf_ring_e kind, const nsf_server_t *servers, size_t n,
    const nsf_hashes_t *h, nsf_point_t *points)
{
    size_t          i, k, count, size, len, digits;
    nsf_point_t    *point, *end;
    unsigned char   name[NSF_RING_MAX_HOST + 2 * (1 + NSF_RING_DIGITS)];

    size = nsf_ring_size(kind, servers, n);

    if (size == 0) {
        return 0;
    }

    point = points;

    for (i = 0; i < n; i++) {
        len = nsf_ring_name(kind, &servers[i], name);
        count = nsf_ring_count(kind, servers, n, i);

        end = point + count;

        for (k = 0; point < end; k++) {
            digits = nsf_ring_number(&name[len], (uint32_t) k);

            if (kind == NSF_RING_DALLI) {
                point = nsf_ring_dalli_points(point, name, len + digits, h);

            } else {
                point = nsf_ring_ketama_points(point, name, len + digits, h);
            }
        }

        for (point = end - count; point < end; point++) {
            point->server = (uint32_t) i;
        }
    }

    nsf_ring_sort(points, size);

    return size;
}


/*
 * Writes the text that the number of a point is appended to; returns its
 * length.
 */

static size_t
nsf_ring_name(nsf_ring_e kind, const nsf_server_t *server, unsigned char *buf)
{
    size_t                len;
    unsigned char        *p;
    const unsigned char  *host;

    host = server->host.data;
    len = server->host.len;

    if (len > 2 && host[0] == '[' && host[len - 1] == ']') {
        host++;
        len -= 2;
    }

    p = buf;

    if (len != 0) {
        memcpy(p, host, len);
        p += len;
    }

    if (kind == NSF_RING_DALLI) {

        if (server->port != 0) {
            *p++ = ':';
            p += nsf_ring_number(p, server->port);
        }

        *p++ = ':';

        return (size_t) (p - buf);
    }

    /* libmemcached appends the port of a unix socket, too, which is 0 */

    if (server->port != NSF_RING_PORT) {
        *p++ = ':';
        p += nsf_ring_number(p, server->port);
    }

    *p++ = '-';

    return (size_t) (p - buf);
}


/* decimal, without a NUL; returns the number of digits */

static size_t
nsf_ring_number(unsigned char *buf, uint32_t number)
{
    size_t         n;
    unsigned char  digits[NSF_RING_DIGITS], *p;

    p = digits + NSF_RING_DIGITS;

    do {
        *--p = (unsigned char) ('0' + number % 10);
        number /= 10;
    } while (number != 0);

    n = (size_t) (digits + NSF_RING_DIGITS - p);
    memcpy(buf, p, n);

    return n;
}


static nsf_point_t *
nsf_ring_dalli_points(nsf_point_t *point, const unsigned char *name,
    size_t len, const nsf_hashes_t *h)
{
    unsigned char  sum[20];

    h->sha1(sum, name, len);

    point->hash = (uint32_t) sum[0] << 24 | (uint32_t) sum[1] << 16
                  | (uint32_t) sum[2] << 8 | sum[3];

    return point + 1;
}


static nsf_point_t *
nsf_ring_ketama_points(nsf_point_t *point, const unsigned char *name,
    size_t len, const nsf_hashes_t *h)
{
    size_t         i;
    unsigned char  sum[16], *p;

    h->md5(sum, name, len);

    for (i = 0; i < NSF_RING_MD5_POINTS; i++) {
        p = &sum[4 * i];

        point->hash = (uint32_t) p[3] << 24 | (uint32_t) p[2] << 16
                      | (uint32_t) p[1] << 8 | p[0];
        point++;
    }

    return point;
}


/*
 * By hash, and points of one hash by server.  libmemcached compares just so.
 * Dalli compares hashes only, with a sort that is stable where glibc's
 * qsort_r() is, and it appends the points server by server.  So both search
 * functions find the same server of two that share a hash.
 *
 * A heapsort, since qsort() may allocate.
 */

static void
nsf_ring_sort(nsf_point_t *points, size_t n)
{
    size_t       i;
    nsf_point_t  point;

    for (i = n / 2; i > 0; i--) {
        nsf_ring_sift(points, i - 1, n);
    }

    for (i = n - 1; i > 0; i--) {
        point = points[0];
        points[0] = points[i];
        points[i] = point;

        nsf_ring_sift(points, 0, i);
    }
}


static void
nsf_ring_sift(nsf_point_t *points, size_t i, size_t n)
{
    size_t       child;
    nsf_point_t  point;

    point = points[i];

    for ( ;; ) {
        child = 2 * i + 1;

        if (child >= n) {
            break;
        }

        if (child + 1 < n && nsf_ring_less(&points[child], &points[child + 1]))
        {
            child++;
        }

        if (!nsf_ring_less(&point, &points[child])) {
            break;
        }

        points[i] = points[child];
        i = child;
    }

    points[i] = point;
}


static int
nsf_ring_less(const nsf_point_t *a, const nsf_point_t *b)
{
    if (a->hash != b->hash) {
        return a->hash < b->hash;
    }

    return a->server < b->server;
}


uint32_t
nsf_ring_hash(nsf_ring_e kind, const unsigned char *key, size_t len,
    const nsf_hashes_t *h)
{
    unsigned char  sum[16];

    if (kind == NSF_RING_DALLI) {
        return h->crc32(key, len);
    }

    h->md5(sum, key, len);

    return (uint32_t) sum[3] << 24 | (uint32_t) sum[2] << 16
           | (uint32_t) sum[1] << 8 | sum[0];
}


uint32_t
nsf_ring_find(nsf_ring_e kind, const nsf_point_t *points, size_t n,
    uint32_t hash)
{
    int     before;
    size_t  left, right, middle;

    if (n == 0) {
        return 0;
    }

    /* the first point that is above the hash, for ketama or equal to it */

    left = 0;
    right = n;

    while (left < right) {
        middle = left + (right - left) / 2;

        before = kind == NSF_RING_DALLI ? points[middle].hash <= hash
                                        : points[middle].hash < hash;

        if (before) {
            left = middle + 1;

        } else {
            right = middle;
        }
    }

    if (kind == NSF_RING_DALLI) {

        /* the one before it, that is, the last one not above the hash */

        return points[left == 0 ? n - 1 : left - 1].server;
    }

    return points[left == n ? 0 : left].server;
}


uint32_t
nsf_ring_dalli_retry(const unsigned char *key, size_t len, unsigned attempt,
    const nsf_hashes_t *h)
{
    size_t         n;
    unsigned char  buf[NSF_RING_DIGITS + NSF_MAX_KEY];

    n = nsf_ring_number(buf, attempt);

    if (len > NSF_MAX_KEY) {
        len = NSF_MAX_KEY;
    }

    if (len != 0) {
        memcpy(&buf[n], key, len);
    }

    return h->crc32(buf, n + len);
}
