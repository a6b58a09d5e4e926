/* swap_tier.c -- locations in swap tiers, storages that go there
 *
 * SPDX-License-Identifier: MIT */
#include "tensor/swap_tier.h"
#include "mrt/frontend.h"
#include "tensor/context.h"

#include <stdlib.h>
#include <string.h>

/* ---- locations ----------------------------------------------------------- */

static size_t end_of(const mrt_swap_slot *slot) {
  size_t end = 0;
  for (const mrt_swap_location *e = slot->locations; e; e = e->next)
    end = e->offset + e->nbytes;
  return end;
}

static const char *usual_folder(void) {
  const char *folder = getenv("TMPDIR");
  return folder && *folder ? folder : "/tmp";
}

mrt_status mrt_swap_slot_of(mrt_context *ctx, const char *folder, int *slot) {
  mrt_swap_tier *t = &ctx->swap;
  *slot = 0;
  if (!*folder) return MRT_OK;
  if (!t->count) t->count = 1;
  for (*slot = 1; *slot < t->count; ++*slot)
    if (strcmp(t->slots[*slot].folder, folder) == 0) return MRT_OK;
  if (*slot == MRT_TIER_SLOTS)
    return mrt_fail(&ctx->error, MRT_EDEVICE,
                    "%d folders are swapped to already: none more can be",
                    MRT_TIER_SLOTS - 1);
  size_t n = strlen(folder) + 1;
  t->slots[*slot].folder = mrt_calloc(ctx->allocator, 1, n);
  if (!t->slots[*slot].folder) return mrt_nomem(&ctx->error);
  memcpy(t->slots[*slot].folder, folder, n);
  t->count++;
  return MRT_OK;
}

static mrt_status open_slot(mrt_context *ctx, int slot) {
  mrt_tier **at = &ctx->swap.row.at[slot];
  const char *folder = ctx->swap.slots[slot].folder;
  if (!ctx->swap.row.tier.start) mrt_tier_row_init(&ctx->swap.row);
  if (*at) return MRT_OK;
  if (folder)
    return mrt_device_open_folder(&ctx->device, folder, ctx->allocator, at,
                                  &ctx->error);
  return mrt_device_open_tier(&ctx->device, usual_folder(), ctx->allocator, at,
                              &ctx->error);
}

mrt_status mrt_swap_tier_reserve(mrt_context *ctx, int slot, size_t nbytes) {
  MRT_TRY(open_slot(ctx, slot));
  mrt_swap_slot *s = &ctx->swap.slots[slot];
  mrt_tier *tier = ctx->swap.row.at[slot];
  size_t wanted = end_of(s) + mrt_swap_tier_round(nbytes);
  if (wanted < s->bytes) wanted = s->bytes;
  MRT_TRY(tier->resize(tier, wanted, &ctx->error));
  s->bytes = wanted;
  return MRT_OK;
}

size_t mrt_swap_tier_bytes(const mrt_context *ctx) {
  size_t bytes = 0;
  for (int i = 0; i < MRT_TIER_SLOTS; i++) bytes += ctx->swap.slots[i].bytes;
  return bytes;
}

MRT_API bool mrt_context_swapped_to(const mrt_context *ctx, int i,
                                    const char **folder, size_t *bytes) {
  if (i >= (ctx->swap.count ? ctx->swap.count : 1)) return false;
  *folder = ctx->swap.slots[i].folder, *bytes = ctx->swap.slots[i].bytes;
  return true;
}

/* The first gap that is large enough, or the end. */
mrt_status mrt_swap_location_new(mrt_context *ctx, int slot, size_t nbytes,
                                 mrt_swap_location **out) {
  nbytes = mrt_swap_tier_round(nbytes);
  mrt_swap_slot *own = &ctx->swap.slots[slot];
  mrt_swap_location **at = &own->locations;
  size_t offset = 0;
  while (*at && (*at)->offset - offset < nbytes) {
    offset = (*at)->offset + (*at)->nbytes;
    at = &(*at)->next;
  }
  if (!*at && offset + nbytes > own->bytes)
    MRT_TRY(mrt_swap_tier_reserve(ctx, slot, nbytes));
  mrt_swap_location *e = mrt_calloc(ctx->allocator, 1, sizeof *e);
  if (!e) return mrt_nomem(&ctx->error);
  *e = (mrt_swap_location){ *at, offset, nbytes, slot };
  *out = *at = e;
  return MRT_OK;
}

void mrt_swap_location_free(mrt_context *ctx, mrt_swap_location *e) {
  if (!e) return;
  mrt_swap_slot *own = &ctx->swap.slots[e->slot];
  mrt_tier *tier = ctx->swap.row.at[e->slot];
  mrt_swap_location **at = &own->locations;
  while (*at != e) at = &(*at)->next;
  *at = e->next;
  if (!e->next) {
    mrt_error ignored;
    size_t end = end_of(own);
    if (!tier->resize(tier, end, &ignored)) own->bytes = end;
  }
  mrt_release(ctx->allocator, e, sizeof *e);
}

void mrt_swap_tier_close(mrt_context *ctx) {
  for (int i = 0; i < MRT_TIER_SLOTS; i++) {
    mrt_tier *tier = ctx->swap.row.at[i];
    char *folder = ctx->swap.slots[i].folder;
    if (tier) tier->close(tier);
    if (folder) mrt_release(ctx->allocator, folder, strlen(folder) + 1);
  }
}

MRT_API mrt_status mrt_context_set_swap_folder(mrt_context *ctx,
                                               const char *path) {
  mrt_tier *tier;
  mrt_tier **own = &ctx->swap.row.at[0];
  if (ctx->swap.slots[0].bytes)
    return mrt_fail(&ctx->error, MRT_ESTATE,
                    "the swap file has %zu bytes already: choose its folder "
                    "before the first step that swaps",
                    ctx->swap.slots[0].bytes);
  MRT_TRY(mrt_device_open_tier(&ctx->device, path, ctx->allocator, &tier,
                               &ctx->error));
  if (!ctx->swap.row.tier.start) mrt_tier_row_init(&ctx->swap.row);
  if (*own) (*own)->close(*own);
  *own = tier;
  return MRT_OK;
}

/* ---- storages ------------------------------------------------------------ */

static mrt_status copy(mrt_storage *s, mrt_tier_lane lane) {
  mrt_context *ctx = s->ctx;
  mrt_tier *tier = ctx->swap.row.at[s->location->slot];
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

mrt_status mrt_storage_evict(mrt_storage *s, int slot) {
  if (s->location && s->location->slot != slot)
    MRT_TRY(mrt_storage_make_resident(s));
  if (!s->data) return MRT_OK;
  if (!s->location) {
    MRT_TRY(mrt_swap_location_new(s->ctx, slot, s->nbytes, &s->location));
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
  MRT_TRY(
      mrt_swap_tier_reserve(ctx, s->location->slot, 0)); /* is the tier ours? */
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
  int slot = s->location ? s->location->slot : 0;
  mrt_storage *to = NULL;
  MRT_TRY(mrt_storage_fetch(s));
  mrt_status status = mrt_storage_new(s->ctx, s->nbytes, &to);
  if (!status)
    status = mrt_device_copy(&s->ctx->device, to->data, s->data, s->nbytes,
                             &s->ctx->error);
  if (swapped) mrt_storage_drop_copy(s);
  if (!status && swapped) status = mrt_storage_evict(to, slot);
  if (status)
    mrt_storage_unref(to);
  else
    *out = to;
  return status;
}
