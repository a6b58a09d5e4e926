/* local_search.c -- lowering the peak of an order where it stands
 *
 *   method  At the highest step t: every large buffer alive there that t does
 *           not need is pushed behind t (its maker with all that waits for it
 *           before t), or freed before t (its later readers with all they wait
 *           for since t).  The move that lowers this part most is made.  When
 *           none helps, the exact search rearranges what stands around t.
 *           Each change lowers one highest step and raises none to it.
 *   never   looks at the clock: `work` counts edges
 *
 * SPDX-License-Identifier: MIT */
#include "solve/order/order.h"

enum {
  TRIED = 24,     /* buffers at one peak */
  REACH = 4096,   /* positions a move may span */
  SETS = 1 << 12, /* of one exact search */
};

typedef struct node_moving {
  mrt_live_profile *p;
  const mrt_dag *dag;
  mrt_arena *arena;
  int *at;           /* node -> position */
  bool *with;        /* by node: goes along in this move */
  int *nodes, *best; /* a part, rearranged */
  mrt_order_exact *exact;
  int64_t work;
} node_moving;

typedef struct order_part {
  int from, to;
  int64_t peak;
} order_part;

static int highest(const node_moving *m) {
  int top = 0;
  for (int i = 1; i < m->dag->nodes; i++)
    if (m->p->use[i] > m->p->use[top]) top = i;
  return top;
}

static bool any_with(const mrt_lists *l, int node, const bool *with) {
  for (int k = l->start[node]; k < l->start[node + 1]; k++)
    if (with[l->item[k]]) return true;
  return false;
}

/* m->nodes becomes positions [from, to], those with `with` first or last. */
static void split(node_moving *m, int from, int to, bool first) {
  int n = 0;
  for (int pass = 0; pass < 2; pass++)
    for (int i = from; i <= to; i++)
      if (m->with[m->p->order[i]] == ((pass == 0) == first))
        m->nodes[n++] = m->p->order[i];
  for (int i = from; i <= to; i++) m->with[m->p->order[i]] = false;
  m->work -= 8 * (to - from + 1);
}

/* Maker and what waits for it go behind t; false when t does. */
static bool push_behind(node_moving *m, int buffer, int t, order_part *w) {
  int from = m->at[m->dag->maker[buffer]];
  if (from >= t || t - from > REACH) return false;
  for (int i = from; i <= t; i++) {
    int node = m->p->order[i];
    m->with[node] = i == from || any_with(&m->dag->before, node, m->with);
  }
  bool free = !m->with[m->p->order[t]];
  split(m, from, t, false);
  *w = (order_part){ from, t, 0 };
  return free;
}

/* All readers after t, and what they wait for, go before t. */
static bool pull_before(node_moving *m, int buffer, int t, order_part *w) {
  const mrt_lists *readers = &m->dag->readers;
  int to = m->p->last[buffer];
  if (to <= t || to - t > REACH) return false;
  for (int k = readers->start[buffer]; k < readers->start[buffer + 1]; k++)
    if (m->at[readers->item[k]] > t) m->with[readers->item[k]] = true;
  for (int i = to; i >= t; i--) {
    int node = m->p->order[i];
    if (!m->with[node]) m->with[node] = any_with(&m->dag->after, node, m->with);
  }
  bool free = !m->with[m->p->order[t]];
  split(m, t, to, true);
  *w = (order_part){ t, to, 0 };
  return free;
}

static void take(node_moving *m, order_part w, const int *nodes) {
  mrt_live_profile_sweep(m->p, w.from, w.to, nodes, true);
  for (int i = w.from; i <= w.to; i++) m->at[m->p->order[i]] = i;
}

/* The largest buffers alive at t. */
static int alive(const node_moving *m, int t, int *buffers) {
  const mrt_dag *dag = m->dag;
  int n = 0;
  for (int b = 0; b < dag->buffers; b++) {
    if (m->at[dag->maker[b]] > t || m->p->last[b] < t) continue;
    int i = n < TRIED ? n++ : TRIED;
    for (; i > 0 && dag->bytes[buffers[i - 1]] < dag->bytes[b]; i--)
      if (i < TRIED) buffers[i] = buffers[i - 1];
    if (i < TRIED) buffers[i] = b;
  }
  return n;
}

static bool move_blocks(node_moving *m, int t, int64_t peak) {
  static bool (*const moves[])(node_moving *, int, int,
                               order_part *) = { push_behind, pull_before };
  int buffers[TRIED], count = alive(m, t, buffers);
  order_part best = { 0, -1, peak };
  for (int i = 0; i < count; i++)
    for (int k = 0; k < MRT_COUNT(moves); k++) {
      order_part w;
      if (!moves[k](m, buffers[i], t, &w)) continue;
      w.peak = mrt_live_profile_sweep(m->p, w.from, w.to, m->nodes, false);
      if (w.peak >= best.peak) continue;
      int *swap = m->best;
      m->best = m->nodes, m->nodes = swap, best = w;
    }
  if (best.peak == peak) return false;
  take(m, best, m->best);
  return true;
}

/* The whole order is not a window: choose.c has tried that. */
static bool rearrange(node_moving *m, int t, int64_t peak) {
  static const int widths[] = { 12, 24, 40, MRT_ORDER_EXACT_NODES };
  int n = m->dag->nodes;
  for (int i = 0; i < MRT_COUNT(widths) && widths[i] < n && m->work > 0; i++)
    for (int third = 1; third <= 2; third++) {
      int from = t - widths[i] * third / 3;
      if (from + widths[i] > n) from = n - widths[i];
      if (from < 0) from = 0;
      int to = from + widths[i] - 1;
      if (mrt_order_exact_window(m->exact, m->p, from, to, &(int64_t){ peak },
                                 &m->work) != MRT_ORDER_BETTER)
        continue;
      for (int k = from; k <= to; k++) m->at[m->p->order[k]] = k;
      return true;
    }
  return false;
}

mrt_status mrt_order_improve(mrt_live_profile *p, mrt_arena *a, int64_t floor,
                             int64_t work, int64_t *peak) {
  const mrt_dag *dag = p->dag;
  node_moving m = { .p = p,
                    .dag = dag,
                    .arena = a,
                    .work = work,
                    .at = MRT_NEW(a, int, dag->nodes),
                    .with = MRT_NEW(a, bool, dag->nodes),
                    .nodes = MRT_NEW(a, int, REACH + 1),
                    .best = MRT_NEW(a, int, REACH + 1),
                    .exact = mrt_order_exact_new(dag, a, SETS) };
  if (!m.at || !m.with || !m.nodes || !m.best || !m.exact) return MRT_ENOMEM;
  for (int i = 0; i < dag->nodes; i++) m.at[p->order[i]] = i;
  for (;;) {
    int t = highest(&m);
    *peak = p->use[t];
    m.work -= dag->nodes + dag->buffers;
    if (*peak <= floor || m.work <= 0) return MRT_OK;
    if (!move_blocks(&m, t, *peak) && !rearrange(&m, t, *peak)) return MRT_OK;
  }
}
