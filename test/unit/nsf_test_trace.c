/*
 * Copyright (C) the ngx_sendfile authors
 */


#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nsf_test_trace.h"


static void nsf_test_one_processor(void);
static void nsf_test_stopped(int pid, int signal);


int
nsf_test_trace(void (*work)(void))
{
    int  pid;

    nsf_test_one_processor();

    pid = fork();
    assert_true(pid >= 0);

    if (pid == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) {
            print_error("ptrace: %s; this test can't do without it\n",
                        strerror(errno));
            _exit(1);
        }

        (void) raise(SIGSTOP);
        work();
        _exit(0);
    }

    nsf_test_stopped(pid, SIGSTOP);

    assert_int_equal(ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_EXITKILL),
                     0);

    return pid;
}


static void
nsf_test_one_processor(void)
{
    size_t     i;
    cpu_set_t  set;

    assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);

    for (i = 0; !CPU_ISSET(i, &set); i++) {
        assert_true(i < CPU_SETSIZE);
    }

    CPU_ZERO(&set);
    CPU_SET(i, &set);

    assert_int_equal(sched_setaffinity(0, sizeof(set), &set), 0);
}


static void
nsf_test_stopped(int pid, int signal)
{
    int  status;

    while (waitpid(pid, &status, 0) == -1) {
        assert_int_equal(errno, EINTR);
    }

    if (!WIFSTOPPED(status) || WSTOPSIG(status) != signal) {
        fail_msg("the child has status 0x%x instead of being stopped by"
                 " signal %d", status, signal);
    }
}


void
nsf_test_step(int pid)
{
    assert_int_equal(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
    nsf_test_stopped(pid, SIGTRAP);
}


void
nsf_test_continue(int pid)
{
    assert_int_equal(ptrace(PTRACE_CONT, pid, NULL, NULL), 0);
    nsf_test_stopped(pid, SIGSTOP);
}


void
nsf_test_kill(int pid)
{
    int  status;

    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);

    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
}
