
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

/*
 * How often a value is read when a writer commits each time: a commit takes
 * longer than a read.
 */

#define NGX_HTTP_SENDFILE_LMDB_TRIES  100


static int ngx_http_sendfile_lmdb_env_map(ngx_http_sendfile_lmdb_env_t *env,
    ngx_uint_t subdir);
static int ngx_http_sendfile_lmdb_env_header(
    ngx_http_sendfile_lmdb_env_t *env, ngx_uint_t subdir);
static int ngx_http_sendfile_lmdb_env_verify(
    ngx_http_sendfile_lmdb_env_t *env);
static int ngx_http_sendfile_lmdb_env_mmap(ngx_http_sendfile_lmdb_env_t *env);
static void ngx_http_sendfile_lmdb_env_locate(
    ngx_http_sendfile_lmdb_env_t *env);
static char *ngx_http_sendfile_lmdb_env_mapping(FILE *f, char **line,
    size_t *size, ngx_http_sendfile_fault_map_t *map);
static int ngx_http_sendfile_lmdb_env_read(ngx_http_sendfile_lmdb_env_t *env,
    MDB_val *key, MDB_val *value);
static int ngx_http_sendfile_lmdb_env_renew(
    ngx_http_sendfile_lmdb_env_t *env);
static ngx_int_t ngx_http_sendfile_lmdb_env_unchanged(
    ngx_http_sendfile_lmdb_env_t *env);
static ngx_uint_t ngx_http_sendfile_lmdb_env_current(
    ngx_http_sendfile_lmdb_env_t *env);
static ngx_uint_t ngx_http_sendfile_lmdb_env_same(
    ngx_http_sendfile_lmdb_env_t *env);
static int ngx_http_sendfile_lmdb_env_cmp(const MDB_val *a, const MDB_val *b);
static void ngx_http_sendfile_lmdb_env_assert(MDB_env *env, const char *msg);


static u_char  ngx_http_sendfile_lmdb_value[NSF_MAX_VALUE];


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

    env->path = realpath((char *) path, NULL);

    *err = env->path ? ngx_http_sendfile_lmdb_env_map(env, subdir)
                     : ngx_errno;

    if (*err != MDB_SUCCESS) {
        ngx_http_sendfile_lmdb_env_close(env);
        return NULL;
    }

    return env;
}


/*
 * NOLOCK touches no lock file, NOTLS lets the transaction be reset and renewed,
 * NORDAHEAD suits reads at random.
 */

static int
ngx_http_sendfile_lmdb_env_map(ngx_http_sendfile_lmdb_env_t *env,
    ngx_uint_t subdir)
{
    int       rc;
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

    ngx_http_sendfile_fault_arm(env->maps, 2);

    flags = MDB_RDONLY|MDB_NOLOCK|MDB_NOTLS|MDB_NORDAHEAD;

    if (!subdir) {
        flags |= MDB_NOSUBDIR;
    }

    rc = mdb_env_open(env->env, env->path, flags, 0644);

    if (rc == MDB_SUCCESS) {
        rc = ngx_http_sendfile_lmdb_env_verify(env);
    }

    if (rc == MDB_SUCCESS) {
        rc = ngx_http_sendfile_lmdb_env_mmap(env);
    }

    if (rc == MDB_SUCCESS) {
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


/* both meta pages say the same sane page size: LMDB believes them */

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
    offset = NGX_HTTP_SENDFILE_LMDB_META;

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


/* maps the meta pages, too, as LMDB does not say where it has them */

static int
ngx_http_sendfile_lmdb_env_mmap(ngx_http_sendfile_lmdb_env_t *env)
{
    int               rc;
    u_char           *p;
    MDB_stat          st;
    mdb_filehandle_t  fd;

    rc = mdb_env_stat(env->env, &st);
    if (rc != MDB_SUCCESS) {
        return rc;
    }

    rc = mdb_env_get_fd(env->env, &fd);
    if (rc != MDB_SUCCESS) {
        return rc;
    }

    p = mmap(NULL, 2 * st.ms_psize, PROT_READ, MAP_SHARED, fd, 0);

    if (p == MAP_FAILED) {
        return ngx_errno;
    }

    env->metas = p;
    env->page_size = st.ms_psize;

    env->maps[1].start = p;
    env->maps[1].end = p + 2 * env->page_size;

    ngx_http_sendfile_lmdb_env_locate(env);

    return MDB_SUCCESS;
}


/*
 * Finds LMDB's map: the other one of the file that the meta pages are of, which
 * some file systems give a device that stat() does not know.  Where the system
 * tells nothing, any fault while the file is read is taken for the file's.
 */

static void
ngx_http_sendfile_lmdb_env_locate(ngx_http_sendfile_lmdb_env_t *env)
{
    FILE                          *f;
    char                          *ours, *file, *line;
    size_t                         size;
    ngx_uint_t                     n;
    ngx_http_sendfile_fault_map_t  map;

    n = 0;
    ours = NULL;
    line = NULL;
    size = 0;

    env->maps[0].end = NULL;

    f = fopen("/proc/self/maps", "re");
    if (f == NULL) {
        return;
    }

    while (ours == NULL
           && (file = ngx_http_sendfile_lmdb_env_mapping(f, &line, &size,
                                                         &map)))
    {
        if (map.start == env->metas) {
            ours = strdup(file);
        }
    }

    rewind(f);

    while (ours
           && (file = ngx_http_sendfile_lmdb_env_mapping(f, &line, &size,
                                                         &map)))
    {
        if (map.start != env->metas && ngx_strcmp(file, ours) == 0) {
            env->maps[0] = map;
            n++;
        }
    }

    free(ours);
    free(line);
    (void) fclose(f);

    if (n != 1) {
        env->maps[0].end = NULL;
    }
}


/*
 * The next line of proc(5)'s maps, "start-end mode offset device inode path":
 * what it says from the offset on, NULL at the end.
 */

static char *
ngx_http_sendfile_lmdb_env_mapping(FILE *f, char **line, size_t *size,
    ngx_http_sendfile_fault_map_t *map)
{
    int    n;
    void  *start, *end;

    n = 0;

    if (getline(line, size, f) == -1
        || sscanf(*line, "%p-%p %*s %n", &start, &end, &n) != 2
        || n == 0)
    {
        return NULL;
    }

    map->start = start;
    map->end = end;

    return *line + n;
}


ngx_int_t
ngx_http_sendfile_lmdb_env_intact(ngx_http_sendfile_lmdb_env_t *env)
{
    return (ngx_http_sendfile_lmdb_env_verify(env) == MDB_SUCCESS) ? NGX_OK
                                                                   : NGX_ERROR;
}


void
ngx_http_sendfile_lmdb_env_close(ngx_http_sendfile_lmdb_env_t *env)
{
    /* without locks none of this reads the file */

    if (env->metas) {
        (void) munmap(env->metas, 2 * env->page_size);
    }

    if (env->txn) {
        mdb_txn_abort(env->txn);
    }

    if (env->env) {
        mdb_env_close(env->env);
    }

    free(env->path);
    ngx_free(env);
}


int
ngx_http_sendfile_lmdb_env_get(ngx_http_sendfile_lmdb_env_t *env,
    MDB_val *key, MDB_val *value)
{
    int         rc;
    ngx_int_t   unchanged;
    ngx_uint_t  i;

    for (i = 0; i < NGX_HTTP_SENDFILE_LMDB_TRIES; i++) {

        rc = ngx_http_sendfile_lmdb_env_read(env, key, value);

        unchanged = ngx_http_sendfile_lmdb_env_unchanged(env);

        if (unchanged == NGX_DECLINED) {
            /* there was a commit, whatever has been read is not whole */
            env->reading = 0;
            continue;
        }

        if (unchanged == NGX_ERROR) {
            rc = MDB_CORRUPTED;
        }

        if (rc == MDB_SUCCESS || rc == MDB_NOTFOUND) {
            return rc;
        }

        env->reading = 0;

        /* what is wrong with one page is no reason to give up the rest */

        if (rc > 0 || rc == MDB_PANIC || rc == MDB_BAD_TXN) {
            env->broken = 1;
        }

        return rc;
    }

    return NGX_EAGAIN;
}


static int
ngx_http_sendfile_lmdb_env_read(ngx_http_sendfile_lmdb_env_t *env, MDB_val *key,
    MDB_val *value)
{
    int  rc;

    if (ngx_http_sendfile_fault_guard()) {
        env->reading = 0;
        return MDB_CORRUPTED;
    }

    ngx_http_sendfile_fault_arm(env->maps, 2);

    rc = (env->reading && ngx_http_sendfile_lmdb_env_current(env))
         ? MDB_SUCCESS
         : ngx_http_sendfile_lmdb_env_renew(env);

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


/* takes a new snapshot: the meta pages first, and with them LMDB's root */

static int
ngx_http_sendfile_lmdb_env_renew(ngx_http_sendfile_lmdb_env_t *env)
{
    int         rc;
    u_char     *p;
    uint32_t    magic;
    ngx_uint_t  i;

    env->reading = 0;
    mdb_txn_reset(env->txn);

    for (i = 0; i < 2; i++) {
        p = env->metas + i * env->page_size + NGX_HTTP_SENDFILE_LMDB_META;

        ngx_memcpy(env->snapshot[i], p, NGX_HTTP_SENDFILE_LMDB_META_SIZE);
        ngx_memcpy(&magic, env->snapshot[i], sizeof(uint32_t));

        if (magic != NGX_HTTP_SENDFILE_LMDB_MAGIC) {
            return MDB_CORRUPTED;
        }
    }

    __atomic_thread_fence(__ATOMIC_ACQUIRE);

    rc = mdb_txn_renew(env->txn);

    if (rc == MDB_MAP_RESIZED) {
        /* a writer has made the map larger: take its size */

        env->maps[0].end = NULL;
        rc = mdb_env_set_mapsize(env->env, 0);

        if (rc == MDB_SUCCESS) {
            ngx_http_sendfile_lmdb_env_locate(env);
            rc = mdb_txn_renew(env->txn);
        }
    }

    if (rc == MDB_SUCCESS) {
        env->reading = 1;
    }

    return rc;
}


/*
 * No commit has ended since the snapshot was taken: each ends by writing a
 * meta page with a transaction number of its own.  Whether one is just ending
 * is seen when the value has been read.
 */

static ngx_uint_t
ngx_http_sendfile_lmdb_env_current(ngx_http_sendfile_lmdb_env_t *env)
{
    u_char      *p;
    ngx_uint_t   i;

    for (i = 0; i < 2; i++) {
        p = env->metas + i * env->page_size + NGX_HTTP_SENDFILE_LMDB_META;

        if (ngx_memcmp(p + NGX_HTTP_SENDFILE_LMDB_TXN,
                       env->snapshot[i] + NGX_HTTP_SENDFILE_LMDB_TXN,
                       sizeof(uint64_t))
            != 0)
        {
            return 0;
        }
    }

    __atomic_thread_fence(__ATOMIC_ACQUIRE);

    return 1;
}


/* NGX_OK, NGX_DECLINED after a commit, NGX_ERROR if it cannot be read */

static ngx_int_t
ngx_http_sendfile_lmdb_env_unchanged(ngx_http_sendfile_lmdb_env_t *env)
{
    ngx_int_t  rc;

    if (ngx_http_sendfile_fault_guard()) {
        return NGX_ERROR;
    }

    ngx_http_sendfile_fault_arm(env->maps, 2);

    rc = ngx_http_sendfile_lmdb_env_same(env) ? NGX_OK : NGX_DECLINED;

    ngx_http_sendfile_fault_release();

    return rc;
}


/* what is read before, or after, is not read in another order */

static ngx_uint_t
ngx_http_sendfile_lmdb_env_same(ngx_http_sendfile_lmdb_env_t *env)
{
    ngx_uint_t  same;

    __atomic_thread_fence(__ATOMIC_ACQUIRE);

    same = ngx_memcmp(env->metas + NGX_HTTP_SENDFILE_LMDB_META,
                      env->snapshot[0], NGX_HTTP_SENDFILE_LMDB_META_SIZE)
           == 0
        && ngx_memcmp(env->metas + env->page_size
                      + NGX_HTTP_SENDFILE_LMDB_META,
                      env->snapshot[1], NGX_HTTP_SENDFILE_LMDB_META_SIZE)
           == 0;

    __atomic_thread_fence(__ATOMIC_ACQUIRE);

    return same;
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
