/* device.h -- what a device is
 *
 * Memory and kernels.  The CPU is the only one here; another device is a
 * folder under kernels/ that fills this table.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_DEVICE_DEVICE_H
#define MRT_DEVICE_DEVICE_H

#include "base/error.h"
#include "device/kernel.h"
#include "device/tier.h"

typedef struct mrt_device {
  const char *name;      /* "cpu" */
  const char *isa;       /* "avx512", "avx512+bf16" */
  const char *libraries; /* "OpenMP" */
  size_t align;          /* every offset and size is a multiple of this */
  int threads;
  bool dots; /* the processor has dot products of bf16 */
  /* Bytes from the device, or NULL.  nbytes is a multiple of align. */
  void *(*alloc)(size_t nbytes);
  void (*free)(void *data, size_t nbytes);
  size_t (*available)(void); /* bytes that can be had now; 0: unknown */
  double (*clock)(void);     /* seconds; only goes forward */
  /* The kernel of operator number `op` for computing in `dtype` (f32 or f64);
   * never NULL for an operator that is not a view. */
  const mrt_kernel *(*kernel)(const struct mrt_device *device, int op,
                              mrt_dtype dtype);
  /* Declared figures: a function of this description alone. */
  void (*describe)(const struct mrt_device *device, mrt_device_profile *to);
  /* The memory behind this one. */
  mrt_status (*open_tier)(const char *folder, const mrt_allocator *a,
                          mrt_tier **tier, mrt_error *e);
  const void *tables; /* the device's own */
} mrt_device;

/* EVALUE, with the field, when a figure makes no sense. */
mrt_status mrt_device_check(const mrt_device_profile *profile, mrt_error *e);

/* Fill `*device`.  EVALUE for an unknown or unsupported instruction set. */
mrt_status mrt_cpu_open(const char *isa, int threads, mrt_device *device,
                        mrt_error *e);

#endif
