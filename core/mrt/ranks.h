/* ranks.h -- ranks that compute together
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_RANKS_H
#define MRT_RANKS_H

#include "mrt/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- ranks that compute together -----------------------------------------
 *
 * The operators allreduce, reduce_scatter, allgather, all_to_all, broadcast, shift,
 * send and recv have an option `comm`: a communicator's number in its context or
 * that of mrt_context_options.ranks.  All of its ranks must call the same ones in the
 * same order.  Those of a trace become nodes of its plan, whoever reads them;
 * those applied outside wait for mrt_communicate.  Ranks count from 0. */

typedef struct mrt_communicator mrt_communicator;
/* The context takes a communicator over and closes it at its end, or at once on
 * failure; no number is given twice. */
MRT_API mrt_status mrt_communicator_add(mrt_context *ctx,
                                        mrt_communicator *comm, int *number);
/* One rank that plans alone: of a single one every collective is the identity;
 * of more, the others are taken to hold what this one does.  EVALUE. */
MRT_API mrt_status mrt_communicator_alone(mrt_context *ctx, int rank, int size,
                                          int *number);
typedef struct mrt_communicator_info {
  int rank, size;
  const char *transport;
  double timeout; /* seconds that a rank is waited for */
  uint64_t sent;  /* bytes that this rank gave to others */
} mrt_communicator_info;
/* Communicators of `size` ranks that are threads of this process, each with a
 * context of its own: out[rank].  `timeout`: seconds; 0: 30. */
MRT_API mrt_status mrt_communicator_threads(mrt_context *ctx, int size,
                                            double timeout,
                                            mrt_communicator **out);
/* Where ranks that are processes meet: rank 0 listens there. */
typedef struct mrt_rendezvous {
  int rank, size;
  const char *address; /* a name or a number */
  int port;
  const char *token; /* what only the ranks of this run know; below 64 bytes */
  double timeout;    /* seconds that a rank is waited for */
  /* "shared": all are on one host; "sockets"; "mpi": by MPI alone, the address
   * is not looked at; NULL or "": shared memory on one host, else sockets. */
  const char *transport;
  const char *algorithm; /* of sockets and mpi: "pairwise" (or NULL), "ring" */
} mrt_rendezvous;
/* Meet the others, and share memory or exchange messages with them: a
 * collective.  Alone nothing is opened.  EVALUE: the address or port cannot be
 * had, no such transport or algorithm; ERANK: somebody did not come, does not
 * fit (another size, build, transport, a rank twice): told to all. */
MRT_API mrt_status mrt_communicator_join(mrt_context *ctx,
                                         const mrt_rendezvous *meeting,
                                         int *number);
/* The MPI that ranks may exchange messages by, "Open MPI v4.1.4"; it is loaded,
 * not started.  EVALUE: there is none, and why. */
MRT_API mrt_status mrt_mpi_library(mrt_context *ctx, const char **name);
/* EVALUE: no such number; ESTATE: it is closed. */
MRT_API mrt_status mrt_communicator_get(mrt_context *ctx, int number,
                                        mrt_communicator_info *info);
/* All ranks call it: those of one color form a new communicator, in ascending
 * order of key, then rank.  A negative color: in none, *part is -1. */
MRT_API mrt_status mrt_communicator_split(mrt_context *ctx, int number,
                                          int color, int key, int *part);
/* "broadcast", "send", "recv" of bytes, or a "barrier", now.  `peer` is the root
 * or the other rank. */
MRT_API mrt_status mrt_communicator_bytes(mrt_context *ctx, int number,
                                          const char *kind, int peer,
                                          void *data, size_t nbytes);
/* All ranks fail from now on, with this text and our rank. */
MRT_API mrt_status mrt_communicator_abort(mrt_context *ctx, int number,
                                          const char *why);

/* Plans that need it fail from now on (ESTATE). */
MRT_API mrt_status mrt_communicator_close(mrt_context *ctx, int number);
/* Compute the collectives applied outside traces since the last time, gradients'
 * included, in the order of the program; nothing inside a trace.  ERANK: another
 * rank has died, stalled or called something else.  After ENOMEM they can be
 * tried again, or given up. */
MRT_API mrt_status mrt_communicate(mrt_context *ctx);
MRT_API void mrt_communicate_cancel(mrt_context *ctx);

/* Variables in pieces on the ranks.  A bucket is a vector variable; all ranks'
 * buckets, one behind the other, hold the elements of its parts. */

/* What a variable begins as, as a new handle; itself, once it has begun. */
MRT_API mrt_status mrt_variable_initial_value(mrt_tensor *variable,
                                              mrt_tensor **out);
/* The elements of `part` are from now on those of `bucket` from element `offset`
 * on, counted over the ranks of communicator `comm`; its own memory is given
 * back, after pending tensors that read it have been computed.  Plans that read
 * it gather the bucket, so all ranks must; with `reshard_after_forward` once more
 * for the backward pass.  Who looks at it gets a copy that stays until the bucket
 * is written.  Assigning it writes the bucket, in a trace only what is read from
 * there on: all ranks assign the same elements.  A bucket's parts must not
 * overlap.
 * On failure nothing has changed.  ESTATE inside a trace, or it has a bucket;
 * EDTYPE, ESHAPE: it does not fit. */
MRT_API mrt_status mrt_variable_shard(mrt_context *ctx, mrt_tensor *part,
                                      mrt_tensor *bucket, int comm,
                                      int64_t offset,
                                      bool reshard_after_forward);
/* The same for plans that nobody runs: the elements stay where they are, and what
 * is pending on them.  All who have called it undo that before anything else is
 * done with the variables. */
MRT_API mrt_status mrt_variable_suppose_shard(mrt_context *ctx,
                                              mrt_tensor *part,
                                              mrt_tensor *bucket, int comm,
                                              int64_t offset,
                                              bool reshard_after_forward);
/* The elements of `part`, read as [outer, ranks, inner], are from now on those
 * of the ranks' pieces, of which this one has [:, rank, :] as the vector `piece`.
 * Plans compute what they can by pieces, with no rank that has all of `part`.
 * `own_rows`: these ranks have rows of their own, as those that share experts;
 * else they compute the same together.  ESHAPE: there is no dimension in which
 * runs of equal pieces begin after `outer` elements, or `piece` is none of them.
 * As of mrt_variable_shard otherwise. */
MRT_API mrt_status mrt_variable_cut(mrt_context *ctx, mrt_tensor *part,
                                    mrt_tensor *piece, int comm, int64_t outer,
                                    bool own_rows);
/* In a trace: how weights of a loss are best cut over so many ranks, outer[i] of
 * mrt_variable_cut; 0: every rank has all of it.  `sequence`: sums over the ranks
 * are taken in pieces.  ESTATE: there is no trace; EVALUE: no ranks. */
MRT_API mrt_status mrt_weights_to_cut(mrt_context *ctx, mrt_tensor *loss,
                                      mrt_tensor *const *weights, int count,
                                      int ranks, bool sequence, int64_t *outer);
/* In a trace: cut[i], is weight i of a loss a stack of matrices, one for each
 * expert (of grouped_matmul), that so many ranks can share?  Its errors are those
 * of mrt_weights_to_cut. */
MRT_API mrt_status mrt_experts_to_cut(mrt_context *ctx, mrt_tensor *loss,
                                      mrt_tensor *const *weights, int count,
                                      int ranks, bool *cut);
/* Undo what was supposed of a variable; nothing where nothing was. */
MRT_API void mrt_variable_unsuppose(mrt_tensor *part);

#ifdef __cplusplus
}
#endif
#endif
