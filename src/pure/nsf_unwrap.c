/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <jansson.h>
#include <string.h>

#include "nsf_inflate.h"
#include "nsf_marshal.h"
#include "nsf_rails.h"
#include "nsf_unwrap.h"


/*
 * Flags are a client's own affair, and the same ones mean different things.
 * What they mean here, the upper 16 bits aside, which php-memcached leaves to
 * its users:
 *
 *    0  all clients: a string.  memcache-client, Dalli with "raw": Marshal
 *       and Rails.cache entries, known by their first bytes
 *    1  Dalli: serialized, that is Marshal, or JSON if so configured.
 *       pymemcache, pylibmc: pickle; php-memcached: an integer;
 *       php-memcache: serialize(): these start neither 04 08 nor { nor "
 *    2  with a zlib or gzip header: Dalli, php-memcache, spymemcached:
 *       compressed, then as 0.  Without: Dalli 4.0 to 5.0.3: a string
 *       (string_fastpath); but pymemcache: an integer, php-memcached: a
 *       float: what reads as a number is taken for one
 *    3  Dalli: compressed, then as 1.  php-memcached: a boolean, which has
 *       no zlib header
 *    4  Dalli 5.0.4 and later: a string (string_fastpath); but pylibmc: an
 *       integer, php-memcached: serialize(): what reads so is taken for it
 *    6  with a zlib or gzip header: Dalli: a string as of 4, compressed.
 *       Without: php-memcached: JSON
 *    8  pymemcache, pylibmc: bytes, zlib
 *   16  pymemcache, pylibmc, python-memcached: a string
 *   24  the same, zlib
 *   48  php-memcached: a string, its length in 4 bytes and zlib; 54: JSON
 *   80  php-memcached: a string, its length in 4 bytes and FastLZ; 86: JSON
 *
 * All others are of no string: 5, 7: igbinary and msgpack of php-memcached;
 * 9 and so on: pickles and integers of Python; 0x100, 0x300, 0x700: numbers
 * of php-memcache; 144: zstd of php-memcached, which is not supported.
 */

#define NSF_UNWRAP_CLIENT_MASK  0xffff
#define NSF_UNWRAP_OTHER_MASK   0xff00

#define NSF_UNWRAP_DALLI_ZLIB   0x02
#define NSF_UNWRAP_PYTHON_ZLIB  0x08
#define NSF_UNWRAP_PYTHON_TEXT  0x10
#define NSF_UNWRAP_PACK_MASK    0xf0
#define NSF_UNWRAP_PHP_ZLIB     0x30
#define NSF_UNWRAP_PHP_FASTLZ   0x50
#define NSF_UNWRAP_PHP_ZSTD     0x90

#define NSF_UNWRAP_NUMBER       "a number by its flags, not a string"
#define NSF_UNWRAP_NO_STRING    "a number or an object by its flags"


static const char *nsf_unwrap_pack(nsf_str_t *s, unsigned *packed,
    uint32_t flags, nsf_pool_t *pool);
static const char *nsf_unwrap_php(nsf_str_t *s, uint32_t pack,
    nsf_pool_t *pool);
static const char *nsf_unwrap_auto(nsf_str_t *s, int64_t *valid_until,
    uint32_t flags, unsigned packed, nsf_pool_t *pool);
static const char *nsf_unwrap_any(nsf_str_t *s, int64_t *valid_until,
    nsf_pool_t *pool);
static const char *nsf_unwrap_ruby(nsf_str_t *s, int64_t *valid_until,
    nsf_pool_t *pool);
static const char *nsf_unwrap_serialized(nsf_str_t *s, int64_t *valid_until,
    nsf_pool_t *pool);
static const char *nsf_unwrap_json_string(nsf_str_t *s, nsf_pool_t *pool);
static const char *nsf_unwrap_guess(const nsf_str_t *s);
static int nsf_unwrap_is_number(const nsf_str_t *s);
static const unsigned char *nsf_unwrap_digits(const unsigned char *p,
    const unsigned char *last);
static int nsf_unwrap_is_word(const unsigned char *p,
    const unsigned char *last);
static int nsf_unwrap_is_php(const nsf_str_t *s);
static int nsf_unwrap_is_packed(const nsf_str_t *s);


const char *
nsf_unwrap(nsf_str_t *s, int64_t *valid_until, nsf_format_e format,
    uint32_t flags, nsf_pool_t *pool)
{
    unsigned     packed;
    const char  *err;

    *valid_until = 0;

    flags &= NSF_UNWRAP_CLIENT_MASK;

    err = nsf_unwrap_pack(s, &packed, flags, pool);
    if (err != NULL) {
        return err;
    }

    switch (format) {

    case NSF_FORMAT_AUTO:
        return nsf_unwrap_auto(s, valid_until, flags, packed, pool);

    case NSF_FORMAT_MARSHAL:
        return nsf_unwrap_ruby(s, valid_until, pool);

    default: /* PATH, JSON */
        return NULL;
    }
}


/* as far as the flags say that the value is compressed */

static const char *
nsf_unwrap_pack(nsf_str_t *s, unsigned *packed, uint32_t flags,
    nsf_pool_t *pool)
{
    uint32_t  pack;

    *packed = 0;

    if (flags & NSF_UNWRAP_OTHER_MASK) {
        return NULL;
    }

    pack = flags & NSF_UNWRAP_PACK_MASK;

    if (pack != 0 && pack != NSF_UNWRAP_PYTHON_TEXT) {
        return nsf_unwrap_php(s, pack, pool);
    }

    if (flags & NSF_UNWRAP_PYTHON_ZLIB) {
        *packed = 1;
        return nsf_inflate(s, s->data, s->len, pool);
    }

    if (pack == 0 && (flags & NSF_UNWRAP_DALLI_ZLIB)
        && nsf_unwrap_is_packed(s))
    {
        *packed = 1;
        return nsf_inflate(s, s->data, s->len, pool);
    }

    return NULL;
}


static int
nsf_unwrap_is_packed(const nsf_str_t *s)
{
    return nsf_inflate_is_zlib(s->data, s->len)
           || nsf_inflate_is_gzip(s->data, s->len);
}


/* the length unpacked, in the byte order of all that PHP runs on, goes first */

static const char *
nsf_unwrap_php(nsf_str_t *s, uint32_t pack, nsf_pool_t *pool)
{
    size_t                size;
    const char           *err;
    const unsigned char  *p;

    if (pack == NSF_UNWRAP_PHP_ZSTD) {
        return "zstd is not supported, set memcached.compression_type=zlib";
    }

    if (pack != NSF_UNWRAP_PHP_ZLIB && pack != NSF_UNWRAP_PHP_FASTLZ) {
        return "flags of no known client";
    }

    if (s->len < 4) {
        return NSF_INFLATE_BROKEN;
    }

    p = s->data;

    size = (size_t) p[3] << 24 | (size_t) p[2] << 16 | (size_t) p[1] << 8
           | p[0];

    if (pack == NSF_UNWRAP_PHP_FASTLZ) {
        return nsf_fastlz(s, size, p + 4, s->len - 4, pool);
    }

    err = nsf_inflate(s, p + 4, s->len - 4, pool);

    if (err == NULL && s->len != size) {
        return NSF_INFLATE_BROKEN;
    }

    return err;
}


static const char *
nsf_unwrap_auto(nsf_str_t *s, int64_t *valid_until, uint32_t flags,
    unsigned packed, nsf_pool_t *pool)
{
    switch (flags) {

    case 0:
        return nsf_unwrap_any(s, valid_until, pool);

    case 1:
        return nsf_unwrap_serialized(s, valid_until, pool);

    case 2:
        return packed ? nsf_unwrap_any(s, valid_until, pool)
                      : nsf_unwrap_guess(s);

    case 3:
        return packed ? nsf_unwrap_serialized(s, valid_until, pool)
                      : "compressed, but neither with zlib nor with gzip";

    case 4:
        return nsf_unwrap_guess(s);

    case 6:
        if (packed) {
            return NULL;
        }

        /* fall through */

    case NSF_UNWRAP_PHP_ZLIB | 6:
    case NSF_UNWRAP_PHP_FASTLZ | 6:
        return (s->len != 0 && s->data[0] == '{')
               ? NULL : "JSON by its flags, but not an object";

    case NSF_UNWRAP_PYTHON_ZLIB:
    case NSF_UNWRAP_PYTHON_TEXT:
    case NSF_UNWRAP_PYTHON_TEXT | NSF_UNWRAP_PYTHON_ZLIB:
    case NSF_UNWRAP_PHP_ZLIB:
    case NSF_UNWRAP_PHP_FASTLZ:
        return NULL;

    default:
        return NSF_UNWRAP_NO_STRING;
    }
}


/* a string as it is, or what its first bytes say, which no text starts with */

static const char *
nsf_unwrap_any(nsf_str_t *s, int64_t *valid_until, nsf_pool_t *pool)
{
    if (nsf_marshal_is(s->data, s->len)
        || nsf_rails_is_packed(s->data, s->len))
    {
        return nsf_unwrap_ruby(s, valid_until, pool);
    }

    return NULL;
}


/*
 * A Marshal String, a Rails.cache entry, or an entry of Rails 7.0 or later in
 * a Marshal String, as it is in memcached.
 */

static const char *
nsf_unwrap_ruby(nsf_str_t *s, int64_t *valid_until, nsf_pool_t *pool)
{
    const char  *err;

    if (!nsf_rails_is_object(s->data, s->len)
        && !nsf_rails_is_packed(s->data, s->len))
    {
        err = nsf_marshal_decode(s, s->data, s->len);

        if (err != NULL || !nsf_rails_is_packed(s->data, s->len)) {
            return err;
        }
    }

    return nsf_rails_decode(s, valid_until, s->data, s->len, pool);
}


/* what Dalli's serializer wrote */

static const char *
nsf_unwrap_serialized(nsf_str_t *s, int64_t *valid_until, nsf_pool_t *pool)
{
    if (nsf_marshal_is(s->data, s->len)) {
        return nsf_unwrap_ruby(s, valid_until, pool);
    }

    switch (s->len ? s->data[0] : 0) {

    case '{':
        return NULL;

    case '"':
        return nsf_unwrap_json_string(s, pool);

    default:
        return "serialized, but neither as Marshal nor as JSON";
    }
}


static const char *
nsf_unwrap_json_string(nsf_str_t *s, nsf_pool_t *pool)
{
    json_t         *string;
    const char     *err;
    unsigned char  *p;

    string = json_loadb((const char *) s->data, s->len, JSON_DECODE_ANY, NULL);

    if (string == NULL) {
        return "broken JSON";
    }

    err = NULL;
    s->len = json_string_length(string);

    if (s->len != 0) {
        p = pool->alloc(pool->ctx, s->len);

        if (p != NULL) {
            memcpy(p, json_string_value(string), s->len);
            s->data = p;

        } else {
            err = NSF_ERR_MEMORY;
        }
    }

    json_decref(string);

    return err;
}


/* under flags that some clients give to strings and others to numbers */

static const char *
nsf_unwrap_guess(const nsf_str_t *s)
{
    if (nsf_unwrap_is_number(s)) {
        return NSF_UNWRAP_NUMBER;
    }

    if (nsf_unwrap_is_php(s)) {
        return "serialized by PHP, not a string";
    }

    return NULL;
}


/* as PHP and Python print integers and floats */

static int
nsf_unwrap_is_number(const nsf_str_t *s)
{
    const unsigned char  *p, *last, *digits, *start;

    p = s->data;
    last = s->data + s->len;

    if (p < last && *p == '-') {
        p++;
    }

    if (nsf_unwrap_is_word(p, last)) {
        return 1;
    }

    start = p;
    p = nsf_unwrap_digits(p, last);

    if (p < last && *p == '.') {
        p = nsf_unwrap_digits(p + 1, last);

        if (p - start == 1) {
            return 0;
        }
    }

    if (p == start) {
        return 0;
    }

    if (p < last && (*p == 'e' || *p == 'E')) {
        p++;

        if (p < last && (*p == '-' || *p == '+')) {
            p++;
        }

        digits = p;
        p = nsf_unwrap_digits(p, last);

        if (p == digits) {
            return 0;
        }
    }

    return p == last;
}


static const unsigned char *
nsf_unwrap_digits(const unsigned char *p, const unsigned char *last)
{
    while (p < last && *p >= '0' && *p <= '9') {
        p++;
    }

    return p;
}


static int
nsf_unwrap_is_word(const unsigned char *p, const unsigned char *last)
{
    size_t      i, len;

    static const char *const  words[] = {
        "INF", "NAN", "Infinity", "NaN", "inf", "nan"
    };

    len = (size_t) (last - p);

    for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {

        if (len == strlen(words[i]) && memcmp(p, words[i], len) == 0) {
            return 1;
        }
    }

    return 0;
}


/* a:1:{...}, O:8:"...":0:{}, s:1:"a";, i:1;, N; and so on */

static int
nsf_unwrap_is_php(const nsf_str_t *s)
{
    unsigned  end;

    if (s->len < 2) {
        return 0;
    }

    end = s->data[s->len - 1];

    if (s->data[0] == 'N' || (end != ';' && end != '}')) {
        return s->len == 2 && s->data[0] == 'N' && end == ';';
    }

    return s->data[1] == ':'
           && s->data[0] != '\0'
           && strchr("abdisOCESrR", s->data[0]) != NULL;
}
