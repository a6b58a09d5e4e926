/* codes_int8.c -- quantized_linear whose rows of x are rounded to int8
 *
 *   method  All of x is rounded first, into scratch.  Then COLUMNS columns of y
 *           at a time, CHUNK blocks of k at a time: their scales are turned, so
 *           that those of one block lie side by side, and all rows go by.
 *   gives   the same bits for a row alone and among others, on any number of
 *           threads and any processor (op/quantize.c)
 *
 * SPDX-License-Identifier: MIT */
#include "codes_int8.h"
#include "floats.h"
#ifndef MRT_F64
#if defined(__AVX2__) && defined(__F16C__)
#include "codes_int8_avx2.h"
#else
#include "codes_int8_any.h"
#endif

/* Rows of x whose sums are there at a time. */
enum { ROWS = 32 };

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t blocks_of(const mrt_call *c) {
  int64_t k = mrt_cols(&c->in[0]);
  return k / BLOCK + (k % BLOCK != 0);
}

/* ---- x ------------------------------------------------------------------- */

/* Where number i of a block lies. */
static inline int place_of(bool tabled, int i) {
  return tabled ? i % 2 * (BLOCK / 2) + i / 2 : i;
}

static void round_block(const float x[BLOCK], bool tabled, int8_block *to) {
  const int32_t infinite = 0x7f800000;
  const float magic = 12582912; /* what is added to it is rounded */
  int32_t bits[BLOCK], magic_bits, most = 0, sum = 0;
  float largest, by;
  int8_t codes[BLOCK];
  memcpy(bits, x, sizeof bits);
  for (int i = 0; i < BLOCK; i++) {
    int32_t size = bits[i] & 0x7fffffff;
    most = size > most ? size : most;
  }
  memcpy(&largest, &most, sizeof largest);
  memset(to, 0, sizeof *to);
  if (most >= infinite) to->scale = NAN;
  if (most >= infinite || largest < 4e-37F) return;
  to->scale = largest / 127, by = 127 / largest;
  float near[BLOCK];
  for (int i = 0; i < BLOCK; i++) near[i] = x[i] * by + magic;
  memcpy(bits, near, sizeof bits);
  memcpy(&magic_bits, &magic, sizeof magic_bits);
  for (int i = 0; i < BLOCK; i++) {
    sum += bits[i] - magic_bits;
    codes[i] = (int8_t)(bits[i] - magic_bits);
  }
  for (int i = 0; i < BLOCK; i++) to->codes[place_of(tabled, i)] = codes[i];
  to->sum = sum;
}

static void round_rows(const mrt_call *c, const void *unused, int part,
                       int parts) {
  const mrt_quantize_options *o = c->options;
  const mrt_operand *x = &c->in[0];
  int64_t k = mrt_cols(x), blocks = blocks_of(c), r, end;
  mrt_share(mrt_rows(x), part, parts, &r, &end);
  for (; r < end; r++) {
    int8_block *to = (int8_block *)c->scratch + r * blocks;
    for (int64_t at = 0; at < k; at += BLOCK) {
      float room[BLOCK] = { 0 };
      mrt_widen(x->type.dtype, mrt_element(x, r * k + at), room,
                least(BLOCK, k - at));
      round_block(room, int8_tabled(o->kind), to++);
    }
  }
}

/* ---- a panel ------------------------------------------------------------- */

typedef struct int8_product {
  mrt_codes w;
  int64_t k, n; /* w is [n, k] */
  int8_t values[16];
} int8_product;

/* The scales of blocks [from, from + blocks) of k, of `n` columns from j on. */
static void take_scales(const int8_product *t, int64_t j, int64_t n,
                        int64_t from, int64_t blocks, float to[][COLUMNS]) {
  const mrt_codes *w = &t->w;
  int64_t each = least(w->o->block, t->k), last = w->blocks - 1;
  int64_t first = least(from * BLOCK / each, last);
  int64_t count = least((from + blocks - 1) * BLOCK / each, last) - first + 1;
  float room[CHUNK][COLUMNS];
  float(*own)[COLUMNS] = each == BLOCK ? to : room;
  mrt_dtype dtype = w->short_scales ? MRT_f16 : MRT_f32;
  int64_t size = (int64_t)mrt_dtypes[dtype].bytes;
  int64_t done = n == COLUMNS ? turn_scales(w, t->n, j, first, count, own) : 0;
  for (int64_t i = 0; done < count && i < COLUMNS; i++) {
    float row[CHUNK] = { 0 };
    int64_t at = (j + i) * w->blocks + first + done;
    if (i < n)
      mrt_widen(dtype, (const char *)w->scales + at * size, row, count - done);
    for (int64_t b = done; b < count; b++) own[b][i] = row[b - done];
  }
  if (!mrt_quantize_is_gguf(w->o->kind))
    for (int64_t b = 0; b < count; b++)
      for (int i = 0; i < COLUMNS; i++) own[b][i] /= 127;
  for (int64_t b = 0; own == room && b < blocks; b++)
    memcpy(to[b], room[least((from + b) * BLOCK / each, last) - first],
           sizeof to[b]);
}

/* Codes of n columns, of `bytes` each, that are not whole blocks of COLUMNS. */
static void stage(int8_panel *p, int64_t n, int64_t bytes, uint8_t *room) {
  int64_t whole = p->blocks * int8_bytes(p->kind);
  memset(room, 0, (size_t)(COLUMNS * whole));
  for (int64_t i = 0; i < n; i++)
    memcpy(room + i * whole, p->codes + i * p->stride, (size_t)bytes);
  p->codes = room, p->stride = whole;
}

static void put_row(const mrt_call *c, int64_t r, int64_t j, int64_t n,
                    const float *bias, float *sum) {
  mrt_operand *y = &c->out[0];
  for (int i = 0; bias && i < COLUMNS; i++) sum[i] += bias[i];
  mrt_round(y->type.dtype, sum, mrt_element(y, r * mrt_cols(y) + j), n);
}

/* Columns [j, j + n) of rows [r, r + m). */
static void run_panel(const mrt_call *c, const int8_product *t, int64_t j,
                      int64_t n, int64_t r, int64_t m) {
  int64_t blocks = blocks_of(c);
  int kind = t->w.o->kind;
  float sum[ROWS][COLUMNS] = { 0 }, scales[CHUNK][COLUMNS], bias[COLUMNS];
  uint8_t room[COLUMNS * CHUNK * BLOCK];
  for (int64_t b = 0; b < blocks; b += CHUNK) {
    int64_t each = int8_bytes(kind), at = b * each;
    int8_panel p = { .kind = kind,
                     .codes = t->w.codes + j * t->w.bytes + at,
                     .stride = t->w.bytes,
                     .blocks = least(CHUNK, blocks - b),
                     .scales = scales };
    memcpy(p.values, t->values, sizeof p.values);
    take_scales(t, j, n, b, p.blocks, scales);
    if (n < COLUMNS || at + p.blocks * each > t->w.bytes)
      stage(&p, n, least(p.blocks * each, t->w.bytes - at), room);
    add_panel(&p, m, (int8_block *)c->scratch + r * blocks + b, blocks, sum);
  }
  if (c->nin == 4)
    mrt_widen(c->in[3].type.dtype, mrt_element(&c->in[3], j), bias, n);
  for (int64_t i = n; i < COLUMNS; i++) bias[i] = 0;
  for (int64_t i = 0; i < m; i++)
    put_row(c, r + i, j, n, c->nin == 4 ? bias : NULL, sum[i]);
}

static void run_panels(const mrt_call *c, const void *shared, int part,
                       int parts) {
  const int8_product *t = shared;
  int64_t m = mrt_rows(&c->in[0]), panel, end;
  mrt_share((t->n + COLUMNS - 1) / COLUMNS, part, parts, &panel, &end);
  for (; panel < end; panel++)
    for (int64_t r = 0; r < m; r += ROWS) {
      int64_t j = panel * COLUMNS;
      run_panel(c, t, j, least(COLUMNS, t->n - j), r, least(ROWS, m - r));
    }
}

void mrt_codes_int8(const mrt_call *c) {
  int64_t m = mrt_rows(&c->in[0]), k = mrt_cols(&c->in[0]);
  int8_product t = { mrt_codes_of(c, 1), k, mrt_cols(&c->out[0]), { 0 } };
  double numbers = (double)m * (double)k;
  if (int8_tabled(t.w.o->kind))
    for (int i = 0; i < 16; i++)
      t.values[i] = (int8_t)round(127 * mrt_code_values(t.w.o->kind)[i]);
  if (m == 0 || t.n == 0) return;
  mrt_parallel(c, mrt_team(c, numbers), round_rows, NULL);
  /* A nanosecond for 25 numbers of w, and for 50 products. */
  mrt_parallel(c, mrt_team(c, (double)t.n * (double)k * ((double)m + 1) / 50),
               run_panels, &t);
}

size_t mrt_codes_int8_bytes(const mrt_call *c) {
  return (size_t)(mrt_rows(&c->in[0]) * blocks_of(c)) * sizeof(int8_block);
}
#endif
