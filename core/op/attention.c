/* attention.c -- softmax(scale Q K') V, heads together
 *
 *   attention       p   = exp(scale q . k - lse) over the keys seen
 *                   o   = sum over keys of p v
 *                   lse = log sum over keys of exp(scale q . k)
 *   attention_grad  dq, dk, dv from do, for these o and lse
 *
 *   q      [B, T, H, D], a float of any width
 *   k, v   [B, S, Hk, D], [B, S, Hk, Dv]: head h reads key head h Hk / H
 *   o      [B, T, H, Dv], of the widest dtype of q, k, v
 *   lse    [B, H, T], f32 | f64;  o and lse are 0 and -inf where no key is seen
 *   dq ..  of the dtypes of q, k, v
 *   width  scores, softmax and sums are f32 whatever is narrow, results are
 *          rounded once.  Where q, k, v and do are all bf16 or f8, p and the
 *          gradient of the scores are rounded to bf16 for their products.
 *   cost   2 (D + Dv) flop for each query and key it sees; the gradient
 *          2 (3 D + 2 Dv); scores are never stored, so memory is O(T)
 *   grad   attention_grad; keeps q, k, v, o, lse.  With a gradient of lse, and
 *          for attention_grad, by plain operators that do store the scores
 *   fails  ESHAPE  shapes that do not fit, H not a multiple of Hk
 *          EDTYPE  not floats, or f64 beside another
 *          EVALUE  a scale that is not finite
 *   from   Dao, arXiv:2307.08691; Milakov & Gimelshein, arXiv:1805.02867
 *
 * SPDX-License-Identifier: MIT */
#include "op/attention.h"
#include "op/build.h"
#include "op/make.h"
#include "op/views.h"

#include <math.h>

static const mrt_option options[] = {
  MRT_OPTION(mrt_attention_options, causal, MRT_OPT_BOOL, .preset = false),
  MRT_OPTION(mrt_attention_options, scale, MRT_OPT_NUM, .preset = 0),
};

/* ---- types --------------------------------------------------------------- */

/* f64 is for all or none. */
static mrt_status want_dtype(mrt_infer *c, int i) {
  MRT_TRY(mrt_want_float(c, i));
  bool wide = c->in[0]->dtype == MRT_f64;
  if (wide == (c->in[i]->dtype == MRT_f64)) return MRT_OK;
  return mrt_want_same_dtype(c, 0, i);
}

static mrt_status want_rank(mrt_infer *c, int i) {
  MRT_TRY(want_dtype(c, i));
  if (c->in[i]->rank == 4) return MRT_OK;
  return mrt_refuse(c, MRT_ESHAPE,
                    "input %d is %s, [batch, time, heads, width] wanted", i + 1,
                    mrt_show(c->in[i]).s);
}

static mrt_status want_qkv(mrt_infer *c) {
  const mrt_type *q = c->in[0], *k = c->in[1], *v = c->in[2];
  for (int i = 0; i < 3; i++) MRT_TRY(want_rank(c, i));
  int64_t keys[] = { q->dims[0], k->dims[1], k->dims[2], q->dims[3] };
  int64_t values[] = { q->dims[0], k->dims[1], k->dims[2], v->dims[3] };
  MRT_TRY(mrt_want_shape(c, 1, 4, keys, "batch and width of the queries"));
  MRT_TRY(mrt_want_shape(c, 2, 4, values, "batch, time and heads of the keys"));
  int64_t H = q->dims[2], Hk = k->dims[2];
  if (Hk ? H % Hk != 0 : H != 0)
    return mrt_refuse(c, MRT_ESHAPE,
                      "%lld heads of queries, a multiple of the %lld of keys "
                      "wanted",
                      (long long)H, (long long)Hk);
  return MRT_OK;
}

static mrt_status want_scale(mrt_infer *c) {
  mrt_attention_options *o = c->options;
  double D = (double)c->in[0]->dims[3];
  if (!isfinite(o->scale))
    return mrt_refuse(c, MRT_EVALUE, "scale %g, a finite one wanted", o->scale);
  if (o->scale == 0) o->scale = D > 0 ? 1 / sqrt(D) : 1;
  return MRT_OK;
}

static mrt_type type_of_o(const mrt_infer *c) {
  mrt_type o = *c->in[0];
  for (int i = 1; i < 3; i++)
    o.dtype = mrt_wider_float(o.dtype, c->in[i]->dtype);
  o.dims[3] = c->in[2]->dims[3];
  return o;
}
static mrt_type type_of_lse(const mrt_infer *c) {
  const mrt_type *q = c->in[0];
  return (mrt_type){ .dtype = q->dtype == MRT_f64 ? MRT_f64 : MRT_f32,
                     .rank = 3,
                     .dims = { q->dims[0], q->dims[2], q->dims[1] } };
}

static mrt_status infer(mrt_infer *c) {
  MRT_TRY(want_qkv(c));
  MRT_TRY(want_scale(c));
  c->nout = 2;
  c->out[0] = type_of_o(c);
  c->out[1] = type_of_lse(c);
  return MRT_OK;
}

static mrt_status grad_infer(mrt_infer *c) {
  MRT_TRY(want_qkv(c));
  MRT_TRY(want_scale(c));
  mrt_type o = type_of_o(c), lse = type_of_lse(c);
  for (int i = 3; i < 6; i++) MRT_TRY(want_dtype(c, i));
  MRT_TRY(mrt_want_shape(c, 3, 4, o.dims, "the result"));
  MRT_TRY(mrt_want_shape(c, 4, 3, lse.dims, "batch, heads, time"));
  MRT_TRY(mrt_want_shape(c, 5, 4, o.dims, "the shape of the result"));
  c->nout = 3;
  for (int i = 0; i < 3; i++) c->out[i] = *c->in[i];
  return MRT_OK;
}

/* Pairs of a query and a key it sees. */
static double pairs_seen(const mrt_signature *s) {
  const mrt_attention_options *o = s->options;
  const int64_t *q = s->in[0]->dims;
  double T = (double)q[1], S = (double)s->in[1]->dims[1];
  double heads = (double)q[0] * (double)q[2];
  if (!o->causal) return heads * T * S;
  return heads * (S < T ? S * (S + 1) / 2 : T * (S - T) + T * (T + 1) / 2);
}
/* Queries against the keys they see on average, twice: scores, results. */
static mrt_product products(const mrt_signature *s, double width) {
  const int64_t *q = s->in[0]->dims;
  double T = (double)q[1], heads = (double)q[0] * (double)q[2];
  double pairs = pairs_seen(s);
  return (mrt_product){ heads, T, pairs > 0 ? pairs / heads / T : 0, width };
}
static mrt_product product(const mrt_signature *s) {
  return products(s, (double)(s->in[0]->dims[3] + s->in[2]->dims[3]));
}
static mrt_product grad_product(const mrt_signature *s) {
  return products(s, (double)(3 * s->in[0]->dims[3] + 2 * s->in[2]->dims[3]));
}
static double flops_of(mrt_product p) { return 2 * p.count * p.m * p.n * p.k; }
static double flops(const mrt_signature *s) { return flops_of(product(s)); }
static double grad_flops(const mrt_signature *s) {
  return flops_of(grad_product(s));
}

/* ---- the same from plainer operators, to differentiate ------------------- */

/* What `formula` gives for inputs widened to f32, in the dtypes of the rows. */
static void widened(mrt_build *b, mrt_tensor **value, mrt_decompose formula) {
  mrt_tensor *wide[6], *const *in = b->in;
  for (int i = 0; i < b->nin; i++)
    wide[i] = mrt_is_narrow(mrt_of(in[i])->dtype)
                  ? mrt_cast_to(b, in[i], MRT_f32)
                  : in[i];
  b->in = wide;
  formula(b, value);
  b->in = in;
  for (int i = 0; i < b->nout; i++)
    value[i] = mrt_cast_to(b, value[i], mrt_of(b->out[i])->dtype);
}

/* x [B, n, heads, d] as [B, Hk, heads / Hk, n, d]: key heads broadcast over
 * the query heads that read them. */
static mrt_tensor *by_group(mrt_build *b, mrt_tensor *x) {
  const int64_t *d = mrt_of(x)->dims, Hk = mrt_of(b->in[1])->dims[2];
  int64_t dims[] = { d[0], d[1], Hk, Hk ? d[2] / Hk : 0, d[3] };
  mrt_permute_options order = { .dims = { 5, { 0, 2, 3, 1, 4 } } };
  return MRT_MAKE(b, permute, &order, mrt_reshape_to(b, x, 5, dims));
}
static mrt_tensor *from_groups(mrt_build *b, mrt_tensor *x, mrt_tensor *like) {
  const int64_t *d = mrt_of(like)->dims;
  int64_t dims[] = { d[0], d[1], d[2], mrt_of(x)->dims[4] };
  mrt_permute_options order = { .dims = { 5, { 0, 3, 1, 2, 4 } } };
  return mrt_reshape_to(b, MRT_MAKE(b, permute, &order, x), 4, dims);
}
/* x [B, H, T] as [B, Hk, H / Hk, T, 1]. */
static mrt_tensor *per_query(mrt_build *b, mrt_tensor *x) {
  const int64_t *d = mrt_of(x)->dims, Hk = mrt_of(b->in[1])->dims[2];
  int64_t dims[] = { d[0], Hk, Hk ? d[1] / Hk : 0, d[2], 1 };
  return mrt_reshape_to(b, x, 5, dims);
}

static mrt_tensor *count_from(mrt_build *b, int64_t first, int64_t n) {
  mrt_arange_options o = { .start = (double)first,
                           .stop = (double)(first + n),
                           .step = 1,
                           .dtype = MRT_i64 };
  return mrt_make(b, MRT_OP_arange, &o, 0, NULL);
}

/* x [..., T, S] where the query sees the key, -infinity elsewhere. */
static mrt_tensor *seen_only(mrt_build *b, mrt_tensor *x) {
  const mrt_attention_options *o = b->options;
  const mrt_type *t = mrt_of(x);
  if (!x || !o->causal) return x;
  int64_t T = t->dims[3], S = t->dims[4];
  mrt_tensor *last = count_from(b, S - T, T);
  last = mrt_reshape_to(b, last, 2, (int64_t[]){ T, 1 });
  mrt_tensor *seen =
      MRT_MAKE(b, le, NULL, mrt_expand_to(b, count_from(b, 0, S), t),
               mrt_expand_to(b, last, t));
  return mrt_where(b, seen, x, mrt_const_like(b, x, -INFINITY));
}

/* exp(scale Q K' - shift), 0 where a key is not seen. */
static mrt_tensor *weights(mrt_build *b, mrt_tensor *q, mrt_tensor *k,
                           mrt_tensor *shift) {
  const mrt_attention_options *o = b->options;
  mrt_tensor *s = mrt_matmul(b, q, mrt_transpose_last(b, k));
  s = mrt_sub(b, mrt_mul_k(b, s, o->scale), shift);
  return mrt_exp(b, seen_only(b, s));
}

/* The constant that keeps exp within range is the result itself; sums that
 * are 0 belong to queries that see no key. */
static void wide_parts(mrt_build *b, mrt_tensor **value) {
  mrt_tensor *own[2], *lse;
  mrt_make_all(b, MRT_OP_attention, b->options, 3, b->in, own, 2);
  mrt_tensor *shift = per_query(b, MRT_MAKE(b, detach, NULL, own[1]));
  mrt_tensor *p =
      weights(b, by_group(b, b->in[0]), by_group(b, b->in[1]), shift);
  mrt_tensor *sum = mrt_sum_dim(b, p, 4, true);
  mrt_tensor *zero = mrt_expand_to(b, mrt_const_like(b, sum, 0), mrt_of(sum));
  mrt_tensor *none = MRT_MAKE(b, eq, NULL, sum, zero);
  sum = mrt_where(b, none, mrt_const_like(b, sum, 1), sum);
  mrt_tensor *o = mrt_matmul(b, p, by_group(b, b->in[2]));
  value[0] = from_groups(b, mrt_div(b, o, sum), b->in[0]);
  lse = mrt_add(b, shift, MRT_MAKE(b, log, NULL, sum));
  value[1] = mrt_reshape_like(b, lse, own[1]);
}

static void wide_grad_parts(mrt_build *b, mrt_tensor **value) {
  const mrt_attention_options *options = b->options;
  mrt_tensor *q = by_group(b, b->in[0]), *k = by_group(b, b->in[1]);
  mrt_tensor *v = by_group(b, b->in[2]), *o = by_group(b, b->in[3]);
  mrt_tensor *dout = by_group(b, b->in[5]);
  mrt_tensor *p = weights(b, q, k, per_query(b, b->in[4]));
  mrt_tensor *dp = mrt_matmul(b, dout, mrt_transpose_last(b, v));
  mrt_tensor *delta = mrt_sum_dim(b, mrt_mul(b, o, dout), 4, true);
  mrt_tensor *ds = mrt_mul(b, p, mrt_sub(b, dp, delta));
  ds = mrt_mul_k(b, ds, options->scale);
  mrt_tensor *dk = mrt_matmul(b, mrt_transpose_last(b, ds), q);
  mrt_tensor *dv = mrt_matmul(b, mrt_transpose_last(b, p), dout);
  value[0] = from_groups(b, mrt_matmul(b, ds, k), b->in[0]);
  value[1] = from_groups(b, mrt_sum_dim(b, dk, 2, true), b->in[1]);
  value[2] = from_groups(b, mrt_sum_dim(b, dv, 2, true), b->in[2]);
}

static void parts(mrt_build *b, mrt_tensor **value) {
  widened(b, value, wide_parts);
}
static void grad_parts(mrt_build *b, mrt_tensor **value) {
  widened(b, value, wide_grad_parts);
}

/* ---- gradients and rows -------------------------------------------------- */

static void gradient(mrt_build *b) {
  if (b->dout[1]) {
    mrt_grad_decomposed(b, parts);
    return;
  }
  mrt_tensor *in[] = { b->in[0],  b->in[1],  b->in[2],
                       b->out[0], b->out[1], b->dout[0] };
  mrt_make_all(b, MRT_OP_attention_grad, b->options, 6, in, b->din, 3);
}
static void grad_gradient(mrt_build *b) { mrt_grad_decomposed(b, grad_parts); }

const mrt_op mrt_op_attention = {
  .name = "attention",
  .number = MRT_OP_attention,
  .cost = MRT_COST_attention,
  .doc = "o = softmax(scale q k^T) v and lse = log sum exp(scale q k^T)",
  .min_inputs = 3,
  .max_inputs = 3,
  MRT_OPTIONS(options, mrt_attention_options),
  .infer = infer,
  .shard_rule = mrt_shard_rules_first,
  .grad = gradient,
  .flops = flops,
  .product = product,
  .strided = 1 | 2 | 4,
  .width = MRT_NARROW,
  .narrow_outputs = 1,
  .wide_outputs = ~UINT32_C(1),
};
const mrt_op mrt_op_attention_grad = {
  .name = "attention_grad",
  .number = MRT_OP_attention_grad,
  .cost = MRT_COST_attention,
  .doc = "dq, dk, dv of o, lse = attention(q, k, v), from do",
  .min_inputs = 6,
  .max_inputs = 6,
  MRT_OPTIONS(options, mrt_attention_options),
  .infer = grad_infer,
  .grad = grad_gradient,
  .flops = grad_flops,
  .product = grad_product,
  .strided = 1 | 2 | 4 | 32,
  .width = MRT_NARROW,
  .narrow_outputs = 7,
  .traits = MRT_LIBRARY,
};
