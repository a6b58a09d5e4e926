/* quantized_linear.c -- quantized_linear on a CUDA device
 *
 * A strip of w at a time is dequantised into scratch, for as many columns of y,
 * and multiplied as any matrix; for few rows of x a kernel does both at once.
 * With activations in int8 the CPU computes it, to the same bits as ever.
 *
 * SPDX-License-Identifier: MIT */
#include "gemm/gemm.h"
#include "op/op.h"
#include "quantize.h"

#include <stdlib.h>

/* Bytes of a strip, roughly: half the cache of an H100; and what its columns
 * are multiples of. */
enum { STRIP = 24 << 20, UNIT = 128 };

typedef struct quantized {
  int64_t m, n, k, strip; /* strip: columns of y at a time */
  int compute, dtype;     /* dtype: of a strip */
  size_t bytes;           /* of it */
  bool turned;            /* y = x @ w */
  bool few;
  mrt_cuda_gemm_plan whole, rest; /* of a strip, of the last one */
} quantized;

/* What x and w are rounded to. */
static int compute_of(const mrt_call *c) {
  return ((const mrt_quantize_options *)c->options)->compute;
}

static int64_t strip_of(const quantized *q) {
  int64_t column = q->k * (int64_t)mrt_dtypes[q->dtype].bytes;
  int64_t fit = STRIP / (column ? column : 1) / UNIT * UNIT;
  if (fit < UNIT) fit = UNIT;
  return fit < q->n ? fit : q->n;
}

static quantized shape_of(const mrt_call *c) {
  const mrt_quantize_options *o = c->options;
  const mrt_operand *x = &c->in[0], *y = &c->out[0];
  quantized q = { .m = 1, .turned = o->transposed, .compute = compute_of(c) };
  int last = x->type.rank - 1;
  for (int i = 0; i < last; i++) q.m *= x->type.dims[i];
  q.k = x->type.dims[last], q.n = y->type.dims[last];
  bool narrow =
      q.compute != MRT_DTYPE_COUNT && mrt_is_narrow((mrt_dtype)q.compute);
  bool wide = c->in[2].type.dtype == MRT_f64;
  q.dtype = narrow ? q.compute : wide ? MRT_f64 : MRT_f32;
  q.few = !q.turned && q.m <= MRT_CUDA_FEW;
  q.strip = strip_of(&q);
  q.bytes =
      ((size_t)(q.strip * q.k) * mrt_dtypes[q.dtype].bytes + 255) / 256 * 256;
  return q;
}

static void *at(const mrt_operand *x, int64_t i) {
  if (!x->data) return NULL;
  return (char *)x->data + i * (int64_t)mrt_dtypes[x->type.dtype].bytes;
}

/* Columns [j, j + n) of y, once w's are in the strip. */
static mrt_cuda_gemm strip_product(const mrt_call *c, const quantized *q,
                                   int64_t j, int64_t n) {
  const mrt_operand *x = &c->in[0], *y = &c->out[0];
  bool biased = c->nin == 4;
  return (mrt_cuda_gemm){
    .m = q->m,
    .n = n,
    .k = q->k,
    .count = 1,
    .a = { x->data, q->k, 1, x->type.dtype },
    .b = { c->scratch, q->turned ? n : 1, q->turned ? 1 : q->k, q->dtype },
    .compute = q->compute,
    .y = at(y, j),
    .y_row = q->n,
    .y_dtype = y->type.dtype,
    .bias = biased ? at(&c->in[3], j) : NULL,
    .bias_dtype = biased ? (int)c->in[3].type.dtype : -1,
    .aux_dtype = -1,
  };
}

bool mrt_cuda_rows_exact(const mrt_signature *s);
void *mrt_cuda_quantized_linear_prepare(const mrt_call *c);
void mrt_cuda_quantized_linear_release(void *state);
size_t mrt_cuda_quantized_linear_scratch(const mrt_call *c);
void mrt_cuda_quantized_linear(const mrt_call *c);

/* Rows that are rounded to int8 are the CPU's. */
bool mrt_cuda_rows_exact(const mrt_signature *s) {
  const mrt_quantize_options *o = s->options;
  return o->activations == MRT_ACTIVATIONS_EXACT;
}

void *mrt_cuda_quantized_linear_prepare(const mrt_call *c) {
  quantized *q = malloc(sizeof *q);
  if (!q) return NULL;
  *q = shape_of(c);
  if (q->few || q->n == 0) return q;
  mrt_cuda_gemm whole = strip_product(c, q, 0, q->strip);
  mrt_cuda_gemm rest = strip_product(c, q, 0, q->n % q->strip);
  mrt_cuda_gemm_decide(c->run->device, &whole, &q->whole);
  mrt_cuda_gemm_decide(c->run->device, &rest, &q->rest);
  return q;
}
void mrt_cuda_quantized_linear_release(void *state) { free(state); }

size_t mrt_cuda_quantized_linear_scratch(const mrt_call *c) {
  const quantized *q = c->state;
  quantized own = q ? *q : shape_of(c);
  size_t most = own.whole.scratch;
  if (own.rest.scratch > most) most = own.rest.scratch;
  return own.few ? 0 : own.bytes + most;
}

void mrt_cuda_quantized_linear(const mrt_call *c) {
  mrt_cuda *cuda = c->run->device;
  mrt_cuda_quantized w = mrt_cuda_quantized_of(c, 1);
  quantized q = c->state ? *(quantized *)c->state : shape_of(c);
  if (q.m == 0 || q.n == 0) return;
  if (q.few) {
    mrt_cuda_few_rows(&w, &c->in[0], c->nin == 4 ? &c->in[3] : NULL, &c->out[0],
                      q.m, q.n, q.k, q.compute, cuda->queue);
    return;
  }
  for (int64_t j = 0; j < q.n; j += q.strip) {
    bool whole = q.n - j >= q.strip;
    int64_t n = whole ? q.strip : q.n - j;
    mrt_cuda_gemm g = strip_product(c, &q, j, n);
    mrt_cuda_take(&w, q.turned ? 0 : j, q.turned ? q.k : n, q.turned ? j : 0,
                  q.turned ? n : q.k, q.compute, c->scratch, q.dtype,
                  cuda->queue);
    mrt_cuda_gemm_run(cuda, &g, whole ? &q.whole : &q.rest,
                      (char *)c->scratch + q.bytes);
  }
}
