/*
 * Copyright (C) the ngx_sendfile authors
 *
 * What a shard keeps, and what it lets go.
 */


#include <stdio.h>

#include "nsf_test_shard.h"


typedef struct {
    nsf_shard_t        sh;
    unsigned char     *mem;
    unsigned char      value[4096];
    uint64_t           random;
} cache_t;


static void
cache_init(cache_t *c, size_t size)
{
    c->random = nsf_test_seed();

    c->mem = malloc(size);
    assert_non_null(c->mem);

    nsf_assert_good(nsf_shard_format(&c->sh, c->mem, size));
}


static void
cache_put(cache_t *c, unsigned i, size_t len, int negative)
{
    char               bytes[NSF_TEST_NAME];
    nsf_shard_key_t    key;
    nsf_shard_value_t  v;

    memset(&v, 0, sizeof(nsf_shard_value_t));
    nsf_test_key(&key, bytes, 0, i);

    if (!negative) {
        assert_true(len <= sizeof(c->value));
        nsf_test_fill(c->value, len, i);

        v.data = c->value;
        v.len = len;
    }

    v.negative = (negative != 0);

    assert_int_equal(nsf_shard_put(&c->sh, &key, 0, &v), NSF_SHARD_OK);
}


static int
cache_get(cache_t *c, unsigned i)
{
    char               bytes[NSF_TEST_NAME];
    nsf_shard_rc_e     rc;
    nsf_test_pool_t    tp;
    nsf_shard_key_t    key;
    nsf_shard_value_t  v;

    nsf_test_pool_init(&tp, 0);
    nsf_test_key(&key, bytes, 0, i);

    rc = nsf_shard_get(&c->sh, &key, 0, &v, &tp.pool);

    if (rc == NSF_SHARD_OK && !v.negative) {
        assert_true(nsf_test_filled(v.data, v.len, i));
    }

    nsf_test_pool_free(&tp);

    assert_true(rc == NSF_SHARD_OK || rc == NSF_SHARD_NONE);

    return rc == NSF_SHARD_OK;
}


static nsf_shard_stat_t
cache_stat(const cache_t *c)
{
    nsf_shard_stat_t  st;

    nsf_shard_stat(&c->sh, &st);

    return st;
}


/* until the first one goes: how much of the memory had been used */

static void
nothing_is_evicted_before_it_is_full(void **state)
{
    size_t    bytes;
    cache_t   c;
    unsigned  i, n;

    (void) state;

    cache_init(&c, 1024 * 1024);

    bytes = 0;

    for (n = 0; cache_stat(&c).evicted == 0; n++) {
        for (i = 0; i < n; i++) {
            assert_true(cache_get(&c, i));
        }

        cache_put(&c, n, 2000, 0);
        bytes += 2000;
    }

    /* 1/16 is for negative entries, 1/16 is kept free, and there are heads */

    assert_true(bytes > 1024 * 1024 / 4 * 3);
    assert_int_equal(cache_stat(&c).entries, n - cache_stat(&c).evicted);

    free(c.mem);
}


/* half of the memory, always in use and always replaced */

static void
working_set_that_fits_stays(void **state)
{
    size_t    len[100];
    cache_t   c;
    unsigned  i, round;

    (void) state;

    cache_init(&c, NSF_SHARD_MIN);

    for (i = 0; i < 100; i++) {
        len[i] = nsf_test_below(&c.random, 500);
        cache_put(&c, i, len[i], 0);
    }

    for (round = 0; round < 3000; round++) {
        for (i = 0; i < 100; i++) {
            assert_true(cache_get(&c, i));
        }

        i = (unsigned) nsf_test_below(&c.random, 100);
        len[i] = nsf_test_below(&c.random, 500);
        cache_put(&c, i, len[i], 0);
    }

    assert_int_equal(cache_stat(&c).evicted, 0);
    assert_int_equal(cache_stat(&c).entries, 100);
    assert_true(cache_stat(&c).moved > 100);

    free(c.mem);
}


/* a quarter of the memory, beside 50,000 entries that nobody asks for */

static void
what_is_used_survives_a_scan(void **state)
{
    cache_t   c;
    unsigned  i, n, hot;

    (void) state;

    cache_init(&c, 256 * 1024);

    hot = 256 * 1024 / 4 / 256;

    for (i = 0; i < hot; i++) {
        cache_put(&c, i, 160, 0);
    }

    for (n = 0; n < 50000; n++) {
        cache_put(&c, 1000000 + n, 160, 0);

        for (i = 0; i < 4; i++) {
            assert_true(cache_get(&c, (n * 4 + i) % hot));
        }
    }

    assert_true(cache_stat(&c).evicted > 40000);
    assert_true(cache_stat(&c).moved > hot);

    free(c.mem);
}


static void
what_is_not_there_evicts_nothing_that_is(void **state)
{
    size_t    i, entries;
    cache_t   c;
    unsigned  n;

    (void) state;

    cache_init(&c, 256 * 1024);

    for (n = 0; n < 800; n++) {
        cache_put(&c, n, 160, 0);
    }

    assert_int_equal(cache_stat(&c).evicted, 0);
    entries = (size_t) cache_stat(&c).entries;
    assert_int_equal(entries, 800);

    for (i = 0; i < 100000; i++) {
        cache_put(&c, (unsigned) (1000000 + i), 0, 1);
    }

    assert_int_equal(cache_stat(&c).entries, 800);
    assert_true(cache_stat(&c).negative >= 50);
    assert_int_equal(cache_stat(&c).negative + cache_stat(&c).evicted,
                     100000);

    for (n = 0; n < 800; n++) {
        assert_true(cache_get(&c, n));
    }

    free(c.mem);
}


/* and the other way round */

static void
what_is_there_evicts_nothing_that_is_not(void **state)
{
    cache_t   c;
    unsigned  n;

    (void) state;

    cache_init(&c, 256 * 1024);

    for (n = 0; n < 50; n++) {
        cache_put(&c, n, 0, 1);
    }

    for (n = 0; n < 50000; n++) {
        cache_put(&c, 1000000 + n, 160, 0);
    }

    assert_int_equal(cache_stat(&c).negative, 50);

    for (n = 0; n < 50; n++) {
        assert_true(cache_get(&c, n));
    }

    free(c.mem);
}


int
main(void)
{
    static const struct CMUnitTest  tests[] = {
        cmocka_unit_test(nothing_is_evicted_before_it_is_full),
        cmocka_unit_test(working_set_that_fits_stays),
        cmocka_unit_test(what_is_used_survives_a_scan),
        cmocka_unit_test(what_is_not_there_evicts_nothing_that_is),
        cmocka_unit_test(what_is_there_evicts_nothing_that_is_not),
    };

    return cmocka_run_group_tests_name("nsf_shard_clock", tests, NULL, NULL);
}
