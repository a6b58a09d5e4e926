/* pool.c -- little blocks that were freed, kept for who asks for as much
 *
 * SPDX-License-Identifier: MIT */
#include "base/pool.h"
#include "base/sanitizers.h"

#include <string.h>

enum { STEP = 64, LARGEST = MRT_POOL_LISTS * STEP };
static const size_t MOST = 2 << 20; /* bytes */

#ifdef MRT_SANITIZES_ADDRESSES
enum { KEEPS = 0 };
#else
enum { KEEPS = 1 };
#endif

size_t mrt_pool_size(size_t nbytes) {
  if (nbytes == 0) return STEP;
  return nbytes > LARGEST ? nbytes : (nbytes + STEP - 1) / STEP * STEP;
}

/* The list of blocks of that size, or NULL. */
static void **list_of(mrt_pool *p, size_t nbytes) {
  size_t size = mrt_pool_size(nbytes);
  return size > LARGEST ? NULL : &p->list[size / STEP - 1];
}

void *mrt_pool_get(mrt_pool *p, size_t nbytes) {
  void **list = list_of(p, nbytes);
  if (!list || !*list) return NULL;
  void *block = *list;
  memcpy(list, block, sizeof *list);
  p->bytes -= mrt_pool_size(nbytes);
  return block;
}

bool mrt_pool_give(mrt_pool *p, void *block, size_t nbytes) {
  void **list = list_of(p, nbytes);
  if (!KEEPS || !list || p->bytes >= MOST) return false;
  memcpy(block, list, sizeof *list);
  *list = block;
  p->bytes += mrt_pool_size(nbytes);
  return true;
}

void *mrt_pool_take(mrt_pool *p, size_t *nbytes) {
  for (size_t i = 0; i < MRT_POOL_LISTS; i++)
    if (p->list[i]) return mrt_pool_get(p, *nbytes = (i + 1) * STEP);
  return NULL;
}

/* ---- objects ------------------------------------------------------------- */

void *mrt_pool_calloc(mrt_pool *p, const mrt_allocator *a, size_t nbytes) {
  if (a != &mrt_malloc_allocator) return mrt_calloc(a, 1, nbytes);
  void *object = mrt_pool_get(p, nbytes);
  if (!object) return mrt_calloc(a, 1, mrt_pool_size(nbytes));
  return memset(object, 0, nbytes);
}

void mrt_pool_release(mrt_pool *p, const mrt_allocator *a, void *object,
                      size_t nbytes) {
  if (!object) return;
  if (a == &mrt_malloc_allocator) {
    if (mrt_pool_give(p, object, nbytes)) return;
    nbytes = mrt_pool_size(nbytes);
  }
  mrt_release(a, object, nbytes);
}

void mrt_pool_drop(mrt_pool *p, const mrt_allocator *a) {
  size_t nbytes;
  for (void *o; (o = mrt_pool_take(p, &nbytes));) mrt_release(a, o, nbytes);
}
