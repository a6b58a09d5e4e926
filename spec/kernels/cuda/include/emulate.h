/* emulate.h -- what tests ask of the emulated device beyond CUDA's own calls
 *
 * The environment says the same at the start: MRT_EMULATE_SEED,
 * MRT_EMULATE_MEMORY (bytes of the device), MRT_EMULATE_FAIL.  With
 * MRT_EMULATE_BREAK=softmax:3 the third kernel with this in its name breaks the
 * device when it runs; with MRT_EMULATE_SKIP=softmax all of these do nothing;
 * MRT_EMULATE_COUNT=1 tells at the end how often each ran.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_EMULATE_H
#define MRT_EMULATE_H

#include <stdint.h>

#define MRT_EMULATE_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* The schedule.  0: threads and blocks forward, other streams as late as
 * permitted; 1: backward, other streams as early as permitted; anything else:
 * shuffled by it. */
MRT_EMULATE_API void mrt_emulate_seed(uint64_t seed);
/* The n-th call from now on that gives or awaits work fails, and all that
 * follow it; 0: none does. */
MRT_EMULATE_API void mrt_emulate_fail(long n);
/* What broke the device, "" if nothing did. */
MRT_EMULATE_API const char *mrt_emulate_message(void);
/* MRT_EMULATE_WIDE=1: places are counted in 64 bits, however few they are. */
MRT_EMULATE_API int mrt_emulate_wide(void);
/* Waits for nothing, forgets the failure and the work that was given. */
MRT_EMULATE_API void mrt_emulate_reset(void);

#ifdef __cplusplus
}
#endif
#endif
