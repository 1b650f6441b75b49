/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Points in time as Ruby writes them: floating point numbers of seconds,
 * which may be anything.
 */


#ifndef _NSF_TIME_H_INCLUDED_
#define _NSF_TIME_H_INCLUDED_


#include "nsf.h"


/* the last second of the year 9999 */

#define NSF_TIME_MAX  INT64_C(253402300799)


typedef enum {
    NSF_TIME_NONE = 0,
    NSF_TIME_FINITE,
    NSF_TIME_NEVER,
    NSF_TIME_LONG_AGO
} nsf_time_e;


/*
 * FINITE: "sec" and "nsec" since 1970, sec + nsec / 10^9, sec may be
 * negative.  NEVER: infinity, NaN, which compares as if it never came, and
 * what is too far away for "sec".
 */

typedef struct {
    nsf_time_e            kind;
    int64_t               sec;
    uint32_t              nsec;
} nsf_time_t;


/* the text of a number: 1795189426.93, 1.5e9, -2, inf, -inf, nan */

const char *nsf_time_decimal(nsf_time_t *t, const unsigned char *p,
    size_t len);

void nsf_time_integer(nsf_time_t *t, int64_t sec);

/* eight bytes of a little endian double */

void nsf_time_double(nsf_time_t *t, const unsigned char *p);

void nsf_time_add(nsf_time_t *t, const nsf_time_t *more);


/*
 * For a target: whole seconds, rounded down; 0 for NONE, NEVER and all that
 * is after NSF_TIME_MAX, 1 for all that is not after 1970 began.
 */

int64_t nsf_time_valid_until(const nsf_time_t *t);


#endif /* _NSF_TIME_H_INCLUDED_ */
