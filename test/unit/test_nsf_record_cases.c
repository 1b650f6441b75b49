/*
 * Copyright (C) the ngx_sendfile authors
 *
 * The cases that sendfilectl and the gem have as well: test/vectors.
 */


#include <stdio.h>

#include "nsf_test.h"
#include "nsf_test_vectors.h"
#include "nsf_header.h"
#include "nsf_record.h"


#define CASES  212

/* what a case decodes to is in the columns after this one, in this order */

#define NGINX  2


static nsf_test_vectors_t  v;
static unsigned char       field[NSF_MAX_VALUE + 1];


static int
setup(void **state)
{
    (void) state;

    nsf_test_vectors(&v, "records.tsv", NSF_TEST_FIELDS, CASES + 1);

    return 0;
}


static int
teardown(void **state)
{
    (void) state;

    nsf_test_vectors_free(&v);

    return 0;
}


static void
assert_field(char *expected, const nsf_str_t *s)
{
    size_t  len;

    len = nsf_test_unescape(expected, field, sizeof(field));

    assert_int_equal(s->len, len);

    if (len != 0) {
        assert_memory_equal(s->data, field, len);
    }
}


/* "Name: value" for each header, in any order, with line feeds between */

static void
assert_headers(char *expected, const nsf_target_t *t)
{
    size_t               i, n, len, line, found;
    unsigned char       *p, *end;
    const nsf_header_t  *h;

    len = nsf_test_unescape(expected, field, sizeof(field));
    end = field + len;
    n = 0;

    for (p = field; p < end; p += line + 1) {
        line = 0;

        while (p + line < end && p[line] != '\n') {
            line++;
        }

        found = 0;

        for (i = 0; i < t->nheaders; i++) {
            h = &t->headers[i];

            found += h->name.len + 2 + h->value.len == line
                     && memcmp(p, h->name.data, h->name.len) == 0
                     && memcmp(p + h->name.len, ": ", 2) == 0
                     && (h->value.len == 0
                         || memcmp(p + h->name.len + 2, h->value.data,
                                   h->value.len)
                            == 0);
        }

        assert_int_equal(found, 1);
        n++;
    }

    assert_int_equal(t->nheaders, n);
}


static void
assert_decoded(char **row, const nsf_target_t *t)
{
    char  text[32];

    static const char  *dispositions[] = {
        "", "inline", "attachment", "inline"
    };

    assert_field(row[NGINX + 1], &t->path);
    assert_field(row[NGINX + 2], &t->type);
    assert_field(row[NGINX + 3], &t->name);

    assert_string_equal(row[NGINX + 4], dispositions[t->disposition]);

    text[0] = '\0';

    if (t->expires != 0) {
        snprintf(text, sizeof(text), "%lld", (long long) t->expires);
    }

    assert_string_equal(row[NGINX + 5], text);

    assert_headers(row[NGINX + 6], t);
}


static void
record_cases(void **state)
{
    char             **row, expected[128];
    size_t             i, len, taken;
    const char        *err;
    nsf_target_t       t;
    nsf_test_buf_t     buf;
    nsf_test_pool_t    tp;

    (void) state;

    assert_string_equal(v.rows[0][NGINX], "nginx");

    taken = 0;

    for (i = 1; i < v.nrows; i++) {
        row = v.rows[i];

        len = nsf_test_unescape(row[1], field, sizeof(field));
        buf = nsf_test_copy(field, len);
        nsf_test_pool_init(&tp, 0);

        err = nsf_record_decode(&t, NSF_FORMAT_AUTO, 0, buf.data, buf.len,
                                &tp.pool);

        snprintf(expected, sizeof(expected), "%s%s", err ? "refuses " : "takes",
                 err ? err : "");

        if (strcmp(row[NGINX], expected) != 0) {
            fail_msg("%s: %s, not %s", row[0], expected, row[NGINX]);
        }

        if (err == NULL) {
            assert_decoded(row, &t);
            taken++;
        }

        nsf_test_pool_free(&tp);
        nsf_test_free(&buf);
    }

    /* a table that takes all, or nothing, would prove little */

    assert_in_range(taken, CASES / 4, 3 * CASES / 4);
}


/* the list is the one of the case, neither more nor fewer names */

static void
record_header_names(void **state)
{
    char        **row;
    size_t        i, n;
    nsf_str_t     line;
    const char   *p;

    (void) state;

    row = NULL;

    for (i = 1; i < v.nrows; i++) {

        if (strcmp(v.rows[i][0], "the white-list") == 0) {
            row = v.rows[i];
        }
    }

    assert_non_null(row);

    p = row[NGINX + 6];

    for (n = 0; *p != '\0'; n++) {
        assert_non_null(nsf_header_names[n].data);

        line.data = (const unsigned char *) p;
        line.len = strcspn(p, ":");

        assert_int_equal(line.len, nsf_header_names[n].len);
        assert_memory_equal(line.data, nsf_header_names[n].data, line.len);

        p += strcspn(p, "%");
        p += *p ? sizeof("%0a") - 1 : 0;
    }

    assert_null(nsf_header_names[n].data);
}


int
main(void)
{
    static const struct CMUnitTest  tests[] = {
        cmocka_unit_test_setup_teardown(record_cases, setup, teardown),
        cmocka_unit_test_setup_teardown(record_header_names, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
