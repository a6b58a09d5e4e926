/* rounding.h -- the host's floating-point modes, put aside while mrt computes
 *
 * How a thread rounds, and whether it takes subnormal numbers for zero, changes
 * bits.  Those are a host's to set for its own code; what builds gradients,
 * plans and runs works in the default modes, begins and ends with these two, and
 * leaves no flag of an exception behind.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_BASE_ROUNDING_H
#define MRT_BASE_ROUNDING_H

#include <fenv.h>

/* Fills `host` with the modes of this thread; sets the default ones. */
static inline void mrt_rounding_begin(fenv_t *host) {
  fegetenv(host);
  fesetenv(FE_DFL_ENV);
}

/* For a thread of ours: it begins with the modes of the one that makes it. */
static inline void mrt_rounding_default(void) { fesetenv(FE_DFL_ENV); }

static inline void mrt_rounding_end(const fenv_t *host) { fesetenv(host); }

#endif
