/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <stdio.h>

#include "nsf_test_json.h"


int
nsf_json_setup(void **state)
{
    nsf_json_test_t  *ctx;

    ctx = malloc(sizeof(nsf_json_test_t));
    if (ctx == NULL) {
        return -1;
    }

    nsf_test_pool_init(&ctx->tp, 0);

    /* the decoder must not rely on what is in the target */

    memset(&ctx->t, 0xff, sizeof(nsf_target_t));

    *state = ctx;

    return 0;
}


int
nsf_json_teardown(void **state)
{
    nsf_json_test_t  *ctx;

    ctx = *state;

    nsf_test_pool_free(&ctx->tp);
    free(ctx);

    return 0;
}


const char *
decode_n(void **state, const void *json, size_t len)
{
    size_t            fail_at;
    const char       *err;
    nsf_target_t      zero;
    nsf_test_buf_t    buf;
    nsf_json_test_t  *ctx;

    ctx = *state;

    fail_at = ctx->tp.fail_at;
    nsf_test_pool_free(&ctx->tp);
    nsf_test_pool_init(&ctx->tp, fail_at);

    buf = nsf_test_copy(json, len);
    err = nsf_json_decode(&ctx->t, buf.data, buf.len, &ctx->tp.pool);
    nsf_test_free(&buf);

    if (err != NULL) {
        memset(&zero, 0, sizeof(nsf_target_t));
        assert_memory_equal(&ctx->t, &zero, sizeof(nsf_target_t));
    }

    return err;
}


const char *
decode(void **state, const char *json)
{
    return decode_n(state, json, strlen(json));
}


const char *
decode_f(void **state, const char *fmt, ...)
{
    int      n;
    char     json[512];
    va_list  args;

    va_start(args, fmt);
    n = vsnprintf(json, sizeof(json), fmt, args);
    va_end(args);

    assert_in_range(n, 0, sizeof(json) - 1);

    return decode_n(state, json, (size_t) n);
}


nsf_target_t *
target(void **state)
{
    nsf_json_test_t  *ctx;

    ctx = *state;

    return &ctx->t;
}


void
assert_header(void **state, size_t i, const char *name, const char *value)
{
    nsf_json_test_t     *ctx;
    const nsf_header_t  *h;

    ctx = *state;

    assert_true(i < ctx->t.nheaders);

    h = &ctx->t.headers[i];

    assert_int_equal(h->name.len, strlen(name));
    assert_memory_equal(h->name.data, name, strlen(name));
    assert_true(nsf_test_pool_owns(&ctx->tp, &h->name));

    assert_int_equal(h->value.len, strlen(value));

    if (h->value.len != 0) {
        assert_memory_equal(h->value.data, value, strlen(value));
        assert_true(nsf_test_pool_owns(&ctx->tp, &h->value));
    }
}
