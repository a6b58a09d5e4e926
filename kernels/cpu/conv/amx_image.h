/* amx_image.h -- lines of an image in the order that conv/amx.h says
 *
 * Only conv/amx.c and conv/amx_dw.c include this.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CONV_AMX_IMAGE_H
#define MRT_CONV_AMX_IMAGE_H

#include "conv/amx.h"
#include "gemm/amx.h"

enum {
  GROUP = 2 * AMX_TILE,    /* places, channels, images: of two registers */
  AHEAD = 16,              /* units that are asked for before they are copied */
  UNIT_BYTES = AMX_ROW,    /* of a block */
  LINES_BYTES = 512 << 10, /* of lines copied at a time, about */
  IMAGES_BYTES = 1 << 20   /* of GROUP images side by side, at most */
};

/* One dimension.  Distances and the pitch, from a line (or an image) to the
 * next, are in units. */
typedef struct amx_side {
  axis of;
  spot room[SIDE_MOST];
  int64_t phases, low, high, pitch;
} amx_side;

typedef struct amx_image {
  reader x;
  int64_t N, x_c;        /* images; channels in all */
  int64_t k;             /* channels of this group */
  bool joined, together; /* together: as one run of plain values */
  bool beside;           /* GROUP images */
  amx_side h, w;
  int64_t depth, blocks;       /* values of a unit */
  int64_t wide;                /* units beside each other: 1 or GROUP */
  int64_t lines, chunk, units; /* of y in all, at a time; of a phase of that */
} amx_image;

static int64_t phase_of(const axis *a, int64_t i) {
  int64_t r = a->spot[i].at % a->step;
  return r < 0 ? r + a->step : r;
}
/* Of spot i: how many units further it is than the place. */
static int64_t distance_of(const axis *a, int64_t i) {
  return (a->spot[i].at - phase_of(a, i)) / a->step;
}
/* Units of x of a phase. */
static int64_t units_in(const axis *a, int64_t phase) {
  return a->size > phase ? ceil_div(a->size - phase, a->step) : 0;
}

/* Zeros after a line are those before the next, too. */
static void set_side(amx_side *s) {
  s->phases = 1, s->low = s->high = 0;
  for (int64_t i = 0; i < s->of.spots; i++) {
    int64_t d = distance_of(&s->of, i);
    s->phases = most(s->phases, phase_of(&s->of, i) + 1);
    s->low = least(s->low, d), s->high = most(s->high, d);
  }
  s->pitch = most(units_in(&s->of, 0) - s->low, s->of.count + s->high);
}

/* Spots are one that is the place itself. */
static void join_side(amx_side *s) {
  s->phases = 1, s->low = s->high = 0;
  s->pitch = s->of.count;
}

/* Spots inside x, over all places. */
static int64_t inside_of(const axis *a) {
  int64_t n = 0;
  for (int64_t s = 0; s < a->spots; s++)
    for (int64_t i = 0; i < a->count; i++) {
      int64_t at = i * a->step + a->spot[s].at;
      n += at >= 0 && at < a->size;
    }
  return n;
}

static int64_t spots_of(const amx_image *m) {
  return m->h.of.spots * (m->joined ? 1 : m->w.of.spots);
}

static int64_t unit_room(const amx_image *m, int64_t lines) {
  int64_t tall = m->h.high - m->h.low, line = m->w.pitch * m->wide;
  return lines * line + GROUP + tall * line + (m->w.high - m->w.low) * m->wide;
}
static int64_t bytes_of_lines(const amx_image *m, int64_t lines) {
  return m->blocks * m->h.phases * m->w.phases * unit_room(m, lines) *
         UNIT_BYTES;
}

/* Do images side by side, in registers of `images`, have fewer products? */
static bool pays_beside(const amx_image *m, int64_t images) {
  int64_t across = m->joined ? m->w.of.count : inside_of(&m->w.of);
  int64_t own = round_up(m->N, images) * inside_of(&m->h.of) * across;
  return own < m->N * m->h.pitch * m->w.pitch * spots_of(m);
}

/* Images side by side have no padding. */
static void set_beside(amx_image *m) {
  m->beside = true, m->wide = GROUP;
  m->w.pitch = m->joined ? m->w.of.count : units_in(&m->w.of, 0);
}

/* The sides are set, but for what is made of them here.  Registers hold places
 * of `images` images at least where these lie side by side.  So many lines at a
 * time as have `places`; where that is 0 as are LINES_BYTES, or a thread's
 * share. */
static void set_image(amx_image *m, int64_t images, int64_t places,
                      int threads) {
  int64_t apart = m->w.of.spots * round_up(m->k, GROUP);
  int64_t joined = round_up(m->w.of.spots * m->k, GROUP);
  m->joined = m->k < GROUP && m->w.of.spots > 1 && joined < apart;
  m->depth = m->joined ? m->w.of.spots * m->k : m->k;
  m->blocks = ceil_div(m->depth, GROUP);
  m->wide = 1;
  m->together = m->joined && m->x.plain && m->x_c == m->k;
  for (int64_t i = 0; i < m->w.of.spots; i++)
    m->together &= m->w.of.spot[i].at == m->w.of.spot[0].at + i;
  set_side(&m->h);
  if (m->joined)
    join_side(&m->w);
  else
    set_side(&m->w);
  int64_t count = m->h.of.count, limit = LINES_BYTES;
  if (pays_beside(m, images)) {
    amx_image packed = *m;
    set_beside(&packed);
    limit = IMAGES_BYTES;
    if (places || bytes_of_lines(&packed, count) <= limit)
      set_beside(m);
    else
      limit = LINES_BYTES;
  }
  m->lines = m->beside ? ceil_div(m->N, GROUP) * count : m->N * m->h.pitch;
  int64_t first = bytes_of_lines(m, 1), one = bytes_of_lines(m, 2) - first;
  m->chunk = 1;
  if (places)
    m->chunk = most(1, places / (m->w.pitch * m->wide));
  else if (first < limit)
    m->chunk += (limit - first) / most(one, 1);
  m->chunk = least(m->chunk, m->beside ? count : m->lines);
  if (!places) m->chunk = least(m->chunk, ceil_div(m->lines, threads));
  m->units = unit_room(m, m->chunk);
}

/* Of where units are. */
static int64_t units_bytes(const amx_image *m) {
  int64_t units = m->h.phases * m->w.phases * m->units;
  return round_up(units * (int64_t)sizeof(char *), 64);
}

/* How many lines are made at a time from `line` on. */
static int64_t some_lines(const amx_image *m, int64_t line, int64_t end) {
  int64_t n = least(m->chunk, end - line), count = m->h.of.count;
  return m->beside ? least(n, count - line % count) : n;
}

/* Bytes from a place's unit to what spot (a, b) reads. */
static int64_t spot_offset(const amx_image *m, int64_t a, int64_t b) {
  int64_t phase = phase_of(&m->h.of, a) * m->w.phases;
  int64_t units = (distance_of(&m->h.of, a) - m->h.low) * m->w.pitch;
  if (!m->joined) {
    phase += phase_of(&m->w.of, b);
    units += distance_of(&m->w.of, b);
  }
  return (phase * m->units + units * m->wide) * UNIT_BYTES;
}

/* ---- copying -------------------------------------------------------------- */

/* The units of row `row` of an image, of a phase of its columns. */
static void find_row(const amx_image *m, int64_t image, int64_t row,
                     int64_t phase, const char **at) {
  const axis *a = &m->w.of;
  int64_t place = m->x_c * m->x.bytes, step = m->joined ? 0 : a->step * place;
  int64_t count = m->joined ? a->count : units_in(a, phase);
  const char *x = m->x.data + (image * m->h.of.size + row) * a->size * place;
  if (!m->joined) x += phase * place;
  for (int64_t v = 0; v < count; v++, x += step) at[v * m->wide] = x;
}

/* Of one phase: all lines, in a row. */
static void find_rows(const amx_image *m, int64_t line, int64_t n,
                      int64_t phase, int64_t column, const char **at) {
  int64_t from = line + m->h.low, end = line + n + m->h.high;
  for (int64_t u = from; u < end; u++, at += m->w.pitch) {
    int64_t image = u < 0 ? -1 : u / m->h.pitch;
    int64_t row = (u - image * m->h.pitch) * m->h.of.step + phase;
    if (image >= 0 && image < m->N && row < m->h.of.size)
      find_row(m, image, row, column, at);
  }
}

/* Of one phase: lines of a group of images. */
static void find_beside(const amx_image *m, int64_t line, int64_t n,
                        int64_t phase, int64_t column, const char **at) {
  int64_t first = line / m->h.of.count * GROUP, i = line % m->h.of.count;
  int64_t images = least(GROUP, m->N - first);
  int64_t from = i + m->h.low, end = i + n + m->h.high;
  for (int64_t u = from; u < end; u++, at += m->w.pitch * m->wide) {
    int64_t row = u * m->h.of.step + phase;
    if (u < 0 || row >= m->h.of.size) continue;
    for (int64_t g = 0; g < images; g++)
      find_row(m, first + g, row, column, at + g);
  }
}

/* Where the units that lines [line, line + n) of y read are in x: their first
 * channel, or where spots are joined their row; NULL: zeros. */
static void find_units(const amx_image *m, int64_t line, int64_t n,
                       const char **at) {
  int64_t phases = m->h.phases * m->w.phases, lead = -m->w.low * m->wide;
  memset(at, 0, (size_t)(phases * m->units) * sizeof *at);
  for (int64_t p = 0; p < phases; p++, at += m->units) {
    int64_t row = p / m->w.phases, column = p % m->w.phases;
    if (m->beside)
      find_beside(m, line, n, row, column, at + lead);
    else
      find_rows(m, line, n, row, column, at + lead);
  }
}

/* The first n, at most GROUP, values at p; 0 for the rest. */
static inline void copy_part(void *to, const void *p, int64_t n) {
  __mmask32 there = (__mmask32)((1ull << n) - 1);
  _mm512_storeu_si512(to, _mm512_maskz_loadu_epi16(there, p));
}

/* Units are too far from one another for the processor to see that they are read
 * in turn. */
static inline void ask_for(const char *p, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(p + i);
}

/* n values that lie side by side, to blocks. */
static inline void copy_values(const char *from, int64_t n, char *to,
                               int64_t step) {
  for (; n >= GROUP; n -= GROUP, from += UNIT_BYTES, to += step)
    memcpy(to, from, UNIT_BYTES);
  if (n) copy_part(to, from, n);
}

/* The unit of place v of a row, of the values of all spots. */
static void copy_joined(const amx_image *m, const char *row, int64_t v,
                        char *to, int64_t step) {
  uint16_t values[GROUP * SIDE_MOST];
  const axis *a = &m->w.of;
  int64_t first = v * a->step + a->spot[0].at, place = m->x_c * m->x.bytes;
  int64_t last = first + a->spots - 1;
  if (m->together && first >= 0 && last < a->size) {
    copy_values(row + first * place, m->depth, to, step);
    return;
  }
  reader x = m->x;
  memset(values, 0, (size_t)m->depth * sizeof *values);
  for (int64_t s = 0; s < a->spots; s++) {
    int64_t j = v * a->step + a->spot[s].at;
    if (j < 0 || j >= a->size) continue;
    x.data = row + j * place;
    read_values(&x, values + s * m->k, 0, 0, 1, m->k);
  }
  copy_values((const char *)values, m->depth, to, step);
}

static void copy_others(const amx_image *m, const char *from, char *to,
                        int64_t step) {
  uint16_t values[GROUP];
  reader x = m->x;
  for (int64_t c = 0; c < m->k; c += GROUP, to += step) {
    int64_t n = least(GROUP, m->k - c);
    x.data = from + c * x.bytes;
    read_values(&x, values, 0, 0, 1, n);
    copy_part(to, values, n);
  }
}

/* n units of the `left` that follow, unit u of a phase the first, a block of each
 * every `step` bytes. */
static void copy_units(const amx_image *m, const char *const *at, int64_t u,
                       int64_t n, int64_t left, char *to, int64_t step) {
  int64_t v = m->joined ? u / m->wide % m->w.pitch : 0, beside = u % m->wide;
  for (int64_t i = 0; i < n; i++, to += UNIT_BYTES) {
    if (i + AHEAD < left && !m->joined)
      ask_for(at[i + AHEAD], m->k * m->x.bytes);
    if (!at[i])
      for (int64_t b = 0; b < m->blocks; b++)
        memset(to + b * step, 0, UNIT_BYTES);
    else if (m->joined)
      copy_joined(m, at[i], v, to, step);
    else if (m->x.plain)
      copy_values(at[i], m->k, to, step);
    else
      copy_others(m, at[i], to, step);
    if (!m->joined || ++beside < m->wide) continue;
    beside = 0;
    if (++v == m->w.pitch) v = 0;
  }
}

#endif
