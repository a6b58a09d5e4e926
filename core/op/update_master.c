/* update_master.c -- adamw_master: AdamW of a weight in bf16 that is the upper half
 * of one in f32
 *
 *   adamw_master  w = one step of adamw (update.c) for w, m, v, g, t, lr[, scale[,
 *                 when]]; p = w rounded to bf16, the rest in high and low
 *
 *   p         any shape, bf16, overwritten as are m, v, high and low
 *   m v       as of adamw
 *   high low  u8, p's shape: the rest, signed, in 16 bits.  As an integer the bits
 *             of w are those of p, shifted by 16, and the rest; so a rest of 0
 *             means w = p
 *   rounding  of w to nearest, ties away from zero, which can be taken back; m and v
 *             as adamw has them
 *   written by others, p is what w rounds to, whatever the rest is: w differs by half
 *             a unit of p at most.  A rest that would make of 0, or of an infinity,
 *             something else counts as 0
 *   grad      none
 *   from      the remainders of parameters in NVIDIA's distributed fused Adam
 *             (github.com/NVIDIA/apex, apex/contrib/optimizers)
 *
 * SPDX-License-Identifier: MIT */
#include "op/update.h"

static mrt_status want_byte(mrt_infer *c, int i) {
  MRT_TRY(mrt_want_dtype(c, i, MRT_u8));
  return mrt_want_shape(c, i, c->in[0]->rank, c->in[0]->dims,
                        "a byte for each element");
}

static mrt_status infer(mrt_infer *c) {
  MRT_TRY(mrt_want_dtype(c, 0, MRT_bf16));
  MRT_TRY(mrt_want_state(c, 3));
  MRT_TRY(want_byte(c, 3));
  MRT_TRY(want_byte(c, 4));
  c->nout = 5, c->out[3] = *c->in[3], c->out[4] = *c->in[4];
  MRT_TRY(mrt_want_gradient(c, 5));
  MRT_TRY(mrt_want_count(c, 6));
  return mrt_want_rate(c, 7);
}

static double flops(const mrt_signature *s) {
  return 15.0 * (double)mrt_type_count(s->in[0]);
}

static const mrt_option options[] = { MRT_ADAMW_OPTIONS };

const mrt_op mrt_op_adamw_master = {
  .name = "adamw_master",
  .number = MRT_OP_adamw_master,
  .cost = MRT_COST_update,
  .doc =
      "p, m, v, high, low = one step of AdamW, for p, m, v, high, low, g, t, "
      "lr[, scale[, when]]",
  .min_inputs = 8,
  .max_inputs = 10,
  MRT_OPTIONS(options, mrt_adamw_options),
  .infer = infer,
  .flops = flops,
  .updates = 5,
  .width = MRT_WIDE,
  .narrow_inputs = 32,
  .traits = MRT_UPDATES | MRT_FIXED | MRT_RANDOM,
};
