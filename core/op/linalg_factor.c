/* linalg_factor.c -- Cholesky and QR
 *
 *   cholesky  A = L L^T, or U^T U, of symmetric positive definite matrices
 *   qr        A = Q R: orthonormal columns, upper triangle
 *
 *   A      f32 | f64, [..., n, n], of which one triangle is read; [..., m, n]
 *   Q, R   [..., m, k] and [..., k, n], k = min(m, n), or m where complete
 *   cost   1/3 n^3 flop; 4 (m n k - (m + n) k^2 / 2 + k^3 / 3)
 *   grad   cholesky: the symmetric part of L^-T P(L^T dL) L^-1, P the lower
 *          triangle with half its diagonal (Murray 2016): that of a symmetric A.
 *          qr: (dQ + Q copyltu(M)) R^-T, M = R dR^T - dQ^T Q (Walter and
 *          Lehmann 2018); wide ones by their first m columns.  A complete Q with
 *          more columns than A has none
 *   fails  ESHAPE, EDTYPE; EDEVICE  without LAPACK; EGRAD  see grad
 *          EDATA   when run: A is not positive definite
 *
 * SPDX-License-Identifier: MIT */
#include "op/linalg.h"
#include "tensor/tensor.h"

/* ---- cholesky ------------------------------------------------------------ */

static const mrt_option cholesky_table[] = {
  MRT_OPTION(mrt_cholesky_options, upper, MRT_OPT_BOOL, .preset = 0),
};

static mrt_status cholesky_infer(mrt_infer *c) {
  MRT_TRY(mrt_want_square(c, 0, 0));
  c->out[0] = *c->in[0];
  return MRT_OK;
}

static void cholesky_grad(mrt_build *b) {
  const mrt_cholesky_options *o = b->options;
  mrt_tensor *l = b->out[0], *d = b->dout[0];
  /* U stands for L^T */
  mrt_triangular_options t = { .upper = o->upper,
                               .left = true,
                               .transposed = !o->upper };
  if (o->upper) d = mrt_transpose_last(b, d);
  mrt_tensor *lt = o->upper ? l : mrt_transpose_last(b, l);
  mrt_tensor *p = mrt_matmul(b, lt, mrt_lower(b, d, 0));
  p = mrt_mul_k(b, mrt_add(b, mrt_lower(b, p, 0), mrt_lower(b, p, -1)), 0.5);
  p = mrt_triangular(b, l, p, t);
  t.left = false, t.transposed = o->upper;
  p = mrt_triangular(b, l, p, t);
  b->din[0] = mrt_mul_k(b, mrt_add(b, p, mrt_transpose_last(b, p)), 0.5);
}

static double cholesky_flops(const mrt_signature *s) {
  double n = (double)mrt_matrix_cols(s->in[0]);
  return mrt_matrix_count(s->in[0]) / 3 * n * n * n;
}

const mrt_op mrt_op_cholesky = {
  .name = "cholesky",
  .number = MRT_OP_cholesky,
  .cost = MRT_COST_matmul,
  .doc = "lower L with x = L L^T, or upper U with x = U^T U",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(cholesky_table, mrt_cholesky_options),
  .infer = cholesky_infer,
  .grad = cholesky_grad,
  .shard_rule = mrt_shard_rules_batch,
  .flops = cholesky_flops,
  .inplace = 1,
  .width = MRT_WIDE,
  .fault = "matrix %lld of %lld is not positive definite",
  .traits = MRT_FAULTS,
};

/* ---- qr ------------------------------------------------------------------ */

static const mrt_option qr_table[] = {
  MRT_OPTION(mrt_qr_options, complete, MRT_OPT_BOOL, .preset = 0),
};

static mrt_status qr_infer(mrt_infer *c) {
  const mrt_qr_options *o = c->options;
  MRT_TRY(mrt_want_matrix(c, 0, 1));
  int64_t m = mrt_matrix_rows(c->in[0]), n = mrt_matrix_cols(c->in[0]);
  int64_t k = m < n || o->complete ? m : n;
  if ((double)m * (double)k > (double)INT32_MAX)
    return mrt_refuse(c, MRT_ESHAPE, "Q of %lld by %lld is too large",
                      (long long)m, (long long)k);
  c->nout = 2;
  c->out[0] = mrt_matrix_type(c->in[0], m, k);
  c->out[1] = mrt_matrix_type(c->in[0], k, n);
  return MRT_OK;
}

/* Where A has more columns than rows, those beyond follow from R = Q^T A. */
static void qr_grad(mrt_build *b) {
  mrt_tensor *q = b->out[0], *r = b->out[1], *dq = b->dout[0];
  mrt_tensor *dr = b->dout[1];
  const mrt_type *t = mrt_of(b->in[0]);
  int64_t m = mrt_matrix_rows(t), n = mrt_matrix_cols(t), k = m < n ? m : n;
  if (mrt_matrix_cols(mrt_of(q)) > k) {
    b->status = mrt_fail(&b->ctx->error, MRT_EGRAD,
                         "qr: a complete Q of %s has no gradient: the columns "
                         "beyond %lld are any that fit",
                         mrt_show(t).s, (long long)k);
    return;
  }
  mrt_tensor *rest = NULL; /* Q dR of the columns beyond: theirs, and dQ's */
  if (n > k && dr) {
    mrt_tensor *d2 = mrt_cols_of(b, dr, k, n - k);
    mrt_tensor *a2 = mrt_cols_of(b, b->in[0], k, n - k);
    rest = mrt_matmul(b, q, d2);
    dq = mrt_add_some(b, dq, mrt_matmul(b, a2, mrt_transpose_last(b, d2)));
  } else if (n > k) {
    mrt_type zeros = mrt_matrix_type(t, m, n - k);
    rest = mrt_zeros_of(b, q, &zeros);
  }
  mrt_tensor *r1 = mrt_cols_of(b, r, 0, k);
  mrt_tensor *dr1 = mrt_upper(b, mrt_cols_of(b, dr, 0, k), 0);
  mrt_tensor *mm = mrt_matmul(b, r1, mrt_transpose_last(b, dr1));
  mm = mrt_add_some(b, mm,
                    mrt_neg(b, mrt_matmul(b, mrt_transpose_last(b, dq), q)));
  mrt_tensor *copied = mrt_add(b, mrt_lower(b, mm, 0),
                               mrt_transpose_last(b, mrt_lower(b, mm, -1)));
  mrt_tensor *d = mrt_add_some(b, dq, mrt_matmul(b, q, copied));
  d = mrt_triangular(
      b, r1, d, (mrt_triangular_options){ .upper = true, .transposed = true });
  b->din[0] = rest ? mrt_beside(b, d, rest, -1) : d;
}

static double qr_flops(const mrt_signature *s) {
  double m = (double)mrt_matrix_rows(s->in[0]);
  double n = (double)mrt_matrix_cols(s->in[0]), k = m < n ? m : n;
  return mrt_matrix_count(s->in[0]) * 4 *
         (m * n * k - (m + n) * k * k / 2 + k * k * k / 3);
}

const mrt_op mrt_op_qr = {
  .name = "qr",
  .number = MRT_OP_qr,
  .cost = MRT_COST_matmul,
  .doc = "x = Q R: orthonormal columns, an upper triangle",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(qr_table, mrt_qr_options),
  .infer = qr_infer,
  .grad = qr_grad,
  .shard_rule = mrt_shard_rules_batch,
  .flops = qr_flops,
  .width = MRT_WIDE,
  .traits = MRT_LIBRARY,
};
