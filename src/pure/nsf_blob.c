
/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <string.h>

#include "nsf_blob.h"
#include "nsf_token.h"


#define NSF_BLOB_BINARY  "application/octet-stream"
#define NSF_BLOB_WORD    (sizeof("disposition") - 1)


/* what is left of a path, up to "last" */

typedef struct {
    const unsigned char  *pos;
    const unsigned char  *last;
} nsf_blob_path_t;


static int nsf_blob_find(nsf_blob_e *kind, nsf_blob_path_t *p, int records);
static int nsf_blob_segment(nsf_str_t *s, nsf_blob_path_t *p);
static int nsf_blob_is(const nsf_str_t *s, const char *word);
static int nsf_blob_listed(const nsf_str_t *type, const char *const *list,
    int loose);
static int nsf_blob_escaped(const unsigned char *p, size_t len,
    const char *word);


/* content_types_to_serve_as_binary of all versions */

static const char *const  nsf_blob_binary[] = {
    "text/html",
    "text/javascript",
    "image/svg+xml",
    "application/postscript",
    "application/x-shockwave-flash",
    "text/xml",
    "application/xml",
    "application/xhtml+xml",
    "application/mathml+xml",
    "text/cache-manifest",
    NULL
};


/* content_types_allowed_inline */

static const char *const  nsf_blob_inline[] = {
    "image/webp",
    "image/avif",
    "image/png",
    "image/gif",
    "image/jpeg",
    "image/tiff",
    "image/bmp",
    "image/vnd.adobe.photoshop",
    "image/vnd.microsoft.icon",
    "application/pdf",
    NULL
};


int
nsf_blob_url(nsf_blob_url_t *url, const unsigned char *uri, size_t len,
    int records)
{
    nsf_str_t             name;
    nsf_blob_path_t       p, ahead;
    const unsigned char  *end;

    end = (len > 0) ? memchr(uri, '?', len) : NULL;

    p.pos = uri;
    p.last = (end != NULL) ? end : uri + len;

    memset(url, 0, sizeof(nsf_blob_url_t));

    if (!nsf_blob_find(&url->kind, &p, records)) {
        return 0;
    }

    if (url->kind != NSF_BLOB_DISK) {
        ahead = p;

        if (nsf_blob_segment(&name, &ahead)
            && (nsf_blob_is(&name, "redirect") || nsf_blob_is(&name, "proxy")))
        {
            url->proxy = nsf_blob_is(&name, "proxy");
            p = ahead;
        }
    }

    if (!nsf_blob_segment(&url->token, &p)
        || (url->kind == NSF_BLOB_REPRESENTATION
            && !nsf_blob_segment(&url->variation, &p)))
    {
        return 0;
    }

    /* the name, whatever it is */

    return p.pos < p.last;
}


/* up to behind the slash that follows the word */

static int
nsf_blob_find(nsf_blob_e *kind, nsf_blob_path_t *p, int records)
{
    nsf_str_t             s;
    const unsigned char  *slash;

    while (p->pos < p->last) {

        slash = memchr(p->pos, '/', (size_t) (p->last - p->pos));
        if (slash == NULL) {
            return 0;
        }

        p->pos = slash + 1;
        s.data = p->pos;

        slash = memchr(p->pos, '/', (size_t) (p->last - p->pos));
        if (slash == NULL) {
            return 0;
        }

        s.len = (size_t) (slash - s.data);

        if (nsf_blob_is(&s, "disk")) {
            *kind = NSF_BLOB_DISK;

        } else if (records && nsf_blob_is(&s, "blobs")) {
            *kind = NSF_BLOB_RECORD;

        } else if (records && nsf_blob_is(&s, "representations")) {
            *kind = NSF_BLOB_REPRESENTATION;

        } else {
            continue;
        }

        p->pos = slash + 1;

        return 1;
    }

    return 0;
}


/* one that is not empty, and the slash behind it */

static int
nsf_blob_segment(nsf_str_t *s, nsf_blob_path_t *p)
{
    const unsigned char  *slash;

    slash = (p->pos < p->last)
            ? memchr(p->pos, '/', (size_t) (p->last - p->pos)) : NULL;

    if (slash == NULL || slash == p->pos) {
        return 0;
    }

    s->data = p->pos;
    s->len = (size_t) (slash - p->pos);

    p->pos = slash + 1;

    return 1;
}


static int
nsf_blob_is(const nsf_str_t *s, const char *word)
{
    size_t  len;

    len = strlen(word);

    return s->len == len && memcmp(s->data, word, len) == 0;
}


nsf_disposition_e
nsf_blob_asked(const unsigned char *args, size_t len)
{
    size_t             i, n, start;
    nsf_disposition_e  asked;

    asked = NSF_DISPOSITION_NONE;
    start = 0;

    for (i = 0; i <= len; i++) {

        if (i < len && args[i] != '&' && args[i] != ';') {
            continue;
        }

        for (n = start; n < i && args[n] != '='; n++) {
            /* void */
        }

        if (nsf_blob_escaped(args + start, n - start, "disposition")) {
            n += (n < i);

            asked = nsf_blob_escaped(args + n, i - n, "attachment")
                    ? NSF_DISPOSITION_ATTACHMENT : NSF_DISPOSITION_INLINE;
        }

        start = i + 1;
    }

    return asked;
}


/* whether it is a word of up to NSF_BLOB_WORD characters, percent-encoded */

static int
nsf_blob_escaped(const unsigned char *p, size_t len, const char *word)
{
    nsf_str_t      s;
    unsigned char  text[3 * NSF_BLOB_WORD];

    if (len == 0
        || len > sizeof(text)
        || nsf_token_unescape(text, &s.len, p, len) != NULL)
    {
        return 0;
    }

    s.data = text;

    return nsf_blob_is(&s, word);
}


void
nsf_blob_serving(nsf_target_t *t)
{
    if (t->disposition == NSF_DISPOSITION_NONE
        || t->disposition == NSF_DISPOSITION_NAMED)
    {
        t->disposition = nsf_blob_listed(&t->type, nsf_blob_inline, 0)
                         ? NSF_DISPOSITION_INLINE
                         : NSF_DISPOSITION_ATTACHMENT;

        if (nsf_blob_listed(&t->type, nsf_blob_binary, 1)) {
            t->type.len = 0;
        }
    }

    if (t->type.len == 0) {
        t->type.data = (const unsigned char *) NSF_BLOB_BINARY;
        t->type.len = sizeof(NSF_BLOB_BINARY) - 1;
    }
}


/*
 * A browser sees the same type in another case, and with parameters: "loose"
 * sees that, too.
 */

static int
nsf_blob_listed(const nsf_str_t *type, const char *const *list, int loose)
{
    size_t         i, n, len;
    unsigned char  c;

    for ( /* void */ ; *list != NULL; list++) {
        n = strlen(*list);

        if (type->len < n) {
            continue;
        }

        for (i = 0; i < n; i++) {
            c = type->data[i];

            if (loose && c >= 'A' && c <= 'Z') {
                c |= 0x20;
            }

            if (c != (unsigned char) (*list)[i]) {
                break;
            }
        }

        len = type->len;

        if (i == n
            && (len == n
                || (loose && memchr("; \t", type->data[n], 3) != NULL)))
        {
            return 1;
        }
    }

    return 0;
}


/* ActiveStorage::Filename#sanitized: with a dash for what may be unsafe */

size_t
nsf_blob_name(unsigned char *dst, const nsf_str_t *name)
{
    size_t  i, n;

    static const unsigned char  rtl[] = { 0xe2, 0x80, 0xae };

    n = 0;

    for (i = 0; i < name->len; i++) {

        if (name->len - i >= sizeof(rtl)
            && memcmp(name->data + i, rtl, sizeof(rtl)) == 0)
        {
            i += sizeof(rtl) - 1;
            dst[n++] = '-';

        } else if (memchr("%$|:;/<>?*\"\\", name->data[i], 12) != NULL) {
            dst[n++] = '-';

        } else {
            dst[n++] = name->data[i];
        }
    }

    return n;
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
