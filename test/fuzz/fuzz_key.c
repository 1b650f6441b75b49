/*
 * Copyright (C) the ngx_sendfile authors
 *
 * nsf_key_check() and nsf_id_from_uri().
 */


#include "fuzz.h"


static int
key_is_good(const unsigned char *key, size_t len)
{
    return len >= 1 && len <= 250
           && !fuzz_has_control(key, len, "")
           && memchr(key, ' ', len) == NULL;
}


/* the ID's length by the other way round: from the last slash on */

static size_t
id_length(const unsigned char *uri, size_t len)
{
    size_t  i, start;

    start = 0;

    for (i = 0; i < len; i++) {

        if (uri[i] == '/') {
            start = i + 1;
        }
    }

    for (i = start; i < len; i++) {

        if (uri[i] == '\0' || strchr("0123456789", uri[i]) == NULL) {
            return 0;
        }
    }

    return len - start <= 20 ? len - start : 0;
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    void                 *memory;
    size_t                n;
    const char           *err;
    unsigned char        *p;
    const unsigned char  *id;

    p = fuzz_copy(data, size, &memory);

    err = nsf_key_check(p, size);

    fuzz_require((err == NULL) == key_is_good(p, size));

    if (err != NULL) {
        fuzz_check_error(err);
    }

    id = NULL;
    n = nsf_id_from_uri(p, size, &id);

    fuzz_require(n == id_length(p, size));

    if (n == 0) {
        fuzz_require(id == NULL);

    } else {
        fuzz_require(id >= p && id + n == p + size);

        /* an ID is always a key */

        fuzz_require(nsf_key_check(id, n) == NULL);
    }

    free(memory);

    return 0;
}
