/* blocks_256_write.c -- blocks of 256 numbers are packed: Q4_K, Q5_K, Q6_K
 *
 * Levels, scale and minimum of a part are found together: for a few spacings
 * of the levels around the plain one, each number goes to its nearest level,
 * then scale and minimum are those of the least weighted squares; the spacing
 * with the least error stays.  Scales and minima are then rounded to 6 or 8
 * bits of the block's largest, and the levels chosen anew for what they became.
 *
 *   cost  about 20 passes over the numbers
 *   from  ggml-quants.c (make_qkx2_quants, make_qx_quants and the functions
 *         that call them): sums are in its order, so that bytes are its too
 *
 * SPDX-License-Identifier: MIT */
#include "base/narrow.h"
#include "io/blocks.h"

#include <math.h>
#include <string.h>

enum { N = 256, PART = 32, PARTS = 8, SHORT = 16, SHORTS = 16 };

static void store_f16(float x, uint8_t *p) {
  uint16_t h = float_to_f16(x);
  p[0] = (uint8_t)h, p[1] = (uint8_t)(h >> 8);
}
static float load_f16(const uint8_t *p) {
  return f16_to_float((uint16_t)mrt_little(p, 2));
}

/* The nearest whole number, ties to even, whatever the host rounds like;
 * something within +-2^22 for what is beyond. */
static int nearest(float x) {
  const float shift = 12582912; /* 1.5 * 2^23: its fraction has no bits left */
  return (int)(float_bits(x + shift) & 0x7fffff) - 0x400000;
}
static int clamp(int q, int least, int most) {
  return q < least ? least : q > most ? most : q;
}

/* ---- a part with a minimum ----------------------------------------------- */

/* How spacings are tried: (first + step * k + most) / range, k = 0 ... count. */
typedef struct search {
  int most; /* largest level */
  float first, step;
  int count;
} search;

typedef struct fit {
  float scale, least; /* scale * level + least */
  float error;
  uint8_t level[PART];
} fit;

/* Sums over a part, of numbers and weights alone. */
typedef struct totals {
  float weight, x, least, most;
} totals;

static totals add_up(const float *x, const float *w) {
  totals t = { w[0], w[0] * x[0], x[0], x[0] };
  for (int i = 1; i < PART; i++) {
    if (x[i] < t.least) t.least = x[i];
    if (x[i] > t.most) t.most = x[i];
    t.weight += w[i];
    t.x += w[i] * x[i];
  }
  if (t.least > 0) t.least = 0;
  return t;
}

static float error_of(const fit *f, const float *x, const float *w) {
  float sum = 0;
  for (int i = 0; i < PART; i++) {
    float off = f->scale * (float)f->level[i] + f->least - x[i];
    sum += w[i] * (off * off);
  }
  return sum;
}

/* Levels at this spacing, counted from `base`; false where no scale can be told
 * from them. */
static bool fit_at(float spacing, float base, int most, const totals *t,
                   const float *x, const float *w, fit *f) {
  float l1 = 0, l2 = 0, xl = 0;
  for (int i = 0; i < PART; i++) {
    int level = clamp(nearest(spacing * (x[i] - base)), 0, most);
    f->level[i] = (uint8_t)level;
    l1 += w[i] * (float)level;
    l2 += w[i] * (float)level * (float)level;
    xl += w[i] * (float)level * x[i];
  }
  float det = t->weight * l2 - l1 * l1;
  if (!(det > 0)) return false;
  f->scale = (t->weight * xl - t->x * l1) / det;
  f->least = (l2 * t->x - l1 * xl) / det;
  if (f->least > 0) f->least = 0, f->scale = xl / l2;
  return true;
}

static fit fit_part(const float *x, const float *w, const search *s) {
  totals t = add_up(x, w);
  fit best = { .scale = 0, .least = t.least }, f;
  if (t.most == t.least) return best;
  float spacing = (float)s->most / (t.most - t.least);
  best.scale = 1 / spacing;
  for (int i = 0; i < PART; i++)
    best.level[i] =
        (uint8_t)clamp(nearest(spacing * (x[i] - t.least)), 0, s->most);
  best.error = error_of(&best, x, w);
  for (int k = 0; k <= s->count; k++) {
    float base = best.least; /* of the best so far */
    spacing =
        (s->first + s->step * (float)k + (float)s->most) / (t.most - base);
    if (!fit_at(spacing, base, s->most, &t, x, w, &f)) continue;
    f.error = error_of(&f, x, w);
    if (f.error < best.error) best = f;
  }
  return best;
}

/* Larger numbers weigh more, by as much as they are above the rest. */
static void weigh(const float *x, float *w) {
  float sum = 0;
  for (int i = 0; i < PART; i++) sum += x[i] * x[i];
  float size = sqrtf(sum / PART);
  for (int i = 0; i < PART; i++) w[i] = size + fabsf(x[i]);
}

/* Six bits for each scale and minimum, in 12 bytes. */
static void put_six_bits(const fit *parts, float most_scale, float most_least,
                         uint8_t *s) {
  float to_scale = most_scale > 0 ? 63 / most_scale : 0;
  float to_least = most_least > 0 ? 63 / most_least : 0;
  for (int j = 0; j < PARTS; j++) {
    uint8_t a = (uint8_t)nearest(to_scale * parts[j].scale);
    uint8_t b = (uint8_t)nearest(to_least * -parts[j].least);
    a = a > 63 ? 63 : a, b = b > 63 ? 63 : b;
    if (j < 4) {
      s[j] = a, s[j + 4] = b;
    } else {
      s[j + 4] = (uint8_t)((a & 15) | (b & 15) << 4);
      s[j - 4] |= (uint8_t)(a >> 4 << 6);
      s[j] |= (uint8_t)(b >> 4 << 6);
    }
  }
}

/* The front of a block: d, dmin, 12 bytes; and the levels that go with it. */
static void fit_block(const float *x, const search *s, uint8_t *front,
                      uint8_t level[N]) {
  fit parts[PARTS];
  float w[PART], most_scale = 0, most_least = 0;
  for (int j = 0; j < PARTS; j++) {
    weigh(x + j * PART, w);
    parts[j] = fit_part(x + j * PART, w, s);
    if (parts[j].scale > most_scale) most_scale = parts[j].scale;
    if (-parts[j].least > most_least) most_least = -parts[j].least;
  }
  put_six_bits(parts, most_scale, most_least, front + 4);
  store_f16(most_scale / 63, front);
  store_f16(most_least / 63, front + 2);
  for (int j = 0; j < PARTS; j++) {
    uint8_t scale, least;
    mrt_six_bits(front + 4, j, &scale, &least);
    float d = load_f16(front) * (float)scale;
    float m = load_f16(front + 2) * (float)least;
    memcpy(level + j * PART, parts[j].level, PART);
    for (int i = j * PART; d != 0 && i < (j + 1) * PART; i++)
      level[i] = (uint8_t)clamp(nearest((x[i] + m) / d), 0, s->most);
  }
}

/* Two parts in 32 bytes. */
static void put_low_bits(const uint8_t level[N], uint8_t *to) {
  for (int i = 0; i < N / 2; i++) {
    const uint8_t *at = level + i / PART * 2 * PART + i % PART;
    to[i] = (uint8_t)((at[0] & 15) | (at[PART] & 15) << 4);
  }
}

void mrt_block_write_q4_k(const float *from, uint8_t *to) {
  static const search s = { 15, -1, 0.1f, 20 };
  uint8_t level[N];
  fit_block(from, &s, to, level);
  put_low_bits(level, to + 16);
}

void mrt_block_write_q5_k(const float *from, uint8_t *to) {
  static const search s = { 31, -0.5f, 0.1f, 15 };
  uint8_t level[N];
  fit_block(from, &s, to, level);
  memset(to + 16, 0, PART);
  for (int i = 0; i < N; i++)
    to[16 + i % PART] |= (uint8_t)((level[i] >> 4) << i / PART);
  put_low_bits(level, to + 48);
}

/* ---- a part on both sides of 0: Q6_K ------------------------------------- */

typedef struct sums {
  float xl, l2; /* of weights x^2 */
} sums;

static sums levels_at(float spacing, const float *x, uint8_t level[SHORT]) {
  sums s = { 0, 0 };
  for (int i = 0; i < SHORT; i++) {
    int l = clamp(nearest(spacing * x[i]), -32, 31);
    float w = x[i] * x[i];
    level[i] = (uint8_t)(l + 32);
    s.xl += w * x[i] * (float)l;
    s.l2 += w * (float)l * (float)l;
  }
  return s;
}

static const float least_of_all = 1e-15f; /* below it a part is 0 */

static float fit_short(const float *x, uint8_t level[SHORT]) {
  uint8_t tried[SHORT];
  float far = 0;
  for (int i = 0; i < SHORT; i++)
    if (fabsf(x[i]) > fabsf(far)) far = x[i];
  memset(level, 0, SHORT);
  if (fabsf(far) < least_of_all) return 0;
  sums s = levels_at(-32 / far, x, level);
  float scale = s.l2 != 0 ? s.xl / s.l2 : 0, best = scale * s.xl;
  for (int k = -9; k <= 9; k++) {
    if (k == 0) continue;
    s = levels_at(-(32 + 0.1f * (float)k) / far, x, tried);
    if (!(s.l2 > 0 && s.xl * s.xl > best * s.l2)) continue;
    memcpy(level, tried, SHORT);
    scale = s.xl / s.l2, best = scale * s.xl;
  }
  return scale;
}

static void put_q6(const uint8_t level[N], uint8_t *to) {
  memset(to, 0, 192);
  for (int i = 0; i < N; i++) {
    int half = i / 128, run = i % 128 / 32, j = i % 32;
    to[half * 64 + run % 2 * 32 + j] |=
        (uint8_t)((level[i] & 15) << run / 2 * 4);
    to[128 + half * 32 + j] |= (uint8_t)((level[i] >> 4) << run * 2);
  }
}

void mrt_block_write_q6_k(const float *from, uint8_t *to) {
  float scales[SHORTS], far = 0;
  uint8_t level[N];
  for (int j = 0; j < SHORTS; j++) {
    scales[j] = fit_short(from + j * SHORT, level + j * SHORT);
    if (fabsf(scales[j]) > fabsf(far)) far = scales[j];
  }
  memset(to, 0, 210);
  if (fabsf(far) < least_of_all) return;
  float to_scale = -128 / far;
  store_f16(1 / to_scale, to + 208);
  for (int j = 0; j < SHORTS; j++) {
    int q = clamp(nearest(to_scale * scales[j]), -128, 127);
    float d = load_f16(to + 208) * (float)q;
    to[192 + j] = (uint8_t)q;
    for (int i = j * SHORT; d != 0 && i < (j + 1) * SHORT; i++)
      level[i] = (uint8_t)(clamp(nearest(from[i] / d), -32, 31) + 32);
  }
  put_q6(level, to);
}
