/* strips.c -- products with weights that are made a strip at a time
 *
 * SPDX-License-Identifier: MIT */
#include "strips.h"
#include "gemm/gemm.h"

/* Columns of y that are made at a time: a multiple of the widest tile's. */
enum { STRIP = 96 };

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static size_t round_up(size_t n) { return (n + 63) / 64 * 64; }

/* A strip of w, and with it one part's scratch; both multiples of 64. */
static size_t strip_bytes(const mrt_call *c) {
  return round_up((size_t)mrt_cols(&c->in[0]) * STRIP * sizeof(real));
}
/* A product of x and a strip of reals. */
static mrt_gemm strip_product(const mrt_call *c, const mrt_strips *s,
                              int64_t n) {
  int64_t k = mrt_cols(&c->in[0]);
  return (mrt_gemm){
    .m = mrt_rows(&c->in[0]),
    .n = n,
    .k = k,
    .a = { c->in[0].data, k, 1, c->in[0].type.dtype },
    .b = { .dtype = MRT_REAL },
    .compute = s->compute,
    .accumulate = MRT_DTYPE_COUNT,
    .dots = c->dots,
    .tiles = c->tiles,
    .row = mrt_cols(&c->out[0]),
    .col = 1,
    .dtype = c->out[0].type.dtype,
    .bias_col = 1,
  };
}

/* A narrow bias as reals lies behind what is the caller's. */
static size_t bias_bytes(const mrt_call *c, const mrt_strips *s) {
  if (!s->bias || c->in[s->bias].type.dtype == MRT_REAL) return 0;
  return round_up((size_t)mrt_cols(&c->out[0]) * sizeof(real));
}
static const real *bias_of(const mrt_call *c, const mrt_strips *s) {
  if (!s->bias) return NULL;
  if (bias_bytes(c, s) == 0) return c->in[s->bias].data;
  return (const real *)((char *)c->scratch + s->shared);
}
static void fill_bias(const mrt_call *c, const mrt_strips *s) {
  if (bias_bytes(c, s))
    mrt_widen(c->in[s->bias].type.dtype, c->in[s->bias].data,
              (real *)((char *)c->scratch + s->shared), mrt_cols(&c->out[0]));
}

/* What all parts share of the scratch. */
static size_t shared_bytes(const mrt_call *c, const mrt_strips *s) {
  return s->shared + bias_bytes(c, s);
}
static size_t part_bytes(const mrt_call *c, const mrt_strips *s) {
  mrt_gemm g = strip_product(c, s, STRIP);
  return strip_bytes(c) + mrt_gemm_bytes(&g);
}

/* Columns [j, j + n) of y. */
static void run_strip(const mrt_call *c, const mrt_strips *s, int64_t j,
                      int64_t n, char *scratch) {
  int64_t k = mrt_cols(&c->in[0]);
  real *strip = (real *)scratch;
  bool turned = s->transposed;
  for (int64_t i = 0; i < (turned ? k : n); i++)
    if (turned)
      s->take(s->matrix, i, j, j + n, strip + i * n);
    else
      s->take(s->matrix, j + i, 0, k, strip + i * k);
  mrt_gemm g = strip_product(c, s, n);
  g.b.data = strip, g.b.row = turned ? n : 1, g.b.col = turned ? 1 : k;
  g.c = mrt_element(&c->out[0], j);
  g.bias = bias_of(c, s) ? bias_of(c, s) + j : NULL;
  g = mrt_gemm_part(&g, 0, 1);
  mrt_gemm_run(&g, scratch + strip_bytes(c));
}

static bool is_few(const mrt_call *c, const mrt_strips *s) {
  bool rounds = s->compute != MRT_DTYPE_COUNT && s->compute != MRT_REAL;
  return s->fill && !s->transposed && !rounds &&
         mrt_rows(&c->in[0]) <= MRT_FEW && mrt_cols(&c->in[0]) > 0;
}

/* Columns [j, j + n) of few rows. */
static void run_few(const mrt_call *c, const mrt_strips *s, int64_t j,
                    int64_t n, void *scratch) {
  mrt_gemm g = strip_product(c, s, n);
  mrt_few_product f = { .g = &g,
                        .fill = s->fill,
                        .add = s->add,
                        .columns = s->matrix,
                        .first = j,
                        .vecs = MRT_FEW_VECS };
  if (g.m == 0 || n == 0) return;
  g.c = mrt_element(&c->out[0], j);
  g.bias = bias_of(c, s) ? bias_of(c, s) + j : NULL;
  mrt_few_run(&f, scratch);
}

static void run_strips(const mrt_call *c, const void *strips, int part,
                       int parts) {
  const mrt_strips *s = strips;
  int64_t n = mrt_cols(&c->out[0]), j, end;
  char *scratch =
      (char *)c->scratch + shared_bytes(c, s) + (size_t)part * part_bytes(c, s);
  mrt_share((n + LANES - 1) / LANES, part, parts, &j, &end);
  j = least(j * LANES, n), end = least(end * LANES, n);
  if (is_few(c, s)) {
    run_few(c, s, j, end - j, scratch);
    return;
  }
  for (; j < end; j += STRIP)
    run_strip(c, s, j, least(STRIP, end - j), scratch);
}

void mrt_strips_run(const mrt_call *c, const mrt_strips *s) {
  double terms = (double)mrt_cols(&c->in[0]) * (double)mrt_cols(&c->out[0]);
  /* 100 flop and one number made per nanosecond: one core, roughly. */
  int team = mrt_team(c, terms * ((double)mrt_rows(&c->in[0]) / 50 + 1));
  fill_bias(c, s);
  mrt_parallel(c, team, run_strips, s);
}

size_t mrt_strips_bytes(const mrt_call *c, const mrt_strips *s) {
  return shared_bytes(c, s) + (size_t)c->threads * part_bytes(c, s);
}
