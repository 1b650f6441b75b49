/*
 * Copyright (C) the ngx_sendfile authors
 */


#include "nsf_accept.h"
#include "nsf_header.h"


static void nsf_accept_range(nsf_accept_t *a, nsf_str_t range);
static nsf_str_t nsf_accept_next(nsf_str_t *rest, unsigned char separator);
static int nsf_accept_weight(const nsf_str_t *s);
static int nsf_accept_is(const nsf_str_t *s, const char *text, size_t len);


void
nsf_accept_init(nsf_accept_t *a)
{
    a->openmetrics = -1;
    a->plain = -1;
}


void
nsf_accept_line(nsf_accept_t *a, const nsf_str_t *value)
{
    nsf_str_t  rest;

    rest = *value;

    while (rest.len != 0) {
        nsf_accept_range(a, nsf_accept_next(&rest, ','));
    }
}


int
nsf_accept_openmetrics(const nsf_accept_t *a)
{
    return a->openmetrics > 0 && a->openmetrics >= a->plain;
}


/* "application/openmetrics-text;version=1.0.0;q=0.5" */

static void
nsf_accept_range(nsf_accept_t *a, nsf_str_t range)
{
    int        weight, known, *best;
    nsf_str_t  type, name, value;

    type = nsf_accept_next(&range, ';');

    if (nsf_accept_is(&type, "application/openmetrics-text", 28)) {
        best = &a->openmetrics;

    } else if (nsf_accept_is(&type, "text/plain", 10)) {
        best = &a->plain;

    } else {
        return;
    }

    weight = 1000;
    known = 1;

    while (range.len != 0) {
        value = nsf_accept_next(&range, ';');
        name = nsf_accept_next(&value, '=');

        if (nsf_accept_is(&name, "q", 1)) {
            weight = nsf_accept_weight(&value);

        } else if (nsf_accept_is(&name, "version", 7)
                   && best == &a->openmetrics
                   && !nsf_accept_is(&value, "1.0.0", 5)
                   && !nsf_accept_is(&value, "\"1.0.0\"", 7))
        {
            known = 0;
        }
    }

    if (known && weight > *best) {
        *best = weight;
    }
}


/* what stands before the separator, without the spaces around it */

static nsf_str_t
nsf_accept_next(nsf_str_t *rest, unsigned char separator)
{
    size_t     i;
    nsf_str_t  s;

    for (i = 0; i < rest->len; i++) {
        if (rest->data[i] == separator) {
            break;
        }
    }

    s.data = rest->data;
    s.len = i;

    if (i < rest->len) {
        i++;
    }

    rest->data += i;
    rest->len -= i;

    while (s.len != 0 && (s.data[0] == ' ' || s.data[0] == '\t')) {
        s.data++;
        s.len--;
    }

    while (s.len != 0
           && (s.data[s.len - 1] == ' ' || s.data[s.len - 1] == '\t'))
    {
        s.len--;
    }

    return s;
}


/* "0.5": 0 to 1 with up to three decimals; what is no weight is 0 */

static int
nsf_accept_weight(const nsf_str_t *s)
{
    int     weight, digit;
    size_t  i;

    if (s->len == 0
        || s->len > 5
        || (s->data[0] != '0' && s->data[0] != '1')
        || (s->len > 1 && s->data[1] != '.'))
    {
        return 0;
    }

    weight = (s->data[0] - '0') * 1000;
    digit = 100;

    for (i = 2; i < s->len; i++) {

        if (s->data[i] < '0' || s->data[i] > '9') {
            return 0;
        }

        weight += (s->data[i] - '0') * digit;
        digit /= 10;
    }

    return (weight > 1000) ? 0 : weight;
}


static int
nsf_accept_is(const nsf_str_t *s, const char *text, size_t len)
{
    nsf_str_t  t;

    t.data = (const unsigned char *) text;
    t.len = len;

    return nsf_header_same(s, &t);
}
