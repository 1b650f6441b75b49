/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Text without control bytes, eight bytes at a time.
 */


#ifndef _NSF_PLAIN_H_INCLUDED_
#define _NSF_PLAIN_H_INCLUDED_


#include <string.h>

#include "nsf.h"


#define NSF_PLAIN_EACH  UINT64_C(0x0101010101010101)


/*
 * Whether none of eight bytes is below "least", which is at most 0x80, or is
 * 0x7f.  That a byte of a word is less than n, or zero:
 * https://graphics.stanford.edu/~seander/bithacks.html#HasLessInWord
 */

static inline int
nsf_plain_word(const unsigned char *p, unsigned least)
{
    uint64_t  word, del;

    memcpy(&word, p, 8);
    del = word ^ NSF_PLAIN_EACH * 0x7f;

    return ((((word - NSF_PLAIN_EACH * least) & ~word)
             | ((del - NSF_PLAIN_EACH) & ~del))
            & NSF_PLAIN_EACH * 0x80) == 0;
}


/*
 * How many bytes from the beginning are known to be so; those behind them
 * are to be looked at one by one.
 */

static inline size_t
nsf_plain(const unsigned char *p, size_t len, unsigned least)
{
    size_t  i;

    for (i = 0; len - i >= 8; i += 8) {
        if (!nsf_plain_word(p + i, least)) {
            return i;
        }
    }

    /* the rest, with some of those before it */

    return (i != 0 && i != len && nsf_plain_word(p + len - 8, least)) ? len
                                                                      : i;
}


#endif /* _NSF_PLAIN_H_INCLUDED_ */
