/* order_shake.c -- an order near another, to start from again
 *
 *   method  Some nodes, drawn from a fixed sequence of numbers, go elsewhere
 *           between what they wait for and what waits for them.
 *   cost    O(nodes + edges of the nodes moved)
 *
 * SPDX-License-Identifier: MIT */
#include "plan/order.h"

enum { MOVED = 60 };

static int draw(uint64_t *state, int n) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (int)((*state >> 33) % (uint64_t)n);
}

static void move(int *order, int *at, int from, int to) {
  int node = order[from], by = from < to ? 1 : -1;
  for (int i = from; i != to; i += by)
    order[i] = order[i + by], at[order[i]] = i;
  order[to] = node, at[node] = to;
}

mrt_status mrt_order_shake(const mrt_flow *f, mrt_arena *a, uint64_t seed,
                           int *order) {
  int *at = MRT_NEW(a, int, f->nodes);
  if (!at) return MRT_ENOMEM;
  for (int i = 0; i < f->nodes; i++) at[order[i]] = i;
  for (int moved = 0; moved < MOVED; moved++) {
    int node = draw(&seed, f->nodes), low = 0, high = f->nodes - 1;
    for (int k = f->before.start[node]; k < f->before.start[node + 1]; k++)
      if (at[f->before.item[k]] >= low) low = at[f->before.item[k]] + 1;
    for (int k = f->after.start[node]; k < f->after.start[node + 1]; k++)
      if (at[f->after.item[k]] <= high) high = at[f->after.item[k]] - 1;
    move(order, at, at[node], low + draw(&seed, high - low + 1));
  }
  return MRT_OK;
}
