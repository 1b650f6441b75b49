/*
 * Copyright (C) the ngx_sendfile authors
 *
 * nsf_disposition(): one byte of disposition, the name.
 */


#include "fuzz.h"


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    void       *memory;
    nsf_str_t   name;

    if (size < 1) {
        return 0;
    }

    name.data = fuzz_copy(data + 1, size - 1, &memory);
    name.len = size - 1;

    fuzz_check_disposition((nsf_disposition_e) (data[0] % 4), &name);

    free(memory);

    return 0;
}
