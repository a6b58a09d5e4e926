/* compile.h -- what turns a generated source into code and launches it
 *
 * jit/nvrtc.c does so on a GPU, spec/kernels/cuda/emulate_nvrtc.cc on the
 * processor. Failing functions write why into `why`, of MRT_JIT_WHY bytes.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CUDA_JIT_COMPILE_H
#define MRT_CUDA_JIT_COMPILE_H

#include "jit/jit.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MRT_JIT_TARGET = 64, MRT_JIT_THREADS = 256 };
#define MRT_JIT_NAME "mrt_jit"

/* jit/pointwise.cuh, jit/special.cuh */
extern const char mrt_pointwise_text[];

/* What code is made for: the current device's architecture, the compiler's
 * version, its options.  Code for one target does for all its devices. */
bool mrt_jit_target(char target[MRT_JIT_TARGET], char *why);

/* `text` after these -> code in malloc's memory, or NULL. */
void *mrt_jit_compile(const char *text, const char *target, size_t *size,
                      char *why);

/* The function mrt_jit of code; `path`: a file that starts with the code, or
 * NULL when it could not be kept. */
void *mrt_jit_load(const void *code, size_t size, const char *path, char *why);

/* Queue a launch of so many blocks; the arguments are copied. */
bool mrt_jit_launch(void *function, int64_t blocks, const int64_t *args,
                    int count, void *queue, char *why);

/* Blocks that fill the current device. */
int64_t mrt_jit_blocks(void);

#ifdef __cplusplus
}
#endif

#endif
