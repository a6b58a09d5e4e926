/* pack.c -- the lowest packing: set up, the stages in turn, the answer
 *
 *   method  Number the buffers by what they are, cut time into sections, bound
 *           the height by the largest live sum; then a portfolio of first-fit
 *           orders, then an exact search: of the whole, or of the buffers near
 *           the peak when the whole is too large.
 *           Each stage ends as soon as the goal is met.
 *   cost    O(n log n) here; the stages state their own
 *
 * SPDX-License-Identifier: MIT */
#include "solve/pack/pack.h"

#include <stdlib.h>

/* Items walked past by first fit, in all orders together. */
static const int64_t fit_work = 800000000, quick_work = 30000000;

typedef struct pack_piece { /* one of the caller's buffers */
  const mrt_pack_buffer *buffer;
  int index;
} pack_piece;

static int compare(int64_t a, int64_t b) { return (a > b) - (a < b); }

/* Items that compare equal may take each other's place. */
static int by_what_it_is(const void *a, const void *b) {
  const pack_piece *x = a, *y = b;
  int c = compare(x->buffer->first, y->buffer->first);
  if (!c) c = compare(x->buffer->last, y->buffer->last);
  if (!c)
    c = (x->buffer->size < y->buffer->size) -
        (x->buffer->size > y->buffer->size);
  if (!c)
    c = compare((int64_t)x->buffer->alignment, (int64_t)y->buffer->alignment);
  return c ? c : x->index - y->index;
}

static int rising(const void *a, const void *b) {
  return compare(*(const int64_t *)a, *(const int64_t *)b);
}

static mrt_status check(mrt_error *error, const mrt_pack_buffer *buffers,
                        int n) {
  size_t sum = 0;
  for (int i = 0; i < n; i++) {
    const mrt_pack_buffer *buffer = &buffers[i];
    if (buffer->last < buffer->first)
      return mrt_fail(error, MRT_EVALUE,
                      "pack: buffer %d ends at %lld, before it begins at %lld",
                      i + 1, (long long)buffer->last, (long long)buffer->first);
    size_t most = (size_t)1 << 62;
    if (buffer->size > most || buffer->alignment > most - buffer->size ||
        sum > most - buffer->size - buffer->alignment)
      return mrt_fail(error, MRT_EVALUE,
                      "pack: sizes add up to more than 62 bits at buffer %d",
                      i + 1);
    sum += buffer->size + buffer->alignment;
  }
  return MRT_OK;
}

/* The buffers that take room, in their order, into *pieces. */
static mrt_status collect(mrt_packing *p, mrt_pack_buffer *buffers, int n,
                          pack_piece **pieces) {
  *pieces = MRT_NEW(p->arena, pack_piece, n);
  p->buffers = MRT_NEW(p->arena, mrt_packed_buffer, n);
  if (!*pieces || !p->buffers) return MRT_ENOMEM;
  for (int i = 0; i < n; i++) {
    buffers[i].offset = 0;
    if (buffers[i].size) (*pieces)[p->n++] = (pack_piece){ &buffers[i], i };
  }
  if (p->n) qsort(*pieces, (size_t)p->n, sizeof **pieces, by_what_it_is);
  for (int i = 0; i < p->n; i++) {
    const mrt_pack_buffer *buffer = (*pieces)[i].buffer;
    p->buffers[i] = (mrt_packed_buffer){
      .size = (int64_t)buffer->size,
      .align = buffer->alignment ? (int64_t)buffer->alignment : 1,
      .offset = -1,
      .duration = (double)buffer->last - (double)buffer->first + 1,
    };
  }
  return MRT_OK;
}

/* A section begins with the first buffer that is born after a death: all born
 * until the next death meet all that then live. */
static mrt_status cut(mrt_packing *p, const pack_piece *pieces) {
  int64_t *ends = MRT_NEW(p->arena, int64_t, p->n);
  int64_t *begin = MRT_NEW(p->arena, int64_t, p->n);
  if (!ends || !begin) return MRT_ENOMEM;
  for (int i = 0; i < p->n; i++) ends[i] = pieces[i].buffer->last;
  if (p->n) qsort(ends, (size_t)p->n, sizeof *ends, rising);
  for (int i = 0, dead = 0; i < p->n; i++) {
    bool died = false;
    for (; ends[dead] < pieces[i].buffer->first; dead++) died = true;
    if (died || i == 0) begin[p->sections++] = pieces[i].buffer->first;
    p->buffers[i].first = p->sections - 1;
  }
  for (int i = 0; i < p->n; i++) {
    int low = p->buffers[i].first, high = p->sections;
    while (high - low > 1) {
      int middle = low + (high - low) / 2;
      if (begin[middle] <= pieces[i].buffer->last)
        low = middle;
      else
        high = middle;
    }
    p->buffers[i].last = low;
  }
  return MRT_OK;
}

/* Each buffer's largest live sum: maxima over runs of 2^k sections, for all
 * buffers of such a length at once. */
static mrt_status weigh(mrt_packing *p) {
  int64_t *run = MRT_NEW(p->arena, int64_t, p->sections + 1);
  p->live = MRT_NEW(p->arena, int64_t, p->sections + 1);
  if (!p->live || !run) return MRT_ENOMEM;
  for (int i = 0; i < p->n; i++) {
    p->live[p->buffers[i].first] += p->buffers[i].size;
    p->live[p->buffers[i].last + 1] -= p->buffers[i].size;
  }
  for (int s = 0; s < p->sections; s++) {
    if (s) p->live[s] += p->live[s - 1];
    if (p->live[s] > p->bound) p->bound = p->live[s];
    run[s] = p->live[s];
  }
  for (int width = 1; width <= p->sections; width *= 2) {
    for (int i = 0; i < p->n; i++) {
      mrt_packed_buffer *buffer = &p->buffers[i];
      int length = buffer->last - buffer->first + 1;
      if (length < width || length >= 2 * width) continue;
      int64_t a = run[buffer->first], b = run[buffer->last - width + 1];
      buffer->load = a > b ? a : b;
    }
    for (int s = 0; s + width < p->sections; s++)
      if (run[s + width] > run[s]) run[s] = run[s + width];
  }
  return MRT_OK;
}

void mrt_pack_keep(mrt_packing *p, int64_t height) {
  for (int i = 0; i < p->n; i++) p->buffers[i].best = p->buffers[i].offset;
  p->height = height;
}

static mrt_status solve(mrt_packing *p, const pack_piece *pieces,
                        size_t capacity) {
  MRT_TRY(cut(p, pieces));
  MRT_TRY(weigh(p));
  p->goal = p->enough = p->bound;
  p->limited = capacity > 0;
  if (capacity < INT64_MAX && (int64_t)capacity > p->enough)
    p->enough = (int64_t)capacity;
  MRT_TRY(mrt_pack_fit_new(p));
  MRT_TRY(mrt_pack_by_start_new(p));
  MRT_TRY(mrt_pack_portfolio(p, NULL));
  if (p->height <= p->enough || !p->effort) return MRT_OK;
  return p->n <= MRT_PACK_SMALL ? mrt_pack_exact(p) : mrt_pack_peak_first(p);
}

mrt_status mrt_pack_in(mrt_arena *arena, mrt_error *error,
                       mrt_pack_buffer *buffers, int n, size_t capacity,
                       int effort, mrt_pack_result *result) {
  mrt_packing p = { .arena = arena,
                    .height = INT64_MAX,
                    .effort = effort,
                    .fit_work = effort ? fit_work : quick_work };
  pack_piece *pieces;
  MRT_TRY(check(error, buffers, n));
  mrt_status s = collect(&p, buffers, n, &pieces);
  if (!s && p.n) s = solve(&p, pieces, capacity);
  if (s) return mrt_nomem(error);
  for (int i = 0; i < p.n; i++)
    buffers[pieces[i].index].offset = (size_t)p.buffers[i].best;
  *result = (mrt_pack_result){
    .height = p.n ? (size_t)p.height : 0,
    .bound = (size_t)p.bound,
    .nodes = p.nodes,
    .proven = !p.n || p.height <= p.goal,
  };
  return MRT_OK;
}
