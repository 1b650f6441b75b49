/*
 * Copyright (C) the ngx_sendfile authors
 */


#include "nsf_arena.h"


static nsf_arena_block_t *nsf_arena_block(const nsf_arena_t *a,
    uint32_t offset);
static uint32_t nsf_arena_pad(const nsf_arena_t *a, uint32_t size);


void
nsf_arena_reset(const nsf_arena_t *a)
{
    a->state->head = a->first;
    a->state->tail = a->first;
    a->state->used = 0;
}


int
nsf_arena_sane(const nsf_arena_t *a)
{
    uint64_t                  end;
    const nsf_arena_state_t  *s;

    s = a->state;

    if (s->head < a->first || s->head >= a->last
        || s->tail < a->first || s->tail >= a->last
        || s->used > a->last - a->first)
    {
        return 0;
    }

    end = (uint64_t) s->tail + s->used;

    if (end >= a->last) {
        end -= a->last - a->first;
    }

    return s->head == end;
}


int
nsf_arena_fits(const nsf_arena_t *a, uint32_t size, uint32_t spare)
{
    uint64_t                  need;
    const nsf_arena_state_t  *s;

    s = a->state;

    need = (uint64_t) size + spare;

    if (s->head >= s->tail && s->used != a->last - a->first) {

        /* the room is in two pieces, at both ends of the memory */

        need += nsf_arena_pad(a, size);

        if (size > a->last - s->head && size > s->tail - a->first) {
            return 0;
        }
    }

    return need <= a->last - a->first - s->used;
}


uint32_t
nsf_arena_take(const nsf_arena_t *a, uint32_t size)
{
    uint32_t            pad, offset;
    nsf_arena_block_t  *block;
    nsf_arena_state_t  *s;

    s = a->state;

    pad = nsf_arena_pad(a, size);

    if (pad != 0) {
        block = nsf_arena_block(a, s->head);

        block->size = pad;
        block->state = NSF_ARENA_PAD;
        block->kind = 0;
        block->len = 0;

        s->head = a->first;
        s->used += pad;
    }

    offset = s->head;

    block = nsf_arena_block(a, offset);

    block->size = size;
    block->state = NSF_ARENA_LIVE;

    s->head += size;
    s->used += size;

    if (s->head == a->last) {
        s->head = a->first;
    }

    return offset;
}


uint32_t
nsf_arena_oldest(const nsf_arena_t *a)
{
    uint32_t                  size;
    const nsf_arena_block_t  *block;
    const nsf_arena_state_t  *s;

    s = a->state;

    if (s->used == 0) {
        return 0;
    }

    block = nsf_arena_block(a, s->tail);
    size = block->size;

    if (size == 0 || size > s->used || size > a->last - s->tail) {
        return 0;
    }

    switch (block->state) {

    case NSF_ARENA_LIVE:
    case NSF_ARENA_DEAD:
        return s->tail;

    case NSF_ARENA_PAD:
        return (size == a->last - s->tail) ? s->tail : 0;

    default:
        return 0;
    }
}


void
nsf_arena_drop(const nsf_arena_t *a)
{
    uint32_t            size;
    nsf_arena_state_t  *s;

    s = a->state;
    size = nsf_arena_block(a, s->tail)->size;

    s->tail += size;
    s->used -= size;

    if (s->tail == a->last) {
        s->tail = a->first;
    }

    /* nothing is left: from the start on there is most room in one piece */

    if (s->used == 0) {
        nsf_arena_reset(a);
    }
}


static nsf_arena_block_t *
nsf_arena_block(const nsf_arena_t *a, uint32_t offset)
{
    return (nsf_arena_block_t *) (void *)
           (a->base + (size_t) offset * NSF_ARENA_UNIT);
}


/* what must be left unused at the end of the memory */

static uint32_t
nsf_arena_pad(const nsf_arena_t *a, uint32_t size)
{
    uint32_t  rest;

    rest = a->last - a->state->head;

    return size > rest ? rest : 0;
}
