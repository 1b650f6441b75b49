/*
 * Copyright (C) the ngx_sendfile authors
 *
 * nsf_mc_parse(): an answer, at once and byte by byte.
 */


#include "fuzz.h"
#include "nsf_memcached.h"


/* exactly as long as it says, wherever the memory ends */

static nsf_mc_e
parse(const unsigned char *p, size_t len, nsf_mc_reply_t *reply, size_t *used)
{
    void                 *memory;
    size_t                i;
    nsf_mc_e              rc;
    unsigned char        *copy;
    const unsigned char  *next;

    copy = fuzz_copy(p, len, &memory);
    memset(reply, 0xff, sizeof(nsf_mc_reply_t));

    rc = nsf_mc_parse(copy, copy + len, reply, &next);

    fuzz_require(next >= copy && next <= copy + len);
    *used = (size_t) (next - copy);

    /* slices of the copy, moved to "p" */

    if (rc == NSF_MC_VALUE || rc == NSF_MC_LARGE) {
        fuzz_require(reply->key.data == copy + 6);
        reply->key.data = p + 6;
    }

    if (rc == NSF_MC_VALUE) {
        fuzz_require(reply->data >= copy
                     && reply->data + reply->len + 2 == next);
        reply->data = p + (reply->data - copy);
    }

    if (rc == NSF_MC_ERROR || rc == NSF_MC_BAD) {
        fuzz_require(reply->error.data == copy);
        fuzz_require(reply->error.len <= len);
        reply->error.data = p;
    }

    fuzz_require((rc == NSF_MC_AGAIN) == (reply->need > 0));
    fuzz_require((rc == NSF_MC_AGAIN || rc == NSF_MC_BAD) == (*used == 0));

    if (rc == NSF_MC_ERROR) {

        for (i = 0; i < reply->error.len; i++) {
            fuzz_require(p[i] >= 0x20 && p[i] != 0x7f);
        }
    }

    free(memory);

    return rc;
}


/* the first line printed anew from what was read of it */

static void
check_item(nsf_mc_e rc, const unsigned char *p, const nsf_mc_reply_t *reply,
    size_t used)
{
    int      n;
    char     line[600];
    size_t   rest;

    switch (rc) {

    case NSF_MC_VALUE:
    case NSF_MC_LARGE:
        fuzz_require(nsf_key_check(reply->key.data, reply->key.len) == NULL);
        fuzz_require((reply->len > 65536) == (rc == NSF_MC_LARGE));
        fuzz_require(reply->len <= 1024 * 1024 * 1024);

        n = snprintf(line, sizeof(line), "VALUE %.*s %lu %lu",
                     (int) reply->key.len, (const char *) reply->key.data,
                     (unsigned long) reply->flags,
                     (unsigned long) reply->len);

        fuzz_require(memcmp(line, p, (size_t) n) == 0);

        rest = used - (size_t) n;

        if (rc == NSF_MC_VALUE) {
            fuzz_require(memcmp(reply->data + reply->len, "\r\n", 2) == 0);
            rest -= reply->len + 2;
        }

        /* CRLF, or a space, up to 20 digits and CRLF */

        fuzz_require(memcmp(p + n + rest - 2, "\r\n", 2) == 0);

        if (rest > 2) {
            fuzz_require(p[n] == ' ' && rest >= 4 && rest <= 23);
            fuzz_require(strspn((const char *) p + n + 1, "0123456789")
                         == rest - 3);
        }

        return;

    case NSF_MC_END:
        fuzz_require(used == 5 && memcmp(p, "END\r\n", 5) == 0);
        return;

    default: /* NSF_MC_ERROR */
        fuzz_require(used == reply->error.len + 2 && used <= 514);
        fuzz_require(memcmp(p + used - 2, "\r\n", 2) == 0);
        fuzz_require(memcmp(p, "ERROR", 5) == 0
                     || memcmp(p, "CLIENT_ERROR", 12) == 0
                     || memcmp(p, "SERVER_ERROR", 12) == 0);
        return;
    }
}


/*
 * Any part of what makes an item is not enough, and says so; any part of
 * what is bad is either not enough or bad.
 */

static void
check_parts(nsf_mc_e rc, const unsigned char *p, size_t len)
{
    size_t          i, used;
    nsf_mc_e        part;
    nsf_mc_reply_t  reply;

    for (i = 0; i < len; i++) {

        /* of data, the ends */

        if (i > 600 && len - i > 16) {
            i = len - 16;
        }

        part = parse(p, i, &reply, &used);

        if (part == NSF_MC_BAD) {
            fuzz_require(rc == NSF_MC_BAD);
            return;
        }

        fuzz_require(part == NSF_MC_AGAIN);

        if (rc != NSF_MC_BAD && rc != NSF_MC_AGAIN) {
            fuzz_require(i + reply.need <= len);
        }
    }
}


/* a good line, printed by the other side, is not refused */

static void
check_refused(const unsigned char *p, size_t len)
{
    char            line[600], again[600], key[251];
    size_t          n;
    unsigned        flags, bytes;
    unsigned char  *end;

    n = (len < sizeof(line) - 1) ? len : sizeof(line) - 1;

    memcpy(line, p, n);
    line[n] = '\0';

    end = (unsigned char *) strstr(line, "\r\n");

    if (end == NULL) {
        return;
    }

    end[2] = '\0';

    fuzz_require(strcmp(line, "END\r\n") != 0);
    fuzz_require(strcmp(line, "ERROR\r\n") != 0);

    if (sscanf(line, "VALUE %250s %9u %9u\r\n", key, &flags, &bytes) != 3
        || nsf_key_check((unsigned char *) key, strlen(key)) != NULL)
    {
        return;
    }

    (void) snprintf(again, sizeof(again), "VALUE %s %u %u\r\n", key, flags,
                    bytes);

    if (strcmp(again, line) != 0) {
        return;
    }

    /* it is the data, then */

    n = strlen(line);

    fuzz_require(bytes <= 65536);
    fuzz_require(len > n + bytes);
    fuzz_require(p[n + bytes] != '\r'
                 || (len > n + bytes + 1 && p[n + bytes + 1] != '\n'));
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t          used;
    nsf_mc_e        rc;
    nsf_mc_reply_t  reply;

    for ( ;; ) {
        rc = parse(data, size, &reply, &used);

        if (rc == NSF_MC_AGAIN) {
            check_parts(rc, data, size);
            return 0;
        }

        if (rc == NSF_MC_BAD) {
            check_parts(rc, data, size);
            check_refused(data, size);
            return 0;
        }

        check_item(rc, data, &reply, used);
        check_parts(rc, data, used);

        data += used;
        size -= used;
    }
}
