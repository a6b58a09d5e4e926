/* host_tier.c -- the host's memory as the swap tier of any device
 *
 * For devices that bring no tier of their own.  A copy is made where it is
 * started, so nothing runs beside the computation: a plan that swaps is right,
 * and as slow as its copies.
 *
 * SPDX-License-Identifier: MIT */
#include "device/device.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct host_tier {
  mrt_tier tier;
  const mrt_device *device;
  const mrt_allocator *allocator;
  char *data;
  size_t nbytes;
  uint64_t started[2]; /* by lane */
  bool failed[2];      /* a copy since `drain` */
} host_tier;

/* malloc's memory, as a device's is none of the allocator's either. */
static mrt_status resize(mrt_tier *tier, size_t nbytes, mrt_error *e) {
  host_tier *t = (host_tier *)tier;
  if (nbytes == t->nbytes) return MRT_OK;
  char *fresh = nbytes ? malloc(nbytes) : NULL;
  if (nbytes && !fresh)
    return mrt_fail(e, MRT_EDEVICE, "no %zu bytes of memory to swap to",
                    nbytes);
  size_t kept = nbytes < t->nbytes ? nbytes : t->nbytes;
  if (kept) memcpy(fresh, t->data, kept);
  if (nbytes > kept) memset(fresh + kept, 0, nbytes - kept);
  free(t->data);
  t->data = fresh, t->nbytes = nbytes;
  return MRT_OK;
}

static uint64_t start(mrt_tier *tier, mrt_tier_lane lane, void *data,
                      size_t offset, size_t nbytes) {
  host_tier *t = (host_tier *)tier;
  mrt_error ignored;
  char *home = t->data + offset;
  mrt_status s =
      lane == MRT_TIER_OUT
          ? mrt_device_read(t->device, home, data, nbytes, 0, &ignored)
          : mrt_device_write(t->device, data, home, nbytes, &ignored);
  t->failed[lane] |= s != MRT_OK;
  return t->started[lane]++;
}

static int wait_for(mrt_tier *tier, mrt_tier_lane lane, uint64_t number) {
  (void)number;
  return ((host_tier *)tier)->failed[lane] ? EIO : 0;
}

static void drain(mrt_tier *tier) {
  host_tier *t = (host_tier *)tier;
  t->failed[0] = t->failed[1] = false;
}

static void join(mrt_tier *tier) { (void)tier; }

static void *memory(mrt_tier *tier, size_t offset) {
  return ((host_tier *)tier)->data + offset;
}

static void close_tier(mrt_tier *tier) {
  host_tier *t = (host_tier *)tier;
  free(t->data);
  mrt_release(t->allocator, t, sizeof *t);
}

mrt_status mrt_host_tier_open(const mrt_device *device, const mrt_allocator *a,
                              mrt_tier **tier, mrt_error *e) {
  host_tier *t = mrt_calloc(a, 1, sizeof *t);
  if (!t) return mrt_nomem(e);
  t->tier =
      (mrt_tier){ resize, start, wait_for, drain, join, close_tier, memory };
  t->device = device, t->allocator = a;
  *tier = &t->tier;
  return MRT_OK;
}
