/* fp8_scale.c -- products of numbers scaled to fit 8 bits
 *
 *   q      = x s rounded to f8, s = largest f8 / max |x|, of this very tensor;
 *            1 where max |x| is 0 or not finite, at most FLT_MAX; or as the
 *            program found it of earlier steps (fp8_delayed.c)
 *   a @ b  = (qa @ qb) / sa / sb, summed in f32; what is added comes after;
 *            nowhere finite where a number of a or b is not
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
#include "rewrite/precision.h"

#include <float.h>
#include <math.h>
#include <string.h>

static mrt_value *scalar(mrt_making *b, double value) {
  mrt_full_options o = { .value = value, .dtype = MRT_f32 };
  return mrt_narrow_make(b, MRT_OP_full, &o, mrt_type_scalar(MRT_f32), 0, NULL);
}

/* A scalar seen in the shape of `like`. */
static mrt_value *spread(mrt_making *b, mrt_value *x, const mrt_type *like) {
  mrt_shape_options o = { .shape = { .count = like->rank } };
  memcpy(o.shape.at, like->dims, sizeof o.shape.at);
  mrt_type t = *like;
  t.dtype = MRT_f32;
  return like->rank ? MRT_MAKE(b, expand, &o, t, x) : x;
}

static mrt_value *largest(mrt_making *b, mrt_value *x) {
  mrt_type real = mrt_type_scalar(MRT_f32);
  mrt_reduce_options all = { .dim = { .count = x->type.rank } };
  for (int d = 0; d < x->type.rank; d++) all.dim.at[d] = d;
  mrt_value *high = MRT_MAKE(b, amax, &all, real, x);
  mrt_value *low = MRT_MAKE(b, amin, &all, real, x);
  return MRT_MAKE(b, maximum, NULL, real, high,
                  MRT_MAKE(b, neg, NULL, real, low));
}

static mrt_value *scale_of(mrt_making *b, mrt_value *most, mrt_dtype dtype) {
  mrt_type real = mrt_type_scalar(MRT_f32), truth = mrt_type_scalar(MRT_bool);
  mrt_value *some = MRT_MAKE(b, gt, NULL, truth, most, scalar(b, 0));
  mrt_value *finite = MRT_MAKE(b, lt, NULL, truth, most, scalar(b, INFINITY));
  mrt_value *usable = MRT_MAKE(b, logical_and, NULL, truth, some, finite);
  mrt_value *room = scalar(b, mrt_dtypes[dtype].largest);
  mrt_value *fits = MRT_MAKE(b, where, NULL, real, usable, most, room);
  mrt_value *scale = MRT_MAKE(b, div, NULL, real, room, fits);
  return MRT_MAKE(b, minimum, NULL, real, scale, scalar(b, FLT_MAX));
}

/* `inverse`, or what is not finite itself: f8 would saturate. */
static mrt_value *shown(mrt_making *b, mrt_value *most, mrt_value *inverse) {
  mrt_type real = mrt_type_scalar(MRT_f32), truth = mrt_type_scalar(MRT_bool);
  mrt_value *finite = MRT_MAKE(b, lt, NULL, truth, most, scalar(b, INFINITY));
  return MRT_MAKE(b, where, NULL, real, finite, inverse, most);
}

/* `v` in f32, whatever is stored. */
static mrt_value *widened(mrt_making *b, mrt_value *v) {
  mrt_cast_options up = { .dtype = MRT_f32 };
  mrt_value *from = mrt_narrow_source(b->w, v);
  mrt_type wide = v->type;
  wide.dtype = MRT_f32;
  if (!from) from = v;
  return from->type.dtype == MRT_f32 ? from
                                     : MRT_MAKE(b, cast, &up, wide, from);
}

static mrt_status scale_anew(mrt_narrowing *w, mrt_value *v, mrt_dtype dtype,
                             mrt_scaled *s) {
  mrt_making b = { .w = w, .origin = v->origin };
  mrt_type wide = v->type, narrow = v->type, real = mrt_type_scalar(MRT_f32);
  mrt_cast_options down = { .dtype = dtype };
  wide.dtype = MRT_f32, narrow.dtype = dtype;
  mrt_value *most = largest(&b, widened(&b, v)), *scale;
  if (w->rewrite->memo->delayed) {
    MRT_TRY(mrt_narrow_site(&b, v, dtype, most, &scale, &s->inverse));
  } else {
    scale = scale_of(&b, most, dtype);
    s->inverse = MRT_MAKE(&b, reciprocal, NULL, real, scale);
  }
  s->inverse = shown(&b, most, s->inverse);
  mrt_value *x = widened(&b, v); /* anew: not kept meanwhile */
  x = MRT_MAKE(&b, mul, NULL, wide, x, spread(&b, scale, &wide));
  s->value = MRT_MAKE(&b, cast, &down, narrow, x);
  if (s->value) s->value->name = v->name;
  return b.status;
}

/* `v` scaled to fit `dtype`. */
static mrt_status scaled(mrt_narrowing *w, mrt_value *v, mrt_dtype dtype,
                         mrt_scaled *out) {
  mrt_scaled anew = { NULL, NULL };
  bool old = v->id < w->values; /* or made by the pass, for a cast */
  mrt_scaled *memo =
      old ? &w->scaled[(size_t)v->id * MRT_DTYPE_COUNT + dtype] : &anew;
  bool view = old && v->node && mrt_node_is_view(v->node) && !w->source[v->id];
  if (!memo->value && view) {
    mrt_scaled in;
    mrt_node *n;
    MRT_TRY(scaled(w, v->node->in[0], dtype, &in));
    MRT_TRY(mrt_narrow_view(w, v->node, in.value, &n));
    for (int k = 0; k < n->nout; k++)
      w->scaled[(size_t)v->node->out[k]->id * MRT_DTYPE_COUNT + dtype] =
          (mrt_scaled){ n->out[k], in.inverse };
  } else if (!memo->value) {
    MRT_TRY(scale_anew(w, v, dtype, memo));
  }
  return *out = *memo, MRT_OK;
}

static bool is_gradient(const mrt_value *v) {
  const mrt_node *maker = mrt_value_root((mrt_value *)v)->node;
  return maker && maker->origin.backward;
}

/* Products of its largest numbers must fit f32. */
static bool can_scale(mrt_dtype dtype) {
  return dtype < MRT_DTYPE_COUNT && mrt_is_narrow(dtype) &&
         mrt_dtypes[dtype].exponent < mrt_dtypes[MRT_f32].exponent;
}

/* sum by[0] by[1], the smaller first: in f32 wherever the result is. */
static mrt_value *unscaled(mrt_making *b, mrt_value *sum, mrt_value *const *by,
                           const mrt_type *t) {
  mrt_type real = mrt_type_scalar(MRT_f32);
  mrt_value *low = MRT_MAKE(b, minimum, NULL, real, by[0], by[1]);
  mrt_value *high = MRT_MAKE(b, maximum, NULL, real, by[0], by[1]);
  mrt_value *y = MRT_MAKE(b, mul, NULL, *t, sum, spread(b, low, t));
  return MRT_MAKE(b, mul, NULL, *t, y, spread(b, high, t));
}

/* Is it a product, to which something may be added, and nothing else? */
static bool is_sum(const mrt_op *op) {
  return op->product && (op->addend == 2 || (op->traits & MRT_PRODUCT));
}

mrt_status mrt_narrow_scaled(mrt_narrowing *w, mrt_node *n,
                             const mrt_computation *asked) {
  mrt_value *v = n->out[0], *in[2], *by[2];
  mrt_scaled s;
  if (!can_scale(asked->compute) || !can_scale(asked->gradient) ||
      v->type.dtype != MRT_f32 || n->nout != 1 || !is_sum(n->op) ||
      n->nin < 2 || (n->nin > 2 && (n->nin > 3 || n->op->addend != 2)))
    return mrt_fail(w->e, MRT_EDTYPE,
                    "%s (%s:%d) does not compute in scaled %s", n->op->name,
                    n->origin.file, n->origin.line,
                    mrt_dtype_name(asked->compute));
  for (int k = 0; k < 2; k++) {
    mrt_dtype dtype = is_gradient(n->in[k]) ? asked->gradient : asked->compute;
    MRT_TRY(scaled(w, n->in[k], dtype, &s));
    in[k] = s.value, by[k] = s.inverse;
  }
  mrt_making b = { .w = w, .origin = n->origin };
  mrt_value *sum;
  MRT_TRY(mrt_narrow_product(w, n, in, &sum));
  mrt_value *y = unscaled(&b, sum, by, &v->type);
  if (n->nin == 3) {
    mrt_value *bias;
    MRT_TRY(mrt_narrow_wide_input(w, n, 2, &bias));
    bias = widened(&b, bias);
    y = MRT_MAKE(&b, add, NULL, v->type, y, spread(&b, bias, &v->type));
  }
  MRT_TRY(b.status);
  return mrt_narrow_becomes(w, v, y, asked->output);
}
