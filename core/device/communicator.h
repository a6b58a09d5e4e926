/* communicator.h -- what a communicator is: ranks that compute together
 *
 * A transport is a file in kernels/collectives/ that fills this table.  All
 * ranks call the same collectives in the same order; a transport compares what
 * they ask before data moves, so that a mismatch is an error on every rank,
 * never a hang.  A reduction takes the ranks' data in the order of the ranks,
 * 16-bit floats in f32, and rounds once: its bits depend neither on how the
 * elements are cut into pieces nor on the transport, and allgather after
 * reduce_scatter is allreduce.
 *
 * A communicator that has failed once (a rank died, stalled, asked for
 * something else) fails from then on, with the first message, on all its
 * ranks and in bounded time.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_DEVICE_COMMUNICATOR_H
#define MRT_DEVICE_COMMUNICATOR_H

#include "base/error.h"
#include "base/memory.h"
#include "mrt/ranks.h"

typedef enum mrt_reduction {
  MRT_REDUCE_SUM,
  MRT_REDUCE_MEAN, /* the sum divided by the number of ranks, rounded once */
  MRT_REDUCE_MAX,  /* a NaN of any rank is the result */
  MRT_REDUCE_MIN,
  MRT_REDUCE_PROD
} mrt_reduction;

typedef enum mrt_collective_kind {
#define COLLECTIVE(name, in, out, doc) MRT_COLLECT_##name,
#include "device/collectives.def"
#undef COLLECTIVE
  MRT_COLLECTIVES
} mrt_collective_kind;

/* One call.  What is above `in` must agree on all ranks (send and recv: on the
 * two; `peer` then differs). */
typedef struct mrt_collective {
  mrt_collective_kind kind;
  mrt_reduction reduction; /* of allreduce, reduce_scatter */
  mrt_dtype dtype;
  int64_t count; /* elements of the whole; a multiple of the number of ranks
                    where there are pieces */
  int peer;      /* of broadcast: the root; of send and recv: the other rank;
                    of shift: how many ranks on, in a circle */
  const void *in;
  void
      *out; /* may be `in`, but for mrt_collective_apart; of allgather, `in` may
                be its own piece of it */
  const char *file; /* who asks */
  int line;
} mrt_collective;

/* How far a rank is with collectives that a device computes: how many it began,
 * and a number made of all of them. */
typedef struct mrt_progress {
  uint64_t begun, digest;
} mrt_progress;

typedef struct mrt_communicator mrt_communicator;
struct mrt_communicator {
  int rank, size;
  const char *transport; /* "self", "threads", "shared", "sockets", "mpi" */
  int here;              /* ranks that share this host's cores; 0: not known */
  double timeout;        /* seconds that a rank is waited for */
  uint64_t sent;         /* bytes that this rank gave to others */
  /* Returns when `in` may change and `out` is whole.  ERANK with the rank
   * that is to blame; EINTERRUPT when `interrupted` was raised meanwhile. */
  mrt_status (*run)(mrt_communicator *comm, const mrt_collective *c,
                    mrt_error *e);
  /* A collective: ranks of one color form a communicator, ordered by key, then
   * by rank.  A negative color: NULL. */
  mrt_status (*split)(mrt_communicator *comm, int color, int key,
                      mrt_communicator **out, mrt_error *e);
  /* Memory, within [heap, heap + heap_bytes), that the other ranks read
   * directly where it is an operand; other operands are copied.  It stays until
   * it is freed, after `close` too.  NULL: not offered. */
  const char *heap;
  size_t heap_bytes;
  void *(*alloc)(mrt_communicator *comm, size_t nbytes);
  void (*free)(mrt_communicator *comm, void *data, size_t nbytes);
  /* Without waiting, in any thread: shows the others this rank's pace.  ERANK
   * if a rank has failed or died.  *behind: who began least, if fewer than this
   * rank; *apart: who began as many, but others; else -1.  NULL: not offered. */
  mrt_status (*health)(mrt_communicator *comm, const mrt_progress *mine,
                       int *behind, int *apart, mrt_error *e);
  /* From now on all ranks fail, saying that this one did, and why. */
  void (*abort)(mrt_communicator *comm, const char *why);
  void (*close)(mrt_communicator *comm);
  const volatile int *interrupted; /* looked at while waiting; may be NULL, and
                                      change meanwhile */
  int64_t buckets; /* of variables in pieces, made so far: the core counts */
};

/* Of what `interrupted` points to: an interrupt is wanted; none is acted on. */
enum { MRT_RAISED = 1, MRT_MASKED = 2 };

static inline bool mrt_is_interrupted(const mrt_communicator *comm) {
  const volatile int *flag =
      __atomic_load_n(&comm->interrupted, __ATOMIC_RELAXED);
  return flag && *flag == MRT_RAISED;
}

/* The name of a kind, "allreduce", and of a reduction, "sum". */
const char *mrt_collective_name(mrt_collective_kind kind);
const char *mrt_reduction_name(mrt_reduction reduction);
/* Can elements of this dtype be reduced so?  EDTYPE. */
mrt_status mrt_reduction_check(mrt_reduction reduction, mrt_dtype dtype,
                               mrt_error *e);

/* Must `out` lie apart from `in`? */
static inline bool mrt_collective_apart(mrt_collective_kind kind) {
  return kind == MRT_COLLECT_shift || kind == MRT_COLLECT_all_to_all;
}

/* Bytes that this rank gives and gets. */
size_t mrt_collective_in_bytes(const mrt_collective *c, int size);
size_t mrt_collective_out_bytes(const mrt_collective *c, int size);

/* Checks the call (EVALUE), then does it. */
mrt_status mrt_collect(mrt_communicator *comm, const mrt_collective *c,
                       mrt_error *e);

/* ---- overlapping the computation (comm_thread.c) ------------------------- */

typedef struct mrt_comm_thread mrt_comm_thread;

/* A thread that does collectives one after the other, however many
 * communicators there are.  EDEVICE: there is none to be had. */
mrt_status mrt_comm_thread_new(const mrt_allocator *a, mrt_comm_thread **out,
                               mrt_error *e);
/* Has a rank a core to spare for it, that the others do not compute on?  Where
 * ranks wait for other hosts, none is needed. */
bool mrt_comm_thread_pays(const mrt_communicator *comm);
/* Not in a child that was forked since. */
bool mrt_comm_thread_is_here(const mrt_comm_thread *a);
/* Hands the call over, and waits only while very many are under way.  Until its
 * end nobody writes what `in` points to or touches what `out` does. */
void mrt_comm_thread_begin(mrt_comm_thread *a, mrt_communicator *comm,
                           const mrt_collective *c, int node);
/* Waits until what fills `out` is over, NULL: all that was begun.  The error of
 * the first that failed since drain, if one did, and its node. */
mrt_status mrt_comm_thread_end(mrt_comm_thread *a, const void *out, int *node,
                               mrt_error *e);
/* Waits for the one that runs, drops the others; nothing has failed. */
void mrt_comm_thread_drain(mrt_comm_thread *a);
void mrt_comm_thread_close(mrt_comm_thread *a);

/* kernels/collectives/shm_thread.c: ranks that are threads of one process. */
mrt_status mrt_threads_new(const mrt_allocator *a, int size,
                           mrt_communicator **out, mrt_error *e);
/* kernels/collectives/join.c: this process becomes one rank of several. */
mrt_status mrt_join(const mrt_rendezvous *meeting,
                    const volatile int *interrupted, const mrt_allocator *a,
                    mrt_communicator **out, mrt_error *e);

/* kernels/collectives/mpi_open.c: the MPI that ranks may exchange messages by,
 * as it calls itself; loads it, starts nothing.  EVALUE: none, and why. */
mrt_status mrt_mpi_find(const char **name, mrt_error *e);

/* One rank without the others, which are taken to hold what it holds: of a
 * single one every collective is the identity. */
mrt_status mrt_self_communicator(const mrt_allocator *a, int rank, int size,
                                 mrt_communicator **out, mrt_error *e);

#endif
