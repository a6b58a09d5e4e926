/* attention.h -- options of the attention family, shared by rows and kernels
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_ATTENTION_H
#define MRT_OP_ATTENTION_H

#include <stdbool.h>

typedef struct mrt_attention_options {
  bool causal;  /* query t sees keys s <= t + S - T only */
  double scale; /* of the scores; 0 becomes 1 / sqrt(D) */
} mrt_attention_options;

#endif
