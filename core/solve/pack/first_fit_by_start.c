/* first_fit_by_start.c -- first fit in ascending order of birth, as a heap
 * would
 *                          allocate; or in descending order of death, as one
 *                          would with time running backwards
 *
 *   method  What lives when a buffer is born is disjoint, so the memory is a
 *           list of blocks and gaps.  The blocks are a treap by offset (Seidel
 *           and Aragon 1996) that knows the largest gap below any of a
 *           subtree's: the lowest gap that is large enough is found by one
 *           descent, and a death widens the gap of the block above.
 *   cost    O(log n) for one buffer where alignments are equal; memory O(n)
 *
 * SPDX-License-Identifier: MIT */
#include "solve/pack/pack.h"

enum { NONE = -1 };

typedef struct sliding_block { /* by buffer */
  int64_t gap, most; /* free bytes below it; the largest of its subtree */
  int left, right;   /* in the treap */
  int below, above;  /* in memory */
  int next;          /* of those that die in the same section */
} sliding_block;

struct mrt_pack_by_start {
  const mrt_packed_buffer *buffers;
  sliding_block *at;
  int *dying; /* by section: the first of the list, or NONE */
  int root, highest;
  int sections;
  bool backwards;
};

mrt_status mrt_pack_by_start_new(mrt_packing *p) {
  mrt_pack_by_start *b = MRT_NEW(p->arena, mrt_pack_by_start, 1);
  if (!b) return MRT_ENOMEM;
  b->buffers = p->buffers, b->sections = p->sections;
  b->at = MRT_NEW(p->arena, sliding_block, p->n);
  b->dying = MRT_NEW(p->arena, int, p->sections);
  p->births = b;
  return b->at && b->dying ? MRT_OK : MRT_ENOMEM;
}

static int64_t top(const mrt_pack_by_start *b, int buffer) {
  return buffer == NONE ? 0
                        : b->buffers[buffer].offset + b->buffers[buffer].size;
}

/* Sections counted the way time runs. */
static int birth(const mrt_pack_by_start *b, const mrt_packed_buffer *i) {
  return b->backwards ? b->sections - 1 - i->last : i->first;
}

static int death(const mrt_pack_by_start *b, const mrt_packed_buffer *i) {
  return b->backwards ? b->sections - 1 - i->first : i->last;
}

/* ---- the treap ----------------------------------------------------------- */

static uint32_t priority(int buffer) {
  uint32_t x = (uint32_t)buffer * 0x9E3779B1u;
  x = (x ^ x >> 15) * 0x85EBCA77u;
  return x ^ x >> 13;
}

static int64_t most(const mrt_pack_by_start *b, int buffer) {
  return buffer == NONE ? -1 : b->at[buffer].most;
}

static void add_up(mrt_pack_by_start *b, int buffer) {
  sliding_block *k = &b->at[buffer];
  int64_t left = most(b, k->left), right = most(b, k->right);
  int64_t under = left > right ? left : right;
  k->most = k->gap > under ? k->gap : under;
}

/* Blocks below `offset` into *low, the others into *high. */
static void split(mrt_pack_by_start *b, int root, int64_t offset, int *low,
                  int *high) {
  if (root == NONE) {
    *low = *high = NONE;
    return;
  }
  if (b->buffers[root].offset < offset) {
    split(b, b->at[root].right, offset, &b->at[root].right, high);
    *low = root;
  } else {
    split(b, b->at[root].left, offset, low, &b->at[root].left);
    *high = root;
  }
  add_up(b, root);
}

/* All of `low` lie below all of `high`. */
static int merge(mrt_pack_by_start *b, int low, int high) {
  if (low == NONE) return high;
  if (high == NONE) return low;
  int root = priority(low) > priority(high) ? low : high;
  if (root == low)
    b->at[low].right = merge(b, b->at[low].right, high);
  else
    b->at[high].left = merge(b, low, b->at[high].left);
  add_up(b, root);
  return root;
}

/* The tree without `buffer`, or with another gap below it. */
static int without(mrt_pack_by_start *b, int root, int buffer) {
  sliding_block *k = &b->at[root];
  if (root == buffer) return merge(b, k->left, k->right);
  if (b->buffers[buffer].offset < b->buffers[root].offset)
    k->left = without(b, k->left, buffer);
  else
    k->right = without(b, k->right, buffer);
  add_up(b, root);
  return root;
}

static void regap(mrt_pack_by_start *b, int root, int buffer) {
  const sliding_block *k = &b->at[root];
  if (root != buffer)
    regap(b,
          b->buffers[buffer].offset < b->buffers[root].offset ? k->left
                                                              : k->right,
          buffer);
  add_up(b, root);
}

/* ---- births and deaths --------------------------------------------------- */

/* The lowest block with room for `buffer` below it. */
static int find(const mrt_pack_by_start *b, int root,
                const mrt_packed_buffer *buffer) {
  if (most(b, root) < buffer->size) return NONE;
  const sliding_block *k = &b->at[root];
  int found = find(b, k->left, buffer);
  if (found != NONE) return found;
  int64_t at = mrt_pack_align(buffer, top(b, k->below));
  if (b->buffers[root].offset - at >= buffer->size) return root;
  return find(b, k->right, buffer);
}

static void set_above(mrt_pack_by_start *b, int buffer, int above) {
  if (above == NONE)
    b->highest = buffer;
  else
    b->at[above].below = buffer;
  if (buffer != NONE) b->at[buffer].above = above;
  if (above == NONE) return;
  b->at[above].gap = b->buffers[above].offset - top(b, buffer);
  regap(b, b->root, above);
}

static void die(mrt_pack_by_start *b, int buffer) {
  int below = b->at[buffer].below, above = b->at[buffer].above;
  b->root = without(b, b->root, buffer);
  set_above(b, below, above);
}

static void bear(mrt_pack_by_start *b, int index, mrt_packed_buffer *buffer) {
  int low, high, above = find(b, b->root, buffer);
  int below = above == NONE ? b->highest : b->at[above].below;
  buffer->offset = mrt_pack_align(buffer, top(b, below));
  b->at[index] = (sliding_block){ .gap = buffer->offset - top(b, below),
                                  .left = NONE,
                                  .right = NONE,
                                  .below = below,
                                  .next = b->dying[death(b, buffer)] };
  b->dying[death(b, buffer)] = index;
  add_up(b, index);
  split(b, b->root, buffer->offset, &low, &high);
  b->root = merge(b, merge(b, low, index), high);
  if (below != NONE) b->at[below].above = index;
  set_above(b, index, above);
}

bool mrt_pack_by_start_rise(mrt_packing *p, const mrt_pack_order *order,
                            bool backwards) {
  mrt_pack_by_start *b = p->births;
  b->backwards = backwards;
  for (int k = 1; k < p->n; k++)
    if (birth(b, &p->buffers[order[k].buffer]) <
        birth(b, &p->buffers[order[k - 1].buffer]))
      return false;
  return true;
}

int64_t mrt_pack_by_start_run(mrt_packing *p, const mrt_pack_order *order,
                              int64_t limit) {
  mrt_pack_by_start *b = p->births;
  int64_t height = 0;
  int dead = 0;
  b->root = b->highest = NONE;
  for (int s = 0; s < p->sections; s++) b->dying[s] = NONE;
  for (int k = 0; k < p->n; k++) {
    mrt_packed_buffer *buffer = &p->buffers[order[k].buffer];
    for (; dead < birth(b, buffer); dead++)
      for (int i = b->dying[dead]; i != NONE; i = b->at[i].next) die(b, i);
    bear(b, order[k].buffer, buffer);
    if (buffer->offset + buffer->size > height)
      height = buffer->offset + buffer->size;
    if (height >= limit) return INT64_MAX;
  }
  return height;
}
