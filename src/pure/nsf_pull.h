/*
 * Copyright (C) the ngx_sendfile authors
 *
 * JSON piece by piece, for tokens, which have a few short fields: nothing is
 * built, strings are unescaped where they stand.  So the text is changed, and
 * can be read once.
 */


#ifndef _NSF_PULL_H_INCLUDED_
#define _NSF_PULL_H_INCLUDED_


#include "nsf.h"


#define NSF_PULL_MAX_DEPTH  16


typedef struct {
    unsigned char        *p;
    unsigned char        *last;
} nsf_pull_t;


void nsf_pull_open(nsf_pull_t *j, unsigned char *p, size_t len);

/* the first character of the value that comes, 0 at the end of the text */

unsigned nsf_pull_type(nsf_pull_t *j);

/* each reads one value and stands behind it; NULL, or what is wrong */

const char *nsf_pull_string(nsf_pull_t *j, nsf_str_t *s);
const char *nsf_pull_integer(nsf_pull_t *j, nsf_str_t *s);
const char *nsf_pull_skip(nsf_pull_t *j);

/*
 * An object: after "{" has been read by nsf_pull_object(), each call of
 * nsf_pull_member() gives the name of the value that comes, or data NULL when
 * the object has ended.  "n" is how many there were before, first 0.
 */

const char *nsf_pull_object(nsf_pull_t *j);
const char *nsf_pull_member(nsf_pull_t *j, size_t n, nsf_str_t *name);

/* an error if there is more */

const char *nsf_pull_close(nsf_pull_t *j);


#endif /* _NSF_PULL_H_INCLUDED_ */
