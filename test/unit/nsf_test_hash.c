/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <openssl/evp.h>
#include <zlib.h>

#include "nsf_test.h"
#include "nsf_test_hash.h"


static void nsf_test_sha1(unsigned char out[20], const void *p, size_t len);
static void nsf_test_md5(unsigned char out[16], const void *p, size_t len);
static uint32_t nsf_test_crc32(const void *p, size_t len);


const nsf_hashes_t  nsf_test_hashes = {
    nsf_test_sha1,
    nsf_test_md5,
    nsf_test_crc32
};


static void
nsf_test_sha1(unsigned char out[20], const void *p, size_t len)
{
    assert_int_equal(EVP_Digest(p, len, out, NULL, EVP_sha1(), NULL), 1);
}


static void
nsf_test_md5(unsigned char out[16], const void *p, size_t len)
{
    assert_int_equal(EVP_Digest(p, len, out, NULL, EVP_md5(), NULL), 1);
}


static uint32_t
nsf_test_crc32(const void *p, size_t len)
{
    return (uint32_t) crc32(0, p, (uInt) len);
}
