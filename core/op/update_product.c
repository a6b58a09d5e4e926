/* update_product.c -- descend_product, sgd_product, rmsprop_product,
 * adamw_product: updates that compute the gradient they take
 *
 *   X_product(p, state, a, b[, ids, dy], ...) = X(p, state, g, ...)
 *                  for X of update.c, and
 *   g = a @ b, or embedding_add(ids, dy, a @ b) where `rows` says so
 *
 *   p      [M, N];  a [M, K], b [K, N], which are rounded to `compute`
 *   ids    [..], dy [.., N]: of a table that is looked up, too
 *   bits   those of the product and of X: g is computed some rows at a time,
 *          which are gone when they have been used.  Not where X is lazy.
 *   cost   2 flop for each of M * N * K, and what X takes
 *   made   by the pass update_products (rewrite/update_products.c)
 *   fails  EDTYPE, ESHAPE;  EVALUE  lazy; ids into an empty table
 *          An id out of range has been reported where it was looked up.
 *
 * SPDX-License-Identifier: MIT */
#include "op/matmul.h"
#include "op/update.h"

#include <string.h>

/* ids, dy from input `at` on. */
static mrt_status want_rows(mrt_infer *c, int at) {
  const mrt_type *p = c->in[0];
  mrt_type dy = *c->in[at];
  MRT_TRY(mrt_want_integer(c, at));
  MRT_TRY(mrt_want_float(c, at + 1));
  if (dy.rank == MRT_MAX_RANK)
    return mrt_refuse(c, MRT_ESHAPE, "ids %s, fewer dimensions wanted",
                      mrt_show(&dy).s);
  if (p->dims[0] == 0 && mrt_type_count(&dy) > 0)
    return mrt_refuse(c, MRT_EVALUE, "ids %s into %s, which is empty",
                      mrt_show(&dy).s, mrt_show(p).s);
  dy.dims[dy.rank++] = p->dims[1];
  return mrt_want_shape(c, at + 1, dy.rank, dy.dims, "ids and then C");
}

/* a, b after the variables: their product is shaped as p. */
static mrt_status want_factors(mrt_infer *c, mrt_dtype compute, int written) {
  mrt_matmul_options options = { .compute = compute,
                                 .accumulate = MRT_DTYPE_COUNT };
  mrt_type y = { 0 };
  mrt_infer product = *c;
  product.nin = 2, product.in = c->in + written, product.out = &y;
  product.options = &options;
  MRT_TRY(mrt_want_factors(&product, compute, &y.dtype));
  MRT_TRY(mrt_infer_matmul(&product));
  if ((c->in[written]->dtype == MRT_f64) != (c->in[0]->dtype == MRT_f64))
    return mrt_want_same_dtype(c, 0, written);
  if (mrt_type_same_shape(&y, c->in[0])) return MRT_OK;
  return mrt_refuse(c, MRT_ESHAPE, "the product is %s, the shape of %s wanted",
                    mrt_show(&y).s, mrt_show(c->in[0]).s);
}

/* p, state, and what makes the gradient; *at: what comes after them. */
static mrt_status want_product(mrt_infer *c, const mrt_product_gradient *o,
                               int written, bool lazy, int rest, int *at) {
  *at = written + 2 + 2 * o->rows;
  MRT_TRY(mrt_want_state(c, written));
  if (c->in[0]->rank != 2)
    return mrt_refuse(c, MRT_ESHAPE, "weight %s, two dimensions wanted",
                      mrt_show(c->in[0]).s);
  if (lazy)
    return mrt_refuse(c, MRT_EVALUE, "lazy, which a product is not taken for");
  if (c->nin < *at + rest || c->nin > *at + rest + 2)
    return mrt_refuse(c, MRT_EVALUE, "%d inputs, %d to %d wanted", c->nin,
                      *at + rest, *at + rest + 2);
  MRT_TRY(want_factors(c, o->compute, written));
  return o->rows ? want_rows(c, written + 2) : MRT_OK;
}

/* ---- the rows ------------------------------------------------------------ */

static mrt_status infer_descend(mrt_infer *c) {
  const mrt_descend_product_options *o = c->options;
  int at;
  MRT_TRY(want_product(c, &o->gradient, 1, o->step.lazy, 1, &at));
  return mrt_want_rate(c, at);
}

static mrt_status infer_sgd(mrt_infer *c) {
  const mrt_sgd_product_options *o = c->options;
  int at;
  MRT_TRY(want_product(c, &o->gradient, 2, o->step.lazy, 1, &at));
  return mrt_want_rate(c, at);
}

static mrt_status infer_rmsprop(mrt_infer *c) {
  const mrt_rmsprop_product_options *o = c->options;
  int at;
  MRT_TRY(want_product(c, &o->gradient, 2, o->step.lazy, 1, &at));
  return mrt_want_rate(c, at);
}

static mrt_status infer_adamw(mrt_infer *c) {
  const mrt_adamw_product_options *o = c->options;
  int at;
  MRT_TRY(want_product(c, &o->gradient, 3, o->step.lazy, 2, &at));
  MRT_TRY(mrt_want_count(c, at));
  return mrt_want_rate(c, at + 1);
}

static mrt_product product(const mrt_signature *s) {
  const mrt_type *p = s->in[0], *a = s->in[s->op->updates];
  return (mrt_product){ .count = 1,
                        .m = (double)p->dims[0],
                        .n = (double)p->dims[1],
                        .k = (double)a->dims[1] };
}
/* Of the update itself: 5 operations for each variable. */
static double update_flops(const mrt_signature *s) {
  return 5.0 * s->op->updates * (double)mrt_type_count(s->in[0]);
}
static double flops(const mrt_signature *s) {
  mrt_product p = product(s);
  return 2 * p.m * p.n * p.k + update_flops(s);
}
static void work(const mrt_signature *s, double *by_kind) {
  by_kind[MRT_COST_matmul] += flops(s) - update_flops(s);
  by_kind[MRT_COST_update] += update_flops(s);
}

#define GRADIENT_OPTIONS(type)                                                 \
  { .name = "compute",                                                         \
    .offset = offsetof(type, gradient.compute),                                \
    .kind = MRT_OPT_DTYPE,                                                     \
    .preset = MRT_DTYPE_COUNT },                                               \
  {                                                                            \
    .name = "rows", .offset = offsetof(type, gradient.rows),                   \
    .kind = MRT_OPT_BOOL                                                       \
  }

static const mrt_option descend_options[] = {
  MRT_DESCEND_OPTIONS,
  GRADIENT_OPTIONS(mrt_descend_product_options),
};
static const mrt_option sgd_options[] = {
  MRT_SGD_OPTIONS,
  GRADIENT_OPTIONS(mrt_sgd_product_options),
};
static const mrt_option rmsprop_options[] = {
  MRT_RMSPROP_OPTIONS,
  GRADIENT_OPTIONS(mrt_rmsprop_product_options),
};
static const mrt_option adamw_options[] = {
  MRT_ADAMW_OPTIONS,
  GRADIENT_OPTIONS(mrt_adamw_product_options),
};

/* All inputs after these. */
#define NARROW_AFTER(written) (0x7fffffffu & ~((1u << (written)) - 1))

#define PRODUCT_UPDATE(op, written, least, words)                              \
  const mrt_op mrt_op_##op##_product = {                                       \
    .name = #op "_product",                                                    \
    .number = MRT_OP_##op##_product,                                           \
    .cost = MRT_COST_matmul,                                                   \
    .doc = words,                                                              \
    .min_inputs = least,                                                       \
    .max_inputs = -1,                                                          \
    MRT_OPTIONS(op##_options, mrt_##op##_product_options),                     \
    .infer = infer_##op,                                                       \
    .flops = flops,                                                            \
    .work = work,                                                              \
    .product = product,                                                        \
    .strided = 3u << (written),                                                \
    .updates = written,                                                        \
    .width = MRT_WIDE,                                                         \
    .narrow_inputs = NARROW_AFTER(written),                                    \
    .traits = MRT_UPDATES | MRT_FIXED | MRT_RANDOM | MRT_DERIVES,              \
  }

PRODUCT_UPDATE(descend, 1, 4,
               "p = one step of plain SGD by a product, "
               "for p, a, b[, ids, dy], lr[, scale[, when]]");
PRODUCT_UPDATE(sgd, 2, 5,
               "p, buf = one step of SGD by a product, "
               "for p, buf, a, b[, ids, dy], lr[, scale[, when]]");
PRODUCT_UPDATE(rmsprop, 2, 5,
               "p, v = one step of RMSProp by a product, "
               "for p, v, a, b[, ids, dy], lr[, scale[, when]]");
PRODUCT_UPDATE(adamw, 3, 7,
               "p, m, v = one step of AdamW by a product, "
               "for p, m, v, a, b[, ids, dy], t, lr[, scale[, when]]");
