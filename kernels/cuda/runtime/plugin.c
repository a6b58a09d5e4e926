/* plugin.c -- the one entry of the plug-in: opens a device
 *
 * What the context and the libraries take of the device's memory is measured
 * here, once, and told apart from what plans ask for.
 *
 * SPDX-License-Identifier: MIT */
#include "comm/comm.h"
#include "device/op_names.h"
#include "dnn/dnn.h"
#include "gemm/cublaslt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 256 }; /* bytes: what cudaMalloc gives */

static void close_device(mrt_device *device) {
  mrt_cuda *c = mrt_cuda_of(device);
  if (!c) return;
  if (__atomic_load_n(&c->stuck, __ATOMIC_SEQ_CST)) return; /* as it is */
  cudaSetDevice(c->index);
  if (c->queue) cudaStreamSynchronize(c->queue);
  if (c->beside) cudaStreamSynchronize(c->beside);
  mrt_cuda_comms_close(c);
  if (c->beside) cudaStreamDestroy(c->beside);
  if (c->fork) cudaEventDestroy(c->fork);
  mrt_dnn_close(c); /* its handle has the stream */
  mrt_cuda_close_uploads(c);
  if (c->queue) cudaStreamDestroy(c->queue);
  if (c->reads) cudaStreamDestroy(c->reads);
  for (int i = 0; i < MRT_CUDA_FENCES; i++)
    if (c->fences[i]) cudaEventDestroy(c->fences[i]);
  for (int i = 0; i < MRT_CUDA_STAGES; i++)
    if (c->passed[i]) cudaEventDestroy(c->passed[i]);
  cudaFreeHost(c->staged);
  mrt_lt_close(c);
  cudaFree(c->words);
  cudaFreeHost(c->seen);
  free(c->blocks);
  free(c);
  device->state = NULL;
}

static cudaError_t start_streams(mrt_cuda *c) {
  const unsigned quiet = cudaEventDisableTiming | cudaEventBlockingSync;
  cudaError_t code =
      cudaStreamCreateWithFlags(&c->queue, cudaStreamNonBlocking);
  if (!code) code = cudaStreamCreateWithFlags(&c->reads, cudaStreamNonBlocking);
  for (int i = 0; i < MRT_CUDA_FENCES && !code; i++)
    code = cudaEventCreateWithFlags(&c->fences[i], quiet);
  for (int i = 0; i < MRT_CUDA_STAGES && !code; i++)
    code = cudaEventCreateWithFlags(&c->passed[i], quiet);
  if (!code)
    code = cudaHostAlloc((void **)&c->staged,
                         (size_t)MRT_CUDA_STAGES * MRT_CUDA_STAGED,
                         cudaHostAllocDefault);
  return code;
}

static cudaError_t start(mrt_cuda *c) {
  size_t before = 0, after = 0, total, words = MRT_CUDA_RUNS * sizeof *c->words;
  cudaError_t code = cudaSetDevice(c->index);
  if (!code) code = cudaMemGetInfo(&before, &total);
  if (!code) code = start_streams(c);
  if (!code) code = mrt_cuda_open_pool(c);
  if (!code) code = cudaMalloc((void **)&c->words, words);
  if (!code)
    code = cudaHostAlloc((void **)&c->seen, words, cudaHostAllocMapped);
  if (!code) code = mrt_lt_open(c);
  if (!code) mrt_dnn_open(c);
  if (!code) code = cudaMemGetInfo(&after, &total);
  /* The context came before the first figure, so it is what is not free. */
  c->overhead = total - after;
  return code;
}

static void describe(mrt_device *d, mrt_cuda *c,
                     const struct cudaDeviceProp *p) {
  int runtime = 0, driver = 0;
  cudaRuntimeGetVersion(&runtime);
  cudaDriverGetVersion(&driver);
  c->sms = p->multiProcessorCount;
  snprintf(c->isa, sizeof c->isa, "sm_%d%d", p->major, p->minor);
  int lt = (int)mrt_lt_version();
  snprintf(c->libraries, sizeof c->libraries,
           "%.50s, CUDA %d.%d, cuBLASLt %d.%d.%d, driver %d.%d", p->name,
           runtime / 1000, runtime % 1000 / 10, lt / 10000, lt / 100 % 100,
           lt % 100, driver / 1000, driver % 1000 / 10);
  size_t dnn = mrt_dnn_version(c), used = strlen(c->libraries);
  if (dnn)
    snprintf(c->libraries + used, sizeof c->libraries - used,
             ", cuDNN %zu.%zu.%zu", dnn / 10000, dnn / 100 % 100, dnn % 100);
  *d = (mrt_device){ .isa = c->isa,
                     .libraries = c->libraries,
                     .align = ALIGN,
                     .threads = 1,
                     .dots = true,
                     .kernel = mrt_cuda_kernel,
                     .describe = mrt_cuda_describe,
                     .open_tier = mrt_cuda_open_tier,
                     .tier_in_memory = true,
                     .close = close_device,
                     .state = c };
  snprintf(d->name, sizeof d->name, "cuda:%d", c->index);
  mrt_cuda_fill_memory(d);
  mrt_cuda_fill_queue(d);
}

#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
mrt_status
mrt_plugin_open_6(const mrt_plugin_core *core, int index, mrt_device *device,
                  mrt_error *e);

mrt_status mrt_plugin_open_6(const mrt_plugin_core *core, int index,
                             mrt_device *device, mrt_error *e) {
  int count = 0;
  struct cudaDeviceProp p = { 0 };
  mrt_cuda_set_fail(core->fail);
  if (strcmp(core->ops, mrt_op_names) != 0)
    return mrt_fail(e, MRT_EDEVICE,
                    "the CUDA plug-in was built of another version");
  cudaError_t code = cudaGetDeviceCount(&count);
  if (code != cudaSuccess || count == 0)
    return mrt_fail(e, MRT_EDEVICE, "device cuda:%d: no GPU here: %s", index,
                    cudaGetErrorString(code));
  if (index >= count)
    return mrt_fail(e, MRT_EDEVICE,
                    "device cuda:%d: there are %d GPUs, cuda:0 to cuda:%d",
                    index, count, count - 1);
  mrt_cuda *c = calloc(1, sizeof *c);
  if (!c) return mrt_fail(e, MRT_ENOMEM, "out of memory");
  c->index = index;
  mrt_cuda_read_switches(c);
  code = cudaGetDeviceProperties(&p, index);
  c->arch = 10 * p.major + p.minor; /* libraries are opened by it */
  c->capacity = p.totalGlobalMem;   /* and the pool by that */
  if (!code) code = start(c);
  describe(device, c, &p);
  device->count = count;
  if (!code) return MRT_OK;
  c->failed = code;
  mrt_status s = mrt_cuda_check(c, code, e);
  close_device(device);
  return s;
}
