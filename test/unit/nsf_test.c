/*
 * Copyright (C) the ngx_sendfile authors
 */


#include "nsf_test.h"


static void *nsf_test_alloc(void *ctx, size_t size);


nsf_test_buf_t
nsf_test_copy(const void *data, size_t len)
{
    nsf_test_buf_t  buf;

    /* malloc(0) would give a byte that may be read unnoticed */

    buf.memory = malloc(len + 1);
    assert_non_null(buf.memory);

    buf.data = (unsigned char *) buf.memory + 1;
    buf.len = len;

    if (len != 0) {
        memcpy(buf.data, data, len);
    }

    return buf;
}


void
nsf_test_free(nsf_test_buf_t *buf)
{
    free(buf->memory);
    memset(buf, 0, sizeof(nsf_test_buf_t));
}


void
nsf_test_pool_init(nsf_test_pool_t *tp, size_t fail_at)
{
    memset(tp, 0, sizeof(nsf_test_pool_t));

    tp->pool.alloc = nsf_test_alloc;
    tp->pool.ctx = tp;
    tp->fail_at = fail_at;
}


void
nsf_test_pool_free(nsf_test_pool_t *tp)
{
    size_t  i;

    for (i = 0; i < tp->nblocks; i++) {
        free(tp->blocks[i]);
    }

    memset(tp, 0, sizeof(nsf_test_pool_t));
}


int
nsf_test_pool_owns(const nsf_test_pool_t *tp, const nsf_str_t *s)
{
    size_t     i;
    uintptr_t  p, start;

    p = (uintptr_t) s->data;

    for (i = 0; i < tp->nblocks; i++) {
        start = (uintptr_t) tp->blocks[i];

        if (p >= start && p + s->len <= start + tp->sizes[i]) {
            return 1;
        }
    }

    return 0;
}


static void *
nsf_test_alloc(void *ctx, size_t size)
{
    void             *p;
    nsf_test_pool_t  *tp;

    tp = ctx;
    tp->calls++;

    if (tp->calls == tp->fail_at) {
        return NULL;
    }

    assert_true(size > 0);
    assert_true(tp->nblocks < NSF_TEST_BLOCKS);

    p = malloc(size);
    assert_non_null(p);

    /* so that a byte left unset shows */

    memset(p, 0xa5, size);

    tp->blocks[tp->nblocks] = p;
    tp->sizes[tp->nblocks] = size;
    tp->nblocks++;

    return p;
}


void
_nsf_assert_error(const char *err, const char *expected, const char *file,
    int line)
{
    if (err == NULL && expected == NULL) {
        return;
    }

    if (err == NULL || expected == NULL || strcmp(err, expected) != 0) {
        print_error("error is \"%s\", expected \"%s\"\n",
                    err == NULL ? "(none)" : err,
                    expected == NULL ? "(none)" : expected);
        _fail(file, line);
    }
}
