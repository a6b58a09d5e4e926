/* origin.h -- where in the user's program things are made
 *
 * Whoever calls the library says where from (a file, a line, a module of a
 * network) and which layer and region follows; what is made next carries that as its
 * origin, for errors, reports and policies.
 *
 * Invariants
 *   - names of files and modules are interned and live as long as the context:
 *     an origin holds pointers, and equal names are equal pointers;
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
  const char *file;   /* interned */
  const char *module; /* "blocks.3.fc", interned; NULL: in none */
  int line;
  bool backward; /* built by mrt_grad from that line */
  int layer;     /* of the network, 1, 2, ..; 0: in none */
  int region;    /* to be recomputed as a whole, 1, 2, ..; 0: in none */
} mrt_origin;

enum { MRT_NAME_LISTS = 256 };

/* Of a context. */
typedef struct mrt_origins {
  mrt_origin now;  /* of what is made next */
  mrt_arena names; /* interned, by their hash */
  struct mrt_name {
    struct mrt_name *next;
    char *text;
  } * by_hash[MRT_NAME_LISTS];
  int layers, regions; /* begun so far in this trace */
  int *outer_region;   /* by region, less one: that around it, or 0 */
  int region_room;
} mrt_origins;

void mrt_origins_init(mrt_origins *o, const mrt_allocator *allocator);
/* What is open, after an error too, ends; counting begins anew. */
void mrt_origins_close(mrt_origins *o);
/* What follows is made here; module may be NULL. */
void mrt_origins_at(mrt_origins *o, const char *file, int line,
                    const char *module);
/* One more region; returns that around it.  Without memory to note it, what
 * follows belongs to the region around it. */
int mrt_region_open(mrt_origins *o);
/* Does region `inner` lie in region `outer`, or is it that? */
bool mrt_region_inside(const mrt_origins *o, int inner, int outer);
/* The region around one, or 0. */
int mrt_region_around(const mrt_origins *o, int region);

#endif
