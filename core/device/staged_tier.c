/* staged_tier.c -- a file behind a device with memory of its own
 *
 * A copy goes piece by piece through the host's memory, and is made where it is
 * started: nothing runs beside the computation.  So a plan that swaps there is
 * right, and as slow as its copies.
 *
 * SPDX-License-Identifier: MIT */
#include "device/device.h"

#include <errno.h>

enum { PIECE = 4 << 20 };

typedef struct staged_tier {
  mrt_tier tier; /* first */
  mrt_tier *file;
  const mrt_device *device;
  const mrt_allocator *allocator;
  char *piece;
  uint64_t started[2]; /* by lane */
  int failed[2];       /* the errno value of the first copy since `drain` */
} staged_tier;

static mrt_status resize(mrt_tier *tier, size_t nbytes, mrt_error *e) {
  mrt_tier *file = ((staged_tier *)tier)->file;
  return file->resize(file, nbytes, e);
}

static int through_file(staged_tier *t, mrt_tier_lane lane, size_t offset,
                        size_t nbytes) {
  uint64_t number = t->file->start(t->file, lane, t->piece, offset, nbytes);
  return t->file->wait(t->file, lane, number);
}

static int copy_piece(staged_tier *t, mrt_tier_lane lane, char *data,
                      size_t offset, size_t nbytes) {
  mrt_error ignored;
  if (lane == MRT_TIER_OUT) {
    if (mrt_device_read(t->device, t->piece, data, nbytes, 0, &ignored))
      return EIO;
    return through_file(t, lane, offset, nbytes);
  }
  int code = through_file(t, lane, offset, nbytes);
  if (code) return code;
  return mrt_device_write(t->device, data, t->piece, nbytes, &ignored) ? EIO
                                                                       : 0;
}

static uint64_t start(mrt_tier *tier, mrt_tier_lane lane, void *data,
                      size_t offset, size_t nbytes) {
  staged_tier *t = (staged_tier *)tier;
  for (size_t done = 0; done < nbytes && !t->failed[lane]; done += PIECE) {
    size_t n = nbytes - done < PIECE ? nbytes - done : PIECE;
    t->failed[lane] =
        copy_piece(t, lane, (char *)data + done, offset + done, n);
  }
  return t->started[lane]++;
}

static int wait_for(mrt_tier *tier, mrt_tier_lane lane, uint64_t number) {
  (void)number;
  return ((staged_tier *)tier)->failed[lane];
}

static void drain(mrt_tier *tier) {
  staged_tier *t = (staged_tier *)tier;
  t->file->drain(t->file);
  t->failed[0] = t->failed[1] = 0;
}

static void join(mrt_tier *tier) { (void)tier; }

static void close_tier(mrt_tier *tier) {
  staged_tier *t = (staged_tier *)tier;
  if (t->file) t->file->close(t->file);
  mrt_release(t->allocator, t->piece, PIECE);
  mrt_release(t->allocator, t, sizeof *t);
}

mrt_status mrt_staged_tier_open(const mrt_device *device, const char *folder,
                                const mrt_allocator *a, mrt_tier **tier,
                                mrt_error *e) {
  staged_tier *t = mrt_calloc(a, 1, sizeof *t);
  if (!t) return mrt_nomem(e);
  t->tier =
      (mrt_tier){ resize, start, wait_for, drain, join, close_tier, NULL };
  t->device = device, t->allocator = a;
  t->piece = mrt_calloc(a, 1, PIECE);
  mrt_status s = t->piece ? MRT_OK : mrt_nomem(e);
  if (!s) s = mrt_file_tier_open(folder, a, &t->file, e);
  if (s)
    close_tier(&t->tier);
  else
    *tier = &t->tier;
  return s;
}
