/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <string.h>

#include "nsf_header.h"
#include "nsf_lifetime.h"


static int64_t nsf_lifetime_number(const unsigned char *p, size_t len);
static void nsf_lifetime_shorter(int64_t *said, int64_t seconds);
static void nsf_lifetime_directive(nsf_lifetime_t *l, const nsf_str_t *name,
    const nsf_str_t *value);
static size_t nsf_lifetime_name_end(const nsf_str_t *s, size_t i);
static size_t nsf_lifetime_value_end(const nsf_str_t *s, size_t i);
static void nsf_lifetime_trim(nsf_str_t *s);
static int nsf_lifetime_is(const nsf_str_t *s, const char *name);
static int nsf_lifetime_known(const nsf_lifetime_t *l, const nsf_str_t *name);


void
nsf_lifetime_init(nsf_lifetime_t *l)
{
    memset(l, 0, sizeof(nsf_lifetime_t));

    l->accel = NSF_LIFETIME_NONE;
    l->accel_at = NSF_LIFETIME_NONE;
    l->s_maxage = NSF_LIFETIME_NONE;
    l->max_age = NSF_LIFETIME_NONE;
    l->expires = NSF_LIFETIME_NONE;
}


void
nsf_lifetime_cache_control(nsf_lifetime_t *l, const nsf_str_t *value)
{
    size_t     i, end;
    nsf_str_t  name, argument;

    i = 0;

    while (i < value->len) {

        end = nsf_lifetime_name_end(value, i);

        name.data = value->data + i;
        name.len = end - i;
        nsf_lifetime_trim(&name);

        argument.data = NULL;
        argument.len = 0;

        if (end < value->len && value->data[end] == '=') {
            i = end + 1;
            end = nsf_lifetime_value_end(value, i);

            if (end > value->len) {
                /* a quote that does not end may hide any directive */
                l->no_store = 1;
                return;
            }

            argument.data = value->data + i;
            argument.len = end - i;
            nsf_lifetime_trim(&argument);
        }

        nsf_lifetime_directive(l, &name, &argument);

        i = end + 1;
    }
}


static size_t
nsf_lifetime_name_end(const nsf_str_t *s, size_t i)
{
    while (i < s->len && s->data[i] != '=' && s->data[i] != ',') {
        i++;
    }

    return i;
}


/* the next comma outside of quotes; behind the end if these do not end */

static size_t
nsf_lifetime_value_end(const nsf_str_t *s, size_t i)
{
    int  quoted;

    quoted = 0;

    for ( /* void */ ; i < s->len; i++) {

        if (s->data[i] == '"') {
            quoted = !quoted;

        } else if (s->data[i] == '\\' && quoted && i + 1 < s->len) {
            i++;

        } else if (s->data[i] == ',' && !quoted) {
            break;
        }
    }

    return quoted ? s->len + 1 : i;
}


static void
nsf_lifetime_directive(nsf_lifetime_t *l, const nsf_str_t *name,
    const nsf_str_t *value)
{
    int64_t    seconds;
    nsf_str_t  number;

    number = *value;

    if (number.len >= 2
        && number.data[0] == '"'
        && number.data[number.len - 1] == '"')
    {
        number.data++;
        number.len -= 2;
    }

    if (nsf_lifetime_is(name, "no-store")) {
        l->no_store = 1;

    } else if (nsf_lifetime_is(name, "no-cache")) {
        l->no_cache = 1;

    } else if (nsf_lifetime_is(name, "private")) {
        l->is_private = 1;

    } else if (nsf_lifetime_is(name, "public")) {
        l->is_public = 1;

    } else if (nsf_lifetime_is(name, "must-revalidate")
               || nsf_lifetime_is(name, "proxy-revalidate"))
    {
        l->revalidate = 1;

    } else if (nsf_lifetime_is(name, "s-maxage")) {
        l->revalidate = 1;
        seconds = nsf_lifetime_number(number.data, number.len);
        nsf_lifetime_shorter(&l->s_maxage, seconds < 0 ? 0 : seconds);

    } else if (nsf_lifetime_is(name, "max-age")) {
        seconds = nsf_lifetime_number(number.data, number.len);
        nsf_lifetime_shorter(&l->max_age, seconds < 0 ? 0 : seconds);
    }
}


void
nsf_lifetime_accel(nsf_lifetime_t *l, const nsf_str_t *value, int64_t now)
{
    size_t     i;
    int64_t    seconds;
    nsf_str_t  s;

    s = *value;
    nsf_lifetime_trim(&s);

    if (s.len == 0 || s.data[0] != '@') {
        seconds = nsf_lifetime_number(s.data, s.len);
        nsf_lifetime_shorter(&l->accel, seconds < 0 ? 0 : seconds);
        return;
    }

    /* NSF_LIFETIME_MAX is no limit for a point in time */

    seconds = 0;

    for (i = 1; i < s.len; i++) {

        if (s.data[i] < '0' || s.data[i] > '9' || i > 15) {
            nsf_lifetime_shorter(&l->accel_at, 0);
            return;
        }

        seconds = seconds * 10 + (s.data[i] - '0');
    }

    seconds -= now;

    if (seconds < 0) {
        seconds = 0;

    } else if (seconds > NSF_LIFETIME_MAX) {
        seconds = NSF_LIFETIME_MAX;
    }

    nsf_lifetime_shorter(&l->accel_at, seconds);
}


void
nsf_lifetime_vary(nsf_lifetime_t *l, const nsf_str_t *value)
{
    size_t     i, end;
    nsf_str_t  name;

    for (i = 0; i < value->len; i = end + 1) {

        end = i;

        while (end < value->len && value->data[end] != ',') {
            end++;
        }

        name.data = value->data + i;
        name.len = end - i;
        nsf_lifetime_trim(&name);

        if (name.len != 0 && !nsf_lifetime_known(l, &name)) {
            l->varies = 1;
        }
    }
}


static int
nsf_lifetime_known(const nsf_lifetime_t *l, const nsf_str_t *name)
{
    size_t         i, j;
    unsigned char  c;

    for (i = 0; i < l->nknown; i++) {

        if (l->known[i].len != name->len) {
            continue;
        }

        for (j = 0; j < name->len; j++) {
            c = name->data[j];

            if (c >= 'A' && c <= 'Z') {
                c |= 0x20;

            } else if (c == '-') {
                c = '_';
            }

            if (c != l->known[i].data[j]) {
                break;
            }
        }

        if (j == name->len) {
            return 1;
        }
    }

    return 0;
}


void
nsf_lifetime_age(nsf_lifetime_t *l, const nsf_str_t *value)
{
    int64_t    seconds;
    nsf_str_t  s;

    s = *value;
    nsf_lifetime_trim(&s);

    seconds = nsf_lifetime_number(s.data, s.len);

    if (seconds < 0) {
        seconds = NSF_LIFETIME_MAX;
    }

    if (l->age < seconds) {
        l->age = seconds;
    }
}


void
nsf_lifetime_expires(nsf_lifetime_t *l, int64_t time, int64_t now)
{
    int64_t  seconds;

    seconds = (time < now) ? 0 : time - now;

    if (seconds > NSF_LIFETIME_MAX) {
        seconds = NSF_LIFETIME_MAX;
    }

    nsf_lifetime_shorter(&l->expires, seconds);
}


/*
 * A date in the future says nothing; one second is what two clocks that tick
 * in seconds may differ by at any time.
 */

void
nsf_lifetime_date(nsf_lifetime_t *l, int64_t time, int64_t now)
{
    int64_t  seconds;

    if (time < 0 || time >= now - 1) {
        return;
    }

    seconds = now - time;

    if (seconds > NSF_LIFETIME_MAX) {
        seconds = NSF_LIFETIME_MAX;
    }

    if (l->apparent < seconds) {
        l->apparent = seconds;
    }
}


int64_t
nsf_lifetime_initial_age(const nsf_lifetime_t *l)
{
    int64_t  corrected;

    corrected = l->age + l->delay;

    return (l->apparent > corrected) ? l->apparent : corrected;
}


/*
 * X-Accel-Expires is said to us, and overrides what is said to browsers and
 * caches beyond; but "no-store" is an order.
 */

const char *
nsf_lifetime(const nsf_lifetime_t *l, int64_t *seconds)
{
    int64_t  age;

    if (l->no_store) {
        return "no-store";
    }

    if (l->set_cookie) {
        return "Set-Cookie";
    }

    if (l->varies) {
        return "Vary";
    }

    if (l->authorization && !l->is_public) {
        return "Authorization, and not public";
    }

    age = nsf_lifetime_initial_age(l);

    if (l->accel == 0 || l->accel_at == 0) {
        return "X-Accel-Expires is 0";
    }

    if (l->accel != NSF_LIFETIME_NONE || l->accel_at != NSF_LIFETIME_NONE) {
        *seconds = l->accel_at;

        if (l->accel != NSF_LIFETIME_NONE) {
            nsf_lifetime_shorter(seconds, l->accel - age);
        }

        return (*seconds > 0) ? NULL : "lifetime is over";
    }

    if (l->is_private) {
        return "private";
    }

    if (l->no_cache) {
        return "no-cache";
    }

    if (l->s_maxage != NSF_LIFETIME_NONE) {
        *seconds = l->s_maxage;

    } else if (!l->is_public) {
        return "neither X-Accel-Expires nor public";

    } else if (l->max_age != NSF_LIFETIME_NONE) {
        *seconds = l->max_age;

    } else if (l->expires != NSF_LIFETIME_NONE) {

        /* Expires less Date; both are kept as distances from the time now */

        *seconds = l->expires ? l->expires + l->apparent : 0;

    } else {
        return "no lifetime";
    }

    *seconds -= age;

    return (*seconds > 0) ? NULL : "lifetime is over";
}


/* digits, and not more than NSF_LIFETIME_MAX; -1 for anything else */

static int64_t
nsf_lifetime_number(const unsigned char *p, size_t len)
{
    size_t   i;
    int64_t  n;

    if (len == 0) {
        return -1;
    }

    n = 0;

    for (i = 0; i < len; i++) {

        if (p[i] < '0' || p[i] > '9') {
            return -1;
        }

        n = n * 10 + (p[i] - '0');

        if (n > NSF_LIFETIME_MAX) {
            n = NSF_LIFETIME_MAX;
        }
    }

    return n;
}


static void
nsf_lifetime_shorter(int64_t *said, int64_t seconds)
{
    if (*said == NSF_LIFETIME_NONE || *said > seconds) {
        *said = seconds;
    }
}


static void
nsf_lifetime_trim(nsf_str_t *s)
{
    while (s->len != 0 && (s->data[0] == ' ' || s->data[0] == '\t')) {
        s->data++;
        s->len--;
    }

    while (s->len != 0
           && (s->data[s->len - 1] == ' ' || s->data[s->len - 1] == '\t'))
    {
        s->len--;
    }
}


static int
nsf_lifetime_is(const nsf_str_t *s, const char *name)
{
    nsf_str_t  n;

    n.data = (const unsigned char *) name;
    n.len = strlen(name);

    return nsf_header_same(s, &n);
}
