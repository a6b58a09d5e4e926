/* parts.c -- views of a part of a dimension, and of the whole
 *
 *   slice      every step-th of the positions first to last of a dimension,
 *              both included
 *   split      consecutive pieces of a dimension; the last may be shorter
 *   detach     x, where gradients stop
 *   custom     x, with a gradient that the caller computes
 *
 *   x      any shape and dtype
 *   cost   none: an offset and strides
 *   grad   slice   dx = dy among zeros
 *          split   dx = the dys one after the other
 *   fails  EVALUE  a dimension or position that is not there, or more pieces
 *                  than a node has outputs
 *
 * SPDX-License-Identifier: MIT */
#include "op/build.h"
#include "op/move.h"
#include "op/views.h"

#include <string.h>

static bool same_layout(mrt_view *v) {
  v->offset = 0;
  memcpy(v->strides, v->in_strides, (size_t)v->in->rank * sizeof *v->strides);
  return true;
}

/* ---- among zeros --------------------------------------------------------- */

static mrt_tensor *padded(mrt_build *b, mrt_tensor *x, int64_t dim,
                          int64_t before, int64_t after) {
  mrt_pad_options o = { dim, before, after };
  return before || after ? MRT_MAKE(b, pad, &o, x) : x;
}

mrt_tensor *mrt_spread(mrt_build *b, mrt_tensor *x, int64_t outer,
                       int64_t inner, int64_t first, int64_t step,
                       int64_t total) {
  int64_t lane = outer * inner;
  int64_t count = lane ? mrt_type_count(mrt_of(x)) / lane : 0;
  if (count <= 1) step = 1; /* nothing lies between */
  int64_t length = count * step, room = total - first;
  x = mrt_reshape_to(b, x, 4, (int64_t[]){ outer, count, 1, inner });
  x = padded(b, x, 2, 0, step - 1);
  x = mrt_reshape_to(b, x, 3, (int64_t[]){ outer, length, inner });
  if (length > room) {
    mrt_slice_options o = { .dim = 1, .last = room - 1, .step = 1 };
    x = MRT_MAKE(b, slice, &o, x);
    length = room;
  }
  return padded(b, x, 1, first, room - length);
}

/* ---- slice --------------------------------------------------------------- */

static const mrt_option slice_table[] = {
  MRT_OPTION(mrt_slice_options, dim, MRT_OPT_DIM, .required = true),
  MRT_OPTION(mrt_slice_options, first, MRT_OPT_INDEX, .preset = 0),
  MRT_OPTION(mrt_slice_options, last, MRT_OPT_INDEX, .preset = -1),
  MRT_OPTION(mrt_slice_options, step, MRT_OPT_INT, .preset = 1),
};

/* Positions in messages are the caller's: 1-based, or negative as given. */
static long long shown(int64_t i) { return i < 0 ? i : i + 1; }

static mrt_status slice_infer(mrt_infer *c) {
  mrt_slice_options *o = c->options;
  MRT_TRY(mrt_want_dim(c, &o->dim, c->in[0]->rank));
  int64_t n = c->in[0]->dims[o->dim];
  int64_t first = o->first < 0 ? o->first + n : o->first;
  int64_t last = o->last < 0 ? o->last + n : o->last;
  if (first < 0 || last >= n || first > last + 1)
    return mrt_refuse(c, MRT_EVALUE,
                      "%lld to %lld of dim %lld of %s, 1 to %lld wanted",
                      shown(o->first), shown(o->last), shown(o->dim),
                      mrt_show(c->in[0]).s, (long long)n);
  if (o->step < 1)
    return mrt_refuse(c, MRT_EVALUE, "step %lld, 1 or more wanted (see flip)",
                      (long long)o->step);
  o->first = first, o->last = last;
  c->out[0] = *c->in[0];
  c->out[0].dims[o->dim] = first > last ? 0 : (last - first) / o->step + 1;
  return MRT_OK;
}

static bool slice_view(mrt_view *v) {
  const mrt_slice_options *o = v->options;
  same_layout(v);
  if (mrt_type_count(v->out)) v->offset = o->first * v->in_strides[o->dim];
  if (v->out->dims[o->dim] > 1) v->strides[o->dim] *= o->step;
  return true;
}

static void slice_gradient(mrt_build *b) {
  const mrt_slice_options *o = b->options;
  const mrt_type *x = mrt_of(b->in[0]);
  int dim = (int)o->dim;
  int64_t n = x->dims[dim];
  if (o->step == 1) {
    mrt_pad_options around = { o->dim, o->first, n - 1 - o->last };
    b->din[0] = MRT_MAKE(b, pad, &around, b->dout[0]);
    return;
  }
  mrt_tensor *dx =
      mrt_spread(b, b->dout[0], mrt_extent(x, 0, dim),
                 mrt_extent(x, dim + 1, x->rank), o->first, o->step, n);
  b->din[0] = mrt_reshape_like(b, dx, b->in[0]);
}

static int slice_shard_rule(const mrt_signature *s, int input, int dim) {
  const mrt_slice_options *o = s->options;
  if (dim != o->dim) return dim;
  return o->step == 1 ? MRT_RULE_RUNS : MRT_RULE_UNKNOWN;
}

static bool slice_divide(void *options, int64_t block, int64_t n) {
  mrt_slice_options *o = options;
  if (o->first % block || (o->last + 1) % block) return false;
  o->last = (o->last + 1) / n - 1, o->first /= n;
  return true;
}

const mrt_op mrt_op_slice = {
  .name = "slice",
  .number = MRT_OP_slice,
  .cost = MRT_COST_view,
  .doc = "every step-th of the positions first to last of dim, both included",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(slice_table, mrt_slice_options),
  .infer = slice_infer,
  .shard_rule = slice_shard_rule,
  .divide_runs = slice_divide,
  .grad = slice_gradient,
  .view = slice_view,
  .width = MRT_FOLLOW,
  .traits = MRT_VIEW | MRT_LINEAR,
};

/* ---- split --------------------------------------------------------------- */

static const mrt_option split_table[] = {
  MRT_OPTION(mrt_split_options, size, MRT_OPT_INT, .required = true),
  MRT_OPTION(mrt_split_options, dim, MRT_OPT_DIM, .preset = 0),
};

static mrt_status split_infer(mrt_infer *c) {
  mrt_split_options *o = c->options;
  MRT_TRY(mrt_want_dim(c, &o->dim, c->in[0]->rank));
  if (o->size < 1)
    return mrt_refuse(c, MRT_EVALUE, "size %lld, 1 or more wanted",
                      (long long)o->size);
  int64_t n = c->in[0]->dims[o->dim];
  int64_t pieces = n ? (n - 1) / o->size + 1 : 1;
  if (pieces > MRT_MAX_OUT)
    return mrt_refuse(c, MRT_EVALUE,
                      "dim %lld of %s in pieces of %lld makes %lld, at most %d "
                      "wanted",
                      shown(o->dim), mrt_show(c->in[0]).s, (long long)o->size,
                      (long long)pieces, MRT_MAX_OUT);
  c->nout = (int)pieces;
  for (int i = 0; i < c->nout; i++) {
    int64_t rest = n - i * o->size;
    c->out[i] = *c->in[0];
    c->out[i].dims[o->dim] = rest < o->size ? rest : o->size;
  }
  return MRT_OK;
}

static bool split_view(mrt_view *v) {
  const mrt_split_options *o = v->options;
  same_layout(v);
  if (mrt_type_count(v->out))
    v->offset = v->index * o->size * v->in_strides[o->dim];
  return true;
}

static void split_gradient(mrt_build *b) {
  const mrt_split_options *o = b->options;
  mrt_tensor *dy[MRT_MAX_OUT];
  for (int i = 0; i < b->nout; i++) {
    dy[i] = b->dout[i];
    if (dy[i]) continue; /* a piece that nothing reads */
    mrt_tensor *zero = mrt_const_like(b, b->in[0], 0);
    dy[i] = mrt_expand_to(b, zero, mrt_of(b->out[i]));
  }
  mrt_dim_options along = { o->dim };
  b->din[0] = mrt_make(b, MRT_OP_cat, &along, b->nout, dy);
}

static int split_shard_rule(const mrt_signature *s, int input, int dim) {
  const mrt_split_options *o = s->options;
  return dim == o->dim ? MRT_RULE_RUNS : dim;
}

static bool split_divide(void *options, int64_t block, int64_t n) {
  mrt_split_options *o = options;
  if (o->size % block) return false;
  o->size /= n;
  return true;
}

const mrt_op mrt_op_split = {
  .name = "split",
  .number = MRT_OP_split,
  .cost = MRT_COST_view,
  .doc = "x cut along dim into pieces of `size`; the last may be shorter",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(split_table, mrt_split_options),
  .infer = split_infer,
  .shard_rule = split_shard_rule,
  .divide_runs = split_divide,
  .grad = split_gradient,
  .view = split_view,
  .width = MRT_FOLLOW,
  .traits = MRT_VIEW | MRT_LINEAR,
};

/* ---- detach, custom ------------------------------------------------------ */

static mrt_status same_infer(mrt_infer *c) {
  c->out[0] = *c->in[0];
  return MRT_OK;
}

const mrt_op mrt_op_detach = {
  .name = "detach",
  .number = MRT_OP_detach,
  .cost = MRT_COST_view,
  .doc = "y = x, where gradients stop",
  .min_inputs = 1,
  .max_inputs = 1,
  .infer = same_infer,
  .shard_rule = mrt_shard_rules_same,
  .view = same_layout,
  .width = MRT_FOLLOW,
  .traits = MRT_VIEW | MRT_LINEAR,
};

/* The other inputs are not read. */
static int first_shard_rule(const mrt_signature *s, int input, int dim) {
  return input == 0 ? dim : MRT_RULE_UNREAD;
}

/* ---- row_by_row ---------------------------------------------------------- */

static mrt_status vouched_infer(mrt_infer *c) {
  c->out[0] = *c->in[0];
  return mrt_want_shape(c, 1, c->in[0]->rank, c->in[0]->dims, "as the result");
}

static void vouched_gradient(mrt_build *b) { b->din[0] = b->dout[0]; }

const mrt_op mrt_op_row_by_row = {
  .name = "row_by_row",
  .number = MRT_OP_row_by_row,
  .cost = MRT_COST_view,
  .doc = "y = x, each row of which was computed of that row of `from` alone",
  .min_inputs = 2,
  .max_inputs = 2,
  .infer = vouched_infer,
  .shard_rule = first_shard_rule,
  .grad = vouched_gradient,
  .view = same_layout,
  .width = MRT_FOLLOW,
  .traits = MRT_VIEW | MRT_VOUCHES | MRT_LIBRARY,
};

static const mrt_option custom_table[] = {
  MRT_OPTION(mrt_custom_options, backward, MRT_OPT_HIDDEN),
  MRT_OPTION(mrt_custom_options, release, MRT_OPT_HIDDEN),
  MRT_OPTION(mrt_custom_options, user, MRT_OPT_HIDDEN),
};

static mrt_status custom_infer(mrt_infer *c) {
  const mrt_custom_options *o = c->options;
  if (!o->backward) return mrt_refuse(c, MRT_EVALUE, "no backward function");
  return same_infer(c);
}

/* The caller's function gives one handle for each result; the build takes
 * them, also after a failure halfway. */
static void custom_gradient(mrt_build *b) {
  const mrt_custom_options *o = b->options;
  mrt_status status = o->backward(o->user, b->dout[0], b->din + 1);
  for (int i = 1; i < b->nin; i++) {
    mrt_tensor *dx = mrt_own(b, b->din[i]);
    b->din[i] = status == MRT_OK ? dx : NULL;
  }
  if (b->status == MRT_OK) b->status = status;
}

const mrt_op mrt_op_custom = {
  .name = "custom",
  .number = MRT_OP_custom,
  .cost = MRT_COST_view,
  .doc = "y = x, with gradients for the other inputs from the caller",
  .min_inputs = 1,
  .max_inputs = -1,
  MRT_OPTIONS(custom_table, mrt_custom_options),
  .infer = custom_infer,
  .shard_rule = first_shard_rule,
  .grad = custom_gradient,
  .view = same_layout,
  .width = MRT_FOLLOW,
  .traits = MRT_VIEW | MRT_INTERNAL | MRT_LINEAR,
};
