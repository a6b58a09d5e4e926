/* activation.h -- options of gelu and gelu_grad
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_ACTIVATION_H
#define MRT_OP_ACTIVATION_H

enum { MRT_GELU_NONE, MRT_GELU_TANH }; /* the words of `approximate` */

typedef struct mrt_gelu_options {
  int approximate;
} mrt_gelu_options;

#endif
