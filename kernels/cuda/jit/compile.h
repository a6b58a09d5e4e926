/* compile.h -- what turns a generated source into code and launches it
 *
 * jit/nvrtc.c does so on a GPU, spec/kernels/cuda/emulate_nvrtc.cc on the processor.
 * Failing functions write why into `why`, of MRT_WHY bytes.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CUDA_CHAIN_COMPILE_H
#define MRT_CUDA_CHAIN_COMPILE_H

#include "jit/jit.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MRT_TARGET = 64, MRT_CHAIN_THREADS = 256 };
#define MRT_CHAIN_NAME "mrt_chain"

/* jit/pointwise.cuh */
extern const char mrt_pointwise_text[];

/* What code is made for: the current device's architecture, the compiler's
 * version, its options.  Code for one target does for all its devices. */
bool mrt_compile_target(char target[MRT_TARGET], char *why);

/* `text` after jit/pointwise.cuh -> code in malloc's memory, or NULL. */
void *mrt_compile(const char *text, const char *target, size_t *size,
                  char *why);

/* The function mrt_chain of code; `path`: a file that starts with the code, or
 * NULL when it could not be kept. */
void *mrt_compile_load(const void *code, size_t size, const char *path,
                       char *why);

/* Queue a launch of so many blocks; the arguments are copied. */
bool mrt_compile_launch(void *function, int64_t blocks, const int64_t *args,
                        int count, void *queue, char *why);

/* Blocks that fill the current device. */
int64_t mrt_compile_blocks(void);

#ifdef __cplusplus
}
#endif

#endif
