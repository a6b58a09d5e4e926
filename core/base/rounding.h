/* rounding.h -- the host's floating-point modes, put aside while mrt computes
 *
 * How a thread rounds, and whether it takes subnormal numbers for zero, changes
 * bits.  Those are a host's to set for its own code; what builds gradients,
 * plans and runs works in the default modes, begins and ends with these two, and
 * leaves no flag of an exception behind.
 *
 * fegetenv and fesetenv take a tenth of the time of a small operator.  Mostly
 * the modes are the default ones already: on x86-64 we look at the registers.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_BASE_ROUNDING_H
#define MRT_BASE_ROUNDING_H

#include <fenv.h>
#include <stdbool.h>
#ifdef __x86_64__
#include <xmmintrin.h>
#endif

typedef struct mrt_host_modes {
  fenv_t env;
#ifdef __x86_64__
  bool kept;          /* they are the default ones, and `env` is not filled */
  unsigned sse;       /* MXCSR, */
  unsigned short x87; /* and the status of the older unit: flags */
#endif
} mrt_host_modes;

#ifdef __x86_64__
static inline unsigned short mrt_x87_status(void) {
  unsigned short status;
  __asm__ volatile("fnstsw %0" : "=m"(status));
  return status;
}

/* Fills `host` with the modes of this thread; sets the default ones. */
static inline void mrt_rounding_begin(mrt_host_modes *host) {
  enum { FLAGS = 0x3f, SSE_DEFAULT = 0x1f80, X87_DEFAULT = 0x37f };
  unsigned short control;
  __asm__ volatile("fnstcw %0" : "=m"(control));
  host->sse = _mm_getcsr(), host->x87 = mrt_x87_status();
  host->kept =
      (host->sse & ~(unsigned)FLAGS) == SSE_DEFAULT && control == X87_DEFAULT;
  if (host->kept) return;
  fegetenv(&host->env);
  fesetenv(FE_DFL_ENV);
}

static inline void mrt_rounding_end(const mrt_host_modes *host) {
  if (!host->kept) {
    fesetenv(&host->env);
    return;
  }
  _mm_setcsr(host->sse);
  if (mrt_x87_status() == host->x87) return;
  struct {
    unsigned short control, unused, status, others[11];
  } x87;
  __asm__ volatile("fnstenv %0" : "=m"(x87));
  x87.status = host->x87;
  __asm__ volatile("fldenv %0" : : "m"(x87));
}
#else
static inline void mrt_rounding_begin(mrt_host_modes *host) {
  fegetenv(&host->env);
  fesetenv(FE_DFL_ENV);
}

static inline void mrt_rounding_end(const mrt_host_modes *host) {
  fesetenv(&host->env);
}
#endif

/* For a thread of ours: it begins with the modes of the one that makes it. */
static inline void mrt_rounding_default(void) { fesetenv(FE_DFL_ENV); }

#endif
