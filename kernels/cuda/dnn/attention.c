/* attention.c -- attention and its gradient: by cuDNN or by ours
 *
 * Both keep the same lse, so either takes the gradient of the other's.  The
 * library's stores the gradient of the scores: it goes by slices of samples, or
 * of heads, few enough for that.
 *
 * SPDX-License-Identifier: MIT */
#include "op/attention.h"
#include "dnn/dnn.h"
#include "dnn/fallback.h"

enum { Q, K, V, O, LSE, DO, DQ, DK, DV, DELTA }; /* as in dnn.h */

/* Operand i in the order of dnn.h. */
static const mrt_operand *operand(const mrt_call *c, int i) {
  return i < c->nin ? &c->in[i] : &c->out[i - c->nin];
}

/* [B, T, H, D] with the strides that it has, counted as [B, H, T, D]. */
static mrt_dnn_tensor heads_of(const mrt_operand *x) {
  const int64_t *d = x->type.dims;
  mrt_dnn_tensor t = { { d[0], d[2], d[1], d[3] },
                       { d[1] * d[2] * d[3], d[3], d[2] * d[3], 1 },
                       x->type.dtype };
  static const int from[] = { 0, 2, 1, 3 };
  for (int i = 0; i < 4; i++) /* that of a single one is never used */
    if (t.dims[i] != 1) t.strides[i] = x->strides[from[i]];
  return t;
}
static mrt_dnn_tensor lse_of_heads(int64_t B, int64_t H, int64_t T) {
  return (mrt_dnn_tensor){ { B, H, T, 1 }, { H * T, T, 1, 1 }, MRT_f32 };
}
static mrt_dnn_tensor lse_of(const mrt_operand *x) {
  const int64_t *d = x->type.dims;
  mrt_dnn_tensor t = lse_of_heads(d[0], d[1], d[2]);
  t.dtype = x->type.dtype;
  return t;
}

/* All of one dtype of 16 bits, of up to 256 wide, and every row of it aligned. */
static bool fits(const mrt_call *c, const mrt_dnn_tensor *t) {
  const int64_t each = MRT_DNN_ALIGN / 2, widest = 256, *s = t->strides;
  double n = 1;
  for (int i = 0; i < 4; i++) n *= (double)t->dims[i];
  bool half = t->dtype == MRT_f16 || t->dtype == MRT_bf16;
  bool even = s[0] % each == 0 && s[1] % each == 0 && s[2] % each == 0;
  bool forward = s[0] > 0 && s[1] > 0 && s[2] > 0 && s[3] == 1;
  return half && (int)c->in[0].type.dtype == t->dtype && even && forward &&
         t->dims[3] % each == 0 && t->dims[3] <= widest && n >= 1 &&
         n < INT32_MAX;
}

/* Where some query may see no key, causality does not start in the corner, or
 * there are masks, windows, lengths or softcap, kernels of ours are surer; and
 * for single queries, as when text is generated: keys are one more each time,
 * and to make a graph of new lengths takes half a second. */
static bool is_taken(const mrt_call *c) {
  const mrt_attention_options *o = c->options;
  int64_t T = c->in[0].type.dims[1], S = c->in[1].type.dims[1];
  bool plain = o->has == 0 && o->softcap == 0 && o->left < 0 && o->right < 0;
  bool corner = T == S && o->offset == MRT_ATTENTION_AT_END;
  /* A negative scale beside values wider than keys gave NaN (9.19, H100). */
  bool ordinary =
      o->scale > 0 && c->in[0].type.dims[3] == c->in[2].type.dims[3];
  return !mrt_cuda_attention_is_plain(c) && plain && ordinary && T > 1 &&
         (!o->causal || corner);
}

static bool shape_of(const mrt_call *c, int kind, mrt_dnn_shape *s) {
  const mrt_attention_options *o = c->options;
  int count = kind == MRT_DNN_ATTEND ? LSE + 1 : DELTA;
  if (!is_taken(c) || c->nin + c->nout != count) return false;
  *s = (mrt_dnn_shape){
    .kind = kind, .count = count, .causal = o->causal, .scale = o->scale
  };
  for (int i = 0; i < count; i++) {
    s->of[i] = i == LSE ? lse_of(operand(c, i)) : heads_of(operand(c, i));
    if (i != LSE && !fits(c, &s->of[i])) return false;
  }
  return s->of[LSE].dtype == MRT_f32;
}

bool mrt_cuda_attention_is_plain(const mrt_call *c) {
  return ((const mrt_cuda *)c->run->device)->plain_attention;
}

/* The state is the device's. */
#define PREPARED(name)                                                         \
  void *mrt_cuda_##name##_prepare(const mrt_call *c);                          \
  void mrt_cuda_##name##_release(void *state);                                 \
  size_t mrt_cuda_##name##_scratch(const mrt_call *c);                         \
  void mrt_cuda_##name(const mrt_call *c);                                     \
  void mrt_cuda_##name##_release(void *state) { (void)state; }
PREPARED(attention)
PREPARED(attention_grad)

/* ---- attention ----------------------------------------------------------- */

void *mrt_cuda_attention_prepare(const mrt_call *c) {
  mrt_dnn_shape s;
  const mrt_dnn *by = NULL;
  if (shape_of(c, MRT_DNN_ATTEND, &s)) by = mrt_dnn_find(c->run->device, &s);
  if (!by) mrt_cuda_attention_try(c, false);
  return (void *)by;
}

size_t mrt_cuda_attention_scratch(const mrt_call *c) {
  return c->state ? mrt_dnn_workspace(c->state) : 0;
}

void mrt_cuda_attention(const mrt_call *c) {
  void *data[LSE + 1];
  for (int i = 0; i <= LSE; i++) data[i] = operand(c, i)->data;
  if (c->state && mrt_dnn_takes(data, LSE + 1))
    mrt_dnn_run(c->run->device, c->state, data, c->scratch);
  else
    mrt_cuda_fallback_attention(c);
}

/* ---- its gradient -------------------------------------------------------- */

static bool has_heads_of_keys(int i) {
  return i == K || i == V || i == DK || i == DV;
}

/* At most n that divides it; 0: none.  Each part has `rows` of lse, and begins
 * at an address that the library takes. */
static int64_t part_of(int64_t all, int64_t rows, double n) {
  int64_t part = n < (double)all ? (int64_t)n : all;
  while (part > 0 && part < all &&
         (all % part || part * rows % (MRT_DNN_ALIGN / 4)))
    part--;
  return part;
}

/* Bytes for a head of keys: the gradient of the scores, rounded up, and dk and
 * dv of each head of queries if there are several. */
static double bytes_of_head(const mrt_dnn_shape *s) {
  const int64_t *q = s->of[Q].dims, *k = s->of[K].dims, round = 128;
  double rows = (double)((q[2] + round - 1) / round * round);
  double keys = (double)((k[2] + round - 1) / round * round);
  double width = (double)(k[3] + s->of[V].dims[3]);
  bool several = q[1] > k[1];
  return (double)(q[1] / k[1]) * 2 * keys * (rows + (several ? width : 0));
}

/* Of samples, or of one's heads, how many there are at a time: `s` becomes the
 * shape of such a slice. */
static bool slice(mrt_dnn_shape *s) {
  const int64_t *q = s->of[Q].dims, *k = s->of[K].dims;
  int64_t B = q[0], H = q[1], Hk = k[1], T = q[2];
  double each = bytes_of_head(s);
  int64_t b = part_of(B, H * T, MRT_DNN_MOST_ATTENTION / (each * (double)Hk));
  int64_t h = b ? Hk : part_of(Hk, H / Hk * T, MRT_DNN_MOST_ATTENTION / each);
  if (h == 0 || (b == 0 && h == Hk)) return false; /* samples begin oddly */
  if (b == 0) b = 1;
  for (int i = Q; i < DELTA; i++) {
    s->of[i].dims[0] = b;
    s->of[i].dims[1] = has_heads_of_keys(i) ? h : H / Hk * h;
  }
  s->of[DELTA] = lse_of_heads(b, H / Hk * h, T);
  s->count = DELTA + 1;
  return true;
}

static bool slice_of(const mrt_call *c, mrt_dnn_shape *s) {
  return shape_of(c, MRT_DNN_ATTEND_GRAD, s) && slice(s);
}

void *mrt_cuda_attention_grad_prepare(const mrt_call *c) {
  mrt_dnn_shape s;
  const mrt_dnn *by = NULL;
  if (slice_of(c, &s)) by = mrt_dnn_find(c->run->device, &s);
  if (!by) mrt_cuda_attention_try(c, true);
  return (void *)by;
}

size_t mrt_cuda_attention_grad_scratch(const mrt_call *c) {
  size_t own = mrt_cuda_fallback_attention_grad_scratch(c), bytes = 0;
  if (c->state) bytes = own + mrt_dnn_up(mrt_dnn_workspace(c->state));
  return bytes > own ? bytes : own;
}

/* Operand i from sample b and head h of keys on. */
static void *from(const mrt_call *c, int i, int64_t b, int64_t h) {
  const mrt_operand *x = operand(c, i);
  const int64_t *q = c->in[Q].type.dims, *k = c->in[K].type.dims;
  int64_t at = has_heads_of_keys(i) ? h : q[2] / k[2] * h;
  if (i == LSE) return (float *)x->data + (b * q[2] + at) * q[1];
  int64_t skip = b * x->strides[0] + at * x->strides[2];
  return (uint16_t *)x->data + skip;
}

static void run_slices(const mrt_call *c, const mrt_dnn_shape *s) {
  const int64_t *k = c->in[K].type.dims, *part = s->of[K].dims;
  void *data[DELTA + 1];
  data[DELTA] = (char *)c->scratch + mrt_dnn_up(mrt_dnn_workspace(c->state));
  for (int64_t b = 0; b < k[0]; b += part[0])
    for (int64_t h = 0; h < k[2]; h += part[1]) {
      for (int i = Q; i < DELTA; i++) data[i] = from(c, i, b, h);
      mrt_dnn_run(c->run->device, c->state, data, c->scratch);
    }
}

void mrt_cuda_attention_grad(const mrt_call *c) {
  void *data[DELTA];
  mrt_dnn_shape s;
  for (int i = Q; i < DELTA && c->state; i++) data[i] = operand(c, i)->data;
  if (c->state && mrt_dnn_takes(data, DELTA) && slice_of(c, &s))
    run_slices(c, &s);
  else
    mrt_cuda_fallback_attention_grad(c);
}
