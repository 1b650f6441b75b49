/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Content-Disposition, RFC 6266: an ASCII filename for old clients and,
 * where the name is more than ASCII, filename* as of RFC 5987 / RFC 8187.
 */


#ifndef _NSF_DISPOSITION_H_INCLUDED_
#define _NSF_DISPOSITION_H_INCLUDED_


#include "nsf_target.h"


/*
 * Writes the header's value for a disposition and a (possibly empty) name
 * to "buf" and returns its length in bytes; with "buf" NULL only the
 * length.  A name without a disposition means inline; 0 if there is
 * neither.
 */

size_t nsf_disposition(unsigned char *buf, nsf_disposition_e disposition,
    const nsf_str_t *name);


#endif /* _NSF_DISPOSITION_H_INCLUDED_ */
