/*
 * Copyright (C) the ngx_sendfile authors
 */


#include "nsf_test_pack.h"


nsf_pack_test_t     pt;

const nsf_str_t     pack_path = pack_str("aa/aa.dat");
const nsf_str_t     pack_type = pack_str("image/svg+xml");
const nsf_str_t     pack_name = pack_str("\xe5\x86\x99\xe7\x9c\x9f.svg");

static const nsf_header_t  pair[] = {
    { pack_str("ETag"), pack_str("\"1\"") },
    { pack_str("Cache-Control"), pack_str("public,\tmax-age=60") }
};


int
nsf_pack_setup(void **state)
{
    (void) state;

    memset(&pt.t, 0, sizeof(nsf_target_t));
    pt.t.path = pack_path;

    memset(&pt.back, 0xff, sizeof(nsf_target_t));

    nsf_test_pool_init(&pt.pool, 0);

    return 0;
}


int
nsf_pack_teardown(void **state)
{
    (void) state;

    nsf_test_pool_free(&pt.pool);

    return 0;
}


nsf_header_t *
pack_headers(size_t n)
{
    size_t  i;

    for (i = 0; i < n; i++) {
        pt.headers[i] = pair[i % 2];
    }

    pt.t.headers = pt.headers;
    pt.t.nheaders = n;

    return pt.headers;
}


void
pack_everything(void)
{
    pt.t.type = pack_type;
    pt.t.name = pack_name;
    pt.t.disposition = NSF_DISPOSITION_ATTACHMENT;
    pt.t.expires = 1795158525;
    pt.t.valid_until = 1795158526;
    (void) pack_headers(2);
}


nsf_test_buf_t
pack(void)
{
    unsigned char   *bytes;
    nsf_test_buf_t   buf;

    /* a byte too far is seen by the sanitizer; none may be left out either */

    bytes = malloc(nsf_pack_size(&pt.t));
    assert_non_null(bytes);
    memset(bytes, 0xa5, nsf_pack_size(&pt.t));

    nsf_pack(bytes, &pt.t);
    buf = nsf_test_copy(bytes, nsf_pack_size(&pt.t));

    memset(bytes, 0x5a, buf.len);
    nsf_pack(bytes, &pt.t);
    assert_memory_equal(bytes, buf.data, buf.len);

    free(bytes);

    return buf;
}


const char *
unpack_at(const unsigned char *bytes, size_t len, size_t fail_at)
{
    const char    *err;
    nsf_target_t   none;

    nsf_test_pool_free(&pt.pool);
    nsf_test_pool_init(&pt.pool, fail_at);

    memset(&pt.back, 0xff, sizeof(nsf_target_t));

    err = nsf_unpack(&pt.back, bytes, len, &pt.pool.pool);

    if (err != NULL) {
        memset(&none, 0, sizeof(nsf_target_t));
        assert_memory_equal(&pt.back, &none, sizeof(nsf_target_t));
    }

    return err;
}


const char *
unpack(const void *bytes, size_t len)
{
    const char      *err;
    nsf_test_buf_t   buf;

    buf = nsf_test_copy(bytes, len);
    err = unpack_at(buf.data, buf.len, 0);
    nsf_test_free(&buf);

    return err;
}
