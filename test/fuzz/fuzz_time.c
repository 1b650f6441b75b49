/*
 * Copyright (C) the ngx_sendfile authors
 *
 * nsf_time_*(): the text of a number against strtold(), and, of what is 16
 * bytes long, the sum of two doubles.
 */


#include <math.h>

#include "fuzz.h"
#include "nsf_time.h"


#define LIMIT  1e15L


static void
check_time(const nsf_time_t *t, long double number)
{
    int64_t      until;
    long double  ours, off;

    until = nsf_time_valid_until(t);
    fuzz_require(until >= 0 && until <= NSF_TIME_MAX);

    switch (t->kind) {

    case NSF_TIME_NEVER:
        fuzz_require(isnan(number) || number >= LIMIT * 0.999999L);
        fuzz_require(until == 0);
        return;

    case NSF_TIME_LONG_AGO:
        fuzz_require(number <= -LIMIT * 0.999999L);
        fuzz_require(until == 1);
        return;

    case NSF_TIME_FINITE:
        break;

    default:
        fuzz_require(0);
    }

    fuzz_require(t->nsec < 1000000000);

    ours = (long double) t->sec + (long double) t->nsec / 1e9L;
    off = ours - number;

    /* cut off after the nanoseconds; a long double may lack some digits */

    fuzz_require(off < 1.1e-9L + fabsl(number) * 1e-17L
                 && off > -1.1e-9L - fabsl(number) * 1e-17L);

    fuzz_require(until == (t->sec > NSF_TIME_MAX ? 0
                           : t->sec < 1 ? 1 : t->sec));
}


/* the grammar, by its letters */

static int
is_decimal(const char *s)
{
    size_t  n;

    if (strcmp(s, "inf") == 0 || strcmp(s, "-inf") == 0
        || strcmp(s, "nan") == 0)
    {
        return 1;
    }

    s += (*s == '-');

    n = strspn(s, "0123456789");
    if (n == 0) {
        return 0;
    }

    s += n;

    if (*s == '.') {
        n = strspn(s + 1, "0123456789");
        if (n == 0) {
            return 0;
        }

        s += 1 + n;
    }

    if (*s == 'e') {
        s++;
        s += (*s == '-' || *s == '+');

        n = strspn(s, "0123456789");
        if (n == 0) {
            return 0;
        }

        s += n;
    }

    return *s == '\0';
}


static void
fuzz_decimal(const uint8_t *data, size_t size)
{
    void           *memory;
    char            text[256];
    nsf_time_t      t;
    const char     *err;
    unsigned char  *p;

    if (size >= sizeof(text)) {
        return;
    }

    p = fuzz_copy(data, size, &memory);
    err = nsf_time_decimal(&t, p, size);
    free(memory);

    if (size != 0) {
        memcpy(text, data, size);
    }

    text[size] = '\0';

    fuzz_require((err == NULL)
                 == (strlen(text) == size && is_decimal(text)));

    if (err != NULL) {
        fuzz_check_error(err);
        return;
    }

    check_time(&t, strtold(text, NULL));
}


static void
fuzz_doubles(const uint8_t *data)
{
    double      a, b;
    nsf_time_t  t, more;

    memcpy(&a, data, 8);
    memcpy(&b, data + 8, 8);

    nsf_time_double(&t, data);
    nsf_time_double(&more, data + 8);

    check_time(&t, (long double) a);
    check_time(&more, (long double) b);

    if (t.kind == NSF_TIME_FINITE && more.kind == NSF_TIME_FINITE) {
        nsf_time_add(&t, &more);
        fuzz_require(t.kind == NSF_TIME_FINITE && t.nsec < 1000000000);

    } else {
        nsf_time_add(&t, &more);
        fuzz_require(t.kind == NSF_TIME_NEVER
                     || t.kind == NSF_TIME_LONG_AGO);
    }
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_decimal(data, size);

    if (size == 16) {
        fuzz_doubles(data);
    }

    return 0;
}
