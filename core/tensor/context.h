/* context.h -- the context: everything of ours hangs on it
 *
 * One device, with all that is computed on it.  It is made of members, each
 * with a header of its own that says what holds for it and who writes it; code
 * that works on one member alone takes that and not the context.
 *
 * Invariants
 *   - the owner, tensors' storages, plans, spaces and sources of files hold it,
 *     and what it points to lives as long as one of them;
 *   - one thread at a time works with a context; another may raise an interrupt
 *     (ranks.interrupted), and nothing else;
 *   - `error` is written where something fails, and stays until the next
 *     failure;
 *   - ids and random keys are never given twice, but for a trace that is made
 *     anew (run/trace.c).
 *
 * core/context.c makes it and ends it.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_TENSOR_CONTEXT_H
#define MRT_TENSOR_CONTEXT_H

#include "base/memory.h"
#include "base/pool.h"
#include "device/device.h"
#include "mrt.h"
#include "tensor/origin.h"
#include "tensor/ranks.h"
#include "tensor/spare.h"
#include "tensor/storage.h"
#include "tensor/swap_tier.h"

struct mrt_context {
  const mrt_allocator *allocator;
  int64_t refs;
  void (*end)(mrt_context *ctx); /* when nobody holds it any more */
  mrt_error error;

  const mrt_op *const *ops; /* by number (op/table.c) */
  mrt_device device;
  mrt_device cpu; /* computes while planning, and what the device has no kernel
                     for */
  mrt_device_profile profile;     /* of what plans are made for */
  mrt_device_profile cpu_profile; /* as declared */
  bool poison; /* values are overwritten when they die (run/poison.c) */

  mrt_device_memory memory;
  mrt_spare spare;
  mrt_pool objects; /* tensors, expressions, storages */
  mrt_swap_tier swap;
  mrt_ranks ranks;
  mrt_origins origins;
  mrt_random random;

  struct mrt_trace *trace;   /* under way; NULL: none */
  const mrt_plan *in_flight; /* plans whose last run may not have ended */
  uint64_t next_id;          /* of a tensor or an expression */
  uint64_t steps;            /* run so far */
  uint64_t plans;            /* made so far */
  uint64_t unrecorded;       /* that could not be recorded (run/remote.c) */
  char notice[400];          /* to be told to the user, once; "": nothing */
  uint64_t walks;            /* over tensors, so far (tensor/marks.h) */
  struct mrt_tensor *dead; /* being freed, so that long chains do not recurse */
  bool burying;
};

void mrt_context_ref(mrt_context *ctx);
void mrt_context_unref(mrt_context *ctx);

#endif
