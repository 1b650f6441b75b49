/*
 * Copyright (C) the ngx_sendfile authors
 *
 * nsf_path_check() and nsf_target_set_path().
 */


#include "fuzz.h"


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    void           *memory;
    const char     *err;
    nsf_target_t    t;
    unsigned char  *path;

    path = fuzz_copy(data, size, &memory);

    err = nsf_path_check(path, size);

    fuzz_require((err == NULL) == fuzz_path_is_good(path, size));

    memset(&t, 0xff, sizeof(nsf_target_t));
    fuzz_require(nsf_target_set_path(&t, path, size) == err);

    if (err != NULL) {
        fuzz_check_error(err);
        fuzz_check_no_target(&t);

    } else {
        fuzz_check_target(&t);
        fuzz_require(t.path.data == path && t.path.len == size);
    }

    free(memory);

    return 0;
}
