/* slow.c -- homes in the slow tier; storages that go there and come back
 *
 * SPDX-License-Identifier: MIT */
#include "tensor/slow.h"

#include <stdlib.h>
#include <string.h>

/* ---- homes --------------------------------------------------------------- */

static size_t end_of(const mrt_context *ctx) {
  size_t end = 0;
  for (const mrt_home *e = ctx->homes; e; e = e->next)
    end = e->offset + e->nbytes;
  return end;
}

static const char *usual_folder(void) {
  const char *folder = getenv("TMPDIR");
  return folder && *folder ? folder : "/tmp";
}

mrt_status mrt_slow_reserve(mrt_context *ctx, size_t nbytes) {
  if (!ctx->tier)
    MRT_TRY(mrt_device_open_tier(&ctx->device, usual_folder(), ctx->allocator,
                                 &ctx->tier, &ctx->error));
  size_t wanted = end_of(ctx) + mrt_slow_round(nbytes);
  if (wanted < ctx->slow_bytes) wanted = ctx->slow_bytes;
  MRT_TRY(ctx->tier->resize(ctx->tier, wanted, &ctx->error));
  ctx->slow_bytes = wanted;
  return MRT_OK;
}

/* The first gap that is large enough, or the end. */
mrt_status mrt_home_new(mrt_context *ctx, size_t nbytes, mrt_home **out) {
  nbytes = mrt_slow_round(nbytes);
  mrt_home **at = &ctx->homes;
  size_t offset = 0;
  while (*at && (*at)->offset - offset < nbytes) {
    offset = (*at)->offset + (*at)->nbytes;
    at = &(*at)->next;
  }
  if (!*at && offset + nbytes > ctx->slow_bytes)
    MRT_TRY(mrt_slow_reserve(ctx, nbytes));
  mrt_home *e = mrt_calloc(ctx->allocator, 1, sizeof *e);
  if (!e) return mrt_nomem(&ctx->error);
  *e = (mrt_home){ *at, offset, nbytes };
  *out = *at = e;
  return MRT_OK;
}

void mrt_home_free(mrt_context *ctx, mrt_home *e) {
  if (!e) return;
  mrt_home **at = &ctx->homes;
  while (*at != e) at = &(*at)->next;
  *at = e->next;
  if (!e->next) {
    mrt_error ignored;
    size_t end = end_of(ctx);
    if (!ctx->tier->resize(ctx->tier, end, &ignored)) ctx->slow_bytes = end;
  }
  mrt_release(ctx->allocator, e, sizeof *e);
}

void mrt_slow_close(mrt_context *ctx) {
  if (ctx->tier) ctx->tier->close(ctx->tier);
}

MRT_API mrt_status mrt_context_set_swap_folder(mrt_context *ctx,
                                               const char *path) {
  mrt_tier *tier;
  if (ctx->tier && ctx->slow_bytes)
    return mrt_fail(&ctx->error, MRT_ESTATE,
                    "the swap file has %zu bytes already: choose its folder "
                    "before the first step that swaps",
                    ctx->slow_bytes);
  MRT_TRY(mrt_device_open_tier(&ctx->device, path, ctx->allocator, &tier,
                               &ctx->error));
  mrt_slow_close(ctx);
  ctx->tier = tier;
  return MRT_OK;
}

/* ---- storages ------------------------------------------------------------ */

static mrt_status copy(mrt_storage *s, mrt_tier_lane lane) {
  mrt_context *ctx = s->ctx;
  mrt_tier *tier = ctx->tier;
  uint64_t number =
      tier->start(tier, lane, s->data, s->home->offset, s->nbytes);
  int code = tier->wait(tier, lane, number);
  tier->drain(tier);
  if (!code) return MRT_OK;
  return mrt_fail(&ctx->error, MRT_EDEVICE, "swap file: %zu bytes %s: %s",
                  s->nbytes,
                  lane == MRT_LANE_OUT ? "cannot be written" : "cannot be read",
                  strerror(code));
}

static void drop_memory(mrt_storage *s) {
  mrt_device_free(s->ctx, s->data, s->nbytes);
  s->data = NULL, s->mark = 0;
  s->ctx->moves++;
}

mrt_status mrt_storage_stow(mrt_storage *s) {
  if (!s->data) return MRT_OK;
  if (!s->home) {
    MRT_TRY(mrt_home_new(s->ctx, s->nbytes, &s->home));
    mrt_status status = copy(s, MRT_LANE_OUT);
    if (status) {
      mrt_home_free(s->ctx, s->home);
      s->home = NULL;
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
  MRT_TRY(mrt_slow_reserve(ctx, 0)); /* is the tier ours? */
  s->data = mrt_device_alloc(ctx, s->nbytes, &rounded);
  if (!s->data)
    return mrt_fail(&ctx->error, MRT_ENOMEM,
                    "out of memory: %zu bytes wanted to look at what is "
                    "swapped, %zu in use",
                    s->nbytes, ctx->bytes_now);
  ctx->moves++;
  mrt_status status = copy(s, MRT_LANE_IN);
  if (status) drop_memory(s);
  return status;
}

mrt_status mrt_storage_move_in(mrt_storage *s) {
  MRT_TRY(mrt_storage_fetch(s));
  mrt_home_free(s->ctx, s->home);
  s->home = NULL;
  return MRT_OK;
}

void mrt_storage_leave(mrt_storage *s) {
  if (s->home && s->data) drop_memory(s);
  mrt_storage_drop_host(s);
}

mrt_status mrt_storage_copy(mrt_storage *s, mrt_storage **out) {
  bool away = !s->data;
  mrt_storage *to = NULL;
  MRT_TRY(mrt_storage_fetch(s));
  mrt_status status = mrt_storage_new(s->ctx, s->nbytes, &to);
  if (!status)
    status = mrt_device_copy(&s->ctx->device, to->data, s->data, s->nbytes,
                             &s->ctx->error);
  if (away) mrt_storage_leave(s);
  if (!status && away) status = mrt_storage_stow(to);
  if (status)
    mrt_storage_unref(to);
  else
    *out = to;
  return status;
}
