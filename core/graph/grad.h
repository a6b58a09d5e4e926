/* grad.h -- the reverse sweep
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_GRAPH_GRAD_H
#define MRT_GRAPH_GRAD_H

#include "mrt/frontend.h"
#include "op/build.h"

/* The gradients of ys, each times dys (NULL: of that one, none), with respect to
 * xs: dx[i], or NULL where nothing leads there; all are the build's.
 * `stop_at_xs`: no further down.  `watch`: who looks on, or NULL; not at the sweeps
 * that rules make within it. */
mrt_status mrt_grad_build(mrt_build *b, mrt_tensor *const *ys,
                          mrt_tensor *const *dys, int ny, mrt_tensor *const *xs,
                          int nx, bool stop_at_xs, const mrt_grad_watch *watch,
                          mrt_tensor **dx);

#endif
