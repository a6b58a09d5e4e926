/* amx_weights.h -- weights as tile registers read them
 *
 * Of GROUP channels of y, a strip, for each block of x's and each spot a register
 * and its neighbour: pairs of channels of x, GROUP of them side by side.
 *
 * Only conv/amx.c includes this.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CONV_AMX_WEIGHTS_H
#define MRT_CONV_AMX_WEIGHTS_H

#include "conv/amx_image.h"

enum {
  STEP_BYTES = AMX_TILE * GROUP * UNIT /* of a spot, a block and a strip */
};

typedef struct tiled {
  amx_image in;
  reader weights;
  int64_t w_in, w_out; /* strides of the weights: channels of x, of y */
  int64_t taps, kernel_w;
  int64_t n, y_c, y_h, y_w; /* channels of y: of a group, in all; sides */
  char *y;
  int64_t y_bytes; /* of an element */
  mrt_dtype result;
  const real *bias;
  int64_t columns; /* channels of y at a time, at most */
  /* of this run */
  char *packed, *parts;
  size_t bytes;        /* of each part's scratch */
  int64_t from, count; /* channels of y */
} tiled;

/* Weights of a block and a strip, all taps of them, as they lie. */
static int64_t staged(const tiled *t) { return GROUP * GROUP * t->taps; }

/* Weights as they lie: of channel k of x, column j at stage[k * in + j * out],
 * a tap after the other. */
typedef struct stage {
  const uint16_t *at;
  int64_t in, out;
  int64_t channels; /* of x: there are, */
  int64_t columns;  /* of y */
} stage;

/* Channels [k, k + n) of x, columns [j, j + m). */
static stage stage_weights(const tiled *t, int64_t k, int64_t n, int64_t j,
                           int64_t m, uint16_t *to) {
  bool back = t->w_in != t->taps;
  int64_t rows = back ? n : m, row = (back ? m : n) * t->taps;
  int64_t first = k * t->w_in + j * t->w_out, step = back ? t->w_in : t->w_out;
  reader w = t->weights;
  w.along = 1;
  w.data += first * w.bytes;
  for (int64_t r = 0; r < rows; r++, w.data += step * w.bytes)
    read_values(&w, to + r * row, 0, 0, 1, row);
  return (stage){ to, back ? row : t->taps, back ? t->taps : row, n, m };
}

static const uint16_t no_weights[1];

/* to[j] is the pair a[j step], b[j step].  Four bytes are read of either: behind
 * a, and before b, which is a later channel, there are others. */
static void zip_apart(const uint16_t *a, const uint16_t *b, int64_t step,
                      uint32_t *to) {
  const __mmask32 seconds = 0xaaaaaaaa;
  const __m512i lanes =
      _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  __m512i at = _mm512_mullo_epi32(lanes, _mm512_set1_epi32((int)step));
  for (int64_t j = 0; j < GROUP; j += AMX_TILE) {
    __m512i x = _mm512_i32gather_epi32(at, a + j * step, 2);
    __m512i y = _mm512_i32gather_epi32(at, b - 1 + j * step, 2);
    _mm512_storeu_si512(to + j, _mm512_mask_blend_epi16(seconds, x, y));
  }
}

/* The pairs of a spot: values d and d + 1 of a unit for each column.  `tap` and
 * `next` are their taps. */
static void pack_step(const stage *s, int64_t k, int64_t tap, int64_t k_next,
                      int64_t next, uint32_t *to) {
  bool one = k < s->channels, two = k_next < s->channels;
  const uint16_t *a = one ? s->at + k * s->in + tap : no_weights;
  const uint16_t *b = two ? s->at + k_next * s->in + next : no_weights;
  int64_t a_step = one ? s->out : 0, b_step = two ? s->out : 0, j = 0;
  if (one && two && s->columns == GROUP) {
    zip_apart(a, b, s->out, to);
    return;
  }
  for (; j < s->columns; j++)
    to[j] = a[j * a_step] | (uint32_t)b[j * b_step] << 16;
  for (; j < GROUP; j++) to[j] = 0;
}

/* Block `b` of a strip of columns from `j` on. */
static void pack_block(const tiled *t, int64_t b, int64_t j, uint16_t *room,
                       uint32_t *to) {
  const amx_image *m = &t->in;
  int64_t across = m->joined ? 1 : m->w.of.spots;
  int64_t first = m->joined ? 0 : b * GROUP, d = b * GROUP;
  int64_t n = least(m->joined ? m->k : GROUP, m->k - first);
  stage s = stage_weights(t, first, n, t->from + j,
                          least(GROUP, t->n - t->from - j), room);
  for (int64_t p = 0; p < spots_of(m); p++) {
    int64_t row = m->h.of.spot[p / across].tap * t->kernel_w;
    for (int64_t q = 0; q < GROUP; q += 2, to += GROUP) {
      int64_t k[2], tap[2];
      for (int i = 0; i < 2; i++) {
        int64_t v = m->joined ? d + q + i : q + i, spot = p % across;
        if (m->joined) spot = v / m->k, v %= m->k;
        bool there = spot < m->w.of.spots;
        k[i] = there ? v : n, tap[i] = there ? row + m->w.of.spot[spot].tap : 0;
      }
      pack_step(&s, k[0], tap[0], k[1], tap[1], to);
    }
  }
}

#endif
