/* nvrtc.c -- generated sources compiled by NVRTC, launched by the runtime
 *
 * NVRTC is opened when it is first needed.  Libraries of code belong to no
 * context, so a function serves every device of its architecture.
 *
 * SPDX-License-Identifier: MIT */
#include "jit/compile.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The part of nvrtc.h that is used; its handles are pointers. */
typedef void *program;
static struct {
  bool tried;
  void *library;
  const char *(*error)(int);
  int (*version)(int *, int *);
  int (*create)(program *, const char *, const char *, int, const char *const *,
                const char *const *);
  int (*destroy)(program *);
  int (*compile)(program, int, const char *const *);
  int (*log_size)(program, size_t *);
  int (*log)(program, char *);
  int (*code_size)(program, size_t *);
  int (*code)(program, char *);
} nvrtc;

static bool find(void *slot, const char *name) {
  void *symbol = dlsym(nvrtc.library, name);
  memcpy(slot, &symbol, sizeof symbol);
  return symbol != NULL;
}

/* Called under the lock of jit/jit.c, as all below but the launch. */
static bool open_nvrtc(char *why) {
  const char *names[] = { "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so" };
  bool first = !nvrtc.tried;
  nvrtc.tried = true;
  for (size_t i = 0; first && !nvrtc.library && i < 3; i++)
    nvrtc.library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
  bool good = nvrtc.library && find(&nvrtc.error, "nvrtcGetErrorString") &&
              find(&nvrtc.version, "nvrtcVersion") &&
              find(&nvrtc.create, "nvrtcCreateProgram") &&
              find(&nvrtc.destroy, "nvrtcDestroyProgram") &&
              find(&nvrtc.compile, "nvrtcCompileProgram") &&
              find(&nvrtc.log_size, "nvrtcGetProgramLogSize") &&
              find(&nvrtc.log, "nvrtcGetProgramLog") &&
              find(&nvrtc.code_size, "nvrtcGetCUBINSize") &&
              find(&nvrtc.code, "nvrtcGetCUBIN");
  if (!good)
    snprintf(why, MRT_JIT_WHY,
             "libnvrtc.so.13 cannot be opened; it compiles the "
             "kernels of pointwise operators");
  return good;
}

bool mrt_jit_target(char target[MRT_JIT_TARGET], char *why) {
  int device = 0, major = 0, minor = 0, a = 0, b = 0;
  if (!open_nvrtc(why)) return false;
  cudaError_t e = cudaGetDevice(&device);
  if (e == cudaSuccess)
    e = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor,
                               device);
  if (e == cudaSuccess)
    e = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor,
                               device);
  if (e != cudaSuccess) {
    snprintf(why, MRT_JIT_WHY, "no device to compile for: %s",
             cudaGetErrorString(e));
    return false;
  }
  nvrtc.version(&a, &b);
  snprintf(target, MRT_JIT_TARGET, "sm_%d%d nvrtc %d.%d", major, minor, a, b);
  return true;
}

/* The first lines of the compiler's log. */
static void tell(program p, int error, char *why) {
  size_t size = 0;
  char *log = NULL;
  if (nvrtc.log_size(p, &size) == 0 && size > 1 && (log = malloc(size)))
    if (nvrtc.log(p, log) != 0) log[0] = '\0';
  snprintf(why, MRT_JIT_WHY, "NVRTC: %s: %.*s", nvrtc.error(error), 400,
           log ? log : "");
  free(log);
}

static void *build(program p, const char *architecture, size_t *size,
                   char *why) {
  const char *options[] = { architecture, "--fmad=false", "-default-device",
                            "--std=c++17" };
  void *code = NULL;
  int error = nvrtc.compile(p, 4, options);
  if (error == 0) error = nvrtc.code_size(p, size);
  if (error == 0 && (code = malloc(*size))) error = nvrtc.code(p, code);
  if (error == 0 && code) return code;
  if (error == 0)
    snprintf(why, MRT_JIT_WHY, "not enough memory for a generated kernel");
  else
    tell(p, error, why);
  free(code);
  return NULL;
}

void *mrt_jit_compile(const char *text, const char *target, size_t *size,
                      char *why) {
  char architecture[MRT_JIT_TARGET + 32];
  size_t n = strlen(mrt_pointwise_text), m = strlen(text) + 1;
  program p = NULL;
  void *code = NULL;
  if (!open_nvrtc(why)) return NULL;
  char *all = malloc(n + m);
  snprintf(architecture, sizeof architecture, "--gpu-architecture=%.*s",
           (int)strcspn(target, " "), target);
  if (all) {
    memcpy(all, mrt_pointwise_text, n);
    memcpy(all + n, text, m);
    int error = nvrtc.create(&p, all, "chain.cu", 0, NULL, NULL);
    if (error == 0)
      code = build(p, architecture, size, why);
    else
      snprintf(why, MRT_JIT_WHY, "NVRTC: %s", nvrtc.error(error));
  } else {
    snprintf(why, MRT_JIT_WHY, "not enough memory for a generated kernel");
  }
  if (p) nvrtc.destroy(&p);
  free(all);
  return code;
}

/* Asking for its attributes loads it: not at its first launch, which may be
 * recorded. */
void *mrt_jit_load(const void *code, size_t size, const char *path, char *why) {
  cudaLibrary_t library;
  cudaKernel_t kernel;
  struct cudaFuncAttributes facts;
  cudaError_t e =
      cudaLibraryLoadData(&library, code, NULL, NULL, 0, NULL, NULL, 0);
  if (e == cudaSuccess) {
    e = cudaLibraryGetKernel(&kernel, library, MRT_JIT_NAME);
    if (e == cudaSuccess) e = cudaFuncGetAttributes(&facts, kernel);
    if (e != cudaSuccess) cudaLibraryUnload(library);
  }
  if (e == cudaSuccess) return (void *)kernel;
  snprintf(why, MRT_JIT_WHY, "a generated kernel cannot be loaded: %s",
           cudaGetErrorString(e));
  return NULL;
}

bool mrt_jit_launch(void *function, int64_t blocks, const int64_t *args,
                    int count, void *queue, char *why) {
  dim3 grid = { (unsigned)blocks, 1, 1 }, block = { MRT_JIT_THREADS, 1, 1 };
  void *parameters[] = { (void *)args };
  cudaError_t e = cudaLaunchKernel(function, grid, block, parameters, 0,
                                   (cudaStream_t)queue);
  if (e == cudaSuccess) return true;
  snprintf(why, MRT_JIT_WHY, "a pointwise kernel cannot be launched: %s",
           cudaGetErrorString(e));
  return false;
}

/* Eight blocks of 256 threads are all that fit on a multiprocessor. */
int64_t mrt_jit_blocks(void) {
  int device = 0, count = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device) !=
          cudaSuccess)
    count = 64;
  return 8 * (int64_t)(count > 0 ? count : 64);
}
