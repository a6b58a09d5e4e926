/* shm_heap.c -- a rank's part of a shared object
 *
 * What is in use is a list sorted by place, private to the rank: others only
 * read and write what they are told of.  First fit.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "shm.h"

#include <string.h>
#include <sys/mman.h>

enum { ALIGN = 64, PAGE = 4096 };

static size_t end_of(const mrt_shm_heap *heap, int i) {
  return i < 0 ? 0 : heap->blocks[i].at + heap->blocks[i].nbytes;
}

static size_t begin_of(const mrt_shm_heap *heap, int i) {
  return i < heap->count ? heap->blocks[i].at : heap->nbytes;
}

static bool make_room(const mrt_allocator *a, mrt_shm_heap *heap) {
  if (heap->count < heap->capacity) return true;
  int capacity = heap->capacity ? 2 * heap->capacity : 16;
  void *blocks =
      mrt_resize(a, heap->blocks, (size_t)heap->capacity * sizeof *heap->blocks,
                 (size_t)capacity * sizeof *heap->blocks);
  if (!blocks) return false;
  heap->blocks = blocks, heap->capacity = capacity;
  return true;
}

void *mrt_shm_heap_alloc(const mrt_allocator *a, mrt_shm_heap *heap,
                         size_t nbytes) {
  if (nbytes > heap->nbytes || !make_room(a, heap)) return NULL;
  nbytes = nbytes ? (nbytes + ALIGN - 1) / ALIGN * ALIGN : ALIGN;
  int i = 0;
  while (i < heap->count && begin_of(heap, i) - end_of(heap, i - 1) < nbytes)
    i++;
  size_t at = end_of(heap, i - 1);
  if (begin_of(heap, i) - at < nbytes) return NULL;
  memmove(heap->blocks + i + 1, heap->blocks + i,
          (size_t)(heap->count - i) * sizeof *heap->blocks);
  heap->blocks[i] = (struct mrt_shm_heap_block){ at, nbytes };
  heap->count++;
  return heap->at + at;
}

static int find(const mrt_shm_heap *heap, size_t at) {
  int low = 0, high = heap->count;
  while (low < high) {
    int mid = low + (high - low) / 2;
    if (heap->blocks[mid].at < at)
      low = mid + 1;
    else
      high = mid;
  }
  return low;
}

/* Pages that only the freed block touched are punched out of the object. */
void mrt_shm_heap_free(mrt_shm_heap *heap, void *data) {
  size_t at = (size_t)((char *)data - heap->at);
  int i = find(heap, at);
  if (i == heap->count || heap->blocks[i].at != at) return;
  size_t end = end_of(heap, i), low = end_of(heap, i - 1),
         high = begin_of(heap, i + 1);
  size_t first = at / PAGE * PAGE, last = (end + PAGE - 1) / PAGE * PAGE;
  if (first < low) first += PAGE;
  if (last > high) last -= PAGE;
  if (first < last) madvise(heap->at + first, last - first, MADV_REMOVE);
  heap->count--;
  memmove(heap->blocks + i, heap->blocks + i + 1,
          (size_t)(heap->count - i) * sizeof *heap->blocks);
}
