/* dag.h -- a program to be ordered, in plain arrays
 *
 * Precedence between nodes, and the buffers they make and read: all that an
 * order must respect and all that it costs.  Nothing here knows of graphs.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_SOLVE_ORDER_DAG_H
#define MRT_SOLVE_ORDER_DAG_H

#include "base/error.h"
#include "base/memory.h"
#include "mrt/solve.h"

/* Nodes are numbered in program order; number `real`, where there is one, is
 * a barrier without memory: index checks come before it, updates after.
 * Buffers are the base values that live in the arena, numbered by maker. */
typedef struct mrt_dag {
  int real, nodes, buffers;
  mrt_lists before, after;  /* by node: direct predecessors, successors */
  mrt_lists reads, readers; /* node -> buffers, buffer -> nodes; each once */
  int *made;                /* node i makes buffers made[i] .. made[i + 1] */
  int *maker;               /* by buffer */
  int64_t *bytes;           /* by buffer, rounded */
  int64_t *scratch;         /* by node */
  int *take_start;          /* by node, into `take`; as lifetime.c tries them */
  mrt_take *take;
  bool *update;   /* by node */
  bool *backward; /* by node: of the backward pass */
} mrt_dag;

/* Live bytes over an order, or over a part of it. */
typedef struct mrt_live_profile {
  const mrt_dag *dag;
  int *order;           /* position -> node */
  int *last;            /* buffer -> last position that reads it; -1: none */
  int64_t *start, *use; /* by position: live before it, and during it */
  int64_t *tried;       /* of the last sweep, by position less `from`: use */
  int *left;            /* by buffer: scratch of sweeps, 0 between them */
} mrt_live_profile;

mrt_status mrt_live_profile_make(mrt_live_profile *p, const mrt_dag *dag,
                                 mrt_arena *arena);
/* Bytes in use while `node` runs, given `live` before and the reads still to
 * come of each buffer. */
int64_t mrt_dag_use(const mrt_dag *dag, int node, int64_t live, int *left);
/* The peak when positions [from, to] run `nodes`.  With `keep` that becomes
 * the order, and the profile is brought up to date. */
int64_t mrt_live_profile_sweep(mrt_live_profile *p, int from, int to,
                               const int *nodes, bool keep);

#endif
