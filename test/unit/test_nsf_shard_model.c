/*
 * Copyright (C) the ngx_sendfile authors
 *
 * A shard against a dictionary that forgets nothing, by a long random script.
 * A get may miss what was evicted; what it finds has to be the latest, byte
 * for byte, and what was missed once must not come back.
 */


#include <stdio.h>

#include "nsf_test_shard.h"


#define SCOPES   3
#define KEYS     400
#define NAMES    (SCOPES * KEYS)

/* so many keys have one hash, in every scope */

#define SAME     30


typedef struct {
    nsf_shard_key_t    key;
    unsigned char      bytes[256];

    /* as far as the dictionary knows */
    int                present;
    int                negative;
    size_t             len;
    uint64_t           id;
    uint64_t           valid;
    uint64_t           limit;
    uint64_t           generation;
    uint64_t           claimed;

    /* a copy that was got once: its stamp, and which value it is of */
    uint64_t           stamp;
    uint64_t           copied;
} name_t;


typedef struct {
    uint64_t           hits;
    uint64_t           negative;
    uint64_t           misses;
    uint64_t           lost;
    uint64_t           late;
    uint64_t           same;
    uint64_t           large;
    uint64_t           dropped;
    uint64_t           claimed;
    uint64_t           given_back;
    uint64_t           refused;
    uint64_t           found_claimed;
    uint64_t           unchanged;
} seen_t;


typedef struct {
    nsf_shard_t        sh;
    unsigned char     *mem;
    size_t             size;

    /* to look at without leaving a trace */
    nsf_shard_t        sh2;
    unsigned char     *mem2;

    unsigned char     *value;
    size_t             max;

    name_t             names[NAMES];

    uint64_t           now;
    uint64_t           ids;
    uint64_t           random;
    uint64_t           seed;
    size_t             step;
    seen_t             seen;
} model_t;


#define model_assert(m, cond)                                                 \
    do {                                                                      \
        if (!(cond)) {                                                        \
            print_error("seed %llu, step %zu of a shard of %zu bytes:\n",     \
                        (unsigned long long) (m)->seed, (m)->step,            \
                        (m)->size);                                           \
            _fail_line(#cond, __FILE__, __LINE__);                            \
        }                                                                     \
    } while (0)


static void
_fail_line(const char *text, const char *file, int line)
{
    print_error("not so: %s\n", text);
    _fail(file, line);
}


static void
model_init(model_t *m, size_t size, uint64_t seed)
{
    size_t   i, k, len;
    name_t  *name;

    memset(m, 0, sizeof(model_t));

    m->size = size;
    m->seed = seed;
    m->random = seed;
    m->now = 1000000;
    m->max = nsf_shard_max_entry(size);

    m->mem = malloc(size);
    m->mem2 = malloc(size);
    m->value = malloc(m->max + 1);

    assert_non_null(m->mem);
    assert_non_null(m->mem2);
    assert_non_null(m->value);

    nsf_assert_good(nsf_shard_format(&m->sh, m->mem, size));

    for (i = 0; i < NAMES; i++) {
        name = &m->names[i];
        k = i % KEYS;

        /* a scope of no byte, a usual one, and a long one */

        len = (i < KEYS) ? 0 : (i < 2 * KEYS) ? 26 : 101;
        memset(name->bytes, (int) ('a' + i / KEYS), len);

        name->key.scope.data = name->bytes;
        name->key.scope.len = len;

        /* every 7th key is a longer one */

        name->key.key.data = name->bytes + len;
        name->key.key.len = (size_t) snprintf((char *) name->bytes + len, 128,
                                              "%0*zu", k % 7 ? 1 : 90, k);

        name->key.hash = nsf_test_hash(name->bytes, len + name->key.key.len);

        if (k < SAME) {
            name->key.hash = 0x1234567890abcdefull;
        }
    }
}


static void
model_free(model_t *m)
{
    free(m->mem);
    free(m->mem2);
    free(m->value);
}


static nsf_shard_stat_t
model_stat(const model_t *m)
{
    nsf_shard_stat_t  st;

    nsf_shard_stat(&m->sh, &st);

    return st;
}


static void
model_copy(model_t *m)
{
    memcpy(m->mem2, m->mem, m->size);
    nsf_assert_good(nsf_shard_attach(&m->sh2, m->mem2, m->size));
}


/* in the copy: whether an entry is there, be it past its limit or not */

static int
model_peek(model_t *m, const name_t *name)
{
    nsf_shard_rc_e     rc;
    nsf_shard_value_t  v;

    rc = nsf_shard_get(&m->sh2, &name->key, 0, &v, NULL);

    if (rc == NSF_SHARD_NONE) {
        return 0;
    }

    model_assert(m, rc == NSF_SHARD_OK);
    model_assert(m, name->present);
    model_assert(m, v.len == name->len);
    model_assert(m, v.negative == (unsigned) name->negative);

    return 1;
}


static name_t *
model_name(model_t *m)
{
    /* some are asked more often than others */

    if (nsf_test_below(&m->random, 3) == 0) {
        return &m->names[nsf_test_below(&m->random, 60) * (NAMES / 60)];
    }

    return &m->names[nsf_test_below(&m->random, NAMES)];
}


static size_t
model_len(model_t *m, const name_t *name)
{
    size_t  most;

    most = m->max - name->key.scope.len - name->key.key.len;

    switch (nsf_test_below(&m->random, 40)) {

    case 0:
        return 0;

    case 1:
        return nsf_test_below(&m->random, most + 1);

    case 2:
        return most;

    case 3:
        return most + 1;

    case 4:
    case 5:
    case 6:
    case 7:
        return nsf_test_below(&m->random, most / 8);

    default:
        return nsf_test_below(&m->random, 80);
    }
}


static uint64_t
model_limit(model_t *m)
{
    switch (nsf_test_below(&m->random, 8)) {

    case 0:
        return m->now + nsf_test_below(&m->random, 200);

    case 1:
        return m->now + nsf_test_below(&m->random, 20000) + 1;

    case 2:
        return m->now - nsf_test_below(&m->random, 5);

    default:
        return 0;
    }
}


static void
model_forget(name_t *name)
{
    name->present = 0;
}


/* what changes in the figures, if they are looked at */

static void
model_put_figures(model_t *m, const nsf_shard_stat_t *before, int there,
    nsf_shard_rc_e rc)
{
    uint64_t          n;
    nsf_shard_stat_t  st;

    st = model_stat(m);
    n = before->entries + before->negative;

    if (rc == NSF_SHARD_OK && !there) {
        n++;
    }

    if (rc == NSF_SHARD_TOO_LARGE && there) {
        n--;
    }

    model_assert(m, st.evicted >= before->evicted);
    model_assert(m, st.entries + st.negative
                    == n - (st.evicted - before->evicted));
    model_assert(m, st.recovered == 0);
}


static void
model_put(model_t *m)
{
    int                figures, there, same;
    name_t            *name;
    uint64_t           id;
    nsf_shard_rc_e     rc;
    nsf_shard_stat_t   before;
    nsf_shard_value_t  v;

    name = model_name(m);

    memset(&v, 0, sizeof(nsf_shard_value_t));

    v.negative = (nsf_test_below(&m->random, 5) == 0);
    v.valid = m->now + nsf_test_below(&m->random, 100);
    v.limit = model_limit(m);
    v.generation = nsf_test_random(&m->random);

    /* seldom claimed from the beginning */

    if (nsf_test_below(&m->random, 8) == 0) {
        v.claimed = m->now + nsf_test_below(&m->random, 100);
    }

    id = ++m->ids;
    same = 0;

    if (!v.negative) {
        v.len = model_len(m, name);
        v.data = m->value;

        if (name->present && !name->negative
            && nsf_test_below(&m->random, 4) == 0)
        {
            id = name->id;
            v.len = name->len;
            same = 1;
            m->seen.same++;
        }

        nsf_test_fill(v.data, v.len, id);
    }

    figures = (nsf_test_below(&m->random, 4) == 0);
    there = 0;

    if (figures) {
        model_copy(m);
        there = model_peek(m, name);
        before = model_stat(m);
    }

    rc = nsf_shard_put(&m->sh, &name->key, m->now, &v);

    if (figures) {
        model_put_figures(m, &before, there, rc);

        if (same && there) {
            model_assert(m, model_stat(m).bytes == before.bytes);
        }
    }

    if (name->key.scope.len + name->key.key.len + v.len > m->max) {
        model_assert(m, rc == NSF_SHARD_TOO_LARGE);

        m->seen.large++;
        model_forget(name);
        return;
    }

    model_assert(m, rc == NSF_SHARD_OK);

    name->present = 1;
    name->negative = (int) v.negative;
    name->len = v.len;
    name->id = id;
    name->valid = v.valid;
    name->limit = v.limit;
    name->generation = v.generation;
    name->claimed = v.claimed;
}


static void
model_get(model_t *m)
{
    int                late;
    name_t            *name;
    nsf_pool_t        *pool;
    nsf_shard_rc_e     rc;
    nsf_test_pool_t    tp;
    nsf_shard_value_t  v;

    name = model_name(m);
    late = (name->present && name->limit != 0 && name->limit <= m->now);

    nsf_test_pool_init(&tp, nsf_test_below(&m->random, 50) == 0);
    pool = nsf_test_below(&m->random, 8) == 0 ? NULL : &tp.pool;

    rc = nsf_shard_get_changed(&m->sh, &name->key, m->now, &v, pool,
                               name->stamp);

    if (rc == NSF_SHARD_MEMORY) {
        model_assert(m, tp.fail_at == 1 && pool != NULL);
        model_assert(m, name->present && !late);

    } else if (rc == NSF_SHARD_OK) {
        model_assert(m, name->present && !late);
        model_assert(m, tp.fail_at == 0 || tp.calls == 0);

        model_assert(m, v.negative == (unsigned) name->negative);
        model_assert(m, v.len == name->len);
        model_assert(m, v.valid == name->valid);
        model_assert(m, v.limit == name->limit);
        model_assert(m, v.generation == name->generation);
        model_assert(m, v.claimed == name->claimed);

        if (v.stamp == name->stamp) {
            model_assert(m, v.data == NULL);
            model_assert(m, name->copied == name->id || v.len == 0);
            m->seen.unchanged++;

        } else if (pool == NULL) {
            model_assert(m, v.data == NULL);

        } else {
            model_assert(m, nsf_test_filled(v.data, v.len, name->id));
            model_assert(m, v.stamp != 0);

            name->stamp = v.stamp;
            name->copied = name->id;
        }

        m->seen.hits++;
        m->seen.negative += v.negative;
        m->seen.found_claimed += (v.claimed != 0);

    } else {
        model_assert(m, rc == NSF_SHARD_NONE);

        if (late) {
            m->seen.late++;

        } else if (name->present) {
            m->seen.lost++;
            model_forget(name);

        } else {
            m->seen.misses++;
        }
    }

    nsf_test_pool_free(&tp);
}


static void
model_del(model_t *m)
{
    int      there;
    name_t  *name;

    name = model_name(m);

    model_copy(m);
    there = model_peek(m, name);

    model_assert(m, nsf_shard_del(&m->sh, &name->key) == (size_t) there);
    m->seen.dropped += (unsigned) there;

    model_forget(name);
}


/* as somebody who has got the entry now, or had before it was changed */

static void
model_claim(model_t *m)
{
    int                there, rc;
    name_t            *name;
    uint64_t           until;
    nsf_shard_stat_t   before, st;
    nsf_shard_value_t  v;

    name = model_name(m);

    model_copy(m);
    there = model_peek(m, name);

    memset(&v, 0, sizeof(nsf_shard_value_t));

    v.valid = name->valid;
    v.generation = name->generation;
    v.claimed = name->claimed;

    until = m->now + 1 + nsf_test_below(&m->random, 100);

    switch (nsf_test_below(&m->random, 12)) {

    case 0:
        v.valid += 1 + nsf_test_below(&m->random, 100);
        there = 0;
        break;

    case 1:
        v.generation ^= UINT64_C(1) << nsf_test_below(&m->random, 64);
        there = 0;
        break;

    case 2:
        v.claimed = name->claimed ? 0 : until;
        there = 0;
        break;

    case 3:
    case 4:
    case 5:
    case 6:
    case 7:

        /* it is given back */

        until = 0;
        break;

    default:
        break;
    }

    before = model_stat(m);
    rc = nsf_shard_claim(&m->sh, &name->key, &v, until);
    st = model_stat(m);

    model_assert(m, rc == there);
    model_assert(m, memcmp(&before, &st, sizeof(nsf_shard_stat_t)) == 0);

    if (!there) {
        m->seen.refused++;
        return;
    }

    if (until != 0) {
        m->seen.claimed++;

    } else if (name->claimed != 0) {
        m->seen.given_back++;
    }

    name->claimed = until;

    /* of those that had got the same, no other one has it */

    if (v.claimed != until) {
        model_assert(m, nsf_shard_claim(&m->sh, &name->key, &v, until) == 0);
    }
}


/* the figures against what can be found */

static void
model_figures(model_t *m)
{
    size_t            i;
    name_t           *name;
    uint64_t          n, negative, bytes;
    nsf_shard_stat_t  st;

    n = 0;
    negative = 0;
    bytes = 0;

    model_copy(m);

    for (i = 0; i < NAMES; i++) {
        name = &m->names[i];

        if (!model_peek(m, name)) {
            continue;
        }

        bytes += name->key.scope.len + name->key.key.len + name->len;

        if (name->negative) {
            negative++;

        } else {
            n++;
        }
    }

    st = model_stat(m);

    model_assert(m, st.entries == n);
    model_assert(m, st.negative == negative);
    model_assert(m, st.bytes >= bytes && st.bytes < m->size);
}


static void
model_step(model_t *m)
{
    size_t  n;

    n = nsf_test_below(&m->random, 1000);

    if (n < 370) {
        model_put(m);

    } else if (n < 800) {
        model_get(m);

    } else if (n < 860) {
        model_del(m);

    } else if (n < 940) {
        model_claim(m);

    } else if (n < 995) {
        m->now += nsf_test_below(&m->random, 30);

    } else if (n < 998) {
        model_figures(m);

    } else {
        nsf_assert_good(nsf_shard_attach(&m->sh, m->mem, m->size));
    }
}


static void
model_run(size_t size, size_t steps)
{
    model_t          *m;
    nsf_shard_stat_t  st;

    m = malloc(sizeof(model_t));
    assert_non_null(m);

    model_init(m, size, nsf_test_seed());

    for (m->step = 0; m->step < steps; m->step++) {
        model_step(m);
    }

    model_figures(m);

    /* the script has been everywhere, and the shard is of some use */

    st = model_stat(m);

    print_message("%zu bytes: hits %llu, %llu of them negative, misses %llu,"
                  " claimed %llu, given back %llu, evicted %llu, moved %llu\n",
                  size,
                  (unsigned long long) m->seen.hits,
                  (unsigned long long) m->seen.negative,
                  (unsigned long long) (m->seen.misses + m->seen.lost),
                  (unsigned long long) m->seen.claimed,
                  (unsigned long long) m->seen.given_back,
                  (unsigned long long) st.evicted,
                  (unsigned long long) st.moved);

    model_assert(m, m->seen.hits > steps / 20);
    model_assert(m, m->seen.negative > steps / 1000);
    model_assert(m, m->seen.misses > steps / 100);
    model_assert(m, m->seen.lost > 0);
    model_assert(m, m->seen.late > steps / 1000);
    model_assert(m, m->seen.same > steps / 1000);
    model_assert(m, m->seen.large > steps / 1000);
    model_assert(m, m->seen.dropped > steps / 1000);
    model_assert(m, m->seen.claimed > steps / 1000);
    model_assert(m, m->seen.given_back > steps / 1000);
    model_assert(m, m->seen.refused > steps / 1000);
    model_assert(m, m->seen.found_claimed > steps / 1000);
    model_assert(m, m->seen.unchanged > steps / 1000);
    model_assert(m, st.evicted > 0 && st.moved > 0);

    model_free(m);
    free(m);
}


static void
script_in_the_smallest_shard(void **state)
{
    (void) state;

    model_run(NSF_SHARD_MIN, 200000);
}


/* an odd size; half of the names find a place */

static void
script_in_a_larger_shard(void **state)
{
    (void) state;

    model_run(200000 + 8, 100000);
}


int
main(void)
{
    static const struct CMUnitTest  tests[] = {
        cmocka_unit_test(script_in_the_smallest_shard),
        cmocka_unit_test(script_in_a_larger_shard),
    };

    return cmocka_run_group_tests_name("nsf_shard_model", tests, NULL, NULL);
}
