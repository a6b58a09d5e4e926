/* bounds.c -- how many bytes does every order need?
 *
 *   working set   what one node must have at once: the buffers it reads and
 *                 makes, and its scratch.  No recomputing helps against it.
 *   any order     while v runs, every buffer lives that is made by v or before
 *                 it in every order and read by v or after it in every order.
 *                 An output that might take a dying input's place is not
 *                 counted; it cannot where another reader comes after v.
 *   method        Reachability as bits, for a slice of the nodes v at a time,
 *                 so that the bits of all nodes stay small.
 *   cost          O(nodes * (edges + reads) / 64 + bytes found alive)
 *   limit         MOST nodes; beyond that the second is the first
 *
 * SPDX-License-Identifier: MIT */
#include "solve/order/order.h"

#include <string.h>

enum { MOST = 20000, WORDS = 16, SLICE = 64 * WORDS };

typedef struct slice {
  const mrt_dag *dag;
  const int *order;
  uint64_t *below; /* node u, WORDS each: which v are u or come after it */
  uint64_t *above; /* which v are u or come before it */
  int *bit;        /* node -> number in the slice, or -1 */
  int64_t alive[SLICE];
  int nodes[SLICE], count;
} slice;

static bool has(const uint64_t *bits, int i) {
  return bits[i / 64] >> i % 64 & 1;
}

static void unite(uint64_t *to, const uint64_t *from) {
  for (int w = 0; w < WORDS; w++) to[w] |= from[w];
}

/* Bytes of outputs of v that may take an input's place.  With `s`, only of
 * inputs that no node after v reads. */
static int64_t may_save(const mrt_dag *dag, int v, const slice *s) {
  int64_t bytes = 0;
  int done = -1;
  for (int i = dag->take_start[v]; i < dag->take_start[v + 1]; i++) {
    mrt_take t = dag->take[i];
    bool dies = t.out != done;
    for (int k = dag->readers.start[t.in];
         s && dies && k < dag->readers.start[t.in + 1]; k++) {
      int r = dag->readers.item[k];
      dies = r == v || !has(&s->above[(size_t)r * WORDS], s->bit[v]);
    }
    if (dies) bytes += dag->bytes[t.out], done = t.out;
  }
  return bytes;
}

static int64_t own(const mrt_dag *dag, int v) {
  int64_t bytes = dag->scratch[v] - may_save(dag, v, NULL);
  for (int b = dag->made[v]; b < dag->made[v + 1]; b++) bytes += dag->bytes[b];
  for (int k = dag->reads.start[v]; k < dag->reads.start[v + 1]; k++)
    bytes += dag->bytes[dag->reads.item[k]];
  return bytes;
}

/* Fill `above` along the order, `below` against it. */
static void reach(slice *s) {
  const mrt_dag *dag = s->dag;
  size_t bytes = (size_t)dag->nodes * WORDS * sizeof(uint64_t);
  memset(s->above, 0, bytes), memset(s->below, 0, bytes);
  for (int i = 0; i < s->count; i++) {
    uint64_t bit = (uint64_t)1 << i % 64;
    s->above[(size_t)s->nodes[i] * WORDS + i / 64] |= bit;
    s->below[(size_t)s->nodes[i] * WORDS + i / 64] |= bit;
  }
  for (int i = 0; i < dag->nodes; i++) {
    int u = s->order[i];
    for (int k = dag->before.start[u]; k < dag->before.start[u + 1]; k++)
      unite(&s->above[(size_t)u * WORDS],
            &s->above[(size_t)dag->before.item[k] * WORDS]);
  }
  for (int i = dag->nodes; i-- > 0;) {
    int u = s->order[i];
    for (int k = dag->after.start[u]; k < dag->after.start[u + 1]; k++)
      unite(&s->below[(size_t)u * WORDS],
            &s->below[(size_t)dag->after.item[k] * WORDS]);
  }
}

/* Add the buffer to all v of the slice that it lives through. */
static void add_buffer(slice *s, int b) {
  const mrt_dag *dag = s->dag;
  uint64_t read[WORDS] = { 0 };
  const uint64_t *made = &s->below[(size_t)dag->maker[b] * WORDS];
  for (int k = dag->readers.start[b]; k < dag->readers.start[b + 1]; k++)
    unite(read, &s->above[(size_t)dag->readers.item[k] * WORDS]);
  for (int w = 0; w < WORDS; w++)
    for (uint64_t bits = made[w] & read[w]; bits; bits &= bits - 1)
      s->alive[w * 64 + __builtin_ctzll(bits)] += dag->bytes[b];
}

static int64_t most_alive(slice *s) {
  const mrt_dag *dag = s->dag;
  int64_t most = 0;
  reach(s);
  memset(s->alive, 0, sizeof s->alive);
  for (int b = 0; b < dag->buffers; b++) add_buffer(s, b);
  for (int i = 0; i < s->count; i++) {
    int v = s->nodes[i];
    int64_t bytes = s->alive[i] + dag->scratch[v] - may_save(dag, v, s);
    for (int b = dag->made[v]; b < dag->made[v + 1]; b++) /* read by nobody */
      if (dag->readers.start[b] == dag->readers.start[b + 1])
        bytes += dag->bytes[b];
    if (bytes > most) most = bytes;
  }
  return most;
}

static mrt_status any_order(const mrt_dag *dag, const int *order, mrt_arena *a,
                            int64_t *most) {
  size_t words = (size_t)dag->nodes * WORDS;
  slice *s = MRT_NEW(a, slice, 1);
  if (!s) return MRT_ENOMEM;
  s->dag = dag, s->order = order;
  s->above = MRT_NEW(a, uint64_t, words);
  s->below = MRT_NEW(a, uint64_t, words);
  s->bit = MRT_NEW(a, int, dag->nodes);
  if (!s->above || !s->below || !s->bit) return MRT_ENOMEM;
  for (int from = 0; from < dag->nodes; from += SLICE) {
    s->count = dag->nodes - from < SLICE ? dag->nodes - from : SLICE;
    for (int i = 0; i < s->count; i++) {
      s->nodes[i] = order[from + i];
      s->bit[s->nodes[i]] = i;
    }
    int64_t bytes = most_alive(s);
    if (bytes > *most) *most = bytes;
  }
  return MRT_OK;
}

mrt_status mrt_dag_bounds(const mrt_dag *dag, const mrt_allocator *allocator,
                          const int *order, int64_t *working, int64_t *any) {
  *working = 0;
  for (int i = 0; i < dag->nodes; i++) {
    int64_t bytes = own(dag, i);
    if (bytes > *working) *working = bytes;
  }
  *any = *working;
  if (dag->nodes > MOST) return MRT_OK;
  mrt_arena a;
  mrt_arena_init(&a, allocator);
  mrt_status s = any_order(dag, order, &a, any);
  mrt_arena_free(&a);
  return s;
}
