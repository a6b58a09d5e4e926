/* update.h -- options of the operators that write variables
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_UPDATE_H
#define MRT_OP_UPDATE_H

#include "op/op.h"

/* How what is stored in bf16 is rounded; the draw is that of op/random.h.  First
 * of the options of adamw, sgd, rmsprop and lion, and of those in 8 bits.
 *
 * Updates with one `draw` are parts of one: an element's random bits depend on
 * its place among all their elements, so they are the same however these are
 * cut, at multiples of MRT_BLOCK8. */
typedef struct mrt_rounding {
  uint64_t key, seed; /* option `draw`; 0: one of its own */
  int64_t place;      /* of the first element */
  bool stochastic;    /* p too, not what is averaged alone */
} mrt_rounding;

#define MRT_ROUNDING_OPTION(type, field, word, what)                           \
  { .name = word, .offset = offsetof(type, rounding.field), .kind = what }
#define MRT_ROUNDING_OPTIONS(type)                                             \
  MRT_ROUNDING_OPTION(type, key, "draw", MRT_OPT_INT),                         \
      MRT_ROUNDING_OPTION(type, seed, "seed", MRT_OPT_HIDDEN),                 \
      MRT_ROUNDING_OPTION(type, place, "place", MRT_OPT_INT),                  \
      MRT_ROUNDING_OPTION(type, stochastic, "stochastic", MRT_OPT_BOOL)

typedef struct mrt_adamw_options {
  mrt_rounding rounding;
  double beta1, beta2, eps, weight_decay;
  bool coupled; /* decay enters the gradient (Adam), not the weight (AdamW) */
} mrt_adamw_options;

#define MRT_ADAMW_OPTIONS                                                      \
  MRT_ROUNDING_OPTIONS(mrt_adamw_options),                                     \
      MRT_OPTION(mrt_adamw_options, beta1, MRT_OPT_NUM, .preset = 0.9),        \
      MRT_OPTION(mrt_adamw_options, beta2, MRT_OPT_NUM, .preset = 0.999),      \
      MRT_OPTION(mrt_adamw_options, eps, MRT_OPT_NUM, .preset = 1e-8),         \
      MRT_OPTION(mrt_adamw_options, weight_decay, MRT_OPT_NUM),                \
      MRT_OPTION(mrt_adamw_options, coupled, MRT_OPT_BOOL)

typedef struct mrt_sgd_options {
  mrt_rounding rounding;
  double momentum, dampening, weight_decay;
  bool nesterov;
} mrt_sgd_options;

#define MRT_SGD_OPTIONS                                                        \
  MRT_ROUNDING_OPTIONS(mrt_sgd_options),                                       \
      MRT_OPTION(mrt_sgd_options, momentum, MRT_OPT_NUM),                      \
      MRT_OPTION(mrt_sgd_options, dampening, MRT_OPT_NUM),                     \
      MRT_OPTION(mrt_sgd_options, weight_decay, MRT_OPT_NUM),                  \
      MRT_OPTION(mrt_sgd_options, nesterov, MRT_OPT_BOOL)

typedef struct mrt_rmsprop_options {
  mrt_rounding rounding;
  double keep, add, eps, weight_decay;
} mrt_rmsprop_options;

typedef struct mrt_lion_options {
  mrt_rounding rounding;
  double beta1, beta2, weight_decay;
} mrt_lion_options;

#define MRT_LION_OPTIONS                                                       \
  MRT_ROUNDING_OPTIONS(mrt_lion_options),                                      \
      MRT_OPTION(mrt_lion_options, beta1, MRT_OPT_NUM, .preset = 0.9),         \
      MRT_OPTION(mrt_lion_options, beta2, MRT_OPT_NUM, .preset = 0.99),        \
      MRT_OPTION(mrt_lion_options, weight_decay, MRT_OPT_NUM)

enum { MRT_BLOCK8 = 256 }; /* elements in 8 bits that share a scale */

typedef struct mrt_accumulate_options {
  double scale;
  bool largest; /* the larger of both, NaN if any is, instead of the sum */
} mrt_accumulate_options;

/* ---- checks that rows share (update.c) ----------------------------------- */

/* p may be stored in bf16, what is averaged in f16 or bf16. */
mrt_status mrt_want_weight(mrt_infer *c);
/* The gradient: of p's shape, in any float dtype, f64 where p is. */
mrt_status mrt_want_gradient(mrt_infer *c, int i);
/* Inputs from i on: the step count; the learning rate, perhaps the gradient's
 * scale and when to update, of what rounds. */
mrt_status mrt_want_count(mrt_infer *c, int i);
mrt_status mrt_want_rate(mrt_infer *c, int i);

#endif
