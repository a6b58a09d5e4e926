/* update.c -- assign, descend, adamw, sgd, rmsprop, lion, average, accumulate:
 * what writes variables
 *
 *   assign  var = value
 *   descend p = p - lr (scale g + weight_decay p)
 *   adamw   g = scale g
 *           m = beta1 m + (1 - beta1) g
 *           v = beta2 v + (1 - beta2) g^2
 *           p = p - lr weight_decay p - lr mhat / (sqrt(vhat) + eps)
 *           mhat = m / (1 - beta1^t);  vhat = v / (1 - beta2^t)
 *           (coupled: g = scale g + weight_decay p, and no decay of p)
 *   sgd     g = scale g + weight_decay p
 *           buf = momentum buf + (1 - dampening) g
 *           p = p - lr (nesterov: g + momentum buf; else buf)
 *   rmsprop g = scale g + weight_decay p
 *           v = keep v + add g^2   (Adagrad: keep = add = 1)
 *           p = p - lr g / (sqrt(v) + eps)
 *   lion    g = scale g
 *           p = p - lr (sign(beta1 m + (1 - beta1) g) + weight_decay p)
 *           m = beta2 m + (1 - beta2) g
 *   average     var = var + rate (x - var)
 *   accumulate  var = var + scale x, or where `largest` the larger of both; in a
 *           plan over the first part of a batch var = scale x, so that nobody
 *           need set it to zero before
 *
 *   p m v g buf  one shape; p, m, v and buf are overwritten.  All f64; or p f32 |
 *                bf16, the others f32 | bf16 | f16, g any narrow float
 *   t            how many updates there were, this one included; f32 | f64
 *   lr scale rate  scalars, f64 where p is, else f32; scale may be absent
 *   rounding     computed in f32 and rounded once.  What is averaged in bf16 is
 *                rounded up or down at random, with the probability that keeps
 *                its mean: changes below half a unit would else be lost for
 *                good.  p in bf16 too where `stochastic`, else to nearest
 *   draw, place  updates with one draw are parts of one; see op/update.h
 *   when         bool scalar, may be absent; false leaves everything untouched
 *   lazy         where a row of g is 0 everywhere nothing is changed
 *   grad         none
 *   from         Kingma & Ba, arXiv:1412.6980; Loshchilov & Hutter,
 *                arXiv:1711.05101; Sutskever et al., ICML 2013, in the form of
 *                PyTorch's SGD with buf starting at zero; Tieleman & Hinton,
 *                Coursera 2012; Duchi et al., JMLR 12 (2011); Chen et al.,
 *                arXiv:2302.06675, algorithm 2
 *
 * SPDX-License-Identifier: MIT */
#include "op/update.h"

#include <string.h>

static mrt_status want_scalar(mrt_infer *c, int i, const char *what) {
  return mrt_want_shape(c, i, 0, (const int64_t[1]){ 0 }, what);
}

static mrt_status want_when(mrt_infer *c, int i) {
  if (c->nin <= i) return MRT_OK;
  MRT_TRY(mrt_want_dtype(c, i, MRT_bool));
  return want_scalar(c, i, "when to update");
}

/* Scalars are f32, or f64 where p is. */
static mrt_status want_number(mrt_infer *c, int i, const char *what) {
  mrt_dtype real = c->in[0]->dtype == MRT_f64 ? MRT_f64 : MRT_f32;
  MRT_TRY(mrt_want_dtype(c, i, real));
  return want_scalar(c, i, what);
}

mrt_status mrt_want_weight(mrt_infer *c) {
  mrt_dtype d = c->in[0]->dtype;
  if (mrt_is_real(d) || d == MRT_bf16) return MRT_OK;
  return mrt_refuse(c, MRT_EDTYPE, "%s, f32, bf16 or f64 wanted",
                    mrt_show(c->in[0]).s);
}

static mrt_status want_shape_of_weight(mrt_infer *c, int i) {
  if (mrt_type_same_shape(c->in[0], c->in[i])) return MRT_OK;
  return mrt_refuse(c, MRT_ESHAPE, "%s against %s, equal shapes wanted",
                    mrt_show(c->in[0]).s, mrt_show(c->in[i]).s);
}

mrt_status mrt_want_gradient(mrt_infer *c, int i) {
  bool f64 = c->in[0]->dtype == MRT_f64;
  if (f64 || !mrt_is_float(c->in[i]->dtype) || c->in[i]->dtype == MRT_f64)
    MRT_TRY(mrt_want_same_dtype(c, 0, i));
  return want_shape_of_weight(c, i);
}

/* What is averaged beside p. */
static mrt_status want_average(mrt_infer *c, int i) {
  mrt_dtype d = c->in[i]->dtype;
  bool narrow = d == MRT_f32 || d == MRT_bf16 || d == MRT_f16;
  if (c->in[0]->dtype == MRT_f64 ? d != MRT_f64 : !narrow)
    return mrt_refuse(c, MRT_EDTYPE, "%s beside %s, %s wanted",
                      mrt_show(c->in[i]).s, mrt_show(c->in[0]).s,
                      c->in[0]->dtype == MRT_f64 ? "f64" : "f32, bf16 or f16");
  return want_shape_of_weight(c, i);
}

mrt_status mrt_want_state(mrt_infer *c, int written) {
  MRT_TRY(mrt_want_weight(c));
  for (int i = 1; i < written; i++) MRT_TRY(want_average(c, i));
  c->nout = written;
  for (int i = 0; i < written; i++) c->out[i] = *c->in[i];
  return MRT_OK;
}

/* And the gradient after these `written`. */
static mrt_status want_state(mrt_infer *c, int written) {
  MRT_TRY(mrt_want_state(c, written));
  return mrt_want_gradient(c, written);
}

mrt_status mrt_want_count(mrt_infer *c, int i) {
  if (c->in[0]->dtype != MRT_f64) MRT_TRY(mrt_want_dtype(c, i, MRT_f32));
  MRT_TRY(mrt_want_real(c, i));
  return want_scalar(c, i, "the step count");
}

static mrt_status want_place(mrt_infer *c) {
  mrt_rounding r;
  memcpy(&r, c->options, sizeof r);
  if (r.place >= 0 && r.place % MRT_BLOCK8 == 0 &&
      r.place / MRT_BLOCK8 <= UINT32_MAX)
    return MRT_OK;
  return mrt_refuse(c, MRT_EVALUE,
                    "place %lld, a multiple of %d below %lld wanted",
                    (long long)r.place, MRT_BLOCK8,
                    (long long)(UINT32_MAX + INT64_C(1)) * MRT_BLOCK8);
}

mrt_status mrt_want_rate(mrt_infer *c, int i) {
  MRT_TRY(want_place(c));
  MRT_TRY(want_number(c, i, "the learning rate"));
  if (c->nin > i + 1) MRT_TRY(want_number(c, i + 1, "the gradient's scale"));
  return want_when(c, i + 2);
}

static mrt_status infer_assign(mrt_infer *c) {
  MRT_TRY(mrt_want_same(c, 0, 1));
  MRT_TRY(want_when(c, 2));
  c->out[0] = *c->in[0];
  return MRT_OK;
}

static mrt_status infer_accumulate(mrt_infer *c) {
  const mrt_accumulate_options *o = c->options;
  mrt_dtype t = c->in[0]->dtype;
  if (!mrt_is_real(t) && t != MRT_i64)
    return mrt_refuse(c, MRT_EDTYPE, "%s, f32, f64 or i64 wanted",
                      mrt_show(c->in[0]).s);
  if (t == MRT_i64 && o->scale != 1)
    return mrt_refuse(c, MRT_EVALUE, "scale %g for i64, 1 wanted", o->scale);
  if (t == MRT_i64 && o->largest)
    return mrt_refuse(c, MRT_EDTYPE, "the largest of i64, f32 or f64 wanted");
  MRT_TRY(mrt_want_same(c, 0, 1));
  c->out[0] = *c->in[0];
  return MRT_OK;
}

static mrt_status infer_descend(mrt_infer *c) {
  MRT_TRY(want_state(c, 1));
  return mrt_want_rate(c, 2);
}

static mrt_status infer_adamw(mrt_infer *c) {
  MRT_TRY(want_state(c, 3));
  MRT_TRY(mrt_want_count(c, 4));
  return mrt_want_rate(c, 5);
}

static mrt_status infer_sgd(mrt_infer *c) {
  MRT_TRY(want_state(c, 2));
  return mrt_want_rate(c, 3);
}

static mrt_status infer_average(mrt_infer *c) {
  MRT_TRY(mrt_want_real(c, 0));
  MRT_TRY(mrt_want_gradient(c, 1));
  MRT_TRY(want_number(c, 2, "the rate"));
  c->out[0] = *c->in[0];
  return want_when(c, 3);
}

static double adamw_flops(const mrt_signature *s) {
  return 15.0 * (double)mrt_type_count(s->in[0]);
}
static double accumulate_flops(const mrt_signature *s) {
  return 2.0 * (double)mrt_type_count(s->in[0]);
}
static double descend_flops(const mrt_signature *s) {
  return 4.0 * (double)mrt_type_count(s->in[0]);
}
static double sgd_flops(const mrt_signature *s) {
  return 7.0 * (double)mrt_type_count(s->in[0]);
}

static double rmsprop_flops(const mrt_signature *s) {
  return 9.0 * (double)mrt_type_count(s->in[0]);
}
static double lion_flops(const mrt_signature *s) {
  return 11.0 * (double)mrt_type_count(s->in[0]);
}
static double average_flops(const mrt_signature *s) {
  return 3.0 * (double)mrt_type_count(s->in[0]);
}

static const mrt_option descend_options[] = {
  MRT_DESCEND_OPTIONS,
};
static const mrt_option adamw_options[] = {
  MRT_ADAMW_OPTIONS,
};
static const mrt_option sgd_options[] = {
  MRT_SGD_OPTIONS,
};

static const mrt_option rmsprop_options[] = {
  MRT_RMSPROP_OPTIONS,
};

static const mrt_option lion_options[] = {
  MRT_LION_OPTIONS,
};

static const mrt_option accumulate_options[] = {
  MRT_OPTION(mrt_accumulate_options, scale, MRT_OPT_NUM, .preset = 1),
  MRT_OPTION(mrt_accumulate_options, largest, MRT_OPT_BOOL),
};

const mrt_op mrt_op_assign = {
  .name = "assign",
  .number = MRT_OP_assign,
  .cost = MRT_COST_update,
  .doc = "var = value[, when]",
  .min_inputs = 2,
  .max_inputs = 3,
  .infer = infer_assign,
  .updates = 1,
  .width = MRT_FOLLOW,
  .narrow_inputs = 2,
  .traits = MRT_UPDATES | MRT_FIXED,
};
const mrt_op mrt_op_descend = {
  .name = "descend",
  .number = MRT_OP_descend,
  .cost = MRT_COST_update,
  .doc = "p = one step of plain SGD, for p, g, lr[, scale[, when]]",
  .min_inputs = 3,
  .max_inputs = 5,
  MRT_OPTIONS(descend_options, mrt_descend_options),
  .infer = infer_descend,
  .flops = descend_flops,
  .updates = 1,
  .width = MRT_WIDE,
  .narrow_inputs = 2,
  .traits = MRT_UPDATES | MRT_FIXED | MRT_RANDOM,
};
const mrt_op mrt_op_adamw = {
  .name = "adamw",
  .number = MRT_OP_adamw,
  .cost = MRT_COST_update,
  .doc = "p, m, v = one step of AdamW, for p, m, v, g, t, lr[, scale[, when]]",
  .min_inputs = 6,
  .max_inputs = 8,
  MRT_OPTIONS(adamw_options, mrt_adamw_options),
  .infer = infer_adamw,
  .flops = adamw_flops,
  .updates = 3,
  .width = MRT_WIDE,
  .narrow_inputs = 8,
  .traits = MRT_UPDATES | MRT_FIXED | MRT_RANDOM,
};
const mrt_op mrt_op_sgd = {
  .name = "sgd",
  .number = MRT_OP_sgd,
  .cost = MRT_COST_update,
  .doc = "p, buf = one step of SGD with momentum, "
         "for p, buf, g, lr[, scale[, when]]",
  .min_inputs = 4,
  .max_inputs = 6,
  MRT_OPTIONS(sgd_options, mrt_sgd_options),
  .infer = infer_sgd,
  .flops = sgd_flops,
  .updates = 2,
  .width = MRT_WIDE,
  .narrow_inputs = 4,
  .traits = MRT_UPDATES | MRT_FIXED | MRT_RANDOM,
};
const mrt_op mrt_op_rmsprop = {
  .name = "rmsprop",
  .number = MRT_OP_rmsprop,
  .cost = MRT_COST_update,
  .doc =
      "p, v = one step of RMSProp or Adagrad, for p, v, g, lr[, scale[, when]]",
  .min_inputs = 4,
  .max_inputs = 6,
  MRT_OPTIONS(rmsprop_options, mrt_rmsprop_options),
  .infer = infer_sgd,
  .flops = rmsprop_flops,
  .updates = 2,
  .width = MRT_WIDE,
  .narrow_inputs = 4,
  .traits = MRT_UPDATES | MRT_FIXED | MRT_RANDOM,
};
const mrt_op mrt_op_lion = {
  .name = "lion",
  .number = MRT_OP_lion,
  .cost = MRT_COST_update,
  .doc = "p, m = one step of Lion, for p, m, g, lr[, scale[, when]]",
  .min_inputs = 4,
  .max_inputs = 6,
  MRT_OPTIONS(lion_options, mrt_lion_options),
  .infer = infer_sgd,
  .flops = lion_flops,
  .updates = 2,
  .width = MRT_WIDE,
  .narrow_inputs = 4,
  .traits = MRT_UPDATES | MRT_FIXED | MRT_RANDOM,
};
const mrt_op mrt_op_average = {
  .name = "average",
  .number = MRT_OP_average,
  .cost = MRT_COST_update,
  .doc = "var = var + rate (x - var), for var, x, rate[, when]",
  .min_inputs = 3,
  .max_inputs = 4,
  .infer = infer_average,
  .flops = average_flops,
  .updates = 1,
  .width = MRT_WIDE,
  .narrow_inputs = 2,
  .traits = MRT_UPDATES | MRT_FIXED,
};
const mrt_op mrt_op_accumulate = {
  .name = "accumulate",
  .number = MRT_OP_accumulate,
  .doc = "var = var + scale x, or the larger of both",
  .min_inputs = 2,
  .max_inputs = 2,
  MRT_OPTIONS(accumulate_options, mrt_accumulate_options),
  .infer = infer_accumulate,
  .cost = MRT_COST_update,
  .flops = accumulate_flops,
  .updates = 1,
  .width = MRT_WIDE,
  .narrow_inputs = 2,
  .traits = MRT_UPDATES | MRT_FIXED,
};
