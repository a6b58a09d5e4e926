/* ranks.h -- the ranks that a context computes with
 *
 * A communicator has a number that is never given again, so that a plan cannot
 * meet a stranger; operators name it by that.  The contexts of one process that
 * compute together (one for each device) share the communicators of the first,
 * their owner, and its interrupts: the others are guests.
 *
 * Invariants
 *   - only of an owner: communicators, checked lists, guests, the script's hash
 *     and `interrupted`; find it with mrt_communicators_owner;
 *   - of each context: its thread of collectives, how many it has applied
 *     (`sequence`), what is pending of them, the heap that other ranks see;
 *   - `interrupted` is one word, so that a step that goes on and a thread that
 *     waits for ranks cannot come to different conclusions: who is first
 *     decides;
 *   - a list of collectives is in `checked` on all ranks of its communicator or
 *     on none (run/check_collectives.c);
 *   - what a collective gives is held from its call on, so that whether it is
 *     done does not depend on who still reads it.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_TENSOR_RANKS_H
#define MRT_TENSOR_RANKS_H

#include "device/communicator.h"

/* Memory that other ranks read in place, by the communicator that gave it. */
typedef struct mrt_shared_heap {
  mrt_communicator *comm; /* NULL: there is none */
  const char *at;
  size_t nbytes, blocks; /* blocks: in use */
  bool closed;           /* gives nothing any more */
} mrt_shared_heap;

/* Of a context. */
typedef struct mrt_ranks {
  mrt_context *owner; /* has the communicators; NULL: these are ours */
  mrt_context *guests, *next_guest; /* contexts that use ours */
  volatile int interrupted;         /* MRT_RAISED, MRT_MASKED */
  mrt_communicator **communicators; /* by number; NULL: closed */
  int communicator_count, communicator_room;
  int most; /* ranks that one of them has, or had: all that there are */
  struct mrt_checked {
    int64_t comm;
    uint64_t hash;
    uint64_t runs; /* of plans that have it, the same on all ranks */
  } * checked;     /* lists of collectives that ranks have compared */
  int checked_count, checked_room;
  uint64_t script; /* a hash of its text; 0: not known */
  mrt_shared_heap heap;
  mrt_comm_thread *comm_thread; /* collectives that overlap; NULL: not yet */
  uint64_t sequence;            /* collectives applied so far */
  /* Held: what collectives outside traces give, until mrt_communicate. */
  struct mrt_tensor **pending;
  int pending_count, pending_room;
} mrt_ranks;

/* The context that has the communicators of `ctx`, and its interrupts. */
mrt_context *mrt_communicators_owner(mrt_context *ctx);
/* Use those of `ranks`; no longer. */
void mrt_communicators_share(mrt_context *ctx, mrt_context *ranks);
void mrt_communicators_leave(mrt_context *ctx);
void mrt_communicators_close(mrt_context *ctx);
/* The communicator of this number; NULL, with EVALUE or ESTATE in the context,
 * when there is none or it is closed. */
mrt_communicator *mrt_communicator_find(mrt_context *ctx, int64_t number);
/* Until no device but that of `except` has collectives in its queue; whoever
 * calls a communicator is alone with it then. */
void mrt_communicators_drain(mrt_context *ctx, const mrt_context *except);

/* Interrupts are not acted on until unmask.  False: one was raised before. */
bool mrt_interrupts_mask(mrt_context *ctx);
void mrt_interrupts_unmask(mrt_context *ctx);
bool mrt_interrupts_raised(mrt_context *ctx);

/* FNV-1a: the hash of these bytes too, from MRT_HASH on. */
#define MRT_HASH UINT64_C(0xcbf29ce484222325)
uint64_t mrt_hash(uint64_t hash, const void *data, size_t n);
/* The list of collectives that this communicator's ranks have found alike, valid
 * until another is added; NULL: they have not.  The answer is the same on all of
 * them.  `room` first, so that `add` cannot fail. */
struct mrt_checked *mrt_checked_find(mrt_context *ctx, int64_t comm,
                                     uint64_t hash);
mrt_status mrt_checked_room(mrt_context *ctx);
void mrt_checked_add(mrt_context *ctx, int64_t comm, uint64_t hash);

/* Memory that other ranks read in place; NULL: there is none, or no more. */
void *mrt_heap_get(mrt_context *ctx, size_t nbytes);
/* False: `data` is no such memory. */
bool mrt_heap_give(mrt_context *ctx, void *data, size_t nbytes);

#endif
