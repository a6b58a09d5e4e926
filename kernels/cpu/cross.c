/* cross.c -- cross products: [outer, 3, inner] and the same
 *
 * SPDX-License-Identifier: MIT */
#include "cpu.h"
#include "op/move.h"

static inline __attribute__((always_inline)) void lines(const real *x,
                                                        const real *y, real *z,
                                                        int64_t n, int64_t step,
                                                        int64_t next) {
  for (int64_t i = 0; i < n; i++, x += next, y += next, z += next) {
    real a = x[0], b = x[step], c = x[2 * step];
    real d = y[0], e = y[step], f = y[2 * step];
    z[0] = b * f - c * e, z[step] = c * d - a * f, z[2 * step] = a * e - b * d;
  }
}

static void part_of(const mrt_call *c, const void *shared, int part,
                    int parts) {
  const real *x = c->in[0].data, *y = c->in[1].data;
  real *z = c->out[0].data;
  int64_t inner = *(const int64_t *)shared, from, to;
  mrt_share(mrt_type_count(&c->out[0].type) / 3, part, parts, &from, &to);
  if (inner == 1) {
    lines(x + 3 * from, y + 3 * from, z + 3 * from, to - from, 1, 3);
    return;
  }
  for (int64_t n; from < to; from += n) {
    int64_t left = inner - from % inner;
    int64_t at = from / inner * 3 * inner + from % inner;
    n = left < to - from ? left : to - from;
    lines(x + at, y + at, z + at, n, inner, 1);
  }
}

static void cross(const mrt_call *c) {
  const mrt_dim_options *o = c->options;
  const mrt_type *t = &c->out[0].type;
  int64_t inner = 1;
  for (int i = (int)o->dim + 1; i < t->rank; i++) inner *= t->dims[i];
  double ns = 0.5 * (double)mrt_type_count(t);
  mrt_parallel(c, mrt_team(c, ns), part_of, &inner);
}
MRT_KERNEL(cross, .run = cross);
