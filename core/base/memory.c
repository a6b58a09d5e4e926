/* memory.c -- the default allocator and arenas
 *
 * Under the address sanitizer all of an arena that nobody has is out of bounds,
 * also some bytes behind each array: who writes past its end is seen.
 *
 * SPDX-License-Identifier: MIT */
#include "base/memory.h"
#include "base/sanitizers.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void *plain(void *user, void *block, size_t old_size, size_t new_size) {
  (void)user, (void)old_size;
  if (new_size == 0) return free(block), NULL;
  return realloc(block, new_size);
}

const mrt_allocator mrt_malloc_allocator = { plain, NULL };

void *mrt_calloc(const mrt_allocator *a, size_t count, size_t size) {
  if (size && count > SIZE_MAX / 2 / size) return NULL;
  size_t bytes = count * size;
  if (bytes == 0) bytes = 1;
  void *block = a->resize(a->user, NULL, 0, bytes);
  if (block) memset(block, 0, bytes);
  return block;
}

void *mrt_resize(const mrt_allocator *a, void *block, size_t old_size,
                 size_t new_size) {
  return a->resize(a->user, block, old_size, new_size ? new_size : 1);
}

void mrt_release(const mrt_allocator *a, void *block, size_t size) {
  if (block) a->resize(a->user, block, size ? size : 1, 0);
}

#ifdef MRT_SANITIZES_ADDRESSES
#include <sanitizer/asan_interface.h>
enum { APART = 32 };
static void forbid(void *from, size_t bytes) {
  ASAN_POISON_MEMORY_REGION(from, bytes);
}
static void allow(void *from, size_t bytes) {
  ASAN_UNPOISON_MEMORY_REGION(from, bytes);
}
#else
enum { APART = 0 };
static void forbid(void *from, size_t bytes) {}
static void allow(void *from, size_t bytes) {}
#endif

typedef struct mrt_arena_block {
  struct mrt_arena_block *next;
  size_t size, used; /* bytes after this header */
  size_t reserved;   /* keeps the header a multiple of 16 bytes */
} block;

void mrt_arena_init(mrt_arena *arena, const mrt_allocator *allocator) {
  *arena = (mrt_arena){ .allocator = allocator };
}

/* The first block that was cleared and is large enough; NULL: there is none. */
static block *spare_block(mrt_arena *arena, size_t bytes) {
  block **at = &arena->spare;
  while (*at && (*at)->size < bytes) at = &(*at)->next;
  block *b = *at;
  if (!b) return NULL;
  *at = b->next;
  *b = (block){ .next = arena->blocks, .size = b->size };
  return arena->blocks = b;
}

static block *add_block(mrt_arena *arena, size_t bytes) {
  /* Doubling from 4 KiB to 1 MiB keeps both small and large graphs cheap. */
  size_t size = arena->blocks ? arena->blocks->size * 2 : 4096;
  if (size > (1u << 20)) size = 1u << 20;
  if (size < bytes) size = bytes;
  block *b = arena->allocator->resize(arena->allocator->user, NULL, 0,
                                      sizeof *b + size);
  if (!b) return NULL;
  *b = (block){ .next = arena->blocks, .size = size };
  forbid(b + 1, size);
  return arena->blocks = b;
}

void *mrt_arena_alloc(mrt_arena *arena, size_t count, size_t size) {
  if (size && count > (SIZE_MAX >> 2) / size) return NULL;
  size_t bytes = ((count * size + 15) & ~(size_t)15) + APART;
  block *b = arena->blocks;
  if (!b || b->size - b->used < bytes) b = spare_block(arena, bytes);
  if (!b) b = add_block(arena, bytes);
  if (!b) return NULL;
  void *p = (char *)(b + 1) + b->used;
  b->used += bytes;
  allow(p, count * size);
  return memset(p, 0, count * size);
}

static size_t bytes_of(const block *list) {
  size_t bytes = 0;
  for (const block *b = list; b; b = b->next) bytes += sizeof *b + b->size;
  return bytes;
}

size_t mrt_arena_bytes(const mrt_arena *arena) {
  return bytes_of(arena->blocks) + bytes_of(arena->spare);
}

static void free_blocks(mrt_arena *arena, block **list) {
  for (block *b = *list, *next; b; b = next) {
    next = b->next;
    allow(b + 1, b->size);
    mrt_release(arena->allocator, b, sizeof *b + b->size);
  }
  *list = NULL;
}

void mrt_arena_free(mrt_arena *arena) {
  free_blocks(arena, &arena->blocks);
  free_blocks(arena, &arena->spare);
}

void mrt_arena_clear(mrt_arena *arena) {
  while (arena->blocks) {
    block *b = arena->blocks;
    arena->blocks = b->next;
    forbid(b + 1, b->size);
    b->next = arena->spare, arena->spare = b;
  }
}

void mrt_arena_join(mrt_arena *to, mrt_arena *from) {
  block **end = &to->blocks;
  while (*end) end = &(*end)->next;
  *end = from->blocks;
  from->blocks = NULL;
  free_blocks(from, &from->spare);
}

char *mrt_arena_strdup(mrt_arena *arena, const char *text) {
  size_t n = strlen(text) + 1;
  char *copy = mrt_arena_alloc(arena, n, 1);
  return copy ? memcpy(copy, text, n) : NULL;
}

bool mrt_arena_grow(mrt_arena *arena, void **items, int count, int *capacity,
                    size_t size) {
  if (count < *capacity) return true;
  int wanted = *capacity ? *capacity * 2 : 16;
  void *grown = mrt_arena_alloc(arena, (size_t)wanted, size);
  if (!grown) return false;
  if (count) memcpy(grown, *items, (size_t)count * size);
  *items = grown, *capacity = wanted;
  return true;
}
