/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <string.h>

#include "nsf_time.h"


/* seconds on either side of 1970; sums of two are no overflow */

#define NSF_TIME_RANGE   INT64_C(1000000000000000)
#define NSF_TIME_DIGITS  15

#define NSF_TIME_BILLION 1000000000

#define NSF_TIME_BROKEN  "broken number"


/* the digits of a number and how many of them come before the point */

typedef struct {
    const unsigned char  *p;
    const unsigned char  *last;
    int64_t               point;
} nsf_time_digits_t;


static int nsf_time_word(nsf_time_t *t, const unsigned char *p, size_t len);
static const char *nsf_time_digits(nsf_time_digits_t *d,
    const unsigned char *p, const unsigned char *last);
static const char *nsf_time_exponent(int64_t *exponent,
    const unsigned char *p, const unsigned char *last);
static int64_t nsf_time_take(nsf_time_digits_t *d, int64_t n);
static void nsf_time_set(nsf_time_t *t, int64_t sec, int64_t nsec);


const char *
nsf_time_decimal(nsf_time_t *t, const unsigned char *p, size_t len)
{
    int                   negative;
    int64_t               sec, nsec;
    const char           *err;
    nsf_time_digits_t     d;

    memset(t, 0, sizeof(nsf_time_t));

    if (nsf_time_word(t, p, len)) {
        return NULL;
    }

    negative = len != 0 && p[0] == '-';

    err = nsf_time_digits(&d, p + negative, p + len);
    if (err != NULL) {
        return err;
    }

    if (d.point > NSF_TIME_DIGITS) {
        t->kind = negative ? NSF_TIME_LONG_AGO : NSF_TIME_NEVER;
        return NULL;
    }

    /* exact, which a double would not be */

    sec = nsf_time_take(&d, d.point);
    nsec = nsf_time_take(&d, 9);

    if (negative) {
        sec = -sec;
        nsec = -nsec;
    }

    nsf_time_set(t, sec, nsec);

    return NULL;
}


static int
nsf_time_word(nsf_time_t *t, const unsigned char *p, size_t len)
{
    if (len == 3
        && (memcmp(p, "inf", 3) == 0 || memcmp(p, "nan", 3) == 0))
    {
        t->kind = NSF_TIME_NEVER;
        return 1;
    }

    if (len == 4 && memcmp(p, "-inf", 4) == 0) {
        t->kind = NSF_TIME_LONG_AGO;
        return 1;
    }

    return 0;
}


/* digits[.digits][e[-]digits]; those left in "d" start with no 0 */

static const char *
nsf_time_digits(nsf_time_digits_t *d, const unsigned char *p,
    const unsigned char *last)
{
    int                   points;
    int64_t               exponent;
    const char           *err;
    const unsigned char  *start;

    start = p;
    points = 0;

    for ( /* void */ ; p < last && *p != 'e'; p++) {

        if (*p == '.' && p != start && points == 0) {
            points = 1;
            d->point = p - start;
            continue;
        }

        if (*p < '0' || *p > '9') {
            return NSF_TIME_BROKEN;
        }
    }

    if (p == start || p[-1] == '.') {
        return NSF_TIME_BROKEN;
    }

    if (points == 0) {
        d->point = p - start;
    }

    exponent = 0;

    if (p < last) {
        err = nsf_time_exponent(&exponent, p + 1, last);
        if (err != NULL) {
            return err;
        }
    }

    d->p = start;
    d->last = p;

    /* the zeros in front, and the point among them */

    while (d->p < d->last && (*d->p == '0' || *d->p == '.')) {

        if (*d->p == '0') {
            d->point--;
        }

        d->p++;
    }

    /* nothing but zeros is 0 whatever the exponent */

    d->point = (d->p == d->last) ? 0 : d->point + exponent;

    return NULL;
}


static const char *
nsf_time_exponent(int64_t *exponent, const unsigned char *p,
    const unsigned char *last)
{
    int                   negative;
    int64_t               n;
    const unsigned char  *start;

    negative = p < last && *p == '-';

    if (p < last && (*p == '-' || *p == '+')) {
        p++;
    }

    n = 0;
    start = p;

    for ( /* void */ ; p < last; p++) {

        if (*p < '0' || *p > '9') {
            return NSF_TIME_BROKEN;
        }

        /* above the range it counts only that the number is */

        if (n < NSF_TIME_RANGE) {
            n = n * 10 + (*p - '0');
        }
    }

    if (p == start) {
        return NSF_TIME_BROKEN;
    }

    *exponent = negative ? -n : n;

    return NULL;
}


/* the value of the next "n" digits; there are zeros before and behind them */

static int64_t
nsf_time_take(nsf_time_digits_t *d, int64_t n)
{
    int64_t  value;

    value = 0;

    for ( /* void */ ; n > 0; n--) {
        value *= 10;

        if (d->point < 0) {
            d->point++;
            continue;
        }

        if (d->p < d->last && *d->p == '.') {
            d->p++;
        }

        if (d->p < d->last) {
            value += *d->p++ - '0';
        }
    }

    return value;
}


/* "nsec" has the sign of the number */

static void
nsf_time_set(nsf_time_t *t, int64_t sec, int64_t nsec)
{
    if (nsec < 0) {
        nsec += NSF_TIME_BILLION;
        sec--;
    }

    if (nsec >= NSF_TIME_BILLION) {
        nsec -= NSF_TIME_BILLION;
        sec++;
    }

    t->kind = NSF_TIME_FINITE;
    t->sec = sec;
    t->nsec = (uint32_t) nsec;
}


void
nsf_time_integer(nsf_time_t *t, int64_t sec)
{
    memset(t, 0, sizeof(nsf_time_t));

    if (sec >= NSF_TIME_RANGE) {
        t->kind = NSF_TIME_NEVER;

    } else if (sec <= -NSF_TIME_RANGE) {
        t->kind = NSF_TIME_LONG_AGO;

    } else {
        t->kind = NSF_TIME_FINITE;
        t->sec = sec;
    }
}


void
nsf_time_double(nsf_time_t *t, const unsigned char *p)
{
    int       i;
    double    number, whole;
    uint64_t  bits;

    memset(t, 0, sizeof(nsf_time_t));

    bits = 0;

    for (i = 7; i >= 0; i--) {
        bits = bits << 8 | p[i];
    }

    memcpy(&number, &bits, sizeof(double));

    if (number <= (double) -NSF_TIME_RANGE) {
        t->kind = NSF_TIME_LONG_AGO;
        return;
    }

    /* in this form so that it catches a NaN too */

    if (!(number < (double) NSF_TIME_RANGE)) {
        t->kind = NSF_TIME_NEVER;
        return;
    }

    /* rounded down, without libm */

    whole = (double) (int64_t) number;

    if (whole > number) {
        whole -= 1;
    }

    nsf_time_set(t, (int64_t) whole,
                 (int64_t) ((number - whole) * NSF_TIME_BILLION));
}


void
nsf_time_add(nsf_time_t *t, const nsf_time_t *more)
{
    if (t->kind == NSF_TIME_NEVER || more->kind == NSF_TIME_NEVER) {
        memset(t, 0, sizeof(nsf_time_t));
        t->kind = NSF_TIME_NEVER;

    } else if (t->kind == NSF_TIME_LONG_AGO
               || more->kind == NSF_TIME_LONG_AGO)
    {
        memset(t, 0, sizeof(nsf_time_t));
        t->kind = NSF_TIME_LONG_AGO;

    } else {
        nsf_time_set(t, t->sec + more->sec,
                     (int64_t) t->nsec + (int64_t) more->nsec);
    }
}


int64_t
nsf_time_valid_until(const nsf_time_t *t)
{
    switch (t->kind) {

    case NSF_TIME_FINITE:
        break;

    case NSF_TIME_LONG_AGO:
        return 1;

    default: /* NONE, NEVER */
        return 0;
    }

    if (t->sec > NSF_TIME_MAX) {
        return 0;
    }

    return t->sec < 1 ? 1 : t->sec;
}
