
/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <string.h>

#include "nsf_base64.h"
#include "nsf_marshal.h"
#include "nsf_message.h"
#include "nsf_pull.h"


#define NSF_MESSAGE_ENVELOPE  "_rails"


/* what is in an envelope: data itself, or a text that has it */

typedef struct {
    int                   has_data;
    nsf_str_t             message;
    nsf_str_t             expires;
} nsf_message_envelope_t;


static const char *nsf_message_end(nsf_message_t *m,
    nsf_message_envelope_t *e);
static const char *nsf_message_inner(nsf_message_t *m, const nsf_str_t *s);
static nsf_str_t *nsf_message_field(nsf_message_t *m, const nsf_str_t *name);

static const char *nsf_message_json(nsf_message_t *m, unsigned char *p,
    size_t len, int envelopes);
static const char *nsf_message_json_envelope(nsf_message_t *m,
    nsf_message_envelope_t *e, nsf_pull_t *j);
static const char *nsf_message_json_data(nsf_message_t *m, nsf_pull_t *j);
static const char *nsf_message_json_hash(nsf_message_t *m, nsf_pull_t *j,
    size_t n, nsf_str_t *name);
static const char *nsf_message_json_string(nsf_str_t *s, nsf_pull_t *j);

static const char *nsf_message_marshal(nsf_message_t *m, unsigned char *p,
    size_t len, int envelopes);
static const char *nsf_message_marshal_envelope(nsf_message_t *m,
    nsf_message_envelope_t *e, nsf_marshal_t *v);
static const char *nsf_message_marshal_data(nsf_message_t *m,
    nsf_marshal_t *v);
static const char *nsf_message_marshal_hash(nsf_message_t *m,
    nsf_marshal_t *v, size_t n);
static const char *nsf_message_marshal_integer(nsf_message_t *m,
    nsf_marshal_t *v);
static const char *nsf_message_marshal_text(nsf_str_t *s, nsf_marshal_t *v);

static int nsf_message_number(int64_t *n, const nsf_str_t *s, size_t pos,
    size_t len);


const char *
nsf_message_decode(nsf_message_t *m, unsigned char *p, size_t len)
{
    memset(m, 0, sizeof(nsf_message_t));

    m->expires = NSF_MESSAGE_EVER;

    return nsf_marshal_is(p, len) ? nsf_message_marshal(m, p, len, 1)
                                  : nsf_message_json(m, p, len, 1);
}


/* an envelope has been read to its end */

static const char *
nsf_message_end(nsf_message_t *m, nsf_message_envelope_t *e)
{
    const char  *err;

    if (e->expires.data != NULL) {
        err = nsf_message_time(&m->expires, &e->expires);
        if (err != NULL) {
            return err;
        }
    }

    if (e->has_data == (e->message.data != NULL)) {
        return "no data in token";
    }

    return e->has_data ? NULL : nsf_message_inner(m, &e->message);
}


/* base64 of the data, which lies in memory that is ours to change */

static const char *
nsf_message_inner(nsf_message_t *m, const nsf_str_t *s)
{
    size_t          n;
    const char     *err;
    unsigned char  *p;

    p = (unsigned char *) (uintptr_t) s->data;

    err = nsf_base64_decode(p, &n, p, s->len);
    if (err != NULL) {
        return err;
    }

    if (!nsf_marshal_is(p, n)) {
        return nsf_message_json(m, p, n, 0);
    }

    m->marshal.data = p;
    m->marshal.len = n;

    return nsf_message_marshal(m, p, n, 0);
}


/* where a field of a Hash goes; NULL if that is of no use */

static nsf_str_t *
nsf_message_field(nsf_message_t *m, const nsf_str_t *name)
{
    if (nsf_message_is(name, "key")) {
        return &m->key;
    }

    if (nsf_message_is(name, "disposition")) {
        return &m->disposition;
    }

    if (nsf_message_is(name, "content_type")) {
        return &m->type;
    }

    if (nsf_message_is(name, "service_name")) {
        return &m->service;
    }

    return NULL;
}


static const char *
nsf_message_json(nsf_message_t *m, unsigned char *p, size_t len, int envelopes)
{
    nsf_str_t                name;
    nsf_pull_t               j;
    const char              *err;
    nsf_message_envelope_t   e;

    memset(&e, 0, sizeof(nsf_message_envelope_t));

    nsf_pull_open(&j, p, len);

    if (!envelopes || nsf_pull_type(&j) != '{') {
        err = nsf_message_json_data(m, &j);
        return (err != NULL) ? err : nsf_pull_close(&j);
    }

    (void) nsf_pull_object(&j);

    err = nsf_pull_member(&j, 0, &name);
    if (err != NULL) {
        return err;
    }

    if (!nsf_message_is(&name, NSF_MESSAGE_ENVELOPE)) {
        err = nsf_message_json_hash(m, &j, 1, &name);
        return (err != NULL) ? err : nsf_pull_close(&j);
    }

    err = nsf_message_json_envelope(m, &e, &j);
    if (err != NULL) {
        return err;
    }

    err = nsf_pull_member(&j, 1, &name);
    if (err != NULL) {
        return err;
    }

    if (name.data != NULL) {
        return "more than an envelope in token";
    }

    err = nsf_pull_close(&j);

    return (err != NULL) ? err : nsf_message_end(m, &e);
}


static const char *
nsf_message_json_envelope(nsf_message_t *m, nsf_message_envelope_t *e,
    nsf_pull_t *j)
{
    size_t       n;
    nsf_str_t    name;
    const char  *err;

    err = nsf_pull_object(j);

    for (n = 0; err == NULL; n++) {
        err = nsf_pull_member(j, n, &name);

        if (err != NULL || name.data == NULL) {
            return err;
        }

        if (nsf_message_is(&name, "data")) {

            if (e->has_data) {
                return "data twice in token";
            }

            e->has_data = 1;
            err = nsf_message_json_data(m, j);

        } else if (nsf_message_is(&name, "message")) {
            err = nsf_message_json_string(&e->message, j);

        } else if (nsf_message_is(&name, "exp")) {
            err = nsf_message_json_string(&e->expires, j);

        } else if (nsf_message_is(&name, "pur")) {
            err = nsf_message_json_string(&m->purpose, j);

        } else {
            err = nsf_pull_skip(j);
        }
    }

    return err;
}


static const char *
nsf_message_json_data(nsf_message_t *m, nsf_pull_t *j)
{
    unsigned     type;
    nsf_str_t    name;
    const char  *err;

    type = nsf_pull_type(j);

    if (type == '"') {
        m->kind = NSF_MESSAGE_STRING;
        return nsf_pull_string(j, &m->value);
    }

    if (type == '-' || (type >= '0' && type <= '9')) {
        m->kind = NSF_MESSAGE_INTEGER;
        return nsf_pull_integer(j, &m->value);
    }

    if (type != '{') {
        return nsf_pull_skip(j);
    }

    (void) nsf_pull_object(j);

    err = nsf_pull_member(j, 0, &name);
    if (err != NULL) {
        return err;
    }

    return nsf_message_json_hash(m, j, 1, &name);
}


/* from behind the first name, "n" is 1 then */

static const char *
nsf_message_json_hash(nsf_message_t *m, nsf_pull_t *j, size_t n,
    nsf_str_t *name)
{
    nsf_str_t   *field;
    const char  *err;

    m->kind = NSF_MESSAGE_HASH;

    while (name->data != NULL) {
        field = nsf_message_field(m, name);

        err = field ? nsf_message_json_string(field, j) : nsf_pull_skip(j);
        if (err != NULL) {
            return err;
        }

        err = nsf_pull_member(j, n++, name);
        if (err != NULL) {
            return err;
        }
    }

    return NULL;
}


/* or null, which is none; a name that comes twice is no token of Rails */

static const char *
nsf_message_json_string(nsf_str_t *s, nsf_pull_t *j)
{
    if (s->data != NULL) {
        return "a field twice in token";
    }

    return (nsf_pull_type(j) == 'n') ? nsf_pull_skip(j)
                                     : nsf_pull_string(j, s);
}


static const char *
nsf_message_marshal(nsf_message_t *m, unsigned char *p, size_t len,
    int envelopes)
{
    size_t                   n;
    nsf_str_t                name;
    const char              *err;
    nsf_marshal_t            v, start;
    nsf_message_envelope_t   e;

    memset(&e, 0, sizeof(nsf_message_envelope_t));

    err = nsf_marshal_open(&v, p, len);
    if (err != NULL) {
        return err;
    }

    start = v;

    if (envelopes
        && nsf_marshal_hash(&v, &n) == NULL
        && n == 1
        && nsf_marshal_string(&v, &name) == NULL
        && nsf_message_is(&name, NSF_MESSAGE_ENVELOPE))
    {
        err = nsf_message_marshal_envelope(m, &e, &v);
        if (err != NULL) {
            return err;
        }

        err = nsf_marshal_close(&v);

        return (err != NULL) ? err : nsf_message_end(m, &e);
    }

    v = start;

    err = nsf_message_marshal_data(m, &v);

    return (err != NULL) ? err : nsf_marshal_close(&v);
}


static const char *
nsf_message_marshal_envelope(nsf_message_t *m, nsf_message_envelope_t *e,
    nsf_marshal_t *v)
{
    size_t       n;
    nsf_str_t    name;
    const char  *err;

    err = nsf_marshal_hash(v, &n);

    for ( /* void */ ; err == NULL && n > 0; n--) {
        err = nsf_marshal_string(v, &name);
        if (err != NULL) {
            return err;
        }

        if (nsf_message_is(&name, "data")) {

            if (e->has_data) {
                return "data twice in token";
            }

            e->has_data = 1;
            err = nsf_message_marshal_data(m, v);

        } else if (nsf_message_is(&name, "exp")) {
            err = nsf_message_marshal_text(&e->expires, v);

        } else if (nsf_message_is(&name, "pur")) {
            err = nsf_message_marshal_text(&m->purpose, v);

        } else {
            err = nsf_marshal_skip(v);
        }
    }

    return err;
}


static const char *
nsf_message_marshal_data(nsf_message_t *m, nsf_marshal_t *v)
{
    size_t       n;
    const char  *err;

    switch (nsf_marshal_type(v)) {

    case 'I':
    case '"':
        m->kind = NSF_MESSAGE_STRING;
        return nsf_marshal_string(v, &m->value);

    case 'i':
    case 'l':
        m->kind = NSF_MESSAGE_INTEGER;
        return nsf_message_marshal_integer(m, v);

    case '{':
        m->kind = NSF_MESSAGE_HASH;

        err = nsf_marshal_hash(v, &n);

        return (err != NULL) ? err : nsf_message_marshal_hash(m, v, n);

    default:
        return nsf_marshal_skip(v);
    }
}


static const char *
nsf_message_marshal_hash(nsf_message_t *m, nsf_marshal_t *v, size_t n)
{
    nsf_str_t    name, *field;
    const char  *err;

    for ( /* void */ ; n > 0; n--) {
        name.data = NULL;

        err = nsf_message_marshal_text(&name, v);
        if (err != NULL) {
            return err;
        }

        field = nsf_message_field(m, &name);

        err = field ? nsf_message_marshal_text(field, v)
                    : nsf_marshal_skip(v);
        if (err != NULL) {
            return err;
        }
    }

    return NULL;
}


static const char *
nsf_message_marshal_integer(nsf_message_t *m, nsf_marshal_t *v)
{
    int64_t         value;
    uint64_t        n;
    const char     *err;
    unsigned char  *p;

    err = nsf_marshal_integer(v, &value);
    if (err != NULL) {
        return err;
    }

    n = (value < 0) ? (uint64_t) -value : (uint64_t) value;

    p = m->digits + NSF_MESSAGE_DIGITS;

    do {
        *--p = (unsigned char) ('0' + n % 10);
        n /= 10;
    } while (n > 0);

    if (value < 0) {
        *--p = '-';
    }

    m->value.data = p;
    m->value.len = (size_t) (m->digits + NSF_MESSAGE_DIGITS - p);

    return NULL;
}


/* a String or a Symbol, or nil, which is none */

static const char *
nsf_message_marshal_text(nsf_str_t *s, nsf_marshal_t *v)
{
    if (s->data != NULL) {
        return "a field twice in token";
    }

    switch (nsf_marshal_type(v)) {

    case '0':
        return nsf_marshal_skip(v);

    case ':':
    case ';':
        return nsf_marshal_symbol(v, s);

    default:
        return nsf_marshal_string(v, s);
    }
}


/*
 * Days since 1970 of a day of the Gregorian calendar: years begin in March, so
 * that the odd day is at the end of one.
 */

const char *
nsf_message_time(int64_t *ms, const nsf_str_t *s)
{
    static const char  form[] = "0000-00-00T00:00:00.000Z";

    size_t   i;
    int64_t  year, month, day, hour, min, sec, frac, days;

    if (s->len != sizeof(form) - 1) {
        return "broken time in token";
    }

    for (i = 0; i < s->len; i++) {
        if (form[i] != '0' && s->data[i] != (unsigned char) form[i]) {
            return "broken time in token";
        }
    }

    if (!nsf_message_number(&year, s, 0, 4)
        || !nsf_message_number(&month, s, 5, 2)
        || !nsf_message_number(&day, s, 8, 2)
        || !nsf_message_number(&hour, s, 11, 2)
        || !nsf_message_number(&min, s, 14, 2)
        || !nsf_message_number(&sec, s, 17, 2)
        || !nsf_message_number(&frac, s, 20, 3)
        || year < 1970
        || month < 1 || month > 12 || day < 1 || day > 31
        || hour > 23 || min > 59 || sec > 59)
    {
        return "broken time in token";
    }

    year -= (month <= 2);
    month = (month + 9) % 12;

    days = 365 * year + year / 4 - year / 100 + year / 400
           + (153 * month + 2) / 5 + day - 1 - 719468;

    *ms = (((days * 24 + hour) * 60 + min) * 60 + sec) * 1000 + frac;

    return NULL;
}


static int
nsf_message_number(int64_t *n, const nsf_str_t *s, size_t pos, size_t len)
{
    size_t  i;

    *n = 0;

    for (i = pos; i < pos + len; i++) {

        if (s->data[i] < '0' || s->data[i] > '9') {
            return 0;
        }

        *n = *n * 10 + (s->data[i] - '0');
    }

    return 1;
}
