/* attention_trial.c -- is attention by warpgroups right on this device?
 *
 * A defect of those kernels, or a build without them, is to cost speed and
 * nothing else.  So when a plan first has attention of a dtype and width that
 * they are for, a small one is computed by them and by the kernels for matrix
 * units of every device, and the results are compared: causal, of fewer queries
 * than keys, of two heads that share one of keys, of lengths that end within
 * tiles.  Where they differ, or nothing is launched, the others are used from
 * then on, and the first time stderr says so.  A trial that breaks the device
 * cannot be undone: its failure names it, and how to do without.
 *
 * SPDX-License-Identifier: MIT */
#include "base/dtype.h"
#include "dnn/fallback.h"
#include "op/attention.h"
#include "runtime/cuda.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 2, QUERIES = 136, KEYS = 264, NARROW = 64, WIDEST = 128 };
/* Operands, as attention's gradient has them, and its scratch. */
enum { Q, K, V, O, LSE, DO, DELTA, DQ, DK, DV, OPERANDS };

typedef struct trial {
  mrt_cuda *c;
  mrt_dtype dtype;
  int64_t width;
  mrt_attention_options options;
  mrt_operand of[OPERANDS];
  size_t at[OPERANDS + 1]; /* where each begins, and all end */
  char *there, *here;      /* all, on the device; a copy of its own */
} trial;

/* ---- operands ------------------------------------------------------------ */

static void lay_out(trial *t) {
  static const int64_t rows[OPERANDS] = {
    [Q] = QUERIES, [K] = KEYS,     [V] = KEYS,      [O] = QUERIES,
    [LSE] = HEADS, [DO] = QUERIES, [DELTA] = HEADS, [DQ] = QUERIES,
    [DK] = KEYS,   [DV] = KEYS
  };
  for (int i = 0; i < OPERANDS; i++) {
    bool wide = i == LSE || i == DELTA, of_keys = rows[i] == KEYS;
    mrt_operand *x = &t->of[i];
    x->type = (mrt_type){ .dtype = wide ? MRT_f32 : t->dtype,
                          .rank = wide ? 3 : 4,
                          .dims = { 1, rows[i],
                                    wide      ? QUERIES
                                    : of_keys ? 1
                                              : HEADS,
                                    wide ? 0 : t->width } };
    mrt_type_strides(&x->type, x->strides);
    size_t bytes = mrt_dtypes[x->type.dtype].bytes;
    for (int d = 0; d < x->type.rank; d++) bytes *= (size_t)x->type.dims[d];
    t->at[i + 1] = t->at[i] + (bytes + 255) / 256 * 256;
  }
}

static float value_at(const trial *t, int i, int64_t k) {
  const char *data = t->here + t->at[i];
  if (t->of[i].type.dtype == MRT_f32) return ((const float *)data)[k];
  return mrt_narrow_to_float(t->dtype, ((const uint16_t *)data)[k]);
}

/* A number of few bits, exactly. */
static uint16_t narrow(mrt_dtype dtype, float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  if (dtype == MRT_bf16 || x == 0) return (uint16_t)(bits >> 16);
  return (uint16_t)((bits >> 16 & 0x8000) | ((bits >> 23 & 255) - 112) << 10 |
                    (bits >> 13 & 0x3ff));
}

/* Sixteenths from -1 to 1; results NaN. */
static void fill(trial *t) {
  uint32_t random = 1;
  memset(t->here, 0xff, t->at[OPERANDS]);
  for (int i = 0; i < OPERANDS; i++) {
    if (i == O || i == LSE || i >= DQ) continue;
    size_t bytes = mrt_dtypes[t->of[i].type.dtype].bytes;
    for (size_t k = 0; k < (t->at[i + 1] - t->at[i]) / bytes; k++) {
      random = random * 1664525 + 1013904223; /* Knuth's */
      float x = (float)((int)(random >> 24) % 33 - 16) / 16;
      if (bytes == 2)
        ((uint16_t *)(t->here + t->at[i]))[k] = narrow(t->dtype, x);
      else
        ((float *)(t->here + t->at[i]))[k] = x;
    }
  }
}

/* ---- a run --------------------------------------------------------------- */

/* Everything is copied back behind it.  False: nothing was launched. */
static bool launch(trial *t, bool by_groups, bool is_grad) {
  mrt_run run = { .device = t->c, .queue = t->c->queue };
  for (int i = 0; i < OPERANDS; i++) t->of[i].data = t->there + t->at[i];
  mrt_operand in[] = { t->of[Q], t->of[K],   t->of[V],
                       t->of[O], t->of[LSE], t->of[DO] };
  mrt_call call = { .options = &t->options,
                    .nin = is_grad ? 6 : 3,
                    .nout = is_grad ? 3 : 2,
                    .in = in,
                    .out = &t->of[is_grad ? DQ : O],
                    .run = &run };
  const float *delta = t->of[DELTA].data;
  bool fits = is_grad     ? (by_groups ? mrt_attention_grad_wgmma(&call, delta)
                                       : mrt_attention_grad_mma(&call, delta))
              : by_groups ? mrt_attention_wgmma(&call)
                          : mrt_attention_mma(&call);
  return cudaGetLastError() == cudaSuccess && fits;
}

static cudaError_t copy(trial *t, bool back) {
  return cudaMemcpyAsync(
      back ? t->here : t->there, back ? t->there : t->here, t->at[OPERANDS],
      back ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice, t->c->queue);
}

/* The results of one form; a gradient's are those of attention by the other.  A
 * broken device keeps its failure. */
static bool compute(trial *t, bool by_groups, bool is_grad) {
  fill(t);
  bool launched = copy(t, false) == cudaSuccess &&
                  (!is_grad || launch(t, false, false)) &&
                  launch(t, by_groups, is_grad);
  cudaError_t code = copy(t, true);
  if (!code) code = mrt_cuda_wait(t->c, t->c->queue);
  if (!code || t->c->failed) return launched && !code;
  t->c->failed = code;
  snprintf(t->c->why, sizeof t->c->why,
           "the trial of attention by wgmma: %s; MRT_CUDA_ATTENTION=mma does "
           "without",
           cudaGetErrorString(code));
  return false;
}

/* ---- the comparison ------------------------------------------------------ */

/* By how much of the largest value result i differs; infinity: not a number. */
static double apart(const trial *a, const trial *b, int i) {
  double most = 0, largest = 0;
  int64_t n = 1;
  for (int d = 0; d < a->of[i].type.rank; d++) n *= a->of[i].type.dims[d];
  for (int64_t k = 0; k < n; k++) {
    double x = value_at(a, i, k), y = value_at(b, i, k);
    if (!(fabs(x - y) < INFINITY)) return INFINITY;
    most = fmax(most, fabs(x - y)), largest = fmax(largest, fabs(x));
  }
  return most / largest;
}

/* The same for all results, in units of what is allowed: eight roundings to the
 * dtype, since weights may be rounded to another neighbour.  What reads or writes
 * a wrong place is further off. */
static double worst_of(const trial *a, const trial *b, bool is_grad) {
  double limit = a->dtype == MRT_bf16 ? 0x1p-5 : 0x1p-8, worst = 0;
  for (int i = is_grad ? DQ : O; i <= (is_grad ? DV : LSE); i++) {
    double off = apart(a, b, i) / (i == LSE ? 1e-4 : limit);
    worst = fmax(worst, off);
  }
  return worst;
}

static bool say_no(mrt_cuda *c, mrt_dtype dtype, int64_t width, bool is_grad,
                   const char *why) {
  if (!c->groups_refused)
    fprintf(stderr,
            "mrt: cuda:%d: %s of %s, %d wide, by mma.sync instead of wgmma: "
            "%s\n",
            c->index, is_grad ? "attention's gradient" : "attention",
            mrt_dtypes[dtype].name, (int)width, why);
  c->groups_refused = true;
  return false;
}

static bool is_right(mrt_cuda *c, mrt_dtype dtype, int64_t width,
                     bool is_grad) {
  trial a = { .c = c,
              .dtype = dtype,
              .width = width,
              .options = { .causal = true,
                           .scale = 0.25,
                           .left = -1,
                           .right = -1,
                           .offset = MRT_ATTENTION_AT_END } };
  lay_out(&a);
  size_t bytes = a.at[OPERANDS];
  a.there = mrt_cuda_from_pool(c, bytes, c->queue);
  a.here = malloc(2 * bytes);
  trial b = a;
  if (a.here) b.here = a.here + bytes;
  bool memory = a.there && a.here;
  bool computed =
      memory && compute(&a, false, is_grad) && compute(&b, true, is_grad);
  bool nothing = computed && isnan(value_at(&b, is_grad ? DK : O, 0));
  double off = computed ? worst_of(&a, &b, is_grad) : 0;
  if (a.there) cudaFreeAsync(a.there, c->queue);
  free(a.here);
  if (c->failed) return false;
  if (!memory) return say_no(c, dtype, width, is_grad, "no memory to try it");
  if (!computed) return say_no(c, dtype, width, is_grad, "it is not launched");
  if (nothing)
    return say_no(c, dtype, width, is_grad,
                  "it computes nothing, as where sm_90a is not compiled for");
  if (!(off <= 1))
    return say_no(c, dtype, width, is_grad, "results are not the same");
  return true;
}

/* ---- what is known ------------------------------------------------------- */

/* The bit of what kernels by warpgroups are for; 0: of nothing. */
static unsigned bit_of(const mrt_call *c, bool is_grad) {
  const mrt_type *q = &c->in[0].type, *v = &c->in[2].type;
  bool wide = q->dims[3] > NARROW || v->dims[3] > NARROW;
  if (q->dtype != MRT_bf16 && q->dtype != MRT_f16) return 0;
  return 1u << (is_grad * 4 + wide * 2 + (q->dtype == MRT_f16));
}

void mrt_cuda_attention_try(const mrt_call *call, bool is_grad) {
  mrt_cuda *c = call->run->device;
  unsigned bit = bit_of(call, is_grad);
  if (c->arch != 90 || c->plain_attention || c->no_groups) return;
  if (c->failed || cudaPeekAtLastError() != cudaSuccess) return;
  if (!bit || c->groups_tried & bit || call->in[0].type.dims[3] > WIDEST ||
      call->in[2].type.dims[3] > WIDEST)
    return;
  c->groups_tried |= bit;
  bool wide = bit & 0xcc;
  if (is_right(c, call->in[0].type.dtype, wide ? WIDEST : NARROW, is_grad))
    c->groups_right |= bit;
}

bool mrt_cuda_attention_by_groups(const mrt_call *call, bool is_grad) {
  const mrt_cuda *c = call->run->device;
  return (c->groups_right & bit_of(call, is_grad)) != 0;
}
