/* grouped_matmul.c -- rows in groups, each times a matrix of its own group
 *
 *   grouped_matmul     y[r,:] = x[r,:] @ w[g,:,:] for the rows r of group g
 *   grouped_matmul_dw  dw[g,:,:] = sum of x[r,:]^T dy[r,:] over them
 *
 *   x       [M, K], w [G, K, N], dy [M, N], floats of any width, f64 with f64
 *           only; any strides
 *   counts  [G] integers: the first counts[0] rows are group 0, the next group
 *           1, ...; those behind the last are in no group, and are 0 in y
 *   y, dw   [M, N], [G, K, N], of the wider dtype of the factors
 *   cost    2 M K N flop, whatever the groups
 *   grad    each other's
 *   fails   ESHAPE, EDTYPE;  EDATA  when run: a count that is negative, or more
 *           rows than there are
 *
 * What experts of which each token sees a few are made of: the number of rows of
 * each is known only when the step runs, the memory of all is known before.
 *
 * SPDX-License-Identifier: MIT */
#include "op/build.h"
#include "op/op.h"

static mrt_status want_factors(mrt_infer *c) {
  for (int i = 0; i < 2; i++) MRT_TRY(mrt_want_float(c, i));
  mrt_dtype a = c->in[0]->dtype, b = c->in[1]->dtype;
  if ((a == MRT_f64) != (b == MRT_f64)) MRT_TRY(mrt_want_same_dtype(c, 0, 1));
  c->out[0].dtype = mrt_wider_float(a, b);
  return mrt_want_integer(c, 2);
}

static mrt_status want_ranks(mrt_infer *c, int first, int second) {
  int ranks[] = { first, second, 1 };
  for (int i = 0; i < 3; i++)
    if (c->in[i]->rank != ranks[i])
      return mrt_refuse(c, MRT_ESHAPE, "input %d is %s, %d dimensions wanted",
                        i + 1, mrt_show(c->in[i]).s, ranks[i]);
  return MRT_OK;
}

static mrt_status infer(mrt_infer *c) {
  const mrt_type *x = c->in[0], *w = c->in[1];
  MRT_TRY(want_factors(c));
  MRT_TRY(want_ranks(c, 2, 3));
  MRT_TRY(mrt_want_shape(c, 2, 1, w->dims, "one for each matrix"));
  if (x->dims[1] != w->dims[1])
    return mrt_refuse(c, MRT_ESHAPE, "%s against %s, equal inner sizes wanted",
                      mrt_show(x).s, mrt_show(w).s);
  c->out[0].rank = 2;
  c->out[0].dims[0] = x->dims[0], c->out[0].dims[1] = w->dims[2];
  return MRT_OK;
}

static mrt_status dw_infer(mrt_infer *c) {
  const mrt_type *x = c->in[0], *dy = c->in[1];
  MRT_TRY(want_factors(c));
  MRT_TRY(want_ranks(c, 2, 2));
  if (x->dims[0] != dy->dims[0])
    return mrt_refuse(c, MRT_ESHAPE, "%s against %s, equal rows wanted",
                      mrt_show(x).s, mrt_show(dy).s);
  c->out[0].rank = 3;
  c->out[0].dims[0] = c->in[2]->dims[0];
  c->out[0].dims[1] = x->dims[1], c->out[0].dims[2] = dy->dims[1];
  return MRT_OK;
}

static mrt_product product(const mrt_signature *s) {
  const mrt_type *x = s->in[0], *w = s->in[1];
  return (mrt_product){ 1, (double)x->dims[0], (double)w->dims[w->rank - 1],
                        (double)x->dims[1] };
}
static double flops(const mrt_signature *s) {
  mrt_product p = product(s);
  return 2 * p.m * p.n * p.k;
}

static mrt_tensor *cast_like(mrt_build *b, mrt_tensor *x, mrt_tensor *like) {
  return mrt_cast_to(b, x, mrt_of(like)->dtype);
}

static void gradient(mrt_build *b) {
  mrt_tensor *x = b->in[0], *w = b->in[1], *dy = b->dout[0];
  if (b->wants[0]) {
    mrt_tensor *dx = MRT_MAKE(b, grouped_matmul, NULL, dy,
                              mrt_transpose_last(b, w), b->in[2]);
    b->din[0] = cast_like(b, dx, x);
  }
  if (b->wants[1])
    b->din[1] =
        cast_like(b, MRT_MAKE(b, grouped_matmul_dw, NULL, x, dy, b->in[2]), w);
}

static void dw_gradient(mrt_build *b) {
  mrt_tensor *x = b->in[0], *dy = b->in[1], *d = b->dout[0];
  if (b->wants[0]) {
    mrt_tensor *dx = MRT_MAKE(b, grouped_matmul, NULL, dy,
                              mrt_transpose_last(b, d), b->in[2]);
    b->din[0] = cast_like(b, dx, x);
  }
  if (b->wants[1])
    b->din[1] =
        cast_like(b, MRT_MAKE(b, grouped_matmul, NULL, x, d, b->in[2]), dy);
}

static const char no_such[] =
    "a group of %lld rows, 0 or more wanted, and at most %lld in all";

/* Columns each by themselves; which rows meet which matrix the counts say. */
static int shard_rule(const mrt_signature *s, int input, int dim) {
  if (input < 2 && dim == 1) return MRT_RULE_PARTIAL;
  return input == 1 && dim == 2 ? 1 : MRT_RULE_UNKNOWN;
}
static int dw_shard_rule(const mrt_signature *s, int input, int dim) {
  return input < 2 && dim == 1 ? input + 1 : MRT_RULE_UNKNOWN;
}

const mrt_op mrt_op_grouped_matmul = {
  .name = "grouped_matmul",
  .number = MRT_OP_grouped_matmul,
  .cost = MRT_COST_matmul,
  .doc = "y[r] = x[r] @ w[g] for the rows of group g, of which there are "
         "counts[g], one group after the other",
  .min_inputs = 3,
  .max_inputs = 3,
  .infer = infer,
  .shard_rule = shard_rule,
  .grad = gradient,
  .flops = flops,
  .product = product,
  .strided = 3,
  .width = MRT_NARROW,
  .narrow_outputs = 1,
  .fault = no_such,
  .traits = MRT_FAULTS,
};
const mrt_op mrt_op_grouped_matmul_dw = {
  .name = "grouped_matmul_dw",
  .number = MRT_OP_grouped_matmul_dw,
  .cost = MRT_COST_matmul,
  .doc = "dw of y = grouped_matmul(x, w, counts), from x, dy, counts",
  .min_inputs = 3,
  .max_inputs = 3,
  .infer = dw_infer,
  .shard_rule = dw_shard_rule,
  .grad = dw_gradient,
  .flops = flops,
  .product = product,
  .strided = 3,
  .width = MRT_NARROW,
  .narrow_outputs = 1,
  .fault = no_such,
  .traits = MRT_FAULTS | MRT_LIBRARY,
};
