/* block.h -- how large the blocks of a product are
 *
 * A strip of b (74 KiB with AVX-512, 36 KiB with AVX2, 12 KiB else) is no larger
 * than the first-level cache, or a little, and passes by a block of a (288 KiB
 * with AVX-512, 216 or 144 KiB else) that leaves room in the second level.
 * Measured on Zen 5 at token rows of 128 to 3072: blocks of k of 256 and 512 and
 * half the rows or columns are 1 to 3 % slower.  On Zen 3, with AVX2: blocks of k
 * of 384 and 768 columns are up to 3 % slower, 6 where k is 576 and b is the
 * table of a vocabulary; 512 columns, where a is packed for these and for a rest
 * of 64, 3 %.
 *
 * Sizes are in units of a real's size: one step of k, or two of bf16.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_GEMM_BLOCK_H
#define MRT_GEMM_BLOCK_H

#include "gemm/tile.h"
#include "op/matmul.h"

enum {
  K_BLOCK = MRT_VECTOR_BYTES == 32 ? 576 : 384,
  M_BLOCK = (MRT_VECTOR_BYTES == 64 ? 768 : 384) / (int)sizeof(real),
  N_BLOCK = (MRT_VECTOR_BYTES == 32 ? 2560 : 3072) / (int)sizeof(real),
};

_Static_assert((int)M_BLOCK % (int)ROWS == 0, "blocks of a are whole strips");
_Static_assert((int)K_BLOCK >= (int)MRT_ADDED_AT_ONCE,
               "a sum that is added at once is of one block");

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static inline int64_t round_up(int64_t a, int64_t b) {
  return ceil_div(a, b) * b;
}

/* Equal blocks of k; their length is a function of k alone. */
static inline int64_t k_block(int64_t k) {
  return ceil_div(k, ceil_div(k, K_BLOCK));
}

/* The most columns of a block: one of b that serves a strip of rows need not be
 * kept. */
static inline int64_t n_block(int64_t m) {
  return m <= ROWS ? 2 * COLS : N_BLOCK;
}

/* Equal blocks of columns, of whole strips. */
static inline int64_t equal_columns(int64_t m, int64_t n) {
  return round_up(ceil_div(n, ceil_div(n, n_block(m))), COLS);
}

/* Reals of a packed block of a, a multiple of 64 bytes. */
static inline int64_t a_reals(int64_t m, int64_t k) {
  return round_up(round_up(least(m, M_BLOCK), ROWS) * k, 64);
}
static inline int64_t b_reals(int64_t m, int64_t n, int64_t k) {
  return round_up(least(n, n_block(m)), LANES) * k;
}

#endif
