/*
 * Copyright (C) the ngx_sendfile authors
 *
 * The hash functions for a ring.
 */


#ifndef _NSF_TEST_HASH_H_INCLUDED_
#define _NSF_TEST_HASH_H_INCLUDED_


#include "nsf_ring.h"


extern const nsf_hashes_t  nsf_test_hashes;


#endif /* _NSF_TEST_HASH_H_INCLUDED_ */
