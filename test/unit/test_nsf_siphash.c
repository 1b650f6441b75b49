/*
 * Copyright (C) the ngx_sendfile authors
 */


#include "nsf_test.h"
#include "nsf_siphash.h"


/*
 * Key 00 01 .. 0f, n bytes 00 01 ..; made by another implementation:
 *
 *     openssl mac -macopt hexkey:000102030405060708090a0b0c0d0e0f \
 *         -macopt size:8 -macopt c-rounds:1 -macopt d-rounds:3 \
 *         -in FILE SIPHASH
 *
 * (OpenSSL 3.0), which prints the eight bytes, the lowest first.
 */

static const uint64_t  vectors[64] = {
    UINT64_C(0xabac0158050fc4dc), UINT64_C(0xc9f49bf37d57ca93),
    UINT64_C(0x82cb9b024dc7d44d), UINT64_C(0x8bf80ab8e7ddf7fb),
    UINT64_C(0xcf75576088d38328), UINT64_C(0xdef9d52f49533b67),
    UINT64_C(0xc50d2b50c59f22a7), UINT64_C(0xd3927d989bb11140),
    UINT64_C(0x369095118d299a8e), UINT64_C(0x25a48eb36c063de4),
    UINT64_C(0x79de85ee92ff097f), UINT64_C(0x70c118c1f94dc352),
    UINT64_C(0x78a384b157b4d9a2), UINT64_C(0x306f760c1229ffa7),
    UINT64_C(0x605aa111c0f95d34), UINT64_C(0xd320d86d2a519956),
    UINT64_C(0xcc4fdd1a7d908b66), UINT64_C(0x9cf2689063dbd80c),
    UINT64_C(0x8ffc389cb473e63e), UINT64_C(0xf21f9de58d297d1c),
    UINT64_C(0xc0dc2f46a6cce040), UINT64_C(0xb992abfe2b45f844),
    UINT64_C(0x7ffe7b9ba320872e), UINT64_C(0x525a0e7fdae6c123),
    UINT64_C(0xf464aeb267349c8c), UINT64_C(0x45cd5928705b0979),
    UINT64_C(0x3a3e35e3ca9913a5), UINT64_C(0xa91dc74e4ade3b35),
    UINT64_C(0xfb0bed02ef6cd00d), UINT64_C(0x88d93cb44ab1e1f4),
    UINT64_C(0x540f11d643c5e663), UINT64_C(0x2370dd1f8c21d1bc),
    UINT64_C(0x81157b6c16a7b60d), UINT64_C(0x4d54b9e57a8ff9bf),
    UINT64_C(0x759f12781f2a753e), UINT64_C(0xcea1a3bebf186b91),
    UINT64_C(0x2cf508d3ada26206), UINT64_C(0xb6101c2da3c33057),
    UINT64_C(0xb3f47496ae3a36a1), UINT64_C(0x626b57547b108392),
    UINT64_C(0xc1d2363299e41531), UINT64_C(0x667cc1923f1ad944),
    UINT64_C(0x65704ffec8138825), UINT64_C(0x24f280d1c28949a6),
    UINT64_C(0xc2ca1cedfaf8876b), UINT64_C(0xc2164bfc9f042196),
    UINT64_C(0xa16e9c9368b1d623), UINT64_C(0x49fb169c8b5114fd),
    UINT64_C(0x9f3143f8df074c46), UINT64_C(0xc6fdaf2412cc86b3),
    UINT64_C(0x7eaf49d10a52098f), UINT64_C(0x1cf313559d292f9a),
    UINT64_C(0xc44a30dda2f41f12), UINT64_C(0x36fae98943a71ed0),
    UINT64_C(0x318fb34c73f0bce6), UINT64_C(0xa27abf3670a7e980),
    UINT64_C(0xb4bcc0db243c6d75), UINT64_C(0x23f8d852fdb71513),
    UINT64_C(0x8f035f4da67d8a08), UINT64_C(0xd89cd0e5b7e8f148),
    UINT64_C(0xf6f4e6bcf7a644ee), UINT64_C(0xaec59ad80f1837f2),
    UINT64_C(0xc3b2f6154b6694e0), UINT64_C(0x9d199062b7bbb3a8),
};


/* the same with key f0 f1 .. ff, and bytes 03 0a 11 .., each 7 more */

static const struct {
    size_t    len;
    uint64_t  hash;
} longer[] = {
    { 255, UINT64_C(0x5e4080140aa25e63) },
    { 256, UINT64_C(0xa371d2c946894638) },
    { 257, UINT64_C(0x6ba4e3d4f9e5e8e2) },
    { 1000, UINT64_C(0xa4346c668f947943) },
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
