/* device.h -- what a device is
 *
 * Memory and kernels.  The CPU is one; another is a folder under kernels/ that
 * fills this table.  A device whose memory is its own fills `remote` too: its
 * kernels only queue work, which is done in the order of the calls.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_DEVICE_DEVICE_H
#define MRT_DEVICE_DEVICE_H

#include "base/error.h"
#include "device/kernel.h"
#include "device/tier.h"
#include "mrt/device.h"

typedef struct mrt_remote mrt_remote;

typedef struct mrt_device {
  char name[32];         /* "cpu", "cuda:0" */
  const char *isa;       /* "avx512", "avx512+bf16", "sm_90" */
  const char *libraries; /* "OpenMP" */
  size_t align;          /* every offset and size is a multiple of this */
  int threads;
  bool dots; /* the processor has dot products of bf16 */
  /* Bytes from the device, or NULL.  nbytes is a multiple of align. */
  void *(*alloc)(const struct mrt_device *device, size_t nbytes);
  void (*free)(const struct mrt_device *device, void *data, size_t nbytes);
  /* bytes that can be had now; 0: unknown */
  size_t (*available)(const struct mrt_device *device);
  /* bytes of it in use, whoever uses them; NULL: not known */
  size_t (*taken)(const struct mrt_device *device);
  double (*clock)(void); /* seconds; only goes forward */
  /* The kernel of operator number `op` for computing in `dtype` (f32 or f64);
   * NULL: the device has none.  The CPU has one for all that are no views. */
  const mrt_kernel *(*kernel)(const struct mrt_device *device, int op,
                              mrt_dtype dtype);
  /* Declared figures: a function of this description alone. */
  void (*describe)(const struct mrt_device *device, mrt_device_profile *to);
  /* The memory behind this one. */
  mrt_status (*open_tier)(const struct mrt_device *device, const char *folder,
                          const mrt_allocator *a, mrt_tier **tier,
                          mrt_error *e);
  /* Ends it; all it gave is gone.  NULL: nothing to do. */
  void (*close)(struct mrt_device *device);
  const mrt_remote *remote; /* NULL: its memory is ours to read and write */
  const void *tables;       /* the device's own */
  void *state;              /* ditto */
} mrt_device;

/* Every function that fails says why in `e`, EDEVICE; a device that has failed
 * once fails from then on. */
struct mrt_remote {
  /* After all that is queued.  `from` may change once write is over. */
  mrt_status (*write)(const mrt_device *device, void *to, const void *from,
                      size_t nbytes, mrt_error *e);
  /* With a mark: once that is reached, whatever was queued since. */
  mrt_status (*read)(const mrt_device *device, void *to, const void *from,
                     size_t nbytes, uint64_t mark, mrt_error *e);
  /* Queue: a copy within its memory; the same byte everywhere. */
  mrt_status (*copy)(const mrt_device *device, void *to, const void *from,
                     size_t nbytes, mrt_error *e);
  mrt_status (*fill)(const mrt_device *device, void *to, int byte,
                     size_t nbytes, mrt_error *e);
  /* Until all that is queued is done. */
  mrt_status (*wait)(const mrt_device *device, mrt_error *e);
  /* Here, in the order of what is queued: a number that rises; 0: failed. */
  uint64_t (*mark)(const mrt_device *device);
  /* Until what was queued before the mark is done. */
  mrt_status (*reach)(const mrt_device *device, uint64_t mark, mrt_error *e);
  /* Has something failed?  Does not wait. */
  mrt_status (*check)(const mrt_device *device, mrt_error *e);

  /* A run's words: had at its first `begin`, which queues its numbers there;
   * `end` queues that what the device wrote be seen by `see`, once done. */
  mrt_status (*begin)(const mrt_device *device, mrt_run *run, mrt_error *e);
  mrt_status (*end)(const mrt_device *device, mrt_run *run, mrt_error *e);
  /* The run breaks off while it is queued: what it has begun beside the queue
   * comes before whatever is queued next. */
  void (*stop)(const mrt_device *device, mrt_run *run);
  /* fault, bad_id; of a collective refused and *error. */
  void (*see)(const mrt_device *device, mrt_run *run);
  /* Queue that so many steps of the run be seen as done; it takes as long as
   * a launch.  How many were when the device failed; -1: not in this run. */
  mrt_status (*milestone)(const mrt_device *device, const mrt_run *run,
                          int done, mrt_error *e);
  int (*reached)(const mrt_device *device, const mrt_run *run);
  /* The fault has been told. */
  mrt_status (*absolve)(const mrt_device *device, mrt_run *run, mrt_error *e);
  void (*leave)(const mrt_device *device, mrt_run *run); /* after `wait` */
  /* The communicator will be closed: waits for what needs it, and `begin` is
   * ESTATE for runs that do from then on. */
  void (*part)(const mrt_device *device, mrt_communicator *comm);

  /* Record what is queued from here, instead of doing it, up to `recorded`;
   * NULL for *recording if that cannot be replayed. */
  mrt_status (*record)(const mrt_device *device, mrt_error *e);
  mrt_status (*recorded)(const mrt_device *device, void **recording,
                         mrt_error *e);
  mrt_status (*replay)(const mrt_device *device, void *recording, mrt_error *e);
  void (*forget)(const mrt_device *device, void *recording);
};

/* EVALUE, with the field, when a figure makes no sense. */
mrt_status mrt_device_check(const mrt_device_profile *profile, mrt_error *e);

/* Fill `*device`.  EVALUE for an unknown or unsupported instruction set. */
mrt_status mrt_cpu_open(const char *isa, int threads, mrt_device *device,
                        mrt_error *e);

/* ---- devices that are loaded (plugin.c) ---------------------------------- */

/* What the core lends to a plug-in.  Both were built of one tree, which the
 * names of the operators tell. */
typedef struct mrt_plugin_core {
  const char *ops; /* "reshape permute .." */
  mrt_status (*fail)(mrt_error *e, mrt_status code, const char *fmt, ...);
} mrt_plugin_core;

/* The one symbol that a plug-in exports: fill `*device` with number `index`. */
typedef mrt_status mrt_plugin_open(const mrt_plugin_core *core, int index,
                                   mrt_device *device, mrt_error *e);
#define MRT_PLUGIN_ENTRY "mrt_plugin_open_1" /* rises with this header */

/* The library that the environment's `variable` names, else `file` beside this
 * code or where libraries are.  It stays.  NULL: there is none, and `*why`. */
void *mrt_plugin_library(const char *variable, const char *file,
                         const char **why);
/* Fill `*device`, "cuda" or "cuda:1", from libmrt_cuda, found by the
 * environment's MRT_CUDA, beside this library or where libraries are.
 * EVALUE: no such name; EDEVICE: there is none, and why. */
mrt_status mrt_plugin_load(const char *name, mrt_device *device, mrt_error *e);

/* Over the two kinds of devices. */
mrt_status mrt_device_write(const mrt_device *device, void *to,
                            const void *from, size_t nbytes, mrt_error *e);
mrt_status mrt_device_read(const mrt_device *device, void *to, const void *from,
                           size_t nbytes, uint64_t mark, mrt_error *e);
mrt_status mrt_device_copy(const mrt_device *device, void *to, const void *from,
                           size_t nbytes, mrt_error *e);
mrt_status mrt_device_fill(const mrt_device *device, void *to, int byte,
                           size_t nbytes, mrt_error *e);

#endif
