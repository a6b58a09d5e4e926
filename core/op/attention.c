/* attention.c -- softmax(scale Q K' + mask) V, heads together
 *
 *   attention        s   = scale q . k;  softcap: s = cap tanh(s / cap);  s += mask
 *                    p   = exp(s - lse) over the keys seen
 *                    o   = sum over keys of p v
 *                    lse = log sum over keys of exp s
 *   paged_attention  the same for keys and values that lie in pages of a cache
 *   attention_grad   dq, dk, dv from do, for these o and lse; with mask_grad
 *                    also dmask
 *
 *   q      [B, T, H, D], a float of any width
 *   k, v   [B, S, Hk, D], [B, S, Hk, Dv]: head h reads key head h Hk / H
 *          paged: [P, page, Hk, D] and alike, and a table [B, n] of pages of
 *          each sample: S = n page
 *   mask   each of [B, H, T, S] or 1, read where it lies: bool, true what is
 *          seen, or floats; `has` says which of it and the next are there
 *   queries keys offset  [B], integers: lengths of each sample, of which the
 *          rest is padding, and the position of query 0 among the keys; without
 *          any the last query stands at the last key
 *   o      [B, T, H, Dv], of the widest dtype of q, k, v
 *   lse    [B, H, T], f32 | f64;  o and lse are 0 and -inf where no key is seen
 *   dq ..  of the dtypes of q, k, v, mask; 0 for padding
 *   width  scores, softmax and sums are f32 whatever is narrow, results are
 *          rounded once.  Where q, k, v and do are all bf16 or f8, p and the
 *          gradient of the scores are rounded to bf16 for their products.
 *   cost   2 (D + Dv) flop for each query and key that window and causality let
 *          it see; the gradient 2 (3 D + 2 Dv), and 2 (D + Dv) more for dmask;
 *          scores are never stored, so memory is O(T)
 *   grad   attention_grad; keeps q, k, v, o, lse.  With a gradient of lse, and
 *          for attention_grad, by plain operators that do store the scores
 *          (attention_parts.c); that of paged_attention is refused
 *   fails  ESHAPE  shapes that do not fit, H not a multiple of Hk
 *          EDTYPE  not floats, or f64 beside another
 *          EVALUE  a scale or cap that is not finite, a window below -1
 *          EDATA   when run: a length that is negative or too large, a page
 *                  outside the cache
 *   from   Dao, arXiv:2307.08691; Milakov & Gimelshein, arXiv:1805.02867; windows:
 *          Beltagy et al., arXiv:2004.05150; softcap: Gemma 2, arXiv:2408.00118;
 *          pages: Kwon et al., arXiv:2309.06180
 *
 * SPDX-License-Identifier: MIT */
#include "op/attention.h"
#include "op/attention_parts.h"
#include "tensor/tensor.h"

#include <math.h>

#define SHARED_OPTIONS                                                         \
  MRT_OPTION(mrt_attention_options, causal, MRT_OPT_BOOL, .preset = false),    \
      MRT_OPTION(mrt_attention_options, scale, MRT_OPT_NUM, .preset = 0),      \
      MRT_OPTION(mrt_attention_options, left, MRT_OPT_INT, .preset = -1),      \
      MRT_OPTION(mrt_attention_options, right, MRT_OPT_INT, .preset = -1),     \
      MRT_OPTION(mrt_attention_options, softcap, MRT_OPT_NUM, .preset = 0),    \
      MRT_OPTION(mrt_attention_options, offset, MRT_OPT_INT,                   \
                 .preset = (double)MRT_ATTENTION_AT_END),                      \
      MRT_OPTION(mrt_attention_options, further, MRT_OPT_HIDDEN),              \
      MRT_OPTION(mrt_attention_options, has, MRT_OPT_INT, .preset = 0)

static const mrt_option options[] = { SHARED_OPTIONS };
static const mrt_option grad_options[] = {
  SHARED_OPTIONS,
  MRT_OPTION(mrt_attention_options, mask_grad, MRT_OPT_BOOL, .preset = false),
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

static mrt_status want_groups(mrt_infer *c) {
  int64_t H = c->in[0]->dims[2], Hk = c->in[1]->dims[2];
  if (Hk ? H % Hk == 0 : H == 0) return MRT_OK;
  return mrt_refuse(c, MRT_ESHAPE,
                    "%lld heads of queries, a multiple of the %lld of keys "
                    "wanted",
                    (long long)H, (long long)Hk);
}

static mrt_status want_qkv(mrt_infer *c) {
  const mrt_type *q = c->in[0], *k = c->in[1], *v = c->in[2];
  for (int i = 0; i < 3; i++) MRT_TRY(want_rank(c, i));
  int64_t keys[] = { q->dims[0], k->dims[1], k->dims[2], q->dims[3] };
  int64_t values[] = { q->dims[0], k->dims[1], k->dims[2], v->dims[3] };
  MRT_TRY(mrt_want_shape(c, 1, 4, keys, "batch and width of the queries"));
  MRT_TRY(mrt_want_shape(c, 2, 4, values, "batch, time and heads of the keys"));
  return want_groups(c);
}

/* Keys and values by pages, and a table of the pages of each sample; *S: how
 * many keys that may be. */
static mrt_status want_pages(mrt_infer *c, int64_t *S) {
  const mrt_type *q = c->in[0], *k = c->in[1], *v = c->in[2], *n = c->in[3];
  for (int i = 0; i < 3; i++) MRT_TRY(want_rank(c, i));
  int64_t keys[] = { k->dims[0], k->dims[1], k->dims[2], q->dims[3] };
  int64_t values[] = { k->dims[0], k->dims[1], k->dims[2], v->dims[3] };
  MRT_TRY(mrt_want_shape(c, 1, 4, keys, "pages, and the width of the queries"));
  MRT_TRY(mrt_want_shape(c, 2, 4, values, "the pages of the keys"));
  MRT_TRY(mrt_want_integer(c, 3));
  if (n->rank != 2 || n->dims[0] != q->dims[0])
    return mrt_refuse(
        c, MRT_ESHAPE,
        "pages %s, a row of pages for each of %lld samples wanted",
        mrt_show(n).s, (long long)q->dims[0]);
  if (n->dims[1] > MRT_ATTENTION_FAR / (k->dims[1] + 1))
    return mrt_refuse(c, MRT_EVALUE, "%lld pages of %lld, fewer wanted",
                      (long long)n->dims[1], (long long)k->dims[1]);
  if (k->dims[0] == 0 && mrt_type_count(n) > 0)
    return mrt_refuse(c, MRT_EVALUE, "pages %s of %s, which has none",
                      mrt_show(n).s, mrt_show(k).s);
  *S = n->dims[1] * k->dims[1];
  return want_groups(c);
}

static mrt_status want_scale(mrt_infer *c) {
  mrt_attention_options *o = c->options;
  double D = (double)c->in[0]->dims[3];
  if (!isfinite(o->scale))
    return mrt_refuse(c, MRT_EVALUE, "scale %g, a finite one wanted", o->scale);
  if (o->scale == 0) o->scale = D > 0 ? 1 / sqrt(D) : 1;
  return MRT_OK;
}

static mrt_status want_options(mrt_infer *c) {
  mrt_attention_options *o = c->options;
  MRT_TRY(want_scale(c));
  if (!(o->softcap >= 0 && isfinite(o->softcap)))
    return mrt_refuse(c, MRT_EVALUE,
                      "softcap %g, a positive number, or 0 for none, wanted",
                      o->softcap);
  if (o->left < -1 || o->right < -1)
    return mrt_refuse(
        c, MRT_EVALUE,
        "window of %lld keys before and %lld after, 0 or more, or "
        "-1 for all, wanted",
        (long long)o->left, (long long)o->right);
  if (o->left > MRT_ATTENTION_FAR) o->left = -1;
  if (o->right > MRT_ATTENTION_FAR) o->right = -1;
  if (o->offset != MRT_ATTENTION_AT_END)
    o->offset = mrt_attention_near(o->offset);
  return MRT_OK;
}

/* Each dimension that of the scores, or 1. */
static mrt_status want_mask(mrt_infer *c, int i, int64_t S) {
  const mrt_type *q = c->in[0], *m = c->in[i];
  int64_t dims[] = { q->dims[0], q->dims[2], q->dims[1], S };
  if (m->dtype != MRT_bool) MRT_TRY(want_dtype(c, i));
  bool fits = m->rank == 4;
  for (int d = 0; d < 4 && fits; d++)
    fits = m->dims[d] == 1 || m->dims[d] == dims[d];
  if (fits) return MRT_OK;
  mrt_type all = { m->dtype, 4, { dims[0], dims[1], dims[2], dims[3] } };
  return mrt_refuse(c, MRT_ESHAPE,
                    "mask %s, %s wanted, or 1 in place of any of these",
                    mrt_show(m).s, mrt_show(&all).s);
}

/* The inputs behind the first `after`: as many as `has` says. */
static mrt_status want_optional(mrt_infer *c, int after, int64_t S) {
  const mrt_attention_options *o = c->options;
  if (o->has < 0 || o->has > MRT_ATTENTION_ALL)
    return mrt_refuse(c, MRT_EVALUE, "has %lld, 0 to %d wanted",
                      (long long)o->has, MRT_ATTENTION_ALL);
  int wanted = mrt_attention_input(o, after, MRT_ATTENTION_ALL + 1);
  if (c->nin != wanted)
    return mrt_refuse(c, MRT_EVALUE, "%d inputs, %d wanted, as has is %lld",
                      c->nin, wanted, (long long)o->has);
  int i = after;
  if (o->has & MRT_ATTENTION_MASK) MRT_TRY(want_mask(c, i++, S));
  for (; i < c->nin; i++) {
    MRT_TRY(mrt_want_integer(c, i));
    MRT_TRY(mrt_want_shape(c, i, 1, c->in[0]->dims, "one for each sample"));
  }
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

static void fill_outputs(mrt_infer *c) {
  c->nout = 2;
  c->out[0] = type_of_o(c);
  c->out[1] = type_of_lse(c);
}

static mrt_status infer(mrt_infer *c) {
  MRT_TRY(want_qkv(c));
  MRT_TRY(want_options(c));
  MRT_TRY(want_optional(c, MRT_ATTENTION_AFTER, c->in[1]->dims[1]));
  fill_outputs(c);
  return MRT_OK;
}

static mrt_status paged_infer(mrt_infer *c) {
  int64_t S = 0;
  MRT_TRY(want_pages(c, &S));
  MRT_TRY(want_options(c));
  MRT_TRY(want_optional(c, MRT_ATTENTION_PAGED_AFTER, S));
  fill_outputs(c);
  return MRT_OK;
}

static mrt_status grad_infer(mrt_infer *c) {
  const mrt_attention_options *options = c->options;
  MRT_TRY(want_qkv(c));
  MRT_TRY(want_options(c));
  mrt_type o = type_of_o(c), lse = type_of_lse(c);
  for (int i = 3; i < 6; i++) MRT_TRY(want_dtype(c, i));
  MRT_TRY(mrt_want_shape(c, 3, 4, o.dims, "the result"));
  MRT_TRY(mrt_want_shape(c, 4, 3, lse.dims, "batch, heads, time"));
  MRT_TRY(mrt_want_shape(c, 5, 4, o.dims, "the shape of the result"));
  MRT_TRY(want_optional(c, MRT_ATTENTION_GRAD_AFTER, c->in[1]->dims[1]));
  c->nout = 3;
  for (int i = 0; i < 3; i++) c->out[i] = *c->in[i];
  if (!options->mask_grad) return MRT_OK;
  const mrt_type *mask = c->nin > 6 ? c->in[6] : NULL;
  if (!(options->has & MRT_ATTENTION_MASK) || mask->dtype == MRT_bool)
    return mrt_refuse(c, MRT_EVALUE, "mask_grad, a mask of floats wanted");
  c->out[c->nout++] = *mask;
  return MRT_OK;
}

/* ---- costs --------------------------------------------------------------- */

/* Sum of y, held within 0 .. S, over y < x. */
static double ramp(double x, double S) {
  if (x <= 0) return 0;
  return x <= S ? x * (x - 1) / 2 : S * (S - 1) / 2 + (x - S) * S;
}
/* Pairs of a query and a key that causality and window let it see. */
static double pairs_seen(const mrt_signature *s, double S) {
  const mrt_attention_options *o = s->options;
  const int64_t *q = s->in[0]->dims;
  double T = (double)q[1], heads = (double)q[0] * (double)q[2];
  double at = o->offset == MRT_ATTENTION_AT_END ? S - T : (double)o->offset;
  at += (double)o->further;
  double end = at + (double)mrt_attention_right(o) + 1;
  double start = at - (double)mrt_attention_left(o);
  double seen = ramp(end + T, S) - ramp(end, S);
  return heads * (seen - ramp(start + T, S) + ramp(start, S));
}
/* Queries against the keys they see on average, twice: scores, results. */
static mrt_product products(const mrt_signature *s, double S, double width) {
  const int64_t *q = s->in[0]->dims;
  double T = (double)q[1], heads = (double)q[0] * (double)q[2];
  double pairs = pairs_seen(s, S);
  return (mrt_product){ heads, T, pairs > 0 ? pairs / heads / T : 0, width };
}
static double two_widths(const mrt_signature *s) {
  return (double)(s->in[0]->dims[3] + s->in[2]->dims[3]);
}
static mrt_product product(const mrt_signature *s) {
  return products(s, (double)s->in[1]->dims[1], two_widths(s));
}
static double keys_in_pages(const mrt_signature *s) {
  return (double)s->in[3]->dims[1] * (double)s->in[1]->dims[1];
}
static mrt_product paged_product(const mrt_signature *s) {
  return products(s, keys_in_pages(s), two_widths(s));
}
static mrt_product grad_product(const mrt_signature *s) {
  const mrt_attention_options *o = s->options;
  double width = (double)(3 * s->in[0]->dims[3] + 2 * s->in[2]->dims[3]);
  if (o->mask_grad) width += two_widths(s);
  return products(s, (double)s->in[1]->dims[1], width);
}
static double flops_of(mrt_product p) { return 2 * p.count * p.m * p.n * p.k; }
static double flops(const mrt_signature *s) { return flops_of(product(s)); }
static double paged_flops(const mrt_signature *s) {
  return flops_of(paged_product(s));
}
static double grad_flops(const mrt_signature *s) {
  return flops_of(grad_product(s));
}

/* Of the cache, the pages of the table. */
static double paged_bytes(const mrt_signature *s) {
  double keys = (double)s->in[0]->dims[0] * keys_in_pages(s), sum = 0;
  for (int i = 1; i < 3; i++) {
    const mrt_type *x = s->in[i];
    sum += keys * (double)(x->dims[2] * x->dims[3]) *
           (double)mrt_dtypes[x->dtype].bytes;
  }
  for (int i = 0; i < s->nin; i++)
    if (i != 1 && i != 2) sum += (double)mrt_type_bytes(s->in[i]);
  for (int i = 0; i < s->nout; i++) sum += (double)mrt_type_bytes(s->out[i]);
  return sum;
}

/* ---- gradients and rows -------------------------------------------------- */

static void gradient(mrt_build *b) {
  const mrt_attention_options *given = b->options;
  if (b->dout[1]) {
    mrt_grad_decomposed(b, mrt_attention_parts);
    return;
  }
  mrt_tensor *in[MRT_ATTENTION_GRAD_AFTER + 4] = { b->in[0],  b->in[1],
                                                   b->in[2],  b->out[0],
                                                   b->out[1], b->dout[0] };
  int more = b->nin - MRT_ATTENTION_AFTER;
  for (int i = 0; i < more; i++)
    in[MRT_ATTENTION_GRAD_AFTER + i] = b->in[MRT_ATTENTION_AFTER + i];
  mrt_attention_options o = *given;
  bool biased = (o.has & MRT_ATTENTION_MASK) && b->wants[3];
  o.mask_grad = biased && mrt_of(b->in[3])->dtype != MRT_bool;
  mrt_make_all(b, MRT_OP_attention_grad, &o, MRT_ATTENTION_GRAD_AFTER + more,
               in, b->din, 3 + o.mask_grad);
}
static void grad_gradient(mrt_build *b) {
  mrt_grad_decomposed(b, mrt_attention_grad_parts);
}

/* Zeros would be wrong, and are what a row without a rule may be asked for. */
static void paged_gradient(mrt_build *b) {
  b->status = mrt_fail(&b->ctx->error, MRT_EGRAD,
                       "paged_attention: a cache in pages has no gradient; "
                       "attention of keys that lie together has one");
}

/* Samples, each by itself; heads, where no mask is given for some of them. */
static int heads_rule(const mrt_signature *s, int input, int dim, int plain) {
  int heads = s->in[input]->rank == 4 ? 2 : 1; /* lse is [B,H,T] */
  if (dim == 0) return 0;
  if (dim != heads || s->nin > plain) return MRT_RULE_UNKNOWN;
  return s->out[0]->rank == 4 ? 2 : 1;
}
static int shard_rule(const mrt_signature *s, int input, int dim) {
  return heads_rule(s, input, dim, 3);
}
static int grad_shard_rule(const mrt_signature *s, int input, int dim) {
  return heads_rule(s, input, dim, 6);
}

/* Samples, each by itself; pages are everyone's. */
static int paged_shard_rule(const mrt_signature *s, int input, int dim) {
  return dim == 0 && input != 1 && input != 2 ? 0 : MRT_RULE_UNKNOWN;
}

static const char no_such[] = "a length is negative, or more than there are";
static const char no_page[] =
    "a length is negative or more than the table holds, or a page is not there";

const mrt_op mrt_op_attention = {
  .name = "attention",
  .number = MRT_OP_attention,
  .cost = MRT_COST_attention,
  .doc = "o = softmax(scale q k^T + mask) v and lse = log sum exp(scale q k^T)",
  .min_inputs = 3,
  .max_inputs = 7,
  MRT_OPTIONS(options, mrt_attention_options),
  .infer = infer,
  .shard_rule = shard_rule,
  .grad = gradient,
  .flops = flops,
  .product = product,
  .strided = 1 | 2 | 4 | 8,
  .width = MRT_NARROW,
  .narrow_outputs = 1,
  .wide_outputs = ~UINT32_C(1),
  .wide_inputs = 8,
  .fault = no_such,
  .traits = MRT_FAULTS,
};
const mrt_op mrt_op_paged_attention = {
  .name = "paged_attention",
  .number = MRT_OP_paged_attention,
  .cost = MRT_COST_attention,
  .doc = "attention for q, and k and v in pages, of which the table says whose",
  .min_inputs = 4,
  .max_inputs = 8,
  MRT_OPTIONS(options, mrt_attention_options),
  .infer = paged_infer,
  .shard_rule = paged_shard_rule,
  .grad = paged_gradient,
  .flops = paged_flops,
  .product = paged_product,
  .bytes = paged_bytes,
  .strided = 1 | 2 | 4 | 16,
  .width = MRT_NARROW,
  .narrow_outputs = 1,
  .wide_outputs = ~UINT32_C(1),
  .wide_inputs = 16,
  .fault = no_page,
  .traits = MRT_FAULTS,
};
const mrt_op mrt_op_attention_grad = {
  .name = "attention_grad",
  .number = MRT_OP_attention_grad,
  .cost = MRT_COST_attention_grad,
  .doc = "dq, dk, dv and with mask_grad dmask, of o, lse = attention(q, k, v, "
         "...), from do",
  .min_inputs = 6,
  .max_inputs = 10,
  MRT_OPTIONS(grad_options, mrt_attention_options),
  .infer = grad_infer,
  .shard_rule = grad_shard_rule,
  .grad = grad_gradient,
  .flops = grad_flops,
  .product = grad_product,
  .strided = 1 | 2 | 4 | 32 | 64,
  .width = MRT_NARROW,
  .narrow_outputs = 7,
  .wide_inputs = 64,
  .traits = MRT_LIBRARY,
};
