/* recurrent.c -- one step of an LSTM and of a GRU, and their gradients
 *
 * A row's gates lie one after the other; the loops run along the state, so that
 * each reads as many streams as there are gates.  lstm_cell may write its gates
 * over its products, which are read at the same places just before.  Rows of
 * narrow floats are computed in scratch, results over what they come from.
 *
 * SPDX-License-Identifier: MIT */
#include "floats.h"
#include "vmath.h"

static inline real sigmoid(real x) { return 1 / (1 + m_exp(-x)); }

typedef struct cell_shape {
  int64_t rows, n; /* n: width of the state */
  int team;
} cell_shape;

static cell_shape shape_of(const mrt_call *c, const mrt_operand *state,
                           double ns) {
  cell_shape s = { mrt_rows(state), mrt_cols(state), 1 };
  s.team = mrt_team(c, ns * (double)s.rows * (double)s.n);
  return s;
}

/* What one part computes in: ROOM rows of the state, none where nothing is
 * narrow. */
enum { ROOM = 12 };

static size_t scratch(const mrt_call *call) {
  int64_t n = mrt_cols(&call->out[call->nout - 1]);
  return (size_t)(call->threads * ROOM * mrt_room_row(call, n)) * sizeof(real);
}

static real *room_of(const mrt_call *call, int part, int64_t step) {
  return (real *)call->scratch + part * ROOM * step;
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

static void lstm_cell_rows(const mrt_call *call, const void *shared, int part,
                           int parts) {
  const cell_shape *s = shared;
  const mrt_operand *in = call->in, *out = call->out;
  int64_t n = s->n, step = mrt_room_row(call, n), r, end;
  real *room = room_of(call, part, step);
  mrt_share(s->rows, part, parts, &r, &end);
  for (; r < end; r++) {
    int64_t at = r * n;
    const real *a = mrt_reals_in(&in[0], 4 * at, 4 * n, room);
    const real *b = mrt_reals_in(&in[1], 4 * at, 4 * n, room + 4 * step);
    const real *c = mrt_reals_in(&in[2], at, n, room + 8 * step);
    real *gates = mrt_reals_place(&out[0], 4 * at, room);
    real *c_next = mrt_reals_place(&out[1], at, room + 8 * step);
    real *h_next = mrt_reals_place(&out[2], at, room + 9 * step);
    lstm_row(a, b, c, gates, c_next, h_next, n);
    mrt_reals_out(&out[0], 4 * at, 4 * n, gates);
    mrt_reals_out(&out[1], at, n, c_next);
    mrt_reals_out(&out[2], at, n, h_next);
  }
}

static void lstm_cell(const mrt_call *call) {
  cell_shape s = shape_of(call, &call->in[2], 4);
  mrt_parallel(call, s.team, lstm_cell_rows, &s);
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

static void lstm_cell_grad_rows(const mrt_call *call, const void *shared,
                                int part, int parts) {
  const cell_shape *s = shared;
  const mrt_operand *in = call->in, *out = call->out;
  int64_t n = s->n, step = mrt_room_row(call, n), r, end;
  real *room = room_of(call, part, step);
  mrt_share(s->rows, part, parts, &r, &end);
  for (; r < end; r++) {
    int64_t at = r * n;
    const real *gates = mrt_reals_in(&in[0], 4 * at, 4 * n, room);
    const real *c = mrt_reals_in(&in[1], at, n, room + 4 * step);
    const real *c_next = mrt_reals_in(&in[2], at, n, room + 5 * step);
    const real *dh = mrt_reals_in(&in[3], at, n, room + 6 * step);
    const real *dc_next = mrt_reals_in(&in[4], at, n, room + 7 * step);
    real *da = mrt_reals_place(&out[0], 4 * at, room);
    real *dc = mrt_reals_place(&out[1], at, room + 4 * step);
    lstm_grad_row(gates, c, c_next, dh, dc_next, da, dc, n);
    mrt_reals_out(&out[0], 4 * at, 4 * n, da);
    mrt_reals_out(&out[1], at, n, dc);
  }
}

static void lstm_cell_grad(const mrt_call *call) {
  cell_shape s = shape_of(call, &call->in[1], 2);
  mrt_parallel(call, s.team, lstm_cell_grad_rows, &s);
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

static void gru_cell_rows(const mrt_call *call, const void *shared, int part,
                          int parts) {
  const cell_shape *s = shared;
  const mrt_operand *in = call->in, *out = call->out;
  int64_t n = s->n, step = mrt_room_row(call, n), r, end;
  real *room = room_of(call, part, step);
  mrt_share(s->rows, part, parts, &r, &end);
  for (; r < end; r++) {
    int64_t at = r * n;
    const real *a = mrt_reals_in(&in[0], 3 * at, 3 * n, room);
    const real *b = mrt_reals_in(&in[1], 3 * at, 3 * n, room + 3 * step);
    const real *h = mrt_reals_in(&in[2], at, n, room + 6 * step);
    real *gates = mrt_reals_place(&out[0], 4 * at, room + 7 * step);
    real *h_next = mrt_reals_place(&out[1], at, room + 6 * step);
    gru_row(a, b, h, gates, h_next, n);
    mrt_reals_out(&out[0], 4 * at, 4 * n, gates);
    mrt_reals_out(&out[1], at, n, h_next);
  }
}

static void gru_cell(const mrt_call *call) {
  cell_shape s = shape_of(call, &call->in[2], 3);
  mrt_parallel(call, s.team, gru_cell_rows, &s);
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

static void gru_cell_grad_rows(const mrt_call *call, const void *shared,
                               int part, int parts) {
  const cell_shape *s = shared;
  const mrt_operand *in = call->in, *out = call->out;
  int64_t n = s->n, step = mrt_room_row(call, n), r, end;
  real *room = room_of(call, part, step);
  mrt_share(s->rows, part, parts, &r, &end);
  for (; r < end; r++) {
    int64_t at = r * n;
    const real *gates = mrt_reals_in(&in[0], 4 * at, 4 * n, room);
    const real *h = mrt_reals_in(&in[1], at, n, room + 4 * step);
    const real *dh_next = mrt_reals_in(&in[2], at, n, room + 5 * step);
    real *da = mrt_reals_place(&out[0], 3 * at, room + 6 * step);
    real *db = mrt_reals_place(&out[1], 3 * at, room + 9 * step);
    real *dh = mrt_reals_place(&out[2], at, room + 4 * step);
    gru_grad_row(gates, h, dh_next, da, db, dh, n);
    mrt_reals_out(&out[0], 3 * at, 3 * n, da);
    mrt_reals_out(&out[1], 3 * at, 3 * n, db);
    mrt_reals_out(&out[2], at, n, dh);
  }
}

static void gru_cell_grad(const mrt_call *call) {
  cell_shape s = shape_of(call, &call->in[1], 1);
  mrt_parallel(call, s.team, gru_cell_grad_rows, &s);
}

MRT_KERNEL(lstm_cell, .run = lstm_cell, .scratch = scratch);
MRT_KERNEL(lstm_cell_grad, .run = lstm_cell_grad, .scratch = scratch);
MRT_KERNEL(gru_cell, .run = gru_cell, .scratch = scratch);
MRT_KERNEL(gru_cell_grad, .run = gru_cell_grad, .scratch = scratch);
