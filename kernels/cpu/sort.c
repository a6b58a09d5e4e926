/* sort.c -- sort, mode
 *
 * Keys of 64 bits are sorted by their upper halves, and what agrees there by the
 * lower ones: packs of 64 are enough.  Rows are shared out among threads; a long row that is alone is shared itself:
 * each thread makes, counts, moves and gives out its share of the packs.
 *
 * SPDX-License-Identifier: MIT */
#include "op/order.h"
#include "order.h"

enum {
  SHARED = 1 << 14, /* elements for which a row is worth sharing */
  FEW = 12          /* as many are sorted by insertion */
};

typedef struct sort_job {
  order_lanes lanes;
  const order_lane *lane; /* of the row that is shared */
  uint64_t *packs;
} sort_job;

/* A few packs, where they stand. */
static void sort_few(uint64_t *packs, int64_t n) {
  for (int64_t i = 1; i < n; i++) {
    uint64_t x = packs[i];
    int64_t at = i;
    for (; at > 0 && packs[at - 1] > x; at--) packs[at] = packs[at - 1];
    packs[at] = x;
  }
}

/* What agrees in the first round is put in order by the second. */
static void sort_again(const mrt_call *c, int parts, const order_type *t,
                       const order_lane *l, uint64_t *packs, uint64_t *spare,
                       int64_t (*counts)[256]) {
  for (int64_t i = 0, end; i < l->n; i = end) {
    for (end = i + 1; end < l->n && packs[end] >> 32 == packs[i] >> 32;) end++;
    if (end == i + 1) continue;
    int64_t m = end - i;
    t->second(l, packs + i, m);
    if (m <= FEW) {
      sort_few(packs + i, m);
      continue;
    }
    const uint64_t *sorted = order_sort_64(c, m < SHARED ? 1 : parts, packs + i,
                                           spare, m, 32, counts);
    if (sorted != packs + i)
      memcpy(packs + i, sorted, (size_t)m * sizeof *packs);
  }
}

/* The packs of a row, made at slot.a by the first round's keys, in order. */
static uint64_t *sort_packs(const mrt_call *c, int parts, const order_type *t,
                            const order_lane *l, order_slot slot) {
  int bits = t->bits < 32 ? t->bits : 32;
  uint64_t *packs =
      order_sort_64(c, parts, slot.a, slot.b, l->n, bits, slot.counts);
  uint64_t *spare = packs == slot.a ? slot.b : slot.a;
  if (t->second) sort_again(c, parts, t, l, packs, spare, slot.counts);
  return packs;
}

static void sort_rows(const mrt_call *c, const void *shared, int part,
                      int parts) {
  const sort_job *s = shared;
  const order_type *t = s->lanes.type;
  int64_t n = s->lanes.n, i, end;
  order_slot slot = order_slot_of(c, &s->lanes, n, n, part);
  mrt_share(s->lanes.outer * s->lanes.inner, part, parts, &i, &end);
  for (; i < end; i++) {
    order_lane l = order_lane_of(c, &s->lanes, i);
    t->first(&l, 0, n, slot.a);
    t->give_sorted(&l, sort_packs(c, 1, t, &l, slot), 0, n);
  }
}

static void load_share(const mrt_call *c, const void *shared, int part,
                       int parts) {
  const sort_job *s = shared;
  int64_t from, to;
  mrt_share(s->lanes.n, part, parts, &from, &to);
  s->lanes.type->first(s->lane, from, to - from, s->packs + from);
}

static void give_share(const mrt_call *c, const void *shared, int part,
                       int parts) {
  const sort_job *s = shared;
  int64_t from, to;
  mrt_share(s->lanes.n, part, parts, &from, &to);
  s->lanes.type->give_sorted(s->lane, s->packs, from, to);
}

static void sort_shared(const mrt_call *c, sort_job *s) {
  const order_type *t = s->lanes.type;
  int64_t n = s->lanes.n;
  order_slot slot = order_slot_of(c, &s->lanes, n, n, 0);
  for (int64_t i = 0; i < s->lanes.outer * s->lanes.inner; i++) {
    order_lane l = order_lane_of(c, &s->lanes, i);
    s->lane = &l, s->packs = slot.a;
    mrt_parallel(c, c->threads, load_share, s);
    s->packs = sort_packs(c, c->threads, t, &l, slot);
    mrt_parallel(c, c->threads, give_share, s);
  }
}

static order_lanes sort_lanes(const mrt_call *c) {
  const mrt_sort_options *o = c->options;
  order_lanes s = order_lanes_of(c, o->dim, -1, o->descending);
  s.pack = sizeof(uint64_t);
  return s;
}

static size_t sort_scratch(const mrt_call *c) {
  order_lanes s = sort_lanes(c);
  return (size_t)order_slots(c, &s) * order_slot_bytes(c, &s, s.n, s.n);
}

static void sort(const mrt_call *c) {
  sort_job s = { .lanes = sort_lanes(c) };
  int slots = order_slots(c, &s.lanes);
  double ns = (double)mrt_type_count(&c->in[0].type) * 10;
  if (slots == 1 && c->threads > 1 && s.lanes.n >= SHARED)
    sort_shared(c, &s);
  else
    mrt_parallel(c, slots == 1 ? 1 : mrt_team(c, ns), sort_rows, &s);
}

/* ---- mode ---------------------------------------------------------------- */

static void mode_rows(const mrt_call *c, const void *shared, int part,
                      int parts) {
  const order_lanes *s = shared;
  const order_type *t = s->type;
  int64_t i, end;
  order_slot slot = order_slot_of(c, s, s->n, s->n, part);
  mrt_share(s->outer * s->inner, part, parts, &i, &end);
  for (; i < end; i++) {
    order_lane l = order_lane_of(c, s, i);
    t->load(&l, 0, s->n, slot.a);
    void *packs = t->sort(c, 1, slot.a, slot.b, s->n, t->bits, slot.counts);
    order_give_at(&l, t, t->longest_run(packs, s->n, t->most));
  }
}

static order_lanes mode_lanes(const mrt_call *c) {
  const mrt_middle_options *o = c->options;
  return order_lanes_of(c, o->dim, 1, false);
}

static size_t mode_scratch(const mrt_call *c) {
  order_lanes s = mode_lanes(c);
  return (size_t)order_slots(c, &s) * order_slot_bytes(c, &s, s.n, s.n);
}

static void mode(const mrt_call *c) {
  order_lanes s = mode_lanes(c);
  double ns = (double)mrt_type_count(&c->in[0].type) * 10;
  int slots = order_slots(c, &s);
  mrt_parallel(c, slots == 1 ? 1 : mrt_team(c, ns), mode_rows, &s);
}

MRT_KERNEL(sort, .run = sort, .scratch = sort_scratch);
MRT_KERNEL(mode, .run = mode, .scratch = mode_scratch);
