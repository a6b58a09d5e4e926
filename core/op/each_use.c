/* each_use.c -- one value for several uses whose gradients belong together
 *
 *   y1 .. yn = x: a view for each use
 *
 *   x      any shape and dtype
 *   cost   none
 *   grad   the sum of the gradients of all uses.  Where each is a product
 *          a' b, as that of a weight used at every step of a recurrent network
 *          is, they become one product of all a and all b, one after the other:
 *          no more than one gradient of the weight is ever alive, and a large
 *          product takes less time than many small ones.  Sums over rows become
 *          one sum likewise
 *   fails  EVALUE  fewer uses than 1, or more than a node has outputs
 *
 * SPDX-License-Identifier: MIT */
#include "op/each_use.h"
#include "op/build.h"
#include "op/matmul.h"
#include "op/move.h"
#include "op/reduce.h"
#include "tensor/tensor.h"

#include <string.h>

static const mrt_option options[] = {
  MRT_OPTION(mrt_each_use_options, count, MRT_OPT_INT, .required = true),
};

static mrt_status infer(mrt_infer *c) {
  const mrt_each_use_options *o = c->options;
  if (o->count < 1 || o->count > MRT_MAX_OUT)
    return mrt_refuse(c, MRT_EVALUE, "count %lld, 1 to %d wanted",
                      (long long)o->count, MRT_MAX_OUT);
  c->nout = (int)o->count;
  for (int i = 0; i < c->nout; i++) c->out[i] = *c->in[0];
  return MRT_OK;
}

static bool view(mrt_view *v) {
  v->offset = 0;
  memcpy(v->strides, v->in_strides, (size_t)v->in->rank * sizeof *v->strides);
  return true;
}

/* What `t` is made of, if it is the first output of that operator. */
static const mrt_expr *made_by(const mrt_tensor *t, int op) {
  const mrt_expr *x = t ? t->expr : NULL;
  return x && x->op->number == op && t->index == 0 ? x : NULL;
}

/* dy of a gradient dy' x of a matrix; its x and its options, too. */
static mrt_tensor *factors(const mrt_tensor *g, mrt_tensor **x,
                           mrt_matmul_options *o) {
  const mrt_expr *product = made_by(g, MRT_OP_matmul);
  const mrt_expr *turned =
      product ? made_by(product->in[0], MRT_OP_transpose) : NULL;
  if (!turned || product->in[1]->type.rank != 2 ||
      turned->in[0]->type.rank != 2)
    return NULL;
  *o = *(const mrt_matmul_options *)product->options;
  *x = product->in[1];
  return turned->in[0];
}

/* dy of a gradient that is dy summed over its rows. */
static mrt_tensor *summed(const mrt_tensor *g) {
  const mrt_expr *sum = made_by(g, MRT_OP_sum);
  if (!sum || sum->in[0]->type.rank != 2 || g->type.rank != 1) return NULL;
  const mrt_reduce_options *o = sum->options;
  return o->dim.count == 1 && o->dim.at[0] == 0 && !o->keepdim ? sum->in[0]
                                                               : NULL;
}

static bool alike(const mrt_tensor *x, const mrt_tensor *y) {
  return x->type.dtype == y->type.dtype;
}

/* The rows of n matrices, one after the other.  Those of one shape are joined
 * as steps [1, rows, columns], as the gradient of what was split into steps is:
 * so that both are one copy. */
static mrt_tensor *joined(mrt_build *b, int n, mrt_tensor *const *x) {
  mrt_dim_options along = { 0 };
  const mrt_type *t = mrt_of(x[0]);
  mrt_tensor *step[MRT_MAX_OUT];
  for (int i = 0; i < n; i++) {
    if (!mrt_type_equal(t, mrt_of(x[i])))
      return mrt_make(b, MRT_OP_cat, &along, n, x);
    step[i] =
        mrt_reshape_to(b, x[i], 3, (int64_t[]){ 1, t->dims[0], t->dims[1] });
  }
  int64_t dims[] = { n * t->dims[0], t->dims[1] };
  return mrt_reshape_to(b, mrt_make(b, MRT_OP_cat, &along, n, step), 2, dims);
}

static void gradient(mrt_build *b) {
  mrt_tensor *dy[MRT_MAX_OUT], *x[MRT_MAX_OUT], *rows[MRT_MAX_OUT];
  mrt_tensor *sum = NULL;
  mrt_matmul_options how[MRT_MAX_OUT];
  int uses = 0, products = 0, sums = 0;
  for (int i = 0; i < b->nout; i++) {
    mrt_tensor *g = b->dout[i];
    if (!g) continue;
    sum = sum ? mrt_add(b, sum, g) : g;
    uses++;
    if ((dy[products] = factors(g, &x[products], &how[products])) &&
        alike(dy[0], dy[products]) && alike(x[0], x[products]) &&
        how[0].compute == how[products].compute &&
        how[0].accumulate == how[products].accumulate)
      products++;
    if ((rows[sums] = summed(g))) sums++;
  }
  if (uses > 1 && products == uses)
    sum = MRT_MAKE(b, matmul, how, mrt_transpose_last(b, joined(b, uses, dy)),
                   joined(b, uses, x));
  else if (uses > 1 && sums == uses)
    sum = mrt_sum_dim(b, joined(b, uses, rows), 0, false);
  b->din[0] = sum;
}

const mrt_op mrt_op_each_use = {
  .name = "each_use",
  .number = MRT_OP_each_use,
  .cost = MRT_COST_view,
  .doc = "x, `count` times; gradients that are products become one product",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(options, mrt_each_use_options),
  .infer = infer,
  .shard_rule = mrt_shard_rules_same,
  .grad = gradient,
  .view = view,
  .width = MRT_FOLLOW,
  .traits = MRT_VIEW | MRT_LINEAR | MRT_LIBRARY,
};
