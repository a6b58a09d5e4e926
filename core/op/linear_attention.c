/* linear_attention.c -- attention without softmax: a matrix that remembers
 *
 *   linear_attention       S[t] = diag(w[t]) S[t-1] + k[t] v[t]^T, S[0] = 0
 *                          o[t] = q[t] S[t]
 *   linear_attention_grad  dq, dk, dv and dw from do
 *
 *   q, k    [B, T, H, K], f32 | f64;  v, o  [B, T, H, V]
 *   w       what is left of S after a step, [B, T, H, K], a number for each
 *           row, or [B, T, H, 1], one for all;  none: 1
 *   memory  S, [K, V] for each head, is kept for the step at hand alone; the
 *           gradient keeps every ~sqrt(T)-th and computes the others again
 *   cost    5 flop for each element of S and step; the gradient three times that
 *   grad    linear_attention_grad; of that, by plain operators and
 *           linear_recurrence, which do store S
 *   fails   EDTYPE not f32 or f64;  ESHAPE shapes that do not fit
 *   from    Katharopoulos et al., arXiv:2006.16236; with a decay Sun et al.,
 *           arXiv:2307.08621, Yang et al., arXiv:2312.06635
 *
 * SPDX-License-Identifier: MIT */
#include "op/recurrence.h"

/* `n` leading inputs are q, k, v and perhaps w. */
static mrt_status want(mrt_infer *c, int n) {
  const mrt_type *q = c->in[0], *v = c->in[2];
  MRT_TRY(mrt_want_real(c, 0));
  if (q->rank != 4)
    return mrt_refuse(c, MRT_ESHAPE, "q %s, [batch, T, heads, K] wanted",
                      mrt_show(q).s);
  MRT_TRY(mrt_want_same(c, 0, 1));
  for (int i = 2; i < n; i++) MRT_TRY(mrt_want_same_dtype(c, 0, i));
  int64_t dims[] = { q->dims[0], q->dims[1], q->dims[2], 0 };
  dims[3] = v->rank == 4 ? v->dims[3] : 0;
  MRT_TRY(mrt_want_shape(c, 2, 4, dims, "[batch, T, heads, V]"));
  mrt_type all = { q->dtype,
                   5,
                   { dims[0], dims[1], dims[2], q->dims[3], dims[3] } };
  MRT_TRY(mrt_type_check(&all, c->op->name, c->e));
  if (n == 3) return MRT_OK;
  const mrt_type *w = c->in[3];
  dims[3] = w->rank == 4 && w->dims[3] == 1 ? 1 : q->dims[3];
  return mrt_want_shape(c, 3, 4, dims,
                        "[batch, T, heads, K] or [batch, T, heads, 1]");
}

static mrt_status infer(mrt_infer *c) {
  MRT_TRY(want(c, c->nin));
  c->out[0] = *c->in[2];
  return MRT_OK;
}
/* The last input is do. */
static mrt_status grad_infer(mrt_infer *c) {
  MRT_TRY(want(c, c->nin - 1));
  MRT_TRY(mrt_want_same(c, 2, c->nin - 1));
  c->nout = c->nin - 1;
  for (int i = 0; i < c->nout; i++) c->out[i] = *c->in[i];
  return MRT_OK;
}

static double elements(const mrt_signature *s) {
  return (double)mrt_type_count(s->in[0]) * (double)s->in[2]->dims[3];
}
static double flops(const mrt_signature *s) { return 5 * elements(s); }
static double grad_flops(const mrt_signature *s) { return 15 * elements(s); }

static int shard_rule(const mrt_signature *s, int input, int dim) {
  if (input == 2 && dim == 3) return 3;
  return dim == 0 || dim == 2 ? dim : MRT_RULE_UNKNOWN;
}

/* ---- from plainer operators, to differentiate ---------------------------- */

/* x [B, T, H, n] as [B, T, H, n, 1], or [B, T, H, 1, n]. */
static mrt_tensor *apart(mrt_build *b, mrt_tensor *x, bool last) {
  const int64_t *d = mrt_of(x)->dims;
  int64_t dims[] = { d[0], d[1], d[2], last ? d[3] : 1, last ? 1 : d[3] };
  return mrt_reshape_to(b, x, 5, dims);
}

static void grad_parts(mrt_build *b, mrt_tensor **value) {
  bool decays = b->nin == 5;
  mrt_tensor *q = apart(b, b->in[0], true), *k = apart(b, b->in[1], true);
  mrt_tensor *v = apart(b, b->in[2], false);
  mrt_tensor *dy = apart(b, b->in[b->nin - 1], false), *d[2] = { NULL };
  mrt_tensor *x = mrt_mul(b, k, v);
  mrt_tensor *w = decays ? apart(b, b->in[3], true) : mrt_const_like(b, x, 1);
  w = mrt_expand_to(b, w, mrt_of(x));
  mrt_tensor *S = mrt_recur(b, w, x, 1, false);
  mrt_recur_grad(b, w, S, mrt_mul(b, q, dy), 1, d);
  value[0] = mrt_sum_dim(b, mrt_mul(b, S, dy), 4, false);
  value[1] = mrt_sum_dim(b, mrt_mul(b, d[1], v), 4, false);
  value[2] = mrt_sum_dim(b, mrt_mul(b, d[1], k), 3, false);
  if (!decays) return;
  mrt_tensor *dw = mrt_sum_dim(b, d[0], 4, false);
  bool one = mrt_of(b->in[3])->dims[3] == 1;
  value[3] = one ? mrt_sum_dim(b, dw, 3, true) : dw;
}

static void gradient(mrt_build *b) {
  mrt_tensor *in[5];
  for (int i = 0; i < b->nin; i++) in[i] = b->in[i];
  in[b->nin] = b->dout[0];
  mrt_make_all(b, MRT_OP_linear_attention_grad, NULL, b->nin + 1, in, b->din,
               b->nin);
}
static void grad_gradient(mrt_build *b) { mrt_grad_decomposed(b, grad_parts); }

const mrt_op mrt_op_linear_attention = {
  .name = "linear_attention",
  .number = MRT_OP_linear_attention,
  .cost = MRT_COST_attention,
  .doc = "o[t] = q[t] S[t], S[t] = diag(w[t]) S[t-1] + k[t] v[t]^T",
  .min_inputs = 3,
  .max_inputs = 4,
  .infer = infer,
  .shard_rule = shard_rule,
  .grad = gradient,
  .flops = flops,
  .width = MRT_WIDE,
};
const mrt_op mrt_op_linear_attention_grad = {
  .name = "linear_attention_grad",
  .number = MRT_OP_linear_attention_grad,
  .cost = MRT_COST_attention,
  .doc = "dq, dk, dv, dw of o = linear_attention(q, k, v, w), from do",
  .min_inputs = 4,
  .max_inputs = 5,
  .infer = grad_infer,
  .grad = grad_gradient,
  .flops = grad_flops,
  .width = MRT_WIDE,
  .traits = MRT_LIBRARY,
};
