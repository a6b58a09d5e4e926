/* reduce.c -- many elements to one, along some dimensions or all
 *
 *   sum, prod           y = x1 + x2 + ...;  x1 * x2 * ...
 *   nansum              the sum of what is no NaN
 *   count_nonzero       how many are not 0; NaN is not
 *   amax, amin          the largest, the smallest; NaN if there is one
 *   aminmax             the smallest and the largest
 *   any, all            whether some, whether every x is true
 *   argmax, argmin      the 0-based position of the first largest, smallest;
 *                       NaN counts as both
 *
 *   x      f32 | f64, i64 | i32 | u8; sum, count_nonzero: bool too; nansum: f32 |
 *          f64; any, all: bool only
 *   y      dtype of x, but i64 for sum and prod of integers, for counts and
 *          positions; sum = 0, prod = 1, any = false, all = true over nothing
 *   cost   1 flop per element; reads x once
 *   grad   sum   dx = dy for every element;  nansum  0 where x is NaN
 *          prod  dx = dy * the product of the others, right at zeros too
 *          amax, amin  dy shared equally by the elements equal to y
 *   fails  EVALUE  dim outside [-rank, rank), amax, amin, argmax or argmin
 *                  over nothing
 *
 * The partition of a sum depends on the shape alone.
 *
 * SPDX-License-Identifier: MIT */
#include "op/reduce.h"
#include "op/build.h"
#include "op/move.h"
#include "op/views.h"

static const mrt_option table[] = {
  MRT_OPTION(mrt_reduce_options, dim, MRT_OPT_DIMS),
  MRT_OPTION(mrt_reduce_options, keepdim, MRT_OPT_BOOL, .preset = false),
};

static bool is_reduced(const mrt_ints *dims, int i) {
  for (int k = 0; k < dims->count; k++)
    if (dims->at[k] == i) return true;
  return false;
}

static mrt_type reduced(const mrt_type *x, const mrt_ints *dims, bool keepdim) {
  mrt_type y = { .dtype = x->dtype };
  for (int i = 0; i < x->rank; i++) {
    if (!is_reduced(dims, i))
      y.dims[y.rank++] = x->dims[i];
    else if (keepdim)
      y.dims[y.rank++] = 1;
  }
  return y;
}

static mrt_status infer(mrt_infer *c) {
  mrt_reduce_options *o = c->options;
  MRT_TRY(mrt_want_dims(c, &o->dim, c->in[0]->rank));
  c->out[0] = reduced(c->in[0], &o->dim, o->keepdim);
  return MRT_OK;
}

static mrt_status want_number(mrt_infer *c) {
  mrt_dtype t = c->in[0]->dtype;
  if (mrt_is_real(t) || mrt_is_int(t)) return MRT_OK;
  return mrt_refuse(c, MRT_EDTYPE, "%s, f32, f64 or an integer wanted",
                    mrt_show(c->in[0]).s);
}

static mrt_status wide_infer(mrt_infer *c) {
  MRT_TRY(infer(c));
  if (!mrt_is_real(c->in[0]->dtype)) c->out[0].dtype = MRT_i64;
  return MRT_OK;
}

static mrt_status sum_infer(mrt_infer *c) {
  if (c->in[0]->dtype != MRT_bool) MRT_TRY(want_number(c));
  return wide_infer(c);
}

static mrt_status nansum_infer(mrt_infer *c) {
  MRT_TRY(mrt_want_real(c, 0));
  return infer(c);
}

static mrt_status count_infer(mrt_infer *c) {
  if (c->in[0]->dtype != MRT_bool) MRT_TRY(want_number(c));
  MRT_TRY(infer(c));
  c->out[0].dtype = MRT_i64;
  return MRT_OK;
}

static mrt_status prod_infer(mrt_infer *c) {
  MRT_TRY(want_number(c));
  return wide_infer(c);
}

static mrt_status want_some(mrt_infer *c) {
  if (mrt_type_count(&c->out[0]) == 0 || mrt_type_count(c->in[0]))
    return MRT_OK;
  return mrt_refuse(c, MRT_EVALUE, "over no elements of %s",
                    mrt_show(c->in[0]).s);
}

static mrt_status extreme_infer(mrt_infer *c) {
  MRT_TRY(want_number(c));
  MRT_TRY(infer(c));
  return want_some(c);
}

static mrt_status both_infer(mrt_infer *c) {
  MRT_TRY(extreme_infer(c));
  c->nout = 2;
  c->out[1] = c->out[0];
  return MRT_OK;
}

static mrt_status truth_infer(mrt_infer *c) {
  MRT_TRY(mrt_want_dtype(c, 0, MRT_bool));
  return infer(c);
}

static double flops(const mrt_signature *s) {
  return (double)mrt_type_count(s->in[0]);
}

/* ---- gradients ----------------------------------------------------------- */

/* y, or its gradient, in the shape it has with keepdim. */
static mrt_tensor *kept(mrt_build *b, mrt_tensor *y) {
  const mrt_reduce_options *o = b->options;
  mrt_type t = reduced(mrt_of(b->in[0]), &o->dim, true);
  return mrt_reshape_to(b, y, t.rank, t.dims);
}

static void sum_gradient(mrt_build *b) {
  b->din[0] = mrt_expand_to(b, kept(b, b->dout[0]), mrt_of(b->in[0]));
}

static void nansum_gradient(mrt_build *b) {
  mrt_tensor *x = b->in[0];
  mrt_tensor *dy = mrt_expand_to(b, kept(b, b->dout[0]), mrt_of(x));
  b->din[0] =
      mrt_where(b, MRT_MAKE(b, isnan, NULL, x), mrt_const_like(b, x, 0), dy);
}

/* What flows into x from the extremes y, of gradient dy. */
static mrt_tensor *shared(mrt_build *b, mrt_tensor *y, mrt_tensor *dy) {
  const mrt_reduce_options *o = b->options;
  mrt_tensor *x = b->in[0];
  if (!dy) return NULL;
  y = mrt_expand_to(b, kept(b, y), mrt_of(x));
  mrt_tensor *hit =
      mrt_cast_to(b, MRT_MAKE(b, eq, NULL, x, y), mrt_of(x)->dtype);
  mrt_tensor *hits = mrt_sum_dims(b, hit, &o->dim, true);
  return mrt_mul(b, hit, mrt_div(b, kept(b, dy), hits));
}

static void extreme_gradient(mrt_build *b) {
  b->din[0] = shared(b, b->out[0], b->dout[0]);
}

static void both_gradient(mrt_build *b) {
  mrt_tensor *least = b->dout[0] ? shared(b, b->out[0], b->dout[0]) : NULL;
  mrt_tensor *most = b->dout[1] ? shared(b, b->out[1], b->dout[1]) : NULL;
  b->din[0] = least && most ? mrt_add(b, least, most) : least ? least : most;
}

/* x with the reduced dims last and joined: [elements of y, n]. */
static mrt_tensor *as_rows(mrt_build *b, int64_t *n) {
  const mrt_reduce_options *o = b->options;
  const mrt_type *x = mrt_of(b->in[0]);
  mrt_permute_options order = { { 0 } };
  for (int i = 0; i < x->rank; i++)
    if (!is_reduced(&o->dim, i)) order.dims.at[order.dims.count++] = i;
  *n = 1;
  for (int i = 0; i < o->dim.count; i++) {
    order.dims.at[order.dims.count++] = o->dim.at[i];
    *n *= x->dims[o->dim.at[i]];
  }
  mrt_tensor *moved = MRT_MAKE(b, permute, &order, b->in[0]);
  return mrt_reshape_to(b, moved, 2,
                        (int64_t[]){ mrt_type_count(mrt_of(b->out[0])), *n });
}

static mrt_tensor *columns(mrt_build *b, mrt_tensor *x, int64_t first,
                           int64_t n) {
  mrt_slice_options o = { 1, first, first + n - 1, 1 };
  return MRT_MAKE(b, slice, &o, x);
}

/* The product as a tree: half of the columns times the other half, until one
 * is left.  Its gradient multiplies instead of dividing by x. */
static void prod_parts(mrt_build *b, mrt_tensor **value) {
  int64_t n;
  mrt_tensor *x = as_rows(b, &n);
  while (n > 1) {
    int64_t half = n / 2;
    mrt_tensor *pairs =
        mrt_mul(b, columns(b, x, 0, half), columns(b, x, half, half));
    mrt_dim_options along = { 1 };
    x = n == 2 * half
            ? pairs
            : MRT_MAKE(b, cat, &along, pairs, columns(b, x, n - 1, 1));
    n -= half;
  }
  value[0] = mrt_reshape_like(b, x, b->out[0]);
}

static void prod_gradient(mrt_build *b) {
  if (mrt_type_count(mrt_of(b->in[0])) == 0)
    b->din[0] =
        mrt_expand_to(b, mrt_const_like(b, b->in[0], 0), mrt_of(b->in[0]));
  else
    mrt_grad_decomposed(b, prod_parts);
}

/* ---- the rows ------------------------------------------------------------ */

/* The dimension of y that `dim` of x becomes, or `gone`. */
static int kept_lane(const mrt_ints *dims, bool keepdim, int dim, int gone) {
  int to = dim;
  if (is_reduced(dims, dim)) return gone;
  for (int i = 0; i < dims->count && !keepdim; i++) to -= dims->at[i] < dim;
  return to;
}

static int sum_shard_rule(const mrt_signature *s, int input, int dim) {
  const mrt_reduce_options *o = s->options;
  return kept_lane(&o->dim, o->keepdim, dim, MRT_RULE_PARTIAL);
}

static int shard_rule(const mrt_signature *s, int input, int dim) {
  const mrt_reduce_options *o = s->options;
  return kept_lane(&o->dim, o->keepdim, dim, MRT_RULE_UNKNOWN);
}

const mrt_op mrt_op_sum = {
  .name = "sum",
  .number = MRT_OP_sum,
  .cost = MRT_COST_reduce,
  .doc = "y = x1 + x2 + ... along dim",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(table, mrt_reduce_options),
  .infer = sum_infer,
  .shard_rule = sum_shard_rule,
  .grad = sum_gradient,
  .flops = flops,
  .width = MRT_WIDE,
  .narrow_inputs = 1,
  .traits = MRT_LINEAR,
  .reduce_kind = MRT_FUSED_SUM,
};
const mrt_op mrt_op_nansum = {
  .name = "nansum",
  .number = MRT_OP_nansum,
  .cost = MRT_COST_reduce,
  .doc = "the sum of the x along dim that are no NaN",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(table, mrt_reduce_options),
  .infer = nansum_infer,
  .shard_rule = sum_shard_rule,
  .grad = nansum_gradient,
  .flops = flops,
  .width = MRT_WIDE,
};
const mrt_op mrt_op_count_nonzero = {
  .name = "count_nonzero",
  .number = MRT_OP_count_nonzero,
  .cost = MRT_COST_reduce,
  .doc = "how many x along dim are not 0",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(table, mrt_reduce_options),
  .infer = count_infer,
  .shard_rule = sum_shard_rule,
  .flops = flops,
  .width = MRT_WIDE,
};
const mrt_op mrt_op_prod = {
  .name = "prod",
  .number = MRT_OP_prod,
  .cost = MRT_COST_reduce,
  .doc = "y = x1 * x2 * ... along dim",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(table, mrt_reduce_options),
  .infer = prod_infer,
  .shard_rule = shard_rule,
  .grad = prod_gradient,
  .flops = flops,
  .width = MRT_WIDE,
  .narrow_inputs = 1,
  .reduce_kind = MRT_FUSED_PROD,
};
const mrt_op mrt_op_amax = {
  .name = "amax",
  .number = MRT_OP_amax,
  .cost = MRT_COST_reduce,
  .doc = "the largest x along dim; NaN if there is one",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(table, mrt_reduce_options),
  .infer = extreme_infer,
  .shard_rule = shard_rule,
  .grad = extreme_gradient,
  .flops = flops,
  .width = MRT_WIDE,
  .narrow_inputs = 1,
  .reduce_kind = MRT_FUSED_MAX,
};
const mrt_op mrt_op_amin = {
  .name = "amin",
  .number = MRT_OP_amin,
  .cost = MRT_COST_reduce,
  .doc = "the smallest x along dim; NaN if there is one",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(table, mrt_reduce_options),
  .infer = extreme_infer,
  .shard_rule = shard_rule,
  .grad = extreme_gradient,
  .flops = flops,
  .width = MRT_WIDE,
  .narrow_inputs = 1,
  .reduce_kind = MRT_FUSED_MIN,
};
const mrt_op mrt_op_aminmax = {
  .name = "aminmax",
  .number = MRT_OP_aminmax,
  .cost = MRT_COST_reduce,
  .doc = "the smallest and the largest x along dim; NaN if there is one",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(table, mrt_reduce_options),
  .infer = both_infer,
  .shard_rule = shard_rule,
  .grad = both_gradient,
  .flops = flops,
  .width = MRT_WIDE,
};
const mrt_op mrt_op_any = {
  .name = "any",
  .number = MRT_OP_any,
  .cost = MRT_COST_reduce,
  .doc = "whether some x is true along dim",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(table, mrt_reduce_options),
  .infer = truth_infer,
  .shard_rule = shard_rule,
  .flops = flops,
  .width = MRT_FOLLOW,
};
const mrt_op mrt_op_all = {
  .name = "all",
  .number = MRT_OP_all,
  .cost = MRT_COST_reduce,
  .doc = "whether every x is true along dim",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(table, mrt_reduce_options),
  .infer = truth_infer,
  .shard_rule = shard_rule,
  .flops = flops,
  .width = MRT_FOLLOW,
};

/* ---- positions ----------------------------------------------------------- */

static const mrt_option arg_table[] = {
  MRT_OPTION(mrt_arg_options, dim, MRT_OPT_DIM, .preset = (double)MRT_DIM_NONE),
  MRT_OPTION(mrt_arg_options, keepdim, MRT_OPT_BOOL, .preset = false),
};

static mrt_status arg_infer(mrt_infer *c) {
  mrt_arg_options *o = c->options;
  MRT_TRY(want_number(c));
  mrt_ints dims = { 0 };
  if (o->dim != MRT_DIM_NONE) {
    MRT_TRY(mrt_want_dim(c, &o->dim, c->in[0]->rank));
    dims.at[dims.count++] = o->dim;
  }
  MRT_TRY(mrt_want_dims(c, &dims, c->in[0]->rank));
  c->out[0] = reduced(c->in[0], &dims, o->keepdim);
  c->out[0].dtype = MRT_i64;
  return want_some(c);
}

static int arg_shard_rule(const mrt_signature *s, int input, int dim) {
  const mrt_arg_options *o = s->options;
  mrt_ints dims = { 1, { o->dim } };
  if (o->dim == MRT_DIM_NONE) return MRT_RULE_UNKNOWN;
  return kept_lane(&dims, o->keepdim, dim, MRT_RULE_UNKNOWN);
}

const mrt_op mrt_op_argmax = {
  .name = "argmax",
  .number = MRT_OP_argmax,
  .cost = MRT_COST_reduce,
  .doc = "the 0-based position of the first largest x along dim",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(arg_table, mrt_arg_options),
  .infer = arg_infer,
  .shard_rule = arg_shard_rule,
  .flops = flops,
  .width = MRT_WIDE,
};
const mrt_op mrt_op_argmin = {
  .name = "argmin",
  .number = MRT_OP_argmin,
  .cost = MRT_COST_reduce,
  .doc = "the 0-based position of the first smallest x along dim",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(arg_table, mrt_arg_options),
  .infer = arg_infer,
  .shard_rule = arg_shard_rule,
  .flops = flops,
  .width = MRT_WIDE,
};
