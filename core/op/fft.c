/* fft.c -- discrete Fourier transforms along a dimension
 *
 *   dft    y[k] = scale sum_j x[j] e^(-2 pi i j k / n); inverse: e^(+...)
 *   rdft   the first n / 2 + 1 of these, of real x
 *   irdft  the n real numbers whose rdft this is, but for n
 *
 *   complex numbers are a last dimension of 2: the real and the imaginary part
 *   x      f32 | f64; dft [..., n, ..., 2], rdft [..., n, ...],
 *          irdft [..., n / 2 + 1, ..., 2], of which the imaginary parts that a
 *          real signal cannot have (of the first, of the middle one) are not read
 *   cost   5 n log2 n flop each, of real numbers half of it
 *   grad   the adjoint: dft and its inverse, rdft and irdft are each other's
 *          (all are linear)
 *   fails  EDTYPE, ESHAPE; EVALUE  dim, or n that does not fit
 *
 * SPDX-License-Identifier: MIT */
#include "op/fft.h"
#include "op/build.h"

#include <math.h>

/* Longer ones would overflow what twiddles are counted in. */
static const int64_t longest = (int64_t)1 << 30;

static mrt_status want_length(mrt_infer *c, int64_t n) {
  if (n >= 1 && n <= longest) return MRT_OK;
  return mrt_refuse(c, MRT_EVALUE, "%lld numbers of %s, 1 to %lld wanted",
                    (long long)n, mrt_show(c->in[0]).s, (long long)longest);
}

static mrt_status want_complex(mrt_infer *c) {
  const mrt_type *x = c->in[0];
  MRT_TRY(mrt_want_real(c, 0));
  if (x->rank >= 2 && x->dims[x->rank - 1] == 2) return MRT_OK;
  return mrt_refuse(
      c, MRT_ESHAPE,
      "%s, complex numbers wanted: a last dimension of 2, the real "
      "and the imaginary part",
      mrt_show(x).s);
}

/* Along all but the last dimension of n numbers: `factor` of 5 n log2 n. */
static double flops_of(const mrt_type *t, int64_t dim, double n,
                       double factor) {
  double each = n > 1 ? 5 * n * log2(n) : 0, count = 1;
  for (int i = 0; i < t->rank; i++)
    if (i != dim) count *= (double)t->dims[i];
  return factor * count * each;
}

static int shard_rule(const mrt_signature *s, int input, int dim) {
  const mrt_fft_options *o = s->options;
  bool complex_ = s->op->number != MRT_OP_rdft;
  bool own = dim == o->dim || (complex_ && dim == s->in[0]->rank - 1);
  return own ? MRT_RULE_UNKNOWN : dim;
}

/* ---- dft ----------------------------------------------------------------- */

static const mrt_option fft_table[] = {
  MRT_OPTION(mrt_fft_options, dim, MRT_OPT_DIM, .required = true),
  MRT_OPTION(mrt_fft_options, scale, MRT_OPT_NUM, .preset = 1),
  MRT_OPTION(mrt_fft_options, inverse, MRT_OPT_BOOL, .preset = 0),
};

static mrt_status fft_infer(mrt_infer *c) {
  mrt_fft_options *o = c->options;
  MRT_TRY(want_complex(c));
  MRT_TRY(mrt_want_dim(c, &o->dim, c->in[0]->rank - 1));
  MRT_TRY(want_length(c, c->in[0]->dims[o->dim]));
  c->out[0] = *c->in[0];
  return MRT_OK;
}

static void fft_grad(mrt_build *b) {
  mrt_fft_options o = *(const mrt_fft_options *)b->options;
  o.inverse = !o.inverse;
  b->din[0] = MRT_MAKE(b, dft, &o, b->dout[0]);
}

static double fft_flops(const mrt_signature *s) {
  const mrt_fft_options *o = s->options;
  const mrt_type *t = s->in[0];
  return flops_of(t, o->dim, (double)t->dims[o->dim], 0.5);
}

const mrt_op mrt_op_dft = {
  .name = "dft",
  .number = MRT_OP_dft,
  .cost = MRT_COST_matmul,
  .doc = "y[k] = scale sum_j x[j] e^(-2 pi i j k / n); inverse: e^+",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(fft_table, mrt_fft_options),
  .infer = fft_infer,
  .grad = fft_grad,
  .shard_rule = shard_rule,
  .flops = fft_flops,
  .width = MRT_WIDE,
  .traits = MRT_LINEAR | MRT_LIBRARY,
};

/* ---- rdft, irdft --------------------------------------------------------- */

static const mrt_option rfft_table[] = {
  MRT_OPTION(mrt_rfft_options, dim, MRT_OPT_DIM, .required = true),
  MRT_OPTION(mrt_rfft_options, scale, MRT_OPT_NUM, .preset = 1),
  MRT_OPTION(mrt_rfft_options, adjoint, MRT_OPT_BOOL, .preset = 0),
};

static mrt_status rfft_infer(mrt_infer *c) {
  mrt_rfft_options *o = c->options;
  const mrt_type *x = c->in[0];
  MRT_TRY(mrt_want_real(c, 0));
  MRT_TRY(mrt_want_dim(c, &o->dim, x->rank));
  MRT_TRY(want_length(c, x->dims[o->dim]));
  if (x->rank == MRT_MAX_RANK)
    return mrt_refuse(c, MRT_ESHAPE, "%s, at most %d dimensions wanted",
                      mrt_show(x).s, MRT_MAX_RANK - 1);
  c->out[0] = *x;
  c->out[0].dims[o->dim] = x->dims[o->dim] / 2 + 1;
  c->out[0].dims[c->out[0].rank++] = 2;
  return MRT_OK;
}

static void rfft_grad(mrt_build *b) {
  const mrt_rfft_options *o = b->options;
  int64_t n = mrt_of(b->in[0])->dims[o->dim];
  mrt_irfft_options back = { o->dim, o->scale, !o->adjoint, n };
  b->din[0] = MRT_MAKE(b, irdft, &back, b->dout[0]);
}

static double rfft_flops(const mrt_signature *s) {
  const mrt_rfft_options *o = s->options;
  const mrt_type *t = s->in[0];
  return flops_of(t, o->dim, (double)t->dims[o->dim], 0.5);
}

const mrt_op mrt_op_rdft = {
  .name = "rdft",
  .number = MRT_OP_rdft,
  .cost = MRT_COST_matmul,
  .doc = "the first n / 2 + 1 of scale sum_j x[j] e^(-2 pi i j k / n)",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(rfft_table, mrt_rfft_options),
  .infer = rfft_infer,
  .grad = rfft_grad,
  .shard_rule = shard_rule,
  .flops = rfft_flops,
  .width = MRT_WIDE,
  .traits = MRT_LINEAR | MRT_LIBRARY,
};

static const mrt_option irfft_table[] = {
  MRT_OPTION(mrt_irfft_options, dim, MRT_OPT_DIM, .required = true),
  MRT_OPTION(mrt_irfft_options, scale, MRT_OPT_NUM, .preset = 1),
  MRT_OPTION(mrt_irfft_options, adjoint, MRT_OPT_BOOL, .preset = 0),
  MRT_OPTION(mrt_irfft_options, n, MRT_OPT_INT, .required = true),
};

static mrt_status irfft_infer(mrt_infer *c) {
  mrt_irfft_options *o = c->options;
  const mrt_type *x = c->in[0];
  MRT_TRY(want_complex(c));
  MRT_TRY(mrt_want_dim(c, &o->dim, x->rank - 1));
  MRT_TRY(want_length(c, o->n));
  if (x->dims[o->dim] != o->n / 2 + 1)
    return mrt_refuse(c, MRT_EVALUE,
                      "%s for n %lld, %lld along dim %lld wanted",
                      mrt_show(x).s, (long long)o->n, (long long)o->n / 2 + 1,
                      (long long)o->dim + 1);
  c->out[0] = *x;
  c->out[0].rank--, c->out[0].dims[x->rank - 1] = 0;
  c->out[0].dims[o->dim] = o->n;
  return MRT_OK;
}

static void irfft_grad(mrt_build *b) {
  const mrt_irfft_options *o = b->options;
  mrt_rfft_options back = { o->dim, o->scale, !o->adjoint };
  b->din[0] = MRT_MAKE(b, rdft, &back, b->dout[0]);
}

static double irfft_flops(const mrt_signature *s) {
  const mrt_irfft_options *o = s->options;
  return flops_of(s->out[0], o->dim, (double)o->n, 0.5);
}

const mrt_op mrt_op_irdft = {
  .name = "irdft",
  .number = MRT_OP_irdft,
  .cost = MRT_COST_matmul,
  .doc = "n real numbers from the first n / 2 + 1 of their spectrum",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(irfft_table, mrt_irfft_options),
  .infer = irfft_infer,
  .grad = irfft_grad,
  .shard_rule = shard_rule,
  .flops = irfft_flops,
  .width = MRT_WIDE,
  .traits = MRT_LINEAR | MRT_LIBRARY,
};
