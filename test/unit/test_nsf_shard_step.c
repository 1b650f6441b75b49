/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Every operation of a writer, killed at every instruction.  The code is the
 * one that nginx loads: this program is linked with the object files of the
 * module's build.
 */


#include <stdio.h>

#include "nsf_test_step.h"


/* some entries of either kind, and room for more */

static void
prepare_some(void)
{
    size_t  i;

    for (i = 0; i < 16; i++) {
        step_put(i, step_version(20 + 30 * i, i % 4 == 3));
    }
}


/* what a name holds now, once more */

static step_op_t *
add_put_same(size_t name)
{
    step_op_t      *op;
    step_version_t  ver;

    ver = step.names[name].before;
    ver.valid += 5;
    ver.limit = 0;
    ver.generation += 5;
    ver.claimed = 0;

    op = step_add_put(name, ver);

    return op;
}


static void
put_of_a_new_name(void **state)
{
    (void) state;

    step_init();
    prepare_some();

    (void) step_add_put(20, step_version(100, 0));
    (void) step_add_put(21, step_version(0, 0));
    (void) step_add_put(22, step_version(0, 1));

    step_run("put");
    step_free();
}


static void
put_that_replaces(void **state)
{
    (void) state;

    step_init();
    prepare_some();

    (void) step_add_put(1, step_version(step.names[1].before.len, 0));
    (void) step_add_put(2, step_version(300, 0));

    /* one kind by the other */

    (void) step_add_put(4, step_version(0, 1));
    (void) step_add_put(7, step_version(50, 0));

    step_run("put in place of another");
    step_free();
}


static void
put_of_the_same_bytes(void **state)
{
    (void) state;

    step_init();
    prepare_some();

    (void) add_put_same(5);
    (void) add_put_same(7);

    step_run("put of the same bytes");
    step_free();
}


static void
put_that_is_refused(void **state)
{
    step_op_t  *op;

    (void) state;

    step_init();
    prepare_some();

    op = step_add_put(6, step_version(nsf_shard_max_entry(STEP_SIZE), 0));
    op->expected = NSF_SHARD_TOO_LARGE;
    op->version.id = STEP_ABSENT;

    /* the same of what is not there */

    op = step_add_put(20, step_version(nsf_shard_max_entry(STEP_SIZE), 0));
    op->expected = NSF_SHARD_TOO_LARGE;
    op->version.id = STEP_ABSENT;

    step_run("put, too large");
    assert_int_equal(step_stat().entries + step_stat().negative, 15);

    step_free();
}


static void
put_that_evicts(void **state)
{
    size_t  n;

    (void) state;

    step_init();

    n = step_full(1500);
    assert_true(n + 4 < STEP_NAMES);

    (void) step_add_put(n, step_version(1500, 0));
    (void) step_add_put(n + 1, step_version(3000, 0));
    (void) step_add_put(n + 2, step_version(10, 0));

    step_run("put that evicts");
    assert_true(step_stat().evicted > 3);

    step_free();
}


static void
put_that_moves(void **state)
{
    size_t    i, n, left;
    uint64_t  evicted;

    (void) state;

    step_init();

    n = step_full(1500);
    evicted = step_stat().evicted;
    left = 0;

    for (i = 0; i < n; i++) {
        left += (size_t) step_get(i);
    }

    assert_true(left > n - 4);

    (void) step_add_put(n, step_version(1500, 0));
    (void) step_add_put(n + 1, step_version(1500, 0));

    /* one that is moved while it is replaced, or has been */

    (void) step_add_put(5, step_version(1400, 0));

    step_run("put that moves");

    assert_true(step_stat().moved > 0);
    assert_true(step_stat().evicted >= evicted);

    step_free();
}


/* what has been pushed out may be found no more, but nothing else be found */

static void
puts_all_around_the_ring(void **state)
{
    size_t          i, name, bytes;
    uint64_t        random;
    step_version_t  ver;

    (void) state;

    step_init();
    step.nnames = 40;

    random = nsf_test_seed();
    bytes = 0;

    for (i = 0; i < step.nnames; i++) {
        ver = step_version(nsf_test_below(&random, 2000), i % 5 == 4);

        /* some are past their limit when their turn comes */

        if (i % 7 == 6) {
            ver.limit = step.now;
        }

        step_put(i, ver);
    }

    for (i = 0; bytes < STEP_SIZE + STEP_SIZE / 4; i++) {
        ver = step_version(nsf_test_below(&random, 2000), i % 9 == 8);
        bytes += ver.len;

        name = nsf_test_below(&random, step.nnames);

        (void) step_add_put(name, ver);

        /* some move with a claim */

        if (i % 4 == 1) {
            (void) step_add_claim(name, ver, 1000 + i, 1);
        }

        if (i % 3 == 0) {
            (void) step_add(STEP_GET, nsf_test_below(&random, step.nnames), 0);
        }
    }

    step_run("puts all around the ring");

    assert_true(step_stat().evicted > 10);
    assert_true(step_stat().moved > 0);

    step_free();
}


/* also of negative entries, which have a ring of their own */

static void
negative_puts_all_around_the_ring(void **state)
{
    size_t            i;
    nsf_shard_stat_t  st;

    static const char  scope[] =
        "memcached://127.0.0.1:11211/a/scope/that/is/rather/long/"
        "so/that/fewer/entries/fill/the/ring/than/there/are/names/"
        "of/which/there/are/not/so/very/many/here/since/all/of/them/"
        "are/read/after/each/and/every/instruction/of/what/is/tested";

    (void) state;

    step_init();

    for (i = 0; i < STEP_NAMES; i++) {
        step.names[i].key.scope.data = (const unsigned char *) scope;
        step.names[i].key.scope.len = sizeof(scope) - 1 - i % 2;
        step_put(i, step_version(0, 1));
    }

    st = step_stat();
    assert_true(st.evicted > 0);

    for (i = 0; i < 30; i++) {
        (void) step_add_put((i * 5) % STEP_NAMES, step_version(0, i % 10 != 9));
    }

    step_run("negative puts all around the ring");

    assert_true(step_stat().evicted > st.evicted);
    step_free();
}


/* more in one bucket than may be */

static void
put_into_a_full_chain(void **state)
{
    size_t  i;

    (void) state;

    step_init();
    assert_true(NSF_SHARD_MAX_CHAIN + 2 < STEP_NAMES);

    for (i = 0; i < STEP_NAMES; i++) {
        step.names[i].key.hash = 0x5555555555555555ull;
    }

    for (i = 0; i < NSF_SHARD_MAX_CHAIN; i++) {
        step_put(i, step_version(30, 0));
    }

    assert_int_equal(step_stat().evicted, 0);

    (void) step_add_put(NSF_SHARD_MAX_CHAIN, step_version(30, 0));
    (void) step_add_put(10, step_version(40, 0));
    (void) step_add_put(NSF_SHARD_MAX_CHAIN + 1, step_version(30, 1));

    step_run("put into a full chain");

    assert_true(step_stat().evicted >= 2);
    step_free();
}


static void
del(void **state)
{
    size_t  i;

    (void) state;

    step_init();

    /* several in one bucket: the first, one in the middle, the last */

    for (i = 0; i < 8; i++) {
        step.names[i].key.hash = 0x3333333333333333ull;
    }

    for (i = 0; i < 20; i++) {
        step_put(i, step_version(60, i % 4 == 3));
    }

    (void) step_add(STEP_DEL, 0, 1);
    (void) step_add(STEP_DEL, 5, 1);
    (void) step_add(STEP_DEL, 7, 1);
    (void) step_add(STEP_DEL, 15, 1);

    /* of what is gone, or never was */

    (void) step_add(STEP_DEL, 5, 0);
    (void) step_add(STEP_DEL, 30, 0);

    step_run("del");
    assert_int_equal(step_stat().entries + step_stat().negative, 16);

    step_free();
}


/* somebody asks, and gives it back; after that somebody else */

static void
claim(void **state)
{
    size_t          i;
    step_version_t  ver;

    static const size_t  names[] = { 0, 5, 7, 15, 16 };

    (void) state;

    step_init();

    for (i = 0; i < 8; i++) {
        step.names[i].key.hash = 0x3333333333333333ull;
    }

    for (i = 0; i < 20; i++) {
        step_put(i, step_version(60, i % 4 == 3));
    }

    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        ver = step.names[names[i]].before;

        (void) step_add_claim(names[i], ver, 0x1111111111111111ull, 1);
        ver.claimed = 0x1111111111111111ull;

        (void) step_add_claim(names[i], ver, 0, 1);
        ver.claimed = 0;

        (void) step_add_claim(names[i], ver, 0x2222222222222222ull, 1);
    }

    step_run("claim");

    /* readers are told of each of them while it is written */

    assert_true(step.busy >= 3 * i);

    step_free();
}


static void
claim_that_is_refused(void **state)
{
    step_version_t  ver;

    (void) state;

    step_init();
    prepare_some();

    /* another has it */

    ver = step.names[5].before;
    (void) step_add_claim(5, ver, 1000, 1);
    (void) step_add_claim(5, ver, 2000, 0);

    ver = step.names[6].before;
    ver.valid++;
    (void) step_add_claim(6, ver, 1000, 0);

    ver = step.names[7].before;
    ver.generation++;
    (void) step_add_claim(7, ver, 1000, 0);

    /* there is none */

    (void) step_add_claim(40, ver, 1000, 0);

    step_run("claim that is refused");

    assert_int_equal(step_stat().entries + step_stat().negative, 16);
    step_free();
}


/* what was claimed is put, the same or not: nobody has it any more */

static void
put_of_what_is_claimed(void **state)
{
    step_version_t  ver;

    (void) state;

    step_init();
    prepare_some();

    ver = step.names[5].before;
    (void) step_add_claim(5, ver, 1000, 1);

    ver.claimed = 0;
    ver.generation += 5;
    (void) step_add_put(5, ver);

    ver.claimed = 1000;
    (void) step_add_claim(5, ver, 0, 0);

    ver = step.names[6].before;
    (void) step_add_claim(6, ver, 1000, 1);

    ver = step_version(70, 0);
    ver.claimed = 0;
    (void) step_add_put(6, ver);
    (void) step_add_claim(6, ver, 2000, 1);
    (void) step_add(STEP_DEL, 6, 1);
    (void) step_add_claim(6, ver, 0, 0);

    step_run("put of what is claimed");
    step_free();
}


/* a writer that dies while it clears up behind another that died */

static void
recover(const char *name, const step_dead_t *dead, step_what_e what)
{
    assert_true(dead->n > 0);

    step_init();

    memcpy(step.map.mem, dead->mem, STEP_SIZE);
    memcpy(step.names, dead->names, sizeof(step.names));

    switch (what) {

    case STEP_PUT:
        (void) step_add_put(3, step_version(100, 0));
        break;

    case STEP_DEL:
        (void) step_add(what, 3, 0);
        break;

    case STEP_CLAIM:

        /* it has been got before, and is gone */

        (void) step_add_claim(3, step.names[3].before, 1000, 0);
        break;

    default:
        fail();
    }

    step_run(name);
    assert_int_equal(step_stat().recovered, 1);

    step_free();
}


static void
writer_that_recovers(void **state)
{
    size_t  n;

    (void) state;

    /* to have a dead one */

    memset(&step_dead_busy, 0, sizeof(step_dead_t));
    memset(&step_dead_readable, 0, sizeof(step_dead_t));

    step_init();
    step.keep = 1;

    n = step_full(2000);
    (void) step_add_put(4, step_version(2500, 0));
    (void) step_add_put(n, step_version(1500, 0));

    step_run("put that evicts and replaces");
    step_free();

    recover("put after death in public", &step_dead_busy, STEP_PUT);
    recover("put after death", &step_dead_readable, STEP_PUT);
    recover("del after death", &step_dead_readable, STEP_DEL);
    recover("del after death in public", &step_dead_busy, STEP_DEL);
    recover("claim after death", &step_dead_readable, STEP_CLAIM);
    recover("claim after death in public", &step_dead_busy, STEP_CLAIM);
}


static void
format(void **state)
{
    size_t  i;

    (void) state;

    /* over random bytes, zeros, and a shard */

    for (i = 0; i < 3; i++) {
        step_init();

        if (i == 0) {
            nsf_test_fill(step.map.mem, STEP_SIZE, 5);

        } else if (i == 1) {
            memset(step.map.mem, 0, STEP_SIZE);

        } else {
            prepare_some();
        }

        (void) step_add(STEP_FORMAT, 0, 0);

        step_run("format");
        assert_true(step.unformatted > 0);

        step_free();
    }
}


int
main(void)
{
    static const struct CMUnitTest  tests[] = {
        cmocka_unit_test(put_of_a_new_name),
        cmocka_unit_test(put_that_replaces),
        cmocka_unit_test(put_of_the_same_bytes),
        cmocka_unit_test(put_that_is_refused),
        cmocka_unit_test(put_that_evicts),
        cmocka_unit_test(put_that_moves),
        cmocka_unit_test(puts_all_around_the_ring),
        cmocka_unit_test(negative_puts_all_around_the_ring),
        cmocka_unit_test(put_into_a_full_chain),
        cmocka_unit_test(del),
        cmocka_unit_test(claim),
        cmocka_unit_test(claim_that_is_refused),
        cmocka_unit_test(put_of_what_is_claimed),
        cmocka_unit_test(writer_that_recovers),
        cmocka_unit_test(format),
    };

    return cmocka_run_group_tests_name("nsf_shard_step", tests, NULL, NULL);
}
