/* solve.c -- the solvers for programs of their own
 *
 * Packing, ordering and recomputing on plain arrays: what the planner uses, with
 * a context for memory and messages.  Each is a pure function of its arguments.
 *
 * SPDX-License-Identifier: MIT */
#include "mrt/solve.h"

#include "base/rounding.h"
#include "solve/order/order.h"
#include "solve/pack/pack.h"
#include "solve/recompute/solver.h"
#include "tensor/tensor.h"

#include <string.h>

mrt_status mrt_pack(mrt_context *ctx, mrt_pack_buffer *buffers, int n,
                    size_t capacity, mrt_pack_result *result) {
  mrt_arena arena;
  mrt_arena_init(&arena, ctx->allocator);
  mrt_status s = mrt_pack_in(&arena, &ctx->error, buffers, n, capacity,
                             MRT_PACK_EFFORT, result);
  mrt_arena_free(&arena);
  return s;
}

static mrt_status find_order(mrt_context *ctx, mrt_arena *arena,
                             const mrt_problem *p, int effort, int *order,
                             mrt_order_result *r) {
  mrt_dag dag;
  mrt_live_profile profile;
  int64_t working;
  MRT_TRY(mrt_schedule_check(arena, &ctx->error, p));
  MRT_TRY(mrt_order_dag(&dag, arena, p));
  int *best = MRT_NEW(arena, int, dag.nodes);
  if (!best) return MRT_ENOMEM;
  MRT_TRY(mrt_live_profile_make(&profile, &dag, arena));
  MRT_TRY(mrt_order_program(&dag, arena, best));
  for (int b = 0; b < dag.buffers; b++) profile.last[b] = -1;
  r->program = mrt_live_profile_sweep(&profile, 0, dag.nodes - 1, best, false);
  MRT_TRY(mrt_dag_bounds(&dag, ctx->allocator, best, &working, &r->bound));
  MRT_TRY(mrt_order_choose(&dag, ctx->allocator, r->bound,
                           effort < 1 ? 1 : effort, best, &r->peak));
  memcpy(order, best, (size_t)p->ops * sizeof *order); /* the end is last */
  return MRT_OK;
}

mrt_status mrt_order_find(mrt_context *ctx, const mrt_problem *p, int effort,
                          int *order, mrt_order_result *result) {
  mrt_arena arena;
  mrt_arena_init(&arena, ctx->allocator);
  mrt_status s = find_order(ctx, &arena, p, effort, order, result);
  mrt_arena_free(&arena);
  return s == MRT_ENOMEM ? mrt_nomem(&ctx->error) : s;
}

mrt_status mrt_schedule_find(mrt_context *ctx, const mrt_problem *p,
                             const uint8_t *may, int64_t budget,
                             mrt_schedule *schedule) {
  mrt_arena arena;
  mrt_arena_init(&arena, ctx->allocator);
  mrt_solve_hint hint = { .raise = true };
  mrt_host_modes host;
  mrt_rounding_begin(&host);
  mrt_status status =
      mrt_schedule_solve(&arena, &ctx->error, p, may, budget, hint, schedule);
  mrt_rounding_end(&host);
  mrt_act *acts = NULL;
  size_t count = (size_t)schedule->count;
  if (!status && count) {
    acts = mrt_calloc(ctx->allocator, count, sizeof *acts);
    if (acts)
      memcpy(acts, schedule->act, count * sizeof *acts);
    else
      status = mrt_nomem(&ctx->error);
  }
  if (!acts) schedule->count = 0;
  schedule->act = acts;
  mrt_arena_free(&arena);
  return status;
}

void mrt_schedule_free(mrt_context *ctx, mrt_schedule *schedule) {
  size_t bytes = (size_t)schedule->count * sizeof *schedule->act;
  if (schedule->act) mrt_release(ctx->allocator, schedule->act, bytes);
  *schedule = (mrt_schedule){ 0 };
}
