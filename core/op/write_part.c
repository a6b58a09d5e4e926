/* write_part.c -- a part of a tensor written over
 *
 *   write_part  y = x;  y[first + i step] = part[i], along all dimensions
 *
 *   x part  one dtype and rank, any
 *   y       as x; may take its storage
 *   cost    what is moved: the part alone where y takes x's storage
 *   grad    dx = dy with zeros there;  dpart = dy there
 *   fails   EDTYPE  different dtypes
 *           ESHAPE  different ranks
 *           EVALUE  places outside of x
 *
 * SPDX-License-Identifier: MIT */
#include "op/build.h"
#include "op/make.h"
#include "op/move.h"
#include "op/views.h"

static const mrt_option table[] = {
  MRT_OPTION(mrt_write_options, first, MRT_OPT_INTS, .required = true),
  MRT_OPTION(mrt_write_options, step, MRT_OPT_INTS, .required = true),
};

static bool fits(int64_t size, int64_t count, int64_t first, int64_t step) {
  if (first < 0 || step < 1) return false;
  if (count == 0) return true;
  if (first >= size) return false;
  return count == 1 || step <= (size - 1 - first) / (count - 1);
}

static mrt_status infer(mrt_infer *c) {
  const mrt_write_options *o = c->options;
  const mrt_type *x = c->in[0], *part = c->in[1];
  MRT_TRY(mrt_want_same_dtype(c, 0, 1));
  if (part->rank != x->rank)
    return mrt_refuse(c, MRT_ESHAPE, "%s into %s, one rank wanted",
                      mrt_show(part).s, mrt_show(x).s);
  if (o->first.count != x->rank || o->step.count != x->rank)
    return mrt_refuse(c, MRT_EVALUE,
                      "%d firsts and %d steps for %s, %d each wanted",
                      o->first.count, o->step.count, mrt_show(x).s, x->rank);
  for (int i = 0; i < x->rank; i++)
    if (!fits(x->dims[i], part->dims[i], o->first.at[i], o->step.at[i]))
      return mrt_refuse(
          c, MRT_EVALUE, "%s into %s from %lld in steps of %lld along dim %d",
          mrt_show(part).s, mrt_show(x).s, (long long)o->first.at[i],
          (long long)o->step.at[i], i + 1);
  c->out[0] = *x;
  return MRT_OK;
}

/* What lies at the part's places. */
static mrt_tensor *cut(mrt_build *b, mrt_tensor *x) {
  const mrt_write_options *o = b->options;
  const mrt_type *part = mrt_of(b->in[1]), *whole = mrt_of(b->in[0]);
  for (int i = 0; i < part->rank; i++) {
    int64_t n = part->dims[i], first = o->first.at[i], step = o->step.at[i];
    if (n == whole->dims[i] && step == 1) continue;
    if (n == 0) first = whole->dims[i] > 0, step = 1; /* an empty slice */
    mrt_slice_options at = { i, first, first + (n - 1) * step, step };
    x = MRT_MAKE(b, slice, &at, x);
  }
  return x;
}

static void gradient(mrt_build *b) {
  mrt_tensor *dy = b->dout[0];
  if (b->wants[0]) {
    mrt_tensor *zero = mrt_const_like(b, b->in[1], 0);
    b->din[0] = MRT_MAKE(b, write_part, b->options, dy,
                         mrt_expand_to(b, zero, mrt_of(b->in[1])));
  }
  if (b->wants[1]) b->din[1] = cut(b, dy);
}

/* Dimensions that are written whole. */
static int shard_rule(const mrt_signature *s, int input, int dim) {
  const mrt_write_options *o = s->options;
  bool whole = s->in[0]->dims[dim] == s->in[1]->dims[dim];
  return whole && o->step.at[dim] == 1 ? dim : MRT_RULE_UNKNOWN;
}

const mrt_op mrt_op_write_part = {
  .name = "write_part",
  .number = MRT_OP_write_part,
  .cost = MRT_COST_move,
  .doc = "y = x; y[first + i step] = part[i], along all dimensions",
  .min_inputs = 2,
  .max_inputs = 2,
  MRT_OPTIONS(table, mrt_write_options),
  .infer = infer,
  .shard_rule = shard_rule,
  .grad = gradient,
  .inplace = 1,
  .strided = 3,
  .width = MRT_FOLLOW,
  .traits = MRT_LINEAR | MRT_LIBRARY,
};
