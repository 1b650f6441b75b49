/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <string.h>

#include "nsf_record.h"
#include "nsf_json.h"


const char *
nsf_record_decode(nsf_target_t *t, nsf_format_e format, uint32_t flags,
    const unsigned char *value, size_t len, nsf_pool_t *pool)
{
    /* no store that is known by now sets flags */

    (void) flags;

    memset(t, 0, sizeof(nsf_target_t));

    if (len == 0) {
        return "empty value";
    }

    if (len > NSF_MAX_VALUE) {
        return "value too long";
    }

    switch (format) {

    case NSF_FORMAT_PATH:
        return nsf_target_set_path(t, value, len);

    case NSF_FORMAT_JSON:
        return nsf_json_decode(t, value, len, pool);

    case NSF_FORMAT_MARSHAL:
        return "marshal format not supported";

    case NSF_FORMAT_AUTO:

        if (value[0] == '{') {
            return nsf_json_decode(t, value, len, pool);
        }

        return nsf_target_set_path(t, value, len);
    }

    return "unknown format";
}
