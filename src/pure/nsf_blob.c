
/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <string.h>

#include "nsf_blob.h"
#include "nsf_target.h"


#define NSF_BLOB_DISK  "/disk/"


int
nsf_blob_token(nsf_str_t *token, const unsigned char *uri, size_t len)
{
    size_t                i, disk;
    const unsigned char  *end, *last;

    end = (len > 0) ? memchr(uri, '?', len) : NULL;
    last = (end != NULL) ? end : uri + len;
    len = (size_t) (last - uri);

    disk = sizeof(NSF_BLOB_DISK) - 1;

    for (i = 0; i + disk < len; i++) {

        if (memcmp(uri + i, NSF_BLOB_DISK, disk) != 0) {
            continue;
        }

        token->data = uri + i + disk;
        end = memchr(token->data, '/', (size_t) (last - token->data));

        if (end == NULL || end == token->data || end + 1 == last) {
            return 0;
        }

        token->len = (size_t) (end - token->data);

        return 1;
    }

    return 0;
}


/*
 * Rails joins the folders of a key "a/bcd" to "a/", "bc", where the system sees
 * one "/" in "//".
 */

const char *
nsf_blob_path(unsigned char *dst, size_t *n, const nsf_str_t *key)
{
    size_t          i;
    const char     *err;
    unsigned char  *p;

    err = nsf_path_check(key->data, key->len);
    if (err != NULL) {
        return err;
    }

    if (key->len < 4) {
        return "key too short";
    }

    p = dst;

    for (i = 0; i < 4; i++) {

        if (key->data[i] >= 0x80) {
            return "key not ASCII";
        }

        if (key->data[i] != '/' || p[-1] != '/') {
            *p++ = key->data[i];
        }

        if (i % 2 == 1 && p[-1] != '/') {
            *p++ = '/';
        }
    }

    memcpy(p, key->data, key->len);

    *n = (size_t) (p - dst) + key->len;

    if (*n > NSF_MAX_PATH) {
        return "path too long";
    }

    /* the key is right, so what there is to check is what stands before it */

    return nsf_path_check(dst, (size_t) (p - 1 - dst));
}
