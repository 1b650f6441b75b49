/*
 * Copyright (C) the ngx_sendfile authors
 */


#include "nsf_test.h"
#include "nsf_siphash.h"


/*
 * Key 00 01 .. 0f, n bytes 00 01 ..; made by another implementation:
 *
 *     openssl mac -macopt hexkey:000102030405060708090a0b0c0d0e0f \
 *         -macopt size:8 -in FILE SIPHASH
 *
 * (OpenSSL 3.0), which prints the eight bytes, the lowest first.  That of 15
 * bytes is the example in the paper of Aumasson and Bernstein.
 */

static const uint64_t  vectors[64] = {
    UINT64_C(0x726fdb47dd0e0e31), UINT64_C(0x74f839c593dc67fd),
    UINT64_C(0x0d6c8009d9a94f5a), UINT64_C(0x85676696d7fb7e2d),
    UINT64_C(0xcf2794e0277187b7), UINT64_C(0x18765564cd99a68d),
    UINT64_C(0xcbc9466e58fee3ce), UINT64_C(0xab0200f58b01d137),
    UINT64_C(0x93f5f5799a932462), UINT64_C(0x9e0082df0ba9e4b0),
    UINT64_C(0x7a5dbbc594ddb9f3), UINT64_C(0xf4b32f46226bada7),
    UINT64_C(0x751e8fbc860ee5fb), UINT64_C(0x14ea5627c0843d90),
    UINT64_C(0xf723ca908e7af2ee), UINT64_C(0xa129ca6149be45e5),
    UINT64_C(0x3f2acc7f57c29bdb), UINT64_C(0x699ae9f52cbe4794),
    UINT64_C(0x4bc1b3f0968dd39c), UINT64_C(0xbb6dc91da77961bd),
    UINT64_C(0xbed65cf21aa2ee98), UINT64_C(0xd0f2cbb02e3b67c7),
    UINT64_C(0x93536795e3a33e88), UINT64_C(0xa80c038ccd5ccec8),
    UINT64_C(0xb8ad50c6f649af94), UINT64_C(0xbce192de8a85b8ea),
    UINT64_C(0x17d835b85bbb15f3), UINT64_C(0x2f2e6163076bcfad),
    UINT64_C(0xde4daaaca71dc9a5), UINT64_C(0xa6a2506687956571),
    UINT64_C(0xad87a3535c49ef28), UINT64_C(0x32d892fad841c342),
    UINT64_C(0x7127512f72f27cce), UINT64_C(0xa7f32346f95978e3),
    UINT64_C(0x12e0b01abb051238), UINT64_C(0x15e034d40fa197ae),
    UINT64_C(0x314dffbe0815a3b4), UINT64_C(0x027990f029623981),
    UINT64_C(0xcadcd4e59ef40c4d), UINT64_C(0x9abfd8766a33735c),
    UINT64_C(0x0e3ea96b5304a7d0), UINT64_C(0xad0c42d6fc585992),
    UINT64_C(0x187306c89bc215a9), UINT64_C(0xd4a60abcf3792b95),
    UINT64_C(0xf935451de4f21df2), UINT64_C(0xa9538f0419755787),
    UINT64_C(0xdb9acddff56ca510), UINT64_C(0xd06c98cd5c0975eb),
    UINT64_C(0xe612a3cb9ecba951), UINT64_C(0xc766e62cfcadaf96),
    UINT64_C(0xee64435a9752fe72), UINT64_C(0xa192d576b245165a),
    UINT64_C(0x0a8787bf8ecb74b2), UINT64_C(0x81b3e73d20b49b6f),
    UINT64_C(0x7fa8220ba3b2ecea), UINT64_C(0x245731c13ca42499),
    UINT64_C(0xb78dbfaf3a8d83bd), UINT64_C(0xea1ad565322a1a0b),
    UINT64_C(0x60e61c23a3795013), UINT64_C(0x6606d7e446282b93),
    UINT64_C(0x6ca4ecb15c5f91e1), UINT64_C(0x9f626da15c9625f3),
    UINT64_C(0xe51b38608ef25f57), UINT64_C(0x958a324ceb064572),
};


/* the same with key f0 f1 .. ff, and bytes 03 0a 11 .., each 7 more */

static const struct {
    size_t    len;
    uint64_t  hash;
} longer[] = {
    { 255, UINT64_C(0x0bc791f0da1ae4a3) },
    { 256, UINT64_C(0x4159dac85d788e41) },
    { 257, UINT64_C(0x34889d99b6e38863) },
    { 1000, UINT64_C(0xe367a9245b424e47) },
};


static const uint64_t  key[2] = {
    UINT64_C(0x0706050403020100),
    UINT64_C(0x0f0e0d0c0b0a0908),
};


static const uint64_t  other[2] = {
    UINT64_C(0xf7f6f5f4f3f2f1f0),
    UINT64_C(0xfffefdfcfbfaf9f8),
};


/* the copy is not aligned, and ends where its memory does */

static uint64_t
hash(const uint64_t k[2], const void *data, size_t len)
{
    uint64_t        h;
    nsf_test_buf_t  buf;

    buf = nsf_test_copy(data, len);
    h = nsf_siphash(k, buf.data, buf.len);
    nsf_test_free(&buf);

    return h;
}


static void
each_length(void **state)
{
    size_t         i;
    unsigned char  data[64];

    (void) state;

    for (i = 0; i < 64; i++) {
        data[i] = (unsigned char) i;
    }

    for (i = 0; i < 64; i++) {
        assert_true(hash(key, data, i) == vectors[i]);
    }
}


/* of the length only the low byte counts */

static void
long_data(void **state)
{
    size_t         i;
    unsigned char  data[1000];

    (void) state;

    for (i = 0; i < sizeof(data); i++) {
        data[i] = (unsigned char) (i * 7 + 3);
    }

    for (i = 0; i < sizeof(longer) / sizeof(longer[0]); i++) {
        assert_true(longer[i].len <= sizeof(data));
        assert_true(hash(other, data, longer[i].len) == longer[i].hash);
    }
}


static void
no_data(void **state)
{
    (void) state;

    assert_true(nsf_siphash(key, NULL, 0) == vectors[0]);
}


/* each bit of the key, each bit of the data, and its length count */

static void
all_bits_count(void **state)
{
    size_t         i, j;
    uint64_t       h, k[2];
    unsigned char  data[21];

    (void) state;

    memset(data, 0, sizeof(data));
    h = hash(key, data, sizeof(data));

    for (i = 0; i < 128; i++) {
        k[0] = key[0];
        k[1] = key[1];
        k[i / 64] ^= UINT64_C(1) << i % 64;

        assert_true(hash(k, data, sizeof(data)) != h);
    }

    for (i = 0; i < sizeof(data); i++) {
        for (j = 0; j < 8; j++) {
            data[i] = (unsigned char) (1 << j);
            assert_true(hash(key, data, sizeof(data)) != h);
        }

        data[i] = 0;
        assert_true(hash(key, data, i) != h);
    }
}


int
main(void)
{
    static const struct CMUnitTest  tests[] = {
        cmocka_unit_test(each_length),
        cmocka_unit_test(long_data),
        cmocka_unit_test(no_data),
        cmocka_unit_test(all_bits_count),
    };

    return cmocka_run_group_tests_name("nsf_siphash", tests, NULL, NULL);
}
