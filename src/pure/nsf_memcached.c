/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <string.h>

#include "nsf_key.h"
#include "nsf_memcached.h"
#include "nsf_plain.h"


#define NSF_MC_MAX_LOGGED  64

#define NSF_MC_CRLF        2

/* "END" and CRLF: nothing is shorter */

#define NSF_MC_MIN_REPLY   5


typedef struct {
    const char  *word;
    size_t       len;
} nsf_mc_word_t;


static nsf_mc_e nsf_mc_line(const unsigned char *p, const unsigned char *last,
    size_t *len);
static nsf_mc_e nsf_mc_item(const unsigned char *p, size_t len,
    nsf_mc_reply_t *reply);
static nsf_mc_e nsf_mc_value(const unsigned char *p, size_t len,
    nsf_mc_reply_t *reply);
static nsf_mc_e nsf_mc_data(const unsigned char *p, const unsigned char *last,
    nsf_mc_reply_t *reply, const unsigned char **next);
static const unsigned char *nsf_mc_number(const unsigned char *p,
    const unsigned char *end, uint64_t max, uint64_t *number);
static int nsf_mc_is_error(const unsigned char *p, size_t len);
static int nsf_mc_is_known(const unsigned char *p, size_t len);
static int nsf_mc_starts(const unsigned char *p, size_t len,
    const nsf_mc_word_t *word);
static nsf_mc_e nsf_mc_again(nsf_mc_reply_t *reply, size_t need);
static nsf_mc_e nsf_mc_bad(const unsigned char *p, const unsigned char *last,
    nsf_mc_reply_t *reply);


#define nsf_mc_word(s)  { s, sizeof(s) - 1 }

static const nsf_mc_word_t  nsf_mc_value_word = nsf_mc_word("VALUE ");
static const nsf_mc_word_t  nsf_mc_end_word = nsf_mc_word("END");

static const nsf_mc_word_t  nsf_mc_error_words[] = {
    nsf_mc_word("ERROR"),
    nsf_mc_word("CLIENT_ERROR"),
    nsf_mc_word("SERVER_ERROR"),
    { NULL, 0 }
};


nsf_mc_e
nsf_mc_parse(const unsigned char *p, const unsigned char *last,
    nsf_mc_reply_t *reply, const unsigned char **next)
{
    size_t    len, have;
    nsf_mc_e  rc, item;

    memset(reply, 0, sizeof(nsf_mc_reply_t));

    *next = p;

    have = (size_t) (last - p);

    if (have == 0) {
        reply->need = NSF_MC_MIN_REPLY;
        return NSF_MC_AGAIN;
    }

    rc = nsf_mc_line(p, last, &len);

    if (rc == NSF_MC_BAD) {
        return nsf_mc_bad(p, last, reply);
    }

    if (rc == NSF_MC_AGAIN && len == have) {

        /* what cannot become a good line is bad before its end has come */

        if (!nsf_mc_is_known(p, len)) {
            return nsf_mc_bad(p, last, reply);
        }

        reply->need = (have + NSF_MC_CRLF < NSF_MC_MIN_REPLY)
                      ? NSF_MC_MIN_REPLY - have : NSF_MC_CRLF;

        return NSF_MC_AGAIN;
    }

    item = nsf_mc_item(p, len, reply);

    if (item == NSF_MC_BAD) {
        return nsf_mc_bad(p, last, reply);
    }

    if (rc == NSF_MC_AGAIN) {

        /* only the LF is missing */

        return nsf_mc_again(reply, 1);
    }

    p += len + NSF_MC_CRLF;

    if (item != NSF_MC_VALUE) {
        *next = p;
        return item;
    }

    item = nsf_mc_data(p, last, reply, next);

    return (item == NSF_MC_BAD) ? nsf_mc_bad(*next, last, reply) : item;
}


/*
 * The length of the line without its CRLF, or of what is there of it.  A
 * line has no byte below 0x20 and no 0x7f; the key and the texts of errors
 * would be refused anyway.
 */

static nsf_mc_e
nsf_mc_line(const unsigned char *p, const unsigned char *last, size_t *len)
{
    size_t  i, have;

    have = (size_t) (last - p);

    i = nsf_plain(p, (have < NSF_MC_MAX_LINE) ? have : NSF_MC_MAX_LINE, 0x20);

    for ( /* void */ ; i < have && p[i] >= 0x20 && p[i] != 0x7f; i++) {

        if (i == NSF_MC_MAX_LINE) {
            return NSF_MC_BAD;
        }
    }

    *len = i;

    if (i == have) {
        return NSF_MC_AGAIN;
    }

    if (p[i] != '\r') {
        return NSF_MC_BAD;
    }

    if (i + 1 == have) {
        return NSF_MC_AGAIN;
    }

    return (p[i + 1] == '\n') ? NSF_MC_END : NSF_MC_BAD;
}


/* what a whole line says */

static nsf_mc_e
nsf_mc_item(const unsigned char *p, size_t len, nsf_mc_reply_t *reply)
{
    if (nsf_mc_starts(p, len, &nsf_mc_value_word)) {
        return nsf_mc_value(p, len, reply);
    }

    if (len == nsf_mc_end_word.len && nsf_mc_starts(p, len, &nsf_mc_end_word)) {
        return NSF_MC_END;
    }

    if (nsf_mc_is_error(p, len)) {
        reply->error.data = p;
        reply->error.len = len;

        return NSF_MC_ERROR;
    }

    return NSF_MC_BAD;
}


/* VALUE <key> <flags> <bytes>[ <cas>] */

static nsf_mc_e
nsf_mc_value(const unsigned char *p, size_t len, nsf_mc_reply_t *reply)
{
    uint64_t              number;
    const unsigned char  *end, *key;

    end = p + len;
    key = p + nsf_mc_value_word.len;

    p = memchr(key, ' ', (size_t) (end - key));

    if (p == NULL || nsf_key_check(key, (size_t) (p - key)) != NULL) {
        return NSF_MC_BAD;
    }

    reply->key.data = key;
    reply->key.len = (size_t) (p - key);

    p = nsf_mc_number(p, end, UINT32_MAX, &number);
    if (p == NULL) {
        return NSF_MC_BAD;
    }

    reply->flags = (uint32_t) number;

    p = nsf_mc_number(p, end, NSF_MC_MAX_BYTES, &number);
    if (p == NULL) {
        return NSF_MC_BAD;
    }

    reply->len = (size_t) number;

    if (p == end) {
        return NSF_MC_VALUE;
    }

    p = nsf_mc_number(p, end, UINT64_MAX, &number);

    return (p == end) ? NSF_MC_VALUE : NSF_MC_BAD;
}


/* what follows the line: "p" is behind its CRLF */

static nsf_mc_e
nsf_mc_data(const unsigned char *p, const unsigned char *last,
    nsf_mc_reply_t *reply, const unsigned char **next)
{
    size_t  len, have;

    len = reply->len;

    if (len > NSF_MAX_VALUE) {
        *next = p;
        return NSF_MC_LARGE;
    }

    have = (size_t) (last - p);

    if ((have > len && p[len] != '\r')
        || (have > len + 1 && p[len + 1] != '\n'))
    {
        return NSF_MC_BAD;
    }

    if (have < len + NSF_MC_CRLF) {
        return nsf_mc_again(reply, len + NSF_MC_CRLF - have);
    }

    reply->data = p;
    *next = p + len + NSF_MC_CRLF;

    return NSF_MC_VALUE;
}


/* a space and a number; returns where it ends, or NULL */

static const unsigned char *
nsf_mc_number(const unsigned char *p, const unsigned char *end, uint64_t max,
    uint64_t *number)
{
    uint64_t              n;
    unsigned              digit;
    const unsigned char  *start;

    if (p == end || *p != ' ') {
        return NULL;
    }

    n = 0;
    start = ++p;

    for ( /* void */ ; p < end && *p >= '0' && *p <= '9'; p++) {
        digit = (unsigned) *p - '0';

        if (n > max / 10 || n * 10 > max - digit) {
            return NULL;
        }

        n = n * 10 + digit;
    }

    if (p == start || (p < end && *p != ' ')) {
        return NULL;
    }

    if (*start == '0' && p - start > 1) {
        return NULL;
    }

    *number = n;

    return p;
}


/* the word alone, or a space and a text behind it */

static int
nsf_mc_is_error(const unsigned char *p, size_t len)
{
    const nsf_mc_word_t  *word;

    for (word = nsf_mc_error_words; word->word != NULL; word++) {

        if (nsf_mc_starts(p, len, word)) {
            return len == word->len || p[word->len] == ' ';
        }
    }

    return 0;
}


/* whether a cut off line may become a good one */

static int
nsf_mc_is_known(const unsigned char *p, size_t len)
{
    size_t                n;
    const nsf_mc_word_t  *word;

    word = &nsf_mc_value_word;
    n = (len < word->len) ? len : word->len;

    if (memcmp(p, word->word, n) == 0) {
        return 1;
    }

    word = &nsf_mc_end_word;

    if (len <= word->len && memcmp(p, word->word, len) == 0) {
        return 1;
    }

    for (word = nsf_mc_error_words; word->word != NULL; word++) {

        if (len <= word->len) {

            if (memcmp(p, word->word, len) == 0) {
                return 1;
            }

            continue;
        }

        if (nsf_mc_starts(p, len, word) && p[word->len] == ' ') {
            return 1;
        }
    }

    return 0;
}


static int
nsf_mc_starts(const unsigned char *p, size_t len, const nsf_mc_word_t *word)
{
    return len >= word->len && memcmp(p, word->word, word->len) == 0;
}


static nsf_mc_e
nsf_mc_again(nsf_mc_reply_t *reply, size_t need)
{
    memset(reply, 0, sizeof(nsf_mc_reply_t));

    reply->need = need;

    return NSF_MC_AGAIN;
}


/* the line or what is there of it, cut off */

static nsf_mc_e
nsf_mc_bad(const unsigned char *p, const unsigned char *last,
    nsf_mc_reply_t *reply)
{
    size_t                len;
    const unsigned char  *end;

    len = (size_t) (last - p);

    if (len > NSF_MC_MAX_LOGGED) {
        len = NSF_MC_MAX_LOGGED;
    }

    end = memchr(p, '\n', len);

    if (end != NULL) {
        len = (size_t) (end - p);

        if (len != 0 && p[len - 1] == '\r') {
            len--;
        }
    }

    memset(reply, 0, sizeof(nsf_mc_reply_t));

    reply->error.data = p;
    reply->error.len = len;

    return NSF_MC_BAD;
}
