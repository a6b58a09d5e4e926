/* pack_search.h -- the state of an exact search, shared by its two files
 *
 *   pack_state.c   placing an item, what follows from it, taking it back
 *   pack_search.c  which item goes next; orders, heights and limits
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_PLAN_PACK_SEARCH_H
#define MRT_PLAN_PACK_SEARCH_H

#include "plan/pack.h"

#define MRT_PLACED INT64_MAX /* the `low` of an item that has its place */

typedef struct mrt_search_change { /* a number to put back */
  int64_t *at, old;
} mrt_search_change;

typedef struct mrt_search_move {
  int item, changes; /* and how many changes there were before it */
} mrt_search_move;

typedef struct mrt_pack_state {
  mrt_packing *p;
  int64_t cap;           /* no item may reach above */
  int64_t *low;          /* of an item: the lowest offset left to it */
  int64_t *floor;        /* of a section: nothing unplaced fits below */
  int64_t *total;        /* of a section: unplaced bytes */
  int *crossing;         /* unplaced items across the end of a section */
  int *meets_at, *meets; /* of item i: meets[meets_at[i] .. meets_at[i+1]) */
  int *holds_at, *holds; /* of a section: the items alive in it */
  int *twin;             /* an equal item of lower number, or -1 */
  mrt_search_move *moves;
  int move_count;
  mrt_search_change *changes;
  int change_count, change_room;
  int *touched, *touched_in, touched_count, turn; /* sections to infer */
  bool out_of_memory;
  int64_t work; /* what is left */
} mrt_pack_state;

mrt_status mrt_state_new(mrt_packing *p, mrt_pack_state *s);
/* Nothing placed, under a new cap. */
void mrt_state_reset(mrt_pack_state *s, int64_t cap);
/* Place the item at its lowest offset.  False if then some section cannot
 * stay under the cap; undo it also then.  *hat: does anything go above? */
bool mrt_state_place(mrt_pack_state *s, int item, bool *hat);
/* Take moves back until `count` are left. */
void mrt_state_undo(mrt_pack_state *s, int count);

#endif
