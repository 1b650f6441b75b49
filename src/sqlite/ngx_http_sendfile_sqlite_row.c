
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * A row to a value: a single column as it is, several as a JSON record.
 */


#include "ngx_http_sendfile_sqlite.h"


typedef struct {
    u_char                    *pos;
    u_char                    *last;

    /* all that should have been written */
    size_t                     len;
} ngx_http_sendfile_sqlite_text_t;


static ngx_int_t ngx_http_sendfile_sqlite_record(
    ngx_http_sendfile_sqlite_db_t *db, ngx_http_sendfile_sqlite_text_t *t,
    ngx_http_sendfile_sqlite_error_t *error);
static ngx_int_t ngx_http_sendfile_sqlite_field(
    ngx_http_sendfile_sqlite_db_t *db, ngx_uint_t column,
    ngx_http_sendfile_sqlite_text_t *t,
    ngx_http_sendfile_sqlite_error_t *error);
static ngx_int_t ngx_http_sendfile_sqlite_bytes(sqlite3_stmt *stmt, int n,
    ngx_str_t *s, ngx_http_sendfile_sqlite_error_t *error);
static ngx_int_t ngx_http_sendfile_sqlite_wrong(
    ngx_http_sendfile_sqlite_error_t *error, const char *text);
static ngx_uint_t ngx_http_sendfile_sqlite_number(ngx_str_t *s);
static ngx_uint_t ngx_http_sendfile_sqlite_object(ngx_str_t *s);
static void ngx_http_sendfile_sqlite_string(
    ngx_http_sendfile_sqlite_text_t *t, ngx_str_t *s);
static void ngx_http_sendfile_sqlite_put(ngx_http_sendfile_sqlite_text_t *t,
    const void *p, size_t len);


/* in the order of ngx_http_sendfile_sqlite_column_e, and of the record */

static ngx_str_t  ngx_http_sendfile_sqlite_names[] = {
    ngx_string("path"),
    ngx_string("type"),
    ngx_string("name"),
    ngx_string("disposition"),
    ngx_string("expires"),
    ngx_string("headers")
};


static u_char  ngx_http_sendfile_sqlite_value[NSF_MAX_VALUE];


ngx_int_t
ngx_http_sendfile_sqlite_columns(ngx_http_sendfile_sqlite_db_t *db,
    ngx_http_sendfile_sqlite_error_t *error)
{
    int          i;
    u_char      *last;
    ngx_uint_t   n;
    const char  *name;

    error->fault = NGX_HTTP_SENDFILE_SQLITE_QUERY;
    error->detail = "wrong columns";
    last = error->text + sizeof(error->text) - 1;

    for (n = 0; n < NGX_HTTP_SENDFILE_SQLITE_COLUMNS; n++) {
        db->columns[n] = -1;
    }

    db->ncolumns = sqlite3_column_count(db->select);

    for (i = 0; db->ncolumns > 1 && i < db->ncolumns; i++) {

        name = sqlite3_column_name(db->select, i);

        for (n = 0; name && n < NGX_HTTP_SENDFILE_SQLITE_COLUMNS; n++) {
            if (ngx_strcasecmp(ngx_http_sendfile_sqlite_names[n].data,
                               (u_char *) name)
                == 0)
            {
                break;
            }
        }

        if (name == NULL || n == NGX_HTTP_SENDFILE_SQLITE_COLUMNS) {
            *ngx_slprintf(error->text, last,
                          "unknown column \"%s\": name it path, type, name, "
                          "disposition, expires or headers with AS",
                          name ? name : "") = '\0';
            return NGX_ERROR;
        }

        if (db->columns[n] != -1) {
            *ngx_slprintf(error->text, last, "two columns \"%s\"", name)
                = '\0';
            return NGX_ERROR;
        }

        db->columns[n] = i;
    }

    if (db->ncolumns > 1 && db->columns[NGX_HTTP_SENDFILE_SQLITE_PATH] == -1) {
        *ngx_slprintf(error->text, last,
                      "no column \"path\": name one so with AS") = '\0';
        return NGX_ERROR;
    }

    db->prepared = sqlite3_stmt_status(db->select,
                                       SQLITE_STMTSTATUS_REPREPARE, 0);

    return NGX_OK;
}


/* "SELECT *" has other columns when somebody has altered the table */

ngx_uint_t
ngx_http_sendfile_sqlite_columns_changed(ngx_http_sendfile_sqlite_db_t *db)
{
    return sqlite3_stmt_status(db->select, SQLITE_STMTSTATUS_REPREPARE, 0)
           != db->prepared;
}


ngx_int_t
ngx_http_sendfile_sqlite_row(ngx_http_sendfile_sqlite_db_t *db,
    ngx_http_sendfile_value_t *value, ngx_http_sendfile_sqlite_error_t *error)
{
    int                              path;
    ngx_int_t                        rc;
    ngx_str_t                        s;
    ngx_http_sendfile_sqlite_text_t  t;

    path = (db->ncolumns > 1) ? db->columns[NGX_HTTP_SENDFILE_SQLITE_PATH] : 0;

    if (sqlite3_column_type(db->select, path) == SQLITE_NULL) {
        return NGX_DECLINED;
    }

    t.pos = ngx_http_sendfile_sqlite_value;
    t.last = t.pos + sizeof(ngx_http_sendfile_sqlite_value);
    t.len = 0;

    if (db->ncolumns > 1) {
        rc = ngx_http_sendfile_sqlite_record(db, &t, error);

    } else {
        rc = ngx_http_sendfile_sqlite_bytes(db->select, 0, &s, error);

        if (rc == NGX_OK) {
            ngx_http_sendfile_sqlite_put(&t, s.data, s.len);
        }
    }

    value->data = ngx_http_sendfile_sqlite_value;
    value->len = t.len;
    value->json = (db->ncolumns > 1);

    return rc;
}


static ngx_int_t
ngx_http_sendfile_sqlite_record(ngx_http_sendfile_sqlite_db_t *db,
    ngx_http_sendfile_sqlite_text_t *t,
    ngx_http_sendfile_sqlite_error_t *error)
{
    ngx_uint_t  n;

    for (n = 0; n < NGX_HTTP_SENDFILE_SQLITE_COLUMNS; n++) {

        if (db->columns[n] == -1
            || sqlite3_column_type(db->select, db->columns[n]) == SQLITE_NULL)
        {
            continue;
        }

        ngx_http_sendfile_sqlite_put(t, t->len ? "," : "{", 1);
        ngx_http_sendfile_sqlite_string(t, &ngx_http_sendfile_sqlite_names[n]);
        ngx_http_sendfile_sqlite_put(t, ":", 1);

        if (ngx_http_sendfile_sqlite_field(db, n, t, error) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    ngx_http_sendfile_sqlite_put(t, "}", 1);

    return NGX_OK;
}


static ngx_int_t
ngx_http_sendfile_sqlite_field(ngx_http_sendfile_sqlite_db_t *db,
    ngx_uint_t column, ngx_http_sendfile_sqlite_text_t *t,
    ngx_http_sendfile_sqlite_error_t *error)
{
    u_char     *p;
    ngx_str_t   s;
    u_char      number[NGX_INT64_LEN + 1];

    if (column == NGX_HTTP_SENDFILE_SQLITE_EXPIRES
        && sqlite3_column_type(db->select, db->columns[column])
           == SQLITE_FLOAT)
    {
        p = ngx_snprintf(number, sizeof(number), "%L",
                         (int64_t) sqlite3_column_int64(db->select,
                                                        db->columns[column]));
        ngx_http_sendfile_sqlite_put(t, number, p - number);
        return NGX_OK;
    }

    if (ngx_http_sendfile_sqlite_bytes(db->select, db->columns[column], &s,
                                       error)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    switch (column) {

    case NGX_HTTP_SENDFILE_SQLITE_EXPIRES:

        if (!ngx_http_sendfile_sqlite_number(&s)) {
            return ngx_http_sendfile_sqlite_wrong(error,
                                     "\"expires\" is no number of seconds, "
                                     "as strftime('%s', column) makes it");
        }

        ngx_http_sendfile_sqlite_put(t, s.data, s.len);
        return NGX_OK;

    case NGX_HTTP_SENDFILE_SQLITE_HEADERS:

        if (!ngx_http_sendfile_sqlite_object(&s)) {
            return ngx_http_sendfile_sqlite_wrong(error,
                                              "\"headers\" is no JSON object");
        }

        ngx_http_sendfile_sqlite_put(t, s.data, s.len);
        return NGX_OK;

    default:
        ngx_http_sendfile_sqlite_string(t, &s);
        return NGX_OK;
    }
}


/* a blob as it is, text in UTF-8 whatever the database has, numbers as text */

static ngx_int_t
ngx_http_sendfile_sqlite_bytes(sqlite3_stmt *stmt, int n, ngx_str_t *s,
    ngx_http_sendfile_sqlite_error_t *error)
{
    if (sqlite3_column_type(stmt, n) == SQLITE_BLOB) {
        s->data = (u_char *) sqlite3_column_blob(stmt, n);

    } else {
        s->data = (u_char *) sqlite3_column_text(stmt, n);
    }

    s->len = sqlite3_column_bytes(stmt, n);

    if (s->data == NULL && s->len) {
        s->len = 0;
    }

    if (s->data == NULL
        && sqlite3_errcode(sqlite3_db_handle(stmt)) == SQLITE_NOMEM)
    {
        return ngx_http_sendfile_sqlite_wrong(error, NSF_ERR_MEMORY);
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_sendfile_sqlite_wrong(ngx_http_sendfile_sqlite_error_t *error,
    const char *text)
{
    error->fault = NGX_HTTP_SENDFILE_SQLITE_DATABASE;
    error->detail = text;

    (void) ngx_cpystrn(error->text, (u_char *) text, sizeof(error->text));

    return NGX_ERROR;
}


/* digits, as JSON has them */

static ngx_uint_t
ngx_http_sendfile_sqlite_number(ngx_str_t *s)
{
    size_t  i;

    i = (s->len && s->data[0] == '-') ? 1 : 0;

    if (i == s->len || (s->data[i] == '0' && s->len > i + 1)) {
        return 0;
    }

    for ( /* void */ ; i < s->len; i++) {
        if (s->data[i] < '0' || s->data[i] > '9') {
            return 0;
        }
    }

    return 1;
}


/*
 * Whether it begins and ends as one object does, so that nothing of it can
 * become another field of the record; the rest is for who reads the record.
 */

static ngx_uint_t
ngx_http_sendfile_sqlite_object(ngx_str_t *s)
{
    size_t      i;
    ngx_uint_t  depth, quoted;

    depth = 0;
    quoted = 0;

    if (s->len == 0 || s->data[0] != '{') {
        return 0;
    }

    for (i = 0; i < s->len; i++) {

        if (quoted) {
            if (s->data[i] == '\\') {
                i++;

            } else if (s->data[i] == '"') {
                quoted = 0;
            }

            continue;
        }

        switch (s->data[i]) {

        case '"':
            quoted = 1;
            break;

        case '{':
        case '[':
            depth++;
            break;

        case '}':
        case ']':
            if (--depth == 0) {
                return i == s->len - 1;
            }

            break;
        }
    }

    return 0;
}


static void
ngx_http_sendfile_sqlite_string(ngx_http_sendfile_sqlite_text_t *t,
    ngx_str_t *s)
{
    u_char   c, *p, *last, *start;
    u_char   text[sizeof("\\u0000") - 1];

    static u_char  hex[] = "0123456789abcdef";

    ngx_http_sendfile_sqlite_put(t, "\"", 1);

    start = s->data;
    last = s->data + s->len;

    for (p = start; p < last; p++) {
        c = *p;

        if (c >= ' ' && c != '"' && c != '\\') {
            continue;
        }

        ngx_http_sendfile_sqlite_put(t, start, p - start);
        start = p + 1;

        ngx_memcpy(text, "\\u00", 4);
        text[4] = hex[c >> 4];
        text[5] = hex[c & 0xf];

        ngx_http_sendfile_sqlite_put(t, text, sizeof(text));
    }

    ngx_http_sendfile_sqlite_put(t, start, last - start);
    ngx_http_sendfile_sqlite_put(t, "\"", 1);
}


static void
ngx_http_sendfile_sqlite_put(ngx_http_sendfile_sqlite_text_t *t,
    const void *p, size_t len)
{
    if (len == 0) {
        return;
    }

    t->len += len;

    if (len <= (size_t) (t->last - t->pos)) {
        t->pos = ngx_cpymem(t->pos, p, len);

    } else {
        /* too long in any case, and said by its length */
        t->pos = t->last;
    }
}
