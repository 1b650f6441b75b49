/*
 * Copyright (C) the ngx_sendfile authors
 */


#include "nsf_test_fixture.h"


static void
fields_and_bytes(void **state)
{
    fixture_t  f;
    nsf_str_t  copy;

    (void) state;

    fixture_init(&f, SIZE);

    assert_none(&f, name("s", "1"));

    f.in.valid = UINT64_C(0x1122334455667788);
    f.in.limit = UINT64_MAX;
    f.in.generation = UINT64_C(0x99aabbccddeeff00);
    f.in.claimed = UINT64_C(0x1020304050607080);

    assert_put(&f, name("s", "1"), "a\1b\377c");

    assert_value(&f, name("s", "1"), "a\1b\377c");
    copy.data = f.v.data;
    copy.len = f.v.len;
    assert_true(nsf_test_pool_owns(&f.tp, &copy));
    assert_true(f.v.valid == UINT64_C(0x1122334455667788));
    assert_true(f.v.limit == UINT64_MAX);
    assert_true(f.v.generation == UINT64_C(0x99aabbccddeeff00));
    assert_true(f.v.claimed == UINT64_C(0x1020304050607080));
    assert_int_equal(f.v.negative, 0);

    fixture_free(&f);
}


static void
without_a_pool(void **state)
{
    fixture_t        f;
    nsf_shard_key_t  key;

    (void) state;

    fixture_init(&f, SIZE);

    key = name("s", "1");
    f.in.generation = 7;
    f.in.claimed = 8;
    assert_put(&f, key, "value");

    memset(&f.v, 0xee, sizeof(nsf_shard_value_t));

    assert_rc(nsf_shard_get(&f.sh, &key, NOW, &f.v, NULL), NSF_SHARD_OK);
    assert_null(f.v.data);
    assert_int_equal(f.v.len, 5);
    assert_int_equal(f.v.generation, 7);
    assert_int_equal(f.v.claimed, 8);

    fixture_free(&f);
}


static uint64_t
stamp_of(fixture_t *f, const char *id)
{
    assert_rc(get(f, name("s", id)), NSF_SHARD_OK);
    assert_true(f->v.stamp != 0);

    return f->v.stamp;
}


/* of other data another one, and of the same with other times the same */

static void
stamps(void **state)
{
    uint64_t           first, other;
    fixture_t          f;
    nsf_shard_key_t    key;

    (void) state;

    fixture_init(&f, SIZE);

    key = name("s", "1");

    assert_put(&f, key, "value");
    first = stamp_of(&f, "1");

    assert_put(&f, name("s", "2"), "value");
    assert_true(stamp_of(&f, "2") != first);

    f.in.generation = 3;
    assert_put(&f, key, "value");
    assert_true(stamp_of(&f, "1") == first);
    assert_int_equal(nsf_shard_claim(&f.sh, &key, &f.v, 7), 1);
    assert_true(stamp_of(&f, "1") == first);

    assert_put(&f, key, "other");
    other = stamp_of(&f, "1");
    assert_true(other != first);

    assert_put(&f, key, "value");
    assert_true(stamp_of(&f, "1") != first);
    assert_true(stamp_of(&f, "1") != other);

    first = stamp_of(&f, "1");
    assert_int_equal(nsf_shard_del(&f.sh, &key), 1);
    assert_put(&f, key, "value");
    assert_true(stamp_of(&f, "1") != first);

    fixture_free(&f);
}


static void
data_of_a_known_stamp_is_not_copied(void **state)
{
    uint64_t         stamp;
    fixture_t        f;
    nsf_shard_key_t  key;
    nsf_test_pool_t  tp;

    (void) state;

    fixture_init(&f, SIZE);

    key = name("s", "1");
    f.in.generation = 7;
    assert_put(&f, key, "value");
    stamp = stamp_of(&f, "1");

    nsf_test_pool_init(&tp, 1);
    memset(&f.v, 0xee, sizeof(nsf_shard_value_t));

    assert_rc(nsf_shard_get_changed(&f.sh, &key, NOW, &f.v, &tp.pool, stamp),
              NSF_SHARD_OK);
    assert_int_equal(tp.calls, 0);
    assert_null(f.v.data);
    assert_int_equal(f.v.len, 5);
    assert_int_equal(f.v.generation, 7);
    assert_true(f.v.stamp == stamp);

    assert_rc(nsf_shard_get_changed(&f.sh, &key, NOW, &f.v, &tp.pool,
                                    stamp + 1),
              NSF_SHARD_MEMORY);
    assert_int_equal(tp.calls, 1);

    fixture_free(&f);
}


static void
pool_has_no_memory(void **state)
{
    fixture_t          f;
    nsf_shard_key_t    key;
    nsf_shard_value_t  before;

    (void) state;

    fixture_init(&f, SIZE);

    key = name("s", "1");
    assert_put(&f, key, "value");

    nsf_test_pool_init(&f.tp, 1);
    memset(&f.v, 0xee, sizeof(nsf_shard_value_t));
    before = f.v;

    assert_rc(nsf_shard_get(&f.sh, &key, NOW, &f.v, &f.tp.pool),
              NSF_SHARD_MEMORY);
    assert_int_equal(f.tp.calls, 1);
    assert_memory_equal(&f.v, &before, sizeof(nsf_shard_value_t));

    fixture_free(&f);
}


/* what is not there takes no memory and changes nothing */

static void
not_there(void **state)
{
    fixture_t          f;
    nsf_shard_value_t  before;

    (void) state;

    fixture_init(&f, SIZE);

    assert_put(&f, name("s", "1"), "value");

    assert_none(&f, name("s", "2"));
    memset(&before, 0xee, sizeof(nsf_shard_value_t));
    assert_memory_equal(&f.v, &before, sizeof(nsf_shard_value_t));
    assert_int_equal(f.tp.calls, 0);

    fixture_free(&f);
}


static void
empty_value_and_names(void **state)
{
    fixture_t        f;
    nsf_shard_key_t  none;

    (void) state;

    fixture_init(&f, SIZE);

    assert_put(&f, name("s", "1"), "");
    assert_value(&f, name("s", "1"), "");
    assert_int_equal(f.v.negative, 0);
    assert_int_equal(f.tp.calls, 0);

    memset(&none, 0, sizeof(nsf_shard_key_t));

    assert_none(&f, none);
    assert_put(&f, none, "nothing");
    assert_value(&f, none, "nothing");
    assert_int_equal(nsf_shard_del(&f.sh, &none), 1);
    assert_none(&f, none);

    fixture_free(&f);
}


static void
scopes_are_apart(void **state)
{
    fixture_t        f;
    nsf_shard_key_t  a, b;

    (void) state;

    fixture_init(&f, SIZE);

    assert_put(&f, name("one", "1"), "first");
    assert_put(&f, name("two", "1"), "second");
    assert_put(&f, name("", "1"), "third");

    assert_value(&f, name("one", "1"), "first");
    assert_value(&f, name("two", "1"), "second");
    assert_value(&f, name("", "1"), "third");
    assert_none(&f, name("on", "1"));
    assert_none(&f, name("ones", "1"));

    /* so they are if their hashes are the same */

    a = name("three", "1");
    b = name("four", "1");
    b.hash = a.hash;

    assert_put(&f, a, "fourth");
    assert_none(&f, b);
    assert_int_equal(nsf_shard_del(&f.sh, &b), 0);
    assert_put(&f, b, "fifth");
    assert_value(&f, a, "fourth");
    assert_value(&f, b, "fifth");
    assert_int_equal(nsf_shard_del(&f.sh, &a), 1);
    assert_none(&f, a);
    assert_value(&f, b, "fifth");

    /* the same bytes in a row, split elsewhere */

    a = name("ab", "c");
    b = name("a", "bc");
    b.hash = a.hash;

    assert_put(&f, a, "ab c");
    assert_put(&f, b, "a bc");
    assert_value(&f, a, "ab c");
    assert_value(&f, b, "a bc");

    fixture_free(&f);
}


/* another byte anywhere in the names makes another entry */

static void
names_are_compared_in_full(void **state)
{
    size_t           i;
    fixture_t        f;
    nsf_shard_key_t  a, b;

    char        scope[] = "lmdb:/var/lib/files";
    char        key[] = "0123456789abcdef0";
    char       *p;

    (void) state;

    fixture_init(&f, SIZE);

    a = name("lmdb:/var/lib/files", "0123456789abcdef0");
    assert_put(&f, a, "value");

    b = name(scope, key);
    assert_value(&f, b, "value");

    for (i = 0; i < sizeof(scope) - 1 + sizeof(key) - 1; i++) {
        p = (i < sizeof(scope) - 1) ? &scope[i] : &key[i - sizeof(scope) + 1];

        *p ^= 1;
        assert_none(&f, b);
        assert_int_equal(nsf_shard_del(&f.sh, &b), 0);
        *p ^= 1;
    }

    b.key.len--;
    assert_none(&f, b);

    fixture_free(&f);
}


static void
same_hash(void **state)
{
    fixture_t        f;
    nsf_shard_key_t  a, b, c;

    (void) state;

    fixture_init(&f, SIZE);

    a = name("s", "a");
    b = name("s", "b");
    c = name("s", "c");
    b.hash = a.hash;
    c.hash = a.hash;

    assert_put(&f, a, "A");
    assert_put(&f, b, "B");
    assert_put(&f, c, "C");

    assert_value(&f, a, "A");
    assert_value(&f, b, "B");
    assert_value(&f, c, "C");

    /* the one in the middle of the chain, the last, the first */

    assert_int_equal(nsf_shard_del(&f.sh, &b), 1);
    assert_value(&f, a, "A");
    assert_none(&f, b);
    assert_value(&f, c, "C");

    assert_int_equal(nsf_shard_del(&f.sh, &a), 1);
    assert_none(&f, a);
    assert_value(&f, c, "C");

    assert_int_equal(nsf_shard_del(&f.sh, &c), 1);
    assert_none(&f, c);

    assert_int_equal(figures(&f).entries, 0);
    assert_int_equal(figures(&f).bytes, 0);

    fixture_free(&f);
}


static void
limits(void **state)
{
    fixture_t  f;

    (void) state;

    fixture_init(&f, SIZE);

    f.in.valid = 1;
    f.in.limit = NOW + 10;
    assert_put(&f, name("s", "1"), "value");

    f.in.limit = 0;
    assert_put(&f, name("s", "2"), "forever");

    assert_rc(get_at(&f, name("s", "1"), NOW + 9), NSF_SHARD_OK);
    assert_rc(get_at(&f, name("s", "1"), NOW + 10), NSF_SHARD_NONE);
    assert_int_equal(f.tp.calls, 0);
    assert_rc(get_at(&f, name("s", "1"), UINT64_MAX), NSF_SHARD_NONE);
    assert_rc(get_at(&f, name("s", "2"), UINT64_MAX), NSF_SHARD_OK);

    /* late, but not gone: it can be given a new time */

    f.in.limit = NOW + 20;
    assert_put(&f, name("s", "1"), "value");
    assert_rc(get_at(&f, name("s", "1"), NOW + 19), NSF_SHARD_OK);
    assert_int_equal(figures(&f).entries, 2);

    fixture_free(&f);
}


static void
replaced(void **state)
{
    size_t     i;
    uint64_t   bytes;
    fixture_t  f;

    static const char  *values[] = {
        "short", "much longer than it was before", "", "short", "Short"
    };

    (void) state;

    fixture_init(&f, SIZE);

    assert_put(&f, name("s", "0"), "before");
    assert_put(&f, name("s", "1"), "x");
    assert_put(&f, name("s", "2"), "after");

    for (i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        f.in.generation = i;
        f.in.claimed = i * 5;
        assert_put(&f, name("s", "1"), values[i]);

        assert_rc(get(&f, name("s", "1")), NSF_SHARD_OK);
        assert_int_equal(f.v.len, strlen(values[i]));
        assert_memory_equal(f.v.data, values[i], f.v.len);
        assert_int_equal(f.v.generation, i);
        assert_int_equal(f.v.claimed, i * 5);
        assert_int_equal(figures(&f).entries, 3);
    }

    assert_value(&f, name("s", "0"), "before");
    assert_value(&f, name("s", "2"), "after");

    /* 64 for each, the names and 5 or 6 bytes, rounded to 8 */

    bytes = figures(&f).bytes;
    assert_int_equal(bytes, 3 * 72);
    assert_int_equal(figures(&f).evicted, 0);

    fixture_free(&f);
}


/* no room is taken by what is there already, however often */

static void
same_bytes_again(void **state)
{
    size_t     i;
    fixture_t  f;

    (void) state;

    fixture_init(&f, NSF_SHARD_MIN);

    for (i = 0; i < 20; i++) {
        assert_put(&f, number(&f, i), "another one that is not asked for");
    }

    for (i = 0; i < 10000; i++) {
        f.in.valid = i;
        f.in.limit = NOW + i + 1;
        f.in.generation = i * 3;
        f.in.claimed = i * 5;

        assert_put(&f, name("s", "1"), "0123456789012345678901234567890123");
    }

    assert_value(&f, name("s", "1"), "0123456789012345678901234567890123");
    assert_int_equal(f.v.valid, 9999);
    assert_int_equal(f.v.limit, NOW + 10000);
    assert_int_equal(f.v.generation, 9999 * 3);
    assert_int_equal(f.v.claimed, 9999 * 5);

    assert_int_equal(figures(&f).entries, 21);
    assert_int_equal(figures(&f).evicted, 0);
    assert_int_equal(figures(&f).moved, 0);

    fixture_free(&f);
}


/* one name is one entry, of the one kind or of the other */

static void
positive_and_negative(void **state)
{
    fixture_t        f;
    nsf_shard_key_t  key;

    (void) state;

    fixture_init(&f, SIZE);

    f.in.negative = 1;
    assert_put(&f, name("s", "1"), "");
    assert_int_equal(figures(&f).entries, 0);
    assert_int_equal(figures(&f).negative, 1);

    assert_value(&f, name("s", "1"), "");
    assert_int_equal(f.v.negative, 1);

    /* no bytes are not the same as none */

    f.in.negative = 0;
    assert_put(&f, name("s", "1"), "");
    assert_value(&f, name("s", "1"), "");
    assert_int_equal(f.v.negative, 0);
    assert_int_equal(figures(&f).entries, 1);
    assert_int_equal(figures(&f).negative, 0);

    assert_put(&f, name("s", "1"), "now there are some");

    f.in.negative = 1;
    f.in.generation = 5;
    f.in.claimed = 6;
    assert_put(&f, name("s", "1"), "");
    assert_value(&f, name("s", "1"), "");
    assert_int_equal(f.v.negative, 1);
    assert_int_equal(f.v.generation, 5);
    assert_int_equal(f.v.claimed, 6);
    assert_int_equal(figures(&f).entries, 0);
    assert_int_equal(figures(&f).negative, 1);

    key = name("s", "1");
    assert_int_equal(nsf_shard_del(&f.sh, &key), 1);
    assert_none(&f, key);
    assert_int_equal(figures(&f).negative, 0);
    assert_int_equal(figures(&f).bytes, 0);

    fixture_free(&f);
}


static void
longest_entry(void **state)
{
    size_t           max, i;
    fixture_t        f;
    unsigned char   *data;
    nsf_shard_key_t  key;

    (void) state;

    fixture_init(&f, SIZE);

    max = nsf_shard_max_entry(SIZE);
    assert_true(max > SIZE / 20 && max < SIZE / 16);

    data = malloc(max + 1);
    assert_non_null(data);
    memset(data, 'd', max + 1);

    key = name("scope", "key");

    assert_rc(put_len(&f, key, data, max - 8), NSF_SHARD_OK);
    assert_rc(get(&f, key), NSF_SHARD_OK);
    assert_int_equal(f.v.len, max - 8);
    assert_memory_equal(f.v.data, data, max - 8);

    /* one byte more: not kept, and what was there is outdated */

    assert_rc(put_len(&f, key, data, max - 7), NSF_SHARD_TOO_LARGE);
    assert_none(&f, key);
    assert_int_equal(figures(&f).entries, 0);

    f.in.len = SIZE_MAX;
    f.in.data = data;
    assert_rc(nsf_shard_put(&f.sh, &key, NOW, &f.in), NSF_SHARD_TOO_LARGE);

    /* again and again, with others: there is always room for it */

    for (i = 0; i < 200; i++) {
        memset(data, (int) i, max);

        assert_rc(put_len(&f, number(&f, i), data, max - 23 - 3),
                  NSF_SHARD_OK);
        assert_rc(get(&f, number(&f, i)), NSF_SHARD_OK);
        assert_memory_equal(f.v.data, data, max - 23 - 3);

        assert_put(&f, number(&f, 1000 + i), "a short one");
        assert_value(&f, number(&f, 1000 + i), "a short one");
    }

    free(data);
    fixture_free(&f);
}


static void
longest_names(void **state)
{
    char             *bytes;
    fixture_t         f;
    nsf_shard_key_t   key;

    (void) state;

    fixture_init(&f, 1024 * 1024);

    bytes = malloc(2 * NSF_SHARD_MAX_NAME + 2);
    assert_non_null(bytes);
    memset(bytes, 'n', 2 * NSF_SHARD_MAX_NAME + 2);

    key.hash = 77;
    key.scope.data = (unsigned char *) bytes;
    key.scope.len = NSF_SHARD_MAX_NAME;
    key.key.data = (unsigned char *) bytes + NSF_SHARD_MAX_NAME;
    key.key.len = NSF_SHARD_MAX_NAME;

    assert_put(&f, key, "value");
    assert_value(&f, key, "value");

    key.key.len++;
    assert_rc(put(&f, key, "value"), NSF_SHARD_TOO_LARGE);
    assert_none(&f, key);

    key.key.len--;
    key.scope.len++;
    assert_rc(put(&f, key, "value"), NSF_SHARD_TOO_LARGE);
    assert_none(&f, key);

    /* lengths that would be those of another one in 16 bits */

    key.scope.len = NSF_SHARD_MAX_NAME + 65536;
    assert_none(&f, key);
    assert_int_equal(nsf_shard_del(&f.sh, &key), 0);

    key.scope.len = NSF_SHARD_MAX_NAME;
    assert_value(&f, key, "value");

    free(bytes);
    fixture_free(&f);
}


static void
longest_negative(void **state)
{
    char             *bytes;
    size_t            most;
    fixture_t         f;
    nsf_shard_key_t   key;

    (void) state;

    fixture_init(&f, NSF_SHARD_MIN);

    bytes = malloc(NSF_SHARD_MAX_NAME);
    assert_non_null(bytes);
    memset(bytes, 'n', NSF_SHARD_MAX_NAME);

    key = name("s", "");
    key.key.data = (unsigned char *) bytes;

    f.in.negative = 1;

    for (most = 0; most < NSF_SHARD_MAX_NAME; most++) {
        key.key.len = most;

        if (put(&f, key, "") != NSF_SHARD_OK) {
            break;
        }

        assert_value(&f, key, "");
    }

    assert_true(most > 900 && most < 1024);

    /* it does not stay what it was */

    f.in.negative = 0;
    assert_put(&f, key, "value");

    f.in.negative = 1;
    assert_rc(put(&f, key, ""), NSF_SHARD_TOO_LARGE);
    assert_none(&f, key);

    free(bytes);
    fixture_free(&f);
}


static void
forgotten(void **state)
{
    fixture_t        f;
    nsf_shard_key_t  key;

    (void) state;

    fixture_init(&f, SIZE);

    assert_put(&f, name("one", "1"), "first");
    assert_put(&f, name("one", "2"), "second");
    assert_put(&f, name("two", "1"), "third");

    f.in.negative = 1;
    assert_put(&f, name("three", "1"), "");

    key = name("four", "1");
    assert_int_equal(nsf_shard_del(&f.sh, &key), 0);

    key = name("two", "1");
    assert_int_equal(nsf_shard_del(&f.sh, &key), 1);
    assert_int_equal(nsf_shard_del(&f.sh, &key), 0);
    assert_none(&f, key);

    /* in this scope alone */

    assert_value(&f, name("one", "1"), "first");
    assert_value(&f, name("three", "1"), "");
    assert_int_equal(figures(&f).entries, 2);
    assert_int_equal(figures(&f).negative, 1);

    /* what is forgotten can be put again */

    f.in.negative = 0;
    assert_put(&f, key, "third again");
    assert_value(&f, key, "third again");
    assert_int_equal(nsf_shard_del(&f.sh, &key), 1);

    key = name("three", "1");
    assert_int_equal(nsf_shard_del(&f.sh, &key), 1);
    assert_none(&f, key);
    assert_value(&f, name("one", "2"), "second");

    key = name("one", "1");
    assert_int_equal(nsf_shard_del(&f.sh, &key), 1);
    key = name("one", "2");
    assert_int_equal(nsf_shard_del(&f.sh, &key), 1);

    assert_int_equal(figures(&f).entries, 0);
    assert_int_equal(figures(&f).negative, 0);
    assert_int_equal(figures(&f).bytes, 0);
    assert_int_equal(figures(&f).evicted, 0);
    assert_int_equal(figures(&f).recovered, 0);

    fixture_free(&f);
}


int
main(void)
{
    static const struct CMUnitTest  tests[] = {
        cmocka_unit_test(fields_and_bytes),
        cmocka_unit_test(without_a_pool),
        cmocka_unit_test(stamps),
        cmocka_unit_test(data_of_a_known_stamp_is_not_copied),
        cmocka_unit_test(pool_has_no_memory),
        cmocka_unit_test(not_there),
        cmocka_unit_test(empty_value_and_names),
        cmocka_unit_test(scopes_are_apart),
        cmocka_unit_test(names_are_compared_in_full),
        cmocka_unit_test(same_hash),
        cmocka_unit_test(limits),
        cmocka_unit_test(replaced),
        cmocka_unit_test(same_bytes_again),
        cmocka_unit_test(positive_and_negative),
        cmocka_unit_test(longest_entry),
        cmocka_unit_test(longest_names),
        cmocka_unit_test(longest_negative),
        cmocka_unit_test(forgotten),
    };

    return cmocka_run_group_tests_name("nsf_shard", tests, NULL, NULL);
}
