/* schedule_repair.c -- dropping values until the budget holds
 *
 *   method  At the first run above the budget, of all values that live past
 *           it the one is dropped that costs least for what it takes off the
 *           excess there and later.
 *
 * SPDX-License-Identifier: MIT */
#include "plan/schedule_solver.h"

#include <math.h>

typedef struct choice {
  int value, next;
  double score;
} choice;

/* The runs above the budget, from the first on. */
static int find_over(mrt_solver *s) {
  mrt_line *l = &s->line;
  s->overs = 0;
  s->excess[0] = 0;
  int first = mrt_line_over(l, 0, s->budget);
  for (int run = first; run >= 0 && s->overs < s->line.p->ops;) {
    s->over[s->overs] = run;
    s->excess[s->overs + 1] =
        s->excess[s->overs] + (double)(mrt_line_bytes(l, run) - s->budget);
    s->overs++;
    l->worked++;
    run = mrt_line_next(l, run);
    if (run >= 0) run = mrt_line_over(l, run, s->budget);
  }
  return first;
}

/* What `bytes` less until before `next` take off the excess, about. */
static double relief(mrt_solver *s, int64_t bytes, int next) {
  int low = 0, high = s->overs;
  while (low < high) {
    int middle = (low + high) / 2;
    if (mrt_line_is_before(&s->line, s->over[middle], next))
      low = middle + 1;
    else
      high = middle;
  }
  double most = (double)bytes * low;
  return most < s->excess[low] ? most : s->excess[low];
}

static choice best_choice(mrt_solver *s, int run) {
  mrt_line *l = &s->line;
  const mrt_problem *p = l->p;
  choice best = { -1, -1, INFINITY };
  for (int v = 0; v < p->values; v++) {
    l->worked++;
    if (!p->bytes[v] || (l->may && !(l->may[v] & MRT_MAY_RECOMPUTE))) continue;
    if (s->tabu[v] >= s->round) continue;
    int x = mrt_line_find(l, v, run);
    if (x < 0 || l->access[x].run == run || !mrt_line_lives_on(l, x)) continue;
    int next = l->access[l->access[x].after].run;
    double gain = relief(s, p->bytes[v], next);
    if (s->noise > 0) gain *= 1 + s->noise * mrt_solver_random(s);
    double cost = mrt_split_cost(s, v, next, best.score * gain);
    if (cost < best.score * gain) best = (choice){ v, next, cost / gain };
  }
  return best;
}

bool mrt_repair(mrt_solver *s, double limit) {
  mrt_line *l = &s->line;
  for (;;) {
    int run = find_over(s);
    if (run < 0) return true;
    if (l->failed || l->worked > s->work || l->cost >= limit ||
        l->length > 12 * l->p->ops + 100)
      return false;
    choice best = best_choice(s, run);
    if (best.value < 0) return false;
    mrt_split_cost(s, best.value, best.next, INFINITY);
    mrt_split_do(s, best.next);
    s->price += 0.2 * (best.score - s->price);
  }
}

void mrt_clean(mrt_solver *s) {
  mrt_line *l = &s->line;
  for (int run = 0; l->run[run].op < l->p->ops && !l->failed;) {
    int next = mrt_line_next(l, run);
    if (!l->run[run].first) mrt_run_drop(s, run, true);
    run = next;
  }
}
