
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * A worker keeps the directories that it serves from open.  A path that is
 * given up for another one (the "current" link of a deployment) is noticed
 * within a second, and after any purge at once.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#if (NGX_LINUX)
#include <sys/syscall.h>
#endif

#include "ngx_http_sendfile_root.h"


#define NGX_HTTP_SENDFILE_ROOTS    64
#define NGX_HTTP_SENDFILE_RETRIES  8

#ifdef O_PATH
#define NGX_HTTP_SENDFILE_O_DIR    (O_PATH|O_DIRECTORY|O_CLOEXEC)
#else
#define NGX_HTTP_SENDFILE_O_DIR    (O_RDONLY|O_DIRECTORY|O_CLOEXEC)
#endif

/* not to hang on a FIFO, not to gain a terminal */

#define NGX_HTTP_SENDFILE_O_FILE                                              \
    (O_RDONLY|O_NONBLOCK|O_NOCTTY|O_CLOEXEC)


/* openat2(2), Linux 5.6: the same number on every architecture */

#if (NGX_LINUX)

#define NGX_HTTP_SENDFILE_OPENAT2           437

#define NGX_HTTP_SENDFILE_NO_MAGICLINKS     0x02
#define NGX_HTTP_SENDFILE_NO_SYMLINKS       0x04
#define NGX_HTTP_SENDFILE_BENEATH           0x08

typedef struct {
    uint64_t               flags;
    uint64_t               mode;
    uint64_t               resolve;
} ngx_http_sendfile_how_t;

#endif


typedef struct {
    ngx_str_node_t         sn;
    ngx_queue_t            queue;
    ngx_fd_t               fd;
    ngx_file_uniq_t        uniq;
    dev_t                  dev;
    time_t                 checked;
    ngx_atomic_uint_t      generation;
} ngx_http_sendfile_root_t;


static ngx_http_sendfile_root_t *ngx_http_sendfile_root_get(ngx_str_t *root,
    ngx_atomic_uint_t generation, ngx_err_t *err, ngx_log_t *log);
static ngx_http_sendfile_root_t *ngx_http_sendfile_root_find(ngx_str_t *root,
    ngx_log_t *log);
static ngx_int_t ngx_http_sendfile_root_reopen(ngx_http_sendfile_root_t *rt,
    ngx_err_t *err);
static ngx_http_sendfile_root_t *ngx_http_sendfile_root_create(
    ngx_str_t *root, uint32_t hash, ngx_log_t *log);
static void ngx_http_sendfile_root_free(ngx_http_sendfile_root_t *rt);
static ngx_fd_t ngx_http_sendfile_root_beneath(ngx_fd_t dir, ngx_str_t *path,
    ngx_uint_t symlinks, ngx_err_t *err, ngx_log_t *log);
static ngx_fd_t ngx_http_sendfile_root_walk(ngx_fd_t dir, ngx_str_t *path,
    ngx_err_t *err);


/* of this worker, most recently used first */

static ngx_rbtree_t       ngx_http_sendfile_roots;
static ngx_rbtree_node_t  ngx_http_sendfile_roots_sentinel;
static ngx_queue_t        ngx_http_sendfile_roots_queue;
static ngx_uint_t         ngx_http_sendfile_nroots;

#if (NGX_LINUX)
static ngx_uint_t         ngx_http_sendfile_no_openat2;
#endif


ngx_fd_t
ngx_http_sendfile_root_open(ngx_str_t *root, ngx_str_t *path,
    ngx_uint_t symlinks, ngx_atomic_uint_t generation, ngx_file_info_t *fi,
    const char **reason, ngx_err_t *err, ngx_log_t *log)
{
    ngx_fd_t                   fd;
    ngx_http_sendfile_root_t  *rt;

    rt = ngx_http_sendfile_root_get(root, generation, err, log);

    if (rt == NULL) {
        *reason = "cannot open root";
        return NGX_INVALID_FILE;
    }

    fd = ngx_http_sendfile_root_beneath(rt->fd, path, symlinks, err, log);

    if (fd == NGX_INVALID_FILE) {

        switch (*err) {

        case NGX_ENOENT:
        case NGX_ENOTDIR:
        case NGX_ENAMETOOLONG:
            *reason = "missing file";
            break;

        case NGX_ELOOP:
            *reason = "symbolic link";
            break;

        case NGX_EXDEV:
            *reason = "outside root";
            break;

        default:
            *reason = "cannot open file";
        }

        return NGX_INVALID_FILE;
    }

    if (ngx_fd_info(fd, fi) == NGX_FILE_ERROR) {
        *err = ngx_errno;
        *reason = "cannot stat file";

    } else if (!ngx_is_file(fi)) {
        *err = 0;
        *reason = "not a regular file";

    } else {
        return fd;
    }

    if (ngx_close_file(fd) == NGX_FILE_ERROR) {
        ngx_log_error(NGX_LOG_ALERT, log, ngx_errno,
                      ngx_close_file_n " \"%V\" failed", path);
    }

    return NGX_INVALID_FILE;
}


static ngx_http_sendfile_root_t *
ngx_http_sendfile_root_get(ngx_str_t *root, ngx_atomic_uint_t generation,
    ngx_err_t *err, ngx_log_t *log)
{
    ngx_http_sendfile_root_t  *rt;

    rt = ngx_http_sendfile_root_find(root, log);

    if (rt == NULL) {
        *err = NGX_ENOMEM;
        return NULL;
    }

    /* looked at in this second, and not before the last purge of the file */

    if (rt->fd != NGX_INVALID_FILE
        && rt->checked == ngx_time()
        && rt->generation >= generation)
    {
        return rt;
    }

    if (ngx_http_sendfile_root_reopen(rt, err) != NGX_OK) {
        return NULL;
    }

    rt->checked = ngx_time();
    rt->generation = generation;

    return rt;
}


static ngx_http_sendfile_root_t *
ngx_http_sendfile_root_find(ngx_str_t *root, ngx_log_t *log)
{
    uint32_t                   hash;
    ngx_queue_t               *q;
    ngx_http_sendfile_root_t  *rt;

    if (ngx_http_sendfile_roots.root == NULL) {
        ngx_rbtree_init(&ngx_http_sendfile_roots,
                        &ngx_http_sendfile_roots_sentinel,
                        ngx_str_rbtree_insert_value);
        ngx_queue_init(&ngx_http_sendfile_roots_queue);
    }

    /* the one used last: most workers have but one */

    if (!ngx_queue_empty(&ngx_http_sendfile_roots_queue)) {
        q = ngx_queue_head(&ngx_http_sendfile_roots_queue);
        rt = ngx_queue_data(q, ngx_http_sendfile_root_t, queue);

        if (rt->sn.str.len == root->len
            && ngx_memcmp(rt->sn.str.data, root->data, root->len) == 0)
        {
            return rt;
        }
    }

    hash = ngx_crc32_short(root->data, root->len);

    rt = (ngx_http_sendfile_root_t *)
             ngx_str_rbtree_lookup(&ngx_http_sendfile_roots, root, hash);

    if (rt == NULL) {
        return ngx_http_sendfile_root_create(root, hash, log);
    }

    ngx_queue_remove(&rt->queue);
    ngx_queue_insert_head(&ngx_http_sendfile_roots_queue, &rt->queue);

    return rt;
}


/* the directory that the path leads to now */

static ngx_int_t
ngx_http_sendfile_root_reopen(ngx_http_sendfile_root_t *rt, ngx_err_t *err)
{
    ngx_file_info_t  fi;

    if (rt->fd != NGX_INVALID_FILE) {

        if (ngx_file_info(rt->sn.str.data, &fi) != NGX_FILE_ERROR
            && fi.st_dev == rt->dev && ngx_file_uniq(&fi) == rt->uniq)
        {
            return NGX_OK;
        }

        (void) ngx_close_file(rt->fd);
    }

    rt->fd = open((char *) rt->sn.str.data, NGX_HTTP_SENDFILE_O_DIR);

    if (rt->fd == NGX_INVALID_FILE) {
        *err = ngx_errno;
        return NGX_ERROR;
    }

    if (ngx_fd_info(rt->fd, &fi) == NGX_FILE_ERROR) {
        *err = ngx_errno;
        (void) ngx_close_file(rt->fd);
        rt->fd = NGX_INVALID_FILE;
        return NGX_ERROR;
    }

    rt->dev = fi.st_dev;
    rt->uniq = ngx_file_uniq(&fi);

    return NGX_OK;
}


static ngx_http_sendfile_root_t *
ngx_http_sendfile_root_create(ngx_str_t *root, uint32_t hash, ngx_log_t *log)
{
    ngx_queue_t               *q;
    ngx_http_sendfile_root_t  *rt;

    if (ngx_http_sendfile_nroots == NGX_HTTP_SENDFILE_ROOTS) {
        q = ngx_queue_last(&ngx_http_sendfile_roots_queue);
        rt = ngx_queue_data(q, ngx_http_sendfile_root_t, queue);
        ngx_http_sendfile_root_free(rt);
    }

    rt = ngx_alloc(sizeof(ngx_http_sendfile_root_t) + root->len + 1, log);
    if (rt == NULL) {
        return NULL;
    }

    ngx_memzero(rt, sizeof(ngx_http_sendfile_root_t));

    rt->fd = NGX_INVALID_FILE;

    rt->sn.node.key = hash;
    rt->sn.str.len = root->len;
    rt->sn.str.data = (u_char *) rt + sizeof(ngx_http_sendfile_root_t);
    (void) ngx_cpystrn(rt->sn.str.data, root->data, root->len + 1);

    ngx_rbtree_insert(&ngx_http_sendfile_roots, &rt->sn.node);
    ngx_queue_insert_head(&ngx_http_sendfile_roots_queue, &rt->queue);
    ngx_http_sendfile_nroots++;

    return rt;
}


static void
ngx_http_sendfile_root_free(ngx_http_sendfile_root_t *rt)
{
    if (rt->fd != NGX_INVALID_FILE) {
        (void) ngx_close_file(rt->fd);
    }

    ngx_rbtree_delete(&ngx_http_sendfile_roots, &rt->sn.node);
    ngx_queue_remove(&rt->queue);
    ngx_http_sendfile_nroots--;

    ngx_free(rt);
}


/*
 * The kernel keeps the path below the directory.  Where openat2() is missing
 * or forbidden (an old kernel, a seccomp filter) we walk; never a plain open.
 */

static ngx_fd_t
ngx_http_sendfile_root_beneath(ngx_fd_t dir, ngx_str_t *path,
    ngx_uint_t symlinks, ngx_err_t *err, ngx_log_t *log)
{
#if (NGX_LINUX)
    ngx_fd_t                 fd;
    ngx_uint_t               i;
    ngx_http_sendfile_how_t  how;

    if (!ngx_http_sendfile_no_openat2) {

        how.flags = NGX_HTTP_SENDFILE_O_FILE;
        how.mode = 0;
        how.resolve = NGX_HTTP_SENDFILE_BENEATH
                      |NGX_HTTP_SENDFILE_NO_MAGICLINKS;

        if (!symlinks) {
            how.resolve |= NGX_HTTP_SENDFILE_NO_SYMLINKS;
        }

        /* EAGAIN: something on the way was renamed or mounted just now */

        for (i = 0; i < NGX_HTTP_SENDFILE_RETRIES; i++) {

            fd = syscall(NGX_HTTP_SENDFILE_OPENAT2, dir, path->data, &how,
                         sizeof(ngx_http_sendfile_how_t));

            if (fd != NGX_INVALID_FILE) {
                return fd;
            }

            *err = ngx_errno;

            if (*err != NGX_EAGAIN && *err != NGX_EINTR) {
                break;
            }
        }

        if (*err != NGX_ENOSYS && *err != NGX_EPERM) {
            return NGX_INVALID_FILE;
        }

        /* EPERM may be about this file alone */

        how.flags = NGX_HTTP_SENDFILE_O_DIR;

        fd = syscall(NGX_HTTP_SENDFILE_OPENAT2, dir, ".", &how,
                     sizeof(ngx_http_sendfile_how_t));

        if (fd != NGX_INVALID_FILE) {
            (void) ngx_close_file(fd);

        } else {
            ngx_log_error(NGX_LOG_NOTICE, log, *err,
                          "http_sendfile: openat2() is not available, files "
                          "are opened component by component and symbolic "
                          "links are never followed");

            ngx_http_sendfile_no_openat2 = 1;
        }
    }
#endif

    return ngx_http_sendfile_root_walk(dir, path, err);
}


static ngx_fd_t
ngx_http_sendfile_root_walk(ngx_fd_t dir, ngx_str_t *path, ngx_err_t *err)
{
    u_char           *p, *slash;
    size_t            len;
    ngx_fd_t          at, fd;
    ngx_file_info_t   fi;
    u_char            name[NAME_MAX + 1];

    at = dir;
    p = path->data;

    for ( ;; ) {
        slash = (u_char *) ngx_strchr(p, '/');

        if (slash == NULL) {
            fd = openat(at, (char *) p, NGX_HTTP_SENDFILE_O_FILE|O_NOFOLLOW);

        } else {
            len = slash - p;

            if (len > NAME_MAX) {
                fd = NGX_INVALID_FILE;
                ngx_set_errno(NGX_ENAMETOOLONG);

            } else {
                (void) ngx_cpystrn(name, p, len + 1);
                fd = openat(at, (char *) name,
                            NGX_HTTP_SENDFILE_O_DIR|O_NOFOLLOW);
            }
        }

        *err = (fd == NGX_INVALID_FILE) ? ngx_errno : 0;

        if (*err == NGX_ENOTDIR
            && fstatat(at, (char *) name, &fi, AT_SYMLINK_NOFOLLOW) == 0
            && ngx_is_link(&fi))
        {
            /* what openat2() says */
            *err = NGX_ELOOP;
        }

        if (at != dir) {
            (void) ngx_close_file(at);
        }

        if (fd == NGX_INVALID_FILE || slash == NULL) {
            return fd;
        }

        at = fd;
        p = slash + 1;
    }
}
