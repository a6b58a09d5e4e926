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
  s->line.worked += 4;
  double most = (double)bytes * low;
  return most < s->excess[low] ? most : s->excess[low];
}

/* Drop the value before the run `at`, if that is better. */
static void weigh(mrt_solver *s, int value, int at, choice *best) {
  double gain = relief(s, s->line.p->bytes[value], at);
  if (s->noise > 0) gain *= 1 + s->noise * mrt_solver_random(s);
  double cost = mrt_split_cost(s, value, at, best->score * gain);
  if (cost < best->score * gain) *best = (choice){ value, at, cost / gain };
}

/* Where an input of the value's maker is read last, before `at`: it can be
 * made there without that input living longer; -1: all are there at `at`. */
static int earlier(mrt_solver *s, int value, int at) {
  mrt_line *l = &s->line;
  const mrt_problem *p = l->p;
  int op = l->maker[value], first = -1;
  for (int i = p->reads.start[op]; i < p->reads.start[op + 1]; i++) {
    int x = mrt_line_find(l, p->reads.item[i], at);
    int run = l->access[x].run;
    if (run == at || mrt_line_lives_on(l, x)) continue;
    if (first < 0 || mrt_line_is_before(l, run, first)) first = run;
  }
  return first;
}

/* A run after `run` and before `at` where the value can be made again within
 * the budget; -1: there is none near `at`, or it can at `at`. */
static int roomy(mrt_solver *s, int value, int run, int at) {
  mrt_line *l = &s->line;
  if (!mrt_split_spill(s, value, at)) return -1;
  for (int i = 0; i < 32; i++) {
    at = mrt_line_before(l, at);
    if (at == run) return -1;
    if (!mrt_split_spill(s, value, at)) return at;
  }
  return -1;
}

static bool may_drop(const mrt_solver *s, int value) {
  const mrt_line *l = &s->line;
  return l->p->bytes[value] > 0 && s->tabu[value] < s->round &&
         (!l->may || (l->may[value] & MRT_MAY_RECOMPUTE));
}

/* All gaps across the run, the most promising one first, so that most of the
 * others need not be looked at closely. */
static choice best_choice(mrt_solver *s, int run) {
  mrt_line *l = &s->line;
  choice best = { -1, -1, INFINITY };
  int count = mrt_line_across(l, run, s->across), first = -1;
  double least = INFINITY;
  for (int i = 0; i < count; i++) {
    int v = l->access[s->across[i]].value;
    if (!may_drop(s, v)) continue;
    int next = l->access[l->access[s->across[i]].after].run;
    double score = l->p->cost[l->maker[v]] / relief(s, l->p->bytes[v], next);
    if (score < least) first = i, least = score;
  }
  for (int i = -1; i < count && first >= 0; i++) {
    if (i == first) continue;
    const mrt_line_access *a = &l->access[s->across[i < 0 ? first : i]];
    int v = a->value, next = l->access[a->after].run;
    if (!may_drop(s, v)) continue;
    weigh(s, v, next, &best);
    int at = earlier(s, v, next);
    if (at >= 0 && mrt_line_is_before(l, run, at)) weigh(s, v, at, &best);
    at = roomy(s, v, run, next);
    if (at >= 0) weigh(s, v, at, &best);
  }
  return best;
}

static int worst_over(const mrt_solver *s) {
  int worst = s->over[0];
  for (int i = 1; i < s->overs; i++)
    if (mrt_line_bytes(&s->line, s->over[i]) > mrt_line_bytes(&s->line, worst))
      worst = s->over[i];
  return worst;
}

bool mrt_repair(mrt_solver *s, double limit) {
  mrt_line *l = &s->line;
  while (find_over(s) >= 0) {
    if (l->failed || l->worked > s->work || l->cost >= limit ||
        l->length > s->most)
      return false;
    choice best = best_choice(s, s->worst ? worst_over(s) : s->over[0]);
    if (best.value < 0) return false;
    mrt_split_cost(s, best.value, best.next, INFINITY);
    mrt_split_do(s, best.next);
    s->price += s->learn * (best.score - s->price);
  }
  return true;
}

void mrt_clean(mrt_solver *s) {
  mrt_line *l = &s->line;
  for (int run = 0; l->run[run].op < l->p->ops && !l->failed;) {
    int next = mrt_line_next(l, run);
    if (!l->run[run].first) mrt_run_drop(s, run, true);
    run = next;
  }
}
