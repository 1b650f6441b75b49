/*
 * Copyright (C) the ngx_sendfile authors
 */


#include "nsf_encoding.h"
#include "nsf_header.h"


static unsigned nsf_encoding_weight(const nsf_str_t *s);
static size_t nsf_encoding_until(const nsf_str_t *s, unsigned char c);
static nsf_str_t nsf_encoding_trim(const unsigned char *data, size_t len);
static int nsf_encoding_is(const nsf_str_t *s, const char *name, size_t len);


void
nsf_encoding_line(nsf_encoding_t *e, const nsf_str_t *value)
{
    size_t     end, semicolon;
    unsigned   weight;
    nsf_str_t  rest, item, name, parameter;

    rest = *value;

    for ( ;; ) {
        end = nsf_encoding_until(&rest, ',');

        item = nsf_encoding_trim(rest.data, end);
        semicolon = nsf_encoding_until(&item, ';');

        name = nsf_encoding_trim(item.data, semicolon);
        weight = 1000;

        if (semicolon < item.len) {
            parameter = nsf_encoding_trim(item.data + semicolon + 1,
                                          item.len - semicolon - 1);
            weight = nsf_encoding_weight(&parameter);
        }

        if (nsf_encoding_is(&name, "br", 2)) {
            e->br = weight;

        } else if (nsf_encoding_is(&name, "gzip", 4)
                   || nsf_encoding_is(&name, "x-gzip", 6))
        {
            e->gzip = weight;
        }

        if (end == rest.len) {
            return;
        }

        rest.data += end + 1;
        rest.len -= end + 1;
    }
}


const char *
nsf_encoding(const nsf_encoding_t *e)
{
    if (e->br != 0 && e->br >= e->gzip) {
        return "br";
    }

    return e->gzip ? "gzip" : "";
}


/* "q=0.5", in thousandths; 0 if it is no weight */

static unsigned
nsf_encoding_weight(const nsf_str_t *s)
{
    size_t    i;
    unsigned  weight, digit;

    if (s->len < 3
        || (s->data[0] | 0x20) != 'q'
        || s->data[1] != '='
        || s->len > 7)
    {
        return 0;
    }

    if (s->data[2] != '0' && s->data[2] != '1') {
        return 0;
    }

    weight = (unsigned) (s->data[2] - '0') * 1000;
    digit = 100;

    for (i = 3; i < s->len; i++) {

        if (i == 3) {
            if (s->data[i] != '.') {
                return 0;
            }

            continue;
        }

        if (s->data[i] < '0' || s->data[i] > '9') {
            return 0;
        }

        weight += (unsigned) (s->data[i] - '0') * digit;
        digit /= 10;
    }

    return (weight > 1000) ? 0 : weight;
}


static size_t
nsf_encoding_until(const nsf_str_t *s, unsigned char c)
{
    size_t  i;

    for (i = 0; i < s->len; i++) {
        if (s->data[i] == c) {
            break;
        }
    }

    return i;
}


static nsf_str_t
nsf_encoding_trim(const unsigned char *data, size_t len)
{
    nsf_str_t  s;

    while (len != 0 && (data[0] == ' ' || data[0] == '\t')) {
        data++;
        len--;
    }

    while (len != 0 && (data[len - 1] == ' ' || data[len - 1] == '\t')) {
        len--;
    }

    s.data = data;
    s.len = len;

    return s;
}


static int
nsf_encoding_is(const nsf_str_t *s, const char *name, size_t len)
{
    nsf_str_t  n;

    n.data = (const unsigned char *) name;
    n.len = len;

    return nsf_header_same(s, &n);
}
