/* update.h -- options of the operators that write variables
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_UPDATE_H
#define MRT_OP_UPDATE_H

#include "op/op.h"

/* How what is stored in bf16 is rounded; the draw is that of op/random.h.  First
 * of the options of adamw, adamw8, sgd, rmsprop and lion. */
typedef struct mrt_rounding {
  uint64_t key, seed;
  int64_t inner;
  bool stochastic; /* p too, not what is averaged alone */
} mrt_rounding;

#define MRT_ROUNDING_OPTIONS(type)                                             \
  MRT_OPTION(type, rounding.key, MRT_OPT_HIDDEN),                              \
      MRT_OPTION(type, rounding.seed, MRT_OPT_HIDDEN),                         \
      MRT_OPTION(type, rounding.inner, MRT_OPT_HIDDEN), {                      \
    .name = "stochastic", .offset = offsetof(type, rounding.stochastic),       \
    .kind = MRT_OPT_BOOL                                                       \
  }

typedef struct mrt_adamw_options {
  mrt_rounding rounding;
  double beta1, beta2, eps, weight_decay;
  bool coupled; /* decay enters the gradient (Adam), not the weight (AdamW) */
} mrt_adamw_options;

enum { MRT_ADAMW8_BLOCK = 256 }; /* elements that share a scale */

typedef struct mrt_adamw8_options {
  mrt_rounding rounding;
  double beta1, beta2, eps, weight_decay;
} mrt_adamw8_options;

typedef struct mrt_sgd_options {
  mrt_rounding rounding;
  double momentum, dampening, weight_decay;
  bool nesterov;
} mrt_sgd_options;

typedef struct mrt_rmsprop_options {
  mrt_rounding rounding;
  double keep, add, eps, weight_decay;
} mrt_rmsprop_options;

typedef struct mrt_lion_options {
  mrt_rounding rounding;
  double beta1, beta2, weight_decay;
} mrt_lion_options;

typedef struct mrt_accumulate_options {
  double scale;
  bool largest; /* the larger of both, NaN if any is, instead of the sum */
} mrt_accumulate_options;

/* ---- checks that rows share (update.c) ------------------------------------ */

/* p may be stored in bf16, what is averaged in f16 or bf16. */
mrt_status mrt_want_weight(mrt_infer *c);
/* The gradient: of p's shape, in any float dtype, f64 where p is. */
mrt_status mrt_want_gradient(mrt_infer *c, int i);
/* Inputs from i on: the step count; the learning rate, perhaps the gradient's
 * scale and when to update. */
mrt_status mrt_want_count(mrt_infer *c, int i);
mrt_status mrt_want_rate(mrt_infer *c, int i);

#endif
