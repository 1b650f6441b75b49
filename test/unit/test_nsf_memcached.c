/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <stdio.h>

#include "nsf_test.h"
#include "nsf_memcached.h"


#define MIB  (1024 * 1024)


static nsf_mc_reply_t        reply;
static nsf_test_buf_t        buf;
static const unsigned char  *next;


static int
setup(void **state)
{
    (void) state;

    memset(&buf, 0, sizeof(nsf_test_buf_t));
    memset(&reply, 0xff, sizeof(nsf_mc_reply_t));
    next = NULL;

    return 0;
}


static int
teardown(void **state)
{
    (void) state;

    nsf_test_free(&buf);

    return 0;
}


/* what a result leaves out is zero, and "next" is where it should be */

static void
check(nsf_mc_e rc)
{
    if (rc != NSF_MC_VALUE && rc != NSF_MC_LARGE) {
        assert_null(reply.key.data);
        assert_int_equal(reply.key.len, 0);
        assert_int_equal(reply.flags, 0);
        assert_int_equal(reply.len, 0);
    }

    if (rc != NSF_MC_VALUE) {
        assert_null(reply.data);
    }

    if (rc != NSF_MC_ERROR && rc != NSF_MC_BAD) {
        assert_null(reply.error.data);
        assert_int_equal(reply.error.len, 0);
    }

    if (rc == NSF_MC_BAD) {
        assert_ptr_equal(reply.error.data, buf.data);
        assert_true(reply.error.len <= 64);
        assert_true(reply.error.len <= buf.len);
    }

    if (rc == NSF_MC_AGAIN) {
        assert_true(reply.need >= 1);

    } else {
        assert_int_equal(reply.need, 0);
    }

    if (rc == NSF_MC_AGAIN || rc == NSF_MC_BAD) {
        assert_ptr_equal(next, buf.data);

    } else {
        assert_true(next > buf.data && next <= buf.data + buf.len);
    }
}


static nsf_mc_e
parse_n(const void *data, size_t len)
{
    nsf_mc_e  rc;

    nsf_test_free(&buf);
    buf = nsf_test_copy(data, len);
    memset(&reply, 0xff, sizeof(nsf_mc_reply_t));
    next = NULL;

    rc = nsf_mc_parse(buf.data, buf.data + buf.len, &reply, &next);
    check(rc);

    return rc;
}


static nsf_mc_e
parse(const char *data)
{
    return parse_n(data, strlen(data));
}


static size_t
consumed(void)
{
    return (size_t) (next - buf.data);
}


static void
value(void **state)
{
    (void) state;

    assert_int_equal(parse("VALUE 297887 16 9\r\naa/aa.dat\r\nEND\r\n"),
                     NSF_MC_VALUE);
    nsf_assert_str(reply.key, "297887");
    assert_int_equal(reply.flags, 16);
    assert_int_equal(reply.len, 9);
    assert_memory_equal(reply.data, "aa/aa.dat", 9);
    assert_int_equal(consumed(), 30);
}


static void
value_is_a_slice(void **state)
{
    (void) state;

    assert_int_equal(parse("VALUE k 0 1\r\nx\r\n"), NSF_MC_VALUE);
    assert_ptr_equal(reply.key.data, buf.data + 6);
    assert_ptr_equal(reply.data, buf.data + 13);
    assert_ptr_equal(next, buf.data + buf.len);
}


static void
value_empty(void **state)
{
    (void) state;

    assert_int_equal(parse("VALUE k 0 0\r\n\r\n"), NSF_MC_VALUE);
    assert_int_equal(reply.len, 0);
    assert_ptr_equal(reply.data, buf.data + 13);
    assert_ptr_equal(next, buf.data + buf.len);
}


static void
value_binary(void **state)
{
    (void) state;

    assert_int_equal(parse_n("VALUE k 0 7\r\n\r\nEND\r\n\r\n", 22),
                     NSF_MC_VALUE);
    assert_memory_equal(reply.data, "\r\nEND\r\n", 7);

    assert_int_equal(parse_n("VALUE k 0 3\r\n\0\xff\0\r\n", 18), NSF_MC_VALUE);
    assert_memory_equal(reply.data, "\0\xff\0", 3);
}


static void
value_with_cas(void **state)
{
    (void) state;

    assert_int_equal(parse("VALUE k 1 1 18446744073709551615\r\nx\r\n"),
                     NSF_MC_VALUE);
    assert_int_equal(reply.flags, 1);
    assert_int_equal(reply.len, 1);

    assert_int_equal(parse("VALUE k 1 1 0\r\nx\r\n"), NSF_MC_VALUE);
}


static void
value_bad_cas(void **state)
{
    (void) state;

    assert_int_equal(parse("VALUE k 1 1 18446744073709551616\r\nx\r\n"),
                     NSF_MC_BAD);
    assert_int_equal(parse("VALUE k 1 1 \r\nx\r\n"), NSF_MC_BAD);
    assert_int_equal(parse("VALUE k 1 1 a\r\nx\r\n"), NSF_MC_BAD);
    assert_int_equal(parse("VALUE k 1 1 -1\r\nx\r\n"), NSF_MC_BAD);
    assert_int_equal(parse("VALUE k 1 1 1 \r\nx\r\n"), NSF_MC_BAD);
    assert_int_equal(parse("VALUE k 1 1 1 1\r\nx\r\n"), NSF_MC_BAD);
}


static void
value_flags(void **state)
{
    (void) state;

    assert_int_equal(parse("VALUE k 4294967295 1\r\nx\r\n"), NSF_MC_VALUE);
    assert_true(reply.flags == UINT32_MAX);

    assert_int_equal(parse("VALUE k 4294967296 1\r\nx\r\n"), NSF_MC_BAD);
    assert_int_equal(parse("VALUE k 42949672950 1\r\nx\r\n"), NSF_MC_BAD);
    assert_int_equal(parse("VALUE k 99999999999999999999 1\r\nx\r\n"),
                     NSF_MC_BAD);
    assert_int_equal(parse("VALUE k -1 1\r\nx\r\n"), NSF_MC_BAD);
    assert_int_equal(parse("VALUE k +1 1\r\nx\r\n"), NSF_MC_BAD);
    assert_int_equal(parse("VALUE k 0x1 1\r\nx\r\n"), NSF_MC_BAD);
    assert_int_equal(parse("VALUE k 01 1\r\nx\r\n"), NSF_MC_BAD);
    assert_int_equal(parse("VALUE k 00 1\r\nx\r\n"), NSF_MC_BAD);
    assert_int_equal(parse("VALUE k  1\r\nx\r\n"), NSF_MC_BAD);
}


static void
value_bytes(void **state)
{
    (void) state;

    assert_int_equal(parse("VALUE k 0\r\nx\r\n"), NSF_MC_BAD);
    assert_int_equal(parse("VALUE k 0 \r\nx\r\n"), NSF_MC_BAD);
    assert_int_equal(parse("VALUE k 0 -1\r\nx\r\n"), NSF_MC_BAD);
    assert_int_equal(parse("VALUE k 0 01\r\nx\r\n"), NSF_MC_BAD);
    assert_int_equal(parse("VALUE k 0 1x\r\nx\r\n"), NSF_MC_BAD);
    assert_int_equal(parse("VALUE k 0 1.0\r\nx\r\n"), NSF_MC_BAD);
    assert_int_equal(parse("VALUE k 0  1\r\nx\r\n"), NSF_MC_BAD);
    assert_int_equal(parse("VALUE k 0 1 \r\nx\r\n"), NSF_MC_BAD);
}


static void
value_data_is_longer_than_it_says(void **state)
{
    (void) state;

    assert_int_equal(parse("VALUE k 0 1\r\nxy\r\nEND\r\n"), NSF_MC_BAD);
    nsf_assert_str(reply.error, "VALUE k 0 1");
}


static void
value_data_is_shorter_than_it_says(void **state)
{
    (void) state;

    assert_int_equal(parse("VALUE k 0 3\r\nx\r\nEND\r\n"), NSF_MC_BAD);
}


static void
value_data_without_crlf(void **state)
{
    (void) state;

    assert_int_equal(parse("VALUE k 0 1\r\nx\nEND\r\n"), NSF_MC_BAD);
    assert_int_equal(parse("VALUE k 0 1\r\nx\r\rEND\r\n"), NSF_MC_BAD);
    assert_int_equal(parse("VALUE k 0 1\r\nx\n"), NSF_MC_BAD);
    assert_int_equal(parse("VALUE k 0 1\r\nx\r\r"), NSF_MC_BAD);
    assert_int_equal(parse("VALUE k 0 0\r\nx"), NSF_MC_BAD);
}


static void
value_key_lengths(void **state)
{
    char    line[400];
    size_t  len;

    (void) state;

    for (len = 1; len <= 260; len++) {
        memcpy(line, "VALUE ", 6);
        memset(line + 6, 'k', len);
        memcpy(line + 6 + len, " 0 1\r\nx\r\n", 10);

        if (len <= 250) {
            assert_int_equal(parse(line), NSF_MC_VALUE);
            assert_int_equal(reply.key.len, len);

        } else {
            assert_int_equal(parse(line), NSF_MC_BAD);
            assert_int_equal(reply.error.len, 64);
        }
    }
}


static void
value_keys(void **state)
{
    (void) state;

    assert_int_equal(parse("VALUE  0 1\r\nx\r\n"), NSF_MC_BAD);
    assert_int_equal(parse("VALUE \r\nx\r\n"), NSF_MC_BAD);
    assert_int_equal(parse("VALUE\r\nx\r\n"), NSF_MC_BAD);
    assert_int_equal(parse("VALUE k\r\nx\r\n"), NSF_MC_BAD);
    assert_int_equal(parse("VALUE\tk 0 1\r\nx\r\n"), NSF_MC_BAD);
    assert_int_equal(parse("VALUEk 0 1\r\nx\r\n"), NSF_MC_BAD);
    assert_int_equal(parse("value k 0 1\r\nx\r\n"), NSF_MC_BAD);
    assert_int_equal(parse(" VALUE k 0 1\r\nx\r\n"), NSF_MC_BAD);
    assert_int_equal(parse("VALUE k\tk 0 1\r\nx\r\n"), NSF_MC_BAD);
    assert_int_equal(parse("VALUE k\x7f 0 1\r\nx\r\n"), NSF_MC_BAD);
    assert_int_equal(parse_n("VALUE a\0b 0 1\r\nx\r\n", 19), NSF_MC_BAD);

    assert_int_equal(parse("VALUE \xe3\x81\x82 0 1\r\nx\r\n"), NSF_MC_VALUE);
    nsf_assert_str(reply.key, "\xe3\x81\x82");

    assert_int_equal(parse("VALUE VALUE 0 1\r\nx\r\n"), NSF_MC_VALUE);
    nsf_assert_str(reply.key, "VALUE");
}


static void
line_of_lf_alone(void **state)
{
    (void) state;

    assert_int_equal(parse("END\n"), NSF_MC_BAD);
    assert_int_equal(parse("\n"), NSF_MC_BAD);
    assert_int_equal(parse("\r\n"), NSF_MC_BAD);
    assert_int_equal(parse("ERROR\n"), NSF_MC_BAD);
    assert_int_equal(parse("VALUE k 0 1\nx\r\n"), NSF_MC_BAD);
    assert_int_equal(parse("VALUE k 0 1\r\rx\r\n"), NSF_MC_BAD);
    assert_int_equal(parse("END\r\r\n"), NSF_MC_BAD);
    assert_int_equal(parse("END\rEND\r\n"), NSF_MC_BAD);
}


static void
largest_value(void **state)
{
    char    *data;
    size_t   len;

    (void) state;

    data = malloc(NSF_MAX_VALUE + 64);
    assert_non_null(data);

    len = (size_t) snprintf(data, 64, "VALUE k 0 %d\r\n", NSF_MAX_VALUE);
    memset(data + len, 'x', NSF_MAX_VALUE);
    memcpy(data + len + NSF_MAX_VALUE, "\r\n", 2);
    len += NSF_MAX_VALUE + 2;

    assert_int_equal(parse_n(data, len), NSF_MC_VALUE);
    assert_int_equal(reply.len, NSF_MAX_VALUE);
    assert_int_equal(consumed(), len);

    assert_int_equal(parse_n(data, len - 1), NSF_MC_AGAIN);
    assert_int_equal(reply.need, 1);

    data[len - 2] = 'x';
    assert_int_equal(parse_n(data, len), NSF_MC_BAD);

    free(data);
}


static void
large_value(void **state)
{
    (void) state;

    assert_int_equal(NSF_MAX_VALUE, 65536);

    assert_int_equal(parse("VALUE key 7 65537\r\n"), NSF_MC_LARGE);
    nsf_assert_str(reply.key, "key");
    assert_int_equal(reply.flags, 7);
    assert_int_equal(reply.len, 65537);
    assert_int_equal(consumed(), 19);

    assert_int_equal(parse("VALUE key 7 65537\r\nxxx"), NSF_MC_LARGE);
    assert_int_equal(consumed(), 19);

    assert_int_equal(parse("VALUE key 7 65536\r\nxxx"), NSF_MC_AGAIN);
    assert_int_equal(reply.need, 65536 - 3 + 2);
}


static void
largest_number_of_bytes(void **state)
{
    (void) state;

    assert_int_equal(parse("VALUE k 0 1073741824\r\n"), NSF_MC_LARGE);
    assert_int_equal(reply.len, 1024 * MIB);

    assert_int_equal(parse("VALUE k 0 1073741825\r\n"), NSF_MC_BAD);
    assert_int_equal(parse("VALUE k 0 4294967297\r\n"), NSF_MC_BAD);
    assert_int_equal(parse("VALUE k 0 18446744073709551616\r\n"), NSF_MC_BAD);
    assert_int_equal(parse("VALUE k 0 18446744073709551617\r\n"), NSF_MC_BAD);
}


static void
end(void **state)
{
    (void) state;

    assert_int_equal(parse("END\r\n"), NSF_MC_END);
    assert_int_equal(consumed(), 5);

    assert_int_equal(parse("END\r\nVALUE"), NSF_MC_END);
    assert_int_equal(consumed(), 5);

    assert_int_equal(parse("END \r\n"), NSF_MC_BAD);
    assert_int_equal(parse("ENDE\r\n"), NSF_MC_BAD);
    assert_int_equal(parse("EN\r\n"), NSF_MC_BAD);
    assert_int_equal(parse("end\r\n"), NSF_MC_BAD);
    assert_int_equal(parse_n("END\0\r\n", 6), NSF_MC_BAD);
}


static void
error_lines(void **state)
{
    (void) state;

    assert_int_equal(parse("ERROR\r\n"), NSF_MC_ERROR);
    nsf_assert_str(reply.error, "ERROR");
    assert_int_equal(consumed(), 7);

    assert_int_equal(parse("SERVER_ERROR out of memory\r\nEND\r\n"),
                     NSF_MC_ERROR);
    nsf_assert_str(reply.error, "SERVER_ERROR out of memory");
    assert_int_equal(consumed(), 28);

    assert_int_equal(parse("CLIENT_ERROR bad command line format\r\n"),
                     NSF_MC_ERROR);
    nsf_assert_str(reply.error, "CLIENT_ERROR bad command line format");

    assert_int_equal(parse("SERVER_ERROR\r\n"), NSF_MC_ERROR);
    nsf_assert_str(reply.error, "SERVER_ERROR");
}


static void
error_lines_that_are_none(void **state)
{
    (void) state;

    assert_int_equal(parse("ERRORS\r\n"), NSF_MC_BAD);
    assert_int_equal(parse("ERROR:\r\n"), NSF_MC_BAD);
    assert_int_equal(parse("SERVER_ERRORx\r\n"), NSF_MC_BAD);
    assert_int_equal(parse("CLIENT_ERROR\tx\r\n"), NSF_MC_BAD);
    assert_int_equal(parse("CLIENT_ERROR a\x1b[1m\r\n"), NSF_MC_BAD);
    assert_int_equal(parse("CLIENT_ERROR a\x7f\r\n"), NSF_MC_BAD);
    assert_int_equal(parse_n("SERVER_ERROR a\0b\r\n", 18), NSF_MC_BAD);
    assert_int_equal(parse("_ERROR x\r\n"), NSF_MC_BAD);
    assert_int_equal(parse("STORED\r\n"), NSF_MC_BAD);
    assert_int_equal(parse("HTTP/1.1 400 Bad Request\r\n"), NSF_MC_BAD);
    nsf_assert_str(reply.error, "HTTP/1.1 400 Bad Request");
}


static void
line_of_512_bytes(void **state)
{
    char  line[600];

    (void) state;

    memset(line, 'x', sizeof(line));
    memcpy(line, "SERVER_ERROR ", 13);

    /* 512 and CRLF are good, with each split */

    assert_int_equal(NSF_MC_MAX_LINE, 512);
    assert_int_equal(parse_n(line, 511), NSF_MC_AGAIN);
    assert_int_equal(parse_n(line, 512), NSF_MC_AGAIN);
    assert_int_equal(parse_n(line, 513), NSF_MC_BAD);
    assert_int_equal(reply.error.len, 64);

    memcpy(line + 512, "\r\n", 2);
    assert_int_equal(parse_n(line, 513), NSF_MC_AGAIN);
    assert_int_equal(reply.need, 1);
    assert_int_equal(parse_n(line, 514), NSF_MC_ERROR);
    assert_int_equal(reply.error.len, 512);

    memcpy(line + 512, "x\r\n", 3);
    assert_int_equal(parse_n(line, 515), NSF_MC_BAD);

    memset(line + 512, 'x', 3);
    memcpy(line, "VALUE k 0 ", 10);
    assert_int_equal(parse_n(line, 600), NSF_MC_BAD);
}


static void
garbage_is_not_waited_for(void **state)
{
    (void) state;

    assert_int_equal(parse("x"), NSF_MC_BAD);
    nsf_assert_str(reply.error, "x");
    assert_int_equal(parse("VALUES"), NSF_MC_BAD);
    assert_int_equal(parse("VALUE"), NSF_MC_AGAIN);
    assert_int_equal(parse("VALUx"), NSF_MC_BAD);
    assert_int_equal(parse("ENDx"), NSF_MC_BAD);
    assert_int_equal(parse("EX"), NSF_MC_BAD);
    assert_int_equal(parse("ERRORx"), NSF_MC_BAD);
    assert_int_equal(parse("S"), NSF_MC_AGAIN);
    assert_int_equal(parse("SERVER_ERROx"), NSF_MC_BAD);
    assert_int_equal(parse("CLIENT_ERROR"), NSF_MC_AGAIN);
    assert_int_equal(parse("CLIENT_ERROR "), NSF_MC_AGAIN);
    assert_int_equal(parse("CLIENT_ERRORs"), NSF_MC_BAD);
    assert_int_equal(parse_n("\0", 1), NSF_MC_BAD);

    /* nor for the LF of a line that is bad already */

    assert_int_equal(parse("E\r"), NSF_MC_BAD);
    assert_int_equal(parse("VALUE k 0\r"), NSF_MC_BAD);
    assert_int_equal(parse("VALUE k 0 1\r"), NSF_MC_AGAIN);
    assert_int_equal(reply.need, 1);
    assert_int_equal(parse("END\r"), NSF_MC_AGAIN);
    assert_int_equal(reply.need, 1);
}


static void
bad_line_for_the_log(void **state)
{
    char  line[200];

    (void) state;

    assert_int_equal(parse("no such\r\nEND\r\n"), NSF_MC_BAD);
    nsf_assert_str(reply.error, "no such");

    assert_int_equal(parse("no such\nEND\r\n"), NSF_MC_BAD);
    nsf_assert_str(reply.error, "no such");

    assert_int_equal(parse("\r\n"), NSF_MC_BAD);
    assert_int_equal(reply.error.len, 0);

    memset(line, 'x', sizeof(line));
    assert_int_equal(parse_n(line, 200), NSF_MC_BAD);
    assert_int_equal(reply.error.len, 64);

    line[64] = '\n';
    assert_int_equal(parse_n(line, 200), NSF_MC_BAD);
    assert_int_equal(reply.error.len, 64);

    line[63] = '\n';
    assert_int_equal(parse_n(line, 200), NSF_MC_BAD);
    assert_int_equal(reply.error.len, 63);
}


static void
nothing_yet(void **state)
{
    (void) state;

    assert_int_equal(parse(""), NSF_MC_AGAIN);
    assert_int_equal(reply.need, 5);
}


static void
need(void **state)
{
    (void) state;

    assert_int_equal(parse("E"), NSF_MC_AGAIN);
    assert_int_equal(reply.need, 4);
    assert_int_equal(parse("EN"), NSF_MC_AGAIN);
    assert_int_equal(reply.need, 3);
    assert_int_equal(parse("END"), NSF_MC_AGAIN);
    assert_int_equal(reply.need, 2);
    assert_int_equal(parse("VALUE k 0 9"), NSF_MC_AGAIN);
    assert_int_equal(reply.need, 2);
    assert_int_equal(parse("VALUE k 0 9\r\n"), NSF_MC_AGAIN);
    assert_int_equal(reply.need, 11);
    assert_int_equal(parse("VALUE k 0 9\r\n123456789"), NSF_MC_AGAIN);
    assert_int_equal(reply.need, 2);
    assert_int_equal(parse("VALUE k 0 9\r\n123456789\r"), NSF_MC_AGAIN);
    assert_int_equal(reply.need, 1);
}


static const char  answer[] =
    "VALUE 1 0 9\r\naa/aa.dat\r\n"
    "VALUE ns:2 1 20\r\n\x04\bI\"\x0e" "aa/aa.dat\x06:\x06" "ET!\r\n"
    "VALUE e 0 0\r\n\r\n"
    "VALUE cas 4294967295 2 77\r\n\r\n\r\n"
    "END\r\n"
    "SERVER_ERROR out of memory\r\n"
    "ERROR\r\n"
    "END\r\n";

static const nsf_mc_e  items[] = {
    NSF_MC_VALUE, NSF_MC_VALUE, NSF_MC_VALUE, NSF_MC_VALUE, NSF_MC_END,
    NSF_MC_ERROR, NSF_MC_ERROR, NSF_MC_END
};

#define NITEMS  (sizeof(items) / sizeof(items[0]))


/*
 * The answer as it comes in pieces that end at the given places: the same
 * items, and never a call that "need" said would be in vain.
 */

static void
in_pieces(const size_t *ends, size_t nends)
{
    size_t    n, start, piece, wanted;
    nsf_mc_e  rc;

    n = 0;
    start = 0;
    wanted = 0;

    for (piece = 0; piece < nends; piece++) {

        for ( ;; ) {
            rc = parse_n(answer + start, ends[piece] - start);

            if (rc == NSF_MC_AGAIN) {
                wanted = ends[piece] + reply.need;
                break;
            }

            /* it was not promised that this comes to nothing */

            assert_true(ends[piece] >= wanted);

            assert_true(n < NITEMS);
            assert_int_equal(rc, items[n]);
            n++;

            start += consumed();
            wanted = 0;
        }
    }

    assert_int_equal(n, NITEMS);
    assert_int_equal(start, sizeof(answer) - 1);
}


static void
answer_at_once(void **state)
{
    size_t  ends[1];

    (void) state;

    ends[0] = sizeof(answer) - 1;
    in_pieces(ends, 1);
}


static void
answer_split_in_two_anywhere(void **state)
{
    size_t  ends[2];

    (void) state;

    ends[1] = sizeof(answer) - 1;

    for (ends[0] = 0; ends[0] <= ends[1]; ends[0]++) {
        in_pieces(ends, 2);
    }
}


static void
answer_split_in_three_anywhere(void **state)
{
    size_t  ends[3];

    (void) state;

    ends[2] = sizeof(answer) - 1;

    for (ends[0] = 0; ends[0] <= ends[2]; ends[0]++) {
        for (ends[1] = ends[0]; ends[1] <= ends[2]; ends[1]++) {
            in_pieces(ends, 3);
        }
    }
}


static void
answer_byte_by_byte(void **state)
{
    size_t  i, ends[sizeof(answer) - 1];

    (void) state;

    for (i = 0; i < sizeof(answer) - 1; i++) {
        ends[i] = i + 1;
    }

    in_pieces(ends, sizeof(answer) - 1);
}


/* one wrong byte anywhere never gives an item that is not in the answer */

static void
answer_with_any_byte_changed(void **state)
{
    char       data[64];
    size_t     i, len;
    unsigned   c;
    nsf_mc_e   rc;

    static const char  line[] = "VALUE k 1 2\r\nab\r\n";

    (void) state;

    len = sizeof(line) - 1;

    for (i = 0; i < len; i++) {

        for (c = 0; c < 256; c++) {
            memcpy(data, line, len);
            data[i] = (char) c;

            rc = parse_n(data, len);

            if (rc == NSF_MC_VALUE) {

                /* the key, a digit of the flags, the data, nothing else */

                assert_int_equal(reply.len, 2);
                assert_true(data[i] == line[i] || i == 6 || i == 8
                            || i == 13 || i == 14);
                assert_int_equal(reply.key.len, 1);

            } else if (rc == NSF_MC_AGAIN) {

                /* more bytes, by the digit of their number */

                assert_int_equal(i, 10);
                assert_true(c >= '3' && c <= '9');

            } else {
                assert_int_equal(rc, NSF_MC_BAD);
            }
        }
    }
}


/* neither the data nor what is behind a line that is too long is looked at */

static void
call_reads_little(void **state)
{
    char       line[NSF_MC_MAX_LINE + 1];
    size_t     len;
    nsf_mc_e   rc;

    (void) state;

    /* the memory ends with the line, whatever "last" says */

    len = (size_t) snprintf(line, sizeof(line), "VALUE k 0 %d\r\n",
                            NSF_MAX_VALUE);

    buf = nsf_test_copy(line, len);
    rc = nsf_mc_parse(buf.data, buf.data + 4096, &reply, &next);

    assert_int_equal(rc, NSF_MC_AGAIN);
    assert_int_equal(reply.need, len + NSF_MAX_VALUE + 2 - 4096);

    nsf_test_free(&buf);

    memset(line, 'x', sizeof(line));

    buf = nsf_test_copy(line, sizeof(line));
    rc = nsf_mc_parse(buf.data, buf.data + 4096, &reply, &next);

    assert_int_equal(rc, NSF_MC_BAD);
    assert_int_equal(reply.error.len, 64);
}


#define mc_test(f)  cmocka_unit_test_setup_teardown(f, setup, teardown)


int
main(void)
{
    static const struct CMUnitTest  tests[] = {
        mc_test(value),
        mc_test(value_is_a_slice),
        mc_test(value_empty),
        mc_test(value_binary),
        mc_test(value_with_cas),
        mc_test(value_bad_cas),
        mc_test(value_flags),
        mc_test(value_bytes),
        mc_test(value_data_is_longer_than_it_says),
        mc_test(value_data_is_shorter_than_it_says),
        mc_test(value_data_without_crlf),
        mc_test(value_key_lengths),
        mc_test(value_keys),
        mc_test(line_of_lf_alone),
        mc_test(largest_value),
        mc_test(large_value),
        mc_test(largest_number_of_bytes),
        mc_test(end),
        mc_test(error_lines),
        mc_test(error_lines_that_are_none),
        mc_test(line_of_512_bytes),
        mc_test(garbage_is_not_waited_for),
        mc_test(bad_line_for_the_log),
        mc_test(nothing_yet),
        mc_test(need),
        mc_test(answer_at_once),
        mc_test(answer_split_in_two_anywhere),
        mc_test(answer_split_in_three_anywhere),
        mc_test(answer_byte_by_byte),
        mc_test(answer_with_any_byte_changed),
        mc_test(call_reads_little),
    };

    return cmocka_run_group_tests_name("nsf_memcached", tests, NULL, NULL);
}
