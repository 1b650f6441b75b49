/*
 * Copyright (C) the ngx_sendfile authors
 */


#include "nsf_test.h"
#include "nsf_arena.h"


#define FIRST  10
#define LAST   110
#define ROOM   (LAST - FIRST)


typedef struct {
    nsf_arena_t          a;
    nsf_arena_state_t    state;
    uint64_t             memory[LAST];
} arena_t;


static void
arena_init(arena_t *t)
{
    memset(t, 0xa5, sizeof(arena_t));

    t->a.base = (unsigned char *) t->memory;
    t->a.state = &t->state;
    t->a.first = FIRST;
    t->a.last = LAST;

    nsf_arena_reset(&t->a);
}


static nsf_arena_block_t *
block(arena_t *t, uint32_t offset)
{
    return (nsf_arena_block_t *) (void *) &t->memory[offset];
}


static uint32_t
take(arena_t *t, uint32_t size)
{
    uint32_t  offset;

    assert_true(nsf_arena_fits(&t->a, size, 0));

    offset = nsf_arena_take(&t->a, size);

    assert_true(nsf_arena_sane(&t->a));
    assert_true(offset >= FIRST && offset + size <= LAST);
    assert_int_equal(block(t, offset)->size, size);
    assert_int_equal(block(t, offset)->state, NSF_ARENA_LIVE);

    return offset;
}


static uint32_t
drop(arena_t *t)
{
    uint32_t  offset;

    offset = nsf_arena_oldest(&t->a);
    assert_true(offset >= FIRST && offset < LAST);

    nsf_arena_drop(&t->a);
    assert_true(nsf_arena_sane(&t->a));

    return offset;
}


static void
empty(void **state)
{
    arena_t  t;

    (void) state;

    arena_init(&t);

    assert_true(nsf_arena_sane(&t.a));
    assert_int_equal(nsf_arena_oldest(&t.a), 0);

    assert_true(nsf_arena_fits(&t.a, ROOM, 0));
    assert_true(nsf_arena_fits(&t.a, ROOM - 5, 5));
    assert_false(nsf_arena_fits(&t.a, ROOM - 5, 6));
    assert_false(nsf_arena_fits(&t.a, ROOM + 1, 0));
    assert_false(nsf_arena_fits(&t.a, UINT32_MAX, UINT32_MAX));
}


static void
full(void **state)
{
    arena_t  t;

    (void) state;

    arena_init(&t);

    assert_int_equal(take(&t, ROOM), FIRST);
    assert_int_equal(t.state.used, ROOM);
    assert_false(nsf_arena_fits(&t.a, 1, 0));

    assert_int_equal(drop(&t), FIRST);
    assert_true(nsf_arena_fits(&t.a, ROOM, 0));
}


/* up to the very end there is no pad */

static void
exactly_to_the_end(void **state)
{
    arena_t  t;

    (void) state;

    arena_init(&t);

    assert_int_equal(take(&t, 30), FIRST);
    assert_int_equal(take(&t, 70), FIRST + 30);
    assert_int_equal(drop(&t), FIRST);

    assert_false(nsf_arena_fits(&t.a, 31, 0));
    assert_int_equal(take(&t, 30), FIRST);
    assert_false(nsf_arena_fits(&t.a, 1, 0));

    assert_int_equal(drop(&t), FIRST + 30);
    assert_int_equal(drop(&t), FIRST);
    assert_int_equal(t.state.used, 0);
}


static void
pad_at_the_end(void **state)
{
    arena_t  t;

    (void) state;

    arena_init(&t);

    assert_int_equal(take(&t, 40), FIRST);
    assert_int_equal(take(&t, 57), FIRST + 40);

    /* 3 are left at the end: in one piece only before the first is gone */

    assert_true(nsf_arena_fits(&t.a, 3, 0));
    assert_false(nsf_arena_fits(&t.a, 4, 0));

    assert_int_equal(drop(&t), FIRST);

    assert_true(nsf_arena_fits(&t.a, 40, 0));
    assert_false(nsf_arena_fits(&t.a, 41, 0));
    assert_true(nsf_arena_fits(&t.a, 4, 36));
    assert_false(nsf_arena_fits(&t.a, 4, 37));
    assert_true(nsf_arena_fits(&t.a, 3, 40));
    assert_false(nsf_arena_fits(&t.a, 3, 41));

    assert_int_equal(take(&t, 4), FIRST);
    assert_int_equal(t.state.used, 57 + 3 + 4);
    assert_int_equal(block(&t, LAST - 3)->state, NSF_ARENA_PAD);
    assert_int_equal(block(&t, LAST - 3)->size, 3);

    assert_int_equal(drop(&t), FIRST + 40);
    assert_int_equal(drop(&t), LAST - 3);
    assert_int_equal(drop(&t), FIRST);
    assert_int_equal(t.state.used, 0);
}


static void
pad_of_one_unit(void **state)
{
    arena_t  t;

    (void) state;

    arena_init(&t);

    (void) take(&t, 50);
    (void) take(&t, ROOM - 51);
    (void) drop(&t);

    assert_int_equal(take(&t, 2), FIRST);
    assert_int_equal(block(&t, LAST - 1)->state, NSF_ARENA_PAD);
    assert_int_equal(block(&t, LAST - 1)->size, 1);
}


/* an empty one begins at the start again, with all its room in one piece */

static void
begins_anew_when_empty(void **state)
{
    arena_t  t;

    (void) state;

    arena_init(&t);

    (void) take(&t, 60);
    (void) drop(&t);

    assert_true(nsf_arena_fits(&t.a, ROOM, 0));
    assert_int_equal(take(&t, ROOM), FIRST);
}


static void
states_that_cannot_be(void **state)
{
    size_t             i;
    arena_t            t;
    nsf_arena_state_t  good;

    static const nsf_arena_state_t  bad[] = {
        { FIRST - 1, FIRST, ROOM - 1, 0 },
        { LAST, FIRST, ROOM, 0 },
        { FIRST, FIRST - 1, 1, 0 },
        { FIRST, LAST, 0, 0 },
        { FIRST, FIRST, ROOM + 1, 0 },
        { FIRST, FIRST, 1, 0 },
        { FIRST + 20, FIRST, 19, 0 },
        { FIRST + 20, FIRST + 50, 71, 0 },
        { FIRST + 20, FIRST + 50, UINT32_MAX, 0 },
        { 0, 0, 0, 0 },
        { UINT32_MAX, UINT32_MAX, UINT32_MAX, 0 },
    };

    (void) state;

    arena_init(&t);

    (void) take(&t, 20);
    good = t.state;

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        t.state = bad[i];
        assert_false(nsf_arena_sane(&t.a));
    }

    t.state = good;
    assert_true(nsf_arena_sane(&t.a));
}


static void
oldest_is_nonsense(void **state)
{
    arena_t            t;
    nsf_arena_block_t  *b;

    (void) state;

    arena_init(&t);

    (void) take(&t, 20);
    (void) take(&t, 30);

    b = block(&t, FIRST);

    b->state = NSF_ARENA_DEAD;
    assert_int_equal(nsf_arena_oldest(&t.a), FIRST);

    /* a pad is at the end only */

    b->state = NSF_ARENA_PAD;
    assert_int_equal(nsf_arena_oldest(&t.a), 0);

    b->state = 0;
    assert_int_equal(nsf_arena_oldest(&t.a), 0);

    b->state = NSF_ARENA_LIVE;
    b->size = 0;
    assert_int_equal(nsf_arena_oldest(&t.a), 0);

    b->size = 51;
    assert_int_equal(nsf_arena_oldest(&t.a), 0);

    b->size = UINT32_MAX;
    assert_int_equal(nsf_arena_oldest(&t.a), 0);

    b->size = 50;
    assert_int_equal(nsf_arena_oldest(&t.a), FIRST);
}


/* over the end of the memory, though no longer than what is used */

static void
oldest_goes_over_the_end(void **state)
{
    arena_t  t;

    (void) state;

    arena_init(&t);

    (void) take(&t, 40);
    (void) take(&t, 60);
    (void) drop(&t);
    (void) take(&t, 40);

    assert_int_equal(nsf_arena_oldest(&t.a), FIRST + 40);

    block(&t, FIRST + 40)->size = 61;
    assert_int_equal(nsf_arena_oldest(&t.a), 0);
}


/* blocks are never in one another, and go in the order they came in */

static void
random_sizes(void **state)
{
    size_t    i, head, tail;
    arena_t   t;
    uint32_t  size, offset, j, wanted, random;

    static uint32_t  offsets[20000], sizes[20000];
    unsigned char    owner[LAST];

    (void) state;

    arena_init(&t);
    memset(owner, 0, sizeof(owner));

    head = 0;
    tail = 0;
    random = 1;

    for (i = 0; i < 20000; i++) {
        random = random * 1664525 + 1013904223;
        wanted = (i % 7 == 0) ? 40 : 12;
        size = 1 + (random >> 8) % wanted;

        while (!nsf_arena_fits(&t.a, size, (random >> 20) % 20)) {
            offset = drop(&t);

            if (block(&t, offset)->state == NSF_ARENA_PAD) {
                continue;
            }

            assert_true(tail < head);
            assert_int_equal(offset, offsets[tail]);

            for (j = 0; j < sizes[tail]; j++) {
                owner[offset + j] = 0;
            }

            tail++;
        }

        offset = take(&t, size);

        for (j = 0; j < size; j++) {
            assert_int_equal(owner[offset + j], 0);
            owner[offset + j] = 1;
        }

        offsets[head] = offset;
        sizes[head] = size;
        head++;
    }

    /* what lies before it was left alone */

    for (i = 0; i < FIRST; i++) {
        assert_true(t.memory[i] == UINT64_C(0xa5a5a5a5a5a5a5a5));
    }
}


int
main(void)
{
    static const struct CMUnitTest  tests[] = {
        cmocka_unit_test(empty),
        cmocka_unit_test(full),
        cmocka_unit_test(exactly_to_the_end),
        cmocka_unit_test(pad_at_the_end),
        cmocka_unit_test(pad_of_one_unit),
        cmocka_unit_test(begins_anew_when_empty),
        cmocka_unit_test(states_that_cannot_be),
        cmocka_unit_test(oldest_is_nonsense),
        cmocka_unit_test(oldest_goes_over_the_end),
        cmocka_unit_test(random_sizes),
    };

    return cmocka_run_group_tests_name("nsf_arena", tests, NULL, NULL);
}
