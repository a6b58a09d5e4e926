/* cross_entropy.h -- options of cross_entropy, shared by rows and kernels
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_CROSS_ENTROPY_H
#define MRT_OP_CROSS_ENTROPY_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mrt_cross_entropy_options {
  int64_t ignore_index;   /* rows with this target count nothing */
  double label_smoothing; /* of the target's weight, shared by all classes */
  bool mean;              /* nll_loss: of the rows that count, else their sum */
} mrt_cross_entropy_options;

#endif
