/*
 * Copyright (C) the ngx_sendfile authors
 *
 * The reply to memcached's classic "get k1 k2 ...": some VALUEs, then END;
 * or, instead of them or amid them, a line that reports an error.
 */


#ifndef _NSF_MEMCACHED_H_INCLUDED_
#define _NSF_MEMCACHED_H_INCLUDED_


#include "nsf.h"


/* a line without its CRLF; the longest good VALUE line has 299 bytes */

#define NSF_MC_MAX_LINE   512

#define NSF_MC_MAX_BYTES  (1024 * 1024 * 1024)


typedef enum {
    NSF_MC_AGAIN = 0,
    NSF_MC_VALUE,
    NSF_MC_LARGE,
    NSF_MC_END,
    NSF_MC_ERROR,
    NSF_MC_BAD
} nsf_mc_e;


/*
 * Slices of the caller's buffer.  What a result does not name is zero.
 *
 * VALUE, LARGE:  key, flags, len; VALUE: data
 * ERROR:         error, the whole line: ERROR, CLIENT_ERROR ... or
 *                SERVER_ERROR ..., without control bytes
 * BAD:           error, at most the first 64 bytes of the line, for a log,
 *                where whatever is in them has to be escaped
 * AGAIN:         need
 */

typedef struct {
    nsf_str_t             key;
    uint32_t              flags;
    size_t                len;
    const unsigned char  *data;
    nsf_str_t             error;

    /* so many more bytes, at least, before another call makes sense; >= 1 */
    size_t                need;
} nsf_mc_reply_t;


/*
 * Takes one item from the bytes between "p" and "last".  No state: after
 * AGAIN it is called with the same bytes and those that came since.  A call
 * looks at no more than NSF_MC_MAX_LINE + 2 bytes and at the two that follow
 * the data, so that a value that comes in pieces is not scanned again.
 *
 * VALUE: the data and its CRLF are there, "*next" is behind them.  LARGE:
 * the value is longer than NSF_MAX_VALUE; "*next" is behind its line, and
 * the caller skips reply->len bytes and the CRLF behind them, which it has
 * to check.  END, ERROR: "*next" is behind the line.  AGAIN, BAD: "*next" is
 * "p".  After BAD there is no way to go on.
 */

nsf_mc_e nsf_mc_parse(const unsigned char *p, const unsigned char *last,
    nsf_mc_reply_t *reply, const unsigned char **next);


#endif /* _NSF_MEMCACHED_H_INCLUDED_ */
