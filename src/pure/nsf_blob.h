/*
 * Copyright (C) the ngx_sendfile authors
 *
 * URLs of Rails' Active Storage, disk service: where the token is, and which
 * file a key means.
 */


#ifndef _NSF_BLOB_H_INCLUDED_
#define _NSF_BLOB_H_INCLUDED_


#include "nsf.h"


/*
 * /rails/active_storage/disk/TOKEN/name: 1 and the token as it stands in a raw
 * URI, or 0.  The first segment "disk" counts, and a name must follow.
 */

int nsf_blob_token(nsf_str_t *token, const unsigned char *uri, size_t len);


/* what nsf_blob_path() adds to a key, at most */

#define NSF_BLOB_FOLDERS  6

/*
 * xx/yy/key for the key xxyy...; "dst" has NSF_BLOB_FOLDERS bytes more than the
 * key.  NULL, or why there is no such file: the key is no relative path, or is
 * too short, or what makes the folders is not ASCII.
 */

const char *nsf_blob_path(unsigned char *dst, size_t *n, const nsf_str_t *key);


#endif /* _NSF_BLOB_H_INCLUDED_ */
