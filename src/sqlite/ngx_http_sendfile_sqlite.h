
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * SQLite as a store: the application's own database, read by a query.
 */


#ifndef _NGX_HTTP_SENDFILE_SQLITE_H_INCLUDED_
#define _NGX_HTTP_SENDFILE_SQLITE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include <sqlite3.h>

#include "ngx_http_sendfile_api.h"


/* what a query has to say, a bit more than the longest of SQLite's messages */

#define NGX_HTTP_SENDFILE_SQLITE_TEXT  512


typedef enum {
    NGX_HTTP_SENDFILE_SQLITE_PATH = 0,
    NGX_HTTP_SENDFILE_SQLITE_TYPE,
    NGX_HTTP_SENDFILE_SQLITE_NAME,
    NGX_HTTP_SENDFILE_SQLITE_DISPOSITION,
    NGX_HTTP_SENDFILE_SQLITE_EXPIRES,
    NGX_HTTP_SENDFILE_SQLITE_HEADERS,
    NGX_HTTP_SENDFILE_SQLITE_COLUMNS
} ngx_http_sendfile_sqlite_column_e;


/*
 * Whose fault an error is: of the database, which may be well the next time;
 * of a table that is not there yet; of the query, which is wrong for good.
 */

typedef enum {
    NGX_HTTP_SENDFILE_SQLITE_DATABASE = 0,
    NGX_HTTP_SENDFILE_SQLITE_BUSY,
    NGX_HTTP_SENDFILE_SQLITE_TABLE,
    NGX_HTTP_SENDFILE_SQLITE_QUERY,
    NGX_HTTP_SENDFILE_SQLITE_TIME
} ngx_http_sendfile_sqlite_fault_e;


/*
 * "text" is all that is to be said, until the next error; "detail" says it
 * shorter, in a string that stays.
 */

typedef struct {
    ngx_http_sendfile_sqlite_fault_e
                               fault;
    const char                *detail;

    /* the file itself could be opened */
    ngx_uint_t                 opened;  /* unsigned  opened:1; */

    u_char                     text[NGX_HTTP_SENDFILE_SQLITE_TEXT];
} ngx_http_sendfile_sqlite_error_t;


/*
 * The SQL of a store.  Its parameter is the key; with "hash" set the first
 * is the key's hash as Solid Cache has it, the second the key as a blob.
 * "older" is for a database that lacks a table of "sql", since it was made by
 * an older version of what made it; or empty.  With "variants" a key may be
 * that of a variant of Active Storage.
 */

typedef struct {
    ngx_str_t                  name;
    ngx_str_t                  sql;
    ngx_str_t                  older;
    ngx_uint_t                 hash;      /* unsigned  hash:1; */
    ngx_uint_t                 variants;  /* unsigned  variants:1; */
} ngx_http_sendfile_sqlite_query_t;


/* an open database, of one store and process */

typedef struct {
    sqlite3                   *db;
    sqlite3_stmt              *begin;
    sqlite3_stmt              *commit;
    sqlite3_stmt              *select;

    ngx_http_sendfile_sqlite_query_t
                              *query;

    /* where each column is, -1: nowhere; with a single one all are -1 */
    int                        columns[NGX_HTTP_SENDFILE_SQLITE_COLUMNS];
    int                        ncolumns;

    /* how often SQLite itself prepared the query anew */
    int                        prepared;

    /* of the running query, milliseconds of the monotonic clock */
    uint64_t                   deadline;
    ngx_msec_t                 timeout;

    /* what the query wanted to do and may not */
    const char                *denied;

    /* a read transaction is open */
    unsigned                   reading:1;

    /* "select" is the query's older one */
    unsigned                   older:1;

    /* to be opened anew */
    unsigned                   broken:1;
} ngx_http_sendfile_sqlite_db_t;


/* ngx_http_sendfile_sqlite_store.c */

typedef struct {
    /* null-terminated */
    ngx_str_t                  path;
    ngx_http_sendfile_sqlite_query_t
                               query;

    ngx_http_sendfile_sqlite_db_t
                               db;
    dev_t                      dev;
    ino_t                      ino;
    ngx_queue_t                queue;
    ngx_msec_t                 checked;
    ngx_msec_t                 opened;
    ngx_atomic_uint_t          generation;

    /* ends the transaction of a turn of the event loop */
    ngx_event_t                turn;

    /* why there is no database */
    ngx_err_t                  err;
    ngx_http_sendfile_sqlite_error_t
                               error;
    uint32_t                   told_hash;

    unsigned                   init:1;
    unsigned                   told:1;
} ngx_http_sendfile_sqlite_t;


void ngx_http_sendfile_sqlite_init(ngx_http_sendfile_store_t *store,
    ngx_log_t *log);
void ngx_http_sendfile_sqlite_exit(ngx_http_sendfile_store_t *store);
ngx_int_t ngx_http_sendfile_sqlite_get(ngx_http_sendfile_store_t *store,
    ngx_http_sendfile_op_t *op);
ngx_int_t ngx_http_sendfile_sqlite_cancel(ngx_http_sendfile_store_t *store,
    ngx_http_sendfile_op_t *op);
void ngx_http_sendfile_sqlite_close(ngx_http_sendfile_sqlite_t *sq);


/* ngx_http_sendfile_sqlite_db.c */

/* NGX_ERROR: "error" says why, and nothing is open */

ngx_int_t ngx_http_sendfile_sqlite_db_open(ngx_http_sendfile_sqlite_db_t *db,
    ngx_str_t *path, ngx_http_sendfile_sqlite_query_t *query,
    ngx_http_sendfile_sqlite_error_t *error);
void ngx_http_sendfile_sqlite_db_close(ngx_http_sendfile_sqlite_db_t *db);

/* what is read of one transaction is of one state of the database */

void ngx_http_sendfile_sqlite_db_end(ngx_http_sendfile_sqlite_db_t *db);

/* NGX_OK, NGX_DECLINED: no such row, NGX_ERROR: "error" says why */

ngx_int_t ngx_http_sendfile_sqlite_db_get(ngx_http_sendfile_sqlite_db_t *db,
    ngx_str_t *key, ngx_msec_t timeout, ngx_http_sendfile_value_t *value,
    ngx_http_sendfile_sqlite_error_t *error);


/* ngx_http_sendfile_sqlite_row.c */

/* NGX_ERROR: "error" says which columns a query should have */

ngx_int_t ngx_http_sendfile_sqlite_columns(ngx_http_sendfile_sqlite_db_t *db,
    ngx_http_sendfile_sqlite_error_t *error);
ngx_uint_t ngx_http_sendfile_sqlite_columns_changed(
    ngx_http_sendfile_sqlite_db_t *db);

/* the row of a query; NGX_DECLINED: its path is NULL */

ngx_int_t ngx_http_sendfile_sqlite_row(ngx_http_sendfile_sqlite_db_t *db,
    ngx_http_sendfile_value_t *value, ngx_http_sendfile_sqlite_error_t *error);


/* ngx_http_sendfile_sqlite_query.c */

/* from what stands in the configuration; NULL or what is wrong */

const char *ngx_http_sendfile_sqlite_query_set(
    ngx_http_sendfile_sqlite_query_t *query, ngx_str_t *value);

/* binds a key, returns SQLite's result */

int ngx_http_sendfile_sqlite_query_bind(
    ngx_http_sendfile_sqlite_query_t *query, sqlite3_stmt *stmt,
    ngx_str_t *key);


/* ngx_http_sendfile_sqlite_sha256.c */

#define NGX_HTTP_SENDFILE_SHA256_LEN  32

void ngx_http_sendfile_sqlite_sha256(u_char *digest, const u_char *p,
    size_t len);


/* ngx_http_sendfile_sqlite_vfs.c */

/*
 * sqlite3_open_v2() of a file of which, and beside which, nothing is ever
 * written, made or removed.
 */

int ngx_http_sendfile_sqlite_vfs_open(const char *uri, sqlite3 **db);

/*
 * Somebody has cut off a -shm file: what was read since this was 0 is void, and
 * what this process has open of any database is to be closed.
 */

extern volatile sig_atomic_t  ngx_http_sendfile_sqlite_cut;


#endif /* _NGX_HTTP_SENDFILE_SQLITE_H_INCLUDED_ */
