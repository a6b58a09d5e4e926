/* side.h -- the transforms of a batch side by side
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CPU_FFT_SIDE_H
#define MRT_CPU_FFT_SIDE_H

#include "fft/shape.h"
#include "gemm/pack.h"

/* ---- real numbers two by two --------------------------------------------- */

/* What the spectrum of n real numbers is, at k and length - k, by that of them
 * two by two: p, q there; w = e^(-2 pi i k / n).  Scalars or vectors. */
#define APART(T, p, q, w_re, w_im, even_re, even_im, odd_re, odd_im)           \
  T even_re = (p##_re + q##_re) * half_, even_im = (p##_im - q##_im) * half_;  \
  T diff_re = (p##_im + q##_im) * half_, diff_im = (q##_re - p##_re) * half_;  \
  T odd_re = diff_re * (w_re)-diff_im * (w_im),                                \
    odd_im = diff_re * (w_im) + diff_im * (w_re)

/* z[0..length) -> y[0..length]. */
static inline void tell_apart(const cvec *z, cvec *y, int64_t length,
                              const real *root) {
  const real half_ = REAL(0.5);
  for (int64_t k = 0; k <= length; k++) {
    const cvec *p = &z[k == length ? 0 : k], *q = &z[k ? length - k : 0];
    vec p_re = p->re, p_im = p->im, q_re = q->re, q_im = q->im;
    APART(vec, p, q, root[2 * k], root[2 * k + 1], e_re, e_im, o_re, o_im);
    y[k] = (cvec){ e_re + o_re, e_im + o_im };
  }
}

/* The other way, times 2: x[0..length] -> z[0..length), real and imaginary
 * parts swapped for the inverse. */
static inline void put_together(const cvec *x, cvec *z, int64_t length,
                                const real *root) {
  for (int64_t k = 0; k < length; k++) {
    cvec p = x[k], q = x[length - k];
    cvec sum = { p.re + q.re, p.im - q.im }, dif = { p.re - q.re, p.im + q.im };
    /* i e^(+2 pi i k / n) dif */
    cvec odd = c_mul(dif, root[2 * k], -root[2 * k + 1]);
    z[k] = (cvec){ sum.im + odd.re, sum.re - odd.im };
  }
}

/* ---- to and from lanes --------------------------------------------------- */

/* Where lane l's numbers are: in[l] + k step, the imaginary part `im` after. */
typedef struct fft_lane_places {
  int lanes;
  bool neighbours; /* `apart` from one to the next */
  int64_t apart, at[LANES];
} fft_lane_places;

/* Of transforms [first, first + lanes): n numbers of `width` reals each. */
static inline fft_lane_places places(const fft_shape *s, int64_t first,
                                     int lanes, int64_t n, int width) {
  fft_lane_places p = { .lanes = lanes, .neighbours = true };
  for (int l = 0; l < lanes; l++) {
    int64_t i = first + l;
    p.at[l] = (i / s->inner * n * s->inner + i % s->inner) * width;
  }
  p.apart = lanes > 1 ? p.at[1] - p.at[0] : 0;
  for (int l = 1; l < lanes; l++)
    if (p.at[l] - p.at[l - 1] != p.apart) p.neighbours = false;
  return p;
}

/* Whole lanes whose numbers are pairs in rows of their own: as many as fit are
 * turned in registers, LANES / 2 pairs at a time.  How many numbers that are. */
static inline int64_t whole_pairs(const fft_lane_places *p, int64_t n,
                                  int64_t step, int64_t im) {
  return p->lanes == LANES && step == 2 && im == 1
             ? n / (LANES / 2) * (LANES / 2)
             : 0;
}
static inline int64_t load_pairs(const real *from, const fft_lane_places *p,
                                 int64_t n, bool swap, cvec *to) {
  for (int64_t k = 0; k < n; k += LANES / 2) {
    vec v[LANES];
#pragma GCC unroll 16
    for (int l = 0; l < LANES; l++) v[l] = vec_load(from + p->at[l] + 2 * k);
    transpose(v);
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) ((vec *)(to + k))[i ^ (int)swap] = v[i];
  }
  return n;
}
static inline int64_t store_pairs(real *to, const fft_lane_places *p, int64_t n,
                                  bool swap, real scale, const cvec *from) {
  for (int64_t k = 0; k < n; k += LANES / 2) {
    vec v[LANES];
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++)
      v[i] = ((const vec *)(from + k))[i ^ (int)swap] * scale;
    transpose(v);
#pragma GCC unroll 16
    for (int l = 0; l < LANES; l++) vec_store(to + p->at[l] + 2 * k, v[l]);
  }
  return n;
}

/* n numbers `step` reals apart, imaginary parts `im` after; im = 0: none. */
static inline void load(const real *from, const fft_lane_places *p, int64_t n,
                        int64_t step, int64_t im, bool swap, cvec *to) {
  real *re_to = (real *)to + (swap ? LANES : 0);
  real *im_to = (real *)to + (swap ? 0 : LANES);
  if (p->lanes < LANES || im == 0) memset(to, 0, (size_t)n * sizeof *to);
  if (p->neighbours && p->lanes == LANES && p->apart == 2 && im == 1) {
    for (int64_t k = 0; k < n; k++) {
      const real *x = from + p->at[0] + k * step;
      for (int l = 0; l < LANES; l++) re_to[2 * LANES * k + l] = x[2 * l];
      for (int l = 0; l < LANES; l++) im_to[2 * LANES * k + l] = x[2 * l + 1];
    }
    return;
  }
  if (p->neighbours && p->lanes == LANES && p->apart == 1) {
    for (int64_t k = 0; k < n; k++) {
      const real *x = from + p->at[0] + k * step;
      vec_store(re_to + 2 * LANES * k, vec_load(x));
      if (im) vec_store(im_to + 2 * LANES * k, vec_load(x + im));
    }
    return;
  }
  int64_t done = load_pairs(from, p, whole_pairs(p, n, step, im), swap, to);
  /* few lines of `to` at a time, which stay in the first cache */
  for (int64_t k0 = done; k0 < n; k0 += BLOCK)
    for (int l = 0; l < p->lanes; l++) {
      const real *x = from + p->at[l];
      int64_t end = k0 + BLOCK < n ? k0 + BLOCK : n;
      if (im)
        for (int64_t k = k0; k < end; k++) {
          re_to[2 * LANES * k + l] = x[k * step];
          im_to[2 * LANES * k + l] = x[k * step + im];
        }
      else
        for (int64_t k = k0; k < end; k++)
          re_to[2 * LANES * k + l] = x[k * step];
    }
}

static inline void store(real *to, const fft_lane_places *p, int64_t n,
                         int64_t step, int64_t im, bool swap, real scale,
                         const cvec *from) {
  const real *re = (const real *)from + (swap ? LANES : 0);
  const real *ims = (const real *)from + (swap ? 0 : LANES);
  if (p->neighbours && p->lanes == LANES && p->apart == 2 && im == 1) {
    for (int64_t k = 0; k < n; k++) {
      real *y = to + p->at[0] + k * step;
      const real *u = re + 2 * LANES * k, *v = ims + 2 * LANES * k;
      for (int l = 0; l < LANES; l++)
        y[2 * l] = u[l] * scale, y[2 * l + 1] = v[l] * scale;
    }
    return;
  }
  if (p->neighbours && p->lanes == LANES && p->apart == 1) {
    for (int64_t k = 0; k < n; k++) {
      real *y = to + p->at[0] + k * step;
      vec_store(y, vec_load(re + 2 * LANES * k) * scale);
      if (im) vec_store(y + im, vec_load(ims + 2 * LANES * k) * scale);
    }
    return;
  }
  int64_t done =
      store_pairs(to, p, whole_pairs(p, n, step, im), swap, scale, from);
  for (int64_t k0 = done; k0 < n; k0 += BLOCK)
    for (int l = 0; l < p->lanes; l++) {
      real *y = to + p->at[l];
      int64_t end = k0 + BLOCK < n ? k0 + BLOCK : n;
      if (im)
        for (int64_t k = k0; k < end; k++) {
          y[k * step] = re[2 * LANES * k + l] * scale;
          y[k * step + im] = ims[2 * LANES * k + l] * scale;
        }
      else
        for (int64_t k = k0; k < end; k++)
          y[k * step] = re[2 * LANES * k + l] * scale;
    }
}

/* Numbers of the spectrum that stand for two, times `by`. */
static inline void weigh(cvec *x, const fft_shape *s, real by) {
  for (int64_t k = 1; k < half(s); k++)
    if (2 * k != s->n) x[k].re *= by, x[k].im *= by;
}

/* A real signal's spectrum has no imaginary part here. */
static inline void make_real(cvec *x, const fft_shape *s) {
  x[0].im = (vec){ 0 };
  if (s->n % 2 == 0) x[s->n / 2].im = (vec){ 0 };
}

static inline void side_from_real(const fft_shape *s, const real *x, real *y,
                                  const fft_tables *t, int64_t first, int lanes,
                                  cvec *u, cvec *v) {
  fft_lane_places in = places(s, first, lanes, s->n, 1);
  fft_lane_places out = places(s, first, lanes, half(s), 2);
  int64_t i = s->inner;
  load(x, &in, s->length, s->halved ? 2 * i : i, s->halved ? i : 0, false, u);
  cvec *z = fft_lanes(&s->whole, (unit_table){ t->side, 1 + s->halved }, u, v);
  if (s->halved) {
    cvec *other = z == u ? v : u;
    tell_apart(z, other, s->length, t->side);
    z = other;
  }
  if (s->adjoint) weigh(z, s, 2);
  store(y, &out, half(s), 2 * i, 1, false, s->scale, z);
}

static inline void side_to_real(const fft_shape *s, const real *x, real *y,
                                const fft_tables *t, int64_t first, int lanes,
                                cvec *u, cvec *v) {
  fft_lane_places in = places(s, first, lanes, half(s), 2);
  fft_lane_places out = places(s, first, lanes, s->n, 1);
  int64_t i = s->inner;
  load(x, &in, half(s), 2 * i, 1, false, u);
  make_real(u, s);
  if (s->adjoint) weigh(u, s, REAL(0.5));
  if (s->halved)
    put_together(u, v, s->length, t->side);
  else
    for (int64_t k = 0; k < half(s); k++) {
      v[k] = (cvec){ u[k].im, u[k].re };
      if (k) v[s->n - k] = (cvec){ -u[k].im, u[k].re };
    }
  cvec *z = fft_lanes(&s->whole, (unit_table){ t->side, 1 + s->halved }, v, u);
  store(y, &out, s->length, s->halved ? 2 * i : i, s->halved ? i : 0, true,
        s->scale, z);
}

static inline void side_part(const mrt_call *c, const void *shared, int part,
                             int parts) {
  const fft_batch *r = shared;
  const fft_shape *s = r->s;
  char *room = r->rooms + (size_t)part * s->room;
  cvec *u = take(&room, s->length + 1, sizeof(cvec));
  cvec *v = take(&room, s->length + 1, sizeof(cvec));
  const real *x = c->in[0].data;
  real *y = c->out[0].data;
  int64_t g, end;
  mrt_share(groups(s->count), part, parts, &g, &end);
  for (; g < end; g++) {
    int64_t first = g * LANES;
    int lanes = s->count - first < LANES ? (int)(s->count - first) : LANES;
    if (s->kind == FROM_REAL) {
      side_from_real(s, x, y, r->t, first, lanes, u, v);
    } else if (s->kind == TO_REAL) {
      side_to_real(s, x, y, r->t, first, lanes, u, v);
    } else {
      fft_lane_places p = places(s, first, lanes, s->n, 2);
      load(x, &p, s->n, 2 * s->inner, 1, s->inverse, u);
      cvec *z = fft_lanes(&s->whole, (unit_table){ r->t->side, 1 }, u, v);
      store(y, &p, s->n, 2 * s->inner, 1, s->inverse, s->scale, z);
    }
  }
}

#endif
