/* cross_entropy.c -- cross_entropy and its gradient, a row of logits at a time
 *
 * A row may be far longer than a cache (50257 classes are 200 KB), so the sum
 * of exponentials is taken in one pass: by blocks, each against the largest
 * logit so far; when a larger one comes, the sum is scaled down to it.
 *
 * SPDX-License-Identifier: MIT */
#include "op/cross_entropy.h"
#include "rows.h"

enum { BLOCK = 2048 }; /* 8 KB of floats: two passes in the nearest cache */

/* log sum exp(x) is *max + the result.  While all is -infinity the blocks
 * are taken against 0, which keeps their NaNs. */
static real log_sum(const real *x, int64_t n, real *max) {
  real sum = 0;
  *max = -MRT_INF;
  for (int64_t i = 0; i < n; i += BLOCK) {
    int64_t m = n - i < BLOCK ? n - i : BLOCK;
    real top = row_max(x + i, m);
    if (top > *max) {
      if (sum > 0) sum *= m_exp(*max - top);
      *max = top;
    }
    sum += row_exp_sum(x + i, *max > -MRT_INF ? *max : 0, m);
  }
  return m_log(sum);
}

static void cross_entropy(const mrt_call *c) {
  const mrt_cross_entropy_options *o = c->options;
  const mrt_operand *targets = &c->in[1];
  const real *x = c->in[0].data;
  real *loss = c->out[0].data, *lse = c->out[1].data;
  int64_t rows = mrt_rows(&c->in[0]), n = mrt_cols(&c->in[0]);
  int team = mrt_team(c, 0.4 * (double)rows * (double)n);
#pragma omp parallel for num_threads(team) schedule(static)
  for (int64_t r = 0; r < rows; r++) {
    int64_t id = mrt_id(targets->data, targets->type.dtype, r);
    loss[r] = lse[r] = 0;
    if (id == o->ignore_index) continue;
    id = mrt_checked_id(c, id, n);
    if (n == 0) continue;
    real max, rest = log_sum(x + r * n, n, &max);
    loss[r] = rest - (x[r * n + id] - max);
    if (o->label_smoothing > 0) { /* the mean of -log p takes that share */
      real mean = row_sum(x + r * n, n) / (real)n;
      loss[r] += (real)o->label_smoothing * (x[r * n + id] - mean);
    }
    lse[r] = rest + max;
  }
}

static void grad_row(const real *x, real lse, real dloss, real *dx, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; i++) dx[i] = m_exp(x[i] - lse) * dloss;
}

/* The same, less `share` of all classes. */
static void smooth_row(const real *x, real lse, real share, real dloss,
                       real *dx, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; i++) dx[i] = (m_exp(x[i] - lse) - share) * dloss;
}

static void cross_entropy_grad(const mrt_call *c) {
  const mrt_cross_entropy_options *o = c->options;
  const mrt_operand *targets = &c->in[1];
  const real *x = c->in[0].data, *lse = c->in[2].data, *dloss = c->in[3].data;
  real *dx = c->out[0].data;
  int64_t rows = mrt_rows(&c->in[0]), n = mrt_cols(&c->in[0]);
  int team = mrt_team(c, 0.5 * (double)rows * (double)n);
#pragma omp parallel for num_threads(team) schedule(static)
  for (int64_t r = 0; r < rows; r++) {
    int64_t id = mrt_id(targets->data, targets->type.dtype, r);
    real *row = dx + r * n;
    if (n > 0 && id == o->ignore_index) {
      memset(row, 0, (size_t)n * sizeof(real));
    } else if (n > 0) {
      real smoothing = (real)o->label_smoothing;
      if (smoothing > 0)
        smooth_row(x + r * n, lse[r], smoothing / (real)n, dloss[r], row, n);
      else
        grad_row(x + r * n, lse[r], dloss[r], row, n);
      row[mrt_checked_id(c, id, n)] -= (1 - smoothing) * dloss[r];
    }
  }
}

MRT_KERNEL(cross_entropy, .run = cross_entropy);
MRT_KERNEL(cross_entropy_grad, .run = cross_entropy_grad);
