/* bounds.c -- how many bytes does every order need?
 *
 *   working set   what one node must have at once: the blocks it reads and
 *                 makes, and its scratch.  No recomputing helps against it.
 *   any order     while v runs, every block lives that is made by v or before
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
  const mrt_flow *f;
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
static int64_t may_save(const mrt_flow *f, int v, const slice *s) {
  int64_t bytes = 0;
  int done = -1;
  for (int i = f->take_start[v]; i < f->take_start[v + 1]; i++) {
    mrt_take t = f->take[i];
    bool dies = t.out != done;
    for (int k = f->readers.start[t.in];
         s && dies && k < f->readers.start[t.in + 1]; k++) {
      int r = f->readers.item[k];
      dies = r == v || !has(&s->above[(size_t)r * WORDS], s->bit[v]);
    }
    if (dies) bytes += f->bytes[t.out], done = t.out;
  }
  return bytes;
}

static int64_t own(const mrt_flow *f, int v) {
  int64_t bytes = f->scratch[v] - may_save(f, v, NULL);
  for (int b = f->made[v]; b < f->made[v + 1]; b++) bytes += f->bytes[b];
  for (int k = f->reads.start[v]; k < f->reads.start[v + 1]; k++)
    bytes += f->bytes[f->reads.item[k]];
  return bytes;
}

/* Fill `above` along the order, `below` against it. */
static void reach(slice *s) {
  const mrt_flow *f = s->f;
  size_t bytes = (size_t)f->nodes * WORDS * sizeof(uint64_t);
  memset(s->above, 0, bytes), memset(s->below, 0, bytes);
  for (int i = 0; i < s->count; i++) {
    uint64_t bit = (uint64_t)1 << i % 64;
    s->above[(size_t)s->nodes[i] * WORDS + i / 64] |= bit;
    s->below[(size_t)s->nodes[i] * WORDS + i / 64] |= bit;
  }
  for (int i = 0; i < f->nodes; i++) {
    int u = s->order[i];
    for (int k = f->before.start[u]; k < f->before.start[u + 1]; k++)
      unite(&s->above[(size_t)u * WORDS],
            &s->above[(size_t)f->before.item[k] * WORDS]);
  }
  for (int i = f->nodes; i-- > 0;) {
    int u = s->order[i];
    for (int k = f->after.start[u]; k < f->after.start[u + 1]; k++)
      unite(&s->below[(size_t)u * WORDS],
            &s->below[(size_t)f->after.item[k] * WORDS]);
  }
}

/* Add the block to all v of the slice that it lives through. */
static void add_block(slice *s, int b) {
  const mrt_flow *f = s->f;
  uint64_t read[WORDS] = { 0 };
  const uint64_t *made = &s->below[(size_t)f->maker[b] * WORDS];
  for (int k = f->readers.start[b]; k < f->readers.start[b + 1]; k++)
    unite(read, &s->above[(size_t)f->readers.item[k] * WORDS]);
  for (int w = 0; w < WORDS; w++)
    for (uint64_t bits = made[w] & read[w]; bits; bits &= bits - 1)
      s->alive[w * 64 + __builtin_ctzll(bits)] += f->bytes[b];
}

static int64_t most_alive(slice *s) {
  const mrt_flow *f = s->f;
  int64_t most = 0;
  reach(s);
  memset(s->alive, 0, sizeof s->alive);
  for (int b = 0; b < f->blocks; b++) add_block(s, b);
  for (int i = 0; i < s->count; i++) {
    int v = s->nodes[i];
    int64_t bytes = s->alive[i] + f->scratch[v] - may_save(f, v, s);
    for (int b = f->made[v]; b < f->made[v + 1]; b++) /* read by nobody */
      if (f->readers.start[b] == f->readers.start[b + 1]) bytes += f->bytes[b];
    if (bytes > most) most = bytes;
  }
  return most;
}

static mrt_status any_order(const mrt_flow *f, const int *order, mrt_arena *a,
                            int64_t *most) {
  size_t words = (size_t)f->nodes * WORDS;
  slice *s = MRT_NEW(a, slice, 1);
  if (!s) return MRT_ENOMEM;
  s->f = f, s->order = order;
  s->above = MRT_NEW(a, uint64_t, words);
  s->below = MRT_NEW(a, uint64_t, words);
  s->bit = MRT_NEW(a, int, f->nodes);
  if (!s->above || !s->below || !s->bit) return MRT_ENOMEM;
  for (int from = 0; from < f->nodes; from += SLICE) {
    s->count = f->nodes - from < SLICE ? f->nodes - from : SLICE;
    for (int i = 0; i < s->count; i++) {
      s->nodes[i] = order[from + i];
      s->bit[s->nodes[i]] = i;
    }
    int64_t bytes = most_alive(s);
    if (bytes > *most) *most = bytes;
  }
  return MRT_OK;
}

mrt_status mrt_flow_bounds(const mrt_flow *f, const mrt_context *ctx,
                           const int *order, int64_t *working, int64_t *any) {
  *working = 0;
  for (int i = 0; i < f->nodes; i++) {
    int64_t bytes = own(f, i);
    if (bytes > *working) *working = bytes;
  }
  *any = *working;
  if (f->nodes > MOST) return MRT_OK;
  mrt_arena a;
  mrt_arena_init(&a, ctx->allocator);
  mrt_status s = any_order(f, order, &a, any);
  mrt_arena_free(&a);
  return s;
}
