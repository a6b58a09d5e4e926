/* attention_parts.h -- attention from plainer operators
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_ATTENTION_PARTS_H
#define MRT_OP_ATTENTION_PARTS_H

#include "op/build.h"

/* mrt_decompose of attention and of attention_grad. */
void mrt_attention_parts(mrt_build *b, mrt_tensor **value);
void mrt_attention_grad_parts(mrt_build *b, mrt_tensor **value);

#endif
