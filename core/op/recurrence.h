/* recurrence.h -- options of recurrences along a dimension
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_RECURRENCE_H
#define MRT_OP_RECURRENCE_H

#include "op/build.h"

typedef struct mrt_recurrence_options {
  int64_t dim;
  bool reverse; /* from the end */
} mrt_recurrence_options;

/* linear_recurrence(a, h, initial) as plain as rows have it; initial NULL:
 * zeros. */
mrt_tensor *mrt_recur(mrt_build *b, mrt_tensor *a, mrt_tensor *x, int64_t dim,
                      bool reverse);
/* Its gradients into d[0..2): of a and of x, from h and dh. */
void mrt_recur_grad(mrt_build *b, mrt_tensor *a, mrt_tensor *h, mrt_tensor *dh,
                    int64_t dim, mrt_tensor **d);

#endif
