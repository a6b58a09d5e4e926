/* linear_attention.c -- attention without softmax: a matrix that remembers
 *
 * A head's matrix S stays within the cache while it goes through time.  Columns
 * of S do not meet in the forward pass, so blocks of them are shared out beside
 * the heads; the gradient sums over them, and a head is one thread's.  It goes
 * forwards and keeps the matrices before each piece of ~sqrt(T) steps; then, from
 * the last piece to the first, those within a piece once more, and back through
 * them.
 *
 * SPDX-License-Identifier: MIT */
#include "cpu.h"

enum { COLUMNS = 64 };

typedef struct attention_memory {
  int64_t B, T, H, K, V, W; /* W: numbers of w in a step; 0: none */
  int64_t piece, pieces, columns;
  const real *q, *k, *v, *w, *dy;
  real *y, *dq, *dk, *dv, *dw;
  real *room;
  int64_t room_size; /* reals of a thread */
} memory;

static memory shape_of(const mrt_call *c, bool decays) {
  const int64_t *q = c->in[0].type.dims;
  memory m = { .B = q[0], .T = q[1], .H = q[2], .K = q[3] };
  m.V = c->in[2].type.dims[3];
  m.W = decays ? c->in[3].type.dims[3] : 0;
  m.piece = (int64_t)ceil(sqrt((double)m.T));
  m.pieces = m.piece ? (m.T + m.piece - 1) / m.piece : 0;
  m.columns = (m.V + COLUMNS - 1) / COLUMNS;
  m.q = c->in[0].data, m.k = c->in[1].data, m.v = c->in[2].data;
  m.w = decays ? c->in[3].data : NULL;
  m.room = c->scratch;
  return m;
}

/* Step t of a head: where its row of a tensor of n numbers a row begins. */
static int64_t row(const memory *m, int64_t head, int64_t t, int64_t n) {
  return ((head / m->H * m->T + t) * m->H + head % m->H) * n;
}
static real left(const memory *m, int64_t head, int64_t t, int64_t i) {
  if (m->W == 0) return 1;
  return m->w[row(m, head, t, m->W) + (m->W == 1 ? 0 : i)];
}

/* `to` is S after step t, `n` columns of it from v on. */
static void step(const memory *m, int64_t head, int64_t t, const real *v,
                 int64_t n, const real *S, real *to) {
  const real *k = m->k + row(m, head, t, m->K);
  for (int64_t i = 0; i < m->K; i++, S += n, to += n) {
    real w = left(m, head, t, i);
#pragma omp simd
    for (int64_t j = 0; j < n; j++) to[j] = fma_(w, S[j], k[i] * v[j]);
  }
}

/* ---- forward ------------------------------------------------------------- */

static void go_through(const memory *m, int64_t head, int64_t first, int64_t n,
                       real *S) {
  memset(S, 0, (size_t)(m->K * n) * sizeof *S);
  for (int64_t t = 0; t < m->T; t++) {
    int64_t at = row(m, head, t, m->V) + first;
    const real *q = m->q + row(m, head, t, m->K);
    real y[COLUMNS] = { 0 };
    step(m, head, t, m->v + at, n, S, S);
    for (int64_t i = 0; i < m->K; i++)
      for (int64_t j = 0; j < n; j++) y[j] = fma_(q[i], S[i * n + j], y[j]);
    memcpy(m->y + at, y, (size_t)n * sizeof *y);
  }
}

static void forward_part(const mrt_call *c, const void *shared, int part,
                         int parts) {
  const memory *m = shared;
  int64_t k, end;
  mrt_share(m->B * m->H * m->columns, part, parts, &k, &end);
  for (; k < end; k++) {
    int64_t first = k % m->columns * COLUMNS;
    int64_t n = m->V - first < COLUMNS ? m->V - first : COLUMNS;
    go_through(m, k / m->columns, first, n, m->room + part * m->room_size);
  }
}

/* ---- gradient ------------------------------------------------------------ */

static real dot(const real *x, const real *y, int64_t n) {
  vec sum = { 0 };
  real rest = 0;
  int64_t j = 0;
  for (; j + LANES <= n; j += LANES) sum += vec_load(x + j) * vec_load(y + j);
  for (; j < n; j++) rest += x[j] * y[j];
  return vec_sum(sum) + rest;
}

/* Back through step t, from S before it to `after`; g: what the step after has
 * for `after`, then what this one has for S. */
static void step_back(const memory *m, int64_t head, int64_t t, const real *S,
                      const real *after, real *g) {
  int64_t V = m->V, in = row(m, head, t, m->K), out = row(m, head, t, V);
  const real *v = m->v + out, *dy = m->dy + out;
  real *dv = m->dv + out, of_all = 0;
  for (int64_t j = 0; j < V; j++) dv[j] = 0;
  for (int64_t i = 0; i < m->K; i++, S += V, after += V, g += V) {
    real q = m->q[in + i], k = m->k[in + i], w = left(m, head, t, i);
#pragma omp simd
    for (int64_t j = 0; j < V; j++) {
      g[j] = fma_(q, dy[j], g[j]);
      dv[j] = fma_(k, g[j], dv[j]);
    }
    m->dq[in + i] = dot(after, dy, V);
    m->dk[in + i] = dot(g, v, V);
    if (m->W) {
      real of_one = dot(g, S, V);
      of_all += of_one;
      if (m->W > 1) m->dw[in + i] = of_one;
    }
    for (int64_t j = 0; j < V; j++) g[j] *= w;
  }
  if (m->W == 1) m->dw[row(m, head, t, 1)] = of_all;
}

static void go_back(const memory *m, int64_t head, real *room) {
  int64_t size = m->K * m->V;
  size_t bytes = (size_t)size * sizeof *room;
  real *g = room, *S = g + size, *kept = S + (m->piece + 1) * size;
  memset(g, 0, bytes);
  memset(S, 0, bytes);
  for (int64_t t = 0; t < m->T; t++) {
    if (t % m->piece == 0) memcpy(kept + t / m->piece * size, S, bytes);
    if (t < (m->pieces - 1) * m->piece)
      step(m, head, t, m->v + row(m, head, t, m->V), m->V, S, S);
  }
  for (int64_t p = m->pieces - 1; p >= 0; p--) {
    int64_t from = p * m->piece, rest = m->T - from;
    int64_t n = rest < m->piece ? rest : m->piece;
    memcpy(S, kept + p * size, bytes);
    for (int64_t i = 0; i < n; i++)
      step(m, head, from + i, m->v + row(m, head, from + i, m->V), m->V,
           S + i * size, S + (i + 1) * size);
    for (int64_t i = n - 1; i >= 0; i--)
      step_back(m, head, from + i, S + i * size, S + (i + 1) * size, g);
  }
}

static void backward_part(const mrt_call *c, const void *shared, int part,
                          int parts) {
  const memory *m = shared;
  int64_t head, end;
  mrt_share(m->B * m->H, part, parts, &head, &end);
  for (; head < end; head++) go_back(m, head, m->room + part * m->room_size);
}

/* ---- kernels ------------------------------------------------------------- */

static int64_t forward_room(const memory *m) {
  return m->K * (m->V < COLUMNS ? m->V : COLUMNS);
}
static int64_t backward_room(const memory *m) {
  return m->K * m->V * (2 + m->piece + m->pieces);
}
static int team_of(const mrt_call *c, const memory *m, double ns) {
  return mrt_team(c, ns * (double)m->B * (double)m->T * (double)m->H *
                         (double)m->K * (double)m->V);
}

static void forward(const mrt_call *c) {
  memory m = shape_of(c, c->nin == 4);
  m.y = c->out[0].data, m.room_size = forward_room(&m);
  mrt_parallel(c, team_of(c, &m, 0.2), forward_part, &m);
}
static void backward(const mrt_call *c) {
  bool decays = c->nin == 5;
  memory m = shape_of(c, decays);
  m.dy = c->in[c->nin - 1].data, m.room_size = backward_room(&m);
  m.dq = c->out[0].data, m.dk = c->out[1].data, m.dv = c->out[2].data;
  m.dw = decays ? c->out[3].data : NULL;
  mrt_parallel(c, team_of(c, &m, 0.8), backward_part, &m);
}

/* Never none: what is empty has a place, too. */
static size_t forward_scratch(const mrt_call *c) {
  memory m = shape_of(c, c->nin == 4);
  return (size_t)(forward_room(&m) * c->threads + 1) * sizeof(real);
}
static size_t backward_scratch(const mrt_call *c) {
  memory m = shape_of(c, c->nin == 5);
  return (size_t)(backward_room(&m) * c->threads + 1) * sizeof(real);
}

MRT_KERNEL(linear_attention, .run = forward, .scratch = forward_scratch);
MRT_KERNEL(linear_attention_grad, .run = backward, .scratch = backward_scratch);
