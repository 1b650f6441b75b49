
/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include <lmdb.h>

#include "nsf.h"
#include "ngx_http_sendfile_fault.h"
#include "ngx_http_sendfile_lmdb_env.h"


/* of a meta page, native byte order */

#define NGX_HTTP_SENDFILE_LMDB_MAGIC  0xbeefc0de


static int ngx_http_sendfile_lmdb_env_map(ngx_http_sendfile_lmdb_env_t *env,
    ngx_uint_t subdir);
static int ngx_http_sendfile_lmdb_env_header(
    ngx_http_sendfile_lmdb_env_t *env, ngx_uint_t subdir);
static int ngx_http_sendfile_lmdb_env_verify(
    ngx_http_sendfile_lmdb_env_t *env);
static int ngx_http_sendfile_lmdb_env_read(ngx_http_sendfile_lmdb_env_t *env,
    MDB_val *key, MDB_val *value);
static int ngx_http_sendfile_lmdb_env_renew(
    ngx_http_sendfile_lmdb_env_t *env);
static void ngx_http_sendfile_lmdb_env_turn(ngx_event_t *ev);
static int ngx_http_sendfile_lmdb_env_cmp(const MDB_val *a, const MDB_val *b);
static void ngx_http_sendfile_lmdb_env_assert(MDB_env *env, const char *msg);


static u_char  ngx_http_sendfile_lmdb_value[NSF_MAX_VALUE];

/* those that could not even be closed */

static ngx_http_sendfile_lmdb_env_t  *ngx_http_sendfile_lmdb_lost;


ngx_http_sendfile_lmdb_env_t *
ngx_http_sendfile_lmdb_env_open(u_char *path, ngx_uint_t subdir,
    ngx_file_info_t *fi, int *err, ngx_log_t *log)
{
    ngx_http_sendfile_lmdb_env_t  *env;

    env = ngx_calloc(sizeof(ngx_http_sendfile_lmdb_env_t), log);
    if (env == NULL) {
        *err = NGX_ENOMEM;
        return NULL;
    }

    ngx_queue_init(&env->stores);

    env->dev = fi->st_dev;
    env->ino = fi->st_ino;

    env->turn.handler = ngx_http_sendfile_lmdb_env_turn;
    env->turn.data = env;
    env->turn.log = log;

    /* data and lock file of one directory, should a link be swapped now */

    env->path = realpath((char *) path, NULL);

    *err = env->path ? ngx_http_sendfile_lmdb_env_map(env, subdir)
                     : ngx_errno;

    if (*err != MDB_SUCCESS) {
        ngx_http_sendfile_lmdb_env_close(env, log);
        return NULL;
    }

    return env;
}


/*
 * NOTLS lets the transaction be reset and renewed, NORDAHEAD suits reads at
 * random.
 */

static int
ngx_http_sendfile_lmdb_env_map(ngx_http_sendfile_lmdb_env_t *env,
    ngx_uint_t subdir)
{
    int       rc, dead;
    unsigned  flags;

    rc = ngx_http_sendfile_lmdb_env_header(env, subdir);
    if (rc != MDB_SUCCESS) {
        return rc;
    }

    if (mdb_env_create(&env->env) != MDB_SUCCESS) {
        return NGX_ENOMEM;
    }

    (void) mdb_env_set_assert(env->env, ngx_http_sendfile_lmdb_env_assert);

    if (ngx_http_sendfile_fault_guard()) {
        return MDB_CORRUPTED;
    }

    ngx_http_sendfile_fault_arm();

    flags = MDB_RDONLY|MDB_NOTLS|MDB_NORDAHEAD;

    if (!subdir) {
        flags |= MDB_NOSUBDIR;
    }

    rc = mdb_env_open(env->env, env->path, flags, 0644);

    if (rc == MDB_SUCCESS) {
        rc = ngx_http_sendfile_lmdb_env_verify(env);
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

        if (rc == MDB_SUCCESS) {
            rc = mdb_dbi_flags(env->txn, env->dbi, &flags);
        }

        if (rc == MDB_SUCCESS
            && (flags & (MDB_INTEGERKEY|MDB_REVERSEKEY)))
        {
            /* not a plain table of text keys */
            rc = MDB_INCOMPATIBLE;
        }

        if (rc == MDB_SUCCESS) {
            rc = mdb_set_compare(env->txn, env->dbi,
                                 ngx_http_sendfile_lmdb_env_cmp);
        }

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
ngx_http_sendfile_lmdb_env_header(ngx_http_sendfile_lmdb_env_t *env,
    ngx_uint_t subdir)
{
    off_t     offset;
    ssize_t   n;
    ngx_fd_t  fd;
    uint32_t  size, meta[7];
    u_char    name[PATH_MAX + sizeof("/data.mdb")];

    (void) ngx_snprintf(name, sizeof(name), "%s%s%Z", env->path,
                        subdir ? "/data.mdb" : "");

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
ngx_http_sendfile_lmdb_env_verify(ngx_http_sendfile_lmdb_env_t *env)
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


ngx_int_t
ngx_http_sendfile_lmdb_env_intact(ngx_http_sendfile_lmdb_env_t *env)
{
    int  rc;

    if (ngx_http_sendfile_fault_guard()) {
        return NGX_ERROR;
    }

    ngx_http_sendfile_fault_arm();

    rc = ngx_http_sendfile_lmdb_env_verify(env);

    ngx_http_sendfile_fault_release();

    return (rc == MDB_SUCCESS) ? NGX_OK : NGX_ERROR;
}


void
ngx_http_sendfile_lmdb_env_close(ngx_http_sendfile_lmdb_env_t *env,
    ngx_log_t *log)
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

        ngx_http_sendfile_fault_arm();

        if (env->txn) {
            mdb_txn_abort(env->txn);
        }

        mdb_env_close(env->env);
        ngx_http_sendfile_fault_release();
    }

    free(env->path);
    ngx_free(env);
}


int
ngx_http_sendfile_lmdb_env_get(ngx_http_sendfile_lmdb_env_t *env,
    MDB_val *key, MDB_val *value)
{
    int  rc;

    rc = ngx_http_sendfile_lmdb_env_read(env, key, value);

    if (rc == MDB_SUCCESS || rc == MDB_NOTFOUND) {
        return rc;
    }

    ngx_http_sendfile_lmdb_env_end(env);

    /* what is wrong with one page is no reason to give up the rest */

    if (rc > 0 || rc == MDB_PANIC || rc == MDB_BAD_RSLOT || rc == MDB_BAD_TXN)
    {
        env->broken = 1;
    }

    return rc;
}


static int
ngx_http_sendfile_lmdb_env_read(ngx_http_sendfile_lmdb_env_t *env, MDB_val *key,
    MDB_val *value)
{
    int  rc;

    if (ngx_http_sendfile_fault_guard()) {
        return MDB_CORRUPTED;
    }

    ngx_http_sendfile_fault_arm();

    rc = env->reading ? MDB_SUCCESS : ngx_http_sendfile_lmdb_env_renew(env);

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
ngx_http_sendfile_lmdb_env_renew(ngx_http_sendfile_lmdb_env_t *env)
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
ngx_http_sendfile_lmdb_env_turn(ngx_event_t *ev)
{
    ngx_http_sendfile_lmdb_env_t  *env;

    env = ev->data;

    ngx_http_sendfile_lmdb_env_end(env);
}


/* an old snapshot would keep the writer from reusing pages */

void
ngx_http_sendfile_lmdb_env_end(ngx_http_sendfile_lmdb_env_t *env)
{
    if (!env->reading) {
        return;
    }

    env->reading = 0;

    if (ngx_http_sendfile_fault_guard()) {
        env->broken = 1;
        return;
    }

    ngx_http_sendfile_fault_arm();

    mdb_txn_reset(env->txn);

    ngx_http_sendfile_fault_release();
}


/*
 * LMDB's own order, byte by byte and the shorter first, without a call of
 * memcmp() for each of the dozen comparisons of a lookup.
 */

static int
ngx_http_sendfile_lmdb_env_cmp(const MDB_val *a, const MDB_val *b)
{
    size_t    n;
    uint32_t  x, y;
    u_char   *p, *q;

    p = a->mv_data;
    q = b->mv_data;

    for (n = ngx_min(a->mv_size, b->mv_size); n >= 4; n -= 4) {
        ngx_memcpy(&x, p, 4);
        ngx_memcpy(&y, q, 4);

        if (x != y) {
            x = ntohl(x);
            y = ntohl(y);
            return (x < y) ? -1 : 1;
        }

        p += 4;
        q += 4;
    }

    for ( /* void */ ; n; n--, p++, q++) {
        if (*p != *q) {
            return (int) *p - (int) *q;
        }
    }

    return (a->mv_size < b->mv_size) ? -1 : a->mv_size > b->mv_size;
}


static void
ngx_http_sendfile_lmdb_env_assert(MDB_env *env, const char *msg)
{
    /* a failed assertion of LMDB means a damaged file */

    ngx_http_sendfile_fault_raise();
}
