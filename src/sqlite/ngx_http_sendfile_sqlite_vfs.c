
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * What SQLite sees of the file system: the system's own, but that every file
 * is opened for reading, nothing is made, nothing removed, and nobody sleeps.
 *
 * A reader of SQLite's may well write: it makes the -wal and -shm files of a
 * database in WAL mode that nobody else has open, and rolls back what a dead
 * writer has left.  Made by a worker's user, they would keep the application
 * out of its own database.
 *
 * The -shm file is the one that SQLite maps into memory, in any case.  Who
 * cuts it off while it is read ends its reader by a SIGBUS.  Here the page that
 * is gone becomes one of zeros, and what has been read with it does not count.
 */


#include "ngx_http_sendfile_sqlite.h"


#define NGX_HTTP_SENDFILE_SQLITE_VFS   "ngx_http_sendfile"

/* of a -shm file: one for each 16 MB of a WAL with pages of 4 KB */

#define NGX_HTTP_SENDFILE_SQLITE_MAPS  256


/* behind SQLite's own structure of an open database */

typedef struct {
    sqlite3_io_methods         methods;
    const sqlite3_io_methods  *base;
    const char                *name;
    ngx_queue_t                queue;

    ngx_uint_t                 nmaps;
    u_char                    *maps[NGX_HTTP_SENDFILE_SQLITE_MAPS];
    size_t                     map_size;
} ngx_http_sendfile_sqlite_file_t;


static ngx_int_t ngx_http_sendfile_sqlite_vfs_init(sqlite3_vfs *base);
static int ngx_http_sendfile_sqlite_vfs_file(sqlite3_vfs *vfs,
    const char *name, sqlite3_file *file, int flags, int *out);
static ngx_uint_t ngx_http_sendfile_sqlite_vfs_regular(const char *name,
    const char *suffix);
static int ngx_http_sendfile_sqlite_vfs_close(sqlite3_file *file);
static int ngx_http_sendfile_sqlite_vfs_map(sqlite3_file *file, int n,
    int size, int extend, void volatile **p);
static int ngx_http_sendfile_sqlite_vfs_unmap(sqlite3_file *file, int remove);
static ngx_http_sendfile_sqlite_file_t *ngx_http_sendfile_sqlite_vfs_data(
    sqlite3_file *file);
static void ngx_http_sendfile_sqlite_vfs_handler(int signo, siginfo_t *info,
    void *context);
static ngx_uint_t ngx_http_sendfile_sqlite_vfs_mapped(u_char *addr);
static int ngx_http_sendfile_sqlite_vfs_delete(sqlite3_vfs *vfs,
    const char *name, int sync);
static int ngx_http_sendfile_sqlite_vfs_sleep(sqlite3_vfs *vfs,
    int microseconds);


volatile sig_atomic_t  ngx_http_sendfile_sqlite_cut;

static sqlite3_vfs       ngx_http_sendfile_sqlite_vfs;
static size_t            ngx_http_sendfile_sqlite_offset;
static ngx_queue_t       ngx_http_sendfile_sqlite_files;
static struct sigaction  ngx_http_sendfile_sqlite_old;


int
ngx_http_sendfile_sqlite_vfs_open(const char *uri, sqlite3 **db)
{
    int           rc;
    sqlite3_vfs  *base;

    *db = NULL;

    base = sqlite3_vfs_find(NULL);

    if (base == NULL || ngx_http_sendfile_sqlite_vfs_init(base) != NGX_OK) {
        return SQLITE_ERROR;
    }

    /*
     * Known to SQLite only as long as it is looked for by its name, lest the
     * list of them keeps it after this module has been unloaded.  Databases
     * that are open go on using it.
     */

    rc = sqlite3_vfs_register(&ngx_http_sendfile_sqlite_vfs, 0);

    if (rc == SQLITE_OK) {
        rc = sqlite3_open_v2(uri, db,
                             SQLITE_OPEN_READONLY|SQLITE_OPEN_URI
                             |SQLITE_OPEN_NOMUTEX|SQLITE_OPEN_PRIVATECACHE,
                             NGX_HTTP_SENDFILE_SQLITE_VFS);

        (void) sqlite3_vfs_unregister(&ngx_http_sendfile_sqlite_vfs);
    }

    return rc;
}


/* once; workers have what their master had */

static ngx_int_t
ngx_http_sendfile_sqlite_vfs_init(sqlite3_vfs *base)
{
    sqlite3_vfs       *vfs;
    struct sigaction   sa;

    vfs = &ngx_http_sendfile_sqlite_vfs;

    if (vfs->zName) {
        return NGX_OK;
    }

    ngx_memzero(&sa, sizeof(struct sigaction));
    sa.sa_sigaction = ngx_http_sendfile_sqlite_vfs_handler;
    sa.sa_flags = SA_SIGINFO|SA_NODEFER;
    sigemptyset(&sa.sa_mask);

    if (sigaction(SIGBUS, &sa, &ngx_http_sendfile_sqlite_old) == -1) {
        return NGX_ERROR;
    }

    ngx_queue_init(&ngx_http_sendfile_sqlite_files);

    *vfs = *base;

    ngx_http_sendfile_sqlite_offset = ngx_align(base->szOsFile, 16);

    vfs->szOsFile = (int) (ngx_http_sendfile_sqlite_offset
                           + sizeof(ngx_http_sendfile_sqlite_file_t));
    vfs->zName = NGX_HTTP_SENDFILE_SQLITE_VFS;
    vfs->pNext = NULL;
    vfs->pAppData = base;
    vfs->xOpen = ngx_http_sendfile_sqlite_vfs_file;
    vfs->xDelete = ngx_http_sendfile_sqlite_vfs_delete;
    vfs->xSleep = ngx_http_sendfile_sqlite_vfs_sleep;

    return NGX_OK;
}


static int
ngx_http_sendfile_sqlite_vfs_file(sqlite3_vfs *vfs, const char *name,
    sqlite3_file *file, int flags, int *out)
{
    int                               rc, type;
    sqlite3_vfs                      *base;
    ngx_http_sendfile_sqlite_file_t  *f;

    base = vfs->pAppData;

    file->pMethods = NULL;

    /* no name: a temporary file; to open a FIFO would hang us */

    if (name == NULL || !ngx_http_sendfile_sqlite_vfs_regular(name, "")) {
        return SQLITE_CANTOPEN;
    }

    type = flags;

    flags &= ~(SQLITE_OPEN_READWRITE|SQLITE_OPEN_CREATE
               |SQLITE_OPEN_DELETEONCLOSE|SQLITE_OPEN_EXCLUSIVE);
    flags |= SQLITE_OPEN_READONLY;

    if (flags & (SQLITE_OPEN_WAL|SQLITE_OPEN_MAIN_JOURNAL)) {
        /* of these an empty one gets the database's permissions by chmod() */
        flags &= ~(SQLITE_OPEN_WAL|SQLITE_OPEN_MAIN_JOURNAL);
        flags |= SQLITE_OPEN_SUBJOURNAL;
    }

    rc = base->xOpen(base, name, file, flags, out);

    if (rc != SQLITE_OK
        || !(type & SQLITE_OPEN_MAIN_DB)
        || file->pMethods->iVersion < 2
        || file->pMethods->xShmMap == NULL)
    {
        return rc;
    }

    f = ngx_http_sendfile_sqlite_vfs_data(file);

    f->base = file->pMethods;
    f->name = name;
    f->nmaps = 0;

    f->methods = *f->base;
    f->methods.xClose = ngx_http_sendfile_sqlite_vfs_close;
    f->methods.xShmMap = ngx_http_sendfile_sqlite_vfs_map;
    f->methods.xShmUnmap = ngx_http_sendfile_sqlite_vfs_unmap;

    file->pMethods = &f->methods;

    ngx_queue_insert_tail(&ngx_http_sendfile_sqlite_files, &f->queue);

    return SQLITE_OK;
}


static ngx_uint_t
ngx_http_sendfile_sqlite_vfs_regular(const char *name, const char *suffix)
{
    u_char            path[NGX_MAX_PATH + 16];
    ngx_file_info_t   fi;

    (void) ngx_snprintf(path, sizeof(path) - 1, "%s%s%Z", name, suffix);
    path[sizeof(path) - 1] = '\0';

    return ngx_file_info(path, &fi) != NGX_FILE_ERROR && ngx_is_file(&fi);
}


static int
ngx_http_sendfile_sqlite_vfs_close(sqlite3_file *file)
{
    ngx_http_sendfile_sqlite_file_t  *f;

    f = ngx_http_sendfile_sqlite_vfs_data(file);

    ngx_queue_remove(&f->queue);

    return f->base->xClose(file);
}


/* what is mapped has an address even if the result says "read-only" */

static int
ngx_http_sendfile_sqlite_vfs_map(sqlite3_file *file, int n, int size,
    int extend, void volatile **p)
{
    int                               rc;
    ngx_http_sendfile_sqlite_file_t  *f;

    f = ngx_http_sendfile_sqlite_vfs_data(file);

    *p = NULL;

    if (n >= NGX_HTTP_SENDFILE_SQLITE_MAPS) {
        return SQLITE_NOMEM;
    }

    if (f->nmaps == 0
        && !ngx_http_sendfile_sqlite_vfs_regular(f->name, "-shm"))
    {
        return SQLITE_CANTOPEN;
    }

    rc = f->base->xShmMap(file, n, size, extend, p);

    if (*p) {
        while (f->nmaps <= (ngx_uint_t) n) {
            f->maps[f->nmaps++] = NULL;
        }

        f->maps[n] = (u_char *) *p;
        f->map_size = size;
    }

    return rc;
}


static int
ngx_http_sendfile_sqlite_vfs_unmap(sqlite3_file *file, int remove)
{
    ngx_http_sendfile_sqlite_file_t  *f;

    f = ngx_http_sendfile_sqlite_vfs_data(file);

    f->nmaps = 0;

    /* never to be removed */

    return f->base->xShmUnmap(file, 0);
}


static ngx_http_sendfile_sqlite_file_t *
ngx_http_sendfile_sqlite_vfs_data(sqlite3_file *file)
{
    return (ngx_http_sendfile_sqlite_file_t *)
               ((u_char *) file + ngx_http_sendfile_sqlite_offset);
}


/* anything but a page of a -shm file is as if this were not here */

static void
ngx_http_sendfile_sqlite_vfs_handler(int signo, siginfo_t *info,
    void *context)
{
    u_char            *page;
    struct sigaction  *old;

    page = (u_char *) ((uintptr_t) info->si_addr
                       & ~((uintptr_t) ngx_pagesize - 1));

    if (info->si_code > 0
        && ngx_http_sendfile_sqlite_vfs_mapped(info->si_addr)
        && mmap(page, ngx_pagesize, PROT_READ|PROT_WRITE,
                MAP_PRIVATE|MAP_ANONYMOUS|MAP_FIXED, -1, 0)
           == page)
    {
        ngx_http_sendfile_sqlite_cut = 1;
        return;
    }

    old = &ngx_http_sendfile_sqlite_old;

    if (old->sa_flags & SA_SIGINFO) {
        old->sa_sigaction(signo, info, context);
        return;
    }

    if (old->sa_handler != SIG_DFL && old->sa_handler != SIG_IGN) {
        old->sa_handler(signo);
        return;
    }

    /* a fault comes again, and the kernel ends the process */

    (void) sigaction(signo, old, NULL);

    if (info->si_code <= 0) {
        (void) raise(signo);
    }
}


static ngx_uint_t
ngx_http_sendfile_sqlite_vfs_mapped(u_char *addr)
{
    ngx_uint_t                        i;
    ngx_queue_t                      *q;
    ngx_http_sendfile_sqlite_file_t  *f;

    for (q = ngx_queue_head(&ngx_http_sendfile_sqlite_files);
         q != ngx_queue_sentinel(&ngx_http_sendfile_sqlite_files);
         q = ngx_queue_next(q))
    {
        f = ngx_queue_data(q, ngx_http_sendfile_sqlite_file_t, queue);

        for (i = 0; i < f->nmaps; i++) {
            if (f->maps[i]
                && addr >= f->maps[i] && addr < f->maps[i] + f->map_size)
            {
                return 1;
            }
        }
    }

    return 0;
}


static int
ngx_http_sendfile_sqlite_vfs_delete(sqlite3_vfs *vfs, const char *name,
    int sync)
{
    return SQLITE_IOERR_DELETE;
}


/*
 * A worker has other things to do; but who holds what SQLite tries to lock, a
 * hundred times, may have lost its processor to us.
 */

static int
ngx_http_sendfile_sqlite_vfs_sleep(sqlite3_vfs *vfs, int microseconds)
{
    ngx_sched_yield();

    return microseconds;
}
