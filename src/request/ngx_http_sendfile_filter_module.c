
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * The header filter: type, name and headers of a record on the answer that
 * delivers it, and what is to be seen of an answer to learn from it.  It runs
 * before the not_modified filter, so that a record's ETag and Last-Modified
 * count in conditional requests.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_request.h"
#include "ngx_http_sendfile_accept.h"
#include "ngx_http_sendfile_compat.h"
#include "ngx_http_sendfile_deliver.h"
#include "ngx_http_sendfile_headers.h"
#include "ngx_http_sendfile_learn.h"
#include "nsf_disposition.h"


#define NGX_HTTP_SENDFILE_MAX_EXTEN  32


static ngx_int_t ngx_http_sendfile_header_filter(ngx_http_request_t *r);
static ngx_int_t ngx_http_sendfile_add_age(ngx_http_request_t *r,
    int64_t age);
static void ngx_http_sendfile_clean_record(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx);
static void ngx_http_sendfile_drop_record(ngx_http_request_t *r,
    nsf_target_t *t);
static void ngx_http_sendfile_set_type(ngx_http_request_t *r,
    nsf_target_t *t);
static void ngx_http_sendfile_type_by_name(ngx_http_request_t *r,
    nsf_str_t *name);
static ngx_int_t ngx_http_sendfile_add_disposition(ngx_http_request_t *r,
    nsf_target_t *t);
static ngx_int_t ngx_http_sendfile_add_header(ngx_http_request_t *r,
    nsf_header_t *header);
static ngx_int_t ngx_http_sendfile_push_header(ngx_http_request_t *r,
    ngx_str_t *name, ngx_str_t *value);
static void ngx_http_sendfile_drop_header(ngx_http_request_t *r,
    ngx_str_t *name);
#if (NGX_HTTP_SENDFILE_EARLY_HINTS)
static ngx_int_t ngx_http_sendfile_early_hints_filter(ngx_http_request_t *r);
#endif
static ngx_int_t ngx_http_sendfile_filter_init(ngx_conf_t *cf);


static ngx_http_module_t  ngx_http_sendfile_filter_module_ctx = {
    NULL,                                  /* preconfiguration */
    ngx_http_sendfile_filter_init,         /* postconfiguration */

    NULL,                                  /* create main configuration */
    NULL,                                  /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    NULL,                                  /* create location configuration */
    NULL                                   /* merge location configuration */
};


ngx_module_t  ngx_http_sendfile_filter_module = {
    NGX_MODULE_V1,
    &ngx_http_sendfile_filter_module_ctx,  /* module context */
    NULL,                                  /* module directives */
    NGX_HTTP_MODULE,                       /* module type */
    NULL,                                  /* init master */
    NULL,                                  /* init module */
    NULL,                                  /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    NULL,                                  /* exit process */
    NULL,                                  /* exit master */
    NGX_MODULE_V1_PADDING
};


static ngx_http_output_header_filter_pt  ngx_http_next_header_filter;
#if (NGX_HTTP_SENDFILE_EARLY_HINTS)
static ngx_http_output_header_filter_pt  ngx_http_next_early_hints_filter;
#endif

static ngx_str_t  ngx_http_sendfile_disposition =
    ngx_string("Content-Disposition");
static ngx_str_t  ngx_http_sendfile_age = ngx_string("Age");


static ngx_int_t
ngx_http_sendfile_header_filter(ngx_http_request_t *r)
{
    ngx_uint_t                delivers;
    ngx_http_sendfile_ctx_t  *ctx;

    ctx = ngx_http_sendfile_get_ctx(r);

    if (ctx == NULL) {
        return ngx_http_next_header_filter(r);
    }

    /* set by what delivers the target, cleared by any redirect after it */

    delivers = (ngx_http_get_module_ctx(r, ngx_http_sendfile_filter_module)
                != NULL);

    if (ctx->learn) {
        ngx_http_sendfile_learn_settle(r, ctx, delivers);
    }

    if (ctx->asked && !delivers) {
        ngx_http_sendfile_asked_settle(r, ctx);
    }

    if (r == r->main && ngx_http_sendfile_add_cache_status(r, ctx) != NGX_OK) {
        return NGX_ERROR;
    }

    if (!delivers) {
        ngx_http_sendfile_clean_record(r, ctx);
        return ngx_http_next_header_filter(r);
    }

    switch (r->headers_out.status) {

    case NGX_HTTP_OK:
    case NGX_HTTP_PARTIAL_CONTENT:
    case NGX_HTTP_NOT_MODIFIED:

        /* the application's headers, and the file's own in their place */

        if ((ctx->answer
             && ngx_http_sendfile_add_record(r, &ctx->answer->kept) != NGX_OK)
            || ngx_http_sendfile_add_record(r, &ctx->outcome.target) != NGX_OK
            || ngx_http_sendfile_set_last_modified(r) != NGX_OK)
        {
            return NGX_ERROR;
        }

        if (ctx->learn
            && ctx->learn->fate == NGX_HTTP_SENDFILE_LEARN_USED
            && ngx_http_sendfile_add_age(r, ctx->learn->age) != NGX_OK)
        {
            return NGX_ERROR;
        }

        ctx->decorated = 1;
        break;

    default:
        ngx_http_sendfile_clean_record(r, ctx);
    }

    return ngx_http_next_header_filter(r);
}


ngx_int_t
ngx_http_sendfile_add_record(ngx_http_request_t *r, nsf_target_t *t)
{
    size_t     i;
    ngx_str_t  name;

    if (r->headers_out.status != NGX_HTTP_NOT_MODIFIED) {
        ngx_http_sendfile_set_type(r, t);
    }

    if (t->name.len || t->disposition != NSF_DISPOSITION_NONE) {
        if (ngx_http_sendfile_add_disposition(r, t) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    /* all lines of one name are replaced by all lines of that name */

    for (i = 0; i < t->nheaders; i++) {
        name.data = (u_char *) t->headers[i].name.data;
        name.len = t->headers[i].name.len;

        ngx_http_sendfile_drop_header(r, &name);
    }

    for (i = 0; i < t->nheaders; i++) {
        if (ngx_http_sendfile_add_header(r, &t->headers[i]) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/*
 * How old a learned answer is: what is left of its lifetime is what it says
 * less that.
 */

static ngx_int_t
ngx_http_sendfile_add_age(ngx_http_request_t *r, int64_t age)
{
    u_char     *p;
    ngx_str_t   value;

    p = ngx_pnalloc(r->pool, NGX_INT64_LEN);
    if (p == NULL) {
        return NGX_ERROR;
    }

    /* the digits, from the last one on */

    p += NGX_INT64_LEN;
    value.len = 0;

    do {
        *--p = (u_char) (age % 10 + '0');
        value.len++;
        age /= 10;
    } while (age);

    value.data = p;

    ngx_http_sendfile_drop_header(r, &ngx_http_sendfile_age);

    return ngx_http_sendfile_push_header(r, &ngx_http_sendfile_age, &value);
}


/*
 * A later filter may answer with an error after the record's headers were
 * added, such as 416 for a range that cannot be satisfied: they are removed.
 */

static void
ngx_http_sendfile_clean_record(ngx_http_request_t *r,
    ngx_http_sendfile_ctx_t *ctx)
{
    if (!ctx->decorated) {
        return;
    }

    ctx->decorated = 0;

    ngx_http_sendfile_drop_record(r, &ctx->outcome.target);

    if (ctx->answer) {
        ngx_http_sendfile_drop_record(r, &ctx->answer->kept);
    }

    ngx_http_sendfile_clean_headers_out(r);
}


static void
ngx_http_sendfile_drop_record(ngx_http_request_t *r, nsf_target_t *t)
{
    size_t                        i;
    ngx_table_elt_t              *h;
    ngx_http_sendfile_headers_t   it;

    /* a charset of the record's type is a slice of it */

    if (r->headers_out.charset.data >= t->type.data
        && r->headers_out.charset.data < t->type.data + t->type.len)
    {
        ngx_str_null(&r->headers_out.charset);
    }

    for (h = ngx_http_sendfile_headers_first(&it,
                                             &r->headers_out.headers.part);
         h;
         h = ngx_http_sendfile_headers_next(&it))
    {
        /* a line that was added here has our pointer for its name */

        if (h->key.data == ngx_http_sendfile_disposition.data
            || h->key.data == ngx_http_sendfile_age.data
            || h->key.data == ngx_http_sendfile_last_modified.data)
        {
            h->hash = 0;
            continue;
        }

        for (i = 0; i < t->nheaders; i++) {
            if (h->key.data == t->headers[i].name.data) {
                h->hash = 0;
                break;
            }
        }
    }
}


/* as ngx_http_upstream_copy_content_type() */

static void
ngx_http_sendfile_set_type(ngx_http_request_t *r, nsf_target_t *t)
{
    u_char  *p, *last, *semicolon;

    if (t->type.len == 0) {
        ngx_http_sendfile_type_by_name(r, &t->name);
        return;
    }

    p = (u_char *) t->type.data;
    last = p + t->type.len;

    ngx_str_null(&r->headers_out.charset);

    r->headers_out.content_type.data = p;
    r->headers_out.content_type.len = t->type.len;
    r->headers_out.content_type_len = t->type.len;
    r->headers_out.content_type_lowcase = NULL;
    r->headers_out.content_type_hash = 0;

    for ( ;; ) {
        semicolon = ngx_strlchr(p, last, ';');

        if (semicolon == NULL) {
            return;
        }

        p = semicolon + 1;

        while (p < last && *p == ' ') {
            p++;
        }

        if (last - p > 8
            && ngx_strncasecmp(p, (u_char *) "charset=", 8) == 0)
        {
            break;
        }
    }

    p += 8;

    if (*p == '"') {
        p++;
    }

    if (last > p && *(last - 1) == '"') {
        last--;
    }

    r->headers_out.content_type_len = semicolon - t->type.data;
    r->headers_out.charset.data = p;
    r->headers_out.charset.len = last - p;
}


/* what the location's types say of the download name, if anything */

static void
ngx_http_sendfile_type_by_name(ngx_http_request_t *r, nsf_str_t *name)
{
    size_t                     i, len;
    ngx_str_t                 *type;
    ngx_uint_t                 hash;
    ngx_http_core_loc_conf_t  *clcf;
    u_char                     exten[NGX_HTTP_SENDFILE_MAX_EXTEN];

    for (i = name->len; i > 1; i--) {
        if (name->data[i - 1] == '.') {
            break;
        }
    }

    if (i <= 1) {
        return;
    }

    len = name->len - i;

    if (len == 0 || len > NGX_HTTP_SENDFILE_MAX_EXTEN) {
        return;
    }

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    hash = ngx_hash_strlow(exten, (u_char *) name->data + i, len);

    type = ngx_hash_find(&clcf->types_hash, hash, exten, len);

    if (type) {
        ngx_str_null(&r->headers_out.charset);
        r->headers_out.content_type = *type;
        r->headers_out.content_type_len = type->len;
        r->headers_out.content_type_lowcase = NULL;
        r->headers_out.content_type_hash = 0;
    }
}


static ngx_int_t
ngx_http_sendfile_add_disposition(ngx_http_request_t *r, nsf_target_t *t)
{
    ngx_str_t  value;

    value.len = nsf_disposition(NULL, t->disposition, &t->name);

    value.data = ngx_pnalloc(r->pool, value.len);
    if (value.data == NULL) {
        return NGX_ERROR;
    }

    (void) nsf_disposition(value.data, t->disposition, &t->name);

    ngx_http_sendfile_drop_header(r, &ngx_http_sendfile_disposition);

    return ngx_http_sendfile_push_header(r, &ngx_http_sendfile_disposition,
                                         &value);
}


static ngx_int_t
ngx_http_sendfile_add_header(ngx_http_request_t *r, nsf_header_t *header)
{
    time_t     time;
    ngx_str_t  name, value;

    name.data = (u_char *) header->name.data;
    name.len = header->name.len;
    value.data = (u_char *) header->value.data;
    value.len = header->value.len;

    if (ngx_http_sendfile_name_is(&name, "Last-Modified")) {

        time = ngx_parse_http_time(value.data, value.len);

        if (time == NGX_ERROR) {
            ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                          "http_sendfile: Last-Modified \"%V\" of a record "
                          "or of the application is no HTTP date, ignored",
                          &value);
            return NGX_OK;
        }

        ngx_http_clear_last_modified(r);
        r->headers_out.last_modified_time = time;

        return NGX_OK;
    }

    return ngx_http_sendfile_push_header(r, &name, &value);
}


/* and sets the pointers to the headers that nginx's own filters read */

static ngx_int_t
ngx_http_sendfile_push_header(ngx_http_request_t *r, ngx_str_t *name,
    ngx_str_t *value)
{
    ngx_table_elt_t  *h;

    h = ngx_list_push(&r->headers_out.headers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    h->hash = 1;
    h->key = *name;
    h->value = *value;
    ngx_http_sendfile_last_header(h);

    if (ngx_http_sendfile_name_is(name, "ETag")) {
        r->headers_out.etag = h;

    } else if (ngx_http_sendfile_name_is(name, "Expires")) {
        r->headers_out.expires = h;

    } else if (ngx_http_sendfile_name_is(name, "Content-Encoding")) {
        r->headers_out.content_encoding = h;

    } else if (ngx_http_sendfile_name_is(name, "Cache-Control")) {
        return ngx_http_sendfile_set_cache_control(r, h);
    }

    return NGX_OK;
}


static void
ngx_http_sendfile_drop_header(ngx_http_request_t *r, ngx_str_t *name)
{
    ngx_table_elt_t              *h;
    ngx_http_sendfile_headers_t   it;

    for (h = ngx_http_sendfile_headers_first(&it,
                                             &r->headers_out.headers.part);
         h;
         h = ngx_http_sendfile_headers_next(&it))
    {
        if (h->hash && ngx_http_sendfile_name_same(&h->key, name)) {
            h->hash = 0;
        }
    }
}


#if (NGX_HTTP_SENDFILE_EARLY_HINTS)

/* nginx copies all of an application's 103 */

static ngx_int_t
ngx_http_sendfile_early_hints_filter(ngx_http_request_t *r)
{
    ngx_http_sendfile_accept_hide(r);

    return ngx_http_next_early_hints_filter(r);
}

#endif


static ngx_int_t
ngx_http_sendfile_filter_init(ngx_conf_t *cf)
{
    ngx_http_next_header_filter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = ngx_http_sendfile_header_filter;

#if (NGX_HTTP_SENDFILE_EARLY_HINTS)
    ngx_http_next_early_hints_filter = ngx_http_top_early_hints_filter;
    ngx_http_top_early_hints_filter = ngx_http_sendfile_early_hints_filter;
#endif

    return NGX_OK;
}
