/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <string.h>

#include "nsf_record.h"
#include "nsf_json.h"
#include "nsf_unwrap.h"


static const char *nsf_record_string(nsf_target_t *t, nsf_format_e format,
    const nsf_str_t *s, nsf_pool_t *pool);


const char *
nsf_record_decode(nsf_target_t *t, nsf_format_e format, uint32_t flags,
    const unsigned char *value, size_t len, nsf_pool_t *pool)
{
    int64_t      valid_until;
    nsf_str_t    s;
    const char  *err;

    memset(t, 0, sizeof(nsf_target_t));

    if (len == 0) {
        return "empty value";
    }

    if (len > NSF_MAX_VALUE) {
        return "value too long";
    }

    s.data = value;
    s.len = len;

    err = nsf_unwrap(&s, &valid_until, format, flags, pool);
    if (err != NULL) {
        return err;
    }

    err = nsf_record_string(t, format, &s, pool);
    if (err != NULL) {
        return err;
    }

    t->valid_until = valid_until;

    if (valid_until != 0
        && (t->expires == 0 || t->expires > valid_until))
    {
        t->expires = valid_until;
    }

    return NULL;
}


static const char *
nsf_record_string(nsf_target_t *t, nsf_format_e format, const nsf_str_t *s,
    nsf_pool_t *pool)
{
    switch (format) {

    case NSF_FORMAT_PATH:
        return nsf_target_set_path(t, s->data, s->len);

    case NSF_FORMAT_JSON:
        return nsf_json_decode(t, s->data, s->len, pool);

    case NSF_FORMAT_AUTO:
    case NSF_FORMAT_MARSHAL:

        if (s->len != 0 && s->data[0] == '{') {
            return nsf_json_decode(t, s->data, s->len, pool);
        }

        return nsf_target_set_path(t, s->data, s->len);
    }

    return "unknown format";
}
