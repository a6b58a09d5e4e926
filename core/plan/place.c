/* place.c -- where in the arena does every slot live?
 *
 *   needs   slots with lifetimes
 *   gives   offsets, the arena's size, the lower bound
 *   method  First fit in several orders (by size, by bytes times duration, by
 *           birth, by duration), O(n^2) each; the lowest arena wins, ties by
 *           the order tried first.
 *   never   looks at the clock: the same graph gives the same plan
 *   from    Pisarchyk & Lee, arXiv:2001.03288 (greedy by size)
 *
 * SPDX-License-Identifier: MIT */
#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

typedef struct item {
  mrt_slot *slot;
  double key;
  int index; /* ties */
  size_t offset;
} item;

static double by_size(const mrt_slot *s) { return (double)s->bytes; }
static double by_area(const mrt_slot *s) {
  return (double)s->bytes * (s->last - s->first + 1);
}
static double by_birth(const mrt_slot *s) { return -s->first; }
static double by_duration(const mrt_slot *s) { return s->last - s->first; }

static double (*const orders[])(const mrt_slot *) = { by_size, by_area,
                                                      by_duration, by_birth };

static int falling(const void *a, const void *b) {
  const item *x = a, *y = b;
  if (x->key != y->key) return x->key < y->key ? 1 : -1;
  if (x->slot->bytes != y->slot->bytes)
    return x->slot->bytes < y->slot->bytes ? 1 : -1;
  return x->index - y->index;
}

static int rising(const void *a, const void *b) {
  const item *x = *(item *const *)a, *y = *(item *const *)b;
  if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
  return x->index - y->index;
}

static bool overlap(const mrt_slot *a, const mrt_slot *b) {
  return a->first <= b->last && b->first <= a->last;
}

/* Put items into the lowest gap among those placed that live at the same
 * time.  `placed` is kept sorted by offset. */
static size_t first_fit(item *items, int n, item **placed) {
  size_t height = 0;
  for (int i = 0; i < n; i++) {
    size_t at = 0;
    for (int k = 0; k < i; k++) {
      const item *p = placed[k];
      if (!overlap(p->slot, items[i].slot)) continue;
      if (p->offset >= at + items[i].slot->bytes) break;
      if (p->offset + p->slot->bytes > at) at = p->offset + p->slot->bytes;
    }
    items[i].offset = at;
    int where = i;
    while (where > 0 &&
           rising(&placed[where - 1], &(item *){ &items[i] }) > 0) {
      placed[where] = placed[where - 1];
      where--;
    }
    placed[where] = &items[i];
    if (at + items[i].slot->bytes > height) height = at + items[i].slot->bytes;
  }
  return height;
}

/* No sharing, for study: one after the other. */
static size_t stack_up(item *items, int n) {
  size_t height = 0;
  for (int i = 0; i < n; i++) {
    items[i].offset = height;
    height += items[i].slot->bytes;
  }
  return height;
}

static mrt_status live_bytes(mrt_plan *plan, size_t *largest, int *step) {
  int n = plan->graph.node_count;
  int64_t *change = MRT_NEW(&plan->graph.arena, int64_t, n + 1);
  if (!change) return mrt_nomem(&plan->ctx->error);
  for (int i = 0; i < plan->slot_count; i++) {
    const mrt_slot *s = &plan->slots[i];
    if (!mrt_slot_in_arena(s)) continue;
    change[s->first] += (int64_t)s->bytes;
    change[s->last + 1] -= (int64_t)s->bytes;
  }
  int64_t live = 0;
  for (int i = 0; i < n; i++) {
    live += change[i];
    if ((size_t)live > *largest) *largest = (size_t)live, *step = i;
  }
  return MRT_OK;
}

mrt_status mrt_pass_place(mrt_plan *plan) {
  mrt_arena *arena = &plan->graph.arena;
  item *items = MRT_NEW(arena, item, plan->slot_count);
  item **placed = MRT_NEW(arena, item *, plan->slot_count);
  size_t bound = 0, best = SIZE_MAX;
  if (!items || !placed) return mrt_nomem(&plan->ctx->error);
  MRT_TRY(live_bytes(plan, &bound, &plan->info.peak_step));
  for (int k = 0; k < MRT_COUNT(orders) && best > bound; k++) {
    int n = 0;
    for (int i = 0; i < plan->slot_count; i++) {
      mrt_slot *s = &plan->slots[i];
      if (mrt_slot_in_arena(s))
        items[n++] = (item){ .slot = s, .key = orders[k](s), .index = i };
    }
    if (n) qsort(items, (size_t)n, sizeof *items, falling);
    size_t height = plan->options.no_share ? stack_up(items, n)
                                           : first_fit(items, n, placed);
    if (height >= best) continue;
    best = height;
    for (int i = 0; i < n; i++) items[i].slot->offset = items[i].offset;
  }
  plan->arena_bytes = best == SIZE_MAX ? 0 : best;
  plan->info.lower_bound = bound;
  return MRT_OK;
}
