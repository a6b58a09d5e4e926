/* softmax.h -- options of the softmax family, shared by rows and kernels
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_SOFTMAX_H
#define MRT_OP_SOFTMAX_H

#include <stdint.h>

typedef struct mrt_softmax_options {
  int64_t dim;
} mrt_softmax_options;

#endif
