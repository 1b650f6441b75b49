/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <jansson.h>
#include <string.h>

#include "nsf_json.h"
#include "nsf_header.h"


/*
 * Integers are read as reals: a 64-bit unsigned number in a field that is
 * none of ours does not make the record broken, and every time that passes
 * NSF_JSON_MAX_EXPIRES is exact in a double.
 */

#define NSF_JSON_FLAGS                                                        \
    (JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL)

/* the last second of the year 9999 */

#define NSF_JSON_MAX_EXPIRES  253402300799.0


static const char *nsf_json_error(const json_error_t *error);
static const char *nsf_json_record(nsf_target_t *t, const json_t *root,
    nsf_pool_t *pool);
static const char *nsf_json_path(nsf_target_t *t, const json_t *value,
    nsf_pool_t *pool);
static const char *nsf_json_type(nsf_target_t *t, const json_t *value,
    nsf_pool_t *pool);
static const char *nsf_json_name(nsf_target_t *t, const json_t *value,
    nsf_pool_t *pool);
static const char *nsf_json_disposition(nsf_target_t *t, const json_t *value);
static const char *nsf_json_expires(nsf_target_t *t, const json_t *value);
static const char *nsf_json_headers(nsf_target_t *t, json_t *headers,
    nsf_pool_t *pool);
static const char *nsf_json_header(nsf_target_t *t, const nsf_str_t *name,
    const json_t *value, size_t max, nsf_pool_t *pool);
static nsf_str_t nsf_json_string(const json_t *value);
static const char *nsf_json_copy(nsf_str_t *dst, const nsf_str_t *src,
    nsf_pool_t *pool);


void
nsf_json_init(void)
{
    json_object_seed(0);
}


const char *
nsf_json_decode(nsf_target_t *t, const unsigned char *value, size_t len,
    nsf_pool_t *pool)
{
    json_t        *root;
    const char    *err;
    json_error_t   error;

    memset(t, 0, sizeof(nsf_target_t));

    /* jansson overlooks a NUL that follows a number or a literal */

    if (len != 0 && memchr(value, '\0', len) != NULL) {
        return "NUL in JSON";
    }

    /* it leaves the error untouched when some allocations fail */

    memset(&error, 0, sizeof(json_error_t));

    root = json_loadb((const char *) value, len, NSF_JSON_FLAGS, &error);
    if (root == NULL) {
        return nsf_json_error(&error);
    }

    err = nsf_json_record(t, root, pool);

    json_decref(root);

    if (err != NULL) {
        memset(t, 0, sizeof(nsf_target_t));
    }

    return err;
}


static const char *
nsf_json_error(const json_error_t *error)
{
    if (error->text[0] == '\0') {
        return NSF_ERR_MEMORY;
    }

    switch (json_error_code(error)) {

    case json_error_out_of_memory:
        return NSF_ERR_MEMORY;

    case json_error_duplicate_key:
        return "field given twice in JSON";

    case json_error_null_character:
    case json_error_null_byte_in_key:
        return "NUL in JSON";

    case json_error_stack_overflow:
        return "JSON nested too deep";

    default:
        return "broken JSON";
    }
}


static const char *
nsf_json_record(nsf_target_t *t, const json_t *root, nsf_pool_t *pool)
{
    const char  *err;

    if (!json_is_object(root)) {
        return "JSON is not an object";
    }

    err = nsf_json_path(t, json_object_get(root, "path"), pool);
    if (err != NULL) {
        return err;
    }

    err = nsf_json_type(t, json_object_get(root, "type"), pool);
    if (err != NULL) {
        return err;
    }

    err = nsf_json_name(t, json_object_get(root, "name"), pool);
    if (err != NULL) {
        return err;
    }

    err = nsf_json_disposition(t, json_object_get(root, "disposition"));
    if (err != NULL) {
        return err;
    }

    err = nsf_json_expires(t, json_object_get(root, "expires"));
    if (err != NULL) {
        return err;
    }

    return nsf_json_headers(t, json_object_get(root, "headers"), pool);
}


static const char *
nsf_json_path(nsf_target_t *t, const json_t *value, nsf_pool_t *pool)
{
    nsf_str_t    s;
    const char  *err;

    if (value == NULL) {
        return "no \"path\" in JSON";
    }

    if (!json_is_string(value)) {
        return "\"path\" is not a string";
    }

    s = nsf_json_string(value);

    err = nsf_target_set_path(t, s.data, s.len);
    if (err != NULL) {
        return err;
    }

    return nsf_json_copy(&t->path, &s, pool);
}


static const char *
nsf_json_type(nsf_target_t *t, const json_t *value, nsf_pool_t *pool)
{
    nsf_str_t  s;

    if (value == NULL) {
        return NULL;
    }

    if (!json_is_string(value)) {
        return "\"type\" is not a string";
    }

    s = nsf_json_string(value);

    if (nsf_has_control(&s, 0)) {
        return "control byte in \"type\"";
    }

    return nsf_json_copy(&t->type, &s, pool);
}


static const char *
nsf_json_name(nsf_target_t *t, const json_t *value, nsf_pool_t *pool)
{
    nsf_str_t  s;

    if (value == NULL) {
        return NULL;
    }

    if (!json_is_string(value)) {
        return "\"name\" is not a string";
    }

    s = nsf_json_string(value);

    if (nsf_has_control(&s, 0)) {
        return "control byte in \"name\"";
    }

    return nsf_json_copy(&t->name, &s, pool);
}


/* comes after nsf_json_name(): a name without a disposition means inline */

static const char *
nsf_json_disposition(nsf_target_t *t, const json_t *value)
{
    nsf_str_t  s;

    if (value == NULL) {

        if (t->name.len != 0) {
            t->disposition = NSF_DISPOSITION_NAMED;
        }

        return NULL;
    }

    if (!json_is_string(value)) {
        return "\"disposition\" is not a string";
    }

    s = nsf_json_string(value);

    if (s.len == sizeof("inline") - 1
        && memcmp(s.data, "inline", s.len) == 0)
    {
        t->disposition = NSF_DISPOSITION_INLINE;
        return NULL;
    }

    if (s.len == sizeof("attachment") - 1
        && memcmp(s.data, "attachment", s.len) == 0)
    {
        t->disposition = NSF_DISPOSITION_ATTACHMENT;
        return NULL;
    }

    return "\"disposition\" not inline or attachment";
}


static const char *
nsf_json_expires(nsf_target_t *t, const json_t *value)
{
    double  n;

    if (value == NULL) {
        return NULL;
    }

    if (!json_is_number(value)) {
        return "\"expires\" is not a number";
    }

    n = json_number_value(value);

    /* in this form so that it refuses a NaN too */

    if (!(n >= 0 && n <= NSF_JSON_MAX_EXPIRES)) {
        return "\"expires\" out of range";
    }

    t->expires = (int64_t) n;

    if (t->expires == 0) {

        /* 0 in a target means none, and this record has long expired */

        t->expires = 1;
    }

    return NULL;
}


static const char *
nsf_json_headers(nsf_target_t *t, json_t *headers, nsf_pool_t *pool)
{
    void        *iter;
    size_t       max;
    nsf_str_t    name;
    const char  *key, *err;

    if (headers == NULL) {
        return NULL;
    }

    if (!json_is_object(headers)) {
        return "\"headers\" is not an object";
    }

    max = json_object_size(headers);

    if (max > NSF_MAX_HEADERS) {
        max = NSF_MAX_HEADERS;
    }

    for (iter = json_object_iter(headers);
         iter != NULL;
         iter = json_object_iter_next(headers, iter))
    {
        key = json_object_iter_key(iter);

        name.data = (const unsigned char *) key;
        name.len = strlen(key);

        err = nsf_json_header(t, &name, json_object_iter_value(iter), max,
                              pool);
        if (err != NULL) {
            return err;
        }
    }

    return NULL;
}


static const char *
nsf_json_header(nsf_target_t *t, const nsf_str_t *name, const json_t *value,
    size_t max, nsf_pool_t *pool)
{
    size_t         i;
    nsf_str_t      s;
    const char    *err;
    nsf_header_t  *h;

    /* a line break is an attack even in a header that is ignored */

    if (nsf_has_control(name, 0)) {
        return "control byte in header name";
    }

    if (json_is_string(value)) {
        s = nsf_json_string(value);

        if (nsf_has_control(&s, 1)) {
            return "control byte in header value";
        }
    }

    if (!nsf_header_allowed(name)) {
        return NULL;
    }

    if (!json_is_string(value)) {
        return "header value is not a string";
    }

    for (i = 0; i < t->nheaders; i++) {
        h = &t->headers[i];

        if (nsf_header_same(&h->name, name)) {
            return "header given twice";
        }
    }

    if (t->nheaders == NSF_MAX_HEADERS) {
        return "too many headers";
    }

    if (t->headers == NULL) {
        t->headers = pool->alloc(pool->ctx, max * sizeof(nsf_header_t));
        if (t->headers == NULL) {
            return NSF_ERR_MEMORY;
        }
    }

    h = &t->headers[t->nheaders];

    err = nsf_json_copy(&h->name, name, pool);
    if (err != NULL) {
        return err;
    }

    err = nsf_json_copy(&h->value, &s, pool);
    if (err != NULL) {
        return err;
    }

    t->nheaders++;

    return NULL;
}


static nsf_str_t
nsf_json_string(const json_t *value)
{
    nsf_str_t  s;

    s.data = (const unsigned char *) json_string_value(value);
    s.len = json_string_length(value);

    return s;
}


static const char *
nsf_json_copy(nsf_str_t *dst, const nsf_str_t *src, nsf_pool_t *pool)
{
    unsigned char  *p;

    dst->data = NULL;
    dst->len = 0;

    if (src->len == 0) {
        return NULL;
    }

    p = pool->alloc(pool->ctx, src->len);
    if (p == NULL) {
        return NSF_ERR_MEMORY;
    }

    memcpy(p, src->data, src->len);

    dst->data = p;
    dst->len = src->len;

    return NULL;
}
