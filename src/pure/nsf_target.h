/*
 * Copyright (C) the ngx_sendfile authors
 *
 * A target is the one thing that delivery accepts.  It is made here and
 * nowhere else, so that every path passes the same checks.
 */


#ifndef _NSF_TARGET_H_INCLUDED_
#define _NSF_TARGET_H_INCLUDED_


#include "nsf.h"


/* NAMED is inline, too: that was not said, but there is a name */

typedef enum {
    NSF_DISPOSITION_NONE = 0,
    NSF_DISPOSITION_INLINE,
    NSF_DISPOSITION_ATTACHMENT,
    NSF_DISPOSITION_NAMED
} nsf_disposition_e;


typedef struct {
    nsf_str_t             name;
    nsf_str_t             value;
} nsf_header_t;


/*
 * Strings are slices of the decoder's input or memory of its pool, never
 * both owned here; an absent one has len 0.  "headers" is NULL or an array
 * of "nheaders".  "expires" is in Unix seconds, 0 if the record has none.
 * "valid_until" is in Unix seconds, rounded down, 0 for ever; from then on
 * the record counts as missing.  "expires" is never later than it.
 */

typedef struct {
    nsf_str_t             path;
    nsf_str_t             type;
    nsf_str_t             name;
    nsf_disposition_e     disposition;
    nsf_header_t         *headers;
    size_t                nheaders;
    int64_t               expires;
    int64_t               valid_until;
} nsf_target_t;


/*
 * The rules of a path: relative, 1..4096 bytes, no control byte (0x00-0x1f,
 * 0x7f), no ".", ".." or empty segment, no leading or trailing "/".  Bytes
 * are taken as they are, nothing is decoded.
 */

const char *nsf_path_check(const unsigned char *path, size_t len);


/*
 * What targets are put below, which the caller knows to start with a "/":
 * that alone, or with a path as above that may end with one more "/".
 */

const char *nsf_base_check(const unsigned char *base, size_t len);


/*
 * Whether "path" lies below "base", by whole segments: "/data-private" is not
 * below "/data".  Both start with a "/"; a base but "/" does not end with one.
 * 1, and "rest" is what follows the base and its "/", still to be checked.
 */

int nsf_path_below(const nsf_str_t *base, const nsf_str_t *path,
    nsf_str_t *rest);


/*
 * 1 if a string has a byte of 0x00-0x1f or 0x7f, which would break the line of
 * a header: no string of a target may.  With "tab" 1 a tab is none of them.
 */

int nsf_has_control(const nsf_str_t *s, int tab);


/* a target of just a path, a slice of the input; NULL or what is wrong */

const char *nsf_target_set_path(nsf_target_t *t, const unsigned char *path,
    size_t len);


/*
 * Takes over what a target has of some bytes that will be gone, a decoder's
 * input: each string that lies in them is copied to the pool, those of the
 * headers as well.  NULL, or what is wrong and a target that is of no use.
 */

const char *nsf_target_keep(nsf_target_t *t, const unsigned char *data,
    size_t len, nsf_pool_t *pool);


/*
 * A target that somebody has changed: NULL if it is what a record could have
 * said, or what is wrong.
 */

const char *nsf_target_check(const nsf_target_t *t);


#endif /* _NSF_TARGET_H_INCLUDED_ */
