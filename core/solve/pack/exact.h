/* exact.h -- the exact search, shared by its files
 *
 *   exact_state.c      placing a buffer, what follows from it, taking it back
 *   exact_skyline.c    a search that goes on where there is least choice
 *   exact_bottom_up.c  a search in ascending order of offset
 *   exact.c            heights and limits
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_SOLVE_PACK_EXACT_H
#define MRT_SOLVE_PACK_EXACT_H

#include "solve/pack/pack.h"

#define MRT_PACK_PLACED INT64_MAX /* the `low` of a buffer that has its place */

typedef struct mrt_pack_change { /* a number to put back */
  int64_t *at, old;
} mrt_pack_change;

typedef struct mrt_pack_state {
  mrt_packing *p;
  int64_t cap; /* no buffer may reach above */
  /* of a buffer */
  int64_t *low;     /* the lowest offset left to it */
  int64_t *support; /* and by the buffers placed below it alone */
  int64_t *size;
  uint64_t *name;        /* a random number */
  int *meets_at, *meets; /* of buffer i: meets[meets_at[i] .. meets_at[i+1]) */
  /* of a section */
  int64_t *floor; /* the least low of its buffers; MRT_PACK_PLACED: none left */
  int64_t *lowest;       /* how many buffers have it */
  int64_t *next;         /* the least low above it */
  int64_t *total;        /* unplaced bytes */
  int64_t *unplaced;     /* buffers */
  int64_t *crossing;     /* unplaced buffers across its end */
  int64_t *names;        /* of the unplaced buffers born here, exclusive-or */
  int *begins_at;        /* its first buffer, buffers being numbered by birth */
  int *holds_at, *holds; /* the buffers alive in it: those placed, the last
                            one last; the others by falling low when last
                            looked at */
  double *failures;      /* how often it was what failed, fading */
  mrt_pack_change *changes;
  int change_count, change_room;
  int *touched, touched_count;
  int64_t *touched_in, turn;
  bool out_of_memory;
  bool hat;     /* does anything unplaced meet what was placed last? */
  int64_t work; /* what is left */
} mrt_pack_state;

mrt_status mrt_pack_state_new(mrt_packing *p, mrt_pack_state *s);
/* Nothing placed, under a new cap.  False if that cannot be. */
bool mrt_pack_state_reset(mrt_pack_state *s, int64_t cap);
/* Place the buffer at its lowest offset.  False if then some section cannot
 * stay under the cap; undo it also then. */
bool mrt_pack_state_place(mrt_pack_state *s, int buffer);
/* Nothing in this section begins below `level`.  False as above. */
bool mrt_pack_state_lift(mrt_pack_state *s, int section, int64_t level);
/* Take changes back until `count` are left. */
void mrt_pack_state_undo(mrt_pack_state *s, int count);

/* ---- the searches -------------------------------------------------------- */

typedef enum mrt_pack_found {
  MRT_PACK_NONE,
  MRT_PACK_FOUND,
  MRT_PACK_STOPPED
} mrt_pack_found;

typedef struct mrt_pack_exact_search {
  mrt_pack_state state;
  int64_t left;    /* work for all runs together */
  int64_t unit;    /* of a short run */
  uint64_t runs;   /* so far */
  bool descending; /* between the bound and what is known */
  int *pool;       /* lists of buffers, nested */
  int pool_used, pool_room;
  /* valleys */
  int valleys;      /* runs so far */
  double *rank;     /* of a buffer: higher ones are tried first */
  uint64_t *failed; /* states, at their hash */
  int depth;
  /* rising */
  int rises;           /* runs so far */
  int lucky;           /* the order that last found a packing */
  const char *letters; /* of the order that ranks buffers */
  int *covers;         /* of a section: buffers that begin or end to cover it */
  mrt_pack_order *order;
} mrt_pack_exact_search;

enum { MRT_PACK_REMEMBERED = 1 << 16 };

/* From a state just reset, one search of the whole with the work it has. */
mrt_pack_found mrt_pack_skyline(mrt_pack_exact_search *s);
mrt_pack_found mrt_pack_bottom_up(mrt_pack_exact_search *s);

static inline bool mrt_pack_equal(const mrt_packed_buffer *a,
                                  const mrt_packed_buffer *b) {
  return a->size == b->size && a->align == b->align && a->first == b->first &&
         a->last == b->last;
}

static inline uint64_t mrt_pack_mix(uint64_t x) {
  x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 29) * 0x94d049bb133111ebu;
  return x ^ x >> 32;
}

#endif
