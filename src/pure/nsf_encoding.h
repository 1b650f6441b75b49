/*
 * Copyright (C) the ngx_sendfile authors
 *
 * The one of three encodings that a client is for: RFC 9110, 12.5.3.
 */


#ifndef _NSF_ENCODING_H_INCLUDED_
#define _NSF_ENCODING_H_INCLUDED_


#include "nsf.h"


/* what Accept-Encoding has said; weights in thousandths, 0: not acceptable */

typedef struct {
    unsigned              br;
    unsigned              gzip;
} nsf_encoding_t;


/* one line's value; what is said twice counts as it was said last */

void nsf_encoding_line(nsf_encoding_t *e, const nsf_str_t *value);


/*
 * Returns "br" if the client accepts it and does not prefer gzip, else "gzip"
 * if it accepts that, else "".  "*" names none of them: no client depends on
 * it.
 */

const char *nsf_encoding(const nsf_encoding_t *e);


#endif /* _NSF_ENCODING_H_INCLUDED_ */
