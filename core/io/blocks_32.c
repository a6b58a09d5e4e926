/* blocks_32.c -- blocks of 32 numbers: one scale, or a scale and a minimum
 *
 *   Q4_0 Q5_0  d, [fifth bits,] 16 bytes: value j and value j + 16; d * (q - 8)
 *   Q4_1 Q5_1  d, m, the same; d * q + m
 *   Q8_0       d, 32 signed bytes; d * q
 *   IQ4_NL     as Q4_0, of 16 values that are not evenly spaced
 *   MXFP4      an exponent in a byte, 16 bytes of floats of 4 bits
 *
 * SPDX-License-Identifier: MIT */
#include "base/narrow.h"
#include "io/blocks.h"

#include <math.h>

enum { N = 32, HALF = 16 };

static float load_f16(const uint8_t *p) {
  return f16_to_float((uint16_t)mrt_little(p, 2));
}
static void store_f16(float x, uint8_t *p) {
  uint16_t h = float_to_f16(x);
  p[0] = (uint8_t)h, p[1] = (uint8_t)(h >> 8);
}

/* ---- reading ------------------------------------------------------------- */

void mrt_block_read_q4_0(const uint8_t *from, float *to) {
  float d = load_f16(from);
  for (int j = 0; j < HALF; j++) {
    to[j] = d * (float)((from[2 + j] & 15) - 8);
    to[j + HALF] = d * (float)((from[2 + j] >> 4) - 8);
  }
}

void mrt_block_read_q4_1(const uint8_t *from, float *to) {
  float d = load_f16(from), m = load_f16(from + 2);
  for (int j = 0; j < HALF; j++) {
    to[j] = d * (float)(from[4 + j] & 15) + m;
    to[j + HALF] = d * (float)(from[4 + j] >> 4) + m;
  }
}

/* Fifth bits: of value j in bit j. */
static void five_bits(const uint8_t *high, const uint8_t *low, int q[N]) {
  uint32_t h = (uint32_t)mrt_little(high, 4);
  for (int j = 0; j < HALF; j++) {
    q[j] = (low[j] & 15) | (int)(h >> j & 1) << 4;
    q[j + HALF] = low[j] >> 4 | (int)(h >> (j + HALF) & 1) << 4;
  }
}

void mrt_block_read_q5_0(const uint8_t *from, float *to) {
  int q[N];
  float d = load_f16(from);
  five_bits(from + 2, from + 6, q);
  for (int j = 0; j < N; j++) to[j] = d * (float)(q[j] - 16);
}

void mrt_block_read_q5_1(const uint8_t *from, float *to) {
  int q[N];
  float d = load_f16(from), m = load_f16(from + 2);
  five_bits(from + 4, from + 8, q);
  for (int j = 0; j < N; j++) to[j] = d * (float)q[j] + m;
}

void mrt_block_read_q8_0(const uint8_t *from, float *to) {
  float d = load_f16(from);
  for (int j = 0; j < N; j++) to[j] = (float)(int8_t)from[2 + j] * d;
}

const int8_t mrt_iq4_values[16] = { -127, -104, -83, -65, -49, -35, -22, -10,
                                    1,    13,   25,  38,  53,  69,  89,  113 };

void mrt_block_read_iq4_nl(const uint8_t *from, float *to) {
  float d = load_f16(from);
  for (int j = 0; j < HALF; j++) {
    to[j] = d * mrt_iq4_values[from[2 + j] & 15];
    to[j + HALF] = d * mrt_iq4_values[from[2 + j] >> 4];
  }
}

/* Values are twice those of the format, the scale is half: 2^(e - 128). */
void mrt_block_read_mxfp4(const uint8_t *from, float *to) {
  static const int8_t values[16] = { 0, 1,  2,  3,  4,  6,  8,  12,
                                     0, -1, -2, -3, -4, -6, -8, -12 };
  uint32_t e = from[0];
  float d = bits_float(e < 2 ? UINT32_C(0x00200000) << e : (e - 1) << 23);
  for (int j = 0; j < HALF; j++) {
    to[j] = d * values[from[1 + j] & 15];
    to[j + HALF] = d * values[from[1 + j] >> 4];
  }
}

/* ---- writing ------------------------------------------------------------- */

/* 1 / d; 0 where there is none, as of a block of zeros. */
static float inverse(float d) {
  float id = 1 / d;
  return isfinite(id) ? id : 0;
}

/* The number that is farthest from 0, the first of several. */
static float farthest(const float *x) {
  float most = x[0];
  for (int j = 1; j < N; j++)
    if (fabsf(x[j]) > fabsf(most)) most = x[j];
  return most;
}

static void range(const float *x, float *least, float *most) {
  *least = *most = x[0];
  for (int j = 1; j < N; j++) {
    if (x[j] < *least) *least = x[j];
    if (x[j] > *most) *most = x[j];
  }
}

/* x is not negative but for rounding: cut to a whole number of [0, most]. */
static uint8_t cut(float x, int most) {
  int q = (int)x;
  return (uint8_t)(q < 0 ? 0 : q > most ? most : q);
}

/* Low halves of the bytes first. */
static void put_halves(const uint8_t q[N], uint8_t *to) {
  for (int j = 0; j < HALF; j++)
    to[j] = (uint8_t)((q[j] & 15) | (q[j + HALF] & 15) << 4);
}

static void put_fifths(const uint8_t q[N], uint8_t *to) {
  uint32_t high = 0;
  for (int j = 0; j < N; j++) high |= (uint32_t)(q[j] >> 4) << j;
  for (int b = 0; b < 4; b++) to[b] = (uint8_t)(high >> 8 * b);
}

/* Both sides of 0: d * (q - half). */
static void symmetric(const float *x, int half, uint8_t q[N], uint8_t *scale) {
  float d = farthest(x) / (float)-half, id = inverse(d);
  for (int j = 0; j < N; j++)
    q[j] = cut(x[j] * id + ((float)half + 0.5f), 2 * half - 1);
  store_f16(d, scale);
}

/* From the least to the largest: d * q + m. */
static void affine(const float *x, int most, uint8_t q[N], uint8_t *scale) {
  float m, top;
  range(x, &m, &top);
  float d = (top - m) / (float)most, id = inverse(d);
  for (int j = 0; j < N; j++) q[j] = cut((x[j] - m) * id + 0.5f, most);
  store_f16(d, scale);
  store_f16(m, scale + 2);
}

void mrt_block_write_q4_0(const float *from, uint8_t *to) {
  uint8_t q[N];
  symmetric(from, 8, q, to);
  put_halves(q, to + 2);
}

void mrt_block_write_q4_1(const float *from, uint8_t *to) {
  uint8_t q[N];
  affine(from, 15, q, to);
  put_halves(q, to + 4);
}

void mrt_block_write_q5_0(const float *from, uint8_t *to) {
  uint8_t q[N];
  symmetric(from, 16, q, to);
  put_fifths(q, to + 2);
  put_halves(q, to + 6);
}

void mrt_block_write_q5_1(const float *from, uint8_t *to) {
  uint8_t q[N];
  affine(from, 31, q, to);
  put_fifths(q, to + 4);
  put_halves(q, to + 8);
}

/* Halves are rounded away from 0. */
void mrt_block_write_q8_0(const float *from, uint8_t *to) {
  float d = fabsf(farthest(from)) / 127, id = inverse(d);
  store_f16(d, to);
  for (int j = 0; j < N; j++) {
    float x = from[j] * id, whole = floorf(fabsf(x));
    int q = (int)(whole + floorf(2 * (fabsf(x) - whole)));
    to[2 + j] = (uint8_t)(x < 0 ? -q : q);
  }
}
