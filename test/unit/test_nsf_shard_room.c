/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Chains, room, what goes and what stays; memory and what it is used for.
 */


#include "nsf_test_fixture.h"


static void
longest_chain(void **state)
{
    size_t           i;
    fixture_t        f;
    nsf_shard_key_t  key;

    (void) state;

    fixture_init(&f, SIZE);

    for (i = 0; i < NSF_SHARD_MAX_CHAIN + 10; i++) {
        key = number(&f, i);
        key.hash = 1;
        f.in.generation = i;
        f.in.negative = (i % 3 == 0);
        assert_put(&f, key, i % 3 == 0 ? "" : "value");
    }

    assert_int_equal(figures(&f).evicted, 10);
    assert_int_equal(figures(&f).entries + figures(&f).negative,
                     NSF_SHARD_MAX_CHAIN);

    for (i = 0; i < NSF_SHARD_MAX_CHAIN + 10; i++) {
        key = number(&f, i);
        key.hash = 1;
        assert_rc(get(&f, key), i < 10 ? NSF_SHARD_NONE : NSF_SHARD_OK);

        if (i >= 10) {
            assert_int_equal(f.v.generation, i);
        }
    }

    /* replaced in a full chain: nobody goes */

    f.in.negative = 0;
    assert_put(&f, key, "another value");
    assert_value(&f, key, "another value");
    assert_int_equal(figures(&f).evicted, 10);

    fixture_free(&f);
}


/* whatever bits of the hash are the same in all of the shard */

static void
hashes_of_one_shard_of_many(void **state)
{
    size_t           i, bits;
    fixture_t        f;
    nsf_shard_key_t  key;

    (void) state;

    for (bits = 0; bits < 60; bits += 4) {
        fixture_init(&f, SIZE);

        for (i = 0; i < 1000; i++) {
            key = number(&f, i);
            key.hash &= ~(UINT64_C(0xff) << bits);
            assert_put(&f, key, "value");
        }

        assert_int_equal(figures(&f).entries, 1000);
        fixture_free(&f);
    }
}


static void
used_entries_stay(void **state)
{
    size_t     i;
    uint64_t   moved;
    fixture_t  f;

    (void) state;

    fixture_init(&f, NSF_SHARD_MIN);

    for (i = 0; i < 100; i++) {
        assert_put(&f, number(&f, i), "value");
    }

    for (i = 0; i < 100; i += 2) {
        assert_value(&f, number(&f, i), "value");
    }

    /* used once: each is moved once, while the others go */

    for (i = 1000; figures(&f).evicted < 50; i++) {
        assert_put(&f, number(&f, i), "value");
    }

    moved = figures(&f).moved;
    assert_true(moved == 49 || moved == 50);

    for (i = 0; i < 100; i++) {
        assert_rc(get(&f, number(&f, i)),
                  i % 2 == 0 ? NSF_SHARD_OK : NSF_SHARD_NONE);
    }

    fixture_free(&f);
}


/* used, but only until their limit */

static void
late_entries_go(void **state)
{
    size_t     i;
    fixture_t  f;

    (void) state;

    fixture_init(&f, NSF_SHARD_MIN);

    f.in.limit = NOW;

    for (i = 0; i < 50; i++) {
        assert_put(&f, number(&f, i), "value");
        assert_rc(get_at(&f, number(&f, i), NOW - 1), NSF_SHARD_OK);
    }

    f.in.limit = 0;

    for (i = 1000; figures(&f).evicted < 50; i++) {
        assert_put(&f, number(&f, i), "value");
    }

    assert_int_equal(figures(&f).moved, 0);
    assert_rc(get_at(&f, number(&f, 0), NOW - 1), NSF_SHARD_NONE);

    fixture_free(&f);
}


/*
 * A row of used entries that is longer than what one put() moves: its work
 * goes on with the next ones, and nothing that is used has to go.
 */

static void
many_used_entries_in_a_row(void **state)
{
    size_t     i;
    uint64_t   moved, most;
    fixture_t  f;

    (void) state;

    fixture_init(&f, 4 * 1024 * 1024);

    for (i = 0; i < 20000; i++) {
        assert_put(&f, number(&f, i), "some bytes of a record, about 40 long");
        assert_rc(get(&f, number(&f, i)), NSF_SHARD_OK);
    }

    for (i = 0; figures(&f).evicted == 0; i++) {
        assert_put(&f, number(&f, 100000 + i), "not used");
        assert_true(i < 100000);
    }

    most = 0;

    for (i = 0; i < 2000; i++) {
        moved = figures(&f).moved;
        assert_put(&f, number(&f, 300000 + i), "not used");
        moved = figures(&f).moved - moved;

        if (moved > most) {
            most = moved;
        }
    }

    assert_true(figures(&f).moved >= 20000);
    assert_true(most < 200);

    for (i = 0; i < 20000; i++) {
        assert_rc(get(&f, number(&f, i)), NSF_SHARD_OK);
    }

    fixture_free(&f);
}


/* beside key and value; what the scope takes counts as overhead */

static void
overhead_of_a_small_record(void **state)
{
    size_t     i, size, records;
    fixture_t  f;

    (void) state;

    for (size = 4 * 1024 * 1024; size <= 9 * 1024 * 1024; size += 700000) {
        fixture_init(&f, size);

        for (i = 1000000; figures(&f).evicted == 0; i++) {
            assert_put(&f, number(&f, i),
                       "0123456789012345678901234567890123456789");
        }

        records = (size_t) figures(&f).entries;
        assert_int_equal(records, i - 1000000 - figures(&f).evicted);

        assert_true(size / records - 7 - 40 < 118);

        fixture_free(&f);
    }
}


static void
attached(void **state)
{
    fixture_t        f;
    nsf_shard_t      other;
    nsf_shard_key_t  key;

    (void) state;

    fixture_init(&f, SIZE);
    key = name("s", "1");

    assert_put(&f, key, "value");

    nsf_assert_good(nsf_shard_attach(&other, f.mem + 8, SIZE));
    assert_rc(nsf_shard_get(&other, &key, NOW, &f.v, &f.tp.pool),
              NSF_SHARD_OK);
    nsf_assert_str(f.v, "value");

    assert_int_equal(nsf_shard_claim(&other, &key, &f.v, 7), 1);
    assert_value(&f, key, "value");
    assert_int_equal(f.v.claimed, 7);

    assert_int_equal(nsf_shard_del(&other, &key), 1);
    assert_none(&f, key);

    fixture_free(&f);
}


static void
memory_that_is_no_shard(void **state)
{
    fixture_t    f;
    nsf_shard_t  sh;

    (void) state;

    fixture_init(&f, SIZE);

    nsf_assert_error(nsf_shard_format(&sh, f.mem + 8, NSF_SHARD_MIN - 1),
                     "too small");
    nsf_assert_error(nsf_shard_attach(&sh, f.mem + 8, NSF_SHARD_MIN - 1),
                     "too small");
    nsf_assert_error(nsf_shard_format(&sh, f.mem + 4, SIZE), "not aligned");
    nsf_assert_error(nsf_shard_attach(&sh, f.mem + 4, SIZE), "not aligned");

    nsf_assert_error(nsf_shard_attach(&sh, f.mem + 8, SIZE - 8),
                     "another size");
    nsf_assert_good(nsf_shard_attach(&sh, f.mem + 8, SIZE));

    memset(f.mem + 8, 0, SIZE);
    nsf_assert_error(nsf_shard_attach(&sh, f.mem + 8, SIZE), "no shard");

    assert_int_equal(nsf_shard_max_entry(NSF_SHARD_MIN - 1), 0);
    assert_true(nsf_shard_max_entry(NSF_SHARD_MIN) > 2048);

#if (SIZE_MAX > UINT32_MAX)
    nsf_assert_error(nsf_shard_format(&sh, f.mem + 8,
                                      ((size_t) UINT32_MAX + 1) * 8),
                     "too large");
#endif

    fixture_free(&f);
}


int
main(void)
{
    static const struct CMUnitTest  tests[] = {
        cmocka_unit_test(longest_chain),
        cmocka_unit_test(hashes_of_one_shard_of_many),
        cmocka_unit_test(used_entries_stay),
        cmocka_unit_test(late_entries_go),
        cmocka_unit_test(many_used_entries_in_a_row),
        cmocka_unit_test(overhead_of_a_small_record),
        cmocka_unit_test(attached),
        cmocka_unit_test(memory_that_is_no_shard),
    };

    return cmocka_run_group_tests_name("nsf_shard_room", tests, NULL, NULL);
}
