/*
 * Copyright (C) the ngx_sendfile authors
 *
 * What the fuzz targets share.  The rules are checked here in another way
 * than src/pure does it, so that a mistake has to be made twice.
 */


#ifndef _NSF_FUZZ_H_INCLUDED_
#define _NSF_FUZZ_H_INCLUDED_


#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "nsf_disposition.h"
#include "nsf_json.h"
#include "nsf_key.h"
#include "nsf_record.h"
#include "nsf_url.h"


#define fuzz_require(cond)                                                    \
    do {                                                                      \
        if (!(cond)) {                                                        \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__,  \
                    #cond);                                                   \
            abort();                                                          \
        }                                                                     \
    } while (0)


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);


/* a pool; with "fail_at" n > 0 the n-th allocation fails */

#define FUZZ_BLOCKS  (8 + 2 * NSF_MAX_HEADERS)

typedef struct {
    nsf_pool_t            pool;
    size_t                calls;
    size_t                fail_at;
    size_t                nblocks;
    void                 *blocks[FUZZ_BLOCKS];
    size_t                sizes[FUZZ_BLOCKS];
} fuzz_pool_t;


void fuzz_pool_init(fuzz_pool_t *fp, size_t fail_at);
void fuzz_pool_free(fuzz_pool_t *fp);

/* the bytes in memory of just their size, at any address; to be freed */

unsigned char *fuzz_copy(const void *data, size_t size, void **memory);

int fuzz_path_is_good(const unsigned char *p, size_t len);
int fuzz_has_control(const unsigned char *p, size_t len, const char *except);
int fuzz_is_utf8(const unsigned char *p, size_t len);

/* whether a string lies within some bytes, or a block of the pool */

int fuzz_is_slice(const nsf_str_t *s, const unsigned char *p, size_t len);
int fuzz_pool_owns(const fuzz_pool_t *fp, const nsf_str_t *s);

/* aborts if an error is no short text, or a target breaks a rule */

void fuzz_check_error(const char *err);
void fuzz_check_target(const nsf_target_t *t);
void fuzz_check_no_target(const nsf_target_t *t);

/* makes the header's value, aborts if it breaks a rule */

void fuzz_check_disposition(nsf_disposition_e disposition,
    const nsf_str_t *name);


#endif /* _NSF_FUZZ_H_INCLUDED_ */
