/* attention_parts.c -- attention and its gradient from plainer operators
 *
 * What higher derivatives are made of.  Scores are [B, Hk, H / Hk, T, S] here,
 * and stored.
 *
 * SPDX-License-Identifier: MIT */
#include "op/attention_parts.h"
#include "op/attention.h"
#include "op/make.h"
#include "op/views.h"

#include <math.h>

enum { MOST = MRT_ATTENTION_GRAD_AFTER + 4 };

/* What `formula` gives for inputs widened to f32, in the dtypes of the rows. */
static void widened(mrt_build *b, mrt_tensor **value, mrt_decompose formula) {
  mrt_tensor *wide[MOST], *const *in = b->in;
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

/* ---- what is seen -------------------------------------------------------- */

/* An input that may be absent; NULL: it is. */
static mrt_tensor *optional(mrt_build *b, int after, int which) {
  const mrt_attention_options *o = b->options;
  if (!(o->has & which)) return NULL;
  return b->in[mrt_attention_input(o, after, which)];
}

/* An integer of each sample, [B, 1, 1, 1, 1], or one of all. */
static mrt_tensor *per_sample(mrt_build *b, int after, int which, int64_t all) {
  mrt_tensor *x = optional(b, after, which);
  mrt_full_options one = { .value = (double)all, .dtype = MRT_i64 };
  if (!x) return mrt_make(b, MRT_OP_full, &one, 0, NULL);
  int64_t dims[] = { mrt_of(x)->dims[0], 1, 1, 1, 1 };
  return mrt_reshape_to(b, mrt_cast_to(b, x, MRT_i64), 5, dims);
}

/* 0 .. n - 1 */
static mrt_tensor *count_to(mrt_build *b, int64_t n) {
  mrt_arange_options o = { .stop = (double)n, .step = 1, .dtype = MRT_i64 };
  return mrt_make(b, MRT_OP_arange, &o, 0, NULL);
}

/* x where low <= high for these integers, -infinity elsewhere. */
static mrt_tensor *where_ordered(mrt_build *b, mrt_tensor *low,
                                 mrt_tensor *high, mrt_tensor *x) {
  const mrt_type *all = mrt_of(x);
  mrt_tensor *seen = MRT_MAKE(b, le, NULL, mrt_expand_to(b, low, all),
                              mrt_expand_to(b, high, all));
  return mrt_where(b, seen, x, mrt_const_like(b, x, -INFINITY));
}

/* x [..., T, S] where the query sees the key by its place, -infinity elsewhere. */
static mrt_tensor *seen_only(mrt_build *b, int after, mrt_tensor *x) {
  const mrt_attention_options *o = b->options;
  if (!x) return x;
  int64_t T = mrt_of(x)->dims[3], S = mrt_of(x)->dims[4], column[] = { T, 1 };
  int64_t left = mrt_attention_left(o), right = mrt_attention_right(o);
  bool queries = o->has & MRT_ATTENTION_QUERIES;
  bool keys = o->has & MRT_ATTENTION_KEYS;
  mrt_tensor *t = mrt_reshape_to(b, count_to(b, T), 2, column);
  mrt_tensor *key = count_to(b, S);
  mrt_tensor *last_t = per_sample(b, after, MRT_ATTENTION_QUERIES, T);
  mrt_tensor *last_key = per_sample(b, after, MRT_ATTENTION_KEYS, S);
  mrt_tensor *at = mrt_sub(b, last_key, last_t);
  if (o->offset != MRT_ATTENTION_AT_END)
    at = mrt_const_like(b, at, (double)o->offset);
  if (o->has & MRT_ATTENTION_AT) at = per_sample(b, after, MRT_ATTENTION_AT, 0);
  at = mrt_add(b, t, at);
  if (right < MRT_ATTENTION_FAR)
    x = where_ordered(b, key, mrt_add_k(b, at, (double)right), x);
  if (left < MRT_ATTENTION_FAR)
    x = where_ordered(b, mrt_add_k(b, at, -(double)left), key, x);
  if (keys) x = where_ordered(b, mrt_add_k(b, key, 1), last_key, x);
  if (queries) x = where_ordered(b, mrt_add_k(b, t, 1), last_t, x);
  return x;
}

/* The mask as [B, Hk, H / Hk, T, S], each of these or 1. */
static mrt_tensor *mask_by_group(mrt_build *b, mrt_tensor *mask) {
  const int64_t *d = mrt_of(mask)->dims, Hk = mrt_of(b->in[1])->dims[2];
  bool each = d[1] > 1 && Hk;
  int64_t dims[] = { d[0], each ? Hk : 1, each ? d[1] / Hk : d[1], d[2], d[3] };
  return mrt_reshape_to(b, mask, 5, dims);
}

static mrt_tensor *masked(mrt_build *b, int after, mrt_tensor *x) {
  mrt_tensor *mask = optional(b, after, MRT_ATTENTION_MASK);
  if (!mask || !x) return x;
  bool seen = mrt_of(mask)->dtype == MRT_bool;
  mask = mask_by_group(b, mask);
  if (!seen) return mrt_add(b, x, mask);
  mask = mrt_expand_to(b, mask, mrt_of(x));
  return mrt_where(b, mask, x, mrt_const_like(b, x, -INFINITY));
}

/* ---- weights ------------------------------------------------------------- */

/* x with 0 for -infinity, of queries that see no key. */
static mrt_tensor *or_zero(mrt_build *b, mrt_tensor *x) {
  mrt_tensor *low = mrt_const_like(b, x, -INFINITY);
  if (!x) return x;
  mrt_tensor *none = MRT_MAKE(b, eq, NULL, x, mrt_expand_to(b, low, mrt_of(x)));
  return mrt_where(b, none, mrt_const_like(b, x, 0), x);
}

/* exp(scores - shift), 0 where a key is not seen; *slope: what softcap
 * multiplies gradients of the scores by. */
static mrt_tensor *weights(mrt_build *b, int after, mrt_tensor *q,
                           mrt_tensor *k, mrt_tensor *shift,
                           mrt_tensor **slope) {
  const mrt_attention_options *o = b->options;
  mrt_tensor *s = mrt_matmul(b, q, mrt_transpose_last(b, k));
  *slope = NULL;
  if (o->softcap > 0) {
    mrt_tensor *y =
        MRT_MAKE(b, tanh, NULL, mrt_mul_k(b, s, o->scale / o->softcap));
    *slope = mrt_rsub(b, 1, mrt_mul(b, y, y));
    s = mrt_mul_k(b, y, o->softcap);
  } else {
    s = mrt_mul_k(b, s, o->scale);
  }
  s = mrt_sub(b, masked(b, after, s), or_zero(b, shift));
  return mrt_exp(b, seen_only(b, after, s));
}

/* The constant that keeps exp within range is the result itself; sums that
 * are 0 belong to queries that see no key. */
static void wide_parts(mrt_build *b, mrt_tensor **value) {
  mrt_tensor *own[2], *lse, *slope;
  mrt_make_all(b, MRT_OP_attention, b->options, b->nin, b->in, own, 2);
  mrt_tensor *shift = per_query(b, MRT_MAKE(b, detach, NULL, own[1]));
  mrt_tensor *p = weights(b, MRT_ATTENTION_AFTER, by_group(b, b->in[0]),
                          by_group(b, b->in[1]), shift, &slope);
  mrt_tensor *sum = mrt_sum_dim(b, p, 4, true);
  mrt_tensor *zero = mrt_expand_to(b, mrt_const_like(b, sum, 0), mrt_of(sum));
  mrt_tensor *none = MRT_MAKE(b, eq, NULL, sum, zero);
  sum = mrt_where(b, none, mrt_const_like(b, sum, 1), sum);
  mrt_tensor *o = mrt_matmul(b, p, by_group(b, b->in[2]));
  value[0] = from_groups(b, mrt_div(b, o, sum), b->in[0]);
  lse = mrt_add(b, shift, MRT_MAKE(b, log, NULL, sum));
  value[1] = mrt_reshape_like(b, lse, own[1]);
}

/* The gradient of the scores added up along what the mask is 1 of. */
static mrt_tensor *to_mask(mrt_build *b, mrt_tensor *ds) {
  mrt_tensor *mask = b->in[MRT_ATTENTION_GRAD_AFTER];
  const int64_t *wide = mrt_of(ds)->dims;
  mrt_tensor *grouped = mask_by_group(b, mask);
  mrt_ints along = { .count = 0 };
  for (int d = 0; d < 5; d++)
    if (mrt_of(grouped)->dims[d] == 1 && wide[d] != 1)
      along.at[along.count++] = d;
  if (along.count) ds = mrt_sum_dims(b, ds, &along, true);
  return mrt_reshape_like(b, ds, mask);
}

static void wide_grad_parts(mrt_build *b, mrt_tensor **value) {
  const mrt_attention_options *options = b->options;
  mrt_tensor *q = by_group(b, b->in[0]), *k = by_group(b, b->in[1]);
  mrt_tensor *v = by_group(b, b->in[2]), *o = by_group(b, b->in[3]);
  mrt_tensor *dout = by_group(b, b->in[5]), *slope;
  mrt_tensor *p = weights(b, MRT_ATTENTION_GRAD_AFTER, q, k,
                          per_query(b, b->in[4]), &slope);
  mrt_tensor *dp = mrt_matmul(b, dout, mrt_transpose_last(b, v));
  mrt_tensor *delta = mrt_sum_dim(b, mrt_mul(b, o, dout), 4, true);
  mrt_tensor *ds = mrt_mul(b, p, mrt_sub(b, dp, delta));
  if (options->mask_grad) value[3] = to_mask(b, ds);
  if (options->softcap > 0) ds = mrt_mul(b, ds, slope);
  ds = mrt_mul_k(b, ds, options->scale);
  mrt_tensor *dk = mrt_matmul(b, mrt_transpose_last(b, ds), q);
  mrt_tensor *dv = mrt_matmul(b, mrt_transpose_last(b, p), dout);
  value[0] = from_groups(b, mrt_matmul(b, ds, k), b->in[0]);
  value[1] = from_groups(b, mrt_sum_dim(b, dk, 2, true), b->in[1]);
  value[2] = from_groups(b, mrt_sum_dim(b, dv, 2, true), b->in[2]);
}

void mrt_attention_parts(mrt_build *b, mrt_tensor **value) {
  widened(b, value, wide_parts);
}
void mrt_attention_grad_parts(mrt_build *b, mrt_tensor **value) {
  widened(b, value, wide_grad_parts);
}
