
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * An open database: one prepared statement, read transactions, limits.
 */


#include "ngx_http_sendfile_sqlite.h"


/* how many steps of SQLite's machine between two looks at the clock */

#define NGX_HTTP_SENDFILE_SQLITE_STEPS   1000

/* for opening it, milliseconds: a schema may have thousands of tables */

#define NGX_HTTP_SENDFILE_SQLITE_OPEN    1000

/* of any one string or row, bytes */

#define NGX_HTTP_SENDFILE_SQLITE_LENGTH  (64 * 1024 * 1024)

/*
 * No memory map of the file, for who truncates it would end us; no files for
 * sorting; damage is looked for.
 */

#define NGX_HTTP_SENDFILE_SQLITE_PRAGMAS                                      \
    "PRAGMA query_only=1;PRAGMA mmap_size=0;PRAGMA temp_store=2;"             \
    "PRAGMA cell_size_check=1"


static int ngx_http_sendfile_sqlite_db_file(ngx_http_sendfile_sqlite_db_t *db,
    ngx_str_t *path);
static int ngx_http_sendfile_sqlite_db_limit(
    ngx_http_sendfile_sqlite_db_t *db);
static int ngx_http_sendfile_sqlite_db_prepare(
    ngx_http_sendfile_sqlite_db_t *db, ngx_http_sendfile_sqlite_error_t *error,
    ngx_uint_t *failed);
static ngx_int_t ngx_http_sendfile_sqlite_db_judge(
    ngx_http_sendfile_sqlite_db_t *db, ngx_str_t *sql, const char *tail,
    ngx_http_sendfile_sqlite_error_t *error);
static int ngx_http_sendfile_sqlite_db_run(sqlite3_stmt *stmt);
static void ngx_http_sendfile_sqlite_db_error(
    ngx_http_sendfile_sqlite_db_t *db, int rc,
    ngx_http_sendfile_sqlite_error_t *error);
static void ngx_http_sendfile_sqlite_db_clean(
    ngx_http_sendfile_sqlite_error_t *error);
static const char *ngx_http_sendfile_sqlite_db_hint(int rc);
static int ngx_http_sendfile_sqlite_db_authorize(void *data, int action,
    const char *one, const char *two, const char *three, const char *four);
static int ngx_http_sendfile_sqlite_db_progress(void *data);
static uint64_t ngx_http_sendfile_sqlite_db_clock(void);


/* no path: a database without tables, to see what SQLite makes of a query */

ngx_int_t
ngx_http_sendfile_sqlite_db_open(ngx_http_sendfile_sqlite_db_t *db,
    ngx_str_t *path, ngx_http_sendfile_sqlite_query_t *query,
    ngx_http_sendfile_sqlite_error_t *error)
{
    int         rc;
    ngx_uint_t  failed;

    ngx_memzero(db, sizeof(ngx_http_sendfile_sqlite_db_t));

    db->query = query;
    db->timeout = NGX_HTTP_SENDFILE_SQLITE_OPEN;

    failed = 0;

    rc = ngx_http_sendfile_sqlite_db_file(db, path);

    error->opened = (rc == SQLITE_OK);

    if (rc == SQLITE_OK) {
        rc = ngx_http_sendfile_sqlite_db_limit(db);
    }

    if (rc == SQLITE_OK) {
        rc = ngx_http_sendfile_sqlite_db_prepare(db, error, &failed);
    }

    if (rc == SQLITE_OK && !failed) {
        return NGX_OK;
    }

    if (rc != SQLITE_OK) {
        ngx_http_sendfile_sqlite_db_error(db, rc, error);
    }

    ngx_http_sendfile_sqlite_db_clean(error);
    ngx_http_sendfile_sqlite_db_close(db);

    return NGX_ERROR;
}


/* as a URI, in which alone one can say that the -shm file is to be read only */

static int
ngx_http_sendfile_sqlite_db_file(ngx_http_sendfile_sqlite_db_t *db,
    ngx_str_t *path)
{
    u_char      *p, c;
    size_t       i;
    u_char       uri[3 * NGX_MAX_PATH + 64];

    static u_char  hex[] = "0123456789ABCDEF";

    if (path == NULL) {
        return ngx_http_sendfile_sqlite_vfs_open(":memory:", &db->db);
    }

    if (path->len > NGX_MAX_PATH) {
        return SQLITE_CANTOPEN;
    }

    p = ngx_cpymem(uri, "file://", sizeof("file://") - 1);

    for (i = 0; i < path->len; i++) {
        c = path->data[i];

        if (c == '%' || c == '?' || c == '#' || c < ' ') {
            *p++ = '%';
            *p++ = hex[c >> 4];
            *p++ = hex[c & 0xf];

        } else {
            *p++ = c;
        }
    }

    ngx_memcpy(p, "?readonly_shm=1", sizeof("?readonly_shm=1"));

    return ngx_http_sendfile_sqlite_vfs_open((char *) uri, &db->db);
}


static int
ngx_http_sendfile_sqlite_db_limit(ngx_http_sendfile_sqlite_db_t *db)
{
    (void) sqlite3_extended_result_codes(db->db, 1);
    (void) sqlite3_busy_timeout(db->db, 0);

    (void) sqlite3_db_config(db->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    (void) sqlite3_db_config(db->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    (void) sqlite3_db_config(db->db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0,
                             NULL);
#ifdef SQLITE_DBCONFIG_TRUSTED_SCHEMA
    /* who may write the database may put functions into its views */
    (void) sqlite3_db_config(db->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
#endif

    (void) sqlite3_limit(db->db, SQLITE_LIMIT_LENGTH,
                         NGX_HTTP_SENDFILE_SQLITE_LENGTH);
    (void) sqlite3_limit(db->db, SQLITE_LIMIT_ATTACHED, 0);
    (void) sqlite3_limit(db->db, SQLITE_LIMIT_WORKER_THREADS, 0);

    sqlite3_progress_handler(db->db, NGX_HTTP_SENDFILE_SQLITE_STEPS,
                             ngx_http_sendfile_sqlite_db_progress, db);

    return sqlite3_exec(db->db, NGX_HTTP_SENDFILE_SQLITE_PRAGMAS, NULL, NULL,
                        NULL);
}


static int
ngx_http_sendfile_sqlite_db_prepare(ngx_http_sendfile_sqlite_db_t *db,
    ngx_http_sendfile_sqlite_error_t *error, ngx_uint_t *failed)
{
    int          rc;
    ngx_str_t   *sql;
    const char  *tail;

    sql = &db->query->sql;
    tail = NULL;

    rc = sqlite3_set_authorizer(db->db, ngx_http_sendfile_sqlite_db_authorize,
                                db);

    if (rc == SQLITE_OK) {
        rc = sqlite3_prepare_v3(db->db, "BEGIN", -1,
                                SQLITE_PREPARE_PERSISTENT, &db->begin, NULL);
    }

    if (rc == SQLITE_OK) {
        rc = sqlite3_prepare_v3(db->db, "COMMIT", -1,
                                SQLITE_PREPARE_PERSISTENT, &db->commit, NULL);
    }

    if (rc == SQLITE_OK) {
        rc = sqlite3_prepare_v3(db->db, (char *) sql->data, (int) sql->len,
                                SQLITE_PREPARE_PERSISTENT, &db->select, &tail);
    }

    if (rc == SQLITE_ERROR && db->query->older.len) {
        sql = &db->query->older;
        db->older = 1;

        rc = sqlite3_prepare_v3(db->db, (char *) sql->data, (int) sql->len,
                                SQLITE_PREPARE_PERSISTENT, &db->select, &tail);
    }

    if (rc == SQLITE_OK
        && ngx_http_sendfile_sqlite_db_judge(db, sql, tail, error) != NGX_OK)
    {
        *failed = 1;
    }

    return rc;
}


/* whether it is one query, with a parameter and columns that we know */

static ngx_int_t
ngx_http_sendfile_sqlite_db_judge(ngx_http_sendfile_sqlite_db_t *db,
    ngx_str_t *sql, const char *tail, ngx_http_sendfile_sqlite_error_t *error)
{
    int            n, rc, wanted;
    u_char        *last;
    sqlite3_stmt  *more;

    error->fault = NGX_HTTP_SENDFILE_SQLITE_QUERY;
    error->detail = "wrong query";
    last = error->text + sizeof(error->text);

    if (db->select == NULL) {
        (void) ngx_slprintf(error->text, last,
                            "the query is empty: write a SELECT%Z");
        return NGX_ERROR;
    }

    /* what follows may be a comment */

    more = NULL;
    n = (int) (sql->data + sql->len - (u_char *) tail);

    rc = sqlite3_prepare_v2(db->db, tail, n, &more, NULL);

    (void) sqlite3_finalize(more);

    if (rc != SQLITE_OK || more) {
        (void) ngx_slprintf(error->text, last,
                            "more than one statement: write one SELECT%Z");
        return NGX_ERROR;
    }

    if (!sqlite3_stmt_readonly(db->select)
        || sqlite3_column_count(db->select) == 0)
    {
        (void) ngx_slprintf(error->text, last,
                            "the query gives no rows: write a SELECT%Z");
        return NGX_ERROR;
    }

    n = sqlite3_bind_parameter_count(db->select);
    wanted = db->query->hash ? 2 : 1;

    if (n != wanted) {
        (void) ngx_slprintf(error->text, last,
                            "%d parameters in the query: write one, \"?\", "
                            "where the key belongs%Z", n);
        return NGX_ERROR;
    }

    return ngx_http_sendfile_sqlite_columns(db, error);
}


void
ngx_http_sendfile_sqlite_db_close(ngx_http_sendfile_sqlite_db_t *db)
{
    (void) sqlite3_finalize(db->select);
    (void) sqlite3_finalize(db->begin);
    (void) sqlite3_finalize(db->commit);

    /* what it was doing is rolled back */

    (void) sqlite3_close(db->db);

    db->select = NULL;
    db->begin = NULL;
    db->commit = NULL;
    db->db = NULL;
    db->reading = 0;
}


ngx_int_t
ngx_http_sendfile_sqlite_db_get(ngx_http_sendfile_sqlite_db_t *db,
    ngx_str_t *key, ngx_msec_t timeout, ngx_http_sendfile_value_t *value,
    ngx_http_sendfile_sqlite_error_t *error)
{
    int        rc;
    ngx_int_t  found;

    db->deadline = 0;
    db->timeout = timeout;

    rc = SQLITE_OK;

    if (!db->reading) {
        rc = ngx_http_sendfile_sqlite_db_run(db->begin);
        db->reading = (rc == SQLITE_OK);
    }

    if (rc == SQLITE_OK) {
        rc = ngx_http_sendfile_sqlite_query_bind(db->query, db->select, key);
    }

    if (rc == SQLITE_OK) {
        rc = sqlite3_step(db->select);
    }

    if (db->older && ngx_http_sendfile_sqlite_columns_changed(db)) {
        /* the table that was not there may have been made */
        db->broken = 1;
    }

    switch (rc) {

    case SQLITE_ROW:
        found = ngx_http_sendfile_sqlite_columns_changed(db)
                ? ngx_http_sendfile_sqlite_columns(db, error)
                : NGX_OK;

        if (found == NGX_OK) {
            found = ngx_http_sendfile_sqlite_row(db, value, error);
        }

        break;

    case SQLITE_DONE:
        found = NGX_DECLINED;
        break;

    default:
        found = NGX_ERROR;
        ngx_http_sendfile_sqlite_db_error(db, rc, error);
        break;
    }

    (void) sqlite3_reset(db->select);
    (void) sqlite3_clear_bindings(db->select);

    if (found == NGX_ERROR) {
        ngx_http_sendfile_sqlite_db_clean(error);

        /* some errors end the transaction, and others leave it behind */
        ngx_http_sendfile_sqlite_db_end(db);
    }

    return found;
}


void
ngx_http_sendfile_sqlite_db_end(ngx_http_sendfile_sqlite_db_t *db)
{
    if (!db->reading) {
        return;
    }

    db->reading = 0;

    /* SQLite counts steps over all runs of a statement */
    db->deadline = 0;

    if (sqlite3_get_autocommit(db->db)) {
        return;
    }

    if (ngx_http_sendfile_sqlite_db_run(db->commit) != SQLITE_OK) {
        (void) sqlite3_exec(db->db, "ROLLBACK", NULL, NULL, NULL);
        db->broken = 1;
    }
}


static int
ngx_http_sendfile_sqlite_db_run(sqlite3_stmt *stmt)
{
    int  rc;

    rc = sqlite3_step(stmt);

    (void) sqlite3_reset(stmt);

    return (rc == SQLITE_DONE) ? SQLITE_OK : rc;
}


static void
ngx_http_sendfile_sqlite_db_error(ngx_http_sendfile_sqlite_db_t *db, int rc,
    ngx_http_sendfile_sqlite_error_t *error)
{
    u_char      *p, *last;
    const char  *text, *hint;

    text = db->db ? sqlite3_errmsg(db->db) : sqlite3_errstr(rc);
    hint = ngx_http_sendfile_sqlite_db_hint(rc);

    error->detail = sqlite3_errstr(rc);

    switch (rc & 0xff) {

    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        error->fault = NGX_HTTP_SENDFILE_SQLITE_BUSY;
        break;

    case SQLITE_INTERRUPT:
        error->fault = NGX_HTTP_SENDFILE_SQLITE_TIME;
        text = "it took too long";
        error->detail = text;
        break;

    case SQLITE_AUTH:
        error->fault = NGX_HTTP_SENDFILE_SQLITE_QUERY;
        break;

    case SQLITE_ERROR:
        error->fault = (ngx_strncmp(text, "no such table: ", 15) == 0)
                       ? NGX_HTTP_SENDFILE_SQLITE_TABLE
                       : NGX_HTTP_SENDFILE_SQLITE_QUERY;
        break;

    case SQLITE_TOOBIG:
        error->fault = NGX_HTTP_SENDFILE_SQLITE_DATABASE;
        break;

    default:
        error->fault = NGX_HTTP_SENDFILE_SQLITE_DATABASE;
        db->broken = 1;
        break;
    }

    last = error->text + sizeof(error->text);

    if (db->denied && ngx_strncmp(text, "not authorized", 14) == 0) {
        p = ngx_slprintf(error->text, last, "%s in a query, which may only "
                         "read: write a SELECT", db->denied);

    } else {
        p = ngx_slprintf(error->text, last, "%s%s", text, hint);
    }

    /* a message may quote all of a query */

    if (p == last) {
        p--;
    }

    *p = '\0';
}


/* a message may quote names that are in the database */

static void
ngx_http_sendfile_sqlite_db_clean(ngx_http_sendfile_sqlite_error_t *error)
{
    u_char  *p;

    for (p = error->text; *p; p++) {
        if (*p < ' ' || *p == 0x7f) {
            *p = '?';
        }
    }
}


/* what SQLite leaves open */

static const char *
ngx_http_sendfile_sqlite_db_hint(int rc)
{
    switch (rc) {

    case SQLITE_READONLY_ROLLBACK:
    case SQLITE_READONLY_RECOVERY:
        return ": a writer died, and what it left can be mended only by "
               "a program that may write: open it once with the application";

    case SQLITE_READONLY_CANTINIT:
        return ": nobody who may write has it open";

    case SQLITE_BUSY_RECOVERY:
        return ": a writer died, and another mends what it left";

    default:
        return "";
    }
}


static int
ngx_http_sendfile_sqlite_db_authorize(void *data, int action, const char *one,
    const char *two, const char *three, const char *four)
{
    ngx_http_sendfile_sqlite_db_t *db = data;

    switch (action) {

    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_RECURSIVE:

    /* ours; as a query they have no rows */
    case SQLITE_TRANSACTION:
        return SQLITE_OK;

    case SQLITE_FUNCTION:
        if (two && ngx_strcasecmp((u_char *) two, (u_char *) "load_extension")
                   != 0)
        {
            return SQLITE_OK;
        }

        db->denied = "load_extension()";
        break;

    case SQLITE_INSERT:
    case SQLITE_UPDATE:
    case SQLITE_DELETE:
        db->denied = "INSERT, UPDATE, DELETE, CREATE or DROP";
        break;

    case SQLITE_PRAGMA:
        db->denied = "PRAGMA";
        break;

    case SQLITE_ATTACH:
    case SQLITE_DETACH:
        db->denied = "ATTACH or DETACH";
        break;

    default:
        db->denied = "another statement";
        break;
    }

    return SQLITE_DENY;
}


static int
ngx_http_sendfile_sqlite_db_progress(void *data)
{
    ngx_http_sendfile_sqlite_db_t *db = data;

    uint64_t  now;

    now = ngx_http_sendfile_sqlite_db_clock();

    if (db->deadline == 0) {
        /* most queries end before this is asked */
        db->deadline = now + db->timeout;
    }

    return now > db->deadline;
}


static uint64_t
ngx_http_sendfile_sqlite_db_clock(void)
{
    struct timespec  ts;

    (void) clock_gettime(CLOCK_MONOTONIC, &ts);

    return (uint64_t) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}
