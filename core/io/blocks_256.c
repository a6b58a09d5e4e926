/* blocks_256.c -- blocks of 256 numbers are read: scales in parts of the block
 *
 *   Q2_K    16 parts: scale and minimum of 4 bits each; d * s * q - dmin * m
 *   Q3_K    16 parts: scale of 6 bits, signed; d * s * q
 *   Q4_K    8 parts: scale and minimum of 6 bits; d * s * q - dmin * m
 *   Q5_K    the same, fifth bits apart
 *   Q6_K    16 parts: scale of 8 bits, signed; d * s * q
 *   IQ4_XS  8 parts: scale of 6 bits, signed; values of IQ4_NL
 *
 * SPDX-License-Identifier: MIT */
#include "base/narrow.h"
#include "io/blocks.h"

enum { N = 256 };

static float load_f16(const uint8_t *p) {
  return f16_to_float((uint16_t)mrt_little(p, 2));
}

/* Each 128 numbers are four runs of 32 in the same bytes, two bits each. */
void mrt_block_read_q2_k(const uint8_t *from, float *to) {
  const uint8_t *scales = from, *q = from + 16;
  float d = load_f16(from + 80), dmin = load_f16(from + 82);
  for (int i = 0; i < N; i++) {
    uint8_t s = scales[i / 16];
    int level = q[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
    to[i] = d * (float)(s & 15) * (float)level - dmin * (float)(s >> 4);
  }
}

/* A third bit of 0 takes 4 away. */
void mrt_block_read_q3_k(const uint8_t *from, float *to) {
  const uint8_t *high = from, *q = from + 32, *s = from + 96;
  float d = load_f16(from + 108);
  for (int i = 0; i < N; i++) {
    int part = i / 16;
    int low = part < 8 ? s[part] & 15 : s[part - 8] >> 4;
    int scale = (low | (s[8 + part % 4] >> (part / 4 * 2) & 3) << 4) - 32;
    int level = q[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
    if (!(high[i % 32] >> (i / 32) & 1)) level -= 4;
    to[i] = d * (float)scale * (float)level;
  }
}

void mrt_block_read_q4_k(const uint8_t *from, float *to) {
  const uint8_t *q = from + 16;
  float d = load_f16(from), dmin = load_f16(from + 2);
  for (int part = 0; part < 8; part++, to += 32) {
    uint8_t s, m;
    mrt_six_bits(from + 4, part, &s, &m);
    float scale = d * (float)s, least = dmin * (float)m;
    for (int j = 0; j < 32; j++) {
      int level = q[part / 2 * 32 + j] >> (part % 2 * 4) & 15;
      to[j] = scale * (float)level - least;
    }
  }
}

void mrt_block_read_q5_k(const uint8_t *from, float *to) {
  const uint8_t *high = from + 16, *q = from + 48;
  float d = load_f16(from), dmin = load_f16(from + 2);
  for (int part = 0; part < 8; part++, to += 32) {
    uint8_t s, m;
    mrt_six_bits(from + 4, part, &s, &m);
    float scale = d * (float)s, least = dmin * (float)m;
    for (int j = 0; j < 32; j++) {
      int level = q[part / 2 * 32 + j] >> (part % 2 * 4) & 15;
      level |= (high[j] >> part & 1) << 4;
      to[j] = scale * (float)level - least;
    }
  }
}

/* Of each 128 numbers: four runs of 32, low bits in 64 bytes, two high bits of
 * all four runs in 32. */
void mrt_block_read_q6_k(const uint8_t *from, float *to) {
  float d = load_f16(from + 208);
  for (int run = 0; run < 8; run++, to += 32) {
    const uint8_t *low = from + run / 4 * 64 + run % 2 * 32;
    const uint8_t *high = from + 128 + run / 4 * 32;
    const uint8_t *scales = from + 192 + run * 2;
    for (int j = 0; j < 32; j++) {
      int level = low[j] >> (run % 4 / 2 * 4) & 15;
      level |= (high[j] >> (run % 4 * 2) & 3) << 4;
      to[j] = d * (float)(int8_t)scales[j / 16] * (float)(level - 32);
    }
  }
}

void mrt_block_read_iq4_xs(const uint8_t *from, float *to) {
  const uint8_t *low = from + 4, *q = from + 8;
  uint32_t high = (uint32_t)mrt_little(from + 2, 2);
  float d = load_f16(from);
  for (int part = 0; part < 8; part++, to += 32, q += 16) {
    int scale = low[part / 2] >> (part % 2 * 4) & 15;
    scale |= (int)(high >> 2 * part & 3) << 4;
    float dl = d * (float)(scale - 32);
    for (int j = 0; j < 16; j++) {
      to[j] = dl * mrt_iq4_values[q[j] & 15];
      to[j + 16] = dl * mrt_iq4_values[q[j] >> 4];
    }
  }
}
