/* strided.c -- views that step through storage in other ways
 *
 *   diagonal  elements that have one position in two dimensions, as a new last
 *             one; `offset` moves them up (above 0) or down
 *   windows   runs of `size` positions of a dimension, `step` apart, as a new
 *             last one; they may overlap
 *
 *   x      any shape and dtype
 *   cost   none: an offset and strides
 *   grad   diagonal  dx = dy among zeros
 *          windows   dx = sums of dy where windows overlap, in their order
 *   fails  EVALUE  a dimension that is not there, the same one twice, windows
 *                  larger than the dimension
 *          ESHAPE  one dimension too many
 *
 * SPDX-License-Identifier: MIT */
#include "op/build.h"
#include "op/make.h"
#include "op/move.h"
#include "op/views.h"

#include <string.h>

/* ---- diagonal ------------------------------------------------------------ */

static const mrt_option diagonal_table[] = {
  MRT_OPTION(mrt_diagonal_options, offset, MRT_OPT_INT, .preset = 0),
  MRT_OPTION(mrt_diagonal_options, dim1, MRT_OPT_DIM, .preset = 0),
  MRT_OPTION(mrt_diagonal_options, dim2, MRT_OPT_DIM, .preset = 1),
};

/* How many elements lie on it. */
static int64_t diagonal_length(const mrt_diagonal_options *o,
                               const mrt_type *x) {
  int64_t rows = x->dims[o->dim1], columns = x->dims[o->dim2];
  if (o->offset > 0)
    columns = o->offset < columns ? columns - o->offset : 0;
  else
    rows = o->offset > -rows ? rows + o->offset : 0;
  return rows < columns ? rows : columns;
}

static mrt_status diagonal_infer(mrt_infer *c) {
  mrt_diagonal_options *o = c->options;
  const mrt_type *x = c->in[0];
  if (x->rank < 2)
    return mrt_refuse(c, MRT_ESHAPE, "%s, at least 2 dimensions wanted",
                      mrt_show(x).s);
  MRT_TRY(mrt_want_dim(c, &o->dim1, x->rank));
  MRT_TRY(mrt_want_dim(c, &o->dim2, x->rank));
  if (o->dim1 == o->dim2)
    return mrt_refuse(c, MRT_EVALUE,
                      "dim %lld twice, two different ones wanted",
                      (long long)o->dim1 + 1);
  mrt_type *y = &c->out[0];
  *y = (mrt_type){ .dtype = x->dtype };
  for (int i = 0; i < x->rank; i++)
    if (i != o->dim1 && i != o->dim2) y->dims[y->rank++] = x->dims[i];
  y->dims[y->rank++] = diagonal_length(o, x);
  return MRT_OK;
}

static bool diagonal_view(mrt_view *v) {
  const mrt_diagonal_options *o = v->options;
  const int64_t *in = v->in_strides;
  int rank = 0;
  for (int i = 0; i < v->in->rank; i++)
    if (i != o->dim1 && i != o->dim2) v->strides[rank++] = in[i];
  v->strides[rank] = in[o->dim1] + in[o->dim2];
  v->offset = 0;
  if (mrt_type_count(v->out))
    v->offset =
        o->offset > 0 ? o->offset * in[o->dim2] : -o->offset * in[o->dim1];
  return true;
}

/* Place i of the diagonal of [..., n, m] is i (m + 1) from its first. */
static void diagonal_gradient(mrt_build *b) {
  const mrt_diagonal_options *o = b->options;
  const mrt_type *x = mrt_of(b->in[0]), *y = mrt_of(b->out[0]);
  int64_t n = x->dims[o->dim1], m = x->dims[o->dim2];
  int64_t first = 0;
  if (mrt_type_count(y)) first = o->offset > 0 ? o->offset : -o->offset * m;
  mrt_tensor *dx = mrt_spread(b, b->dout[0], mrt_extent(y, 0, y->rank - 1), 1,
                              first, m + 1, n * m);
  mrt_permute_options back = { .dims.count = x->rank };
  int64_t shape[MRT_MAX_RANK];
  int rest = 0;
  for (int i = 0; i < x->rank; i++) {
    if (i == o->dim1 || i == o->dim2) continue;
    shape[rest] = x->dims[i];
    back.dims.at[i] = rest++;
  }
  shape[rest] = n, back.dims.at[o->dim1] = rest;
  shape[rest + 1] = m, back.dims.at[o->dim2] = rest + 1;
  dx = mrt_reshape_to(b, dx, x->rank, shape);
  b->din[0] = MRT_MAKE(b, permute, &back, dx);
}

static int diagonal_shard_rule(const mrt_signature *s, int input, int dim) {
  const mrt_diagonal_options *o = s->options;
  if (dim == o->dim1 || dim == o->dim2) return MRT_RULE_UNKNOWN;
  return dim - (o->dim1 < dim) - (o->dim2 < dim);
}

const mrt_op mrt_op_diagonal = {
  .name = "diagonal",
  .number = MRT_OP_diagonal,
  .cost = MRT_COST_view,
  .doc = "elements at one position in dim1 and dim2 but for offset, last",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(diagonal_table, mrt_diagonal_options),
  .infer = diagonal_infer,
  .shard_rule = diagonal_shard_rule,
  .grad = diagonal_gradient,
  .view = diagonal_view,
  .width = MRT_FOLLOW,
  .traits = MRT_VIEW | MRT_LINEAR,
};

/* ---- windows ------------------------------------------------------------- */

static const mrt_option windows_table[] = {
  MRT_OPTION(mrt_windows_options, dim, MRT_OPT_DIM, .required = true),
  MRT_OPTION(mrt_windows_options, size, MRT_OPT_INT, .required = true),
  MRT_OPTION(mrt_windows_options, step, MRT_OPT_INT, .required = true),
};

static mrt_status windows_infer(mrt_infer *c) {
  mrt_windows_options *o = c->options;
  const mrt_type *x = c->in[0];
  MRT_TRY(mrt_want_dim(c, &o->dim, x->rank));
  if (x->rank == MRT_MAX_RANK)
    return mrt_refuse(c, MRT_ESHAPE, "%s, at most %d dimensions wanted",
                      mrt_show(x).s, MRT_MAX_RANK - 1);
  int64_t n = x->dims[o->dim];
  if (o->size < 0 || o->size > n)
    return mrt_refuse(
        c, MRT_EVALUE, "windows of %lld along dim %lld of %s, 0 to %lld wanted",
        (long long)o->size, (long long)o->dim + 1, mrt_show(x).s, (long long)n);
  if (o->step < 1)
    return mrt_refuse(c, MRT_EVALUE, "step %lld, 1 or more wanted",
                      (long long)o->step);
  c->out[0] = *x;
  c->out[0].rank++;
  c->out[0].dims[o->dim] = (n - o->size) / o->step + 1;
  c->out[0].dims[x->rank] = o->size;
  return MRT_OK;
}

static bool windows_view(mrt_view *v) {
  const mrt_windows_options *o = v->options;
  int rank = v->in->rank;
  v->offset = 0;
  memcpy(v->strides, v->in_strides, (size_t)rank * sizeof *v->strides);
  v->strides[rank] = v->in_strides[o->dim];
  if (v->out->dims[o->dim] > 1) v->strides[o->dim] *= o->step;
  return true;
}

/* Where along dim each element of each window came from: [1, count * size, 1]. */
static mrt_tensor *sources(mrt_build *b, int64_t count, int64_t size,
                           int64_t step) {
  mrt_arange_options starts = { 0, (double)count, 1, MRT_i64 };
  mrt_arange_options within = { 0, (double)size, 1, MRT_i64 };
  mrt_tensor *at = mrt_make(b, MRT_OP_arange, &starts, 0, NULL);
  mrt_tensor *k = mrt_make(b, MRT_OP_arange, &within, 0, NULL);
  at = mrt_reshape_to(b, mrt_mul_k(b, at, (double)step), 2,
                      (int64_t[]){ count, 1 });
  return mrt_reshape_to(b, mrt_add(b, at, k), 3,
                        (int64_t[]){ 1, count * size, 1 });
}

static void windows_gradient(mrt_build *b) {
  const mrt_windows_options *o = b->options;
  const mrt_type *x = mrt_of(b->in[0]), *y = mrt_of(b->out[0]);
  int dim = (int)o->dim;
  int64_t count = y->dims[dim], outer = mrt_extent(x, 0, dim);
  int64_t inner = mrt_extent(x, dim + 1, x->rank);
  /* [outer, count, inner, size] -> [outer, count * size, inner] */
  mrt_tensor *dy = mrt_reshape_to(b, b->dout[0], 4,
                                  (int64_t[]){ outer, count, inner, o->size });
  dy = mrt_transpose_last(b, dy);
  dy = mrt_reshape_to(b, dy, 3, (int64_t[]){ outer, count * o->size, inner });
  mrt_type whole = { x->dtype, 3, { outer, x->dims[dim], inner } };
  mrt_tensor *none = mrt_expand_to(b, mrt_const_like(b, b->in[0], 0), &whole);
  mrt_tensor *ids = sources(b, count, o->size, o->step);
  mrt_dim_options along = { 1 };
  mrt_tensor *dx = MRT_MAKE(b, scatter_add, &along, none,
                            mrt_expand_to(b, ids, mrt_of(dy)), dy);
  b->din[0] = mrt_reshape_like(b, dx, b->in[0]);
}

static int windows_shard_rule(const mrt_signature *s, int input, int dim) {
  const mrt_windows_options *o = s->options;
  return dim == o->dim ? MRT_RULE_UNKNOWN : dim;
}

const mrt_op mrt_op_windows = {
  .name = "windows",
  .number = MRT_OP_windows,
  .cost = MRT_COST_view,
  .doc = "runs of `size` positions of dim, a step apart, as a last dimension",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(windows_table, mrt_windows_options),
  .infer = windows_infer,
  .shard_rule = windows_shard_rule,
  .grad = windows_gradient,
  .view = windows_view,
  .width = MRT_FOLLOW,
  .traits = MRT_VIEW | MRT_LINEAR | MRT_LIBRARY,
};
