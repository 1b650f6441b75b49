/*
 * Copyright (C) the ngx_sendfile authors
 *
 * What a token of Rails says, once its signature is known to be good.  Three
 * forms are read, as the versions write them:
 *
 *     {"_rails":{"message":"BASE64","exp":null,"pur":"blob_id"}}
 *     {"_rails":{"data":1,"exp":"2026-11-20T16:02:25.572Z","pur":"blob_id"}}
 *     the data alone, which has no purpose and no end
 *
 * the second also in Marshal, the data within the first and the third in JSON
 * or in Marshal.
 */


#ifndef _NSF_MESSAGE_H_INCLUDED_
#define _NSF_MESSAGE_H_INCLUDED_


#include <string.h>

#include "nsf.h"


typedef enum {
    NSF_MESSAGE_OTHER = 0,
    NSF_MESSAGE_STRING,
    NSF_MESSAGE_INTEGER,
    NSF_MESSAGE_HASH
} nsf_message_e;


/* room for an Integer of Marshal */

#define NSF_MESSAGE_DIGITS  24


/*
 * "value" is the String, or the Integer's digits.  Of a Hash there are the
 * fields that a blob's has; an absent one, nil or null has data NULL, as has
 * "purpose" if there is none.  "expires" is in ms since 1970, NSF_MESSAGE_EVER
 * if there is no end.  "marshal" is the data as Marshal has written it; data
 * NULL if it has not, or has written the envelope with it.
 *
 * Slices are of the text that was given, or of "digits".
 */

#define NSF_MESSAGE_EVER  INT64_MAX

typedef struct {
    nsf_message_e         kind;
    nsf_str_t             value;

    nsf_str_t             key;
    nsf_str_t             disposition;
    nsf_str_t             type;
    nsf_str_t             service;

    nsf_str_t             purpose;
    int64_t               expires;

    nsf_str_t             marshal;

    unsigned char         digits[NSF_MESSAGE_DIGITS];
} nsf_message_t;


/* of what base64 has been decoded to, which is changed */

const char *nsf_message_decode(nsf_message_t *m, unsigned char *p,
    size_t len);

/* 2026-11-20T16:02:25.572Z, the only form that is written: ms since 1970 */

const char *nsf_message_time(int64_t *ms, const nsf_str_t *s);


/* whether a string is these words; one of data NULL is not even "" */

static inline int
nsf_message_is(const nsf_str_t *s, const char *words)
{
    return s->data != NULL && s->len == strlen(words)
           && memcmp(s->data, words, s->len) == 0;
}


#endif /* _NSF_MESSAGE_H_INCLUDED_ */
