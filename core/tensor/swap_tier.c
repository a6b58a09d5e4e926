/* swap_tier.c -- locations in the swap tier, storages that go there
 *
 * SPDX-License-Identifier: MIT */
#include "tensor/swap_tier.h"
#include "mrt/frontend.h"
#include "tensor/context.h"

#include <stdlib.h>
#include <string.h>

/* ---- locations ----------------------------------------------------------- */

static size_t end_of(const mrt_context *ctx) {
  size_t end = 0;
  for (const mrt_swap_location *e = ctx->swap.locations; e; e = e->next)
    end = e->offset + e->nbytes;
  return end;
}

static const char *usual_folder(void) {
  const char *folder = getenv("TMPDIR");
  return folder && *folder ? folder : "/tmp";
}

mrt_status mrt_swap_tier_reserve(mrt_context *ctx, size_t nbytes) {
  if (!ctx->swap.tier)
    MRT_TRY(mrt_device_open_tier(&ctx->device, usual_folder(), ctx->allocator,
                                 &ctx->swap.tier, &ctx->error));
  size_t wanted = end_of(ctx) + mrt_swap_tier_round(nbytes);
  if (wanted < ctx->swap.bytes) wanted = ctx->swap.bytes;
  MRT_TRY(ctx->swap.tier->resize(ctx->swap.tier, wanted, &ctx->error));
  ctx->swap.bytes = wanted;
  return MRT_OK;
}

/* The first gap that is large enough, or the end. */
mrt_status mrt_swap_location_new(mrt_context *ctx, size_t nbytes,
                                 mrt_swap_location **out) {
  nbytes = mrt_swap_tier_round(nbytes);
  mrt_swap_location **at = &ctx->swap.locations;
  size_t offset = 0;
  while (*at && (*at)->offset - offset < nbytes) {
    offset = (*at)->offset + (*at)->nbytes;
    at = &(*at)->next;
  }
  if (!*at && offset + nbytes > ctx->swap.bytes)
    MRT_TRY(mrt_swap_tier_reserve(ctx, nbytes));
  mrt_swap_location *e = mrt_calloc(ctx->allocator, 1, sizeof *e);
  if (!e) return mrt_nomem(&ctx->error);
  *e = (mrt_swap_location){ *at, offset, nbytes };
  *out = *at = e;
  return MRT_OK;
}

void mrt_swap_location_free(mrt_context *ctx, mrt_swap_location *e) {
  if (!e) return;
  mrt_swap_location **at = &ctx->swap.locations;
  while (*at != e) at = &(*at)->next;
  *at = e->next;
  if (!e->next) {
    mrt_error ignored;
    size_t end = end_of(ctx);
    if (!ctx->swap.tier->resize(ctx->swap.tier, end, &ignored))
      ctx->swap.bytes = end;
  }
  mrt_release(ctx->allocator, e, sizeof *e);
}

void mrt_swap_tier_close(mrt_context *ctx) {
  if (ctx->swap.tier) ctx->swap.tier->close(ctx->swap.tier);
}

MRT_API mrt_status mrt_context_set_swap_folder(mrt_context *ctx,
                                               const char *path) {
  mrt_tier *tier;
  if (ctx->swap.tier && ctx->swap.bytes)
    return mrt_fail(&ctx->error, MRT_ESTATE,
                    "the swap file has %zu bytes already: choose its folder "
                    "before the first step that swaps",
                    ctx->swap.bytes);
  MRT_TRY(mrt_device_open_tier(&ctx->device, path, ctx->allocator, &tier,
                               &ctx->error));
  mrt_swap_tier_close(ctx);
  ctx->swap.tier = tier;
  return MRT_OK;
}

/* ---- storages ------------------------------------------------------------ */

static mrt_status copy(mrt_storage *s, mrt_tier_lane lane) {
  mrt_context *ctx = s->ctx;
  mrt_tier *tier = ctx->swap.tier;
  uint64_t number =
      tier->start(tier, lane, s->data, s->location->offset, s->nbytes);
  int code = tier->wait(tier, lane, number);
  tier->drain(tier);
  if (!code) return MRT_OK;
  return mrt_fail(&ctx->error, MRT_EDEVICE, "swap file: %zu bytes %s: %s",
                  s->nbytes,
                  lane == MRT_TIER_OUT ? "cannot be written" : "cannot be read",
                  strerror(code));
}

static void drop_memory(mrt_storage *s) {
  mrt_device_free(s->ctx, s->data, s->nbytes);
  s->data = NULL, s->fence = 0;
  s->ctx->memory.moves++;
}

mrt_status mrt_storage_evict(mrt_storage *s) {
  if (!s->data) return MRT_OK;
  if (!s->location) {
    MRT_TRY(mrt_swap_location_new(s->ctx, s->nbytes, &s->location));
    mrt_status status = copy(s, MRT_TIER_OUT);
    if (status) {
      mrt_swap_location_free(s->ctx, s->location);
      s->location = NULL;
      return status;
    }
  }
  drop_memory(s);
  return MRT_OK;
}

mrt_status mrt_storage_fetch(mrt_storage *s) {
  if (s->data) return MRT_OK;
  mrt_context *ctx = s->ctx;
  size_t rounded;
  MRT_TRY(mrt_swap_tier_reserve(ctx, 0)); /* is the tier ours? */
  s->data = mrt_device_alloc(ctx, s->nbytes, &rounded);
  if (!s->data)
    return mrt_fail(&ctx->error, MRT_ENOMEM,
                    "out of memory: %zu bytes wanted to look at what is "
                    "swapped, %zu in use",
                    s->nbytes, ctx->memory.now);
  ctx->memory.moves++;
  mrt_status status = copy(s, MRT_TIER_IN);
  if (status) drop_memory(s);
  return status;
}

mrt_status mrt_storage_make_resident(mrt_storage *s) {
  MRT_TRY(mrt_storage_fetch(s));
  mrt_swap_location_free(s->ctx, s->location);
  s->location = NULL;
  return MRT_OK;
}

void mrt_storage_drop_copy(mrt_storage *s) {
  if (s->location && s->data) drop_memory(s);
  mrt_storage_drop_host(s);
}

mrt_status mrt_storage_copy(mrt_storage *s, mrt_storage **out) {
  bool swapped = !s->data;
  mrt_storage *to = NULL;
  MRT_TRY(mrt_storage_fetch(s));
  mrt_status status = mrt_storage_new(s->ctx, s->nbytes, &to);
  if (!status)
    status = mrt_device_copy(&s->ctx->device, to->data, s->data, s->nbytes,
                             &s->ctx->error);
  if (swapped) mrt_storage_drop_copy(s);
  if (!status && swapped) status = mrt_storage_evict(to);
  if (status)
    mrt_storage_unref(to);
  else
    *out = to;
  return status;
}
