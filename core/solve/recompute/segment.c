/* segment.c -- a line in which whole segments are run again
 *
 *   method  The operators before the worst one are cut into segments where
 *           little is handed on (Chen et al. 2016).  Of what lives past the
 *           worst operator, only what a later segment reads is kept; all else
 *           is dropped, the last made first, so that each segment runs again
 *           once.  The number of segments is that with the least bytes: what
 *           is handed on, and all of the largest segment.
 *   cost    O(operators + gaps) a number tried, and the runs
 *
 * SPDX-License-Identifier: MIT */
#include "solve/recompute/solver.h"

#include <math.h>
#include <stdlib.h>

enum { LEAST_SEGMENT = 4 }; /* operators */

typedef struct schedule_cutting {
  mrt_schedule_solver *s;
  int worst;      /* operator: segments end before it */
  int count;      /* of gaps across it, in s->across */
  int64_t *width; /* by operator: bytes before it that later ones before the
                     worst read, and those that live past the worst */
  int64_t *made;  /* by operator: bytes up to it that live past the worst */
  int *segment;   /* by operator */
} schedule_cutting;

static int op_of(const schedule_cutting *c, int access) {
  return c->s->line.access[access].run; /* first runs only: so numbered */
}

static void weigh(schedule_cutting *c) {
  const mrt_sequence *l = &c->s->line;
  const mrt_problem *p = l->p;
  for (int i = 0; i < l->accesses; i++) {
    int from = op_of(c, i), after = l->access[i].after;
    if (!l->run[from].there || !l->run[from].first) continue;
    if (!mrt_sequence_lives_on(l, i)) continue;
    int to = op_of(c, after);
    int64_t bytes = p->bytes[l->access[i].value];
    if (from <= c->worst && to > c->worst) c->made[from] += bytes;
    if (to > c->worst) continue;
    c->width[from + 1] += bytes;
    c->width[to + 1] -= bytes;
  }
  for (int op = 1; op <= p->ops; op++) {
    c->made[op] += c->made[op - 1];
    c->width[op] += c->width[op - 1];
  }
}

/* The narrowest operator within a quarter of a segment of where an even part of
 * the bytes is made. */
static int cut_near(const schedule_cutting *c, int number, int segments,
                    int last) {
  double whole = (double)c->made[c->worst], part = whole / segments;
  int best = -1;
  for (int op = last + LEAST_SEGMENT; op < c->worst; op++) {
    double made = (double)c->made[op] - number * part;
    if (made > 0.25 * part) break;
    if (made < -0.25 * part) continue;
    if (best < 0 || c->width[op] < c->width[best]) best = op;
  }
  return best;
}

/* Cut; what that takes at most, about. */
static int64_t cut(schedule_cutting *c, int segments) {
  int64_t handed = 0, most = 0, last_made = 0;
  int number = 0, last = 0;
  for (int k = 1; k <= segments; k++) {
    int at = k < segments ? cut_near(c, k, segments, last) : c->worst + 1;
    if (at < 0) continue;
    for (int op = last; op < at; op++) c->segment[op] = number;
    number++;
    last = at;
    int64_t made = c->made[at - 1] - last_made;
    last_made = c->made[at - 1];
    if (made > most) most = made;
    if (k < segments) handed += c->width[at];
  }
  return handed + most;
}

static void cut_best(schedule_cutting *c) {
  int best = 1;
  int64_t least = INT64_MAX;
  for (int k = 2; k <= c->worst / LEAST_SEGMENT; k += 1 + k / 8) {
    int64_t bytes = cut(c, k);
    c->s->line.worked += c->worst;
    if (bytes < least) least = bytes, best = k;
  }
  cut(c, best);
}

static int last_made(const void *a, const void *b) {
  const mrt_schedule_evict *x = a, *y = b;
  return x->op != y->op ? y->op - x->op : y->value - x->value;
}

static void list_drops(schedule_cutting *c) {
  mrt_schedule_solver *s = c->s;
  const mrt_sequence *l = &s->line;
  s->choices = 0;
  for (int i = 0; i < c->count; i++) {
    const mrt_sequence_access *a = &l->access[s->across[i]];
    int maker = l->maker[a->value];
    if (!l->p->bytes[a->value] || c->segment[a->run] != c->segment[maker])
      continue;
    if (l->may && !(l->may[a->value] & MRT_MAY_RECOMPUTE)) continue;
    s->choice[s->choices++] =
        (mrt_schedule_evict){ .value = a->value, .op = maker };
  }
  qsort(s->choice, (size_t)s->choices, sizeof *s->choice, last_made);
}

static void drop(schedule_cutting *c) {
  mrt_schedule_solver *s = c->s;
  mrt_sequence *l = &s->line;
  for (int i = 0; i < s->choices && !l->failed && l->length <= s->most; i++) {
    int value = s->choice[i].value, x = mrt_sequence_find(l, value, c->worst);
    if (x < 0 || l->access[x].run == c->worst || !mrt_sequence_lives_on(l, x))
      continue;
    int next = l->access[l->access[x].after].run;
    if (mrt_sequence_split_cost(s, value, next, INFINITY) < INFINITY)
      mrt_sequence_split_do(s, next);
  }
}

void mrt_mincut(mrt_schedule_solver *s) {
  mrt_sequence *l = &s->line;
  int ops = l->p->ops;
  schedule_cutting c = { .s = s,
                         .width = MRT_NEW(l->arena, int64_t, ops + 2),
                         .made = MRT_NEW(l->arena, int64_t, ops + 2),
                         .segment = MRT_NEW(l->arena, int, ops + 2) };
  if (!c.width || !c.made || !c.segment) {
    l->failed = true;
    return;
  }
  for (int op = 0; op < ops; op++)
    if (mrt_sequence_bytes(l, op) > mrt_sequence_bytes(l, c.worst))
      c.worst = op;
  weigh(&c);
  cut_best(&c);
  c.count = mrt_sequence_across(l, c.worst, s->across);
  list_drops(&c);
  drop(&c);
  mrt_sequence_accept(l);
}
