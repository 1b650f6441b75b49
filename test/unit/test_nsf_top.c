/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <stdio.h>

#include "nsf_test.h"
#include "nsf_top.h"


#define NOW  UINT64_C(1000000)


static void
add(nsf_top_t *top, uint32_t group, const char *text, uint64_t weight,
    uint64_t now)
{
    nsf_str_t       name;
    nsf_test_buf_t  buf;

    buf = nsf_test_copy(text, strlen(text));

    name.data = buf.data;
    name.len = buf.len;

    nsf_top_add(top, group, &name, weight, now);

    nsf_test_free(&buf);
}


static nsf_top_entry_t *
find(nsf_top_t *top, const char *text)
{
    size_t  i;

    for (i = 0; i < NSF_TOP_ENTRIES; i++) {
        if (top->entries[i].hash
            && top->entries[i].len == strlen(text)
            && memcmp(top->entries[i].name, text, strlen(text)) == 0)
        {
            return &top->entries[i];
        }
    }

    return NULL;
}


static void
counts_and_order(void **state)
{
    nsf_top_t  top;

    (void) state;

    memset(&top, 0, sizeof(nsf_top_t));

    assert_int_equal(nsf_top_sort(&top), 0);

    add(&top, 1, "a", 1, NOW);
    add(&top, 1, "b", 3, NOW);
    add(&top, 1, "a", 1, NOW);
    add(&top, 2, "a", 1, NOW);

    assert_int_equal(nsf_top_requests(top.total), 6);
    assert_int_equal(nsf_top_sort(&top), 3);

    assert_memory_equal(top.entries[0].name, "b", 1);
    assert_int_equal(nsf_top_requests(top.entries[0].count), 3);
    assert_int_equal(top.entries[1].group, 1);
    assert_int_equal(nsf_top_requests(top.entries[1].count), 2);
    assert_int_equal(top.entries[2].group, 2);
    assert_int_equal(top.entries[2].error, 0);
}


static void
counts_halve(void **state)
{
    nsf_top_t  top;

    (void) state;

    memset(&top, 0, sizeof(nsf_top_t));

    add(&top, 1, "a", 8, NOW);
    add(&top, 1, "b", 1, NOW);

    nsf_top_halve(&top, NOW + NSF_TOP_HALF - 1);
    assert_int_equal(nsf_top_requests(find(&top, "a")->count), 8);

    nsf_top_halve(&top, NOW + NSF_TOP_HALF);
    assert_int_equal(nsf_top_requests(find(&top, "a")->count), 4);
    assert_int_equal(nsf_top_requests(top.total), 4);
    assert_null(find(&top, "b"));

    /* nothing of what is due is lost or done twice */

    nsf_top_halve(&top, NOW + NSF_TOP_HALF + 1);
    nsf_top_halve(&top, NOW + 3 * NSF_TOP_HALF);
    assert_int_equal(nsf_top_requests(find(&top, "a")->count), 1);

    add(&top, 1, "b", 5, NOW + 1000 * NSF_TOP_HALF);
    assert_null(find(&top, "a"));
    assert_int_equal(nsf_top_requests(top.total), 5);
}


static void
clock_that_is_set_back(void **state)
{
    nsf_top_t  top;

    (void) state;

    memset(&top, 0, sizeof(nsf_top_t));

    add(&top, 1, "a", 8, NOW);
    nsf_top_halve(&top, NOW - 500);
    assert_int_equal(nsf_top_requests(find(&top, "a")->count), 8);

    nsf_top_halve(&top, NOW - 500 + NSF_TOP_HALF);
    assert_int_equal(nsf_top_requests(find(&top, "a")->count), 4);
}


/*
 * What the algorithm promises, for any order of names: a count is never too
 * low, at most "error" too high, and who has more than a NSF_TOP_ENTRIES-th
 * is there.
 */

static void
promises(void **state)
{
    char             text[16];
    uint64_t         n, seed, truth[400];
    nsf_top_t        top;
    nsf_top_entry_t *e;

    (void) state;

    memset(&top, 0, sizeof(nsf_top_t));
    memset(truth, 0, sizeof(truth));

    seed = 20261123;

    for (n = 0; n < 20000; n++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;

        /* one in eight for 0, the rest for all */

        uint64_t  which = ((seed >> 60) < 2) ? 0 : (seed >> 33) % 400;

        truth[which]++;
        (void) snprintf(text, sizeof(text), "id%u", (unsigned) which);
        add(&top, 1, text, 1, NOW);
    }

    for (n = 0; n < 400; n++) {
        (void) snprintf(text, sizeof(text), "id%u", (unsigned) n);
        e = find(&top, text);

        if (truth[n] > 20000 / NSF_TOP_ENTRIES) {
            assert_non_null(e);
        }

        if (e) {
            assert_true(nsf_top_requests(e->count) >= truth[n]);
            assert_true(nsf_top_requests(e->count - e->error) <= truth[n]);
        }
    }

    assert_int_equal(nsf_top_sort(&top), NSF_TOP_ENTRIES);
    assert_memory_equal(top.entries[0].name, "id0", 3);
}


static void
longest_name(void **state)
{
    char       text[NSF_MAX_KEY + 1];
    nsf_top_t  top;

    (void) state;

    memset(&top, 0, sizeof(nsf_top_t));
    memset(text, 'x', NSF_MAX_KEY);
    text[NSF_MAX_KEY] = '\0';

    add(&top, 1, text, 1, NOW);
    assert_non_null(find(&top, text));
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(counts_and_order),
        cmocka_unit_test(counts_halve),
        cmocka_unit_test(clock_that_is_set_back),
        cmocka_unit_test(promises),
        cmocka_unit_test(longest_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
