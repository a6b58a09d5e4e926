/* recurrent.c -- one step of an LSTM and of a GRU, and their gradients
 *
 * A row's gates lie one after the other; the loops run along the state, so that
 * each reads as many streams as there are gates.  lstm_cell may write its gates
 * over its products, which are read at the same places just before.
 *
 * SPDX-License-Identifier: MIT */
#include "cpu.h"
#include "vmath.h"

static inline real sigmoid(real x) { return 1 / (1 + m_exp(-x)); }

typedef struct shape {
  int64_t rows, n; /* n: width of the state */
  int team;
} shape;

static shape shape_of(const mrt_call *c, const mrt_operand *state, double ns) {
  shape s = { mrt_rows(state), mrt_cols(state), 1 };
  s.team = mrt_team(c, ns * (double)s.rows * (double)s.n);
  return s;
}

static void lstm_row(const real *a, const real *b, const real *c, real *gates,
                     real *c_next, real *h_next, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; j++) {
    real i = sigmoid(a[j] + b[j]), f = sigmoid(a[j + n] + b[j + n]);
    real g = m_tanh(a[j + 2 * n] + b[j + 2 * n]);
    real o = sigmoid(a[j + 3 * n] + b[j + 3 * n]);
    real next = f * c[j] + i * g;
    gates[j] = i, gates[j + n] = f, gates[j + 2 * n] = g, gates[j + 3 * n] = o;
    c_next[j] = next;
    h_next[j] = o * m_tanh(next);
  }
}

static void lstm_cell(const mrt_call *call) {
  const real *a = call->in[0].data, *b = call->in[1].data;
  const real *c = call->in[2].data;
  real *gates = call->out[0].data, *c_next = call->out[1].data;
  real *h_next = call->out[2].data;
  shape s = shape_of(call, &call->in[2], 4);
#pragma omp parallel for num_threads(s.team) schedule(static)
  for (int64_t r = 0; r < s.rows; r++) {
    int64_t at = r * s.n;
    lstm_row(a + 4 * at, b + 4 * at, c + at, gates + 4 * at, c_next + at,
             h_next + at, s.n);
  }
}

static void lstm_grad_row(const real *gates, const real *c, const real *c_next,
                          const real *dh, const real *dc_next, real *da,
                          real *dc, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; j++) {
    real i = gates[j], f = gates[j + n], g = gates[j + 2 * n];
    real o = gates[j + 3 * n], t = m_tanh(c_next[j]);
    real d = dc_next[j] + dh[j] * o * (1 - t * t);
    da[j] = d * g * (i * (1 - i));
    da[j + n] = d * c[j] * (f * (1 - f));
    da[j + 2 * n] = d * i * (1 - g * g);
    da[j + 3 * n] = dh[j] * t * (o * (1 - o));
    dc[j] = d * f;
  }
}

static void lstm_cell_grad(const mrt_call *call) {
  const real *gates = call->in[0].data, *c = call->in[1].data;
  const real *c_next = call->in[2].data, *dh = call->in[3].data;
  const real *dc_next = call->in[4].data;
  real *da = call->out[0].data, *dc = call->out[1].data;
  shape s = shape_of(call, &call->in[1], 2);
#pragma omp parallel for num_threads(s.team) schedule(static)
  for (int64_t r = 0; r < s.rows; r++) {
    int64_t at = r * s.n;
    lstm_grad_row(gates + 4 * at, c + at, c_next + at, dh + at, dc_next + at,
                  da + 4 * at, dc + at, s.n);
  }
}

static void gru_row(const real *a, const real *b, const real *h, real *gates,
                    real *h_next, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; j++) {
    real r = sigmoid(a[j] + b[j]), z = sigmoid(a[j + n] + b[j + n]);
    real m = m_tanh(a[j + 2 * n] + r * b[j + 2 * n]);
    gates[j] = r, gates[j + n] = z, gates[j + 2 * n] = m;
    gates[j + 3 * n] = b[j + 2 * n];
    h_next[j] = m + z * (h[j] - m);
  }
}

static void gru_cell(const mrt_call *call) {
  const real *a = call->in[0].data, *b = call->in[1].data;
  const real *h = call->in[2].data;
  real *gates = call->out[0].data, *h_next = call->out[1].data;
  shape s = shape_of(call, &call->in[2], 3);
#pragma omp parallel for num_threads(s.team) schedule(static)
  for (int64_t r = 0; r < s.rows; r++) {
    int64_t at = r * s.n;
    gru_row(a + 3 * at, b + 3 * at, h + at, gates + 4 * at, h_next + at, s.n);
  }
}

static void gru_grad_row(const real *gates, const real *h, const real *dh_next,
                         real *da, real *db, real *dh, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; j++) {
    real r = gates[j], z = gates[j + n], m = gates[j + 2 * n], d = dh_next[j];
    real dz = d * (h[j] - m) * (z * (1 - z));
    real dm = d * (1 - z) * (1 - m * m);
    real dr = dm * gates[j + 3 * n] * (r * (1 - r));
    da[j] = db[j] = dr, da[j + n] = db[j + n] = dz;
    da[j + 2 * n] = dm, db[j + 2 * n] = dm * r;
    dh[j] = d * z;
  }
}

static void gru_cell_grad(const mrt_call *call) {
  const real *gates = call->in[0].data, *h = call->in[1].data;
  const real *dh_next = call->in[2].data;
  real *da = call->out[0].data, *db = call->out[1].data;
  real *dh = call->out[2].data;
  shape s = shape_of(call, &call->in[1], 1);
#pragma omp parallel for num_threads(s.team) schedule(static)
  for (int64_t r = 0; r < s.rows; r++) {
    int64_t at = r * s.n;
    gru_grad_row(gates + 4 * at, h + at, dh_next + at, da + 3 * at, db + 3 * at,
                 dh + at, s.n);
  }
}

MRT_KERNEL(lstm_cell, .run = lstm_cell);
MRT_KERNEL(lstm_cell_grad, .run = lstm_cell_grad);
MRT_KERNEL(gru_cell, .run = gru_cell);
MRT_KERNEL(gru_cell_grad, .run = gru_cell_grad);
