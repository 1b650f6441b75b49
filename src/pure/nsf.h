/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Shared by everything below src/pure: no nginx header, no I/O, no globals.
 * Functions that can refuse their input return NULL when it is good, or a
 * static string of a few words that says what is wrong with it.
 */


#ifndef _NSF_H_INCLUDED_
#define _NSF_H_INCLUDED_


#include <stddef.h>
#include <stdint.h>


typedef struct {
    const unsigned char  *data;
    size_t                len;
} nsf_str_t;


/*
 * Memory that lives as long as the target does.  alloc() aligns as malloc()
 * does, and may return NULL.
 */

typedef struct {
    void               *(*alloc)(void *ctx, size_t size);
    void                 *ctx;
} nsf_pool_t;


#define NSF_MAX_KEY      250
#define NSF_MAX_ID       20
#define NSF_MAX_PATH     4096
#define NSF_MAX_VALUE    65536
#define NSF_MAX_HEADERS  32

#define NSF_ERR_MEMORY   "out of memory"


#endif /* _NSF_H_INCLUDED_ */
