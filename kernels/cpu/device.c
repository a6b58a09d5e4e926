/* device.c -- the CPU: memory, instruction sets, threads
 *
 * The variants built are listed in isas.def, worst first; opening picks the
 * best one the processor has, or the one asked for.
 *
 * SPDX-License-Identifier: MIT */
#include "device/device.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ISA(name)                                                              \
  extern const mrt_kernel *const mrt_cpu_table_##name##_f32[];                 \
  extern const mrt_kernel *const mrt_cpu_table_##name##_f64[];
#include "isas.def"
#undef ISA

typedef struct variant {
  const char *isa;
  const mrt_kernel *const *f32, *const *f64;
} variant;

static const variant variants[] = {
#define ISA(name)                                                              \
  { #name, mrt_cpu_table_##name##_f32, mrt_cpu_table_##name##_f64 },
#include "isas.def"
#undef ISA
};

static bool supported(const char *isa) {
#if defined(__x86_64__)
  if (strcmp(isa, "avx512") == 0)
    return __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512cd");
  if (strcmp(isa, "avx2") == 0)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi2");
#endif
  return strcmp(isa, "base") == 0;
}

/* 2 MiB: what the kernel backs with huge pages, so that touching an arena for
 * the first time faults 512 times less often. */
enum { HUGE = 2 << 20 };

static void *allocate(size_t nbytes) {
  if (nbytes == 0) nbytes = 64;
  void *data = NULL;
  if (posix_memalign(&data, nbytes >= 2 * HUGE ? HUGE : 64, nbytes) != 0)
    return NULL;
#ifdef MADV_HUGEPAGE
  if (nbytes >= 2 * HUGE) madvise(data, nbytes / HUGE * HUGE, MADV_HUGEPAGE);
#endif
  return data;
}

static void release(void *data, size_t nbytes) {
  (void)nbytes;
  free(data);
}

static const mrt_kernel *kernel(const mrt_device *device, int op,
                                mrt_dtype dtype) {
  const variant *v = device->tables;
  return (dtype == MRT_f64 ? v->f64 : v->f32)[op];
}

/* Per thread, as measured on recent servers; bandwidth is shared. */
typedef struct figures {
  const char *isa;
  double matrix, plain; /* flop/s in f32: products, other work */
} figures;

static const figures declared[] = {
  { "base", 12e9, 1.5e9 },
  { "avx2", 60e9, 5e9 },
  { "avx512", 110e9, 8e9 },
};

static void describe(const mrt_device *device, mrt_device_profile *to) {
  const figures *f = declared;
  for (int i = 0; i < MRT_COUNT(declared); i++)
    if (strcmp(declared[i].isa, device->isa) == 0) f = &declared[i];
  double threads = device->threads;
  *to = (mrt_device_profile){ .align = device->align,
                              .threads = device->threads,
                              .launch = 1e-6,
                              .call = 5e-6,
                              .matrix[MRT_f32] = f->matrix * threads,
                              .matrix[MRT_f64] = f->matrix * threads / 2,
                              .edge = { 4, 4, 16 },
                              .cache = 8e6,
                              .cache_bandwidth = 30e9 * threads,
                              .bandwidth = 12e9 * (threads < 8 ? threads : 8),
                              .slow_capacity = 1e12,
                              .slow_read = 1e9,
                              .slow_write = 1e9,
                              .slow_latency = 1e-4 };
  snprintf(to->name, sizeof to->name, "cpu-%s-%d", device->isa,
           device->threads);
  for (int i = 0; i < MRT_COST_COUNT; i++) to->rate[i] = f->plain * threads;
  to->rate[MRT_COST_matmul] = to->matrix[MRT_f32];
  to->rate[MRT_COST_convolution] = to->matrix[MRT_f32];
  to->rate[MRT_COST_attention] = to->matrix[MRT_f32] / 2;
}

mrt_status mrt_cpu_open(const char *isa, int threads, mrt_device *device,
                        mrt_error *e) {
  const variant *found = NULL;
  for (int i = 0; i < MRT_COUNT(variants); i++) {
    bool wanted = !isa || strcmp(isa, variants[i].isa) == 0;
    if (wanted && supported(variants[i].isa)) found = &variants[i];
  }
  if (!found)
    return mrt_fail(e, MRT_EVALUE, "no instruction set '%s' here", isa);
  if (threads <= 0) threads = omp_get_max_threads();
  *device = (mrt_device){
    .name = "cpu",
    .isa = found->isa,
    .libraries = "OpenMP",
    .align = 64,
    .threads = threads < 1024 ? threads : 1024,
    .alloc = allocate,
    .free = release,
    .kernel = kernel,
    .describe = describe,
    .tables = found,
  };
  return MRT_OK;
}
