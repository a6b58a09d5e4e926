/* exact.h -- the exact search, shared by its files
 *
 *   exact_state.c   placing an item, what follows from it, taking it back
 *   exact_skyline.c  a search that goes on where there is least choice
 *   exact_bottom_up.c  a search by rising offset
 *   exact.c  heights and limits
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_SOLVE_PACK_EXACT_H
#define MRT_SOLVE_PACK_EXACT_H

#include "solve/pack/pack.h"

#define MRT_PLACED INT64_MAX /* the `low` of an item that has its place */

typedef struct mrt_search_change { /* a number to put back */
  int64_t *at, old;
} mrt_search_change;

typedef struct mrt_pack_state {
  mrt_packing *p;
  int64_t cap; /* no item may reach above */
  /* of an item */
  int64_t *low;     /* the lowest offset left to it */
  int64_t *support; /* and by the items placed below it alone */
  int64_t *size;
  uint64_t *name;        /* a random number */
  int *meets_at, *meets; /* of item i: meets[meets_at[i] .. meets_at[i+1]) */
  /* of a section */
  int64_t *floor;        /* the least low of its items; MRT_PLACED: none left */
  int64_t *lowest;       /* how many items have it */
  int64_t *next;         /* the least low above it */
  int64_t *total;        /* unplaced bytes */
  int64_t *unplaced;     /* items */
  int64_t *crossing;     /* unplaced items across its end */
  int64_t *names;        /* of the unplaced items born here, exclusive-or */
  int *begins_at;        /* its first item, items being numbered by birth */
  int *holds_at, *holds; /* the items alive in it: those placed, the last
                            one last; the others by falling low when last
                            looked at */
  double *failures;      /* how often it was what failed, fading */
  mrt_search_change *changes;
  int change_count, change_room;
  int *touched, touched_count;
  int64_t *touched_in, turn;
  bool out_of_memory;
  bool hat;     /* does anything unplaced meet what was placed last? */
  int64_t work; /* what is left */
} mrt_pack_state;

mrt_status mrt_state_new(mrt_packing *p, mrt_pack_state *s);
/* Nothing placed, under a new cap.  False if that cannot be. */
bool mrt_state_reset(mrt_pack_state *s, int64_t cap);
/* Place the item at its lowest offset.  False if then some section cannot
 * stay under the cap; undo it also then. */
bool mrt_state_place(mrt_pack_state *s, int item);
/* Nothing in this section begins below `level`.  False as above. */
bool mrt_state_lift(mrt_pack_state *s, int section, int64_t level);
/* Take changes back until `count` are left. */
void mrt_state_undo(mrt_pack_state *s, int count);

/* ---- the searches -------------------------------------------------------- */

typedef enum mrt_found { MRT_NONE, MRT_FOUND, MRT_STOPPED } mrt_found;

typedef struct mrt_searching {
  mrt_pack_state state;
  int64_t left;    /* work for all runs together */
  int64_t unit;    /* of a short run */
  uint64_t runs;   /* so far */
  bool descending; /* between the bound and what is known */
  int *pool;       /* lists of items, nested */
  int pool_used, pool_room;
  /* valleys */
  int valleys;      /* runs so far */
  double *rank;     /* of an item: higher ones are tried first */
  uint64_t *failed; /* states, at their hash */
  int depth;
  /* rising */
  int rises;           /* runs so far */
  int lucky;           /* the order that last found a packing */
  const char *letters; /* of the order that ranks items */
  int *covers;         /* of a section: items that begin or end to cover it */
  mrt_pack_order *order;
} mrt_searching;

enum { MRT_SEARCH_REMEMBERED = 1 << 16 };

/* From a state just reset, one search of the whole with the work it has. */
mrt_found mrt_search_valleys(mrt_searching *s);
mrt_found mrt_search_rising(mrt_searching *s);

static inline bool mrt_pack_equal(const mrt_packed *a, const mrt_packed *b) {
  return a->size == b->size && a->align == b->align && a->first == b->first &&
         a->last == b->last;
}

static inline uint64_t mrt_search_mix(uint64_t x) {
  x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 29) * 0x94d049bb133111ebu;
  return x ^ x >> 32;
}

#endif
