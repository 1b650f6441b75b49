/*
 * Copyright (C) the ngx_sendfile authors
 *
 * nsf_marshal_*(): a dump, read as a String, a value, a time, an Array.
 */


#include "fuzz.h"
#include "nsf_marshal.h"


/* the form that Ruby would choose, and the bytes; returns the length */

static size_t
dump(unsigned char *to, const nsf_str_t *s)
{
    size_t  n;

    memcpy(to, "\x04\x08\"", 3);
    n = 3;

    if (s->len == 0) {
        to[n++] = 0;

    } else if (s->len <= 122) {
        to[n++] = (unsigned char) (s->len + 5);

    } else if (s->len <= 255) {
        to[n++] = 1;
        to[n++] = (unsigned char) s->len;

    } else {
        to[n++] = 2;
        to[n++] = (unsigned char) s->len;
        to[n++] = (unsigned char) (s->len >> 8);
    }

    memcpy(to + n, s->data, s->len);

    return n + s->len;
}


static void
fuzz_string(const unsigned char *p, size_t len)
{
    size_t          n;
    nsf_str_t       s, again;
    const char     *err;
    unsigned char  *to;

    err = nsf_marshal_decode(&s, p, len);

    if (err != NULL) {
        fuzz_check_error(err);
        return;
    }

    fuzz_require(len >= 4 && p[0] == 4 && p[1] == 8);
    fuzz_require(p[2] == '"' || (p[2] == 'I' && p[3] == '"'));
    fuzz_require(fuzz_is_slice(&s, p + 4, len - 4));

    if (p[2] == '"') {
        fuzz_require(s.data + s.len == p + len);
    }

    to = malloc(s.len + 8);
    fuzz_require(to != NULL);

    n = dump(to, &s);
    fuzz_require(nsf_marshal_decode(&again, to, n) == NULL);
    fuzz_require(again.data + again.len == to + n && again.len == s.len);

    free(to);
}


static void
fuzz_pieces(const unsigned char *p, size_t len)
{
    size_t          n;
    nsf_str_t       s;
    nsf_time_t      t;
    const char     *err;
    nsf_marshal_t   m;

    if (nsf_marshal_open(&m, p, len) != NULL) {
        fuzz_require(len < 2 || p[0] != 4 || p[1] != 8);
        return;
    }

    err = nsf_marshal_skip(&m);

    if (err != NULL) {
        fuzz_check_error(err);
    }

    fuzz_require(m.p >= p && m.p <= p + len);
    fuzz_require(m.nsymbols <= NSF_MARSHAL_MAX_SYMBOLS);

    /* whatever comes then */

    for ( ;; ) {
        fuzz_require((nsf_marshal_type(&m) == 0)
                     == (m.p == m.last || *m.p == 0));

        if (nsf_marshal_type(&m) == 'o') {
            err = nsf_marshal_object(&m, &s, &n);

        } else if (nsf_marshal_type(&m) == '[') {
            err = nsf_marshal_array(&m, &n);
            s.data = p;
            s.len = 0;

        } else {
            err = nsf_marshal_symbol(&m, &s);
            n = 0;
        }

        if (err != NULL) {
            break;
        }

        fuzz_require(fuzz_is_slice(&s, p, len));
        fuzz_require(n <= len);
    }

    fuzz_check_error(err);
    fuzz_require(m.p <= p + len);

    fuzz_require(nsf_marshal_open(&m, p, len) == NULL);

    err = nsf_marshal_time(&m, &t);

    if (err != NULL) {
        fuzz_check_error(err);

    } else {
        fuzz_require(t.nsec < 1000000000);
        fuzz_require(nsf_time_valid_until(&t) >= 0);
        fuzz_require(nsf_time_valid_until(&t) <= NSF_TIME_MAX);
    }
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    void           *memory;
    unsigned char  *p;

    p = fuzz_copy(data, size, &memory);

    fuzz_string(p, size);
    fuzz_pieces(p, size);

    free(memory);

    return 0;
}
