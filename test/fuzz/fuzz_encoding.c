/*
 * Copyright (C) the ngx_sendfile authors
 *
 * nsf_encoding(): lines of Accept-Encoding.  What is chosen was named, and
 * what is forbidden at the end is not chosen.
 */


#include "fuzz.h"
#include "nsf_encoding.h"


static void
line(nsf_encoding_t *e, const uint8_t *data, size_t size)
{
    void       *memory;
    nsf_str_t   value;

    value.len = size;
    value.data = fuzz_copy(data, size, &memory);

    nsf_encoding_line(e, &value);

    free(memory);
}


static void
text(nsf_encoding_t *e, const char *s)
{
    line(e, (const uint8_t *) s, strlen(s));
}


static int
names(const uint8_t *data, size_t size, const char *name)
{
    size_t  i, len;

    len = strlen(name);

    for (i = 0; i + len <= size; i++) {
        if (strncasecmp((const char *) data + i, name, len) == 0) {
            return 1;
        }
    }

    return 0;
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t          i, start;
    const char     *chosen;
    nsf_encoding_t  e, again;

    memset(&e, 0, sizeof(nsf_encoding_t));

    start = 0;

    for (i = 0; i <= size; i++) {

        if (i != size && data[i] != '\n') {
            continue;
        }

        line(&e, data + start, i - start);

        /* the same once more says nothing new */

        again = e;
        line(&again, data + start, i - start);

        fuzz_require(again.br == e.br && again.gzip == e.gzip);

        start = i + 1;
    }

    fuzz_require(e.br <= 1000 && e.gzip <= 1000);

    chosen = nsf_encoding(&e);

    if (strcmp(chosen, "br") == 0) {
        fuzz_require(e.br != 0 && e.br >= e.gzip && names(data, size, "br"));

    } else if (strcmp(chosen, "gzip") == 0) {
        fuzz_require(e.gzip > e.br && names(data, size, "gzip"));

    } else {
        fuzz_require(*chosen == '\0' && e.br == 0 && e.gzip == 0);
    }

    /* whatever was said, the last word counts */

    text(&e, "br;q=0");
    fuzz_require(strcmp(nsf_encoding(&e), "br") != 0);

    text(&e, "x , gzip ; q=0.000");
    fuzz_require(*nsf_encoding(&e) == '\0');

    text(&e, "GZIP;q=0.001");
    fuzz_require(strcmp(nsf_encoding(&e), "gzip") == 0);

    return 0;
}
