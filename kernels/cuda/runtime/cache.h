/* cache.h -- what a CUDA device finds out once, on disk
 *
 * Files under $XDG_CACHE_HOME/mrt or ~/.cache/mrt, each named after the hash of
 * what it is about: code of generated kernels (jit/jit.c), algorithms of
 * products (gemm/cublaslt_cache.c).  One is written whole or not at all, and
 * the first writer's stays; one that is not whole is not there.  Where nothing
 * can be kept, nothing fails.
 *
 *     mrt_cuda_cache_key key = mrt_cuda_cache_begin();
 *     mrt_cuda_cache_add(&key, about, sizeof about);
 *     if (mrt_cuda_cache_path(&key, "code", path))
 *       data = mrt_cuda_cache_read(path, &size);
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CUDA_CACHE_H
#define MRT_CUDA_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a folder holds at most; what was used longest ago goes first. */
enum { MRT_CUDA_CACHE_PATH = 1024, MRT_CUDA_CACHE_FILES = 4096 };
#define MRT_CUDA_CACHE_BYTES (UINT64_C(256) << 20)

typedef struct mrt_cuda_cache_key {
  uint64_t a, b;
} mrt_cuda_cache_key;
mrt_cuda_cache_key mrt_cuda_cache_begin(void);
void mrt_cuda_cache_add(mrt_cuda_cache_key *name, const void *data,
                        size_t size);

/* Makes the folder, too; false: there can be none. */
bool mrt_cuda_cache_path(const mrt_cuda_cache_key *name, const char *kind,
                         char path[MRT_CUDA_CACHE_PATH]);
/* In malloc's memory.  NULL: not there; a damaged file is removed. */
void *mrt_cuda_cache_read(const char *path, size_t *size);
/* True when a file is there in the end, this or another's before; then the
 * folder is trimmed. */
bool mrt_cuda_cache_write(const char *path, const void *data, size_t size);
/* Remove the files of the folder of `path` that are too many. */
void mrt_cuda_cache_trim(const char *path, int files, uint64_t bytes);

/* FNV-1a, 64 bits. */
uint64_t mrt_cuda_cache_hash(uint64_t start, const void *data, size_t size);

#ifdef __cplusplus
}
#endif

#endif
