
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Opening a file below a directory and nowhere else.
 */


#ifndef _NGX_HTTP_SENDFILE_ROOT_H_INCLUDED_
#define _NGX_HTTP_SENDFILE_ROOT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * Opens a regular file for reading.  "root" is an absolute path, "path" one
 * that has passed nsf_path_check(); both null-terminated, the null not
 * counted.  No component of the path is followed if it is a symbolic link;
 * with "symlinks" those are that stay below the root.  "generation" is the
 * clock's: the root's own path has been looked at since then, too.
 *
 * Returns a descriptor and fills "fi", or NGX_INVALID_FILE, an errno in
 * "*err" (0 if there is none) and in "*reason" what failed in a few words.
 */

ngx_fd_t ngx_http_sendfile_root_open(ngx_str_t *root, ngx_str_t *path,
    ngx_uint_t symlinks, ngx_atomic_uint_t generation, ngx_file_info_t *fi,
    const char **reason, ngx_err_t *err, ngx_log_t *log);


#endif /* _NGX_HTTP_SENDFILE_ROOT_H_INCLUDED_ */
