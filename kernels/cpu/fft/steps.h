/* steps.h -- one long transform: in two steps, or by chirps
 *
 * n = a b: numbers as a matrix of a rows; its columns are transformed, each number
 * times a twiddle factor, and then its rows.  Both side by side (lanes.h), and
 * divided among threads.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CPU_FFT_STEPS_H
#define MRT_CPU_FFT_STEPS_H

#include "fft/shape.h"

typedef struct fft_work {
  const fft_shape *s;
  const fft_tables *t;
  const real *from;
  real *to;
  cvec *between, *lanes, *buffers;
  bool swap_in, swap_out;
  real scale;
} fft_work;

/* to[i], lane l: e^(-2 pi i i l / size) */
static inline void lane_twiddles(const fft_shape *s, const fft_tables *t,
                                 cvec *to) {
  for (int64_t i = 0; i < s->a; i++)
    for (int64_t l = 0; l < LANES; l++) {
      double re, im;
      fft_root(&t->steps, i * l % s->size, &re, &im);
      ((real *)&to[i])[l] = (real)re, ((real *)&to[i])[LANES + l] = (real)im;
    }
}

/* Columns side by side; each times its twiddles, to `between`. */
static inline void first_step(const mrt_call *c, const void *shared, int part,
                              int parts) {
  const fft_work *k = shared;
  const fft_shape *s = k->s;
  int64_t longer = s->a > s->b ? s->a : s->b, g, end;
  size_t step = lines(longer, sizeof(cvec)) / sizeof(cvec);
  cvec *x = k->buffers + 2 * (size_t)part * step, *y = x + step;
  (void)c;
  mrt_share(groups(s->b), part, parts, &g, &end);
  for (; g < end; g++) {
    int64_t lanes = s->b - g * LANES < LANES ? s->b - g * LANES : LANES;
    for (int64_t i = 0; i < s->a; i++) {
      const real *from = k->from + 2 * (i * s->b + g * LANES);
      real *to = (real *)&x[i];
      if (lanes < LANES) x[i] = (cvec){ { 0 }, { 0 } };
      for (int64_t l = 0; l < lanes; l++)
        to[l] = from[2 * l + k->swap_in],
        to[LANES + l] = from[2 * l + !k->swap_in];
    }
    cvec *out = fft_lanes(&s->first, (unit_table){ k->t->first, 1 }, x, y);
    for (int64_t i = 0, at = 0; i < s->a; i++) { /* at: i g LANES mod size */
      double re, im;
      fft_root(&k->t->steps, at, &re, &im);
      at += g * LANES;
      if (at >= s->size) at -= s->size;
      cvec w = c_mul(k->lanes[i], (real)re, (real)im);
      k->between[g * s->a + i] = c_mul_vec(out[i], w);
    }
  }
}

static inline void second_step(const mrt_call *c, const void *shared, int part,
                               int parts) {
  const fft_work *k = shared;
  const fft_shape *s = k->s;
  int64_t longer = s->a > s->b ? s->a : s->b, h, end;
  size_t step = lines(longer, sizeof(cvec)) / sizeof(cvec);
  cvec *x = k->buffers + 2 * (size_t)part * step, *y = x + step;
  (void)c;
  mrt_share(groups(s->a), part, parts, &h, &end);
  for (; h < end; h++) {
    int64_t lanes = s->a - h * LANES < LANES ? s->a - h * LANES : LANES;
    for (int64_t j = 0; j < s->b; j += LANES)
      for (int64_t l = 0; l < lanes; l++) {
        const real *from =
            (const real *)&k->between[j / LANES * s->a + h * LANES + l];
        real *to = (real *)&x[j] + l;
        int64_t n = s->b - j < LANES ? s->b - j : LANES;
        for (int64_t i = 0; i < n; i++)
          to[2 * LANES * i] = from[i],
                         to[2 * LANES * i + LANES] = from[LANES + i];
      }
    for (int64_t j = 0; lanes < LANES && j < s->b; j++)
      for (int64_t l = lanes; l < LANES; l++)
        ((real *)&x[j])[l] = ((real *)&x[j])[LANES + l] = 0;
    cvec *out = fft_lanes(&s->second, (unit_table){ k->t->second, 1 }, x, y);
    for (int64_t j = 0; j < s->b; j++) {
      real *to = k->to + 2 * (j * s->a + h * LANES);
      const real *from = (const real *)&out[j];
      for (int64_t l = 0; l < lanes; l++) {
        to[2 * l + k->swap_out] = from[l] * k->scale;
        to[2 * l + !k->swap_out] = from[LANES + l] * k->scale;
      }
    }
  }
}

/* `size` numbers, from one array to another. */
static inline void in_two_steps(const mrt_call *c, const fft_work *k) {
  mrt_parallel(c, k->s->teams, first_step, k);
  mrt_parallel(c, k->s->teams, second_step, k);
}

/* The transform of `length` numbers at x, which is overwritten, to y: both have
 * room for `size`. */
static inline real *by_chirps(const mrt_call *c, fft_work k, real *x, real *y) {
  const fft_shape *s = k.s;
  for (int64_t i = 0; i < s->length; i++) {
    real re = x[2 * i + k.swap_in], im = x[2 * i + !k.swap_in];
    const real *w = k.t->chirp + 2 * i;
    x[2 * i] = re * w[0] - im * w[1], x[2 * i + 1] = re * w[1] + im * w[0];
  }
  memset(x + 2 * s->length, 0,
         (size_t)(s->size - s->length) * 2 * sizeof(real));
  fft_work forth = k;
  forth.from = x, forth.to = y, forth.scale = 1;
  forth.swap_in = forth.swap_out = false;
  in_two_steps(c, &forth);
  for (int64_t i = 0; i < s->size; i++) {
    const real *w = k.t->response + 2 * i;
    real re = y[2 * i] * w[0] - y[2 * i + 1] * w[1];
    y[2 * i + 1] = y[2 * i] * w[1] + y[2 * i + 1] * w[0], y[2 * i] = re;
  }
  forth.from = y, forth.to = x, forth.scale = 1 / (real)s->size;
  forth.swap_in = forth.swap_out = true;
  in_two_steps(c, &forth);
  for (int64_t i = 0; i < s->length; i++) {
    const real *w = k.t->chirp + 2 * i;
    real re = x[2 * i] * w[0] - x[2 * i + 1] * w[1];
    real im = x[2 * i] * w[1] + x[2 * i + 1] * w[0];
    x[2 * i + k.swap_out] = re * k.scale, x[2 * i + !k.swap_out] = im * k.scale;
  }
  return x;
}

#endif
