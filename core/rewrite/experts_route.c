/* experts_route.c -- which row goes to which rank, and back
 *
 *   question  rows are sorted by expert, and each rank has some of the experts:
 *             where does each row go, and where does it come back?
 *   method    Of what a rank gives to another there are C places, however many
 *             rows there are: so what moves and what memory it takes is known
 *             before the step.  Experts of one rank follow each other, so what
 *             goes to it is one run of the rows.  With the rows go, of each
 *             rank, the ends of each expert's; who gets them sorts the places by
 *             expert.
 *   never     drops a row where C = R; else those behind the first C of a run
 *   from      Lepikhin et al., GShard, 2020 (arXiv:2006.16668): experts on ranks
 *             of their own, two exchanges; DeepSeek-AI, DeepSeek-V2, 2024
 *             (arXiv:2405.04434), section 2.2.4: room of a device, not of an
 *             expert
 *
 * SPDX-License-Identifier: MIT */
#include "op/collective.h"
#include "op/move.h"
#include "op/order.h"
#include "op/reduce.h"
#include "op/search.h"
#include "rewrite/experts.h"
#include "rewrite/partition_build.h"

/* ---- small numbers, as nodes --------------------------------------------- */

static mrt_type numbers(int rank, int64_t a, int64_t b) {
  return (mrt_type){ .dtype = MRT_i64, .rank = rank, .dims = { a, b } };
}
static mrt_value *row(building *b, mrt_value *v, int64_t n) {
  mrt_type to = numbers(1, n, 0);
  return shaped(b, MRT_OP_reshape, v, &to);
}
static mrt_value *table(building *b, mrt_value *v, int64_t m, int64_t n) {
  mrt_type to = numbers(2, m, n);
  return shaped(b, MRT_OP_reshape, v, &to);
}
static mrt_value *repeated(building *b, mrt_value *v, int64_t m, int64_t n) {
  mrt_type to = numbers(2, m, n);
  return shaped(b, MRT_OP_expand, v, &to);
}

static mrt_value *count_up(building *b, int64_t n) {
  mrt_arange_options o = { 0, (double)n, 1, MRT_i64 };
  return put(b, MRT_OP_arange, &o, 0, NULL);
}

static mrt_value *at_most(building *b, mrt_value *v, int64_t k) {
  return v ? PUT(b, minimum, NULL, v, constant(b, (double)k, &v->type)) : NULL;
}
static mrt_value *below(building *b, mrt_value *v, int64_t k) {
  return v ? PUT(b, lt, NULL, v, constant(b, (double)k, &v->type)) : NULL;
}

static mrt_value *running_sum(building *b, mrt_value *v, int64_t dim) {
  mrt_cumsum_options o = { .dim = dim };
  return PUT(b, cumsum, &o, v);
}

static mrt_value *part(building *b, mrt_value *v, int64_t dim, int64_t first,
                       int64_t last) {
  mrt_slice_options o = { dim, first, last, 1 };
  return PUT(b, slice, &o, v);
}

/* How many of each row of `ends` are at most each of `values`. */
static mrt_value *passed(building *b, mrt_value *ends, mrt_value *values) {
  mrt_searchsorted_options o = { .right = true };
  return PUT(b, searchsorted, &o, ends, values);
}

/* Positions of the elements in ascending order. */
static mrt_value *sorted(building *b, mrt_value *v) {
  mrt_sort_options o = { .dim = 0 };
  mrt_value *out[2] = { NULL, NULL };
  if (v && !b->status)
    b->status =
        mrt_partition_put_all(b->p, MRT_OP_sort, &o, 1, &v, b->origin, out, 2);
  return b->status ? NULL : out[1];
}

static mrt_value *chosen(building *b, mrt_value *from, mrt_value *which) {
  mrt_dim_options o = { .dim = 0 };
  return PUT(b, gather, &o, from, which);
}

static mrt_value *exchanged(building *b, mrt_value *v) {
  mrt_collective_options o = {
    .rank = b->p->rank, .size = b->p->size, .comm = b->p->comm, .lazy = true
  };
  return PUT(b, all_to_all, &o, v);
}

/* ---- routes -------------------------------------------------------------- */

/* The places that came, by expert; those that hold no row come last.  `within`
 * [n, G]: the ends of each expert's rows among those for its rank. */
static void order_places(building *b, mrt_route *r, int64_t experts,
                         mrt_value *within, mrt_value *slots) {
  mrt_bincount_options bins = { .size = experts + 1 };
  mrt_value *expert =
      row(b, passed(b, exchanged(b, within), slots), b->p->size * r->room);
  r->order = sorted(b, expert);
  r->places = sorted(b, r->order);
  r->own = part(b, PUT(b, bincount, &bins, expert), 0, 0, experts - 1);
}

/* Where each row went; `ends` and `before`, of each rank: the first row behind
 * what goes to it, and how many stand before.  Rows of no expert go to the last
 * rank, behind its own: a product makes 0 of them there as well, and what is
 * computed of that 0 is what the program has. */
static void find_home(building *b, mrt_route *r, mrt_value *ends,
                      mrt_value *before) {
  mrt_type rows = numbers(1, r->rows, 0);
  mrt_value *all = count_up(b, r->rows);
  mrt_value *of = at_most(b, passed(b, ends, all), b->p->size - 1);
  mrt_value *place = PUT(b, sub, NULL, all, chosen(b, before, of));
  if (r->room < r->rows) {
    r->kept = below(b, place, r->room);
    place = at_most(b, place, r->room - 1);
  }
  mrt_value *room = constant(b, (double)r->room, &rows);
  r->home = PUT(b, add, NULL, place, PUT(b, mul, NULL, of, room));
}

/* Counts that no rows have, a negative one or more than there are, make all of
 * this rank's negative, which its products refuse. */
static void refuse_bad(building *b, mrt_route *r, int64_t experts,
                       mrt_value *counts, mrt_value *sums) {
  mrt_reduce_options first = { .dim = { 1, { 0 } }, .keepdim = true };
  mrt_type one = numbers(1, 1, 0), own = numbers(1, experts, 0);
  int64_t last = experts * b->p->size - 1;
  mrt_value *rest = PUT(b, sub, NULL, constant(b, (double)r->rows, &one),
                        part(b, sums, 0, last, last));
  mrt_value *least = PUT(b, minimum, NULL, rest, PUT(b, amin, &first, counts));
  mrt_value *bad = shaped(b, MRT_OP_expand, below(b, least, 0), &own);
  r->own = PUT(b, where, NULL, bad, constant(b, -1, &own), r->own);
}

mrt_status mrt_route_make(mrt_partition *p, mrt_value *counts, bool sure,
                          mrt_route *r) {
  building b = { p, counts->origin, MRT_OK };
  int64_t n = p->size, own = counts->type.dims[0] / n, C = r->room;
  counts = cast(&b, counts, MRT_i64);
  mrt_value *sums = running_sum(&b, counts, 0);
  mrt_value *within = running_sum(&b, table(&b, counts, n, own), 1);
  mrt_value *ends = part(&b, table(&b, sums, n, own), 1, own - 1, own - 1);
  mrt_value *before =
      PUT(&b, sub, NULL, ends, part(&b, within, 1, own - 1, own - 1));
  if (C < r->rows) within = at_most(&b, within, C);
  mrt_value *slots = repeated(&b, table(&b, count_up(&b, C), 1, C), n, C);
  mrt_value *take = PUT(&b, add, NULL, repeated(&b, before, n, C), slots);
  r->take = row(&b, at_most(&b, take, r->rows - 1), n * C);
  order_places(&b, r, own, within, slots);
  find_home(&b, r, row(&b, ends, n), row(&b, before, n));
  if (!sure) refuse_bad(&b, r, own, counts, sums);
  return b.status;
}

/* ---- rows ---------------------------------------------------------------- */

static mrt_value *rows_at(building *b, mrt_value *x, mrt_value *which) {
  return PUT(b, embedding, NULL, x, which);
}

mrt_status mrt_route_send(mrt_partition *p, const mrt_route *r, mrt_value *x,
                          mrt_value **out) {
  building b = { p, x->origin, MRT_OK };
  mrt_value *came = exchanged(&b, rows_at(&b, x, r->take));
  *out = rows_at(&b, came, r->order);
  return b.status;
}

/* What is not kept becomes 0. */
static mrt_value *kept_only(building *b, const mrt_route *r, mrt_value *y) {
  if (!y) return NULL;
  mrt_value *kept = table(b, r->kept, r->rows, 1);
  return PUT(b, where, NULL, shaped(b, MRT_OP_expand, kept, &y->type), y,
             constant(b, 0, &y->type));
}

mrt_status mrt_route_return(mrt_partition *p, const mrt_route *r, mrt_value *y,
                            mrt_value **out) {
  building b = { p, y->origin, MRT_OK };
  mrt_value *back = exchanged(&b, rows_at(&b, y, r->places));
  *out = rows_at(&b, back, r->home);
  if (r->kept) *out = kept_only(&b, r, *out);
  return b.status;
}
