/* bound.c -- a cost that no schedule is below
 *
 *   method  Lagrange's bound.  Let a byte at the first run of operator t have
 *           a price.  What is above the budget in program order must be paid
 *           for, less what dropping values saves: a value dropped between two
 *           of its accesses is made again between them, so a gap saves at
 *           most the price of its bytes less that run's cost.  An operator of
 *           several outputs is shared by them, by bytes.  For any prices
 *
 *             extra cost >= sum of price * excess
 *                           - sum over gaps of max(0, bytes * prices - cost)
 *
 *           and a projected subgradient with Polyak's step finds good ones.
 *           What a run needs that is not there itself counts for nothing, so
 *           the bound is loose where little memory is left.
 *   cost    O(operators + accesses) a step
 *
 * And bytes that no schedule is below: at the first run of an operator its
 * operands are there, and all that was made before, is read later and cannot be
 * made again in between.
 *
 * SPDX-License-Identifier: MIT */
#include "solve/recompute/solver.h"

#include <math.h>

enum { STEPS = 400 };

typedef struct gap {
  int from, to; /* operators, both outside */
  double bytes, cost;
} gap;

typedef struct bound {
  const mrt_sequence *line;
  gap *gaps;
  int count, ops;
  double *need;  /* by operator, in units of the budget; the end too */
  double *price; /* of these bytes */
  double *sum;   /* prices before the operator */
  double *slope; /* of the bound */
} bound;

/* Bytes of outputs that could lie in inputs. */
static int64_t most_taken(const mrt_sequence *l, int op) {
  const mrt_problem *p = l->p;
  int64_t sum = 0;
  if (!p->take_start || op == p->ops) return 0;
  for (int i = p->makes.start[op]; i < p->makes.start[op + 1]; i++)
    for (int k = p->take_start[op]; k < p->take_start[op + 1]; k++)
      if (p->take[k].out == p->makes.item[i]) {
        sum += p->bytes[p->take[k].out];
        break;
      }
  return sum;
}

/* From which operator on is the value there until it is read for the last time?
 * It cannot be made again, or not any more. */
static int stays_from(const mrt_sequence *l, int value) {
  const mrt_problem *p = l->p;
  if (l->may && (l->may[value] & MRT_MAY_SWAP) && p->swap_out > 0)
    return p->ops + 1;
  if (l->may && !(l->may[value] & MRT_MAY_RECOMPUTE)) return 0;
  return p->until ? p->until[l->maker[value]] : p->ops;
}

/* Bytes across each operator that are there whatever runs again. */
static int64_t *staying(const mrt_sequence *l) {
  int ops = l->p->ops;
  int64_t *bytes = MRT_NEW(l->arena, int64_t, ops + 2);
  for (int i = 0; bytes && i < l->accesses; i++) {
    const mrt_sequence_access *a = &l->access[i];
    if (!l->run[a->run].there || !mrt_sequence_lives_on(l, i)) continue;
    int from = stays_from(l, a->value), to = l->run[l->access[a->after].run].op;
    if (from <= a->run) from = a->run + 1;
    if (from >= to) continue;
    bytes[from] += l->p->bytes[a->value];
    bytes[to] -= l->p->bytes[a->value];
  }
  for (int op = 0; bytes && op < ops; op++) bytes[op + 1] += bytes[op];
  return bytes;
}

mrt_status mrt_schedule_set(const mrt_sequence *l, int64_t *set) {
  const int64_t *across = staying(l);
  if (!across) return MRT_ENOMEM;
  *set = 0;
  for (int op = 0; op <= l->p->ops; op++) {
    int64_t bytes = across[op] + l->work[op] - most_taken(l, op);
    if (bytes > *set) *set = bytes;
  }
  return MRT_OK;
}

/* The least bytes at the first run, all else as in program order. */
static double least_bytes(const mrt_sequence *l, int op) {
  return (double)(mrt_sequence_bytes(l, op) + mrt_sequence_taken(l, op) -
                  most_taken(l, op));
}

/* What making the value again costs, at least. */
static double own_cost(const mrt_sequence *l, int value) {
  const mrt_problem *p = l->p;
  int op = l->maker[value];
  double sum = 0;
  if (l->may && (l->may[value] & MRT_MAY_SWAP) && p->swap_out > 0) return 0;
  if (l->may && !(l->may[value] & MRT_MAY_RECOMPUTE)) return INFINITY;
  if (p->until && p->until[op] == 0) return INFINITY;
  for (int i = p->makes.start[op]; i < p->makes.start[op + 1]; i++)
    sum += (double)p->bytes[p->makes.item[i]];
  return p->cost[op] * (double)p->bytes[value] / sum;
}

static mrt_status prepare(bound *b, int64_t budget) {
  const mrt_sequence *l = b->line;
  int ops = b->ops;
  double unit = budget > 0 ? (double)budget : 1;
  b->gaps = MRT_NEW(l->arena, gap, l->accesses + 1);
  b->need = MRT_NEW(l->arena, double, ops + 1);
  b->price = MRT_NEW(l->arena, double, ops + 1);
  b->sum = MRT_NEW(l->arena, double, ops + 2);
  b->slope = MRT_NEW(l->arena, double, ops + 2);
  if (!b->gaps || !b->need || !b->price || !b->sum || !b->slope)
    return MRT_ENOMEM;
  for (int op = 0; op <= ops; op++)
    b->need[op] = (least_bytes(l, op) - (double)budget) / unit;
  for (int i = 0; i < l->accesses; i++) {
    const mrt_sequence_access *a = &l->access[i];
    if (!l->run[a->run].first || !l->run[a->run].there) continue;
    if (!mrt_sequence_lives_on(l, i) || !l->p->bytes[a->value]) continue;
    int to = l->run[l->access[a->after].run].op;
    double cost = own_cost(l, a->value);
    if (to > a->run + 1 && cost < INFINITY)
      b->gaps[b->count++] =
          (gap){ a->run, to, (double)l->p->bytes[a->value] / unit, cost };
  }
  return MRT_OK;
}

/* The bound at the present prices, and its slope. */
static double evaluate(bound *b) {
  int n = b->ops + 1;
  double value = 0, here = 0;
  for (int t = 0; t < n; t++) {
    b->sum[t + 1] = b->sum[t] + b->price[t];
    value += b->price[t] * b->need[t];
    b->slope[t] = 0;
  }
  b->slope[n] = 0;
  for (int i = 0; i < b->count; i++) {
    const gap *g = &b->gaps[i];
    double saved = g->bytes * (b->sum[g->to] - b->sum[g->from + 1]) - g->cost;
    if (saved <= 0) continue;
    value -= saved;
    b->slope[g->from + 1] -= g->bytes;
    b->slope[g->to] += g->bytes;
  }
  for (int t = 0; t < n; t++) {
    here += b->slope[t];
    b->slope[t] = b->need[t] + here;
  }
  return value;
}

/* Go up along the slope, aiming at `target`. */
static void step(bound *b, double value, double target, double scale) {
  double square = 0;
  for (int t = 0; t <= b->ops; t++) {
    if (b->price[t] <= 0 && b->slope[t] < 0) b->slope[t] = 0;
    square += b->slope[t] * b->slope[t];
  }
  double length = square > 0 ? scale * (target - value) / square : 0;
  for (int t = 0; t <= b->ops; t++) {
    b->price[t] += length * b->slope[t];
    if (b->price[t] < 0) b->price[t] = 0;
  }
}

mrt_status mrt_schedule_bound(const mrt_sequence *line, int64_t budget,
                              double known, double *extra) {
  bound b = { .line = line, .ops = line->p->ops };
  MRT_TRY(prepare(&b, budget));
  double best = 0, scale = 1;
  for (int i = 0, since = 0; i < STEPS; i++) {
    double value = evaluate(&b);
    since = value > best + 1e-4 * known ? 0 : since + 1;
    if (value > best) best = value;
    if (since == 10) scale *= 0.7, since = 0;
    if (best >= known * (1 - 1e-6)) break;
    step(&b, value, known, scale);
  }
  *extra = best < known ? best : known;
  return MRT_OK;
}
