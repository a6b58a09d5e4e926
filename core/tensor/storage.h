/* storage.h -- bytes of the device, counted, and those of one tensor
 *
 * Invariants
 *   - all that a context has from its device came through mrt_device_alloc and
 *     is in memory.now; `peak` is the most that was in use since it was reset;
 *   - a storage is counted by tensors, plans and views of its bytes, and holds
 *     its context;
 *   - its bytes are in memory (data), in the swap tier (location), or both and
 *     then equal: the one in memory is a copy to look at (swap_tier.h);
 *   - on a device whose memory is its own, `host` is a copy between read and
 *     drop_host; elsewhere it is `data`;
 *   - whenever a storage that a plan may know comes to memory, leaves it or is
 *     exchanged, memory.moves rises: plans look their addresses up again.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_TENSOR_STORAGE_H
#define MRT_TENSOR_STORAGE_H

#include "base/error.h"

#include <stdbool.h>

/* Of a context: what it has of the device, and may have.  Written by storage.c,
 * but for the limits, which users set; `moves` by whoever moves a storage. */
typedef struct mrt_device_memory {
  size_t now, peak;
  size_t limit;     /* of all; 0: none */
  size_t budget;    /* of one plan's run; 0: none */
  size_t available; /* instead of asking the device; 0: ask */
  size_t host;      /* of spaces, for what the CPU computes for the device */
  uint64_t moves;
} mrt_device_memory;

typedef struct mrt_storage {
  mrt_context *ctx;
  int refs;
  void *data;    /* NULL: in the swap tier only */
  void *host;    /* its bytes where we can read them, if somebody looks */
  size_t nbytes; /* requested: a multiple of the device's alignment */
  struct mrt_swap_location *location; /* in the swap tier; NULL: none */
  bool apart;  /* as mrt_storage_new_apart made it: nobody has written there */
  bool placed; /* a plan has its address: moves rises when that changes */
  /* On a device that queues: its bytes are there once this fence is passed, and
   * what was queued since does not write them; 0: not known. */
  uint64_t fence;
} mrt_storage;

/* Bytes from the device, counted; NULL past the limit or when there are none.
 * nbytes is rounded up to the alignment; *rounded tells to what. */
void *mrt_device_alloc(mrt_context *ctx, size_t nbytes, size_t *rounded);
/* The same, of an arena. */
void *mrt_device_reserve(mrt_context *ctx, size_t nbytes, size_t *rounded);
void mrt_device_free(mrt_context *ctx, void *data, size_t rounded);
size_t mrt_round_up(const mrt_context *ctx, size_t nbytes);

mrt_status mrt_storage_new(mrt_context *ctx, size_t nbytes, mrt_storage **out);
/* For bytes of the host, which come there before anything is queued that uses
 * it: the first mrt_storage_write, or fill, of many need not come after what is
 * queued now. */
mrt_status mrt_storage_new_apart(mrt_context *ctx, size_t nbytes,
                                 mrt_storage **out);
mrt_status mrt_storage_write(mrt_storage *s, const void *data, size_t nbytes);
void mrt_storage_ref(mrt_storage *s);
void mrt_storage_unref(mrt_storage *s); /* NULL is fine */
/* Its bytes to s->host, until drop_host. */
mrt_status mrt_storage_read(mrt_storage *s);
/* Bytes are to be written to s->host, and become its own at the end. */
mrt_status mrt_storage_fill_begin(mrt_storage *s);
mrt_status mrt_storage_fill_end(mrt_storage *s);
void mrt_storage_drop_host(mrt_storage *s);

#endif
