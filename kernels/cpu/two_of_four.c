/* two_of_four.c -- matrices of which two of each four numbers are not 0
 *
 * A byte of codes says where four values are, those of eight numbers.
 *
 * SPDX-License-Identifier: MIT */
#include "op/two_of_four.h"
#include "strips.h"
#include "vmath.h"

enum { PIECE = 512 }; /* numbers of a row at a time: a multiple of 8 */

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Where value i of a row is in its four. */
static int place(const uint8_t *codes, int64_t i) {
  return codes[i / 4] >> (i % 4 * 2) & 3;
}

/* ---- packing ------------------------------------------------------------- */

/* The index of the largest |x| of four, but for `not`. */
static int largest(const real *x, int not ) {
  int best = not == 0;
  for (int i = best + 1; i < 4; i++)
    if (i != not &&m_abs(x[i]) > m_abs(x[best])) best = i;
  return best;
}

/* `n` numbers of a row into n / 2 values and their codes. */
static void pack(const real *x, int64_t n, real *values, uint8_t *codes) {
  memset(codes, 0, (size_t)(n + 7) / 8);
  for (int64_t i = 0; i < n; i += 4) {
    int one = largest(x + i, -1), other = largest(x + i, one);
    int first = one < other ? one : other, last = one < other ? other : one;
    values[i / 2] = x[i + first], values[i / 2 + 1] = x[i + last];
    codes[i / 8] |= (uint8_t)((first | last << 2) << (i % 8));
  }
}

static void pack_rows(const mrt_call *c, const void *shared, int part,
                      int parts) {
  const mrt_operand *w = &c->in[0], *v = &c->out[0];
  int64_t n = mrt_cols(w), r, end, bytes = mrt_cols(&c->out[1]);
  mrt_share(mrt_rows(w), part, parts, &r, &end);
  for (; r < end; r++)
    for (int64_t i = 0; i < n; i += PIECE) {
      real room[PIECE], values[PIECE / 2];
      int64_t count = least(PIECE, n - i), at = (r * n + i) / 2;
      const real *x = mrt_reals_in(w, r * n + i, count, room);
      real *to = mrt_reals_place(v, at, values);
      pack(x, count, to, (uint8_t *)c->out[1].data + r * bytes + i / 8);
      mrt_reals_out(v, at, count / 2, to);
    }
}

/* ---- and back ------------------------------------------------------------ */

/* Packed rows. */
typedef struct packed_matrix {
  mrt_operand values;
  const uint8_t *codes;
  int64_t half, bytes; /* values and codes of a row */
} packed_matrix;

static packed_matrix matrix_of(const mrt_call *c, int input) {
  return (packed_matrix){ .values = c->in[input],
                          .codes = c->in[input + 1].data,
                          .half = mrt_cols(&c->in[input]),
                          .bytes = mrt_cols(&c->in[input + 1]) };
}

/* Two values into their four, which are 0. */
static inline void put_two(real *w, int code, real one, real other) {
  int i = code & 3, k = code >> 2 & 3;
  w[i] = one, w[k] = other + (i == k ? one : 0);
}

/* n values, from one that begins a byte of codes on, into 2 n numbers. */
static void spread(const uint8_t *codes, const real *values, int64_t n,
                   real *w) {
  memset(w, 0, (size_t)(2 * n) * sizeof *w);
  for (int64_t i = 0; i + 1 < n; i += 2)
    put_two(w + 2 * i, codes[i / 4] >> (i % 4 * 2), values[i], values[i + 1]);
}

/* Numbers [from, to) of a row: pieces begin at multiples of 8, so that `room`
 * takes what lies outside. */
static void take(const void *matrix, int64_t row, int64_t from, int64_t to,
                 real *w) {
  const packed_matrix *m = matrix;
  const uint8_t *codes = m->codes + row * m->bytes;
  for (int64_t i = from / 8 * 8; i < to; i += PIECE) {
    real values[PIECE / 2], room[PIECE];
    int64_t n = least(PIECE, (to + 3) / 4 * 4 - i), end = least(i + n, to);
    const real *v =
        mrt_reals_in(&m->values, row * m->half + i / 2, n / 2, values);
    int64_t first = i < from ? from : i;
    bool whole = first == i && end == i + n;
    real *at = whole ? w + (i - from) : room;
    spread(codes + i / 8, v, n / 2, at);
    if (!whole)
      memcpy(w + (first - from), room + (first - i),
             (size_t)(end - first) * sizeof *w);
  }
}

static void dense_rows(const mrt_call *c, const void *matrix, int part,
                       int parts) {
  const mrt_operand *w = &c->out[0];
  int64_t n = mrt_cols(w), r, end;
  mrt_share(mrt_rows(w), part, parts, &r, &end);
  for (; r < end; r++)
    for (int64_t i = 0; i < n; i += PIECE) {
      real room[PIECE];
      int64_t count = least(PIECE, n - i);
      real *to = mrt_reals_place(w, r * n + i, room);
      take(matrix, r, i, i + count, to);
      mrt_reals_out(w, r * n + i, count, to);
    }
}

static void pick_rows(const mrt_call *c, const void *shared, int part,
                      int parts) {
  const mrt_operand *w = &c->in[0], *v = &c->out[0];
  int64_t half = mrt_cols(v), r, end, bytes = mrt_cols(&c->in[1]);
  mrt_share(mrt_rows(v), part, parts, &r, &end);
  for (; r < end; r++)
    for (int64_t i = 0; i < half; i += PIECE / 2) {
      real room[PIECE], values[PIECE / 2];
      const uint8_t *codes = (uint8_t *)c->in[1].data + r * bytes;
      int64_t count = least(PIECE / 2, half - i), at = r * half + i;
      const real *x = mrt_reals_in(w, 2 * at, 2 * count, room);
      real *to = mrt_reals_place(v, at, values);
      for (int64_t k = 0; k < count; k++)
        to[k] = x[k / 2 * 4 + place(codes, i + k)];
      mrt_reals_out(v, at, count, to);
    }
}

/* ---- kernels ------------------------------------------------------------- */

static int team_of(const mrt_call *c, const mrt_operand *w) {
  return mrt_team(c, 2 * (double)mrt_type_count(&w->type));
}
static void two_of_four(const mrt_call *c) {
  mrt_parallel(c, team_of(c, &c->in[0]), pack_rows, NULL);
}
static void two_of_four_dense(const mrt_call *c) {
  packed_matrix m = matrix_of(c, 0);
  mrt_parallel(c, team_of(c, &c->out[0]), dense_rows, &m);
}
static void two_of_four_pick(const mrt_call *c) {
  mrt_parallel(c, team_of(c, &c->in[0]), pick_rows, NULL);
}

static mrt_strips strips_of(const mrt_call *c, const packed_matrix *m) {
  const mrt_two_of_four_options *o = c->options;
  return (mrt_strips){ .take = take,
                       .matrix = m,
                       .compute = o->compute,
                       .transposed = o->transposed,
                       .bias = c->nin == 4 ? 3 : 0 };
}
static void two_of_four_linear(const mrt_call *c) {
  packed_matrix m = matrix_of(c, 1);
  mrt_strips strips = strips_of(c, &m);
  mrt_strips_run(c, &strips);
}
static size_t linear_scratch(const mrt_call *c) {
  packed_matrix m = matrix_of(c, 1);
  mrt_strips strips = strips_of(c, &m);
  return mrt_strips_bytes(c, &strips);
}

MRT_KERNEL(two_of_four, .run = two_of_four);
MRT_KERNEL(two_of_four_dense, .run = two_of_four_dense);
MRT_KERNEL(two_of_four_pick, .run = two_of_four_pick);
MRT_KERNEL(two_of_four_linear, .run = two_of_four_linear,
           .scratch = linear_scratch);
