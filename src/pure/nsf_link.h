/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Signed links: which text of a URI is signed, by whom and until when.  The
 * URI is that of the request line, nothing in it is decoded.
 */


#ifndef _NSF_LINK_H_INCLUDED_
#define _NSF_LINK_H_INCLUDED_


#include "nsf.h"


/*
 * Slices of the URI.  The arguments that stand before and behind the one with
 * the signature have no "&" at the end that is towards it; their data is NULL
 * if there are none.  So is the data of "expires".
 */

typedef struct {
    nsf_str_t             path;
    nsf_str_t             before;
    nsf_str_t             after;
    nsf_str_t             signature;
    nsf_str_t             expires;
} nsf_link_t;


/* until when: for ever, then still good, then no longer */

typedef enum {
    NSF_UNTIL_GOOD = 0,
    NSF_UNTIL_OVER,
    NSF_UNTIL_BROKEN
} nsf_until_e;


/*
 * A URI with one argument "signature" and at most one "expires"; NULL or what
 * is wrong.
 */

const char *nsf_link_parse(nsf_link_t *l, const unsigned char *uri,
    size_t len);

/*
 * The path, "?" and the arguments but the signature, of which there may be
 * none: at most as many bytes as the URI has.  Returns how many.
 */

size_t nsf_link_text(const nsf_link_t *l, unsigned char *dst);

/* the digits of a Unix time, which is still good; no data: for ever */

nsf_until_e nsf_link_until(const nsf_str_t *expires, int64_t now);


/*
 * imgproxy's: /SIGNATURE/rest, of which "rest" with its "/" is signed, and no
 * arguments are.  "prefix" stands before all that and is not signed.
 */

const char *nsf_imgproxy_parse(nsf_str_t *signature, nsf_str_t *rest,
    const nsf_str_t *prefix, const unsigned char *uri, size_t len);

/* the option "expires:" or "exp:", which must not be over */

nsf_until_e nsf_imgproxy_until(const nsf_str_t *rest, int64_t now);


#endif /* _NSF_LINK_H_INCLUDED_ */
