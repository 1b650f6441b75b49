
/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <string.h>

#include "nsf_pull.h"


#define NSF_PULL_BROKEN  "broken JSON"


static const char *nsf_pull_value(nsf_pull_t *j, unsigned depth);
static const char *nsf_pull_array(nsf_pull_t *j, unsigned depth);
static unsigned char *nsf_pull_plain(unsigned char *p, unsigned char *last);
static const char *nsf_pull_escape(nsf_pull_t *j, unsigned char **dst);
static const char *nsf_pull_unicode(nsf_pull_t *j, uint32_t *code);
static unsigned char *nsf_pull_utf8(unsigned char *dst, uint32_t code);
static const char *nsf_pull_word(nsf_pull_t *j, const char *word);
static const char *nsf_pull_number(nsf_pull_t *j);


void
nsf_pull_open(nsf_pull_t *j, unsigned char *p, size_t len)
{
    j->p = p;
    j->last = p + len;
}


unsigned
nsf_pull_type(nsf_pull_t *j)
{
    while (j->p < j->last
           && (*j->p == ' ' || *j->p == '\t' || *j->p == '\n'
               || *j->p == '\r'))
    {
        j->p++;
    }

    return (j->p == j->last) ? 0 : *j->p;
}


const char *
nsf_pull_close(nsf_pull_t *j)
{
    return (nsf_pull_type(j) == 0) ? NULL : NSF_PULL_BROKEN;
}


const char *
nsf_pull_string(nsf_pull_t *j, nsf_str_t *s)
{
    size_t          n;
    const char     *err;
    unsigned char  *dst, *p;

    if (nsf_pull_type(j) != '"') {
        return "not a string in JSON";
    }

    dst = ++j->p;
    s->data = dst;

    while (j->p < j->last) {
        p = nsf_pull_plain(j->p, j->last);
        n = (size_t) (p - j->p);

        if (dst != j->p) {
            memmove(dst, j->p, n);
        }

        dst += n;
        j->p = p;

        if (p == j->last) {
            break;
        }

        j->p++;

        if (*p == '"') {
            s->len = (size_t) (dst - s->data);
            return NULL;
        }

        if (*p != '\\') {
            return NSF_PULL_BROKEN;
        }

        err = nsf_pull_escape(j, &dst);
        if (err != NULL) {
            return err;
        }
    }

    return NSF_PULL_BROKEN;
}


/* where the characters end that stand for themselves */

static unsigned char *
nsf_pull_plain(unsigned char *p, unsigned char *last)
{
    while (p < last && *p >= 0x20 && *p != '"' && *p != '\\') {
        p++;
    }

    return p;
}


/* what an escape becomes is never longer than itself */

static const char *
nsf_pull_escape(nsf_pull_t *j, unsigned char **dst)
{
    static const char  names[] = "\"\\/bfnrt";
    static const char  bytes[] = "\"\\/\b\f\n\r\t";

    uint32_t     code, low;
    const char  *name, *err;

    if (j->p == j->last || *j->p == '\0') {
        return NSF_PULL_BROKEN;
    }

    name = strchr(names, *j->p);

    if (name != NULL) {
        *(*dst)++ = (unsigned char) bytes[name - names];
        j->p++;
        return NULL;
    }

    err = nsf_pull_unicode(j, &code);
    if (err != NULL) {
        return err;
    }

    if (code >= 0xd800 && code <= 0xdbff) {

        if (j->last - j->p < 2 || *j->p != '\\') {
            return NSF_PULL_BROKEN;
        }

        j->p++;

        err = nsf_pull_unicode(j, &low);
        if (err != NULL) {
            return err;
        }

        if (low < 0xdc00 || low > 0xdfff) {
            return NSF_PULL_BROKEN;
        }

        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);

    } else if (code >= 0xdc00 && code <= 0xdfff) {
        return NSF_PULL_BROKEN;
    }

    *dst = nsf_pull_utf8(*dst, code);

    return NULL;
}


/* "u" and four digits */

static const char *
nsf_pull_unicode(nsf_pull_t *j, uint32_t *code)
{
    int            i;
    unsigned char  c;

    if (j->last - j->p < 5 || *j->p != 'u') {
        return NSF_PULL_BROKEN;
    }

    j->p++;
    *code = 0;

    for (i = 0; i < 4; i++) {
        c = *j->p++;

        if (c >= '0' && c <= '9') {
            c = (unsigned char) (c - '0');

        } else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f') {
            c = (unsigned char) ((c | 0x20) - 'a' + 10);

        } else {
            return NSF_PULL_BROKEN;
        }

        *code = *code << 4 | c;
    }

    return NULL;
}


static unsigned char *
nsf_pull_utf8(unsigned char *dst, uint32_t code)
{
    if (code < 0x80) {
        *dst++ = (unsigned char) code;

    } else if (code < 0x800) {
        *dst++ = (unsigned char) (0xc0 | code >> 6);
        *dst++ = (unsigned char) (0x80 | (code & 0x3f));

    } else if (code < 0x10000) {
        *dst++ = (unsigned char) (0xe0 | code >> 12);
        *dst++ = (unsigned char) (0x80 | (code >> 6 & 0x3f));
        *dst++ = (unsigned char) (0x80 | (code & 0x3f));

    } else {
        *dst++ = (unsigned char) (0xf0 | code >> 18);
        *dst++ = (unsigned char) (0x80 | (code >> 12 & 0x3f));
        *dst++ = (unsigned char) (0x80 | (code >> 6 & 0x3f));
        *dst++ = (unsigned char) (0x80 | (code & 0x3f));
    }

    return dst;
}


const char *
nsf_pull_integer(nsf_pull_t *j, nsf_str_t *s)
{
    size_t                i;
    const char           *err;
    const unsigned char  *start;

    (void) nsf_pull_type(j);
    start = j->p;

    err = nsf_pull_number(j);
    if (err != NULL) {
        return err;
    }

    s->data = start;
    s->len = (size_t) (j->p - start);

    for (i = 0; i < s->len; i++) {
        if ((s->data[i] < '0' || s->data[i] > '9')
            && (i > 0 || s->data[i] != '-'))
        {
            return "not an integer in JSON";
        }
    }

    return NULL;
}


const char *
nsf_pull_object(nsf_pull_t *j)
{
    if (nsf_pull_type(j) != '{') {
        return "not an object in JSON";
    }

    j->p++;

    return NULL;
}


const char *
nsf_pull_member(nsf_pull_t *j, size_t n, nsf_str_t *name)
{
    unsigned     c;
    const char  *err;

    c = nsf_pull_type(j);

    if (c == '}') {
        j->p++;
        name->data = NULL;
        name->len = 0;
        return NULL;
    }

    if (n > 0) {

        if (c != ',') {
            return NSF_PULL_BROKEN;
        }

        j->p++;
    }

    err = nsf_pull_string(j, name);
    if (err != NULL) {
        return err;
    }

    if (nsf_pull_type(j) != ':') {
        return NSF_PULL_BROKEN;
    }

    j->p++;

    return NULL;
}


const char *
nsf_pull_skip(nsf_pull_t *j)
{
    return nsf_pull_value(j, 0);
}


static const char *
nsf_pull_value(nsf_pull_t *j, unsigned depth)
{
    size_t       n;
    nsf_str_t    s;
    const char  *err;

    if (depth == NSF_PULL_MAX_DEPTH) {
        return "JSON nested too deep";
    }

    switch (nsf_pull_type(j)) {

    case '"':
        return nsf_pull_string(j, &s);

    case 't':
        return nsf_pull_word(j, "true");

    case 'f':
        return nsf_pull_word(j, "false");

    case 'n':
        return nsf_pull_word(j, "null");

    case '[':
        return nsf_pull_array(j, depth);

    case '{':
        break;

    default:
        return nsf_pull_number(j);
    }

    err = nsf_pull_object(j);

    for (n = 0; err == NULL; n++) {
        err = nsf_pull_member(j, n, &s);

        if (err != NULL || s.data == NULL) {
            return err;
        }

        err = nsf_pull_value(j, depth + 1);
    }

    return err;
}


static const char *
nsf_pull_array(nsf_pull_t *j, unsigned depth)
{
    size_t       n;
    const char  *err;

    j->p++;

    for (n = 0; /* void */ ; n++) {

        if (nsf_pull_type(j) == ']') {
            j->p++;
            return NULL;
        }

        if (n > 0) {

            if (nsf_pull_type(j) != ',') {
                return NSF_PULL_BROKEN;
            }

            j->p++;
        }

        err = nsf_pull_value(j, depth + 1);
        if (err != NULL) {
            return err;
        }
    }
}


static const char *
nsf_pull_word(nsf_pull_t *j, const char *word)
{
    size_t  len;

    len = strlen(word);

    if ((size_t) (j->last - j->p) < len || memcmp(j->p, word, len) != 0) {
        return NSF_PULL_BROKEN;
    }

    j->p += len;

    return NULL;
}


/* what JSON's numbers are made of, in whatever order */

static const char *
nsf_pull_number(nsf_pull_t *j)
{
    const unsigned char  *start;

    start = j->p;

    while (j->p < j->last && *j->p != '\0'
           && strchr("0123456789+-.eE", *j->p) != NULL)
    {
        j->p++;
    }

    return (j->p != start) ? NULL : NSF_PULL_BROKEN;
}
