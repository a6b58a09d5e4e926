/* update.h -- options of the operators that write variables
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_UPDATE_H
#define MRT_OP_UPDATE_H

#include <stdbool.h>

typedef struct mrt_adamw_options {
  double beta1, beta2, eps, weight_decay;
  bool coupled; /* decay enters the gradient (Adam), not the weight (AdamW) */
} mrt_adamw_options;

typedef struct mrt_sgd_options {
  double momentum, dampening, weight_decay;
  bool nesterov;
} mrt_sgd_options;

typedef struct mrt_rmsprop_options {
  double keep, add, eps, weight_decay;
} mrt_rmsprop_options;

typedef struct mrt_lion_options {
  double beta1, beta2, weight_decay;
} mrt_lion_options;

typedef struct mrt_accumulate_options {
  double scale;
} mrt_accumulate_options;

#endif
