
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * The embedded store: keys and values in an LMDB file, read through the
 * worker's own mapping.  Every read is synchronous and takes no lock.
 *
 * A store belongs to the configuration, an environment to the process: stores
 * whose paths lead to the same file share it.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include <lmdb.h>

#include "nsf.h"
#include "ngx_http_sendfile_fault.h"
#include "ngx_http_sendfile_lmdb_env.h"
#include "ngx_http_sendfile_store.h"


/* how often a path is looked at for a new file, milliseconds */

#define NGX_HTTP_SENDFILE_LMDB_CHECK  1000


typedef struct {
    /* null-terminated: as configured, and the data file if a directory */
    ngx_str_t                      path;
    ngx_str_t                      data;

    ngx_http_sendfile_lmdb_env_t  *env;
    ngx_queue_t                    queue;
    ngx_msec_t                     checked;
    ngx_msec_t                     opened;
    ngx_atomic_uint_t              generation;

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
static ngx_http_sendfile_lmdb_env_t *ngx_http_sendfile_lmdb_find(
    ngx_file_info_t *fi);
static void ngx_http_sendfile_lmdb_cleanup(void *data);
static void ngx_http_sendfile_lmdb_release(ngx_http_sendfile_lmdb_t *lmdb);
static void ngx_http_sendfile_lmdb_retire(ngx_http_sendfile_lmdb_env_t *env);


ngx_http_sendfile_store_type_t  ngx_http_sendfile_lmdb_store = {
    ngx_string("lmdb"),
    ngx_string("lmdb:/path"),
    ngx_null_string,
    0,                                     /* asynchronous */
    ngx_http_sendfile_lmdb_create,
    NULL,                                  /* server of a block */
    NULL,                                  /* store of a block */
    ngx_http_sendfile_lmdb_init,
    ngx_http_sendfile_lmdb_exit,
    ngx_http_sendfile_lmdb_get,
    ngx_http_sendfile_lmdb_cancel,
    NULL                                   /* directives of a block */
};


/* the environments that this process has open */

static ngx_queue_t  ngx_http_sendfile_lmdb_envs;


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

    ngx_http_sendfile_lmdb_release(lmdb);
    lmdb->init = 0;
}


static ngx_int_t
ngx_http_sendfile_lmdb_get(ngx_http_sendfile_store_t *store,
    ngx_http_sendfile_op_t *op)
{
    int                            rc;
    MDB_val                        key, value;
    ngx_uint_t                     renew;
    ngx_http_sendfile_lmdb_t      *lmdb;
    ngx_http_sendfile_lmdb_env_t  *env;

    lmdb = store->ctx;

    if (!lmdb->init) {
        /* after a reload without worker processes */
        ngx_http_sendfile_lmdb_init(store, ngx_cycle->log);
    }

    renew = (op->generation && op->generation != lmdb->generation);

    if (renew
        || lmdb->env == NULL
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

    if (renew) {
        /* each read is of what was committed last, only the path is not */
        lmdb->generation = op->generation;
    }

    key.mv_data = op->key.data;
    key.mv_size = op->key.len;

    rc = ngx_http_sendfile_lmdb_env_get(env, &key, &value);

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
            && ngx_http_sendfile_lmdb_env_intact(env) == NGX_OK)
        {
            return;
        }

        if (env
            && (env->broken
                || (env->dev == fi.st_dev && env->ino == fi.st_ino)))
        {
            ngx_http_sendfile_lmdb_retire(env);

            if (ngx_current_msec - lmdb->opened < NGX_HTTP_SENDFILE_LMDB_CHECK)
            {
                /* not again and again */
                lmdb->checked = lmdb->opened;
                ngx_http_sendfile_lmdb_fail(store, NGX_ERROR, "broken LMDB",
                                            0, log);
                return;
            }

        } else {
            ngx_http_sendfile_lmdb_release(lmdb);
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
        ngx_http_sendfile_lmdb_retire(env);

    } else {
        ngx_http_sendfile_lmdb_release(lmdb);
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

    for (slash = path; slash; slash = (char *) ngx_strchr(slash + 1, '/')) {

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

    return ngx_slprintf(p, last, "read permission on %s", path);
}


static void
ngx_http_sendfile_lmdb_open(ngx_http_sendfile_store_t *store,
    ngx_file_info_t *fi, ngx_log_t *log)
{
    int                            err;
    ngx_http_sendfile_lmdb_t      *lmdb;
    ngx_http_sendfile_lmdb_env_t  *env;

    lmdb = store->ctx;

    env = ngx_http_sendfile_lmdb_find(fi);

    if (env == NULL) {
        env = ngx_http_sendfile_lmdb_env_open(lmdb->path.data, lmdb->subdir,
                                              fi, &err, log);
        if (env == NULL) {
            ngx_http_sendfile_lmdb_fail(store, NGX_ERROR, "cannot open LMDB",
                                        err, log);
            return;
        }

        ngx_queue_insert_tail(&ngx_http_sendfile_lmdb_envs, &env->queue);

        ngx_log_error(NGX_LOG_INFO, log, 0, "http_sendfile: opened %V",
                      &store->url);
    }

    ngx_queue_insert_tail(&env->stores, &lmdb->queue);

    lmdb->env = env;
    lmdb->told = 0;
}


/* the environment that is open for a file already; a broken one goes */

static ngx_http_sendfile_lmdb_env_t *
ngx_http_sendfile_lmdb_find(ngx_file_info_t *fi)
{
    ngx_queue_t                   *q, *next;
    ngx_http_sendfile_lmdb_env_t  *env, *found;

    found = NULL;

    for (q = ngx_queue_head(&ngx_http_sendfile_lmdb_envs);
         q != ngx_queue_sentinel(&ngx_http_sendfile_lmdb_envs);
         q = next)
    {
        next = ngx_queue_next(q);
        env = ngx_queue_data(q, ngx_http_sendfile_lmdb_env_t, queue);

        if (env->dev != fi->st_dev || env->ino != fi->st_ino) {
            continue;
        }

        if (env->broken) {
            ngx_http_sendfile_lmdb_retire(env);
            continue;
        }

        found = env;
    }

    return found;
}


static void
ngx_http_sendfile_lmdb_cleanup(void *data)
{
    ngx_http_sendfile_lmdb_t  *lmdb = data;

    ngx_http_sendfile_lmdb_release(lmdb);
}


static void
ngx_http_sendfile_lmdb_release(ngx_http_sendfile_lmdb_t *lmdb)
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
        ngx_http_sendfile_lmdb_env_close(env);
    }
}


/* takes a broken environment away from every store */

static void
ngx_http_sendfile_lmdb_retire(ngx_http_sendfile_lmdb_env_t *env)
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
    ngx_http_sendfile_lmdb_env_close(env);
}
