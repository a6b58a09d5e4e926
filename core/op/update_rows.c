/* update_rows.c -- descend_rows, sgd_rows, rmsprop_rows, adamw_rows: updates of
 * the rows of a table that were looked up
 *
 *   X_rows(p, state, lists, ...) = X(p, state, g, ...)   for X of update.c
 *   g = the sum of the lists, each sum of two rounded to `rounded`, where that is
 *       given; of a list, rounded so, too:
 *       each            dw = 0;  dw[ids[i],:] += dy[i,:]
 *       sum, mean (at)  dw = 0;  dw[i,:] += dy[b,:] for the ids i of bag b, for
 *                       mean divided by how many these are
 *
 *   p      [V, C];  V may be anything from 0 on
 *   lists  ids[..], dy[.., C];  or ids[.., L], dy[.., C];  or ids[M], dy[B, C],
 *          offsets[B]: `kinds` says which, op/update.h
 *   bits   Those of X and of embedding_grad, embedding_bag_grad, whose sums are
 *          added in the order of the lists: g itself is never stored.  All
 *          other rows of g are 0.  So they are left alone where X is lazy, or
 *          where an update by 0 changes nothing; rows of X that do not say so
 *          are refused.
 *   keeps  that a row of zeros changes nothing supposes that no second moment
 *          is negative or NaN where p is not NaN: none is that X has made
 *   cost   what is looked up, sorted by id; scratch in proportion to the ids
 *   made   by the pass update_rows (rewrite/update_rows.c)
 *   fails  EDTYPE, ESHAPE;  EVALUE  ids into an empty table, an unknown kind
 *          An id out of range has been reported where it was looked up.
 *
 * SPDX-License-Identifier: MIT */
#include "op/update.h"

#include <string.h>

/* ---- lists --------------------------------------------------------------- */

/* ids, dy[, offsets] from input `at` on. */
static mrt_status want_list(mrt_infer *c, int64_t kind, int at) {
  const mrt_type *p = c->in[0], *ids = c->in[at];
  mrt_type dy = { .dtype = p->dtype == MRT_f64 ? MRT_f64 : MRT_f32 };
  MRT_TRY(mrt_want_integer(c, at));
  MRT_TRY(mrt_want_dtype(c, at + 1, dy.dtype));
  bool each = kind == MRT_ROWS_EACH, offsets = mrt_row_list_inputs(kind) > 2;
  if (offsets) MRT_TRY(mrt_want_integer(c, at + 2));
  if (offsets ? ids->rank != 1 || c->in[at + 2]->rank != 1
              : ids->rank == (each ? MRT_MAX_RANK : 0))
    return mrt_refuse(c, MRT_ESHAPE,
                      offsets ? "ids %s with offsets, one dimension each wanted"
                      : each  ? "ids %s, fewer dimensions wanted"
                              : "ids %s, at least one dimension wanted",
                      mrt_show(ids).s);
  const mrt_type *shape = offsets ? c->in[at + 2] : ids;
  memcpy(dy.dims, shape->dims, sizeof dy.dims);
  dy.rank = shape->rank + (each || offsets);
  dy.dims[dy.rank - 1] = p->dims[1];
  MRT_TRY(mrt_want_shape(c, at + 1, dy.rank, dy.dims,
                         each ? "ids and then C" : "a row for each bag"));
  if (p->dims[0] == 0 && mrt_type_count(ids) > 0)
    return mrt_refuse(c, MRT_EVALUE, "ids %s into %s, which is empty",
                      mrt_show(ids).s, mrt_show(p).s);
  return MRT_OK;
}

/* p, state and lists; *at: what comes after them. */
static mrt_status want_rows(mrt_infer *c, const mrt_row_lists *l, int written,
                            int rest, int *at) {
  MRT_TRY(mrt_want_state(c, written));
  if (c->in[0]->rank != 2)
    return mrt_refuse(c, MRT_ESHAPE, "table %s, two dimensions wanted",
                      mrt_show(c->in[0]).s);
  if (l->kinds.count < 1 || l->kinds.count > MRT_ROW_LISTS)
    return mrt_refuse(c, MRT_EVALUE, "%d lists, 1 to %d wanted", l->kinds.count,
                      MRT_ROW_LISTS);
  if (l->rounded != MRT_DTYPE_COUNT && !mrt_is_narrow(l->rounded))
    return mrt_refuse(c, MRT_EDTYPE, "rounded to %s, a narrow float wanted",
                      mrt_dtypes[l->rounded].name);
  *at = written;
  for (int i = 0; i < l->kinds.count; i++) {
    int64_t kind = l->kinds.at[i];
    if (kind < 0 || kind >= MRT_ROWS_KINDS)
      return mrt_refuse(c, MRT_EVALUE, "list of kind %lld, 0 to %d wanted",
                        (long long)kind, MRT_ROWS_KINDS - 1);
    int inputs = mrt_row_list_inputs(kind);
    if (*at + inputs + rest > c->nin)
      return mrt_refuse(c, MRT_EVALUE, "%d inputs, more wanted for %d lists",
                        c->nin, l->kinds.count);
    MRT_TRY(want_list(c, kind, *at));
    *at += inputs;
  }
  if (c->nin > *at + rest + 2)
    return mrt_refuse(c, MRT_EVALUE, "%d inputs, at most %d wanted", c->nin,
                      *at + rest + 2);
  return MRT_OK;
}

static mrt_status want_still(mrt_infer *c, bool still) {
  if (still) return MRT_OK;
  return mrt_refuse(c, MRT_EVALUE,
                    "rows without a gradient change, too; lazy wanted");
}

/* ---- the rows ------------------------------------------------------------ */

static mrt_status infer_descend(mrt_infer *c) {
  const mrt_descend_rows_options *o = c->options;
  int at;
  MRT_TRY(want_rows(c, &o->lists, 1, 1, &at));
  MRT_TRY(want_still(c, o->step.lazy || o->step.weight_decay == 0));
  return mrt_want_rate(c, at);
}

static mrt_status infer_sgd(mrt_infer *c) {
  const mrt_sgd_rows_options *o = c->options;
  int at;
  MRT_TRY(want_rows(c, &o->lists, 2, 1, &at));
  MRT_TRY(want_still(c, o->step.lazy));
  return mrt_want_rate(c, at);
}

static mrt_status infer_rmsprop(mrt_infer *c) {
  const mrt_rmsprop_rows_options *o = c->options;
  const mrt_rmsprop_options *s = &o->step;
  int at;
  MRT_TRY(want_rows(c, &o->lists, 2, 1, &at));
  bool adagrad = s->keep == 1 && s->weight_decay == 0 && (float)s->eps > 0;
  MRT_TRY(want_still(c, s->lazy || adagrad));
  return mrt_want_rate(c, at);
}

static mrt_status infer_adamw(mrt_infer *c) {
  const mrt_adamw_rows_options *o = c->options;
  int at;
  MRT_TRY(want_rows(c, &o->lists, 3, 2, &at));
  MRT_TRY(want_still(c, o->step.lazy));
  MRT_TRY(mrt_want_count(c, at));
  return mrt_want_rate(c, at + 1);
}

/* Elements of the rows of the first list, the others are like it. */
static double looked_up(const mrt_signature *s) {
  return (double)mrt_type_count(s->in[s->op->updates]) *
         (double)s->in[0]->dims[1];
}
static double flops(const mrt_signature *s) {
  return (1 + 5.0 * s->op->updates) * looked_up(s);
}
static double bytes(const mrt_signature *s) {
  int written = s->op->updates;
  double each = (double)mrt_dtypes[s->in[written + 1]->dtype].bytes;
  for (int i = 0; i < written; i++)
    each += 2 * (double)mrt_dtypes[s->in[i]->dtype].bytes;
  return each * looked_up(s);
}

#define LISTS_OPTIONS(type)                                                    \
  { .name = "kinds",                                                           \
    .offset = offsetof(type, lists.kinds),                                     \
    .kind = MRT_OPT_INTS,                                                      \
    .required = true },                                                        \
  {                                                                            \
    .name = "rounded", .offset = offsetof(type, lists.rounded),                \
    .kind = MRT_OPT_DTYPE, .preset = MRT_DTYPE_COUNT                           \
  }

static const mrt_option descend_options[] = {
  MRT_DESCEND_OPTIONS,
  LISTS_OPTIONS(mrt_descend_rows_options),
};
static const mrt_option sgd_options[] = {
  MRT_SGD_OPTIONS,
  LISTS_OPTIONS(mrt_sgd_rows_options),
};
static const mrt_option rmsprop_options[] = {
  MRT_RMSPROP_OPTIONS,
  LISTS_OPTIONS(mrt_rmsprop_rows_options),
};
static const mrt_option adamw_options[] = {
  MRT_ADAMW_OPTIONS,
  LISTS_OPTIONS(mrt_adamw_rows_options),
};

/* All inputs after these. */
#define NARROW_AFTER(written) (0x7fffffffu & ~((1u << (written)) - 1))

const mrt_op mrt_op_descend_rows = {
  .name = "descend_rows",
  .number = MRT_OP_descend_rows,
  .cost = MRT_COST_update,
  .doc = "p = one step of plain SGD by rows, for p, lists, lr[, scale[, when]]",
  .min_inputs = 4,
  .max_inputs = -1,
  MRT_OPTIONS(descend_options, mrt_descend_rows_options),
  .infer = infer_descend,
  .flops = flops,
  .bytes = bytes,
  .updates = 1,
  .width = MRT_WIDE,
  .narrow_inputs = NARROW_AFTER(1),
  .traits = MRT_UPDATES | MRT_FIXED | MRT_RANDOM,
};
const mrt_op mrt_op_sgd_rows = {
  .name = "sgd_rows",
  .number = MRT_OP_sgd_rows,
  .cost = MRT_COST_update,
  .doc = "p, buf = one step of SGD by rows, "
         "for p, buf, lists, lr[, scale[, when]]",
  .min_inputs = 5,
  .max_inputs = -1,
  MRT_OPTIONS(sgd_options, mrt_sgd_rows_options),
  .infer = infer_sgd,
  .flops = flops,
  .bytes = bytes,
  .updates = 2,
  .width = MRT_WIDE,
  .narrow_inputs = NARROW_AFTER(2),
  .traits = MRT_UPDATES | MRT_FIXED | MRT_RANDOM,
};
const mrt_op mrt_op_rmsprop_rows = {
  .name = "rmsprop_rows",
  .number = MRT_OP_rmsprop_rows,
  .cost = MRT_COST_update,
  .doc = "p, v = one step of Adagrad by rows, "
         "for p, v, lists, lr[, scale[, when]]",
  .min_inputs = 5,
  .max_inputs = -1,
  MRT_OPTIONS(rmsprop_options, mrt_rmsprop_rows_options),
  .infer = infer_rmsprop,
  .flops = flops,
  .bytes = bytes,
  .updates = 2,
  .width = MRT_WIDE,
  .narrow_inputs = NARROW_AFTER(2),
  .traits = MRT_UPDATES | MRT_FIXED | MRT_RANDOM,
};
const mrt_op mrt_op_adamw_rows = {
  .name = "adamw_rows",
  .number = MRT_OP_adamw_rows,
  .cost = MRT_COST_update,
  .doc = "p, m, v = one step of lazy AdamW by rows, "
         "for p, m, v, lists, t, lr[, scale[, when]]",
  .min_inputs = 7,
  .max_inputs = -1,
  MRT_OPTIONS(adamw_options, mrt_adamw_rows_options),
  .infer = infer_adamw,
  .flops = flops,
  .bytes = bytes,
  .updates = 3,
  .width = MRT_WIDE,
  .narrow_inputs = NARROW_AFTER(3),
  .traits = MRT_UPDATES | MRT_FIXED | MRT_RANDOM,
};
