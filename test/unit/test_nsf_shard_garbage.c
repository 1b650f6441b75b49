/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Memory that is no shard any more: whatever is in there, or comes there while
 * it is read, nothing beside it is touched, and everything comes to an end.
 */


#include <stdio.h>
#include <unistd.h>

#include "nsf_test_shard.h"
#include "nsf_shard_memory.h"


#define NAMES    400
#define LONGEST  1500
#define READERS  2
#define READS    60000

/* so long that it means an endless loop, in seconds */

#define FOREVER  100

/* the first bytes that may hold anything but the head's */

#define HEAD     sizeof(nsf_shard_head_t)

/* of an entry, the scope follows it */

#define HEADER   NSF_SHARD_HEADER


typedef struct {
    nsf_test_map_t     map;
    nsf_shard_t        sh;
    uint64_t           seed;
    char               bytes[NAMES][NSF_TEST_NAME];
    nsf_shard_key_t    keys[NAMES];
} names_t;


/* also in a child, where cmocka can't be told */

#define names_assert(cond)                                                    \
    do {                                                                      \
        if (!(cond)) {                                                        \
            print_error("%s:%d: not so: %s\n", __FILE__, __LINE__, #cond);    \
            _exit(1);                                                         \
        }                                                                     \
    } while (0)


static void
names_init(names_t *r)
{
    unsigned  i;

    memset(r, 0, sizeof(names_t));

    r->seed = nsf_test_seed();

    nsf_test_map(&r->map, NSF_SHARD_MIN);
    nsf_assert_good(nsf_shard_format(&r->sh, r->map.mem, r->map.size));

    for (i = 0; i < NAMES; i++) {
        nsf_test_key(&r->keys[i], r->bytes[i], i % 2, i / 2);
    }
}


static void
names_free(names_t *r)
{
    nsf_test_unmap(&r->map);
}


static size_t
names_value(unsigned char *p, uint64_t *random)
{
    size_t  len;

    len = nsf_test_below(random, 3) == 0 ? nsf_test_below(random, LONGEST)
                                         : nsf_test_below(random, 64);

    nsf_test_fill(p, len, nsf_test_random(random));

    return len;
}


static void
names_put(names_t *r, size_t i, int negative, size_t len, unsigned char *data)
{
    nsf_shard_value_t  v;

    memset(&v, 0, sizeof(nsf_shard_value_t));

    v.negative = (negative != 0);

    if (!negative) {
        v.data = data;
        v.len = len;
    }

    assert_int_equal(nsf_shard_put(&r->sh, &r->keys[i], 0, &v),
                     NSF_SHARD_OK);
}


/* full, with live and dead entries of both kinds */

static void
spoil_fill(names_t *r)
{
    size_t         i, n, len;
    uint64_t       random;
    unsigned char  data[LONGEST];

    random = r->seed;

    for (n = 0; n < 5 * NAMES; n++) {
        i = nsf_test_below(&random, NAMES);

        /* some are replaced soon */

        if (n % 4 == 0) {
            i = i % 16;
        }

        len = names_value(data, &random);
        names_put(r, i, n % 8 == 7, len, data);
    }

    /* the last one is of a known length */

    memset(data, 'x', LONGEST / 2);
    names_put(r, NAMES - 2, 0, LONGEST / 2, data);
}


/* one word: random, one that may be an offset or a length, or a few bits */

static void
spoil_word(unsigned char *mem, size_t from, size_t size, uint64_t *random)
{
    size_t    at;
    uint32_t  word;

    at = from + nsf_test_below(random, (size - from) / 4) * 4;
    memcpy(&word, mem + at, sizeof(word));

    switch (nsf_test_below(random, 5)) {

    case 0:
        word = (uint32_t) nsf_test_random(random);
        break;

    case 1:
        word = (uint32_t) nsf_test_below(random, size / 8);
        break;

    case 2:
        word ^= 1u << nsf_test_below(random, 32);
        break;

    case 3:
        word = (uint32_t) nsf_test_below(random, 64);
        break;

    default:
        word = 0u - (uint32_t) nsf_test_below(random, 16);
    }

    memcpy(mem + at, &word, sizeof(word));
}


static void
spoil(unsigned char *mem, size_t from, size_t size, uint64_t *random)
{
    size_t    i, n, at;
    uint32_t  word;

    switch (nsf_test_below(random, 10)) {

    case 0:
        nsf_test_fill(mem + from, size - from, nsf_test_random(random));
        break;

    case 1:
        memset(mem + from, (int) nsf_test_below(random, 256), size - from);
        break;

    case 2:

        /* one part of it somewhere else */

        n = nsf_test_below(random, (size - from) / 2);
        at = from + nsf_test_below(random, size - from - n);
        i = from + nsf_test_below(random, size - from - n);
        memmove(mem + (at & ~(size_t) 7), mem + (i & ~(size_t) 7), n);
        break;

    case 3:
        for (i = 0; i < size / 16; i++) {
            spoil_word(mem, from, size, random);
        }

        break;

    case 4:

        /* chains that go round and round */

        word = (uint32_t) nsf_test_below(random, size / 8);

        for (i = from; i < size; i += sizeof(word)) {
            memcpy(mem + i, &word, sizeof(word));
        }

        break;

    case 5:

        /* the sizes of blocks, which are live, dead or a pad */

        for (i = from & ~(size_t) 7; i < size; i += 8) {
            if (mem[i + 4] >= 0xa1 && mem[i + 4] <= 0xa3) {
                word = (uint32_t) nsf_test_below(random, size / 4);
                memcpy(mem + i, &word, sizeof(word));
            }
        }

        break;

    default:
        n = 1 + nsf_test_below(random, 60);

        for (i = 0; i < n; i++) {
            spoil_word(mem, from, size, random);
        }
    }
}


static void
spoil_reads(names_t *r, const nsf_shard_t *sh, unsigned n, uint64_t *random,
    nsf_test_pond_t *pond)
{
    nsf_shard_rc_e     rc;
    nsf_shard_value_t  v;

    while (n--) {
        nsf_test_pond_reset(pond);

        rc = nsf_shard_get(sh, &r->keys[nsf_test_below(random, NAMES)], 0, &v,
                           &pond->pool);

        names_assert(rc <= NSF_SHARD_MEMORY);

        if (rc == NSF_SHARD_OK) {
            names_assert(v.len < NSF_SHARD_MIN);
            names_assert(v.len == 0 || pond->used >= v.len);
        }
    }
}


static void
spoil_put(names_t *r, nsf_shard_t *sh, size_t i, uint64_t *random)
{
    unsigned char      data[LONGEST];
    nsf_shard_value_t  v;

    memset(&v, 0, sizeof(nsf_shard_value_t));

    v.negative = (nsf_test_below(random, 4) == 0);

    if (!v.negative) {
        v.data = data;
        v.len = names_value(data, random);
    }

    names_assert(nsf_shard_put(sh, &r->keys[i], 0, &v) == NSF_SHARD_OK);
}


/* of what is there, as far as it is */

static void
spoil_claim(names_t *r, nsf_shard_t *sh, size_t i, uint64_t *random)
{
    int                rc;
    nsf_shard_value_t  v;

    memset(&v, 0, sizeof(nsf_shard_value_t));
    (void) nsf_shard_get(sh, &r->keys[i], 0, &v, NULL);

    rc = nsf_shard_claim(sh, &r->keys[i], &v, nsf_test_random(random));

    names_assert(rc == 0 || rc == 1);
}


static void
spoil_write(names_t *r, nsf_shard_t *sh, uint64_t *random)
{
    size_t            i;
    nsf_shard_stat_t  st;

    i = nsf_test_below(random, NAMES);

    switch (nsf_test_below(random, 5)) {

    case 0:
        names_assert(nsf_shard_del(sh, &r->keys[i]) <= 1);
        break;

    case 1:
        spoil_claim(r, sh, i, random);
        break;

    default:
        spoil_put(r, sh, i, random);
    }

    nsf_shard_stat(sh, &st);
}


/*
 * A writer has died there as well: after the next one the shard is as good as
 * new, whatever is in there.
 */

static void
spoil_recover(names_t *r, nsf_shard_t *sh, uint64_t *random,
    nsf_test_pond_t *pond)
{
    size_t             i, there;
    uint64_t           recovered;
    unsigned char      data[100];
    nsf_shard_stat_t   st;
    nsf_shard_value_t  v;

    nsf_shard_stat(sh, &st);
    recovered = st.recovered;

    sh->head->busy = 1;
    spoil_write(r, sh, random);

    nsf_shard_stat(sh, &st);
    assert_int_equal(st.recovered, recovered + 1);
    assert_true(st.entries + st.negative <= 1);

    there = 0;

    for (i = 0; i < NAMES; i++) {
        there += (nsf_shard_get(sh, &r->keys[i], 0, &v, NULL)
                  == NSF_SHARD_OK);
    }

    assert_int_equal(there, st.entries + st.negative);

    for (i = 0; i < 40; i++) {
        memset(&v, 0, sizeof(nsf_shard_value_t));

        v.data = data;
        v.len = sizeof(data);
        v.generation = i;
        nsf_test_fill(data, sizeof(data), i);

        assert_int_equal(nsf_shard_put(sh, &r->keys[i], 0, &v), NSF_SHARD_OK);
        assert_int_equal(nsf_shard_claim(sh, &r->keys[i], &v, i + 1), 1);
    }

    for (i = 0; i < 40; i++) {
        nsf_test_pond_reset(pond);

        assert_int_equal(nsf_shard_get(sh, &r->keys[i], 0, &v, &pond->pool),
                         NSF_SHARD_OK);
        assert_int_equal(v.len, sizeof(data));
        assert_int_equal(v.generation, i);
        assert_int_equal(v.claimed, i + 1);
        assert_true(nsf_test_filled(v.data, v.len, i));
    }

    for (i = 0; i < 40; i++) {
        assert_int_equal(nsf_shard_del(sh, &r->keys[i]), 1);
    }

    nsf_shard_stat(sh, &st);
    assert_true(st.entries + st.negative <= 1);
    assert_int_equal(st.recovered, recovered + 1);
}


/*
 * In memory from malloc(), so that a sanitizer sees what is read beside it.
 * With "from" the head is spared, and the next writer after a death makes all
 * good.
 */

static void
spoil_run(size_t from, unsigned rounds)
{
    names_t          *r;
    uint64_t         random;
    unsigned         i, n;
    nsf_shard_t      sh;
    unsigned char   *mem;
    nsf_test_pond_t  pond;

    r = malloc(sizeof(names_t));
    mem = malloc(NSF_SHARD_MIN);
    assert_non_null(r);
    assert_non_null(mem);

    names_init(r);
    spoil_fill(r);
    nsf_test_pond_init(&pond);

    random = r->seed;
    (void) alarm(FOREVER);

    for (i = 0; i < rounds; i++) {
        memcpy(mem, r->map.mem, NSF_SHARD_MIN);
        nsf_assert_good(nsf_shard_attach(&sh, mem, NSF_SHARD_MIN));

        spoil(mem, from, NSF_SHARD_MIN, &random);
        spoil_reads(r, &sh, 30, &random, &pond);

        if (i % 2 == 0) {
            for (n = 0; n < 6; n++) {
                spoil_write(r, &sh, &random);
            }

            spoil_reads(r, &sh, 10, &random, &pond);
        }

        if (from != 0) {
            spoil_recover(r, &sh, &random, &pond);
        }
    }

    (void) alarm(0);

    nsf_test_pond_free(&pond);
    names_free(r);
    free(mem);
    free(r);
}


static void
garbage_anywhere(void **state)
{
    (void) state;

    spoil_run(0, 3000);
}


static void
garbage_behind_the_head(void **state)
{
    (void) state;

    spoil_run(HEAD, 3000);
}


/* where the last entry's scope and key are, see spoil_fill() */

static size_t
spoil_find(const names_t *r)
{
    size_t                  at, len;
    const nsf_shard_key_t  *key;

    key = &r->keys[NAMES - 2];
    len = key->scope.len + key->key.len;

    for (at = HEADER; at < NSF_SHARD_MIN - len - 8; at++) {
        if (memcmp(r->map.mem + at, key->scope.data, len) == 0
            && memcmp(r->map.mem + at + len, "xxxxxxxx", 8) == 0)
        {
            return at;
        }
    }

    fail_msg("the last entry is not in the memory");

    return 0;
}


/* an entry that would go on behind the memory, by 8 bytes less each time */

static void
garbage_at_the_end(void **state)
{
    size_t             at, end, i, len, offset, rest;
    names_t            *r;
    uint32_t           word;
    nsf_shard_t        sh;
    unsigned char     *mem;
    nsf_test_pond_t    pond;
    nsf_shard_value_t  v;

    (void) state;

    r = malloc(sizeof(names_t));
    mem = malloc(NSF_SHARD_MIN);
    assert_non_null(r);
    assert_non_null(mem);

    names_init(r);
    spoil_fill(r);
    nsf_test_pond_init(&pond);

    i = NAMES - 2;
    at = spoil_find(r);
    len = r->keys[i].scope.len + r->keys[i].key.len + LONGEST / 2;

    for (rest = 0; rest < len + 8; rest += 8) {
        memcpy(mem, r->map.mem, NSF_SHARD_MIN);

        end = NSF_SHARD_MIN - HEADER - rest;
        memmove(mem + end, mem + at - HEADER, HEADER + rest);

        for (offset = 0; offset < end; offset += sizeof(word)) {
            memcpy(&word, mem + offset, sizeof(word));

            if (word == (at - HEADER) / 8) {
                word = (uint32_t) (end / 8);
                memcpy(mem + offset, &word, sizeof(word));
            }
        }

        nsf_assert_good(nsf_shard_attach(&sh, mem, NSF_SHARD_MIN));
        nsf_test_pond_reset(&pond);

        /* the last one does not: it is the one that was moved about */

        assert_int_equal(nsf_shard_get(&sh, &r->keys[i], 0, &v, &pond.pool),
                         rest < len ? NSF_SHARD_NONE : NSF_SHARD_OK);
    }

    nsf_test_pond_free(&pond);
    names_free(r);
    free(mem);
    free(r);
}


static void
spoil_reader(names_t *r, unsigned n)
{
    uint64_t         random;
    nsf_test_pond_t  pond;

    random = r->seed + 3000 + n;
    nsf_test_pond_init(&pond);

    spoil_reads(r, &r->sh, READS, &random, &pond);

    nsf_test_pond_free(&pond);
}


/* what has been looked at is another thing when it is used */

static void
garbage_while_it_is_read(void **state)
{
    int             *going, pid, pids[READERS];
    names_t         *r;
    unsigned         n, i;
    uint64_t         random;
    unsigned char   *good;
    nsf_test_map_t   shared;

    (void) state;

    nsf_test_map(&shared, sizeof(uint64_t));
    going = (void *) shared.mem;

    r = malloc(sizeof(names_t));
    good = malloc(NSF_SHARD_MIN);
    assert_non_null(r);
    assert_non_null(good);

    names_init(r);
    spoil_fill(r);
    memcpy(good, r->map.mem, NSF_SHARD_MIN);
    *going = 1;

    pid = fork();
    assert_true(pid >= 0);

    if (pid == 0) {
        (void) alarm(FOREVER);
        random = r->seed;

        while (__atomic_load_n(going, __ATOMIC_SEQ_CST)) {
            memcpy(r->map.mem, good, NSF_SHARD_MIN);

            for (i = 0; i < 2000; i++) {
                spoil_word(r->map.mem, nsf_test_below(&random, 2) * HEAD,
                           NSF_SHARD_MIN, &random);
            }
        }

        _exit(0);
    }

    for (n = 0; n < READERS; n++) {
        pids[n] = fork();
        assert_true(pids[n] >= 0);

        if (pids[n] == 0) {
            (void) alarm(FOREVER);
            spoil_reader(r, n);
            _exit(0);
        }
    }

    for (n = 0; n < READERS; n++) {
        assert_int_equal(nsf_test_wait(pids[n]), 0);
    }

    __atomic_store_n(going, 0, __ATOMIC_SEQ_CST);
    assert_int_equal(nsf_test_wait(pid), 0);

    nsf_test_unmap(&shared);
    names_free(r);
    free(good);
    free(r);
}


int
main(void)
{
    static const struct CMUnitTest  tests[] = {
        cmocka_unit_test(garbage_anywhere),
        cmocka_unit_test(garbage_behind_the_head),
        cmocka_unit_test(garbage_at_the_end),
        cmocka_unit_test(garbage_while_it_is_read),
    };

    return cmocka_run_group_tests_name("nsf_shard_garbage", tests, NULL, NULL);
}
