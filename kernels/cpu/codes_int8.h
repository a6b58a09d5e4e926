/* codes_int8.h -- products of rows in int8 with codes, block by block
 *
 * The sums of a block are whole numbers, so how they are made is free; how they
 * are scaled and added is what op/quantize.c says, and the same everywhere.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CODES_INT8_H
#define MRT_CODES_INT8_H

#include "codes.h"

/* BLOCK: numbers of x that share a scale.  COLUMNS: of w, side by side.  CHUNK:
 * blocks whose scales are there at a time. */
enum { BLOCK = MRT_QUANTIZE_BLOCK, COLUMNS = 8, CHUNK = 64 };

/* A block of a row: codes * scale, zero where the row has ended; in the order of
 * the codes of w in their bytes: first those beside lower halves. */
typedef struct int8_block {
  float scale;
  int32_t sum; /* of codes */
  int8_t codes[BLOCK];
} int8_block;

/* Blocks of COLUMNS columns. */
typedef struct int8_panel {
  int kind;
  const uint8_t *codes; /* of the first block of the first column */
  int64_t stride;       /* bytes from one column to the next */
  int64_t blocks;
  int8_t values[16]; /* of nf4 and fp4: those of codes */
  float (*scales)[COLUMNS];
} int8_panel;

static inline bool int8_tabled(int kind) {
  return kind == MRT_QUANTIZE_NF4 || kind == MRT_QUANTIZE_FP4;
}
/* Bytes of a block of codes. */
static inline int64_t int8_bytes(int kind) {
  return BLOCK / mrt_quantize_pack(kind);
}

#endif
