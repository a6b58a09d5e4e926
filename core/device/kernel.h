/* kernel.h -- what a kernel is: plain C that reads, computes, writes
 *
 * A kernel allocates nothing, keeps no state between calls, prints nothing
 * and cannot fail.  It gets every byte it may touch in the call: operands, and
 * scratch that it declared when the plan was made.  Options have been checked
 * and normalised (dimensions are 0-based and non-negative) by the row.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_DEVICE_KERNEL_H
#define MRT_DEVICE_KERNEL_H

#include "device/communicator.h"
#include "device/tier.h"

struct mrt_signature; /* op/op.h */

/* A value as the kernel sees it.  strides are in elements; a row that does not
 * list an input in `strided` gets it contiguous, outputs always are.  Of a
 * value in the swap tier `data` is the offset there. */
typedef struct mrt_operand {
  void *data;
  mrt_type type;
  int64_t strides[MRT_MAX_RANK];
} mrt_operand;

/* The part of a run that kernels of a device with memory of its own read and
 * write there.  `fault` as below; it stays until it has been told. */
typedef struct mrt_run_words {
  uint64_t seed, step;
  int64_t row, rows, all_rows, rank, ranks, first_row;
  int fault;
  int under_way; /* in the host's copy: 0, or 1 + the steps seen as done */
  int64_t bad_id, bad_limit;
} mrt_run_words;

/* What changes from one run of a plan to the next. */
typedef struct mrt_run {
  uint64_t seed;               /* of the random numbers */
  uint64_t step;               /* how often the plan ran before */
  int64_t row, rows, all_rows; /* which part of the batch: rows [row, row +
                                  rows) of all; 0 of 0: all of it */
  int64_t rank, ranks;         /* and that is one of so many batches, for what
                                  is drawn */
  int64_t first_row;           /* of the part that runs first of all */
  int fault;      /* 0, or 1 + the step that met an index out of range */
  int64_t bad_id; /* that index, and how many there are */
  int64_t bad_limit;
  /* of a plan that swaps */
  mrt_tier *tier;
  uint64_t *copies; /* by transfer: its number on its lane */
  int lost;         /* 0, or 1 + the step that waited for a copy that failed */
  int lost_code;    /* errno */
  double stalled;   /* seconds spent waiting for copies */
  /* of a plan with collectives */
  mrt_communicator *const *communicators; /* by number; NULL: closed */
  mrt_comm_thread
      *comm_thread; /* for those that begin early; NULL: they do not */
  bool ahead;       /* they may, on a device with memory of its own */
  int refused;      /* 0, or 1 + the step whose collective failed */
  mrt_error *error; /* what that said */
  /* of a device with memory of its own */
  void *device;                /* the device's state */
  void *queue;                 /* where kernels queue what they launch */
  struct mrt_run_words *words; /* in that memory */
} mrt_run;

typedef struct mrt_call {
  const void *options;
  int nin, nout;
  mrt_operand *in, *out;
  void *scratch; /* what `scratch` asked for; aligned as every offset is */
  void *state;   /* what `prepare` made */
  mrt_run *run;
  int threads;                 /* into how many parts it divides its work */
  struct mrt_workers *workers; /* who do them beside the caller; NULL: nobody */
  bool dots;                   /* dot products of bf16 may be used */
  bool tiles;                  /* as may tile registers, for products of it */
  bool winograd;               /* as may Winograd's convolutions */
  int node;                    /* for `fault` */
  const char *file;            /* where it was written */
  int line;
} mrt_call;

/* One block of a pointwise operator: n elements, everything contiguous.
 * The result for an element depends on that element alone, never on its place
 * in the block, so fusing changes no bit. */
typedef struct mrt_block {
  int64_t n;
  const void *in[4];
  void *out;
  mrt_dtype in_dtype; /* of the last input; out_dtype when there is none */
  mrt_dtype out_dtype;
  const void *options;
  int64_t first; /* index of element 0 in the whole tensor (random kernels) */
  const mrt_run *run;
} mrt_block;

typedef struct mrt_kernel {
  void (*run)(const mrt_call *call);
  /* The same for several calls, of which none touches what another writes, and
   * with the same bits; for kernels without scratch.  NULL: one by one. */
  void (*together)(const mrt_call *const *calls, int count);
  /* Pointwise operators give this instead of run. */
  void (*block)(const mrt_block *block);
  /* Bytes of scratch; data pointers are NULL.  NULL: none. */
  size_t (*scratch)(const mrt_call *call);
  /* Made once with the plan (library primitives); NULL: none.  A NULL state
   * is a valid answer: the kernel then works without. */
  void *(*prepare)(const mrt_call *call);
  void (*release)(void *state);
  /* Can it compute this?  Of a device that is no CPU: what it cannot, the CPU
   * does.  NULL: all that the row allows. */
  bool (*takes)(const struct mrt_signature *s);
  /* Results may have any strides, but that of the last dimension: 1. */
  bool spreads;
} mrt_kernel;

#endif
