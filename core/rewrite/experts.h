/* experts.h -- rows that go to the ranks which have their matrices
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_REWRITE_EXPERTS_H
#define MRT_REWRITE_EXPERTS_H

#include "rewrite/partition_walk.h"

/* Which rows go where, of a step's counts; all but `of` are made of these by
 * nodes.  R rows, n ranks with G experts each, C places for the rows that one
 * rank gives another. */
typedef struct mrt_route {
  struct mrt_route *next;
  const mrt_value *of; /* the counts, as the program has them */
  int64_t rows, room;  /* R, C */
  mrt_value *take;     /* i64[n C]: which row goes into each place */
  mrt_value *order;    /* i64[n C]: the places that came, by expert */
  mrt_value *places;   /* i64[n C]: its inverse */
  mrt_value *own;      /* i64[G]: how many rows each expert here gets */
  mrt_value *home;     /* i64[R]: the place of each row */
  mrt_value *kept;     /* bool[R]: does it have one; NULL: all do */
} mrt_route;

/* A view or cast of one value. */
bool mrt_shows_experts(const mrt_node *n);
/* Fill the lane of a node all of whose inputs, and the output, are in pieces along
 * their first dimension; false: there is none. */
bool mrt_by_experts(const mrt_node *n, int64_t ranks, mrt_arena *scratch,
                    mrt_lane *lane);

/* Fill a route with what `counts` say.  Rows beyond `room` for one rank have no
 * place.  `sure`: they are no negative numbers, nor more than there are rows. */
mrt_status mrt_route_make(mrt_partition *p, mrt_value *counts, bool sure,
                          mrt_route *route);
/* x[R, ...] of this rank: as [n C, ...], what came to its experts, by expert;
 * behind the counts' rows others stand. */
mrt_status mrt_route_send(mrt_partition *p, const mrt_route *route,
                          mrt_value *x, mrt_value **out);
/* What was made of those, where its rows were; 0 of rows without a place. */
mrt_status mrt_route_return(mrt_partition *p, const mrt_route *route,
                            mrt_value *y, mrt_value **out);

/* By id: is a value the same on all ranks of `comm`, as far as the graph says?
 * alike[value_count]. */
void mrt_find_alike(const mrt_graph *g, int64_t comm, bool *alike);

#endif
