/* list.h -- an array that grows, outside arenas
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_BASE_LIST_H
#define MRT_BASE_LIST_H

#include "base/memory.h"

/* Make room for one more element: `items` with `count` used of `room`.  Who owns
 * the array releases `room` elements.  False when memory is out, with nothing
 * changed. */
static inline bool mrt_list_room(const mrt_allocator *a, void **items,
                                 int count, int *room, size_t size) {
  if (count < *room) return true;
  int more = *room ? *room * 2 : 8;
  void *grown =
      mrt_resize(a, *items, (size_t)*room * size, (size_t)more * size);
  if (!grown) return false;
  *items = grown, *room = more;
  return true;
}
#define MRT_LIST_ROOM(a, items, count, room)                                   \
  mrt_list_room(a, (void **)&(items), count, &(room), sizeof *(items))

#endif
