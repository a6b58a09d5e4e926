/* peak_first.c -- large problems: the peak first, by itself
 *
 *   method  The buffers alive near the peak are a small problem of their own:
 *           it is solved with all means.  They keep their places, and all
 *           others follow by first fit in the orders of the portfolio.  What
 *           counts as near begins at 97% of the bound and widens while the
 *           problem stays small enough for the exact search.
 *   cost    that of a small problem and of a portfolio, for each width
 *
 * SPDX-License-Identifier: MIT */
#include "solve/pack/pack.h"

static const double widths[] = { 0.97, 0.9, 0.8, 0.6 };

typedef struct peak {
  mrt_pack_buffer *buffers; /* those near the peak, a problem of their own */
  int *from;                /* and their numbers in the whole */
  int n;
} peak;

static void collect(const mrt_packing *p, double width, peak *near) {
  double least = width * (double)p->bound;
  near->n = 0;
  for (int i = 0; i < p->n; i++) {
    const mrt_packed_buffer *buffer = &p->buffers[i];
    if ((double)buffer->load < least) continue;
    near->from[near->n] = i;
    near->buffers[near->n++] =
        (mrt_pack_buffer){ .size = (size_t)buffer->size,
                           .first = buffer->first,
                           .last = buffer->last,
                           .alignment = (size_t)buffer->align };
  }
}

/* First fit of those near the peak by ascending offset leaves them where they
 * are, or lower; so they go before all others. */
static void put_first(const mrt_packing *p, const peak *near, double *before) {
  for (int i = 0; i < p->n; i++) before[i] = -1;
  for (int k = 0; k < near->n; k++)
    before[near->from[k]] = (double)near->buffers[k].offset;
}

mrt_status mrt_pack_peak_first(mrt_packing *p) {
  peak near = { .buffers = MRT_NEW(p->arena, mrt_pack_buffer, p->n),
                .from = MRT_NEW(p->arena, int, p->n) };
  double *before = MRT_NEW(p->arena, double, p->n);
  if (!near.buffers || !near.from || !before) return MRT_ENOMEM;
  for (int k = 0, last = 0; k < MRT_COUNT(widths); k++) {
    mrt_pack_result result;
    collect(p, widths[k], &near);
    if (near.n == last || p->height <= p->enough) continue;
    if (near.n > MRT_PACK_SMALL) break;
    last = near.n;
    MRT_TRY(mrt_pack_in(p->arena, NULL, near.buffers, near.n, (size_t)p->enough,
                        p->effort, &result));
    put_first(p, &near, before);
    MRT_TRY(mrt_pack_portfolio(p, before));
  }
  return MRT_OK;
}
