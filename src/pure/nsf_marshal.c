/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <string.h>

#include "nsf_marshal.h"


#define NSF_MARSHAL_CUT_OFF  "Marshal data cut off"
#define NSF_MARSHAL_BROKEN   "broken Marshal data"


static const char *nsf_marshal_value(nsf_marshal_t *m, unsigned depth);
static const char *nsf_marshal_values(nsf_marshal_t *m, size_t n,
    unsigned depth);
static const char *nsf_marshal_ivars(nsf_marshal_t *m, unsigned depth);
static const char *nsf_marshal_byte(nsf_marshal_t *m, unsigned char *c);
static const char *nsf_marshal_long(nsf_marshal_t *m, int64_t *n);
static const char *nsf_marshal_count(nsf_marshal_t *m, size_t *n);
static const char *nsf_marshal_bytes(nsf_marshal_t *m, nsf_str_t *s);
static const char *nsf_marshal_bignum(nsf_marshal_t *m, int64_t *number);
static const char *nsf_marshal_no_string(unsigned type);


int
nsf_marshal_is(const unsigned char *p, size_t len)
{
    return len >= 2 && p[0] == 0x04 && p[1] == 0x08;
}


const char *
nsf_marshal_decode(nsf_str_t *s, const unsigned char *p, size_t len)
{
    const char     *err;
    nsf_marshal_t   m;

    err = nsf_marshal_open(&m, p, len);
    if (err != NULL) {
        return err;
    }

    err = nsf_marshal_string(&m, s);
    if (err != NULL) {
        return err;
    }

    return nsf_marshal_close(&m);
}


const char *
nsf_marshal_open(nsf_marshal_t *m, const unsigned char *p, size_t len)
{
    if (!nsf_marshal_is(p, len)) {
        return "not Ruby Marshal 4.8";
    }

    m->p = p + 2;
    m->last = p + len;
    m->nsymbols = 0;

    return NULL;
}


const char *
nsf_marshal_close(const nsf_marshal_t *m)
{
    return (m->p == m->last) ? NULL : "bytes behind the Marshal data";
}


unsigned
nsf_marshal_type(const nsf_marshal_t *m)
{
    return (m->p == m->last) ? 0 : *m->p;
}


/* " bytes, or I " bytes and instance variables: the encoding, as a rule */

const char *
nsf_marshal_string(nsf_marshal_t *m, nsf_str_t *s)
{
    int             ivars;
    const char     *err;
    unsigned char   type;

    err = nsf_marshal_byte(m, &type);
    if (err != NULL) {
        return err;
    }

    ivars = (type == 'I');

    if (ivars) {
        err = nsf_marshal_byte(m, &type);
        if (err != NULL) {
            return err;
        }
    }

    if (type != '"') {
        return nsf_marshal_no_string(type);
    }

    err = nsf_marshal_bytes(m, s);
    if (err != NULL) {
        return err;
    }

    return ivars ? nsf_marshal_ivars(m, 1) : NULL;
}


static const char *
nsf_marshal_no_string(unsigned type)
{
    switch (type) {

    case '0':
        return "nil in Marshal, not a String";

    case 'T':
    case 'F':
        return "true or false in Marshal, not a String";

    case 'i':
    case 'l':
        return "an Integer in Marshal, not a String";

    case 'f':
        return "a Float in Marshal, not a String";

    case ':':
    case ';':
        return "a Symbol in Marshal, not a String";

    case '[':
        return "an Array in Marshal, not a String";

    case '{':
    case '}':
        return "a Hash in Marshal, not a String";

    case 'C':
        return "a subclass in Marshal, not a String";

    default:
        return "an object in Marshal, not a String";
    }
}


const char *
nsf_marshal_symbol(nsf_marshal_t *m, nsf_str_t *s)
{
    int64_t         i;
    const char     *err;
    unsigned char   type;

    err = nsf_marshal_byte(m, &type);
    if (err != NULL) {
        return err;
    }

    if (type == ';') {
        err = nsf_marshal_long(m, &i);
        if (err != NULL) {
            return err;
        }

        if (i < 0 || (uint64_t) i >= m->nsymbols) {
            return NSF_MARSHAL_BROKEN;
        }

        *s = m->symbols[i];
        return NULL;
    }

    if (type != ':') {
        return NSF_MARSHAL_BROKEN;
    }

    err = nsf_marshal_bytes(m, s);
    if (err != NULL) {
        return err;
    }

    if (m->nsymbols == NSF_MARSHAL_MAX_SYMBOLS) {
        return "too many Symbols in Marshal";
    }

    m->symbols[m->nsymbols++] = *s;

    return NULL;
}


const char *
nsf_marshal_integer(nsf_marshal_t *m, int64_t *n)
{
    const char     *err;
    unsigned char   type;

    err = nsf_marshal_byte(m, &type);
    if (err != NULL) {
        return err;
    }

    switch (type) {

    case 'i':
        return nsf_marshal_long(m, n);

    case 'l':
        err = nsf_marshal_bignum(m, n);
        if (err != NULL) {
            return err;
        }

        return (*n == INT64_MAX || *n == -INT64_MAX)
               ? "an Integer too large in Marshal" : NULL;

    default:
        return "not an Integer in Marshal";
    }
}


const char *
nsf_marshal_time(nsf_marshal_t *m, nsf_time_t *t)
{
    int64_t         n;
    nsf_str_t       s;
    const char     *err;
    unsigned char   type;

    memset(t, 0, sizeof(nsf_time_t));

    err = nsf_marshal_byte(m, &type);
    if (err != NULL) {
        return err;
    }

    switch (type) {

    case '0':
        return NULL;

    case 'i':
        err = nsf_marshal_long(m, &n);
        if (err != NULL) {
            return err;
        }

        nsf_time_integer(t, n);
        return NULL;

    case 'l':
        err = nsf_marshal_bignum(m, &n);
        if (err != NULL) {
            return err;
        }

        nsf_time_integer(t, n);
        return NULL;

    case 'f':
        err = nsf_marshal_bytes(m, &s);
        if (err != NULL) {
            return err;
        }

        return nsf_time_decimal(t, s.data, s.len);

    default:
        return "not a time in Marshal";
    }
}


/*
 * A sign and so many 16-bit words, little endian.  What is too large becomes
 * INT64_MAX, or as much below 0.
 */

static const char *
nsf_marshal_bignum(nsf_marshal_t *m, int64_t *number)
{
    int             negative;
    size_t          i, n;
    int64_t         value;
    const char     *err;
    unsigned char   sign;

    err = nsf_marshal_byte(m, &sign);
    if (err != NULL) {
        return err;
    }

    if (sign != '+' && sign != '-') {
        return NSF_MARSHAL_BROKEN;
    }

    err = nsf_marshal_count(m, &n);
    if (err != NULL) {
        return err;
    }

    if (n > (size_t) (m->last - m->p) / 2) {
        return NSF_MARSHAL_CUT_OFF;
    }

    value = 0;
    negative = (sign == '-');

    for (i = 2 * n; i > 0; i--) {

        if (value > INT64_MAX >> 8) {
            value = INT64_MAX;
            break;
        }

        value = value << 8 | m->p[i - 1];
    }

    m->p += 2 * n;

    *number = negative ? -value : value;

    return NULL;
}


const char *
nsf_marshal_array(nsf_marshal_t *m, size_t *n)
{
    const char     *err;
    unsigned char   type;

    err = nsf_marshal_byte(m, &type);
    if (err != NULL) {
        return err;
    }

    if (type != '[') {
        return "not an Array in Marshal";
    }

    return nsf_marshal_count(m, n);
}


const char *
nsf_marshal_hash(nsf_marshal_t *m, size_t *n)
{
    const char     *err;
    unsigned char   type;

    err = nsf_marshal_byte(m, &type);
    if (err != NULL) {
        return err;
    }

    if (type != '{') {
        return "not a Hash in Marshal";
    }

    return nsf_marshal_count(m, n);
}


const char *
nsf_marshal_object(nsf_marshal_t *m, nsf_str_t *name, size_t *n)
{
    const char     *err;
    unsigned char   type;

    err = nsf_marshal_byte(m, &type);
    if (err != NULL) {
        return err;
    }

    if (type != 'o') {
        return "not an object in Marshal";
    }

    err = nsf_marshal_symbol(m, name);
    if (err != NULL) {
        return err;
    }

    return nsf_marshal_count(m, n);
}


const char *
nsf_marshal_skip(nsf_marshal_t *m)
{
    return nsf_marshal_value(m, 0);
}


/*
 * Linear in the number of bytes: each value takes one at least, and a count of
 * values that is larger than the number of bytes left is an error.
 */

static const char *
nsf_marshal_value(nsf_marshal_t *m, unsigned depth)
{
    size_t          n;
    int64_t         i;
    nsf_str_t       s;
    nsf_time_t      t;
    const char     *err;
    unsigned char   type;

    if (depth == NSF_MARSHAL_MAX_DEPTH) {
        return "Marshal data nested too deep";
    }

    switch (nsf_marshal_type(m)) {

    case ':':
    case ';':
        return nsf_marshal_symbol(m, &s);

    case 'l':
        return nsf_marshal_time(m, &t);
    }

    err = nsf_marshal_byte(m, &type);
    if (err != NULL) {
        return err;
    }

    switch (type) {

    case '0':
    case 'T':
    case 'F':
        return NULL;

    case 'i':
    case '@':
        return nsf_marshal_long(m, &i);

    case '"':
    case 'f':
        return nsf_marshal_bytes(m, &s);

    case '/':
        err = nsf_marshal_bytes(m, &s);
        if (err != NULL) {
            return err;
        }

        /* the options */

        return nsf_marshal_byte(m, &type);

    case 'I':
        err = nsf_marshal_value(m, depth + 1);
        if (err != NULL) {
            return err;
        }

        return nsf_marshal_ivars(m, depth + 1);

    case '[':
    case '{':
    case '}':
        err = nsf_marshal_count(m, &n);
        if (err != NULL) {
            return err;
        }

        /* a Hash has pairs, and behind them its default if it has one */

        if (type != '[') {
            n = 2 * n + (type == '}');
        }

        return nsf_marshal_values(m, n, depth + 1);

    default:
        return "an object in Marshal";
    }
}


static const char *
nsf_marshal_values(nsf_marshal_t *m, size_t n, unsigned depth)
{
    const char  *err;

    for ( /* void */ ; n > 0; n--) {
        err = nsf_marshal_value(m, depth);
        if (err != NULL) {
            return err;
        }
    }

    return NULL;
}


/* a count and pairs of symbol and value */

static const char *
nsf_marshal_ivars(nsf_marshal_t *m, unsigned depth)
{
    size_t       n;
    nsf_str_t    name;
    const char  *err;

    err = nsf_marshal_count(m, &n);
    if (err != NULL) {
        return err;
    }

    for ( /* void */ ; n > 0; n--) {
        err = nsf_marshal_symbol(m, &name);
        if (err != NULL) {
            return err;
        }

        err = nsf_marshal_value(m, depth);
        if (err != NULL) {
            return err;
        }
    }

    return NULL;
}


static const char *
nsf_marshal_byte(nsf_marshal_t *m, unsigned char *c)
{
    if (m->p == m->last) {
        return NSF_MARSHAL_CUT_OFF;
    }

    *c = *m->p++;

    return NULL;
}


/*
 * 00         0
 * 01..04     so many bytes follow, little endian
 * 05..7f     0..122
 * 80..fb     -123..0
 * fc..ff     4..1 bytes follow, little endian, of a negative number
 */

static const char *
nsf_marshal_long(nsf_marshal_t *m, int64_t *n)
{
    size_t          i, nbytes;
    const char     *err;
    unsigned char   c;

    err = nsf_marshal_byte(m, &c);
    if (err != NULL) {
        return err;
    }

    if (c == 0) {
        *n = 0;
        return NULL;
    }

    if (c >= 0x05 && c <= 0x7f) {
        *n = c - 5;
        return NULL;
    }

    if (c >= 0x80 && c <= 0xfb) {
        *n = c - 0x100 + 5;
        return NULL;
    }

    nbytes = (c <= 0x04) ? c : 0x100U - c;

    if ((size_t) (m->last - m->p) < nbytes) {
        return NSF_MARSHAL_CUT_OFF;
    }

    *n = 0;

    for (i = nbytes; i > 0; i--) {
        *n = *n << 8 | m->p[i - 1];
    }

    if (c > 0x04) {
        *n -= INT64_C(1) << (8 * nbytes);
    }

    m->p += nbytes;

    return NULL;
}


/* a count of bytes, or of elements, which take a byte or more each */

static const char *
nsf_marshal_count(nsf_marshal_t *m, size_t *n)
{
    int64_t      number;
    const char  *err;

    err = nsf_marshal_long(m, &number);
    if (err != NULL) {
        return err;
    }

    if (number < 0) {
        return NSF_MARSHAL_BROKEN;
    }

    if (number > m->last - m->p) {
        return NSF_MARSHAL_CUT_OFF;
    }

    *n = (size_t) number;

    return NULL;
}


static const char *
nsf_marshal_bytes(nsf_marshal_t *m, nsf_str_t *s)
{
    size_t       n;
    const char  *err;

    err = nsf_marshal_count(m, &n);
    if (err != NULL) {
        return err;
    }

    s->data = m->p;
    s->len = n;

    m->p += n;

    return NULL;
}
