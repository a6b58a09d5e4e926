/* conv.c -- conv2d, conv2d_dx and conv2d_dw: by cuDNN or by ours
 *
 * The library wants the channels of weights last, as those of images; ours are
 * turned in scratch, where they differ at all.
 *
 * SPDX-License-Identifier: MIT */
#include "dnn/dnn.h"
#include "dnn/fallback.h"
#include "gemm/gemm.h"
#include "op/window.h"

typedef struct weights {
  void *data;
  int64_t O, X, taps; /* outputs, inputs of a group, of the kernel */
  int dtype;
  bool alike; /* either way round */
} weights;

/* ---- what is asked for --------------------------------------------------- */

static int weights_at(int kind) { return kind == MRT_DNN_CONV_DW ? 2 : 1; }

/* Operand i in the order of dnn.h. */
static const mrt_operand *operand(const mrt_call *c, int i) {
  return i == 2 ? &c->out[0] : &c->in[i > 2 ? i - 1 : i];
}

static weights weights_of(const mrt_call *c, int kind) {
  const mrt_operand *w = operand(c, weights_at(kind));
  const int64_t *d = w->type.dims;
  int64_t taps = d[2] * d[3];
  return (weights){
    w->data, d[0], d[1], taps, (int)w->type.dtype, taps == 1 || d[1] == 1
  };
}

/* Channels last in memory, second in number. */
static mrt_dnn_tensor seen_as(const int64_t *dims, int dtype) {
  int64_t C = dims[1], H = dims[2], W = dims[3];
  return (mrt_dnn_tensor){ { dims[0], C, H, W },
                           { H * W * C, 1, W * C, C },
                           dtype };
}
static mrt_dnn_tensor tensor_of(const mrt_call *c, int kind, int i) {
  const mrt_type *t = &operand(c, i)->type;
  const int64_t *d = t->dims;
  int64_t image[] = { d[0], d[3], d[1], d[2] }, bias[] = { 1, d[0], 1, 1 };
  bool is_weights = i == weights_at(kind);
  return seen_as(i == 3 ? bias : is_weights ? d : image, (int)t->dtype);
}

/* Below, no number of elements overflows anything. */
static bool is_moderate(const mrt_dnn_tensor *t) {
  double n = 1;
  for (int i = 0; i < 4; i++) n *= (double)t->dims[i];
  return n >= 1 && n < INT32_MAX;
}

/* All of one dtype that is rounded to no other. */
static bool fits(const mrt_call *c, const mrt_dnn_tensor *t) {
  const mrt_conv_options *o = c->options;
  bool known =
      t->dtype == MRT_f32 || t->dtype == MRT_f16 || t->dtype == MRT_bf16;
  bool kept = o->compute == MRT_DTYPE_COUNT || (int)o->compute == t->dtype;
  return known && kept && (int)c->in[0].type.dtype == t->dtype &&
         is_moderate(t);
}

static bool shape_of(const mrt_call *c, int kind, mrt_dnn_shape *s) {
  const mrt_conv_options *o = c->options;
  *s = (mrt_dnn_shape){ .kind = kind, .count = c->nin + 1 };
  for (int i = 0; i < s->count; i++) {
    s->of[i] = tensor_of(c, kind, i);
    if (!fits(c, &s->of[i])) return false;
  }
  for (int i = 0; i < 2; i++) {
    s->stride[i] = o->stride.at[i];
    s->padding[i] = o->padding.at[i];
    s->dilation[i] = o->dilation.at[i];
  }
  return true;
}

/* ---- doing it ------------------------------------------------------------ */

/* [O, X, taps] as [O, taps, X], or back. */
static void turn(const mrt_cuda *c, const weights *w, void *from, void *to,
                 bool back) {
  int64_t rows = back ? w->X : w->taps, cols = back ? w->taps : w->X;
  mrt_cuda_matrix x = { from, 1, rows, w->dtype };
  mrt_cuda_batch all = { 1, { w->O }, { rows * cols } };
  mrt_cuda_pack pack = { .is = true, .dtype = w->dtype, .via = w->dtype };
  mrt_cuda_repack(&x, &all, rows, cols, &pack, to, c->queue);
}

static size_t turned_bytes(const weights *w) {
  size_t bytes = mrt_dtypes[w->dtype].bytes;
  return w->alike ? 0 : mrt_dnn_up((size_t)(w->O * w->X * w->taps) * bytes);
}

static size_t scratch(const mrt_call *c, int kind, size_t own) {
  if (!c->state) return own;
  weights w = weights_of(c, kind);
  size_t bytes = turned_bytes(&w) + mrt_dnn_workspace(c->state);
  return bytes > own ? bytes : own;
}

static void run(const mrt_call *c, int kind, void (*own)(const mrt_call *)) {
  mrt_cuda *cuda = c->run->device;
  void *data[4] = { 0 };
  int count = c->nin + 1, at = weights_at(kind);
  for (int i = 0; i < count; i++) data[i] = operand(c, i)->data;
  if (!c->state || !mrt_dnn_takes(data, count)) {
    own(c);
    return;
  }
  weights w = weights_of(c, kind);
  bool makes = kind == MRT_DNN_CONV_DW;
  if (!w.alike) data[at] = c->scratch;
  if (!w.alike && !makes) turn(cuda, &w, w.data, c->scratch, false);
  mrt_dnn_run(cuda, c->state, data, (char *)c->scratch + turned_bytes(&w));
  if (!w.alike && makes) turn(cuda, &w, c->scratch, w.data, true);
}

static void *prepare(const mrt_call *c, int kind) {
  mrt_dnn_shape s;
  if (!shape_of(c, kind, &s)) return NULL;
  return (void *)mrt_dnn_find(c->run->device, &s);
}

/* The state is the device's. */
#define PREPARED(name, kind)                                                   \
  void mrt_cuda_##name(const mrt_call *c);                                     \
  size_t mrt_cuda_##name##_scratch(const mrt_call *c);                         \
  void *mrt_cuda_##name##_prepare(const mrt_call *c);                          \
  void mrt_cuda_##name##_release(void *state);                                 \
                                                                               \
  void mrt_cuda_##name(const mrt_call *c) {                                    \
    run(c, kind, mrt_cuda_fallback_##name);                                    \
  }                                                                            \
  size_t mrt_cuda_##name##_scratch(const mrt_call *c) {                        \
    return scratch(c, kind, mrt_cuda_fallback_##name##_scratch(c));            \
  }                                                                            \
  void *mrt_cuda_##name##_prepare(const mrt_call *c) {                         \
    return prepare(c, kind);                                                   \
  }                                                                            \
  void mrt_cuda_##name##_release(void *state) { (void)state; }
PREPARED(conv2d, MRT_DNN_CONV)
PREPARED(conv2d_dx, MRT_DNN_CONV_DX)
PREPARED(conv2d_dw, MRT_DNN_CONV_DW)
