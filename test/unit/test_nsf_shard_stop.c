/*
 * Copyright (C) the ngx_sendfile authors
 *
 * A reader that is stopped at any instruction, while a writer does all it
 * can: what the reader finds when it goes on is right.  The code is the one
 * that nginx loads: this program is linked with the object files of the
 * module's build.
 */


#include <signal.h>
#include <stdio.h>

#include "nsf_test_shard.h"
#include "nsf_test_trace.h"
#include "nsf_shard_memory.h"


#define NAMES  40
#define SIZE   NSF_SHARD_MIN

/* the name that is read: of version 1, then 2 */

#define NAME   7

/* that is in the same bucket */

#define NEIGHBOUR  13

/* until then the name is claimed, if it is */

#define CLAIM  0x1122334455667788ull

/* states of the memory within an operation of a writer */

#define STATES  200


/* in the memory of both */

typedef struct {
    uint64_t           begun;
    uint64_t           done;
    uint64_t           rc;
    nsf_shard_value_t  v;
    unsigned char      data[4096];
} answer_t;


typedef struct {
    nsf_test_map_t     map;
    nsf_test_map_t     shared;
    answer_t          *answer;
    nsf_shard_t        sh;
    char               bytes[NAMES];
    nsf_shard_key_t    keys[NAMES];
    unsigned char      good[SIZE];
    nsf_test_pond_t    pond;
    uint64_t           random;

    unsigned char     *states;
    size_t             nstates;
    size_t             state;
} stop_t;


/*
 * What is in the shard: some names, the same with another one before it in its
 * chain, the one alone, or as many as there is room for, the one first.
 * NEGATIVE: all of them are.  USED: none is, and all have been asked for.
 */

typedef enum {
    SOME = 0,
    CHAIN,
    ALONE,
    NEGATIVE,
    USED
} base_e;


/* what is done while the reader is stopped, and what it may find then */

typedef struct {
    const char        *name;
    void             (*work)(void);
    unsigned           old:1;
    unsigned           new:1;
    unsigned           claimed:1;
    unsigned           none:1;
    unsigned           busy:1;
    unsigned           any:1;
    base_e             base;
} act_t;


static stop_t  stop;


static size_t
stop_len(size_t name, uint64_t number)
{
    return 100 + 13 * name + (number > 2 ? 1000 : 0);
}


static void
stop_put(size_t name, uint64_t number)
{
    unsigned char      data[4096];
    nsf_shard_value_t  v;

    memset(&v, 0, sizeof(nsf_shard_value_t));

    v.data = data;
    v.len = stop_len(name, number);
    v.valid = number;
    v.generation = number;

    nsf_test_fill(data, v.len, number * NAMES + name);

    assert_int_equal(nsf_shard_put(&stop.sh, &stop.keys[name], 0, &v),
                     NSF_SHARD_OK);
}


/* the longer the scope, the fewer fill the ring */

static void
stop_put_negative(size_t name, uint64_t number)
{
    unsigned char      scope[200];
    nsf_shard_key_t    key;
    nsf_shard_value_t  v;

    memset(&v, 0, sizeof(nsf_shard_value_t));
    memset(scope, 's', sizeof(scope));

    v.negative = 1;
    v.valid = number;
    v.generation = number;

    key = stop.keys[name];

    if (name != NAME) {
        key.scope.data = scope;
        key.scope.len = sizeof(scope);
    }

    assert_int_equal(nsf_shard_put(&stop.sh, &key, 0, &v), NSF_SHARD_OK);
}


static void
stop_write(base_e base)
{
    __atomic_store_n(&stop.answer->begun, 1, __ATOMIC_SEQ_CST);

    if (base == NEGATIVE) {
        stop_put_negative(NAMES - 1, 2);

    } else {
        stop_put(NAMES - 1, 3);
    }

    __atomic_store_n(&stop.answer->done, 1, __ATOMIC_SEQ_CST);

    (void) raise(SIGSTOP);
}


/* pushes out the name, and writes where it was */

static void
stop_writer_negative(void)
{
    stop_write(NEGATIVE);
}


/* moves the name, and others to where it was */

static void
stop_writer_used(void)
{
    stop_write(USED);
}


/* the states that the writer goes through, or every so many of them */

static void
stop_record(base_e base)
{
    int             pid;
    size_t          n, each;
    unsigned char  *last, one[SIZE];

    stop.states = malloc((STATES + 1) * (size_t) SIZE);
    assert_non_null(stop.states);

    each = (base == NEGATIVE) ? 1 : 16;
    n = 0;
    last = stop.states;
    memcpy(one, stop.map.mem, SIZE);

    pid = nsf_test_trace(base == NEGATIVE ? stop_writer_negative
                                          : stop_writer_used);

    while (!__atomic_load_n(&stop.answer->done, __ATOMIC_SEQ_CST)) {
        nsf_test_step(pid);

        if (memcmp(one, stop.map.mem, SIZE) == 0) {
            continue;
        }

        memcpy(one, stop.map.mem, SIZE);

        if (++n % each == 0) {
            stop.nstates++;
            assert_true(stop.nstates <= STATES);

            last += SIZE;
            memcpy(last, one, SIZE);
        }
    }

    nsf_test_kill(pid);
    assert_true(stop.nstates > 20);
}


/* the writer has come somewhere, and is stopped as well */

static void
act_state(void)
{
    stop.state = stop.state % stop.nstates + 1;

    memcpy(stop.map.mem, stop.states + stop.state * SIZE, SIZE);
}


static void
act_times(void)
{
    unsigned char      data[4096];
    nsf_shard_value_t  v;

    memset(&v, 0, sizeof(nsf_shard_value_t));

    v.data = data;
    v.len = stop_len(NAME, 1);
    v.valid = 2;
    v.generation = 2;

    nsf_test_fill(data, v.len, NAMES + NAME);

    assert_int_equal(nsf_shard_put(&stop.sh, &stop.keys[NAME], 0, &v),
                     NSF_SHARD_OK);
}


/* who has got it as it was put claims it */

static void
act_claim(void)
{
    nsf_shard_value_t  v;

    memset(&v, 0, sizeof(nsf_shard_value_t));

    v.valid = 1;
    v.generation = 1;

    assert_int_equal(nsf_shard_claim(&stop.sh, &stop.keys[NAME], &v, CLAIM),
                     1);
}


/* and gives it back, and all looks as before */

static void
act_claim_and_give_back(void)
{
    nsf_shard_value_t  v;

    act_claim();

    memset(&v, 0, sizeof(nsf_shard_value_t));

    v.valid = 1;
    v.generation = 1;
    v.claimed = CLAIM;

    assert_int_equal(nsf_shard_claim(&stop.sh, &stop.keys[NAME], &v, 0), 1);
}


/* everything is overwritten, more than once */

static void
act_flood(void)
{
    size_t  i, n;

    for (n = 0; n < 3; n++) {
        for (i = 0; i < NAMES; i++) {
            if (i != NAME) {
                stop_put(i, 3 + n % 2);
            }
        }
    }
}


/* the same, but the name is used, and so it is moved */

static void
act_move(void)
{
    size_t             i;
    nsf_shard_value_t  v;

    for (i = 0; i < 3 * NAMES; i++) {
        if (i % NAMES != NAME) {
            (void) nsf_shard_get(&stop.sh, &stop.keys[NAME], 0, &v, NULL);
            stop_put(i % NAMES, 3 + i % 2);
        }
    }

    assert_int_equal(nsf_shard_get(&stop.sh, &stop.keys[NAME], 0, &v, NULL),
                     NSF_SHARD_OK);
}


static void
act_flood_and_replace(void)
{
    act_flood();
    stop_put(NAME, 2);
    act_flood();
    stop_put(NAME, 2);
}


/* its memory is used again, and no other entry is touched */

static void
act_again(void)
{
    unsigned  i;

    for (i = 0; i < 100; i++) {
        stop_put(NAME, 3 + i % 2);
    }

    stop_put(NAME, 2);
}


/* the one before it in its chain, and what lay there is overwritten */

static void
act_neighbour(void)
{
    assert_int_equal(nsf_shard_del(&stop.sh, &stop.keys[NEIGHBOUR]), 1);
    act_move();
}


/* what it had is overwritten */

static void
act_forget_and_flood(void)
{
    assert_int_equal(nsf_shard_del(&stop.sh, &stop.keys[NAME]), 1);
    act_flood();
}


/* a writer has died unseen: the next one empties the shard */

static void
stop_recover(void)
{
    nsf_shard_stat_t  st;

    stop.sh.head->busy = 1;

    assert_int_equal(nsf_shard_del(&stop.sh, &stop.keys[NAME]), 0);

    nsf_shard_stat(&stop.sh, &st);
    assert_int_equal(st.recovered, 1);
    assert_int_equal(st.entries, 0);
}


static void
act_recover_and_flood(void)
{
    stop_recover();
    act_flood();
}


/*
 * The same again, with others, until it looks as it did: the sequence number
 * may not.
 */

static void
act_recover_and_repeat(void)
{
    size_t  n;

    stop_recover();

    for (n = stop.state++ % 6; n > 0; n--) {
        stop_put(NEIGHBOUR, 3 + n % 2);
    }
}


static void
act_garbage(void)
{
    size_t    i, at;
    uint32_t  word;

    for (i = 0; i < SIZE / 16; i++) {
        at = nsf_test_below(&stop.random, SIZE / 4) * 4;
        word = (uint32_t) nsf_test_below(&stop.random, SIZE / 8);

        if (nsf_test_below(&stop.random, 2) == 0) {
            word = (uint32_t) nsf_test_random(&stop.random);
        }

        memcpy(stop.map.mem + at, &word, sizeof(word));
    }
}


/* the child: one get() each time that it is let go */

static void
stop_reader(void)
{
    answer_t          *answer;
    nsf_shard_rc_e     rc;
    nsf_shard_value_t  v;

    answer = stop.answer;

    for ( ;; ) {
        nsf_test_pond_reset(&stop.pond);

        __atomic_store_n(&answer->begun, 1, __ATOMIC_SEQ_CST);

        rc = nsf_shard_get(&stop.sh, &stop.keys[NAME], 0, &v,
                           &stop.pond.pool);

        __atomic_store_n(&answer->done, 1, __ATOMIC_SEQ_CST);

        answer->rc = rc;
        answer->v = v;

        if (rc == NSF_SHARD_OK && v.len <= sizeof(answer->data)) {
            memcpy(answer->data, v.data, v.len);
        }

        (void) raise(SIGSTOP);
    }
}


/* what the reader has found */

static int
stop_is(uint64_t number, uint64_t claimed)
{
    const answer_t  *answer;

    answer = stop.answer;

    if (answer->v.negative) {
        return answer->rc == NSF_SHARD_OK
               && answer->v.claimed == claimed
               && answer->v.len == 0
               && answer->v.valid == number
               && answer->v.generation == number;
    }

    return answer->rc == NSF_SHARD_OK
           && answer->v.valid == number
           && answer->v.generation == number
           && answer->v.limit == 0
           && answer->v.claimed == claimed
           && answer->v.len == stop_len(NAME, number)
           && nsf_test_filled(answer->data, answer->v.len,
                              number * NAMES + NAME);
}


/* only the times are other ones */

static int
stop_is_late(void)
{
    const answer_t  *answer;

    answer = stop.answer;

    return answer->rc == NSF_SHARD_OK
           && answer->v.valid == 2
           && answer->v.generation == 2
           && answer->v.claimed == 0
           && answer->v.len == stop_len(NAME, 1)
           && nsf_test_filled(answer->data, answer->v.len, NAMES + NAME);
}


static void
stop_check(const act_t *act, size_t at)
{
    int              right;
    const answer_t  *answer;

    answer = stop.answer;

    right = act->any
            || (act->old && stop_is(1, 0))
            || (act->new && (stop_is(2, 0) || stop_is_late()))
            || (act->claimed && stop_is(1, CLAIM))
            || (act->none && answer->rc == NSF_SHARD_NONE)
            || (act->busy && answer->rc == NSF_SHARD_BUSY);

    if (!right) {
        fail_msg("%s after %zu instructions of the reader, which finds %d,"
                 " %zu bytes, valid %llu, generation %llu, claimed %llu, %s",
                 act->name, at,
                 (int) answer->rc, answer->v.len,
                 (unsigned long long) answer->v.valid,
                 (unsigned long long) answer->v.generation,
                 (unsigned long long) answer->v.claimed,
                 nsf_test_filled(answer->data, stop_len(NAME, 1),
                                 NAMES + NAME) ? "the old bytes"
                                               : "not the old bytes");
    }
}


/*
 * To the instruction number "at" of the get; 0 if the get has ended before.
 */

static int
stop_at(int pid, size_t at)
{
    size_t     n;
    answer_t  *answer;

    answer = stop.answer;

    memcpy(stop.map.mem, stop.good, SIZE);

    answer->begun = 0;
    answer->done = 0;

    while (!__atomic_load_n(&answer->begun, __ATOMIC_SEQ_CST)) {
        nsf_test_step(pid);
    }

    for (n = 0; n < at; n++) {
        nsf_test_step(pid);

        if (__atomic_load_n(&answer->done, __ATOMIC_SEQ_CST)) {
            return 0;
        }
    }

    return 1;
}


/* the name first, then until the next one needs the room that it has */

static void
stop_fill(base_e base)
{
    size_t             i;
    unsigned char      one[SIZE];
    nsf_shard_stat_t   st;
    nsf_shard_value_t  v;

    if (base == NEGATIVE) {
        stop_put_negative(NAME, 1);

    } else {
        stop_put(NAME, 1);
    }

    for (i = 0; /* void */ ; i++) {
        assert_true(i < NAMES - 1);

        memcpy(one, stop.map.mem, SIZE);

        if (i == NAME) {
            continue;
        }

        if (base == NEGATIVE) {
            stop_put_negative(i, 1);

        } else {
            stop_put(i, 3);
        }

        nsf_shard_stat(&stop.sh, &st);

        if (st.evicted != 0) {
            break;
        }
    }

    memcpy(stop.map.mem, one, SIZE);

    for (i = 0; i < NAMES; i++) {
        (void) nsf_shard_get(&stop.sh, &stop.keys[i], 0, &v, NULL);
    }
}


static void
stop_init(base_e base)
{
    size_t  i;

    memset(&stop, 0, sizeof(stop_t));

    nsf_test_map(&stop.map, SIZE);
    nsf_test_map(&stop.shared, sizeof(answer_t));
    nsf_test_pond_init(&stop.pond);

    stop.answer = (void *) stop.shared.mem;

    nsf_assert_good(nsf_shard_format(&stop.sh, stop.map.mem, SIZE));

    /* short names, for each instruction counts */

    for (i = 0; i < NAMES; i++) {
        stop.bytes[i] = (char) ('0' + i);

        stop.keys[i].scope.data = (const unsigned char *) "/a/scope";
        stop.keys[i].scope.len = 8;
        stop.keys[i].key.data = (unsigned char *) &stop.bytes[i];
        stop.keys[i].key.len = 1;
        stop.keys[i].hash = nsf_test_hash(&stop.bytes[i], 1);
    }

    if (base == CHAIN) {
        stop.keys[NEIGHBOUR].hash = stop.keys[NAME].hash;
    }

    if (base == NEGATIVE || base == USED) {
        stop_fill(base);

    } else {
        for (i = 0; i < NAMES; i++) {
            if (base != ALONE || i == NAME) {
                stop_put(i, 1);
            }
        }
    }

    memcpy(stop.good, stop.map.mem, SIZE);
}


static void
stop_free(void)
{
    free(stop.states);
    nsf_test_unmap(&stop.map);
    nsf_test_unmap(&stop.shared);
    nsf_test_pond_free(&stop.pond);
}


static void
stop_run(const act_t *act)
{
    int     pid;
    size_t  at;

    stop_init(act->base);
    stop.random = 1;

    if (act->work == act_state) {
        stop_record(act->base);
    }

    pid = nsf_test_trace(stop_reader);

    for (at = 0; stop_at(pid, at); at++) {
        act->work();

        nsf_test_continue(pid);
        stop_check(act, at);

        assert_true(at < 100000);
    }

    nsf_test_kill(pid);

    print_message("%s: stopped at %zu instructions, %zu states\n", act->name,
                  at, stop.nstates);

    assert_true(at > 100);
    stop_free();
}


static void
reader_beside_new_times(void **state)
{
    static const act_t  times =
        { "times set", act_times, .old = 1, .new = 1 };

    (void) state;

    stop_run(&times);
}


static void
reader_beside_claims(void **state)
{
    static const act_t  claim =
        { "claimed", act_claim, .old = 1, .claimed = 1 };
    static const act_t  give_back =
        { "claimed and given back", act_claim_and_give_back, .old = 1 };

    (void) state;

    stop_run(&claim);
    stop_run(&give_back);
}


static void
reader_beside_eviction_and_put(void **state)
{
    static const act_t  flood_and_replace =
        { "pushed out and put", act_flood_and_replace, .old = 1, .new = 1 };

    (void) state;

    stop_run(&flood_and_replace);
}


static void
reader_beside_puts_of_the_same(void **state)
{
    static const act_t  again =
        { "put again and again", act_again, .old = 1, .new = 1, .base = ALONE };

    (void) state;

    stop_run(&again);
}


static void
reader_of_what_is_moved(void **state)
{
    static const act_t  neighbour =
        { "neighbour deleted, moved", act_neighbour, .old = 1,
          .base = CHAIN };

    (void) state;

    stop_run(&neighbour);
}


/* instruction by instruction, both of them */

static void
reader_beside_writer_on_its_way(void **state)
{
    static const act_t  way =
        { "writer on its way", act_state, .old = 1, .none = 1, .busy = 1,
          .base = NEGATIVE };
    static const act_t  way_of_moves =
        { "writer on its way that moves", act_state, .old = 1, .none = 1,
          .busy = 1, .base = USED };

    (void) state;

    stop_run(&way);
    stop_run(&way_of_moves);
}


static void
reader_beside_del(void **state)
{
    static const act_t  forget_and_flood =
        { "forgotten, overwritten", act_forget_and_flood, .old = 1,
          .none = 1 };

    (void) state;

    stop_run(&forget_and_flood);
}


static void
reader_beside_recovery(void **state)
{
    static const act_t  recover_and_flood =
        { "emptied", act_recover_and_flood, .old = 1, .none = 1 };

    static const act_t  recover_and_repeat =
        { "emptied and filled", act_recover_and_repeat, .old = 1, .none = 1,
          .base = ALONE };

    (void) state;

    stop_run(&recover_and_flood);
    stop_run(&recover_and_repeat);
}


/* whatever it finds, it comes to an end */

static void
reader_beside_garbage(void **state)
{
    static const act_t  garbage =
        { "overwritten with garbage", act_garbage, .any = 1 };

    (void) state;

    stop_run(&garbage);
}


int
main(void)
{
    static const struct CMUnitTest  tests[] = {
        cmocka_unit_test(reader_beside_new_times),
        cmocka_unit_test(reader_beside_claims),
        cmocka_unit_test(reader_beside_eviction_and_put),
        cmocka_unit_test(reader_beside_puts_of_the_same),
        cmocka_unit_test(reader_of_what_is_moved),
        cmocka_unit_test(reader_beside_writer_on_its_way),
        cmocka_unit_test(reader_beside_del),
        cmocka_unit_test(reader_beside_recovery),
        cmocka_unit_test(reader_beside_garbage),
    };

    return cmocka_run_group_tests_name("nsf_shard_stop", tests, NULL, NULL);
}
