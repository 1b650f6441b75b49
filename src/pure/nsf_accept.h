/*
 * Copyright (C) the ngx_sendfile authors
 *
 * The header Accept, as far as it tells Prometheus' two formats apart
 * (RFC 9110, 12.5.1).
 */


#ifndef _NSF_ACCEPT_H_INCLUDED_
#define _NSF_ACCEPT_H_INCLUDED_


#include "nsf.h"


/* weights of 0 to 1000; -1: not named */

typedef struct {
    int  openmetrics;
    int  plain;
} nsf_accept_t;


void nsf_accept_init(nsf_accept_t *a);

/* One line of the header; several are as one with commas between them. */

void nsf_accept_line(nsf_accept_t *a, const nsf_str_t *value);

/*
 * 1 if the client names application/openmetrics-text, of a version 1.0.0 or
 * of none, and does not prefer text/plain.  A wildcard names neither: what
 * takes anything takes the older format.
 */

int nsf_accept_openmetrics(const nsf_accept_t *a);


#endif /* _NSF_ACCEPT_H_INCLUDED_ */
