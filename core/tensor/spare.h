/* spare.h -- memory that was freed, kept for who asks for as much
 *
 * Fresh memory costs a page fault for every 4 KiB: an addition of two megabytes
 * takes ten times as long in it.  So what tensors give back is kept, up to a
 * bound, and given to the next that is of the same size.
 *
 * Invariants
 *   - a block here is nobody's: it is in no tensor, and not in memory.now;
 *   - together they are at most SPARE bytes, or LITTLE once a compiled step has
 *     an arena: beside its plan a process that trains takes little;
 *   - with what is in use they are never above memory.limit;
 *   - when the device has no more, all of them go back to it first.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_TENSOR_SPARE_H
#define MRT_TENSOR_SPARE_H

#include "base/pool.h"

enum { MRT_SPARE_BLOCKS = 512 };

typedef struct mrt_spare {
  size_t bytes; /* of all */
  int count;
  int arenas;      /* of compiled steps */
  mrt_pool little; /* below 16 KiB, beside these bounds: base/pool.h */
  struct mrt_spare_block {
    void *data;
    size_t nbytes;
  } block[MRT_SPARE_BLOCKS]; /* the one that came last is last */
} mrt_spare;

/* A block of exactly so many bytes, or NULL. */
void *mrt_spare_get(mrt_context *ctx, size_t nbytes);
/* Keeps it; false: it is for the device to free. */
bool mrt_spare_give(mrt_context *ctx, void *data, size_t nbytes);
/* Gives back to the device what is above `most` bytes, the oldest first. */
void mrt_spare_trim(mrt_context *ctx, size_t most);
/* A compiled step has an arena from now on (1), or no longer (-1). */
void mrt_spare_arenas(mrt_context *ctx, int change);

#endif
