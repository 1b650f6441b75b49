
/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include <pthread.h>

#include "ngx_http_sendfile_fault.h"


static void ngx_http_sendfile_fault_handler(int signo);


sigjmp_buf             ngx_http_sendfile_fault_env;
volatile sig_atomic_t  ngx_http_sendfile_fault_armed;


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
    sa.sa_handler = ngx_http_sendfile_fault_handler;
    sa.sa_flags = SA_NODEFER;
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
ngx_http_sendfile_fault_handler(int signo)
{
    struct sigaction  *old;

    /* a thread of a thread pool must not jump to our stack */

    if (ngx_http_sendfile_fault_armed
        && pthread_equal(pthread_self(), ngx_http_sendfile_fault_thread))
    {
        ngx_http_sendfile_fault_armed = 0;
        siglongjmp(ngx_http_sendfile_fault_env, 1);
    }

    /* not ours: the instruction runs again under the previous handler */

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

    (void) sigaction(signo, old, NULL);
}
