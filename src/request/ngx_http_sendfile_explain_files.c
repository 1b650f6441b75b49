
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * The folders on the way to a file: their mode and owner, and whether this
 * worker may enter them.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_explain.h"


static ngx_uint_t ngx_http_sendfile_explain_folder(
    ngx_http_sendfile_explain_t *ex, u_char *path, ngx_uint_t last);


void
ngx_http_sendfile_explain_folders(ngx_http_sendfile_explain_t *ex,
    ngx_str_t *path)
{
    u_char  *p, *copy, *end, c;

    copy = ngx_pnalloc(ex->asker->pool, path->len + 1);

    if (copy == NULL || path->len == 0 || path->data[0] != '/') {
        return;
    }

    (void) ngx_cpystrn(copy, path->data, path->len + 1);

    end = copy + ngx_strlen(copy);

    ngx_http_sendfile_json_open(&ex->steps, "folders", '[');

    for (p = copy + 1; p <= end; p++) {

        if (p != copy + 1 && p < end && *p != '/') {
            continue;
        }

        /* "/" is the first, and two slashes are one */

        if (p == copy + 1 || p[-1] != '/') {
            c = *p;
            *p = '\0';

            if (!ngx_http_sendfile_explain_folder(ex, copy, p == end)) {
                break;
            }

            *p = c;
        }
    }

    ngx_http_sendfile_json_close(&ex->steps, ']');
}


/* 0: nothing behind it can be looked at */

static ngx_uint_t
ngx_http_sendfile_explain_folder(ngx_http_sendfile_explain_t *ex, u_char *path,
    ngx_uint_t last)
{
    ngx_err_t                  err;
    ngx_uint_t                 allowed;
    const char                *type;
    struct stat                st;
    ngx_http_sendfile_out_t   *j;
    u_char                     mode[4];

    j = &ex->steps;

    ngx_http_sendfile_json_open(j, NULL, '{');
    ngx_http_sendfile_explain_bytes(j, "path", path, ngx_strlen(path));

    if (lstat((char *) path, &st) == -1) {
        err = ngx_errno;

        ngx_http_sendfile_json_bool(j, "allowed", 0);
        ngx_http_sendfile_json_uint(j, "errno", err);
        ngx_http_sendfile_json_close(j, '}');

        if (err == NGX_ENOENT || err == NGX_ENOTDIR) {
            ngx_http_sendfile_explain_advise(ex, "\"%s\" is not there: check "
                                             "the path in the store, or put "
                                             "the file there", path);
        }

        return 0;
    }

    type = S_ISDIR(st.st_mode) ? "directory"
           : S_ISREG(st.st_mode) ? "file"
           : S_ISLNK(st.st_mode) ? "link" : "other";

    /* by the process's own user, with its groups and access control lists */

    allowed = (access((char *) path, S_ISDIR(st.st_mode) && !last
                                     ? X_OK : R_OK)
               == 0);

    ngx_http_sendfile_json_text(j, "type", type);

    mode[0] = '0' + ((st.st_mode >> 9) & 7);
    mode[1] = '0' + ((st.st_mode >> 6) & 7);
    mode[2] = '0' + ((st.st_mode >> 3) & 7);
    mode[3] = '0' + (st.st_mode & 7);

    ngx_http_sendfile_explain_bytes(j, "mode", mode, 4);

    ngx_http_sendfile_json_uint(j, "uid", st.st_uid);
    ngx_http_sendfile_json_uint(j, "gid", st.st_gid);
    ngx_http_sendfile_json_bool(j, "allowed", allowed);
    ngx_http_sendfile_json_close(j, '}');

    if (allowed || S_ISLNK(st.st_mode)) {
        return 1;
    }

    ngx_http_sendfile_explain_advise(ex, "the workers' user (uid %ui) may not "
                                     "%s \"%s\": let it, such as by chmod o+%s",
                                     (ngx_uint_t) geteuid(),
                                     S_ISDIR(st.st_mode) ? "enter" : "read",
                                     path, S_ISDIR(st.st_mode) ? "x" : "r");

    return 0;
}
