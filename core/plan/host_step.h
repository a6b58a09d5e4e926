/* host_step.h -- a step that the CPU computes for a device without the kernel
 *
 * Its operands are copied to staging memory of the host, the CPU's kernel runs
 * there, and what it wrote is copied back.  An update may also be the CPU's
 * because what it writes lies in the swap tier, in the host's memory: that is
 * written there.  All plans of a space use the same
 * staging memory in turn: one step's is over before the next begins.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_PLAN_HOST_STEP_H
#define MRT_PLAN_HOST_STEP_H

#include "plan/plan.h"

/* The bytes of the device that an operand shows, from its lowest on, and where
 * they are staged. */
typedef struct mrt_span {
  int64_t low; /* bytes from the operand's data to the lowest; 0 or less */
  size_t bytes;
  bool in_tier;  /* it is not staged: the host finds it in the swap tier */
  size_t offset; /* in the staging memory, of the lowest */
  int shared;    /* an input that shows the same bytes: staged there; or -1 */
} mrt_span;

struct mrt_host_step {
  mrt_span *in, *out;
  size_t scratch;             /* offset of what the kernel asked for */
  size_t bytes;               /* of staging memory */
  size_t bytes_in, bytes_out; /* copied to the host, and back */
};

/* Is its input k an updated variable, which the host finds in the tier? */
bool mrt_input_in_tier(const mrt_node *n, int k);
/* The kernel that computes the node: the device's or, *hosted, the CPU's. */
const mrt_kernel *mrt_node_kernel(const mrt_context *ctx, const mrt_node *n,
                                  bool *hosted);
/* Lay out the staging of a step whose kernel is the CPU's; `scratch` is what
 * that asks for. */
mrt_status mrt_host_step_make(mrt_plan *plan, mrt_step *s, size_t scratch);
/* Seconds of the node on the CPU, with the copies; layouts are known. */
double mrt_hosted_seconds(const mrt_plan *plan, const mrt_node *n);

#endif
