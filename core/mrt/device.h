/* device.h -- the figures of the device that plans are made for
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_DEVICE_H
#define MRT_DEVICE_H

#include "mrt/schema.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What joins ranks, each with a device: those of a node, or nodes. */
typedef struct mrt_link {
  double ranks; /* that it joins, those of the levels below counted; 0, of the
                       outermost: any number */
  double bandwidth; /* bytes a second that a rank gives to others */
  double latency;   /* seconds of a step of a ring */
  double ramp;      /* seconds for each square root of a byte: what medium sizes
                       take beside these */
} mrt_link;

enum { MRT_LINKS = 4 };

/* Memory behind the device's own, that values are swapped to. */
typedef struct mrt_tier_profile {
  char name[32];    /* what policies and reports call it; "": "swap" */
  char folder[256]; /* where its file is made; "": the device's own tier */
  double capacity;  /* bytes; 0: nobody knows, as many as there are */
  double read, write, latency;
} mrt_tier_profile;

enum { MRT_SWAP_TIERS = 4 };

/* How fast a device is and what it holds: all that predicted times depend on.
 * Seconds, bytes, bytes a second, flop a second. */
typedef struct mrt_device_profile {
  char name[64];
  size_t align;    /* of every offset: a power of two */
  size_t capacity; /* of its memory; 0: unknown */
  size_t overhead; /* of it, what its driver and libraries take; budgets leave
                      it to them */
  int threads;     /* that the figures are for */
  double launch;   /* seconds for any node, and `call` for a run */
  double call;
  double serial; /* work of so many seconds or less is done by one thread */
  /* flop/s of large products; 0: see f32 */
  double matrix[MRT_DTYPE_COUNT];
  /* flop/s of work in f32, as rows count it; that of products in another dtype
   * is in proportion to `matrix`. */
  double rate[MRT_COST_COUNT];
  /* A product of m, n, k takes the time of one of m + edge[kind][0],
   * n + edge[kind][1], k + edge[kind][2]: tiles half full, packing. */
  double edge[MRT_COST_COUNT][3];
  double winograd; /* how many times quicker convolutions of 3 x 3 are whose
                      multiplications Winograd's way makes fewer; 0: it has none
                      such */
  double spend;    /* share of a step's time that a plan without a budget may
                      take for computing again what is quick to make */
  bool epilogues;  /* its products compute the GELU of their sum, which rounds
                     otherwise than GELU of the product */
  bool records; /* it records runs as one launch each, so inputs are copied to
                      slots that the plan counts */
  double cache; /* bytes that come again at cache_bandwidth */
  double cache_bandwidth, bandwidth;
  double swap_capacity, swap_read, swap_write, swap_latency; /* swap tier */
  char swap_name[32], swap_folder[256]; /* of it, as in mrt_tier_profile; */
  mrt_tier_profile slower[MRT_SWAP_TIERS - 1]; /* what lies behind it, */
  int slower_count;                            /* quickest first */
  bool swap_known; /* they are measured or given, and no guess: else a budget is
                      met by swapping only where recomputing does not do */
  mrt_link links[MRT_LINKS]; /* innermost first */
  int link_count;            /* 0: nobody knows how quick ranks are together */
} mrt_device_profile;

/* The device that plans are made for: at first this one, with declared figures
 * that depend on instruction set and threads alone. */
MRT_API const mrt_device_profile *
mrt_context_get_device(const mrt_context *ctx);
/* Make plans for another, measured or absent, from now on; copied.  NULL: this
 * one as declared.  EVALUE, with the field, when a figure makes no sense. */
MRT_API mrt_status mrt_context_set_device(mrt_context *ctx,
                                          const mrt_device_profile *device);
/* Whether the context's own device can compute `op`; views need no kernel. */
MRT_API bool mrt_context_has_kernel(const mrt_context *ctx, const mrt_op *op);

/* Bytes per second of copies to and from the swap tier. */
typedef struct mrt_swap_rates {
  double latency; /* seconds of a small copy */
  double out, in;
  double out_shared, in_shared; /* while the other direction is busy too */
} mrt_swap_rates;
/* Measure them by copying about `nbytes` each way, alone and together. */
MRT_API mrt_status mrt_context_measure_swap(mrt_context *ctx, size_t nbytes,
                                            mrt_swap_rates *rates);

#ifdef __cplusplus
}
#endif
#endif
