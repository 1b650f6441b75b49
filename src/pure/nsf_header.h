/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Names of the headers that a record may bring.
 */


#ifndef _NSF_HEADER_H_INCLUDED_
#define _NSF_HEADER_H_INCLUDED_


#include "nsf.h"


/* whole names, ended by one without data; "Access-Control-" begins others */

extern const nsf_str_t  nsf_header_names[];

int nsf_header_allowed(const nsf_str_t *name);

/* whatever the case, of ASCII letters only */

int nsf_header_same(const nsf_str_t *a, const nsf_str_t *b);


#endif /* _NSF_HEADER_H_INCLUDED_ */
