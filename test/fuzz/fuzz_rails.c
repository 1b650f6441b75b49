/*
 * Copyright (C) the ngx_sendfile authors
 *
 * nsf_rails_decode(): one byte that makes an allocation fail, the entry.
 */


#include "fuzz.h"
#include "nsf_marshal.h"
#include "nsf_rails.h"


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int             known;
    void           *memory;
    int64_t         until;
    nsf_str_t       s;
    const char     *err;
    fuzz_pool_t     fp;
    unsigned char  *p;

    if (size == 0) {
        return 0;
    }

    fuzz_pool_init(&fp, data[0] / 128);

    p = fuzz_copy(data + 1, size - 1, &memory);
    size--;

    until = -1;
    err = nsf_rails_decode(&s, &until, p, size, &fp.pool);

    fuzz_require(until >= 0 && until < INT64_C(253402300800));

    known = nsf_rails_is_object(p, size) + nsf_rails_is_packed(p, size);
    fuzz_require(known <= 1);

    if (err != NULL) {
        fuzz_check_error(err);
        fuzz_require(known
                     || strcmp(err, "not a Rails.cache entry") == 0);

    } else {
        fuzz_require(known);
        fuzz_require(fuzz_is_slice(&s, p, size) || fuzz_pool_owns(&fp, &s));
        fuzz_require(s.len <= 65536);
    }

    /* no more than one part of an entry is ever compressed */

    fuzz_require(fp.calls <= 1);
    fuzz_require((fp.calls == 1 && fp.fail_at == 1)
                 == (err != NULL && strcmp(err, NSF_ERR_MEMORY) == 0));

    fuzz_pool_free(&fp);
    free(memory);

    return 0;
}
