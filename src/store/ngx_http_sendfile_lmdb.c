
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * The embedded store: keys and values in an LMDB file, read through the
 * worker's own mapping.  Every read is synchronous and takes no lock.
 *
 * A store belongs to the configuration, an environment to the process: LMDB
 * forbids to open one file twice in a process, so stores whose paths lead to
 * the same file share it.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include <lmdb.h>

#include "nsf.h"
#include "ngx_http_sendfile_fault.h"
#include "ngx_http_sendfile_store.h"


/* how often a path is looked at for a new file, milliseconds */

#define NGX_HTTP_SENDFILE_LMDB_CHECK  1000

/* of a meta page, native byte order */

#define NGX_HTTP_SENDFILE_LMDB_MAGIC  0xbeefc0de


typedef struct ngx_http_sendfile_lmdb_env_s  ngx_http_sendfile_lmdb_env_t;

struct ngx_http_sendfile_lmdb_env_s {
    ngx_queue_t                    queue;
    ngx_queue_t                    stores;  /* that read it */
    ngx_http_sendfile_lmdb_env_t  *lost;

    MDB_env                       *env;
    MDB_txn                       *txn;
    MDB_dbi                        dbi;

    dev_t                          dev;
    ino_t                          ino;
    off_t                          size;    /* it never shrinks */

    /* ends the read transaction at the end of the event loop's turn */
    ngx_event_t                    turn;

    unsigned                       reading:1;
    unsigned                       broken:1;
};


typedef struct {
    /* null-terminated: as configured, and the data file if a directory */
    ngx_str_t                      path;
    ngx_str_t                      data;

    ngx_http_sendfile_lmdb_env_t  *env;
    ngx_queue_t                    queue;
    ngx_msec_t                     checked;
    ngx_msec_t                     opened;

    /* why there is no environment */
    ngx_int_t                      rc;
    const char                    *reason;
    const char                    *detail;
    ngx_err_t                      err;
    uint32_t                       told_hash;

    unsigned                       init:1;
    unsigned                       told:1;
    unsigned                       subdir:1;
} ngx_http_sendfile_lmdb_t;


static char *ngx_http_sendfile_lmdb_create(ngx_conf_t *cf,
    ngx_http_sendfile_store_t *store, nsf_url_t *url);
static ngx_int_t ngx_http_sendfile_lmdb_name(ngx_conf_t *cf, ngx_str_t *name,
    nsf_str_t *path, const char *suffix);
static void ngx_http_sendfile_lmdb_init(ngx_http_sendfile_store_t *store,
    ngx_log_t *log);
static void ngx_http_sendfile_lmdb_exit(ngx_http_sendfile_store_t *store);
static ngx_int_t ngx_http_sendfile_lmdb_get(ngx_http_sendfile_store_t *store,
    ngx_http_sendfile_op_t *op);
static ngx_int_t ngx_http_sendfile_lmdb_cancel(
    ngx_http_sendfile_store_t *store, ngx_http_sendfile_op_t *op);

static void ngx_http_sendfile_lmdb_check(ngx_http_sendfile_store_t *store,
    ngx_log_t *log);
static ngx_err_t ngx_http_sendfile_lmdb_stat(ngx_http_sendfile_lmdb_t *lmdb,
    ngx_file_info_t *fi);
static void ngx_http_sendfile_lmdb_fail(ngx_http_sendfile_store_t *store,
    ngx_int_t rc, const char *reason, int err, ngx_log_t *log);
static u_char *ngx_http_sendfile_lmdb_denied(u_char *p, u_char *last,
    ngx_http_sendfile_lmdb_t *lmdb);
static void ngx_http_sendfile_lmdb_open(ngx_http_sendfile_store_t *store,
    ngx_file_info_t *fi, ngx_log_t *log);
static int ngx_http_sendfile_lmdb_open_env(ngx_http_sendfile_lmdb_env_t *env,
    ngx_http_sendfile_lmdb_t *lmdb);
static int ngx_http_sendfile_lmdb_header(ngx_http_sendfile_lmdb_t *lmdb);
static int ngx_http_sendfile_lmdb_verify(ngx_http_sendfile_lmdb_env_t *env);
static ngx_int_t ngx_http_sendfile_lmdb_intact(
    ngx_http_sendfile_lmdb_env_t *env);
static void ngx_http_sendfile_lmdb_cleanup(void *data);
static void ngx_http_sendfile_lmdb_release(ngx_http_sendfile_lmdb_t *lmdb,
    ngx_log_t *log);
static void ngx_http_sendfile_lmdb_retire(ngx_http_sendfile_lmdb_env_t *env,
    ngx_log_t *log);
static void ngx_http_sendfile_lmdb_close(ngx_http_sendfile_lmdb_env_t *env,
    ngx_log_t *log);

static int ngx_http_sendfile_lmdb_read(ngx_http_sendfile_lmdb_env_t *env,
    MDB_val *key, MDB_val *value);
static int ngx_http_sendfile_lmdb_renew(ngx_http_sendfile_lmdb_env_t *env);
static void ngx_http_sendfile_lmdb_turn(ngx_event_t *ev);
static void ngx_http_sendfile_lmdb_end(ngx_http_sendfile_lmdb_env_t *env);
static void ngx_http_sendfile_lmdb_assert(MDB_env *env, const char *msg);


ngx_http_sendfile_store_type_t  ngx_http_sendfile_lmdb_store = {
    ngx_string("lmdb"),
    0,                                     /* asynchronous */
    ngx_http_sendfile_lmdb_create,
    ngx_http_sendfile_lmdb_init,
    ngx_http_sendfile_lmdb_exit,
    ngx_http_sendfile_lmdb_get,
    ngx_http_sendfile_lmdb_cancel
};


/* the environments that this process has open */

static ngx_queue_t  ngx_http_sendfile_lmdb_envs;
static u_char       ngx_http_sendfile_lmdb_value[NSF_MAX_VALUE];

/* those that could not even be closed */

static ngx_http_sendfile_lmdb_env_t  *ngx_http_sendfile_lmdb_lost;


static char *
ngx_http_sendfile_lmdb_create(ngx_conf_t *cf,
    ngx_http_sendfile_store_t *store, nsf_url_t *url)
{
    ngx_pool_cleanup_t        *cln;
    ngx_http_sendfile_lmdb_t  *lmdb;

    if (url->host.len || url->path.len == 0 || url->path.data[0] != '/') {
        return "needs an absolute path: lmdb:/path";
    }

    lmdb = ngx_pcalloc(cf->pool, sizeof(ngx_http_sendfile_lmdb_t));
    if (lmdb == NULL) {
        return NSF_ERR_MEMORY;
    }

    cln = ngx_pool_cleanup_add(cf->pool, 0);
    if (cln == NULL) {
        return NSF_ERR_MEMORY;
    }

    cln->handler = ngx_http_sendfile_lmdb_cleanup;
    cln->data = lmdb;

    if (ngx_http_sendfile_lmdb_name(cf, &lmdb->path, &url->path, "") != NGX_OK
        || ngx_http_sendfile_lmdb_name(cf, &lmdb->data, &url->path,
                                       "/data.mdb") != NGX_OK)
    {
        return NSF_ERR_MEMORY;
    }

    store->ctx = lmdb;

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_http_sendfile_lmdb_name(ngx_conf_t *cf, ngx_str_t *name, nsf_str_t *path,
    const char *suffix)
{
    size_t  len;

    len = ngx_strlen(suffix);

    name->data = ngx_pnalloc(cf->pool, path->len + len + 1);
    if (name->data == NULL) {
        return NGX_ERROR;
    }

    name->len = path->len + len;

    ngx_memcpy(name->data, path->data, path->len);
    ngx_memcpy(name->data + path->len, suffix, len + 1);

    return NGX_OK;
}


static void
ngx_http_sendfile_lmdb_init(ngx_http_sendfile_store_t *store, ngx_log_t *log)
{
    ngx_http_sendfile_lmdb_t  *lmdb;

    lmdb = store->ctx;

    if (lmdb->init || ngx_http_sendfile_fault_init(log) != NGX_OK) {
        return;
    }

    if (ngx_http_sendfile_lmdb_envs.next == NULL) {
        ngx_queue_init(&ngx_http_sendfile_lmdb_envs);
    }

    lmdb->init = 1;

    ngx_http_sendfile_lmdb_check(store, log);
}


static void
ngx_http_sendfile_lmdb_exit(ngx_http_sendfile_store_t *store)
{
    ngx_http_sendfile_lmdb_t  *lmdb;

    lmdb = store->ctx;

    ngx_http_sendfile_lmdb_release(lmdb, ngx_cycle->log);
    lmdb->init = 0;
}


static ngx_int_t
ngx_http_sendfile_lmdb_get(ngx_http_sendfile_store_t *store,
    ngx_http_sendfile_op_t *op)
{
    int                            rc;
    MDB_val                        key, value;
    ngx_http_sendfile_lmdb_t      *lmdb;
    ngx_http_sendfile_lmdb_env_t  *env;

    lmdb = store->ctx;

    if (!lmdb->init) {
        /* after a reload without worker processes */
        ngx_http_sendfile_lmdb_init(store, ngx_cycle->log);
    }

    if (lmdb->env == NULL
        || ngx_current_msec - lmdb->checked >= NGX_HTTP_SENDFILE_LMDB_CHECK
        || lmdb->env->broken)
    {
        ngx_http_sendfile_lmdb_check(store, ngx_cycle->log);
    }

    env = lmdb->env;

    if (env == NULL) {
        op->reason = lmdb->reason;
        op->detail = lmdb->detail;
        op->err = lmdb->err;
        return lmdb->rc;
    }

    key.mv_data = op->key.data;
    key.mv_size = op->key.len;

    rc = ngx_http_sendfile_lmdb_read(env, &key, &value);

    if (rc == MDB_SUCCESS) {
        op->value.data = value.mv_data;
        op->value.len = value.mv_size;
        return NGX_OK;
    }

    if (rc == MDB_NOTFOUND) {
        return NGX_DECLINED;
    }

    op->reason = "LMDB read failed";

    if (rc > 0) {
        op->err = rc;

    } else {
        op->detail = mdb_strerror(rc);
    }

    ngx_http_sendfile_lmdb_end(env);

    /* what is wrong with one page is no reason to give up the rest */

    if (rc > 0 || rc == MDB_PANIC || rc == MDB_BAD_RSLOT || rc == MDB_BAD_TXN)
    {
        env->broken = 1;
    }

    return NGX_ERROR;
}


static ngx_int_t
ngx_http_sendfile_lmdb_cancel(ngx_http_sendfile_store_t *store,
    ngx_http_sendfile_op_t *op)
{
    /* never asked: get() does not return NGX_AGAIN */

    return NGX_OK;
}


/*
 * Opens the file when it appears, opens the new one when the path leads to
 * another, gives up one that has been cut off.  One that cannot be opened is
 * tried again once a check interval, one that is not there at each lookup.
 */

static void
ngx_http_sendfile_lmdb_check(ngx_http_sendfile_store_t *store, ngx_log_t *log)
{
    ngx_err_t                      err;
    ngx_file_info_t                fi;
    ngx_http_sendfile_lmdb_t      *lmdb;
    ngx_http_sendfile_lmdb_env_t  *env;

    lmdb = store->ctx;
    env = lmdb->env;

    if (env == NULL
        && lmdb->rc == NGX_ERROR
        && ngx_current_msec - lmdb->checked < NGX_HTTP_SENDFILE_LMDB_CHECK)
    {
        return;
    }

    lmdb->checked = ngx_current_msec;

    err = ngx_http_sendfile_lmdb_stat(lmdb, &fi);

    if (err == 0) {

        if (env
            && !env->broken
            && env->dev == fi.st_dev && env->ino == fi.st_ino
            && ngx_http_sendfile_lmdb_intact(env) == NGX_OK)
        {
            return;
        }

        if (env
            && (env->broken
                || (env->dev == fi.st_dev && env->ino == fi.st_ino)))
        {
            ngx_http_sendfile_lmdb_retire(env, log);

            if (ngx_current_msec - lmdb->opened < NGX_HTTP_SENDFILE_LMDB_CHECK)
            {
                /* not again and again */
                lmdb->checked = lmdb->opened;
                ngx_http_sendfile_lmdb_fail(store, NGX_ERROR, "broken LMDB",
                                            0, log);
                return;
            }

        } else {
            ngx_http_sendfile_lmdb_release(lmdb, log);
        }

        lmdb->opened = ngx_current_msec;
        ngx_http_sendfile_lmdb_open(store, &fi, log);
        return;
    }

    if (env && !env->broken && err == NGX_ENOENT) {
        /* unlinked, or between two of them: what is open is good */
        return;
    }

    if (env && env->broken) {
        ngx_http_sendfile_lmdb_retire(env, log);

    } else {
        ngx_http_sendfile_lmdb_release(lmdb, log);
    }

    if (err == NGX_ENOENT || err == NGX_ENOTDIR) {
        ngx_http_sendfile_lmdb_fail(store, NGX_DECLINED, "no LMDB yet", err,
                                    log);
        return;
    }

    ngx_http_sendfile_lmdb_fail(store, NGX_ERROR, "cannot open LMDB", err,
                                log);
}


/* the data file of a directory, or the path itself; 0 or an errno */

static ngx_err_t
ngx_http_sendfile_lmdb_stat(ngx_http_sendfile_lmdb_t *lmdb,
    ngx_file_info_t *fi)
{
    if (ngx_file_info(lmdb->path.data, fi) == NGX_FILE_ERROR) {
        return ngx_errno;
    }

    lmdb->subdir = ngx_is_dir(fi) ? 1 : 0;

    if (lmdb->subdir
        && ngx_file_info(lmdb->data.data, fi) == NGX_FILE_ERROR)
    {
        return ngx_errno;
    }

    /* a FIFO would hang us */

    return ngx_is_file(fi) ? 0 : NGX_EINVAL;
}


/* remembers why there is no environment; says it once until it changes */

static void
ngx_http_sendfile_lmdb_fail(ngx_http_sendfile_store_t *store, ngx_int_t rc,
    const char *reason, int err, ngx_log_t *log)
{
    u_char                    *p, *last;
    uint32_t                   hash;
    ngx_uint_t                 level;
    ngx_http_sendfile_lmdb_t  *lmdb;
    u_char                     text[NGX_MAX_ERROR_STR];

    lmdb = store->ctx;

    lmdb->rc = rc;
    lmdb->reason = reason;
    lmdb->err = (err > 0) ? err : 0;
    lmdb->detail = (err < 0) ? mdb_strerror(err) : NULL;

    p = text;
    last = text + NGX_MAX_ERROR_STR;

    if (rc == NGX_DECLINED) {
        p = ngx_slprintf(p, last, "%V is not there yet, every lookup is "
                         "a miss until it is", &store->url);

    } else {
        p = ngx_slprintf(p, last, "%s %V", reason, &store->url);

        if (lmdb->detail) {
            p = ngx_slprintf(p, last, ": %s", lmdb->detail);
        }

        if (err == NGX_EACCES || err == NGX_EPERM) {
            p = ngx_http_sendfile_lmdb_denied(p, last, lmdb);
        }
    }

    hash = ngx_crc32_long(text, p - text);

    if (lmdb->told && lmdb->told_hash == hash) {
        return;
    }

    lmdb->told = 1;
    lmdb->told_hash = hash;

    level = (rc == NGX_DECLINED) ? NGX_LOG_INFO : NGX_LOG_ERR;

    ngx_log_error(level, log, lmdb->err, "http_sendfile: %*s",
                  (size_t) (p - text), text);
}


/* which permission on which file or directory is missing */

static u_char *
ngx_http_sendfile_lmdb_denied(u_char *p, u_char *last,
    ngx_http_sendfile_lmdb_t *lmdb)
{
    char  *slash;
    char   path[PATH_MAX + sizeof("/data.mdb")];

    p = ngx_slprintf(p, last, ": the worker's user (uid %d) needs ",
                     (int) geteuid());

    if (realpath((char *) lmdb->path.data, path) == NULL) {
        (void) ngx_cpystrn((u_char *) path, lmdb->path.data, PATH_MAX);
    }

    /* the directories above, and that of a store which is one */

    for (slash = path; slash; slash = ngx_strchr(slash + 1, '/')) {

        *slash = '\0';

        if (slash != path && access(path, X_OK) == -1) {
            return ngx_slprintf(p, last, "search permission on %s", path);
        }

        *slash = '/';
    }

    if (lmdb->subdir && access(path, X_OK) == -1) {
        return ngx_slprintf(p, last, "search permission on %s", path);
    }

    slash = path + ngx_strlen(path);

    if (lmdb->subdir) {
        (void) ngx_cpystrn((u_char *) slash, (u_char *) "/data.mdb",
                           sizeof("/data.mdb"));
    }

    if (access(path, R_OK) == -1) {
        return ngx_slprintf(p, last, "read permission on %s", path);
    }

    (void) ngx_cpystrn((u_char *) slash,
                       (u_char *) (lmdb->subdir ? "/lock.mdb" : "-lock"),
                       sizeof("/lock.mdb"));

    if (access(path, F_OK) == -1) {
        return ngx_slprintf(p, last, "write permission on the directory, "
                            "to create %s", path);
    }

    return ngx_slprintf(p, last, "read and write permission on %s", path);
}


static void
ngx_http_sendfile_lmdb_open(ngx_http_sendfile_store_t *store,
    ngx_file_info_t *fi, ngx_log_t *log)
{
    int                            rc;
    ngx_queue_t                   *q;
    ngx_http_sendfile_lmdb_t      *lmdb;
    ngx_http_sendfile_lmdb_env_t  *env;

    lmdb = store->ctx;

    for (q = ngx_queue_head(&ngx_http_sendfile_lmdb_envs);
         q != ngx_queue_sentinel(&ngx_http_sendfile_lmdb_envs);
         q = ngx_queue_next(q))
    {
        env = ngx_queue_data(q, ngx_http_sendfile_lmdb_env_t, queue);

        if (env->dev == fi->st_dev && env->ino == fi->st_ino) {

            if (env->broken) {
                ngx_http_sendfile_lmdb_retire(env, log);
                break;
            }

            goto found;
        }
    }

    env = ngx_calloc(sizeof(ngx_http_sendfile_lmdb_env_t), log);
    if (env == NULL) {
        ngx_http_sendfile_lmdb_fail(store, NGX_ERROR, "cannot open LMDB",
                                    NGX_ENOMEM, log);
        return;
    }

    ngx_queue_init(&env->stores);

    env->dev = fi->st_dev;
    env->ino = fi->st_ino;

    env->turn.handler = ngx_http_sendfile_lmdb_turn;
    env->turn.data = env;
    env->turn.log = log;

    rc = ngx_http_sendfile_lmdb_open_env(env, lmdb);

    if (rc != MDB_SUCCESS) {
        ngx_http_sendfile_lmdb_close(env, log);
        ngx_http_sendfile_lmdb_fail(store, NGX_ERROR, "cannot open LMDB", rc,
                                    log);
        return;
    }

    ngx_queue_insert_tail(&ngx_http_sendfile_lmdb_envs, &env->queue);

    ngx_log_error(NGX_LOG_INFO, log, 0, "http_sendfile: opened %V",
                  &store->url);

found:

    ngx_queue_insert_tail(&env->stores, &lmdb->queue);

    lmdb->env = env;
    lmdb->told = 0;
}


/*
 * NOTLS lets the transaction be reset and renewed, NORDAHEAD suits reads at
 * random.  Returns an LMDB code or an errno.
 */

static int
ngx_http_sendfile_lmdb_open_env(ngx_http_sendfile_lmdb_env_t *env,
    ngx_http_sendfile_lmdb_t *lmdb)
{
    int       rc, dead;
    unsigned  flags;
    char      path[PATH_MAX];

    /* data and lock file of one directory, should a link be swapped now */

    if (realpath((char *) lmdb->path.data, path) == NULL) {
        return ngx_errno;
    }

    rc = ngx_http_sendfile_lmdb_header(lmdb);
    if (rc != MDB_SUCCESS) {
        return rc;
    }

    if (mdb_env_create(&env->env) != MDB_SUCCESS) {
        return NGX_ENOMEM;
    }

    (void) mdb_env_set_assert(env->env, ngx_http_sendfile_lmdb_assert);

    if (ngx_http_sendfile_fault_guard()) {
        return MDB_CORRUPTED;
    }

    flags = MDB_RDONLY|MDB_NOTLS|MDB_NORDAHEAD;

    if (!lmdb->subdir) {
        flags |= MDB_NOSUBDIR;
    }

    rc = mdb_env_open(env->env, path, flags, 0644);

    if (rc == MDB_SUCCESS) {
        rc = ngx_http_sendfile_lmdb_verify(env);
    }

    if (rc == MDB_SUCCESS) {
        /*
         * Slots of processes that were killed, such as the worker before
         * this one: their snapshots would make the file grow for ever.
         */
        (void) mdb_reader_check(env->env, &dead);

        rc = mdb_txn_begin(env->env, NULL, MDB_RDONLY, &env->txn);
    }

    if (rc == MDB_SUCCESS) {
        rc = mdb_dbi_open(env->txn, NULL, 0, &env->dbi);
        mdb_txn_reset(env->txn);
    }

    ngx_http_sendfile_fault_release();

    return rc;
}


/*
 * Both meta pages say the same sane page size: LMDB believes them.  A page
 * begins with 16 bytes of its own; then come magic (4 bytes), version (4),
 * address and size of the map (8 each) and the page size (4); LMDB 0.9,
 * mdb.c, MDB_page and MDB_meta.
 */

static int
ngx_http_sendfile_lmdb_header(ngx_http_sendfile_lmdb_t *lmdb)
{
    off_t     offset;
    u_char   *name;
    ssize_t   n;
    ngx_fd_t  fd;
    uint32_t  size, meta[7];

    name = lmdb->subdir ? lmdb->data.data : lmdb->path.data;

    fd = ngx_open_file(name, NGX_FILE_RDONLY|NGX_FILE_NONBLOCK,
                       NGX_FILE_OPEN, 0);

    if (fd == NGX_INVALID_FILE) {
        return ngx_errno;
    }

    size = 0;
    offset = 16;

    do {
        n = pread(fd, meta, sizeof(meta), offset);

        if (n != sizeof(meta) || meta[0] != NGX_HTTP_SENDFILE_LMDB_MAGIC) {
            n = -1;
            break;
        }

        if (meta[6] < 256 || meta[6] > 65536 || (meta[6] & (meta[6] - 1))
            || (size && size != meta[6]))
        {
            n = -1;
            break;
        }

        size = meta[6];
        offset += size;

    } while (offset < 2 * (off_t) size);

    (void) ngx_close_file(fd);

    return (n == -1) ? MDB_INVALID : MDB_SUCCESS;
}


/*
 * Whether the open file is the one that was looked at, and as long as it
 * was: a file of LMDB's is never cut, and pages that are gone are a fault.
 * (Its last page number says nothing, pages at the end may never have been
 * written.)
 */

static int
ngx_http_sendfile_lmdb_verify(ngx_http_sendfile_lmdb_env_t *env)
{
    ngx_file_info_t   fi;
    mdb_filehandle_t  fd;

    if (mdb_env_get_fd(env->env, &fd) != MDB_SUCCESS
        || ngx_fd_info(fd, &fi) == NGX_FILE_ERROR)
    {
        return ngx_errno;
    }

    if (fi.st_dev != env->dev || fi.st_ino != env->ino) {
        return NGX_EBUSY;
    }

    if (ngx_file_size(&fi) < env->size) {
        return MDB_CORRUPTED;
    }

    env->size = ngx_file_size(&fi);

    return MDB_SUCCESS;
}


static ngx_int_t
ngx_http_sendfile_lmdb_intact(ngx_http_sendfile_lmdb_env_t *env)
{
    int  rc;

    if (ngx_http_sendfile_fault_guard()) {
        return NGX_ERROR;
    }

    rc = ngx_http_sendfile_lmdb_verify(env);

    ngx_http_sendfile_fault_release();

    return (rc == MDB_SUCCESS) ? NGX_OK : NGX_ERROR;
}


static void
ngx_http_sendfile_lmdb_cleanup(void *data)
{
    ngx_http_sendfile_lmdb_t  *lmdb = data;

    ngx_http_sendfile_lmdb_release(lmdb, ngx_cycle->log);
}


static void
ngx_http_sendfile_lmdb_release(ngx_http_sendfile_lmdb_t *lmdb, ngx_log_t *log)
{
    ngx_http_sendfile_lmdb_env_t  *env;

    env = lmdb->env;

    if (env == NULL) {
        return;
    }

    lmdb->env = NULL;
    ngx_queue_remove(&lmdb->queue);

    if (ngx_queue_empty(&env->stores)) {
        ngx_queue_remove(&env->queue);
        ngx_http_sendfile_lmdb_close(env, log);
    }
}


/*
 * Takes a broken environment away from every store.  Closing it later, when
 * one of them has opened the file anew, would drop the new one's locks.
 */

static void
ngx_http_sendfile_lmdb_retire(ngx_http_sendfile_lmdb_env_t *env,
    ngx_log_t *log)
{
    ngx_queue_t               *q;
    ngx_http_sendfile_lmdb_t  *lmdb;

    while (!ngx_queue_empty(&env->stores)) {
        q = ngx_queue_head(&env->stores);
        lmdb = ngx_queue_data(q, ngx_http_sendfile_lmdb_t, queue);

        ngx_queue_remove(q);
        lmdb->env = NULL;
    }

    ngx_queue_remove(&env->queue);
    ngx_http_sendfile_lmdb_close(env, log);
}


static void
ngx_http_sendfile_lmdb_close(ngx_http_sendfile_lmdb_env_t *env, ngx_log_t *log)
{
    if (env->turn.posted) {
        ngx_delete_posted_event(&env->turn);
    }

    if (env->env) {

        if (ngx_http_sendfile_fault_guard()) {
            /* the lock file is cut off as well; better a leak than a crash */
            ngx_log_error(NGX_LOG_ERR, log, 0,
                          "http_sendfile: a broken LMDB stays mapped");

            env->lost = ngx_http_sendfile_lmdb_lost;
            ngx_http_sendfile_lmdb_lost = env;
            return;
        }

        if (env->txn) {
            mdb_txn_abort(env->txn);
        }

        mdb_env_close(env->env);
        ngx_http_sendfile_fault_release();
    }

    ngx_free(env);
}


/*
 * Finds a value and copies it, for reading it later might fault as well.
 * Returns an LMDB code or an errno.
 */

static int
ngx_http_sendfile_lmdb_read(ngx_http_sendfile_lmdb_env_t *env, MDB_val *key,
    MDB_val *value)
{
    int  rc;

    if (ngx_http_sendfile_fault_guard()) {
        return MDB_CORRUPTED;
    }

    rc = env->reading ? MDB_SUCCESS : ngx_http_sendfile_lmdb_renew(env);

    if (rc == MDB_SUCCESS) {
        rc = mdb_get(env->txn, env->dbi, key, value);
    }

    if (rc == MDB_SUCCESS && value->mv_size <= NSF_MAX_VALUE) {
        ngx_memcpy(ngx_http_sendfile_lmdb_value, value->mv_data,
                   value->mv_size);
    }

    ngx_http_sendfile_fault_release();

    value->mv_data = ngx_http_sendfile_lmdb_value;

    return rc;
}


static int
ngx_http_sendfile_lmdb_renew(ngx_http_sendfile_lmdb_env_t *env)
{
    int  rc;

    rc = mdb_txn_renew(env->txn);

    if (rc == MDB_MAP_RESIZED) {
        /* a writer has made the map larger: take its size */

        rc = mdb_env_set_mapsize(env->env, 0);

        if (rc == MDB_SUCCESS) {
            rc = mdb_txn_renew(env->txn);
        }
    }

    if (rc != MDB_SUCCESS) {
        return rc;
    }

    env->reading = 1;

    if (!env->turn.posted) {
        ngx_post_event(&env->turn, &ngx_posted_events);
    }

    return MDB_SUCCESS;
}


static void
ngx_http_sendfile_lmdb_turn(ngx_event_t *ev)
{
    ngx_http_sendfile_lmdb_env_t  *env;

    env = ev->data;

    ngx_http_sendfile_lmdb_end(env);
}


/* an old snapshot would keep the writer from reusing pages */

static void
ngx_http_sendfile_lmdb_end(ngx_http_sendfile_lmdb_env_t *env)
{
    if (!env->reading) {
        return;
    }

    env->reading = 0;

    if (ngx_http_sendfile_fault_guard()) {
        env->broken = 1;
        return;
    }

    mdb_txn_reset(env->txn);

    ngx_http_sendfile_fault_release();
}


static void
ngx_http_sendfile_lmdb_assert(MDB_env *env, const char *msg)
{
    /* a failed assertion of LMDB means a damaged file */

    ngx_http_sendfile_fault_raise();
}
