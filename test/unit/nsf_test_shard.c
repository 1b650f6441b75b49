/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nsf_test_shard.h"


#define NSF_TEST_DEFAULT_SEED  20240229


static void *nsf_test_pond_alloc(void *ctx, size_t size);


uint64_t
nsf_test_seed(void)
{
    char        *end;
    uint64_t     seed;
    const char  *text;

    seed = NSF_TEST_DEFAULT_SEED;
    text = getenv("NSF_TEST_SEED");

    if (text != NULL) {
        errno = 0;
        seed = strtoull(text, &end, 10);

        if (errno != 0 || end == text || *end != '\0') {
            fail_msg("NSF_TEST_SEED=%s is no number", text);
        }
    }

    print_message("seed: NSF_TEST_SEED=%llu\n", (unsigned long long) seed);

    return seed;
}


/* Steele, Lea, Flood: splitmix64 */

uint64_t
nsf_test_random(uint64_t *state)
{
    uint64_t  z;

    *state += 0x9e3779b97f4a7c15ull;

    z = *state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;

    return z ^ (z >> 31);
}


size_t
nsf_test_below(uint64_t *state, size_t n)
{
    return (size_t) (nsf_test_random(state) % n);
}


uint64_t
nsf_test_hash(const void *data, size_t len)
{
    size_t                i;
    uint64_t              h;
    const unsigned char  *p;

    p = data;
    h = len;

    for (i = 0; i < len; i++) {
        h ^= p[i];
        (void) nsf_test_random(&h);
        h = h * 0xff51afd7ed558ccdull ^ h >> 32;
    }

    return nsf_test_random(&h);
}


void
nsf_test_fill(unsigned char *p, size_t len, uint64_t id)
{
    size_t    n;
    uint64_t  word;

    while (len > 0) {
        word = nsf_test_random(&id);
        n = len < sizeof(word) ? len : sizeof(word);

        memcpy(p, &word, n);

        p += n;
        len -= n;
    }
}


int
nsf_test_filled(const unsigned char *p, size_t len, uint64_t id)
{
    size_t    n;
    uint64_t  word;

    while (len > 0) {
        word = nsf_test_random(&id);
        n = len < sizeof(word) ? len : sizeof(word);

        if (memcmp(p, &word, n) != 0) {
            return 0;
        }

        p += n;
        len -= n;
    }

    return 1;
}


void
nsf_test_map(nsf_test_map_t *map, size_t size)
{
    size_t          page, inner;
    unsigned char  *p;

    page = (size_t) sysconf(_SC_PAGESIZE);
    inner = (size + page - 1) / page * page;

    map->all = inner + 2 * page;
    map->pages = mmap(NULL, map->all, PROT_NONE, MAP_SHARED | MAP_ANONYMOUS,
                      -1, 0);
    assert_ptr_not_equal(map->pages, MAP_FAILED);

    p = (unsigned char *) map->pages + page;
    assert_int_equal(mprotect(p, inner, PROT_READ | PROT_WRITE), 0);

    /* at the end, for what reads too far reads on more often than before */

    map->mem = p + inner - size;
    map->size = size;
}


void
nsf_test_unmap(nsf_test_map_t *map)
{
    assert_int_equal(munmap(map->pages, map->all), 0);
    memset(map, 0, sizeof(nsf_test_map_t));
}


void
nsf_test_pond_init(nsf_test_pond_t *pond)
{
    pond->pool.alloc = nsf_test_pond_alloc;
    pond->pool.ctx = pond;
    pond->used = 0;

    pond->memory = malloc(NSF_TEST_POND);
    assert_non_null(pond->memory);
}


void
nsf_test_pond_reset(nsf_test_pond_t *pond)
{
    pond->used = 0;
}


void
nsf_test_pond_free(nsf_test_pond_t *pond)
{
    free(pond->memory);
    memset(pond, 0, sizeof(nsf_test_pond_t));
}


static void *
nsf_test_pond_alloc(void *ctx, size_t size)
{
    void             *p;
    nsf_test_pond_t  *pond;

    pond = ctx;

    if (size > NSF_TEST_POND - pond->used) {
        return NULL;
    }

    p = pond->memory + pond->used;
    pond->used += (size + 15) & ~(size_t) 15;

    return p;
}


void
nsf_test_key(nsf_shard_key_t *key, char bytes[NSF_TEST_NAME], unsigned scope,
    unsigned i)
{
    int  n, m;

    n = snprintf(bytes, NSF_TEST_NAME, "memcached://127.0.0.1/%u", scope);
    assert_true(n > 0 && n < NSF_TEST_NAME / 2);

    m = snprintf(bytes + n, NSF_TEST_NAME - (size_t) n, "%u", i);
    assert_true(m > 0 && n + m < NSF_TEST_NAME);

    key->scope.data = (unsigned char *) bytes;
    key->scope.len = (size_t) n;
    key->key.data = (unsigned char *) bytes + n;
    key->key.len = (size_t) m;
    key->hash = nsf_test_hash(bytes, (size_t) (n + m));
}


int
nsf_test_wait(int pid)
{
    int  status;

    while (waitpid(pid, &status, 0) == -1) {
        assert_int_equal(errno, EINTR);
    }

    if (WIFSIGNALED(status)) {
        return 256 + WTERMSIG(status);
    }

    assert_true(WIFEXITED(status));

    return WEXITSTATUS(status);
}
