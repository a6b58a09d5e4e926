/* softmax.c -- softmax, log_softmax and their gradients
 *
 * Along the last dimension a row is contiguous, and its passes stay in cache.
 * Along another one a value's neighbours belong to other rows, so that many
 * columns are done side by side, each vector lane a row of its own.
 *
 * SPDX-License-Identifier: MIT */
#include "op/softmax.h"
#include "rows.h"

/* ---- rows: n contiguous elements ----------------------------------------- */

typedef void row_fn(const real *a, const real *b, real *out, int64_t n);

static void softmax_row(const real *x, const real *none, real *y, int64_t n) {
  (void)none;
  real scale = 1 / row_exp(x, row_max(x, n), y, n);
  for (int64_t i = 0; i < n; i++) y[i] *= scale;
}

static void log_softmax_row(const real *x, const real *none, real *y,
                            int64_t n) {
  (void)none;
  real max = row_max(x, n), log_sum = m_log(row_exp_sum(x, max, n));
#pragma omp simd
  for (int64_t i = 0; i < n; i++) y[i] = (x[i] - max) - log_sum;
}

static void softmax_grad_row(const real *y, const real *dy, real *dx,
                             int64_t n) {
  real sum = row_dot(y, dy, n);
#pragma omp simd
  for (int64_t i = 0; i < n; i++) dx[i] = y[i] * (dy[i] - sum);
}

static void log_softmax_grad_row(const real *y, const real *dy, real *dx,
                                 int64_t n) {
  real sum = row_sum(dy, n);
#pragma omp simd
  for (int64_t i = 0; i < n; i++) dx[i] = dy[i] - m_exp(y[i]) * sum;
}

/* ---- columns: m side by side, n elements each, `s` elements apart -------- */

enum { COLUMNS = 128 };

typedef void columns_fn(const real *a, const real *b, real *out, int64_t n,
                        int64_t s, int m);

static void column_max(const real *x, int64_t n, int64_t s, int m, real *max) {
  for (int j = 0; j < m; j++) max[j] = -MRT_INF;
  for (int64_t i = 0; i < n; i++)
    for (int j = 0; j < m; j++)
      max[j] = x[i * s + j] > max[j] ? x[i * s + j] : max[j];
}

static void softmax_columns(const real *x, const real *none, real *y, int64_t n,
                            int64_t s, int m) {
  (void)none;
  real max[COLUMNS], sum[COLUMNS] = { 0 };
  column_max(x, n, s, m, max);
  for (int64_t i = 0; i < n * s; i += s)
#pragma omp simd
    for (int j = 0; j < m; j++) {
      y[i + j] = exp_down(x[i + j] - max[j]);
      sum[j] += y[i + j];
    }
  for (int j = 0; j < m; j++) sum[j] = 1 / sum[j];
  for (int64_t i = 0; i < n * s; i += s)
    for (int j = 0; j < m; j++) y[i + j] *= sum[j];
}

static void log_softmax_columns(const real *x, const real *none, real *y,
                                int64_t n, int64_t s, int m) {
  (void)none;
  real max[COLUMNS], sum[COLUMNS] = { 0 };
  column_max(x, n, s, m, max);
  for (int64_t i = 0; i < n * s; i += s)
    for (int j = 0; j < m; j++) sum[j] += exp_down(x[i + j] - max[j]);
  for (int j = 0; j < m; j++) sum[j] = m_log(sum[j]);
  for (int64_t i = 0; i < n * s; i += s)
#pragma omp simd
    for (int j = 0; j < m; j++) y[i + j] = (x[i + j] - max[j]) - sum[j];
}

static void softmax_grad_columns(const real *y, const real *dy, real *dx,
                                 int64_t n, int64_t s, int m) {
  real sum[COLUMNS] = { 0 };
  for (int64_t i = 0; i < n * s; i += s)
    for (int j = 0; j < m; j++) sum[j] += y[i + j] * dy[i + j];
  for (int64_t i = 0; i < n * s; i += s)
#pragma omp simd
    for (int j = 0; j < m; j++) dx[i + j] = y[i + j] * (dy[i + j] - sum[j]);
}

static void log_softmax_grad_columns(const real *y, const real *dy, real *dx,
                                     int64_t n, int64_t s, int m) {
  real sum[COLUMNS] = { 0 };
  for (int64_t i = 0; i < n * s; i += s)
    for (int j = 0; j < m; j++) sum[j] += dy[i + j];
  for (int64_t i = 0; i < n * s; i += s)
#pragma omp simd
    for (int j = 0; j < m; j++)
      dx[i + j] = dy[i + j] - m_exp(y[i + j]) * sum[j];
}

/* ---- the two layouts ------------------------------------------------------ */

/* The operands seen as [outer, n, inner] with `n` along dim. */
typedef struct layout {
  const real *a, *b; /* b: the second input, or a */
  real *out;
  int64_t outer, n, inner;
  int team;
} layout;

static layout layout_of(const mrt_call *c) {
  const mrt_softmax_options *o = c->options;
  const mrt_type *t = &c->in[0].type;
  layout l = { c->in[0].data,
               c->in[c->nin - 1].data,
               c->out[0].data,
               1,
               t->dims[o->dim],
               1,
               1 };
  for (int64_t i = 0; i < o->dim; i++) l.outer *= t->dims[i];
  for (int64_t i = o->dim + 1; i < t->rank; i++) l.inner *= t->dims[i];
  l.team = mrt_team(c, 0.7 * (double)l.outer * (double)l.n * (double)l.inner);
  return l;
}

static void run_rows(layout l, row_fn *row) {
#pragma omp parallel for num_threads(l.team) schedule(static)
  for (int64_t r = 0; r < l.outer; r++)
    row(l.a + r * l.n, l.b + r * l.n, l.out + r * l.n, l.n);
}

static void run_columns(layout l, columns_fn *columns) {
  int64_t blocks = (l.inner + COLUMNS - 1) / COLUMNS;
#pragma omp parallel for num_threads(l.team) schedule(static)
  for (int64_t t = 0; t < l.outer * blocks; t++) {
    int64_t first = t % blocks * COLUMNS, left = l.inner - first;
    int64_t at = t / blocks * l.n * l.inner + first;
    columns(l.a + at, l.b + at, l.out + at, l.n, l.inner,
            (int)(left < COLUMNS ? left : COLUMNS));
  }
}

static void run(const mrt_call *c, row_fn *row, columns_fn *columns) {
  layout l = layout_of(c);
  if (l.inner == 1)
    run_rows(l, row);
  else
    run_columns(l, columns);
}

static void softmax(const mrt_call *c) { run(c, softmax_row, softmax_columns); }
static void softmax_grad(const mrt_call *c) {
  run(c, softmax_grad_row, softmax_grad_columns);
}
static void log_softmax(const mrt_call *c) {
  run(c, log_softmax_row, log_softmax_columns);
}
static void log_softmax_grad(const mrt_call *c) {
  run(c, log_softmax_grad_row, log_softmax_grad_columns);
}

MRT_KERNEL(softmax, .run = softmax);
MRT_KERNEL(softmax_grad, .run = softmax_grad);
MRT_KERNEL(log_softmax, .run = log_softmax);
MRT_KERNEL(log_softmax_grad, .run = log_softmax_grad);
