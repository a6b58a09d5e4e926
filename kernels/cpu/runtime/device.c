/* device.c -- the CPU: memory, instruction sets, threads
 *
 * The variants built are listed in isas.def, worst first; opening picks the
 * quickest one the processor has, or the one asked for.  "avx512+bf16" and
 * "avx512+amx" are the kernels of avx512, whose matrix products may use dot
 * products of bf16, or tile registers.
 *
 * The arena and what a tensor holds come from `allocate` below; kernels get no
 * memory but what their call names.  A variant is chosen once, when the context
 * opens, so all results of a context are of one instruction set.
 *
 * SPDX-License-Identifier: MIT */
#include "device/device.h"
#include "base/sanitizers.h"
#include "runtime/available.h"
#include "runtime/tiles.h"
#include "runtime/workers.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define ISA(name, more)                                                        \
  extern const mrt_kernel *const mrt_cpu_table_##name##_f32[];                 \
  extern const mrt_kernel *const mrt_cpu_table_##name##_f64[];
#include "isas.def"
#undef ISA

typedef struct variant {
  const char *isa;
  const mrt_kernel *const *f32, *const *f64;
} variant;

static const variant variants[] = {
#define ISA(name, more)                                                        \
  { #name #more, mrt_cpu_table_##name##_f32, mrt_cpu_table_##name##_f64 },
#include "isas.def"
#undef ISA
};

static bool supported(const char *isa) {
#if defined(__x86_64__)
  if (strcmp(isa, "avx512+bf16") == 0)
    return supported("avx512") && __builtin_cpu_supports("avx512bf16");
  if (strcmp(isa, "avx512+amx") == 0)
    return supported("avx512") && mrt_cpu_has_tiles();
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

/* Is it picked where nobody asks for another?  Dot products of bf16 are twice as
 * quick as f32 on AMD's processors.  Intel's begin one in two cycles: products
 * run at half of the rate that bf16 widened to f32 has there (`mrt bench matmul`
 * on Emerald Rapids: 78 and 141 Gflop/s). */
static bool is_quick(const char *isa) {
#if defined(__x86_64__)
  if (strcmp(isa, "avx512+bf16") == 0) return !__builtin_cpu_is("intel");
#endif
  return (void)isa, true;
}

enum { MOST_THREADS = 1024 };

/* 2 MiB: what the kernel backs with huge pages, so that touching an arena for
 * the first time faults 512 times less often. */
enum { HUGE = 2 << 20 };

enum { ALIGN = 64 }; /* bytes: a cache line, a vector of AVX-512 */
/* 64 KiB: from here on a block can be copied to a file past the page cache. */
enum { LARGE = 64 << 10 };

/* 64 MiB: before so much is asked for, what was freed goes back to the system, as
 * bookkeeping of plans made does, so that the process never has both. */
enum { ARENA = 64 << 20 };

/* Below 16 KiB a block of the C library's with room to align it, which is given
 * out again in a fraction of the time of an aligned one.  Its own address stands
 * before it. */
static bool is_little(size_t nbytes) {
#ifdef MRT_SANITIZES_ADDRESSES
  return (void)nbytes, false; /* that a use past the end is seen */
#else
  return nbytes < 16 << 10;
#endif
}

static void *allocate_little(size_t nbytes) {
  void *block = malloc(nbytes + ALIGN);
  if (!block) return NULL;
  /* A block is aligned for a pointer, so that much is before it at least. */
  char *data = (char *)block + ALIGN - (uintptr_t)block % ALIGN;
  ((void **)(void *)data)[-1] = block;
  return data;
}

static void *allocate(const mrt_device *device, size_t nbytes) {
  (void)device;
  if (is_little(nbytes)) return allocate_little(nbytes);
  if (nbytes == 0) nbytes = 64;
  void *data = NULL;
#ifdef __GLIBC__
  if (nbytes >= ARENA) malloc_trim(0);
#endif
  size_t align = nbytes >= 2 * HUGE ? HUGE
                 : nbytes >= LARGE  ? MRT_TIER_ALIGN
                                    : ALIGN;
  if (posix_memalign(&data, align, nbytes) != 0) return NULL;
#ifdef MADV_HUGEPAGE
  if (nbytes >= 2 * HUGE) madvise(data, nbytes / HUGE * HUGE, MADV_HUGEPAGE);
#endif
  return data;
}

static void release(const mrt_device *device, void *data, size_t nbytes) {
  (void)device;
  free(data && is_little(nbytes) ? ((void **)data)[-1] : data);
}

static size_t available(const mrt_device *device) {
  (void)device;
  return mrt_cpu_available();
}

static mrt_status open_tier(const mrt_device *device, const char *folder,
                            const mrt_allocator *a, mrt_tier **tier,
                            mrt_error *e) {
  (void)device;
  return mrt_file_tier_open(folder, a, tier, e);
}

static double clock_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static const mrt_kernel *kernel(const mrt_device *device, int op,
                                mrt_dtype dtype) {
  const variant *v = device->tables;
  return (dtype == MRT_f64 ? v->f64 : v->f32)[op];
}

/* flop/s of one thread in large products, measured on server processors. */
typedef struct cpu_figure {
  const char *isa;
  double matrix;
} cpu_figure;

static const cpu_figure declared[] = {
  { "base", 12e9 },         { "avx2", 60e9 },        { "avx512", 100e9 },
  { "avx512+bf16", 100e9 }, { "avx512+amx", 100e9 },
};

/* Other work in proportion, as rows count its flop. */
static const double shares[MRT_COST_COUNT] = {
  [MRT_COST_view] = 1,           [MRT_COST_matmul] = 1,
  [MRT_COST_convolution] = 1,    [MRT_COST_convolution_dx] = 1,
  [MRT_COST_convolution_dw] = 1, [MRT_COST_attention] = 1,
  [MRT_COST_attention_grad] = 1, [MRT_COST_norm] = .3,
  [MRT_COST_activation] = .3,    [MRT_COST_softmax] = .06,
  [MRT_COST_dropout] = .1,       [MRT_COST_pooling] = .1,
  [MRT_COST_pointwise] = .2,     [MRT_COST_reduce] = .15,
  [MRT_COST_move] = .1,          [MRT_COST_random] = .1,
  [MRT_COST_update] = .25,
};

/* Products of bf16 beside those of f32.  Of tile registers: as measured of 512 to
 * 4096 rows, 4 to 10. */
static double bf16_of(const mrt_device *device) {
  return device->tiles ? 8 : device->dots ? 2 : 0;
}

static void describe(const mrt_device *device, mrt_device_profile *to) {
  const cpu_figure *f = declared;
  for (int i = 0; i < MRT_COUNT(declared); i++)
    if (strcmp(declared[i].isa, device->isa) == 0) f = &declared[i];
  int threads = device->threads, channels = threads < 8 ? threads : 8;
  double matrix = f->matrix * threads;
  *to = (mrt_device_profile){ .align = ALIGN,
                              .threads = threads,
                              .launch = 1.5e-6,
                              .call = 5e-6,
                              .serial = 2e-5,
                              .matrix[MRT_f32] = matrix,
                              .matrix[MRT_f64] = matrix / 2,
                              .matrix[MRT_bf16] = bf16_of(device) * matrix,
                              .edge[MRT_COST_matmul] = { 4, 4, 16 },
                              .edge[MRT_COST_convolution] = { 10, 4, 4 },
                              .edge[MRT_COST_convolution_dx] = { 25, 4, 4 },
                              .edge[MRT_COST_convolution_dw] = { 4, 4, 48 },
                              .edge[MRT_COST_attention] = { 0, 64, 0 },
                              .edge[MRT_COST_attention_grad] = { 0, 64, 0 },
                              .winograd = device->winograd ? 1.7 : 0,
                              .spend = 1.0 / 64,
                              .cache = 4e6,
                              .cache_bandwidth = 50e9 * threads,
                              .bandwidth = 20e9 * channels,
                              .swap_capacity = 1e12,
                              .swap_read = 1e9,
                              .swap_write = 1e9,
                              .swap_latency = 1e-4 };
  for (int i = 0; i < MRT_COST_COUNT; i++) to->rate[i] = matrix * shares[i];
  snprintf(to->name, sizeof to->name, "cpu-%s-%d", device->isa, threads);
}

/* OMP_NUM_THREADS is what schedulers of machines that are shared set. */
static int threads_wanted(int cores) {
  const char *text = getenv("OMP_NUM_THREADS");
  long n = text ? strtol(text, NULL, 10) : 0;
  return n > 0 && n < MOST_THREADS ? (int)n : cores;
}

static bool winograd_wanted(void) {
  const char *text = getenv("MRT_WINOGRAD");
  return !text || strcmp(text, "off") != 0;
}

static void close(mrt_device *device) {
  mrt_cpu_workers_free(device->workers);
  device->workers = NULL;
}

mrt_status mrt_cpu_open(const char *isa, int threads, const mrt_allocator *a,
                        mrt_device *device, mrt_error *e) {
  int cores = mrt_cpu_cores();
  const variant *found = NULL;
  for (int i = 0; i < MRT_COUNT(variants); i++) {
    const char *name = variants[i].isa;
    bool wanted = isa ? strcmp(isa, name) == 0 : is_quick(name);
    if (wanted && supported(name)) found = &variants[i];
  }
  if (!found && !isa)
    return mrt_fail(e, MRT_EVALUE,
                    "this processor has none of the instruction sets that mrt "
                    "was built for");
  if (!found)
    return mrt_fail(e, MRT_EVALUE, "no instruction set '%s' here", isa);
  if (threads <= 0) threads = threads_wanted(cores);
  if (threads > MOST_THREADS) threads = MOST_THREADS;
  mrt_workers *workers =
      mrt_cpu_workers_new(a, threads, (cores < threads ? cores : threads) - 1);
  if (!workers) return mrt_nomem(e);
  *device = (mrt_device){
    .name = "cpu",
    .isa = found->isa,
    .libraries = "",
    .align = ALIGN,
    .count = 1,
    .threads = threads,
    .workers = workers,
    .dots = strstr(found->isa, "+bf16") != NULL,
    .tiles = strstr(found->isa, "+amx") != NULL,
    .winograd = winograd_wanted(),
    .alloc = allocate,
    .free = release,
    .available = available,
    .clock = clock_seconds,
    .kernel = kernel,
    .describe = describe,
    .open_tier = open_tier,
    .close = close,
    .tables = found,
  };
  return MRT_OK;
}
