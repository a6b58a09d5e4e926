/* search.c -- looking for elements, and counting them
 *
 *   searchsorted    how many of a sorted row lie before each value
 *   bincount        y[id] = how often id occurs, or the sum of its weights
 *   histc           how many x lie in each of `bins` bins of one width between min
 *                   and max, which lies in the last; NaN in none.  0 and 0: the
 *                   bounds of the data; where they are equal 1 to each side,
 *                   where they are not finite all is NaN
 *   run_starts      y[i]: row i is the first or differs from the one before
 *   nonzero_static  the positions of the first `size` elements that are not 0
 *
 *   sorted   [..., n], in ascending order; f32 | f64, i64 | i32 | u8
 *   values   that dtype; [..., m] with the same leading dimensions, or of any
 *            shape where sorted has one dimension.  A NaN lies after all
 *   ids      i64 | i32 | u8, [n]; weights: f32 | f64, [n]
 *   results  searchsorted: i64, of the shape of values.  bincount: [size], i64 or
 *            the dtype of the weights.  histc: [bins], of the dtype of x, f32 | f64.
 *            run_starts: bool [n] of x [n] or [n, m].  nonzero_static: i64 [size, rank of x],
 *            0-based, row-major; after the last all is fill_value
 *   cost     searchsorted: log2(n) steps a value; the others read x once
 *   grad     bincount: weights get the gradient at their id
 *   fails    ESHAPE, EDTYPE  what does not fit
 *            EVALUE  a negative size; bounds that are none; ids for a size of 0
 *            EDATA   bincount, when run: an id outside [0, size)
 *
 * SPDX-License-Identifier: MIT */
#include "op/search.h"
#include "op/build.h"
#include "op/move.h"

#include <float.h>

/* ---- searchsorted -------------------------------------------------------- */

static const mrt_option searchsorted_table[] = {
  MRT_OPTION(mrt_searchsorted_options, right, MRT_OPT_BOOL, .preset = false),
};

static mrt_status searchsorted_infer(mrt_infer *c) {
  const mrt_type *row = c->in[0], *values = c->in[1];
  if (!mrt_is_real(row->dtype) && !mrt_is_int(row->dtype))
    return mrt_refuse(c, MRT_EDTYPE, "%s, f32, f64 or an integer wanted",
                      mrt_show(row).s);
  MRT_TRY(mrt_want_same_dtype(c, 0, 1));
  bool fits = row->rank == 1 || (row->rank > 1 && row->rank == values->rank);
  for (int i = 0; fits && i + 1 < row->rank; i++)
    fits = row->dims[i] == values->dims[i];
  if (!fits)
    return mrt_refuse(c, MRT_ESHAPE,
                      "values %s in %s, one dimension or the same leading ones "
                      "wanted",
                      mrt_show(values).s, mrt_show(row).s);
  c->out[0] = *values;
  c->out[0].dtype = MRT_i64;
  return MRT_OK;
}

/* Rows are apart; the values of one row, too. */
static int searchsorted_shard_rule(const mrt_signature *s, int input, int dim) {
  int rank = s->in[0]->rank;
  if (dim + 1 < rank) return dim;
  return input == 1 ? dim : MRT_RULE_UNKNOWN;
}

static double searchsorted_flops(const mrt_signature *s) {
  const mrt_type *row = s->in[0];
  double n = row->rank ? (double)row->dims[row->rank - 1] : 1, steps = 1;
  for (; n > 1; n /= 2) steps++;
  return (double)mrt_type_count(s->in[1]) * steps;
}

const mrt_op mrt_op_searchsorted = {
  .name = "searchsorted",
  .number = MRT_OP_searchsorted,
  .cost = MRT_COST_reduce,
  .doc = "how many of a sorted row are < value; right: <= value",
  .min_inputs = 2,
  .max_inputs = 2,
  MRT_OPTIONS(searchsorted_table, mrt_searchsorted_options),
  .infer = searchsorted_infer,
  .shard_rule = searchsorted_shard_rule,
  .flops = searchsorted_flops,
  .width = MRT_WIDE,
};

/* ---- bincount ------------------------------------------------------------ */

static const mrt_option bincount_table[] = {
  MRT_OPTION(mrt_bincount_options, size, MRT_OPT_INT, .required = true),
};

static mrt_status bincount_infer(mrt_infer *c) {
  const mrt_bincount_options *o = c->options;
  const mrt_type *ids = c->in[0];
  MRT_TRY(mrt_want_integer(c, 0));
  if (ids->rank != 1)
    return mrt_refuse(c, MRT_ESHAPE, "ids %s, one dimension wanted",
                      mrt_show(ids).s);
  if (c->nin == 2) {
    MRT_TRY(mrt_want_real(c, 1));
    if (!mrt_type_same_shape(ids, c->in[1]))
      return mrt_refuse(c, MRT_ESHAPE,
                        "ids %s, weights %s, equal shapes wanted",
                        mrt_show(ids).s, mrt_show(c->in[1]).s);
  }
  if (o->size < (ids->dims[0] > 0))
    return mrt_refuse(c, MRT_EVALUE, "size %lld for ids %s, more wanted",
                      (long long)o->size, mrt_show(ids).s);
  c->out[0] =
      (mrt_type){ c->nin == 2 ? c->in[1]->dtype : MRT_i64, 1, { o->size } };
  return MRT_OK;
}

static void bincount_gradient(mrt_build *b) {
  mrt_dim_options along = { 0 };
  if (b->nin == 2)
    b->din[1] = MRT_MAKE(b, gather, &along, b->dout[0], b->in[0]);
}

static int bincount_shard_rule(const mrt_signature *s, int input, int dim) {
  return MRT_RULE_PARTIAL;
}

static double flops(const mrt_signature *s) {
  return (double)mrt_type_count(s->in[0]);
}

const mrt_op mrt_op_bincount = {
  .name = "bincount",
  .number = MRT_OP_bincount,
  .cost = MRT_COST_move,
  .doc = "y[id] = how often id occurs, or the sum of its weights",
  .min_inputs = 1,
  .max_inputs = 2,
  MRT_OPTIONS(bincount_table, mrt_bincount_options),
  .infer = bincount_infer,
  .shard_rule = bincount_shard_rule,
  .grad = bincount_gradient,
  .flops = flops,
  .width = MRT_WIDE,
  .traits = MRT_FAULTS,
};

/* ---- histc, run_starts --------------------------------------------------- */

static const mrt_option histc_table[] = {
  MRT_OPTION(mrt_histc_options, bins, MRT_OPT_INT, .preset = 100),
  MRT_OPTION(mrt_histc_options, min, MRT_OPT_NUM, .preset = 0),
  MRT_OPTION(mrt_histc_options, max, MRT_OPT_NUM, .preset = 0),
};

static mrt_status histc_infer(mrt_infer *c) {
  const mrt_histc_options *o = c->options;
  MRT_TRY(mrt_want_real(c, 0));
  if (o->bins < 1 || o->bins > 1 << 30)
    return mrt_refuse(c, MRT_EVALUE, "%lld bins, 1 to %d wanted",
                      (long long)o->bins, 1 << 30);
  if (!(o->min <= o->max) || o->min < -DBL_MAX || o->max > DBL_MAX)
    return mrt_refuse(c, MRT_EVALUE,
                      "min %g, max %g: finite ones, the smaller first, wanted",
                      o->min, o->max);
  c->out[0] = (mrt_type){ c->in[0]->dtype, 1, { o->bins } };
  return MRT_OK;
}

const mrt_op mrt_op_histc = {
  .name = "histc",
  .number = MRT_OP_histc,
  .cost = MRT_COST_reduce,
  .doc = "how many x lie in each of `bins` bins between min and max",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(histc_table, mrt_histc_options),
  .infer = histc_infer,
  .flops = flops,
  .width = MRT_WIDE,
};

static mrt_status run_starts_infer(mrt_infer *c) {
  const mrt_type *x = c->in[0];
  if (mrt_is_narrow(x->dtype))
    return mrt_refuse(c, MRT_EDTYPE, "%s, f32, f64, an integer or bool wanted",
                      mrt_show(x).s);
  if (x->rank < 1 || x->rank > 2)
    return mrt_refuse(c, MRT_ESHAPE, "%s, one or two dimensions wanted",
                      mrt_show(x).s);
  c->out[0] = (mrt_type){ MRT_bool, 1, { x->dims[0] } };
  return MRT_OK;
}

const mrt_op mrt_op_run_starts = {
  .name = "run_starts",
  .number = MRT_OP_run_starts,
  .cost = MRT_COST_move,
  .doc = "y[i]: row i of x is the first, or differs from the one before",
  .min_inputs = 1,
  .max_inputs = 1,
  .infer = run_starts_infer,
  .flops = flops,
  .width = MRT_WIDE,
  .traits = MRT_LIBRARY,
};

/* ---- nonzero_static ------------------------------------------------------ */

static const mrt_option nonzero_table[] = {
  MRT_OPTION(mrt_nonzero_options, size, MRT_OPT_INT, .required = true),
  MRT_OPTION(mrt_nonzero_options, fill_value, MRT_OPT_INT, .preset = -1),
};

static mrt_status nonzero_infer(mrt_infer *c) {
  const mrt_nonzero_options *o = c->options;
  const mrt_type *x = c->in[0];
  if (mrt_is_narrow(x->dtype))
    return mrt_refuse(c, MRT_EDTYPE, "%s, f32, f64, an integer or bool wanted",
                      mrt_show(x).s);
  if (o->size < 0)
    return mrt_refuse(c, MRT_EVALUE, "size %lld, 0 or more wanted",
                      (long long)o->size);
  c->out[0] = (mrt_type){ MRT_i64, 2, { o->size, x->rank } };
  return MRT_OK;
}

const mrt_op mrt_op_nonzero_static = {
  .name = "nonzero_static",
  .number = MRT_OP_nonzero_static,
  .cost = MRT_COST_move,
  .doc = "the positions of the first `size` x that are not 0",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(nonzero_table, mrt_nonzero_options),
  .infer = nonzero_infer,
  .flops = flops,
  .width = MRT_WIDE,
};
