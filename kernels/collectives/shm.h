/* shm.h -- what ranks that share memory have: a board with a slot for each
 *
 * A collective is a number of steps.  At its first a rank writes into its slot
 * what it asks for and where its numbers are, then raises the slot's `step`;
 * when all slots have the step, every rank compares all that was asked.  At a
 * further step it says that it has finished a part.  What a slot holds for
 * call n is overwritten by call n + 2, which a rank can begin only when all
 * have come to call n + 1, that is, have done with n: a small collective takes
 * one step.
 *
 * A reference is how ranks name memory to one another: its distance from
 * `base`, which is where each has mapped the same object; 0: others cannot see
 * it.  Threads have base NULL, and a reference is the address.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_COLLECTIVES_BOARD_H
#define MRT_COLLECTIVES_BOARD_H

#include "common.h"

#include <stdatomic.h>

enum {
  MRT_BOARD_SMALL = 4096,      /* bytes that travel in the slot */
  MRT_BOARD_CHUNK = 256 << 10, /* bytes copied at a time where memory is not
                                  seen by all; a chunk stays in a cache */
  MRT_BOARD_RANKS = 1024
};

typedef struct mrt_operands {
  uint64_t in, out; /* references */
} mrt_operands;

enum { MRT_SLOT_EMPTY, MRT_SLOT_TAKEN, MRT_SLOT_OPEN, MRT_SLOT_CLOSED };

typedef struct mrt_slot {
  _Alignas(64) _Atomic uint64_t step; /* in one line with `asked` */
  mrt_asked asked[2];                 /* of calls with even and odd numbers */
  _Alignas(64) mrt_operands operands[2];
  mrt_asker asker[2];
  /* A send or recv: number << 17 | is recv << 16 | peer + 1; 0: none. */
  _Alignas(64) _Atomic uint64_t pair;
  mrt_asked pair_asked;
  mrt_asker pair_asker;
  uint64_t pair_in;
  _Alignas(64) _Atomic uint64_t filled; /* chunks given, by this rank */
  _Alignas(64) _Atomic uint64_t taken;  /* of them, by those who received */
  _Alignas(64) _Atomic uint64_t served; /* the number of the send received */
  /* Milliseconds of the clock << 16 | rank it waits for + 1, kept up. */
  _Alignas(64) _Atomic uint64_t waits;
  _Atomic uint64_t begun, digest; /* mrt_pace */
  _Atomic int state;
  _Atomic int inside; /* a call: may touch what others lend */
  int64_t pid;        /* 0: a thread */
  uint64_t started;
  _Alignas(64) char small[2][MRT_BOARD_SMALL];
} mrt_slot;

typedef struct mrt_board {
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
  _Alignas(64) mrt_slot slots[];
} mrt_board;

/* The part of a shared object that this rank alone allocates from. */
typedef struct mrt_heap {
  char *at;
  size_t nbytes;
  size_t object; /* bytes of the whole object, mapped at `base` */
  struct mrt_heap_block {
    size_t at, nbytes;
  } * blocks; /* in use, by place */
  int count, capacity;
} mrt_heap;

/* One rank's side of a board. */
typedef struct mrt_ranks {
  mrt_communicator comm;
  const mrt_allocator *allocator;
  mrt_board *board;
  mrt_slot *mine;
  struct mrt_ranks *parent; /* this is a part of; NULL */
  int uses;                 /* by its user, its parts, what it allocated */
  char *base;
  mrt_heap *heap; /* NULL: threads */
  bool leads;     /* the board is of this rank's memory */
  /* Frees what the transport holds: the board, the mapping. */
  void (*release)(struct mrt_ranks *m);
  uint64_t step, calls; /* steps and collectives begun */
  uint64_t came;        /* the first step of the last collective */
  uint64_t pairs;       /* sends and recvs begun */
  uint64_t results;     /* chunks of results written */
  uint64_t filled;      /* chunks sent */
  const void **from;    /* room for as many as there are ranks */
  void **to;
} mrt_ranks;

size_t mrt_board_bytes(int size);
/* Zeroes and fills the head and slots of a board in `memory`. */
void mrt_board_init(mrt_board *board, int size);
/* Three chunks of a rank: for operands, two for results. */
char *mrt_board_chunk(const mrt_board *board, int rank, int which);

/* A rank with the functions of its table filled; its slot is not yet open. */
mrt_status mrt_ranks_new(const mrt_allocator *a, const char *transport,
                         mrt_board *board, int rank, mrt_ranks **out,
                         mrt_error *e);
/* Tells the others that this rank can be met, as process `pid` or 0. */
void mrt_ranks_open(mrt_ranks *m, int64_t pid, uint64_t started);
/* Of the table: says that this rank is gone; frees it once its parts are. */
void mrt_board_close(mrt_communicator *comm);
/* One use less; with the last the rank is freed. */
void mrt_ranks_drop(mrt_ranks *m);
void mrt_board_abort(mrt_communicator *comm, const char *why);

/* ---- waiting (shm_board.c) --------------------------------------------------- */

typedef struct mrt_waiting mrt_waiting;
struct mrt_waiting {
  /* Whether `rank` is not (or no longer) waited for. */
  bool (*has)(const mrt_ranks *m, const mrt_waiting *w, int rank);
  uint64_t want;           /* of what `has` looks at */
  int peer;                /* of a send or recv */
  const mrt_collective *c; /* named in messages; NULL: attaching */
  int turns;
  double waited, last, looked; /* seconds */
};

/* Waits a little.  A failure when there is no sense in waiting longer: a rank
 * failed, died, closed, or is late; all ranks then fail with one message. */
mrt_status mrt_board_turn(mrt_ranks *m, mrt_waiting *w, mrt_error *e);
/* One step further, with all. */
mrt_status mrt_board_step(mrt_ranks *m, const mrt_collective *c, mrt_error *e);
/* From now on all ranks fail with this message, or an earlier one. */
mrt_status mrt_board_fail(mrt_ranks *m, mrt_error *e, const char *fmt, ...)
    MRT_PRINTF(3, 4);
/* Says that a call is over.  After a failure others may still read and write
 * this rank's operands: waits until they have left, died, or stand still. */
void mrt_board_leave(mrt_ranks *m, bool failed);
/* Fails if a rank has. */
mrt_status mrt_board_check(mrt_ranks *m, mrt_error *e);

/* Of the table (shm_health.c). */
mrt_status mrt_board_look(mrt_communicator *comm, const mrt_pace *mine,
                          int *behind, int *apart, mrt_error *e);

/* ---- what was asked (descriptor.c) -------------------------------------------- */

mrt_status mrt_asked_differ(mrt_ranks *m, int a, mrt_asked_text of_a, int b,
                            mrt_asked_text of_b, mrt_error *e);
/* Publishes a call, waits for all, compares. */
mrt_status mrt_board_agree(mrt_ranks *m, const mrt_collective *c,
                           mrt_operands operands, mrt_error *e);

/* ---- moving (shm_collectives.c, shm_send_recv.c, shm_split.c, shm_heap.c) -------------------------- */

/* 0: others cannot see all of these bytes. */
uint64_t mrt_reference(const mrt_ranks *m, const void *data, size_t nbytes);
mrt_status mrt_board_run(mrt_communicator *comm, const mrt_collective *c,
                         mrt_error *e);
mrt_status mrt_board_pair(mrt_ranks *m, const mrt_collective *c, mrt_error *e);
mrt_status mrt_board_split(mrt_communicator *comm, int color, int key,
                           mrt_communicator **out, mrt_error *e);

/* A board in memory of this process; NULL when memory is out. */
mrt_board *mrt_board_new(const mrt_allocator *a, int size);
void mrt_board_free(const mrt_allocator *a, mrt_board *board);

/* First fit.  NULL when nothing fits.  What is freed goes back to the system. */
void *mrt_heap_alloc(const mrt_allocator *a, mrt_heap *heap, size_t nbytes);
void mrt_heap_free(mrt_heap *heap, void *data);

/* When a process began, in the system's ticks; 0: it is gone,
 * UINT64_MAX: nobody can tell. */
uint64_t mrt_process_started(int64_t pid);

#endif
