/* slow.h -- who has which bytes of the slow tier
 *
 * A context opens its tier when something first needs it.  Its bytes are given
 * out as homes: each variable that lives there has one, its home, and so has
 * each space whose plans swap activations.
 *
 * A storage is in memory (data), at home (home), or both, and then equal: the
 * one in memory is a copy to look at.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_TENSOR_SLOW_H
#define MRT_TENSOR_SLOW_H

#include "tensor/tensor.h"

struct mrt_home {
  struct mrt_home *next; /* at a higher offset */
  size_t offset, nbytes; /* multiples of MRT_TIER_ALIGN */
};

static inline size_t mrt_slow_round(size_t nbytes) {
  return (nbytes + MRT_TIER_ALIGN - 1) / MRT_TIER_ALIGN * MRT_TIER_ALIGN;
}

/* Open the tier if need be, and make sure of room for `nbytes` more at its
 * end.  EDEVICE: no such room, no file, a forked process. */
mrt_status mrt_slow_reserve(mrt_context *ctx, size_t nbytes);
mrt_status mrt_home_new(mrt_context *ctx, size_t nbytes, mrt_home **out);
void mrt_home_free(mrt_context *ctx, mrt_home *e); /* NULL is fine */
void mrt_slow_close(mrt_context *ctx);

/* The storage's only bytes are then at home; its memory is free.  On failure
 * it is as before. */
mrt_status mrt_storage_stow(mrt_storage *s);
/* Its bytes are in memory too.  On failure it is as before. */
mrt_status mrt_storage_fetch(mrt_storage *s);
/* It is in memory, to be written there: it has no home. */
mrt_status mrt_storage_move_in(mrt_storage *s);
/* A storage of the same bytes, in memory or at home as this one. */
mrt_status mrt_storage_copy(mrt_storage *s, mrt_storage **out);
/* Nobody looks at the copy in memory any more, if it is one. */
void mrt_storage_leave(mrt_storage *s);

#endif
