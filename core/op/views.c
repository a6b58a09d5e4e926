/* views.c -- other shapes of the same storage
 *
 *   reshape    the same elements in row-major order under another shape
 *   permute    dimensions in another order; transpose: two of them swapped
 *   expand     dimensions of size 1, and new leading ones, repeated
 *
 *   x      any shape and dtype
 *   cost   none: an offset and strides.  A reshape of a layout that strides
 *          cannot express is copied first by the planner
 *   grad   reshape, permute, transpose: dy back in the shape of x
 *          expand: the sum of dy over what was repeated
 *   fails  EVALUE  a dimension that is not there, a negative size
 *          ESHAPE  a shape that x does not fit
 *
 * SPDX-License-Identifier: MIT */
#include "op/views.h"
#include "op/build.h"

#include <string.h>

/* ---- reshape ------------------------------------------------------------- */

static const mrt_option shape_table[] = {
  MRT_OPTION(mrt_shape_options, shape, MRT_OPT_INTS, .required = true),
};

static mrt_type typed(mrt_dtype dtype, const mrt_ints *shape) {
  mrt_type t = { .dtype = dtype, .rank = shape->count };
  memcpy(t.dims, shape->at, (size_t)shape->count * sizeof *t.dims);
  return t;
}

/* The place of the one -1 of a shape, or -1. */
static mrt_status find_open(mrt_infer *c, const mrt_ints *shape, int *open) {
  *open = -1;
  for (int i = 0; i < shape->count; i++) {
    if (shape->at[i] >= 0) continue;
    if (shape->at[i] != -1)
      return mrt_refuse(c, MRT_EVALUE, "size %lld, 0 or more (or -1) wanted",
                        (long long)shape->at[i]);
    if (*open >= 0) return mrt_refuse(c, MRT_EVALUE, "-1 is given twice");
    *open = i;
  }
  return MRT_OK;
}

static mrt_status reshape_infer(mrt_infer *c) {
  mrt_ints *shape = &((mrt_shape_options *)c->options)->shape;
  int64_t n = mrt_type_count(c->in[0]);
  int open;
  MRT_TRY(find_open(c, shape, &open));
  mrt_type out = typed(c->in[0]->dtype, shape);
  if (open >= 0) out.dims[open] = 1;
  MRT_TRY(mrt_type_check(&out, c->op->name, c->e));
  int64_t rest = mrt_type_count(&out);
  if (open >= 0 && rest && n % rest == 0) out.dims[open] = n / rest;
  if (mrt_type_count(&out) != n && open >= 0)
    return mrt_refuse(c, MRT_ESHAPE,
                      "%s has %lld elements, a multiple of %lld wanted (-1 is "
                      "size %d)",
                      mrt_show(c->in[0]).s, (long long)n, (long long)rest,
                      open + 1);
  if (mrt_type_count(&out) != n || (open >= 0 && rest == 0))
    return mrt_refuse(c, MRT_ESHAPE, "%s has %lld elements, %s wants %lld",
                      mrt_show(c->in[0]).s, (long long)n, mrt_show(&out).s,
                      (long long)rest);
  if (open >= 0) shape->at[open] = out.dims[open];
  c->out[0] = out;
  return MRT_OK;
}

/* Going from the last dimension to the first, input dimensions that lie evenly
 * in storage form a chunk; output dimensions must fill each chunk exactly. */
static bool reshape_view(mrt_view *v) {
  const mrt_type *in = v->in, *out = v->out;
  v->offset = 0;
  mrt_type_strides(out, v->strides);
  if (in->rank == 0 || mrt_type_count(in) == 0) return true;
  int64_t step = v->in_strides[in->rank - 1], chunk = 1, filled = 1;
  int o = out->rank - 1;
  for (int i = in->rank - 1; i >= 0; i--) {
    chunk *= in->dims[i];
    if (i > 0 && (in->dims[i - 1] == 1 || v->in_strides[i - 1] == chunk * step))
      continue;
    for (; o >= 0 && (filled < chunk || out->dims[o] == 1); o--) {
      v->strides[o] = filled * step;
      filled *= out->dims[o];
    }
    if (filled != chunk) return false;
    if (i > 0) step = v->in_strides[i - 1];
    chunk = filled = 1;
  }
  return true;
}

static void reshape_gradient(mrt_build *b) {
  b->din[0] = mrt_reshape_like(b, b->dout[0], b->in[0]);
}

static int reshape_shard_rule(const mrt_signature *s, int input, int dim) {
  return MRT_RULE_SAME;
}

const mrt_op mrt_op_reshape = {
  .name = "reshape",
  .number = MRT_OP_reshape,
  .cost = MRT_COST_view,
  .doc = "the elements of x in row-major order under another shape",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(shape_table, mrt_shape_options),
  .infer = reshape_infer,
  .shard_rule = reshape_shard_rule,
  .grad = reshape_gradient,
  .view = reshape_view,
  .width = MRT_FOLLOW,
  .traits = MRT_VIEW | MRT_LINEAR,
};

/* ---- permute ------------------------------------------------------------- */

static const mrt_option permute_table[] = {
  MRT_OPTION(mrt_permute_options, dims, MRT_OPT_DIMS, .required = true),
};

static mrt_status permute_infer(mrt_infer *c) {
  mrt_permute_options *o = c->options;
  const mrt_type *x = c->in[0];
  if (o->dims.count != x->rank)
    return mrt_refuse(c, MRT_EVALUE, "%d dims for %s, all %d wanted",
                      o->dims.count, mrt_show(x).s, x->rank);
  mrt_ints sorted = o->dims;
  MRT_TRY(mrt_want_dims(c, &sorted, x->rank)); /* each once */
  c->out[0] = *x;
  for (int i = 0; i < x->rank; i++) {
    MRT_TRY(mrt_want_dim(c, &o->dims.at[i], x->rank));
    c->out[0].dims[i] = x->dims[o->dims.at[i]];
  }
  return MRT_OK;
}

static bool permute_view(mrt_view *v) {
  const mrt_permute_options *o = v->options;
  v->offset = 0;
  for (int i = 0; i < v->in->rank; i++)
    v->strides[i] = v->in_strides[o->dims.at[i]];
  return true;
}

static void permute_gradient(mrt_build *b) {
  const mrt_permute_options *o = b->options;
  mrt_permute_options back = { .dims.count = o->dims.count };
  for (int i = 0; i < o->dims.count; i++) back.dims.at[o->dims.at[i]] = i;
  b->din[0] = MRT_MAKE(b, permute, &back, b->dout[0]);
}

static int permute_shard_rule(const mrt_signature *s, int input, int dim) {
  const mrt_permute_options *o = s->options;
  int to = 0;
  while (o->dims.at[to] != dim) to++;
  return to;
}

const mrt_op mrt_op_permute = {
  .name = "permute",
  .number = MRT_OP_permute,
  .cost = MRT_COST_view,
  .doc = "the dimensions of x in the order of dims",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(permute_table, mrt_permute_options),
  .infer = permute_infer,
  .shard_rule = permute_shard_rule,
  .grad = permute_gradient,
  .view = permute_view,
  .width = MRT_FOLLOW,
  .traits = MRT_VIEW | MRT_LINEAR,
};

/* ---- transpose ----------------------------------------------------------- */

static const mrt_option transpose_table[] = {
  MRT_OPTION(mrt_transpose_options, dim0, MRT_OPT_DIM, .required = true),
  MRT_OPTION(mrt_transpose_options, dim1, MRT_OPT_DIM, .required = true),
};

static void swap(int64_t *at, const mrt_transpose_options *o) {
  int64_t was = at[o->dim0];
  at[o->dim0] = at[o->dim1];
  at[o->dim1] = was;
}

static mrt_status transpose_infer(mrt_infer *c) {
  mrt_transpose_options *o = c->options;
  MRT_TRY(mrt_want_dim(c, &o->dim0, c->in[0]->rank));
  MRT_TRY(mrt_want_dim(c, &o->dim1, c->in[0]->rank));
  c->out[0] = *c->in[0];
  swap(c->out[0].dims, o);
  return MRT_OK;
}

static bool transpose_view(mrt_view *v) {
  v->offset = 0;
  memcpy(v->strides, v->in_strides, (size_t)v->in->rank * sizeof *v->strides);
  swap(v->strides, v->options);
  return true;
}

static void transpose_gradient(mrt_build *b) {
  b->din[0] = MRT_MAKE(b, transpose, b->options, b->dout[0]);
}

static int transpose_shard_rule(const mrt_signature *s, int input, int dim) {
  const mrt_transpose_options *o = s->options;
  return (int)(dim == o->dim0 ? o->dim1 : dim == o->dim1 ? o->dim0 : dim);
}

const mrt_op mrt_op_transpose = {
  .name = "transpose",
  .number = MRT_OP_transpose,
  .cost = MRT_COST_view,
  .doc = "x with dim0 and dim1 swapped",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(transpose_table, mrt_transpose_options),
  .infer = transpose_infer,
  .shard_rule = transpose_shard_rule,
  .grad = transpose_gradient,
  .view = transpose_view,
  .width = MRT_FOLLOW,
  .traits = MRT_VIEW | MRT_LINEAR,
};

/* ---- expand -------------------------------------------------------------- */

static mrt_status expand_infer(mrt_infer *c) {
  mrt_ints *shape = &((mrt_shape_options *)c->options)->shape;
  const mrt_type *x = c->in[0];
  int lead = shape->count - x->rank;
  if (lead < 0)
    return mrt_refuse(c, MRT_ESHAPE, "%s to %d dimensions, %d or more wanted",
                      mrt_show(x).s, shape->count, x->rank);
  mrt_type out = typed(x->dtype, shape);
  for (int i = 0; i < out.rank; i++) {
    int64_t had = i < lead ? 1 : x->dims[i - lead];
    if (out.dims[i] == -1 && i >= lead) out.dims[i] = had;
    if (out.dims[i] < 0)
      return mrt_refuse(c, MRT_EVALUE, "size %lld at dim %d, %s wanted",
                        (long long)out.dims[i], i + 1,
                        i < lead ? "0 or more" : "0 or more (or -1)");
    if (out.dims[i] != had && had != 1)
      return mrt_refuse(c, MRT_ESHAPE,
                        "%s to %s, a size of 1 at dim %d wanted to repeat it",
                        mrt_show(x).s, mrt_show(&out).s, i - lead + 1);
  }
  memcpy(shape->at, out.dims, sizeof shape->at);
  c->out[0] = out;
  return MRT_OK;
}

static bool expand_view(mrt_view *v) {
  int lead = v->out->rank - v->in->rank;
  v->offset = 0;
  for (int i = 0; i < v->out->rank; i++) {
    bool repeated = i < lead || v->in->dims[i - lead] != v->out->dims[i];
    v->strides[i] = repeated ? 0 : v->in_strides[i - lead];
  }
  return true;
}

static void expand_gradient(mrt_build *b) {
  const mrt_type *x = mrt_of(b->in[0]), *y = mrt_of(b->out[0]);
  int lead = y->rank - x->rank;
  mrt_ints repeated = { 0 };
  for (int i = 0; i < y->rank; i++)
    if (i < lead || x->dims[i - lead] != y->dims[i])
      repeated.at[repeated.count++] = i;
  mrt_tensor *dx = b->dout[0];
  if (repeated.count) dx = mrt_sum_dims(b, dx, &repeated, false);
  b->din[0] = mrt_reshape_like(b, dx, b->in[0]);
}

static int expand_shard_rule(const mrt_signature *s, int input, int dim) {
  return dim + s->out[0]->rank - s->in[0]->rank;
}

const mrt_op mrt_op_expand = {
  .name = "expand",
  .number = MRT_OP_expand,
  .cost = MRT_COST_view,
  .doc = "x with dimensions of size 1, and new leading ones, repeated",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(shape_table, mrt_shape_options),
  .infer = expand_infer,
  .shard_rule = expand_shard_rule,
  .grad = expand_gradient,
  .view = expand_view,
  .width = MRT_FOLLOW,
  .traits = MRT_VIEW | MRT_LINEAR,
};

/* ---- asked by others ----------------------------------------------------- */

bool mrt_moves_rows(const mrt_op *op, const void *options, const mrt_type *in,
                    const mrt_type *out) {
  const mrt_transpose_options *o = options;
  int last = in->rank - 1;
  if (op->number == MRT_OP_transpose) return o->dim0 < last && o->dim1 < last;
  return op->number == MRT_OP_reshape && in->rank > 0 && out->rank > 0 &&
         in->dims[last] == out->dims[out->rank - 1];
}
