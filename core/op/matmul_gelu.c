/* matmul_gelu.c -- products of matrices that go through GELU, or back
 *
 *   linear_gelu       h = gelu(y), y = x @ w^T + bias; y is the second result
 *                     where `keep` is set
 *   matmul_gelu_grad  y = (a @ b) gelu'(x)      a [M, K], b [K, N], x [M, N]
 *
 *   gelu   as with approximate = "tanh" (activation.c)
 *   rule   GELU, and its slope times the product, are computed of the sum in
 *          f32 (f64) as it is, and each result is rounded once: so libraries
 *          do it in their epilogues.  These are not the bits of linear and
 *          gelu one after the other, which round between, nor need a library's
 *          GELU be that of gelu.  The pass fuse_epilogue makes them where a
 *          device has such epilogues
 *   bias   is first rounded to the dtype of h, where that is f16 or bf16
 *   else   as matmul and linear (matmul.c); x of any float dtype
 *   cost   that of the product, and 20 flop per element
 *   grad   linear_gelu       dy = gelu_grad(y, dh), and as linear's; without
 *                            `keep` y is computed again
 *          matmul_gelu_grad  of gelu_grad(x, a @ b)
 *
 * SPDX-License-Identifier: MIT */
#include "op/activation.h"
#include "op/build.h"
#include "op/matmul.h"

static const mrt_option linear_options[] = {
  MRT_OPTION(mrt_matmul_options, compute, MRT_OPT_DTYPE,
             .preset = MRT_DTYPE_COUNT),
  MRT_OPTION(mrt_matmul_options, keep, MRT_OPT_BOOL, .preset = true),
};
static const mrt_option grad_options[] = {
  MRT_OPTION(mrt_matmul_options, compute, MRT_OPT_DTYPE,
             .preset = MRT_DTYPE_COUNT),
};
static const mrt_gelu_options by_tanh = { .approximate = MRT_GELU_TANH };

static double gelu_flops(const mrt_signature *s) {
  return 20 * (double)mrt_type_count(s->out[0]);
}
static double flops(const mrt_signature *s) {
  return mrt_matmul_flops(s) + gelu_flops(s);
}
static void work(const mrt_signature *s, double *by_kind) {
  by_kind[MRT_COST_matmul] += mrt_matmul_flops(s);
  by_kind[MRT_COST_activation] += gelu_flops(s);
}

/* gelu_grad of reals, whatever these are, in the dtype of `like`. */
static mrt_tensor *slope_times(mrt_build *b, mrt_tensor *x, mrt_tensor *dy,
                               mrt_tensor *like) {
  mrt_dtype d = mrt_of(x)->dtype == MRT_f64 ? MRT_f64 : MRT_f32;
  mrt_tensor *dx = MRT_MAKE(b, gelu_grad, &by_tanh, mrt_cast_to(b, x, d),
                            mrt_cast_to(b, dy, d));
  return mrt_cast_to(b, dx, mrt_of(like)->dtype);
}

/* ---- linear_gelu --------------------------------------------------------- */

static mrt_status linear_infer(mrt_infer *c) {
  mrt_matmul_options *o = c->options;
  o->accumulate = MRT_DTYPE_COUNT;
  MRT_TRY(mrt_infer_linear(c));
  c->nout = o->keep ? 2 : 1;
  c->out[1] = c->out[0];
  return MRT_OK;
}

static void linear_gradient(mrt_build *b) {
  const mrt_matmul_options *o = b->options;
  mrt_tensor *y =
      o->keep ? b->out[1] : mrt_make(b, MRT_OP_linear, o, b->nin, b->in);
  mrt_tensor *dh = b->dout[0], *dy = o->keep ? b->dout[1] : NULL;
  if (dh) {
    dh = slope_times(b, y, dh, y);
    dy = dy ? mrt_add(b, dy, dh) : dh;
  }
  mrt_linear_gradients(b, dy);
}

static int linear_shard_rule(const mrt_signature *s, int input, int dim) {
  bool inner = input < 2 && dim == s->in[input]->rank - 1;
  if (inner) return MRT_RULE_UNKNOWN;
  return input == 0 ? dim : s->out[0]->rank - 1;
}

/* ---- matmul_gelu_grad ---------------------------------------------------- */

static mrt_status grad_infer(mrt_infer *c) {
  const mrt_type *a = c->in[0], *b = c->in[1];
  mrt_matmul_options *o = c->options;
  o->keep = false, o->accumulate = MRT_DTYPE_COUNT;
  for (int i = 0; i < 2; i++)
    if (c->in[i]->rank != 2)
      return mrt_refuse(c, MRT_ESHAPE, "input %d is %s, 2 dimensions wanted",
                        i + 1, mrt_show(c->in[i]).s);
  MRT_TRY(mrt_infer_matmul(c));
  int64_t dims[] = { a->dims[0], b->dims[1] };
  return mrt_want_shape(c, 2, 2, dims, "the shape of the product");
}

static void grad_parts(mrt_build *b, mrt_tensor **value) {
  mrt_tensor *product = MRT_MAKE(b, matmul, b->options, b->in[0], b->in[1]);
  value[0] = slope_times(b, b->in[2], product, b->out[0]);
}
static void grad_gradient(mrt_build *b) { mrt_grad_decomposed(b, grad_parts); }

static int grad_shard_rule(const mrt_signature *s, int input, int dim) {
  (void)s;
  if (input == 2) return dim;
  return dim == (input == 0 ? 1 : 0) ? MRT_RULE_PARTIAL : dim;
}

const mrt_op mrt_op_linear_gelu = {
  .name = "linear_gelu",
  .number = MRT_OP_linear_gelu,
  .cost = MRT_COST_matmul,
  .doc = "h, y = gelu(y), x @ w^T + bias; bias may be left out",
  .min_inputs = 2,
  .max_inputs = 3,
  MRT_OPTIONS(linear_options, mrt_matmul_options),
  .infer = linear_infer,
  .shard_rule = linear_shard_rule,
  .grad = linear_gradient,
  .flops = flops,
  .work = work,
  .product = mrt_matmul_product,
  .strided = 3,
  .width = MRT_NARROW,
  .narrow_outputs = 3,
  .traits = MRT_LIBRARY,
};
const mrt_op mrt_op_matmul_gelu_grad = {
  .name = "matmul_gelu_grad",
  .number = MRT_OP_matmul_gelu_grad,
  .cost = MRT_COST_matmul,
  .doc = "y = (a @ b) (P(x) + x P'(x)), as gelu_grad's of a product",
  .min_inputs = 3,
  .max_inputs = 3,
  MRT_OPTIONS(grad_options, mrt_matmul_options),
  .infer = grad_infer,
  .shard_rule = grad_shard_rule,
  .grad = grad_gradient,
  .flops = flops,
  .work = work,
  .product = mrt_matmul_product,
  .strided = 3,
  .width = MRT_NARROW,
  .narrow_outputs = 1,
  .traits = MRT_LIBRARY,
};
