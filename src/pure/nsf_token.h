/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Tokens that carry what they sign: those of Rails (MessageVerifier) and of
 * Django (signing).  Where a token is in a URI, and how it falls into parts.
 */


#ifndef _NSF_TOKEN_H_INCLUDED_
#define _NSF_TOKEN_H_INCLUDED_


#include "nsf.h"


/* "text" is what is signed, "mac" its code as it stands: hex or base64 */

typedef struct {
    nsf_str_t             text;
    nsf_str_t             mac;
} nsf_token_t;


/* the segment behind the last "/" of a URI's path, as it stands */

void nsf_token_segment(nsf_str_t *s, const unsigned char *uri, size_t len);

/*
 * Percent-decodes to "dst", which has "len" bytes and may be "p" itself; NULL,
 * or what is wrong.  "+" stays: it is one of base64's characters.
 */

const char *nsf_token_unescape(unsigned char *dst, size_t *n,
    const unsigned char *p, size_t len);

/* Rails: text, "--" and "mac" characters, found from the end */

const char *nsf_token_rails(nsf_token_t *t, const unsigned char *p,
    size_t len, size_t mac);

/*
 * Django: text, ":" and the code.  nsf_token_stamp() takes a text apart once
 * more, value, ":" and Unix seconds in base 62.
 */

const char *nsf_token_django(nsf_token_t *t, const unsigned char *p,
    size_t len);
const char *nsf_token_stamp(nsf_str_t *value, int64_t *sec,
    const nsf_str_t *text);


#endif /* _NSF_TOKEN_H_INCLUDED_ */
