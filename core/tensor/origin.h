/* origin.h -- where in the user's program things are made
 *
 * Whoever calls the library says where from (a file, a line) and which layer
 * and region of a network follows; what is made next carries that as its
 * origin, for errors, reports and policies.
 *
 * Invariants
 *   - file names are interned and live as long as the context: an origin holds
 *     a pointer, and equal names are equal pointers;
 *   - layers and regions count from 1 within a trace, in the order in which
 *     they begin; an inner region has a larger number than the one around it;
 *   - gradients keep the origin of what they differentiate, with `backward`
 *     set.
 *
 * Written by the front end's calls (origin.c) and, around each rule, by
 * graph/grad.c; read where tensors and expressions are made (tensor.c), by
 * collectives and messages.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_TENSOR_ORIGIN_H
#define MRT_TENSOR_ORIGIN_H

#include "base/memory.h"

typedef struct mrt_origin {
  const char *file; /* interned */
  int line;
  bool backward; /* built by mrt_grad from that line */
  int layer;     /* of the network, 1, 2, ..; 0: in none */
  int region;    /* to be recomputed as a whole, 1, 2, ..; 0: in none */
} mrt_origin;

/* Of a context. */
typedef struct mrt_origins {
  mrt_origin now;  /* of what is made next */
  mrt_arena names; /* interned file names */
  struct mrt_file_name {
    struct mrt_file_name *next;
    char *text;
  } * files;
  int layers, regions; /* begun so far in this trace */
  int *outer_region;   /* by region, less one: that around it, or 0 */
  int region_room;
} mrt_origins;

void mrt_origins_init(mrt_origins *o, const mrt_allocator *allocator);
/* What is open, after an error too, ends; counting begins anew. */
void mrt_origins_close(mrt_origins *o);
/* What follows is made here. */
void mrt_origins_at(mrt_origins *o, const char *file, int line);
/* One more region; returns that around it.  Without memory to note it, what
 * follows belongs to the region around it. */
int mrt_region_open(mrt_origins *o);
/* Does region `inner` lie in region `outer`, or is it that? */
bool mrt_region_inside(const mrt_origins *o, int inner, int outer);
/* The region around one, or 0. */
int mrt_region_around(const mrt_origins *o, int region);

#endif
