
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * The one clock for what is old, in memory that all workers share.
 *
 * A counter that only grows, slots found by the hash of a name (a key, or
 * the URL that a learned answer is for), and one slot for everything.  Who
 * declares a name to be old takes the counter's next value and writes it into
 * the name's slot.  Whatever is derived from a read remembers the counter from
 * before that read, and is old for a name when that is less than its slot.
 * Two names in one slot cost a needless look, never a wrong answer.
 *
 * One for all cache zones of a configuration: a purge is meant for all of
 * them, and what a worker has open (roots, snapshots) is of none of them.
 */


#ifndef _NGX_HTTP_SENDFILE_GENERATIONS_H_INCLUDED_
#define _NGX_HTTP_SENDFILE_GENERATIONS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


typedef struct ngx_http_sendfile_generations_s
    ngx_http_sendfile_generations_t;


/* names that one read may be for: keys, a learn key, a URL */

#define NGX_HTTP_SENDFILE_SUBJECT_NAMES  8

typedef struct {
    ngx_uint_t                      n;
    uint32_t                        slots[NGX_HTTP_SENDFILE_SUBJECT_NAMES];
} ngx_http_sendfile_subject_t;


/*
 * When something is read: "now" is the counter from before, which what comes
 * of it remembers; what was read before "due" is old for whom it is for.
 */

typedef struct {
    ngx_atomic_uint_t               now;
    ngx_atomic_uint_t               due;
} ngx_http_sendfile_moment_t;


/* configuration time; NULL if that failed */

ngx_http_sendfile_generations_t *ngx_http_sendfile_generations_create(
    ngx_conf_t *cf, void *tag);


/*
 * A hash, a word at a time, the last one up to the end.  Bits of "fold" are
 * as if they were set in every byte.
 */

#define NGX_HTTP_SENDFILE_MIX        UINT64_C(0x9e3779b97f4a7c15)
#define NGX_HTTP_SENDFILE_MIX_LOWER  UINT64_C(0x2020202020202020)

static ngx_inline uint64_t
ngx_http_sendfile_mix(const u_char *p, size_t len, uint64_t fold)
{
    uint64_t       hash, word;
    const u_char  *last;

    hash = len;
    last = p + len;

    if (len < sizeof(uint64_t)) {
        for (word = 0; p < last; p++) {
            word = (word << 8) | *p;
        }

        hash = (hash ^ (word | fold)) * NGX_HTTP_SENDFILE_MIX;

        return hash ^ (hash >> 32);
    }

    for (last -= sizeof(uint64_t); p < last; p += sizeof(uint64_t)) {
        ngx_memcpy(&word, p, sizeof(uint64_t));
        hash = (hash ^ (word | fold)) * NGX_HTTP_SENDFILE_MIX;
        hash ^= hash >> 32;
    }

    ngx_memcpy(&word, last, sizeof(uint64_t));
    hash = (hash ^ (word | fold)) * NGX_HTTP_SENDFILE_MIX;

    return hash ^ (hash >> 32);
}


/*
 * What a name names, each with slots of its own: clients can have what was
 * learned for a URL taken back, and that is not to wear out what is known of
 * keys.
 */

typedef enum {
    NGX_HTTP_SENDFILE_NAME_KEY = 0,
    NGX_HTTP_SENDFILE_NAME_URL
} ngx_http_sendfile_name_e;


/* which slot a name has; the case of a URL's letters does not count */

uint32_t ngx_http_sendfile_generations_slot(ngx_http_sendfile_name_e kind,
    ngx_str_t *name);

/* one more name, or slot, that a read is for */

void ngx_http_sendfile_subject_add(ngx_http_sendfile_subject_t *subject,
    uint32_t slot);


/*
 * The counter, never 0: to be taken before a read begins, and before due() is
 * asked.  A purge in between makes what is read needlessly old.
 */

ngx_atomic_uint_t ngx_http_sendfile_generations_now(
    ngx_http_sendfile_generations_t *g);

/* what was read before this is old for any of the names */

ngx_atomic_uint_t ngx_http_sendfile_generations_due(
    ngx_http_sendfile_generations_t *g, ngx_http_sendfile_subject_t *subject);


/* from here on what was read of a name, or of all, is old */

void ngx_http_sendfile_generations_purge(ngx_http_sendfile_generations_t *g,
    ngx_http_sendfile_name_e kind, ngx_str_t *name);
void ngx_http_sendfile_generations_purge_all(
    ngx_http_sendfile_generations_t *g);


#endif /* _NGX_HTTP_SENDFILE_GENERATIONS_H_INCLUDED_ */
