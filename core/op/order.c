/* order.c -- elements by their rank along a dimension: values, and where they
 * stood
 *
 *   sort       all, in order; equal ones stay in theirs
 *   topk       the k largest, or smallest
 *   kthvalue   the k-th smallest
 *   median     the lower of the two in the middle; NaN if there is one
 *   mode       the one that stands there most often; of several the smallest
 *
 *   x          f32 | f64, i64 | i32 | u8 | bool; a scalar is a row of one
 *   values     dtype of x
 *   positions  i64, 0-based: of equal elements topk, kthvalue and median name
 *              the first, mode the last
 *   order      NaN after all numbers, NaNs equal to each other (for mode each
 *              is its own); -0 equals 0
 *   cost       reads x a few times; sort: as often as an element has bytes
 *   grad       dx = the gradient of the values, where they stood
 *   fails      EVALUE  dim outside [-rank, rank), k outside the dimension, the
 *                      k-th, median or mode of nothing, more than 2^32 - 1
 *                      elements along dim
 *              EDTYPE  narrow floats (callers widen them)
 *
 * SPDX-License-Identifier: MIT */
#include "op/order.h"
#include "op/build.h"
#include "op/move.h"

static const int64_t longest = UINT32_MAX; /* a position takes 32 bits */

/* What all want of x; *dim becomes 0-based, that of a scalar 0. */
static mrt_status want_rows(mrt_infer *c, int64_t *dim) {
  const mrt_type *x = c->in[0];
  if (mrt_is_narrow(x->dtype))
    return mrt_refuse(c, MRT_EDTYPE, "%s, f32, f64, an integer or bool wanted",
                      mrt_show(x).s);
  if (x->rank == 0 && (*dim == 0 || *dim == -1)) return *dim = 0, MRT_OK;
  MRT_TRY(mrt_want_dim(c, dim, x->rank));
  if (x->dims[*dim] > longest)
    return mrt_refuse(c, MRT_EVALUE, "%s, at most %lld along dim %lld wanted",
                      mrt_show(x).s, (long long)longest, (long long)*dim + 1);
  return MRT_OK;
}

static int64_t length(const mrt_type *x, int64_t dim) {
  return x->rank ? x->dims[dim] : 1;
}

/* Both results, with n along dim. */
static void give_rows(mrt_infer *c, int64_t dim, int64_t n) {
  c->nout = 2;
  c->out[0] = *c->in[0];
  if (c->out[0].rank) c->out[0].dims[dim] = n;
  c->out[1] = c->out[0];
  c->out[1].dtype = MRT_i64;
}

/* Both results, without dim or with 1 there. */
static void give_one(mrt_infer *c, int64_t dim, bool keepdim) {
  give_rows(c, dim, 1);
  if (keepdim || c->in[0]->rank == 0) return;
  for (int i = 0; i < 2; i++) {
    mrt_type *y = &c->out[i];
    for (int k = (int)dim; k + 1 < y->rank; k++) y->dims[k] = y->dims[k + 1];
    y->dims[--y->rank] = 0;
  }
}

/* There is something to choose, for every result. */
static mrt_status want_some(mrt_infer *c, int64_t dim) {
  if (length(c->in[0], dim) || mrt_type_count(&c->out[0]) == 0) return MRT_OK;
  return mrt_refuse(c, MRT_EVALUE, "over no elements of %s",
                    mrt_show(c->in[0]).s);
}

/* ---- gradients ----------------------------------------------------------- */

/* The gradient of the values goes to where they stood. */
static void scatter(mrt_build *b, int64_t dim) {
  mrt_tensor *x = b->in[0], *dy = b->dout[0], *at = b->out[1];
  const mrt_type *t = mrt_of(x);
  if (!dy) return;
  mrt_type rows = *t;
  if (t->rank == 0) {
    b->din[0] = mrt_reshape_like(b, dy, x);
    return;
  }
  rows.dims[dim] = mrt_of(at)->rank == t->rank ? mrt_of(at)->dims[dim] : 1;
  mrt_dim_options along = { dim };
  mrt_tensor *none = mrt_expand_to(b, mrt_const_like(b, x, 0), t);
  b->din[0] = MRT_MAKE(b, scatter_add, &along, none,
                       mrt_reshape_to(b, at, t->rank, rows.dims),
                       mrt_reshape_to(b, dy, t->rank, rows.dims));
}

static void sort_gradient(mrt_build *b) {
  const mrt_sort_options *o = b->options;
  scatter(b, o->dim);
}

static void topk_gradient(mrt_build *b) {
  const mrt_topk_options *o = b->options;
  scatter(b, o->dim);
}

static void kthvalue_gradient(mrt_build *b) {
  const mrt_kthvalue_options *o = b->options;
  scatter(b, o->dim);
}

/* ---- sort ---------------------------------------------------------------- */

static const mrt_option sort_table[] = {
  MRT_OPTION(mrt_sort_options, dim, MRT_OPT_DIM, .preset = -1),
  MRT_OPTION(mrt_sort_options, descending, MRT_OPT_BOOL, .preset = false),
};

static mrt_status sort_infer(mrt_infer *c) {
  mrt_sort_options *o = c->options;
  MRT_TRY(want_rows(c, &o->dim));
  give_rows(c, o->dim, length(c->in[0], o->dim));
  return MRT_OK;
}

static int sort_shard_rule(const mrt_signature *s, int input, int dim) {
  const mrt_sort_options *o = s->options;
  return dim == o->dim ? MRT_RULE_UNKNOWN : dim;
}

/* Comparisons, were it done by these. */
static double sort_flops(const mrt_signature *s) {
  const mrt_sort_options *o = s->options;
  double n = (double)length(s->in[0], o->dim), rounds = 1;
  for (; n > 2; n /= 2) rounds++;
  return (double)mrt_type_count(s->in[0]) * rounds;
}

const mrt_op mrt_op_sort = {
  .name = "sort",
  .number = MRT_OP_sort,
  .cost = MRT_COST_reduce,
  .doc = "x in order along dim, equal elements in theirs; and their positions",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(sort_table, mrt_sort_options),
  .infer = sort_infer,
  .shard_rule = sort_shard_rule,
  .grad = sort_gradient,
  .flops = sort_flops,
  .width = MRT_WIDE,
};

/* ---- topk ---------------------------------------------------------------- */

static const mrt_option topk_table[] = {
  MRT_OPTION(mrt_topk_options, k, MRT_OPT_INT, .required = true),
  MRT_OPTION(mrt_topk_options, dim, MRT_OPT_DIM, .preset = -1),
  MRT_OPTION(mrt_topk_options, largest, MRT_OPT_BOOL, .preset = true),
  MRT_OPTION(mrt_topk_options, sorted, MRT_OPT_BOOL, .preset = true),
};

static mrt_status want_rank(mrt_infer *c, int64_t k, int64_t least,
                            int64_t dim) {
  int64_t n = length(c->in[0], dim);
  if (k >= least && k <= n) return MRT_OK;
  return mrt_refuse(c, MRT_EVALUE,
                    "k = %lld of %lld along dim %lld of %s, %lld to %lld "
                    "wanted",
                    (long long)k, (long long)n, (long long)dim + 1,
                    mrt_show(c->in[0]).s, (long long)least, (long long)n);
}

static mrt_status topk_infer(mrt_infer *c) {
  mrt_topk_options *o = c->options;
  MRT_TRY(want_rows(c, &o->dim));
  MRT_TRY(want_rank(c, o->k, c->in[0]->rank == 0, o->dim));
  give_rows(c, o->dim, o->k);
  return MRT_OK;
}

static int topk_shard_rule(const mrt_signature *s, int input, int dim) {
  const mrt_topk_options *o = s->options;
  return dim == o->dim ? MRT_RULE_UNKNOWN : dim;
}

static double flops(const mrt_signature *s) {
  return (double)mrt_type_count(s->in[0]);
}

const mrt_op mrt_op_topk = {
  .name = "topk",
  .number = MRT_OP_topk,
  .cost = MRT_COST_reduce,
  .doc = "the k largest (or smallest) x along dim, and their positions",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(topk_table, mrt_topk_options),
  .infer = topk_infer,
  .shard_rule = topk_shard_rule,
  .grad = topk_gradient,
  .flops = flops,
  .width = MRT_WIDE,
};

/* ---- kthvalue, median, mode ---------------------------------------------- */

/* The dimension of the results that `dim` of x becomes. */
static int kept_lane(int64_t along, bool keepdim, int dim) {
  if (dim == along) return MRT_RULE_UNKNOWN;
  return keepdim || dim < along ? dim : dim - 1;
}

static const mrt_option kthvalue_table[] = {
  MRT_OPTION(mrt_kthvalue_options, k, MRT_OPT_INT, .required = true),
  MRT_OPTION(mrt_kthvalue_options, dim, MRT_OPT_DIM, .preset = -1),
  MRT_OPTION(mrt_kthvalue_options, keepdim, MRT_OPT_BOOL, .preset = false),
};

static mrt_status kthvalue_infer(mrt_infer *c) {
  mrt_kthvalue_options *o = c->options;
  MRT_TRY(want_rows(c, &o->dim));
  MRT_TRY(want_rank(c, o->k, 1, o->dim));
  give_one(c, o->dim, o->keepdim);
  return MRT_OK;
}

static int kthvalue_shard_rule(const mrt_signature *s, int input, int dim) {
  const mrt_kthvalue_options *o = s->options;
  return kept_lane(o->dim, o->keepdim, dim);
}

const mrt_op mrt_op_kthvalue = {
  .name = "kthvalue",
  .number = MRT_OP_kthvalue,
  .cost = MRT_COST_reduce,
  .doc = "the k-th smallest x along dim, k from 1, and its position",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(kthvalue_table, mrt_kthvalue_options),
  .infer = kthvalue_infer,
  .shard_rule = kthvalue_shard_rule,
  .grad = kthvalue_gradient,
  .flops = flops,
  .width = MRT_WIDE,
};

static const mrt_option median_table[] = {
  MRT_OPTION(mrt_middle_options, dim, MRT_OPT_DIM, .preset = -1),
  MRT_OPTION(mrt_middle_options, keepdim, MRT_OPT_BOOL, .preset = false),
  MRT_OPTION(mrt_middle_options, skip_nan, MRT_OPT_BOOL, .preset = false),
};

static const mrt_option mode_table[] = {
  MRT_OPTION(mrt_middle_options, dim, MRT_OPT_DIM, .preset = -1),
  MRT_OPTION(mrt_middle_options, keepdim, MRT_OPT_BOOL, .preset = false),
};

static mrt_status middle_infer(mrt_infer *c) {
  mrt_middle_options *o = c->options;
  MRT_TRY(want_rows(c, &o->dim));
  give_one(c, o->dim, o->keepdim);
  return want_some(c, o->dim);
}

static int middle_shard_rule(const mrt_signature *s, int input, int dim) {
  const mrt_middle_options *o = s->options;
  return kept_lane(o->dim, o->keepdim, dim);
}

static void middle_gradient(mrt_build *b) {
  const mrt_middle_options *o = b->options;
  scatter(b, o->dim);
}

const mrt_op mrt_op_median = {
  .name = "median",
  .number = MRT_OP_median,
  .cost = MRT_COST_reduce,
  .doc = "the lower of the two middle x along dim, and its position",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(median_table, mrt_middle_options),
  .infer = middle_infer,
  .shard_rule = middle_shard_rule,
  .grad = middle_gradient,
  .flops = flops,
  .width = MRT_WIDE,
};

const mrt_op mrt_op_mode = {
  .name = "mode",
  .number = MRT_OP_mode,
  .cost = MRT_COST_reduce,
  .doc = "the x that stands along dim most often, and its last position",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(mode_table, mrt_middle_options),
  .infer = middle_infer,
  .shard_rule = middle_shard_rule,
  .grad = middle_gradient,
  .flops = flops,
  .width = MRT_WIDE,
};
