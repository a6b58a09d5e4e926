/* move.h -- options of operators that move elements, by place or by index
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_MOVE_H
#define MRT_OP_MOVE_H

#include "mrt/types.h"

/* cat, gather, scatter, scatter_add */
typedef struct mrt_dim_options {
  int64_t dim;
} mrt_dim_options;

typedef struct mrt_pad_options {
  int64_t dim, before, after; /* zeros on each side */
} mrt_pad_options;

/* tril, triu */
typedef struct mrt_triangle_options {
  int64_t diagonal; /* above 0: the one above */
} mrt_triangle_options;

typedef struct mrt_flip_options {
  mrt_ints dims;
} mrt_flip_options;

/* Where the elements of a part lie: along each dimension the first, and how far
 * they are apart; both as many as dimensions. */
typedef struct mrt_write_options {
  mrt_ints first, step;
} mrt_write_options;

enum { MRT_SCATTER_PROD, MRT_SCATTER_AMAX, MRT_SCATTER_AMIN };

typedef struct mrt_scatter_reduce_options {
  int64_t dim;
  int reduce;
} mrt_scatter_reduce_options;

typedef struct mrt_flat_index_options {
  mrt_ints dims; /* how many positions each index chooses from */
} mrt_flat_index_options;

typedef struct mrt_cumsum_options {
  int64_t dim;
  bool reverse; /* sums from the end */
} mrt_cumsum_options;

typedef struct mrt_embedding_grad_options {
  int64_t rows; /* of the table */
} mrt_embedding_grad_options;

#endif
