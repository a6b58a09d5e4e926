/* mincut.h -- the cheapest way to part a source from a sink
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_SOLVE_RECOMPUTE_MINCUT_H
#define MRT_SOLVE_RECOMPUTE_MINCUT_H

#include "base/error.h"
#include "base/memory.h"

/* Node 0 is the source, node 1 the sink. */
typedef struct mrt_mincut {
  int nodes, edges, room;
  struct mrt_mincut_edge {
    int to, next;           /* next edge of the same tail, or -1 */
    int64_t left;           /* capacity not yet used */
  } * edge;                 /* edge e and e ^ 1 go opposite ways */
  int *first;               /* by node */
  int *level, *queue, *try; /* by node; level >= 0: on the source's side */
} mrt_mincut;

enum { MRT_MINCUT_SOURCE, MRT_MINCUT_SINK };
static const int64_t MRT_MINCUT_NEVER = INT64_C(1) << 60; /* is not cut */

/* Room for `nodes`; false when memory is out. */
bool mrt_mincut_new(mrt_mincut *c, mrt_arena *arena, int nodes);
/* An edge of this capacity; its number, or -1. */
int mrt_mincut_edge(mrt_mincut *c, mrt_arena *arena, int from, int to,
                    int64_t capacity);
/* Push as much as there is way for (Dinic 1970): O(nodes^2 edges), far less
 * here.  Afterwards level[v] >= 0 on the source's side of the least cut. */
void mrt_mincut_run(mrt_mincut *c);

#endif
