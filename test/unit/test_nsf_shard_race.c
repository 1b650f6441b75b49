/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Readers without a lock beside writers, in processes of their own.
 */


#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "nsf_test_shard.h"


#define SCOPES    2
#define KEYS      200
#define NAMES     (SCOPES * KEYS)

#define WRITERS   2
#define READERS   2

#define WRITES    150000
#define READS     150000

#define LONGEST   1500

/* of one entry, so that its claims tell which it is */

#define CLAIMS    1000

/* so long that it means an endless loop, in seconds */

#define FOREVER   100


/*
 * In the memory of all processes, beside the shard.  Whatever is done to
 * a name has a number: "begun" before it is done, "done" afterwards.  What
 * a get finds is then no older than what was done before the get, and no
 * newer than what was begun until after it.
 *
 * "generation" and "claimed" are of the entry that a name has, unless it has
 * been pushed out: for who has the lock.
 */

typedef struct {
    int       lock;
    int       writing;
    uint64_t  number;
    uint64_t  begun[NAMES];
    uint64_t  done[NAMES];
    uint64_t  generation[NAMES];
    uint64_t  claimed[NAMES];
    uint64_t  hits;
    uint64_t  misses;
    uint64_t  busy;
    uint64_t  claims;
    uint64_t  refused;
} control_t;


typedef struct {
    nsf_test_map_t     map;
    nsf_test_map_t     shared;
    control_t         *control;
    nsf_shard_t        sh;
    uint64_t           seed;
    char               bytes[NAMES][NSF_TEST_NAME];
    nsf_shard_key_t    keys[NAMES];
} race_t;


/* in the first bytes of each value */

typedef struct {
    uint64_t  name;
    uint64_t  number;
    uint64_t  len;
} stamp_t;


/* in a child, where cmocka can't be told */

#define child_assert(cond)                                                    \
    do {                                                                      \
        if (!(cond)) {                                                        \
            print_error("%s:%d: process %d: not so: %s\n", __FILE__,          \
                        __LINE__, (int) getpid(), #cond);                     \
            _exit(1);                                                         \
        }                                                                     \
    } while (0)


static void
race_init(race_t *r)
{
    unsigned  i;

    memset(r, 0, sizeof(race_t));

    r->seed = nsf_test_seed();

    nsf_test_map(&r->map, NSF_SHARD_MIN);
    nsf_test_map(&r->shared, sizeof(control_t));
    r->control = (void *) r->shared.mem;

    nsf_assert_good(nsf_shard_format(&r->sh, r->map.mem, r->map.size));

    for (i = 0; i < NAMES; i++) {
        nsf_test_key(&r->keys[i], r->bytes[i], i / KEYS, i % KEYS);
    }
}


static void
race_free(race_t *r)
{
    nsf_test_unmap(&r->map);
    nsf_test_unmap(&r->shared);
}


static void
race_lock(control_t *c)
{
    while (__atomic_exchange_n(&c->lock, 1, __ATOMIC_ACQUIRE) != 0) {
        (void) sched_yield();
    }
}


static void
race_unlock(control_t *c)
{
    __atomic_store_n(&c->lock, 0, __ATOMIC_RELEASE);
}


static size_t
race_value(unsigned char *p, size_t name, uint64_t number, uint64_t *random)
{
    size_t   len;
    stamp_t  stamp;

    len = sizeof(stamp_t);

    len += nsf_test_below(random, 3) == 0 ? nsf_test_below(random, LONGEST)
                                          : nsf_test_below(random, 64);
    stamp.name = name;
    stamp.number = number;
    stamp.len = len;

    memcpy(p, &stamp, sizeof(stamp_t));

    nsf_test_fill(p + sizeof(stamp_t), len - sizeof(stamp_t),
                  number * NAMES + name);

    return len;
}


/* with the lock; the numbers of one entry go together */

static void
race_put(race_t *r, size_t i, int negative, uint64_t number, uint64_t *random)
{
    unsigned char      data[sizeof(stamp_t) + LONGEST];
    nsf_shard_value_t  v;

    memset(&v, 0, sizeof(nsf_shard_value_t));

    v.valid = number * 3;
    v.limit = number * 5;
    v.generation = number;
    v.negative = (negative != 0);

    if (!negative) {
        v.data = data;
        v.len = race_value(data, i, number, random);
    }

    child_assert(nsf_shard_put(&r->sh, &r->keys[i], 0, &v) == NSF_SHARD_OK);

    r->control->generation[i] = number;
    r->control->claimed[i] = 0;
}


/*
 * Others may have been at work since it was got.  Who has claimed it gives it
 * back, or so does another.
 */

static void
race_claim(race_t *r, size_t i, const nsf_shard_value_t *v, uint64_t number)
{
    int                rc;
    uint64_t           until;
    control_t         *c;
    nsf_shard_value_t  now;

    c = r->control;
    until = (v->claimed == 0) ? v->generation * CLAIMS + number % CLAIMS : 0;

    rc = nsf_shard_claim(&r->sh, &r->keys[i], v, until);

    if (c->generation[i] != v->generation || c->claimed[i] != v->claimed) {
        child_assert(rc == 0);
        c->refused++;
        return;
    }

    if (!rc) {

        /* it has been pushed out */

        child_assert(nsf_shard_get(&r->sh, &r->keys[i], 0, &now, NULL)
                     == NSF_SHARD_NONE);
        return;
    }

    c->claimed[i] = until;
    c->claims++;
}


static void
race_write(race_t *r, uint64_t *random)
{
    size_t              what, i;
    uint64_t            number;
    control_t          *c;
    nsf_shard_rc_e      rc;
    nsf_shard_value_t   v;

    c = r->control;
    what = nsf_test_below(random, 100);
    i = nsf_test_below(random, NAMES);
    rc = NSF_SHARD_NONE;

    if (what >= 80) {

        /* both want the same ones */

        i = i % 32;
        rc = nsf_shard_get(&r->sh, &r->keys[i], 0, &v, NULL);

        if (rc == NSF_SHARD_OK && what % 4 == 0) {
            (void) sched_yield();
        }
    }

    race_lock(c);

    number = ++c->number;

    if (what >= 80) {
        if (rc == NSF_SHARD_OK) {
            race_claim(r, i, &v, number);
        }

        race_unlock(c);
        return;
    }

    __atomic_store_n(&c->begun[i], number, __ATOMIC_SEQ_CST);

    if (what >= 74) {
        (void) nsf_shard_del(&r->sh, &r->keys[i]);
        c->generation[i] = 0;

    } else {
        race_put(r, i, what < 10, number, random);
    }

    __atomic_store_n(&c->done[i], number, __ATOMIC_SEQ_CST);

    race_unlock(c);
}


static void
race_writer(race_t *r, unsigned n)
{
    unsigned  i;
    uint64_t  random;

    random = r->seed + 1000 + n;

    for (i = 0; i < WRITES; i++) {
        race_write(r, &random);
    }

    (void) __atomic_fetch_sub(&r->control->writing, 1, __ATOMIC_SEQ_CST);
}


/* NSF_SHARD_OK, and what was found is right; or another code */

static nsf_shard_rc_e
race_read(race_t *r, size_t i, nsf_test_pond_t *pond)
{
    stamp_t            stamp;
    uint64_t           done, begun;
    nsf_shard_rc_e     rc;
    nsf_shard_value_t  v;

    /* of this process: what it has read last, as if it had a copy of that */

    static uint64_t    stamps[NAMES], numbers[NAMES];

    nsf_test_pond_reset(pond);

    done = __atomic_load_n(&r->control->done[i], __ATOMIC_SEQ_CST);

    rc = nsf_shard_get_changed(&r->sh, &r->keys[i], 0, &v, &pond->pool,
                               stamps[i]);

    begun = __atomic_load_n(&r->control->begun[i], __ATOMIC_SEQ_CST);

    if (rc != NSF_SHARD_OK) {
        child_assert(rc == NSF_SHARD_NONE || rc == NSF_SHARD_BUSY);
        return rc;
    }

    child_assert(v.generation >= done);
    child_assert(v.generation <= begun);
    child_assert(v.valid == v.generation * 3);
    child_assert(v.limit == v.generation * 5);
    child_assert(v.claimed == 0 || v.claimed / CLAIMS == v.generation);

    if (v.negative) {
        child_assert(v.len == 0);
        return rc;
    }

    if (v.data == NULL) {
        child_assert(v.stamp == stamps[i]);
        child_assert(v.generation == numbers[i]);
        return rc;
    }

    child_assert(v.len >= sizeof(stamp_t));
    memcpy(&stamp, v.data, sizeof(stamp_t));

    child_assert(stamp.name == i);
    child_assert(stamp.number == v.generation);
    child_assert(stamp.len == v.len);
    child_assert(nsf_test_filled(v.data + sizeof(stamp_t),
                                 v.len - sizeof(stamp_t),
                                 stamp.number * NAMES + i));

    child_assert(v.stamp != 0);
    child_assert(v.stamp != stamps[i]);

    stamps[i] = v.stamp;
    numbers[i] = stamp.number;

    return rc;
}


static void
race_reader(race_t *r, unsigned n)
{
    int              writing;
    uint64_t         i, random, hits, misses, busy;
    control_t       *c;
    nsf_test_pond_t  pond;

    c = r->control;
    random = r->seed + 2000 + n;
    nsf_test_pond_init(&pond);

    hits = 0;
    misses = 0;
    busy = 0;

    for (i = 0; /* void */ ; i++) {
        writing = __atomic_load_n(&c->writing, __ATOMIC_SEQ_CST);

        if (!writing && i >= READS) {
            break;
        }

        switch (race_read(r, nsf_test_below(&random, NAMES), &pond)) {

        case NSF_SHARD_OK:
            hits++;
            break;

        case NSF_SHARD_BUSY:

            /* a writer may have been stopped on its way, not ended */

            child_assert(writing);
            busy++;
            break;

        default:
            misses++;
        }
    }

    nsf_test_pond_free(&pond);

    (void) __atomic_fetch_add(&c->hits, hits, __ATOMIC_SEQ_CST);
    (void) __atomic_fetch_add(&c->misses, misses, __ATOMIC_SEQ_CST);
    (void) __atomic_fetch_add(&c->busy, busy, __ATOMIC_SEQ_CST);
}


static int
race_fork(race_t *r, void (*work)(race_t *r, unsigned n), unsigned n)
{
    pid_t  pid;

    pid = fork();
    assert_true(pid >= 0);

    if (pid == 0) {
        (void) alarm(FOREVER);
        work(r, n);
        _exit(0);
    }

    return (int) pid;
}


static void
readers_beside_writers(void **state)
{
    int               pids[WRITERS + READERS];
    size_t            i;
    race_t           *r;
    unsigned          n;
    nsf_test_pond_t   pond;
    nsf_shard_stat_t  st;

    (void) state;

    r = malloc(sizeof(race_t));
    assert_non_null(r);

    race_init(r);
    r->control->writing = WRITERS;

    for (n = 0; n < READERS; n++) {
        pids[n] = race_fork(r, race_reader, n);
    }

    for (n = 0; n < WRITERS; n++) {
        pids[READERS + n] = race_fork(r, race_writer, n);
    }

    for (n = 0; n < WRITERS + READERS; n++) {
        assert_int_equal(nsf_test_wait(pids[n]), 0);
    }

    nsf_shard_stat(&r->sh, &st);

    print_message("hits %llu, misses %llu, busy %llu; claims %llu,"
                  " refused %llu; evicted %llu, moved %llu\n",
                  (unsigned long long) r->control->hits,
                  (unsigned long long) r->control->misses,
                  (unsigned long long) r->control->busy,
                  (unsigned long long) r->control->claims,
                  (unsigned long long) r->control->refused,
                  (unsigned long long) st.evicted,
                  (unsigned long long) st.moved);

    assert_true(r->control->hits > READS / 20);
    assert_true(r->control->claims > WRITES / 50);
    assert_true(r->control->refused > 0);
    assert_true(st.evicted > WRITES / 20);
    assert_true(st.moved > WRITES / 100);
    assert_int_equal(st.recovered, 0);

    nsf_test_pond_init(&pond);

    for (i = 0; i < NAMES; i++) {
        assert_int_not_equal(race_read(r, i, &pond), NSF_SHARD_BUSY);
    }

    nsf_test_pond_free(&pond);
    race_free(r);
    free(r);
}


int
main(void)
{
    static const struct CMUnitTest  tests[] = {
        cmocka_unit_test(readers_beside_writers),
    };

    return cmocka_run_group_tests_name("nsf_shard_race", tests, NULL, NULL);
}
