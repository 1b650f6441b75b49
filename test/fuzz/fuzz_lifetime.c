/*
 * Copyright (C) the ngx_sendfile authors
 *
 * nsf_lifetime_*(): lines of headers, of which the first byte says which one
 * it is.  What forbids is never undone by a line more, nor does one make an
 * answer younger.
 */


#include "fuzz.h"
#include "nsf_lifetime.h"


#define NOW  INT64_C(1795189426)


static const nsf_str_t  known[] = {
    { (const unsigned char *) "accept_encoding", 15 },
    { (const unsigned char *) "x", 1 },
};


/* seconds from now, or no date: signed, as far as there are bytes for it */

static int64_t
when(const uint8_t *data, size_t size)
{
    size_t    i;
    uint64_t  n;

    n = 0;

    for (i = 0; i < size && i < 6; i++) {
        n = n << 8 | data[i];
    }

    return (size & 1) ? NOW + (int64_t) n : NOW - (int64_t) n;
}


static void
line(nsf_lifetime_t *l, const uint8_t *data, size_t size)
{
    void       *memory;
    nsf_str_t   value;

    value.len = size - 1;
    value.data = fuzz_copy(data + 1, size - 1, &memory);

    switch (data[0]) {

    case 'c':
        nsf_lifetime_cache_control(l, &value);
        break;

    case 'x':
        nsf_lifetime_accel(l, &value, NOW);
        break;

    case 'v':
        nsf_lifetime_vary(l, &value);
        break;

    case 'a':
        nsf_lifetime_age(l, &value);
        break;

    case 'e':
        nsf_lifetime_expires(l, when(value.data, value.len), NOW);
        break;

    case 'd':
        nsf_lifetime_date(l, when(value.data, value.len), NOW);
        break;

    case 't':
        l->delay += (int64_t) size;
        break;

    case 'k':
        l->known = known;
        l->nknown = 1 + size % 2;
        break;

    default:
        l->authorization = 1;
    }

    free(memory);
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t          i, start;
    int64_t         seconds;
    const char     *err;
    nsf_lifetime_t  l, before;

    nsf_lifetime_init(&l);

    start = 0;

    for (i = 0; i <= size; i++) {

        if (i != size && data[i] != '\n') {
            continue;
        }

        if (i > start) {
            before = l;
            line(&l, data + start, i - start);

            fuzz_require(l.no_store >= before.no_store
                         && l.no_cache >= before.no_cache
                         && l.is_private >= before.is_private
                         && l.varies >= before.varies
                         && l.revalidate >= before.revalidate
                         && l.age >= before.age
                         && l.apparent >= before.apparent);
            fuzz_require(l.age <= NSF_LIFETIME_MAX
                         && l.apparent <= NSF_LIFETIME_MAX);
            fuzz_require(nsf_lifetime_initial_age(&l)
                         >= nsf_lifetime_initial_age(&before));
            fuzz_require(before.accel == NSF_LIFETIME_NONE
                         || (l.accel >= 0 && l.accel <= before.accel));
            fuzz_require(before.accel_at == NSF_LIFETIME_NONE
                         || (l.accel_at >= 0
                             && l.accel_at <= before.accel_at));
            fuzz_require(before.s_maxage == NSF_LIFETIME_NONE
                         || (l.s_maxage >= 0
                             && l.s_maxage <= before.s_maxage));
        }

        start = i + 1;
    }

    seconds = -2;
    err = nsf_lifetime(&l, &seconds);

    if (err != NULL) {
        fuzz_require(strlen(err) >= 4 && strlen(err) <= 80);
        return 0;
    }

    fuzz_require(seconds > 0 && seconds <= NSF_LIFETIME_MAX);
    fuzz_require(!l.no_store && !l.varies);
    fuzz_require(l.accel != 0 && l.accel_at != 0);
    fuzz_require(l.accel > 0 || l.accel_at > 0
                 || (!l.is_private && !l.no_cache
                     && (l.is_public || l.s_maxage > 0)));

    /* its age has been lived already, but for a point in time */

    fuzz_require(l.accel == NSF_LIFETIME_NONE
                 || seconds <= l.accel - nsf_lifetime_initial_age(&l));
    fuzz_require(l.accel_at == NSF_LIFETIME_NONE || seconds <= l.accel_at);

    return 0;
}
