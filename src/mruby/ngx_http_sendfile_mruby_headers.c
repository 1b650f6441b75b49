
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * Nginx::Headers_in and Nginx::Headers_out.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_mruby.h"
#include "ngx_http_sendfile_compat.h"
#include "ngx_http_sendfile_headers.h"


/* a header that nginx knows, and its place in headers_out */

typedef struct {
    ngx_str_t                           name;
    size_t                              offset;
} ngx_http_sendfile_mrb_known_t;


#define ngx_http_sendfile_mrb_field(r, known)                                 \
    ((void *) ((u_char *) &(r)->headers_out + (known)->offset))


typedef void (*ngx_http_sendfile_mrb_set_pt)(mrb_state *mrb,
    ngx_http_request_t *r, ngx_str_t *name, ngx_str_t *value);


static mrb_value ngx_http_sendfile_mrb_get(mrb_state *mrb, ngx_list_t *list,
    ngx_str_t *name);
static mrb_value ngx_http_sendfile_mrb_all(mrb_state *mrb, ngx_list_t *list);
static void ngx_http_sendfile_mrb_assign(mrb_state *mrb,
    ngx_http_sendfile_mrb_set_pt drop, ngx_http_sendfile_mrb_set_pt add);
static void ngx_http_sendfile_mrb_check(mrb_state *mrb, ngx_str_t *name,
    ngx_str_t *value);
static void ngx_http_sendfile_mrb_value(mrb_state *mrb, mrb_value value,
    ngx_str_t *s);
static ngx_http_sendfile_mrb_known_t *ngx_http_sendfile_mrb_known(
    ngx_http_sendfile_mrb_known_t *known, ngx_str_t *name);
static void ngx_http_sendfile_mrb_drop_out(mrb_state *mrb,
    ngx_http_request_t *r, ngx_str_t *name, ngx_str_t *unused);
static void ngx_http_sendfile_mrb_add_out(mrb_state *mrb,
    ngx_http_request_t *r, ngx_str_t *name, ngx_str_t *value);
static void ngx_http_sendfile_mrb_set_type(ngx_http_request_t *r,
    ngx_str_t *value);
static void ngx_http_sendfile_mrb_own_in(mrb_state *mrb,
    ngx_http_request_t *r);
static void ngx_http_sendfile_mrb_drop_in(mrb_state *mrb,
    ngx_http_request_t *r, ngx_str_t *name, ngx_str_t *unused);
static void ngx_http_sendfile_mrb_remove(mrb_state *mrb, ngx_list_t *list,
    ngx_list_part_t *part, ngx_uint_t i);
static void ngx_http_sendfile_mrb_add_in(mrb_state *mrb,
    ngx_http_request_t *r, ngx_str_t *name, ngx_str_t *value);
static mrb_value ngx_http_sendfile_mrb_in_get(mrb_state *mrb,
    mrb_value self);
static mrb_value ngx_http_sendfile_mrb_in_set(mrb_state *mrb,
    mrb_value self);
static mrb_value ngx_http_sendfile_mrb_in_delete(mrb_state *mrb,
    mrb_value self);
static mrb_value ngx_http_sendfile_mrb_in_all(mrb_state *mrb,
    mrb_value self);
static mrb_value ngx_http_sendfile_mrb_out_get(mrb_state *mrb,
    mrb_value self);
static mrb_value ngx_http_sendfile_mrb_out_set(mrb_state *mrb,
    mrb_value self);
static mrb_value ngx_http_sendfile_mrb_out_delete(mrb_state *mrb,
    mrb_value self);
static mrb_value ngx_http_sendfile_mrb_out_all(mrb_state *mrb,
    mrb_value self);


static const ngx_http_sendfile_mrb_method_t  ngx_http_sendfile_mrb_in[] = {

    { "[]", ngx_http_sendfile_mrb_in_get, MRB_ARGS_REQ(1) },
    { "[]=", ngx_http_sendfile_mrb_in_set, MRB_ARGS_REQ(2) },
    { "delete", ngx_http_sendfile_mrb_in_delete, MRB_ARGS_REQ(1) },
    { "all", ngx_http_sendfile_mrb_in_all, MRB_ARGS_NONE() },
    { NULL, NULL, 0 }
};


static const ngx_http_sendfile_mrb_method_t  ngx_http_sendfile_mrb_out[] = {

    { "[]", ngx_http_sendfile_mrb_out_get, MRB_ARGS_REQ(1) },
    { "[]=", ngx_http_sendfile_mrb_out_set, MRB_ARGS_REQ(2) },
    { "delete", ngx_http_sendfile_mrb_out_delete, MRB_ARGS_REQ(1) },
    { "all", ngx_http_sendfile_mrb_out_all, MRB_ARGS_NONE() },
    { NULL, NULL, 0 }
};


static ngx_http_sendfile_mrb_known_t  ngx_http_sendfile_mrb_outs[] = {

    { ngx_string("Server"), offsetof(ngx_http_headers_out_t, server) },
    { ngx_string("Date"), offsetof(ngx_http_headers_out_t, date) },
    { ngx_string("Location"), offsetof(ngx_http_headers_out_t, location) },
    { ngx_string("Last-Modified"),
      offsetof(ngx_http_headers_out_t, last_modified) },
    { ngx_string("Accept-Ranges"),
      offsetof(ngx_http_headers_out_t, accept_ranges) },
    { ngx_string("WWW-Authenticate"),
      offsetof(ngx_http_headers_out_t, www_authenticate) },
    { ngx_string("Expires"), offsetof(ngx_http_headers_out_t, expires) },
    { ngx_string("ETag"), offsetof(ngx_http_headers_out_t, etag) },
    { ngx_string("Content-Encoding"),
      offsetof(ngx_http_headers_out_t, content_encoding) },
    { ngx_null_string, 0 }
};


/* a header of which nginx knows each line */

static ngx_http_sendfile_mrb_known_t  ngx_http_sendfile_mrb_lines[] = {

    { ngx_string("Cache-Control"),
      offsetof(ngx_http_headers_out_t, cache_control) },
    { ngx_string("Link"), offsetof(ngx_http_headers_out_t, link) },
    { ngx_null_string, 0 }
};


/* where a message ends is said by nginx: no script sets these */

static ngx_str_t  ngx_http_sendfile_mrb_framing[] = {
    ngx_string("Content-Length"),
    ngx_string("Transfer-Encoding"),
    ngx_string("Connection"),
    ngx_string("Keep-Alive"),
    ngx_string("Trailer"),
    ngx_string("Upgrade"),
    ngx_null_string
};


static ngx_str_t  ngx_http_sendfile_mrb_type = ngx_string("Content-Type");


void
ngx_http_sendfile_mrb_init_headers(mrb_state *mrb, struct RClass *nginx)
{
    struct RClass  *c;

    c = mrb_define_class_under(mrb, nginx, "Headers_in", mrb->object_class);
    ngx_http_sendfile_mrb_methods(mrb, c, ngx_http_sendfile_mrb_in);

    c = mrb_define_class_under(mrb, nginx, "Headers_out", mrb->object_class);
    ngx_http_sendfile_mrb_methods(mrb, c, ngx_http_sendfile_mrb_out);
}


/* a string; an array if there are several; nil if there is none */

static mrb_value
ngx_http_sendfile_mrb_get(mrb_state *mrb, ngx_list_t *list, ngx_str_t *name)
{
    mrb_value                     value, found;
    ngx_table_elt_t              *h;
    ngx_http_sendfile_headers_t   it;

    found = mrb_nil_value();

    for (h = ngx_http_sendfile_headers_first(&it, &list->part);
         h;
         h = ngx_http_sendfile_headers_next(&it))
    {
        if (h->hash == 0 || !ngx_http_sendfile_name_same(&h->key, name)) {
            continue;
        }

        value = ngx_http_sendfile_mrb_str(mrb, &h->value);

        if (mrb_nil_p(found)) {
            found = value;

        } else if (mrb_array_p(found)) {
            mrb_ary_push(mrb, found, value);

        } else {
            found = mrb_assoc_new(mrb, found, value);
        }
    }

    return found;
}


static mrb_value
ngx_http_sendfile_mrb_all(mrb_state *mrb, ngx_list_t *list)
{
    int                           ai;
    mrb_value                     hash;
    ngx_table_elt_t              *h;
    ngx_http_sendfile_headers_t   it;

    hash = mrb_hash_new(mrb);
    ai = mrb_gc_arena_save(mrb);

    for (h = ngx_http_sendfile_headers_first(&it, &list->part);
         h;
         h = ngx_http_sendfile_headers_next(&it))
    {
        if (h->hash) {
            mrb_hash_set(mrb, hash, ngx_http_sendfile_mrb_str(mrb, &h->key),
                         ngx_http_sendfile_mrb_get(mrb, list, &h->key));
            mrb_gc_arena_restore(mrb, ai);
        }
    }

    return hash;
}


/* headers["Name"] = "value", ["a", "b"], nil */

static void
ngx_http_sendfile_mrb_assign(mrb_state *mrb, ngx_http_sendfile_mrb_set_pt drop,
    ngx_http_sendfile_mrb_set_pt add)
{
    mrb_int              i;
    mrb_value            key, value;
    ngx_str_t            name, s;
    ngx_http_request_t  *r;

    mrb_get_args(mrb, "So", &key, &value);

    r = ngx_http_sendfile_mrb_request(mrb);

    ngx_http_sendfile_mrb_copy(mrb, key, &name);

    ngx_str_null(&s);
    ngx_http_sendfile_mrb_check(mrb, &name, &s);

    drop(mrb, r, &name, NULL);

    if (mrb_nil_p(value)) {
        return;
    }

    if (!mrb_array_p(value)) {
        ngx_http_sendfile_mrb_value(mrb, value, &s);
        ngx_http_sendfile_mrb_check(mrb, &name, &s);
        add(mrb, r, &name, &s);
        return;
    }

    for (i = 0; i < RARRAY_LEN(value); i++) {
        ngx_http_sendfile_mrb_value(mrb, mrb_ary_ref(mrb, value, i), &s);
        ngx_http_sendfile_mrb_check(mrb, &name, &s);
        add(mrb, r, &name, &s);
    }
}


/* raises for a line break, and for a header that says where a message ends */

static void
ngx_http_sendfile_mrb_check(mrb_state *mrb, ngx_str_t *name, ngx_str_t *value)
{
    u_char      c;
    size_t      i;
    ngx_str_t  *s;

    if (name->len == 0) {
        mrb_raise(mrb, E_ARGUMENT_ERROR, "empty header name");
    }

    for (i = 0; i < name->len; i++) {
        c = name->data[i];

        if (c <= 0x20 || c >= 0x7f || ngx_strchr("()<>@,;:\\\"/[]?={}", c)) {
            mrb_raise(mrb, E_ARGUMENT_ERROR, "invalid header name");
        }
    }

    for (i = 0; i < value->len; i++) {
        c = value->data[i];

        if ((c < 0x20 && c != '\t') || c == 0x7f) {
            mrb_raise(mrb, E_ARGUMENT_ERROR, "control byte in header value");
        }
    }

    for (s = ngx_http_sendfile_mrb_framing; s->len; s++) {
        if (ngx_http_sendfile_name_same(s, name)) {
            mrb_raisef(mrb, E_ARGUMENT_ERROR, "%s is set by nginx itself",
                       s->data);
        }
    }
}


static void
ngx_http_sendfile_mrb_value(mrb_state *mrb, mrb_value value, ngx_str_t *s)
{
    ngx_http_sendfile_mrb_copy(mrb, mrb_obj_as_string(mrb, value), s);
}


static ngx_http_sendfile_mrb_known_t *
ngx_http_sendfile_mrb_known(ngx_http_sendfile_mrb_known_t *known,
    ngx_str_t *name)
{
    for ( /* void */ ; known->name.len; known++) {
        if (ngx_http_sendfile_name_same(&known->name, name)) {
            return known;
        }
    }

    return NULL;
}


void
ngx_http_sendfile_mrb_set_out(mrb_state *mrb, ngx_http_request_t *r,
    ngx_str_t *name, ngx_str_t *value)
{
    ngx_http_sendfile_mrb_check(mrb, name, value);
    ngx_http_sendfile_mrb_drop_out(mrb, r, name, NULL);
    ngx_http_sendfile_mrb_add_out(mrb, r, name, value);
}


static void
ngx_http_sendfile_mrb_drop_out(mrb_state *mrb, ngx_http_request_t *r,
    ngx_str_t *name, ngx_str_t *unused)
{
    ngx_table_elt_t                *h, **hp;
    ngx_http_sendfile_headers_t     it;
    ngx_http_sendfile_mrb_known_t  *known;

    if (ngx_http_sendfile_name_same(name, &ngx_http_sendfile_mrb_type)) {
        ngx_str_null(&r->headers_out.content_type);
        return;
    }

    for (h = ngx_http_sendfile_headers_first(&it,
                                             &r->headers_out.headers.part);
         h;
         h = ngx_http_sendfile_headers_next(&it))
    {
        if (ngx_http_sendfile_name_same(&h->key, name)) {
            h->hash = 0;
        }
    }

    known = ngx_http_sendfile_mrb_known(ngx_http_sendfile_mrb_lines, name);

    if (known) {
        ngx_http_sendfile_forget_lines(ngx_http_sendfile_mrb_field(r, known));
        return;
    }

    known = ngx_http_sendfile_mrb_known(ngx_http_sendfile_mrb_outs, name);

    if (known) {
        hp = ngx_http_sendfile_mrb_field(r, known);
        *hp = NULL;

        if (hp == &r->headers_out.last_modified) {
            r->headers_out.last_modified_time = -1;
        }
    }
}


static void
ngx_http_sendfile_mrb_add_out(mrb_state *mrb, ngx_http_request_t *r,
    ngx_str_t *name, ngx_str_t *value)
{
    ngx_table_elt_t                *h, **hp;
    ngx_http_sendfile_mrb_known_t  *known;

    if (ngx_http_sendfile_name_same(name, &ngx_http_sendfile_mrb_type)) {
        ngx_http_sendfile_mrb_set_type(r, value);
        return;
    }

    h = ngx_list_push(&r->headers_out.headers);
    if (h == NULL) {
        mrb_raise(mrb, E_RUNTIME_ERROR, "no memory");
    }

    h->hash = 1;
    h->key = *name;
    h->value = *value;
    h->lowcase_key = NULL;
    ngx_http_sendfile_last_header(h);

    known = ngx_http_sendfile_mrb_known(ngx_http_sendfile_mrb_lines, name);

    if (known) {
        if (ngx_http_sendfile_add_line(r,
                                       ngx_http_sendfile_mrb_field(r, known),
                                       h)
            != NGX_OK)
        {
            mrb_raise(mrb, E_RUNTIME_ERROR, "no memory");
        }

        return;
    }

    known = ngx_http_sendfile_mrb_known(ngx_http_sendfile_mrb_outs, name);

    if (known == NULL) {
        return;
    }

    hp = ngx_http_sendfile_mrb_field(r, known);

    if (hp == &r->headers_out.www_authenticate) {
        ngx_http_sendfile_add_authenticate(r, h);
        return;
    }

    *hp = h;

    if (hp == &r->headers_out.last_modified) {
        r->headers_out.last_modified_time =
                                ngx_parse_http_time(value->data, value->len);
    }
}


static void
ngx_http_sendfile_mrb_set_type(ngx_http_request_t *r, ngx_str_t *value)
{
    u_char  *semicolon;

    semicolon = ngx_strlchr(value->data, value->data + value->len, ';');

    r->headers_out.content_type = *value;
    r->headers_out.content_type_len = semicolon
                                      ? (size_t) (semicolon - value->data)
                                      : value->len;
    r->headers_out.content_type_lowcase = NULL;
    r->headers_out.content_type_hash = 0;
}


/*
 * A subrequest begins with its parent's list, or so it seems: the elements are
 * the parent's, and so is the part that a new one would go to.
 */

static void
ngx_http_sendfile_mrb_own_in(mrb_state *mrb, ngx_http_request_t *r)
{
    u_char                       *p, *elts;
    ngx_uint_t                    n;
    ngx_list_t                   *list;
    ngx_list_part_t              *part;
    ngx_http_sendfile_mrb_ctx_t  *ctx;

    if (r == r->main) {
        return;
    }

    ctx = ngx_http_sendfile_mrb_ctx(r);
    if (ctx == NULL) {
        mrb_raise(mrb, E_RUNTIME_ERROR, "no memory");
    }

    if (ctx->own_headers) {
        return;
    }

    list = &r->headers_in.headers;

    for (n = 0, part = &list->part; part; part = part->next) {
        n += part->nelts;
    }

    elts = ngx_http_sendfile_mrb_palloc(mrb, (n + 4) * list->size);
    ctx->own_headers = 1;

    p = elts;

    for (part = &list->part; part; part = part->next) {
        p = ngx_cpymem(p, part->elts, part->nelts * list->size);
    }

    list->part.elts = elts;
    list->part.nelts = n;
    list->part.next = NULL;
    list->last = &list->part;
    list->nalloc = n + 4;
}


/*
 * nginx has pointers to the headers that it knows, and modules look at the
 * others by the list, whatever their hash: one that goes leaves the list, and
 * what still points to it finds an empty value.
 */

static void
ngx_http_sendfile_mrb_drop_in(mrb_state *mrb, ngx_http_request_t *r,
    ngx_str_t *name, ngx_str_t *unused)
{
    ngx_list_t                   *list;
    ngx_table_elt_t              *h;
    ngx_http_sendfile_headers_t   it;

    ngx_http_sendfile_mrb_own_in(mrb, r);

    list = &r->headers_in.headers;

again:

    for (h = ngx_http_sendfile_headers_first(&it, &list->part);
         h;
         h = ngx_http_sendfile_headers_next(&it))
    {
        if (ngx_http_sendfile_name_same(&h->key, name)) {
            h->hash = 0;
            h->value.len = 0;

            ngx_http_sendfile_mrb_remove(mrb, list, it.part,
                                         h
                                         - (ngx_table_elt_t *) it.part->elts);
            goto again;
        }
    }
}


/*
 * No element moves, and no part but the first is ever empty, as nginx's own
 * loops assume.  Then the last part counts as full, since what is behind it
 * may be no room of its own.
 */

static void
ngx_http_sendfile_mrb_remove(mrb_state *mrb, ngx_list_t *list,
    ngx_list_part_t *part, ngx_uint_t i)
{
    ngx_list_part_t  *tail, *before;

    if (i + 1 < part->nelts && i > 0) {
        tail = ngx_http_sendfile_mrb_palloc(mrb, sizeof(ngx_list_part_t));

        tail->elts = (u_char *) part->elts + (i + 1) * list->size;
        tail->nelts = part->nelts - i - 1;
        tail->next = part->next;

        part->nelts = i;
        part->next = tail;

        if (list->last == part) {
            list->last = tail;
        }

    } else {

        if (i == 0) {
            part->elts = (u_char *) part->elts + list->size;
        }

        part->nelts--;

        if (part->nelts == 0 && part != &list->part) {

            for (before = &list->part;
                 before->next != part;
                 before = before->next)
            {
                /* void */
            }

            before->next = part->next;

            if (list->last == part) {
                list->last = before;
            }
        }
    }

    if (list->last->nelts) {
        list->nalloc = list->last->nelts;
        return;
    }

    /* the only part, and empty */

    list->nalloc = 4;
    list->last->elts = ngx_http_sendfile_mrb_palloc(mrb, 4 * list->size);
}


static void
ngx_http_sendfile_mrb_add_in(mrb_state *mrb, ngx_http_request_t *r,
    ngx_str_t *name, ngx_str_t *value)
{
    u_char           *low;
    ngx_table_elt_t  *h;

    ngx_http_sendfile_mrb_own_in(mrb, r);

    low = ngx_http_sendfile_mrb_palloc(mrb, name->len);

    h = ngx_list_push(&r->headers_in.headers);
    if (h == NULL) {
        mrb_raise(mrb, E_RUNTIME_ERROR, "no memory");
    }

    h->key = *name;
    h->value = *value;
    h->lowcase_key = low;
    h->hash = ngx_hash_strlow(low, name->data, name->len);
    ngx_http_sendfile_last_header(h);
}


static mrb_value
ngx_http_sendfile_mrb_in_get(mrb_state *mrb, mrb_value self)
{
    mrb_int              len;
    ngx_str_t            name;
    ngx_http_request_t  *r;

    mrb_get_args(mrb, "s", &name.data, &len);

    r = ngx_http_sendfile_mrb_request(mrb);
    name.len = len;

    return ngx_http_sendfile_mrb_get(mrb, &r->headers_in.headers, &name);
}


static mrb_value
ngx_http_sendfile_mrb_in_set(mrb_state *mrb, mrb_value self)
{
    ngx_http_sendfile_mrb_assign(mrb, ngx_http_sendfile_mrb_drop_in,
                                 ngx_http_sendfile_mrb_add_in);
    return self;
}


static mrb_value
ngx_http_sendfile_mrb_in_delete(mrb_state *mrb, mrb_value self)
{
    mrb_value            key, old;
    ngx_str_t            name, none;
    ngx_http_request_t  *r;

    mrb_get_args(mrb, "S", &key);

    r = ngx_http_sendfile_mrb_request(mrb);

    ngx_http_sendfile_mrb_copy(mrb, key, &name);
    ngx_str_null(&none);
    ngx_http_sendfile_mrb_check(mrb, &name, &none);

    old = ngx_http_sendfile_mrb_get(mrb, &r->headers_in.headers, &name);
    ngx_http_sendfile_mrb_drop_in(mrb, r, &name, NULL);

    return old;
}


static mrb_value
ngx_http_sendfile_mrb_in_all(mrb_state *mrb, mrb_value self)
{
    ngx_http_request_t  *r;

    r = ngx_http_sendfile_mrb_request(mrb);

    return ngx_http_sendfile_mrb_all(mrb, &r->headers_in.headers);
}


static mrb_value
ngx_http_sendfile_mrb_out_get(mrb_state *mrb, mrb_value self)
{
    mrb_int              len;
    ngx_str_t            name;
    ngx_http_request_t  *r;

    mrb_get_args(mrb, "s", &name.data, &len);

    r = ngx_http_sendfile_mrb_request(mrb);
    name.len = len;

    if (ngx_http_sendfile_name_same(&name, &ngx_http_sendfile_mrb_type)) {
        return r->headers_out.content_type.len
               ? ngx_http_sendfile_mrb_str(mrb, &r->headers_out.content_type)
               : mrb_nil_value();
    }

    return ngx_http_sendfile_mrb_get(mrb, &r->headers_out.headers, &name);
}


static mrb_value
ngx_http_sendfile_mrb_out_set(mrb_state *mrb, mrb_value self)
{
    ngx_http_sendfile_mrb_assign(mrb, ngx_http_sendfile_mrb_drop_out,
                                 ngx_http_sendfile_mrb_add_out);
    return self;
}


static mrb_value
ngx_http_sendfile_mrb_out_delete(mrb_state *mrb, mrb_value self)
{
    mrb_value            key, old;
    ngx_str_t            name;
    ngx_http_request_t  *r;

    mrb_get_args(mrb, "S", &key);

    r = ngx_http_sendfile_mrb_request(mrb);

    ngx_http_sendfile_mrb_copy(mrb, key, &name);

    old = ngx_http_sendfile_mrb_get(mrb, &r->headers_out.headers, &name);
    ngx_http_sendfile_mrb_drop_out(mrb, r, &name, NULL);

    return old;
}


static mrb_value
ngx_http_sendfile_mrb_out_all(mrb_state *mrb, mrb_value self)
{
    mrb_value            hash;
    ngx_http_request_t  *r;

    r = ngx_http_sendfile_mrb_request(mrb);

    hash = ngx_http_sendfile_mrb_all(mrb, &r->headers_out.headers);

    if (r->headers_out.content_type.len) {
        mrb_hash_set(mrb, hash,
                     ngx_http_sendfile_mrb_str(mrb,
                                               &ngx_http_sendfile_mrb_type),
                     ngx_http_sendfile_mrb_str(mrb,
                                               &r->headers_out.content_type));
    }

    return hash;
}
