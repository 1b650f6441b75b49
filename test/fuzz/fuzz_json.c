/*
 * Copyright (C) the ngx_sendfile authors
 *
 * nsf_json_decode(), once as it is and once short of memory.
 */


#include "fuzz.h"


static const char *
decode(nsf_target_t *t, const uint8_t *data, size_t size, fuzz_pool_t *fp)
{
    void           *memory;
    const char     *err;
    unsigned char  *value;

    memset(t, 0xff, sizeof(nsf_target_t));

    value = fuzz_copy(data, size, &memory);
    err = nsf_json_decode(t, value, size, &fp->pool);

    /* nothing of the target may be in the value */

    free(memory);

    if (err != NULL) {
        fuzz_check_error(err);
        fuzz_check_no_target(t);
    }

    return err;
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t         calls;
    const char    *err;
    fuzz_pool_t    fp;
    nsf_target_t   t;

    fuzz_pool_init(&fp, 0);
    err = decode(&t, data, size, &fp);

    calls = fp.calls;

    if (err == NULL) {
        fuzz_check_target(&t);
        fuzz_require(calls > 0);
        fuzz_require(memchr(data, '\0', size) == NULL);
        fuzz_require(fuzz_is_utf8(data, size));
    }

    fuzz_pool_free(&fp);

    if (calls == 0) {
        return 0;
    }

    fuzz_pool_init(&fp, size % calls + 1);
    err = decode(&t, data, size, &fp);

    fuzz_require(err != NULL && strcmp(err, NSF_ERR_MEMORY) == 0);

    fuzz_pool_free(&fp);

    return 0;
}
