/* cublaslt_cache.c -- which algorithm was fastest, on disk
 *
 * Two processes that time for themselves may choose differently, and an
 * algorithm has bits of its own.  So the first one's choice is kept for all, by
 * everything that it hangs on: the device, its driver and libraries, what the
 * library may take, the shape.
 *
 * SPDX-License-Identifier: MIT */
#include "gemm/cublaslt_inside.h"
#include "runtime/cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Compared as bytes; the file holds it, and the algorithm after it. */
typedef struct key {
  char isa[sizeof((mrt_cuda *)0)->isa];
  char libraries[sizeof((mrt_cuda *)0)->libraries];
  uint64_t capacity, sms, workspace;
  mrt_lt_shape shape;
} key;

static bool find(const mrt_cuda *c, const mrt_lt_shape *shape, size_t workspace,
                 key *k, char path[MRT_CUDA_CACHE_PATH]) {
  memset(k, 0, sizeof *k);
  snprintf(k->isa, sizeof k->isa, "%s", c->isa);
  snprintf(k->libraries, sizeof k->libraries, "%s", c->libraries);
  k->capacity = c->capacity, k->sms = (uint64_t)c->sms;
  k->workspace = workspace, k->shape = *shape;
  mrt_cuda_cache_key name = mrt_cuda_cache_begin();
  mrt_cuda_cache_add(&name, k, sizeof *k);
  return mrt_cuda_cache_path(&name, "product", path);
}

bool mrt_lt_recall(const mrt_cuda *c, const mrt_lt_shape *shape,
                   size_t workspace, void *algorithm, size_t size) {
  char path[MRT_CUDA_CACHE_PATH];
  size_t found;
  key k;
  if (!find(c, shape, workspace, &k, path)) return false;
  char *data = mrt_cuda_cache_read(path, &found);
  bool good = data && found == sizeof k + size && !memcmp(data, &k, sizeof k);
  if (good) memcpy(algorithm, data + sizeof k, size);
  free(data);
  return good;
}

void mrt_lt_remember(const mrt_cuda *c, const mrt_lt_shape *shape,
                     size_t workspace, const void *algorithm, size_t size) {
  char path[MRT_CUDA_CACHE_PATH];
  key k;
  if (!find(c, shape, workspace, &k, path)) return;
  char *data = malloc(sizeof k + size);
  if (!data) return;
  memcpy(data, &k, sizeof k);
  memcpy(data + sizeof k, algorithm, size);
  mrt_cuda_cache_write(path, data, sizeof k + size);
  free(data);
}

void mrt_lt_forget(const mrt_cuda *c, const mrt_lt_shape *shape,
                   size_t workspace) {
  char path[MRT_CUDA_CACHE_PATH];
  key k;
  if (find(c, shape, workspace, &k, path)) remove(path);
}
