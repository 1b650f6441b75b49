
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * What to do about each reason why no file was sent.  docs/operations.md has
 * the same words in its table of reasons, and a test compares both.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_sendfile_status.h"


typedef struct {
    /* NULL: of the group before */
    const char                     *advice;

    const char                     *reason;

    /* what the detail begins with; NULL: whatever it is */
    const char                     *detail;
} ngx_http_sendfile_advice_t;


static ngx_uint_t ngx_http_sendfile_advice_is(ngx_str_t *s, const char *text,
    ngx_uint_t whole);


/* of all that is not in the table below, in the order of the failures */

static const char  *ngx_http_sendfile_advice_kinds[
                                          NGX_HTTP_SENDFILE_STATS_FAILURES] = {
    /* miss */
    "The store has no such key. Normal for an ID that is new or gone; for one "
    "that should be there, explain its URL: the key may be another than you "
    "think.",

    /* error */
    "A store could not be asked, or a file not be opened: see the state of "
    "the stores, and the error log, which names the server or the file. "
    "Without http_sendfile_fallback clients get 502.",

    /* timeout */
    "A store was too slow. Compare its p99 with the time limit of the store; "
    "give it more servers, or a cache zone in front of it.",

    /* invalid */
    "A key or record cannot be used. The error log says which, and what is "
    "wrong with it; what writes the store has to change.",

    /* missing_file */
    "The record names a file that is not there or not readable. Compare the "
    "root with the path in the error log, and the permissions of each folder "
    "on the way.",

    /* method */
    "Neither GET nor HEAD. The application is to answer these: "
    "http_sendfile_fallback says where it is.",

    /* script */
    "Ruby has refused the request. If that is not meant, its location's "
    "script is where to look."
};


/* the first that fits: of one reason that with a detail stands before others */

static ngx_http_sendfile_advice_t  ngx_http_sendfile_advices[] = {

    { "Nothing for an ID that is new or gone. If it should be there: "
      "sendfilectl get; in memcached it may have expired or been evicted.",
      "not in store", NULL },

    { "Start the key's own server: the lines about the server that is down "
      "name it.",
      "not in next server", NULL },

    { "Write it again, without expires_in.",
      "record has expired", NULL },

    { "Publish the store, or correct the path.",
      "no LMDB yet", NULL },

    { "Nothing, if the application answers these: http_sendfile_fallback says "
      "where it is.",
      "neither GET nor HEAD", NULL },

    { "Nothing, if clients just try. If the requests are meant: a key has 1 "
      "to 250 bytes, no space and no control byte; see http_sendfile_key.",
      "key too long", NULL },
    { NULL, "space in key", NULL },
    { NULL, "control byte in key", NULL },
    { NULL, "empty key", NULL },

    { "Correct the record: sendfilectl get, sendfilectl set.",
      "invalid record", NULL },

    { "See the line about the store in the error log; sendfilectl doctor says "
      "what to write.",
      "cannot open LMDB", NULL },
    { NULL, "cannot open SQLite database", NULL },

    { "The store is damaged: publish it again.",
      "broken LMDB", NULL },
    { NULL, "LMDB read failed", NULL },

    { "Nothing, if it is seldom.",
      "SQLite query failed", "locking protocol" },

    { "Switch the database to WAL mode: PRAGMA journal_mode=WAL.",
      "SQLite query failed", "database is locked" },

    { "Make an index for the column, or a simpler query.",
      "SQLite query failed", "it took too long" },

    { "Check the database with PRAGMA integrity_check, and restore it.",
      "SQLite query failed", "database disk image is malformed" },

    { "Find out who has truncated it; restart the application.",
      "SQLite query failed", "its -shm file was cut off" },

    { "Correct the query or the row: a line about the store in the error log "
      "says what is wrong.",
      "SQLite query failed", NULL },

    { "Start the server, or correct its address; the lines about it in the "
      "error log say why it was given up.",
      "server is down", NULL },

    { "Look whether memcached, the network or the worker is slow; or give it "
      "more time.",
      "lookup timed out", NULL },

    { "Find out why the server is slow, or write connections 2.",
      "too many lookups in flight", NULL },

    { "Look whether memcached runs at this address and can be reached; the "
      "line about the server in the error log says more.",
      "cannot connect", NULL },
    { NULL, "connect timed out", NULL },
    { NULL, "cannot resolve", NULL },
    { NULL, "server does not answer", NULL },
    { NULL, "connection closed by server", NULL },
    { NULL, "cannot read", NULL },
    { NULL, "cannot write", NULL },
    { NULL, "no event", NULL },
    { NULL, "bad answer", NULL },
    { NULL, "unexpected bytes", NULL },
    { NULL, "answer to another question", NULL },
    { NULL, "answer too long", NULL },
    { NULL, "server reports an error", NULL },
    { NULL, "closed", NULL },

    { "See the log lines of the module that the store is of.",
      "store error", NULL },

    { "Nothing, if clients just try. If all are bad, compare the keys with "
      "sendfilectl activestorage-key.",
      "bad signature", NULL },

    { "Take a new link of the application's, which says how long one is good.",
      "expired token", NULL },

    { "Write http_sendfile_activestorage_service for it.",
      "unknown service", NULL },

    { "Nothing, if clients just try: such a link is not the application's own.",
      "token of no file", NULL },
    { NULL, "token of no blob", NULL },
    { NULL, "token of no variation", NULL },
    { NULL, "token too long", NULL },
    { NULL, "invalid token", NULL },

    { "Nothing, if it comes once for each blob. If it stays so, the "
      "application's redirect leads to another service, or has Set-Cookie.",
      "not learned yet", NULL },

    { "Write http_sendfile_root, or http_sendfile_activestorage off.",
      "no http_sendfile_root", NULL },

    { "Nothing, if it is meant; else look into the location's script.",
      "refused by script", NULL },

    { "Restore the file or correct the record; sendfilectl verify finds all "
      "of them.",
      "missing file", NULL },

    { "Correct the record, or write http_sendfile_symlinks on.",
      "symbolic link", NULL },

    { "A link leads out of the root: move the file below it, and find out who "
      "made the link.",
      "outside root", NULL },

    { "Correct the record: it has to name a regular file.",
      "not a regular file", NULL },

    { "By the error: for permissions sendfilectl doctor names the folder; for "
      "too many open files raise worker_rlimit_nofile.",
      "cannot open file", NULL },

    { "By the error: see the kernel's log, the disk may be failing.",
      "cannot stat file", NULL },

    { "Make the directory of http_sendfile_root, and give the workers access "
      "to it.",
      "cannot open root", NULL },

    { "Correct the map or what else makes the variable.",
      "root is no absolute path", NULL },
    { NULL, "prefix is no absolute URI", NULL },

    { "Correct http_sendfile_allow, or the path that the application sends.",
      "invalid X-Sendfile", "not below http_sendfile_allow" },

    { "Write http_sendfile_allow in this location.",
      "invalid X-Sendfile", "no http_sendfile_allow" },

    { "Let the application send the whole path.",
      "invalid X-Sendfile", "no absolute path" },

    { "Correct the application.",
      "invalid X-Sendfile", NULL },

    { "Find out what takes the machine's memory.",
      "out of memory", NULL },

    { NULL, NULL, NULL }
};


const char *
ngx_http_sendfile_advice(ngx_uint_t kind, ngx_str_t *reason, ngx_str_t *detail)
{
    const char                  *advice;
    ngx_http_sendfile_advice_t  *a;

    advice = NULL;

    if (reason) {

        for (a = ngx_http_sendfile_advices; a->reason; a++) {

            if (a->advice) {
                advice = a->advice;
            }

            if (ngx_http_sendfile_advice_is(reason, a->reason, 1)
                && (a->detail == NULL
                    || ngx_http_sendfile_advice_is(detail, a->detail, 0)))
            {
                return advice;
            }
        }
    }

    return ngx_http_sendfile_advice_kinds[kind];
}


static ngx_uint_t
ngx_http_sendfile_advice_is(ngx_str_t *s, const char *text, ngx_uint_t whole)
{
    size_t  len;

    len = ngx_strlen(text);

    return (whole ? s->len == len : s->len >= len)
           && ngx_strncmp(s->data, text, len) == 0;
}
