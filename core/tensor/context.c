/* context.c -- what users set and ask of a context
 *
 * SPDX-License-Identifier: MIT */
#include "tensor/context.h"
#include "mrt/frontend.h"

void mrt_context_ref(mrt_context *ctx) { ctx->refs++; }

void mrt_context_unref(mrt_context *ctx) {
  if (--ctx->refs == 0) ctx->end(ctx);
}

MRT_API const char *mrt_message(const mrt_context *ctx) {
  return ctx->error.message;
}

MRT_API size_t mrt_budget_needed(const mrt_context *ctx) {
  return ctx->error.needed;
}

MRT_API void mrt_context_set_poison(mrt_context *ctx, bool poison) {
  ctx->poison = poison;
}

MRT_API void mrt_context_set_budget(mrt_context *ctx, size_t bytes) {
  ctx->memory.budget = bytes;
}

MRT_API const mrt_device_profile *
mrt_context_get_device(const mrt_context *ctx) {
  return &ctx->profile;
}

MRT_API mrt_status mrt_context_set_device(mrt_context *ctx,
                                          const mrt_device_profile *device) {
  mrt_device_profile own;
  mrt_device_describe(&ctx->device, &ctx->cpu, &own);
  if (device) MRT_TRY(mrt_device_check(device, &ctx->error));
  ctx->profile = device ? *device : own;
  if (ctx->profile.align < own.align) ctx->profile.align = own.align;
  ctx->device.align = ctx->profile.align;
  return MRT_OK;
}

MRT_API size_t mrt_context_available(const mrt_context *ctx) {
  const mrt_device *d = &ctx->device;
  if (ctx->memory.available) return ctx->memory.available;
  return d->available ? d->available(d) : 0;
}

MRT_API size_t mrt_context_overhead(const mrt_context *ctx) {
  size_t taken = ctx->device.taken ? ctx->device.taken(&ctx->device) : 0;
  return taken > ctx->memory.now ? taken - ctx->memory.now : 0;
}

MRT_API void mrt_context_set_available(mrt_context *ctx, size_t bytes) {
  ctx->memory.available = bytes;
}

MRT_API void mrt_seed(mrt_context *ctx, uint64_t seed) {
  mrt_random_set(ctx, seed, 1);
}

MRT_API mrt_random mrt_random_get(const mrt_context *ctx) {
  return (mrt_random){ ctx->random.seed, ctx->random.next, ctx->random.begun };
}

MRT_API void mrt_random_set(mrt_context *ctx, uint64_t seed, uint64_t next) {
  ctx->random.seed = seed, ctx->random.next = next ? next : 1,
  ctx->random.begun++;
}

MRT_API mrt_context_info mrt_context_get_info(const mrt_context *ctx) {
  return (mrt_context_info){
    .device = ctx->device.name,
    .isa = ctx->device.isa,
    .threads = ctx->device.threads,
    .libraries = ctx->device.libraries,
    .bytes_now = ctx->memory.now,
    .bytes_peak = ctx->memory.peak,
    .alignment = ctx->device.align,
    .bytes_swapped = mrt_swap_tier_bytes(ctx),
    .steps = ctx->steps,
    .plans = ctx->plans,
    .objects = ctx->next_id,
    .bytes_host = ctx->memory.host,
    .bytes_spare = ctx->spare.bytes,
    .devices = ctx->device.count,
    .queues = ctx->device.queue != NULL,
    .unrecorded = ctx->unrecorded,
  };
}

MRT_API void mrt_context_reset_peak(mrt_context *ctx) {
  ctx->memory.peak = ctx->memory.now;
}

/* ---- where in the program ------------------------------------------------ */

MRT_API void mrt_set_origin(mrt_context *ctx, const char *file, int line,
                            const char *module) {
  mrt_origins_at(&ctx->origins, file, line, module);
}

MRT_API bool mrt_layer_begin(mrt_context *ctx) {
  if (ctx->origins.now.layer) return false;
  ctx->origins.now.layer = ++ctx->origins.layers;
  return true;
}

MRT_API void mrt_layer_end(mrt_context *ctx) { ctx->origins.now.layer = 0; }

MRT_API int mrt_region_begin(mrt_context *ctx) {
  return mrt_region_open(&ctx->origins);
}

MRT_API void mrt_region_end(mrt_context *ctx, int outer) {
  ctx->origins.now.region = outer;
}
