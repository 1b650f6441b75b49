/*
 * Copyright (C) the ngx_sendfile authors
 */


#include "nsf_disposition.h"


typedef struct {
    unsigned char  *buf;    /* NULL to count only */
    size_t          len;
} nsf_out_t;


static int nsf_name_is_plain(const nsf_str_t *name);
static void nsf_write_filename(nsf_out_t *out, const nsf_str_t *name);
static void nsf_write_filename_ext(nsf_out_t *out, const nsf_str_t *name);
static size_t nsf_utf8_length(const unsigned char *p, size_t len);
static int nsf_is_attr_char(unsigned char c);
static int nsf_is_unsafe(unsigned char c);
static void nsf_write(nsf_out_t *out, const char *s);
static void nsf_write_byte(nsf_out_t *out, unsigned char c);
static void nsf_write_percent(nsf_out_t *out, unsigned char c);


size_t
nsf_disposition(unsigned char *buf, nsf_disposition_e disposition,
    const nsf_str_t *name)
{
    nsf_out_t  out;

    out.buf = buf;
    out.len = 0;

    if (disposition == NSF_DISPOSITION_NONE && name->len == 0) {
        return 0;
    }

    if (disposition == NSF_DISPOSITION_ATTACHMENT) {
        nsf_write(&out, "attachment");

    } else {
        nsf_write(&out, "inline");
    }

    if (name->len == 0) {
        return out.len;
    }

    nsf_write(&out, "; filename=\"");
    nsf_write_filename(&out, name);
    nsf_write(&out, "\"");

    if (!nsf_name_is_plain(name)) {
        nsf_write(&out, "; filename*=UTF-8''");
        nsf_write_filename_ext(&out, name);
    }

    return out.len;
}


/* "%" is not: some browsers decode it in a filename */

static int
nsf_name_is_plain(const nsf_str_t *name)
{
    size_t  i;

    for (i = 0; i < name->len; i++) {

        if (name->data[i] < 0x20 || name->data[i] > 0x7e
            || name->data[i] == '%')
        {
            return 0;
        }
    }

    return 1;
}


static void
nsf_write_filename(nsf_out_t *out, const nsf_str_t *name)
{
    size_t         i, n;
    unsigned char  c;

    for (i = 0; i < name->len; i += n) {
        c = name->data[i];
        n = nsf_utf8_length(&name->data[i], name->len - i);

        if (n == 0) {
            n = 1;
        }

        if (c >= 0x80 || nsf_is_unsafe(c)) {
            nsf_write_byte(out, '_');
            continue;
        }

        if (c == '"') {
            nsf_write_byte(out, '\\');
        }

        nsf_write_byte(out, c);
    }
}


/* RFC 5987: what it decodes to is always valid UTF-8 */

static void
nsf_write_filename_ext(nsf_out_t *out, const nsf_str_t *name)
{
    size_t         i, n;
    unsigned char  c;

    for (i = 0; i < name->len; /* void */ ) {
        c = name->data[i];
        n = nsf_utf8_length(&name->data[i], name->len - i);

        if (n == 0 || nsf_is_unsafe(c)) {
            nsf_write_byte(out, '_');
            i++;
            continue;
        }

        if (nsf_is_attr_char(c)) {
            nsf_write_byte(out, c);
            i++;
            continue;
        }

        for ( /* void */ ; n > 0; n--) {
            nsf_write_percent(out, name->data[i++]);
        }
    }
}


/* the length of the character at "p", 0 if that is no valid UTF-8 */

static size_t
nsf_utf8_length(const unsigned char *p, size_t len)
{
    size_t    i, n;
    uint32_t  u, min;

    if (p[0] < 0x80) {
        return 1;
    }

    if (p[0] >= 0xc0 && p[0] <= 0xdf) {
        n = 2;
        u = p[0] & 0x1f;
        min = 0x80;

    } else if (p[0] >= 0xe0 && p[0] <= 0xef) {
        n = 3;
        u = p[0] & 0x0f;
        min = 0x800;

    } else if (p[0] >= 0xf0 && p[0] <= 0xf7) {
        n = 4;
        u = p[0] & 0x07;
        min = 0x10000;

    } else {
        return 0;
    }

    if (n > len) {
        return 0;
    }

    for (i = 1; i < n; i++) {

        if ((p[i] & 0xc0) != 0x80) {
            return 0;
        }

        u = u << 6 | (p[i] & 0x3f);
    }

    if (u < min || u > 0x10ffff || (u >= 0xd800 && u <= 0xdfff)) {
        return 0;
    }

    return n;
}


static int
nsf_is_attr_char(unsigned char c)
{
    if ((c >= 'a' && c <= 'z')
        || (c >= 'A' && c <= 'Z')
        || (c >= '0' && c <= '9'))
    {
        return 1;
    }

    switch (c) {

    case '!':
    case '#':
    case '$':
    case '&':
    case '+':
    case '-':
    case '.':
    case '^':
    case '_':
    case '`':
    case '|':
    case '~':
        return 1;

    default:
        return 0;
    }
}


/* control bytes, and what separates directories on the client's system */

static int
nsf_is_unsafe(unsigned char c)
{
    return c < 0x20 || c == 0x7f || c == '/' || c == '\\';
}


static void
nsf_write(nsf_out_t *out, const char *s)
{
    for ( /* void */ ; *s != '\0'; s++) {
        nsf_write_byte(out, (unsigned char) *s);
    }
}


static void
nsf_write_byte(nsf_out_t *out, unsigned char c)
{
    if (out->buf != NULL) {
        out->buf[out->len] = c;
    }

    out->len++;
}


static void
nsf_write_percent(nsf_out_t *out, unsigned char c)
{
    static const char  hex[] = "0123456789ABCDEF";

    nsf_write_byte(out, '%');
    nsf_write_byte(out, (unsigned char) hex[c >> 4]);
    nsf_write_byte(out, (unsigned char) hex[c & 0xf]);
}
