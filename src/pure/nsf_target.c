/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <string.h>

#include "nsf_target.h"
#include "nsf_header.h"
#include "nsf_plain.h"


static const char *nsf_path_segment_check(const unsigned char *seg,
    size_t len);
static const char *nsf_target_keep_string(nsf_str_t *s,
    const unsigned char *data, size_t len, nsf_pool_t *pool);


const char *
nsf_path_check(const unsigned char *path, size_t len)
{
    nsf_str_t             s;
    const char           *err;
    const unsigned char  *end, *slash;

    if (len == 0) {
        return "empty path";
    }

    if (len > NSF_MAX_PATH) {
        return "path too long";
    }

    if (path[0] == '/') {
        return "path starts with \"/\"";
    }

    if (path[len - 1] == '/') {
        return "path ends with \"/\"";
    }

    s.data = path;
    s.len = len;

    if (nsf_has_control(&s, 0)) {
        return "control byte in path";
    }

    end = path + len;

    for ( ;; ) {
        slash = memchr(path, '/', (size_t) (end - path));

        err = nsf_path_segment_check(path,
                                     (size_t) ((slash ? slash : end) - path));

        if (err != NULL || slash == NULL) {
            return err;
        }

        path = slash + 1;
    }
}


static const char *
nsf_path_segment_check(const unsigned char *seg, size_t len)
{
    if (len == 0) {
        return "empty path segment";
    }

    if (len == 1 && seg[0] == '.') {
        return "\".\" in path";
    }

    if (len == 2 && seg[0] == '.' && seg[1] == '.') {
        return "\"..\" in path";
    }

    return NULL;
}


const char *
nsf_base_check(const unsigned char *base, size_t len)
{
    base++;
    len--;

    if (len == 0) {
        return NULL;
    }

    if (len > 1 && base[len - 1] == '/') {
        len--;
    }

    return nsf_path_check(base, len);
}


int
nsf_path_below(const nsf_str_t *base, const nsf_str_t *path, nsf_str_t *rest)
{
    size_t  len;

    /* of "/" the slash is all there is */

    len = (base->len == 1) ? 0 : base->len;

    if (path->len <= len
        || path->data[len] != '/'
        || memcmp(path->data, base->data, len) != 0)
    {
        return 0;
    }

    rest->data = path->data + len + 1;
    rest->len = path->len - len - 1;

    return 1;
}


int
nsf_has_control(const nsf_str_t *s, int tab)
{
    size_t  i;

    for (i = nsf_plain(s->data, s->len, 0x20); i < s->len; i++) {

        if (s->data[i] == '\t' && tab) {
            continue;
        }

        if (s->data[i] < 0x20 || s->data[i] == 0x7f) {
            return 1;
        }
    }

    return 0;
}


const char *
nsf_target_set_path(nsf_target_t *t, const unsigned char *path, size_t len)
{
    const char  *err;

    memset(t, 0, sizeof(nsf_target_t));

    err = nsf_path_check(path, len);
    if (err != NULL) {
        return err;
    }

    t->path.data = path;
    t->path.len = len;

    return NULL;
}


const char *
nsf_target_keep(nsf_target_t *t, const unsigned char *data, size_t len,
    nsf_pool_t *pool)
{
    size_t       i, n;
    const char  *err;
    nsf_str_t   *strings[3];

    strings[0] = &t->path;
    strings[1] = &t->type;
    strings[2] = &t->name;

    for (i = 0; i < 3; i++) {
        err = nsf_target_keep_string(strings[i], data, len, pool);
        if (err != NULL) {
            return err;
        }
    }

    for (n = 0; n < t->nheaders; n++) {
        strings[0] = &t->headers[n].name;
        strings[1] = &t->headers[n].value;

        for (i = 0; i < 2; i++) {
            err = nsf_target_keep_string(strings[i], data, len, pool);
            if (err != NULL) {
                return err;
            }
        }
    }

    return NULL;
}


static const char *
nsf_target_keep_string(nsf_str_t *s, const unsigned char *data, size_t len,
    nsf_pool_t *pool)
{
    unsigned char  *p;

    if (s->len == 0 || s->data < data || s->data >= data + len) {
        return NULL;
    }

    p = pool->alloc(pool->ctx, s->len);
    if (p == NULL) {
        return NSF_ERR_MEMORY;
    }

    memcpy(p, s->data, s->len);
    s->data = p;

    return NULL;
}


const char *
nsf_target_check(const nsf_target_t *t)
{
    size_t               i, n;
    const char          *err;
    const nsf_header_t  *h;

    err = nsf_path_check(t->path.data, t->path.len);
    if (err != NULL) {
        return err;
    }

    if (nsf_has_control(&t->type, 0)) {
        return "control byte in \"type\"";
    }

    if (nsf_has_control(&t->name, 0)) {
        return "control byte in \"name\"";
    }

    if (t->nheaders > NSF_MAX_HEADERS) {
        return "too many headers";
    }

    for (i = 0; i < t->nheaders; i++) {
        h = &t->headers[i];

        if (!nsf_header_allowed(&h->name)) {
            return "header not allowed";
        }

        if (nsf_has_control(&h->value, 1)) {
            return "control byte in header value";
        }

        for (n = 0; n < i; n++) {
            if (nsf_header_same(&t->headers[n].name, &h->name)) {
                return "header given twice";
            }
        }
    }

    return NULL;
}
