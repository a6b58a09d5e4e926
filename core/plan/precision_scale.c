/* precision_scale.c -- products of numbers scaled to fit 8 bits
 *
 *   q      = x s rounded to f8, s = largest f8 / max |x|, of this very tensor;
 *            1 where max |x| is 0 or not finite
 *   a @ b  = (qa @ qb) / (sa sb), summed in f32; what is added comes after
 *   from   Micikevicius et al., "FP8 formats for deep learning",
 *          arXiv:2209.05433; scaling by the present maximum
 *
 * A value is scaled once for all who read it, views of it too.
 *
 * SPDX-License-Identifier: MIT */
#include "op/cast.h"
#include "op/make.h"
#include "op/reduce.h"
#include "op/views.h"
#include "plan/precision.h"

#include <math.h>
#include <string.h>

/* Nodes for one value; the first error sticks, and gives NULLs. */
typedef struct building {
  mrt_narrowing *w;
  mrt_origin origin;
  mrt_status status;
} building;

static mrt_value *make(building *b, int op, const void *options, mrt_type type,
                       int nin, mrt_value *const *in) {
  for (int k = 0; k < nin; k++)
    if (!in[k]) return NULL;
  if (b->status) return NULL;
  mrt_node *n = mrt_graph_node(b->w->g, mrt_ops[op], nin, in, options, 1, &type,
                               b->origin);
  b->status = n ? mrt_graph_append(b->w->g, n) : mrt_nomem(b->w->e);
  return b->status ? NULL : n->out[0];
}
#define MAKE(b, op, options, type, ...)                                        \
  make(b, MRT_OP_##op, options, type,                                          \
       (int)(sizeof((mrt_value *[]){ __VA_ARGS__ }) / sizeof(mrt_value *)),    \
       (mrt_value *[]){ __VA_ARGS__ })

static mrt_value *scalar(building *b, double value) {
  mrt_full_options o = { .value = value, .dtype = MRT_f32 };
  return make(b, MRT_OP_full, &o, mrt_type_scalar(MRT_f32), 0, NULL);
}

/* A scalar seen in the shape of `like`. */
static mrt_value *spread(building *b, mrt_value *x, const mrt_type *like) {
  mrt_shape_options o = { .shape = { .count = like->rank } };
  memcpy(o.shape.at, like->dims, sizeof o.shape.at);
  mrt_type t = *like;
  t.dtype = MRT_f32;
  return like->rank ? MAKE(b, expand, &o, t, x) : x;
}

static mrt_value *largest(building *b, mrt_value *x) {
  mrt_type real = mrt_type_scalar(MRT_f32);
  mrt_reduce_options all = { .dim = { .count = x->type.rank } };
  for (int d = 0; d < x->type.rank; d++) all.dim.at[d] = d;
  mrt_value *high = MAKE(b, amax, &all, real, x);
  mrt_value *low = MAKE(b, amin, &all, real, x);
  return MAKE(b, maximum, NULL, real, high, MAKE(b, neg, NULL, real, low));
}

static mrt_value *scale_of(building *b, mrt_value *x, mrt_dtype dtype) {
  mrt_type real = mrt_type_scalar(MRT_f32), truth = mrt_type_scalar(MRT_bool);
  mrt_value *most = largest(b, x);
  mrt_value *some = MAKE(b, gt, NULL, truth, most, scalar(b, 0));
  mrt_value *finite = MAKE(b, lt, NULL, truth, most, scalar(b, INFINITY));
  mrt_value *usable = MAKE(b, logical_and, NULL, truth, some, finite);
  mrt_value *room = scalar(b, mrt_dtypes[dtype].largest);
  mrt_value *scale = MAKE(b, div, NULL, real, room, most);
  return MAKE(b, where, NULL, real, usable, scale, scalar(b, 1));
}

static mrt_status scale_anew(mrt_narrowing *w, mrt_value *v, mrt_dtype dtype,
                             mrt_scaled *s) {
  building b = { .w = w, .origin = v->origin };
  mrt_value *source = mrt_narrow_source(w, v), *x = v;
  mrt_type wide = v->type, narrow = v->type;
  mrt_cast_options up = { .dtype = MRT_f32 }, down = { .dtype = dtype };
  narrow.dtype = dtype;
  if (source) x = MAKE(&b, cast, &up, wide, source);
  mrt_value *scale = scale_of(&b, x, dtype);
  if (source) x = MAKE(&b, cast, &up, wide, source); /* not kept meanwhile */
  x = MAKE(&b, mul, NULL, wide, x, spread(&b, scale, &wide));
  s->value = MAKE(&b, cast, &down, narrow, x);
  s->inverse = MAKE(&b, reciprocal, NULL, mrt_type_scalar(MRT_f32), scale);
  return b.status;
}

/* `v` scaled to fit `dtype`. */
static mrt_status scaled(mrt_narrowing *w, mrt_value *v, mrt_dtype dtype,
                         mrt_scaled *out) {
  mrt_scaled *known = &w->scaled[(size_t)v->id * MRT_DTYPE_COUNT + dtype];
  bool view = v->node && mrt_node_is_view(v->node) && !w->source[v->id];
  if (!known->value && view) {
    mrt_scaled in;
    mrt_node *n;
    MRT_TRY(scaled(w, v->node->in[0], dtype, &in));
    MRT_TRY(mrt_narrow_view(w, v->node, in.value, &n));
    for (int k = 0; k < n->nout; k++)
      w->scaled[(size_t)v->node->out[k]->id * MRT_DTYPE_COUNT + dtype] =
          (mrt_scaled){ n->out[k], in.inverse };
  } else if (!known->value) {
    MRT_TRY(scale_anew(w, v, dtype, known));
  }
  return *out = *known, MRT_OK;
}

static bool is_gradient(const mrt_value *v) {
  const mrt_node *maker = mrt_value_root((mrt_value *)v)->node;
  return maker && maker->origin.backward;
}

mrt_status mrt_narrow_scaled(mrt_narrowing *w, mrt_node *n,
                             const mrt_computation *asked) {
  mrt_value *v = n->out[0], *in[2], *by[2];
  mrt_scaled s;
  if (n->nout != 1 || !n->op->product || n->nin < 2 ||
      (n->nin > 2 && (n->nin > 3 || n->op->addend != 2)))
    return mrt_fail(w->e, MRT_EDTYPE,
                    "%s (%s:%d) does not compute in scaled %s", n->op->name,
                    n->origin.file, n->origin.line,
                    mrt_dtype_name(asked->compute));
  for (int k = 0; k < 2; k++) {
    mrt_dtype dtype = is_gradient(n->in[k]) ? asked->gradient : asked->compute;
    MRT_TRY(scaled(w, n->in[k], dtype, &s));
    in[k] = s.value, by[k] = s.inverse;
  }
  building b = { .w = w, .origin = n->origin };
  mrt_value *sum;
  MRT_TRY(mrt_narrow_product(w, n, in, &sum));
  mrt_value *unit = MAKE(&b, mul, NULL, mrt_type_scalar(MRT_f32), by[0], by[1]);
  mrt_value *y = MAKE(&b, mul, NULL, v->type, sum, spread(&b, unit, &v->type));
  if (n->nin == 3) {
    mrt_value *bias;
    MRT_TRY(mrt_narrow_wide_input(w, n, 2, &bias));
    y = MAKE(&b, add, NULL, v->type, y, spread(&b, bias, &v->type));
  }
  MRT_TRY(b.status);
  return mrt_narrow_becomes(w, v, y, asked->output);
}
