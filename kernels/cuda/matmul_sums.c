/* matmul_sums.c -- a product of matrices, and the sums of the left one's rows
 *
 * cuBLASLt adds up what it reads of that, where it can (BGRADB); else, and where
 * it refuses when it runs, the sums are a reduction behind the product.
 *
 * SPDX-License-Identifier: MIT */
#include "gemm/gemm.h"
#include "op/matmul.h"
#include "op/reduce.h"

#include <stdlib.h>

void mrt_cuda_sum(const mrt_call *c);
size_t mrt_cuda_sum_scratch(const mrt_call *c);

enum { ALIGN = 256 };

/* Reductions read what is contiguous: of dy^T, which lies turned, the columns of dy
 * are added up. */
typedef struct row_sums {
  mrt_call call;
  mrt_operand a, sums; /* f32, in scratch where the result is narrow */
  mrt_reduce_options options;
} row_sums;

static bool lies_turned(const mrt_operand *a) {
  return a->strides[0] == 1 && a->strides[1] == a->type.dims[0];
}

static size_t up(size_t bytes) { return (bytes + ALIGN - 1) / ALIGN * ALIGN; }

static bool is_narrow(const mrt_call *c) {
  return mrt_is_narrow(c->out[1].type.dtype);
}
/* Bytes of sums that are to be rounded. */
static size_t sums_bytes(const mrt_call *c) {
  return is_narrow(c) ? up((size_t)c->out[1].type.dims[0] * sizeof(float)) : 0;
}

static void make_sums(const mrt_call *c, char *scratch, row_sums *s) {
  bool turned = lies_turned(&c->in[0]);
  s->sums = c->out[1];
  if (is_narrow(c)) s->sums.type.dtype = MRT_f32, s->sums.data = scratch;
  s->a = c->in[0];
  s->options = (mrt_reduce_options){ .dim = { .count = 1 } };
  s->options.dim.at[0] = turned ? 0 : 1;
  if (turned) {
    s->a.type.dims[0] = c->in[0].type.dims[1];
    s->a.type.dims[1] = c->in[0].type.dims[0];
    s->a.strides[0] = c->in[0].strides[1], s->a.strides[1] = 1;
  }
  s->call = *c;
  s->call.options = &s->options;
  s->call.scratch = scratch ? scratch + sums_bytes(c) : NULL;
  s->call.nin = s->call.nout = 1;
  s->call.in = &s->a, s->call.out = &s->sums;
}
static bool lies_straight(const mrt_operand *a) {
  return a->strides[1] == 1 && a->strides[0] == a->type.dims[1];
}
/* Bytes of a copy of `a`, where it lies in neither way. */
static size_t copy_bytes(const mrt_operand *a) {
  if (lies_turned(a) || lies_straight(a)) return 0;
  return up(mrt_type_bytes(&a->type));
}

static void copy(const mrt_call *c, const mrt_cuda_matrix *x, int64_t rows,
                 int64_t cols, int dtype, void *to) {
  mrt_cuda *cuda = c->run->device;
  mrt_cuda_batch none = { 0 };
  mrt_cuda_pack pack = { .is = true, .dtype = dtype, .via = dtype };
  mrt_cuda_repack(x, &none, rows, cols, &pack, to, cuda->queue);
}
static void copy_matrix(const mrt_call *c, const mrt_operand *a) {
  int dtype = (int)a->type.dtype;
  mrt_cuda_matrix x = { a->data, a->strides[0], a->strides[1], dtype };
  copy(c, &x, a->type.dims[0], a->type.dims[1], dtype, c->scratch);
}
static void round_sums(const mrt_call *c, const mrt_operand *sums) {
  int64_t n = sums->type.dims[0];
  mrt_cuda_matrix x = { sums->data, n, 1, MRT_f32 };
  copy(c, &x, 1, n, (int)c->out[1].type.dtype, c->out[1].data);
}

static void sum_rows(const mrt_call *c) {
  size_t bytes = copy_bytes(&c->in[0]);
  row_sums s;
  make_sums(c, (char *)c->scratch + bytes, &s);
  if (bytes) copy_matrix(c, &c->in[0]), s.a.data = c->scratch;
  mrt_cuda_sum(&s.call);
  if (is_narrow(c) && c->out[1].type.dims[0]) round_sums(c, &s.sums);
}

static mrt_cuda_gemm product_of(const mrt_call *c) {
  mrt_cuda_gemm g = mrt_cuda_matmul_of(c);
  g.with_sums = true, g.sums = c->out[1].data;
  g.sums_dtype = (int)c->out[1].type.dtype;
  return g;
}

void *mrt_cuda_matmul_sums_prepare(const mrt_call *c);
void mrt_cuda_matmul_sums_release(void *state);
size_t mrt_cuda_matmul_sums_scratch(const mrt_call *c);
void mrt_cuda_matmul_sums(const mrt_call *c);

void *mrt_cuda_matmul_sums_prepare(const mrt_call *c) {
  mrt_cuda_gemm g = product_of(c);
  mrt_cuda_gemm_plan *way = malloc(sizeof *way);
  if (way) mrt_cuda_gemm_decide(c->run->device, &g, way);
  return way;
}
void mrt_cuda_matmul_sums_release(void *state) { free(state); }

/* One after the other: they share it. */
size_t mrt_cuda_matmul_sums_scratch(const mrt_call *c) {
  const mrt_cuda_gemm_plan *way = c->state;
  row_sums s;
  make_sums(c, NULL, &s);
  size_t product = way ? way->scratch : 0;
  size_t sums =
      copy_bytes(&c->in[0]) + sums_bytes(c) + mrt_cuda_sum_scratch(&s.call);
  return product > sums ? product : sums;
}

void mrt_cuda_matmul_sums(const mrt_call *c) {
  mrt_cuda *cuda = c->run->device;
  mrt_cuda_gemm g = product_of(c);
  if (c->state && mrt_cuda_gemm_run(cuda, &g, c->state, c->scratch)) return;
  if (!c->state && g.m && g.n) mrt_cuda_gemm_kernel(&g, cuda->queue);
  sum_rows(c);
}
