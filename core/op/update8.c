/* update8.c -- adamw8, sgd8, lion8: updates whose moments are stored in 8 bits,
 * block by block
 *
 *   adamw8  m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
 *           p = (p - lr c2 / c1 m / (sqrt(v) + eps c2)) (1 - lr weight_decay)
 *           c1 = 1 - beta1^t;  c2 = sqrt(1 - beta2^t);  g = scale g
 *           (coupled: g = scale g + weight_decay p, and no decay of p)
 *   sgd8, lion8  as sgd and lion (update.c), of which m is the buf or the m
 *
 *   p       any shape, f32 | bf16, overwritten as all up to b
 *   m v     codes, u8, p's shape: a code stands for a number in [-1, 1] (of v: in
 *           [0, 1]), which times the scale of its block is the moment
 *   a b     scales of m's and v's blocks of 256 elements in row-major order, f32
 *           [count / 256 rounded up]: the largest magnitude in each
 *   g t lr scale when  as of adamw, sgd and lion
 *   codes   code 127 + q of m is +q, 127 - q is -q; code q of v is q.  q = 0 is
 *           0, the last of all (255) is 1; between them, for i = 0 to 6, come
 *           the middles of 2^i (of v 2^(i+1)) equal parts of [0.1, 1] times
 *           10^(i-6).  A number takes the code nearest to it, except that what
 *           is below 0 stays below 0
 *   where g is not finite, or a moment would not be, p stays and its moments
 *           become 0
 *   grad    none
 *   from    Dettmers, Lewis, Shleifer & Zettlemoyer, ICLR 2022
 *           (arXiv:2110.02861), as bitsandbytes has it
 *
 * SPDX-License-Identifier: MIT */
#include "op/update.h"

static mrt_status want_codes(mrt_infer *c, int i) {
  MRT_TRY(mrt_want_dtype(c, i, MRT_u8));
  return mrt_want_shape(c, i, c->in[0]->rank, c->in[0]->dims,
                        "a code for each element");
}

static mrt_status want_scales(mrt_infer *c, int i) {
  int64_t count = mrt_type_count(c->in[0]);
  int64_t blocks = (count + MRT_BLOCK8 - 1) / MRT_BLOCK8;
  MRT_TRY(mrt_want_dtype(c, i, MRT_f32));
  return mrt_want_shape(c, i, 1, &blocks, "a scale for each block of 256");
}

/* p, the codes and then the scales of so many moments, and the gradient. */
static mrt_status want_state(mrt_infer *c, int moments) {
  if (c->in[0]->dtype == MRT_f64)
    return mrt_refuse(c, MRT_EDTYPE, "%s, f32 or bf16 wanted",
                      mrt_show(c->in[0]).s);
  MRT_TRY(mrt_want_weight(c));
  for (int i = 1; i <= moments; i++) MRT_TRY(want_codes(c, i));
  for (int i = 1; i <= moments; i++) MRT_TRY(want_scales(c, moments + i));
  c->nout = 1 + 2 * moments;
  for (int i = 0; i < c->nout; i++) c->out[i] = *c->in[i];
  return mrt_want_gradient(c, c->nout);
}

static mrt_status infer_adamw8(mrt_infer *c) {
  MRT_TRY(want_state(c, 2));
  MRT_TRY(mrt_want_count(c, 6));
  return mrt_want_rate(c, 7);
}

static mrt_status infer_momentum(mrt_infer *c) {
  MRT_TRY(want_state(c, 1));
  return mrt_want_rate(c, 4);
}

static double adamw_flops(const mrt_signature *s) {
  return 60.0 * (double)mrt_type_count(s->in[0]);
}
static double momentum_flops(const mrt_signature *s) {
  return 30.0 * (double)mrt_type_count(s->in[0]);
}

static const mrt_option adamw_options[] = { MRT_ADAMW_OPTIONS };
static const mrt_option sgd_options[] = { MRT_SGD_OPTIONS };
static const mrt_option lion_options[] = { MRT_LION_OPTIONS };

const mrt_op mrt_op_adamw8 = {
  .name = "adamw8",
  .number = MRT_OP_adamw8,
  .cost = MRT_COST_update,
  .doc = "p, m, v, a, b = one step of AdamW with moments in 8 bits, "
         "for p, m, v, a, b, g, t, lr[, scale[, when]]",
  .min_inputs = 8,
  .max_inputs = 10,
  MRT_OPTIONS(adamw_options, mrt_adamw_options),
  .infer = infer_adamw8,
  .flops = adamw_flops,
  .updates = 5,
  .width = MRT_WIDE,
  .narrow_inputs = 32,
  .traits = MRT_UPDATES | MRT_FIXED | MRT_RANDOM,
};
const mrt_op mrt_op_sgd8 = {
  .name = "sgd8",
  .number = MRT_OP_sgd8,
  .cost = MRT_COST_update,
  .doc = "p, m, a = one step of SGD with momentum in 8 bits, "
         "for p, m, a, g, lr[, scale[, when]]",
  .min_inputs = 5,
  .max_inputs = 7,
  MRT_OPTIONS(sgd_options, mrt_sgd_options),
  .infer = infer_momentum,
  .flops = momentum_flops,
  .updates = 3,
  .width = MRT_WIDE,
  .narrow_inputs = 8,
  .traits = MRT_UPDATES | MRT_FIXED | MRT_RANDOM,
};
const mrt_op mrt_op_lion8 = {
  .name = "lion8",
  .number = MRT_OP_lion8,
  .cost = MRT_COST_update,
  .doc = "p, m, a = one step of Lion with m in 8 bits, "
         "for p, m, a, g, lr[, scale[, when]]",
  .min_inputs = 5,
  .max_inputs = 7,
  MRT_OPTIONS(lion_options, mrt_lion_options),
  .infer = infer_momentum,
  .flops = momentum_flops,
  .updates = 3,
  .width = MRT_WIDE,
  .narrow_inputs = 8,
  .traits = MRT_UPDATES | MRT_FIXED | MRT_RANDOM,
};
