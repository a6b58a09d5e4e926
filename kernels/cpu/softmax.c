/* softmax.c -- softmax, log_softmax and their gradients
 *
 * Along the last dimension a row is contiguous.  Along another one, `inner`
 * columns are strided: they are done one at a time, which is rare in practice.
 *
 * SPDX-License-Identifier: MIT */
#include "op/softmax.h"
#include "cpu.h"
#include "vmath.h"

/* Where row `r` of a reduction along `dim` starts, and its stride. */
typedef struct rows {
  int64_t count, n, inner;
} rows;

static rows rows_along(const mrt_operand *x, int64_t dim) {
  rows r = { 1, x->type.dims[dim], 1 };
  for (int64_t i = dim + 1; i < x->type.rank; i++) r.inner *= x->type.dims[i];
  for (int64_t i = 0; i < dim; i++) r.count *= x->type.dims[i];
  r.count *= r.inner;
  return r;
}

static int64_t start(rows r, int64_t row) {
  return row / r.inner * r.n * r.inner + row % r.inner;
}

static void softmax_row(const real *x, real *y, int64_t n, int64_t s) {
  real max = -MRT_INF, sum = 0;
  for (int64_t i = 0; i < n; i++) max = x[i * s] > max ? x[i * s] : max;
  for (int64_t i = 0; i < n; i++) y[i * s] = m_exp(x[i * s] - max);
  for (int64_t i = 0; i < n; i++) sum += y[i * s];
  for (int64_t i = 0; i < n; i++) y[i * s] /= sum;
}

static void log_softmax_row(const real *x, real *y, int64_t n, int64_t s) {
  real max = -MRT_INF, sum = 0;
  for (int64_t i = 0; i < n; i++) max = x[i * s] > max ? x[i * s] : max;
  for (int64_t i = 0; i < n; i++) sum += m_exp(x[i * s] - max);
  real shift = max + m_log(sum);
  for (int64_t i = 0; i < n; i++) y[i * s] = x[i * s] - shift;
}

static void softmax_grad_row(const real *y, const real *dy, real *dx, int64_t n,
                             int64_t s) {
  real sum = 0;
  for (int64_t i = 0; i < n; i++) sum += dy[i * s] * y[i * s];
  for (int64_t i = 0; i < n; i++) dx[i * s] = y[i * s] * (dy[i * s] - sum);
}

static void log_softmax_grad_row(const real *y, const real *dy, real *dx,
                                 int64_t n, int64_t s) {
  real sum = 0;
  for (int64_t i = 0; i < n; i++) sum += dy[i * s];
  for (int64_t i = 0; i < n; i++)
    dx[i * s] = dy[i * s] - m_exp(y[i * s]) * sum;
}

static void forward(const mrt_call *c,
                    void row(const real *, real *, int64_t, int64_t)) {
  const mrt_softmax_options *o = c->options;
  rows r = rows_along(&c->in[0], o->dim);
  const real *x = c->in[0].data;
  real *y = c->out[0].data;
  int team = mrt_team(c, (double)r.count * (double)r.n * 1.5);
#pragma omp parallel for num_threads(team) schedule(static)
  for (int64_t i = 0; i < r.count; i++)
    row(x + start(r, i), y + start(r, i), r.n, r.inner);
}

static void backward(const mrt_call *c,
                     void row(const real *, const real *, real *, int64_t,
                              int64_t)) {
  const mrt_softmax_options *o = c->options;
  rows r = rows_along(&c->in[0], o->dim);
  const real *y = c->in[0].data, *dy = c->in[1].data;
  real *dx = c->out[0].data;
  int team = mrt_team(c, (double)r.count * (double)r.n * 1.5);
#pragma omp parallel for num_threads(team) schedule(static)
  for (int64_t i = 0; i < r.count; i++)
    row(y + start(r, i), dy + start(r, i), dx + start(r, i), r.n, r.inner);
}

static void softmax(const mrt_call *c) { forward(c, softmax_row); }
static void log_softmax(const mrt_call *c) { forward(c, log_softmax_row); }
static void softmax_grad(const mrt_call *c) { backward(c, softmax_grad_row); }
static void log_softmax_grad(const mrt_call *c) {
  backward(c, log_softmax_grad_row);
}

MRT_KERNEL(softmax, .run = softmax);
MRT_KERNEL(softmax_grad, .run = softmax_grad);
MRT_KERNEL(log_softmax, .run = log_softmax);
MRT_KERNEL(log_softmax_grad, .run = log_softmax_grad);
