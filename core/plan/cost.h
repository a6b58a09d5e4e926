/* cost.h -- how long does a node take?
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_PLAN_COST_H
#define MRT_PLAN_COST_H

#include "plan/planner.h"

/* Seconds of the node: measured ones of its kind among the plan's options, or
 * predicted for the plan's device; 0 for views. */
double mrt_node_seconds(const mrt_plan *plan, const mrt_node *n);
/* Measured seconds of this key; negative: none. */
double mrt_measured_find(const mrt_plan_options *options, uint64_t key);
/* Seconds of a collective over the profile's links, without a launch; negative:
 * it has none that joins so many ranks. */
double mrt_collective_seconds(const mrt_device_profile *d, const mrt_node *n);
/* The same on any device, from its figures alone. */
double mrt_device_seconds(const mrt_device_profile *d, const mrt_node *n);
/* What it does, as a number: operator, types, options. */
uint64_t mrt_node_key(const mrt_node *n);
/* Rates of copies: measured ones among the plan's options, or as its device
 * declares them. */
mrt_swap_rates mrt_declared_rates(const mrt_plan *plan);
/* Of its i-th tier; of the first as above. */
mrt_swap_rates mrt_tier_rates(const mrt_plan *plan, int i);
/* Seconds of a copy alone. */
double mrt_copy_seconds(const mrt_swap_rates *r, bool out, size_t bytes);
/* Its kind of work; of a fused chain, that of most work beyond plain
 * pointwise. */
mrt_cost mrt_node_cost(const mrt_node *n);
/* How much faster than plain products in f32 its flop are done at best: by the
 * profile's rates of large products, and where multiplications are saved; 0:
 * views, and copies beside the steps. */
double mrt_node_speed(const mrt_device_profile *d, const mrt_node *n);
/* What its sums are rounded to after each term; MRT_DTYPE_COUNT: they are not. */
mrt_dtype mrt_node_sums(const mrt_node *n);

#endif
