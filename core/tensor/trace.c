/* trace.c -- what must be computed whoever reads it: results of collectives
 *
 * SPDX-License-Identifier: MIT */
#include "tensor/trace.h"
#include "base/list.h"

static mrt_status note_in_trace(mrt_context *ctx, mrt_tensor *t) {
  mrt_arena *arena = &ctx->trace->arena;
  mrt_section *now = &ctx->trace->now;
  if (!MRT_PUSH_ROOM(arena, now->updates, now->update_count,
                     now->update_room) ||
      !MRT_PUSH_ROOM(arena, now->results, now->update_count, now->result_room))
    return mrt_nomem(&ctx->error);
  mrt_hold(t);
  now->updates[now->update_count] = t->expr;
  now->results[now->update_count++] = t;
  return MRT_OK;
}

mrt_status mrt_call_note(mrt_context *ctx, mrt_tensor *t) {
  if (ctx->trace) return note_in_trace(ctx, t);
  if (!MRT_LIST_ROOM(ctx->allocator, ctx->ranks.pending,
                     ctx->ranks.pending_count, ctx->ranks.pending_room))
    return mrt_nomem(&ctx->error);
  mrt_hold(t);
  ctx->ranks.pending[ctx->ranks.pending_count++] = t;
  return MRT_OK;
}

void mrt_calls_drop(mrt_context *ctx, int count) {
  while (ctx->ranks.pending_count > count)
    mrt_drop(ctx->ranks.pending[--ctx->ranks.pending_count]);
  if (ctx->ranks.pending_count) return;
  mrt_release(ctx->allocator, ctx->ranks.pending,
              (size_t)ctx->ranks.pending_room * sizeof *ctx->ranks.pending);
  ctx->ranks.pending = NULL, ctx->ranks.pending_room = 0;
}
