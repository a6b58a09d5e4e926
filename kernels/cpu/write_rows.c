/* write_rows.c -- rows written where they belong, of a variable
 *
 * Lines, what lies along the last dimension, are shared out among threads; each
 * is copied, or widened and rounded a piece at a time.
 *
 * SPDX-License-Identifier: MIT */
#include "floats.h"

#include <string.h>

enum { PIECE = 256 };

/* Lines of a row: [B, T] and the dimensions between these and the last. */
typedef struct rows {
  int64_t lines, width; /* lines in a row */
  int64_t T, S;
} rows;

static rows rows_of(const mrt_call *c) {
  const mrt_type *x = &c->in[1].type;
  rows r = {
    .lines = 1, .width = 1, .T = x->dims[1], .S = c->out[0].type.dims[1]
  };
  if (x->rank > 2) r.width = x->dims[x->rank - 1];
  for (int i = 2; i < x->rank - 1; i++) r.lines *= x->dims[i];
  return r;
}

/* Where line `line` of row (b, t) begins, in elements. */
static int64_t place_of(const mrt_operand *x, int64_t b, int64_t t,
                        int64_t line) {
  int64_t at = b * x->strides[0] + t * x->strides[1];
  for (int i = x->type.rank - 2; i >= 2; i--) {
    int64_t n = x->type.dims[i];
    at += line % n * x->strides[i], line /= n;
  }
  return at;
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
  const mrt_operand *var = &c->out[0], *x = &c->in[1], *start = &c->in[2];
  size_t size = mrt_dtypes[var->type.dtype].bytes;
  size_t read = mrt_dtypes[x->type.dtype].bytes;
  int64_t step = x->type.rank > 2 ? x->strides[x->type.rank - 1] : 1;
  int64_t i, end;
  mrt_share(x->type.dims[0] * r->T * r->lines, part, parts, &i, &end);
  for (; i < end; i++) {
    int64_t row = i / r->lines, line = i % r->lines, b = row / r->T;
    int64_t first = mrt_id(start->data, start->type.dtype, b);
    int64_t t = row % r->T;
    if (first < -t || first >= r->S - t) continue;
    char *to =
        (char *)var->data + (size_t)place_of(var, b, first + t, line) * size;
    const char *from =
        (const char *)x->data + place_of(x, b, t, line) * (int64_t)read;
    write_line(x, from, step, var, to, r->width);
  }
}

static void run(const mrt_call *c) {
  rows r = rows_of(c);
  double bytes = (double)mrt_type_bytes(&c->in[1].type);
  if (bytes == 0 || r.S == 0) return;
  mrt_parallel(c, mrt_team(c, bytes * 0.1), write_share, &r);
}

MRT_KERNEL(write_rows, .run = run);
