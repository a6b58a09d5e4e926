/* recurrence.c -- what each position makes of the one before it, linearly
 *
 *   linear_recurrence       h[t] = a[t] h[t-1] + b[t] along dim, element by
 *                           element;  h before the first is `initial`, or 0
 *   linear_recurrence_grad  g[t] = dh[t] + a[t+1] g[t+1];  db = g,
 *                           da[t] = g[t] h[t-1], dinitial = a[1] g[1]
 *
 *   a, b     f32 | f64, of one shape;  initial: that shape without dim
 *   reverse  from the last position to the first: h[t] = a[t] h[t+1] + b[t]
 *   cost     a multiply-add for each element, the gradient two: one pass over
 *            the data, also of a single row
 *   grad     linear_recurrence_grad; of that, by both and plain operators
 *   fails    EDTYPE not f32 or f64;  ESHAPE a, b or initial that do not fit
 *            EVALUE dim outside [-rank, rank)
 *
 * SPDX-License-Identifier: MIT */
#include "op/recurrence.h"
#include "op/move.h"
#include "op/views.h"

static const mrt_option options[] = {
  MRT_OPTION(mrt_recurrence_options, dim, MRT_OPT_DIM, .required = true),
  MRT_OPTION(mrt_recurrence_options, reverse, MRT_OPT_BOOL, .preset = false),
};

/* ---- types --------------------------------------------------------------- */

static mrt_type without_dim(const mrt_type *t, int64_t dim) {
  mrt_type out = { t->dtype, t->rank - 1, { 0 } };
  for (int i = 0, k = 0; i < t->rank; i++)
    if (i != dim) out.dims[k++] = t->dims[i];
  return out;
}

/* The first `n` inputs are alike, the next, where there is one, has no dim. */
static mrt_status want(mrt_infer *c, int n) {
  mrt_recurrence_options *o = c->options;
  MRT_TRY(mrt_want_real(c, 0));
  MRT_TRY(mrt_want_dim(c, &o->dim, c->in[0]->rank));
  for (int i = 1; i < n; i++) MRT_TRY(mrt_want_same(c, 0, i));
  if (c->nin == n) return MRT_OK;
  mrt_type initial = without_dim(c->in[0], o->dim);
  MRT_TRY(mrt_want_same_dtype(c, 0, n));
  return mrt_want_shape(c, n, initial.rank, initial.dims,
                        "the shape of a without dim");
}

static mrt_status infer(mrt_infer *c) {
  MRT_TRY(want(c, 2));
  c->out[0] = *c->in[0];
  return MRT_OK;
}

static mrt_status grad_infer(mrt_infer *c) {
  MRT_TRY(want(c, 3));
  c->nout = c->nin == 4 ? 3 : 2;
  c->out[0] = c->out[1] = *c->in[0];
  if (c->nin == 4) c->out[2] = *c->in[3];
  return MRT_OK;
}

static double flops(const mrt_signature *s) {
  return 2 * (double)mrt_type_count(s->in[0]) * s->nout;
}

static int shard_rule(const mrt_signature *s, int input, int dim) {
  const mrt_recurrence_options *o = s->options;
  if (s->in[input]->rank == s->in[0]->rank)
    return dim == o->dim ? MRT_RULE_UNKNOWN : dim;
  return dim < o->dim ? dim : dim + 1;
}
static int grad_shard_rule(const mrt_signature *s, int input, int dim) {
  if (s->nin == 3) return shard_rule(s, input, dim);
  return MRT_RULE_UNKNOWN; /* outputs of different ranks */
}

/* ---- gradients ----------------------------------------------------------- */

mrt_tensor *mrt_recur(mrt_build *b, mrt_tensor *a, mrt_tensor *x, int64_t dim,
                      bool reverse) {
  mrt_recurrence_options o = { dim, reverse };
  return MRT_MAKE(b, linear_recurrence, &o, a, x);
}

void mrt_recur_grad(mrt_build *b, mrt_tensor *a, mrt_tensor *h, mrt_tensor *dh,
                    int64_t dim, mrt_tensor **d) {
  mrt_recurrence_options o = { dim, false };
  mrt_tensor *in[] = { a, h, dh };
  mrt_make_all(b, MRT_OP_linear_recurrence_grad, &o, 3, in, d, 2);
}

static void gradient(mrt_build *b) {
  mrt_tensor *in[] = { b->in[0], b->out[0], b->dout[0],
                       b->nin == 3 ? b->in[2] : NULL };
  mrt_make_all(b, MRT_OP_linear_recurrence_grad, b->options, b->nin + 1, in,
               b->din, b->nin);
}

/* x without its last position (of the order it is gone through in), or without
 * its first, and `edge` in its stead on the other side: at each position what x
 * is one before, or one after. */
static mrt_tensor *shifted(mrt_build *b, mrt_tensor *x, mrt_tensor *edge,
                           bool later) {
  const mrt_recurrence_options *o = b->options;
  int64_t n = mrt_of(x)->dims[o->dim];
  bool drop_first = later != o->reverse;
  mrt_slice_options rest = { o->dim, drop_first, n - 1 - !drop_first, 1 };
  if (n == 1) rest.first = 1, rest.last = 0; /* nothing is left */
  mrt_dim_options along = { o->dim };
  x = MRT_MAKE(b, slice, &rest, x);
  if (drop_first) return MRT_MAKE(b, cat, &along, x, edge);
  return MRT_MAKE(b, cat, &along, edge, x);
}

static void grad_parts(mrt_build *b, mrt_tensor **value) {
  const mrt_recurrence_options *o = b->options;
  mrt_tensor *a = b->in[0], *h = b->in[1], *dh = b->in[2];
  mrt_type one = *mrt_of(a);
  if (one.dims[o->dim] == 0) {
    value[0] = mrt_mul(b, a, dh), value[1] = mrt_mul(b, a, h);
    if (b->nin == 4) value[2] = mrt_mul_k(b, b->in[3], 0);
    return;
  }
  one.dims[o->dim] = 1;
  mrt_tensor *none = mrt_expand_to(b, mrt_const_like(b, a, 0), &one);
  mrt_tensor *before =
      b->nin == 4 ? mrt_reshape_to(b, b->in[3], one.rank, one.dims) : none;
  mrt_tensor *g =
      mrt_recur(b, shifted(b, a, none, true), dh, o->dim, !o->reverse);
  value[0] = mrt_mul(b, g, shifted(b, h, before, false));
  value[1] = g;
  if (b->nin != 4) return;
  int64_t n = mrt_of(a)->dims[o->dim], at = o->reverse ? n - 1 : 0;
  mrt_slice_options first = { o->dim, at, at, 1 };
  mrt_tensor *d =
      mrt_mul(b, MRT_MAKE(b, slice, &first, a), MRT_MAKE(b, slice, &first, g));
  value[2] = mrt_reshape_like(b, d, b->in[3]);
}

static void grad_gradient(mrt_build *b) { mrt_grad_decomposed(b, grad_parts); }

const mrt_op mrt_op_linear_recurrence = {
  .name = "linear_recurrence",
  .number = MRT_OP_linear_recurrence,
  .cost = MRT_COST_reduce,
  .doc = "h[t] = a[t] h[t-1] + b[t] along dim, from initial or 0",
  .min_inputs = 2,
  .max_inputs = 3,
  MRT_OPTIONS(options, mrt_recurrence_options),
  .infer = infer,
  .shard_rule = shard_rule,
  .grad = gradient,
  .flops = flops,
  .inplace = 3,
  .width = MRT_WIDE,
};
const mrt_op mrt_op_linear_recurrence_grad = {
  .name = "linear_recurrence_grad",
  .number = MRT_OP_linear_recurrence_grad,
  .cost = MRT_COST_reduce,
  .doc = "da, db, dinitial of h = linear_recurrence(a, b), from a, h, dh",
  .min_inputs = 3,
  .max_inputs = 4,
  MRT_OPTIONS(options, mrt_recurrence_options),
  .infer = grad_infer,
  .shard_rule = grad_shard_rule,
  .grad = grad_gradient,
  .flops = flops,
  .width = MRT_WIDE,
  .traits = MRT_LIBRARY,
};
