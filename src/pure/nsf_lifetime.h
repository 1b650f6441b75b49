/*
 * Copyright (C) the ngx_sendfile authors
 *
 * For how long an application lets its answer be used for others, by the
 * headers of the answer: RFC 9111, and X-Accel-Expires, which is nginx's.
 * Whatever is not said, or not understood, is no permission.
 */


#ifndef _NSF_LIFETIME_H_INCLUDED_
#define _NSF_LIFETIME_H_INCLUDED_


#include "nsf.h"


/* no lifetime is longer than a year, whatever the application says */

#define NSF_LIFETIME_MAX  INT64_C(31536000)

/* a number of seconds that was not said */

#define NSF_LIFETIME_NONE  (-1)


/*
 * What an answer has said.  Seconds are NSF_LIFETIME_NONE, or 0 to
 * NSF_LIFETIME_MAX; of what is said twice the shorter counts.
 */

typedef struct {
    int64_t               accel;     /* X-Accel-Expires: seconds */
    int64_t               accel_at;  /* the same, less the time now */
    int64_t               s_maxage;
    int64_t               max_age;
    int64_t               expires;   /* Expires, less the time now */
    int64_t               age;
    int64_t               apparent;  /* the time now, less Date */
    unsigned              is_public:1;
    unsigned              is_private:1;
    unsigned              no_store:1;
    unsigned              no_cache:1;
    unsigned              set_cookie:1;
    unsigned              varies:1;

    /* must-revalidate, proxy-revalidate, s-maxage: never used stale */
    unsigned              revalidate:1;

    /* of the request: it had Authorization, seconds that the answer took */
    unsigned              authorization:1;
    int64_t               delay;

    /* names of headers that Vary may have, lower case and "_" for "-" */
    const nsf_str_t      *known;
    size_t                nknown;
} nsf_lifetime_t;


void nsf_lifetime_init(nsf_lifetime_t *l);


/*
 * Each takes one line's value.  Cache-Control: a list of directives; of those
 * that restrict, one with a list of header names counts as one without, and
 * quotes that do not end as no-store.
 * X-Accel-Expires: seconds, or "@" and a Unix time.  Vary: any name that is
 * not known.  Age: seconds.  A number that is none is 0, but as an age
 * NSF_LIFETIME_MAX.
 */

void nsf_lifetime_cache_control(nsf_lifetime_t *l, const nsf_str_t *value);
void nsf_lifetime_accel(nsf_lifetime_t *l, const nsf_str_t *value,
    int64_t now);
void nsf_lifetime_vary(nsf_lifetime_t *l, const nsf_str_t *value);
void nsf_lifetime_age(nsf_lifetime_t *l, const nsf_str_t *value);

/* Expires and Date, already parsed; negative if it is no date */

void nsf_lifetime_expires(nsf_lifetime_t *l, int64_t time, int64_t now);
void nsf_lifetime_date(nsf_lifetime_t *l, int64_t time, int64_t now);


/* how old the answer is already, in seconds: RFC 9111, 4.2.3 */

int64_t nsf_lifetime_initial_age(const nsf_lifetime_t *l);


/*
 * NULL and "*seconds", more than 0; or why nobody else may get the answer, in
 * a few words.
 */

const char *nsf_lifetime(const nsf_lifetime_t *l, int64_t *seconds);


#endif /* _NSF_LIFETIME_H_INCLUDED_ */
