/* views.h -- options of the views
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_VIEWS_H
#define MRT_OP_VIEWS_H

#include "mrt/types.h"
#include "op/op.h"

/* reshape, expand */
typedef struct mrt_shape_options {
  mrt_ints shape;
} mrt_shape_options;

typedef struct mrt_permute_options {
  mrt_ints dims; /* output dimension i is input dimension dims.at[i] */
} mrt_permute_options;

typedef struct mrt_transpose_options {
  int64_t dim0, dim1;
} mrt_transpose_options;

/* Every step-th of the positions first to last of `dim`, both included; none
 * when first is one past last. */
typedef struct mrt_slice_options {
  int64_t dim, first, last, step;
} mrt_slice_options;

/* Elements with one position in two dimensions, moved by offset. */
typedef struct mrt_diagonal_options {
  int64_t offset, dim1, dim2;
} mrt_diagonal_options;

/* Runs of `size` positions of dim, a step apart. */
typedef struct mrt_windows_options {
  int64_t dim, size, step;
} mrt_windows_options;

typedef struct mrt_split_options {
  int64_t size, dim;
} mrt_split_options;

/* One of `size` pieces of each of `outer` runs. */
typedef struct mrt_piece_options {
  int64_t outer, rank, size;
  int64_t comm; /* the group whose pieces they are; below 0: no group's */
} mrt_piece_options;

typedef struct mrt_custom_options {
  mrt_backward backward;
  void (*release)(void *user);
  void *user;
} mrt_custom_options;

/* Does the operator, with these options, only move whole rows: a transpose or
 * reshape that leaves the last dimension alone? */
bool mrt_moves_rows(const mrt_op *op, const void *options, const mrt_type *in,
                    const mrt_type *out);

/* Elements of x, [outer, count, inner] in all, at the positions first, first +
 * step ... of `total` along the middle of [outer, total, inner]; zeros between
 * them. */
mrt_tensor *mrt_spread(struct mrt_build *b, mrt_tensor *x, int64_t outer,
                       int64_t inner, int64_t first, int64_t step,
                       int64_t total);

#endif
