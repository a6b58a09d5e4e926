/* matmul.c -- products of matrices
 *
 *   matmul  y = a @ b           a [..., M, K], b [..., K, N] -> [..., M, N]
 *   linear  y = x @ w^T + bias  x [..., K], w [N, K], bias [N] -> [..., N]
 *
 *   a, b   floats of any width, f64 with f64 only; leading dimensions are
 *          broadcast; any strides
 *   y      the widest dtype of the inputs; f32 of two equally wide
 *   rule   Inputs but bias are rounded to `compute`, where that is given; the
 *          sum and the bias are added in f32 (f64), and that is rounded once.
 *   accumulate, where it is a narrow float: each sum begins at 0, and s becomes
 *          s + a b, added in f32 and rounded to `accumulate`, in the order of K;
 *          so does the bias come to it.  What a long sum loses in few bits shows
 *          there: 4,096 ones add up to 2,048 in f16, to 256 in bf16
 *   cost   2 flop for each of M * N * K
 *   grad   matmul  da = dy @ b^T;  db = a^T @ dy;  summed where broadcast
 *          linear  dx = dy @ w;  dw = dy^T @ x;  dbias = sum of dy over rows;
 *          where x was looked up in a table with fewer rows, dy is added up by
 *          these rows first (lookup.h)
 *   fails  ESHAPE  fewer than two dimensions, or sizes that do not fit
 *          EDTYPE  not floats, or f64 beside another, compute and accumulate
 *                  included
 *
 * Gradients have the same `compute` and `accumulate`, and each the dtype of its input.
 *
 * SPDX-License-Identifier: MIT */
#include "op/matmul.h"
#include "op/lookup.h"
#include "op/sums.h"

static const mrt_option options[] = {
  MRT_OPTION(mrt_matmul_options, compute, MRT_OPT_DTYPE,
             .preset = MRT_DTYPE_COUNT),
  MRT_OPTION(mrt_matmul_options, accumulate, MRT_OPT_DTYPE,
             .preset = MRT_DTYPE_COUNT),
};

mrt_status mrt_want_compute(mrt_infer *c, mrt_dtype d) {
  mrt_dtype x = c->in[0]->dtype;
  if (d == MRT_DTYPE_COUNT) return MRT_OK;
  if ((unsigned)d < MRT_DTYPE_COUNT && mrt_is_float(d) &&
      (d == MRT_f64) == (x == MRT_f64))
    return MRT_OK;
  return mrt_refuse(c, MRT_EDTYPE, "compute is %s beside %s, %s wanted",
                    mrt_dtype_name(d), mrt_dtype_name(x),
                    x == MRT_f64 ? "f64" : "a narrow float or f32");
}

mrt_status mrt_want_factors(mrt_infer *c, mrt_dtype compute, mrt_dtype *y) {
  *y = c->in[0]->dtype;
  for (int i = 0; i < c->nin; i++) MRT_TRY(mrt_want_float(c, i));
  for (int i = 1; i < c->nin; i++) {
    mrt_dtype d = c->in[i]->dtype;
    if ((*y == MRT_f64) != (d == MRT_f64))
      MRT_TRY(mrt_want_same_dtype(c, 0, i));
    *y = mrt_wider_float(*y, d);
  }
  return mrt_want_compute(c, compute);
}

mrt_status mrt_want_sums(mrt_infer *c, mrt_dtype *d) {
  mrt_dtype wide = c->in[0]->dtype == MRT_f64 ? MRT_f64 : MRT_f32;
  if (*d == wide) *d = MRT_DTYPE_COUNT;
  if (*d == MRT_DTYPE_COUNT) return MRT_OK;
  if ((unsigned)*d < MRT_DTYPE_COUNT && mrt_is_narrow(*d) && wide == MRT_f32)
    return MRT_OK;
  return mrt_refuse(c, MRT_EDTYPE, "accumulate is %s beside %s, %s wanted",
                    mrt_dtype_name(*d), mrt_dtype_name(c->in[0]->dtype),
                    wide == MRT_f64 ? "f64" : "a narrow float or f32");
}

static mrt_status check_dtypes(mrt_infer *c, mrt_dtype *y) {
  mrt_matmul_options *o = c->options;
  MRT_TRY(mrt_want_factors(c, o->compute, y));
  return mrt_want_sums(c, &o->accumulate);
}

static mrt_status want_rank(mrt_infer *c, int i, int rank) {
  if (c->in[i]->rank >= rank) return MRT_OK;
  return mrt_refuse(c, MRT_ESHAPE,
                    "input %d is %s, at least %d dimension%s wanted", i + 1,
                    mrt_show(c->in[i]).s, rank, rank == 1 ? "" : "s");
}

static mrt_status refuse_inner(mrt_infer *c, int64_t a, int64_t b) {
  return mrt_refuse(
      c, MRT_ESHAPE, "%s against %s, inner sizes %lld and %lld, equal wanted",
      mrt_show(c->in[0]).s, mrt_show(c->in[1]).s, (long long)a, (long long)b);
}

/* Size of dimension `i` of `rank` right-aligned ones; 1 where t has none. */
static int64_t dim_at(const mrt_type *t, int i, int rank) {
  i -= rank - t->rank;
  return i < 0 ? 1 : t->dims[i];
}

mrt_status mrt_infer_matmul(mrt_infer *c) {
  const mrt_type *a = c->in[0], *b = c->in[1];
  mrt_type y = { 0 };
  MRT_TRY(check_dtypes(c, &y.dtype));
  for (int i = 0; i < 2; i++) MRT_TRY(want_rank(c, i, 2));
  int64_t k = a->dims[a->rank - 1], k2 = b->dims[b->rank - 2];
  if (k != k2) return refuse_inner(c, k, k2);
  y.rank = a->rank > b->rank ? a->rank : b->rank;
  for (int i = 0; i < y.rank - 2; i++) {
    int64_t m = dim_at(a, i, y.rank), n = dim_at(b, i, y.rank);
    if (m != n && m != 1 && n != 1)
      return mrt_refuse(
          c, MRT_ESHAPE,
          "%s against %s, leading sizes %lld and %lld, equal or 1 wanted",
          mrt_show(a).s, mrt_show(b).s, (long long)m, (long long)n);
    y.dims[i] = m == 1 ? n : m;
  }
  y.dims[y.rank - 2] = a->dims[a->rank - 2];
  y.dims[y.rank - 1] = b->dims[b->rank - 1];
  c->out[0] = y;
  return MRT_OK;
}

/* `keep` is another row's. */
static mrt_status matmul_infer(mrt_infer *c) {
  ((mrt_matmul_options *)c->options)->keep = false;
  return mrt_infer_matmul(c);
}

double mrt_matmul_flops(const mrt_signature *s) {
  const mrt_type *a = s->in[0];
  double k = (double)a->dims[a->rank - 1];
  double y = (double)mrt_type_count(s->out[0]);
  return 2 * y * k + (s->nin == 3 ? y : 0);
}

mrt_product mrt_matmul_product(const mrt_signature *s) {
  const mrt_type *a = s->in[0], *y = s->out[0];
  mrt_product p = { .count = 1,
                    .m = 1,
                    .n = (double)y->dims[y->rank - 1],
                    .k = (double)a->dims[a->rank - 1] };
  /* One b for the whole batch: one product of all rows. */
  bool rows = s->in[1]->rank == 2;
  for (int i = 0; i < y->rank - 1; i++)
    *(rows || i == y->rank - 2 ? &p.m : &p.count) *= (double)y->dims[i];
  return p;
}

static mrt_tensor *multiply(mrt_build *b, mrt_tensor *x, mrt_tensor *y) {
  return MRT_MAKE(b, matmul, b->options, x, y);
}

static mrt_tensor *cast_like(mrt_build *b, mrt_tensor *x, mrt_tensor *like) {
  return mrt_cast_to(b, x, mrt_of(like)->dtype);
}

/* x summed over the dimensions along which `like` was broadcast to x. */
static mrt_tensor *sum_to(mrt_build *b, mrt_tensor *x, mrt_tensor *like) {
  const mrt_type *from = mrt_of(x), *to = mrt_of(like);
  mrt_ints dims = { 0 };
  for (int i = 0; x && i < from->rank - 2; i++)
    if (dim_at(to, i, from->rank) != from->dims[i] || i < from->rank - to->rank)
      dims.at[dims.count++] = i;
  if (dims.count == 0) return x;
  return mrt_reshape_like(b, mrt_sum_dims(b, x, &dims, false), like);
}

/* x as a matrix: its last dimension, and all others as rows. */
static mrt_tensor *as_matrix(mrt_build *b, mrt_tensor *x) {
  const mrt_type *t = mrt_of(x);
  if (!x || t->rank == 2) return x;
  int64_t dims[] = { mrt_extent(t, 0, t->rank - 1), t->dims[t->rank - 1] };
  return mrt_reshape_to(b, x, 2, dims);
}

/* With one b for the whole batch, db is one product over all rows. */
static void matmul_gradient(mrt_build *b) {
  mrt_tensor *x = b->in[0], *w = b->in[1], *dy = b->dout[0];
  if (b->wants[0])
    b->din[0] = cast_like(
        b, sum_to(b, multiply(b, dy, mrt_transpose_last(b, w)), x), x);
  if (!b->wants[1]) return;
  if (mrt_of(w)->rank == 2) x = as_matrix(b, x), dy = as_matrix(b, dy);
  b->din[1] =
      cast_like(b, sum_to(b, multiply(b, mrt_transpose_last(b, x), dy), w), w);
}

mrt_status mrt_infer_linear(mrt_infer *c) {
  const mrt_type *x = c->in[0], *w = c->in[1];
  mrt_dtype dtype;
  MRT_TRY(check_dtypes(c, &dtype));
  MRT_TRY(want_rank(c, 0, 1));
  if (w->rank != 2)
    return mrt_refuse(c, MRT_ESHAPE, "input 2 is %s, 2 dimensions wanted",
                      mrt_show(w).s);
  int64_t k = x->dims[x->rank - 1];
  if (k != w->dims[1]) return refuse_inner(c, k, w->dims[1]);
  if (c->nin == 3)
    MRT_TRY(
        mrt_want_shape(c, 2, 1, w->dims, "one bias for each row of input 2"));
  c->out[0] = *x;
  c->out[0].dtype = dtype;
  c->out[0].dims[x->rank - 1] = w->dims[0];
  return MRT_OK;
}

static mrt_status linear_infer(mrt_infer *c) {
  ((mrt_matmul_options *)c->options)->keep = false;
  return mrt_infer_linear(c);
}

/* dy^T @ x; of rows of a table, (dy added up by its rows)^T @ the table. */
static mrt_tensor *linear_dw(mrt_build *b, mrt_tensor *x, mrt_tensor *dy) {
  const mrt_matmul_options *o = b->options;
  mrt_tensor *ids, *table = NULL;
  if (o->compute == MRT_DTYPE_COUNT && !mrt_sums_narrow(b->op, o) &&
      mrt_of(dy)->dtype == mrt_of(x)->dtype)
    table = mrt_lookup_table(b, x, &ids);
  if (table)
    x = table, dy = mrt_lookup_sum(b, table, ids, dy);
  else
    x = as_matrix(b, x);
  return multiply(b, mrt_transpose_last(b, dy), x);
}

void mrt_linear_gradients(mrt_build *b, mrt_tensor *dy) {
  mrt_tensor *x = b->in[0], *w = b->in[1];
  dy = as_matrix(b, dy);
  if (b->wants[0])
    b->din[0] = cast_like(b, mrt_reshape_like(b, multiply(b, dy, w), x), x);
  if (b->wants[1]) b->din[1] = cast_like(b, linear_dw(b, x, dy), w);
  if (b->nin == 3 && b->wants[2])
    b->din[2] = cast_like(b, mrt_sum_dim(b, dy, 0, false), b->in[2]);
}

static void linear_gradient(mrt_build *b) {
  mrt_linear_gradients(b, b->dout[0]);
}

static int matmul_shard_rule(const mrt_signature *s, int input, int dim) {
  int rank = s->out[0]->rank, own = s->in[input]->rank;
  bool inner = dim == own - (input == 0 ? 1 : 2);
  return inner ? MRT_RULE_PARTIAL : dim + rank - own;
}

/* The bias is added to a sum, once. */
static int linear_shard_rule(const mrt_signature *s, int input, int dim) {
  int last = s->out[0]->rank - 1;
  bool inner = input < 2 && dim == s->in[input]->rank - 1;
  if (inner) return s->nin == 3 ? MRT_RULE_UNKNOWN : MRT_RULE_PARTIAL;
  return input == 0 ? dim : last;
}

const mrt_op mrt_op_matmul = {
  .name = "matmul",
  .number = MRT_OP_matmul,
  .cost = MRT_COST_matmul,
  .doc = "y = a @ b, products of the last two dimensions, the others broadcast",
  .min_inputs = 2,
  .max_inputs = 2,
  MRT_OPTIONS(options, mrt_matmul_options),
  .infer = matmul_infer,
  .shard_rule = matmul_shard_rule,
  .grad = matmul_gradient,
  .flops = mrt_matmul_flops,
  .product = mrt_matmul_product,
  .strided = 3,
  .width = MRT_NARROW,
  .narrow_outputs = 1,
  .traits = MRT_PRODUCT,
};
const mrt_op mrt_op_linear = {
  .name = "linear",
  .addend = 2,
  .number = MRT_OP_linear,
  .cost = MRT_COST_matmul,
  .doc = "y = x @ w^T + bias for w [N,K] and bias [N]; bias may be left out",
  .min_inputs = 2,
  .max_inputs = 3,
  MRT_OPTIONS(options, mrt_matmul_options),
  .infer = linear_infer,
  .shard_rule = linear_shard_rule,
  .grad = linear_gradient,
  .flops = mrt_matmul_flops,
  .product = mrt_matmul_product,
  .strided = 3,
  .width = MRT_NARROW,
  .narrow_outputs = 1,
};
