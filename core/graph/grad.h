/* grad.h -- the reverse sweep
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_GRAPH_GRAD_H
#define MRT_GRAPH_GRAD_H

#include "mrt/frontend.h"
#include "op/build.h"

/* How a sweep is made. */
typedef struct mrt_grad_how {
  bool stop_at_xs;             /* no further down */
  const mrt_grad_watch *watch; /* who looks on, or NULL; not at the sweeps that
                                  rules make within it */
  const uint64_t *behind; /* NULL, or of each x: 0, or the id of an expression:
                             the gradient as it is when those behind that have
                             had their turn, a view that the others read */
} mrt_grad_how;

/* The gradients of ys, each times dys (NULL: of that one, none), with respect to
 * xs: dx[i], or NULL where nothing leads there; all are the build's. */
mrt_status mrt_grad_build(mrt_build *b, mrt_tensor *const *ys,
                          mrt_tensor *const *dys, int ny, mrt_tensor *const *xs,
                          int nx, const mrt_grad_how *how, mrt_tensor **dx);

#endif
