/* cost.h -- how long does a node take?
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_PLAN_COST_H
#define MRT_PLAN_COST_H

#include "plan/plan.h"

/* Predicted seconds of the node on the plan's device; 0 for views. */
double mrt_node_seconds(const mrt_plan *plan, const mrt_node *n);
/* The same on any device, from its figures alone. */
double mrt_device_seconds(const mrt_device_profile *d, const mrt_node *n);
/* Its kind of work; of a fused chain, that of most work beyond plain
 * pointwise. */
mrt_cost mrt_node_cost(const mrt_node *n);

#endif
