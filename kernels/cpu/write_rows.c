/* write_rows.c -- rows written where they belong, of a variable
 *
 * Lines, what lies along the last dimension, are shared out among threads; each
 * is copied, or widened and rounded a piece at a time.
 *
 * SPDX-License-Identifier: MIT */
#include "floats.h"
#include "op/move.h"

#include <string.h>

enum { PIECE = 256 };

/* Dimensions before those of a line: the last is one, unless rows go along it. */
typedef struct rows {
  int outer, dim;
  int64_t width; /* elements of a line */
  int64_t T, S;
} rows;

static rows rows_of(const mrt_call *c) {
  const mrt_type *x = &c->in[1].type;
  int dim = (int)((const mrt_dim_options *)c->options)->dim;
  bool last = dim == x->rank - 1;
  return (rows){ .outer = x->rank - !last,
                 .dim = dim,
                 .width = last ? 1 : x->dims[x->rank - 1],
                 .T = x->dims[dim],
                 .S = c->out[0].type.dims[dim] };
}

/* Where line `i` of x lies in both, in elements, its row at that of the starts;
 * false: it belongs nowhere. */
static bool place_of(const mrt_call *c, const rows *r, int64_t i, int64_t *from,
                     int64_t *to) {
  const mrt_operand *var = &c->out[0], *x = &c->in[1], *start = &c->in[2];
  int64_t t = 0, at = 0;
  *from = *to = 0;
  for (int d = r->outer - 1; d >= 0; d--) {
    int64_t n = x->type.dims[d];
    at = i % n, i /= n;
    if (d == r->dim) t = at;
    *from += at * x->strides[d], *to += at * var->strides[d];
  }
  int64_t first = mrt_id(start->data, start->type.dtype, at);
  if (first < -t || first >= r->S - t) return false;
  *to += first * var->strides[r->dim];
  return true;
}

static void copy_apart(size_t size, const char *from, int64_t step, char *to,
                       int64_t n) {
  if (step == 1) {
    memcpy(to, from, (size_t)n * size);
    return;
  }
  for (int64_t i = 0; i < n; i++)
    memcpy(to + (size_t)i * size, from + (size_t)(i * step) * size, size);
}

static void write_line(const mrt_operand *x, const char *from, int64_t step,
                       const mrt_operand *var, char *to, int64_t n) {
  mrt_dtype narrow = var->type.dtype, given = x->type.dtype;
  size_t size = mrt_dtypes[narrow].bytes, read = mrt_dtypes[given].bytes;
  if (narrow == given) {
    copy_apart(size, from, step, to, n);
    return;
  }
  real room[PIECE];
  for (int64_t i = 0; i < n; i += PIECE) {
    int64_t some = n - i < PIECE ? n - i : PIECE;
    const char *at = from + (size_t)(i * step) * read;
    mrt_widen_apart(given, at, step, room, some);
    mrt_round(narrow, room, to + (size_t)i * size, some);
  }
}

static void write_share(const mrt_call *c, const void *shared, int part,
                        int parts) {
  const rows *r = shared;
  const mrt_operand *var = &c->out[0], *x = &c->in[1];
  size_t size = mrt_dtypes[var->type.dtype].bytes;
  size_t read = mrt_dtypes[x->type.dtype].bytes;
  int64_t step = x->strides[x->type.rank - 1], i, end, from, to;
  mrt_share(mrt_type_count(&x->type) / r->width, part, parts, &i, &end);
  for (; i < end; i++)
    if (place_of(c, r, i, &from, &to))
      write_line(x, (const char *)x->data + from * (int64_t)read, step, var,
                 (char *)var->data + to * (int64_t)size, r->width);
}

static void run(const mrt_call *c) {
  rows r = rows_of(c);
  double bytes = (double)mrt_type_bytes(&c->in[1].type);
  if (bytes == 0 || r.S == 0) return;
  mrt_parallel(c, mrt_team(c, bytes * 0.1), write_share, &r);
}

MRT_KERNEL(write_rows, .run = run);
