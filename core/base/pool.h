/* pool.h -- little blocks that were freed, kept for who asks for as much
 *
 * An eager program makes and drops some blocks for every operator: a tensor, an
 * expression, a storage and its bytes.  Through malloc, which sorts and joins
 * what a garbage collector frees a thousand at a time, they take a third of the
 * time of a small operator.
 *
 * Invariants
 *   - a block of a list is nobody's, and of the size that the list is for;
 *   - together they are at most MOST bytes, and not in memory.now;
 *   - objects of another allocator than malloc are not kept: the host's is asked
 *     each time, and may fail;
 *   - nothing is kept where a sanitizer looks for uses of what was freed.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_BASE_POOL_H
#define MRT_BASE_POOL_H

#include "base/memory.h"

enum { MRT_POOL_LISTS = 256 }; /* of blocks of 64, 128 ... 16384 bytes */

typedef struct mrt_pool {
  void *list[MRT_POOL_LISTS]; /* a block begins with the address of the next */
  size_t bytes;               /* of all */
} mrt_pool;

/* What is really taken for `nbytes` from a pool. */
size_t mrt_pool_size(size_t nbytes);
/* A block of so many bytes, not zeroed; NULL: there is none. */
void *mrt_pool_get(mrt_pool *p, size_t nbytes);
/* Keeps it; false: it is for the caller to free. */
bool mrt_pool_give(mrt_pool *p, void *block, size_t nbytes);
/* Takes any block out; NULL when there is none.  *nbytes: its size. */
void *mrt_pool_take(mrt_pool *p, size_t *nbytes);

/* Objects: zeroed memory of the pool or of the allocator, or NULL; and back. */
void *mrt_pool_calloc(mrt_pool *p, const mrt_allocator *a, size_t nbytes);
void mrt_pool_release(mrt_pool *p, const mrt_allocator *a, void *object,
                      size_t nbytes);
/* Gives all of them back to the allocator. */
void mrt_pool_drop(mrt_pool *p, const mrt_allocator *a);

#endif
