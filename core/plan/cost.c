/* cost.c -- how long does a node take?
 *
 * SPDX-License-Identifier: MIT */
#include "plan/cost.h"

double mrt_node_seconds(const mrt_context *ctx, const mrt_node *n) {
  (void)ctx;
  return mrt_node_flops(n) / 5e10 + mrt_node_bytes(n) / 1e10 + 1e-6;
}
