/* kernels.c -- what the toy device computes: products of matrices, copies, and
 * chains of a few pointwise operators, in f32
 *
 * SPDX-License-Identifier: MIT */
#include "op/fused.h"
#include "op/make.h"
#include "op/matmul.h"
#include "toy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool all_f32(const mrt_signature *s) {
  bool all = true;
  for (int i = 0; i < s->nin; i++) all &= s->in[i]->dtype == MRT_f32;
  for (int i = 0; i < s->nout; i++) all &= s->out[i]->dtype == MRT_f32;
  return all;
}

static int64_t count(const mrt_type *t) {
  int64_t n = 1;
  for (int d = 0; d < t->rank; d++) n *= t->dims[d];
  return n;
}

/* The i-th element of x in row-major order, wherever its strides put it. */
static float at(const mrt_operand *x, int64_t i) {
  const float *data = x->data;
  for (int d = x->type.rank; d-- > 0; i /= x->type.dims[d])
    data += i % x->type.dims[d] * x->strides[d];
  return *data;
}

/* ---- matmul -------------------------------------------------------------- */

/* Two matrices, not batches of them; factors as they are. */
static bool takes_matmul(const mrt_signature *s) {
  const mrt_matmul_options *o = s->options;
  return all_f32(s) && o->compute == MRT_DTYPE_COUNT && s->in[0]->rank == 2 &&
         s->in[1]->rank == 2;
}

static void matmul(const mrt_call *c) {
  const mrt_operand *a = &c->in[0], *b = &c->in[1];
  const float *x = a->data, *y = b->data;
  float *z = c->out[0].data;
  toy_unlock();
  for (int64_t i = 0; i < a->type.dims[0]; i++)
    for (int64_t j = 0; j < b->type.dims[1]; j++) {
      float sum = 0;
      for (int64_t k = 0; k < a->type.dims[1]; k++)
        sum = fmaf(x[i * a->strides[0] + k * a->strides[1]],
                   y[k * b->strides[0] + j * b->strides[1]], sum);
      *z++ = sum;
    }
  toy_lock();
}

/* ---- copy ---------------------------------------------------------------- */

static void copy(const mrt_call *c) {
  float *to = c->out[0].data;
  int64_t n = count(&c->in[0].type);
  toy_unlock();
  for (int64_t i = 0; i < n; i++) to[i] = at(&c->in[0], i);
  toy_lock();
}

/* ---- chains of pointwise operators --------------------------------------- */

static float neg(float x, float y) { return (void)y, -x; }
static float relu(float x, float y) { return (void)y, x < 0 ? 0 : x; }
static float add(float x, float y) { return x + y; }
static float sub(float x, float y) { return x - y; }
static float mul(float x, float y) { return x * y; }

typedef float pointwise(float x, float y);
static pointwise *const functions[MRT_OP_COUNT] = {
  [MRT_OP_neg] = neg, [MRT_OP_relu] = relu, [MRT_OP_add] = add,
  [MRT_OP_sub] = sub, [MRT_OP_mul] = mul,
};

static bool takes_fused(const mrt_signature *s) {
  const mrt_fused_options *o = s->options;
  bool all = all_f32(s);
  for (int i = 0; i < o->code_count; i++)
    all &= o->code[i].out_dtype == MRT_f32 && o->code[i].nin <= 2 &&
           (functions[o->code[i].op] || o->code[i].op == MRT_OP_full);
  return all;
}

static void fused(const mrt_call *c) {
  const mrt_fused_options *o = c->options;
  int64_t n = count(&o->out_types[0]);
  float r[MRT_FUSED_REGISTERS];
  toy_unlock();
  for (int64_t i = 0; i < n; i++) {
    for (int k = 0; k < c->nin; k++) r[k] = at(&c->in[k], i);
    for (int k = 0; k < o->code_count; k++) {
      const mrt_fused_code *f = &o->code[k];
      const mrt_full_options *full = f->options;
      r[f->out] = functions[f->op]
                      ? functions[f->op](r[f->in[0]], r[f->in[f->nin - 1]])
                      : (float)full->value;
    }
    for (int k = 0; k < c->nout; k++)
      ((float *)c->out[k].data)[i] = r[o->out_register[k]];
  }
  toy_lock();
}

/* ---- the table ----------------------------------------------------------- */

static const struct row {
  int op;
  const char *name;
  mrt_kernel kernel;
} rows[] = {
  { MRT_OP_matmul, "matmul", { .run = matmul, .takes = takes_matmul } },
  { MRT_OP_copy, "copy", { .run = copy, .takes = all_f32 } },
  { MRT_OP_fused, "fused", { .run = fused, .takes = takes_fused } },
};

const mrt_kernel *toy_kernel(const mrt_device *device, int op,
                             mrt_dtype dtype) {
  const char *without = getenv("MRT_TOY_WITHOUT");
  (void)device;
  for (int i = 0; i < MRT_COUNT(rows); i++)
    if (rows[i].op == op && dtype == MRT_f32 &&
        !(without && strstr(without, rows[i].name)))
      return &rows[i].kernel;
  return NULL;
}
