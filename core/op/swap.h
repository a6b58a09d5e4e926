/* swap.h -- options of the copies between tiers
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_SWAP_H
#define MRT_OP_SWAP_H

#include "device/tier.h"

typedef struct mrt_swap_options {
  int transfer; /* its number in the plan: the same where it starts and ends */
  mrt_tier_lane lane;
} mrt_swap_options;

#endif
