/*
 * Copyright (C) the ngx_sendfile authors
 *
 * A writer that dies at any instruction.
 *
 * The operations of a script run in a child, one instruction after the other;
 * the state of the shared memory after each of them is what a SIGKILL there
 * would leave.  On a copy of it every name is read, and the next writer goes
 * to work.
 */


#ifndef _NSF_TEST_STEP_H_INCLUDED_
#define _NSF_TEST_STEP_H_INCLUDED_


#include "nsf_test_shard.h"


#define STEP_NAMES   72
#define STEP_OPS     160
#define STEP_SIZE    NSF_SHARD_MIN

#define STEP_ABSENT  ((uint64_t) -1)


typedef enum {
    STEP_PUT,
    STEP_GET,
    STEP_DEL,
    STEP_CLAIM,
    STEP_FORMAT
} step_what_e;


/* what a name may hold */

typedef struct {
    uint64_t              id;
    int                   negative;
    size_t                len;
    uint64_t              valid;
    uint64_t              limit;
    uint64_t              generation;
    uint64_t              claimed;
} step_version_t;


typedef struct {
    nsf_shard_key_t       key;
    char                  bytes[NSF_TEST_NAME];
    step_version_t        before;
    step_version_t        after;
} step_name_t;


/* "version": what the name holds then; of a claim, what has been got before */

typedef struct {
    step_what_e           what;
    size_t                name;
    step_version_t        version;
    uint64_t              until;
    uint64_t              expected;
    unsigned char        *data;
} step_op_t;


/* by the child: operations begun and ended, what they returned */

typedef struct {
    uint64_t              begun;
    uint64_t              done;
    uint64_t              rc[STEP_OPS];
} step_control_t;


typedef struct {
    nsf_test_map_t        map;
    nsf_test_map_t        copy;
    nsf_test_map_t        shared;
    step_control_t       *control;
    nsf_shard_t           sh;

    step_name_t           names[STEP_NAMES];
    size_t                nnames;
    step_op_t             ops[STEP_OPS];
    size_t                nops;
    uint64_t              now;
    uint64_t              ids;

    unsigned char         last[STEP_SIZE];
    nsf_test_pond_t       pond;

    /* seen */
    size_t                instructions;
    size_t                states;
    size_t                busy;
    size_t                recovered;
    size_t                unformatted;

    /* whether step_dead_busy and step_dead_readable are to be set */
    int                   keep;
} step_t;


/* what a dead writer left */

typedef struct {
    size_t                n;
    step_name_t           names[STEP_NAMES];
    unsigned char         mem[STEP_SIZE];
} step_dead_t;


extern step_t       step;
extern step_dead_t  step_dead_busy;
extern step_dead_t  step_dead_readable;


void step_init(void);
void step_free(void);


/* before the script: what is in the shard */

step_version_t step_version(size_t len, int negative);
void step_put(size_t i, step_version_t ver);
int step_get(size_t i);

/* until the next one of that length would push another out; returns how many */

size_t step_full(size_t len);

nsf_shard_stat_t step_stat(void);


/* the script: how much the operation returns is "expected" */

step_op_t *step_add(step_what_e what, size_t name, uint64_t expected);
step_op_t *step_add_put(size_t name, step_version_t ver);
step_op_t *step_add_claim(size_t name, step_version_t ver, uint64_t until,
    uint64_t expected);

/* all of it, with every instruction; fails the test if a state is bad */

void step_run(const char *name);


#endif /* _NSF_TEST_STEP_H_INCLUDED_ */
