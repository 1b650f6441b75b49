
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * A body is never believed for longer than a look at its file says.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_sendfile_body.h"


/*
 * A file that is written in place may change twice within one tick of the
 * file system's clock, and the second time shows nowhere: what is younger
 * than that is not kept.  The times of a file that are set by a program are
 * no proof, its ctime is.
 */

#define NGX_HTTP_SENDFILE_BODY_AGE        2000
#define NGX_HTTP_SENDFILE_BODY_CTIME_AGE  100


/* before the bytes of a file: what is printed once, not for each response */

typedef struct {
    ngx_http_sendfile_ident_t       ident;
    ngx_http_sendfile_validators_t  validators;
} ngx_http_sendfile_body_head_t;


static ngx_uint_t ngx_http_sendfile_body_settled(
    ngx_http_sendfile_ident_t *ident);
static void ngx_http_sendfile_body_put(ngx_http_sendfile_body_t *body,
    u_char *data);


#define ngx_http_sendfile_body_looked(body, found)                            \
    ngx_http_sendfile_zone_looked((body)->zone, NGX_HTTP_SENDFILE_STATS_BODY, \
                                  found)


ngx_int_t
ngx_http_sendfile_body_get(ngx_http_sendfile_body_t *body, ngx_msec_t check,
    ngx_pool_t *pool)
{
    nsf_shard_value_t               v;
    ngx_http_sendfile_body_head_t  *head;

    ngx_http_sendfile_zone_hash(body->zone, &body->name);

    body->data = NULL;

    if (ngx_http_sendfile_zone_get(body->zone, &body->name, &v, pool)
        != NSF_SHARD_OK
        || v.len < sizeof(ngx_http_sendfile_body_head_t))
    {
        ngx_http_sendfile_body_looked(body, 0);
        return NGX_DECLINED;
    }

    head = (ngx_http_sendfile_body_head_t *) v.data;

    if (head->ident.size != v.len - sizeof(ngx_http_sendfile_body_head_t)
        || head->validators.date_len > NGX_HTTP_SENDFILE_DATE
        || head->validators.etag_len > NGX_HTTP_SENDFILE_ETAG)
    {
        return NGX_DECLINED;
    }

    body->ident = head->ident;
    body->validators = &head->validators;
    body->data = (u_char *) (head + 1);

    if (v.generation >= body->moment.due
        && v.valid + check > ngx_current_msec)
    {
        ngx_http_sendfile_body_looked(body, 1);
        return NGX_OK;
    }

    /* a look at the file says whether it was found: body_check() */

    return NGX_AGAIN;
}


ngx_int_t
ngx_http_sendfile_body_check(ngx_http_sendfile_body_t *body,
    ngx_file_info_t *fi)
{
    ngx_http_sendfile_ident_t  ident;

    ngx_http_sendfile_ident_set(&ident, fi);

    if (!ngx_http_sendfile_ident_same(&ident, &body->ident)) {
        body->data = NULL;
        ngx_http_sendfile_zone_delete(body->zone, &body->name);
        ngx_http_sendfile_body_looked(body, 0);
        return NGX_DECLINED;
    }

    ngx_http_sendfile_body_looked(body, 1);

    /* the same bytes again: just the times are set */

    ngx_http_sendfile_body_put(body, body->data
                                     - sizeof(ngx_http_sendfile_body_head_t));

    return NGX_OK;
}


ngx_int_t
ngx_http_sendfile_body_read(ngx_http_sendfile_body_t *body, ngx_file_t *file,
    ngx_pool_t *pool)
{
    size_t                          size;
    u_char                         *p;
    ssize_t                         n;
    ngx_file_info_t                 fi;
    ngx_http_sendfile_ident_t      *ident, after;
    ngx_http_sendfile_body_head_t  *head;

    ident = &body->ident;

    ngx_http_sendfile_ident_set(ident, &file->info);

    if (!ngx_http_sendfile_body_settled(ident)) {
        return NGX_DECLINED;
    }

    size = ident->size;

    head = ngx_palloc(pool, sizeof(ngx_http_sendfile_body_head_t) + size);
    if (head == NULL) {
        return NGX_ERROR;
    }

    ngx_memzero(head, sizeof(ngx_http_sendfile_body_head_t));

    head->ident = *ident;
    ngx_http_sendfile_print_validators(&head->validators, ident->mtime, size);

    p = (u_char *) (head + 1);

    n = ngx_read_file(file, p, size, 0);

    if (n == NGX_ERROR) {
        return NGX_ERROR;
    }

    if (ngx_fd_info(file->fd, &fi) == NGX_FILE_ERROR) {
        ngx_log_error(NGX_LOG_CRIT, file->log, ngx_errno,
                      ngx_fd_info_n " \"%V\" failed", &file->name);
        return NGX_ERROR;
    }

    ngx_http_sendfile_ident_set(&after, &fi);

    if ((size_t) n != size || !ngx_http_sendfile_ident_same(ident, &after)) {
        return NGX_DECLINED;
    }

    ngx_http_sendfile_body_put(body, (u_char *) head);

    body->validators = &head->validators;
    body->data = p;

    return NGX_OK;
}


static ngx_uint_t
ngx_http_sendfile_body_settled(ngx_http_sendfile_ident_t *ident)
{
    int64_t      now, age;
    ngx_time_t  *tp;

    tp = ngx_timeofday();
    now = (int64_t) tp->sec * 1000 + tp->msec;

    age = now - (ident->mtime * 1000 + ident->mtime_nsec / 1000000);

    if (age < NGX_HTTP_SENDFILE_BODY_AGE) {
        return 0;
    }

    age = now - (ident->ctime * 1000 + ident->ctime_nsec / 1000000);

    /* a file system that counts in seconds */

    return age >= (ident->ctime_nsec ? NGX_HTTP_SENDFILE_BODY_CTIME_AGE
                                     : NGX_HTTP_SENDFILE_BODY_AGE);
}


/* the file has been looked at in this turn of the event loop */

static void
ngx_http_sendfile_body_put(ngx_http_sendfile_body_t *body, u_char *data)
{
    nsf_shard_rc_e     rc;
    nsf_shard_value_t  v;

    ngx_memzero(&v, sizeof(nsf_shard_value_t));

    v.data = data;
    v.len = sizeof(ngx_http_sendfile_body_head_t) + body->ident.size;
    v.valid = ngx_current_msec;
    v.generation = body->moment.now;

    rc = ngx_http_sendfile_zone_put(body->zone, &body->name, &v);

    ngx_http_sendfile_zone_kept(body->zone, NGX_HTTP_SENDFILE_STATS_BODY, rc);
}
