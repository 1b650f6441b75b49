/*
 * Copyright (C) the ngx_sendfile authors
 *
 * What the tests of packed targets share.
 */


#ifndef _NSF_TEST_PACK_H_INCLUDED_
#define _NSF_TEST_PACK_H_INCLUDED_


#include "nsf_test.h"
#include "nsf_pack.h"
#include "nsf_time.h"


#define CUT_OFF      "packed target cut off"
#define BROKEN       "broken packed target"

#define pack_str(s)  { (const unsigned char *) s, sizeof(s) - 1 }


/*
 * "t" is what a test packs, at its start a target of just a path, "back" and
 * "pool" what the last unpack() left.
 */

typedef struct {
    nsf_target_t          t;
    nsf_target_t          back;
    nsf_test_pool_t       pool;
    nsf_header_t          headers[NSF_MAX_HEADERS + 1];
} nsf_pack_test_t;

extern nsf_pack_test_t     pt;

extern const nsf_str_t     pack_path;
extern const nsf_str_t     pack_type;
extern const nsf_str_t     pack_name;


int nsf_pack_setup(void **state);
int nsf_pack_teardown(void **state);

#define pack_test(f)                                                          \
    cmocka_unit_test_setup_teardown(f, nsf_pack_setup, nsf_pack_teardown)


/* gives "t" that many headers, or something in each field */

nsf_header_t *pack_headers(size_t n);
void pack_everything(void);

nsf_test_buf_t pack(void);

/*
 * With a new pool; the target must be empty if there is an error.  unpack()
 * does it with a copy that is freed.
 */

const char *unpack_at(const unsigned char *bytes, size_t len, size_t fail_at);
const char *unpack(const void *bytes, size_t len);

#define unpack_str(s)  unpack(s, sizeof(s) - 1)


#endif /* _NSF_TEST_PACK_H_INCLUDED_ */
