/* shm.h -- ranks that share memory: a board with a mailbox for each
 *
 * A collective is a number of steps.  At its first a rank writes into its
 * mailbox what it asks for and where its operands are, then raises the
 * mailbox's `step`; when all mailboxes have the step, every rank compares all
 * descriptors.  At a further step it says that it has finished a part.  What a
 * mailbox holds for call n is overwritten by call n + 2, which a rank can begin
 * only when all have come to call n + 1, that is, have done with n: a small
 * collective takes one step.
 *
 * A reference is how ranks name memory to one another: its distance from
 * `base`, which is where each has mapped the same object; 0: others cannot see
 * it.  Threads have base NULL, and a reference is the address.
 *
 * What always holds:
 *   - a mailbox is written by its rank alone, but for `taken` and `served`,
 *     which the receiver of its send writes;
 *   - `step` is raised (release) after what it announces is written, and read
 *     (acquire) before that is read: no other ordering is relied on;
 *   - a rank that is `inside` a call may touch what others lend; a failed call
 *     is left only when nobody is (mrt_shm_leave).
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_COLLECTIVES_SHM_H
#define MRT_COLLECTIVES_SHM_H

#include "common.h"

#include <stdatomic.h>

enum {
  MRT_SHM_SMALL = 4096,      /* bytes that travel in the mailbox */
  MRT_SHM_CHUNK = 256 << 10, /* bytes copied at a time where memory is not
                                  seen by all; a chunk stays in a cache */
  MRT_SHM_RANKS = 1024
};

typedef struct mrt_shm_operands {
  uint64_t in, out; /* references */
} mrt_shm_operands;

enum {
  MRT_MAILBOX_EMPTY,
  MRT_MAILBOX_TAKEN,
  MRT_MAILBOX_OPEN,
  MRT_MAILBOX_CLOSED
};

typedef struct mrt_shm_mailbox {
  _Alignas(64) _Atomic uint64_t step; /* in one line with `descriptor` */
  mrt_descriptor descriptor[2];       /* of calls with even and odd numbers */
  _Alignas(64) mrt_shm_operands operands[2];
  mrt_caller caller[2];
  /* A send or recv: number << 17 | is recv << 16 | peer + 1; 0: none. */
  _Alignas(64) _Atomic uint64_t pair;
  mrt_descriptor p2p_descriptor;
  mrt_caller p2p_caller;
  uint64_t p2p_in;
  _Alignas(64) _Atomic uint64_t filled; /* chunks given, by this rank */
  _Alignas(64) _Atomic uint64_t taken;  /* of them, by those who received */
  _Alignas(64) _Atomic uint64_t served; /* the number of the send received */
  /* Milliseconds of the clock << 16 | rank it waits for + 1, kept up. */
  _Alignas(64) _Atomic uint64_t waits;
  _Atomic uint64_t begun, digest; /* mrt_progress */
  _Atomic int state;
  _Atomic int inside; /* a call: may touch what others lend */
  int64_t pid;        /* 0: a thread */
  uint64_t started;
  _Alignas(64) char small[2][MRT_SHM_SMALL];
} mrt_shm_mailbox;

typedef struct mrt_shm_board {
  uint64_t magic;
  uint64_t nbytes;              /* of the board */
  uint64_t heap_at, heap_bytes; /* of the object that begins with this board:
                                   where rank 0's heap is, bytes of each */
  int32_t size;
  char token[64];
  _Alignas(64) _Atomic int failed; /* 1: a message is written; 2: it is there */
  char message[448];
  _Atomic int closed; /* ranks that have */
  void *block;        /* of threads: what was allocated */
  _Alignas(64) mrt_shm_mailbox mailboxes[];
} mrt_shm_board;

/* The part of a shared object that this rank alone allocates from. */
typedef struct mrt_shm_heap {
  char *at;
  size_t nbytes;
  size_t object; /* bytes of the whole object, mapped at `base` */
  struct mrt_shm_heap_block {
    size_t at, nbytes;
  } * blocks; /* in use, by place */
  int count, capacity;
} mrt_shm_heap;

/* One rank's side of a board. */
typedef struct mrt_shm_comm {
  mrt_communicator comm;
  const mrt_allocator *allocator;
  mrt_shm_board *board;
  mrt_shm_mailbox *mine;
  struct mrt_shm_comm *parent; /* this is a part of; NULL */
  int refs;                    /* by its user, its parts, what it allocated */
  char *base;
  mrt_shm_heap *heap; /* NULL: threads */
  bool leads;         /* the board is of this rank's memory */
  /* Frees what the transport holds: the board, the mapping. */
  void (*release)(struct mrt_shm_comm *m);
  uint64_t step, calls; /* steps and collectives begun */
  uint64_t came;        /* the first step of the last collective */
  uint64_t pairs;       /* sends and recvs begun */
  uint64_t results;     /* chunks of results written */
  uint64_t filled;      /* chunks sent */
  const void **from;    /* [size]: scratch */
  void **to;
} mrt_shm_comm;

size_t mrt_shm_board_bytes(int size);
/* Zeroes the head and mailboxes, and fills the head. */
void mrt_shm_board_init(mrt_shm_board *board, int size);
/* Three chunks of a rank: for operands, two for results. */
char *mrt_shm_board_chunk(const mrt_shm_board *board, int rank, int which);

/* A rank with the functions of its table filled; its mailbox is not yet
 * open. */
mrt_status mrt_shm_comm_new(const mrt_allocator *a, const char *transport,
                            mrt_shm_board *board, int rank, mrt_shm_comm **out,
                            mrt_error *e);
/* Tells the others that this rank can be met, as process `pid` or 0. */
void mrt_shm_comm_open(mrt_shm_comm *m, int64_t pid, uint64_t started);
/* Of the table: says that this rank is gone; frees it once its parts are. */
void mrt_shm_close(mrt_communicator *comm);
/* One use less; with the last the rank is freed. */
void mrt_shm_comm_unref(mrt_shm_comm *m);
void mrt_shm_abort(mrt_communicator *comm, const char *why);

/* ---- waiting (shm_board.c) ----------------------------------------------- */

typedef struct mrt_shm_wait mrt_shm_wait;
struct mrt_shm_wait {
  /* Whether `rank` is not (or no longer) waited for. */
  bool (*has)(const mrt_shm_comm *m, const mrt_shm_wait *w, int rank);
  uint64_t want;           /* of what `has` looks at */
  int peer;                /* of a send or recv */
  const mrt_collective *c; /* named in messages; NULL: attaching */
  int turns;
  double waited, last, looked; /* seconds */
};

/* Waits a little.  A failure when there is no sense in waiting longer: a rank
 * failed, died, closed, or is late; all ranks then fail with one message. */
mrt_status mrt_shm_wait_turn(mrt_shm_comm *m, mrt_shm_wait *w, mrt_error *e);
/* One step further, with all. */
mrt_status mrt_shm_step(mrt_shm_comm *m, const mrt_collective *c, mrt_error *e);
/* From now on all ranks fail with this message, or an earlier one. */
mrt_status mrt_shm_fail(mrt_shm_comm *m, mrt_error *e, const char *fmt, ...)
    MRT_PRINTF(3, 4);
/* Says that a call is over.  After a failure others may still read and write
 * this rank's operands: waits until they have left, died, or stand still. */
void mrt_shm_leave(mrt_shm_comm *m, bool failed);
/* Fails if a rank has. */
mrt_status mrt_shm_check(mrt_shm_comm *m, mrt_error *e);

/* Of the table (shm_health.c). */
mrt_status mrt_shm_health(mrt_communicator *comm, const mrt_progress *mine,
                          int *behind, int *apart, mrt_error *e);

/* ---- what was asked for (descriptor.c) ----------------------------------- */

mrt_status mrt_shm_mismatch(mrt_shm_comm *m, int a, mrt_descriptor_text of_a,
                            int b, mrt_descriptor_text of_b, mrt_error *e);
/* Publishes a call, waits for all, compares. */
mrt_status mrt_shm_agree(mrt_shm_comm *m, const mrt_collective *c,
                         mrt_shm_operands operands, mrt_error *e);

/* ---- moving (shm_collectives.c, _send_recv.c, _split.c, _heap.c) --------- */

/* 0: others cannot see all of these bytes. */
uint64_t mrt_shm_reference(const mrt_shm_comm *m, const void *data,
                           size_t nbytes);
mrt_status mrt_shm_run(mrt_communicator *comm, const mrt_collective *c,
                       mrt_error *e);
mrt_status mrt_shm_send_recv(mrt_shm_comm *m, const mrt_collective *c,
                             mrt_error *e);
mrt_status mrt_shm_split(mrt_communicator *comm, int color, int key,
                         mrt_communicator **out, mrt_error *e);

/* A board in memory of this process; NULL when memory is out. */
mrt_shm_board *mrt_shm_board_new(const mrt_allocator *a, int size);
void mrt_shm_board_free(const mrt_allocator *a, mrt_shm_board *board);

/* First fit.  NULL when nothing fits.  What is freed goes back to the
 * system. */
void *mrt_shm_heap_alloc(const mrt_allocator *a, mrt_shm_heap *heap,
                         size_t nbytes);
void mrt_shm_heap_free(mrt_shm_heap *heap, void *data);

/* When a process began, in the system's ticks; 0: it is gone,
 * UINT64_MAX: nobody can tell. */
uint64_t mrt_shm_process_started(int64_t pid);

#endif
