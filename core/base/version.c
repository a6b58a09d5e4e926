/* version.c -- which mrt this is
 *
 * Ranks compare it when they meet, so it lies below all that has ranks.
 *
 * SPDX-License-Identifier: MIT */
#include "base/error.h"

MRT_API const char *mrt_version(void) { return MRT_VERSION; }
