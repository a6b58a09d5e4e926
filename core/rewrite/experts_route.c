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
#include "op/cast.h"
#include "op/collective.h"
#include "op/make.h"
#include "op/move.h"
#include "op/order.h"
#include "op/reduce.h"
#include "op/search.h"
#include "op/views.h"
#include "rewrite/experts.h"

/* ---- small numbers, as nodes --------------------------------------------- */

typedef struct numbers {
  mrt_partition *p;
  mrt_origin at;
  mrt_status s; /* the first that failed; nothing is made from then on */
} numbers;

static mrt_value *put_at(numbers *w, int op, const void *options, int nin,
                         mrt_value *a, mrt_value *b, int output) {
  mrt_value *in[] = { a, b }, *out[2] = { NULL, NULL };
  if (!w->s)
    w->s = mrt_partition_put_all(w->p, op, options, nin, in, w->at, out,
                                 output + 1);
  return out[output];
}
static mrt_value *put(numbers *w, int op, const void *options, mrt_value *a,
                      mrt_value *b) {
  return put_at(w, op, options, b ? 2 : a ? 1 : 0, a, b, 0);
}

/* To one or two dimensions: [a], or [a, b]. */
static mrt_value *shaped(numbers *w, int op, mrt_value *v, int rank, int64_t a,
                         int64_t b) {
  mrt_shape_options o = { .shape = { .count = rank, .at = { a, b } } };
  return put(w, op, &o, v, NULL);
}
static mrt_value *row(numbers *w, mrt_value *v, int64_t n) {
  return shaped(w, MRT_OP_reshape, v, 1, n, 0);
}
static mrt_value *table(numbers *w, mrt_value *v, int64_t a, int64_t b) {
  return shaped(w, MRT_OP_reshape, v, 2, a, b);
}

static mrt_value *count_up(numbers *w, int64_t n) {
  mrt_arange_options o = { 0, (double)n, 1, MRT_i64 };
  return put(w, MRT_OP_arange, &o, NULL, NULL);
}

/* `k`, as often as `like` has elements. */
static mrt_value *number(numbers *w, int64_t k, const mrt_value *like) {
  mrt_full_options o = { .value = (double)k, .dtype = MRT_i64 };
  mrt_value *v = put(w, MRT_OP_full, &o, NULL, NULL);
  return w->s ? v
              : shaped(w, MRT_OP_expand, v, like->type.rank, like->type.dims[0],
                       like->type.dims[1]);
}
static mrt_value *at_most(numbers *w, mrt_value *v, int64_t k) {
  return w->s ? v : put(w, MRT_OP_minimum, NULL, v, number(w, k, v));
}
static mrt_value *below(numbers *w, mrt_value *v, int64_t k) {
  return w->s ? v : put(w, MRT_OP_lt, NULL, v, number(w, k, v));
}

static mrt_value *running_sum(numbers *w, mrt_value *v, int64_t dim) {
  mrt_cumsum_options o = { .dim = dim };
  return put(w, MRT_OP_cumsum, &o, v, NULL);
}

static mrt_value *part(numbers *w, mrt_value *v, int64_t dim, int64_t first,
                       int64_t last) {
  mrt_slice_options o = { dim, first, last, 1 };
  return put(w, MRT_OP_slice, &o, v, NULL);
}

/* How many of each row of `ends` are at most each of `values`. */
static mrt_value *passed(numbers *w, mrt_value *ends, mrt_value *values) {
  mrt_searchsorted_options o = { .right = true };
  return put(w, MRT_OP_searchsorted, &o, ends, values);
}

/* Positions of the elements in ascending order. */
static mrt_value *sorted(numbers *w, mrt_value *v) {
  mrt_sort_options o = { .dim = 0 };
  return put_at(w, MRT_OP_sort, &o, 1, v, NULL, 1);
}

static mrt_value *chosen(numbers *w, mrt_value *from, mrt_value *which) {
  mrt_dim_options o = { .dim = 0 };
  return put(w, MRT_OP_gather, &o, from, which);
}

static mrt_value *exchanged(numbers *w, mrt_value *v) {
  mrt_collective_options o = {
    .rank = w->p->rank, .size = w->p->size, .comm = w->p->comm, .lazy = true
  };
  return put(w, MRT_OP_all_to_all, &o, v, NULL);
}

/* ---- routes -------------------------------------------------------------- */

/* The places that came, by expert; those that hold no row come last. */
static void order_places(numbers *w, mrt_route *r, mrt_value *within,
                         mrt_value *slots) {
  int64_t n = w->p->size, own = within->type.dims[1];
  mrt_bincount_options bins = { .size = own + 1 };
  mrt_value *expert =
      row(w, passed(w, exchanged(w, within), slots), n * r->room);
  r->order = sorted(w, expert);
  r->places = sorted(w, r->order);
  r->own = part(w, put(w, MRT_OP_bincount, &bins, expert, NULL), 0, 0, own - 1);
}

/* Where each row went; `ends` and `before`, of each rank: the first row behind
 * what goes to it, and how many stand before.  Rows of no expert go to the last
 * rank, behind its own: a product makes 0 of them there as well, and what is
 * computed of that 0 is what the program has. */
static void find_home(numbers *w, mrt_route *r, mrt_value *ends,
                      mrt_value *before) {
  mrt_value *rows = count_up(w, r->rows);
  mrt_value *of = at_most(w, passed(w, ends, rows), w->p->size - 1);
  mrt_value *place = put(w, MRT_OP_sub, NULL, rows, chosen(w, before, of));
  if (r->room < r->rows) {
    r->kept = below(w, place, r->room);
    place = at_most(w, place, r->room - 1);
  }
  if (w->s) return;
  mrt_value *first = put(w, MRT_OP_mul, NULL, of, number(w, r->room, of));
  r->home = put(w, MRT_OP_add, NULL, place, first);
}

/* Counts that no rows have, a negative one or more than there are, make all of
 * this rank's negative, which its products refuse. */
static void refuse_bad(numbers *w, mrt_route *r, mrt_value *counts) {
  mrt_reduce_options first = { .dim = { 1, { 0 } }, .keepdim = true };
  int64_t last = counts->type.dims[0] - 1;
  mrt_value *total = part(w, running_sum(w, counts, 0), 0, last, last);
  if (w->s) return;
  mrt_value *rest = put(w, MRT_OP_sub, NULL, number(w, r->rows, total), total);
  mrt_value *least = put(w, MRT_OP_minimum, NULL, rest,
                         put(w, MRT_OP_amin, &first, counts, NULL));
  mrt_value *bad = below(w, least, 0);
  if (w->s) return;
  int64_t own = r->own->type.dims[0];
  mrt_value *in[] = { shaped(w, MRT_OP_expand, bad, 1, own, 0),
                      number(w, -1, r->own), r->own };
  if (!w->s)
    w->s = mrt_partition_put(w->p, MRT_OP_where, NULL, 3, in, w->at, &r->own);
}

mrt_status mrt_route_make(mrt_partition *p, mrt_value *counts, bool sure,
                          mrt_route *r) {
  numbers w = { p, counts->origin, MRT_OK };
  int64_t n = p->size, own = counts->type.dims[0] / n, C = r->room;
  mrt_cast_options wide = { .dtype = MRT_i64 };
  if (counts->type.dtype != MRT_i64)
    counts = put(&w, MRT_OP_cast, &wide, counts, NULL);
  mrt_value *within = running_sum(&w, table(&w, counts, n, own), 1);
  mrt_value *ends = part(&w, table(&w, running_sum(&w, counts, 0), n, own), 1,
                         own - 1, own - 1);
  mrt_value *before =
      put(&w, MRT_OP_sub, NULL, ends, part(&w, within, 1, own - 1, own - 1));
  if (C < r->rows) within = at_most(&w, within, C);
  mrt_value *slots =
      shaped(&w, MRT_OP_expand, table(&w, count_up(&w, C), 1, C), 2, n, C);
  mrt_value *take = put(&w, MRT_OP_add, NULL,
                        shaped(&w, MRT_OP_expand, before, 2, n, C), slots);
  r->take = row(&w, at_most(&w, take, r->rows - 1), n * C);
  if (!w.s) order_places(&w, r, within, slots);
  if (!w.s) find_home(&w, r, row(&w, ends, n), row(&w, before, n));
  if (!w.s && !sure) refuse_bad(&w, r, counts);
  return w.s;
}

/* ---- rows ---------------------------------------------------------------- */

static mrt_value *rows_at(numbers *w, mrt_value *x, mrt_value *which) {
  return put(w, MRT_OP_embedding, NULL, x, which);
}

mrt_status mrt_route_send(mrt_partition *p, const mrt_route *r, mrt_value *x,
                          mrt_value **out) {
  numbers w = { p, x->origin, MRT_OK };
  mrt_value *came = exchanged(&w, rows_at(&w, x, r->take));
  *out = rows_at(&w, came, r->order);
  return w.s;
}

/* What is not kept becomes 0. */
static mrt_value *kept_only(numbers *w, const mrt_route *r, mrt_value *y) {
  mrt_full_options none = { .value = 0, .dtype = y->type.dtype };
  mrt_shape_options shape = { .shape = { .count = y->type.rank } },
                    column = shape;
  for (int i = 0; i < y->type.rank; i++) {
    shape.shape.at[i] = y->type.dims[i];
    column.shape.at[i] = i ? 1 : y->type.dims[0];
  }
  mrt_value *kept = put(w, MRT_OP_reshape, &column, r->kept, NULL);
  mrt_value *zero = put(w, MRT_OP_full, &none, NULL, NULL);
  mrt_value *in[] = { put(w, MRT_OP_expand, &shape, kept, NULL), y,
                      put(w, MRT_OP_expand, &shape, zero, NULL) };
  if (!w->s)
    w->s = mrt_partition_put(w->p, MRT_OP_where, NULL, 3, in, w->at, &y);
  return y;
}

mrt_status mrt_route_return(mrt_partition *p, const mrt_route *r, mrt_value *y,
                            mrt_value **out) {
  numbers w = { p, y->origin, MRT_OK };
  mrt_value *back = exchanged(&w, rows_at(&w, y, r->places));
  *out = rows_at(&w, back, r->home);
  if (r->kept && !w.s) *out = kept_only(&w, r, *out);
  return w.s;
}
