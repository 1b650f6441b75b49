/*
 * Copyright (C) the ngx_sendfile authors
 *
 * A shard in plain memory, and short words for what tests do with it.
 */


#ifndef _NSF_TEST_FIXTURE_H_INCLUDED_
#define _NSF_TEST_FIXTURE_H_INCLUDED_


#include <stdio.h>

#include "nsf_test.h"
#include "nsf_shard.h"


#define SIZE  (256 * 1024)
#define NOW   1000000


typedef struct {
    nsf_shard_t           sh;
    nsf_test_pool_t       tp;
    nsf_shard_value_t     v;
    nsf_shard_value_t     in;
    unsigned char        *mem;
    char                  name[32];
} fixture_t;


/* aligned to 8 and no more, and ends where its memory does */

static inline void
fixture_init(fixture_t *f, size_t size)
{
    memset(f, 0, sizeof(fixture_t));

    f->mem = malloc(size + 8);
    assert_non_null(f->mem);
    memset(f->mem, 0xa5, size + 8);

    nsf_assert_good(nsf_shard_format(&f->sh, f->mem + 8, size));

    nsf_test_pool_init(&f->tp, 0);
}


static inline void
fixture_free(fixture_t *f)
{
    nsf_test_pool_free(&f->tp);
    free(f->mem);
}


/* a hash that goes by the bytes of both, in all of its bits */

static inline uint64_t
hash_of(uint64_t h, const char *p)
{
    for ( /* void */ ; *p != '\0'; p++) {
        h = (h ^ (unsigned char) *p) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 29;
    }

    return h;
}


static inline nsf_shard_key_t
name(const char *scope, const char *key)
{
    nsf_shard_key_t  k;

    k.scope.data = (const unsigned char *) scope;
    k.scope.len = strlen(scope);
    k.key.data = (const unsigned char *) key;
    k.key.len = strlen(key);
    k.hash = hash_of(hash_of(5381, scope) + k.scope.len, key);

    return k;
}


static inline nsf_shard_key_t
number(fixture_t *f, size_t i)
{
    (void) snprintf(f->name, sizeof(f->name), "%zu", i);

    return name("memcached://127.0.0.1/a", f->name);
}


/* with f->in's times, generation, claim and kind */

static inline nsf_shard_rc_e
put_len(fixture_t *f, nsf_shard_key_t key, const void *data, size_t len)
{
    nsf_shard_rc_e  rc;
    nsf_test_buf_t  buf;

    buf = nsf_test_copy(data, len);

    f->in.data = buf.data;
    f->in.len = buf.len;

    rc = nsf_shard_put(&f->sh, &key, NOW, &f->in);

    nsf_test_free(&buf);
    f->in.data = NULL;

    return rc;
}


static inline nsf_shard_rc_e
put(fixture_t *f, nsf_shard_key_t key, const char *value)
{
    return put_len(f, key, value, strlen(value));
}


static inline nsf_shard_rc_e
get_at(fixture_t *f, nsf_shard_key_t key, uint64_t now)
{
    nsf_test_pool_free(&f->tp);
    nsf_test_pool_init(&f->tp, 0);

    memset(&f->v, 0xee, sizeof(nsf_shard_value_t));

    return nsf_shard_get(&f->sh, &key, now, &f->v, &f->tp.pool);
}


static inline nsf_shard_rc_e
get(fixture_t *f, nsf_shard_key_t key)
{
    return get_at(f, key, NOW);
}


#define assert_rc(rc, expected)  assert_int_equal((int) (rc), (int) (expected))

#define assert_put(f, key, value)                                             \
    assert_rc(put(f, key, value), NSF_SHARD_OK)

#define assert_value(f, key, value)                                           \
    do {                                                                      \
        assert_rc(get(f, key), NSF_SHARD_OK);                                 \
        nsf_assert_str((f)->v, value);                                        \
    } while (0)

#define assert_none(f, key)  assert_rc(get(f, key), NSF_SHARD_NONE)


static inline nsf_shard_stat_t
figures(const fixture_t *f)
{
    nsf_shard_stat_t  st;

    nsf_shard_stat(&f->sh, &st);

    return st;
}


#endif /* _NSF_TEST_FIXTURE_H_INCLUDED_ */
