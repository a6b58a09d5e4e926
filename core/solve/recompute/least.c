/* least.c -- in how few bytes can a program run, whatever that costs?
 *
 *   method  From the program, or the runs that are given, the budget falls step
 *           by step below the peak of the line; a step that repairs do not
 *           reach is taken back and halved.  Where steps have become small, or
 *           the work is done, the line of the last one is the answer.
 *   cost    counted work, so that who is refused a budget need not wait
 *
 * SPDX-License-Identifier: MIT */
#include "solve/recompute/solver.h"

#include <limits.h>
#include <math.h>
#include <string.h>

static const double first_step = 0.15, last_step = 0.015;

enum { PARTS = 4 }; /* of the work, that one step may take */

/* The runs that are given, if they are any better than the program. */
static void begin(mrt_schedule_solver *s) {
  mrt_sequence *l = &s->line;
  int64_t program = mrt_sequence_peak(l);
  if (s->hint.count == 0 || s->hint.count > s->most) return;
  memcpy(s->best, s->hint.op, (size_t)s->hint.count * sizeof *s->hint.op);
  s->bests = s->hint.count;
  mrt_schedule_restore(s);
  if (mrt_sequence_peak(l) > program) mrt_schedule_clear(s);
}

/* One step down to `budget`, or none. */
static bool step(mrt_schedule_solver *s, int64_t budget, int64_t work) {
  mrt_sequence *l = &s->line;
  s->budget = budget;
  s->price = mrt_schedule_first_price(s);
  s->work = l->worked + work;
  s->round++;
  mrt_sequence_accept(l);
  bool good = mrt_schedule_repair(s, INFINITY);
  if (!good) mrt_sequence_undo(l, 0);
  mrt_sequence_accept(l);
  return good;
}

void mrt_schedule_descend(mrt_schedule_solver *s, int64_t set) {
  mrt_sequence *l = &s->line;
  double ops = l->p->ops, size = first_step;
  int64_t work = MRT_SCHEDULE_LEAST_WORK;
  begin(s);
  int64_t end = l->worked + work, at = mrt_sequence_peak(l);
  s->learn = 0.2;
  s->batch = (int)fmin(1000, 1 + 1e-10 * ops * ops * ops);
  s->window = INT_MAX;
  while (at > set && size >= last_step && l->worked < end && !l->failed) {
    int64_t wanted = (int64_t)((1 - size) * (double)at);
    if (step(s, wanted > set ? wanted : set, work / PARTS))
      at = mrt_sequence_peak(l);
    else
      size /= 2, s->window = s->window == 1 ? INT_MAX : 1;
  }
  s->budget = at;
  mrt_schedule_clean(s);
  mrt_sequence_accept(l);
  s->least = mrt_sequence_peak(l);
}
