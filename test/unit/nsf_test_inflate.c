/*
 * Copyright (C) the ngx_sendfile authors
 */


#define ZLIB_CONST
#include <zlib.h>

#include "nsf_test_inflate.h"


static void *nsf_test_calloc(size_t n, size_t size);
static void nsf_test_release(void *p);


nsf_test_zlib_t  nsf_test_zlib;


size_t
nsf_test_deflate(unsigned char *dst, size_t size, int format,
    const void *data, size_t len)
{
    z_stream  z;

    memset(&z, 0, sizeof(z_stream));

    assert_int_equal(deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED,
                                  format, 8, Z_DEFAULT_STRATEGY), Z_OK);

    z.next_in = data;
    z.avail_in = (uInt) len;
    z.next_out = dst;
    z.avail_out = (uInt) size;

    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    assert_int_equal(deflateEnd(&z), Z_OK);

    return size - z.avail_out;
}


static void *
nsf_test_calloc(size_t n, size_t size)
{
    void  *p;

    if (++nsf_test_zlib.nalloc == nsf_test_zlib.fail_at) {
        return NULL;
    }

    p = calloc(n, size);
    assert_non_null(p);

    return p;
}


static void
nsf_test_release(void *p)
{
    nsf_test_zlib.nfree++;
    free(p);
}


/* the same code under another name and with another memory */

#define nsf_inflate          nsf_test_inflate
#define nsf_inflate_is_zlib  nsf_test_inflate_is_zlib
#define nsf_inflate_is_gzip  nsf_test_inflate_is_gzip
#define nsf_fastlz           nsf_test_fastlz
#define calloc               nsf_test_calloc
#define free                 nsf_test_release

#include "nsf_inflate.c"
