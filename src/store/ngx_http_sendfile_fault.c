
/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include <pthread.h>

#include "ngx_http_sendfile_fault.h"


/*
 * How far behind a mapping damaged content may lead: a node's offset in its
 * page, a key's length and a value's are of 16 bits each.
 */

#define NGX_HTTP_SENDFILE_FAULT_BEYOND  (4 * 65536)


static void ngx_http_sendfile_fault_handler(int signo, siginfo_t *info,
    void *context);
static ngx_uint_t ngx_http_sendfile_fault_mapped(u_char *addr);
static void ngx_http_sendfile_fault_pass(int signo, siginfo_t *info,
    void *context);


sigjmp_buf                            ngx_http_sendfile_fault_env;
volatile sig_atomic_t                 ngx_http_sendfile_fault_armed;
const ngx_http_sendfile_fault_map_t  *ngx_http_sendfile_fault_maps;
ngx_uint_t                            ngx_http_sendfile_fault_nmaps;


static ngx_pid_t         ngx_http_sendfile_fault_pid;
static pthread_t         ngx_http_sendfile_fault_thread;
static struct sigaction  ngx_http_sendfile_fault_old_segv;
static struct sigaction  ngx_http_sendfile_fault_old_bus;
static struct sigaction  ngx_http_sendfile_fault_old_fpe;


ngx_int_t
ngx_http_sendfile_fault_init(ngx_log_t *log)
{
    struct sigaction  sa;

    if (ngx_http_sendfile_fault_pid == ngx_pid) {
        return NGX_OK;
    }

    ngx_memzero(&sa, sizeof(struct sigaction));
    sa.sa_sigaction = ngx_http_sendfile_fault_handler;
    sa.sa_flags = SA_SIGINFO|SA_NODEFER|SA_ONSTACK;
    sigemptyset(&sa.sa_mask);

    ngx_http_sendfile_fault_thread = pthread_self();

    if (sigaction(SIGSEGV, &sa, &ngx_http_sendfile_fault_old_segv) == -1
        || sigaction(SIGBUS, &sa, &ngx_http_sendfile_fault_old_bus) == -1
        || sigaction(SIGFPE, &sa, &ngx_http_sendfile_fault_old_fpe) == -1)
    {
        ngx_log_error(NGX_LOG_ALERT, log, ngx_errno, "sigaction() failed");
        return NGX_ERROR;
    }

    ngx_http_sendfile_fault_pid = ngx_pid;

    return NGX_OK;
}


void
ngx_http_sendfile_fault_raise(void)
{
    if (ngx_http_sendfile_fault_armed) {
        ngx_http_sendfile_fault_armed = 0;
        siglongjmp(ngx_http_sendfile_fault_env, 1);
    }
}


static void
ngx_http_sendfile_fault_handler(int signo, siginfo_t *info, void *context)
{
    /*
     * The code of a signal that was sent is not positive, the address of a
     * SIGFPE is an instruction's, and a thread of a thread pool must not jump
     * to our stack.
     */

    if (ngx_http_sendfile_fault_armed
        && info->si_code > 0
        && pthread_equal(pthread_self(), ngx_http_sendfile_fault_thread)
        && (signo == SIGFPE || ngx_http_sendfile_fault_mapped(info->si_addr)))
    {
        ngx_http_sendfile_fault_armed = 0;
        siglongjmp(ngx_http_sendfile_fault_env, 1);
    }

    ngx_http_sendfile_fault_pass(signo, info, context);
}


static ngx_uint_t
ngx_http_sendfile_fault_mapped(u_char *addr)
{
    ngx_uint_t                            i;
    const ngx_http_sendfile_fault_map_t  *map;

    for (i = 0; i < ngx_http_sendfile_fault_nmaps; i++) {
        map = &ngx_http_sendfile_fault_maps[i];

        if (map->end == NULL) {
            return 1;
        }

        if (addr >= map->start
            && (size_t) (addr - map->start)
               < (size_t) (map->end - map->start)
                 + NGX_HTTP_SENDFILE_FAULT_BEYOND)
        {
            return 1;
        }
    }

    return 0;
}


/* as if there were no guard */

static void
ngx_http_sendfile_fault_pass(int signo, siginfo_t *info, void *context)
{
    struct sigaction  *old;

    switch (signo) {

    case SIGBUS:
        old = &ngx_http_sendfile_fault_old_bus;
        break;

    case SIGFPE:
        old = &ngx_http_sendfile_fault_old_fpe;
        break;

    default: /* SIGSEGV */
        old = &ngx_http_sendfile_fault_old_segv;
    }

    if (old->sa_flags & SA_SIGINFO) {
        old->sa_sigaction(signo, info, context);
        return;
    }

    if (old->sa_handler != SIG_DFL && old->sa_handler != SIG_IGN) {
        old->sa_handler(signo);
        return;
    }

    if (info->si_code > 0) {
        /* the instruction runs again, and the kernel ends the process */
        (void) sigaction(signo, old, NULL);
        return;
    }

    if (old->sa_handler == SIG_DFL) {
        (void) sigaction(signo, old, NULL);
        (void) raise(signo);
    }
}
