/* adamw8.c -- AdamW whose moments are stored in 8 bits, block by block
 *
 *   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;  g = scale g
 *   p = (p - lr c2 / c1 m / (sqrt(v) + eps c2)) (1 - lr weight_decay)
 *   c1 = 1 - beta1^t;  c2 = sqrt(1 - beta2^t)
 *
 *   p       any shape, f32 | bf16, overwritten as all up to b
 *   m v     codes, u8, p's shape: a code stands for a number in [-1, 1] (of v: in
 *           [0, 1]), which times the scale of its block is the moment
 *   a b     scales of m's and v's blocks of 256 elements in row-major order, f32
 *           [count / 256 rounded up]: the largest magnitude in each
 *   g t lr scale when  as of adamw
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
  int64_t blocks = (count + MRT_ADAMW8_BLOCK - 1) / MRT_ADAMW8_BLOCK;
  MRT_TRY(mrt_want_dtype(c, i, MRT_f32));
  return mrt_want_shape(c, i, 1, &blocks, "a scale for each block of 256");
}

static mrt_status infer(mrt_infer *c) {
  if (c->in[0]->dtype == MRT_f64)
    return mrt_refuse(c, MRT_EDTYPE, "%s, f32 or bf16 wanted",
                      mrt_show(c->in[0]).s);
  MRT_TRY(mrt_want_weight(c));
  for (int i = 1; i < 3; i++) MRT_TRY(want_codes(c, i));
  for (int i = 3; i < 5; i++) MRT_TRY(want_scales(c, i));
  MRT_TRY(mrt_want_gradient(c, 5));
  c->nout = 5;
  for (int i = 0; i < 5; i++) c->out[i] = *c->in[i];
  MRT_TRY(mrt_want_count(c, 6));
  return mrt_want_rate(c, 7);
}

static double flops(const mrt_signature *s) {
  return 60.0 * (double)mrt_type_count(s->in[0]);
}

static const mrt_option options[] = {
  MRT_ROUNDING_OPTIONS(mrt_adamw8_options),
  MRT_OPTION(mrt_adamw8_options, beta1, MRT_OPT_NUM, .preset = 0.9),
  MRT_OPTION(mrt_adamw8_options, beta2, MRT_OPT_NUM, .preset = 0.999),
  MRT_OPTION(mrt_adamw8_options, eps, MRT_OPT_NUM, .preset = 1e-8),
  MRT_OPTION(mrt_adamw8_options, weight_decay, MRT_OPT_NUM),
};

const mrt_op mrt_op_adamw8 = {
  .name = "adamw8",
  .number = MRT_OP_adamw8,
  .cost = MRT_COST_update,
  .doc = "p, m, v, a, b = one step of AdamW with moments in 8 bits, "
         "for p, m, v, a, b, g, t, lr[, scale[, when]]",
  .min_inputs = 8,
  .max_inputs = 10,
  MRT_OPTIONS(options, mrt_adamw8_options),
  .infer = infer,
  .flops = flops,
  .updates = 5,
  .width = MRT_WIDE,
  .narrow_inputs = 32,
  .traits = MRT_UPDATES | MRT_FIXED | MRT_RANDOM,
};
