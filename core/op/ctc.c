/* ctc.c -- the loss of a sequence of labels whose places are not known
 *
 *     loss[n] = -log sum over all paths of product over t of p[t, n, path[t]]
 *
 *   A path has a class for each step; without repeats, and then without blanks,
 *   it reads as the labels of n.
 *
 *   log_probs  [T, N, C], f32 | f64: logarithms of probabilities (log_softmax)
 *   targets    [N, S], 0-based ids, i64 | i32 | u8; those behind the length of
 *              their row are not read
 *   input_lengths, target_lengths  [N]: how many steps and labels of n count
 *   loss       [N]; inf where no path reads so, for want of steps
 *   cost       forward and backward variables of 2 S + 1 states at each step,
 *              in the domain of logarithms; 20 flop each
 *   grad       dlog_probs[t, n, c] = -dloss[n] P(path[t] = c): the forward
 *              variables are computed again, so none are kept.  0 where dloss
 *              is 0, NaN where the loss is inf.  Of log_probs as they are given,
 *              whether or not they add up to 1.  Once: not of the gradient
 *   fails      EDTYPE, ESHAPE; EVALUE blank; a label or a length that cannot
 *              be is a fault of the run
 *   from       Graves, Fernandez, Gomez & Schmidhuber, ICML 2006
 *
 * SPDX-License-Identifier: MIT */
#include "op/ctc.h"
#include "op/build.h"

static const mrt_option options[] = {
  MRT_OPTION(mrt_ctc_options, blank, MRT_OPT_INT),
};

/* Types of log_probs, targets and lengths. */
static mrt_status want_inputs(mrt_infer *c) {
  const mrt_ctc_options *o = c->options;
  const mrt_type *x = c->in[0], *y = c->in[1];
  MRT_TRY(mrt_want_real(c, 0));
  if (x->rank != 3)
    return mrt_refuse(c, MRT_ESHAPE, "log_probs %s, [T, N, C] wanted",
                      mrt_show(x).s);
  if (!(o->blank >= 0 && o->blank < x->dims[2]))
    return mrt_refuse(c, MRT_EVALUE, "blank %lld of %lld classes, from 0 on",
                      (long long)o->blank, (long long)x->dims[2]);
  for (int i = 1; i < 4; i++) MRT_TRY(mrt_want_integer(c, i));
  if (y->rank != 2 || y->dims[0] != x->dims[1])
    return mrt_refuse(c, MRT_ESHAPE, "targets %s, [%lld, S] wanted",
                      mrt_show(y).s, (long long)x->dims[1]);
  if (y->dims[1] > INT32_MAX / 8)
    return mrt_refuse(c, MRT_ESHAPE, "targets %s, fewer labels wanted",
                      mrt_show(y).s);
  MRT_TRY(mrt_want_shape(c, 2, 1, y->dims, "a length for each sequence"));
  return mrt_want_shape(c, 3, 1, y->dims, "a length for each sequence");
}

static mrt_status infer(mrt_infer *c) {
  MRT_TRY(want_inputs(c));
  c->out[0] = (mrt_type){ .dtype = c->in[0]->dtype, .rank = 1 };
  c->out[0].dims[0] = c->in[0]->dims[1];
  return MRT_OK;
}

static mrt_status infer_grad(mrt_infer *c) {
  MRT_TRY(want_inputs(c));
  MRT_TRY(mrt_want_same_dtype(c, 0, 4));
  MRT_TRY(mrt_want_shape(c, 4, 1, c->in[1]->dims, "one for each sequence"));
  c->out[0] = *c->in[0];
  return MRT_OK;
}

static double flops(const mrt_signature *s) {
  const mrt_type *x = s->in[0], *y = s->in[1];
  return 20.0 * (double)x->dims[0] * (double)x->dims[1] *
         (2.0 * (double)y->dims[1] + 1);
}
static double grad_flops(const mrt_signature *s) { return 3 * flops(s); }

static void gradient(mrt_build *b) {
  b->din[0] = MRT_MAKE(b, ctc_loss_grad, b->options, b->in[0], b->in[1],
                       b->in[2], b->in[3], b->dout[0]);
}

/* Sequences, each by itself. */
static int sequence(int input, int dim, int at) {
  return dim == (input == 0 ? 1 : 0) ? at : MRT_RULE_UNKNOWN;
}
static int shard_rule(const mrt_signature *s, int input, int dim) {
  return sequence(input, dim, 0);
}
static int grad_shard_rule(const mrt_signature *s, int input, int dim) {
  return sequence(input, dim, 1);
}

const mrt_op mrt_op_ctc_loss = {
  .name = "ctc_loss",
  .number = MRT_OP_ctc_loss,
  .cost = MRT_COST_softmax,
  .doc = "loss = -log of all paths that read as the targets, for log_probs "
         "[T, N, C], targets [N, S], input_lengths, target_lengths",
  .min_inputs = 4,
  .max_inputs = 4,
  MRT_OPTIONS(options, mrt_ctc_options),
  .infer = infer,
  .shard_rule = shard_rule,
  .grad = gradient,
  .flops = flops,
  .width = MRT_WIDE,
  .wide_outputs = UINT32_MAX,
  .traits = MRT_FAULTS | MRT_LIBRARY,
};
const mrt_op mrt_op_ctc_loss_grad = {
  .name = "ctc_loss_grad",
  .number = MRT_OP_ctc_loss_grad,
  .cost = MRT_COST_softmax,
  .doc = "dlog_probs = -dloss P(path[t] = c), for log_probs, targets, "
         "input_lengths, target_lengths, dloss",
  .min_inputs = 5,
  .max_inputs = 5,
  MRT_OPTIONS(options, mrt_ctc_options),
  .infer = infer_grad,
  .shard_rule = grad_shard_rule,
  .flops = grad_flops,
  .width = MRT_WIDE,
  .traits = MRT_FAULTS | MRT_LIBRARY,
};
