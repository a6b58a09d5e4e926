/* quantize.c -- to 8 and 4 bits, back, and products with weights kept so
 *
 * Products make a strip of w at a time (strips.h), or for few rows of x panels
 * of turned columns (codes.h); those of rows in int8 are codes_int8.c.
 *
 * SPDX-License-Identifier: MIT */
#include "base/narrow.h"
#include "codes.h"
#include "strips.h"
#include "vmath.h"

/* Codes by rising value; -0 is not used. */
static const uint8_t nf4_order[16] = { 0, 1, 2,  3,  4,  5,  6,  7,
                                       8, 9, 10, 11, 12, 13, 14, 15 };
static const uint8_t fp4_order[16] = { 11, 10, 13, 12, 15, 14, 9, 0,
                                       0,  1,  6,  7,  4,  5,  2, 3 };

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- quantize ------------------------------------------------------------ */

/* How numbers of -1..1 become codes. */
typedef struct nearest {
  real middle[15]; /* between neighbours, rising */
  const uint8_t *order;
} nearest;

static nearest nearest_of(int kind) {
  const double *value = mrt_code_values(kind);
  nearest t = { .order = kind == MRT_QUANTIZE_NF4 ? nf4_order : fp4_order };
  for (int i = 0; i < 15; i++)
    t.middle[i] = (real)((value[t.order[i]] + value[t.order[i + 1]]) / 2);
  return t;
}

/* The largest |x|, 0 of none; NaN if any is not finite. */
static real largest(const real *x, int64_t n) {
  real most = 0, none = 0;
  for (int64_t i = 0; i < n; i++) {
    real a = m_abs(x[i]);
    most = a > most ? a : most;
    none += a - a; /* NaN for infinity */
  }
  return most + none;
}

static uint8_t code_of(const nearest *t, real x) {
  int rank = 0;
  for (int i = 0; i < 15; i++) rank += x > t->middle[i];
  return t->order[rank];
}

/* n codes of 4 bits; `to` starts with a byte of its own. */
static void put_halves(const nearest *t, const real *x, int64_t n, real by,
                       uint8_t *to) {
  for (int64_t i = 0; i < n; i += 2) {
    int second = i + 1 < n ? code_of(t, x[i + 1] / by) : 0;
    to[i / 2] = (uint8_t)(code_of(t, x[i] / by) | second << 4);
  }
}

static void put_bytes(const real *x, int64_t n, real by, uint8_t *to) {
  for (int64_t i = 0; i < n; i++) {
    real code = m_round(x[i] / by * 127) + 128;
    to[i] = (uint8_t)(code == code ? code : 128);
  }
}

/* x over the scale, where that is 1 / `by`, and `more`: rounded as ggml does,
 * which multiplies and adds at once. */
static inline float over(real x, real by, double more) {
  return (float)((double)x * (double)by + more);
}

/* n <= 32 numbers: byte j has codes j and j + 16.  NaN becomes 8, as 0 does. */
static void put_q4_0(const real *x, int64_t n, real by, uint8_t *to) {
  uint8_t code[MRT_QUANTIZE_BLOCK] = { 0 };
  enum { HALF = MRT_QUANTIZE_BLOCK / 2 };
  for (int64_t i = 0; i < n; i++) {
    float y = over(x[i], by, 8.5);
    code[i] = (uint8_t)(y >= 0 ? y < 15 ? y : 15 : y == y ? 0 : 8);
  }
  for (int i = 0; i < HALF; i++)
    to[i] = (uint8_t)(code[i] | code[i + HALF] << 4);
}
static void put_q8_0(const real *x, int64_t n, real by, uint8_t *to) {
  for (int64_t i = 0; i < n; i++) {
    float y = roundf((float)(x[i] * by));
    y = y > 127 ? 127 : y < -127 ? -127 : y;
    to[i] = (uint8_t)(int8_t)(y == y ? y : 0);
  }
}

/* The number of the largest |x|, the first of them. */
static real furthest(const real *x, int64_t n) {
  real most = 0;
  for (int64_t i = 0; i < n; i++)
    most = m_abs(x[i]) > m_abs(most) ? x[i] : most;
  return most;
}

/* A block whose scale is f16.  Returned: that. */
static real put_gguf(int kind, const real *x, int64_t n, uint8_t *to) {
  bool halves = kind == MRT_QUANTIZE_Q4_0;
  real most = largest(x, n);
  real scale = halves ? furthest(x, n) / -8 : most / 127;
  real by = scale != 0 ? 1 / scale : 0;
  if (most != most) by = scale = most;
  (halves ? put_q4_0 : put_q8_0)(x, n, by, to);
  return scale;
}

/* The block at number `at` of row r.  Returned: its scale. */
static real put_block(const mrt_call *c, const nearest *t, int64_t r,
                      int64_t at) {
  const mrt_quantize_options *o = c->options;
  int64_t n = mrt_cols(&c->in[0]), count = least(o->block, n - at);
  const real *x = (const real *)c->in[0].data + r * n + at;
  uint8_t *to = (uint8_t *)c->out[0].data + r * mrt_cols(&c->out[0]) +
                at / mrt_quantize_pack(o->kind);
  if (mrt_quantize_is_gguf(o->kind)) return put_gguf(o->kind, x, count, to);
  real most = largest(x, count), by = most > 0 ? most : 1;
  if (o->kind == MRT_QUANTIZE_INT8)
    put_bytes(x, count, by, to);
  else
    put_halves(t, x, count, by, to);
  return most;
}

static void quantize_rows(const mrt_call *c, const void *table, int part,
                          int parts) {
  const mrt_quantize_options *o = c->options;
  const mrt_operand *scales = &c->out[1];
  int64_t blocks = mrt_cols(scales), r, end;
  mrt_share(mrt_rows(&c->in[0]), part, parts, &r, &end);
  for (; r < end; r++)
    for (int64_t b = 0; b < blocks; b++) {
      real scale = put_block(c, table, r, b * o->block);
      if (scales->type.dtype == MRT_f16)
        *(uint16_t *)mrt_element(scales, r * blocks + b) =
            float_to_f16((float)scale);
      else if (mrt_quantize_is_gguf(o->kind))
        *(real *)mrt_element(scales, r * blocks + b) =
            f16_to_float(float_to_f16((float)scale));
      else
        *(real *)mrt_element(scales, r * blocks + b) = scale;
    }
}

static void quantize(const mrt_call *c) {
  const mrt_quantize_options *o = c->options;
  nearest t = nearest_of(o->kind);
  double count = (double)mrt_type_count(&c->in[0].type);
  mrt_parallel(c, mrt_team(c, 4 * count), quantize_rows, &t);
}

/* ---- dequantize ---------------------------------------------------------- */

static void take_rows(const mrt_call *c, const void *matrix, int part,
                      int parts) {
  int64_t n = mrt_cols(&c->out[0]), r, end;
  real *w = c->out[0].data;
  mrt_share(mrt_rows(&c->out[0]), part, parts, &r, &end);
  for (; r < end; r++) mrt_codes_take(matrix, r, 0, n, w + r * n);
}

static void dequantize(const mrt_call *c) {
  mrt_codes m = mrt_codes_of(c, 0);
  double count = (double)mrt_type_count(&c->out[0].type);
  mrt_codes_prepare(c);
  mrt_parallel(c, mrt_team(c, 0.5 * count), take_rows, &m);
}

/* ---- quantized_linear ---------------------------------------------------- */

static size_t round_up(size_t n) { return (n + 63) / 64 * 64; }

static mrt_strips strips_of(const mrt_call *c, const mrt_codes *w) {
  return (mrt_strips){ .take = mrt_codes_take,
                       .fill = mrt_codes_fill,
                       .add = mrt_codes_add,
                       .matrix = w,
                       .compute = w->o->compute,
                       .transposed = w->o->transposed,
                       .bias = c->nin == 4 ? 3 : 0,
                       .shared = round_up(mrt_codes_bytes(c)) };
}

#ifndef MRT_F64
static bool in_int8(const mrt_call *c) {
  const mrt_quantize_options *o = c->options;
  return o->activations == MRT_ACTIVATIONS_INT8;
}
#endif

static void quantized_linear(const mrt_call *c) {
#ifndef MRT_F64
  if (in_int8(c)) {
    mrt_codes_int8(c);
    return;
  }
#endif
  mrt_codes w = mrt_codes_of(c, 1);
  mrt_strips strips = strips_of(c, &w);
  mrt_codes_prepare(c);
  mrt_strips_run(c, &strips);
}

static size_t linear_scratch(const mrt_call *c) {
#ifndef MRT_F64
  if (in_int8(c)) return mrt_codes_int8_bytes(c);
#endif
  mrt_codes w = mrt_codes_of(c, 1);
  mrt_strips strips = strips_of(c, &w);
  return mrt_strips_bytes(c, &strips);
}

MRT_KERNEL(quantize, .run = quantize);
MRT_KERNEL(dequantize, .run = dequantize, .scratch = mrt_codes_bytes);
MRT_KERNEL(quantized_linear, .run = quantized_linear,
           .scratch = linear_scratch);
