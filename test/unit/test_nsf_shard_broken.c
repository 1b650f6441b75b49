/*
 * Copyright (C) the ngx_sendfile authors
 *
 * A shard that a writer has left in the middle, that holds nonsense, or that
 * changes while it is read.
 */


#include <stdio.h>

#include "nsf_test.h"
#include "nsf_shard_memory.h"


#define SIZE     NSF_SHARD_MIN
#define ENTRIES  40


typedef struct {
    nsf_shard_t           sh;
    unsigned char        *mem;
    char                  name[32];
    unsigned char         value[4096];
} shard_t;


static nsf_shard_key_t
number(shard_t *t, unsigned i)
{
    nsf_shard_key_t  k;

    k.scope.data = (const unsigned char *) "scope";
    k.scope.len = 5;
    k.key.data = (unsigned char *) t->name;
    k.key.len = (size_t) snprintf(t->name, sizeof(t->name), "%u", i);
    k.hash = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);

    return k;
}


static nsf_shard_rc_e
put(shard_t *t, unsigned i, size_t len)
{
    nsf_shard_key_t    key;
    nsf_shard_value_t  v;

    memset(&v, 0, sizeof(nsf_shard_value_t));
    memset(t->value, (int) i, sizeof(t->value));

    key = number(t, i);
    v.data = t->value;
    v.len = len;
    v.generation = i;

    return nsf_shard_put(&t->sh, &key, 0, &v);
}


/* what put() has put, if nobody has claimed it */

static int
claim(shard_t *t, unsigned i)
{
    nsf_shard_key_t    key;
    nsf_shard_value_t  v;

    memset(&v, 0, sizeof(nsf_shard_value_t));

    key = number(t, i);
    v.generation = i;

    return nsf_shard_claim(&t->sh, &key, &v, 1000);
}


static nsf_shard_rc_e
get(shard_t *t, unsigned i)
{
    size_t             n;
    nsf_shard_rc_e     rc;
    nsf_shard_key_t    key;
    nsf_test_pool_t    tp;
    nsf_shard_value_t  v;

    nsf_test_pool_init(&tp, 0);

    key = number(t, i);
    rc = nsf_shard_get(&t->sh, &key, 0, &v, &tp.pool);

    if (rc == NSF_SHARD_OK) {
        assert_int_equal(v.generation, i);
        assert_int_equal(v.claimed, 0);

        for (n = 0; n < v.len; n++) {
            assert_int_equal(v.data[n], (unsigned char) i);
        }
    }

    nsf_test_pool_free(&tp);

    return rc;
}


#define assert_rc(rc, expected)  assert_int_equal((int) (rc), (int) (expected))


static void
shard_init(shard_t *t)
{
    unsigned  i;

    memset(t, 0, sizeof(shard_t));

    t->mem = calloc(1, SIZE);
    assert_non_null(t->mem);

    nsf_assert_good(nsf_shard_format(&t->sh, t->mem, SIZE));

    for (i = 0; i < ENTRIES; i++) {
        assert_rc(put(t, i, 30), NSF_SHARD_OK);
        assert_rc(get(t, i), NSF_SHARD_OK);
    }
}


static void
shard_free(shard_t *t)
{
    free(t->mem);
}


static nsf_shard_stat_t
figures(const shard_t *t)
{
    nsf_shard_stat_t  st;

    nsf_shard_stat(&t->sh, &st);

    return st;
}


static uint32_t *
bucket(shard_t *t, unsigned i)
{
    return &t->sh.buckets[nsf_shard_hash(number(t, i).hash) & t->sh.mask];
}


static nsf_shard_entry_t *
entry(shard_t *t, unsigned i)
{
    assert_int_not_equal(*bucket(t, i), 0);

    return nsf_shard_at(&t->sh, *bucket(t, i));
}


/* all that was there is gone, and what comes is kept */

static void
works_as_new(shard_t *t)
{
    unsigned  i, there;

    there = 0;

    for (i = 0; i < ENTRIES; i++) {
        there += (get(t, i) == NSF_SHARD_OK);
    }

    assert_true(there <= figures(t).entries);
    assert_true(figures(t).entries <= 1);

    for (i = 0; i < 3000; i++) {
        assert_rc(put(t, i, i % 500), NSF_SHARD_OK);
        assert_rc(get(t, i), NSF_SHARD_OK);
    }

    assert_int_equal(claim(t, 2999), 1);
    assert_int_equal(claim(t, 2999), 0);

    assert_int_equal(figures(t).recovered, 1);
    assert_int_equal(t->sh.head->busy, 0);
    assert_int_equal(t->sh.head->seq & 1, 0);
}


static void
writer_died_unseen(void **state)
{
    shard_t    t;
    uintptr_t  seq;

    (void) state;

    shard_init(&t);

    seq = t.sh.head->seq;
    t.sh.head->busy = 1;

    /* readers need not care */

    assert_rc(get(&t, 5), NSF_SHARD_OK);

    /* the next writer does, and what it brings is good */

    assert_rc(put(&t, 7, 20), NSF_SHARD_OK);

    assert_int_equal(figures(&t).entries, 1);
    assert_int_equal(figures(&t).recovered, 1);
    assert_rc(get(&t, 5), NSF_SHARD_NONE);
    assert_rc(get(&t, 7), NSF_SHARD_OK);
    assert_true(t.sh.head->seq > seq);

    works_as_new(&t);
    shard_free(&t);
}


static void
writer_died_in_public(void **state)
{
    shard_t    t;
    uintptr_t  seq;

    (void) state;

    shard_init(&t);

    t.sh.head->busy = 1;
    seq = ++t.sh.head->seq;
    assert_int_equal(seq & 1, 1);

    assert_rc(get(&t, 5), NSF_SHARD_BUSY);
    assert_rc(put(&t, 5, 10), NSF_SHARD_OK);
    assert_rc(get(&t, 5), NSF_SHARD_OK);
    assert_true(t.sh.head->seq > seq);

    works_as_new(&t);
    shard_free(&t);
}


/* any of the writers mends it */

static void
writers_mend(void **state)
{
    int              i;
    shard_t          t;
    nsf_shard_key_t  key;

    (void) state;

    for (i = 0; i < 6; i++) {
        shard_init(&t);

        if (i % 2 == 0) {
            t.sh.head->seq++;

        } else {
            t.sh.head->busy = 1;
        }

        key = number(&t, 5);

        switch (i / 2) {

        case 0:
            assert_int_equal(nsf_shard_del(&t.sh, &key), 0);
            break;

        case 1:
            assert_int_equal(claim(&t, 5), 0);
            break;

        default:

            /* one that is not kept */

            assert_rc(put(&t, 5, sizeof(t.value)), NSF_SHARD_TOO_LARGE);
        }

        assert_rc(get(&t, 5), NSF_SHARD_NONE);
        assert_int_equal(figures(&t).entries, 0);

        works_as_new(&t);
        shard_free(&t);
    }
}


/*
 * Each makes a mess of entry 5, which lies alone in its bucket, or of the
 * head.  "found" is what a reader finds then.
 */

typedef struct {
    const char           *what;
    void                (*spoil)(shard_t *t);
    nsf_shard_rc_e        found;
} mess_t;


static void
spoil_bucket_low(shard_t *t)
{
    *bucket(t, 5) = t->sh.first[0] - 1;
}


static void
spoil_bucket_high(shard_t *t)
{
    *bucket(t, 5) = t->sh.last[1] - 1;
}


static void
spoil_bucket_far(shard_t *t)
{
    *bucket(t, 5) = UINT32_MAX;
}


/* the last units of one ring, and the first ones of the other */

static void
spoil_bucket_between(shard_t *t)
{
    *bucket(t, 5) = t->sh.last[0] - 1;
}


static void
spoil_bucket_within(shard_t *t)
{
    *bucket(t, 5) += 1;
}


static void
spoil_loop(shard_t *t)
{
    entry(t, 5)->hash ^= 1;
    entry(t, 5)->next = *bucket(t, 5);
}


static void
spoil_state(shard_t *t)
{
    entry(t, 5)->block.state = NSF_ARENA_DEAD;
}


static void
spoil_kind(shard_t *t)
{
    entry(t, 5)->block.kind = 1;
}


static void
spoil_size(shard_t *t)
{
    entry(t, 5)->block.size = UINT32_MAX;
}


static void
spoil_scope_len(shard_t *t)
{
    entry(t, 5)->block.len = UINT16_MAX;
}


static void
spoil_key_len(shard_t *t)
{
    entry(t, 5)->key_len = UINT16_MAX;
}


static void
spoil_value_len(shard_t *t)
{
    entry(t, 5)->value_len = UINT32_MAX;
}


static void
spoil_arena(shard_t *t)
{
    t->sh.head->arenas[0].head++;
}


static void
spoil_negative_arena(shard_t *t)
{
    t->sh.head->arenas[1].used = UINT32_MAX;
}


static const mess_t  messes[] = {
    { "bucket, low", spoil_bucket_low, NSF_SHARD_NONE },
    { "bucket, high", spoil_bucket_high, NSF_SHARD_NONE },
    { "bucket, far", spoil_bucket_far, NSF_SHARD_NONE },
    { "bucket, between", spoil_bucket_between, NSF_SHARD_NONE },
    { "bucket, within", spoil_bucket_within, NSF_SHARD_NONE },
    { "loop", spoil_loop, NSF_SHARD_NONE },
    { "state", spoil_state, NSF_SHARD_OK },
    { "kind", spoil_kind, NSF_SHARD_OK },
    { "size", spoil_size, NSF_SHARD_OK },
    { "scope's length", spoil_scope_len, NSF_SHARD_NONE },
    { "key's length", spoil_key_len, NSF_SHARD_NONE },
    { "value's length", spoil_value_len, NSF_SHARD_NONE },
    { "arena", spoil_arena, NSF_SHARD_OK },
    { "negative arena", spoil_negative_arena, NSF_SHARD_OK },
};


#define MESSES  (sizeof(messes) / sizeof(messes[0]))


/* readers stay within bounds, and writers mend it: put, del, claim */

static void
nonsense(void **state)
{
    int              j;
    size_t           i;
    shard_t          t;
    nsf_shard_key_t  key;

    (void) state;

    for (i = 0; i < MESSES; i++) {
        for (j = 0; j < 3; j++) {
            print_message("%s, writer %d\n", messes[i].what, j);

            shard_init(&t);
            assert_int_equal(entry(&t, 5)->next, 0);

            messes[i].spoil(&t);
            assert_rc(get(&t, 5), messes[i].found);

            key = number(&t, 5);

            switch (j) {

            case 0:
                assert_rc(put(&t, 5, 20), NSF_SHARD_OK);
                assert_rc(get(&t, 5), NSF_SHARD_OK);
                break;

            case 1:
                assert_int_equal(nsf_shard_del(&t.sh, &key), 0);
                break;

            default:
                assert_int_equal(claim(&t, 5), 0);
            }

            assert_int_equal(figures(&t).recovered, 1);
            assert_int_equal(figures(&t).entries, j == 0);

            works_as_new(&t);
            shard_free(&t);
        }
    }
}


/* met only when it is the oldest, and room is made */

static void
nonsense_at_the_old_end(void **state)
{
    size_t    i;
    shard_t   t;
    unsigned  n;

    static void  (*const spoil[])(shard_t *t) = {
        spoil_bucket_low, spoil_bucket_within, spoil_loop, spoil_kind,
        spoil_size, spoil_scope_len, spoil_key_len, spoil_value_len,
    };

    (void) state;

    for (i = 0; i < sizeof(spoil) / sizeof(spoil[0]); i++) {
        shard_init(&t);
        spoil[i](&t);

        for (n = 1000; figures(&t).recovered == 0; n++) {
            assert_rc(put(&t, n, 30), NSF_SHARD_OK);
            assert_true(n < 3000);
        }

        /* the one that has met it is kept */

        assert_int_equal(figures(&t).entries, 1);
        assert_rc(get(&t, n - 1), NSF_SHARD_OK);

        works_as_new(&t);
        shard_free(&t);
    }
}


static void
another_version(void **state)
{
    shard_t      t;
    nsf_shard_t  other;

    (void) state;

    shard_init(&t);

    t.sh.head->version++;
    nsf_assert_error(nsf_shard_attach(&other, t.mem, SIZE), "another version");
    t.sh.head->version--;

    /* the one before: its entries have a shorter head */

    t.sh.head->version--;
    nsf_assert_error(nsf_shard_attach(&other, t.mem, SIZE), "another version");
    t.sh.head->version++;

    t.sh.head->mask++;
    nsf_assert_error(nsf_shard_attach(&other, t.mem, SIZE), "another size");
    t.sh.head->mask--;

    t.sh.head->magic++;
    nsf_assert_error(nsf_shard_attach(&other, t.mem, SIZE), "no shard");
    t.sh.head->magic--;

    nsf_assert_good(nsf_shard_attach(&other, t.mem, SIZE));

    shard_free(&t);
}


/* a pool that is a writer: between the head of an entry and its bytes */

typedef struct {
    nsf_pool_t            pool;
    shard_t              *t;
    unsigned              calls;
    unsigned              times;
    size_t                len;
    unsigned char         memory[64 * 1024];
    size_t                used;
} meddler_t;


static void *
meddle(void *ctx, size_t size)
{
    void       *p;
    meddler_t  *m;

    m = ctx;
    assert_true(size <= sizeof(m->memory) - m->used);

    if (m->calls++ < m->times) {
        assert_rc(put(m->t, 5, m->len + m->calls), NSF_SHARD_OK);
    }

    p = &m->memory[m->used];
    m->used += size;

    return p;
}


static void
meddler_init(meddler_t *m, shard_t *t, unsigned times, size_t len)
{
    memset(m, 0, sizeof(meddler_t));

    m->pool.alloc = meddle;
    m->pool.ctx = m;
    m->t = t;
    m->times = times;
    m->len = len;
}


static void
replaced_while_it_is_read(void **state)
{
    shard_t            t;
    meddler_t          m;
    nsf_shard_key_t    key;
    nsf_shard_value_t  v;

    (void) state;

    shard_init(&t);
    key = number(&t, 5);

    /* by a longer one: there is not enough memory yet */

    meddler_init(&m, &t, 1, 99);
    assert_rc(nsf_shard_get(&t.sh, &key, 0, &v, &m.pool), NSF_SHARD_OK);
    assert_int_equal(v.len, 100);
    assert_int_equal(m.calls, 2);
    assert_int_equal(v.data[99], 5);

    /* by a shorter one: there is */

    meddler_init(&m, &t, 1, 9);
    assert_rc(nsf_shard_get(&t.sh, &key, 0, &v, &m.pool), NSF_SHARD_OK);
    assert_int_equal(v.len, 10);
    assert_int_equal(m.calls, 1);
    assert_ptr_equal(v.data, m.memory);

    /* again and again: there is an end */

    meddler_init(&m, &t, 1000, 10);
    memset(&v, 0xee, sizeof(nsf_shard_value_t));
    assert_rc(nsf_shard_get(&t.sh, &key, 0, &v, &m.pool), NSF_SHARD_BUSY);
    assert_int_equal(m.calls, 100);
    assert_int_equal((unsigned char) v.generation, 0xee);
    assert_int_equal((unsigned char) v.claimed, 0xee);

    shard_free(&t);
}


/* what takes longer to copy is copied less often */

static void
long_one_replaced_while_it_is_read(void **state)
{
    shard_t            t;
    meddler_t          m;
    nsf_shard_key_t    key;
    nsf_shard_value_t  v;

    (void) state;

    shard_init(&t);
    key = number(&t, 5);

    assert_rc(put(&t, 5, 2100), NSF_SHARD_OK);

    meddler_init(&m, &t, 20, 2100);
    assert_rc(nsf_shard_get(&t.sh, &key, 0, &v, &m.pool), NSF_SHARD_OK);
    assert_int_equal(m.calls, 21);

    shard_free(&t);
}


int
main(void)
{
    static const struct CMUnitTest  tests[] = {
        cmocka_unit_test(writer_died_unseen),
        cmocka_unit_test(writer_died_in_public),
        cmocka_unit_test(writers_mend),
        cmocka_unit_test(nonsense),
        cmocka_unit_test(nonsense_at_the_old_end),
        cmocka_unit_test(another_version),
        cmocka_unit_test(replaced_while_it_is_read),
        cmocka_unit_test(long_one_replaced_while_it_is_read),
    };

    return cmocka_run_group_tests_name("nsf_shard_broken", tests, NULL, NULL);
}
