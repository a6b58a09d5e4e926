/* pack.h -- offsets for pieces of memory with known lifetimes
 *
 * The problem: buffers with a size and a lifetime; find offsets so that no two
 * that live at the same time overlap, with the lowest top.  It is NP-complete;
 * the largest sum of live sizes (the bound) is often reached all the same.
 *
 *   pack.c                the problem set up, the stages in turn, the answer
 *   first_fit.c           first fit of all buffers in a given order
 *   first_fit_by_start.c  the same in ascending order of birth
 *   portfolio.c           orders worth a first fit
 *   exact.c               the exact search: heights and limits; in two ways:
 *   exact_skyline.c       where there is least choice, and
 *   exact_bottom_up.c     in ascending order of offset, over
 *   exact_state.c         what follows from placing a buffer
 *   peak_first.c          large problems: the peak by itself, then the rest
 *
 * Time is cut into sections: the maximal sets of buffers that live together.
 * Two buffers meet if and only if they share a section.  Every stage is limited
 * by counted work and never by a clock, and buffers are numbered by what they
 * are and not by where they stood, so the same problem has the same answer
 * everywhere.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_SOLVE_PACK_PACK_H
#define MRT_SOLVE_PACK_PACK_H

#include "base/memory.h"
#include "mrt/solve.h"

enum {
  MRT_PACK_EFFORT = 8,  /* the most */
  MRT_PACK_WORTH = -1,  /* as long as what may be gained is worth it */
  MRT_PACK_SMALL = 2000 /* buffers for the exact search */
};

typedef struct mrt_packed_buffer {
  int64_t size, align;
  int64_t offset;  /* of the stage at work; -1: not placed */
  int64_t best;    /* of the lowest packing known */
  int first, last; /* sections, both included */
  double duration; /* in the caller's time */
  int64_t load;    /* the largest live sum in its sections */
} mrt_packed_buffer;

typedef struct mrt_packing {
  mrt_arena *arena;
  mrt_packed_buffer *buffers;
  int n;
  int sections;
  int64_t *live;  /* live bytes of each section */
  int64_t bound;  /* the largest of them, at least */
  int64_t height; /* of the lowest packing known; INT64_MAX: none */
  int64_t goal;   /* the lowest height not proven to be impossible */
  int64_t enough; /* a packing of this height ends all */
  bool limited;   /* a capacity was given: above it, height matters less */
  uint64_t nodes; /* of the search */
  /* How long the exact search may take: 1 .. MRT_PACK_EFFORT, or
   * MRT_PACK_WORTH; 0: orders only, and few for a large problem. */
  int effort;
  int64_t fit_work; /* what first fit may still use */
  struct mrt_pack_fit *fit;
  struct mrt_pack_by_start *births;
} mrt_packing;

/* A buffer and what ranks it: the order is descending in the keys. */
typedef struct mrt_pack_order {
  double key[4];
  int buffer;
} mrt_pack_order;

static inline int64_t mrt_pack_align(const mrt_packed_buffer *p,
                                     int64_t offset) {
  if (p->align == 1) return offset;
  int64_t over = offset % p->align;
  return over ? offset + p->align - over : offset;
}

/* Keep the offsets of the stage at work, which reach to `height`. */
void mrt_pack_keep(mrt_packing *p, int64_t height);

/* ---- first_fit.c --------------------------------------------------------- */

/* How first fit looks for its gap. */
typedef enum mrt_pack_fit_rule {
  MRT_PACK_FIRST_FIT,
  MRT_PACK_BEST_FIT
} mrt_pack_fit_rule;

mrt_status mrt_pack_fit_new(mrt_packing *p);
/* Place all buffers in this order and return the height; stop, and return
 * INT64_MAX, when it would reach `limit` or *work is used up. */
int64_t mrt_pack_fit_run(mrt_packing *p, const mrt_pack_order *order,
                         mrt_pack_fit_rule rule, int64_t limit, int64_t *work);

/* ---- first_fit_by_start.c ------------------------------------------------ */

typedef struct mrt_pack_by_start mrt_pack_by_start;
mrt_status mrt_pack_by_start_new(mrt_packing *p);
/* Do births rise in this order, time running forwards or backwards?  If so,
 * mrt_pack_by_start_run is for this way. */
bool mrt_pack_by_start_rise(mrt_packing *p, const mrt_pack_order *order,
                            bool backwards);
/* First fit in such an order; otherwise as mrt_pack_fit_run. */
int64_t mrt_pack_by_start_run(mrt_packing *p, const mrt_pack_order *order,
                              int64_t limit);

/* ---- stages -------------------------------------------------------------- */

/* Those with before[i] >= 0 go first, in ascending order of it; may be NULL. */
mrt_status mrt_pack_portfolio(mrt_packing *p, const double *before);
mrt_status mrt_pack_exact(mrt_packing *p);
mrt_status mrt_pack_peak_first(mrt_packing *p);

/* Fill the offsets of `buffers`; `arena` holds all that is needed meanwhile.
 * EVALUE for a buffer that ends before it begins, or sizes past 62 bits. */
mrt_status mrt_pack_in(mrt_arena *arena, mrt_error *error,
                       mrt_pack_buffer *buffers, int n, size_t capacity,
                       int effort, mrt_pack_result *result);

#endif
