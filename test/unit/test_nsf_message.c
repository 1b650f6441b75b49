/*
 * Copyright (C) the ngx_sendfile authors
 */


#include "nsf_test.h"
#include "nsf_base64.h"
#include "nsf_message.h"
#include "nsf_test_vectors.h"


static const char *
decode(const void *text, size_t len, nsf_message_t *m, nsf_test_buf_t *buf)
{
    *buf = nsf_test_copy(text, len);

    return nsf_message_decode(m, buf->data, buf->len);
}


#define decode_str(text, m, buf)  decode(text, sizeof(text) - 1, m, buf)


static void
assert_error(const void *text, size_t len, const char *expected)
{
    const char      *err;
    nsf_message_t    m;
    nsf_test_buf_t   buf;

    err = decode(text, len, &m, &buf);
    nsf_assert_error(err, expected);
    nsf_test_free(&buf);
}


#define assert_error_str(text, expected)                                      \
    assert_error(text, sizeof(text) - 1, expected)


/* what real versions of Rails have signed */

static void
real_tokens(void **state)
{
    char                *token, *end;
    size_t               i, n, found, marshalled;
    nsf_message_t        m;
    nsf_test_buf_t       buf;
    nsf_test_vectors_t   v;

    (void) state;

    found = 0;
    marshalled = 0;

    nsf_test_vectors(&v, "signatures.tsv", 7, 25);

    for (i = 1; i < v.nrows; i++) {

        if (strcmp(v.rows[i][1], "rails") != 0) {
            continue;
        }

        token = v.rows[i][4] + 1;
        end = strstr(token, "--");
        assert_non_null(end);

        buf = nsf_test_copy(token, (size_t) (end - token));

        nsf_assert_good(nsf_base64_decode(buf.data, &n, buf.data, buf.len));
        nsf_assert_good(nsf_message_decode(&m, buf.data, n));

        assert_memory_equal(v.rows[i][2] + strlen("purpose="), m.purpose.data,
                            m.purpose.len);

        if (v.rows[i][5][0] == '\0') {
            assert_true(m.expires == NSF_MESSAGE_EVER);

        } else {
            assert_int_equal(m.expires / 1000, atoll(v.rows[i][5]));
        }

        if (strcmp(v.rows[i][2], "purpose=blob_id") == 0) {
            assert_int_equal(m.kind, NSF_MESSAGE_INTEGER);
            nsf_assert_str(m.value, "1");

            if (m.marshal.data != NULL) {
                assert_int_equal(m.marshal.len, 4);
                assert_memory_equal(m.marshal.data, "\x04\bi\x06", 4);
                marshalled++;
            }

            found++;

        } else if (strcmp(v.rows[i][2], "purpose=blob_key") == 0) {
            assert_int_equal(m.kind, NSF_MESSAGE_HASH);
            assert_int_equal(m.key.len, 28);
            nsf_assert_str(m.type, "text/plain");
            nsf_assert_str(m.service, "local");
            nsf_assert_str(m.disposition, "inline; "
                           "filename=\"hello world.txt\"; "
                           "filename*=UTF-8''h%C3%A9llo%20w%C3%B6rld.txt");
            found++;
        }

        nsf_test_free(&buf);
    }

    assert_int_equal(found, 9);
    assert_int_equal(marshalled, 3);

    nsf_test_vectors_free(&v);
}


static void
data_alone(void **state)
{
    nsf_message_t   m;
    nsf_test_buf_t  buf;

    (void) state;

    nsf_assert_good(decode_str("\"a\\u0062\"", &m, &buf));
    assert_int_equal(m.kind, NSF_MESSAGE_STRING);
    nsf_assert_str(m.value, "ab");
    assert_null(m.purpose.data);
    nsf_test_free(&buf);

    nsf_assert_good(decode_str("\x04\x08I\"\x07" "ab\x06:\x06" "ET", &m,
                               &buf));
    assert_int_equal(m.kind, NSF_MESSAGE_STRING);
    nsf_assert_str(m.value, "ab");
    nsf_test_free(&buf);

    nsf_assert_good(decode_str("{\"key\":\"k\",\"x\":[1]}", &m, &buf));
    assert_int_equal(m.kind, NSF_MESSAGE_HASH);
    nsf_assert_str(m.key, "k");
    nsf_test_free(&buf);

    nsf_assert_good(decode_str("[1]", &m, &buf));
    assert_int_equal(m.kind, NSF_MESSAGE_OTHER);
    nsf_test_free(&buf);
}


static void
integers_of_marshal(void **state)
{
    nsf_message_t   m;
    nsf_test_buf_t  buf;

    (void) state;

    nsf_assert_good(decode_str("\x04\x08i\x00", &m, &buf));
    nsf_assert_str(m.value, "0");
    nsf_test_free(&buf);

    nsf_assert_good(decode_str("\x04\x08i\xfa", &m, &buf));
    nsf_assert_str(m.value, "-1");
    nsf_test_free(&buf);

    nsf_assert_good(decode_str("\x04\x08i\x03\x9f\x8b\x04", &m, &buf));
    nsf_assert_str(m.value, "297887");
    nsf_test_free(&buf);

    /* 2^62 - 1 */

    nsf_assert_good(decode_str("\x04\x08l+\x09\xff\xff\xff\xff\xff\xff\xff"
                               "\x3f", &m, &buf));
    nsf_assert_str(m.value, "4611686018427387903");
    nsf_test_free(&buf);

    assert_error_str("\x04\x08l+\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00",
                     "an Integer too large in Marshal");
}


static void
envelope_of_marshal(void **state)
{
    nsf_message_t   m;
    nsf_test_buf_t  buf;

    (void) state;

    /* Marshal.dump("_rails" => {"data" => {key: "k"}, "pur" => "p"}) */

    nsf_assert_good(decode_str("\x04\x08{\x06I\"\x0b_rails\x06:\x06" "ET{\x07"
                               "I\"\x09" "data\x06;\x00T{\x06:\x08keyI\"\x06k"
                               "\x06;\x00TI\"\x08pur\x06;\x00TI\"\x06p\x06;"
                               "\x00T", &m, &buf));
    nsf_assert_str(m.purpose, "p");
    nsf_assert_str(m.key, "k");
    nsf_test_free(&buf);
}


static void
nulls_are_none(void **state)
{
    nsf_message_t   m;
    nsf_test_buf_t  buf;

    (void) state;

    nsf_assert_good(decode_str("{\"_rails\":{\"data\":{\"key\":null},"
                               "\"exp\":null,\"pur\":null}}", &m, &buf));
    assert_int_equal(m.kind, NSF_MESSAGE_HASH);
    assert_null(m.key.data);
    assert_null(m.purpose.data);
    assert_true(m.expires == NSF_MESSAGE_EVER);
    nsf_test_free(&buf);
}


static void
unknown_fields(void **state)
{
    nsf_message_t   m;
    nsf_test_buf_t  buf;

    (void) state;

    nsf_assert_good(decode_str("{\"_rails\":{\"x\":{\"pur\":\"q\"},\"data\":7,"
                               "\"pur\":\"p\"}}", &m, &buf));
    nsf_assert_str(m.purpose, "p");
    nsf_assert_str(m.value, "7");
    nsf_test_free(&buf);
}


static void
not_an_envelope(void **state)
{
    (void) state;

    assert_error_str("{\"_rails\":{}}", "no data in token");
    assert_error_str("{\"_rails\":{\"data\":1,\"message\":\"BAhpBg==\"}}",
                     "no data in token");
    assert_error_str("{\"_rails\":{\"data\":1},\"x\":1}",
                     "more than an envelope in token");
    assert_error_str("{\"_rails\":{\"data\":1,\"pur\":\"a\",\"pur\":\"b\"}}",
                     "a field twice in token");
    assert_error_str("{\"_rails\":{\"data\":1,\"data\":2}}",
                     "data twice in token");
    assert_error_str("{\"_rails\":{\"data\":1,\"exp\":\"never\"}}",
                     "broken time in token");
    assert_error_str("{\"_rails\":{\"message\":\"x\"}}", "base64 cut off");
    assert_error_str("{\"_rails\":{\"data\":1}} ,", "broken JSON");
    assert_error_str("", "broken JSON");
}


/* an envelope within one says nothing: its purpose was never signed as one */

static void
envelope_in_an_envelope(void **state)
{
    nsf_message_t   m;
    nsf_test_buf_t  buf;

    (void) state;

    nsf_assert_good(decode_str("{\"_rails\":{\"data\":{\"_rails\":{\"data\":1,"
                               "\"pur\":\"blob_id\"}}}}", &m, &buf));
    assert_null(m.purpose.data);
    assert_null(m.value.data);
    nsf_test_free(&buf);
}


static void
each_prefix(void **state)
{
    size_t             len;
    nsf_message_t      m;
    nsf_test_buf_t     buf;
    static const char  text[] = "{\"_rails\":{\"data\":{\"key\":\"k\\u0041\"},"
                                "\"exp\":\"2026-11-20T16:02:25.572Z\","
                                "\"pur\":\"p\"}}";

    (void) state;

    for (len = 0; len < sizeof(text) - 1; len++) {
        assert_non_null(decode(text, len, &m, &buf));
        nsf_test_free(&buf);
    }
}


static void
assert_time(const char *text, int64_t expected)
{
    int64_t    ms;
    nsf_str_t  s;

    s.data = (const unsigned char *) text;
    s.len = strlen(text);

    if (expected < 0) {
        nsf_assert_error(nsf_message_time(&ms, &s), "broken time in token");
        return;
    }

    nsf_assert_good(nsf_message_time(&ms, &s));
    assert_int_equal(ms, expected);
}


static void
times(void **state)
{
    (void) state;

    assert_time("1970-01-01T00:00:00.000Z", 0);
    assert_time("2000-02-29T23:59:59.999Z", INT64_C(951868799999));
    assert_time("2000-03-01T00:00:00.000Z", INT64_C(951868800000));
    assert_time("2026-11-20T16:02:25.572Z", INT64_C(1795190545572));
    assert_time("2100-03-01T00:00:00.000Z", INT64_C(4107542400000));
    assert_time("9999-12-31T23:59:59.999Z", INT64_C(253402300799999));
}


static void
no_times(void **state)
{
    (void) state;

    assert_time("", -1);
    assert_time("2026-11-20T16:02:25Z", -1);
    assert_time("2026-11-20T16:02:25.572+", -1);
    assert_time("2026-11-20 16:02:25.572Z", -1);
    assert_time("2026-13-20T16:02:25.572Z", -1);
    assert_time("2026-00-20T16:02:25.572Z", -1);
    assert_time("2026-11-00T16:02:25.572Z", -1);
    assert_time("2026-11-20T24:02:25.572Z", -1);
    assert_time("1969-11-20T16:02:25.572Z", -1);
    assert_time("-026-11-20T16:02:25.572Z", -1);
}


int
main(void)
{
    static const struct CMUnitTest  tests[] = {
        cmocka_unit_test(real_tokens),
        cmocka_unit_test(data_alone),
        cmocka_unit_test(integers_of_marshal),
        cmocka_unit_test(envelope_of_marshal),
        cmocka_unit_test(nulls_are_none),
        cmocka_unit_test(unknown_fields),
        cmocka_unit_test(not_an_envelope),
        cmocka_unit_test(envelope_in_an_envelope),
        cmocka_unit_test(each_prefix),
        cmocka_unit_test(times),
        cmocka_unit_test(no_times),
    };

    return cmocka_run_group_tests_name("nsf_message", tests, NULL, NULL);
}
