/* recurrent.c -- one step of an LSTM and of a GRU, after their products
 *
 *   lstm_cell  with a + b = (i f g o) before sigmoid, sigmoid, tanh, sigmoid:
 *              c' = f c + i g;  h' = o tanh(c')
 *   gru_cell   r = sigmoid(ar + br);  z = sigmoid(az + bz)
 *              n = tanh(an + r bn);  h' = n + z (h - n)
 *
 *   a b    [..., 4 H] (gru: 3 H): products of the input and of h, with biases;
 *          f32 | f64
 *   c h    [..., H]
 *   gates  [..., 4 H]: i f g o (gru: r z n bn), kept for the gradient; of lstm
 *          it may take the storage of a or b
 *   cost   60 flop per element of h'; reads and writes each once
 *   grad   an operator each, of what was kept and dh' (dc'): gradients of a and
 *          b, for lstm one, in the place of the gates
 *   fails  ESHAPE, EDTYPE
 *   from   Hochreiter & Schmidhuber 1997, Gers et al. 2000; Cho et al.,
 *          arXiv:1406.1078, in the form of PyTorch (r on the product of h)
 *
 * SPDX-License-Identifier: MIT */
#include "op/build.h"
#include "op/move.h"
#include "op/views.h"

static int64_t width(const mrt_type *t) {
  return t->rank ? t->dims[t->rank - 1] : 0;
}

/* Input i is `parts` as wide as the state, input `state`. */
static mrt_status want_parts(mrt_infer *c, int i, int parts, int state) {
  mrt_type t = *c->in[state];
  if (t.rank == 0)
    return mrt_refuse(c, MRT_ESHAPE,
                      "a state %s, at least one dimension wanted",
                      mrt_show(&t).s);
  MRT_TRY(mrt_want_same_dtype(c, state, i));
  t.dims[t.rank - 1] *= parts;
  return mrt_want_shape(c, i, t.rank, t.dims, "the gates of the state");
}

static mrt_type gates_of(const mrt_type *state, int parts) {
  mrt_type t = *state;
  t.dims[t.rank - 1] *= parts;
  return t;
}

static mrt_status infer_cell(mrt_infer *c, int parts) {
  MRT_TRY(mrt_want_real(c, 2));
  for (int i = 0; i < 2; i++) MRT_TRY(want_parts(c, i, parts, 2));
  c->out[0] = gates_of(c->in[2], 4);
  MRT_TRY(mrt_type_check(&c->out[0], c->op->name, c->e));
  return MRT_OK;
}

static mrt_status infer_lstm(mrt_infer *c) {
  MRT_TRY(infer_cell(c, 4));
  c->nout = 3;
  c->out[1] = c->out[2] = *c->in[2];
  return MRT_OK;
}

static mrt_status infer_gru(mrt_infer *c) {
  MRT_TRY(infer_cell(c, 3));
  c->nout = 2;
  c->out[1] = *c->in[2];
  return MRT_OK;
}

/* gates, then states. */
static mrt_status infer_kept(mrt_infer *c) {
  MRT_TRY(mrt_want_real(c, 1));
  MRT_TRY(want_parts(c, 0, 4, 1));
  for (int i = 2; i < c->nin; i++) MRT_TRY(mrt_want_same(c, 1, i));
  return MRT_OK;
}

static mrt_status infer_lstm_grad(mrt_infer *c) {
  MRT_TRY(infer_kept(c));
  c->nout = 2;
  c->out[0] = *c->in[0], c->out[1] = *c->in[1];
  return MRT_OK;
}

static mrt_status infer_gru_grad(mrt_infer *c) {
  MRT_TRY(infer_kept(c));
  c->nout = 3;
  c->out[0] = c->out[1] = gates_of(c->in[1], 3);
  c->out[2] = *c->in[1];
  return MRT_OK;
}

static double flops(const mrt_signature *s) {
  return 60.0 * (double)mrt_type_count(s->in[2]);
}

/* Rows, each by itself. */
static int shard_rule(const mrt_signature *s, int input, int dim) {
  return dim == s->in[input]->rank - 1 ? MRT_RULE_UNKNOWN : dim;
}

/* ---- the same from plainer operators, to differentiate ------------------- */

/* The k-th part of x, as wide as `like`. */
static mrt_tensor *part(mrt_build *b, mrt_tensor *x, int k, mrt_tensor *like) {
  int64_t n = width(mrt_of(like)), dim = mrt_of(like)->rank - 1;
  mrt_slice_options o = { dim, k * n, (k + 1) * n - 1, 1 };
  if (n == 0) return mrt_reshape_like(b, x, like);
  return MRT_MAKE(b, slice, &o, x);
}

static mrt_tensor *joined(mrt_build *b, int n, mrt_tensor *const *parts) {
  mrt_dim_options last = { mrt_of(parts[0])->rank - 1 };
  return mrt_make(b, MRT_OP_cat, &last, n, parts);
}

static mrt_tensor *sigmoid(mrt_build *b, mrt_tensor *x) {
  return MRT_MAKE(b, sigmoid, NULL, x);
}
static mrt_tensor *tanh_of(mrt_build *b, mrt_tensor *x) {
  return MRT_MAKE(b, tanh, NULL, x);
}
/* dy s (1 - s), for s = sigmoid; dy (1 - t^2), for t = tanh. */
static mrt_tensor *from_sigmoid(mrt_build *b, mrt_tensor *dy, mrt_tensor *s) {
  return mrt_mul(b, dy, mrt_mul(b, s, mrt_rsub(b, 1, s)));
}
static mrt_tensor *from_tanh(mrt_build *b, mrt_tensor *dy, mrt_tensor *t) {
  return mrt_mul(b, dy, mrt_rsub(b, 1, mrt_mul(b, t, t)));
}

static void lstm_parts(mrt_build *b, mrt_tensor **value) {
  mrt_tensor *c = b->in[2], *sum = mrt_add(b, b->in[0], b->in[1]), *gate[4];
  for (int k = 0; k < 4; k++) {
    mrt_tensor *x = part(b, sum, k, c);
    gate[k] = k == 2 ? tanh_of(b, x) : sigmoid(b, x);
  }
  value[0] = joined(b, 4, gate);
  value[1] = mrt_add(b, mrt_mul(b, gate[1], c), mrt_mul(b, gate[0], gate[2]));
  value[2] = mrt_mul(b, gate[3], tanh_of(b, value[1]));
}

static void lstm_grad_parts(mrt_build *b, mrt_tensor **value) {
  mrt_tensor *c = b->in[1], *dh = b->in[3], *gate[4], *d[4];
  for (int k = 0; k < 4; k++) gate[k] = part(b, b->in[0], k, c);
  mrt_tensor *t = tanh_of(b, b->in[2]);
  mrt_tensor *dc =
      mrt_add(b, b->in[4], from_tanh(b, mrt_mul(b, dh, gate[3]), t));
  d[0] = from_sigmoid(b, mrt_mul(b, dc, gate[2]), gate[0]);
  d[1] = from_sigmoid(b, mrt_mul(b, dc, c), gate[1]);
  d[2] = from_tanh(b, mrt_mul(b, dc, gate[0]), gate[2]);
  d[3] = from_sigmoid(b, mrt_mul(b, dh, t), gate[3]);
  value[0] = joined(b, 4, d);
  value[1] = mrt_mul(b, dc, gate[1]);
}

static void gru_parts(mrt_build *b, mrt_tensor **value) {
  mrt_tensor *h = b->in[2], *gate[4];
  for (int k = 0; k < 2; k++)
    gate[k] = sigmoid(
        b, mrt_add(b, part(b, b->in[0], k, h), part(b, b->in[1], k, h)));
  gate[3] = part(b, b->in[1], 2, h);
  gate[2] = tanh_of(
      b, mrt_add(b, part(b, b->in[0], 2, h), mrt_mul(b, gate[0], gate[3])));
  value[0] = joined(b, 4, gate);
  value[1] = mrt_add(b, gate[2], mrt_mul(b, gate[1], mrt_sub(b, h, gate[2])));
}

static void gru_grad_parts(mrt_build *b, mrt_tensor **value) {
  mrt_tensor *h = b->in[1], *dh = b->in[2], *gate[4], *d[3];
  for (int k = 0; k < 4; k++) gate[k] = part(b, b->in[0], k, h);
  d[1] = from_sigmoid(b, mrt_mul(b, dh, mrt_sub(b, h, gate[2])), gate[1]);
  d[2] = from_tanh(b, mrt_mul(b, dh, mrt_rsub(b, 1, gate[1])), gate[2]);
  d[0] = from_sigmoid(b, mrt_mul(b, d[2], gate[3]), gate[0]);
  value[0] = joined(b, 3, d);
  d[2] = mrt_mul(b, d[2], gate[0]);
  value[1] = joined(b, 3, d);
  value[2] = mrt_mul(b, dh, gate[1]);
}

/* ---- gradients ----------------------------------------------------------- */

/* What flows back to output i: zeros where nothing does. */
static mrt_tensor *flow(mrt_build *b, int i) {
  if (b->dout[i]) return b->dout[i];
  return mrt_expand_to(b, mrt_const_like(b, b->in[2], 0), mrt_of(b->out[i]));
}

static void lstm_gradient(mrt_build *b) {
  if (b->dout[0]) {
    mrt_grad_decomposed(b, lstm_parts);
    return;
  }
  mrt_tensor *in[] = { b->out[0], b->in[2], b->out[1], flow(b, 2), flow(b, 1) };
  mrt_tensor *d[2] = { NULL };
  mrt_make_all(b, MRT_OP_lstm_cell_grad, NULL, 5, in, d, 2);
  b->din[0] = b->din[1] = d[0], b->din[2] = d[1];
}
static void lstm_grad_gradient(mrt_build *b) {
  mrt_grad_decomposed(b, lstm_grad_parts);
}

static void gru_gradient(mrt_build *b) {
  if (b->dout[0]) {
    mrt_grad_decomposed(b, gru_parts);
    return;
  }
  mrt_tensor *in[] = { b->out[0], b->in[2], flow(b, 1) };
  mrt_make_all(b, MRT_OP_gru_cell_grad, NULL, 3, in, b->din, 3);
}
static void gru_grad_gradient(mrt_build *b) {
  mrt_grad_decomposed(b, gru_grad_parts);
}

const mrt_op mrt_op_lstm_cell = {
  .name = "lstm_cell",
  .number = MRT_OP_lstm_cell,
  .cost = MRT_COST_activation,
  .doc = "gates, c', h' of an LSTM, for products a and b [..., 4 H] and c",
  .min_inputs = 3,
  .max_inputs = 3,
  .infer = infer_lstm,
  .shard_rule = shard_rule,
  .grad = lstm_gradient,
  .flops = flops,
  .inplace = 3,
  .width = MRT_WIDE,
  .narrow_inputs = 1 | 2 | 4,
  .narrow_outputs = 1 | 2 | 4,
};
const mrt_op mrt_op_lstm_cell_grad = {
  .name = "lstm_cell_grad",
  .number = MRT_OP_lstm_cell_grad,
  .cost = MRT_COST_activation,
  .doc = "gradients of the gates' sum and of c, for gates, c, c', dh', dc'",
  .min_inputs = 5,
  .max_inputs = 5,
  .infer = infer_lstm_grad,
  .shard_rule = shard_rule,
  .grad = lstm_grad_gradient,
  .flops = flops,
  .inplace = 1,
  .width = MRT_WIDE,
  .narrow_inputs = 31,
  .narrow_outputs = 1 | 2,
  .traits = MRT_LIBRARY,
};
const mrt_op mrt_op_gru_cell = {
  .name = "gru_cell",
  .number = MRT_OP_gru_cell,
  .cost = MRT_COST_activation,
  .doc = "gates, h' of a GRU, for products a and b [..., 3 H] and h",
  .min_inputs = 3,
  .max_inputs = 3,
  .infer = infer_gru,
  .shard_rule = shard_rule,
  .grad = gru_gradient,
  .flops = flops,
  .width = MRT_WIDE,
  .narrow_inputs = 1 | 2 | 4,
  .narrow_outputs = 1 | 2,
};
const mrt_op mrt_op_gru_cell_grad = {
  .name = "gru_cell_grad",
  .number = MRT_OP_gru_cell_grad,
  .cost = MRT_COST_activation,
  .doc = "gradients of a, b and h, for gates, h, dh'",
  .min_inputs = 3,
  .max_inputs = 3,
  .infer = infer_gru_grad,
  .shard_rule = shard_rule,
  .grad = gru_grad_gradient,
  .flops = flops,
  .width = MRT_WIDE,
  .narrow_inputs = 1 | 2 | 4,
  .narrow_outputs = 1 | 2 | 4,
  .traits = MRT_LIBRARY,
};
