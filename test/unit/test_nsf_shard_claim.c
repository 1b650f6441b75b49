/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Claims: of all that find an entry old, one is to ask.
 */


#include "nsf_test_fixture.h"


#define VALID       1000
#define GENERATION  77


/* an entry that nobody has claimed, as all get it */

static nsf_shard_value_t
claim_put(fixture_t *f, nsf_shard_key_t key)
{
    f->in.valid = VALID;
    f->in.limit = UINT64_MAX;
    f->in.generation = GENERATION;
    f->in.claimed = 0;
    f->in.negative = 0;

    assert_put(f, key, "value");
    assert_value(f, key, "value");

    return f->v;
}


static int
claim(fixture_t *f, nsf_shard_key_t key, nsf_shard_value_t v, uint64_t until)
{
    return nsf_shard_claim(&f->sh, &key, &v, until);
}


/* the claim of what a get finds now */

static uint64_t
claimed(fixture_t *f, nsf_shard_key_t key)
{
    assert_rc(get(f, key), NSF_SHARD_OK);

    return f->v.claimed;
}


static void
one_of_several_has_it(void **state)
{
    size_t             i;
    fixture_t          f;
    nsf_shard_key_t    key;
    nsf_shard_value_t  v;

    (void) state;

    fixture_init(&f, SIZE);

    key = name("s", "1");
    v = claim_put(&f, key);

    for (i = 0; i < 10; i++) {
        assert_int_equal(claim(&f, key, v, NOW + i), i == 0);
    }

    assert_int_equal(claimed(&f, key), NOW);

    fixture_free(&f);
}


static void
only_the_claim_changes(void **state)
{
    fixture_t          f;
    nsf_shard_key_t    key;
    nsf_shard_value_t  v;
    nsf_shard_stat_t   before, after;

    (void) state;

    fixture_init(&f, SIZE);

    key = name("s", "1");
    v = claim_put(&f, key);
    before = figures(&f);

    assert_int_equal(claim(&f, key, v, UINT64_C(0x1122334455667788)), 1);

    assert_value(&f, key, "value");
    assert_true(f.v.claimed == UINT64_C(0x1122334455667788));
    assert_int_equal(f.v.valid, VALID);
    assert_true(f.v.limit == UINT64_MAX);
    assert_int_equal(f.v.generation, GENERATION);
    assert_int_equal(f.v.negative, 0);

    after = figures(&f);
    assert_memory_equal(&before, &after, sizeof(nsf_shard_stat_t));

    fixture_free(&f);
}


static void
nothing_there_to_be_claimed(void **state)
{
    fixture_t          f;
    nsf_shard_key_t    key, other;
    nsf_shard_value_t  v;

    (void) state;

    fixture_init(&f, SIZE);

    key = name("s", "1");
    other = name("t", "1");

    memset(&v, 0, sizeof(nsf_shard_value_t));
    assert_int_equal(claim(&f, key, v, 8), 0);
    assert_none(&f, key);

    /* a claim of one name is none of another, be the hash the same or not */

    v = claim_put(&f, key);
    assert_int_equal(claim(&f, other, v, 8), 0);

    other.hash = key.hash;
    assert_int_equal(claim(&f, other, v, 8), 0);
    assert_none(&f, other);
    assert_int_equal(claimed(&f, key), 0);

    /* nothing comes back by it */

    assert_int_equal(nsf_shard_del(&f.sh, &key), 1);
    assert_int_equal(claim(&f, key, v, 8), 0);
    assert_none(&f, key);
    assert_int_equal(figures(&f).entries, 0);
    assert_int_equal(figures(&f).recovered, 0);

    fixture_free(&f);
}


/* each in its whole width */

static void
another_entry_than_was_got(void **state)
{
    size_t             i;
    fixture_t          f;
    nsf_shard_key_t    key;
    nsf_shard_value_t  v, other;

    (void) state;

    fixture_init(&f, SIZE);

    key = name("s", "1");
    v = claim_put(&f, key);

    for (i = 0; i < 64; i++) {
        other = v;
        other.valid ^= UINT64_C(1) << i;
        assert_int_equal(claim(&f, key, other, 8), 0);

        other = v;
        other.generation ^= UINT64_C(1) << i;
        assert_int_equal(claim(&f, key, other, 8), 0);

        other = v;
        other.claimed ^= UINT64_C(1) << i;
        assert_int_equal(claim(&f, key, other, 8), 0);
    }

    assert_int_equal(claimed(&f, key), 0);
    assert_int_equal(claim(&f, key, v, 8), 1);

    fixture_free(&f);
}


/* who has a get without a copy has all that a claim asks for */

static void
claim_of_what_was_not_copied(void **state)
{
    fixture_t          f;
    nsf_shard_key_t    key;
    nsf_shard_value_t  v;

    (void) state;

    fixture_init(&f, SIZE);

    key = name("s", "1");
    (void) claim_put(&f, key);

    assert_rc(nsf_shard_get(&f.sh, &key, NOW, &v, NULL), NSF_SHARD_OK);
    assert_null(v.data);
    assert_int_equal(claim(&f, key, v, 8), 1);
    assert_int_equal(claimed(&f, key), 8);

    fixture_free(&f);
}


static void
given_back(void **state)
{
    fixture_t          f;
    nsf_shard_key_t    key;
    nsf_shard_value_t  v, mine;

    (void) state;

    fixture_init(&f, SIZE);

    key = name("s", "1");
    v = claim_put(&f, key);

    assert_int_equal(claim(&f, key, v, NOW + 10), 1);

    mine = v;
    mine.claimed = NOW + 10;
    assert_int_equal(claim(&f, key, mine, 0), 1);
    assert_int_equal(claimed(&f, key), 0);

    /* once */

    assert_int_equal(claim(&f, key, mine, 0), 0);

    /* the next one may have it */

    assert_int_equal(claim(&f, key, v, NOW + 20), 1);
    assert_int_equal(claimed(&f, key), NOW + 20);

    fixture_free(&f);
}


/* the claim was over, and another has it: it is no longer mine to give back */

static void
taken_over(void **state)
{
    fixture_t          f;
    nsf_shard_key_t    key;
    nsf_shard_value_t  v, mine, late;

    (void) state;

    fixture_init(&f, SIZE);

    key = name("s", "1");
    v = claim_put(&f, key);

    assert_int_equal(claim(&f, key, v, NOW), 1);
    mine = v;
    mine.claimed = NOW;

    /* two find that it is over */

    assert_rc(get(&f, key), NSF_SHARD_OK);
    late = f.v;
    assert_int_equal(claim(&f, key, late, NOW + 50), 1);
    assert_int_equal(claim(&f, key, late, NOW + 60), 0);

    assert_int_equal(claim(&f, key, mine, 0), 0);
    assert_int_equal(claimed(&f, key), NOW + 50);

    fixture_free(&f);
}


static void
same_bytes_clear_it(void **state)
{
    fixture_t          f;
    nsf_shard_key_t    key;
    nsf_shard_value_t  v, mine;

    (void) state;

    fixture_init(&f, SIZE);

    key = name("s", "1");
    v = claim_put(&f, key);

    assert_int_equal(claim(&f, key, v, NOW + 10), 1);
    mine = v;
    mine.claimed = NOW + 10;

    f.in.valid = VALID + 5;
    f.in.limit = NOW + 5;
    f.in.generation = GENERATION + 5;
    assert_put(&f, key, "value");

    assert_value(&f, key, "value");
    assert_int_equal(f.v.valid, VALID + 5);
    assert_int_equal(f.v.limit, NOW + 5);
    assert_int_equal(f.v.generation, GENERATION + 5);
    assert_int_equal(f.v.claimed, 0);

    /* neither those from before have it nor who had it */

    assert_int_equal(claim(&f, key, mine, 0), 0);
    assert_int_equal(claim(&f, key, v, NOW + 20), 0);
    assert_int_equal(claim(&f, key, f.v, NOW + 20), 1);

    /* of another generation, and all else is as it was */

    assert_int_equal(claimed(&f, key), NOW + 20);
    v = f.v;
    f.in.generation++;
    f.in.claimed = v.claimed;
    assert_put(&f, key, "value");
    assert_int_equal(claim(&f, key, v, 0), 0);
    assert_int_equal(claimed(&f, key), NOW + 20);

    fixture_free(&f);
}


static void
other_bytes_clear_it(void **state)
{
    fixture_t          f;
    nsf_shard_key_t    key;
    nsf_shard_value_t  v, mine;

    (void) state;

    fixture_init(&f, SIZE);

    key = name("s", "1");
    v = claim_put(&f, key);

    assert_int_equal(claim(&f, key, v, NOW + 10), 1);
    mine = v;
    mine.claimed = NOW + 10;

    f.in.generation++;
    assert_put(&f, key, "another value");
    assert_int_equal(claimed(&f, key), 0);
    assert_int_equal(claim(&f, key, mine, 0), 0);
    assert_int_equal(claim(&f, key, v, NOW + 20), 0);

    /* by none */

    assert_int_equal(claim(&f, key, f.v, NOW + 20), 1);
    f.in.generation++;
    f.in.negative = 1;
    assert_put(&f, key, "");
    assert_int_equal(claimed(&f, key), 0);
    assert_int_equal(f.v.negative, 1);

    fixture_free(&f);
}


/* what can't be kept takes the one that was claimed with it */

static void
too_long_for_what_was_claimed(void **state)
{
    char              *data;
    size_t             len;
    fixture_t          f;
    nsf_shard_key_t    key;
    nsf_shard_value_t  mine;

    (void) state;

    fixture_init(&f, SIZE);

    key = name("s", "1");
    mine = claim_put(&f, key);
    assert_int_equal(claim(&f, key, mine, NOW + 10), 1);
    mine.claimed = NOW + 10;

    len = nsf_shard_max_entry(SIZE) + 1;
    data = calloc(1, len);
    assert_non_null(data);

    assert_rc(put_len(&f, key, data, len), NSF_SHARD_TOO_LARGE);
    assert_int_equal(claim(&f, key, mine, 0), 0);
    assert_none(&f, key);

    free(data);
    fixture_free(&f);
}


static void
claim_of_a_negative_entry(void **state)
{
    fixture_t          f;
    nsf_shard_key_t    key;
    nsf_shard_value_t  v;

    (void) state;

    fixture_init(&f, SIZE);

    key = name("s", "1");
    f.in.negative = 1;
    f.in.valid = VALID;
    f.in.generation = GENERATION;
    assert_put(&f, key, "");

    assert_rc(get(&f, key), NSF_SHARD_OK);
    v = f.v;

    assert_int_equal(claim(&f, key, v, NOW + 10), 1);
    assert_int_equal(claim(&f, key, v, NOW + 20), 0);
    assert_int_equal(claimed(&f, key), NOW + 10);
    assert_int_equal(f.v.negative, 1);
    assert_int_equal(f.v.generation, GENERATION);

    assert_int_equal(claim(&f, key, f.v, 0), 1);
    assert_int_equal(claimed(&f, key), 0);
    assert_int_equal(figures(&f).negative, 1);

    fixture_free(&f);
}


/* all of one hash: the first of the chain, one within it, the last */

static void
claims_within_a_chain(void **state)
{
    size_t             i, j;
    fixture_t          f;
    nsf_shard_key_t    key;
    nsf_shard_value_t  v[8];

    (void) state;

    fixture_init(&f, SIZE);

    for (i = 0; i < 8; i++) {
        key = number(&f, i);
        key.hash = 5;
        v[i] = claim_put(&f, key);
    }

    for (i = 0; i < 8; i++) {
        key = number(&f, i);
        key.hash = 5;
        assert_int_equal(claim(&f, key, v[i], NOW + i), 1);

        for (j = 0; j < 8; j++) {
            key = number(&f, j);
            key.hash = 5;
            assert_int_equal(claimed(&f, key), j <= i ? NOW + j : 0);
        }
    }

    fixture_free(&f);
}


/* it is the entry's, wherever in the memory that is */

static void
claim_of_what_is_moved(void **state)
{
    size_t             i;
    fixture_t          f;
    nsf_shard_key_t    key;
    nsf_shard_value_t  v, mine;

    (void) state;

    fixture_init(&f, NSF_SHARD_MIN);

    key = name("s", "1");
    v = claim_put(&f, key);
    assert_int_equal(claim(&f, key, v, NOW + 10), 1);
    mine = v;
    mine.claimed = NOW + 10;

    f.in.generation = 0;

    for (i = 0; figures(&f).moved < 3; i++) {
        assert_put(&f, number(&f, i), "another value");
        assert_value(&f, key, "value");
        assert_int_equal(f.v.valid, VALID);
        assert_true(f.v.limit == UINT64_MAX);
        assert_int_equal(f.v.generation, GENERATION);
        assert_int_equal(f.v.claimed, NOW + 10);
    }

    assert_int_equal(claim(&f, key, v, NOW + 20), 0);
    assert_int_equal(claim(&f, key, mine, 0), 1);
    assert_int_equal(claimed(&f, key), 0);

    fixture_free(&f);
}


int
main(void)
{
    static const struct CMUnitTest  tests[] = {
        cmocka_unit_test(one_of_several_has_it),
        cmocka_unit_test(only_the_claim_changes),
        cmocka_unit_test(nothing_there_to_be_claimed),
        cmocka_unit_test(another_entry_than_was_got),
        cmocka_unit_test(claim_of_what_was_not_copied),
        cmocka_unit_test(given_back),
        cmocka_unit_test(taken_over),
        cmocka_unit_test(same_bytes_clear_it),
        cmocka_unit_test(other_bytes_clear_it),
        cmocka_unit_test(too_long_for_what_was_claimed),
        cmocka_unit_test(claim_of_a_negative_entry),
        cmocka_unit_test(claims_within_a_chain),
        cmocka_unit_test(claim_of_what_is_moved),
    };

    return cmocka_run_group_tests_name("nsf_shard_claim", tests, NULL, NULL);
}
