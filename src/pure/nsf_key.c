/*
 * Copyright (C) the ngx_sendfile authors
 */


#include "nsf_key.h"
#include "nsf_plain.h"


const char *
nsf_key_check(const unsigned char *key, size_t len)
{
    size_t  i;

    if (len == 0) {
        return "empty key";
    }

    if (len > NSF_MAX_KEY) {
        return "key too long";
    }

    for (i = nsf_plain(key, len, ' ' + 1); i < len; i++) {

        if (key[i] == ' ') {
            return "space in key";
        }

        if (key[i] < 0x20 || key[i] == 0x7f) {
            return "control byte in key";
        }
    }

    return NULL;
}


size_t
nsf_id_from_uri(const unsigned char *uri, size_t len,
    const unsigned char **id)
{
    size_t  i;

    for (i = len; i > 0 && uri[i - 1] >= '0' && uri[i - 1] <= '9'; i--) {
        /* void */
    }

    if (i == len || len - i > NSF_MAX_ID || (i > 0 && uri[i - 1] != '/')) {
        return 0;
    }

    *id = &uri[i];

    return len - i;
}
