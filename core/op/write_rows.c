/* write_rows.c -- rows of a variable written over, at places found when run
 *
 *   write_rows  var[b, start[b] + t] = x[b, t], along dim 2; along another the same
 *               with what is between before it
 *
 *   var    [B, S, ...], any dtype; overwritten where it lies, those rows alone
 *   x      [B, T, ...], any strides: of var's dtype, or both narrow floats or f32,
 *          and then rounded to var's
 *   start  [B], integers
 *   place  a row that would lie outside of [0, S) is not written: the padding of
 *          a batch may run over the end
 *   cost   what is moved
 *   grad   none
 *   fails  EDTYPE  dtypes that do not go together, a start that is no integer
 *          ESHAPE  other shapes
 *          EVALUE  dim 1: that of the samples
 *
 * A cache of keys and values is such a variable: a step writes one row of each
 * sample, and what reads the variable afterwards sees it.
 *
 * SPDX-License-Identifier: MIT */
#include "op/move.h"
#include "op/update.h"

static const mrt_option options[] = {
  MRT_OPTION(mrt_dim_options, dim, MRT_OPT_DIM, .preset = 1),
};

static mrt_status want_dtypes(mrt_infer *c) {
  mrt_dtype var = c->in[0]->dtype, x = c->in[1]->dtype;
  bool floats = mrt_is_float(var) && mrt_is_float(x);
  if (var == x || (floats && var != MRT_f64 && x != MRT_f64)) return MRT_OK;
  return mrt_want_same_dtype(c, 0, 1);
}

static mrt_status infer(mrt_infer *c) {
  const mrt_type *var = c->in[0], *x = c->in[1];
  MRT_TRY(want_dtypes(c));
  if (var->rank < 2)
    return mrt_refuse(c, MRT_ESHAPE, "%s, [batch, rows, ...] wanted",
                      mrt_show(var).s);
  int64_t *dim = &((mrt_dim_options *)c->options)->dim;
  MRT_TRY(mrt_want_dim(c, dim, var->rank));
  if (*dim == 0) return mrt_refuse(c, MRT_EVALUE, "rows along dim 1");
  mrt_type part = *var;
  if (x->rank == var->rank) part.dims[*dim] = x->dims[*dim];
  MRT_TRY(mrt_want_shape(c, 1, part.rank, part.dims, "rows of the variable"));
  MRT_TRY(mrt_want_integer(c, 2));
  MRT_TRY(mrt_want_shape(c, 2, 1, var->dims, "one for each sample"));
  c->out[0] = *var;
  return MRT_OK;
}

/* Reads x and the starts, and writes as much of the variable. */
static double bytes(const mrt_signature *s) {
  double n = (double)mrt_type_count(s->in[1]);
  double each = (double)(mrt_dtypes[s->in[0]->dtype].bytes +
                         mrt_dtypes[s->in[1]->dtype].bytes);
  return n * each + (double)mrt_type_bytes(s->in[2]);
}

const mrt_op mrt_op_write_rows = {
  .name = "write_rows",
  .number = MRT_OP_write_rows,
  .cost = MRT_COST_update,
  .doc = "var[b, start[b] + t] = x[b, t], where that is in var",
  .min_inputs = 3,
  .max_inputs = 3,
  MRT_OPTIONS(options, mrt_dim_options),
  .infer = infer,
  .bytes = bytes,
  .updates = 1,
  .strided = 2,
  .width = MRT_FOLLOW,
  .narrow_inputs = 2,
  .traits = MRT_UPDATES | MRT_FIXED,
};
