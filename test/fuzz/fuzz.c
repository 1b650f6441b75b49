/*
 * Copyright (C) the ngx_sendfile authors
 */


#include "fuzz.h"


static void *fuzz_alloc(void *ctx, size_t size);
static void fuzz_check_header(const nsf_target_t *t, size_t i);
static size_t fuzz_utf8_length(const unsigned char *p, size_t len);
static size_t fuzz_count(const unsigned char *p, size_t len);
static const char *fuzz_check_filename(const char *p, size_t expected);
static void fuzz_check_filename_ext(const char *p, const nsf_str_t *name);


void
fuzz_pool_init(fuzz_pool_t *fp, size_t fail_at)
{
    memset(fp, 0, sizeof(fuzz_pool_t));

    fp->pool.alloc = fuzz_alloc;
    fp->pool.ctx = fp;
    fp->fail_at = fail_at;
}


void
fuzz_pool_free(fuzz_pool_t *fp)
{
    size_t  i;

    for (i = 0; i < fp->nblocks; i++) {
        free(fp->blocks[i]);
    }

    memset(fp, 0, sizeof(fuzz_pool_t));
}


static void *
fuzz_alloc(void *ctx, size_t size)
{
    void         *p;
    fuzz_pool_t  *fp;

    fp = ctx;

    /* no more than the strings and the headers of one target, unpacked */

    fuzz_require(fp->calls < FUZZ_BLOCKS);
    fuzz_require(size > 0);

    fp->calls++;

    if (fp->calls == fp->fail_at) {
        return NULL;
    }

    p = malloc(size);
    fuzz_require(p != NULL);

    memset(p, 0xa5, size);

    fp->sizes[fp->nblocks] = size;
    fp->blocks[fp->nblocks++] = p;

    return p;
}


int
fuzz_is_slice(const nsf_str_t *s, const unsigned char *p, size_t len)
{
    uintptr_t  data, start;

    data = (uintptr_t) s->data;
    start = (uintptr_t) p;

    return data >= start && s->len <= len && data - start <= len - s->len;
}


int
fuzz_pool_owns(const fuzz_pool_t *fp, const nsf_str_t *s)
{
    size_t  i;

    for (i = 0; i < fp->nblocks; i++) {

        if (fuzz_is_slice(s, fp->blocks[i], fp->sizes[i])) {
            return 1;
        }
    }

    return 0;
}


unsigned char *
fuzz_copy(const void *data, size_t size, void **memory)
{
    unsigned char  *p;

    /* malloc(0) would give a byte that may be read unnoticed */

    *memory = malloc(size + 1);
    fuzz_require(*memory != NULL);

    p = (unsigned char *) *memory + 1;

    if (size != 0) {
        memcpy(p, data, size);
    }

    return p;
}


int
fuzz_path_is_good(const unsigned char *p, size_t len)
{
    int    good;
    char  *s;

    if (len < 1 || len > 4096 || fuzz_has_control(p, len, "")) {
        return 0;
    }

    /* every segment, and nothing else, is between two slashes here */

    s = malloc(len + 3);
    fuzz_require(s != NULL);

    s[0] = '/';
    memcpy(s + 1, p, len);
    s[len + 1] = '/';
    s[len + 2] = '\0';

    good = strstr(s, "//") == NULL
           && strstr(s, "/./") == NULL
           && strstr(s, "/../") == NULL;

    free(s);

    return good;
}


int
fuzz_has_control(const unsigned char *p, size_t len, const char *except)
{
    size_t  i;

    for (i = 0; i < len; i++) {

        if ((p[i] <= 31 || p[i] == 127)
            && (p[i] == 0 || strchr(except, p[i]) == NULL))
        {
            return 1;
        }
    }

    return 0;
}


/* by the table of well-formed byte sequences in the Unicode standard */

static size_t
fuzz_utf8_length(const unsigned char *p, size_t len)
{
    size_t  i, row;

    static const struct {
        unsigned char  first[2];
        unsigned char  second[2];
        size_t         len;
    } rows[] = {
        { { 0x00, 0x7f }, { 0x00, 0x00 }, 1 },
        { { 0xc2, 0xdf }, { 0x80, 0xbf }, 2 },
        { { 0xe0, 0xe0 }, { 0xa0, 0xbf }, 3 },
        { { 0xe1, 0xec }, { 0x80, 0xbf }, 3 },
        { { 0xed, 0xed }, { 0x80, 0x9f }, 3 },
        { { 0xee, 0xef }, { 0x80, 0xbf }, 3 },
        { { 0xf0, 0xf0 }, { 0x90, 0xbf }, 4 },
        { { 0xf1, 0xf3 }, { 0x80, 0xbf }, 4 },
        { { 0xf4, 0xf4 }, { 0x80, 0x8f }, 4 },
    };

    for (row = 0; row < sizeof(rows) / sizeof(rows[0]); row++) {

        if (p[0] < rows[row].first[0] || p[0] > rows[row].first[1]
            || len < rows[row].len)
        {
            continue;
        }

        if (rows[row].len > 1
            && (p[1] < rows[row].second[0] || p[1] > rows[row].second[1]))
        {
            continue;
        }

        for (i = 2; i < rows[row].len; i++) {

            if (p[i] < 0x80 || p[i] > 0xbf) {
                return 0;
            }
        }

        return rows[row].len;
    }

    return 0;
}


int
fuzz_is_utf8(const unsigned char *p, size_t len)
{
    size_t  i, n;

    for (i = 0; i < len; i += n) {
        n = fuzz_utf8_length(p + i, len - i);

        if (n == 0) {
            return 0;
        }
    }

    return 1;
}


/* characters, each bad byte being one */

static size_t
fuzz_count(const unsigned char *p, size_t len)
{
    size_t  i, n, count;

    count = 0;

    for (i = 0; i < len; i += n ? n : 1) {
        n = fuzz_utf8_length(p + i, len - i);
        count++;
    }

    return count;
}


void
fuzz_check_error(const char *err)
{
    size_t  len;

    len = strlen(err);

    fuzz_require(len >= 8 && len <= 80);
    fuzz_require(!fuzz_has_control((const unsigned char *) err, len, ""));
}


void
fuzz_check_no_target(const nsf_target_t *t)
{
    fuzz_require(t->path.len == 0 && t->path.data == NULL);
    fuzz_require(t->type.len == 0 && t->type.data == NULL);
    fuzz_require(t->name.len == 0 && t->name.data == NULL);
    fuzz_require(t->headers == NULL && t->nheaders == 0);
    fuzz_require(t->disposition == NSF_DISPOSITION_NONE);
    fuzz_require(t->expires == 0);
    fuzz_require(t->valid_until == 0);
}


void
fuzz_check_target(const nsf_target_t *t)
{
    size_t  i;

    fuzz_require(fuzz_path_is_good(t->path.data, t->path.len));
    fuzz_require(!fuzz_has_control(t->type.data, t->type.len, ""));
    fuzz_require(!fuzz_has_control(t->name.data, t->name.len, ""));
    fuzz_require(fuzz_is_utf8(t->name.data, t->name.len));

    fuzz_require(t->disposition == NSF_DISPOSITION_INLINE
                 || t->disposition == NSF_DISPOSITION_ATTACHMENT
                 || t->disposition == (t->name.len ? NSF_DISPOSITION_NAMED
                                                   : NSF_DISPOSITION_NONE));

    fuzz_require(t->expires >= 0 && t->expires < INT64_C(253402300800));
    fuzz_require(t->valid_until >= 0
                 && t->valid_until < INT64_C(253402300800));
    fuzz_require(t->valid_until == 0
                 || (t->expires != 0 && t->expires <= t->valid_until));

    fuzz_require(t->nheaders <= NSF_MAX_HEADERS);
    fuzz_require((t->headers == NULL) == (t->nheaders == 0));

    for (i = 0; i < t->nheaders; i++) {
        fuzz_check_header(t, i);
    }

    fuzz_check_disposition(t->disposition, &t->name);
}


static void
fuzz_check_header(const nsf_target_t *t, size_t i)
{
    char                 search[64];
    size_t               k, len;
    const char          *name;
    const nsf_header_t  *h, *other;

    static const char  chars[] = "abcdefghijklmnopqrstuvwxyz"
                                 "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-";
    static const char  cors[] = "Access-Control-";
    static const char  known[] = "|cache-control|expires|etag|last-modified"
                                 "|content-language|content-encoding|vary"
                                 "|link|content-security-policy"
                                 "|x-robots-tag|x-frame-options|";

    h = &t->headers[i];
    len = h->name.len;
    name = (const char *) h->name.data;

    fuzz_require(len > 0);

    for (k = 0; k < len; k++) {
        fuzz_require(memchr(chars, name[k], sizeof(chars) - 1) != NULL);
    }

    if (len < sizeof(cors) || strncasecmp(name, cors, sizeof(cors) - 1) != 0) {
        fuzz_require(len < sizeof(search) - 2);

        search[0] = '|';

        for (k = 0; k < len; k++) {
            search[k + 1] = name[k];

            if (name[k] >= 'A' && name[k] <= 'Z') {
                search[k + 1] = (char) (name[k] - 'A' + 'a');
            }
        }

        search[len + 1] = '|';
        search[len + 2] = '\0';

        fuzz_require(strstr(known, search) != NULL);
    }

    fuzz_require(!fuzz_has_control(h->value.data, h->value.len, "\t"));

    for (k = 0; k < i; k++) {
        other = &t->headers[k];

        fuzz_require(other->name.len != len
                     || strncasecmp((const char *) other->name.data, name,
                                    len) != 0);
    }
}


void
fuzz_check_disposition(nsf_disposition_e disposition, const nsf_str_t *name)
{
    char           *s;
    void           *memory;
    size_t          i, len;
    const char     *p;
    unsigned char  *buf;

    len = nsf_disposition(NULL, disposition, name);

    fuzz_require((len == 0) == (disposition == NSF_DISPOSITION_NONE
                                && name->len == 0));

    s = calloc(1, len + 1);
    fuzz_require(s != NULL);

    buf = fuzz_copy(s, len, &memory);
    fuzz_require(nsf_disposition(buf, disposition, name) == len);

    memcpy(s, buf, len);
    free(memory);

    for (i = 0; i < len; i++) {
        fuzz_require(s[i] >= 0x20 && s[i] <= 0x7e);
    }

    p = s;

    if (disposition == NSF_DISPOSITION_ATTACHMENT) {
        fuzz_require(strncmp(p, "attachment", 10) == 0);
        p += 10;

    } else if (len != 0) {
        fuzz_require(strncmp(p, "inline", 6) == 0);
        p += 6;
    }

    if (name->len != 0) {
        fuzz_require(strncmp(p, "; filename=\"", 12) == 0);
        p = fuzz_check_filename(p + 12, fuzz_count(name->data, name->len));

        if (*p != '\0') {
            fuzz_require(strncmp(p, "; filename*=UTF-8''", 19) == 0);
            fuzz_check_filename_ext(p + 19, name);
            p += strlen(p);

        } else {
            for (i = 0; i < name->len; i++) {
                fuzz_require(name->data[i] >= 0x20 && name->data[i] <= 0x7e
                             && name->data[i] != '%');
            }
        }
    }

    fuzz_require(p == s + len);

    free(s);
}


/* a quoted string, up to after its last quote */

static const char *
fuzz_check_filename(const char *p, size_t expected)
{
    size_t  count;

    for (count = 0; *p != '"'; count++) {
        fuzz_require(*p != '\0' && *p != '/');

        if (*p == '\\') {
            p++;
            fuzz_require(*p == '"');
        }

        p++;
    }

    fuzz_require(count == expected);

    return p + 1;
}


static void
fuzz_check_filename_ext(const char *p, const nsf_str_t *name)
{
    int             changed;
    char            hex[3];
    size_t          i, n;
    unsigned char  *decoded;

    /* attr-char of RFC 5987 */

    static const char  chars[] = "abcdefghijklmnopqrstuvwxyz"
                                 "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                 "0123456789!#$&+-.^_`|~";

    decoded = malloc(strlen(p) + 1);
    fuzz_require(decoded != NULL);

    for (n = 0; *p != '\0'; n++) {

        if (*p != '%') {
            fuzz_require(strchr(chars, *p) != NULL);
            decoded[n] = (unsigned char) *p++;
            continue;
        }

        fuzz_require(strspn(p + 1, "0123456789ABCDEF") >= 2);

        memcpy(hex, p + 1, 2);
        hex[2] = '\0';
        decoded[n] = (unsigned char) strtoul(hex, NULL, 16);
        p += 3;
    }

    /* byte for byte the name, what is replaced aside */

    fuzz_require(n == name->len);
    fuzz_require(fuzz_is_utf8(decoded, n));
    fuzz_require(!fuzz_has_control(decoded, n, ""));

    changed = 0;

    for (i = 0; i < n; i++) {
        fuzz_require(decoded[i] != '/' && decoded[i] != '\\');

        if (decoded[i] != name->data[i]) {
            fuzz_require(decoded[i] == '_');
            fuzz_require(name->data[i] < 0x20 || name->data[i] >= 0x7f
                         || name->data[i] == '/' || name->data[i] == '\\');

            changed |= name->data[i] >= 0x80;
        }
    }

    /* no byte of a good character is replaced */

    fuzz_require(!changed || !fuzz_is_utf8(name->data, name->len));

    free(decoded);
}
