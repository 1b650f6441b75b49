/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <stdio.h>

#include "nsf_test.h"
#include "nsf_test_vectors.h"


#define NSF_TEST_MAX_TEXT  65536


void
nsf_test_vectors(nsf_test_vectors_t *v, const char *name, size_t nfields,
    size_t nrows)
{
    char    *p, *end, path[4096];
    FILE    *file;
    size_t   i, len;

    memset(v, 0, sizeof(nsf_test_vectors_t));

    len = (size_t) snprintf(path, sizeof(path), "%s/%s", NSF_TEST_VECTORS,
                            name);
    assert_true(len < sizeof(path));

    file = fopen(path, "r");
    assert_non_null(file);

    v->text = malloc(NSF_TEST_MAX_TEXT);
    assert_non_null(v->text);

    len = fread(v->text, 1, NSF_TEST_MAX_TEXT - 1, file);
    assert_true(len > 0 && len < NSF_TEST_MAX_TEXT - 1);
    assert_int_equal(fclose(file), 0);

    v->text[len] = '\0';
    end = v->text + len;

    for (p = v->text; p < end; v->nrows++) {
        assert_true(v->nrows < NSF_TEST_ROWS);

        for (i = 0; i < nfields; i++) {
            v->rows[v->nrows][i] = p;

            p += strcspn(p, "\t\n");
            assert_int_equal(*p, (i == nfields - 1) ? '\n' : '\t');

            *p++ = '\0';
        }
    }

    assert_int_equal(v->nrows, nrows);
}


void
nsf_test_vectors_free(nsf_test_vectors_t *v)
{
    free(v->text);
    memset(v, 0, sizeof(nsf_test_vectors_t));
}


size_t
nsf_test_column(const nsf_test_vectors_t *v, const char *name)
{
    size_t  i;

    for (i = 0; i < NSF_TEST_FIELDS && v->rows[0][i] != NULL; i++) {

        if (strcmp(v->rows[0][i], name) == 0) {
            return i;
        }
    }

    fail_msg("no column %s", name);

    return 0;
}


size_t
nsf_test_unhex(char *hex)
{
    char    byte[3];
    size_t  i, n;

    n = strlen(hex) / 2;
    byte[2] = '\0';

    for (i = 0; i < n; i++) {
        assert_int_equal(strspn(&hex[2 * i], "0123456789abcdef") >= 2, 1);

        memcpy(byte, &hex[2 * i], 2);
        hex[i] = (char) strtoul(byte, NULL, 16);
    }

    return n;
}


size_t
nsf_test_unescape(char *field, unsigned char *dst, size_t size)
{
    char           *p, *end;
    size_t          i, n, len, repeat;
    const void     *text;
    unsigned char   byte;

    n = 0;

    for (p = field; *p != '\0'; p = end) {
        repeat = 1;

        if (p[0] == '%' && p[1] == '{') {
            repeat = strtoul(p + 2, &end, 10);
            assert_int_equal(*end, ' ');

            text = end + 1;
            len = strcspn(text, "}");
            end += 1 + len + 1;

        } else if (p[0] == '%') {
            assert_int_equal(sscanf(p + 1, "%2hhx", &byte), 1);

            text = &byte;
            len = 1;
            end = p + 3;

        } else {
            text = p;
            len = strcspn(p, "%");
            end = p + len;
        }

        assert_true(len * repeat <= size - n);

        for (i = 0; i < repeat; i++) {
            memcpy(dst + n, text, len);
            n += len;
        }
    }

    return n;
}
