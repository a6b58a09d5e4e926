/* move.h -- options of operators that move elements, by place or by index
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_MOVE_H
#define MRT_OP_MOVE_H

#include "mrt/types.h"

/* cat, gather, scatter_add */
typedef struct mrt_dim_options {
  int64_t dim;
} mrt_dim_options;

typedef struct mrt_pad_options {
  int64_t dim, before, after; /* zeros on each side */
} mrt_pad_options;

typedef struct mrt_cumsum_options {
  int64_t dim;
  bool reverse; /* sums from the end */
} mrt_cumsum_options;

typedef struct mrt_embedding_grad_options {
  int64_t rows; /* of the table */
} mrt_embedding_grad_options;

#endif
