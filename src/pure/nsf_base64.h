/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Base64 of tokens: read in both alphabets, with padding or without, as
 * their writers do; written in the URL's.
 */


#ifndef _NSF_BASE64_H_INCLUDED_
#define _NSF_BASE64_H_INCLUDED_


#include "nsf.h"


/* the number of characters that nsf_base64_url() writes */

#define nsf_base64_url_len(len)  (((len) * 4 + 2) / 3)


/*
 * Decodes to "dst", which has "len" bytes and may be "p" itself; "*n" is how
 * many there are.  NULL, or what is wrong: another character, characters of
 * both alphabets, a length that no bytes have, bits left over.
 */

const char *nsf_base64_decode(unsigned char *dst, size_t *n,
    const unsigned char *p, size_t len);

/* in the URL's alphabet, without padding; returns the number of characters */

size_t nsf_base64_url(unsigned char *dst, const unsigned char *p, size_t len);

/* lower case; returns the number of characters, 2 * len */

size_t nsf_hex(unsigned char *dst, const unsigned char *p, size_t len);


#endif /* _NSF_BASE64_H_INCLUDED_ */
