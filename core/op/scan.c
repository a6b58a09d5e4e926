/* scan.c -- running functions along a dimension; cumsum stands in move.c
 *
 *   cumprod         y[k] = x[1] * ... * x[k]
 *   cummax, cummin  the largest, smallest of x[1] ... x[k], and where it stands
 *   recurrence      y[k] = a[k] * y[k - 1] + b[k], y[0] = 0; or from the end
 *
 *   x          cumprod: f32 | f64, computed in f64; integers and bool, in i64,
 *              which wraps around.  cummax, cummin: these and their dtype
 *   a, b       f32 | f64, of one shape; computed in f64
 *   positions  i64, 0-based: the last of equal elements; NaN is larger, and
 *              smaller, than all numbers
 *   cost       reads each input once, writes each result once
 *   grad       cumprod         dx[k] = (x[1] ... x[k - 1]) * r[k], where
 *                              r[k] = dy[k] + x[k + 1] * r[k + 1]: right at
 *                              zeros, for nothing is divided
 *              cummax, cummin  dx = dy, added up where the elements stand
 *              recurrence      db[k] = dy[k] + a[k + 1] * db[k + 1];
 *                              da[k] = db[k] * y[k - 1]
 *   fails      EVALUE  dim outside [-rank, rank)
 *              ESHAPE, EDTYPE  a and b that differ; narrow floats (callers
 *                      widen them)
 *
 * SPDX-License-Identifier: MIT */
#include "op/build.h"
#include "op/move.h"
#include "op/views.h"

static mrt_status want_wide(mrt_infer *c, int64_t *dim) {
  const mrt_type *x = c->in[0];
  if (mrt_is_narrow(x->dtype))
    return mrt_refuse(c, MRT_EDTYPE, "%s, f32, f64, an integer or bool wanted",
                      mrt_show(x).s);
  if (x->rank == 0 && (*dim == 0 || *dim == -1)) return *dim = 0, MRT_OK;
  return mrt_want_dim(c, dim, x->rank);
}

static int shard_rule(const mrt_signature *s, int input, int dim) {
  const mrt_dim_options *o = s->options; /* the first of all options here */
  return dim == o->dim ? MRT_RULE_UNKNOWN : dim;
}

static double flops(const mrt_signature *s) {
  return (double)mrt_type_count(s->in[0]);
}

/* x one position later along dim: first `start`, without its last; or one
 * earlier. */
static mrt_tensor *later(mrt_build *b, mrt_tensor *x, int64_t dim, double start,
                         bool earlier) {
  const mrt_type *t = mrt_of(x);
  int64_t n = t->rank ? t->dims[dim] : 1;
  mrt_type one = *t;
  if (t->rank) one.dims[dim] = 1;
  mrt_tensor *edge = mrt_expand_to(b, mrt_const_like(b, x, start), &one);
  if (n == 0 || t->rank == 0) return n ? edge : x;
  if (n == 1) return edge;
  mrt_slice_options rest = { dim, earlier, n - 2 + earlier, 1 };
  mrt_dim_options along = { dim };
  mrt_tensor *kept = MRT_MAKE(b, slice, &rest, x);
  return earlier ? MRT_MAKE(b, cat, &along, kept, edge)
                 : MRT_MAKE(b, cat, &along, edge, kept);
}

/* ---- cumprod ------------------------------------------------------------- */

static const mrt_option dim_table[] = {
  MRT_OPTION(mrt_dim_options, dim, MRT_OPT_DIM, .required = true),
};

static mrt_status cumprod_infer(mrt_infer *c) {
  mrt_dim_options *o = c->options;
  MRT_TRY(want_wide(c, &o->dim));
  c->out[0] = *c->in[0];
  if (!mrt_is_real(c->in[0]->dtype)) c->out[0].dtype = MRT_i64;
  return MRT_OK;
}

static void cumprod_gradient(mrt_build *b) {
  const mrt_dim_options *o = b->options;
  mrt_tensor *x = b->in[0];
  mrt_cumsum_options back = { o->dim, true };
  mrt_tensor *rest =
      MRT_MAKE(b, recurrence, &back, later(b, x, o->dim, 0, true), b->dout[0]);
  b->din[0] = mrt_mul(b, later(b, b->out[0], o->dim, 1, false), rest);
}

const mrt_op mrt_op_cumprod = {
  .name = "cumprod",
  .number = MRT_OP_cumprod,
  .cost = MRT_COST_reduce,
  .doc = "y[k] = x[1] * ... * x[k] along dim",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(dim_table, mrt_dim_options),
  .infer = cumprod_infer,
  .shard_rule = shard_rule,
  .grad = cumprod_gradient,
  .flops = flops,
  .inplace = 1,
  .width = MRT_WIDE,
};

/* ---- cummax, cummin ------------------------------------------------------ */

static mrt_status extreme_infer(mrt_infer *c) {
  mrt_dim_options *o = c->options;
  MRT_TRY(want_wide(c, &o->dim));
  c->nout = 2;
  c->out[0] = c->out[1] = *c->in[0];
  c->out[1].dtype = MRT_i64;
  return MRT_OK;
}

static void extreme_gradient(mrt_build *b) {
  mrt_tensor *x = b->in[0];
  if (!b->dout[0]) return;
  if (mrt_of(x)->rank == 0) {
    b->din[0] = b->dout[0];
    return;
  }
  mrt_tensor *none = mrt_expand_to(b, mrt_const_like(b, x, 0), mrt_of(x));
  b->din[0] = MRT_MAKE(b, scatter_add, b->options, none, b->out[1], b->dout[0]);
}

const mrt_op mrt_op_cummax = {
  .name = "cummax",
  .number = MRT_OP_cummax,
  .cost = MRT_COST_reduce,
  .doc = "the largest of x[1] ... x[k] along dim, and its position",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(dim_table, mrt_dim_options),
  .infer = extreme_infer,
  .shard_rule = shard_rule,
  .grad = extreme_gradient,
  .flops = flops,
  .width = MRT_WIDE,
};
const mrt_op mrt_op_cummin = {
  .name = "cummin",
  .number = MRT_OP_cummin,
  .cost = MRT_COST_reduce,
  .doc = "the smallest of x[1] ... x[k] along dim, and its position",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(dim_table, mrt_dim_options),
  .infer = extreme_infer,
  .shard_rule = shard_rule,
  .grad = extreme_gradient,
  .flops = flops,
  .width = MRT_WIDE,
};

/* ---- recurrence ---------------------------------------------------------- */

static const mrt_option recurrence_table[] = {
  MRT_OPTION(mrt_cumsum_options, dim, MRT_OPT_DIM, .required = true),
  MRT_OPTION(mrt_cumsum_options, reverse, MRT_OPT_BOOL, .preset = false),
};

static mrt_status recurrence_infer(mrt_infer *c) {
  mrt_cumsum_options *o = c->options;
  MRT_TRY(mrt_want_real(c, 0));
  MRT_TRY(mrt_want_same(c, 0, 1));
  MRT_TRY(want_wide(c, &o->dim));
  c->out[0] = *c->in[0];
  return MRT_OK;
}

static void recurrence_gradient(mrt_build *b) {
  const mrt_cumsum_options *o = b->options;
  mrt_cumsum_options back = { o->dim, !o->reverse };
  mrt_tensor *factor = later(b, b->in[0], o->dim, 0, !o->reverse);
  mrt_tensor *db = MRT_MAKE(b, recurrence, &back, factor, b->dout[0]);
  b->din[1] = db;
  if (b->wants[0])
    b->din[0] = mrt_mul(b, db, later(b, b->out[0], o->dim, 0, o->reverse));
}

static double recurrence_flops(const mrt_signature *s) {
  return 2 * (double)mrt_type_count(s->in[0]);
}

const mrt_op mrt_op_recurrence = {
  .name = "recurrence",
  .number = MRT_OP_recurrence,
  .cost = MRT_COST_reduce,
  .doc = "y[k] = a[k] * y[k - 1] + b[k] along dim; from the end if reverse",
  .min_inputs = 2,
  .max_inputs = 2,
  MRT_OPTIONS(recurrence_table, mrt_cumsum_options),
  .infer = recurrence_infer,
  .shard_rule = shard_rule,
  .grad = recurrence_gradient,
  .flops = recurrence_flops,
  .inplace = 3,
  .width = MRT_WIDE,
  .traits = MRT_LIBRARY,
};
