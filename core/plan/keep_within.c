/* keep_within.c -- what to keep for the backward pass within some bytes
 *
 * SPDX-License-Identifier: MIT */
#include "plan/recompute.h"

mrt_status mrt_keep_within(mrt_keeping *k, size_t kept) {
  (void)k, (void)kept;
  return MRT_OK;
}
