/* tier.h -- larger, slower memory that values are copied to and from
 *
 * A tier is one row of bytes behind the device's own memory.  Copies run
 * beside the computation on two lanes, out and in; a lane does its copies in
 * the order in which they were started, and numbers them.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_DEVICE_TIER_H
#define MRT_DEVICE_TIER_H

#include "base/memory.h"

typedef enum mrt_tier_lane { MRT_TIER_OUT, MRT_TIER_IN } mrt_tier_lane;

/* What is copied whole and fast starts at a multiple of this, here and there;
 * anything else is copied too. */
enum { MRT_TIER_ALIGN = 4096 };

typedef struct mrt_tier {
  /* Make it `nbytes` large, all of which exist afterwards: no copy will lack
   * room.  EDEVICE when there is no such room, or in a forked process; the
   * tier is then as before. */
  mrt_status (*resize)(struct mrt_tier *t, size_t nbytes, mrt_error *e);
  /* Begin to copy `nbytes` between `data` and the tier at `offset`, both
   * untouched by others until the copy is over.  Returns its number. */
  uint64_t (*start)(struct mrt_tier *t, mrt_tier_lane lane, void *data,
                    size_t offset, size_t nbytes);
  /* Until copy `number` is over.  0, or an errno value: a copy that fails
   * fails all that follow on its lane, until drain. */
  int (*wait)(struct mrt_tier *t, mrt_tier_lane lane, uint64_t number);
  /* Until all copies are over; forgets failures. */
  void (*drain)(struct mrt_tier *t);
  /* What is queued from now on comes after them; NULL: nothing is queued. */
  void (*join)(struct mrt_tier *t);
  /* Ends what runs and frees the tier. */
  void (*close)(struct mrt_tier *t);
  /* Where its byte `offset` is in the host's memory, until it is resized; NULL:
   * it is not there. */
  void *(*memory)(struct mrt_tier *t, size_t offset);
} mrt_tier;

/* Several tiers as one, for those that copy: a place says in which slot it is.
 * It cannot be resized; its slots are. */
enum { MRT_TIER_SLOTS = 8 };
typedef struct mrt_tier_row {
  mrt_tier tier;                /* first */
  mrt_tier *at[MRT_TIER_SLOTS]; /* NULL: not opened */
} mrt_tier_row;
/* An empty one. */
void mrt_tier_row_init(mrt_tier_row *row);
enum { MRT_TIER_PLACE = sizeof(size_t) * 8 - 4 }; /* bits of an offset */
static inline size_t mrt_tier_place(int slot, size_t offset) {
  return (size_t)slot << MRT_TIER_PLACE | offset;
}

/* A tier in a file without a name in `folder`, gone with the process however
 * that ends; direct I/O where the file system has it.  EDEVICE with the
 * folder. */
mrt_status mrt_file_tier_open(const char *folder, const mrt_allocator *a,
                              mrt_tier **tier, mrt_error *e);

struct mrt_device;
/* A tier in the host's memory, for a device that brings none: each copy is over
 * when `start` returns. */
mrt_status mrt_host_tier_open(const struct mrt_device *device,
                              const mrt_allocator *a, mrt_tier **tier,
                              mrt_error *e);
/* A tier in a file for such a device: each copy goes through the host's memory
 * and is over when `start` returns. */
mrt_status mrt_staged_tier_open(const struct mrt_device *device,
                                const char *folder, const mrt_allocator *a,
                                mrt_tier **tier, mrt_error *e);

#endif
