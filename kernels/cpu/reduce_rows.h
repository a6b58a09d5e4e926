/* reduce_rows.h -- joining a row, or rows of columns, by one operation
 *
 * Reals go through vectors: a row in CHAINS vectors side by side, joined by a
 * fixed tree; columns eight rows at a time, as a tree.  The bits depend on the
 * counts and the vector width only.  Integers are plain loops, which compilers
 * turn into vectors as they please: the order does not matter.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_FOLD_H
#define MRT_FOLD_H

#include "floats.h"
#include "fused.h"

/* What is joined: elements in memory, where reals may be narrow; or reals that
 * `program` computes (fused.h), which are nowhere. */
typedef struct elements {
  const char *data;
  mrt_dtype dtype;
  const struct fused_program *program;
} elements;

/* y[0] = x[first] op x[first + 1] op ...; the operation's start value when n is
 * 0. */
typedef void row_fn(const elements *x, int64_t first, int64_t n, void *y);
/* y[j] = the same over x[first + j], x[first + j + step] ...; n rows, j in
 * [0, width). */
typedef void columns_fn(const elements *x, int64_t first, int64_t n,
                        int64_t step, int64_t width, void *y);

typedef struct fold {
  row_fn *row;
  columns_fn *columns;
} fold;
#define FOLD(name)                                                             \
  { row_##name, columns_##name }

/* ---- reals --------------------------------------------------------------- */

typedef vec vec_op(vec a, vec b);
typedef real real_op(real a, real b);
#define INLINED static inline __attribute__((always_inline))

INLINED vec vec_add(vec a, vec b) { return a + b; }
INLINED real real_add(real a, real b) { return a + b; }
INLINED vec vec_mul(vec a, vec b) { return a * b; }
INLINED real real_mul(real a, real b) { return a * b; }

/* b where `take`, else a. */
INLINED vec vec_take(ivec take, vec a, vec b) {
  return (vec)(((ivec)a & ~take) | ((ivec)b & take));
}
/* The larger, the smaller; NaN when either is. */
INLINED vec vec_above(vec a, vec b) {
  return vec_take((ivec)(b > a) | (ivec)(b != b), a, b);
}
INLINED real real_above(real a, real b) { return b > a || b != b ? b : a; }
INLINED vec vec_below(vec a, vec b) {
  return vec_take((ivec)(b < a) | (ivec)(b != b), a, b);
}
INLINED real real_below(real a, real b) { return b < a || b != b ? b : a; }
/* The same where neither is NaN. */
INLINED vec vec_above_number(vec a, vec b) {
  return vec_take((ivec)(b > a), a, b);
}
INLINED vec vec_below_number(vec a, vec b) {
  return vec_take((ivec)(b < a), a, b);
}

enum {
  CHAINS = 4,
  BLOCK = 4096, /* elements joined before the rest */
  STRIP = BLOCK / 8
};

/* 0, 1, 2 ... */
INLINED ivec lane_numbers(void) {
  static const ireal number[] = { 0, 1, 2,  3,  4,  5,  6,  7,
                                  8, 9, 10, 11, 12, 13, 14, 15 };
  ivec v;
  memcpy(&v, number, sizeof v);
  return v;
}

/* The lanes of v joined: halves, and halves of these. */
INLINED real fold_lanes(vec v, vec_op vop) {
  for (int half = LANES / 2; half; half /= 2)
    v = vop(v, __builtin_shuffle(v, (lane_numbers() + half) & (LANES - 1)));
  return v[0];
}

/* The last n < LANES before `end`, behind at least LANES of them, as lanes. */
INLINED vec load_last(const real *end, int64_t n, real start) {
  ivec wanted = (ivec)(lane_numbers() >= (ireal)(LANES - n));
  return vec_take(wanted, vec_all(start), vec_load(end - LANES));
}

INLINED real fold_block(const real *x, int64_t n, real start, vec_op vop,
                        real_op op) {
  vec s[CHAINS];
  int64_t i = 0;
  if (n < LANES) {
    real y = start;
    for (; i < n; i++) y = op(y, x[i]);
    return y;
  }
  for (int k = 0; k < CHAINS; k++) s[k] = vec_all(start);
  for (; i + CHAINS * LANES <= n; i += CHAINS * LANES)
    for (int k = 0; k < CHAINS; k++)
      s[k] = vop(s[k], vec_load(x + i + k * LANES));
  for (; i + LANES <= n; i += LANES) s[0] = vop(s[0], vec_load(x + i));
  if (i < n) s[1] = vop(s[1], load_last(x + n, n - i, start));
  return fold_lanes(vop(vop(s[0], s[1]), vop(s[2], s[3])), vop);
}

/* Whether x may hold NaN: infinities count too.  Times 0 they are all NaN. */
INLINED bool may_be_nan(const real *x, int64_t n) {
  vec s[CHAINS] = { { 0 } };
  int64_t i = 0;
  for (; i + CHAINS * LANES <= n; i += CHAINS * LANES)
    for (int k = 0; k < CHAINS; k++)
      s[k] += vec_load(x + i + k * LANES) * vec_all(0);
  for (; i + LANES <= n; i += LANES) s[0] += vec_load(x + i) * vec_all(0);
  real sum = vec_sum((s[0] + s[1]) + (s[2] + s[3]));
  return sum != sum;
}

/* By `quick`, if there is one, where there is no NaN, and enough to look. */
INLINED real fold_either(const real *x, int64_t n, real start, vec_op quick,
                         vec_op vop, real_op op) {
  return quick && n >= BLOCK / 4 && !may_be_nan(x, n)
             ? fold_block(x, n, start, quick, op)
             : fold_block(x, n, start, vop, op);
}

static inline const void *element(const elements *x, int64_t i) {
  return x->data + i * (int64_t)mrt_dtypes[x->dtype].bytes;
}

/* x[first ...] as reals, in memory or in `room`. */
static inline const real *read_reals(const elements *x, int64_t first,
                                     int64_t n, real *room) {
  if (x->program)
    MRT_CPU(fused_fill)(x->program, first, n, room);
  else if (x->dtype == MRT_REAL)
    return element(x, first);
  else
    mrt_widen(x->dtype, element(x, first), room, n);
  return room;
}

INLINED real fold_row(const elements *x, int64_t first, int64_t n, real start,
                      vec_op quick, vec_op vop, real_op op) {
  real room[BLOCK], y = start;
  for (int64_t i = 0; i < n; i += BLOCK) {
    int64_t m = n - i < BLOCK ? n - i : BLOCK;
    const real *block = read_reals(x, first + i, m, room);
    y = op(y, fold_either(block, m, start, quick, vop, op));
  }
  return y;
}

/* y[j] = y[j] op the n rows at x + j, eight at a time as a tree. */
INLINED void join_columns(const real *x, int64_t n, int64_t step, int64_t width,
                          real *y, vec_op vop, real_op op) {
  int64_t k = 0;
  for (; k + 8 <= n; k += 8, x += 8 * step) {
    int64_t j = 0;
    for (; j + LANES <= width; j += LANES) {
      vec r[8];
      for (int i = 0; i < 8; i++) r[i] = vec_load(x + i * step + j);
      for (int half = 4; half; half /= 2)
        for (int i = 0; i < half; i++) r[i] = vop(r[i], r[i + half]);
      vec_store(y + j, vop(vec_load(y + j), r[0]));
    }
    for (; j < width; j++) {
      real r[8];
      for (int i = 0; i < 8; i++) r[i] = x[i * step + j];
      for (int half = 4; half; half /= 2)
        for (int i = 0; i < half; i++) r[i] = op(r[i], r[i + half]);
      y[j] = op(y[j], r[0]);
    }
  }
  for (; k < n; k++, x += step)
    for (int64_t j = 0; j < width; j++) y[j] = op(y[j], x[j]);
}

/* Rows that are not there as reals are read eight at a time, in strips; as many
 * as there is room for where they are narrow and lie side by side. */
INLINED void fold_columns(const elements *x, int64_t first, int64_t n,
                          int64_t step, int64_t width, real *y, real start,
                          vec_op vop, real_op op) {
  real room[8 * STRIP];
  for (int64_t j = 0; j < width; j++) y[j] = start;
  if (x->dtype == MRT_REAL && !x->program) {
    join_columns(element(x, first), n, step, width, y, vop, op);
    return;
  }
  bool together = width == step && width <= STRIP;
  int64_t most = together ? 8 * STRIP / width / 8 * 8 : 8;
  for (int64_t k = 0, m; k < n; k += m, first += m * step) {
    m = n - k < most ? n - k : most;
    if (together) {
      read_reals(x, first, m * width, room);
      join_columns(room, m, width, width, y, vop, op);
      continue;
    }
    for (int64_t j = 0, w; j < width; j += w) {
      w = width - j < STRIP ? width - j : STRIP;
      for (int64_t i = 0; i < m; i++)
        read_reals(x, first + i * step + j, w, room + i * STRIP);
      join_columns(room, m, STRIP, w, y + j, vop, op);
    }
  }
}

#define REAL_FOLD(name, START, QUICK, VOP, OP)                                 \
  static inline void row_##name(const elements *x, int64_t first, int64_t n,   \
                                void *y) {                                     \
    *(real *)y = fold_row(x, first, n, START, QUICK, VOP, OP);                 \
  }                                                                            \
  static inline void columns_##name(const elements *x, int64_t first,          \
                                    int64_t n, int64_t step, int64_t width,    \
                                    void *y) {                                 \
    fold_columns(x, first, n, step, width, y, START, VOP, OP);                 \
  }

REAL_FOLD(sum_real, 0, NULL, vec_add, real_add)
REAL_FOLD(prod_real, 1, NULL, vec_mul, real_mul)
REAL_FOLD(max_real, -MRT_INF, vec_above_number, vec_above, real_above)
REAL_FOLD(min_real, MRT_INF, vec_below_number, vec_below, real_below)

/* ---- reals but NaN --------------------------------------------------------- */

/* to[i] = x[i], or 0 for NaN. */
INLINED void skip_nan(const real *x, real *to, int64_t n) {
  for (int64_t i = 0; i < n; i++) to[i] = x[i] == x[i] ? x[i] : 0;
}

static inline void row_nansum_real(const elements *from, int64_t first,
                                   int64_t n, void *to) {
  const real *x = element(from, first);
  real y = 0;
  for (int64_t i = 0; i < n; i += BLOCK) {
    int64_t m = n - i < BLOCK ? n - i : BLOCK, k = 0;
    vec s[CHAINS] = { { 0 } };
    real rest = 0;
    for (; k + CHAINS * LANES <= m; k += CHAINS * LANES)
      for (int h = 0; h < CHAINS; h++) {
        vec v = vec_load(x + i + k + h * LANES);
        s[h] += (vec)((ivec)v & (ivec)(v == v));
      }
    for (; k < m; k++) rest += x[i + k] == x[i + k] ? x[i + k] : 0;
    y += vec_sum((s[0] + s[1]) + (s[2] + s[3])) + rest;
  }
  *(real *)to = y;
}

static inline void columns_nansum_real(const elements *from, int64_t first,
                                       int64_t n, int64_t step, int64_t width,
                                       void *to) {
  const real *x = element(from, first);
  real room[8 * STRIP], *y = to;
  for (int64_t j = 0; j < width; j++) y[j] = 0;
  for (int64_t k = 0, m; k < n; k += m, x += m * step) {
    m = n - k < 8 ? n - k : 8;
    for (int64_t j = 0, w; j < width; j += w) {
      w = width - j < STRIP ? width - j : STRIP;
      for (int64_t i = 0; i < m; i++)
        skip_nan(x + i * step + j, room + i * STRIP, w);
      join_columns(room, m, STRIP, w, y + j, vec_add, real_add);
    }
  }
}

/* ---- counts ---------------------------------------------------------------- */

/* Blocks are counted in integers of the elements' size. */
#define COUNT_FOLD(name, X, N, MOST)                                           \
  static inline void row_##name(const elements *from, int64_t first,           \
                                int64_t n, void *to) {                         \
    const X *x = element(from, first);                                         \
    int64_t y = 0;                                                             \
    for (int64_t i = 0; i < n; i += MOST) {                                    \
      int64_t m = n - i < MOST ? n - i : MOST;                                 \
      N count = 0;                                                             \
      for (int64_t k = 0; k < m; k++) count += (N)(x[i + k] != 0);             \
      y += count;                                                              \
    }                                                                          \
    *(int64_t *)to = y;                                                        \
  }                                                                            \
  static inline void columns_##name(const elements *from, int64_t first,       \
                                    int64_t n, int64_t step, int64_t width,    \
                                    void *to) {                                \
    const X *x = element(from, first);                                         \
    int64_t *y = to;                                                           \
    for (int64_t j = 0; j < width; j++) y[j] = 0;                              \
    for (int64_t k = 0; k < n; k++, x += step)                                 \
      for (int64_t j = 0; j < width; j++) y[j] += x[j] != 0;                   \
  }
COUNT_FOLD(count_real, real, ireal, 4096)
COUNT_FOLD(count_i64, int64_t, int64_t, 4096)
COUNT_FOLD(count_i32, int32_t, int32_t, 4096)
COUNT_FOLD(count_u8, uint8_t, uint8_t, 255)

/* ---- integers ------------------------------------------------------------ */

#define INT_FOLD(name, X, Y, START, OP)                                        \
  static inline void row_##name(const elements *from, int64_t first,           \
                                int64_t n, void *to) {                         \
    const X *x = element(from, first);                                         \
    Y y = START;                                                               \
    for (int64_t i = 0; i < n; i++) y = OP(y, (Y)x[i]);                        \
    *(Y *)to = y;                                                              \
  }                                                                            \
  static inline void columns_##name(const elements *from, int64_t first,       \
                                    int64_t n, int64_t step, int64_t width,    \
                                    void *to) {                                \
    const X *x = element(from, first);                                         \
    Y *y = to;                                                                 \
    for (int64_t j = 0; j < width; j++) y[j] = START;                          \
    for (int64_t k = 0; k < n; k++, x += step)                                 \
      for (int64_t j = 0; j < width; j++) y[j] = OP(y[j], (Y)x[j]);            \
  }
/* Sums and products wrap around. */
#define ADD(a, b)   (int64_t)((uint64_t)(a) + (uint64_t)(b))
#define MUL(a, b)   (int64_t)((uint64_t)(a) * (uint64_t)(b))
#define ABOVE(a, b) ((b) > (a) ? (b) : (a))
#define BELOW(a, b) ((b) < (a) ? (b) : (a))

INT_FOLD(sum_i64, int64_t, int64_t, 0, ADD)
INT_FOLD(sum_i32, int32_t, int64_t, 0, ADD)
INT_FOLD(sum_u8, uint8_t, int64_t, 0, ADD)
INT_FOLD(prod_i64, int64_t, int64_t, 1, MUL)
INT_FOLD(prod_i32, int32_t, int64_t, 1, MUL)
INT_FOLD(prod_u8, uint8_t, int64_t, 1, MUL)
INT_FOLD(max_i64, int64_t, int64_t, INT64_MIN, ABOVE)
INT_FOLD(max_i32, int32_t, int32_t, INT32_MIN, ABOVE)
INT_FOLD(max_u8, uint8_t, uint8_t, 0, ABOVE)
INT_FOLD(min_i64, int64_t, int64_t, INT64_MAX, BELOW)
INT_FOLD(min_i32, int32_t, int32_t, INT32_MAX, BELOW)
INT_FOLD(min_u8, uint8_t, uint8_t, UINT8_MAX, BELOW)
INT_FOLD(all_u8, uint8_t, uint8_t, 1, BELOW) /* true over nothing */

#endif
