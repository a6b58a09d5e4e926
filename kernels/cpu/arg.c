/* arg.c -- argmax and argmin: where the first extreme is
 *
 * A row is folded to its extreme, which is then looked for.  Columns are
 * searched side by side, up to WIDTH of them with their best values on the
 * stack.  A NaN beats all but an earlier NaN.
 *
 * SPDX-License-Identifier: MIT */
#include "op/reduce.h"
#include "reduce_rows.h"

enum { WIDTH = 64 };

/* at[j] = position of the extreme of x[j], x[j + step] ...; n > 0 rows. */
typedef void find_fn(const void *x, int64_t n, int64_t step, int width,
                     int64_t *at);

#define FIND(name, D, T, BEATS, IS)                                            \
  static int64_t find_row_##name(const T *x, int64_t n) {                      \
    T best;                                                                    \
    int64_t k = 0;                                                             \
    row_##name(&(elements){ (const char *)x, D, NULL }, 0, n, &best);          \
    while (!IS(x[k], best)) k++;                                               \
    return k;                                                                  \
  }                                                                            \
  static void find_##name(const void *from, int64_t n, int64_t step,           \
                          int width, int64_t *at) {                            \
    const T *x = from;                                                         \
    T best[WIDTH];                                                             \
    if (step == 1) {                                                           \
      at[0] = find_row_##name(x, n);                                           \
      return;                                                                  \
    }                                                                          \
    for (int j = 0; j < width; j++) best[j] = x[j], at[j] = 0;                 \
    for (int64_t k = 1; k < n; k++)                                            \
      for (int j = 0; j < width; j++)                                          \
        if (BEATS(x[k * step + j], best[j]))                                   \
          best[j] = x[k * step + j], at[j] = k;                                \
  }
#define REAL_ABOVE(a, b) ((a) > (b) || ((a) != (a) && (b) == (b)))
#define REAL_BELOW(a, b) ((a) < (b) || ((a) != (a) && (b) == (b)))
#define REAL_IS(a, b)    ((a) == (b) || (a) != (a))
#define INT_ABOVE(a, b)  ((a) > (b))
#define INT_BELOW(a, b)  ((a) < (b))
#define INT_IS(a, b)     ((a) == (b))

FIND(max_real, MRT_REAL, real, REAL_ABOVE, REAL_IS)
FIND(min_real, MRT_REAL, real, REAL_BELOW, REAL_IS)
MRT_NOT_F64(FIND(max_i64, MRT_i64, int64_t, INT_ABOVE, INT_IS))
MRT_NOT_F64(FIND(max_i32, MRT_i32, int32_t, INT_ABOVE, INT_IS))
MRT_NOT_F64(FIND(max_u8, MRT_u8, uint8_t, INT_ABOVE, INT_IS))
MRT_NOT_F64(FIND(min_i64, MRT_i64, int64_t, INT_BELOW, INT_IS))
MRT_NOT_F64(FIND(min_i32, MRT_i32, int32_t, INT_BELOW, INT_IS))
MRT_NOT_F64(FIND(min_u8, MRT_u8, uint8_t, INT_BELOW, INT_IS))

/* Of [outer, n, inner] along n; blocks: of the columns of a row. */
typedef struct arg_search {
  find_fn *find;
  int64_t outer, n, inner, blocks;
} arg_search;

static void find_part(const mrt_call *c, const void *shared, int part,
                      int parts) {
  const arg_search *s = shared;
  size_t size = mrt_dtypes[c->in[0].type.dtype].bytes;
  int64_t *y = c->out[0].data, n = s->n, inner = s->inner, i, end;
  mrt_share(s->outer * s->blocks, part, parts, &i, &end);
  for (; i < end; i++) {
    int64_t row = i / s->blocks, j = i % s->blocks * WIDTH, left = inner - j;
    s->find((const char *)c->in[0].data + (size_t)(row * n * inner + j) * size,
            n, inner, left < WIDTH ? (int)left : WIDTH, y + row * inner + j);
  }
}

static void find(const mrt_call *c, find_fn *const *of) {
  const mrt_arg_options *o = c->options;
  const mrt_type *t = &c->in[0].type;
  int64_t outer = 1, n = 1, inner = 1;
  for (int i = 0; i < t->rank; i++) {
    if (o->dim == MRT_DIM_NONE || i == o->dim)
      n *= t->dims[i];
    else if (i < o->dim)
      outer *= t->dims[i];
    else
      inner *= t->dims[i];
  }
  arg_search s = { of[t->dtype], outer, n, inner, (inner + WIDTH - 1) / WIDTH };
  int team = mrt_team(c, (double)mrt_type_count(t) * 0.5);
  mrt_parallel(c, team, find_part, &s);
}

static void argmax(const mrt_call *c) {
  static find_fn *const of[MRT_DTYPE_COUNT] = {
    [MRT_REAL] = find_max_real,
    MRT_NOT_F64([MRT_i64] = find_max_i64, [MRT_i32] = find_max_i32,
                [MRT_u8] = find_max_u8, )
  };
  find(c, of);
}

static void argmin(const mrt_call *c) {
  static find_fn *const of[MRT_DTYPE_COUNT] = {
    [MRT_REAL] = find_min_real,
    MRT_NOT_F64([MRT_i64] = find_min_i64, [MRT_i32] = find_min_i32,
                [MRT_u8] = find_min_u8, )
  };
  find(c, of);
}

MRT_KERNEL(argmax, .run = argmax);
MRT_KERNEL(argmin, .run = argmin);
