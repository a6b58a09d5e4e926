/* selective_scan.c -- a state-space model whose step depends on the input
 *
 *   selective_scan       h[t,d,n] = exp(delta[t,d] A[d,n]) h[t-1,d,n]
 *                                   + delta[t,d] u[t,d] B[t,n]
 *                        y[t,d]   = sum over n of C[t,n] h[t,d,n], h[0] = 0
 *   selective_scan_grad  du, ddelta, dA, dB, dC from dy
 *
 *   u, delta, y  [batch, T, D], f32 | f64;  A [D, N];  B, C [batch, T, N]
 *   memory       h, [batch, T, D, N], is never stored: the gradient keeps every
 *                ~sqrt(T)-th of it, and computes the others again, piece by
 *                piece
 *   cost         an exp and 6 flop for each element of h; the gradient three
 *                times that
 *   grad         selective_scan_grad; of that, by plain operators and
 *                linear_recurrence, which do store h
 *   fails        EDTYPE not f32 or f64;  ESHAPE shapes that do not fit
 *   from         Gu & Dao, arXiv:2312.00752
 *
 * SPDX-License-Identifier: MIT */
#include "op/recurrence.h"

static mrt_status want(mrt_infer *c) {
  const mrt_type *u = c->in[0], *A = c->in[2];
  MRT_TRY(mrt_want_real(c, 0));
  if (u->rank != 3)
    return mrt_refuse(c, MRT_ESHAPE, "u %s, [batch, T, D] wanted",
                      mrt_show(u).s);
  MRT_TRY(mrt_want_same(c, 0, 1));
  for (int i = 2; i < 5; i++) MRT_TRY(mrt_want_same_dtype(c, 0, i));
  if (A->rank != 2 || A->dims[0] != u->dims[2])
    return mrt_refuse(c, MRT_ESHAPE, "A %s, [%lld, N] wanted", mrt_show(A).s,
                      (long long)u->dims[2]);
  int64_t dims[] = { u->dims[0], u->dims[1], A->dims[1] };
  for (int i = 3; i < 5; i++)
    MRT_TRY(mrt_want_shape(c, i, 3, dims, "[batch, T, N]"));
  mrt_type h = { u->dtype, 4, { dims[0], dims[1], u->dims[2], dims[2] } };
  return mrt_type_check(&h, c->op->name, c->e);
}

static mrt_status infer(mrt_infer *c) {
  MRT_TRY(want(c));
  c->out[0] = *c->in[0];
  return MRT_OK;
}
static mrt_status grad_infer(mrt_infer *c) {
  MRT_TRY(want(c));
  MRT_TRY(mrt_want_same(c, 0, 5));
  c->nout = 5;
  for (int i = 0; i < 5; i++) c->out[i] = *c->in[i];
  return MRT_OK;
}

static double states(const mrt_signature *s) {
  return (double)mrt_type_count(s->in[0]) * (double)s->in[2]->dims[1];
}
static double flops(const mrt_signature *s) { return 16 * states(s); }
static double grad_flops(const mrt_signature *s) { return 48 * states(s); }

static int shard_rule(const mrt_signature *s, int input, int dim) {
  if (input == 2) return dim == 0 ? 2 : MRT_RULE_UNKNOWN;
  if (dim == 0) return 0;
  return dim == 2 && input < 2 ? 2 : MRT_RULE_UNKNOWN;
}

/* ---- from plainer operators, to differentiate ---------------------------- */

/* x [batch, T, k] as [batch, T, k, 1] or [batch, T, 1, k]. */
static mrt_tensor *apart(mrt_build *b, mrt_tensor *x, bool last) {
  const int64_t *d = mrt_of(x)->dims;
  int64_t dims[] = { d[0], d[1], last ? d[2] : 1, last ? 1 : d[2] };
  return mrt_reshape_to(b, x, 4, dims);
}
static mrt_tensor *sum_over(mrt_build *b, mrt_tensor *x, mrt_ints dims) {
  return mrt_sum_dims(b, x, &dims, false);
}

static void grad_parts(mrt_build *b, mrt_tensor **value) {
  mrt_tensor *u = apart(b, b->in[0], true), *delta = apart(b, b->in[1], true);
  mrt_tensor *A = b->in[2], *B = apart(b, b->in[3], false);
  mrt_tensor *C = apart(b, b->in[4], false), *dy = apart(b, b->in[5], true);
  mrt_tensor *a = mrt_exp(b, mrt_mul(b, delta, A)), *d[2] = { NULL };
  mrt_tensor *x = mrt_mul(b, mrt_mul(b, delta, u), B);
  mrt_tensor *h = mrt_recur(b, a, x, 1, false);
  mrt_recur_grad(b, a, h, mrt_mul(b, dy, C), 1, d);
  mrt_tensor *in_exp = mrt_mul(b, d[0], a), *dx = mrt_mul(b, d[1], B);
  value[0] = sum_over(b, mrt_mul(b, dx, delta), (mrt_ints){ 1, { 3 } });
  value[1] = sum_over(b, mrt_add(b, mrt_mul(b, dx, u), mrt_mul(b, in_exp, A)),
                      (mrt_ints){ 1, { 3 } });
  value[2] = sum_over(b, mrt_mul(b, in_exp, delta), (mrt_ints){ 2, { 0, 1 } });
  value[3] = sum_over(b, mrt_mul(b, d[1], mrt_mul(b, delta, u)),
                      (mrt_ints){ 1, { 2 } });
  value[4] = sum_over(b, mrt_mul(b, dy, h), (mrt_ints){ 1, { 2 } });
}

static void gradient(mrt_build *b) {
  mrt_tensor *in[] = { b->in[0], b->in[1], b->in[2],
                       b->in[3], b->in[4], b->dout[0] };
  mrt_make_all(b, MRT_OP_selective_scan_grad, NULL, 6, in, b->din, 5);
}
static void grad_gradient(mrt_build *b) { mrt_grad_decomposed(b, grad_parts); }

const mrt_op mrt_op_selective_scan = {
  .name = "selective_scan",
  .number = MRT_OP_selective_scan,
  .cost = MRT_COST_activation,
  .doc =
      "y = C h, h[t] = exp(delta A) h[t-1] + delta u B, for u, delta, A, B, C",
  .min_inputs = 5,
  .max_inputs = 5,
  .infer = infer,
  .shard_rule = shard_rule,
  .grad = gradient,
  .flops = flops,
  .width = MRT_WIDE,
};
const mrt_op mrt_op_selective_scan_grad = {
  .name = "selective_scan_grad",
  .number = MRT_OP_selective_scan_grad,
  .cost = MRT_COST_activation,
  .doc = "du, ddelta, dA, dB, dC of y = selective_scan(u, delta, A, B, C)",
  .min_inputs = 6,
  .max_inputs = 6,
  .infer = grad_infer,
  .grad = grad_gradient,
  .flops = grad_flops,
  .width = MRT_WIDE,
  .traits = MRT_LIBRARY,
};
