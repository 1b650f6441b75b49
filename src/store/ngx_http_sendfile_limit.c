
/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "ngx_http_sendfile_limit.h"


#define NGX_HTTP_SENDFILE_LIMIT_MSEC  1000


static ngx_http_sendfile_limited_t *ngx_http_sendfile_limit_find(
    ngx_http_sendfile_limit_t *limit, const char *reason);


ngx_uint_t
ngx_http_sendfile_limit(ngx_http_sendfile_limit_t *limit, const char *reason,
    u_char *text)
{
    ngx_http_sendfile_limited_t  *l;

    *text = '\0';

    l = ngx_http_sendfile_limit_find(limit, reason);

    if (l->reason
        && ngx_current_msec - l->logged < NGX_HTTP_SENDFILE_LIMIT_MSEC)
    {
        l->left_out++;
        limit->left_out++;
        return 0;
    }

    if (l->left_out) {
        *ngx_snprintf(text, NGX_HTTP_SENDFILE_LIMIT_TEXT - 1,
                      " (%ui more of these not logged)", l->left_out) = '\0';
    }

    limit->left_out -= l->left_out;

    l->reason = reason;
    l->logged = ngx_current_msec;
    l->left_out = 0;

    return 1;
}


/* that of the reason, or one for it */

static ngx_http_sendfile_limited_t *
ngx_http_sendfile_limit_find(ngx_http_sendfile_limit_t *limit,
    const char *reason)
{
    ngx_uint_t                    i;
    ngx_http_sendfile_limited_t  *l, *oldest;

    oldest = &limit->reasons[0];

    for (i = 0; i < NGX_HTTP_SENDFILE_LIMIT_REASONS; i++) {
        l = &limit->reasons[i];

        if (l->reason == NULL || ngx_strcmp(l->reason, reason) == 0) {
            return l;
        }

        if ((ngx_msec_int_t) (l->logged - oldest->logged) < 0) {
            oldest = l;
        }
    }

    /* what it has left out is a count of another reason */

    limit->left_out -= oldest->left_out;
    ngx_memzero(oldest, sizeof(ngx_http_sendfile_limited_t));

    return oldest;
}


void
ngx_http_sendfile_limit_tell(ngx_http_sendfile_limit_t *limit,
    const char *what, ngx_str_t *name, ngx_uint_t all, ngx_log_t *log)
{
    ngx_uint_t                    i;
    ngx_http_sendfile_limited_t  *l;

    if (limit->left_out == 0) {
        return;
    }

    for (i = 0; i < NGX_HTTP_SENDFILE_LIMIT_REASONS; i++) {
        l = &limit->reasons[i];

        if (l->left_out == 0
            || (!all && ngx_current_msec - l->logged
                        < NGX_HTTP_SENDFILE_LIMIT_MSEC))
        {
            continue;
        }

        ngx_log_error(NGX_LOG_ERR, log, 0,
                      "http_sendfile: %s %V: %s (%ui more of these not "
                      "logged)", what, name, l->reason, l->left_out);

        limit->left_out -= l->left_out;

        l->logged = ngx_current_msec;
        l->left_out = 0;
    }
}
