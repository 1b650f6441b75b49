/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Ruby's Marshal, format 4.8, as far as it takes to find a String in it.
 * Nothing is built from what is read: there are slices, numbers, and types
 * that are passed over.
 */


#ifndef _NSF_MARSHAL_H_INCLUDED_
#define _NSF_MARSHAL_H_INCLUDED_


#include "nsf.h"
#include "nsf_time.h"


#define NSF_MARSHAL_MAX_SYMBOLS  32
#define NSF_MARSHAL_MAX_DEPTH    8


/* what is read, and the symbols seen so far, which later ones refer to */

typedef struct {
    const unsigned char  *p;
    const unsigned char  *last;
    size_t                nsymbols;
    nsf_str_t             symbols[NSF_MARSHAL_MAX_SYMBOLS];
} nsf_marshal_t;


/* whether the bytes start as all of Marshal does: 04 08 */

int nsf_marshal_is(const unsigned char *p, size_t len);


/* a dump that is a String, whatever its encoding, and nothing else */

const char *nsf_marshal_decode(nsf_str_t *s, const unsigned char *p,
    size_t len);


/*
 * Piece by piece.  Each reads one value and stands behind it afterwards; if
 * it is another type, or broken, it returns what is wrong.
 */

const char *nsf_marshal_open(nsf_marshal_t *m, const unsigned char *p,
    size_t len);

/* the type of the value that comes, 0 at the end of the bytes */

unsigned nsf_marshal_type(const nsf_marshal_t *m);

const char *nsf_marshal_string(nsf_marshal_t *m, nsf_str_t *s);
const char *nsf_marshal_symbol(nsf_marshal_t *m, nsf_str_t *s);

/* one that 63 bits hold, and a sign */

const char *nsf_marshal_integer(nsf_marshal_t *m, int64_t *n);

/* Integer or Float, or nil, which gives NSF_TIME_NONE */

const char *nsf_marshal_time(nsf_marshal_t *m, nsf_time_t *t);

/*
 * What goes before "n" elements; before "n" pairs of values, in a Hash, and of
 * symbol and value, in an object.
 */

const char *nsf_marshal_array(nsf_marshal_t *m, size_t *n);
const char *nsf_marshal_hash(nsf_marshal_t *m, size_t *n);
const char *nsf_marshal_object(nsf_marshal_t *m, nsf_str_t *name, size_t *n);

/*
 * Any value of core types: nil, true, false, Integer, Float, String, Symbol,
 * Regexp, Array, Hash, or a link to an earlier one, which is not followed.
 */

const char *nsf_marshal_skip(nsf_marshal_t *m);

/* an error if there is more */

const char *nsf_marshal_close(const nsf_marshal_t *m);


#endif /* _NSF_MARSHAL_H_INCLUDED_ */
