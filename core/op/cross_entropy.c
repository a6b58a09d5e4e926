/* cross_entropy.c -- the loss of a classifier, from logits and class ids
 *
 *     lse = log sum exp(logits);  loss = lse - logits[target]     for each row
 *     with label_smoothing e, over V classes:
 *     loss = lse - (1 - e) logits[target] - e mean(logits)
 *
 *   logits   [..., V], f32 | f64
 *   targets  [...], 0-based ids, i64 | i32 | u8; rows whose id is
 *            `ignore_index` have loss 0, lse 0 and gradient 0
 *   loss lse [...]; probabilities are never stored
 *   edges    a logit of -inf is a class of probability 0: the loss is inf if the
 *            target, or with smoothing any class, is one, and the gradient
 *            finite.  NaN where all logits are -inf, or one is inf or NaN
 *   cost     4 flop per logit; reads logits once, writes one number a row
 *   grad     dlogits = (exp(logits - lse) - (1 - e) onehot(target) - e / V)
 *            * dloss; may take the storage of the logits
 *   fails    EDTYPE, ESHAPE; an id outside [0, V) is a fault of the run
 *   from     Milakov & Gimelshein, arXiv:1805.02867 (one pass for lse); Szegedy et
 *            al., arXiv:1512.00567 (smoothing)
 *
 *   cross_entropy_both  dlogits and loss at once, for logits, targets and dloss: a row
 *            is read again while a cache has it.  The pass join_losses makes it of the
 *            two where dloss does not hang on the loss
 *
 *   nll_loss  -logits[target] of all rows together, their mean or sum, where
 *            logits are logarithms of probabilities already; NaN is the mean of
 *            no rows.  The gradient is that of plainer operators.
 *
 * Other means and sums over rows are operators of their own.
 *
 * SPDX-License-Identifier: MIT */
#include "op/cross_entropy.h"
#include "op/build.h"
#include "op/make.h"
#include "op/softmax.h"

static const mrt_option options[] = {
  MRT_OPTION(mrt_cross_entropy_options, ignore_index, MRT_OPT_INT,
             .preset = -100),
  MRT_OPTION(mrt_cross_entropy_options, label_smoothing, MRT_OPT_NUM),
};

static const mrt_option nll_options[] = {
  MRT_OPTION(mrt_cross_entropy_options, ignore_index, MRT_OPT_INT,
             .preset = -100),
  MRT_OPTION(mrt_cross_entropy_options, mean, MRT_OPT_BOOL, .preset = true),
};

/* Logits and targets, and what each row's number looks like. */
static mrt_status want_rows(mrt_infer *c, mrt_type *per_row) {
  const mrt_type *logits = c->in[0];
  MRT_TRY(mrt_want_real(c, 0));
  MRT_TRY(mrt_want_integer(c, 1));
  if (logits->rank == 0)
    return mrt_refuse(c, MRT_ESHAPE, "%s, at least one dimension wanted",
                      mrt_show(logits).s);
  *per_row = *logits;
  per_row->dims[--per_row->rank] = 0;
  return mrt_want_shape(c, 1, per_row->rank, per_row->dims,
                        "one target for each row of logits");
}

static mrt_status infer(mrt_infer *c) {
  const mrt_cross_entropy_options *o = c->options;
  mrt_type per_row;
  if (!(o->label_smoothing >= 0 && o->label_smoothing <= 1))
    return mrt_refuse(c, MRT_EVALUE, "label_smoothing %g, 0 to 1 wanted",
                      o->label_smoothing);
  MRT_TRY(want_rows(c, &per_row));
  c->nout = 2;
  c->out[0] = c->out[1] = per_row;
  return MRT_OK;
}

static mrt_status infer_grad(mrt_infer *c) {
  mrt_type per_row;
  MRT_TRY(want_rows(c, &per_row));
  for (int i = 2; i < 4; i++) {
    MRT_TRY(mrt_want_same_dtype(c, 0, i));
    MRT_TRY(mrt_want_shape(c, i, per_row.rank, per_row.dims,
                           "one number for each row of logits"));
  }
  c->out[0] = *c->in[0];
  return MRT_OK;
}

static mrt_status infer_both(mrt_infer *c) {
  mrt_type per_row;
  MRT_TRY(infer(c));
  per_row = c->out[0];
  MRT_TRY(mrt_want_same_dtype(c, 0, 2));
  MRT_TRY(mrt_want_shape(c, 2, per_row.rank, per_row.dims,
                         "one number for each row of logits"));
  c->out[0] = *c->in[0], c->out[1] = per_row;
  return MRT_OK;
}

static mrt_status infer_nll(mrt_infer *c) {
  mrt_type per_row;
  MRT_TRY(want_rows(c, &per_row));
  c->out[0] = (mrt_type){ .dtype = per_row.dtype };
  return MRT_OK;
}

static double flops(const mrt_signature *s) {
  return 4.0 * (double)mrt_type_count(s->in[0]);
}
static double both_flops(const mrt_signature *s) { return 2 * flops(s); }

/* ---- the same from plainer operators, to differentiate ------------------- */

/* x [...] as [..., 1]. */
static mrt_tensor *keep_last(mrt_build *b, mrt_tensor *x) {
  mrt_type t = *mrt_of(x);
  t.dims[t.rank] = 1;
  return mrt_reshape_to(b, x, t.rank + 1, t.dims);
}

/* Which rows count, bool [...]. */
static mrt_tensor *counting(mrt_build *b) {
  const mrt_cross_entropy_options *o = b->options;
  mrt_tensor *id = mrt_cast_to(b, b->in[1], MRT_i64);
  mrt_tensor *none = mrt_const_like(b, id, (double)o->ignore_index);
  return MRT_MAKE(b, ne, NULL, id, mrt_expand_to(b, none, mrt_of(id)));
}

/* Where a row's class is its target, bool [..., V]. */
static mrt_tensor *onehot(mrt_build *b) {
  mrt_type t = *mrt_of(b->in[0]);
  mrt_arange_options o = { .stop = (double)t.dims[t.rank - 1],
                           .step = 1,
                           .dtype = MRT_i64 };
  mrt_tensor *classes = mrt_make(b, MRT_OP_arange, &o, 0, NULL);
  mrt_tensor *id = keep_last(b, mrt_cast_to(b, b->in[1], MRT_i64));
  return MRT_MAKE(b, eq, NULL, mrt_expand_to(b, classes, &t),
                  mrt_expand_to(b, id, &t));
}

/* The weights of a row's classes: of the target, of each other. */
static mrt_tensor *weights(mrt_build *b) {
  const mrt_cross_entropy_options *o = b->options;
  const mrt_type *t = mrt_of(b->in[0]);
  int64_t n = t->dims[t->rank - 1];
  double share = o->label_smoothing / (double)(n ? n : 1);
  return mrt_where(b, onehot(b),
                   mrt_const_like(b, b->in[0], 1 - o->label_smoothing + share),
                   mrt_const_like(b, b->in[0], share));
}

/* Each row's x weighed and added up, 0 in rows that do not count.  Without
 * smoothing other classes may be infinite. */
static mrt_tensor *weigh(mrt_build *b, mrt_tensor *x) {
  const mrt_cross_entropy_options *o = b->options;
  mrt_tensor *zero = mrt_const_like(b, x, 0);
  mrt_tensor *own = o->label_smoothing > 0 ? mrt_mul(b, weights(b), x)
                                           : mrt_where(b, onehot(b), x, zero);
  mrt_tensor *sum = mrt_sum_dim(b, own, mrt_of(x)->rank - 1, false);
  return mrt_where(b, counting(b), sum, zero);
}

static void parts(mrt_build *b, mrt_tensor **value) {
  mrt_softmax_options last = { .dim = -1 };
  mrt_tensor *x = b->in[0];
  value[0] = mrt_neg(b, weigh(b, MRT_MAKE(b, log_softmax, &last, x)));
  value[1] = mrt_add(b, weigh(b, x), value[0]);
}

static mrt_tensor *sum_all(mrt_build *b, mrt_tensor *rows) {
  for (int d = mrt_of(rows)->rank; d-- > 0;)
    rows = mrt_sum_dim(b, rows, d, false);
  return rows;
}

static void nll_parts(mrt_build *b, mrt_tensor **value) {
  const mrt_cross_entropy_options *o = b->options;
  mrt_dtype dtype = mrt_of(b->in[0])->dtype;
  mrt_tensor *sum = mrt_neg(b, sum_all(b, weigh(b, b->in[0])));
  mrt_tensor *count = sum_all(b, mrt_cast_to(b, counting(b), dtype));
  value[0] = o->mean ? mrt_div(b, sum, count) : sum;
}

static void grad_parts(mrt_build *b, mrt_tensor **value) {
  mrt_tensor *x = b->in[0], *dloss = b->in[3];
  mrt_tensor *zero = mrt_const_like(b, x, 0);
  mrt_tensor *d = keep_last(b, mrt_where(b, counting(b), dloss, zero));
  mrt_tensor *p = mrt_exp(b, mrt_sub(b, x, keep_last(b, b->in[2])));
  value[0] = mrt_mul(b, mrt_sub(b, p, weights(b)), d);
}

/* ---- gradients ----------------------------------------------------------- */

static void gradient(mrt_build *b) {
  if (b->dout[1])
    mrt_grad_decomposed(b, parts);
  else
    b->din[0] = MRT_MAKE(b, cross_entropy_grad, b->options, b->in[0], b->in[1],
                         b->out[1], b->dout[0]);
}
static void grad_gradient(mrt_build *b) { mrt_grad_decomposed(b, grad_parts); }

static void both_parts(mrt_build *b, mrt_tensor **value) {
  mrt_tensor *sum[2] = { NULL, NULL };
  mrt_make_all(b, MRT_OP_cross_entropy, b->options, 2, b->in, sum, 2);
  value[0] = MRT_MAKE(b, cross_entropy_grad, b->options, b->in[0], b->in[1],
                      sum[1], b->in[2]);
  value[1] = sum[0];
}
static void both_gradient(mrt_build *b) { mrt_grad_decomposed(b, both_parts); }

static void nll_gradient(mrt_build *b) { mrt_grad_decomposed(b, nll_parts); }

static double nll_flops(const mrt_signature *s) {
  return (double)mrt_type_count(s->in[1]);
}

static int shard_rule(const mrt_signature *s, int input, int dim) {
  return dim == s->in[0]->rank - 1 ? MRT_RULE_UNKNOWN : dim;
}

const mrt_op mrt_op_cross_entropy = {
  .name = "cross_entropy",
  .number = MRT_OP_cross_entropy,
  .cost = MRT_COST_softmax,
  .doc = "loss = lse - logits[target], lse = log sum exp(logits), for each row",
  .min_inputs = 2,
  .max_inputs = 2,
  MRT_OPTIONS(options, mrt_cross_entropy_options),
  .infer = infer,
  .shard_rule = shard_rule,
  .grad = gradient,
  .flops = flops,
  .width = MRT_WIDE,
  .narrow_inputs = 1,
  .wide_outputs = UINT32_MAX,
  .traits = MRT_FAULTS,
};
const mrt_op mrt_op_cross_entropy_grad = {
  .name = "cross_entropy_grad",
  .number = MRT_OP_cross_entropy_grad,
  .cost = MRT_COST_softmax,
  .doc = "dlogits = (exp(logits - lse) - onehot(target)) * dloss, "
         "for logits, targets, lse, dloss",
  .min_inputs = 4,
  .max_inputs = 4,
  MRT_OPTIONS(options, mrt_cross_entropy_options),
  .infer = infer_grad,
  .shard_rule = shard_rule,
  .grad = grad_gradient,
  .flops = flops,
  .inplace = 1,
  .width = MRT_WIDE,
  .narrow_inputs = 1,
  .narrow_outputs = 1,
  .traits = MRT_FAULTS | MRT_LIBRARY,
};
const mrt_op mrt_op_cross_entropy_both = {
  .name = "cross_entropy_both",
  .number = MRT_OP_cross_entropy_both,
  .cost = MRT_COST_softmax,
  .doc = "dlogits and loss of cross_entropy, for logits, targets, dloss",
  .min_inputs = 3,
  .max_inputs = 3,
  MRT_OPTIONS(options, mrt_cross_entropy_options),
  .infer = infer_both,
  .grad = both_gradient,
  .flops = both_flops,
  .inplace = 1,
  .width = MRT_WIDE,
  .narrow_inputs = 1,
  .narrow_outputs = 1,
  .wide_outputs = ~UINT32_C(1),
  .traits = MRT_FAULTS | MRT_LIBRARY,
};
const mrt_op mrt_op_nll_loss = {
  .name = "nll_loss",
  .number = MRT_OP_nll_loss,
  .cost = MRT_COST_softmax,
  .doc = "the mean, or sum, of -logits[target] over rows, one number",
  .min_inputs = 2,
  .max_inputs = 2,
  MRT_OPTIONS(nll_options, mrt_cross_entropy_options),
  .infer = infer_nll,
  .grad = nll_gradient,
  .flops = nll_flops,
  .width = MRT_WIDE,
  .wide_outputs = UINT32_MAX,
  .traits = MRT_FAULTS | MRT_LIBRARY,
};
