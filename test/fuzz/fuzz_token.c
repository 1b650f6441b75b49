/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Signed links and tokens: nsf_link, nsf_token, nsf_base64, nsf_message.  The
 * first byte says as what the rest is read.
 */


#include "fuzz.h"
#include "nsf_base64.h"
#include "nsf_blob.h"
#include "nsf_link.h"
#include "nsf_message.h"
#include "nsf_token.h"


/* a string of a message: in the bytes it was made of, or its own digits */

static void
check_slice(const nsf_str_t *s, const unsigned char *p, size_t len,
    const nsf_message_t *m)
{
    fuzz_require(s->data == NULL || fuzz_is_slice(s, p, len)
                 || fuzz_is_slice(s, m->digits, NSF_MESSAGE_DIGITS));
    fuzz_require(s->data != NULL || s->len == 0);
}


/* whatever the key: no path that leads anywhere else */

static void
path_of(const nsf_str_t *key)
{
    size_t          n;
    const char     *err;
    unsigned char  *path;

    if (key->data == NULL) {
        return;
    }

    path = malloc(key->len + NSF_BLOB_FOLDERS);
    fuzz_require(path != NULL);

    err = nsf_blob_path(path, &n, key);

    if (err != NULL) {
        fuzz_check_error(err);

    } else {
        fuzz_require(n <= key->len + NSF_BLOB_FOLDERS);
        fuzz_require(fuzz_path_is_good(path, n));
        fuzz_require(memcmp(path + n - key->len, key->data, key->len) == 0);
    }

    free(path);
}


static void
message(unsigned char *p, size_t len)
{
    const char     *err;
    nsf_message_t   m;

    err = nsf_message_decode(&m, p, len);

    if (err != NULL) {
        fuzz_check_error(err);
        return;
    }

    check_slice(&m.value, p, len, &m);
    check_slice(&m.key, p, len, &m);
    check_slice(&m.disposition, p, len, &m);
    check_slice(&m.type, p, len, &m);
    check_slice(&m.service, p, len, &m);
    check_slice(&m.purpose, p, len, &m);

    fuzz_require(m.expires >= 0);

    path_of(&m.key);
    path_of(&m.value);

    /* of data there is a value, or fields, or neither */

    if (m.kind == NSF_MESSAGE_STRING || m.kind == NSF_MESSAGE_INTEGER) {
        fuzz_require(m.value.data != NULL && m.key.data == NULL);

    } else {
        fuzz_require(m.value.data == NULL);
    }

    if (m.kind == NSF_MESSAGE_INTEGER) {
        fuzz_require(m.value.len > 0
                     && (m.value.data[0] == '-'
                         || (m.value.data[0] >= '0'
                             && m.value.data[0] <= '9')));
    }
}


/* the text and what was taken out of it are together the URI */

static void
link_of(const unsigned char *p, size_t len)
{
    size_t           n;
    nsf_link_t       l;
    const char      *err;
    unsigned char   *text;

    err = nsf_link_parse(&l, p, len);

    if (err != NULL) {
        fuzz_check_error(err);
        return;
    }

    fuzz_require(fuzz_is_slice(&l.path, p, len));
    fuzz_require(fuzz_is_slice(&l.signature, p, len));

    text = malloc(len);
    fuzz_require(text != NULL);

    n = nsf_link_text(&l, text);

    fuzz_require(n + strlen("?signature=") + l.signature.len == len);
    fuzz_require(memcmp(text, p, l.path.len) == 0);
    fuzz_require(nsf_link_until(&l.expires, 0) != NSF_UNTIL_OVER);

    free(text);
}


static void
imgproxy(const unsigned char *p, size_t len)
{
    nsf_str_t    prefix, signature, rest;
    const char  *err;

    prefix.data = (const unsigned char *) "/img";
    prefix.len = 4 * (len % 2);

    err = nsf_imgproxy_parse(&signature, &rest, &prefix, p, len);

    if (err != NULL) {
        fuzz_check_error(err);
        return;
    }

    fuzz_require(fuzz_is_slice(&signature, p, len));
    fuzz_require(fuzz_is_slice(&rest, p, len) && rest.data[0] == '/');

    (void) nsf_imgproxy_until(&rest, 1000);
}


/* a whole segment, with another behind it */

static void
check_segment(const nsf_str_t *s, const unsigned char *p, size_t len)
{
    fuzz_require(fuzz_is_slice(s, p, len) && s->len > 0 && s->data > p
                 && s->data[-1] == '/'
                 && s->data + s->len + 1 < p + len
                 && s->data[s->len] == '/'
                 && memchr(s->data, '/', s->len) == NULL
                 && memchr(p, '?', (size_t) (s->data + s->len - p)) == NULL);
}


static void
blob_url(const unsigned char *p, size_t len)
{
    int             records;
    size_t          n;
    nsf_str_t       name;
    nsf_target_t    t;
    nsf_blob_url_t  url;
    unsigned char  *cleaned;

    for (records = 0; records < 2; records++) {

        if (!nsf_blob_url(&url, p, len, records)) {
            continue;
        }

        check_segment(&url.token, p, len);

        fuzz_require(records || url.kind == NSF_BLOB_DISK);
        fuzz_require((url.kind == NSF_BLOB_REPRESENTATION)
                     == (url.variation.len > 0));

        if (url.kind == NSF_BLOB_REPRESENTATION) {
            check_segment(&url.variation, p, len);
        }
    }

    (void) nsf_blob_asked(p, len);

    memset(&t, 0, sizeof(nsf_target_t));
    t.type.data = p;
    t.type.len = len;

    nsf_blob_serving(&t);
    fuzz_require(t.type.len > 0 && t.disposition != NSF_DISPOSITION_NONE);

    cleaned = malloc(len ? len : 1);
    fuzz_require(cleaned != NULL);

    name.data = p;
    name.len = len;

    n = nsf_blob_name(cleaned, &name);
    fuzz_require(n <= len && (n == 0 || memchr(cleaned, '/', n) == NULL));

    free(cleaned);
}


static void
tokens(unsigned char *p, size_t len)
{
    size_t       n;
    int64_t      sec;
    nsf_str_t    value;
    nsf_token_t  t;

    nsf_token_segment(&value, p, len);
    fuzz_require(value.len == 0 || fuzz_is_slice(&value, p, len));

    blob_url(p, len);

    if (nsf_token_django(&t, p, len) == NULL) {
        fuzz_require(t.text.len + 1 + t.mac.len == len);

        if (nsf_token_stamp(&value, &sec, &t.text) == NULL) {
            fuzz_require(value.len < t.text.len && sec >= 0);
        }
    }

    if (nsf_token_rails(&t, p, len, 40) != NULL) {
        return;
    }

    fuzz_require(t.text.len + 42 == len && t.mac.len == 40);

    /* as if its code were good */

    if (nsf_base64_decode(p, &n, p, t.text.len) == NULL) {
        fuzz_require(n <= t.text.len / 4 * 3 + 2);
        message(p, n);
    }
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    void           *memory;
    size_t          n;
    unsigned char  *p;

    if (size == 0) {
        return 0;
    }

    p = fuzz_copy(data + 1, size - 1, &memory);

    switch (data[0] % 4) {

    case 0:
        message(p, size - 1);
        break;

    case 1:
        link_of(p, size - 1);
        break;

    case 2:
        imgproxy(p, size - 1);
        break;

    default:
        if (nsf_token_unescape(p, &n, p, size - 1) == NULL) {
            fuzz_require(n <= size - 1);
            tokens(p, n);
        }

        break;
    }

    free(memory);

    return 0;
}
