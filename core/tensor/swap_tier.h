/* swap_tier.h -- who has which bytes of the swap tier
 *
 * A context opens its tier when something first needs it.  Its bytes are given
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
} mrt_swap_location;

/* Of a context. */
typedef struct mrt_swap_tier {
  mrt_tier *tier; /* opened when first needed; NULL: not yet */
  mrt_swap_location *locations;
  size_t bytes; /* the tier's size */
} mrt_swap_tier;

static inline size_t mrt_swap_tier_round(size_t nbytes) {
  return (nbytes + MRT_TIER_ALIGN - 1) / MRT_TIER_ALIGN * MRT_TIER_ALIGN;
}

/* Open the tier if need be, and make sure of room for `nbytes` more at its
 * end.  EDEVICE: no such room, no file, a forked process. */
mrt_status mrt_swap_tier_reserve(mrt_context *ctx, size_t nbytes);
mrt_status mrt_swap_location_new(mrt_context *ctx, size_t nbytes,
                                 mrt_swap_location **out);
void mrt_swap_location_free(mrt_context *ctx,
                            mrt_swap_location *e); /* NULL is fine */
void mrt_swap_tier_close(mrt_context *ctx);

/* The storage's only bytes are in the tier then; its memory is free.  On
 * failure it is as before. */
mrt_status mrt_storage_evict(mrt_storage *s);
/* Its bytes are in memory too.  On failure it is as before. */
mrt_status mrt_storage_fetch(mrt_storage *s);
/* It is in memory, to be written there: it has no location. */
mrt_status mrt_storage_make_resident(mrt_storage *s);
/* A storage of the same bytes, in memory or in the tier as this one. */
mrt_status mrt_storage_copy(mrt_storage *s, mrt_storage **out);
/* Nobody looks at the copy in memory any more, if it is one. */
void mrt_storage_drop_copy(mrt_storage *s);

#endif
