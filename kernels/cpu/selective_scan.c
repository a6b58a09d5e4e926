/* selective_scan.c -- a state-space model whose step depends on the input
 *
 * CH channels go through time together, side by side, with their states within
 * the cache.  The gradient first goes through it forwards and keeps the states
 * before each piece of ~sqrt(T) steps; then, from the last piece to the first,
 * those within a piece once more, and back through them.  What channels have for
 * B and C is added up in sections of channels that do not depend on the number
 * of threads, and these at the end in their order.
 *
 * SPDX-License-Identifier: MIT */
#include "vmath.h"

enum { CH = 32, SECTIONS = 8 };
typedef real lane[CH];

typedef struct state_scan {
  int64_t batch, T, D, N;
  int64_t blocks, sections, piece, pieces;
  const real *u, *delta, *A, *B, *C, *dy;
  real *y, *du, *ddelta, *dA, *dB, *dC;
  real *dA_of;         /* [batch, D, N] */
  real *dB_of, *dC_of; /* [sections, batch, T, N] */
  real *room;
  int64_t room_size; /* reals of a thread */
} scan;

/* The channels at hand, of one sequence. */
typedef struct channels {
  int64_t b, d, n; /* n of them from d on */
  lane *A;         /* [N] */
} channels;

static scan shape_of(const mrt_call *c) {
  const int64_t *u = c->in[0].type.dims;
  scan s = { .batch = u[0], .T = u[1], .D = u[2] };
  s.N = c->in[2].type.dims[1];
  s.blocks = (s.D + CH - 1) / CH;
  s.sections = s.blocks < SECTIONS ? s.blocks : SECTIONS;
  s.piece = (int64_t)ceil(sqrt((double)s.T));
  s.pieces = s.piece ? (s.T + s.piece - 1) / s.piece : 0;
  s.u = c->in[0].data, s.delta = c->in[1].data, s.A = c->in[2].data;
  s.B = c->in[3].data, s.C = c->in[4].data;
  return s;
}

/* ---- channels ------------------------------------------------------------ */

/* Row t of x [batch, T, D]: n channels, and zeros. */
static void load(const scan *s, const channels *c, const real *x, int64_t t,
                 real *to) {
  const real *from = x + (c->b * s->T + t) * s->D + c->d;
  for (int64_t i = 0; i < c->n; i++) to[i] = from[i];
  for (int64_t i = c->n; i < CH; i++) to[i] = 0;
}
static void store(const scan *s, const channels *c, const real *from, int64_t t,
                  real *x) {
  memcpy(x + (c->b * s->T + t) * s->D + c->d, from,
         (size_t)c->n * sizeof(real));
}
static void load_A(const scan *s, const channels *c) {
  for (int64_t n = 0; n < s->N; n++)
    for (int64_t i = 0; i < CH; i++)
      c->A[n][i] = i < c->n ? s->A[(c->d + i) * s->N + n] : 0;
}
static const real *row_of(const scan *s, const channels *c, const real *x,
                          int64_t t) {
  return x + (c->b * s->T + t) * s->N;
}

/* h becomes the state after step t, e what it was multiplied by. */
static void step(const scan *s, const channels *c, int64_t t, const lane *h,
                 lane *to, lane *e) {
  const real *B = row_of(s, c, s->B, t);
  lane delta, u;
  load(s, c, s->delta, t, delta);
  load(s, c, s->u, t, u);
  for (int i = 0; i < CH; i++) u[i] *= delta[i];
  for (int64_t n = 0; n < s->N; n++) {
    real exponent[CH];
    for (int i = 0; i < CH; i++) exponent[i] = m_exp(delta[i] * c->A[n][i]);
    for (int i = 0; i < CH; i++)
      to[n][i] = fma_(exponent[i], h[n][i], u[i] * B[n]);
    if (e) memcpy(e[n], exponent, sizeof exponent);
  }
}

/* ---- forward ------------------------------------------------------------- */

static void forward_part(const mrt_call *call, const void *shared, int part,
                         int parts) {
  const scan *s = shared;
  lane *room = (lane *)(void *)(s->room + part * s->room_size);
  int64_t k, end;
  mrt_share(s->batch * s->blocks, part, parts, &k, &end);
  for (; k < end; k++) {
    channels c = { .b = k / s->blocks, .d = k % s->blocks * CH, .A = room };
    lane *h = room + s->N;
    c.n = s->D - c.d < CH ? s->D - c.d : CH;
    load_A(s, &c);
    memset(h, 0, (size_t)s->N * sizeof *h);
    for (int64_t t = 0; t < s->T; t++) {
      const real *C = row_of(s, &c, s->C, t);
      lane y = { 0 };
      step(s, &c, t, h, h, NULL);
      for (int64_t n = 0; n < s->N; n++)
        for (int i = 0; i < CH; i++) y[i] = fma_(C[n], h[n][i], y[i]);
      store(s, &c, y, t, s->y);
    }
  }
}

/* ---- gradient ------------------------------------------------------------ */

/* The room of a thread. */
typedef struct desk {
  lane *A, *dA, *g; /* g: what the step after has for the state before it */
  lane *kept;       /* states before each piece */
  lane *h, *e;      /* of a piece: states from before it on, factors */
} desk;

static desk desk_of(const scan *s, int part) {
  lane *room = (lane *)(void *)(s->room + part * s->room_size);
  desk d = { .A = room, .dA = room + s->N, .g = room + 2 * s->N };
  d.kept = d.g + s->N;
  d.h = d.kept + s->pieces * s->N;
  d.e = d.h + (s->piece + 1) * s->N;
  return d;
}
static int64_t lanes_of_desk(const scan *s) {
  return s->N * (3 + s->pieces + s->piece + 1 + s->piece);
}

static real sum_of(const real *x) {
  vec sum = { 0 };
  for (int i = 0; i < CH; i += LANES) sum += vec_load(x + i);
  return vec_sum(sum);
}

/* Back through step t, from h before it to `after`. */
static void step_back(const scan *s, const channels *c, const desk *d,
                      int64_t t, const lane *h, const lane *after,
                      const lane *e, real *dB, real *dC) {
  const real *B = row_of(s, c, s->B, t), *C = row_of(s, c, s->C, t);
  lane delta, u, x, dy, dx = { 0 }, ddelta = { 0 };
  load(s, c, s->delta, t, delta);
  load(s, c, s->u, t, u);
  load(s, c, s->dy, t, dy);
  for (int i = 0; i < CH; i++) x[i] = delta[i] * u[i];
  for (int64_t n = 0; n < s->N; n++) {
    lane of_B, of_C;
#pragma omp simd
    for (int i = 0; i < CH; i++) {
      real g = fma_(C[n], dy[i], d->g[n][i]), ge = g * e[n][i];
      real exponent = ge * h[n][i]; /* the gradient of delta A */
      of_B[i] = g * x[i], of_C[i] = after[n][i] * dy[i];
      dx[i] = fma_(g, B[n], dx[i]);
      ddelta[i] = fma_(exponent, c->A[n][i], ddelta[i]);
      d->dA[n][i] = fma_(exponent, delta[i], d->dA[n][i]);
      d->g[n][i] = ge;
    }
    dB[n] += sum_of(of_B), dC[n] += sum_of(of_C);
  }
  for (int i = 0; i < CH; i++) {
    ddelta[i] = fma_(dx[i], u[i], ddelta[i]);
    dx[i] *= delta[i];
  }
  store(s, c, dx, t, s->du);
  store(s, c, ddelta, t, s->ddelta);
}

/* A block of channels; dB, dC [T, N] of its section. */
static void back_through(const scan *s, const channels *c, const desk *d,
                         real *dB, real *dC) {
  int64_t N = s->N;
  size_t state = (size_t)N * sizeof(lane);
  memset(d->h, 0, state);
  memset(d->g, 0, state);
  memset(d->dA, 0, state);
  for (int64_t t = 0; t < s->T; t++) {
    if (t % s->piece == 0) memcpy(d->kept + t / s->piece * N, d->h, state);
    if (t < (s->pieces - 1) * s->piece) step(s, c, t, d->h, d->h, NULL);
  }
  for (int64_t p = s->pieces - 1; p >= 0; p--) {
    int64_t from = p * s->piece, left = s->T - from;
    int64_t n = left < s->piece ? left : s->piece;
    memcpy(d->h, d->kept + p * N, state);
    for (int64_t k = 0; k < n; k++)
      step(s, c, from + k, d->h + k * N, d->h + (k + 1) * N, d->e + k * N);
    for (int64_t k = n - 1; k >= 0; k--)
      step_back(s, c, d, from + k, d->h + k * N, d->h + (k + 1) * N,
                d->e + k * N, dB + (from + k) * N, dC + (from + k) * N);
  }
  for (int64_t i = 0; i < c->n; i++)
    for (int64_t n = 0; n < N; n++)
      s->dA_of[(c->b * s->D + c->d + i) * N + n] = d->dA[n][i];
}

static void backward_part(const mrt_call *call, const void *shared, int part,
                          int parts) {
  const scan *s = shared;
  desk d = desk_of(s, part);
  int64_t k, end, line = s->T * s->N;
  mrt_share(s->batch * s->sections, part, parts, &k, &end);
  for (; k < end; k++) {
    int64_t b = k / s->sections, section = k % s->sections;
    int64_t block = s->blocks * section / s->sections;
    int64_t last = s->blocks * (section + 1) / s->sections;
    real *dB = s->dB_of + (section * s->batch + b) * line;
    real *dC = s->dC_of + (section * s->batch + b) * line;
    memset(dB, 0, (size_t)line * sizeof *dB);
    memset(dC, 0, (size_t)line * sizeof *dC);
    for (; block < last; block++) {
      channels c = { .b = b, .d = block * CH, .A = d.A };
      c.n = s->D - c.d < CH ? s->D - c.d : CH;
      load_A(s, &c);
      back_through(s, &c, &d, dB, dC);
    }
  }
}

/* to[i] = the sum of `count` numbers `apart`, from from[i] on. */
static void add_up(const real *from, int64_t count, int64_t apart, real *to,
                   int64_t n) {
  for (int64_t i = 0; i < n; i++) to[i] = 0;
  for (int64_t k = 0; k < count; k++)
    for (int64_t i = 0; i < n; i++) to[i] += from[k * apart + i];
}

/* ---- kernels ------------------------------------------------------------- */

static int team_of(const mrt_call *c, const scan *s, double ns) {
  return mrt_team(c, ns * (double)s->batch * (double)s->T * (double)s->D *
                         (double)(s->N + 1));
}

static void forward(const mrt_call *c) {
  scan s = shape_of(c);
  s.y = c->out[0].data, s.room = c->scratch, s.room_size = 2 * s.N * CH;
  mrt_parallel(c, team_of(c, &s, 0.5), forward_part, &s);
}

static void backward(const mrt_call *c) {
  scan s = shape_of(c);
  int64_t states = s.D * s.N, lines = s.batch * s.T * s.N;
  s.dy = c->in[5].data;
  s.du = c->out[0].data, s.ddelta = c->out[1].data, s.dA = c->out[2].data;
  s.dB = c->out[3].data, s.dC = c->out[4].data;
  s.room_size = lanes_of_desk(&s) * CH;
  s.room = c->scratch;
  s.dA_of = s.room + c->threads * s.room_size;
  s.dB_of = s.dA_of + s.batch * states;
  s.dC_of = s.dB_of + s.sections * lines;
  mrt_parallel(c, team_of(c, &s, 2), backward_part, &s);
  add_up(s.dA_of, s.batch, states, s.dA, states);
  add_up(s.dB_of, s.sections, lines, s.dB, lines);
  add_up(s.dC_of, s.sections, lines, s.dC, lines);
}

/* Never none: what is empty has a place, too. */
static size_t forward_scratch(const mrt_call *c) {
  scan s = shape_of(c);
  return (size_t)(2 * s.N * CH * c->threads + 1) * sizeof(real);
}
static size_t backward_scratch(const mrt_call *c) {
  scan s = shape_of(c);
  int64_t reals = lanes_of_desk(&s) * CH * c->threads + s.batch * s.D * s.N +
                  2 * s.sections * s.batch * s.T * s.N;
  return (size_t)(reals + 1) * sizeof(real);
}

MRT_KERNEL(selective_scan, .run = forward, .scratch = forward_scratch);
MRT_KERNEL(selective_scan_grad, .run = backward, .scratch = backward_scratch);
