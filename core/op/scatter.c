/* scatter.c -- elements written to places chosen by index
 *
 *   scatter         y = x;  y[index[i,j], j] = src[i,j]   for dim 1 of two
 *   scatter_add     y = x;  y[index[i,j], j] += src[i,j]
 *   scatter_reduce  the same with a product, the largest or the smallest
 *   flat_index      y = (i1 n2 + i2) n3 + i3 ...: one index for several
 *
 *   index  i64 | i32 | u8, 0-based; the rank of x, no size above x's but
 *          along dim; one that repeats along rows (a view of one per row)
 *          moves whole rows
 *   x src  scatter: any dtype.  scatter_add, scatter_reduce: f32 | f64 | i64 |
 *          i32 | u8; integers wrap around; a NaN is the largest and smallest
 *   y      as x; may take its storage
 *   cost   what is moved
 *   grad   scatter         dx = dy, 0 where written; dsrc = gather(dy), 0 for
 *                          what was written over
 *          scatter_add     dx = dy;  dsrc = gather(dy)
 *          scatter_reduce  prod: dy times the product of the others; amax,
 *                          amin: dy in equal parts to all that equal y
 *   fails  EDTYPE  an index that is not an integer, other dtypes
 *          ESHAPE  an index that does not fit
 *          EVALUE  an index into a dimension of size 0
 *          EDATA   when run: an index outside [0, n)
 *
 * What has one place is taken in the order of the index, whatever the number
 * of threads: of what is written there the last stays.
 *
 * SPDX-License-Identifier: MIT */
#include "op/build.h"
#include "op/index.h"
#include "op/make.h"
#include "op/move.h"
#include "op/reduce.h"

#include <string.h>

static const mrt_option dim_table[] = {
  MRT_OPTION(mrt_dim_options, dim, MRT_OPT_DIM, .required = true),
};

/* Of all whose options begin with the dimension.  Positions that are written
 * only as far as the index goes are no pieces. */
static int shard_rule(const mrt_signature *s, int input, int dim) {
  const mrt_dim_options *o = s->options;
  bool all = s->in[0]->dims[dim] == s->in[1]->dims[dim];
  return dim == o->dim || !all ? MRT_RULE_UNKNOWN : dim;
}

static mrt_status infer(mrt_infer *c) {
  MRT_TRY(mrt_want_index(c, &((mrt_dim_options *)c->options)->dim));
  MRT_TRY(mrt_want_same_dtype(c, 0, 2));
  if (!mrt_type_same_shape(c->in[1], c->in[2]))
    return mrt_refuse(c, MRT_ESHAPE, "index %s, src %s, equal shapes wanted",
                      mrt_show(c->in[1]).s, mrt_show(c->in[2]).s);
  c->out[0] = *c->in[0];
  return MRT_OK;
}

static mrt_status infer_numbers(mrt_infer *c) {
  mrt_dtype t = c->in[0]->dtype;
  if (!mrt_is_real(t) && !mrt_is_int(t))
    return mrt_refuse(c, MRT_EDTYPE, "%s, f32, f64, i64, i32 or u8 wanted",
                      mrt_show(c->in[0]).s);
  return infer(c);
}

static mrt_tensor *gathered(mrt_build *b, mrt_tensor *x) {
  mrt_dim_options o = { ((const mrt_dim_options *)b->options)->dim };
  return MRT_MAKE(b, gather, &o, x, b->in[1]);
}

static mrt_tensor *zeros(mrt_build *b, const mrt_type *type) {
  mrt_full_options o = { .dtype = type->dtype };
  return mrt_expand_to(b, mrt_make(b, MRT_OP_full, &o, 0, NULL), type);
}

static double flops(const mrt_signature *s) {
  return (double)mrt_type_count(s->in[2]);
}

/* ---- scatter ------------------------------------------------------------- */

/* Which elements of src stay: those whose position along dim is the last one
 * written to their place. */
static mrt_tensor *stays(mrt_build *b) {
  int64_t dim = ((const mrt_dim_options *)b->options)->dim;
  const mrt_type *src = mrt_of(b->in[2]);
  mrt_type places = *mrt_of(b->in[0]), column = { MRT_i64, src->rank, { 0 } };
  mrt_arange_options count = { 0, (double)src->dims[dim], 1, MRT_i64 };
  for (int i = 0; i < src->rank; i++) column.dims[i] = 1;
  column.dims[dim] = src->dims[dim], places.dtype = MRT_i64;
  mrt_tensor *k = mrt_make(b, MRT_OP_arange, &count, 0, NULL);
  k = mrt_reshape_to(b, k, column.rank, column.dims);
  k = mrt_expand_to(b, k, src);
  mrt_tensor *last =
      MRT_MAKE(b, scatter, b->options, zeros(b, &places), b->in[1], k);
  return MRT_MAKE(b, eq, NULL, gathered(b, last), k);
}

static void scatter_gradient(mrt_build *b) {
  mrt_tensor *dy = b->dout[0];
  const mrt_type *src = mrt_of(b->in[2]);
  if (b->wants[0])
    b->din[0] = MRT_MAKE(b, scatter, b->options, dy, b->in[1], zeros(b, src));
  if (!b->wants[2]) return;
  int64_t dim = ((const mrt_dim_options *)b->options)->dim;
  b->din[2] = gathered(b, dy);
  if (src->dims[dim] > 1)
    b->din[2] = mrt_where(b, stays(b), b->din[2], zeros(b, src));
}

const mrt_op mrt_op_scatter = {
  .name = "scatter",
  .number = MRT_OP_scatter,
  .cost = MRT_COST_move,
  .doc = "y = x; y[index[i,j], j] = src[i,j], for dim 1 of two",
  .min_inputs = 3,
  .max_inputs = 3,
  MRT_OPTIONS(dim_table, mrt_dim_options),
  .infer = infer,
  .shard_rule = shard_rule,
  .grad = scatter_gradient,
  .inplace = 1,
  .strided = 6,
  .width = MRT_FOLLOW,
  .traits = MRT_FAULTS,
};

/* ---- scatter_add --------------------------------------------------------- */

static void scatter_add_gradient(mrt_build *b) {
  b->din[0] = b->dout[0];
  if (b->wants[2]) b->din[2] = gathered(b, b->dout[0]);
}

const mrt_op mrt_op_scatter_add = {
  .name = "scatter_add",
  .number = MRT_OP_scatter_add,
  .cost = MRT_COST_move,
  .doc = "y = x; y[index[i,j], j] += src[i,j], for dim 1 of two",
  .min_inputs = 3,
  .max_inputs = 3,
  MRT_OPTIONS(dim_table, mrt_dim_options),
  .infer = infer_numbers,
  .shard_rule = shard_rule,
  .grad = scatter_add_gradient,
  .flops = flops,
  .inplace = 1,
  .strided = 6,
  .width = MRT_WIDE,
  .narrow_inputs = 4,
  .traits = MRT_FAULTS,
};

/* ---- scatter_reduce ------------------------------------------------------ */

static const mrt_option reduce_table[] = {
  MRT_OPTION(mrt_scatter_reduce_options, dim, MRT_OPT_DIM, .required = true),
  MRT_OPTION(mrt_scatter_reduce_options, reduce, MRT_OPT_ENUM, .required = true,
             .words = "prod amax amin"),
};

static mrt_tensor *added(mrt_build *b, mrt_tensor *x, mrt_tensor *src) {
  mrt_dim_options o = { ((const mrt_dim_options *)b->options)->dim };
  return MRT_MAKE(b, scatter_add, &o, x, b->in[1], src);
}

static mrt_tensor *flags(mrt_build *b, mrt_tensor *is, mrt_tensor *like) {
  return mrt_cast_to(b, is, mrt_of(like)->dtype);
}

static void extreme_gradient(mrt_build *b) {
  mrt_tensor *x = b->in[0], *src = b->in[2], *y = b->out[0];
  mrt_tensor *of_x = flags(b, MRT_MAKE(b, eq, NULL, x, y), x);
  mrt_tensor *of_src = MRT_MAKE(b, eq, NULL, src, gathered(b, y));
  of_src = flags(b, of_src, x);
  mrt_tensor *share = mrt_div(b, b->dout[0], added(b, of_x, of_src));
  if (b->wants[0]) b->din[0] = mrt_mul(b, of_x, share);
  if (b->wants[2]) b->din[2] = mrt_mul(b, of_src, gathered(b, share));
}

/* What a product is without one factor: its quotient, or where the factor is
 * 0, the product of those that are not, if no other is 0. */
static void product_gradient(mrt_build *b) {
  mrt_tensor *x = b->in[0], *src = b->in[2], *dy = b->dout[0];
  mrt_tensor *zero = mrt_const_like(b, x, 0), *one = mrt_const_like(b, x, 1);
  mrt_tensor *x0 = MRT_MAKE(b, eq, NULL, x, mrt_expand_to(b, zero, mrt_of(x)));
  mrt_tensor *src0 =
      MRT_MAKE(b, eq, NULL, src, mrt_expand_to(b, zero, mrt_of(src)));
  mrt_tensor *u = mrt_where(b, x0, one, x), *v = mrt_where(b, src0, one, src);
  mrt_tensor *all = MRT_MAKE(b, scatter_reduce, b->options, u, b->in[1], v);
  mrt_tensor *count = added(b, flags(b, x0, x), flags(b, src0, x));
  mrt_tensor *some = mrt_mul(b, dy, all);
  /* 0 for each factor but a single 0 */
  mrt_tensor *is0 =
      MRT_MAKE(b, eq, NULL, count, mrt_expand_to(b, zero, mrt_of(x)));
  mrt_tensor *is1 =
      MRT_MAKE(b, eq, NULL, count, mrt_expand_to(b, one, mrt_of(x)));
  mrt_tensor *none = mrt_mul(b, flags(b, is0, x), some);
  mrt_tensor *single = mrt_mul(b, flags(b, is1, x), some);
  if (b->wants[0]) b->din[0] = mrt_where(b, x0, single, mrt_div(b, none, u));
  if (b->wants[2])
    b->din[2] = mrt_where(b, src0, gathered(b, single),
                          mrt_div(b, gathered(b, none), v));
}

static void scatter_reduce_gradient(mrt_build *b) {
  const mrt_scatter_reduce_options *o = b->options;
  if (o->reduce == MRT_SCATTER_PROD)
    product_gradient(b);
  else
    extreme_gradient(b);
}

const mrt_op mrt_op_scatter_reduce = {
  .name = "scatter_reduce",
  .number = MRT_OP_scatter_reduce,
  .cost = MRT_COST_move,
  .doc = "y = x; y[index[i,j], j] = y * src[i,j], or the larger or smaller",
  .min_inputs = 3,
  .max_inputs = 3,
  MRT_OPTIONS(reduce_table, mrt_scatter_reduce_options),
  .infer = infer_numbers,
  .shard_rule = shard_rule,
  .grad = scatter_reduce_gradient,
  .flops = flops,
  .inplace = 1,
  .strided = 6,
  .width = MRT_WIDE,
  .traits = MRT_FAULTS,
};

/* ---- flat_index ---------------------------------------------------------- */

static const mrt_option flat_table[] = {
  MRT_OPTION(mrt_flat_index_options, dims, MRT_OPT_INTS, .required = true),
};

static mrt_status flat_index_infer(mrt_infer *c) {
  const mrt_ints *dims = &((mrt_flat_index_options *)c->options)->dims;
  if (dims->count != c->nin)
    return mrt_refuse(c, MRT_EVALUE, "%d dims for %d indices, one each wanted",
                      dims->count, c->nin);
  mrt_type whole = { .dtype = MRT_i64, .rank = c->nin };
  memcpy(whole.dims, dims->at, sizeof whole.dims);
  MRT_TRY(mrt_type_check(&whole, c->op->name, c->e));
  for (int i = 0; i < c->nin; i++) {
    MRT_TRY(mrt_want_integer(c, i));
    if (!mrt_type_same_shape(c->in[0], c->in[i]))
      return mrt_refuse(c, MRT_ESHAPE, "indices %s and %s, equal shapes wanted",
                        mrt_show(c->in[0]).s, mrt_show(c->in[i]).s);
    if (dims->at[i] == 0 && mrt_type_count(c->in[i]) > 0)
      return mrt_refuse(c, MRT_EVALUE, "index into a dimension that is empty");
  }
  c->out[0] = *c->in[0];
  c->out[0].dtype = MRT_i64;
  return MRT_OK;
}

static double flat_index_flops(const mrt_signature *s) {
  return 2.0 * s->nin * (double)mrt_type_count(s->in[0]);
}

const mrt_op mrt_op_flat_index = {
  .name = "flat_index",
  .number = MRT_OP_flat_index,
  .cost = MRT_COST_move,
  .doc = "y = (i1 n2 + i2) n3 + i3 ..., each below its size",
  .min_inputs = 1,
  .max_inputs = -1,
  MRT_OPTIONS(flat_table, mrt_flat_index_options),
  .infer = flat_index_infer,
  .shard_rule = mrt_shard_rules_same,
  .flops = flat_index_flops,
  .width = MRT_WIDE,
  .traits = MRT_FAULTS | MRT_LIBRARY,
};
