
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * A list of headers, from its first line to its last, and the test of a
 * name.  Lines that are removed, of hash 0, are among them.
 */


#ifndef _NGX_HTTP_SENDFILE_HEADERS_H_INCLUDED_
#define _NGX_HTTP_SENDFILE_HEADERS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* "part" has the line that was given last */

typedef struct {
    ngx_list_part_t                *part;
    ngx_table_elt_t                *next;
    ngx_table_elt_t                *end;
} ngx_http_sendfile_headers_t;


/*
 * The next line, NULL if there is none.  A line that is added meanwhile to the
 * part that is being read is not seen.
 */

static ngx_inline ngx_table_elt_t *
ngx_http_sendfile_headers_next(ngx_http_sendfile_headers_t *it)
{
    while (it->next == it->end) {

        it->part = it->part->next;

        if (it->part == NULL) {
            return NULL;
        }

        it->next = it->part->elts;
        it->end = it->next + it->part->nelts;
    }

    return it->next++;
}


/* of a whole list, or of what is left of one */

static ngx_inline ngx_table_elt_t *
ngx_http_sendfile_headers_first(ngx_http_sendfile_headers_t *it,
    ngx_list_part_t *part)
{
    it->part = part;
    it->next = part->elts;
    it->end = it->next + part->nelts;

    return ngx_http_sendfile_headers_next(it);
}


/* whatever the case of the letters */

static ngx_inline ngx_uint_t
ngx_http_sendfile_name_same(ngx_str_t *a, ngx_str_t *b)
{
    return a->len == b->len && ngx_strncasecmp(a->data, b->data, a->len) == 0;
}


static ngx_inline ngx_uint_t
ngx_http_sendfile_name_is(ngx_str_t *name, const char *text)
{
    return name->len == ngx_strlen(text)
           && ngx_strncasecmp(name->data, (u_char *) text, name->len) == 0;
}


#endif /* _NGX_HTTP_SENDFILE_HEADERS_H_INCLUDED_ */
