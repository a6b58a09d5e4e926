/* softmax.c -- softmax, log_softmax and their gradients
 *
 * Along the last dimension a row is contiguous, and its passes stay in cache.
 * Along another one a value's neighbours belong to other rows, so that many
 * columns are done side by side, each vector lane a row of its own.  Narrow
 * floats are computed on in scratch, a row or a block of columns at a time.
 *
 * SPDX-License-Identifier: MIT */
#include "op/softmax.h"
#include "floats.h"
#include "rows.h"

/* ---- rows: n contiguous elements ----------------------------------------- */

typedef void row_fn(const real *a, const real *b, real *out, int64_t n);

static void softmax_row(const real *x, const real *none, real *y, int64_t n) {
  (void)none;
  real scale = 1 / row_exp(x, row_max(x, n), y, n);
  for (int64_t i = 0; i < n; i++) y[i] *= scale;
}

/* Rows shorter than a vector, whose exponentials are computed side by side.  The
 * bits are those of row by row. */
static void softmax_short(const real *x, real *y, int64_t rows, int64_t n) {
  enum { SOME = 1024 }; /* elements at a time */
  for (int64_t some; rows > 0; rows -= some, x += some * n, y += some * n) {
    some = rows < SOME / LANES ? rows : SOME / LANES;
    for (int64_t r = 0; r < some * n; r += n) {
      real max = row_max(x + r, n);
      for (int64_t i = r; i < r + n; i++) y[i] = x[i] - max;
    }
#pragma omp simd
    for (int64_t i = 0; i < some * n; i++) y[i] = exp_down(y[i]);
    for (int64_t r = 0; r < some * n; r += n) {
      real scale = 1 / row_sum(y + r, n);
      for (int64_t i = r; i < r + n; i++) y[i] *= scale;
    }
  }
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

/* ---- the two layouts ----------------------------------------------------- */

/* The operands seen as [outer, n, inner] with `n` along dim. */
typedef struct softmax_layout {
  const mrt_operand *a, *b, *out; /* b: the second input, or a */
  int64_t outer, n, inner;
  real *rooms;        /* NULL where nothing is narrow */
  int64_t room, step; /* elements of a thread's; of one operand in it */
  int team;
} softmax_layout;

static softmax_layout layout_of(const mrt_call *c) {
  const mrt_softmax_options *o = c->options;
  const mrt_type *t = &c->in[0].type;
  softmax_layout l = { .a = &c->in[0],
                       .b = &c->in[c->nin - 1],
                       .out = &c->out[0],
                       .outer = 1,
                       .n = t->dims[o->dim],
                       .inner = 1,
                       .rooms = mrt_any_narrow(c) ? c->scratch : NULL };
  for (int64_t i = 0; i < o->dim; i++) l.outer *= t->dims[i];
  for (int64_t i = o->dim + 1; i < t->rank; i++) l.inner *= t->dims[i];
  l.step = mrt_room_row(c, l.inner == 1 ? l.n : l.n * COLUMNS);
  l.room = l.step * c->nin;
  l.team = mrt_team(c, 0.7 * (double)l.outer * (double)l.n * (double)l.inner);
  return l;
}

static size_t scratch(const mrt_call *c) {
  softmax_layout l = layout_of(c);
  return (size_t)(c->threads * l.room) * sizeof(real);
}

static void run_row(const softmax_layout *l, row_fn *row, int64_t at,
                    real *room) {
  const real *a = mrt_reals_in(l->a, at, l->n, room), *b = a;
  if (l->b != l->a) b = mrt_reals_in(l->b, at, l->n, room + l->step);
  real *y = mrt_reals_place(l->out, at, room);
  row(a, b, y, l->n);
  mrt_reals_out(l->out, at, l->n, y);
}

/* n rows of m columns, `inner` apart, into rows of COLUMNS, or back. */
static void take_columns(const softmax_layout *l, const mrt_operand *x,
                         int64_t at, int m, real *room) {
  for (int64_t i = 0; i < l->n; i++, at += l->inner, room += COLUMNS) {
    const real *row = mrt_reals_in(x, at, m, room);
    if (row != room) memcpy(room, row, (size_t)m * sizeof *row);
  }
}
static void put_columns(const softmax_layout *l, int64_t at, int m,
                        const real *room) {
  for (int64_t i = 0; i < l->n; i++, at += l->inner, room += COLUMNS)
    if (l->out->type.dtype == MRT_REAL)
      memcpy(mrt_element(l->out, at), room, (size_t)m * sizeof *room);
    else
      mrt_reals_out(l->out, at, m, room);
}

static void run_block(const softmax_layout *l, columns_fn *columns, int64_t at,
                      int m, real *a) {
  if (!l->rooms) {
    columns(mrt_element(l->a, at), mrt_element(l->b, at),
            mrt_element(l->out, at), l->n, l->inner, m);
    return;
  }
  real *b = a;
  take_columns(l, l->a, at, m, a);
  if (l->b != l->a) take_columns(l, l->b, at, m, b = a + l->step);
  columns(a, b, a, l->n, COLUMNS, m);
  put_columns(l, at, m, a);
}

typedef struct softmax_run {
  softmax_layout layout;
  row_fn *row;
  columns_fn *columns;
} softmax_run;

static void run_columns(const mrt_call *c, const void *shared, int part,
                        int parts) {
  const softmax_run *s = shared;
  const softmax_layout *l = &s->layout;
  int64_t blocks = (l->inner + COLUMNS - 1) / COLUMNS, t, end;
  real *room = l->rooms ? l->rooms + part * l->room : NULL;
  mrt_share(l->outer * blocks, part, parts, &t, &end);
  for (; t < end; t++) {
    int64_t first = t % blocks * COLUMNS, left = l->inner - first;
    run_block(l, s->columns, t / blocks * l->n * l->inner + first,
              (int)(left < COLUMNS ? left : COLUMNS), room);
  }
}

static void run_rows(const mrt_call *c, const void *shared, int part,
                     int parts) {
  const softmax_run *s = shared;
  const softmax_layout *l = &s->layout;
  real *room = l->rooms ? l->rooms + part * l->room : NULL;
  int64_t r, end;
  mrt_share(l->outer, part, parts, &r, &end);
  if (s->row == softmax_row && l->n < LANES && !room)
    softmax_short(mrt_element(l->a, r * l->n), mrt_element(l->out, r * l->n),
                  end - r, l->n);
  else
    for (; r < end; r++) run_row(l, s->row, r * l->n, room);
}

static void run(const mrt_call *c, row_fn *row, columns_fn *columns) {
  softmax_run s = { layout_of(c), row, columns };
  mrt_part *run_part = s.layout.inner == 1 ? run_rows : run_columns;
  mrt_parallel(c, s.layout.team, run_part, &s);
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

MRT_KERNEL(softmax, .run = softmax, .scratch = scratch);
MRT_KERNEL(softmax_grad, .run = softmax_grad, .scratch = scratch);
MRT_KERNEL(log_softmax, .run = log_softmax, .scratch = scratch);
MRT_KERNEL(log_softmax_grad, .run = log_softmax_grad, .scratch = scratch);
