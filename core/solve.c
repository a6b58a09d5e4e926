/* solve.c -- the solvers for programs of their own
 *
 * Packing, ordering and recomputing on plain arrays: what the planner uses, with
 * a context for memory and messages.  Each is a pure function of its arguments.
 *
 * SPDX-License-Identifier: MIT */
#include "solve/order/order.h"
#include "solve/pack/pack.h"
#include "solve/recompute/schedule.h"
#include "mrt/solve.h"
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

mrt_status mrt_schedule_find(mrt_context *ctx, const mrt_problem *p,
                             const uint8_t *may, int64_t budget,
                             mrt_schedule *schedule) {
  mrt_arena arena;
  mrt_arena_init(&arena, ctx->allocator);
  mrt_solve_hint hint = { .raise = true };
  mrt_status status =
      mrt_schedule_solve(&arena, &ctx->error, p, may, budget, hint, schedule);
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
