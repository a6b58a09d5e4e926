/* fft.c -- the rows dft, rdft and irdft: how tensors come to the lanes
 *
 * Three ways, by shape alone:
 *
 *   side by side   a transform of the batch in each lane (lanes.h)
 *   in two steps   one long transform, n = a b, as b of length a and then a of
 *                  length b, both side by side (Bailey 1990)
 *   by chirps      n with a prime above PRIME: a product with a chirp, a
 *                  convolution by transforms of a power of two, and a product
 *                  (Bluestein 1970)
 *
 * Real numbers are taken two as one complex number, n even; the spectra of the
 * even and the odd ones are then told apart by their symmetry.
 *
 * Twiddle factors are made for each call: by two tables of sqrt(n) in f64.
 *
 * SPDX-License-Identifier: MIT */
#include "fft/side.h"
#include "fft/steps.h"

/* ---- one by one ---------------------------------------------------------- */

/* Where transform i begins among `width` reals for each of n numbers. */
static int64_t begin(const fft_shape *s, int64_t i, int64_t n, int width) {
  return (i / s->inner * n * s->inner + i % s->inner) * width;
}

/* The spectrum's number k, which its symmetry makes of the first half. */
static void number_at(const fft_shape *s, const real *x, int64_t k, real *re,
                      real *im) {
  bool mirrored = k >= half(s);
  int64_t m = mirrored ? s->n - k : k, step = 2 * s->inner;
  bool alone = m == 0 || 2 * m == s->n;
  real by = s->adjoint && !alone ? REAL(0.5) : 1;
  *re = x[m * step] * by;
  *im = alone ? 0 : x[m * step + 1] * (mirrored ? -by : by);
}

/* As put_together, of one transform. */
static void spectrum_in(const fft_shape *s, const fft_tables *t, const real *x,
                        real *to) {
  for (int64_t k = 0; k < s->length; k++) {
    real re, im, q_re, q_im;
    number_at(s, x, k, &re, &im);
    if (s->halved) {
      double c_re, c_im;
      number_at(s, x, s->length - k, &q_re, &q_im);
      fft_root(&t->roots, k, &c_re, &c_im);
      real d_re = re - q_re, d_im = im + q_im;
      real a = (real)c_re, b = -(real)c_im;
      re += q_re - (d_re * b + d_im * a);
      im += d_re * a - d_im * b - q_im;
    }
    to[2 * k] = re, to[2 * k + 1] = im;
  }
}

/* Transform i as an array of `length` complex numbers. */
static void gather(const fft_shape *s, const fft_tables *t, const real *x,
                   int64_t i, real *to) {
  int64_t in = s->inner;
  if (s->kind == TO_REAL) {
    spectrum_in(s, t, x + begin(s, i, half(s), 2), to);
  } else if (s->kind == COMPLEX) {
    x += begin(s, i, s->n, 2);
    for (int64_t k = 0; k < s->n; k++)
      to[2 * k] = x[2 * k * in], to[2 * k + 1] = x[2 * k * in + 1];
  } else {
    x += begin(s, i, s->n, 1);
    for (int64_t k = 0; k < s->n; k++)
      if (s->halved)
        to[k] = x[k * in];
      else
        to[2 * k] = x[k * in], to[2 * k + 1] = 0;
  }
}

/* As tell_apart, of one transform. */
static void spectrum_out(const fft_shape *s, const fft_tables *t,
                         const real *from, real *y) {
  const real half_ = REAL(0.5);
  for (int64_t k = 0; k < half(s); k++) {
    real by = s->adjoint && k && 2 * k != s->n ? 2 : 1;
    real re = from[2 * k], im = from[2 * k + 1];
    if (s->halved) {
      const real *p = from + 2 * (k == s->length ? 0 : k);
      const real *q = from + 2 * (k ? s->length - k : 0);
      double c_re, c_im;
      fft_root(&t->roots, k, &c_re, &c_im);
      real p_re = p[0], p_im = p[1], q_re = q[0], q_im = q[1];
      APART(real, p, q, (real)c_re, (real)c_im, e_re, e_im, o_re, o_im);
      re = e_re + o_re, im = e_im + o_im;
    }
    y[2 * k * s->inner] = re * by, y[2 * k * s->inner + 1] = im * by;
  }
}

static void scatter(const fft_shape *s, const fft_tables *t, const real *from,
                    int64_t i, real *y) {
  int64_t in = s->inner;
  if (s->kind == FROM_REAL) {
    spectrum_out(s, t, from, y + begin(s, i, half(s), 2));
  } else if (s->kind == COMPLEX) {
    y += begin(s, i, s->n, 2);
    for (int64_t k = 0; k < s->n; k++)
      y[2 * k * in] = from[2 * k], y[2 * k * in + 1] = from[2 * k + 1];
  } else {
    y += begin(s, i, s->n, 1);
    for (int64_t k = 0; k < s->n; k++)
      y[k * in] = s->halved ? from[k] : from[2 * k];
  }
}

static void one_part(const mrt_call *c, const void *shared, int part,
                     int parts) {
  const fft_batch *r = shared;
  const fft_shape *s = r->s;
  char *room = r->rooms + (size_t)part * s->room;
  real *x = take(&room, 2 * (s->size + 1), sizeof(real));
  real *y = take(&room, 2 * (s->size + 1), sizeof(real));
  fft_work k = { .s = s,
                 .t = r->t,
                 .from = x,
                 .to = y,
                 .swap_in = s->inverse,
                 .swap_out = s->inverse,
                 .scale = s->scale };
  k.between = take(&room, groups(s->b) * s->a, sizeof(cvec));
  k.lanes = take(&room, s->a, sizeof(cvec));
  k.buffers = (cvec *)room;
  lane_twiddles(s, r->t, k.lanes);
  int64_t i, end;
  bool as_it_lies = s->kind == COMPLEX && s->inner == 1 && !s->chirps;
  mrt_share(s->count, part, parts, &i, &end);
  for (; i < end; i++) {
    real *result = y;
    if (as_it_lies) {
      k.from = (const real *)c->in[0].data + 2 * i * s->n;
      k.to = (real *)c->out[0].data + 2 * i * s->n;
      in_two_steps(c, &k);
      continue;
    }
    gather(s, r->t, c->in[0].data, i, x);
    if (s->chirps)
      result = by_chirps(c, k, x, y);
    else
      in_two_steps(c, &k);
    scatter(s, r->t, result, i, c->out[0].data);
  }
}

/* e^(-pi i k^2 / length), and the transform of its inverse, wrapped around. */
static void make_chirps(const mrt_call *c, const fft_shape *s, fft_tables *t,
                        const fft_roots *roots, char *rooms) {
  real *x = t->response;
  memset(x, 0, (size_t)s->size * 2 * sizeof *x);
  for (int64_t k = 0, square = 0; k < s->length; k++) {
    double re, im;
    fft_root(roots, square, &re, &im);
    t->chirp[2 * k] = (real)re, t->chirp[2 * k + 1] = (real)im;
    x[2 * k] = (real)re, x[2 * k + 1] = -(real)im;
    if (k)
      x[2 * (s->size - k)] = (real)re, x[2 * (s->size - k) + 1] = -(real)im;
    square = (square + 2 * k + 1) % (2 * s->length);
  }
  fft_work w = { .s = s, .t = t, .from = x, .to = x, .scale = 1 };
  char *room = rooms + 2 * lines(2 * (s->size + 1), sizeof(real));
  w.between = take(&room, groups(s->b) * s->a, sizeof(cvec));
  w.lanes = take(&room, s->a, sizeof(cvec));
  w.buffers = (cvec *)room;
  lane_twiddles(s, t, w.lanes);
  in_two_steps(c, &w);
}

static void run(const mrt_call *c, fft_kind kind) {
  fft_shape s = shape_of(c, kind);
  char *room = c->scratch;
  fft_tables t = { 0 };
  if (s.count == 0) return;
  int64_t roots = s.chirps ? 2 * s.length : s.halved ? s.n : s.length;
  double *first = take(&room, fft_roots_room(roots), sizeof(double));
  t.roots = fft_roots_make(roots, first);
  if (s.side) {
    real *table = take(&room, 2 * roots, sizeof(real));
    fft_table(&t.roots, roots, table);
    t.side = table;
    mrt_parallel(c, s.parts, side_part, &(fft_batch){ &s, &t, room });
    return;
  }
  t.steps = fft_roots_make(s.size,
                           take(&room, fft_roots_room(s.size), sizeof(double)));
  t.first = take(&room, 2 * s.a, sizeof(real));
  t.second = take(&room, 2 * s.b, sizeof(real));
  fft_table(&t.steps, s.a, t.first);
  fft_table(&t.steps, s.b, t.second);
  if (s.chirps) {
    t.chirp = take(&room, 2 * s.length, sizeof(real));
    t.response = take(&room, 2 * s.size, sizeof(real));
    make_chirps(c, &s, &t, &t.roots, room);
  }
  mrt_parallel(c, s.parts, one_part, &(fft_batch){ &s, &t, room });
}

static size_t scratch(const mrt_call *c, fft_kind kind) {
  fft_shape s = shape_of(c, kind);
  return s.table + (size_t)s.parts * s.room;
}

#define FFT_KERNEL(op, kind)                                                   \
  static void op##_run(const mrt_call *c) { run(c, kind); }                    \
  static size_t op##_scratch(const mrt_call *c) { return scratch(c, kind); }   \
  MRT_KERNEL(op, .run = op##_run, .scratch = op##_scratch)

FFT_KERNEL(dft, COMPLEX);
FFT_KERNEL(rdft, FROM_REAL);
FFT_KERNEL(irdft, TO_REAL);
