/* anneal.c -- lowering the peak by random moves
 *
 *   method  Threshold accepting (Dueck and Scheuer, J. Comput. Phys. 90, 1990)
 *           on the sum of use^16 over all steps, which falls where a peak
 *           does and where one is in the making.  Half the moves begin at a
 *           high step t: a buffer alive there that t does not need is made
 *           behind t, or read for the last time before t.  The others bring
 *           any node to any place.  What must go along, does.  A move that
 *           makes the sum worse is accepted up to a threshold that falls.
 *   never   looks at the clock: `work` counts positions; uses a function whose
 *           last bit differs between machines
 *
 * SPDX-License-Identifier: MIT */
#include "solve/order/order.h"

#include <string.h>

enum {
  STAGES = 64, /* of one threshold each */
  DRAWN = 8,   /* steps drawn at a time, of which the highest is taken */
  NEAR = 40    /* steps that most moves span */
};
static const double HIGHEST = 0.8, FALL = 0.93; /* threshold; by stage */

typedef struct annealing {
  mrt_live_profile *p;
  const mrt_dag *dag;
  int *at;        /* node -> position */
  bool *with;     /* by node: goes along in this move */
  int *nodes;     /* a part, rearranged */
  double *weight; /* by position: (use / unit)^16 */
  double total, unit;
  uint64_t random;
  int64_t work;
} annealing;

/* Nodes of [from, to] that are `with` go to its end, or to its beginning. */
typedef struct anneal_move {
  int from, to;
  bool later;
} anneal_move;

static int draw(annealing *m, int n) {
  m->random = m->random * 6364136223846793005u + 1442695040888963407u;
  return (int)((m->random >> 33) % (uint64_t)n);
}

static double weight(const annealing *m, int64_t use) {
  double x = (double)use / m->unit;
  x *= x, x *= x, x *= x;
  return x * x;
}

static int64_t weigh(annealing *m) {
  int64_t peak = 0;
  m->total = 0;
  for (int i = 0; i < m->dag->nodes; i++) {
    m->total += m->weight[i] = weight(m, m->p->use[i]);
    if (m->p->use[i] > peak) peak = m->p->use[i];
  }
  return peak;
}

/* ---- moves --------------------------------------------------------------- */

static anneal_move reach(annealing *m, int from, int to) {
  int n = m->dag->nodes;
  to = to < 0 ? 0 : to < n ? to : n - 1;
  return from < to ? (anneal_move){ from, to, true }
                   : (anneal_move){ to, from, false };
}

static anneal_move anywhere(annealing *m) {
  int n = m->dag->nodes, at = draw(m, n);
  int by = 1 + draw(m, draw(m, 4) ? NEAR : n);
  m->with[m->p->order[at]] = true;
  return reach(m, at, draw(m, 2) ? at + by : at - by);
}

/* A buffer alive through t, made before it and read after it; or -1. */
static int alive_through(annealing *m, int t) {
  int buffers = m->dag->buffers, b = buffers ? draw(m, buffers) : 0;
  for (int i = 0; i < buffers; i++, b = b + 1 < buffers ? b + 1 : 0)
    if (m->at[m->dag->maker[b]] < t && m->p->last[b] > t) {
      m->work -= i / 4;
      return b;
    }
  m->work -= buffers / 4;
  return -1;
}

static anneal_move at_peak(annealing *m) {
  const mrt_lists *readers = &m->dag->readers;
  int t = draw(m, m->dag->nodes);
  for (int i = 1; i < DRAWN; i++) {
    int other = draw(m, m->dag->nodes);
    if (m->p->use[other] > m->p->use[t]) t = other;
  }
  int b = alive_through(m, t), beyond = draw(m, 2) ? draw(m, NEAR) : 0;
  if (b < 0) return (anneal_move){ 0 };
  if (draw(m, 2)) {
    m->with[m->dag->maker[b]] = true;
    return reach(m, m->at[m->dag->maker[b]], t + beyond);
  }
  anneal_move w = reach(m, m->p->last[b], t - beyond);
  for (int k = readers->start[b]; k < readers->start[b + 1]; k++)
    m->with[readers->item[k]] = m->at[readers->item[k]] >= w.from;
  return w;
}

static bool any_with(const mrt_lists *l, int node, const bool *with) {
  for (int k = l->start[node]; k < l->start[node + 1]; k++)
    if (with[l->item[k]]) return true;
  return false;
}

static bool all_with(const mrt_lists *l, int node, const bool *with) {
  for (int k = l->start[node]; k < l->start[node + 1]; k++)
    if (!with[l->item[k]]) return false;
  return l->start[node] < l->start[node + 1];
}

/* What only the moved nodes wait for goes along later, what waits only for
 * them goes along earlier; how many do. */
static int take_along(annealing *m, anneal_move w) {
  const int *order = m->p->order;
  const mrt_lists *far = w.later ? &m->dag->after : &m->dag->before;
  int n = w.to - w.from + 1, more = 0;
  for (int i = 0; i < n; i++) {
    int node = order[w.later ? w.to - i : w.from + i];
    if (m->with[node] || !all_with(far, node, m->with)) continue;
    m->with[node] = true, more++;
  }
  return more;
}

/* Fill m->nodes; false when that changes nothing. */
static bool arrange(annealing *m, anneal_move w) {
  const int *order = m->p->order;
  int n = w.to - w.from + 1, moved = 0, at[2];
  const mrt_lists *near = w.later ? &m->dag->before : &m->dag->after;
  for (int i = 0; i < n; i++) {
    int node = order[w.later ? w.from + i : w.to - i];
    m->with[node] = m->with[node] || any_with(near, node, m->with);
    moved += m->with[node];
  }
  if (draw(m, 2)) moved += take_along(m, w);
  at[w.later] = 0, at[!w.later] = w.later ? n - moved : moved;
  for (int i = w.from; i <= w.to; i++) {
    bool with = m->with[order[i]];
    m->nodes[at[!with]++] = order[i];
    m->with[order[i]] = false;
  }
  m->work -= n;
  return moved < n;
}

/* Make the move unless that costs more than `most`. */
static bool try_move(annealing *m, anneal_move w, double most) {
  mrt_live_profile *p = m->p;
  double before = 0, after = 0;
  mrt_live_profile_sweep(p, w.from, w.to, m->nodes, false);
  for (int i = w.from; i <= w.to; i++) {
    before += m->weight[i];
    after += weight(m, p->tried[i - w.from]);
  }
  if (after - before > most) return false;
  mrt_live_profile_sweep(p, w.from, w.to, m->nodes, true);
  for (int i = w.from; i <= w.to; i++) {
    m->at[p->order[i]] = i;
    m->weight[i] = weight(m, p->use[i]);
  }
  m->total += after - before;
  return true;
}

/* ---- the walk ------------------------------------------------------------ */

/* Many moves at one threshold; the least peak seen goes to *peak and `best`. */
static void stage(annealing *m, double threshold, int64_t floor, int64_t *peak,
                  int *best) {
  const mrt_live_profile *p = m->p;
  weigh(m); /* again, so that rounding does not add up */
  while (m->work > 0 && *peak > floor) {
    anneal_move w = draw(m, 2) ? at_peak(m) : anywhere(m);
    m->work -= 4;
    if (w.from == w.to) {
      m->with[p->order[w.to]] = false;
      continue;
    }
    if (!arrange(m, w) || !try_move(m, w, threshold * m->total)) continue;
    int64_t most = 0;
    for (int i = w.from; i <= w.to; i++)
      if (p->use[i] > most) most = p->use[i];
    for (int i = 0; i < m->dag->nodes && most < *peak; i++)
      if (p->use[i] > most) most = p->use[i];
    if (most >= *peak) continue;
    *peak = most;
    memcpy(best, p->order, (size_t)m->dag->nodes * sizeof *best);
  }
}

mrt_status mrt_order_anneal(mrt_live_profile *p, mrt_arena *a, int64_t floor,
                            uint64_t seed, int64_t work, int64_t *peak,
                            int *best) {
  int n = p->dag->nodes;
  annealing m = { .p = p,
                  .dag = p->dag,
                  .at = MRT_NEW(a, int, n),
                  .with = MRT_NEW(a, bool, n),
                  .nodes = MRT_NEW(a, int, n),
                  .weight = MRT_NEW(a, double, n),
                  .unit = (double)(*peak > 0 ? *peak : 1),
                  .random = seed };
  if (!m.at || !m.with || !m.nodes || !m.weight) return MRT_ENOMEM;
  for (int i = 0; i < n; i++) m.at[p->order[i]] = i;
  memcpy(best, p->order, (size_t)n * sizeof *best);
  double threshold = HIGHEST;
  for (int i = 0; i < STAGES; i++, threshold *= FALL) {
    m.work += work / STAGES;
    stage(&m, threshold, floor, peak, best);
  }
  return MRT_OK;
}
