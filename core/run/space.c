/* space.c -- the arena that plans use in turn
 *
 * SPDX-License-Identifier: MIT */
#include "run/space.h"
#include "mrt/frontend.h"
#include "tensor/swap_tier.h"

MRT_API mrt_status mrt_space_new(mrt_context *ctx, mrt_space **out) {
  mrt_space *s = mrt_calloc(ctx->allocator, 1, sizeof *s);
  if (!s) return mrt_nomem(&ctx->error);
  s->ctx = ctx, s->refs = 1, s->generation = 1;
  mrt_context_ref(ctx);
  *out = s;
  return MRT_OK;
}

mrt_status mrt_space_brief(mrt_context *ctx, mrt_space **out) {
  MRT_TRY(mrt_space_new(ctx, out));
  (*out)->brief = true;
  return MRT_OK;
}

MRT_API size_t mrt_space_bytes(const mrt_space *s) { return s->bytes; }

static void free_arena(mrt_space *s) {
  if (!s->data) return;
  mrt_device_free(s->ctx, s->data, s->bytes);
  if (!s->brief) mrt_spare_arenas(s->ctx, -1);
  s->data = NULL, s->bytes = 0;
}

static void free_host(mrt_space *s) {
  mrt_context *ctx = s->ctx;
  if (s->host) ctx->cpu.free(&ctx->cpu, s->host, s->host_bytes);
  ctx->memory.host -= s->host_bytes;
  s->host = NULL, s->host_bytes = 0;
}

MRT_API void mrt_space_free(mrt_space *s) {
  if (!s || --s->refs > 0) return;
  mrt_context *ctx = s->ctx;
  free_arena(s);
  free_host(s);
  for (int i = 0; i < MRT_TIER_SLOTS; i++)
    mrt_swap_location_free(ctx, s->swap[i]);
  mrt_release(ctx->allocator, s, sizeof *s);
  mrt_context_unref(ctx);
}

MRT_API void mrt_space_empty(mrt_space *s) {
  free_arena(s);
  free_host(s);
  s->generation++;
  mrt_spare_trim(s->ctx, 0);
}

mrt_status mrt_space_reserve(mrt_space *s, size_t bytes) {
  if (s->data && s->bytes >= bytes) return MRT_OK;
  if (!bytes) return MRT_OK;
  free_arena(s);
  s->generation++;
  if (!s->brief) mrt_spare_arenas(s->ctx, 1);
  s->data = s->brief ? mrt_device_alloc(s->ctx, bytes, &s->bytes)
                     : mrt_device_reserve(s->ctx, bytes, &s->bytes);
  if (s->data) return MRT_OK;
  if (!s->brief) mrt_spare_arenas(s->ctx, -1);
  s->bytes = 0;
  return mrt_fail(&s->ctx->error, MRT_ENOMEM,
                  "out of memory: the plan's arena takes %zu bytes", bytes);
}

mrt_status mrt_space_reserve_host(mrt_space *s, size_t bytes) {
  const mrt_device *cpu = &s->ctx->cpu;
  if (s->host_bytes >= bytes) return MRT_OK;
  free_host(s);
  s->host = cpu->alloc(cpu, bytes);
  if (!s->host)
    return mrt_fail(&s->ctx->error, MRT_ENOMEM,
                    "out of memory: what %s has no kernels for takes %zu bytes "
                    "of the host",
                    s->ctx->device.name, bytes);
  s->host_bytes = bytes, s->ctx->memory.host += bytes;
  return MRT_OK;
}

mrt_status mrt_space_reserve_swap(mrt_space *s, int slot, size_t bytes) {
  mrt_swap_location **own = &s->swap[slot];
  if (!bytes || (*own && (*own)->nbytes >= bytes)) return MRT_OK;
  mrt_swap_location_free(s->ctx, *own);
  *own = NULL;
  s->generation++;
  return mrt_swap_location_new(s->ctx, slot, bytes, own);
}
