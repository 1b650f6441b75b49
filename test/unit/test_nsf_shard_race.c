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

/* so long that it means an endless loop, in seconds */

#define FOREVER   100


/*
 * In the memory of all processes, beside the shard.  Whatever is done to
 * a name has a number: "begun" before it is done, "done" afterwards.  What
 * a get finds is then no older than what was done before the get, and no
 * newer than what was begun until after it.
 */

typedef struct {
    int       lock;
    int       writing;
    uint64_t  number;
    uint64_t  begun[NAMES];
    uint64_t  done[NAMES];
    uint64_t  hits;
    uint64_t  misses;
    uint64_t  busy;
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


static void
race_write(race_t *r, uint64_t *random)
{
    size_t      i, first, step, last, what;
    uint32_t    token;
    uint64_t    number;
    control_t  *c;
    unsigned char       data[sizeof(stamp_t) + LONGEST];
    nsf_shard_value_t   v;

    c = r->control;
    what = nsf_test_below(random, 100);
    first = nsf_test_below(random, NAMES);

    step = NAMES;
    last = first;

    if (what == 99 && nsf_test_below(random, 20) == 0) {
        first = 0;
        step = 1;
        last = NAMES - 1;

    } else if (what >= 95) {
        first = first % KEYS;
        step = KEYS;
        last = NAMES - 1;
    }

    token = nsf_shard_token(&r->sh, r->keys[first].hash);

    race_lock(c);

    number = ++c->number;

    for (i = first; i <= last; i += step) {
        __atomic_store_n(&c->begun[i], number, __ATOMIC_SEQ_CST);
    }

    if (step == 1) {
        (void) nsf_shard_clear(&r->sh);

    } else if (step == KEYS) {
        (void) nsf_shard_purge(&r->sh, &r->keys[first]);

    } else if (what >= 90) {
        (void) nsf_shard_del(&r->sh, &r->keys[first]);

    } else {
        memset(&v, 0, sizeof(nsf_shard_value_t));

        v.mark = number;
        v.negative = (what < 10);

        if (!v.negative) {
            v.data = data;
            v.len = race_value(data, first, number, random);
        }

        if (nsf_shard_put(&r->sh, &r->keys[first], 0, &v, token)
            != NSF_SHARD_OK)
        {
            /* purged by the other writer: what was there is still */
            number = c->done[first];
        }
    }

    for (i = first; i <= last; i += step) {
        __atomic_store_n(&c->done[i], number, __ATOMIC_SEQ_CST);
    }

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

    nsf_test_pond_reset(pond);

    done = __atomic_load_n(&r->control->done[i], __ATOMIC_SEQ_CST);

    rc = nsf_shard_get(&r->sh, &r->keys[i], 0, &v, &pond->pool);

    begun = __atomic_load_n(&r->control->begun[i], __ATOMIC_SEQ_CST);

    if (rc != NSF_SHARD_OK) {
        child_assert(rc == NSF_SHARD_NONE || rc == NSF_SHARD_BUSY);
        return rc;
    }

    child_assert(v.mark >= done);
    child_assert(v.mark <= begun);

    if (v.negative) {
        child_assert(v.len == 0);
        return rc;
    }

    child_assert(v.len >= sizeof(stamp_t));
    memcpy(&stamp, v.data, sizeof(stamp_t));

    child_assert(stamp.name == i);
    child_assert(stamp.number == v.mark);
    child_assert(stamp.len == v.len);
    child_assert(nsf_test_filled(v.data + sizeof(stamp_t),
                                 v.len - sizeof(stamp_t),
                                 stamp.number * NAMES + i));

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

    print_message("hits %llu, misses %llu, busy %llu; evicted %llu,"
                  " moved %llu\n",
                  (unsigned long long) r->control->hits,
                  (unsigned long long) r->control->misses,
                  (unsigned long long) r->control->busy,
                  (unsigned long long) st.evicted,
                  (unsigned long long) st.moved);

    assert_true(r->control->hits > READS / 20);
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
