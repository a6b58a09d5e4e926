/* matmul.c -- products of matrices and of batches of them
 *
 * Batch dimensions are merged where strides allow, and into the rows where b
 * is the same for all: a [12,256,384] @ b [384,1152] is one product of 3072
 * rows.  Threads share out matrices, or rectangles of one when there are few.
 *
 * SPDX-License-Identifier: MIT */
#include "gemm.h"

/* `count` products: g moved along up to MRT_MAX_RANK batch dimensions. */
typedef struct batch {
  mrt_gemm g;
  int rank;
  int64_t count, dims[MRT_MAX_RANK];
  int64_t a[MRT_MAX_RANK], b[MRT_MAX_RANK]; /* strides */
} batch;

/* Stride of x along dimension `i` of an output of `rank` dimensions; 0 where
 * x is broadcast. */
static int64_t stride_along(const mrt_operand *x, int i, int rank) {
  i -= rank - x->type.rank;
  return i < 0 || x->type.dims[i] == 1 ? 0 : x->strides[i];
}

/* Put one more batch dimension inside the others, merging where it can. */
static void add_dim(batch *t, int64_t n, int64_t a, int64_t b) {
  int last = t->rank - 1;
  t->count *= n;
  if (n == 1) return;
  if (last >= 0 && t->a[last] == n * a && t->b[last] == n * b) {
    t->dims[last] *= n, t->a[last] = a, t->b[last] = b;
    return;
  }
  t->dims[t->rank] = n, t->a[t->rank] = a, t->b[t->rank] = b;
  t->rank++;
}

/* The innermost batch dimension becomes rows when b does not move along it and
 * a goes on where its last row ended. */
static void fold_rows(batch *t) {
  int last = t->rank - 1;
  if (last < 0 || t->b[last] != 0) return;
  if (t->g.m != 1 && t->a[last] != t->g.m * t->g.a.row) return;
  if (t->g.m == 1) t->g.a.row = t->a[last];
  t->g.m *= t->dims[last];
  t->count /= t->dims[last];
  t->rank--;
}

static batch matmul_batch(const mrt_call *c) {
  const mrt_operand *a = &c->in[0], *b = &c->in[1], *y = &c->out[0];
  int ra = a->type.rank, rb = b->type.rank, r = y->type.rank;
  int64_t m = a->type.dims[ra - 2], k = a->type.dims[ra - 1];
  int64_t n = b->type.dims[rb - 1];
  batch t = { .count = 1,
              .g = {
                  .m = m,
                  .n = n,
                  .k = k,
                  .a = { a->data, a->strides[ra - 2], a->strides[ra - 1] },
                  .b = { b->data, b->strides[rb - 2], b->strides[rb - 1] },
                  .c = y->data,
                  .row = n,
                  .col = 1,
              } };
  for (int i = 0; i < r - 2; i++)
    add_dim(&t, y->type.dims[i], stride_along(a, i, r), stride_along(b, i, r));
  if (t.count) fold_rows(&t);
  return t;
}

/* x's leading dimensions are batches of one row, all with the same w. */
static batch linear_batch(const mrt_call *c) {
  const mrt_operand *x = &c->in[0], *w = &c->in[1], *y = &c->out[0];
  int last = x->type.rank - 1;
  int64_t n = w->type.dims[0];
  batch t = { .count = 1,
              .g = {
                  .m = 1,
                  .n = n,
                  .k = x->type.dims[last],
                  .a = { x->data, 0, x->strides[last] },
                  .b = { w->data, w->strides[1], w->strides[0] },
                  .c = y->data,
                  .row = n,
                  .col = 1,
                  .bias = c->nin == 3 ? c->in[2].data : NULL,
                  .bias_col = 1,
              } };
  for (int i = 0; i < last; i++) add_dim(&t, x->type.dims[i], x->strides[i], 0);
  if (t.count) fold_rows(&t);
  return t;
}

static mrt_gemm product_at(const batch *t, int64_t index) {
  mrt_gemm g = t->g;
  g.c += index * g.m * g.n;
  for (int i = t->rank - 1; i >= 0; i--) {
    int64_t at = index % t->dims[i];
    index /= t->dims[i];
    g.a.data += at * t->a[i], g.b.data += at * t->b[i];
  }
  return g;
}

static size_t run_bytes(const mrt_call *c, const batch *t) {
  int64_t rows = t->g.m * t->count; /* were all of them folded */
  return mrt_gemm_bytes(rows, t->g.n, t->g.k);
}

static void run(const mrt_call *c, const batch *t) {
  const mrt_gemm *g = &t->g;
  /* 100 flop per nanosecond: one core, roughly. */
  double ns =
      (double)t->count * (double)g->m * (double)g->n * (double)g->k / 50;
  int team = mrt_team(c, ns);
  int parts = t->count < 4 * team ? team : 1;
  size_t bytes = run_bytes(c, t);
#pragma omp parallel num_threads(team)
  {
    int me = omp_get_thread_num();
    char *scratch = (char *)c->scratch + (size_t)me * bytes;
    int64_t i, end;
    mrt_share(t->count * parts, me, omp_get_num_threads(), &i, &end);
    for (; i < end; i++) {
      mrt_gemm whole = product_at(t, i / parts);
      mrt_gemm part = mrt_gemm_part(&whole, (int)(i % parts), parts);
      mrt_gemm_run(&part, scratch);
    }
  }
}

static void matmul(const mrt_call *c) {
  batch t = matmul_batch(c);
  run(c, &t);
}
static void linear(const mrt_call *c) {
  batch t = linear_batch(c);
  run(c, &t);
}

static size_t matmul_scratch(const mrt_call *c) {
  batch t = matmul_batch(c);
  return (size_t)c->threads * run_bytes(c, &t);
}
static size_t linear_scratch(const mrt_call *c) {
  batch t = linear_batch(c);
  return (size_t)c->threads * run_bytes(c, &t);
}

MRT_KERNEL(matmul, .run = matmul, .scratch = matmul_scratch);
MRT_KERNEL(linear, .run = linear, .scratch = linear_scratch);
