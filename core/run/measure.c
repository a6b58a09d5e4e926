/* measure.c -- running a plan with a clock, or somebody who looks, at every node
 *
 * What the plan updates is copied before and put back after, so measuring is
 * no step of the training.  Ranks take the times of their rank 0.
 *
 * SPDX-License-Identifier: MIT */
#include "run/run.h"
#include "tensor/swap_tier.h"

#include <stdlib.h>
#include <string.h>

typedef struct measuring {
  const mrt_plan *plan;
  const mrt_part *part;
  mrt_arena arena;
  int rounds;
  double (*clock)(void);
  double *times;       /* [rounds][steps + 1]: the last is the whole run's */
  mrt_storage **saved; /* of plan->written */
} measuring;

static mrt_status save(measuring *m) {
  const mrt_plan *plan = m->plan;
  for (int i = 0; i < plan->written_count; i++)
    MRT_TRY(mrt_storage_copy(plan->written[i]->storage, &m->saved[i]));
  return MRT_OK;
}

static void restore(const measuring *m) {
  for (int i = 0; i < m->plan->written_count; i++) {
    mrt_tensor *t = m->plan->written[i];
    if (!m->saved[i]) break;
    mrt_tensor_resolve(t, m->saved[i]);
    m->plan->ctx->memory.moves++;
    t->variable->writes += 2;  /* no step was made */
    t->variable->torn = false; /* nothing is left of what broke off */
    mrt_storage_unref(m->saved[i]);
  }
}

/* What looking at the clock twice takes: it is in every time. */
static double own_cost(double (*clock)(void)) {
  double least = 1;
  for (int i = 0; i < 32; i++) {
    double began = clock(), cost = clock() - began;
    if (cost < least) least = cost;
  }
  return least;
}

static mrt_status run_rounds(measuring *m, mrt_tensor *const *in) {
  const mrt_plan *plan = m->plan;
  mrt_runner *r = plan->runner;
  uint64_t runs = r->runs;
  mrt_status s = MRT_OK;
  for (int i = -1; i < m->rounds && !s; i++) { /* the first warms up */
    double *row =
        m->times + (size_t)(i < 0 ? 0 : i) * (size_t)(plan->step_count + 1);
    double began = m->clock();
    r->times = row, r->clock = m->clock;
    s = mrt_plan_walk(plan, m->part, in);
    row[plan->step_count] = m->clock() - began;
  }
  r->times = NULL, r->runs = runs;
  return s;
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void medians(const measuring *m, double *column, double *seconds,
                    double *total) {
  int n = m->plan->step_count;
  double own = own_cost(m->clock);
  for (int i = 0; i <= n; i++) {
    for (int r = 0; r < m->rounds; r++)
      column[r] = m->times[(size_t)r * (size_t)(n + 1) + (size_t)i];
    qsort(column, (size_t)m->rounds, sizeof *column, by_size);
    double looks = i < n ? own : 2 * n * own, time = column[m->rounds / 2];
    *(i < n ? &seconds[i] : total) = time > looks ? time - looks : 0;
  }
}

static mrt_status measure(measuring *m, mrt_tensor *const *in, double *seconds,
                          double *total) {
  const mrt_plan *plan = m->plan;
  size_t row = (size_t)plan->step_count + 1;
  double *column = MRT_NEW(&m->arena, double, m->rounds);
  m->times =
      mrt_arena_alloc(&m->arena, (size_t)m->rounds * row, sizeof(double));
  m->saved = MRT_NEW(&m->arena, mrt_storage *, plan->written_count);
  if (!column || !m->times || !m->saved) return mrt_nomem(&plan->ctx->error);
  MRT_TRY(mrt_plan_evict(plan));
  MRT_TRY(mrt_plan_begin_variables(plan));
  mrt_status s = save(m);
  if (!s) s = run_rounds(m, in);
  restore(m);
  if (s) return s;
  medians(m, column, seconds, total);
  return mrt_plan_share_times(plan, seconds, total);
}

static mrt_status watch(measuring *m, mrt_tensor *const *in,
                        mrt_range *ranges) {
  const mrt_plan *plan = m->plan;
  mrt_runner *r = plan->runner;
  m->saved = MRT_NEW(&m->arena, mrt_storage *, plan->written_count);
  m->times = MRT_NEW(&m->arena, double, plan->step_count + 1);
  if (!m->saved || !m->times) return mrt_nomem(&plan->ctx->error);
  MRT_TRY(mrt_plan_evict(plan));
  MRT_TRY(mrt_plan_begin_variables(plan));
  uint64_t runs = r->runs;
  mrt_status s = save(m);
  r->ranges = ranges;
  r->times = m->times, r->clock = m->clock; /* it is no step */
  if (!s) s = mrt_plan_walk(plan, NULL, in);
  r->ranges = NULL, r->times = NULL, r->runs = runs;
  restore(m);
  return s;
}

MRT_API mrt_status mrt_plan_watch(mrt_plan *plan, mrt_tensor *const *in,
                                  int nin, mrt_range *ranges) {
  measuring m = { .plan = plan, .clock = plan->ctx->device.clock };
  MRT_TRY(mrt_plan_check_part(plan, NULL));
  MRT_TRY(mrt_plan_check_inputs(plan, NULL, in, nin, plan->info.outputs_count));
  mrt_arena_init(&m.arena, plan->ctx->allocator);
  mrt_status s = watch(&m, in, ranges);
  mrt_arena_free(&m.arena);
  return s;
}

MRT_API mrt_status mrt_plan_measure(mrt_plan *plan, const mrt_part *part,
                                    mrt_tensor *const *in, int nin, int rounds,
                                    double (*clock)(void), double *seconds,
                                    double *total) {
  measuring m = {
    .plan = plan, .part = part, .rounds = rounds, .clock = clock
  };
  if (!clock) m.clock = plan->ctx->device.clock;
  if (rounds < 1 || rounds > 1000)
    return mrt_fail(&plan->ctx->error, MRT_EVALUE,
                    "profile: %d rounds, 1 to 1000 wanted", rounds);
  MRT_TRY(mrt_plan_check_part(plan, part));
  MRT_TRY(mrt_plan_check_inputs(plan, part, in, nin, plan->info.outputs_count));
  mrt_arena_init(&m.arena, plan->ctx->allocator);
  mrt_status s = measure(&m, in, seconds, total);
  mrt_arena_free(&m.arena);
  return s;
}
