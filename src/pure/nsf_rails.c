/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <string.h>

#include "nsf_inflate.h"
#include "nsf_marshal.h"
#include "nsf_rails.h"


/*
 * 6.1  Marshal of an object of ActiveSupport::Cache::Entry with @value,
 *      @version, @created_at, @expires_in and, if @value is zlib data of the
 *      Marshal of the value, @compressed.  It expires at @created_at +
 *      @expires_in.
 *
 * 7.0  00, Marshal of [value, expires_at, version] without nils at its end;
 *      01, the same Marshal as zlib data.
 *
 * 7.1  00 11, type (1 byte), expires_at (a double, little endian, below 0:
 *      none), length of the version (4 bytes, signed, little endian, -1:
 *      none), version, payload.  Type 02, 03, 04: the payload is a String in
 *      UTF-8, binary, ASCII; 01: the Marshal of a value, Strings in other
 *      encodings among them.  | 80: the payload is zlib data.
 */

#define NSF_RAILS_CLASS       "ActiveSupport::Cache::Entry"

#define NSF_RAILS_CUT_OFF     "Rails.cache entry cut off"
#define NSF_RAILS_BROKEN      "broken Rails.cache entry"

#define NSF_RAILS_MAX_IVARS   16

#define NSF_RAILS_MARSHAL     0x01
#define NSF_RAILS_UTF8        0x02
#define NSF_RAILS_BINARY      0x03
#define NSF_RAILS_ASCII       0x04
#define NSF_RAILS_COMPRESSED  0x80

/* 00 11, type, expires_at, length of the version */

#define NSF_RAILS_TYPE        2
#define NSF_RAILS_EXPIRES     3
#define NSF_RAILS_VERSION     11
#define NSF_RAILS_HEADER      15


/* the instance variables of an entry */

typedef struct {
    unsigned              has_value;
    unsigned              compressed;
    nsf_str_t             value;
    nsf_time_t            created_at;
    nsf_time_t            expires_in;
} nsf_rails_entry_t;


static const char *nsf_rails_object(nsf_str_t *s, int64_t *valid_until,
    const unsigned char *p, size_t len, nsf_pool_t *pool);
static const char *nsf_rails_ivar(nsf_rails_entry_t *entry, nsf_marshal_t *m);
static int nsf_rails_is_ivar(const nsf_str_t *name, const char *ivar);
static const char *nsf_rails_flag(unsigned *flag, nsf_marshal_t *m);
static const char *nsf_rails_array(nsf_str_t *s, int64_t *valid_until,
    const unsigned char *p, size_t len);
static const char *nsf_rails_header(nsf_str_t *s, int64_t *valid_until,
    const unsigned char *p, size_t len, nsf_pool_t *pool);


int
nsf_rails_is_object(const unsigned char *p, size_t len)
{
    return len >= 3 && nsf_marshal_is(p, len) && p[2] == 'o';
}


int
nsf_rails_is_packed(const unsigned char *p, size_t len)
{
    if (len >= 2 && p[0] == 0x00 && p[1] == 0x11) {
        return 1;
    }

    if (len >= 1 && p[0] == 0x00) {
        return nsf_marshal_is(p + 1, len - 1);
    }

    return len >= 1 && p[0] == 0x01 && nsf_inflate_is_zlib(p + 1, len - 1);
}


const char *
nsf_rails_decode(nsf_str_t *s, int64_t *valid_until, const unsigned char *p,
    size_t len, nsf_pool_t *pool)
{
    nsf_str_t    array;
    const char  *err;

    *valid_until = 0;

    if (nsf_rails_is_object(p, len)) {
        return nsf_rails_object(s, valid_until, p, len, pool);
    }

    if (!nsf_rails_is_packed(p, len)) {
        return "not a Rails.cache entry";
    }

    if (p[0] == 0x01) {
        err = nsf_inflate(&array, p + 1, len - 1, pool);
        if (err != NULL) {
            return err;
        }

        return nsf_rails_array(s, valid_until, array.data, array.len);
    }

    if (p[1] == 0x11) {
        return nsf_rails_header(s, valid_until, p, len, pool);
    }

    return nsf_rails_array(s, valid_until, p + 1, len - 1);
}


/* format 6.1 */

static const char *
nsf_rails_object(nsf_str_t *s, int64_t *valid_until, const unsigned char *p,
    size_t len, nsf_pool_t *pool)
{
    size_t              n;
    nsf_str_t           name, value;
    const char         *err;
    nsf_marshal_t       m;
    nsf_rails_entry_t   entry;

    memset(&entry, 0, sizeof(nsf_rails_entry_t));

    err = nsf_marshal_open(&m, p, len);
    if (err != NULL) {
        return err;
    }

    err = nsf_marshal_object(&m, &name, &n);
    if (err != NULL) {
        return err;
    }

    if (!nsf_rails_is_ivar(&name, NSF_RAILS_CLASS)) {
        return "an object in Marshal, not a String";
    }

    if (n > NSF_RAILS_MAX_IVARS) {
        return NSF_RAILS_BROKEN;
    }

    for ( /* void */ ; n > 0; n--) {
        err = nsf_rails_ivar(&entry, &m);
        if (err != NULL) {
            return err;
        }
    }

    err = nsf_marshal_close(&m);
    if (err != NULL) {
        return err;
    }

    if (!entry.has_value) {
        return NSF_RAILS_BROKEN;
    }

    if (entry.expires_in.kind != NSF_TIME_NONE) {

        if (entry.created_at.kind == NSF_TIME_NONE) {
            return NSF_RAILS_BROKEN;
        }

        nsf_time_add(&entry.created_at, &entry.expires_in);
        *valid_until = nsf_time_valid_until(&entry.created_at);
    }

    if (!entry.compressed) {
        *s = entry.value;
        return NULL;
    }

    err = nsf_inflate(&value, entry.value.data, entry.value.len, pool);
    if (err != NULL) {
        return err;
    }

    return nsf_marshal_decode(s, value.data, value.len);
}


static const char *
nsf_rails_ivar(nsf_rails_entry_t *entry, nsf_marshal_t *m)
{
    nsf_str_t    name;
    const char  *err;

    err = nsf_marshal_symbol(m, &name);
    if (err != NULL) {
        return err;
    }

    if (nsf_rails_is_ivar(&name, "@value")) {
        entry->has_value = 1;
        return nsf_marshal_string(m, &entry->value);
    }

    if (nsf_rails_is_ivar(&name, "@created_at")) {
        return nsf_marshal_time(m, &entry->created_at);
    }

    if (nsf_rails_is_ivar(&name, "@expires_in")) {
        return nsf_marshal_time(m, &entry->expires_in);
    }

    if (nsf_rails_is_ivar(&name, "@compressed")) {
        return nsf_rails_flag(&entry->compressed, m);
    }

    /* @version and what other releases may have */

    return nsf_marshal_skip(m);
}


static int
nsf_rails_is_ivar(const nsf_str_t *name, const char *ivar)
{
    return name->len == strlen(ivar)
           && memcmp(name->data, ivar, name->len) == 0;
}


static const char *
nsf_rails_flag(unsigned *flag, nsf_marshal_t *m)
{
    switch (nsf_marshal_type(m)) {

    case 'T':
        *flag = 1;
        break;

    case 'F':
    case '0':
        *flag = 0;
        break;

    default:
        return NSF_RAILS_BROKEN;
    }

    return nsf_marshal_skip(m);
}


/* format 7.0 without its first byte */

static const char *
nsf_rails_array(nsf_str_t *s, int64_t *valid_until, const unsigned char *p,
    size_t len)
{
    size_t          n;
    const char     *err;
    nsf_time_t      expires_at;
    nsf_marshal_t   m;

    err = nsf_marshal_open(&m, p, len);
    if (err != NULL) {
        return err;
    }

    err = nsf_marshal_array(&m, &n);
    if (err != NULL) {
        return err;
    }

    if (n == 0) {
        return "nil in Marshal, not a String";
    }

    if (n > 3) {
        return NSF_RAILS_BROKEN;
    }

    err = nsf_marshal_string(&m, s);
    if (err != NULL) {
        return err;
    }

    if (n > 1) {
        err = nsf_marshal_time(&m, &expires_at);
        if (err != NULL) {
            return err;
        }

        *valid_until = nsf_time_valid_until(&expires_at);
    }

    if (n > 2) {
        err = nsf_marshal_skip(&m);
        if (err != NULL) {
            return err;
        }
    }

    return nsf_marshal_close(&m);
}


/* format 7.1 */

static const char *
nsf_rails_header(nsf_str_t *s, int64_t *valid_until, const unsigned char *p,
    size_t len, nsf_pool_t *pool)
{
    unsigned              type;
    uint32_t              version;
    nsf_str_t             payload;
    nsf_time_t            expires_at;
    const char           *err;
    const unsigned char  *v;

    if (len < NSF_RAILS_HEADER) {
        return NSF_RAILS_CUT_OFF;
    }

    type = p[NSF_RAILS_TYPE];

    nsf_time_double(&expires_at, &p[NSF_RAILS_EXPIRES]);

    /* below 0: none; of a double only the time before 1970 is */

    if (expires_at.kind == NSF_TIME_FINITE && expires_at.sec >= 0) {
        *valid_until = nsf_time_valid_until(&expires_at);
    }

    v = &p[NSF_RAILS_VERSION];
    version = (uint32_t) v[3] << 24 | (uint32_t) v[2] << 16
              | (uint32_t) v[1] << 8 | v[0];

    p += NSF_RAILS_HEADER;
    len -= NSF_RAILS_HEADER;

    /* any negative length is none */

    if (version <= INT32_MAX) {

        if (version > len) {
            return NSF_RAILS_CUT_OFF;
        }

        p += version;
        len -= version;
    }

    payload.data = p;
    payload.len = len;

    if (type & NSF_RAILS_COMPRESSED) {
        err = nsf_inflate(&payload, p, len, pool);
        if (err != NULL) {
            return err;
        }
    }

    switch (type & ~(unsigned) NSF_RAILS_COMPRESSED) {

    case NSF_RAILS_UTF8:
    case NSF_RAILS_BINARY:
    case NSF_RAILS_ASCII:
        *s = payload;
        return NULL;

    case NSF_RAILS_MARSHAL:

        /* other serializers may be configured */

        return nsf_marshal_decode(s, payload.data, payload.len);

    default:
        return "Rails.cache entry of an unknown type";
    }
}
