
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * What the directive "query" says: SQL, or the name of a query that is known.
 */


#include "ngx_http_sendfile_sqlite.h"


/*
 * The blobs of ActiveStorage on disk, of Rails 5.2 to 8, by id, by key, or by
 * the name that http_sendfile_activestorage has for an id.  A number is
 * compared as text, too, lest "1e1" or "010" finds the blob 10.  Which types
 * are never sent as they are, and which are shown in the browser, are Rails'
 * own lists: content_types_to_serve_as_binary (with text/javascript of 6.1) and
 * content_types_allowed_inline.
 */

#define NGX_HTTP_SENDFILE_SQLITE_BLOB                                         \
    "SELECT substr(key,1,2)||'/'||substr(key,3,2)||'/'||key AS path,"         \
    "CASE WHEN content_type IS NULL OR content_type IN ("                     \
    "'text/html','image/svg+xml','application/postscript',"                   \
    "'application/x-shockwave-flash','text/xml','application/xml',"           \
    "'application/xhtml+xml','application/mathml+xml',"                       \
    "'text/cache-manifest','text/javascript')"                                \
    "THEN 'application/octet-stream'ELSE content_type END AS type,"           \
    "filename AS name,"                                                       \
    "CASE WHEN content_type IN ("                                             \
    "'image/webp','image/avif','image/png','image/gif','image/jpeg',"         \
    "'image/tiff','image/bmp','image/vnd.adobe.photoshop',"                   \
    "'image/vnd.microsoft.icon','application/pdf')"                           \
    "THEN 'inline'ELSE 'attachment'END AS disposition "                       \
    "FROM active_storage_blobs WHERE "

#define NGX_HTTP_SENDFILE_SQLITE_BLOBS                                        \
    NGX_HTTP_SENDFILE_SQLITE_BLOB "id=?1 AND CAST(id AS TEXT)=?1 UNION ALL "  \
    NGX_HTTP_SENDFILE_SQLITE_BLOB "key=?1 UNION ALL "                         \
    NGX_HTTP_SENDFILE_SQLITE_BLOB "substr(?1,1,14)='activestorage:'"          \
    "AND id=substr(?1,15) AND CAST(id AS TEXT)=substr(?1,15)"

/*
 * Tracked variants, of Rails 6.1 and later: blobs of their own, attached to a
 * record of the blob that they were made of and of the digest of what was done,
 * here by "ID/DIGEST".  A digest is base64, which may have "/"; an id has none.
 */

#define NGX_HTTP_SENDFILE_SQLITE_ID      "substr(?1,1,instr(?1,'/')-1)"
#define NGX_HTTP_SENDFILE_SQLITE_DIGEST  "substr(?1,instr(?1,'/')+1)"

#define NGX_HTTP_SENDFILE_SQLITE_VARIANTS                                     \
    NGX_HTTP_SENDFILE_SQLITE_BLOBS " UNION ALL "                              \
    NGX_HTTP_SENDFILE_SQLITE_BLOB                                             \
    "instr(?1,'/')AND id=(SELECT a.blob_id "                                  \
    "FROM active_storage_variant_records AS v "                               \
    "JOIN active_storage_attachments AS a ON a.record_id=v.id "               \
    "AND a.record_type='ActiveStorage::VariantRecord'AND a.name='image'"      \
    "WHERE v.blob_id=" NGX_HTTP_SENDFILE_SQLITE_ID                            \
    " AND CAST(v.blob_id AS TEXT)=" NGX_HTTP_SENDFILE_SQLITE_ID               \
    " AND v.variation_digest=" NGX_HTTP_SENDFILE_SQLITE_DIGEST ")"

/* Rails.cache of Rails 8: values as in other stores, keys by their hash */

#define NGX_HTTP_SENDFILE_SQLITE_SOLID_CACHE                                  \
    "SELECT value FROM solid_cache_entries WHERE key_hash=?1 AND key=?2"


static ngx_http_sendfile_sqlite_query_t  ngx_http_sendfile_sqlite_presets[] = {
    { ngx_string("activestorage"),
      ngx_string(NGX_HTTP_SENDFILE_SQLITE_VARIANTS),
      ngx_string(NGX_HTTP_SENDFILE_SQLITE_BLOBS), 0, 1 },

    { ngx_string("solid_cache"),
      ngx_string(NGX_HTTP_SENDFILE_SQLITE_SOLID_CACHE),
      ngx_null_string, 1, 0 },

    { ngx_null_string, ngx_null_string, ngx_null_string, 0, 0 }
};


const char *
ngx_http_sendfile_sqlite_query_set(ngx_http_sendfile_sqlite_query_t *query,
    ngx_str_t *value)
{
    size_t                             i;
    ngx_http_sendfile_sqlite_query_t  *preset;

    for (preset = ngx_http_sendfile_sqlite_presets; preset->name.len; preset++)
    {
        if (preset->name.len == value->len
            && ngx_strncmp(preset->name.data, value->data, value->len) == 0)
        {
            *query = *preset;
            return NULL;
        }
    }

    for (i = 0; i < value->len; i++) {
        if (!(value->data[i] == '_'
              || (value->data[i] >= '0' && value->data[i] <= '9')
              || (value->data[i] >= 'A' && value->data[i] <= 'Z')
              || (value->data[i] >= 'a' && value->data[i] <= 'z')))
        {
            query->sql = *value;
            return NULL;
        }
    }

    return "is neither SQL nor the name of a known query";
}


int
ngx_http_sendfile_sqlite_query_bind(ngx_http_sendfile_sqlite_query_t *query,
    sqlite3_stmt *stmt, ngx_str_t *key)
{
    int         rc, i;
    u_char      digest[NGX_HTTP_SENDFILE_SHA256_LEN];
    uint64_t    hash;

    if (!query->hash) {

        /*
         * As text: compared with a column of numbers SQLite makes it a
         * number, and with a column of text "007" is not "7".
         */

        return sqlite3_bind_text(stmt, 1, (char *) key->data, (int) key->len,
                                 SQLITE_STATIC);
    }

    ngx_http_sendfile_sqlite_sha256(digest, key->data, key->len);

    hash = 0;

    for (i = 0; i < 8; i++) {
        hash = hash << 8 | digest[i];
    }

    rc = sqlite3_bind_int64(stmt, 1, (sqlite3_int64) hash);

    if (rc == SQLITE_OK) {
        rc = sqlite3_bind_blob(stmt, 2, key->data, (int) key->len,
                               SQLITE_STATIC);
    }

    return rc;
}
