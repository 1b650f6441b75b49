
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * How much memory a cache needs to keep records, for the benchmark's table
 * "memory".  Fills shards as the module does and finds the smallest size of
 * a shard at which none of the records is pushed out.
 *
 *     record_memory RECORDS SHARDS SEED SCOPE PATH
 *
 * Keys are decimal numbers of 8 digits; PATH stands for the value of each
 * record.  Prints "SIZE ENTRIES VALUE": bytes of a shard, how many entries
 * the shards hold then, bytes of a packed value.
 */


#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nsf_pack.h"
#include "nsf_shard.h"
#include "nsf_siphash.h"


#define PAGE      4096
#define FIRST_ID  10000000
#define ID_SPAN   10000000


typedef struct {
    size_t          records;
    size_t          nshards;
    uint64_t        seed[2];
    const char     *scope;
    unsigned char  *value;
    size_t          len;
} task_t;


static size_t kept(const task_t *task, size_t size);
static void put(const task_t *task, nsf_shard_t *shards, size_t n);
static void die(const char *what);


int
main(int argc, char **argv)
{
    size_t        low, high, middle;
    task_t        task;
    const char   *err;
    nsf_target_t  target;

    if (argc != 6) {
        die("usage: record_memory RECORDS SHARDS SEED SCOPE PATH");
    }

    task.records = strtoul(argv[1], NULL, 10);
    task.nshards = strtoul(argv[2], NULL, 10);
    task.seed[0] = strtoul(argv[3], NULL, 10);
    task.seed[1] = ~task.seed[0];
    task.scope = argv[4];

    err = nsf_target_set_path(&target, (unsigned char *) argv[5],
                              strlen(argv[5]));
    if (err) {
        die(err);
    }

    task.len = nsf_pack_size(&target);
    task.value = malloc(task.len);

    if (task.value == NULL) {
        die("no memory");
    }

    nsf_pack(task.value, &target);

    /* in pages: too small, and large enough */

    low = NSF_SHARD_MIN / PAGE;
    high = low;

    while (kept(&task, high * PAGE) != task.records) {
        low = high;
        high *= 2;
    }

    while (high - low > 1) {
        middle = low + (high - low) / 2;

        if (kept(&task, middle * PAGE) == task.records) {
            high = middle;

        } else {
            low = middle;
        }
    }

    printf("%zu %zu %zu\n", high * PAGE, kept(&task, high * PAGE), task.len);

    return 0;
}


/* how many of the records shards of that size keep */

static size_t
kept(const task_t *task, size_t size)
{
    void              *mem;
    size_t             i, n;
    const char        *err;
    nsf_shard_t       *shards;
    nsf_shard_stat_t   stat;

    shards = calloc(task->nshards, sizeof(nsf_shard_t));
    mem = malloc(task->nshards * size);

    if (shards == NULL || mem == NULL) {
        die("no memory");
    }

    for (i = 0; i < task->nshards; i++) {
        err = nsf_shard_format(&shards[i], (char *) mem + i * size, size);
        if (err) {
            die(err);
        }
    }

    for (i = 0; i < task->records; i++) {
        put(task, shards, FIRST_ID + i * (ID_SPAN / task->records));
    }

    n = 0;

    for (i = 0; i < task->nshards; i++) {
        nsf_shard_stat(&shards[i], &stat);
        n += stat.entries;
    }

    free(mem);
    free(shards);

    return n;
}


static void
put(const task_t *task, nsf_shard_t *shards, size_t n)
{
    char                key[16];
    nsf_shard_t        *sh;
    nsf_shard_key_t     name;
    nsf_shard_value_t   v;

    memset(&name, 0, sizeof(nsf_shard_key_t));
    memset(&v, 0, sizeof(nsf_shard_value_t));

    name.key.len = snprintf(key, sizeof(key), "%zu", n);
    name.key.data = (unsigned char *) key;
    name.scope.data = (const unsigned char *) task->scope;
    name.scope.len = strlen(task->scope);
    name.hash = nsf_siphash(task->seed, key, name.key.len);

    v.data = task->value;
    v.len = task->len;
    v.valid = 3600 * 1000;

    sh = &shards[(name.hash >> 48) & (task->nshards - 1)];

    if (nsf_shard_put(sh, &name, 1, &v) != NSF_SHARD_OK) {
        die("a record was not kept");
    }
}


static void
die(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(1);
}
