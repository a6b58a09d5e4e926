/* memory.h -- the one allocation function, arenas and growing arrays
 *
 * Every byte of bookkeeping comes through one realloc-shaped function that
 * the host may replace.  Tensor bytes come from the device instead.
 *
 * Three lifetimes: arenas (graphs, plans) are freed whole; a few objects are
 * counted; all other pointers are borrowed.
 *
 * Invariants
 *   - memory is zeroed, and released with the size it was allocated with: an
 *     allocator need not keep sizes;
 *   - any call may give NULL, and then nothing has changed.  The allocation
 *     host of spec/ makes the n-th call fail, for every n.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_BASE_MEMORY_H
#define MRT_BASE_MEMORY_H

#include "base/error.h"

#include <stddef.h>

/* Zeroed memory, or NULL.  count * size may overflow: that is NULL too. */
void *mrt_calloc(const mrt_allocator *a, size_t count, size_t size);
/* Resize; the old block is untouched on failure (NULL). */
void *mrt_resize(const mrt_allocator *a, void *block, size_t old_size,
                 size_t new_size);
void mrt_release(const mrt_allocator *a, void *block, size_t size);
extern const mrt_allocator mrt_malloc_allocator;

/* A bump allocator; everything in it dies together. */
typedef struct mrt_arena {
  const mrt_allocator *allocator;
  struct mrt_arena_block *blocks;
  struct mrt_arena_block *spare; /* empty since it was cleared */
} mrt_arena;

void mrt_arena_init(mrt_arena *arena, const mrt_allocator *allocator);
/* Zeroed memory aligned to 16, or NULL. */
void *mrt_arena_alloc(mrt_arena *arena, size_t count, size_t size);
void mrt_arena_free(mrt_arena *arena);
/* Nothing is in it any more; what it holds is for what comes next. */
void mrt_arena_clear(mrt_arena *arena);
size_t mrt_arena_bytes(const mrt_arena *arena); /* that it holds */
/* What is in `from` dies with `to` from now on; `from` is empty. */
void mrt_arena_join(mrt_arena *to, mrt_arena *from);
char *mrt_arena_strdup(mrt_arena *arena, const char *text);

#define MRT_NEW(arena, type, count)                                            \
  ((type *)mrt_arena_alloc(arena, (size_t)(count), sizeof(type)))

/* Make room for one more element in an array that lives in an arena:
 * `items` with `count` used of `capacity`.  The old array stays in the arena
 * until it is freed whole; growth doubles, so that is at most as much again.
 * False when memory is out, with nothing changed. */
bool mrt_arena_grow(mrt_arena *arena, void **items, int count, int *capacity,
                    size_t size);
#define MRT_PUSH_ROOM(arena, items, count, capacity)                           \
  mrt_arena_grow(arena, (void **)&(items), count, &(capacity), sizeof *(items))

#endif
