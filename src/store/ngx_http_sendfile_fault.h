
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Reading a memory-mapped file that somebody truncates or overwrites ends
 * in SIGBUS or SIGSEGV, or, by a page size of zero, in SIGFPE.  A guarded
 * call turns that into an error:
 *
 *     if (ngx_http_sendfile_fault_guard()) {
 *         ... it faulted ...
 *     }
 *
 *     ngx_http_sendfile_fault_arm(maps, n);
 *     ... read the mappings ...
 *     ngx_http_sendfile_fault_release();
 *
 * What was allocated between arm and release when it faulted stays so, which
 * is why only opening does.
 *
 * Anything else goes where it went before: a fault outside of a guarded
 * section, one at an address that is in none of the mappings, one of another
 * thread, and a signal that somebody has sent.
 */


#ifndef _NGX_HTTP_SENDFILE_FAULT_H_INCLUDED_
#define _NGX_HTTP_SENDFILE_FAULT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>

#include <setjmp.h>


/* "end" is NULL when nobody knows where it lies: then it may be anywhere */

typedef struct {
    u_char                    *start;
    u_char                    *end;
} ngx_http_sendfile_fault_map_t;


extern sigjmp_buf                            ngx_http_sendfile_fault_env;
extern volatile sig_atomic_t                 ngx_http_sendfile_fault_armed;
extern const ngx_http_sendfile_fault_map_t  *ngx_http_sendfile_fault_maps;
extern ngx_uint_t                            ngx_http_sendfile_fault_nmaps;


/* installs the handlers, once in a process */

ngx_int_t ngx_http_sendfile_fault_init(ngx_log_t *log);

/* ends a guarded section as a fault would; returns if there is none */

void ngx_http_sendfile_fault_raise(void);


#define ngx_http_sendfile_fault_guard()                                       \
    sigsetjmp(ngx_http_sendfile_fault_env, 0) != 0

#define ngx_http_sendfile_fault_arm(maps, n)                                  \
    ngx_http_sendfile_fault_maps = maps;                                      \
    ngx_http_sendfile_fault_nmaps = n;                                        \
    ngx_memory_barrier();                                                     \
    ngx_http_sendfile_fault_armed = 1

#define ngx_http_sendfile_fault_release()                                     \
    ngx_http_sendfile_fault_armed = 0


#endif /* _NGX_HTTP_SENDFILE_FAULT_H_INCLUDED_ */
