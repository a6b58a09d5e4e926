/* matmul.c -- matmul, linear, these with GELU, and sums of products on a CUDA
 * device
 *
 * Batch dimensions are merged where strides allow, and into the rows where b
 * is the same for all, as on the CPU.  matmul_add sums its product first, and adds
 * that to c: in the library's last step (beta), or in that of our kernel.
 *
 * SPDX-License-Identifier: MIT */
#include "op/matmul.h"
#include "gemm/gemm.h"
#include "op/sums.h"

#include <stdlib.h>

/* Stride of x along dimension `i` of an output of `rank` dimensions; 0 where
 * x is broadcast. */
static int64_t stride_along(const mrt_operand *x, int i, int rank) {
  i -= rank - x->type.rank;
  return i < 0 || x->type.dims[i] == 1 ? 0 : x->strides[i];
}

/* `o`: what the operator is told; NULL, of matmul_add: nothing. */
static mrt_cuda_gemm begin(const mrt_call *c, const mrt_matmul_options *o) {
  const mrt_operand *y = &c->out[0];
  const mrt_operand *bias =
      c->nin == 3 && c->in[2].type.rank == 1 ? &c->in[2] : NULL;
  return (mrt_cuda_gemm){
    .count = 1,
    .a = { .data = c->in[0].data, .dtype = c->in[0].type.dtype },
    .b = { .data = c->in[1].data, .dtype = c->in[1].type.dtype },
    .compute = o ? o->compute : MRT_DTYPE_COUNT,
    .y = y->data,
    .y_dtype = y->type.dtype,
    .bias = bias ? bias->data : NULL,
    .bias_dtype = bias ? (int)bias->type.dtype : -1,
    .aux_dtype = -1,
  };
}

static mrt_cuda_gemm product_of(const mrt_call *c,
                                const mrt_matmul_options *o) {
  const mrt_operand *a = &c->in[0], *b = &c->in[1];
  int ra = a->type.rank, rb = b->type.rank, r = c->out[0].type.rank;
  mrt_cuda_gemm g = begin(c, o);
  g.m = a->type.dims[ra - 2], g.k = a->type.dims[ra - 1];
  g.n = g.y_row = b->type.dims[rb - 1];
  g.a.row = a->strides[ra - 2], g.a.col = a->strides[ra - 1];
  g.b.row = b->strides[rb - 2], g.b.col = b->strides[rb - 1];
  for (int i = 0; i < r - 2; i++)
    mrt_cuda_gemm_add_dim(&g, c->out[0].type.dims[i], stride_along(a, i, r),
                          stride_along(b, i, r));
  mrt_cuda_gemm_merge_rows(&g);
  return g;
}

mrt_cuda_gemm mrt_cuda_matmul_of(const mrt_call *c) {
  return product_of(c, c->options);
}
static mrt_cuda_gemm matmul_of(const mrt_call *c) {
  return mrt_cuda_matmul_of(c);
}

/* x's leading dimensions are batches of one row, all with the same w. */
static mrt_cuda_gemm linear_of(const mrt_call *c) {
  const mrt_operand *x = &c->in[0], *w = &c->in[1];
  int last = x->type.rank - 1;
  mrt_cuda_gemm g = begin(c, c->options);
  g.m = 1, g.k = x->type.dims[last], g.n = g.y_row = w->type.dims[0];
  g.a.row = 0, g.a.col = x->strides[last];
  g.b.row = w->strides[1], g.b.col = w->strides[0];
  for (int i = 0; i < last; i++)
    mrt_cuda_gemm_add_dim(&g, x->type.dims[i], x->strides[i], 0);
  mrt_cuda_gemm_merge_rows(&g);
  return g;
}

static mrt_cuda_gemm with_gelu(mrt_cuda_gemm g, int gelu,
                               const mrt_operand *aux) {
  g.gelu = gelu;
  if (aux) g.aux = aux->data, g.aux_dtype = aux->type.dtype;
  return g;
}
/* Bytes of the scratch for the bias of linear_gelu, which is rounded first; 0: it
 * is used as it is. */
static size_t bias_bytes(const mrt_call *c, const mrt_cuda_gemm *g) {
  bool rounds = g->gelu == MRT_GELU && c->nin == 3 &&
                mrt_gelu_rounds_bias((mrt_dtype)g->y_dtype) &&
                c->in[2].type.dtype != (mrt_dtype)g->y_dtype;
  return rounds ? ((size_t)g->n * 2 + 255) / 256 * 256 : 0;
}
static void round_bias(const mrt_call *c, const mrt_cuda_gemm *g) {
  mrt_cuda *cuda = c->run->device;
  mrt_cuda_matrix x = { c->in[2].data, g->n, 1, (int)c->in[2].type.dtype };
  mrt_cuda_batch none = { 0 };
  mrt_cuda_pack pack = { .is = true, .dtype = g->y_dtype, .via = g->y_dtype };
  mrt_cuda_repack(&x, &none, 1, g->n, &pack, c->scratch, cuda->queue);
}

static mrt_cuda_gemm matmul_add_of(const mrt_call *c) {
  mrt_cuda_gemm g = product_of(c, NULL);
  g.adds = true, g.c = c->in[2].data;
  return g;
}
static mrt_cuda_gemm linear_gelu_of(const mrt_call *c) {
  mrt_cuda_gemm g =
      with_gelu(linear_of(c), MRT_GELU, c->nout == 2 ? &c->out[1] : NULL);
  if (bias_bytes(c, &g)) g.bias = c->scratch, g.bias_dtype = g.y_dtype;
  return g;
}
static mrt_cuda_gemm matmul_gelu_grad_of(const mrt_call *c) {
  return with_gelu(mrt_cuda_matmul_of(c), MRT_GELU_GRAD, &c->in[2]);
}

/* Sums that are narrow are the CPU's. */
bool mrt_cuda_sums_wide(const mrt_signature *s) {
  return !mrt_sums_narrow(s->op, s->options);
}

static void *prepare(const mrt_call *c, mrt_cuda_gemm g) {
  mrt_cuda_gemm_plan *way = malloc(sizeof *way);
  if (way) mrt_cuda_gemm_decide(c->run->device, &g, way);
  return way;
}
static void run(const mrt_call *c, mrt_cuda_gemm g) {
  mrt_cuda *cuda = c->run->device;
  size_t bias = bias_bytes(c, &g);
  if (bias) round_bias(c, &g);
  if (c->state)
    mrt_cuda_gemm_run(cuda, &g, c->state, (char *)c->scratch + bias);
  else if (g.count && g.m && g.n)
    mrt_cuda_gemm_kernel(&g, cuda->queue);
}
static size_t scratch(const mrt_call *c, mrt_cuda_gemm g) {
  const mrt_cuda_gemm_plan *way = c->state;
  return bias_bytes(c, &g) + (way ? way->scratch : 0);
}

#define PREPARED(name)                                                         \
  void mrt_cuda_##name(const mrt_call *c);                                     \
  size_t mrt_cuda_##name##_scratch(const mrt_call *c);                         \
  void *mrt_cuda_##name##_prepare(const mrt_call *c);                          \
  void mrt_cuda_##name##_release(void *state);                                 \
                                                                               \
  void mrt_cuda_##name(const mrt_call *c) { run(c, name##_of(c)); }            \
  size_t mrt_cuda_##name##_scratch(const mrt_call *c) {                        \
    return scratch(c, name##_of(c));                                           \
  }                                                                            \
  void *mrt_cuda_##name##_prepare(const mrt_call *c) {                         \
    return prepare(c, name##_of(c));                                           \
  }                                                                            \
  void mrt_cuda_##name##_release(void *state) { free(state); }
PREPARED(matmul)
PREPARED(linear)
PREPARED(matmul_add)
PREPARED(linear_gelu)
PREPARED(matmul_gelu_grad)
