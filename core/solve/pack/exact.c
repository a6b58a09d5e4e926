/* exact.c -- the exact search: which heights, in which runs
 *
 *   method  Most problems that are solved are solved soon, if not led astray
 *           early: so there are many short runs, with ranks shaken, and a few
 *           long ones, of both searches in turn; for the bound, the capacity,
 *           and heights between the bound and the best known.
 *   cost    counted work up to a limit, about a second
 *   from    Luby, Sinclair and Zuckerman, 1993 (lengths of runs); the ladder
 *           of heights: omnimalloc's SuperMalloc
 *
 * SPDX-License-Identifier: MIT */
#include "solve/pack/exact.h"

/* Counted steps, about two nanoseconds each: more for a larger problem.  Where
 * they must be worth it: so many, and for each byte that the packing may come
 * down. */
enum { LARGE = 600 }; /* buffers */

static const int64_t short_run = 4000000, run_an_item = 8000,
                     work_a_pair = 3000, most_work = 64000000,
                     work_at_least = 4000000, work_a_byte = 10;

/* One search for a packing no higher than `cap`.  One run in four goes by
 * ascending offset, the first one when the problem is large. */
static mrt_pack_found search_under(mrt_pack_exact_search *s, int64_t cap) {
  mrt_packing *p = s->state.p;
  if (!mrt_pack_state_reset(&s->state, cap)) return MRT_PACK_NONE;
  bool rising =
      p->n > LARGE || s->descending ? s->runs % 2 == 0 : s->runs % 4 == 3;
  s->runs++;
  mrt_pack_found found = rising ? mrt_pack_bottom_up(s) : mrt_pack_skyline(s);
  if (found != MRT_PACK_FOUND) return found;
  int64_t height = 0;
  for (int i = 0; i < p->n; i++)
    if (p->buffers[i].offset + p->buffers[i].size > height)
      height = p->buffers[i].offset + p->buffers[i].size;
  mrt_pack_keep(p, height);
  return MRT_PACK_FOUND;
}

/* No packing is as low as `cap`. */
static void prove(mrt_packing *p, int64_t cap) {
  if (cap >= p->goal) p->goal = cap + 1;
  if (p->goal > p->enough) p->enough = p->goal;
}

/* 1 1 2 1 1 2 4 1 1 2 1 1 2 4 8 ... for k = 1, 2, ... */
static int luby(int k) {
  int width = 1;
  while (width < k) width = 2 * width + 1;
  while (width != k) {
    if (k > width / 2) k -= width / 2;
    width /= 2;
    while (width / 2 >= k) width /= 2;
  }
  return (width + 1) / 2;
}

/* Search under `cap` in runs of growing and changing length, until there is an
 * answer or `work` is used up. */
static mrt_status run(mrt_pack_exact_search *s, int64_t cap, int64_t work) {
  mrt_packing *p = s->state.p;
  if (work > s->left) work = s->left;
  s->left -= work;
  mrt_pack_found found = MRT_PACK_STOPPED;
  for (int k = 1; found == MRT_PACK_STOPPED && work > 0; k++) {
    int64_t length = s->unit * luby(k);
    if (length > work) length = work;
    s->state.work = length;
    found = search_under(s, cap);
    if (s->state.out_of_memory) return MRT_ENOMEM;
    work -= length - s->state.work;
    if (s->state.work == length) work--; /* it never ends otherwise */
  }
  s->left += work;
  if (found == MRT_PACK_NONE) prove(p, cap);
  return MRT_OK;
}

/* Between the goal and what is known, by halves: a height that was not reached
 * is taken as too low. */
static mrt_status descend(mrt_pack_exact_search *s, int64_t work) {
  mrt_packing *p = s->state.p;
  int64_t failed = p->goal - 1;
  s->descending = true;
  while (s->left > 0 && p->height > p->enough) {
    int64_t cap = failed + (p->height - failed) / 2;
    if (cap == failed) break;
    MRT_TRY(run(s, cap, work));
    if (p->height > cap) failed = cap;
    if (p->goal - 1 > failed) failed = p->goal - 1;
    if (p->height - failed <= p->height / 2048) break;
  }
  mrt_status status = MRT_OK;
  if (p->height > p->enough) /* or the proof that none is */
    status = run(s, p->height - 1, work);
  s->descending = false;
  return status;
}

static mrt_status search_all(mrt_pack_exact_search *s) {
  mrt_packing *p = s->state.p;
  MRT_TRY(run(s, p->goal, s->left / 64));
  if (p->height > p->enough && p->enough > p->goal)
    MRT_TRY(run(s, p->enough, s->left / 2));
  if (p->height > p->enough) MRT_TRY(descend(s, s->left / 128));
  if (p->height > p->enough)
    MRT_TRY(run(s, p->goal, s->left * (p->limited ? 7 : 4) / 8));
  for (int share = 16; s->left > 0 && p->height > p->enough; share /= 2)
    MRT_TRY(descend(s, s->left / (share > 1 ? share : 1)));
  return MRT_OK;
}

mrt_status mrt_pack_exact(mrt_packing *p) {
  int64_t work = work_a_pair * p->n * p->n;
  if (work > most_work) work = most_work;
  int64_t worth = work_at_least + (p->height - p->goal) * work_a_byte;
  work *= p->effort > 0 ? p->effort : MRT_PACK_EFFORT;
  if (p->effort < 0 && work > worth) work = worth;
  mrt_pack_exact_search s = { .pool_room = 64 * p->n, .left = work };
  s.unit = run_an_item * p->n > short_run ? run_an_item * p->n : short_run;
  MRT_TRY(mrt_pack_state_new(p, &s.state));
  s.rank = MRT_NEW(p->arena, double, p->n);
  s.failed = MRT_NEW(p->arena, uint64_t, MRT_PACK_REMEMBERED);
  s.pool = MRT_NEW(p->arena, int, s.pool_room);
  s.order = MRT_NEW(p->arena, mrt_pack_order, p->n);
  s.covers = MRT_NEW(p->arena, int, p->sections + 1);
  if (!s.rank || !s.failed || !s.pool || !s.order || !s.covers)
    return MRT_ENOMEM;
  return search_all(&s);
}
