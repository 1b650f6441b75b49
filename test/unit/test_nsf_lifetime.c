/*
 * Copyright (C) the ngx_sendfile authors
 */


#include "nsf_test.h"
#include "nsf_lifetime.h"


#define NOW  INT64_C(1795189426)


static nsf_str_t  known[2];


static nsf_str_t
str(const char *text)
{
    nsf_str_t  s;

    s.data = (const unsigned char *) text;
    s.len = strlen(text);

    return s;
}


static int64_t
when(const char *text)
{
    return (text[0] == '-' && text[1] == '\0') ? -1 : NOW + atol(text);
}


/*
 * "Name: value" lines.  "Authorization" is the request's, "Delay" what the
 * answer took, "Known" a name that Vary may have, which has to come before
 * it.  "Expires" and "Date" are seconds from now, or "-" for no date.
 */

static void
say(nsf_lifetime_t *l, const char *line)
{
    size_t          n;
    nsf_str_t       value;
    nsf_test_buf_t  buf;

    n = strcspn(line, ":");
    assert_true(line[n] == ':' && line[n + 1] == ' ');

    /* a buffer of its own, so that a byte too many is seen */

    value = str(line + n + 2);
    buf = nsf_test_copy(value.data, value.len);
    value.data = buf.data;

    if (strncmp(line, "Cache-Control", n) == 0) {
        nsf_lifetime_cache_control(l, &value);

    } else if (strncmp(line, "X-Accel-Expires", n) == 0) {
        nsf_lifetime_accel(l, &value, NOW);

    } else if (strncmp(line, "Vary", n) == 0) {
        nsf_lifetime_vary(l, &value);

    } else if (strncmp(line, "Age", n) == 0) {
        nsf_lifetime_age(l, &value);

    } else if (strncmp(line, "Expires", n) == 0) {
        nsf_lifetime_expires(l, when(line + n + 2), NOW);

    } else if (strncmp(line, "Date", n) == 0) {
        nsf_lifetime_date(l, when(line + n + 2), NOW);

    } else if (strncmp(line, "Delay", n) == 0) {
        l->delay = atol(line + n + 2);

    } else if (strncmp(line, "Known", n) == 0) {
        assert_true(l->nknown < sizeof(known) / sizeof(known[0]));
        known[l->nknown++] = str(line + n + 2);
        l->known = known;

    } else if (strncmp(line, "Set-Cookie", n) == 0) {
        l->set_cookie = 1;

    } else {
        assert_int_equal(strncmp(line, "Authorization", n), 0);
        l->authorization = 1;
    }

    nsf_test_free(&buf);
}


/* lines up to a NULL */

static nsf_lifetime_t
answer(const char *const *lines)
{
    nsf_lifetime_t  l;

    nsf_lifetime_init(&l);

    for ( /* void */ ; *lines != NULL; lines++) {
        say(&l, *lines);
    }

    return l;
}


/* the seconds, or -1 and the reason */

static int64_t
lifetime(const char **reason, const char *const *lines)
{
    int64_t         seconds;
    nsf_lifetime_t  l;

    l = answer(lines);

    seconds = -2;
    *reason = nsf_lifetime(&l, &seconds);

    if (*reason != NULL) {
        return -1;
    }

    assert_true(seconds > 0 && seconds <= NSF_LIFETIME_MAX);

    return seconds;
}


static void
kept(int64_t expected, const char *const *lines)
{
    int64_t      seconds;
    const char  *reason;

    seconds = lifetime(&reason, lines);

    if (seconds != expected) {
        print_error("%s: %ld, not %ld (%s)\n", lines[0], (long) seconds,
                    (long) expected, reason ? reason : "kept");
    }

    assert_int_equal(seconds, expected);
}


static void
not_kept(const char *expected, const char *const *lines)
{
    const char  *reason;

    (void) lifetime(&reason, lines);
    nsf_assert_error(reason, expected);
}


#define LINES(...)  ((const char *const []) { __VA_ARGS__, NULL })


static void
nothing_said(void **state)
{
    (void) state;

    not_kept("neither X-Accel-Expires nor public",
             LINES("Cache-Control: "));
    not_kept("neither X-Accel-Expires nor public",
             LINES("Cache-Control: max-age=60"));
    not_kept("neither X-Accel-Expires nor public", LINES("Expires: 60"));
    not_kept("no lifetime", LINES("Cache-Control: public"));
}


static void
cache_control(void **state)
{
    (void) state;

    kept(60, LINES("Cache-Control: public, max-age=60"));
    kept(60, LINES("Cache-Control: max-age=60,public"));
}


static void
cache_control_of_caches(void **state)
{
    (void) state;

    kept(60, LINES("Cache-Control: s-maxage=60"));
    kept(60, LINES("Cache-Control: public, max-age=5, s-maxage=60"));
    kept(60, LINES("Cache-Control: S-MaxAge=60"));
    kept(60, LINES("Cache-Control: s-maxage=\"60\""));
    not_kept("lifetime is over", LINES("Cache-Control: s-maxage=0"));
    not_kept("lifetime is over",
             LINES("Cache-Control: public, s-maxage=0, max-age=60"));
    not_kept("lifetime is over", LINES("Cache-Control: s-maxage=x"));
    not_kept("lifetime is over", LINES("Cache-Control: s-maxage="));
    not_kept("lifetime is over", LINES("Cache-Control: s-maxage"));
    not_kept("lifetime is over", LINES("Cache-Control: s-maxage=-60"));
    not_kept("lifetime is over", LINES("Cache-Control: s-maxage=6 0"));
}


static void
cache_control_twice(void **state)
{
    (void) state;

    kept(5, LINES("Cache-Control: public, max-age=60, max-age=5"));
    kept(5, LINES("Cache-Control: public, max-age=5",
                  "Cache-Control: max-age=60"));
    not_kept("private", LINES("Cache-Control: public, max-age=60",
                              "Cache-Control: private"));
}


static void
cache_control_that_forbids(void **state)
{
    (void) state;

    not_kept("private", LINES("Cache-Control: private, max-age=60"));
    not_kept("private", LINES("Cache-Control: public, PRIVATE, max-age=60"));
    not_kept("private",
             LINES("Cache-Control: s-maxage=60, private=\"Set-Cookie\""));
    not_kept("no-cache", LINES("Cache-Control: s-maxage=60, no-cache"));
    not_kept("no-cache", LINES("Cache-Control: s-maxage=60, no-cache=\"A\""));
    not_kept("no-store", LINES("Cache-Control: s-maxage=60 ,\tno-store "));
    not_kept("no-store", LINES("Cache-Control: s-maxage=60, no-store=1"));
}


static void
cache_control_with_quotes(void **state)
{
    (void) state;

    /* what is quoted is no directive */

    kept(60, LINES("Cache-Control: x=\"private, no-store\", s-maxage=60"));
    kept(60, LINES("Cache-Control: x=\"a\\\", no-store\", s-maxage=60"));

    /* and what is not closed hides nothing that would forbid */

    not_kept("no-store", LINES("Cache-Control: x=\"a, s-maxage=60"));
    not_kept("no-store", LINES("Cache-Control: s-maxage=60, x=\"a\\"));
    not_kept("no-store",
             LINES("X-Accel-Expires: 60", "Cache-Control: x=\"a, no-store"));
}


static void
cache_control_of_others(void **state)
{
    (void) state;

    kept(60, LINES("Cache-Control: s-maxage=60, immutable, , foo=bar,"));
    kept(60, LINES("Cache-Control: s-maxage=60, no-storex, xprivate"));
    not_kept("neither X-Accel-Expires nor public",
             LINES("Cache-Control: xs-maxage=60, publi"));
}


static void
accel_expires(void **state)
{
    (void) state;

    kept(600, LINES("X-Accel-Expires: 600"));
    kept(600, LINES("X-Accel-Expires:  600 "));
    kept(600, LINES("X-Accel-Expires: 600", "Cache-Control: private"));
    kept(600, LINES("X-Accel-Expires: 600", "Cache-Control: no-cache"));
    kept(600, LINES("X-Accel-Expires: 600",
                    "Cache-Control: public, max-age=5"));
    kept(5, LINES("X-Accel-Expires: 600", "X-Accel-Expires: 5"));
    kept(NSF_LIFETIME_MAX, LINES("X-Accel-Expires: 99999999999999999999999"));
}


static void
accel_expires_that_forbids(void **state)
{
    (void) state;

    not_kept("no-store", LINES("X-Accel-Expires: 600",
                               "Cache-Control: no-store"));
    not_kept("X-Accel-Expires is 0", LINES("X-Accel-Expires: 0"));
    not_kept("X-Accel-Expires is 0", LINES("X-Accel-Expires: -1"));
    not_kept("X-Accel-Expires is 0", LINES("X-Accel-Expires: "));
    not_kept("X-Accel-Expires is 0", LINES("X-Accel-Expires: off"));
    not_kept("X-Accel-Expires is 0", LINES("X-Accel-Expires: 600s"));
    not_kept("X-Accel-Expires is 0",
             LINES("X-Accel-Expires: 0",
                   "Cache-Control: public, max-age=60"));
}


static void
accel_expires_at_a_time(void **state)
{
    (void) state;

    kept(60, LINES("X-Accel-Expires: @1795189486"));
    kept(NSF_LIFETIME_MAX, LINES("X-Accel-Expires: @999999999999999"));
    not_kept("X-Accel-Expires is 0", LINES("X-Accel-Expires: @1795189426"));
    not_kept("X-Accel-Expires is 0", LINES("X-Accel-Expires: @5"));
    not_kept("X-Accel-Expires is 0", LINES("X-Accel-Expires: @"));
    not_kept("X-Accel-Expires is 0", LINES("X-Accel-Expires: @x"));
    not_kept("X-Accel-Expires is 0",
             LINES("X-Accel-Expires: @9999999999999999"));
    not_kept("X-Accel-Expires is 0",
             LINES("X-Accel-Expires: @99999999999999999999999999"));
}


static void
expires(void **state)
{
    (void) state;

    kept(60, LINES("Cache-Control: public", "Expires: 60"));
    kept(5, LINES("Cache-Control: public, max-age=5", "Expires: 60"));
    kept(5, LINES("Cache-Control: public", "Expires: 60", "Expires: 5"));
    not_kept("lifetime is over",
             LINES("Cache-Control: public", "Expires: 0"));
    not_kept("lifetime is over",
             LINES("Cache-Control: public", "Expires: -1795189427"));
    kept(NSF_LIFETIME_MAX, LINES("Cache-Control: public",
                                 "Expires: 99999999999"));
}


static void
age(void **state)
{
    (void) state;

    kept(50, LINES("Cache-Control: public, max-age=60", "Age: 10"));
    kept(40, LINES("Cache-Control: s-maxage=60", "Age: 10", "Age: 20"));
    kept(40, LINES("Cache-Control: s-maxage=60", "Age: 20", "Age: 10"));
    kept(55, LINES("Cache-Control: public", "Expires: 60", "Age: 5"));
    not_kept("lifetime is over",
             LINES("Cache-Control: s-maxage=60", "Age: 60"));
    not_kept("lifetime is over",
             LINES("Cache-Control: s-maxage=60", "Age: x"));
    not_kept("lifetime is over",
             LINES("Cache-Control: s-maxage=60", "Age: "));
    not_kept("lifetime is over",
             LINES("Cache-Control: s-maxage=60", "Age: -1"));
    not_kept("lifetime is over",
             LINES("Cache-Control: s-maxage=60",
                   "Age: 99999999999999999999999999"));
}


static void
age_of_accel_expires(void **state)
{
    (void) state;

    kept(50, LINES("X-Accel-Expires: 60", "Age: 10"));
    kept(50, LINES("Age: 10", "X-Accel-Expires: 60"));
    kept(1, LINES("X-Accel-Expires: 60", "Age: 59"));
    kept(50, LINES("X-Accel-Expires: 60", "Date: -10"));
    kept(50, LINES("X-Accel-Expires: 60", "Delay: 10"));
    not_kept("lifetime is over", LINES("X-Accel-Expires: 60", "Age: 60"));
    not_kept("lifetime is over", LINES("X-Accel-Expires: 60", "Age: old"));
    not_kept("lifetime is over", LINES("X-Accel-Expires: 60", "Date: -60"));
    not_kept("X-Accel-Expires is 0",
             LINES("X-Accel-Expires: 0", "Age: 60"));
}


/* a point in time is one, however old the answer is */

static void
age_of_a_time(void **state)
{
    (void) state;

    kept(60, LINES("X-Accel-Expires: @1795189486", "Age: 10"));
    kept(60, LINES("X-Accel-Expires: @1795189486", "Age: 600"));
    kept(60, LINES("X-Accel-Expires: @1795189486", "Date: -600",
                   "Delay: 5"));

    /* of both the shorter */

    kept(50, LINES("X-Accel-Expires: @1795189486", "X-Accel-Expires: 60",
                   "Age: 10"));
    kept(60, LINES("X-Accel-Expires: @1795189486", "X-Accel-Expires: 600",
                   "Age: 10"));
    not_kept("lifetime is over",
             LINES("X-Accel-Expires: @1795189486", "X-Accel-Expires: 60",
                   "Age: 60"));
    not_kept("X-Accel-Expires is 0",
             LINES("X-Accel-Expires: @1795189426",
                   "X-Accel-Expires: 60"));
    not_kept("X-Accel-Expires is 0",
             LINES("X-Accel-Expires: @1795189486", "X-Accel-Expires: 0"));
}


static void
date(void **state)
{
    (void) state;

    kept(50, LINES("Cache-Control: public, max-age=60", "Date: -10"));
    kept(40, LINES("Cache-Control: s-maxage=60", "Date: -10", "Date: -20"));
    kept(40, LINES("Cache-Control: s-maxage=60", "Date: -20", "Date: -10"));
    not_kept("lifetime is over",
             LINES("Cache-Control: s-maxage=60", "Date: -60"));

    /* no date, and one in the future, say nothing */

    kept(60, LINES("Cache-Control: s-maxage=60", "Date: -"));
    kept(60, LINES("Cache-Control: s-maxage=60", "Date: 0"));
    kept(60, LINES("Cache-Control: s-maxage=60", "Date: 3600"));

    /* Expires is less Date, which is taken off as an age: once */

    kept(60, LINES("Cache-Control: public", "Expires: 60", "Date: -100"));
    kept(60, LINES("Cache-Control: public", "Date: -100", "Expires: 60"));
    kept(50, LINES("Cache-Control: public", "Expires: 60", "Date: -100",
                   "Age: 110"));
    not_kept("lifetime is over",
             LINES("Cache-Control: public", "Expires: 0", "Date: -100"));
    not_kept("lifetime is over",
             LINES("Cache-Control: public", "Expires: -10", "Date: -100"));
}


/* RFC 9111, 4.2.3: the larger one of what is said and what is seen */

static void
initial_age(void **state)
{
    size_t          i;
    nsf_lifetime_t  l;

    static const struct {
        int64_t      expected;
        const char  *lines[4];
    } cases[] = {
        { 0, { NULL } },
        { 10, { "Age: 10", NULL } },
        { 3, { "Delay: 3", NULL } },
        { 13, { "Age: 10", "Delay: 3", NULL } },
        { 20, { "Date: -20", NULL } },
        { 20, { "Age: 10", "Delay: 3", "Date: -20", NULL } },
        { 13, { "Age: 10", "Delay: 3", "Date: -5", NULL } },
        { 13, { "Age: 10", "Delay: 3", "Date: 50", NULL } },
        { NSF_LIFETIME_MAX, { "Date: -99999999", NULL } },
        { NSF_LIFETIME_MAX, { "Age: x", NULL } },
    };

    (void) state;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        l = answer(cases[i].lines);
        assert_int_equal(nsf_lifetime_initial_age(&l), cases[i].expected);
    }
}


static void
delay(void **state)
{
    (void) state;

    kept(57, LINES("Cache-Control: s-maxage=60", "Delay: 3"));
    kept(47, LINES("Cache-Control: s-maxage=60", "Age: 10", "Delay: 3"));
    not_kept("lifetime is over",
             LINES("Cache-Control: s-maxage=3", "Delay: 3"));
    not_kept("lifetime is over", LINES("X-Accel-Expires: 3", "Delay: 3"));
}


static void
revalidate(void **state)
{
    size_t          i;
    nsf_lifetime_t  l;

    static const char *const  yes[] = {
        "Cache-Control: public, max-age=60, must-revalidate",
        "Cache-Control: public, max-age=60, PROXY-REVALIDATE",
        "Cache-Control: s-maxage=60",
        "Cache-Control: must-revalidate=1",
        "Cache-Control: s-maxage",
    };

    static const char *const  no[] = {
        "Cache-Control: public, max-age=60",
        "Cache-Control: x-must-revalidate, s-maxag=60",
        "Cache-Control: x=\"must-revalidate, s-maxage=5\"",
        "X-Accel-Expires: 60",
    };

    (void) state;

    for (i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
        l = answer(LINES(yes[i]));
        assert_int_equal(l.revalidate, 1);

        /* nothing undoes it */

        l = answer(LINES(yes[i], "X-Accel-Expires: 60",
                         "Cache-Control: public, max-age=600"));
        assert_int_equal(l.revalidate, 1);
    }

    for (i = 0; i < sizeof(no) / sizeof(no[0]); i++) {
        l = answer(LINES(no[i]));
        assert_int_equal(l.revalidate, 0);
    }
}


static void
vary(void **state)
{
    (void) state;

    kept(60, LINES("X-Accel-Expires: 60", "Vary: "));
    kept(60, LINES("X-Accel-Expires: 60", "Vary:  , ,"));
    not_kept("Vary", LINES("X-Accel-Expires: 60", "Vary: *"));
    not_kept("Vary", LINES("X-Accel-Expires: 60", "Vary: Cookie"));
    not_kept("Vary", LINES("X-Accel-Expires: 60", "Vary: Accept-Encoding"));
    not_kept("Vary", LINES("Cache-Control: public, max-age=60",
                           "Vary: , accept-encoding"));
}


static void
vary_on_what_is_known(void **state)
{
    (void) state;

    kept(60, LINES("Known: accept_encoding", "X-Accel-Expires: 60",
                   "Vary: Accept-Encoding"));
    kept(60, LINES("Known: accept_encoding", "X-Accel-Expires: 60",
                   "Vary: ACCEPT-ENCODING ,\taccept-encoding, "));
    kept(60, LINES("Known: accept_encoding", "Known: accept_language",
                   "X-Accel-Expires: 60",
                   "Vary: Accept-Language,Accept-Encoding"));
    kept(60, LINES("Known: accept_encoding", "Known: accept_language",
                   "X-Accel-Expires: 60", "Vary: Accept-Language",
                   "Vary: Accept-Encoding"));
    not_kept("Vary", LINES("Known: accept_encoding", "X-Accel-Expires: 60",
                           "Vary: Accept-Language"));
    not_kept("Vary", LINES("Known: accept_encoding", "X-Accel-Expires: 60",
                           "Vary: Accept-Encoding, Cookie"));
    not_kept("Vary", LINES("Known: accept_encoding", "X-Accel-Expires: 60",
                           "Vary: Accept-Encoding", "Vary: Accept"));
    not_kept("Vary", LINES("Known: accept_encoding", "X-Accel-Expires: 60",
                           "Vary: Accept-Encodin"));
    not_kept("Vary", LINES("Known: accept_encoding", "X-Accel-Expires: 60",
                           "Vary: Accept-Encodings"));
    not_kept("Vary", LINES("Known: accept_encoding", "X-Accel-Expires: 60",
                           "Vary: *"));
}


static void
cookies_and_credentials(void **state)
{
    (void) state;

    not_kept("Set-Cookie", LINES("X-Accel-Expires: 60", "Set-Cookie: a"));
    not_kept("Set-Cookie", LINES("Cache-Control: public, max-age=60",
                                 "Set-Cookie: a"));
    not_kept("Authorization, and not public",
             LINES("X-Accel-Expires: 60", "Authorization: x"));
    not_kept("Authorization, and not public",
             LINES("Cache-Control: s-maxage=60", "Authorization: x"));
    kept(60, LINES("Cache-Control: public, max-age=60", "Authorization: x"));
    kept(60, LINES("X-Accel-Expires: 60", "Cache-Control: public",
                   "Authorization: x"));
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(nothing_said),
        cmocka_unit_test(cache_control),
        cmocka_unit_test(cache_control_of_caches),
        cmocka_unit_test(cache_control_twice),
        cmocka_unit_test(cache_control_that_forbids),
        cmocka_unit_test(cache_control_with_quotes),
        cmocka_unit_test(cache_control_of_others),
        cmocka_unit_test(accel_expires),
        cmocka_unit_test(accel_expires_that_forbids),
        cmocka_unit_test(accel_expires_at_a_time),
        cmocka_unit_test(expires),
        cmocka_unit_test(age),
        cmocka_unit_test(age_of_accel_expires),
        cmocka_unit_test(age_of_a_time),
        cmocka_unit_test(date),
        cmocka_unit_test(initial_age),
        cmocka_unit_test(delay),
        cmocka_unit_test(revalidate),
        cmocka_unit_test(vary),
        cmocka_unit_test(vary_on_what_is_known),
        cmocka_unit_test(cookies_and_credentials),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
