/* sums.h -- what the sums of a product are rounded to after each term
 *
 * For rows, passes and kernels of devices alike.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_SUMS_H
#define MRT_OP_SUMS_H

#include "op/op.h"

#include <string.h>

/* Where the options of an operator say it; NULL: they do not, and sums are f32
 * (f64).  MRT_DTYPE_COUNT says so too. */
static inline mrt_dtype *mrt_sums_of(const mrt_op *op, const void *options) {
  for (int i = 0; i < op->option_count; i++) {
    const mrt_option *o = &op->options[i];
    if (o->kind == MRT_OPT_DTYPE && strcmp(o->name, "accumulate") == 0)
      return (mrt_dtype *)((char *)options + o->offset);
  }
  return NULL;
}

static inline bool mrt_sums_narrow(const mrt_op *op, const void *options) {
  const mrt_dtype *sums = mrt_sums_of(op, options);
  return sums && *sums != MRT_DTYPE_COUNT && mrt_is_narrow(*sums);
}

#endif
