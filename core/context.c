/* context.c -- where the parts of the core meet
 *
 * A context's life begins and ends here, and here alone the core names what
 * lies beside it: the CPU's kernels, the devices that are loaded, the
 * transports of ranks.  Everything below is handed what it needs, by pointers
 * in the context, so that the layers of core/ call downwards only
 * (spec/house/layers_spec.lua).
 *
 * SPDX-License-Identifier: MIT */
#include "base/rounding.h"
#include "op/op.h"
#include "run/run.h"
#include "tensor/trace.h"

#include <stdio.h>
#include <string.h>

/* Everything that it opened, in the reverse order. */
static void end(mrt_context *ctx) {
  mrt_swap_tier_close(ctx);
  mrt_comm_thread_close(ctx->ranks.comm_thread);
  mrt_communicators_close(ctx);
  mrt_spare_trim(ctx, 0);
  bool same = ctx->device.workers == ctx->cpu.workers;
  if (ctx->device.close && !same) ctx->device.close(&ctx->device);
  if (ctx->cpu.close) ctx->cpu.close(&ctx->cpu);
  mrt_communicators_leave(ctx);
  mrt_arena_free(&ctx->origins.names);
  mrt_pool_drop(&ctx->objects, ctx->allocator);
  mrt_release(ctx->allocator, ctx, sizeof *ctx);
}

/* Without a device yet; NULL: no memory. */
static mrt_context *make(const mrt_allocator *a) {
  mrt_context *ctx = mrt_calloc(a, 1, sizeof *ctx);
  if (!ctx) return NULL;
  ctx->allocator = a, ctx->refs = 1, ctx->end = end;
  ctx->ops = mrt_ops;
  ctx->next_id = 1, ctx->random.next = 1;
  mrt_origins_init(&ctx->origins, a);
  return ctx;
}

/* The device, and the CPU for what is computed while planning. */
static mrt_status open_devices(mrt_context *ctx, const mrt_context_options *o) {
  MRT_TRY(
      mrt_cpu_open(o->isa, o->threads, ctx->allocator, &ctx->cpu, &ctx->error));
  if (!o->device || strcmp(o->device, "cpu") == 0)
    return ctx->device = ctx->cpu, MRT_OK;
  return mrt_plugin_load(o->device, &ctx->cpu, &ctx->device, &ctx->error);
}

/* What plans are made for, however the host rounds. */
static void describe(mrt_context *ctx) {
  mrt_host_modes host;
  mrt_rounding_begin(&host);
  mrt_device_describe(&ctx->cpu, &ctx->cpu, &ctx->cpu_profile);
  mrt_device_describe(&ctx->device, &ctx->cpu, &ctx->profile);
  mrt_rounding_end(&host);
}

MRT_API mrt_status mrt_context_new(const mrt_context_options *options,
                                   mrt_context **out) {
  mrt_context_options o = options ? *options : (mrt_context_options){ 0 };
  const mrt_allocator *a = o.allocator ? o.allocator : &mrt_malloc_allocator;
  *out = NULL;
  mrt_context *ctx = make(a);
  if (!ctx) return MRT_ENOMEM;
  ctx->poison = o.poison, ctx->memory.limit = o.memory_limit;
  mrt_status s = open_devices(ctx, &o);
  if (s) {
    if (o.message && o.message_room)
      snprintf(o.message, o.message_room, "%s", ctx->error.message);
    return mrt_context_unref(ctx), s;
  }
  describe(ctx);
  if (o.ranks) mrt_communicators_share(ctx, o.ranks);
  *out = ctx;
  return MRT_OK;
}

/* What others still hold lives until they let it go. */
MRT_API void mrt_context_free(mrt_context *ctx) {
  if (!ctx) return;
  mrt_trace_abort(ctx);
  mrt_calls_drop(ctx, 0);
  mrt_context_unref(ctx);
}

/* ---- ranks --------------------------------------------------------------- */

/* Used, and closed, in several threads: malloc's memory. */
MRT_API mrt_status mrt_communicator_threads(mrt_context *ctx, int size,
                                            double timeout,
                                            mrt_communicator **out) {
  MRT_TRY(mrt_threads_new(&mrt_malloc_allocator, size, out, &ctx->error));
  for (int i = 0; i < size && timeout > 0; i++) out[i]->timeout = timeout;
  return MRT_OK;
}

MRT_API mrt_status mrt_mpi_library(mrt_context *ctx, const char **name) {
  return mrt_mpi_find(name, &ctx->error);
}

MRT_API mrt_status mrt_communicator_join(mrt_context *ctx,
                                         const mrt_rendezvous *meeting,
                                         int *number) {
  mrt_communicator *comm;
  mrt_context *owner = mrt_communicators_owner(ctx);
  mrt_status s = mrt_join(meeting, &owner->ranks.interrupted, owner->allocator,
                          &comm, &ctx->error);
  if (s == MRT_EINTERRUPT) mrt_interrupt_clear(ctx);
  return s ? s : mrt_communicator_add(ctx, comm, number);
}
