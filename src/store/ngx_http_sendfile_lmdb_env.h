
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * An open LMDB environment: read-only, one for each file and process, its
 * faults turned into errors.
 */


#ifndef _NGX_HTTP_SENDFILE_LMDB_ENV_H_INCLUDED_
#define _NGX_HTTP_SENDFILE_LMDB_ENV_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include <lmdb.h>


typedef struct ngx_http_sendfile_lmdb_env_s  ngx_http_sendfile_lmdb_env_t;

struct ngx_http_sendfile_lmdb_env_s {
    ngx_queue_t                    queue;
    ngx_queue_t                    stores;  /* that read it */
    ngx_http_sendfile_lmdb_env_t  *lost;

    MDB_env                       *env;
    MDB_txn                       *txn;
    MDB_dbi                        dbi;
    char                          *path;    /* the real one */

    dev_t                          dev;
    ino_t                          ino;
    off_t                          size;    /* it never shrinks */

    /* ends the read transaction at the end of the event loop's turn */
    ngx_event_t                    turn;

    unsigned                       reading:1;
    unsigned                       broken:1;
};


/*
 * Opens the data file "fi" that is at "path", a directory's if "subdir".
 * NULL and in "*err" an errno or, negative, a code of LMDB's.
 */

ngx_http_sendfile_lmdb_env_t *ngx_http_sendfile_lmdb_env_open(u_char *path,
    ngx_uint_t subdir, ngx_file_info_t *fi, int *err, ngx_log_t *log);

void ngx_http_sendfile_lmdb_env_close(ngx_http_sendfile_lmdb_env_t *env,
    ngx_log_t *log);

/* whether the file is still as long as it was */

ngx_int_t ngx_http_sendfile_lmdb_env_intact(ngx_http_sendfile_lmdb_env_t *env);

/* the next read sees what was committed before it */

void ngx_http_sendfile_lmdb_env_end(ngx_http_sendfile_lmdb_env_t *env);

/*
 * Finds a value.  It is copied, for reading it later might fault as well,
 * and good until the next call; of one longer than NSF_MAX_VALUE only its
 * size is.  Returns an LMDB code or an errno; after some of them the
 * environment is marked as broken.
 */

int ngx_http_sendfile_lmdb_env_get(ngx_http_sendfile_lmdb_env_t *env,
    MDB_val *key, MDB_val *value);


#endif /* _NGX_HTTP_SENDFILE_LMDB_ENV_H_INCLUDED_ */
