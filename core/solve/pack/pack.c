/* pack.c -- the lowest packing: set up, the stages in turn, the answer
 *
 *   method  Number the items by what they are, cut time into sections, bound
 *           the height by the largest live sum; then a portfolio of first-fit
 *           orders, then an exact search: of the whole, or of the items near the
 *           peak when the whole is too large.
 *           Each stage ends as soon as the goal is met.
 *   cost    O(n log n) here; the stages state their own
 *
 * SPDX-License-Identifier: MIT */
#include "solve/pack/pack.h"

#include "tensor/tensor.h"

#include <stdlib.h>

/* Items walked past by first fit, in all orders together. */
static const int64_t fit_work = 800000000, quick_work = 30000000;

typedef struct piece { /* one of the caller's items */
  const mrt_pack_item *item;
  int index;
} piece;

static int compare(int64_t a, int64_t b) { return (a > b) - (a < b); }

/* Items that compare equal may take each other's place. */
static int by_what_it_is(const void *a, const void *b) {
  const piece *x = a, *y = b;
  int c = compare(x->item->first, y->item->first);
  if (!c) c = compare(x->item->last, y->item->last);
  if (!c) c = (x->item->size < y->item->size) - (x->item->size > y->item->size);
  if (!c) c = compare((int64_t)x->item->alignment, (int64_t)y->item->alignment);
  return c ? c : x->index - y->index;
}

static int rising(const void *a, const void *b) {
  return compare(*(const int64_t *)a, *(const int64_t *)b);
}

static mrt_status check(mrt_error *error, const mrt_pack_item *items, int n) {
  size_t sum = 0;
  for (int i = 0; i < n; i++) {
    const mrt_pack_item *item = &items[i];
    if (item->last < item->first)
      return mrt_fail(error, MRT_EVALUE,
                      "pack: item %d ends at %lld, before it begins at %lld",
                      i + 1, (long long)item->last, (long long)item->first);
    size_t most = (size_t)1 << 62;
    if (item->size > most || item->alignment > most - item->size ||
        sum > most - item->size - item->alignment)
      return mrt_fail(error, MRT_EVALUE,
                      "pack: sizes add up to more than 62 bits at item %d",
                      i + 1);
    sum += item->size + item->alignment;
  }
  return MRT_OK;
}

/* The items that take room, in their order, into *pieces. */
static mrt_status collect(mrt_packing *p, mrt_pack_item *items, int n,
                          piece **pieces) {
  *pieces = MRT_NEW(p->arena, piece, n);
  p->items = MRT_NEW(p->arena, mrt_packed, n);
  if (!*pieces || !p->items) return MRT_ENOMEM;
  for (int i = 0; i < n; i++) {
    items[i].offset = 0;
    if (items[i].size) (*pieces)[p->n++] = (piece){ &items[i], i };
  }
  if (p->n) qsort(*pieces, (size_t)p->n, sizeof **pieces, by_what_it_is);
  for (int i = 0; i < p->n; i++) {
    const mrt_pack_item *item = (*pieces)[i].item;
    p->items[i] = (mrt_packed){
      .size = (int64_t)item->size,
      .align = item->alignment ? (int64_t)item->alignment : 1,
      .offset = -1,
      .duration = (double)item->last - (double)item->first + 1,
    };
  }
  return MRT_OK;
}

/* A section begins with the first item that is born after a death: all born
 * until the next death meet all that then live. */
static mrt_status cut(mrt_packing *p, const piece *pieces) {
  int64_t *ends = MRT_NEW(p->arena, int64_t, p->n);
  int64_t *begin = MRT_NEW(p->arena, int64_t, p->n);
  if (!ends || !begin) return MRT_ENOMEM;
  for (int i = 0; i < p->n; i++) ends[i] = pieces[i].item->last;
  if (p->n) qsort(ends, (size_t)p->n, sizeof *ends, rising);
  for (int i = 0, dead = 0; i < p->n; i++) {
    bool died = false;
    for (; ends[dead] < pieces[i].item->first; dead++) died = true;
    if (died || i == 0) begin[p->sections++] = pieces[i].item->first;
    p->items[i].first = p->sections - 1;
  }
  for (int i = 0; i < p->n; i++) {
    int low = p->items[i].first, high = p->sections;
    while (high - low > 1) {
      int middle = low + (high - low) / 2;
      if (begin[middle] <= pieces[i].item->last)
        low = middle;
      else
        high = middle;
    }
    p->items[i].last = low;
  }
  return MRT_OK;
}

/* Each item's largest live sum: maxima over runs of 2^k sections, for all
 * items of such a length at once. */
static mrt_status weigh(mrt_packing *p) {
  int64_t *run = MRT_NEW(p->arena, int64_t, p->sections + 1);
  p->live = MRT_NEW(p->arena, int64_t, p->sections + 1);
  if (!p->live || !run) return MRT_ENOMEM;
  for (int i = 0; i < p->n; i++) {
    p->live[p->items[i].first] += p->items[i].size;
    p->live[p->items[i].last + 1] -= p->items[i].size;
  }
  for (int s = 0; s < p->sections; s++) {
    if (s) p->live[s] += p->live[s - 1];
    if (p->live[s] > p->bound) p->bound = p->live[s];
    run[s] = p->live[s];
  }
  for (int width = 1; width <= p->sections; width *= 2) {
    for (int i = 0; i < p->n; i++) {
      mrt_packed *item = &p->items[i];
      int length = item->last - item->first + 1;
      if (length < width || length >= 2 * width) continue;
      int64_t a = run[item->first], b = run[item->last - width + 1];
      item->load = a > b ? a : b;
    }
    for (int s = 0; s + width < p->sections; s++)
      if (run[s + width] > run[s]) run[s] = run[s + width];
  }
  return MRT_OK;
}

void mrt_pack_keep(mrt_packing *p, int64_t height) {
  for (int i = 0; i < p->n; i++) p->items[i].best = p->items[i].offset;
  p->height = height;
}

static mrt_status solve(mrt_packing *p, const piece *pieces, size_t capacity) {
  MRT_TRY(cut(p, pieces));
  MRT_TRY(weigh(p));
  p->goal = p->enough = p->bound;
  p->limited = capacity > 0;
  if (capacity < INT64_MAX && (int64_t)capacity > p->enough)
    p->enough = (int64_t)capacity;
  MRT_TRY(mrt_fit_new(p));
  MRT_TRY(mrt_births_new(p));
  MRT_TRY(mrt_pack_orders(p, NULL));
  if (p->height <= p->enough || !p->effort) return MRT_OK;
  return p->n <= MRT_PACK_SMALL ? mrt_pack_search(p) : mrt_pack_peak(p);
}

mrt_status mrt_pack_in(mrt_arena *arena, mrt_error *error, mrt_pack_item *items,
                       int n, size_t capacity, int effort,
                       mrt_pack_result *result) {
  mrt_packing p = { .arena = arena,
                    .height = INT64_MAX,
                    .effort = effort,
                    .fit_work = effort ? fit_work : quick_work };
  piece *pieces;
  MRT_TRY(check(error, items, n));
  mrt_status s = collect(&p, items, n, &pieces);
  if (!s && p.n) s = solve(&p, pieces, capacity);
  if (s) return mrt_nomem(error);
  for (int i = 0; i < p.n; i++)
    items[pieces[i].index].offset = (size_t)p.items[i].best;
  *result = (mrt_pack_result){
    .height = p.n ? (size_t)p.height : 0,
    .bound = (size_t)p.bound,
    .nodes = p.nodes,
    .proven = !p.n || p.height <= p.goal,
  };
  return MRT_OK;
}

mrt_status mrt_pack(mrt_context *ctx, mrt_pack_item *items, int n,
                    size_t capacity, mrt_pack_result *result) {
  mrt_arena arena;
  mrt_arena_init(&arena, ctx->allocator);
  mrt_status s = mrt_pack_in(&arena, &ctx->error, items, n, capacity,
                             MRT_PACK_EFFORT, result);
  mrt_arena_free(&arena);
  return s;
}
