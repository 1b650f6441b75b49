/*
 * Copyright (C) the ngx_sendfile authors
 *
 * A child that runs one instruction at a time (ptrace).
 */


#ifndef _NSF_TEST_TRACE_H_INCLUDED_
#define _NSF_TEST_TRACE_H_INCLUDED_


#include "nsf_test.h"


/*
 * Forks a child that is about to call "work", and exits after it.  It is on
 * the same processor as the caller from now on: it is quicker so, for one of
 * the two always waits for the other.
 */

int nsf_test_trace(void (*work)(void));

void nsf_test_step(int pid);

/* until the child has raised SIGSTOP */

void nsf_test_continue(int pid);

void nsf_test_kill(int pid);


#endif /* _NSF_TEST_TRACE_H_INCLUDED_ */
