/*
 * Copyright (C) the ngx_sendfile authors
 *
 * nsf_unpack(), once as it is and once short of memory; what unpacks packs to
 * the same bytes.
 */


#include "fuzz.h"
#include "nsf_pack.h"


static const char *
unpack(nsf_target_t *t, const unsigned char *p, size_t size, fuzz_pool_t *fp)
{
    const char  *err;

    memset(t, 0xff, sizeof(nsf_target_t));

    err = nsf_unpack(t, p, size, &fp->pool);

    if (err != NULL) {
        fuzz_check_error(err);
        fuzz_check_no_target(t);
    }

    /* but for the headers nothing is copied */

    fuzz_require(fp->calls <= 1);

    return err;
}


static void
check_string(const nsf_str_t *s, const char *except, const unsigned char *p,
    size_t size)
{
    if (s->len == 0) {
        fuzz_require(s->data == NULL);
        return;
    }

    fuzz_require(fuzz_is_slice(s, p, size));
    fuzz_require(!fuzz_has_control(s->data, s->len, except));
}


static void
check_target(const nsf_target_t *t, const unsigned char *p, size_t size)
{
    size_t  i;

    fuzz_require(fuzz_path_is_good(t->path.data, t->path.len));
    fuzz_require(t->path.data + t->path.len == p + size);

    check_string(&t->path, "", p, size);
    check_string(&t->type, "", p, size);
    check_string(&t->name, "", p, size);

    fuzz_require(t->disposition == NSF_DISPOSITION_NONE
                 || t->disposition == NSF_DISPOSITION_INLINE
                 || t->disposition == NSF_DISPOSITION_ATTACHMENT
                 || t->disposition == NSF_DISPOSITION_NAMED);

    fuzz_require(t->expires >= 0 && t->expires < INT64_C(253402300800));
    fuzz_require(t->valid_until >= 0
                 && t->valid_until < INT64_C(253402300800));
    fuzz_require(t->valid_until == 0
                 || (t->expires != 0 && t->expires <= t->valid_until));

    fuzz_require(t->nheaders <= NSF_MAX_HEADERS);
    fuzz_require((t->headers == NULL) == (t->nheaders == 0));

    for (i = 0; i < t->nheaders; i++) {
        fuzz_require(t->headers[i].name.len > 0);
        check_string(&t->headers[i].name, "", p, size);
        check_string(&t->headers[i].value, "\t", p, size);
    }
}


static void
check_pack(const nsf_target_t *t, const unsigned char *p, size_t size)
{
    void           *memory;
    unsigned char  *again;

    fuzz_require(nsf_pack_size(t) == size);

    /* other bytes to begin with, so that one left out is seen */

    again = fuzz_copy(p, size, &memory);
    memset(again, ~p[size - 1], size);

    nsf_pack(again, t);
    fuzz_require(memcmp(again, p, size) == 0);

    free(memory);
}


/* a good one without its last byte is none */

static void
check_cut(const unsigned char *p, size_t size)
{
    void           *memory;
    fuzz_pool_t     fp;
    nsf_target_t    t;
    unsigned char  *cut;

    fuzz_pool_init(&fp, 0);

    cut = fuzz_copy(p, size - 1, &memory);
    fuzz_require(unpack(&t, cut, size - 1, &fp) != NULL);

    free(memory);
    fuzz_pool_free(&fp);
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    void           *memory;
    size_t          calls;
    const char     *err;
    fuzz_pool_t     fp;
    nsf_target_t    t;
    unsigned char  *p;

    p = fuzz_copy(data, size, &memory);

    fuzz_pool_init(&fp, 0);
    err = unpack(&t, p, size, &fp);

    calls = fp.calls;

    if (err == NULL) {
        check_target(&t, p, size);
        check_pack(&t, p, size);
        check_cut(p, size);
    }

    fuzz_pool_free(&fp);

    if (calls != 0) {
        fuzz_pool_init(&fp, 1);
        err = unpack(&t, p, size, &fp);

        fuzz_require(err != NULL && strcmp(err, NSF_ERR_MEMORY) == 0);

        fuzz_pool_free(&fp);
    }

    free(memory);

    return 0;
}
