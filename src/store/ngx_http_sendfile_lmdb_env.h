
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * An open LMDB environment: read-only, one for each file and process, its
 * faults turned into errors.
 *
 * It is read without LMDB's locks.  All of them lie in a lock file that other
 * users may write to, and who holds one of them could hold a worker with it.
 * Nor does it keep a writer from using pages again; so each value that is read
 * counts only if the two meta pages are, byte by byte, what they were before:
 *
 * A transaction N writes to pages that neither N - 1 nor N - 2 refers to, since
 * after a crash either may be what is left.  What was read of N is whole as
 * long as N + 1 is not committed, and even one commit longer, which covers a
 * meta page of which only a part could be seen: either a writer has already
 * gone on, and then all of the page can be seen by now and is found to differ,
 * or none has, and then what was read is whole.
 */


#ifndef _NGX_HTTP_SENDFILE_LMDB_ENV_H_INCLUDED_
#define _NGX_HTTP_SENDFILE_LMDB_ENV_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include <lmdb.h>

#include "ngx_http_sendfile_fault.h"


/*
 * A meta page has 16 bytes of its own; then come magic (4 bytes), version (4),
 * address and size of the map (8 each), two tables (48 each, the first begins
 * with the page size, 4), the last page and the transaction (8 each); LMDB
 * 0.9, mdb.c, MDB_page and MDB_meta.
 */

#define NGX_HTTP_SENDFILE_LMDB_META       16
#define NGX_HTTP_SENDFILE_LMDB_META_SIZE  136
#define NGX_HTTP_SENDFILE_LMDB_TXN        128


typedef struct ngx_http_sendfile_lmdb_env_s  ngx_http_sendfile_lmdb_env_t;

struct ngx_http_sendfile_lmdb_env_s {
    ngx_queue_t                    queue;
    ngx_queue_t                    stores;  /* that read it */

    MDB_env                       *env;
    MDB_txn                       *txn;
    MDB_dbi                        dbi;
    char                          *path;    /* the real one */

    dev_t                          dev;
    ino_t                          ino;
    off_t                          size;    /* it never shrinks */

    /* the two meta pages, and what they were when the snapshot was taken */
    u_char                        *metas;
    size_t                         page_size;
    u_char                         snapshot[2]
                                       [NGX_HTTP_SENDFILE_LMDB_META_SIZE];

    /* where faults are the file's: LMDB's map and the meta pages */
    ngx_http_sendfile_fault_map_t  maps[2];

    unsigned                       reading:1;
    unsigned                       broken:1;
};


/*
 * Opens the data file "fi" that is at "path", a directory's if "subdir".
 * NULL and in "*err" an errno or, negative, a code of LMDB's.
 */

ngx_http_sendfile_lmdb_env_t *ngx_http_sendfile_lmdb_env_open(u_char *path,
    ngx_uint_t subdir, ngx_file_info_t *fi, int *err, ngx_log_t *log);

void ngx_http_sendfile_lmdb_env_close(ngx_http_sendfile_lmdb_env_t *env);

/* whether the file is still as long as it was */

ngx_int_t ngx_http_sendfile_lmdb_env_intact(ngx_http_sendfile_lmdb_env_t *env);

/*
 * Finds a value, as it was committed last.  It is copied, for it might change
 * or fault later, and good until the next call; of one longer than
 * NSF_MAX_VALUE only its size is.  Returns an LMDB code or an errno; after some
 * of them the environment is marked as broken.
 */

int ngx_http_sendfile_lmdb_env_get(ngx_http_sendfile_lmdb_env_t *env,
    MDB_val *key, MDB_val *value);


#endif /* _NGX_HTTP_SENDFILE_LMDB_ENV_H_INCLUDED_ */
