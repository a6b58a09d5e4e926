/* codes.c -- numbers of matrices kept in 8 and 4 bits
 *
 * SPDX-License-Identifier: MIT */
#include "codes.h"
#include "base/narrow.h"

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

const double *mrt_code_values(int kind) {
  return kind == MRT_QUANTIZE_NF4 ? nf4 : fp4;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

size_t mrt_codes_bytes(const mrt_call *c) {
  const mrt_quantize_options *o = c->options;
  bool tabled = o->kind == MRT_QUANTIZE_NF4 || o->kind == MRT_QUANTIZE_FP4;
  return tabled ? sizeof(mrt_code_table) : 0;
}

void mrt_codes_prepare(const mrt_call *c) {
  const mrt_quantize_options *o = c->options;
  mrt_code_table *v = c->scratch;
  if (!mrt_codes_bytes(c)) return;
  for (int i = 0; i < 16; i++) v->one[i] = (real)mrt_code_values(o->kind)[i];
  for (int i = 0; i < 16; i++)
    for (size_t p = 0; p < sizeof(real); p++)
      v->bytes[p][i] = ((const uint8_t *)&v->one[i])[p];
  for (int i = 0; i < 256; i++)
    v->two[i][0] = v->one[i & 15], v->two[i][1] = v->one[i >> 4];
}

mrt_codes mrt_codes_of(const mrt_call *c, int input) {
  return (mrt_codes){ .o = c->options,
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

static void take_halves(const mrt_code_table *v, const uint8_t *codes,
                        real scale, real *w, int64_t n) {
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

static real scale_at(const mrt_codes *m, int64_t row, int64_t block) {
  int64_t i = row * m->blocks + block;
  if (m->short_scales) return f16_to_float(((const uint16_t *)m->scales)[i]);
  return ((const real *)m->scales)[i];
}

/* Numbers [from, to) of a row; for nf4 and fp4 `from` is even. */
void mrt_codes_take(const void *matrix, int64_t row, int64_t from, int64_t to,
                    real *w) {
  const mrt_codes *m = matrix;
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
