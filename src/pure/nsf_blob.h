/*
 * Copyright (C) the ngx_sendfile authors
 *
 * URLs of Rails' Active Storage, disk service: where the token is, and which
 * file a key means.
 */


#ifndef _NSF_BLOB_H_INCLUDED_
#define _NSF_BLOB_H_INCLUDED_


#include "nsf_target.h"


typedef enum {
    NSF_BLOB_DISK = 0,
    NSF_BLOB_RECORD,
    NSF_BLOB_REPRESENTATION
} nsf_blob_e;


/*
 * What a URL has: the token of a file, or the signed id of a blob, and of a
 * representation the variation key, as they stand in the URI.  With "proxy" 1
 * the application would have sent the file itself.
 */

typedef struct {
    nsf_blob_e            kind;
    nsf_str_t             token;
    nsf_str_t             variation;
    int                   proxy;
} nsf_blob_url_t;


/*
 * 1 and what a raw URI has, or 0:
 *
 *     /rails/active_storage/disk/TOKEN/name
 *     /rails/active_storage/blobs/[redirect|proxy/]ID/name
 *     /rails/active_storage/representations/[redirect|proxy/]ID/VARIATION/name
 *
 * The first segment that is one of the three words counts.  With "records" 0
 * that is "disk" alone.
 */

int nsf_blob_url(nsf_blob_url_t *url, const unsigned char *uri, size_t len,
    int records);


/* the parameter "disposition" of a raw query, the last one as in Rack */

nsf_disposition_e nsf_blob_asked(const unsigned char *args, size_t len);


/*
 * How a blob is served of which the record does not say so, by its type and
 * Rails' own lists: as an attachment if a browser is not to show it, and of no
 * type if it is never to be served as what it is.
 */

void nsf_blob_serving(nsf_target_t *t);


/* a file name as Rails cleans it; "dst" has as many bytes */

size_t nsf_blob_name(unsigned char *dst, const nsf_str_t *name);


/* what nsf_blob_path() adds to a key, at most */

#define NSF_BLOB_FOLDERS  6

/*
 * xx/yy/key for the key xxyy...; "dst" has NSF_BLOB_FOLDERS bytes more than the
 * key.  NULL, or why there is no such file: the key is no relative path, or is
 * too short, or what makes the folders is not ASCII.
 */

const char *nsf_blob_path(unsigned char *dst, size_t *n, const nsf_str_t *key);


#endif /* _NSF_BLOB_H_INCLUDED_ */
