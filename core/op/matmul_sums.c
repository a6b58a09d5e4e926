/* matmul_sums.c -- a product of matrices, and the sums of the left one's rows
 *
 *   matmul_sums  y = a @ b;  s[i] = sum of a[i, k]  over k
 *                a [M, K], b [K, N] -> y [M, N], s [M]
 *
 *   rule   Both are summed in f32 (f64); y is rounded as matmul's, s is not
 *          (but for plans that hand both on in 16 bits).
 *          Only the product rounds its inputs to `compute`.
 *          Of dy^T and x these are the gradients of a linear's w and bias, and a
 *          library that multiplies has read dy^T: the pass fuse_epilogue makes it
 *          of a product and a sum where a device has such epilogues.  Where a
 *          precision policy has dy rounded for the product, its input is dy rounded,
 *          and so are the terms of s
 *   cost   that of the product, and 1 flop for each of M * K
 *   grad   of matmul and sum
 *   fails  ESHAPE, EDTYPE as matmul; not two dimensions
 *
 * SPDX-License-Identifier: MIT */
#include "op/build.h"
#include "op/matmul.h"

static const mrt_option options[] = {
  MRT_OPTION(mrt_matmul_options, compute, MRT_OPT_DTYPE,
             .preset = MRT_DTYPE_COUNT),
};

static mrt_status infer(mrt_infer *c) {
  mrt_matmul_options *o = c->options;
  o->keep = false, o->accumulate = MRT_DTYPE_COUNT;
  for (int i = 0; i < 2; i++)
    if (c->in[i]->rank != 2)
      return mrt_refuse(c, MRT_ESHAPE, "input %d is %s, 2 dimensions wanted",
                        i + 1, mrt_show(c->in[i]).s);
  MRT_TRY(mrt_infer_matmul(c));
  c->nout = 2;
  c->out[1] =
      (mrt_type){ .dtype = c->in[0]->dtype == MRT_f64 ? MRT_f64 : MRT_f32,
                  .rank = 1,
                  .dims = { c->out[0].dims[0] } };
  return MRT_OK;
}

static double flops(const mrt_signature *s) {
  return mrt_matmul_flops(s) + (double)mrt_type_count(s->in[0]);
}

static void parts(mrt_build *b, mrt_tensor **value) {
  value[0] = MRT_MAKE(b, matmul, b->options, b->in[0], b->in[1]);
  value[1] = mrt_sum_dim(b, b->in[0], 1, false);
}
static void gradient(mrt_build *b) { mrt_grad_decomposed(b, parts); }

const mrt_op mrt_op_matmul_sums = {
  .name = "matmul_sums",
  .number = MRT_OP_matmul_sums,
  .cost = MRT_COST_matmul,
  .doc = "y, s = a @ b, the sums of a's rows",
  .min_inputs = 2,
  .max_inputs = 2,
  MRT_OPTIONS(options, mrt_matmul_options),
  .infer = infer,
  .grad = gradient,
  .flops = flops,
  .product = mrt_matmul_product,
  .strided = 3,
  .width = MRT_NARROW,
  .narrow_outputs = 3,
  .traits = MRT_LIBRARY,
};
