/* heap.c -- a priority queue with a total order, so ties are settled
 *
 * SPDX-License-Identifier: MIT */
#include "solve/order/order.h"

static bool less(mrt_order_entry a, mrt_order_entry b) {
  if (a.key != b.key) return a.key < b.key;
  if (a.tie != b.tie) return a.tie < b.tie;
  return a.item < b.item;
}

bool mrt_order_heap_push(mrt_order_heap *h, mrt_arena *arena,
                         mrt_order_entry e) {
  if (!MRT_PUSH_ROOM(arena, h->at, h->count, h->room)) return false;
  int i = h->count++;
  for (; i > 0 && less(e, h->at[(i - 1) / 2]); i = (i - 1) / 2)
    h->at[i] = h->at[(i - 1) / 2];
  h->at[i] = e;
  return true;
}

mrt_order_entry mrt_order_heap_pop(mrt_order_heap *h) {
  mrt_order_entry top = h->at[0], e = h->at[--h->count];
  int i = 0;
  for (int child; (child = 2 * i + 1) < h->count; i = child) {
    if (child + 1 < h->count && less(h->at[child + 1], h->at[child])) child++;
    if (!less(h->at[child], e)) break;
    h->at[i] = h->at[child];
  }
  h->at[i] = e;
  return top;
}
