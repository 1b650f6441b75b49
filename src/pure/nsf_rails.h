/*
 * Copyright (C) the ngx_sendfile authors
 *
 * What Rails.cache.write() stores, in the formats of Rails 4 to 6.1, 7.0, and
 * 7.1 and later, if the value in it is a String.
 */


#ifndef _NSF_RAILS_H_INCLUDED_
#define _NSF_RAILS_H_INCLUDED_


#include "nsf.h"


/* whether the bytes start as an entry of one of the formats does */

int nsf_rails_is_object(const unsigned char *p, size_t len);    /* 6.1 */
int nsf_rails_is_packed(const unsigned char *p, size_t len);    /* 7.0, 7.1 */


/*
 * The String of such an entry, and until when it is valid, in Unix seconds;
 * 0: for ever.  The version is not looked at, as there is none to compare
 * with.
 */

const char *nsf_rails_decode(nsf_str_t *s, int64_t *valid_until,
    const unsigned char *p, size_t len, nsf_pool_t *pool);


#endif /* _NSF_RAILS_H_INCLUDED_ */
