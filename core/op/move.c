/* move.c -- elements to other places: copy, cat, pad, flip; and cumsum
 *
 *   copy    y = x, contiguous
 *   cat     x1, x2 ... one after the other along dim
 *   pad     x between zeros along dim
 *   flip    positions of some dimensions in the other order
 *   cumsum  y[k] = x[1] + ... + x[k] along dim, or from the end
 *
 *   x      copy, cat, pad, flip: any dtype, layout.  cumsum: any numbers and bool,
 *          summed in f64 | i64; i64 wraps around
 *   y      dtype of x, but cumsum's i64 of integers and bool, as of sum; may take
 *          x's storage where the dtype is the same
 *   cost   reads x once, writes y once
 *   grad   copy    dx = dy
 *          cat     dx = a slice of dy for each;  pad the same
 *          flip    dx = flip(dy)
 *          cumsum  dx = cumsum(dy) from the other end
 *   fails  EVALUE  dim outside [-rank, rank), a negative count
 *          EDTYPE  cat of different dtypes
 *          ESHAPE  cat of shapes that differ in another dimension
 *
 * SPDX-License-Identifier: MIT */
#include "op/move.h"
#include "op/build.h"
#include "op/views.h"

/* ---- copy ---------------------------------------------------------------- */

static mrt_status copy_infer(mrt_infer *c) {
  c->out[0] = *c->in[0];
  return MRT_OK;
}

static void copy_gradient(mrt_build *b) { b->din[0] = b->dout[0]; }

const mrt_op mrt_op_copy = {
  .name = "copy",
  .number = MRT_OP_copy,
  .cost = MRT_COST_move,
  .doc = "y = x in storage of its own, contiguous",
  .min_inputs = 1,
  .max_inputs = 1,
  .infer = copy_infer,
  .shard_rule = mrt_shard_rules_same,
  .grad = copy_gradient,
  .strided = 1,
  .width = MRT_FOLLOW,
  .traits = MRT_LINEAR,
};

/* ---- cat ----------------------------------------------------------------- */

static const mrt_option cat_table[] = {
  MRT_OPTION(mrt_dim_options, dim, MRT_OPT_DIM, .preset = 0),
};

static mrt_status cat_infer(mrt_infer *c) {
  mrt_dim_options *o = c->options;
  mrt_type out = *c->in[0];
  MRT_TRY(mrt_want_dim(c, &o->dim, out.rank));
  for (int i = 1; i < c->nin; i++) {
    MRT_TRY(mrt_want_same_dtype(c, 0, i));
    mrt_type like = *c->in[i];
    if (like.rank == out.rank) like.dims[o->dim] = out.dims[o->dim];
    if (!mrt_type_same_shape(&like, &out))
      return mrt_refuse(
          c, MRT_ESHAPE,
          "%s with %s along dim %lld, the other dims equal wanted",
          mrt_show(c->in[0]).s, mrt_show(c->in[i]).s, (long long)o->dim + 1);
    uint64_t sum =
        (uint64_t)out.dims[o->dim] + (uint64_t)c->in[i]->dims[o->dim];
    out.dims[o->dim] = (int64_t)sum;
    MRT_TRY(mrt_type_check(&out, c->op->name, c->e)); /* the sum may overflow */
  }
  c->out[0] = out;
  return MRT_OK;
}

/* `n` positions of x from `first` on.  An empty slice has no place of its own:
 * it lies between the first two positions. */
static mrt_tensor *part(mrt_build *b, mrt_tensor *x, int64_t dim, int64_t first,
                        int64_t n) {
  mrt_slice_options o = { dim, first, first + n - 1, 1 };
  if (n == 0) {
    o.first = mrt_of(x)->dims[dim] > 0;
    o.last = o.first - 1;
  }
  return MRT_MAKE(b, slice, &o, x);
}

static void cat_gradient(mrt_build *b) {
  const mrt_dim_options *o = b->options;
  int64_t at = 0;
  for (int i = 0; i < b->nin; i++) {
    int64_t n = mrt_of(b->in[i])->dims[o->dim];
    if (b->wants[i]) b->din[i] = part(b, b->dout[0], o->dim, at, n);
    at += n;
  }
}

/* Of all whose options begin with the dimension they work along. */
static int shard_rule(const mrt_signature *s, int input, int dim) {
  const mrt_dim_options *o = s->options;
  return dim == o->dim ? MRT_RULE_UNKNOWN : dim;
}
static int cat_shard_rule(const mrt_signature *s, int input, int dim) {
  const mrt_dim_options *o = s->options;
  return dim == o->dim ? MRT_RULE_RUNS : dim;
}

const mrt_op mrt_op_cat = {
  .name = "cat",
  .number = MRT_OP_cat,
  .cost = MRT_COST_move,
  .doc = "x1, x2 ... one after the other along dim",
  .min_inputs = 1,
  .max_inputs = -1,
  MRT_OPTIONS(cat_table, mrt_dim_options),
  .infer = cat_infer,
  .shard_rule = cat_shard_rule,
  .grad = cat_gradient,
  .strided = UINT32_MAX,
  .width = MRT_FOLLOW,
  .traits = MRT_LINEAR,
};

/* ---- pad ----------------------------------------------------------------- */

static const mrt_option pad_table[] = {
  MRT_OPTION(mrt_pad_options, dim, MRT_OPT_DIM, .required = true),
  MRT_OPTION(mrt_pad_options, before, MRT_OPT_INT, .preset = 0),
  MRT_OPTION(mrt_pad_options, after, MRT_OPT_INT, .preset = 0),
};

static mrt_status pad_infer(mrt_infer *c) {
  mrt_pad_options *o = c->options;
  MRT_TRY(mrt_want_dim(c, &o->dim, c->in[0]->rank));
  const int64_t most = INT64_C(1) << 60; /* their sum does not overflow */
  if (o->before < 0 || o->after < 0 || o->before > most || o->after > most)
    return mrt_refuse(c, MRT_EVALUE,
                      "%lld before and %lld after, 0 or more wanted",
                      (long long)o->before, (long long)o->after);
  c->out[0] = *c->in[0];
  c->out[0].dims[o->dim] += o->before + o->after;
  return MRT_OK;
}

static void pad_gradient(mrt_build *b) {
  const mrt_pad_options *o = b->options;
  int64_t n = mrt_of(b->in[0])->dims[o->dim];
  b->din[0] = part(b, b->dout[0], o->dim, o->before, n);
}

const mrt_op mrt_op_pad = {
  .name = "pad",
  .number = MRT_OP_pad,
  .cost = MRT_COST_move,
  .doc = "x with `before` and `after` zeros around it along dim",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(pad_table, mrt_pad_options),
  .infer = pad_infer,
  .shard_rule = shard_rule,
  .grad = pad_gradient,
  .strided = 1,
  .width = MRT_FOLLOW,
  .traits = MRT_LINEAR,
};

/* ---- flip ---------------------------------------------------------------- */

static const mrt_option flip_table[] = {
  MRT_OPTION(mrt_flip_options, dims, MRT_OPT_DIMS),
};

static mrt_status flip_infer(mrt_infer *c) {
  mrt_flip_options *o = c->options;
  MRT_TRY(mrt_want_dims(c, &o->dims, c->in[0]->rank));
  c->out[0] = *c->in[0];
  return MRT_OK;
}

static void flip_gradient(mrt_build *b) {
  b->din[0] = MRT_MAKE(b, flip, b->options, b->dout[0]);
}

static int flip_shard_rule(const mrt_signature *s, int input, int dim) {
  const mrt_flip_options *o = s->options;
  for (int i = 0; i < o->dims.count; i++)
    if (o->dims.at[i] == dim) return MRT_RULE_UNKNOWN;
  return dim;
}

const mrt_op mrt_op_flip = {
  .name = "flip",
  .number = MRT_OP_flip,
  .cost = MRT_COST_move,
  .doc = "x with the positions of dims, or of all, in the other order",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(flip_table, mrt_flip_options),
  .infer = flip_infer,
  .shard_rule = flip_shard_rule,
  .grad = flip_gradient,
  .strided = 1,
  .width = MRT_FOLLOW,
  .traits = MRT_LINEAR,
};

/* ---- cumsum -------------------------------------------------------------- */

static const mrt_option cumsum_table[] = {
  MRT_OPTION(mrt_cumsum_options, dim, MRT_OPT_DIM, .required = true),
  MRT_OPTION(mrt_cumsum_options, reverse, MRT_OPT_BOOL, .preset = false),
};

static mrt_status cumsum_infer(mrt_infer *c) {
  mrt_cumsum_options *o = c->options;
  if (mrt_is_narrow(c->in[0]->dtype)) /* computed in f32 then */
    return mrt_refuse(c, MRT_EDTYPE, "%s, f32, f64, an integer or bool wanted",
                      mrt_show(c->in[0]).s);
  MRT_TRY(mrt_want_dim(c, &o->dim, c->in[0]->rank));
  c->out[0] = *c->in[0];
  if (!mrt_is_real(c->in[0]->dtype)) c->out[0].dtype = MRT_i64;
  return MRT_OK;
}

static void cumsum_gradient(mrt_build *b) {
  const mrt_cumsum_options *o = b->options;
  mrt_cumsum_options back = { o->dim, !o->reverse };
  b->din[0] = MRT_MAKE(b, cumsum, &back, b->dout[0]);
}

static double cumsum_flops(const mrt_signature *s) {
  return (double)mrt_type_count(s->in[0]);
}

const mrt_op mrt_op_cumsum = {
  .name = "cumsum",
  .number = MRT_OP_cumsum,
  .cost = MRT_COST_reduce,
  .doc = "y[k] = x[1] + ... + x[k] along dim; from the end if reverse",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(cumsum_table, mrt_cumsum_options),
  .infer = cumsum_infer,
  .shard_rule = shard_rule,
  .grad = cumsum_gradient,
  .flops = cumsum_flops,
  .inplace = 1,
  .width = MRT_WIDE,
  .narrow_inputs = 1,
  .traits = MRT_LINEAR,
};
