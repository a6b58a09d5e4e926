/* jit.h -- pointwise operators, alone or fused, as generated kernels
 *
 *     mrt_jit *c = mrt_jit_prepare(call, MRT_OP_add);   with the plan
 *     mrt_jit_run(c, call);                               queues, each run
 *     mrt_jit_release(c);
 *
 * A kernel's text is compiled once in a process, and its code kept on disk.
 * What has been compiled stays until the process ends: there are as many
 * kernels as different chains, however many plans use them.
 *
 * What fails (no compiler, no memory, a launch) is remembered for the device's
 * check, which asks mrt_jit_failed.  Safe from any thread.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CUDA_JIT_H
#define MRT_CUDA_JIT_H

#include "device/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mrt_jit mrt_jit;

/* Is operator number `op` pointwise, or `fused`? */
bool mrt_jit_has(int op);

/* Make or find the kernel for the call's operator, types, strides and options;
 * its data pointers are not looked at.  May take a second.  NULL: failed. */
mrt_jit *mrt_jit_prepare(const mrt_call *call, int op);

/* Queue it on call->run->queue, for the data pointers of this call; all else
 * is as it was prepared.  `chain` may be NULL: nothing is done. */
void mrt_jit_run(const mrt_jit *chain, const mrt_call *call);

void mrt_jit_release(mrt_jit *chain); /* may be NULL */

/* Has something failed since the last call?  Then the first message is in
 * `why`, and forgotten. */
enum { MRT_JIT_WHY = 480 };
bool mrt_jit_failed(char why[MRT_JIT_WHY]);

#ifdef __cplusplus
}
#endif

#endif
