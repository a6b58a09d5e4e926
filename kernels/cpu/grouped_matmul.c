/* grouped_matmul.c -- rows in groups, each times a matrix of its own group
 *
 * A thread takes its part of every group's product: the groups are cut among
 * threads as one product is, so that few large ones and many small ones are
 * shared alike.
 *
 * SPDX-License-Identifier: MIT */
#include "floats.h"
#include "gemm/gemm.h"

#include <string.h>

/* All products, as that of group 0 with every row; `dw`: rows are summed over.
 * `w` is how far apart the groups' matrices are. */
typedef struct row_groups {
  mrt_gemm g;
  int64_t count, rows, w;
  bool dw;
  const mrt_operand *counts;
} row_groups;

static mrt_matrix matrix_of(const mrt_operand *x, int row, int col) {
  return (mrt_matrix){ x->data, x->strides[row], x->strides[col],
                       x->type.dtype };
}

static row_groups groups_of(const mrt_call *c, bool dw) {
  const mrt_operand *x = &c->in[0], *w = &c->in[1], *y = &c->out[0];
  int64_t M = x->type.dims[0], K = x->type.dims[1];
  int last = w->type.rank - 1;
  int64_t N = w->type.dims[last];
  row_groups s = { .count = c->in[2].type.dims[0],
                   .rows = M,
                   .w = dw ? K * N : w->strides[0],
                   .dw = dw,
                   .counts = &c->in[2] };
  s.g = (mrt_gemm){ .m = dw ? K : M,
                    .n = N,
                    .k = dw ? M : K,
                    .a = dw ? matrix_of(x, 1, 0) : matrix_of(x, 0, 1),
                    .b = matrix_of(w, last - 1, last),
                    .compute = MRT_DTYPE_COUNT,
                    .accumulate = MRT_DTYPE_COUNT,
                    .dots = c->dots,
                    .tiles = c->tiles,
                    .c = y->data,
                    .dtype = y->type.dtype,
                    .row = N,
                    .col = 1 };
  return s;
}

/* The product of group `i`, whose rows are [at, at + n). */
static mrt_gemm product_of(const row_groups *s, int64_t i, int64_t at,
                           int64_t n) {
  mrt_gemm g = s->g;
  *(s->dw ? &g.k : &g.m) = n;
  if (s->dw) {
    g.a.data = mrt_matrix_at(&s->g.a, 0, at);
    g.b.data = mrt_matrix_at(&s->g.b, at, 0);
    g.c = (char *)s->g.c + i * s->w * (int64_t)mrt_dtypes[g.dtype].bytes;
    return g;
  }
  g.a.data = mrt_matrix_at(&s->g.a, at, 0);
  g.b.data = (const char *)s->g.b.data +
             i * s->w * (int64_t)mrt_dtypes[g.b.dtype].bytes;
  g.c = mrt_gemm_to(&s->g, at, 0);
  return g;
}

/* How many rows group `i` has, of `left`; what cannot be is reported. */
static int64_t rows_of(const mrt_call *c, const row_groups *s, int64_t i,
                       int64_t left) {
  int64_t n = mrt_id(s->counts->data, s->counts->type.dtype, i);
  if (n >= 0 && n <= left) return n;
  mrt_bad_id(c, n, s->rows);
  return n < 0 ? 0 : left;
}

/* Scratch of a thread, whatever the groups. */
static size_t part_bytes(const row_groups *s) {
  return s->dw ? mrt_gemm_bytes_below(&s->g) : mrt_gemm_bytes(&s->g);
}

static void run_part(const mrt_call *c, const void *shared, int part,
                     int parts) {
  const row_groups *s = shared;
  char *scratch = (char *)c->scratch + (size_t)part * part_bytes(s);
  int64_t at = 0;
  for (int64_t i = 0; i < s->count; i++) {
    int64_t n = rows_of(c, s, i, s->rows - at);
    mrt_gemm whole = product_of(s, i, at, n);
    mrt_gemm piece = mrt_gemm_part(&whole, part, parts);
    mrt_gemm_run(&piece, scratch);
    at += n;
  }
  if (s->dw || part != 0 || at == s->rows) return;
  size_t bytes = (size_t)((s->rows - at) * s->g.n);
  memset(mrt_gemm_to(&s->g, at, 0), 0, bytes * mrt_dtypes[s->g.dtype].bytes);
}

static void run(const mrt_call *c, row_groups s) {
  double each = (double)s.g.m * (double)s.g.n * (double)s.g.k / 50;
  mrt_parallel(c, mrt_team(c, each + 100), run_part, &s);
}

static size_t scratch(const mrt_call *c, row_groups s) {
  return (size_t)c->threads * part_bytes(&s);
}

static void grouped_matmul(const mrt_call *c) { run(c, groups_of(c, false)); }
static void grouped_matmul_dw(const mrt_call *c) { run(c, groups_of(c, true)); }
static size_t matmul_scratch(const mrt_call *c) {
  return scratch(c, groups_of(c, false));
}
static size_t dw_scratch(const mrt_call *c) {
  return scratch(c, groups_of(c, true));
}

MRT_KERNEL(grouped_matmul, .run = grouped_matmul, .scratch = matmul_scratch);
MRT_KERNEL(grouped_matmul_dw, .run = grouped_matmul_dw, .scratch = dw_scratch);
