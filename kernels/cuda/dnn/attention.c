/* attention.c -- attention: by cuDNN or by ours
 *
 * Both keep the same lse, for a gradient that is always ours: cuDNN's manual
 * has no way to ask its own for the same bits each time.
 *
 * SPDX-License-Identifier: MIT */
#include "op/attention.h"
#include "dnn/dnn.h"
#include "dnn/fallback.h"

enum { LSE = 4 }; /* the fifth operand */

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
/* [B, H, T] */
static mrt_dnn_tensor lse_of(const mrt_operand *x) {
  const int64_t *d = x->type.dims;
  return (mrt_dnn_tensor){ { d[0], d[1], d[2], 1 },
                           { d[1] * d[2], d[2], 1, 1 },
                           x->type.dtype };
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
 * there are masks, windows, lengths or softcap, kernels of ours are surer. */
static bool shape_of(const mrt_call *c, mrt_dnn_shape *s) {
  const mrt_attention_options *o = c->options;
  *s = (mrt_dnn_shape){ .kind = MRT_DNN_ATTEND,
                        .count = MRT_DNN_OPERANDS,
                        .causal = o->causal,
                        .scale = o->scale };
  for (int i = 0; i < LSE; i++) {
    s->of[i] = heads_of(operand(c, i));
    if (!fits(c, &s->of[i])) return false;
  }
  s->of[LSE] = lse_of(operand(c, LSE));
  bool plain = o->has == 0 && o->softcap == 0 && o->left < 0 && o->right < 0;
  bool corner = c->in[0].type.dims[1] == c->in[1].type.dims[1] &&
                o->offset == MRT_ATTENTION_AT_END;
  return plain && (!o->causal || corner);
}

bool mrt_cuda_attention_is_plain(const mrt_call *c) {
  return ((const mrt_cuda *)c->run->device)->plain_attention;
}

/* The state is the device's. */
void *mrt_cuda_attention_prepare(const mrt_call *c);
void mrt_cuda_attention_release(void *state);
size_t mrt_cuda_attention_scratch(const mrt_call *c);
void mrt_cuda_attention(const mrt_call *c);

void *mrt_cuda_attention_prepare(const mrt_call *c) {
  mrt_dnn_shape s;
  if (mrt_cuda_attention_is_plain(c) || c->nin != 3 || !shape_of(c, &s))
    return NULL;
  return (void *)mrt_dnn_find(c->run->device, &s);
}
void mrt_cuda_attention_release(void *state) { (void)state; }

size_t mrt_cuda_attention_scratch(const mrt_call *c) {
  return c->state ? mrt_dnn_workspace(c->state) : 0;
}

void mrt_cuda_attention(const mrt_call *c) {
  void *data[MRT_DNN_OPERANDS];
  for (int i = 0; i < MRT_DNN_OPERANDS; i++) data[i] = operand(c, i)->data;
  if (c->state && mrt_dnn_takes(data, MRT_DNN_OPERANDS))
    mrt_dnn_run(c->run->device, c->state, data, c->scratch);
  else
    mrt_cuda_fallback_attention(c);
}
