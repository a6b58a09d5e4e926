/* matmul_add.c -- a product of matrices, added to what is there
 *
 *   matmul_add  y = c + a @ b   a [..., M, K], b [..., K, N], c [..., M, N]
 *
 *   in      f32 | f64, one dtype; c as the product is shaped.  In a plan a and b
 *           may be narrow beside c in f32
 *   rule    Blocks of K are added to c one after the other (f64 likewise); up to
 *           MRT_ADDED_AT_ONCE terms are one block.  A device's library may sum
 *           all of K first.  y may lie on c: sums of products then take no memory
 *           but their own.  The pass add_products makes it of products and
 *           additions
 *   cost    2 flop for each of M * N * K
 *   grad    those of matmul; dc = dy
 *   fails   ESHAPE, EDTYPE as matmul; c of another shape
 *
 * SPDX-License-Identifier: MIT */
#include "op/build.h"
#include "op/matmul.h"

static const mrt_matmul_options plain = { .compute = MRT_DTYPE_COUNT,
                                          .accumulate = MRT_DTYPE_COUNT };

static mrt_status infer(mrt_infer *c) {
  mrt_matmul_options o = plain;
  mrt_infer product = *c;
  product.nin = 2, product.options = &o;
  MRT_TRY(mrt_want_real(c, 0));
  MRT_TRY(mrt_want_same_dtype(c, 0, 1));
  MRT_TRY(mrt_want_same_dtype(c, 0, 2));
  MRT_TRY(mrt_infer_matmul(&product));
  c->out[0] = product.out[0];
  return mrt_want_shape(c, 2, c->out[0].rank, c->out[0].dims,
                        "the shape of the product");
}

static void parts(mrt_build *b, mrt_tensor **value) {
  value[0] =
      mrt_add(b, b->in[2], MRT_MAKE(b, matmul, &plain, b->in[0], b->in[1]));
}
static void gradient(mrt_build *b) { mrt_grad_decomposed(b, parts); }

const mrt_op mrt_op_matmul_add = {
  .name = "matmul_add",
  .number = MRT_OP_matmul_add,
  .cost = MRT_COST_matmul,
  .doc = "y = c + a @ b, from a, b, c",
  .min_inputs = 3,
  .max_inputs = 3,
  .infer = infer,
  .grad = gradient,
  .flops = mrt_matmul_flops,
  .product = mrt_matmul_product,
  .strided = 3,
  .inplace = 4,
  .width = MRT_WIDE,
  .narrow_inputs = 3,
  .traits = MRT_LIBRARY,
};
