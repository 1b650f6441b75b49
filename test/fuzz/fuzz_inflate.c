/*
 * Copyright (C) the ngx_sendfile authors
 *
 * nsf_inflate(), nsf_fastlz(): one byte that chooses, two of the size for
 * FastLZ, the data.
 */


#include <zlib.h>

#include "fuzz.h"
#include "nsf_inflate.h"


#define MAX  65536


static unsigned char  plain[MAX + 1];
static unsigned char  packed[2 * MAX];


/* against zlib's own function, which knows no gzip */

static void
fuzz_zlib(const unsigned char *p, size_t len, size_t fail_at)
{
    int           rc;
    uLong         taken;
    uLongf        n;
    nsf_str_t     out;
    const char   *err;
    fuzz_pool_t   fp;

    fuzz_pool_init(&fp, fail_at);

    err = nsf_inflate(&out, p, len, &fp.pool);

    if (err != NULL) {
        fuzz_check_error(err);
        fuzz_require(fp.calls <= 1);

    } else {
        fuzz_require(out.len <= MAX);
        fuzz_require(out.len == 0 ? fp.nblocks == 0
                                  : fuzz_pool_owns(&fp, &out));
        fuzz_require(out.len == 0 || fp.sizes[0] == out.len);
    }

    if (!nsf_inflate_is_gzip(p, len) && fail_at == 0) {
        n = MAX + 1;
        taken = len;
        rc = uncompress2(plain, &n, p, &taken);

        fuzz_require((err == NULL)
                     == (rc == Z_OK && n <= MAX && taken == len));

        if (err == NULL) {
            fuzz_require(out.len == n);
            fuzz_require(n == 0 || memcmp(out.data, plain, n) == 0);
        }
    }

    fuzz_pool_free(&fp);
}


/* what was packed comes back */

static void
fuzz_again(const unsigned char *p, size_t len)
{
    void           *memory;
    uLongf          n;
    nsf_str_t       out;
    fuzz_pool_t     fp;
    unsigned char  *copy;

    n = sizeof(packed);
    fuzz_require(compress(packed, &n, p, len) == Z_OK);

    copy = fuzz_copy(packed, n, &memory);
    fuzz_pool_init(&fp, 0);

    fuzz_require(nsf_inflate_is_zlib(copy, n));
    fuzz_require(nsf_inflate(&out, copy, n, &fp.pool) == NULL);
    fuzz_require(out.len == len);
    fuzz_require(len == 0 || memcmp(out.data, p, len) == 0);

    fuzz_pool_free(&fp);
    free(memory);
}


static void
fuzz_fastlz(const unsigned char *p, size_t len, size_t size, size_t fail_at)
{
    nsf_str_t     out;
    const char   *err;
    fuzz_pool_t   fp;

    fuzz_pool_init(&fp, fail_at);

    err = nsf_fastlz(&out, size, p, len, &fp.pool);

    if (err != NULL) {
        fuzz_check_error(err);

    } else {
        fuzz_require(out.len == size && size > 0);
        fuzz_require(fuzz_pool_owns(&fp, &out));
        fuzz_require(p[0] < 32);

        /* the first literals are what the output starts with */

        fuzz_require(out.len > p[0]
                     && memcmp(out.data, p + 1, (size_t) p[0] + 1) == 0);
    }

    fuzz_pool_free(&fp);
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    void           *memory;
    size_t          len, says;
    unsigned char  *p;

    if (size < 3) {
        return 0;
    }

    says = data[1] | (size_t) data[2] << 8;
    len = size - 3;
    p = fuzz_copy(data + 3, len, &memory);

    switch (data[0] & 3) {

    case 0:
        fuzz_zlib(p, len, data[0] >> 7);
        break;

    case 1:
        fuzz_again(p, len);
        break;

    default:
        fuzz_fastlz(p, len, says, data[0] >> 7);
        break;
    }

    free(memory);

    return 0;
}
