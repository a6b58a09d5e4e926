/* partition_build.h -- nodes that follow one another, for forms
 *
 * The first failure sticks, and NULL is the result of what reads NULL.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_REWRITE_PARTITION_BUILD_H
#define MRT_REWRITE_PARTITION_BUILD_H

#include "op/cast.h"
#include "op/make.h"
#include "op/views.h"
#include "rewrite/partition_walk.h"

typedef struct building {
  mrt_partition *p;
  mrt_origin origin;
  mrt_status status;
} building;

static inline mrt_value *put(building *b, int op, const void *options, int nin,
                             mrt_value *const *in) {
  mrt_value *out = NULL;
  for (int i = 0; i < nin; i++)
    if (!in[i]) return NULL;
  if (!b->status)
    b->status = mrt_partition_put(b->p, op, options, nin, in, b->origin, &out);
  return b->status ? NULL : out;
}
#define PUT(b, op, options, ...)                                               \
  put(b, MRT_OP_##op, options,                                                 \
      (int)(sizeof((mrt_value *[]){ __VA_ARGS__ }) / sizeof(mrt_value *)),     \
      (mrt_value *[]){ __VA_ARGS__ })

static inline mrt_value *shaped(building *b, int op, mrt_value *x,
                                const mrt_type *like) {
  mrt_shape_options o = { .shape = { .count = like->rank } };
  for (int i = 0; i < like->rank; i++) o.shape.at[i] = like->dims[i];
  return put(b, op, &o, 1, &x);
}

static inline mrt_value *constant(building *b, double value,
                                  const mrt_type *like) {
  mrt_full_options o = { .value = value, .dtype = like->dtype };
  return shaped(b, MRT_OP_expand, put(b, MRT_OP_full, &o, 0, NULL), like);
}

static inline mrt_value *cast(building *b, mrt_value *x, mrt_dtype dtype) {
  mrt_cast_options o = { .dtype = dtype };
  return x && x->type.dtype == dtype ? x : PUT(b, cast, &o, x);
}

#endif
