/* amx.h -- tile registers that multiply pairs of bf16
 *
 * Eight registers of AMX_TILE rows of AMX_TILE units: f32, or pairs of bf16.  A product
 * adds to each f32 of `to` the sums of the first and of the second numbers of
 * AMX_TILE pairs, each summed by itself, these two added first; every step rounds
 * to nearest, subnormals are 0.
 *
 * With MRT_AMX_MODEL they are arrays: for specs, which run where no processor
 * has them.
 *
 *   from  Intel, Architecture Instruction Set Extensions, TILELOADD, TDPBF16PS
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_GEMM_AMX_H
#define MRT_GEMM_AMX_H

#include <stdint.h>
#include <string.h>

enum { AMX_TILE = 16, AMX_ROW = 64 /* bytes */ };

/* Eight registers of all their rows and bytes. */
typedef struct amx_layout {
  uint8_t palette, start, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} amx_layout;

#define AMX_ROWS                                                               \
  AMX_TILE, AMX_TILE, AMX_TILE, AMX_TILE, AMX_TILE, AMX_TILE, AMX_TILE, AMX_TILE
#define AMX_BYTES                                                              \
  AMX_ROW, AMX_ROW, AMX_ROW, AMX_ROW, AMX_ROW, AMX_ROW, AMX_ROW, AMX_ROW
static const amx_layout amx_whole = { .palette = 1,
                                      .row_bytes = { AMX_BYTES },
                                      .rows = { AMX_ROWS } };

#ifdef MRT_AMX_MODEL
#include <float.h>
#include <math.h>
#define WITH_AMX

typedef union amx_register {
  float real[AMX_TILE][AMX_TILE];
  uint16_t half[AMX_TILE][2 * AMX_TILE];
} amx_register;
static _Thread_local amx_register amx_of[8];

static inline float amx_flushed(float x) { return fabsf(x) < FLT_MIN ? 0 : x; }
static inline float amx_wide(uint16_t x) {
  uint32_t bits = (uint32_t)x << 16;
  float y;
  memcpy(&y, &bits, sizeof y);
  return amx_flushed(y);
}
static inline float amx_added(float sum, uint16_t a, uint16_t b) {
  return amx_flushed(fmaf(amx_wide(a), amx_wide(b), sum));
}

static inline void amx_begin(void) {}
static inline void amx_end(void) {}
static inline void amx_zero(int to) {
  memset(&amx_of[to], 0, AMX_TILE * AMX_ROW);
}
static inline void amx_load(int to, const void *from, int64_t row) {
  for (int i = 0; i < AMX_TILE; i++)
    memcpy(amx_of[to].half[i], (const char *)from + i * row, AMX_ROW);
}
static inline void amx_load_once(int to, const void *from, int64_t row) {
  amx_load(to, from, row);
}
static inline void amx_store(int from, void *to, int64_t row) {
  for (int i = 0; i < AMX_TILE; i++)
    memcpy((char *)to + i * row, amx_of[from].half[i], AMX_ROW);
}
static inline void amx_multiply(int to, int left, int right) {
  const amx_register *a = &amx_of[left], *b = &amx_of[right];
  for (int i = 0; i < AMX_TILE; i++)
    for (int j = 0; j < AMX_TILE; j++) {
      float *c = &amx_of[to].real[i][j], first = 0, second = 0;
      for (int p = 0; p < AMX_TILE; p++) {
        first = amx_added(first, a->half[i][2 * p], b->half[p][2 * j]);
        second =
            amx_added(second, a->half[i][2 * p + 1], b->half[p][2 * j + 1]);
      }
      *c = amx_flushed(amx_flushed(*c) + amx_flushed(first + second));
    }
}
#else
#include <immintrin.h>
#define WITH_AMX     __attribute__((target("amx-tile,amx-bf16,avx512bf16")))

/* Registers are numbers that an instruction contains.  The compiler does not know
 * that loads read memory: what is written before them must be there. */
#define amx_begin()  _tile_loadconfig(&amx_whole)
#define amx_end()    _tile_release()
#define amx_zero(to) _tile_zero(to)
#define amx_load(to, from, row)                                                \
  do {                                                                         \
    __asm__ volatile("" ::: "memory");                                         \
    _tile_loadd(to, from, row);                                                \
  } while (0)
/* What is read once and need not push others out of the first-level cache. */
#define amx_load_once(to, from, row)                                           \
  do {                                                                         \
    __asm__ volatile("" ::: "memory");                                         \
    _tile_stream_loadd(to, from, row);                                         \
  } while (0)
#define amx_store(from, to, row)      _tile_stored(from, to, row)
#define amx_multiply(to, left, right) _tile_dpbf16ps(to, left, right)
#endif

#endif
