/* select.c -- topk, kthvalue, median: what stands at a rank, without sorting
 *
 * Rows are shared out among threads.  Few best are kept by insertion while the
 * row is read; else the row's packs are narrowed down, byte by byte, to those
 * that agree with the k-th.
 *
 * SPDX-License-Identifier: MIT */
#include "op/order.h"
#include "order.h"

/* ---- topk ---------------------------------------------------------------- */

static order_lanes topk_lanes(const mrt_call *c) {
  const mrt_topk_options *o = c->options;
  return order_lanes_of(c, o->dim, o->k, o->largest);
}

/* Packs of a row are only made where many are wanted, and room for k to sort in
 * then lies there too. */
static int64_t topk_packs(const order_lanes *s) {
  return s->results > ORDER_FEW ? s->n : 0;
}

static void topk_rows(const mrt_call *c, const void *shared, int part,
                      int parts) {
  const mrt_topk_options *o = c->options;
  const order_lanes *s = shared;
  const order_type *t = s->type;
  int64_t i, end;
  order_slot slot = order_slot_of(c, s, topk_packs(s), o->k, part);
  mrt_share(s->outer * s->inner, part, parts, &i, &end);
  for (; i < end; i++) {
    order_lane l = order_lane_of(c, s, i);
    void *best =
        t->smallest(c, &l, t, o->k, o->sorted, slot.a, slot.b, slot.counts);
    t->give(&l, best, 0, o->k);
  }
}

static size_t topk_scratch(const mrt_call *c) {
  order_lanes s = topk_lanes(c);
  return (size_t)order_slots(c, &s) *
         order_slot_bytes(c, &s, topk_packs(&s), s.results);
}

/* A row's time by its length: `ns` for each element. */
static void run_rows(const mrt_call *c, const order_lanes *s, double ns,
                     mrt_part *rows) {
  int team = mrt_team(c, (double)mrt_type_count(&c->in[0].type) * ns);
  mrt_parallel(c, order_slots(c, s) == 1 ? 1 : team, rows, s);
}

static void topk(const mrt_call *c) {
  order_lanes s = topk_lanes(c);
  if (s.results == 0) return;
  run_rows(c, &s, 4, topk_rows);
}

/* ---- kthvalue ------------------------------------------------------------ */

static void kthvalue_rows(const mrt_call *c, const void *shared, int part,
                          int parts) {
  const mrt_kthvalue_options *o = c->options;
  const order_lanes *s = shared;
  const order_type *t = s->type;
  int64_t i, end;
  order_slot slot = order_slot_of(c, s, s->n, 0, part);
  mrt_share(s->outer * s->inner, part, parts, &i, &end);
  for (; i < end; i++) {
    order_lane l = order_lane_of(c, s, i);
    t->load(&l, 0, s->n, slot.a);
    order_give_at(&l, t, t->position(slot.a, s->n, o->k - 1, t->bits));
  }
}

static order_lanes kthvalue_lanes(const mrt_call *c) {
  const mrt_kthvalue_options *o = c->options;
  return order_lanes_of(c, o->dim, 1, false);
}

static size_t kthvalue_scratch(const mrt_call *c) {
  order_lanes s = kthvalue_lanes(c);
  return (size_t)order_slots(c, &s) * order_slot_bytes(c, &s, s.n, 0);
}

static void kthvalue(const mrt_call *c) {
  order_lanes s = kthvalue_lanes(c);
  run_rows(c, &s, 6, kthvalue_rows);
}

/* ---- median -------------------------------------------------------------- */

/* How many NaNs a row has; *first: where the first is. */
static int64_t count_nan(const order_lane *l, mrt_dtype dtype, int64_t *first) {
  const real *x = l->x;
  int64_t count = 0;
  *first = 0;
  if (dtype != MRT_REAL) return 0;
  if (l->step == 1)
    for (int64_t i = 0; i < l->n; i++) count += x[i] != x[i];
  else
    for (int64_t i = 0; i < l->n; i++)
      count += x[i * l->step] != x[i * l->step];
  if (count)
    while (x[*first * l->step] == x[*first * l->step]) ++*first;
  return count;
}

static void median_rows(const mrt_call *c, const void *shared, int part,
                        int parts) {
  const mrt_middle_options *o = c->options;
  const order_lanes *s = shared;
  const order_type *t = s->type;
  int64_t i, end;
  order_slot slot = order_slot_of(c, s, s->n, 0, part);
  mrt_share(s->outer * s->inner, part, parts, &i, &end);
  for (; i < end; i++) {
    order_lane l = order_lane_of(c, s, i);
    int64_t at, nan = count_nan(&l, c->in[0].type.dtype, &at);
    if (nan == 0 || (o->skip_nan && nan < s->n)) {
      t->load(&l, 0, s->n, slot.a);
      at = t->position(slot.a, s->n, (s->n - nan - 1) / 2, t->bits);
    }
    order_give_at(&l, t, at);
  }
}

static order_lanes median_lanes(const mrt_call *c) {
  const mrt_middle_options *o = c->options;
  return order_lanes_of(c, o->dim, 1, false);
}

static size_t median_scratch(const mrt_call *c) {
  order_lanes s = median_lanes(c);
  return (size_t)order_slots(c, &s) * order_slot_bytes(c, &s, s.n, 0);
}

static void median(const mrt_call *c) {
  order_lanes s = median_lanes(c);
  run_rows(c, &s, 6, median_rows);
}

MRT_KERNEL(topk, .run = topk, .scratch = topk_scratch);
MRT_KERNEL(kthvalue, .run = kthvalue, .scratch = kthvalue_scratch);
MRT_KERNEL(median, .run = median, .scratch = median_scratch);
