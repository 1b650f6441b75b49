
/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_sendfile_print.h"


static u_char *ngx_http_sendfile_print_hex(u_char *p, int64_t n);
static u_char *ngx_http_sendfile_print_two(u_char *p, ngx_uint_t n);


/* the ETag as ngx_http_set_etag(), from the last byte on */

void
ngx_http_sendfile_print_validators(ngx_http_sendfile_validators_t *v,
    time_t mtime, off_t size)
{
    u_char  *p;

    v->date_len = ngx_http_sendfile_print_date(v->date, mtime);

    p = v->etag + NGX_HTTP_SENDFILE_ETAG;

    *--p = '"';
    p = ngx_http_sendfile_print_hex(p, size);
    *--p = '-';
    p = ngx_http_sendfile_print_hex(p, mtime);
    *--p = '"';

    v->etag_len = v->etag + NGX_HTTP_SENDFILE_ETAG - p;
}


size_t
ngx_http_sendfile_print_date(u_char *p, time_t time)
{
    ngx_tm_t  tm;

    static const char  days[] = "Sun, Mon, Tue, Wed, Thu, Fri, Sat, ";
    static const char  months[] =
        " Jan  Feb  Mar  Apr  May  Jun  Jul  Aug  Sep  Oct  Nov  Dec ";

    ngx_gmtime(time, &tm);

    if (time == -1 || tm.ngx_tm_year > 9999) {
        return 0;
    }

    p = ngx_cpymem(p, &days[tm.ngx_tm_wday * 5], 5);
    p = ngx_http_sendfile_print_two(p, tm.ngx_tm_mday);
    p = ngx_cpymem(p, &months[(tm.ngx_tm_mon - 1) * 5], 5);
    p = ngx_http_sendfile_print_two(p, tm.ngx_tm_year / 100);
    p = ngx_http_sendfile_print_two(p, tm.ngx_tm_year % 100);
    *p++ = ' ';
    p = ngx_http_sendfile_print_two(p, tm.ngx_tm_hour);
    *p++ = ':';
    p = ngx_http_sendfile_print_two(p, tm.ngx_tm_min);
    *p++ = ':';
    p = ngx_http_sendfile_print_two(p, tm.ngx_tm_sec);
    ngx_memcpy(p, " GMT", 4);

    return NGX_HTTP_SENDFILE_DATE;
}


/* before "p"; returns where it begins */

static u_char *
ngx_http_sendfile_print_hex(u_char *p, int64_t n)
{
    uint64_t  rest;

    static const u_char  hex[] = "0123456789abcdef";

    rest = (n < 0) ? 0 - (uint64_t) n : (uint64_t) n;

    do {
        *--p = hex[rest & 0xf];
        rest >>= 4;
    } while (rest);

    if (n < 0) {
        *--p = '-';
    }

    return p;
}


static u_char *
ngx_http_sendfile_print_two(u_char *p, ngx_uint_t n)
{
    *p++ = (u_char) ('0' + n / 10);
    *p++ = (u_char) ('0' + n % 10);

    return p;
}
