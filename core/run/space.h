/* space.h -- memory for a plan's transient values
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_RUN_SPACE_H
#define MRT_RUN_SPACE_H

#include "plan/plan.h"

/* One for an evaluation: what is freed beside it is kept as before. */
mrt_status mrt_space_brief(mrt_context *ctx, mrt_space **out);
/* Make the arena at least `bytes` large; its old contents are lost, and its
 * generation changes when it moves. */
mrt_status mrt_space_reserve(mrt_space *s, size_t bytes);
/* The same for its memory of the host. */
mrt_status mrt_space_reserve_host(mrt_space *s, size_t bytes);
/* The same for its part of the swap tier in that slot. */
mrt_status mrt_space_reserve_swap(mrt_space *s, int slot, size_t bytes);

#endif
