/* repair.c -- dropping values until the budget holds
 *
 *   method  At a run above the budget (the first, or the worst of the first
 *           few), of all values that live past it those are dropped that
 *           cost least for what they take off the excess there and later: one
 *           at a time in a small program, a few in a large one.
 *
 * SPDX-License-Identifier: MIT */
#include "solve/recompute/solver.h"

#include <math.h>
#include <stdlib.h>

static int by_score(const void *a, const void *b) {
  const mrt_schedule_evict *x = a, *y = b;
  if (x->score != y->score) return x->score < y->score ? -1 : 1;
  return x->value - y->value;
}

/* The runs above the budget, from the first on. */
static int find_over(mrt_schedule_solver *s) {
  mrt_sequence *l = &s->line;
  s->overs = 0;
  s->excess[0] = 0;
  int first = mrt_sequence_over(l, 0, s->budget);
  for (int run = first; run >= 0 && s->overs < s->line.p->ops;) {
    s->over[s->overs] = run;
    s->excess[s->overs + 1] =
        s->excess[s->overs] + (double)(mrt_sequence_bytes(l, run) - s->budget);
    s->overs++;
    l->worked++;
    run = mrt_sequence_next(l, run);
    if (run >= 0) run = mrt_sequence_over(l, run, s->budget);
  }
  return first;
}

static int last_made(const void *a, const void *b) {
  const mrt_schedule_evict *x = a, *y = b;
  return x->op != y->op ? y->op - x->op : y->value - x->value;
}

/* How many runs above the budget stand before `run`. */
static int overs_before(const mrt_schedule_solver *s, int run) {
  int low = 0, high = s->overs;
  while (low < high) {
    int middle = (low + high) / 2;
    if (mrt_sequence_is_before(&s->line, s->over[middle], run))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* What dropping the value until `at` takes off the excess, about. */
static double relief(mrt_schedule_solver *s, const mrt_schedule_evict *c,
                     int at) {
  int to = overs_before(s, at), from = 0;
  if (mrt_sequence_is_before(&s->line, s->over[0], c->from))
    from = overs_before(s, c->from);
  s->line.worked += 12;
  double most = (double)s->line.p->bytes[c->value] * (to - from);
  return fmin(most, s->excess[to] - s->excess[from]);
}

/* Make it again at `at`, if that is better. */
static void weigh(mrt_schedule_solver *s, mrt_schedule_evict *c, int at,
                  double limit) {
  double gain = relief(s, c, at);
  if (s->noise > 0) gain *= 1 + s->noise * mrt_schedule_random(s);
  if (c->score < limit) limit = c->score;
  double cost = mrt_sequence_split_cost(s, c->value, at, limit * gain);
  if (cost >= limit * gain) return;
  c->at = at;
  c->score = cost / gain;
}

/* Where an input of the value's maker is read last, before `at`: it can be
 * made there without that input living longer; -1: all are there at `at`. */
static int earlier(mrt_schedule_solver *s, int value, int at) {
  mrt_sequence *l = &s->line;
  const mrt_problem *p = l->p;
  int op = l->maker[value], first = -1;
  for (int i = p->reads.start[op]; i < p->reads.start[op + 1]; i++) {
    int x = mrt_sequence_find(l, p->reads.item[i], at);
    int run = l->access[x].run;
    if (run == at || mrt_sequence_lives_on(l, x)) continue;
    if (first < 0 || mrt_sequence_is_before(l, run, first)) first = run;
  }
  return first;
}

/* A run after `run` and before `at` where the value can be made again within
 * the budget; -1: there is none near `at`, or it can at `at`. */
static int roomy(mrt_schedule_solver *s, int value, int run, int at) {
  mrt_sequence *l = &s->line;
  if (!mrt_sequence_split_spill(s, value, at)) return -1;
  for (int i = 0; i < 32; i++) {
    at = mrt_sequence_before(l, at);
    if (at == run) return -1;
    if (!mrt_sequence_split_spill(s, value, at)) return at;
  }
  return -1;
}

static bool may_drop(const mrt_schedule_solver *s, int value) {
  const mrt_sequence *l = &s->line;
  return l->p->bytes[value] > 0 && s->tabu[value] < s->round &&
         (!l->may || (l->may[value] & MRT_MAY_RECOMPUTE));
}

static void weigh_all(mrt_schedule_solver *s, int run, mrt_schedule_evict *c,
                      double limit) {
  weigh(s, c, c->next, limit);
  int at = earlier(s, c->value, c->next);
  if (at >= 0 && mrt_sequence_is_before(&s->line, run, at))
    weigh(s, c, at, limit);
  if (s->batch > 1) return;
  at = roomy(s, c->value, run, c->next);
  if (at >= 0) weigh(s, c, at, limit);
}

/* Add the gap that this access begins, if its value may be dropped; the most
 * promising one comes first: then most others need not be looked at closely. */
static void add_choice(mrt_schedule_solver *s, int access, double *least) {
  mrt_sequence *l = &s->line;
  const mrt_sequence_access *a = &l->access[access];
  if (!may_drop(s, a->value)) return;
  mrt_schedule_evict *list = s->choice, *c = &list[s->choices++];
  int next = l->access[a->after].run;
  *c = (mrt_schedule_evict){ a->value, l->maker[a->value], a->run, next, -1,
                             INFINITY };
  double score = l->p->cost[c->op] / relief(s, c, next);
  if (score >= *least) return;
  mrt_schedule_evict first = *c;
  *c = list[0];
  list[0] = first;
  *least = score;
}

/* The gaps across the run, and those of inputs whose place an output could
 * take if they ended here. */
static void list_choices(mrt_schedule_solver *s, int run) {
  mrt_sequence *l = &s->line;
  const mrt_problem *p = l->p;
  int across = mrt_sequence_across(l, run, s->across), op = l->run[run].op;
  double least = INFINITY;
  s->choices = 0;
  for (int i = 0; i < across; i++) add_choice(s, s->across[i], &least);
  if (!p->take_start || op == p->ops) return;
  for (int k = p->take_start[op]; k < p->take_start[op + 1]; k++) {
    int x = mrt_sequence_find(l, p->take[k].in, run);
    if (mrt_sequence_lives_on(l, x)) add_choice(s, x, &least);
  }
}

/* Choose in descending order of promise, and forget those far from the best.
 * Who waits for a refusal does not wait for the last of thousands. */
static int best_choices(mrt_schedule_solver *s, int run) {
  mrt_schedule_evict *list = s->choice;
  int good = 0;
  double best = INFINITY, slack = s->batch > 1 ? 3 : 1;
  list_choices(s, run);
  for (int i = 0; i < s->choices; i++) {
    if (s->hint.least && s->line.worked > s->work) break;
    mrt_schedule_evict c = list[i];
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

/* Find the gap again after others were dropped; false when it is gone. */
static bool renew(mrt_schedule_solver *s, int run, mrt_schedule_evict *c) {
  mrt_sequence *l = &s->line;
  int x = mrt_sequence_find(l, c->value, run);
  if (x < 0 || l->access[x].run == run || !mrt_sequence_lives_on(l, x))
    return false;
  int next = l->access[l->access[x].after].run;
  if (c->at == c->next || !l->run[c->at].there ||
      !mrt_sequence_is_before(l, c->at, next))
    c->at = next;
  c->from = l->access[x].run;
  c->next = next;
  return mrt_sequence_is_before(l, run, c->at);
}

/* Drop values that live past the run; false when none can be.  Of those chosen
 * the ones made last go first: what makes them again is then there. */
static bool relieve(mrt_schedule_solver *s, int run) {
  mrt_sequence *l = &s->line;
  int count = best_choices(s, run);
  if (count > s->batch) count = s->batch;
  if (count > 1) qsort(s->choice, (size_t)count, sizeof *s->choice, last_made);
  for (int i = 0; i < count && !l->failed && l->length <= s->most; i++) {
    mrt_schedule_evict *c = &s->choice[i];
    if (!l->run[run].there) break;
    if (i > 0 && mrt_sequence_bytes(l, run) <= s->budget) break;
    if (i > 0 && !renew(s, run, c)) continue;
    double limit = i > 0 ? 2 * c->score * relief(s, c, c->at) : INFINITY;
    if (mrt_sequence_split_cost(s, c->value, c->at, limit) >= limit && i > 0)
      continue;
    mrt_sequence_split_do(s, c->at);
    s->price += s->learn * (c->score - s->price);
  }
  return count > 0;
}

/* The worst of the first runs above the budget. */
static int worst_over(const mrt_schedule_solver *s) {
  int worst = s->over[0];
  for (int i = 1; i < s->overs && i < s->window; i++)
    if (mrt_sequence_bytes(&s->line, s->over[i]) >
        mrt_sequence_bytes(&s->line, worst))
      worst = s->over[i];
  return worst;
}

bool mrt_schedule_repair(mrt_schedule_solver *s, double limit) {
  mrt_sequence *l = &s->line;
  while (find_over(s) >= 0) {
    if (l->failed || l->worked > s->work || l->cost >= limit ||
        l->length > s->most || !relieve(s, worst_over(s)))
      return false;
  }
  return true;
}

/* What a byte costs that a run frees. */
static double worth(const mrt_sequence *l, int run) {
  const mrt_sequence_run *r = &l->run[run];
  double bytes = 1;
  for (int i = r->access; i < r->access + r->makes; i++)
    if (mrt_sequence_is_linked(l, &l->access[i]) && mrt_sequence_lives_on(l, i))
      bytes += (double)l->p->bytes[l->access[i].value];
  return l->p->cost[r->op] / bytes;
}

void mrt_schedule_clean(mrt_schedule_solver *s) {
  mrt_sequence *l = &s->line;
  int count = 0;
  for (int run = 0; l->run[run].op < l->p->ops; run = mrt_sequence_next(l, run))
    if (!l->run[run].first && count < l->p->values)
      s->choice[count++] =
          (mrt_schedule_evict){ .value = run, .score = -worth(l, run) };
  if (count) qsort(s->choice, (size_t)count, sizeof *s->choice, by_score);
  for (int i = 0; i < count && !l->failed; i++)
    if (l->run[s->choice[i].value].there)
      mrt_sequence_run_drop(s, s->choice[i].value, true);
}
