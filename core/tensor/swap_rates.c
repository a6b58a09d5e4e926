/* swap_rates.c -- how fast is the swap tier?
 *
 * Copies of a few megabytes, on each lane alone and on both at once: the lanes
 * may share a disk.
 *
 * SPDX-License-Identifier: MIT */
#include "tensor/context.h"

#include <string.h>
#include <time.h>

enum { PIECE = 4 << 20 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* What is copied: `pieces` on each lane, each lane with its half. */
typedef struct rate_trial {
  mrt_context *ctx;
  char *data;
  size_t offset;
  int pieces;
} rate_trial;

/* Seconds until each lane that is to run is done; the errno value. */
static int run(const rate_trial *t, const bool *lanes, double *seconds) {
  mrt_tier *tier = t->ctx->swap.row.at[0];
  uint64_t last[2] = { 0 };
  double from = now();
  for (int i = 0; i < t->pieces; i++)
    for (int l = 0; l < 2; l++)
      if (lanes[l])
        last[l] =
            tier->start(tier, (mrt_tier_lane)l, t->data + (size_t)l * PIECE,
                        t->offset + (size_t)(l * t->pieces + i) * PIECE, PIECE);
  int code = 0;
  for (int l = 0; l < 2; l++) {
    if (!lanes[l]) continue;
    int failed = tier->wait(tier, (mrt_tier_lane)l, last[l]);
    if (failed) code = failed;
    seconds[l] = now() - from;
  }
  tier->drain(tier);
  return code;
}

/* Seconds that a copy takes beyond its bytes. */
static int latency(const rate_trial *t, double *seconds) {
  enum { TIMES = 32 };
  mrt_tier *tier = t->ctx->swap.row.at[0];
  double from = now();
  int code = 0;
  for (int i = 0; i < TIMES; i++) {
    uint64_t n =
        tier->start(tier, MRT_TIER_IN, t->data, t->offset, MRT_TIER_ALIGN);
    int failed = tier->wait(tier, MRT_TIER_IN, n);
    if (failed) code = failed;
  }
  *seconds = (now() - from) / TIMES;
  tier->drain(tier);
  return code;
}

static mrt_status measure(const rate_trial *t, mrt_swap_rates *rates) {
  static const bool out[] = { true, false }, in[] = { false, true },
                    both[] = { true, true };
  double alone[2], shared[2], total = (double)t->pieces * PIECE;
  rate_trial second =
      *t; /* fill the half that is read: unwritten pages are fast */
  second.offset += (size_t)t->pieces * PIECE;
  int code = run(&second, out, alone);
  if (!code) code = run(t, out, alone);
  if (!code) code = run(t, in, alone);
  if (!code) code = run(t, both, shared);
  if (!code) code = latency(t, &rates->latency);
  if (code)
    return mrt_fail(&t->ctx->error, MRT_EDEVICE, "swap file: %s",
                    strerror(code));
  *rates = (mrt_swap_rates){ .latency = rates->latency,
                             .out = total / alone[MRT_TIER_OUT],
                             .in = total / alone[MRT_TIER_IN],
                             .out_shared = total / shared[MRT_TIER_OUT],
                             .in_shared = total / shared[MRT_TIER_IN] };
  return MRT_OK;
}

MRT_API mrt_status mrt_context_measure_swap(mrt_context *ctx, size_t nbytes,
                                            mrt_swap_rates *rates) {
  rate_trial t = { .ctx = ctx, .pieces = (int)(nbytes / 2 / PIECE) + 1 };
  size_t rounded;
  mrt_swap_location *location;
  if (nbytes > (size_t)1 << 40)
    return mrt_fail(&ctx->error, MRT_EVALUE,
                    "measure_swap: %zu bytes, at most 2^40 wanted", nbytes);
  MRT_TRY(
      mrt_swap_location_new(ctx, 0, (size_t)t.pieces * 2 * PIECE, &location));
  t.offset = location->offset;
  t.data = mrt_device_alloc(ctx, 2 * PIECE, &rounded);
  mrt_status s = t.data ? MRT_OK : mrt_nomem(&ctx->error);
  if (!s) s = mrt_device_fill(&ctx->device, t.data, 1, 2 * PIECE, &ctx->error);
  if (!s) s = measure(&t, rates);
  mrt_device_free(ctx, t.data, rounded);
  mrt_swap_location_free(ctx, location);
  return s;
}
