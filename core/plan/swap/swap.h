/* swap.h -- making the nodes that copy values between tiers
 *
 * A copy is two nodes (op/swap.c): one starts it, one waits for its end.  What
 * stands between them runs meanwhile.  A pass puts them into the executing
 * order, after the order pass, with mrt_plan_insert:
 *
 *     x     ...  last reader of x,  out.start, ..., out.end
 *     swapped                       from out.start to the last in.end
 *     again                         in.start, ..., in.end, its readers
 *
 * x lives until out.end, `again` from in.start: lifetimes follow the edges.
 * in.start comes after out.end, and readers of `again` after in.end; check.c
 * proves both.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_PLAN_SWAP_SWAP_H
#define MRT_PLAN_SWAP_SWAP_H

#include "plan/planner.h"

typedef struct mrt_copying {
  mrt_node *start, *end;
  mrt_value *value; /* the new value, on the other side */
} mrt_copying;

/* Nodes that copy `v`, which owns its storage, to the swap tier. */
mrt_status mrt_swap_out(mrt_graph *g, mrt_value *v, mrt_copying *c);
/* Nodes that copy `swapped`, the value of a copy out, to the arena; as often as
 * it is wanted. */
mrt_status mrt_swap_in(mrt_graph *g, mrt_value *swapped, mrt_copying *c);
/* Fill p->staged for the variables whose leaves are swapped, in the order as it
 * is. */
mrt_status mrt_swap_staged(mrt_planner *p);
/* May the host update what is swapped, where it lies? */
bool mrt_may_update_in_tier(const mrt_planner *p);
/* It does from now on, where the candidate or the script says so. */
mrt_status mrt_update_in_tier(mrt_planner *p, mrt_arena *arena);
/* A value that is swapped, to be given a tier. */
typedef struct mrt_tenant {
  mrt_value *home;
  int first, last; /* steps in which an activation may be behind the arena */
  int outs, ins;   /* copies in a run */
  double beside;   /* seconds of steps that these may hide behind */
  double gain;     /* for mrt_swap_assign */
} mrt_tenant;
/* Fill home->tier of the list, which is put in another order. */
mrt_status mrt_swap_assign(mrt_plan *plan, mrt_arena *arena, mrt_tenant *list,
                           int count);
/* Bytes that the tier holds; 0: nobody knows. */
size_t mrt_swap_capacity(const mrt_plan *plan, int tier);
/* `v` finds no room there, nor in a slower one. */
mrt_status mrt_swap_full(mrt_plan *plan, const mrt_value *v, int tier);
/* What to read instead of `v`, which shows the storage of another value, once
 * the same bytes lie at `base`: `base`, or the same view of it. */
mrt_status mrt_value_over(mrt_graph *g, mrt_value *v, mrt_value *base,
                          mrt_value **out);

#endif
