/*
 * Copyright (C) the ngx_sendfile authors
 *
 * nsf_record_decode(): one byte of format, four of flags, the value.  The
 * upper bits of the format make an allocation fail.
 */


#include "fuzz.h"


/* flags of strings, and bytes that neither Ruby nor a number starts with */

static int
record_is_plain(nsf_format_e format, uint32_t flags,
    const unsigned char *value, size_t len)
{
    flags &= 0xffff;

    if (format == NSF_FORMAT_PATH) {

        /* not a bit that any client uses for compression */

        return flags == 0 || flags == 1 || flags == 4 || flags == 5
               || flags == 16 || flags >= 0x100;
    }

    return format == NSF_FORMAT_AUTO
           && (flags == 0 || flags == 16)
           && len != 0 && value[0] > 0x04 && value[0] != '{';
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    void           *memory;
    size_t          len;
    uint32_t        flags;
    const char     *err;
    fuzz_pool_t     fp;
    nsf_target_t    t;
    nsf_format_e    format;
    unsigned char  *value;

    if (size < 5) {
        return 0;
    }

    format = (nsf_format_e) (data[0] % 4);
    flags = data[1] | (uint32_t) data[2] << 8 | (uint32_t) data[3] << 16
            | (uint32_t) data[4] << 24;

    len = size - 5;
    value = fuzz_copy(data + 5, len, &memory);

    fuzz_pool_init(&fp, data[0] / 64);
    memset(&t, 0xff, sizeof(nsf_target_t));

    err = nsf_record_decode(&t, format, flags, value, len, &fp.pool);

    if (err != NULL) {
        fuzz_check_error(err);
        fuzz_check_no_target(&t);

    } else {
        fuzz_check_target(&t);
        fuzz_require(len >= 1 && len <= 65536);
        fuzz_require(fuzz_is_slice(&t.path, value, len)
                     || fuzz_pool_owns(&fp, &t.path));
        fuzz_require(t.valid_until == 0 || format == NSF_FORMAT_AUTO
                     || format == NSF_FORMAT_MARSHAL);
    }

    /* a failed allocation is always reported, and nothing else is */

    fuzz_require((fp.fail_at != 0 && fp.calls >= fp.fail_at)
                 == (err != NULL && strcmp(err, NSF_ERR_MEMORY) == 0));

    if (record_is_plain(format, flags, value, len)) {
        fuzz_require((err == NULL) == fuzz_path_is_good(value, len));

        if (err == NULL) {
            fuzz_require(t.path.data == value && t.path.len == len);
            fuzz_require(fp.calls == 0);
        }
    }

    fuzz_pool_free(&fp);
    free(memory);

    return 0;
}
