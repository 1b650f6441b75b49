/*
 * Copyright (C) the ngx_sendfile authors
 */


#include "nsf_test.h"
#include "nsf_url.h"


#define NAME_ERR                                                              \
    "a store's name has only A-Z, a-z, 0-9, _, . and -"
#define EMPTY_ERR                                                             \
    "is empty: write lmdb:/path, memcached://host or a name"
#define NO_SCHEME_ERR                                                         \
    "a path needs its scheme: lmdb:/path"
#define CONTROL_ERR                                                           \
    "has a control byte"
#define SCHEME_ERR                                                            \
    "write a scheme in lower case first: lmdb:/path or memcached://host"
#define LMDB_ERR                                                              \
    "needs an absolute path: lmdb:/path"
#define LMDB_HOST_ERR                                                         \
    "has no host, write one slash: lmdb:/path"
#define MEMCACHED_ERR                                                         \
    "write memcached://host[:port] or memcached:/unix/socket"
#define OTHER_ERR                                                             \
    "write SCHEME://host[:port] or SCHEME:/path"
#define NO_HOST_ERR                                                           \
    "has no host: write SCHEME://host[:port]"
#define HOST_ERR                                                              \
    "has a bad character in the host: write a name, "                         \
    "an IPv4 address or [IPv6]"
#define AFTER_ERR                                                             \
    "has something after the host: write SCHEME://host[:port]"
#define BRACKETS_ERR                                                          \
    "needs brackets around an IPv6 address: SCHEME://[::1]:port"
#define IPV6_ERR                                                              \
    "has a bad IPv6 address: write SCHEME://[::1][:port]"
#define PORT_ERR                                                              \
    "has a bad port: write a number from 1 to 65535"


static void
assert_slice(const nsf_str_t *s, const nsf_test_buf_t *buf,
    const char *expected)
{
    assert_int_equal(s->len, strlen(expected));

    if (s->len == 0) {
        return;
    }

    assert_true(s->data >= buf->data);
    assert_true(s->data + s->len <= buf->data + buf->len);
    assert_memory_equal(s->data, expected, s->len);
}


static void
assert_url(const char *text, const char *scheme, const char *host,
    unsigned port, const char *path)
{
    nsf_url_t       url;
    nsf_test_buf_t  buf;

    memset(&url, 0xff, sizeof(nsf_url_t));
    buf = nsf_test_copy(text, strlen(text));

    nsf_assert_good(nsf_url_parse(&url, buf.data, buf.len));
    assert_slice(&url.scheme, &buf, scheme);
    assert_slice(&url.host, &buf, host);
    assert_slice(&url.path, &buf, path);
    assert_int_equal(url.port, port);

    nsf_test_free(&buf);
}


static const char *
parse_n(const void *text, size_t len)
{
    nsf_url_t        url, zero;
    const char      *err;
    nsf_test_buf_t   buf;

    memset(&url, 0xff, sizeof(nsf_url_t));
    buf = nsf_test_copy(text, len);

    err = nsf_url_parse(&url, buf.data, buf.len);

    if (err != NULL) {
        memset(&zero, 0, sizeof(nsf_url_t));
        assert_memory_equal(&url, &zero, sizeof(nsf_url_t));
    }

    nsf_test_free(&buf);

    return err;
}


static const char *
parse(const char *text)
{
    return parse_n(text, strlen(text));
}


static void
url_empty(void **state)
{
    (void) state;

    nsf_assert_error(parse(""), EMPTY_ERR);
    nsf_assert_error(nsf_url_parse(&(nsf_url_t) { .port = 0 }, NULL, 0),
                     EMPTY_ERR);
}


static void
name_plain(void **state)
{
    (void) state;

    assert_url("files", "", "", 0, "files");
    assert_url("a", "", "", 0, "a");
}


static void
name_of_each_kind_of_character(void **state)
{
    (void) state;

    assert_url("My_store-2.main", "", "", 0, "My_store-2.main");
    assert_url("-", "", "", 0, "-");
    assert_url("127.0.0.1", "", "", 0, "127.0.0.1");
}


static void
name_each_byte(void **state)
{
    char      name[2] = { 'n', 0 };
    unsigned  c;

    (void) state;

    for (c = 0; c < 256; c++) {
        name[1] = (char) c;

        if (c < 0x20 || c == 0x7f) {
            nsf_assert_error(parse_n(name, 2), CONTROL_ERR);

        } else if (c == '/') {
            nsf_assert_error(parse_n(name, 2), NO_SCHEME_ERR);

        } else if (c == ':') {
            nsf_assert_error(parse_n(name, 2), OTHER_ERR);

        } else if (c < 0x80
                   && strchr("abcdefghijklmnopqrstuvwxyz"
                             "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                             "0123456789_.-", (int) c) != NULL)
        {
            nsf_assert_good(parse_n(name, 2));

        } else {
            nsf_assert_error(parse_n(name, 2), NAME_ERR);
        }
    }
}


static void
name_that_is_a_path(void **state)
{
    (void) state;

    nsf_assert_error(parse("/var/lib/files.lmdb"), NO_SCHEME_ERR);
    nsf_assert_error(parse("var/lib"), NO_SCHEME_ERR);
    nsf_assert_error(parse("/"), NO_SCHEME_ERR);
}


static void
name_with_space(void **state)
{
    (void) state;

    nsf_assert_error(parse("a b"), NAME_ERR);
    nsf_assert_error(parse(" "), NAME_ERR);
}


static void
url_with_control_byte(void **state)
{
    (void) state;

    nsf_assert_error(parse("lmdb:/a\nb"), CONTROL_ERR);
    nsf_assert_error(parse("memcached://a\r"), CONTROL_ERR);
    nsf_assert_error(parse_n("lmdb:/a\0", 8), CONTROL_ERR);
    nsf_assert_error(parse("lmdb:/a\x7f"), CONTROL_ERR);
    nsf_assert_error(parse("\tlmdb:/a"), CONTROL_ERR);
}


static void
lmdb_path(void **state)
{
    (void) state;

    assert_url("lmdb:/var/lib/files", "lmdb", "", 0, "/var/lib/files");
    assert_url("lmdb:/a", "lmdb", "", 0, "/a");
}


static void
lmdb_path_bytes_as_they_are(void **state)
{
    (void) state;

    assert_url("lmdb:/my files/\xc3\xa4:1?#%41/", "lmdb", "", 0,
               "/my files/\xc3\xa4:1?#%41/");
    assert_url("lmdb:/a//b/../c", "lmdb", "", 0, "/a//b/../c");
}


static void
lmdb_three_slashes(void **state)
{
    (void) state;

    assert_url("lmdb:///var/lib/files", "lmdb", "", 0, "/var/lib/files");
    assert_url("lmdb:///a", "lmdb", "", 0, "/a");
}


static void
lmdb_relative(void **state)
{
    (void) state;

    nsf_assert_error(parse("lmdb:files"), LMDB_ERR);
    nsf_assert_error(parse("lmdb:./files"), LMDB_ERR);
    nsf_assert_error(parse("lmdb: /files"), LMDB_ERR);
}


static void
lmdb_without_path(void **state)
{
    (void) state;

    nsf_assert_error(parse("lmdb:"), LMDB_ERR);
    nsf_assert_error(parse("lmdb:/"), LMDB_ERR);
}


static void
lmdb_two_slashes(void **state)
{
    (void) state;

    nsf_assert_error(parse("lmdb://files"), LMDB_HOST_ERR);
    nsf_assert_error(parse("lmdb://var/lib/files"), LMDB_HOST_ERR);
    nsf_assert_error(parse("lmdb://"), LMDB_HOST_ERR);
}


static void
lmdb_more_slashes(void **state)
{
    (void) state;

    nsf_assert_error(parse("lmdb:///"), LMDB_HOST_ERR);
    nsf_assert_error(parse("lmdb:////"), LMDB_HOST_ERR);
    nsf_assert_error(parse("lmdb:////var"), LMDB_HOST_ERR);
}


static void
memcached_host(void **state)
{
    (void) state;

    assert_url("memcached://localhost", "memcached", "localhost", 0, "");
    assert_url("memcached://a", "memcached", "a", 0, "");
    assert_url("memcached://cache_1.Example-x.com", "memcached",
               "cache_1.Example-x.com", 0, "");
}


static void
memcached_host_and_port(void **state)
{
    (void) state;

    assert_url("memcached://127.0.0.1:11211", "memcached", "127.0.0.1",
               11211, "");
    assert_url("memcached://h:1", "memcached", "h", 1, "");
    assert_url("memcached://h:65535", "memcached", "h", 65535, "");
    assert_url("memcached://h:00080", "memcached", "h", 80, "");
}


static void
memcached_ipv6(void **state)
{
    (void) state;

    assert_url("memcached://[::1]", "memcached", "[::1]", 0, "");
    assert_url("memcached://[::1]:11211", "memcached", "[::1]", 11211, "");
    assert_url("memcached://[::]", "memcached", "[::]", 0, "");
    assert_url("memcached://[0189:abef::ABEF]:90", "memcached",
               "[0189:abef::ABEF]", 90, "");
    assert_url("memcached://[2001:DB8::ffff:1.2.3.4]:1", "memcached",
               "[2001:DB8::ffff:1.2.3.4]", 1, "");
}


static void
memcached_socket(void **state)
{
    (void) state;

    assert_url("memcached:/run/memcached.sock", "memcached", "", 0,
               "/run/memcached.sock");
    assert_url("memcached:///run/memcached.sock", "memcached", "", 0,
               "/run/memcached.sock");
}


static void
memcached_neither_host_nor_socket(void **state)
{
    (void) state;

    nsf_assert_error(parse("memcached:"), MEMCACHED_ERR);
    nsf_assert_error(parse("memcached:/"), MEMCACHED_ERR);
    nsf_assert_error(parse("memcached://"), MEMCACHED_ERR);
    nsf_assert_error(parse("memcached:///"), MEMCACHED_ERR);
    nsf_assert_error(parse("memcached:////run/x"), MEMCACHED_ERR);
    nsf_assert_error(parse("memcached:localhost"), MEMCACHED_ERR);
    nsf_assert_error(parse("memcached:localhost:11211"), MEMCACHED_ERR);
    nsf_assert_error(parse("memcached:run/x.sock"), MEMCACHED_ERR);
}


static void
memcached_with_a_path_after_the_host(void **state)
{
    (void) state;

    nsf_assert_error(parse("memcached://h/"), AFTER_ERR);
    nsf_assert_error(parse("memcached://h:1/0"), AFTER_ERR);
    nsf_assert_error(parse("memcached://[::1]/x"), AFTER_ERR);
    nsf_assert_error(parse("memcached://[::1]x"), AFTER_ERR);
    nsf_assert_error(parse("memcached://[::1]11211"), AFTER_ERR);
}


static void
host_missing(void **state)
{
    (void) state;

    nsf_assert_error(parse("memcached://:11211"), NO_HOST_ERR);
    nsf_assert_error(parse("memcached://:"), NO_HOST_ERR);
}


static void
host_each_byte(void **state)
{
    char      url[] = "memcached://h?h";
    unsigned  c;

    (void) state;

    for (c = 0; c < 256; c++) {
        url[13] = (char) c;

        if (c < 0x20 || c == 0x7f) {
            nsf_assert_error(parse_n(url, 15), CONTROL_ERR);

        } else if (c == '/') {
            nsf_assert_error(parse_n(url, 15), AFTER_ERR);

        } else if (c == ':') {
            nsf_assert_error(parse_n(url, 15), PORT_ERR);

        } else if (c < 0x80
                   && strchr("abcdefghijklmnopqrstuvwxyz"
                             "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                             "0123456789_.-", (int) c) != NULL)
        {
            nsf_assert_good(parse_n(url, 15));

        } else {
            nsf_assert_error(parse_n(url, 15), HOST_ERR);
        }
    }
}


static void
host_with_user(void **state)
{
    (void) state;

    nsf_assert_error(parse("memcached://user@h"), HOST_ERR);
    nsf_assert_error(parse("memcached://h?weight=1"), HOST_ERR);
    nsf_assert_error(parse("memcached://a,b"), HOST_ERR);
    nsf_assert_error(parse("memcached://a b"), HOST_ERR);
}


static void
ipv6_without_brackets(void **state)
{
    (void) state;

    nsf_assert_error(parse("memcached://::1"), BRACKETS_ERR);
    nsf_assert_error(parse("memcached://fe80::1:11211"), BRACKETS_ERR);
    nsf_assert_error(parse("memcached://h:1:2"), BRACKETS_ERR);
}


static void
ipv6_bad(void **state)
{
    (void) state;

    nsf_assert_error(parse("memcached://["), IPV6_ERR);
    nsf_assert_error(parse("memcached://[]"), IPV6_ERR);
    nsf_assert_error(parse("memcached://[::1"), IPV6_ERR);
    nsf_assert_error(parse("memcached://[h]"), IPV6_ERR);
    nsf_assert_error(parse("memcached://[1.2.3.4]"), IPV6_ERR);
    nsf_assert_error(parse("memcached://[:]"), IPV6_ERR);
    nsf_assert_error(parse("memcached://[fe80::1%eth0]"), IPV6_ERR);
    nsf_assert_error(parse("memcached://[::g]:1"), IPV6_ERR);
    nsf_assert_error(parse("memcached://[[::1]]"), IPV6_ERR);
}


static void
port_bad(void **state)
{
    (void) state;

    nsf_assert_error(parse("memcached://h:"), PORT_ERR);
    nsf_assert_error(parse("memcached://h:0"), PORT_ERR);
    nsf_assert_error(parse("memcached://h:65536"), PORT_ERR);
    nsf_assert_error(parse("memcached://h:99999999999999999999"), PORT_ERR);
    nsf_assert_error(parse("memcached://h:4294967297"), PORT_ERR);
    nsf_assert_error(parse("memcached://h:-1"), PORT_ERR);
    nsf_assert_error(parse("memcached://h:+1"), PORT_ERR);
    nsf_assert_error(parse("memcached://h: 1"), PORT_ERR);
    nsf_assert_error(parse("memcached://h:1x"), PORT_ERR);
    nsf_assert_error(parse("memcached://h:x"), PORT_ERR);
    nsf_assert_error(parse("memcached://[::1]:"), PORT_ERR);
    nsf_assert_error(parse("memcached://[::1]:0"), PORT_ERR);
    nsf_assert_error(parse("memcached://[::1]:1:2"), PORT_ERR);
}


static void
scheme_of_another_module(void **state)
{
    (void) state;

    assert_url("test:/a/b", "test", "", 0, "/a/b");
    assert_url("test:///a/b", "test", "", 0, "/a/b");
    assert_url("test://h:5", "test", "h", 5, "");
    assert_url("redis://[::1]", "redis", "[::1]", 0, "");
    assert_url("s3+x.y-z_2:/p", "s3+x.y-z_2", "", 0, "/p");
    assert_url("x:/p", "x", "", 0, "/p");
    assert_url("az09:/p", "az09", "", 0, "/p");
}


static void
scheme_that_starts_like_another(void **state)
{
    (void) state;

    assert_url("lmdbx://h", "lmdbx", "h", 0, "");
    assert_url("lmd://h", "lmd", "h", 0, "");
    nsf_assert_error(parse("memcachedx:a"), OTHER_ERR);
    nsf_assert_error(parse("memcache:a"), OTHER_ERR);
}


static void
scheme_of_another_module_without_shape(void **state)
{
    (void) state;

    nsf_assert_error(parse("test:"), OTHER_ERR);
    nsf_assert_error(parse("test:a"), OTHER_ERR);
    nsf_assert_error(parse("test:/"), OTHER_ERR);
    nsf_assert_error(parse("test://"), OTHER_ERR);
    nsf_assert_error(parse("localhost:11211"), OTHER_ERR);
}


static void
scheme_bad(void **state)
{
    (void) state;

    nsf_assert_error(parse(":/path"), SCHEME_ERR);
    nsf_assert_error(parse("://h"), SCHEME_ERR);
    nsf_assert_error(parse(":"), SCHEME_ERR);
    nsf_assert_error(parse("LMDB:/path"), SCHEME_ERR);
    nsf_assert_error(parse("Memcached://h"), SCHEME_ERR);
    nsf_assert_error(parse("lmDb:/path"), SCHEME_ERR);
    nsf_assert_error(parse("127.0.0.1:11211"), SCHEME_ERR);
    nsf_assert_error(parse("[::1]:11211"), SCHEME_ERR);
    nsf_assert_error(parse("/var/a:b"), SCHEME_ERR);
    nsf_assert_error(parse("a b:/path"), SCHEME_ERR);
    nsf_assert_error(parse(" lmdb:/path"), SCHEME_ERR);
    nsf_assert_error(parse("\xc3\xa4:/path"), SCHEME_ERR);
    nsf_assert_error(parse("-x:/path"), SCHEME_ERR);
}


static void
each_prefix_of_lmdb(void **state)
{
    size_t             len;
    const char        *err;
    static const char  url[] = "lmdb:/a/b";

    (void) state;

    for (len = 0; len <= sizeof(url) - 1; len++) {
        err = parse_n(url, len);

        if (len == 0) {
            nsf_assert_error(err, EMPTY_ERR);

        } else if (len == 5 || len == 6) {
            nsf_assert_error(err, LMDB_ERR);

        } else {
            nsf_assert_good(err);
        }
    }
}


static void
each_prefix_of_memcached(void **state)
{
    size_t             len;
    const char        *err;
    static const char  url[] = "memcached://[::1]:11211";

    (void) state;

    for (len = 0; len <= sizeof(url) - 1; len++) {
        err = parse_n(url, len);

        if (len == 0) {
            nsf_assert_error(err, EMPTY_ERR);

        } else if (len < 10) {
            nsf_assert_good(err);

        } else if (len <= 12) {
            nsf_assert_error(err, MEMCACHED_ERR);

        } else if (len <= 16) {
            nsf_assert_error(err, IPV6_ERR);

        } else if (len == 18) {
            nsf_assert_error(err, PORT_ERR);

        } else {
            nsf_assert_good(err);
        }
    }
}


int
main(void)
{
    static const struct CMUnitTest  tests[] = {
        cmocka_unit_test(url_empty),
        cmocka_unit_test(name_plain),
        cmocka_unit_test(name_of_each_kind_of_character),
        cmocka_unit_test(name_each_byte),
        cmocka_unit_test(name_that_is_a_path),
        cmocka_unit_test(name_with_space),
        cmocka_unit_test(url_with_control_byte),
        cmocka_unit_test(lmdb_path),
        cmocka_unit_test(lmdb_path_bytes_as_they_are),
        cmocka_unit_test(lmdb_three_slashes),
        cmocka_unit_test(lmdb_relative),
        cmocka_unit_test(lmdb_without_path),
        cmocka_unit_test(lmdb_two_slashes),
        cmocka_unit_test(lmdb_more_slashes),
        cmocka_unit_test(memcached_host),
        cmocka_unit_test(memcached_host_and_port),
        cmocka_unit_test(memcached_ipv6),
        cmocka_unit_test(memcached_socket),
        cmocka_unit_test(memcached_neither_host_nor_socket),
        cmocka_unit_test(memcached_with_a_path_after_the_host),
        cmocka_unit_test(host_missing),
        cmocka_unit_test(host_each_byte),
        cmocka_unit_test(host_with_user),
        cmocka_unit_test(ipv6_without_brackets),
        cmocka_unit_test(ipv6_bad),
        cmocka_unit_test(port_bad),
        cmocka_unit_test(scheme_of_another_module),
        cmocka_unit_test(scheme_that_starts_like_another),
        cmocka_unit_test(scheme_of_another_module_without_shape),
        cmocka_unit_test(scheme_bad),
        cmocka_unit_test(each_prefix_of_lmdb),
        cmocka_unit_test(each_prefix_of_memcached),
    };

    return cmocka_run_group_tests_name("nsf_url", tests, NULL, NULL);
}
