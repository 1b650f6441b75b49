/*
 * Copyright (C) the ngx_sendfile authors
 *
 * nsf_record_decode(): one byte of format, four of flags, the value.
 */


#include "fuzz.h"


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

    fuzz_pool_init(&fp, 0);
    memset(&t, 0xff, sizeof(nsf_target_t));

    err = nsf_record_decode(&t, format, flags, value, len, &fp.pool);

    if (err != NULL) {
        fuzz_check_error(err);
        fuzz_check_no_target(&t);

    } else {
        fuzz_check_target(&t);
        fuzz_require(len >= 1 && len <= 65536);
        fuzz_require(format != NSF_FORMAT_MARSHAL);
    }

    /* what is no JSON by its first byte is just a path */

    if (format == NSF_FORMAT_PATH
        || (format == NSF_FORMAT_AUTO && len != 0 && value[0] != '{'))
    {
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
