/* quantize.c -- to 8 and 4 bits, back, and products with weights kept so
 *
 * The product dequantises a strip of w at a time (strips.h).
 *
 * SPDX-License-Identifier: MIT */
#include "op/quantize.h"
#include "base/narrow.h"
#include "strips.h"
#include "vmath.h"

/* What codes of 4 bits stand for. */
static const double nf4[16] = {
  -1,
  -0.6961928009986877,
  -0.5250730514526367,
  -0.39491748809814453,
  -0.28444138169288635,
  -0.18477343022823334,
  -0.09105003625154495,
  0,
  0.07958029955625534,
  0.16093020141124725,
  0.24611230194568634,
  0.33791524171829224,
  0.44070982933044434,
  0.5626170039176941,
  0.7229568362236023,
  1,
};
static const double fp4[16] = { 0,        0.0625 / 12,  8. / 12,  1,
                                4. / 12,  6. / 12,      2. / 12,  3. / 12,
                                0,        -0.0625 / 12, -8. / 12, -1,
                                -4. / 12, -6. / 12,     -2. / 12, -3. / 12 };
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
  const double *value = kind == MRT_QUANTIZE_NF4 ? nf4 : fp4;
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

/* What a code of 4 bits stands for, and the two in a byte. */
typedef struct values {
  real one[16], two[256][2];
} values;

static size_t values_bytes(const mrt_call *c) {
  const mrt_quantize_options *o = c->options;
  bool tabled = o->kind == MRT_QUANTIZE_NF4 || o->kind == MRT_QUANTIZE_FP4;
  return tabled ? sizeof(values) : 0;
}

static void fill_values(const mrt_call *c) {
  const mrt_quantize_options *o = c->options;
  values *v = c->scratch;
  if (!values_bytes(c)) return;
  for (int i = 0; i < 16; i++)
    v->one[i] = (real)(o->kind == MRT_QUANTIZE_NF4 ? nf4 : fp4)[i];
  for (int i = 0; i < 256; i++)
    v->two[i][0] = v->one[i & 15], v->two[i][1] = v->one[i >> 4];
}

/* A quantised matrix. */
typedef struct coded_matrix {
  const mrt_quantize_options *o;
  const values *values;
  const uint8_t *codes;
  const void *scales;
  bool short_scales;     /* f16 */
  int64_t bytes, blocks; /* of a row */
} coded_matrix;

static coded_matrix matrix_of(const mrt_call *c, int input) {
  return (coded_matrix){ .o = c->options,
                         .values = c->scratch,
                         .codes = c->in[input].data,
                         .scales = c->in[input + 1].data,
                         .short_scales = c->in[input + 1].type.dtype == MRT_f16,
                         .bytes = mrt_cols(&c->in[input]),
                         .blocks = mrt_cols(&c->in[input + 1]) };
}

/* Where a register holds the table, or half of it, codes are looked up a vector
 * at a time. */
#if !defined(__clang__) && !defined(MRT_F64) && MRT_VECTOR_BYTES >= 32
static inline vec look_up(vec lower, vec upper, const uint8_t *codes) {
  int32_t word[LANES / 8];
  memcpy(word, codes, sizeof word);
#if MRT_VECTOR_BYTES == 64
  const ivec shift = {
    0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28
  };
  const ivec first = { -1, -1, -1, -1, -1, -1, -1, -1 };
  ivec all = (first & word[0]) | (~first & word[1]);
  return __builtin_shuffle(lower, all >> shift); /* the last 4 bits count */
#else
  const ivec shift = { 0, 4, 8, 12, 16, 20, 24, 28 };
  return __builtin_shuffle(lower, upper, ((ivec){ 0 } + word[0]) >> shift);
#endif
}

/* Take whole vectors of n codes; how many numbers that was is returned. */
static int64_t take_vectors(const real *value, const uint8_t *codes, real scale,
                            real *w, int64_t n) {
  vec lower = vec_load(value), upper = vec_load(value + 16 - LANES);
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES)
    vec_store(w + i, look_up(lower, upper, codes + i / 2) * scale);
  return i;
}
#else
static int64_t take_vectors(const real *value, const uint8_t *codes, real scale,
                            real *w, int64_t n) {
  return 0;
}
#endif

static void take_halves(const values *v, const uint8_t *codes, real scale,
                        real *w, int64_t n) {
  int64_t i = take_vectors(v->one, codes, scale, w, n);
  for (; i + 1 < n; i += 2) {
    const real *two = v->two[codes[i / 2]];
    w[i] = two[0] * scale, w[i + 1] = two[1] * scale;
  }
  if (i < n) w[i] = v->one[codes[i / 2] & 15] * scale;
}

static void take_bytes(const uint8_t *codes, real scale, real *w, int64_t n) {
  real step = scale / 127;
  for (int64_t i = 0; i < n; i++) w[i] = (real)((int)codes[i] - 128) * step;
}

/* Numbers [from, to) of a block of q4_0. */
static void take_q4_0(const uint8_t *codes, real scale, real *w, int64_t from,
                      int64_t to) {
  int64_t half = MRT_QUANTIZE_BLOCK / 2, i = from;
  for (; i < least(to, half); i++)
    w[i - from] = (real)((codes[i] & 15) - 8) * scale;
  for (; i < to; i++) w[i - from] = (real)((codes[i - half] >> 4) - 8) * scale;
}
static void take_q8_0(const uint8_t *codes, real scale, real *w, int64_t n) {
  for (int64_t i = 0; i < n; i++) w[i] = (real)(int8_t)codes[i] * scale;
}

static real scale_at(const coded_matrix *m, int64_t row, int64_t block) {
  int64_t i = row * m->blocks + block;
  if (m->short_scales) return f16_to_float(((const uint16_t *)m->scales)[i]);
  return ((const real *)m->scales)[i];
}

/* Numbers [from, to) of a row; for nf4 and fp4 `from` is even. */
static void take(const void *matrix, int64_t row, int64_t from, int64_t to,
                 real *w) {
  const coded_matrix *m = matrix;
  const uint8_t *codes = m->codes + row * m->bytes;
  int64_t block = m->o->block;
  for (int64_t i = from, end; i < to; w += end - i, i = end) {
    int64_t b = i / block, first = b * block;
    end = least(first + block, to);
    real scale = scale_at(m, row, b);
    if (m->o->kind == MRT_QUANTIZE_INT8)
      take_bytes(codes + i, scale, w, end - i);
    else if (m->o->kind == MRT_QUANTIZE_Q8_0)
      take_q8_0(codes + i, scale, w, end - i);
    else if (m->o->kind == MRT_QUANTIZE_Q4_0)
      take_q4_0(codes + first / 2, scale, w, i - first, end - first);
    else
      take_halves(m->values, codes + i / 2, scale, w, end - i);
  }
}

static void take_rows(const mrt_call *c, const void *matrix, int part,
                      int parts) {
  int64_t n = mrt_cols(&c->out[0]), r, end;
  real *w = c->out[0].data;
  mrt_share(mrt_rows(&c->out[0]), part, parts, &r, &end);
  for (; r < end; r++) take(matrix, r, 0, n, w + r * n);
}

static void dequantize(const mrt_call *c) {
  coded_matrix m = matrix_of(c, 0);
  double count = (double)mrt_type_count(&c->out[0].type);
  fill_values(c);
  mrt_parallel(c, mrt_team(c, 0.5 * count), take_rows, &m);
}

/* ---- quantized_linear ---------------------------------------------------- */

static size_t round_up(size_t n) { return (n + 63) / 64 * 64; }

static mrt_strips strips_of(const mrt_call *c, const coded_matrix *w) {
  return (mrt_strips){ .take = take,
                       .matrix = w,
                       .compute = w->o->compute,
                       .transposed = w->o->transposed,
                       .bias = c->nin == 4 ? 3 : 0,
                       .shared = round_up(values_bytes(c)) };
}

static void quantized_linear(const mrt_call *c) {
  coded_matrix w = matrix_of(c, 1);
  mrt_strips strips = strips_of(c, &w);
  fill_values(c);
  mrt_strips_run(c, &strips);
}

static size_t linear_scratch(const mrt_call *c) {
  coded_matrix w = matrix_of(c, 1);
  mrt_strips strips = strips_of(c, &w);
  return mrt_strips_bytes(c, &strips);
}

MRT_KERNEL(quantize, .run = quantize);
MRT_KERNEL(dequantize, .run = dequantize, .scratch = values_bytes);
MRT_KERNEL(quantized_linear, .run = quantized_linear,
           .scratch = linear_scratch);
