/* two_of_four.c -- matrices of which two of each four numbers are not 0
 *
 *   two_of_four         values, codes = the two largest |w| of each four, and
 *                       where they were; of equal ones the first
 *   two_of_four_dense   w = values where the codes say, 0 elsewhere
 *   two_of_four_pick    values = w where the codes say
 *   two_of_four_linear  y = x @ w^T + bias, or with `transposed` y = x @ w, for
 *                       w = two_of_four_dense(values, codes), never stored
 *
 *   w       [..., K], K a multiple of 4, floats
 *   values  [..., K / 2], dtype of w
 *   codes   [..., K / 8 rounded up], u8: two bits for each value, its place in
 *           its four, the first in the lowest bits
 *   x bias  floats, f64 where the values are
 *   y       the widest dtype of x, values and bias; f32 of two equally wide
 *   rule    x and w are rounded to `compute`, where that is given; the sum and
 *           the bias are added in f32 (f64), and that is rounded once.  Two
 *           values in one place are added
 *   cost    values and codes take 17/32 of the bytes of f32, 18/32 of bf16's;
 *           the product does all of its flop, and holds strips of w
 *   grad    of w, values, x and bias; codes are constants
 *   fails   ESHAPE, EDTYPE
 *   from    Mishra et al. 2021, "Accelerating sparse deep neural networks"
 *           (arXiv:2104.08378)
 *
 * SPDX-License-Identifier: MIT */
#include "op/two_of_four.h"
#include "op/build.h"
#include "op/matmul.h"

static const mrt_option options[] = {
  MRT_OPTION(mrt_two_of_four_options, transposed, MRT_OPT_BOOL),
  MRT_OPTION(mrt_two_of_four_options, compute, MRT_OPT_DTYPE,
             .preset = MRT_DTYPE_COUNT),
};

static int64_t code_bytes(int64_t values) { return (values + 3) / 4; }

/* Is input i a matrix whose rows are fours? */
static mrt_status want_fours(mrt_infer *c, int i, int64_t of, const char *why) {
  const mrt_type *t = c->in[i];
  MRT_TRY(mrt_want_float(c, i));
  if (t->rank > 0 && t->dims[t->rank - 1] % of == 0) return MRT_OK;
  return mrt_refuse(c, MRT_ESHAPE, "input %d is %s, %s", i + 1, mrt_show(t).s,
                    why);
}

/* Input i: codes for so many values as the last dimension of input `beside`
 * says, or half of that. */
static mrt_status want_codes(mrt_infer *c, int i, int beside, int half) {
  mrt_type wanted = *c->in[beside];
  int64_t *last = &wanted.dims[wanted.rank - 1];
  *last = code_bytes(*last / half);
  MRT_TRY(mrt_want_dtype(c, i, MRT_u8));
  return mrt_want_shape(c, i, wanted.rank, wanted.dims,
                        "two bits for each value");
}

static mrt_status infer_pack(mrt_infer *c) {
  MRT_TRY(want_fours(c, 0, 4, "rows of a multiple of 4 wanted"));
  c->nout = 2;
  c->out[0] = c->out[1] = *c->in[0];
  int last = c->out[0].rank - 1;
  c->out[0].dims[last] /= 2;
  c->out[1].dtype = MRT_u8;
  c->out[1].dims[last] = code_bytes(c->out[0].dims[last]);
  return MRT_OK;
}

static mrt_status infer_dense(mrt_infer *c) {
  MRT_TRY(want_fours(c, 0, 2, "an even number of values in a row wanted"));
  MRT_TRY(want_codes(c, 1, 0, 1));
  c->out[0] = *c->in[0];
  c->out[0].dims[c->out[0].rank - 1] *= 2;
  return MRT_OK;
}

static mrt_status infer_pick(mrt_infer *c) {
  MRT_TRY(want_fours(c, 0, 4, "rows of a multiple of 4 wanted"));
  MRT_TRY(want_codes(c, 1, 0, 2));
  c->out[0] = *c->in[0];
  c->out[0].dims[c->out[0].rank - 1] /= 2;
  return MRT_OK;
}

/* Input i is a float, f64 where the values are. */
static mrt_status want_beside_values(mrt_infer *c, int i) {
  MRT_TRY(mrt_want_float(c, i));
  if ((c->in[i]->dtype == MRT_f64) == (c->in[1]->dtype == MRT_f64))
    return MRT_OK;
  return mrt_want_same_dtype(c, i, 1);
}

/* x, values, codes[, bias] */
static mrt_status infer_linear(mrt_infer *c) {
  const mrt_two_of_four_options *o = c->options;
  const mrt_type *x = c->in[0], *values = c->in[1];
  MRT_TRY(want_fours(c, 1, 2, "an even number of values in a row wanted"));
  MRT_TRY(want_codes(c, 2, 1, 1));
  MRT_TRY(want_beside_values(c, 0));
  MRT_TRY(mrt_want_compute(c, o->compute));
  if (x->rank == 0 || values->rank != 2)
    return mrt_refuse(
        c, MRT_ESHAPE,
        "x %s and values %s, at least one dimension and two wanted",
        mrt_show(x).s, mrt_show(values).s);
  int last = x->rank - 1;
  int64_t rows = values->dims[0], columns = 2 * values->dims[1];
  int64_t inner = o->transposed ? rows : columns;
  int64_t outer = o->transposed ? columns : rows;
  if (x->dims[last] != inner)
    return mrt_refuse(c, MRT_ESHAPE, "x %s, %lld columns wanted", mrt_show(x).s,
                      (long long)inner);
  c->out[0] = *x;
  c->out[0].dtype = mrt_wider_float(x->dtype, values->dtype);
  if (c->nin == 4) {
    MRT_TRY(want_beside_values(c, 3));
    MRT_TRY(mrt_want_shape(c, 3, 1, &outer, "one bias for each result"));
    c->out[0].dtype = mrt_wider_float(c->out[0].dtype, c->in[3]->dtype);
  }
  c->out[0].dims[last] = outer;
  return MRT_OK;
}

/* ---- gradients ----------------------------------------------------------- */

static void pack_grad(mrt_build *b) {
  b->din[0] = MRT_MAKE(b, two_of_four_dense, NULL, b->dout[0], b->out[1]);
}
static void dense_grad(mrt_build *b) {
  if (b->wants[0])
    b->din[0] = MRT_MAKE(b, two_of_four_pick, NULL, b->dout[0], b->in[1]);
}
static void pick_grad(mrt_build *b) {
  if (b->wants[0])
    b->din[0] = MRT_MAKE(b, two_of_four_dense, NULL, b->dout[0], b->in[1]);
}

static mrt_tensor *as_matrix(mrt_build *b, mrt_tensor *x) {
  const mrt_type *t = mrt_of(x);
  if (!x || t->rank == 2) return x;
  int64_t dims[] = { mrt_extent(t, 0, t->rank - 1), t->dims[t->rank - 1] };
  return mrt_reshape_to(b, x, 2, dims);
}

static void linear_grad(mrt_build *b) {
  mrt_two_of_four_options o = *(const mrt_two_of_four_options *)b->options;
  mrt_matmul_options product = { .compute = o.compute,
                                 .accumulate = MRT_DTYPE_COUNT };
  mrt_tensor *x = b->in[0], *values = b->in[1], *codes = b->in[2];
  mrt_tensor *dy = b->dout[0];
  bool turned = o.transposed;
  o.transposed = !turned;
  if (b->wants[0])
    b->din[0] =
        mrt_cast_to(b, MRT_MAKE(b, two_of_four_linear, &o, dy, values, codes),
                    mrt_of(x)->dtype);
  dy = as_matrix(b, dy), x = as_matrix(b, x);
  if (b->wants[1]) {
    mrt_tensor *dw =
        MRT_MAKE(b, matmul, &product, mrt_transpose_last(b, turned ? x : dy),
                 turned ? dy : x);
    b->din[1] = mrt_cast_to(b, MRT_MAKE(b, two_of_four_pick, NULL, dw, codes),
                            mrt_of(values)->dtype);
  }
  if (b->nin == 4 && b->wants[3])
    b->din[3] =
        mrt_cast_to(b, mrt_sum_dim(b, dy, 0, false), mrt_of(b->in[3])->dtype);
}

/* ---- rows ---------------------------------------------------------------- */

static int rows_shard_rule(const mrt_signature *s, int input, int dim) {
  return dim < s->in[0]->rank - 1 ? dim : MRT_RULE_UNKNOWN;
}
static int linear_shard_rule(const mrt_signature *s, int input, int dim) {
  return input == 0 && dim < s->in[0]->rank - 1 ? dim : MRT_RULE_UNKNOWN;
}

static mrt_product product(const mrt_signature *s) {
  const mrt_type *x = s->in[0], *y = s->out[0];
  int last = x->rank - 1;
  return (mrt_product){ .count = 1,
                        .m = (double)mrt_extent(x, 0, last),
                        .n = (double)y->dims[last],
                        .k = (double)x->dims[last] };
}
/* The product, the bias, and each weight put in its place. */
static double linear_flops(const mrt_signature *s) {
  mrt_product p = product(s);
  return 2 * p.m * p.n * p.k + (s->nin == 4 ? p.m * p.n : 0) + p.n * p.k;
}
static double flops(const mrt_signature *s) {
  return 4 * (double)mrt_type_count(s->in[0]);
}

const mrt_op mrt_op_two_of_four = {
  .name = "two_of_four",
  .number = MRT_OP_two_of_four,
  .cost = MRT_COST_pointwise,
  .doc = "values, codes = the two largest |w| of each four, and where they are",
  .min_inputs = 1,
  .max_inputs = 1,
  .infer = infer_pack,
  .grad = pack_grad,
  .shard_rule = rows_shard_rule,
  .flops = flops,
  .width = MRT_WIDE,
  .traits = MRT_LIBRARY,
};
const mrt_op mrt_op_two_of_four_dense = {
  .name = "two_of_four_dense",
  .number = MRT_OP_two_of_four_dense,
  .cost = MRT_COST_pointwise,
  .doc = "w = values where the codes say, two of each four, 0 elsewhere",
  .min_inputs = 2,
  .max_inputs = 2,
  .infer = infer_dense,
  .grad = dense_grad,
  .shard_rule = rows_shard_rule,
  .flops = flops,
  .width = MRT_WIDE,
  .traits = MRT_LIBRARY,
};
const mrt_op mrt_op_two_of_four_pick = {
  .name = "two_of_four_pick",
  .number = MRT_OP_two_of_four_pick,
  .cost = MRT_COST_pointwise,
  .doc = "values = w where the codes say, two of each four",
  .min_inputs = 2,
  .max_inputs = 2,
  .infer = infer_pick,
  .grad = pick_grad,
  .shard_rule = rows_shard_rule,
  .flops = flops,
  .width = MRT_WIDE,
  .traits = MRT_LIBRARY,
};
const mrt_op mrt_op_two_of_four_linear = {
  .name = "two_of_four_linear",
  .number = MRT_OP_two_of_four_linear,
  .cost = MRT_COST_matmul,
  .doc = "y = x @ w^T + bias for w = two_of_four_dense(values, codes); "
         "transposed: x @ w",
  .min_inputs = 3,
  .max_inputs = 4,
  MRT_OPTIONS(options, mrt_two_of_four_options),
  .infer = infer_linear,
  .grad = linear_grad,
  .shard_rule = linear_shard_rule,
  .flops = linear_flops,
  .product = product,
  .width = MRT_NARROW,
  .narrow_outputs = 1,
  .traits = MRT_LIBRARY,
};
