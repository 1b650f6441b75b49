/*
 * Copyright (C) the ngx_sendfile authors
 */


#include <stdio.h>

#include "nsf_test_step.h"
#include "nsf_test_trace.h"


step_t       step;
step_dead_t  step_dead_busy;
step_dead_t  step_dead_readable;


void
step_init(void)
{
    size_t  i;

    memset(&step, 0, sizeof(step_t));

    nsf_test_map(&step.map, STEP_SIZE);
    nsf_test_map(&step.copy, STEP_SIZE);
    nsf_test_map(&step.shared, sizeof(step_control_t));
    nsf_test_pond_init(&step.pond);

    step.control = (void *) step.shared.mem;
    step.now = 1000;

    nsf_assert_good(nsf_shard_format(&step.sh, step.map.mem, STEP_SIZE));

    for (i = 0; i < STEP_NAMES; i++) {
        nsf_test_key(&step.names[i].key, step.names[i].bytes,
                     (unsigned) i % 2, (unsigned) i / 2);

        step.names[i].before.id = STEP_ABSENT;
        step.names[i].after.id = STEP_ABSENT;
    }

    step.nnames = STEP_NAMES;
}


void
step_free(void)
{
    size_t  i;

    for (i = 0; i < step.nops; i++) {
        free(step.ops[i].data);
    }

    nsf_test_unmap(&step.map);
    nsf_test_unmap(&step.copy);
    nsf_test_unmap(&step.shared);
    nsf_test_pond_free(&step.pond);
}


/* in the parent, before the child is there */

step_version_t
step_version(size_t len, int negative)
{
    step_version_t  v;

    v.id = ++step.ids;
    v.negative = negative;
    v.len = negative ? 0 : len;
    v.valid = v.id * 3;
    v.limit = 0;
    v.generation = v.id * 7;
    v.claimed = v.id * 11;

    return v;
}


static unsigned char *
version_data(const step_version_t *version)
{
    unsigned char  *data;

    data = malloc(version->len + 1);
    assert_non_null(data);

    nsf_test_fill(data, version->len, version->id);

    return data;
}


static nsf_shard_rc_e
shard_put(nsf_shard_t *sh, const step_name_t *name, const step_version_t *ver,
    unsigned char *data)
{
    nsf_shard_value_t  v;

    v.data = ver->negative ? NULL : data;
    v.len = ver->len;
    v.valid = ver->valid;
    v.limit = ver->limit;
    v.generation = ver->generation;
    v.claimed = ver->claimed;
    v.negative = (ver->negative != 0);

    return nsf_shard_put(sh, &name->key, step.now, &v);
}


static int
shard_claim(nsf_shard_t *sh, const step_name_t *name,
    const step_version_t *ver, uint64_t until)
{
    nsf_shard_value_t  v;

    memset(&v, 0, sizeof(nsf_shard_value_t));

    v.valid = ver->valid;
    v.generation = ver->generation;
    v.claimed = ver->claimed;

    return nsf_shard_claim(sh, &name->key, &v, until);
}


void
step_put(size_t i, step_version_t ver)
{
    step_name_t    *name;
    unsigned char  *data;

    name = &step.names[i];
    data = version_data(&ver);

    assert_int_equal(shard_put(&step.sh, name, &ver, data), NSF_SHARD_OK);
    free(data);

    name->before = ver;
    name->after = ver;
}


int
step_get(size_t i)
{
    nsf_shard_value_t  v;

    return nsf_shard_get(&step.sh, &step.names[i].key, 0, &v, NULL)
           == NSF_SHARD_OK;
}


/* until the next one of that length would push another out */

size_t
step_full(size_t len)
{
    size_t            i;
    nsf_shard_stat_t  st;

    for (i = 0; i < STEP_NAMES; i++) {
        step_put(i, step_version(len, 0));
        nsf_shard_stat(&step.sh, &st);

        if (st.evicted != 0) {
            return i + 1;
        }
    }

    fail_msg("%u entries of %zu bytes do not fill it", STEP_NAMES, len);

    return 0;
}


step_op_t *
step_add(step_what_e what, size_t name, uint64_t expected)
{
    step_op_t  *op;

    assert_true(step.nops < STEP_OPS);

    op = &step.ops[step.nops++];
    memset(op, 0, sizeof(step_op_t));

    op->what = what;
    op->name = name;
    op->version.id = STEP_ABSENT;

    /* of a put NSF_SHARD_OK, of the others how many it has worked for */

    op->expected = expected;

    return op;
}


step_op_t *
step_add_put(size_t name, step_version_t ver)
{
    step_op_t  *op;

    op = step_add(STEP_PUT, name, NSF_SHARD_OK);
    op->version = ver;
    op->data = version_data(&ver);

    return op;
}


step_op_t *
step_add_claim(size_t name, step_version_t ver, uint64_t until,
    uint64_t expected)
{
    step_op_t  *op;

    op = step_add(STEP_CLAIM, name, expected);
    op->version = ver;
    op->until = until;

    return op;
}


/* in the child */

static uint64_t
child_op(const step_op_t *op)
{
    nsf_shard_t         sh;
    const step_name_t  *name;
    nsf_shard_value_t   v;

    name = &step.names[op->name];

    switch (op->what) {

    case STEP_PUT:
        return shard_put(&step.sh, name, &op->version, op->data);

    case STEP_GET:
        return nsf_shard_get(&step.sh, &name->key, 0, &v, &step.pond.pool);

    case STEP_DEL:
        return nsf_shard_del(&step.sh, &name->key);

    case STEP_CLAIM:
        return (uint64_t) shard_claim(&step.sh, name, &op->version, op->until);

    case STEP_FORMAT:
        return nsf_shard_format(&sh, step.map.mem, STEP_SIZE) != NULL;
    }

    return STEP_ABSENT;
}


static void
child_ops(void)
{
    size_t  i;

    for (i = 0; i < step.nops; i++) {
        __atomic_store_n(&step.control->begun, i + 1, __ATOMIC_SEQ_CST);

        step.control->rc[i] = child_op(&step.ops[i]);

        __atomic_store_n(&step.control->done, i + 1, __ATOMIC_SEQ_CST);
    }
}


/* a state of the memory: what a kill at this instruction would leave */

static int
same_version(const step_version_t *ver, const nsf_shard_value_t *v)
{
    return ver->id != STEP_ABSENT
           && v->negative == (unsigned) ver->negative
           && v->len == ver->len
           && v->valid == ver->valid
           && v->limit == ver->limit
           && v->generation == ver->generation
           && v->claimed == ver->claimed
           && (v->data == NULL || nsf_test_filled(v->data, v->len, ver->id));
}


#define step_assert(cond)                                                     \
    do {                                                                      \
        if (!(cond)) {                                                        \
            print_error("after instruction %zu, in operation %llu,"           \
                        " %llu done:\nnot so: %s\n", step.instructions,       \
                        (unsigned long long) step.control->begun,             \
                        (unsigned long long) step.control->done, #cond);      \
            _fail(__FILE__, __LINE__);                                        \
        }                                                                     \
    } while (0)


static nsf_shard_rc_e
read_name(const nsf_shard_t *sh, size_t i)
{
    step_name_t       *name;
    nsf_shard_rc_e     rc;
    nsf_shard_value_t  v;

    name = &step.names[i];
    nsf_test_pond_reset(&step.pond);

    rc = nsf_shard_get(sh, &name->key, 0, &v, &step.pond.pool);

    if (rc == NSF_SHARD_OK) {
        step_assert(same_version(&name->before, &v)
                    || same_version(&name->after, &v));

    } else {
        step_assert(rc == NSF_SHARD_NONE || rc == NSF_SHARD_BUSY);
    }

    return rc;
}


/* how many of all names are there; none of them may be BUSY */

static size_t
read_all(const nsf_shard_t *sh)
{
    size_t          i, n;
    nsf_shard_rc_e  rc;

    n = 0;

    for (i = 0; i < step.nnames; i++) {
        rc = read_name(sh, i);
        step_assert(rc != NSF_SHARD_BUSY);

        n += (rc == NSF_SHARD_OK);
    }

    return n;
}


static void
check_figures(const nsf_shard_t *sh, size_t n)
{
    nsf_shard_stat_t  st;

    nsf_shard_stat(sh, &st);
    step_assert(st.entries + st.negative == n);
}


/* one of two has it, and gives it back; "ver" is what is there */

static void
claim_name(nsf_shard_t *sh, const step_name_t *name, step_version_t ver)
{
    nsf_shard_value_t  v;

    step_assert(shard_claim(sh, name, &ver, 5) == 1);
    step_assert(shard_claim(sh, name, &ver, 6) == 0);

    ver.claimed = 5;
    nsf_test_pond_reset(&step.pond);
    step_assert(nsf_shard_get(sh, &name->key, 0, &v, &step.pond.pool)
                == NSF_SHARD_OK);
    step_assert(same_version(&ver, &v));

    step_assert(shard_claim(sh, name, &ver, 0) == 1);
}


/* a name that nobody else has, and what the next writer does with it */

static void
next_writer(nsf_shard_t *sh)
{
    size_t             n;
    step_name_t        name;
    unsigned char      data[100];
    step_version_t     ver;
    nsf_shard_rc_e     rc;
    nsf_shard_stat_t   dead, st;
    nsf_shard_value_t  v;

    nsf_shard_stat(sh, &dead);
    nsf_test_key(&name.key, name.bytes, 0, 777777);

    memset(&ver, 0, sizeof(step_version_t));
    ver.id = 777777;
    ver.len = sizeof(data);
    nsf_test_fill(data, sizeof(data), ver.id);

    step_assert(shard_put(sh, &name, &ver, data) == NSF_SHARD_OK);

    n = read_all(sh);
    check_figures(sh, n + 1);

    nsf_shard_stat(sh, &st);
    step_assert(st.recovered == dead.recovered
                || st.recovered == dead.recovered + 1);

    if (st.recovered != dead.recovered) {

        /* emptied */

        step_assert(n == 0);
        step.recovered++;
    }

    nsf_test_pond_reset(&step.pond);
    rc = nsf_shard_get(sh, &name.key, 0, &v, &step.pond.pool);
    step_assert(rc == NSF_SHARD_OK);
    step_assert(same_version(&ver, &v));

    claim_name(sh, &name, ver);

    step_assert(nsf_shard_del(sh, &name.key) == 1);
    step_assert(nsf_shard_get(sh, &name.key, 0, &v, NULL) == NSF_SHARD_NONE);

    check_figures(sh, read_all(sh));
}


/* everything works: all names are written and found, claimed, and forgotten */

static void
all_usable(nsf_shard_t *sh)
{
    size_t             i, n;
    step_name_t       *name;
    unsigned char      data[200];
    step_version_t     ver;
    nsf_shard_stat_t   st;
    nsf_shard_value_t  v;

    for (i = 0; i < step.nnames; i++) {
        name = &step.names[i];

        memset(&ver, 0, sizeof(step_version_t));

        ver.id = 1000000 + i;
        ver.negative = (i % 4 == 3);
        ver.len = ver.negative ? 0 : 8 + i;
        nsf_test_fill(data, ver.len, ver.id);

        step_assert(shard_put(sh, name, &ver, data) == NSF_SHARD_OK);

        nsf_test_pond_reset(&step.pond);
        step_assert(nsf_shard_get(sh, &name->key, 0, &v, &step.pond.pool)
                    == NSF_SHARD_OK);
        step_assert(same_version(&ver, &v));

        claim_name(sh, name, ver);
    }

    nsf_shard_stat(sh, &st);
    n = 0;

    for (i = 0; i < step.nnames; i++) {
        name = &step.names[i];

        n += nsf_shard_del(sh, &name->key);
        step_assert(nsf_shard_get(sh, &name->key, 0, &v, NULL)
                    == NSF_SHARD_NONE);
    }

    step_assert(n == st.entries + st.negative);

    nsf_shard_stat(sh, &st);
    step_assert(st.bytes == 0);
    check_figures(sh, 0);
}


/* one of them, but not always the first or the last */

static void
check_keep(step_dead_t *dead)
{
    if (!step.keep) {
        return;
    }

    dead->n++;

    if ((dead->n & (dead->n - 1)) == 0) {
        memcpy(dead->mem, step.map.mem, STEP_SIZE);
        memcpy(dead->names, step.names, sizeof(step.names));
    }
}


static void
check_state(void)
{
    size_t       i, busy, recovered;
    const char  *err;
    nsf_shard_t  sh;

    memcpy(step.copy.mem, step.map.mem, STEP_SIZE);

    err = nsf_shard_attach(&sh, step.copy.mem, STEP_SIZE);

    if (err != NULL) {

        /* whoever finds this formats it again */

        step_assert(step.ops[step.control->begun - 1].what == STEP_FORMAT);

        step.unformatted++;
        nsf_assert_good(nsf_shard_format(&sh, step.copy.mem, STEP_SIZE));
        check_figures(&sh, 0);
        all_usable(&sh);

        return;
    }

    busy = 0;

    for (i = 0; i < step.nnames; i++) {
        busy += (read_name(&sh, i) == NSF_SHARD_BUSY);
    }

    /* no half measures: the sequence number is one */

    step_assert(busy == 0 || busy == step.nnames);

    recovered = step.recovered;
    next_writer(&sh);

    all_usable(&sh);

    if (busy != 0) {
        step.busy++;
        check_keep(&step_dead_busy);

    } else if (step.recovered != recovered) {
        check_keep(&step_dead_readable);
    }
}


/* an operation has begun: its name may hold the one thing or the other */

static void
op_begin(const step_op_t *op)
{
    size_t        i;
    step_name_t  *name;

    name = &step.names[op->name];

    switch (op->what) {

    case STEP_GET:
        break;

    case STEP_PUT:
    case STEP_DEL:
        name->after = op->version;
        break;

    case STEP_CLAIM:
        if (op->expected) {
            step_assert(name->before.id == op->version.id);

            name->after = op->version;
            name->after.claimed = op->until;
        }

        break;

    case STEP_FORMAT:
        for (i = 0; i < step.nnames; i++) {
            step.names[i].after = op->version;
        }
    }
}


/* it has ended: no name may hold what it did before */

static void
op_end(const step_op_t *op, uint64_t rc)
{
    size_t          i;
    step_name_t    *name;
    nsf_shard_t     sh;
    nsf_shard_rc_e  found;

    name = &step.names[op->name];

    if (op->what == STEP_GET) {
        step_assert(rc == NSF_SHARD_OK || rc == NSF_SHARD_NONE);

    } else {
        step_assert(rc == op->expected);
    }

    for (i = 0; i < step.nnames; i++) {
        step.names[i].before = step.names[i].after;
    }

    memcpy(step.copy.mem, step.map.mem, STEP_SIZE);
    nsf_assert_good(nsf_shard_attach(&sh, step.copy.mem, STEP_SIZE));

    found = read_name(&sh, op->name);

    if ((op->what == STEP_PUT && rc == NSF_SHARD_OK)
        || (op->what == STEP_CLAIM && rc == 1))
    {
        step_assert(found == NSF_SHARD_OK);

    } else if (name->before.id == STEP_ABSENT) {
        step_assert(found == NSF_SHARD_NONE);
    }

    check_figures(&sh, read_all(&sh));
}


/* all operations, at every instruction of them */

void
step_run(const char *name)
{
    int       pid;
    size_t    begun, done;
    uint64_t  n;

    begun = 0;
    done = 0;
    step.instructions = 0;

    pid = nsf_test_trace(child_ops);
    memcpy(step.last, step.map.mem, STEP_SIZE);

    while (done < step.nops) {
        nsf_test_step(pid);

        n = __atomic_load_n(&step.control->begun, __ATOMIC_SEQ_CST);

        if (n == 0) {
            continue;
        }

        if (n != begun) {
            begun = (size_t) n;
            op_begin(&step.ops[begun - 1]);
        }

        step.instructions++;

        /* the same memory is as good or bad as the last time */

        if (memcmp(step.last, step.map.mem, STEP_SIZE) != 0) {
            memcpy(step.last, step.map.mem, STEP_SIZE);

            step.states++;
            check_state();
        }

        n = __atomic_load_n(&step.control->done, __ATOMIC_SEQ_CST);

        if (n != done) {
            done = (size_t) n;
            op_end(&step.ops[done - 1], step.control->rc[done - 1]);
        }
    }

    nsf_test_kill(pid);

    print_message("%s: %zu instructions, %zu states, %zu busy,"
                  " %zu recovered\n", name, step.instructions, step.states,
                  step.busy, step.recovered);

    assert_true(step.instructions > 100 * step.nops);
    assert_true(step.states > 0);
}


nsf_shard_stat_t
step_stat(void)
{
    nsf_shard_stat_t  st;

    nsf_shard_stat(&step.sh, &st);

    return st;
}
