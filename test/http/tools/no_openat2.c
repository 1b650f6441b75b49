
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Run a program whose openat2() fails, as on an old kernel (ENOSYS) or below
 * an old container runtime's seccomp filter (EPERM).
 *
 * usage: no_openat2 ENOSYS|EPERM PROGRAM [ARGUMENT...]
 */


#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/filter.h>
#include <linux/seccomp.h>


/* the same number on every architecture; old headers do not know it */

#define OPENAT2  437


static int  refuse_openat2(int err);


int
main(int argc, char **argv)
{
    int  err;

    if (argc < 3) {
        fprintf(stderr, "usage: no_openat2 ENOSYS|EPERM PROGRAM...\n");
        return 2;
    }

    if (strcmp(argv[1], "ENOSYS") == 0) {
        err = ENOSYS;

    } else if (strcmp(argv[1], "EPERM") == 0) {
        err = EPERM;

    } else {
        fprintf(stderr, "no_openat2: \"%s\" is not ENOSYS or EPERM\n",
                argv[1]);
        return 2;
    }

    if (refuse_openat2(err) == -1) {
        perror("no_openat2: openat2() is not filtered");
        return 1;
    }

    (void) execvp(argv[2], &argv[2]);
    perror(argv[2]);

    return 1;
}


static int
refuse_openat2(int err)
{
    struct sock_fprog   program;

    struct sock_filter  filter[] = {
        BPF_STMT(BPF_LD|BPF_W|BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP|BPF_JEQ|BPF_K, OPENAT2, 0, 1),
        BPF_STMT(BPF_RET|BPF_K, SECCOMP_RET_ERRNO|(unsigned) err),
        BPF_STMT(BPF_RET|BPF_K, SECCOMP_RET_ALLOW)
    };

    program.len = sizeof(filter) / sizeof(filter[0]);
    program.filter = filter;

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == -1
        || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == -1)
    {
        return -1;
    }

    if (syscall(OPENAT2, -1, "", NULL, (size_t) 0) != -1 || errno != err) {
        return -1;
    }

    return 0;
}
