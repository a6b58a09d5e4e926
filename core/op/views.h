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

/* Positions first to last of `dim`, both included; none when first is one
 * past last. */
typedef struct mrt_slice_options {
  int64_t dim, first, last;
} mrt_slice_options;

typedef struct mrt_split_options {
  int64_t size, dim;
} mrt_split_options;

typedef struct mrt_custom_options {
  mrt_backward backward;
  void (*release)(void *user);
  void *user;
} mrt_custom_options;

/* Does the operator, with these options, only move whole rows: a transpose or
 * reshape that leaves the last dimension alone? */
bool mrt_moves_rows(const mrt_op *op, const void *options, const mrt_type *in,
                    const mrt_type *out);

#endif
