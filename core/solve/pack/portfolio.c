/* portfolio.c -- a portfolio of first-fit orders
 *
 *   method  First fit in each of these orders; the lowest packing wins, ties
 *           by the order tried first.  Stops at the goal.
 *   cost    that of first fit, for each order; a budget of counted work ends
 *           the list early for very large problems
 *   from    Pisarchyk & Lee, arXiv:2001.03288 (by size); Moffitt, ASPLOS 2023
 *           (the orders of W, A, T)
 *
 * SPDX-License-Identifier: MIT */
#include "solve/pack/pack.h"

#include <math.h>
#include <stdlib.h>

/* S size, W duration, A size times duration, T largest live sum in its
 * sections, C buffers met times size, B birth (early first), D death (late
 * first).  Falling; the second and third letter break ties. */
enum { QUICK = 2 }; /* orders of births or deaths: first fit is quick there */
static const char *const orders[] = { "BSW", "DSW", "SWA", "ASW", "WSA",
                                      "TAW", "TWA", "TSW", "WAT", "CSW" };

/* How many buffers each one meets, from counts of those begun and ended. */
static mrt_status count_meetings(const mrt_packing *p, double *meets) {
  int *begun = MRT_NEW(p->arena, int, p->sections + 1);
  int *ended = MRT_NEW(p->arena, int, p->sections + 1);
  if (!begun || !ended) return MRT_ENOMEM;
  for (int i = 0; i < p->n; i++)
    begun[p->buffers[i].first]++, ended[p->buffers[i].last + 1]++;
  for (int s = 1; s <= p->sections; s++)
    begun[s] += begun[s - 1], ended[s] += ended[s - 1];
  for (int i = 0; i < p->n; i++)
    meets[i] = begun[p->buffers[i].last] - ended[p->buffers[i].first];
  return MRT_OK;
}

static double key_of(char letter, const mrt_packed_buffer *i, double meets) {
  switch (letter) {
  case 'S':
    return (double)i->size;
  case 'W':
    return i->duration;
  case 'A':
    return (double)i->size * i->duration;
  case 'T':
    return (double)i->load;
  case 'C':
    return (double)i->size * meets;
  case 'D':
    return i->last;
  default:
    return -i->first;
  }
}

static int falling(const void *a, const void *b) {
  const mrt_pack_order *x = a, *y = b;
  for (int k = 0; k < 4; k++)
    if (x->key[k] != y->key[k]) return x->key[k] < y->key[k] ? 1 : -1;
  return x->buffer - y->buffer;
}

static void sort(const mrt_packing *p, const double *meets,
                 const double *before, const char *letters,
                 mrt_pack_order *order) {
  for (int i = 0; i < p->n; i++) {
    order[i].buffer = i;
    order[i].key[0] = before && before[i] >= 0 ? -before[i] : -INFINITY;
    for (int j = 0; j < 3; j++)
      order[i].key[j + 1] = key_of(letters[j], &p->buffers[i], meets[i]);
  }
  qsort(order, (size_t)p->n, sizeof *order, falling);
}

static void fit(mrt_packing *p, const mrt_pack_order *order,
                mrt_pack_fit_rule rule) {
  int64_t endless = INT64_MAX; /* the first one must end */
  int64_t height =
      mrt_pack_fit_run(p, order, rule, p->height,
                       p->height == INT64_MAX ? &endless : &p->fit_work);
  if (height < p->height) mrt_pack_keep(p, height);
}

mrt_status mrt_pack_portfolio(mrt_packing *p, const double *before) {
  mrt_pack_order *order = MRT_NEW(p->arena, mrt_pack_order, p->n);
  double *meets = MRT_NEW(p->arena, double, p->n);
  if (!order || !meets) return MRT_ENOMEM;
  MRT_TRY(count_meetings(p, meets));
  for (int k = 0; k < QUICK && p->height > p->enough; k++) {
    sort(p, meets, before, orders[k], order);
    fit(p, order, MRT_PACK_FIRST_FIT);
  }
  for (int k = 0; k < MRT_COUNT(orders) && p->height > p->enough; k++) {
    sort(p, meets, before, orders[k], order);
    if (k >= QUICK) fit(p, order, MRT_PACK_FIRST_FIT);
    if (p->height > p->enough) fit(p, order, MRT_PACK_BEST_FIT);
  }
  return MRT_OK;
}
