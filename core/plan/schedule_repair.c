/* schedule_repair.c -- dropping values until the budget holds
 *
 *   method  At a run above the budget (the first, or the worst of the first
 *           so many), of all values that live past it those are dropped that
 *           cost least for what they take off the excess there and later: one
 *           at a time in a small program, a few in a large one.
 *
 * SPDX-License-Identifier: MIT */
#include "plan/schedule_solver.h"

#include <math.h>
#include <stdlib.h>

static int by_score(const void *a, const void *b) {
  const mrt_split *x = a, *y = b;
  if (x->score != y->score) return x->score < y->score ? -1 : 1;
  return x->value - y->value;
}

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

/* How many runs above the budget stand before `run`. */
static int overs_before(const mrt_solver *s, int run) {
  int low = 0, high = s->overs;
  while (low < high) {
    int middle = (low + high) / 2;
    if (mrt_line_is_before(&s->line, s->over[middle], run))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* What dropping the value until `at` takes off the excess, about. */
static double relief(mrt_solver *s, const mrt_split *c, int at) {
  int to = overs_before(s, at), from = 0;
  if (mrt_line_is_before(&s->line, s->over[0], c->from))
    from = overs_before(s, c->from);
  s->line.worked += 4;
  double most = (double)s->line.p->bytes[c->value] * (to - from);
  return fmin(most, s->excess[to] - s->excess[from]);
}

/* Make it again at `at`, if that is better. */
static void weigh(mrt_solver *s, mrt_split *c, int at, double limit) {
  double gain = relief(s, c, at);
  if (s->noise > 0) gain *= 1 + s->noise * mrt_solver_random(s);
  if (c->score < limit) limit = c->score;
  double cost = mrt_split_cost(s, c->value, at, limit * gain);
  if (cost >= limit * gain) return;
  c->at = at;
  c->score = cost / gain;
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

static void weigh_all(mrt_solver *s, int run, mrt_split *c, double limit) {
  weigh(s, c, c->next, limit);
  int at = earlier(s, c->value, c->next);
  if (at >= 0 && mrt_line_is_before(&s->line, run, at)) weigh(s, c, at, limit);
  at = roomy(s, c->value, run, c->next);
  if (at >= 0) weigh(s, c, at, limit);
}

/* The gaps across the run that may be dropped, the one first that looks most
 * promising: then most of the others need not be looked at closely. */
static int list_choices(mrt_solver *s, int run) {
  mrt_line *l = &s->line;
  mrt_split *list = s->choice;
  int across = mrt_line_across(l, run, s->across), count = 0;
  double least = INFINITY;
  for (int i = 0; i < across; i++) {
    const mrt_line_access *a = &l->access[s->across[i]];
    if (!may_drop(s, a->value)) continue;
    int next = l->access[a->after].run;
    list[count] = (mrt_split){ a->value, a->run, next, -1, INFINITY };
    double score =
        l->p->cost[l->maker[a->value]] / relief(s, &list[count], next);
    if (score < least) {
      mrt_split first = list[count];
      list[count] = list[0];
      list[0] = first;
      least = score;
    }
    count++;
  }
  return count;
}

/* Choose by falling promise, and forget those far from the best. */
static int best_choices(mrt_solver *s, int run) {
  mrt_split *list = s->choice;
  int count = list_choices(s, run), good = 0;
  double best = INFINITY, slack = s->batch > 1 ? 3 : 1;
  for (int i = 0; i < count; i++) {
    mrt_split c = list[i];
    weigh_all(s, run, &c, best * slack);
    if (c.at < 0) continue;
    if (c.score < best) best = c.score;
    if (s->batch == 1)
      list[0] = c, good = 1;
    else
      list[good++] = c;
  }
  if (good > 1) qsort(list, (size_t)good, sizeof *list, by_score);
  return good;
}

/* Is the gap as it was when the choice was made? */
static bool still(mrt_solver *s, const mrt_split *c) {
  mrt_line *l = &s->line;
  if (!l->run[c->next].there || !l->run[c->at].there) return false;
  int x = mrt_line_find(l, c->value, c->at);
  if (x >= 0 && l->access[x].run == c->at && c->at == c->next)
    x = l->access[x].before;
  if (x < 0 || !mrt_line_lives_on(l, x)) return false;
  return l->access[x].run == c->from &&
         l->access[l->access[x].after].run == c->next;
}

/* Drop values that live past the run; false when none can be. */
static bool relieve(mrt_solver *s, int run) {
  mrt_line *l = &s->line;
  int count = best_choices(s, run), done = 0;
  for (int i = 0; i < count && done < s->batch && !l->failed; i++) {
    mrt_split *c = &s->choice[i];
    if (i > 0 && !still(s, c)) continue;
    double limit = i > 0 ? 1.5 * c->score * relief(s, c, c->at) : INFINITY;
    if (mrt_split_cost(s, c->value, c->at, limit) >= limit && i > 0) continue;
    mrt_split_do(s, c->at);
    s->price += s->learn * (c->score - s->price);
    done++;
    if (!l->run[run].there || mrt_line_bytes(l, run) <= s->budget) break;
  }
  return count > 0;
}

/* The worst of the first runs above the budget. */
static int worst_over(const mrt_solver *s) {
  int worst = s->over[0];
  for (int i = 1; i < s->overs && i < s->window; i++)
    if (mrt_line_bytes(&s->line, s->over[i]) > mrt_line_bytes(&s->line, worst))
      worst = s->over[i];
  return worst;
}

bool mrt_repair(mrt_solver *s, double limit) {
  mrt_line *l = &s->line;
  while (find_over(s) >= 0) {
    if (l->failed || l->worked > s->work || l->cost >= limit ||
        l->length > s->most || !relieve(s, worst_over(s)))
      return false;
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
