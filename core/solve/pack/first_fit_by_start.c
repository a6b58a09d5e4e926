/* first_fit_by_start.c -- first fit by rising birth, as a heap would allocate; or by
 *                  falling death, as one would with time running backwards
 *
 *   method  What lives when an item is born is disjoint, so the memory is a
 *           list of blocks and gaps.  The blocks are a treap by offset (Seidel
 *           and Aragon 1996) that knows the largest gap below any of a
 *           subtree's: the lowest gap that is large enough is found by one
 *           descent, and a death widens the gap of the block above.
 *   cost    O(log n) for one item where alignments are equal; memory O(n)
 *
 * SPDX-License-Identifier: MIT */
#include "solve/pack/pack.h"

enum { NONE = -1 };

typedef struct block { /* by item */
  int64_t gap, most;   /* free bytes below it; the largest of its subtree */
  int left, right;     /* in the treap */
  int below, above;    /* in memory */
  int next;            /* of those that die in the same section */
} block;

struct mrt_births {
  const mrt_packed *items;
  block *at;
  int *dying; /* by section: the first of the list, or NONE */
  int root, highest;
  int sections;
  bool backwards;
};

mrt_status mrt_births_new(mrt_packing *p) {
  mrt_births *b = MRT_NEW(p->arena, mrt_births, 1);
  if (!b) return MRT_ENOMEM;
  b->items = p->items, b->sections = p->sections;
  b->at = MRT_NEW(p->arena, block, p->n);
  b->dying = MRT_NEW(p->arena, int, p->sections);
  p->births = b;
  return b->at && b->dying ? MRT_OK : MRT_ENOMEM;
}

static int64_t top(const mrt_births *b, int item) {
  return item == NONE ? 0 : b->items[item].offset + b->items[item].size;
}

/* Sections counted the way time runs. */
static int birth(const mrt_births *b, const mrt_packed *i) {
  return b->backwards ? b->sections - 1 - i->last : i->first;
}

static int death(const mrt_births *b, const mrt_packed *i) {
  return b->backwards ? b->sections - 1 - i->first : i->last;
}

/* ---- the treap ----------------------------------------------------------- */

static uint32_t priority(int item) {
  uint32_t x = (uint32_t)item * 0x9E3779B1u;
  x = (x ^ x >> 15) * 0x85EBCA77u;
  return x ^ x >> 13;
}

static int64_t most(const mrt_births *b, int item) {
  return item == NONE ? -1 : b->at[item].most;
}

static void add_up(mrt_births *b, int item) {
  block *k = &b->at[item];
  int64_t left = most(b, k->left), right = most(b, k->right);
  int64_t under = left > right ? left : right;
  k->most = k->gap > under ? k->gap : under;
}

/* Blocks below `offset` into *low, the others into *high. */
static void split(mrt_births *b, int root, int64_t offset, int *low,
                  int *high) {
  if (root == NONE) {
    *low = *high = NONE;
    return;
  }
  if (b->items[root].offset < offset) {
    split(b, b->at[root].right, offset, &b->at[root].right, high);
    *low = root;
  } else {
    split(b, b->at[root].left, offset, low, &b->at[root].left);
    *high = root;
  }
  add_up(b, root);
}

/* All of `low` lie below all of `high`. */
static int merge(mrt_births *b, int low, int high) {
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

/* The tree without `item`, or with another gap below it. */
static int without(mrt_births *b, int root, int item) {
  block *k = &b->at[root];
  if (root == item) return merge(b, k->left, k->right);
  if (b->items[item].offset < b->items[root].offset)
    k->left = without(b, k->left, item);
  else
    k->right = without(b, k->right, item);
  add_up(b, root);
  return root;
}

static void regap(mrt_births *b, int root, int item) {
  const block *k = &b->at[root];
  if (root != item)
    regap(b, b->items[item].offset < b->items[root].offset ? k->left : k->right,
          item);
  add_up(b, root);
}

/* ---- births and deaths --------------------------------------------------- */

/* The lowest block with room for `item` below it. */
static int find(const mrt_births *b, int root, const mrt_packed *item) {
  if (most(b, root) < item->size) return NONE;
  const block *k = &b->at[root];
  int found = find(b, k->left, item);
  if (found != NONE) return found;
  int64_t at = mrt_pack_align(item, top(b, k->below));
  if (b->items[root].offset - at >= item->size) return root;
  return find(b, k->right, item);
}

static void set_above(mrt_births *b, int item, int above) {
  if (above == NONE)
    b->highest = item;
  else
    b->at[above].below = item;
  if (item != NONE) b->at[item].above = above;
  if (above == NONE) return;
  b->at[above].gap = b->items[above].offset - top(b, item);
  regap(b, b->root, above);
}

static void die(mrt_births *b, int item) {
  int below = b->at[item].below, above = b->at[item].above;
  b->root = without(b, b->root, item);
  set_above(b, below, above);
}

static void bear(mrt_births *b, int index, mrt_packed *item) {
  int low, high, above = find(b, b->root, item);
  int below = above == NONE ? b->highest : b->at[above].below;
  item->offset = mrt_pack_align(item, top(b, below));
  b->at[index] = (block){ .gap = item->offset - top(b, below),
                          .left = NONE,
                          .right = NONE,
                          .below = below,
                          .next = b->dying[death(b, item)] };
  b->dying[death(b, item)] = index;
  add_up(b, index);
  split(b, b->root, item->offset, &low, &high);
  b->root = merge(b, merge(b, low, index), high);
  if (below != NONE) b->at[below].above = index;
  set_above(b, index, above);
}

bool mrt_births_rise(mrt_packing *p, const mrt_pack_order *order,
                     bool backwards) {
  mrt_births *b = p->births;
  b->backwards = backwards;
  for (int k = 1; k < p->n; k++)
    if (birth(b, &p->items[order[k].item]) <
        birth(b, &p->items[order[k - 1].item]))
      return false;
  return true;
}

int64_t mrt_births_run(mrt_packing *p, const mrt_pack_order *order,
                       int64_t limit) {
  mrt_births *b = p->births;
  int64_t height = 0;
  int dead = 0;
  b->root = b->highest = NONE;
  for (int s = 0; s < p->sections; s++) b->dying[s] = NONE;
  for (int k = 0; k < p->n; k++) {
    mrt_packed *item = &p->items[order[k].item];
    for (; dead < birth(b, item); dead++)
      for (int i = b->dying[dead]; i != NONE; i = b->at[i].next) die(b, i);
    bear(b, order[k].item, item);
    if (item->offset + item->size > height) height = item->offset + item->size;
    if (height >= limit) return INT64_MAX;
  }
  return height;
}
