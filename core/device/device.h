/* device.h -- what a device is
 *
 * Memory and kernels.  The CPU is one; any libmrt_<name>.so is another: a
 * library that exports MRT_PLUGIN_ENTRY and fills the table below.  README.md
 * beside this file adds one, step by step.
 *
 * What stands first in the table every device gives; a NULL or a 0 in the rest
 * has the meaning that its line says.  Of an operator that a device has no
 * kernel for the CPU's is used: its inputs are copied to the host before, its
 * results back after (run/host_step.c).
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_DEVICE_DEVICE_H
#define MRT_DEVICE_DEVICE_H

#include "base/error.h"
#include "device/kernel.h"
#include "device/tier.h"
#include "mrt/device.h"

typedef struct mrt_remote mrt_remote;
typedef struct mrt_queue mrt_queue;

typedef struct mrt_device {
  char name[32]; /* "cpu", "gpu:0": as it was opened; the core fills it in */

  /* ---- every device gives these ---- */

  /* Bytes from the device, or NULL.  nbytes is a multiple of align. */
  void *(*alloc)(const struct mrt_device *device, size_t nbytes);
  void (*free)(const struct mrt_device *device, void *data, size_t nbytes);
  /* The kernel of operator number `op` for computing in `dtype` (f32 or f64);
   * NULL: the device has none.  The CPU has one for all that are no views. */
  const mrt_kernel *(*kernel)(const struct mrt_device *device, int op,
                              mrt_dtype dtype);
  /* Copies, for memory of its own; NULL: its memory is ours to read and write. */
  const mrt_remote *remote;

  /* ---- and these if it likes ---- */

  /* Its kernels only queue work, done in the order of the calls.  NULL: what
   * is called is done when the call returns. */
  const mrt_queue *queue;
  const char *isa;       /* "avx512", "avx512+amx", "sm_90"; NULL: "" */
  const char *libraries; /* "cuBLASLt"; NULL: "" */
  size_t align; /* every offset and size is a multiple of this; 0: 64 */
  int threads;  /* for the call; 0: 1 */
  struct mrt_workers *workers; /* for the call; NULL: its threads are one */
  int count;                   /* devices of its kind that are here; 0: 1 */
  bool dots;                   /* the processor has dot products of bf16 */
  bool tiles;                  /* it has tile registers for products of it */
  bool winograd; /* convolutions may be Winograd's (op/winograd.h) */
  /* As `alloc`, of what will lie there for long: an arena.  `free` ends it.
   * NULL: `alloc` does. */
  void *(*reserve)(const struct mrt_device *device, size_t nbytes);
  /* Bytes that can be had now; NULL, or 0 as an answer: not known. */
  size_t (*available)(const struct mrt_device *device);
  /* Bytes of it in use, whoever uses them; NULL: not known. */
  size_t (*taken)(const struct mrt_device *device);
  /* Has something failed?  Does not wait; fails for good once it has.  NULL:
   * nothing can but copies. */
  mrt_status (*check)(const struct mrt_device *device, mrt_error *e);
  double (*clock)(void); /* seconds; only goes forward; NULL: the CPU's */
  /* Declared figures: a function of this description alone.  NULL: the CPU's,
   * and what copies between memories take. */
  void (*describe)(const struct mrt_device *device, mrt_device_profile *to);
  /* The memory behind this one.  NULL: the host's for memory of its own, else
   * a file. */
  mrt_status (*open_tier)(const struct mrt_device *device, const char *folder,
                          const mrt_allocator *a, mrt_tier **tier,
                          mrt_error *e);
  /* That tier is in the host's memory: it has `memory`.  The host's, of a device
   * without `open_tier`, is. */
  bool tier_in_memory;
  /* Ends it; all it gave is gone.  NULL: nothing to do. */
  void (*close)(struct mrt_device *device);
  const void *tables; /* the device's own */
  void *state;        /* ditto */
} mrt_device;

/* Every function below that fails says why in `e`, EDEVICE. */
struct mrt_remote {
  /* After all that is queued.  `from` may change once write is over. */
  mrt_status (*write)(const mrt_device *device, void *to, const void *from,
                      size_t nbytes, mrt_error *e);
  /* With a fence: once that is passed, whatever was queued since.  0, and
   * always where nothing is queued: after all that is queued. */
  mrt_status (*read)(const mrt_device *device, void *to, const void *from,
                     size_t nbytes, uint64_t fence, mrt_error *e);
  /* Queue: a copy within its memory; the same byte everywhere. */
  mrt_status (*copy)(const mrt_device *device, void *to, const void *from,
                     size_t nbytes, mrt_error *e);
  mrt_status (*fill)(const mrt_device *device, void *to, int byte,
                     size_t nbytes, mrt_error *e);
  /* As `alloc`, of bytes that nothing queued uses; and `write` there, before
   * anybody else does, which need not come after what is queued.  Both NULL:
   * `alloc` and `write` do. */
  void *(*alloc_apart)(const mrt_device *device, size_t nbytes);
  mrt_status (*write_apart)(const mrt_device *device, void *to,
                            const void *from, size_t nbytes, mrt_error *e);
};

/* A device that queues has a `check` and has failed for good once it has. */
struct mrt_queue {
  /* ---- every queue has these ---- */

  /* Until all that is queued is done. */
  mrt_status (*wait)(const mrt_device *device, mrt_error *e);
  /* Here, in the order of what is queued: a number that rises; 0: failed. */
  uint64_t (*fence)(const mrt_device *device);
  /* Until what was queued before the fence is done. */
  mrt_status (*wait_fence)(const mrt_device *device, uint64_t fence,
                           mrt_error *e);
  /* A run's words: had at its first `begin`, which queues its numbers there;
   * `end` queues that what the device wrote be seen by `see`, once done.  It
   * may come several times in a run. */
  mrt_status (*begin)(const mrt_device *device, mrt_run *run, mrt_error *e);
  mrt_status (*end)(const mrt_device *device, mrt_run *run, mrt_error *e);
  /* fault, bad_id; of a collective refused and *error. */
  void (*see)(const mrt_device *device, mrt_run *run);
  /* The fault has been told. */
  mrt_status (*clear_fault)(const mrt_device *device, mrt_run *run,
                            mrt_error *e);
  void (*leave)(const mrt_device *device, mrt_run *run); /* after `wait` */

  /* ---- and these if it likes ---- */

  /* The run breaks off while it is queued: what it has begun beside the queue
   * comes before whatever is queued next.  NULL: it begins nothing there. */
  void (*stop)(const mrt_device *device, mrt_run *run);
  /* Queue that so many steps of the run be seen as done; it takes as long as
   * a launch.  How many were when the device failed; -1: not in this run.
   * Both NULL: a failure does not say where it was. */
  mrt_status (*milestone)(const mrt_device *device, const mrt_run *run,
                          int done, mrt_error *e);
  int (*reached)(const mrt_device *device, const mrt_run *run);
  /* The communicator will be closed: waits for what needs it, and `begin` is
   * ESTATE for runs that do from then on.  NULL: no kernel uses one. */
  void (*part)(const mrt_device *device, mrt_communicator *comm);
  /* Record what is queued from here, instead of doing it, up to `recorded`,
   * which gives NULL for *recording if that cannot be replayed: what failed in
   * between is forgotten then, unless the device did.  *begun false: it cannot
   * be done at all, now.  All NULL: each run is queued step by step. */
  mrt_status (*record)(const mrt_device *device, bool *begun, mrt_error *e);
  mrt_status (*recorded)(const mrt_device *device, void **recording,
                         mrt_error *e);
  mrt_status (*replay)(const mrt_device *device, void *recording, mrt_error *e);
  void (*forget)(const mrt_device *device, void *recording);
  /* A recording with collectives of this communicator is a collective of its
   * ranks itself (run/record.c); the same on all.  NULL: it is not. */
  bool (*together)(const mrt_device *device, const mrt_communicator *comm);
};

/* The device's i-th swap tier, quickest first; how many there are. */
mrt_tier_profile mrt_device_tier(const mrt_device_profile *profile, int i);
int mrt_device_tier_count(const mrt_device_profile *profile);
/* EVALUE, with the field, when a figure makes no sense. */
mrt_status mrt_device_check(const mrt_device_profile *profile, mrt_error *e);

/* Fill `*device`; threads 0: as many as the process may use cores.  EVALUE for
 * an unknown or unsupported instruction set; its `close` ends it. */
mrt_status mrt_cpu_open(const char *isa, int threads, const mrt_allocator *a,
                        mrt_device *device, mrt_error *e);

/* ---- devices that are loaded (plugin.c) ---------------------------------- */

/* What the core lends to a plug-in.  Both were built of one tree, which the
 * names of the operators tell (op_names.h). */
typedef struct mrt_plugin_core {
  const char *ops; /* "reshape permute .." */
  mrt_status (*fail)(mrt_error *e, mrt_status code, const char *fmt, ...);
} mrt_plugin_core;

/* The one symbol that a plug-in exports: fill `*device`, which is all zeros,
 * with number `index`.  EDEVICE: it is not here, and how many there are. */
typedef mrt_status mrt_plugin_open(const mrt_plugin_core *core, int index,
                                   mrt_device *device, mrt_error *e);
#define MRT_PLUGIN_ENTRY "mrt_plugin_open_6" /* rises with this header */

/* The library that the environment's `variable` names, else `file` beside this
 * code or where libraries are.  It stays.  NULL: there is none, and `*why`. */
void *mrt_plugin_library(const char *variable, const char *file,
                         const char **why);
/* Fill `*device`, "name" (which is "name:0") or "name:1", from libmrt_name.so,
 * found by the environment's MRT_NAME, beside this library, in lib/ or where
 * libraries are; what it leaves out is as `cpu` has it.  EVALUE: that is no
 * name; EDEVICE: there is none, and why. */
mrt_status mrt_plugin_load(const char *name, const mrt_device *cpu,
                           mrt_device *device, mrt_error *e);
/* The i-th library beside this code that looks like a device's, "gpu"; false:
 * there are no more.  Those that MRT_NAME names alone are not among them. */
bool mrt_plugin_name(int i, char *name, size_t room);

/* ---- over all kinds of devices (device.c) -------------------------------- */

mrt_status mrt_device_write(const mrt_device *device, void *to,
                            const void *from, size_t nbytes, mrt_error *e);
mrt_status mrt_device_read(const mrt_device *device, void *to, const void *from,
                           size_t nbytes, uint64_t fence, mrt_error *e);
mrt_status mrt_device_copy(const mrt_device *device, void *to, const void *from,
                           size_t nbytes, mrt_error *e);
mrt_status mrt_device_fill(const mrt_device *device, void *to, int byte,
                           size_t nbytes, mrt_error *e);
/* Has it failed? */
mrt_status mrt_device_works(const mrt_device *device, mrt_error *e);
/* What it declares, or what is taken of one that declares nothing. */
void mrt_device_describe(const mrt_device *device, const mrt_device *cpu,
                         mrt_device_profile *to);
/* The memory behind it, or what stands in for one. */
mrt_status mrt_device_open_tier(const mrt_device *device, const char *folder,
                                const mrt_allocator *a, mrt_tier **tier,
                                mrt_error *e);
/* A file in the folder, whatever stands behind it. */
mrt_status mrt_device_open_folder(const mrt_device *device, const char *folder,
                                  const mrt_allocator *a, mrt_tier **tier,
                                  mrt_error *e);
/* Until nothing is queued. */
mrt_status mrt_device_wait(const mrt_device *device, mrt_error *e);

#endif
