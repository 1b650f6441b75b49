
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * The store of a worker: which file the path leads to, and when it is opened
 * anew.  Every read is synchronous, and waits for nobody.
 */


#include "ngx_http_sendfile_sqlite.h"


/* how often a path is looked at for a new file, milliseconds */

#define NGX_HTTP_SENDFILE_SQLITE_CHECK  1000


static ngx_int_t ngx_http_sendfile_sqlite_void(
    ngx_http_sendfile_sqlite_t *sq);
static void ngx_http_sendfile_sqlite_turn(ngx_event_t *ev);
static void ngx_http_sendfile_sqlite_check(ngx_http_sendfile_store_t *store,
    ngx_log_t *log);
static ngx_err_t ngx_http_sendfile_sqlite_stat(ngx_http_sendfile_sqlite_t *sq,
    ngx_file_info_t *fi);
static void ngx_http_sendfile_sqlite_open(ngx_http_sendfile_store_t *store,
    ngx_file_info_t *fi, ngx_log_t *log);
static void ngx_http_sendfile_sqlite_explain(ngx_http_sendfile_sqlite_t *sq);
static void ngx_http_sendfile_sqlite_fail(ngx_http_sendfile_store_t *store,
    ngx_err_t err, ngx_log_t *log);
static void ngx_http_sendfile_sqlite_tell(ngx_http_sendfile_store_t *store,
    const char *what, u_char *text, ngx_err_t err, ngx_log_t *log);


/* stores whose database is open */

static ngx_queue_t  ngx_http_sendfile_sqlite_opened;

/* of the last lookup that failed */

static ngx_http_sendfile_sqlite_error_t  ngx_http_sendfile_sqlite_failed;


void
ngx_http_sendfile_sqlite_init(ngx_http_sendfile_store_t *store,
    ngx_log_t *log)
{
    ngx_http_sendfile_sqlite_t  *sq;

    sq = store->ctx;

    if (sq->init) {
        return;
    }

    sq->turn.handler = ngx_http_sendfile_sqlite_turn;
    sq->turn.data = sq;
    sq->turn.log = ngx_cycle->log;

    if (ngx_http_sendfile_sqlite_opened.next == NULL) {
        ngx_queue_init(&ngx_http_sendfile_sqlite_opened);
    }

    sq->init = 1;

    ngx_http_sendfile_sqlite_check(store, log);
}


void
ngx_http_sendfile_sqlite_exit(ngx_http_sendfile_store_t *store)
{
    ngx_http_sendfile_sqlite_t  *sq;

    sq = store->ctx;

    ngx_http_sendfile_sqlite_close(sq);
    sq->init = 0;
}


void
ngx_http_sendfile_sqlite_close(ngx_http_sendfile_sqlite_t *sq)
{
    if (sq->turn.posted) {
        ngx_delete_posted_event(&sq->turn);
    }

    if (sq->db.db) {
        ngx_queue_remove(&sq->queue);
        ngx_http_sendfile_sqlite_db_close(&sq->db);
    }
}


ngx_int_t
ngx_http_sendfile_sqlite_get(ngx_http_sendfile_store_t *store,
    ngx_http_sendfile_op_t *op)
{
    ngx_int_t                    rc;
    ngx_uint_t                   renew;
    ngx_http_sendfile_sqlite_t  *sq;

    sq = store->ctx;

    if (!sq->init) {
        /* after a reload without worker processes */
        ngx_http_sendfile_sqlite_init(store, ngx_cycle->log);
    }

    renew = (op->generation && op->generation != sq->generation);

    if (renew
        || sq->db.db == NULL
        || ngx_current_msec - sq->checked >= NGX_HTTP_SENDFILE_SQLITE_CHECK)
    {
        ngx_http_sendfile_sqlite_check(store, ngx_cycle->log);
    }

    if (sq->db.db == NULL) {
        op->reason = "cannot open SQLite database";
        op->detail = sq->err ? NULL : sq->error.detail;
        op->err = sq->err;
        return NGX_ERROR;
    }

    if (renew) {
        /* what is read from here on is of what was committed last */
        ngx_http_sendfile_sqlite_db_end(&sq->db);
        sq->generation = op->generation;
    }

    rc = ngx_http_sendfile_sqlite_db_get(&sq->db, &op->key, store->timeout,
                                         &op->value,
                                         &ngx_http_sendfile_sqlite_failed);

    if (ngx_http_sendfile_sqlite_void(sq) != NGX_OK) {
        op->reason = "SQLite query failed";
        op->detail = sq->error.detail;
        return NGX_ERROR;
    }

    if (sq->db.reading && !sq->turn.posted) {
        ngx_post_event(&sq->turn, &ngx_posted_events);
    }

    if (rc != NGX_ERROR) {
        return rc;
    }

    op->reason = "SQLite query failed";
    op->detail = ngx_http_sendfile_sqlite_failed.detail;

    if (ngx_strcmp(ngx_http_sendfile_sqlite_failed.text, op->detail) != 0) {
        ngx_http_sendfile_sqlite_tell(store, "query of",
                                      ngx_http_sendfile_sqlite_failed.text, 0,
                                      ngx_cycle->log);
    }

    return (ngx_http_sendfile_sqlite_failed.fault
            == NGX_HTTP_SENDFILE_SQLITE_TIME)
           ? NGX_HTTP_SENDFILE_TIMEDOUT : NGX_ERROR;
}


ngx_int_t
ngx_http_sendfile_sqlite_cancel(ngx_http_sendfile_store_t *store,
    ngx_http_sendfile_op_t *op)
{
    /* never asked: get() does not return NGX_AGAIN */

    return NGX_OK;
}


/*
 * Whether a -shm file was cut off.  SQLite shares its pages among all databases
 * of a process, so that all of them are closed, and opened anew.
 */

static ngx_int_t
ngx_http_sendfile_sqlite_void(ngx_http_sendfile_sqlite_t *sq)
{
    static char  text[] = "its -shm file was cut off";

    ngx_queue_t  *q;

    if (!ngx_http_sendfile_sqlite_cut) {
        return NGX_OK;
    }

    while (!ngx_queue_empty(&ngx_http_sendfile_sqlite_opened)) {
        q = ngx_queue_head(&ngx_http_sendfile_sqlite_opened);

        ngx_http_sendfile_sqlite_close(
                      ngx_queue_data(q, ngx_http_sendfile_sqlite_t, queue));
    }

    ngx_http_sendfile_sqlite_cut = 0;

    sq->error.fault = NGX_HTTP_SENDFILE_SQLITE_DATABASE;
    sq->error.detail = text;
    (void) ngx_cpystrn(sq->error.text, (u_char *) text,
                       sizeof(sq->error.text));

    return NGX_ERROR;
}


static void
ngx_http_sendfile_sqlite_turn(ngx_event_t *ev)
{
    ngx_http_sendfile_sqlite_t  *sq;

    sq = ev->data;

    ngx_http_sendfile_sqlite_db_end(&sq->db);
}


/*
 * Opens the file when it appears, opens the new one when the path leads to
 * another, and opens it anew after an error that may be of what is remembered
 * of it.  One that cannot be opened is tried again once a check interval, one
 * that is not there or is locked at each lookup.
 */

static void
ngx_http_sendfile_sqlite_check(ngx_http_sendfile_store_t *store,
    ngx_log_t *log)
{
    ngx_err_t                    err;
    ngx_file_info_t              fi;
    ngx_http_sendfile_sqlite_t  *sq;

    sq = store->ctx;

    if (sq->db.db == NULL
        && sq->told
        && sq->err == 0
        && sq->error.fault != NGX_HTTP_SENDFILE_SQLITE_BUSY
        && ngx_current_msec - sq->checked < NGX_HTTP_SENDFILE_SQLITE_CHECK)
    {
        return;
    }

    sq->checked = ngx_current_msec;

    err = ngx_http_sendfile_sqlite_stat(sq, &fi);

    if (err == 0) {

        if (sq->db.db
            && sq->dev == fi.st_dev && sq->ino == fi.st_ino
            && (!sq->db.broken
                || ngx_current_msec - sq->opened
                   < NGX_HTTP_SENDFILE_SQLITE_CHECK))
        {
            return;
        }

        ngx_http_sendfile_sqlite_open(store, &fi, log);
        return;
    }

    if (sq->db.db && !sq->db.broken && err == NGX_ENOENT) {
        /* unlinked, or between two of them: what is open is good */
        return;
    }

    ngx_http_sendfile_sqlite_close(sq);
    ngx_http_sendfile_sqlite_fail(store, err, log);
}


/* 0 or an errno */

static ngx_err_t
ngx_http_sendfile_sqlite_stat(ngx_http_sendfile_sqlite_t *sq,
    ngx_file_info_t *fi)
{
    if (ngx_file_info(sq->path.data, fi) == NGX_FILE_ERROR) {
        return ngx_errno;
    }

    if (ngx_is_dir(fi)) {
        return NGX_EISDIR;
    }

    return ngx_is_file(fi) ? 0 : NGX_EINVAL;
}


static void
ngx_http_sendfile_sqlite_open(ngx_http_sendfile_store_t *store,
    ngx_file_info_t *fi, ngx_log_t *log)
{
    ngx_file_info_t              now;
    ngx_http_sendfile_sqlite_t  *sq;

    sq = store->ctx;

    ngx_http_sendfile_sqlite_close(sq);

    sq->opened = ngx_current_msec;

    if (ngx_http_sendfile_sqlite_db_open(&sq->db, &sq->path, &sq->query,
                                         &sq->error)
        != NGX_OK)
    {
        ngx_http_sendfile_sqlite_explain(sq);
        ngx_http_sendfile_sqlite_fail(store, 0, log);
        return;
    }

    sq->dev = fi->st_dev;
    sq->ino = fi->st_ino;

    ngx_queue_insert_tail(&ngx_http_sendfile_sqlite_opened, &sq->queue);

    if (ngx_http_sendfile_sqlite_void(sq) != NGX_OK) {
        ngx_http_sendfile_sqlite_fail(store, 0, log);
        return;
    }

    /* replaced in between: nobody knows which one is open, look again */

    if (ngx_http_sendfile_sqlite_stat(sq, &now) != 0
        || now.st_dev != fi->st_dev || now.st_ino != fi->st_ino)
    {
        sq->ino = 0;
        sq->checked = ngx_current_msec - NGX_HTTP_SENDFILE_SQLITE_CHECK;
    }

    sq->told = 0;

    ngx_log_error(NGX_LOG_INFO, log, 0, "http_sendfile: opened %V (%V)",
                  &store->url, &sq->path);
}


/* "unable to open database file" may mean any of three */

static void
ngx_http_sendfile_sqlite_explain(ngx_http_sendfile_sqlite_t *sq)
{
    u_char      *p, *last;
    ngx_uint_t   i;
    u_char       name[NGX_MAX_PATH + 8];

    static char  *suffixes[] = { "", "-wal", "-shm" };

    p = sq->error.text + ngx_strlen(sq->error.text);
    last = sq->error.text + sizeof(sq->error.text) - 1;

    if (ngx_strncmp(sq->error.text, "unable to open", 14) != 0) {
        return;
    }

    for (i = 0; i < (sq->error.opened ? 3 : 1); i++) {
        (void) ngx_snprintf(name, sizeof(name), "%V%s%Z", &sq->path,
                            suffixes[i]);

        if (access((char *) name, R_OK) == 0) {
            continue;
        }

        if (ngx_errno == NGX_ENOENT) {
            p = ngx_slprintf(p, last, ": it is in WAL mode, and without %s "
                             "only somebody who may write can open it: have "
                             "the application open it", name);

        } else {
            p = ngx_slprintf(p, last, ": the worker's user (uid %d) needs "
                             "read permission on %s", (int) geteuid(), name);
        }

        *p = '\0';
        return;
    }
}


static void
ngx_http_sendfile_sqlite_fail(ngx_http_sendfile_store_t *store, ngx_err_t err,
    ngx_log_t *log)
{
    u_char                      *p;
    ngx_http_sendfile_sqlite_t  *sq;

    sq = store->ctx;

    sq->err = err;

    if (err) {
        p = sq->error.text;

        if (err == NGX_EACCES) {
            p = ngx_snprintf(p, sizeof(sq->error.text) - 1,
                             "the worker's user (uid %d) may not search "
                             "a directory above", (int) geteuid());
        }

        *p = '\0';
    }

    ngx_http_sendfile_sqlite_tell(store, "cannot open", sq->error.text, err,
                                  log);
}


/* once until it is something else */

static void
ngx_http_sendfile_sqlite_tell(ngx_http_sendfile_store_t *store,
    const char *what, u_char *text, ngx_err_t err, ngx_log_t *log)
{
    uint32_t                     hash;
    ngx_http_sendfile_sqlite_t  *sq;

    sq = store->ctx;

    hash = ngx_crc32_long(text, ngx_strlen(text)) ^ (uint32_t) err;

    if (sq->told && sq->told_hash == hash) {
        return;
    }

    sq->told = 1;
    sq->told_hash = hash;

    ngx_log_error(NGX_LOG_ERR, log, err,
                  "http_sendfile: %s store \"%V\" with %V%s%s", what,
                  &store->url, &sq->path, *text ? ": " : "", text);
}
