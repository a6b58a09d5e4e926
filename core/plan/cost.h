/* cost.h -- how long does a node take?
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_PLAN_COST_H
#define MRT_PLAN_COST_H

#include "graph/graph.h"

/* Seconds that running this node takes. */
double mrt_node_seconds(const mrt_context *ctx, const mrt_node *n);

#endif
