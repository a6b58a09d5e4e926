/* shape.h -- which way a Fourier transform goes, and what memory it takes
 *
 * By shape alone, so that neither threads nor strides change a bit.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CPU_FFT_SHAPE_H
#define MRT_CPU_FFT_SHAPE_H

#include "fft/lanes.h"
#include "op/fft.h"

/* Bytes of two buffers side by side at most: they stay in the second cache.
 * Alone: shorter ones are not worth two steps. */
enum { SIDE_BYTES = 1 << 19, ALONE = 64, BLOCK = 32 };

typedef enum fft_kind { COMPLEX, TO_REAL, FROM_REAL } fft_kind;

/* `outer` x `inner` transforms of n; `length` what is transformed: n / 2 of real
 * numbers two by two.  `size` is length, or the power of two of the chirps. */
typedef struct fft_shape {
  fft_kind kind;
  bool inverse, adjoint, halved, chirps, side;
  int64_t n, length, size, outer, inner, count, a, b;
  real scale;
  fft_plan whole, first, second; /* of length or size; of a; of b */
  int parts, teams;   /* who share the batch; who share one transform */
  size_t table, room; /* bytes: of all, of each part */
} fft_shape;

static inline size_t lines(int64_t n, size_t size) {
  return ((size_t)n * size + 63) / 64 * 64;
}
static inline void *take(char **room, int64_t n, size_t size) {
  char *at = *room;
  *room += lines(n, size);
  return at;
}

static inline int64_t groups(int64_t n) { return (n + LANES - 1) / LANES; }

/* The divisor of n next to its root, from n's factors. */
static inline void split(fft_shape *s) {
  int64_t best = 1;
  for (int64_t a = 1; a * a <= s->size; a++)
    if (s->size % a == 0) best = a;
  s->a = best, s->b = s->size / best;
  fft_factor(&s->first, s->a);
  fft_factor(&s->second, s->b);
}

static inline void shape_batch(fft_shape *s, const mrt_type *t, int64_t dim,
                               int rank) {
  s->outer = s->inner = 1;
  for (int i = 0; i < rank; i++) {
    if (i < dim) s->outer *= t->dims[i];
    if (i > dim) s->inner *= t->dims[i];
  }
  s->count = s->outer * s->inner;
}

/* Numbers of the spectrum that is stored. */
static inline int64_t half(const fft_shape *s) { return s->n / 2 + 1; }

static inline size_t side_room(const fft_shape *s) {
  return 2 * lines(s->length + 1, sizeof(cvec));
}

/* In two steps: what lies between them, twiddles of lanes, two buffers a team. */
static inline size_t steps_room(const fft_shape *s, int teams) {
  int64_t longer = s->a > s->b ? s->a : s->b;
  return lines(groups(s->b) * s->a, sizeof(cvec)) + lines(s->a, sizeof(cvec)) +
         2 * (size_t)teams * lines(longer, sizeof(cvec));
}

static inline fft_shape shape_of(const mrt_call *c, fft_kind kind) {
  const mrt_fft_options *o = c->options;
  const mrt_operand *whole = kind == FROM_REAL ? &c->in[0] : &c->out[0];
  fft_shape s = { .kind = kind, .scale = (real)o->scale };
  bool flag = o->inverse; /* `adjoint` of the others: the same place */
  int rank = whole->type.rank - (kind == COMPLEX);
  s.inverse = kind == COMPLEX ? flag : kind == TO_REAL;
  s.adjoint = kind != COMPLEX && flag;
  s.n = whole->type.dims[o->dim];
  shape_batch(&s, &whole->type, o->dim, rank);
  s.halved = kind != COMPLEX && s.n % 2 == 0;
  s.length = s.size = s.halved ? s.n / 2 : s.n;
  s.chirps = !fft_factor(&s.whole, s.length);
  if (s.chirps) {
    s.size = 1;
    while (s.size < 2 * s.length - 1) s.size *= 2;
    fft_factor(&s.whole, s.size);
  }
  s.side = !s.chirps && 4 * (size_t)s.length * sizeof(vec) <= SIDE_BYTES &&
           (s.count >= LANES / 2 || s.length <= ALONE);
  double ns = (double)s.count * (double)s.size * 2;
  int team = mrt_team(c, ns);
  int64_t units = s.side ? groups(s.count) : s.count;
  s.parts = units < team ? units > 0 ? (int)units : 1 : team;
  s.teams = 1;
  int64_t roots = s.chirps ? 2 * s.length : s.halved ? s.n : s.length;
  s.table = lines(fft_roots_room(roots), sizeof(double));
  if (s.side) {
    s.table += lines(2 * roots, sizeof(real));
    s.room = side_room(&s);
    return s;
  }
  split(&s);
  if (s.parts < team) s.teams = team, s.parts = 1;
  s.table += lines(fft_roots_room(s.size), sizeof(double)) +
             lines(2 * s.a, sizeof(real)) + lines(2 * s.b, sizeof(real));
  if (s.chirps)
    s.table +=
        lines(2 * s.length, sizeof(real)) + lines(2 * s.size, sizeof(real));
  s.room = 2 * lines(2 * (s.size + 1), sizeof(real)) + steps_room(&s, s.teams);
  return s;
}

typedef struct fft_tables {
  fft_roots roots;        /* of n, where numbers are taken two by two */
  const real *side;       /* e^(-2 pi i k / n) of those side by side */
  fft_roots steps;        /* of size */
  real *first, *second;   /* of a, b */
  real *chirp, *response; /* e^(-pi i k^2 / n); its transform */
} fft_tables;

typedef struct fft_batch {
  const fft_shape *s;
  const fft_tables *t;
  char *rooms;
} fft_batch;

#endif
