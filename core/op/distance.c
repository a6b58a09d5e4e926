/* distance.c -- distances between the rows of two matrices
 *
 *   cdist       d[b,i,j] = (sum over k of |x[b,i,k] - y[b,j,k]|^p)^(1/p)
 *   cdist_grad  dx[b,i,k] = sum over j of g[b,i,j] times the slope of d there
 *
 *   x y g d  [B,P,M] [B,R,M] [B,P,R] [B,P,R], f32 | f64
 *   p      0: how many differ; 1; 2; infinite: the largest; others by pow
 *   slope  with u = x - y: sign(u) (|u| / d)^(p - 1); 0 where d or u is 0
 *          (p 1: sign(u); infinite: sign(u) where |u| = d; 0: none)
 *   cost   B P R M; cdist_grad the same
 *   grad   cdist       cdist_grad, and for y with the two exchanged
 *          cdist_grad  by differentiating its formula, [B,P,R,M] at once
 *   fails  ESHAPE, EDTYPE;  EVALUE  p negative or NaN
 *
 * SPDX-License-Identifier: MIT */
#include "op/distance.h"
#include "op/build.h"
#include "op/op.h"

#include <math.h>

static const mrt_option table[] = {
  MRT_OPTION(mrt_cdist_options, p, MRT_OPT_NUM, .preset = 2),
};

static mrt_status want_rows(mrt_infer *c, int x, int y) {
  const mrt_cdist_options *o = c->options;
  const mrt_type *a = c->in[x], *b = c->in[y];
  if (!(o->p >= 0))
    return mrt_refuse(c, MRT_EVALUE, "p %g, 0 or more wanted", o->p);
  MRT_TRY(mrt_want_real(c, x));
  MRT_TRY(mrt_want_same_dtype(c, x, y));
  if (a->rank != 3 || b->rank != 3 || a->dims[0] != b->dims[0] ||
      a->dims[2] != b->dims[2])
    return mrt_refuse(c, MRT_ESHAPE,
                      "%s against %s, [B,P,M] and [B,R,M] wanted",
                      mrt_show(a).s, mrt_show(b).s);
  return MRT_OK;
}

static mrt_status infer(mrt_infer *c) {
  MRT_TRY(want_rows(c, 0, 1));
  c->out[0] = *c->in[0];
  c->out[0].dims[2] = c->in[1]->dims[1];
  return MRT_OK;
}

static mrt_status infer_grad(mrt_infer *c) {
  MRT_TRY(want_rows(c, 1, 2));
  const mrt_type *x = c->in[1];
  int64_t dims[] = { x->dims[0], x->dims[1], c->in[2]->dims[1] };
  MRT_TRY(mrt_want_shape(c, 0, 3, dims, "one gradient for each pair"));
  MRT_TRY(mrt_want_same(c, 0, 3));
  MRT_TRY(mrt_want_same_dtype(c, 0, 1));
  c->out[0] = *x;
  return MRT_OK;
}

static double flops(const mrt_signature *s) {
  const mrt_type *x = s->in[s->nin > 2], *y = s->in[s->nin > 2 ? 2 : 1];
  return 3.0 * (double)mrt_type_count(x) * (double)y->dims[1];
}

static void gradient(mrt_build *b) {
  mrt_tensor *x = b->in[0], *y = b->in[1], *d = b->out[0], *g = b->dout[0];
  if (b->wants[0]) b->din[0] = MRT_MAKE(b, cdist_grad, b->options, g, x, y, d);
  if (!b->wants[1]) return;
  g = mrt_transpose_last(b, g), d = mrt_transpose_last(b, d);
  b->din[1] = MRT_MAKE(b, cdist_grad, b->options, g, y, x, d);
}

/* ---- cdist_grad, by plainer operators ------------------------------------ */

static mrt_tensor *is_zero(mrt_build *b, mrt_tensor *x) {
  return MRT_MAKE(b, eq, NULL, x,
                  mrt_expand_to(b, mrt_const_like(b, x, 0), mrt_of(x)));
}

static mrt_tensor *power(mrt_build *b, mrt_tensor *x, double p) {
  return MRT_MAKE(b, pow, NULL, x,
                  mrt_expand_to(b, mrt_const_like(b, x, p), mrt_of(x)));
}

/* |u|^(p - 1) / d^(p - 1), or what stands for it. */
static mrt_tensor *slope(mrt_build *b, mrt_tensor *a, mrt_tensor *d, double p) {
  mrt_tensor *zero = mrt_const_like(b, a, 0), *one = mrt_const_like(b, a, 1);
  if (p == 0) return mrt_mul_k(b, a, 0);
  if (p == 1) return mrt_add_k(b, mrt_mul_k(b, a, 0), 1);
  d = mrt_expand_to(b, d, mrt_of(a));
  if (isinf(p))
    return mrt_cast_to(b, MRT_MAKE(b, eq, NULL, a, d), mrt_of(a)->dtype);
  mrt_tensor *flat = is_zero(b, a), *same = is_zero(b, d);
  mrt_tensor *up = power(b, mrt_where(b, flat, one, a), p - 1);
  mrt_tensor *down = power(b, mrt_where(b, same, one, d), p - 1);
  return mrt_where(b, flat, zero, mrt_div(b, up, down));
}

static void grad_parts(mrt_build *b, mrt_tensor **value) {
  const mrt_cdist_options *o = b->options;
  mrt_tensor *g = b->in[0], *x = b->in[1], *y = b->in[2], *d = b->in[3];
  const mrt_type *tx = mrt_of(x), *ty = mrt_of(y), *tg = mrt_of(g);
  int64_t B = tx->dims[0], P = tx->dims[1], R = ty->dims[1], M = tx->dims[2];
  mrt_type all = { tg->dtype, 4, { B, P, R, M } };
  x = mrt_reshape_to(b, x, 4, (int64_t[]){ B, P, 1, M });
  y = mrt_reshape_to(b, y, 4, (int64_t[]){ B, 1, R, M });
  g = mrt_reshape_to(b, g, 4, (int64_t[]){ B, P, R, 1 });
  d = mrt_reshape_to(b, d, 4, (int64_t[]){ B, P, R, 1 });
  mrt_tensor *u =
      mrt_sub(b, mrt_expand_to(b, x, &all), mrt_expand_to(b, y, &all));
  mrt_tensor *s = slope(b, MRT_MAKE(b, abs, NULL, u), d, o->p);
  s = mrt_mul(b, MRT_MAKE(b, sign, NULL, u), s);
  value[0] = mrt_sum_dim(b, mrt_mul(b, s, g), 2, false);
}

static void grad_gradient(mrt_build *b) { mrt_grad_decomposed(b, grad_parts); }

static int shard_rule(const mrt_signature *s, int input, int dim) {
  if (dim == 0) return 0;
  return dim == 2 ? MRT_RULE_UNKNOWN : input == 0 ? 1 : 2;
}

const mrt_op mrt_op_cdist = {
  .name = "cdist",
  .number = MRT_OP_cdist,
  .cost = MRT_COST_reduce,
  .doc = "d[b,i,j] = (sum over k of |x[b,i,k] - y[b,j,k]|^p)^(1/p)",
  .min_inputs = 2,
  .max_inputs = 2,
  MRT_OPTIONS(table, mrt_cdist_options),
  .infer = infer,
  .shard_rule = shard_rule,
  .grad = gradient,
  .flops = flops,
  .width = MRT_WIDE,
};

const mrt_op mrt_op_cdist_grad = {
  .name = "cdist_grad",
  .number = MRT_OP_cdist_grad,
  .cost = MRT_COST_reduce,
  .doc = "dx[b,i,k] = sum over j of g[b,i,j] times the slope of cdist",
  .min_inputs = 4,
  .max_inputs = 4,
  MRT_OPTIONS(table, mrt_cdist_options),
  .infer = infer_grad,
  .grad = grad_gradient,
  .flops = flops,
  .width = MRT_WIDE,
  .traits = MRT_LIBRARY,
};
