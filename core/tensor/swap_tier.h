/* swap_tier.h -- who has which bytes of the swap tiers
 *
 * A context has slots: 0 for the device's own tier, one for each folder that a
 * profile names.  It opens one when something first needs it.  Its bytes are given
 * out as locations: each variable that lives there has one, and so has each
 * space whose plans swap activations.
 *
 * Invariants
 *   - locations do not overlap, lie in ascending order of their offsets and end
 *     within `bytes`, which the tier has;
 *   - a storage is in memory (data), in the tier (location), or both and then
 *     equal: the one in memory is a copy to look at (storage.h).
 *
 * Written by swap_tier.c alone; runs read `tier` (run/prepare.c).
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_TENSOR_SLOW_H
#define MRT_TENSOR_SLOW_H

#include "device/tier.h"
#include "tensor/storage.h"

typedef struct mrt_swap_location {
  struct mrt_swap_location *next; /* at a higher offset */
  size_t offset, nbytes;          /* multiples of MRT_TIER_ALIGN */
  int slot;
} mrt_swap_location;

typedef struct mrt_swap_slot {
  char *folder; /* NULL: the device's own */
  mrt_swap_location *locations;
  size_t bytes; /* the tier's size */
} mrt_swap_slot;

/* Of a context. */
typedef struct mrt_swap_tier {
  mrt_tier_row row; /* what runs copy with */
  mrt_swap_slot slots[MRT_TIER_SLOTS];
  int count; /* of slots in use, 0 among them */
} mrt_swap_tier;

/* For runs. */
static inline size_t mrt_swap_location_place(const mrt_swap_location *e) {
  return mrt_tier_place(e->slot, e->offset);
}

static inline size_t mrt_swap_tier_round(size_t nbytes) {
  return (nbytes + MRT_TIER_ALIGN - 1) / MRT_TIER_ALIGN * MRT_TIER_ALIGN;
}

/* The slot of a folder, "" for the device's own; taken if it has none.  EDEVICE
 * where all are taken. */
mrt_status mrt_swap_slot_of(mrt_context *ctx, const char *folder, int *slot);
/* Open the tier if need be, and make sure of room for `nbytes` more at its
 * end.  EDEVICE: no such room, no file, a forked process. */
mrt_status mrt_swap_tier_reserve(mrt_context *ctx, int slot, size_t nbytes);
mrt_status mrt_swap_location_new(mrt_context *ctx, int slot, size_t nbytes,
                                 mrt_swap_location **out);
void mrt_swap_location_free(mrt_context *ctx,
                            mrt_swap_location *e);  /* NULL is fine */
size_t mrt_swap_tier_bytes(const mrt_context *ctx); /* of all */
void mrt_swap_tier_close(mrt_context *ctx);

/* The storage's only bytes are in that slot's tier then; its memory is free.  On
 * failure it is as before, or in memory. */
mrt_status mrt_storage_evict(mrt_storage *s, int slot);
/* Its bytes are in memory too.  On failure it is as before. */
mrt_status mrt_storage_fetch(mrt_storage *s);
/* It is in memory, to be written there: it has no location. */
mrt_status mrt_storage_make_resident(mrt_storage *s);
/* A storage of the same bytes, in memory or in the tier as this one. */
mrt_status mrt_storage_copy(mrt_storage *s, mrt_storage **out);
/* Nobody looks at the copy in memory any more, if it is one. */
void mrt_storage_drop_copy(mrt_storage *s);

#endif
