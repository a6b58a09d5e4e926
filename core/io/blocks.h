/* blocks.h -- numbers in blocks of 32 or 256, as GGML packs them
 *
 * A block has a scale in f16, or scales of parts of it that are themselves
 * scaled, and the numbers as integers of 2 to 8 bits.  Blocks run along the
 * last dimension, whose size is a multiple of theirs.
 *
 *   from  ggml (quantize_row_..._ref, dequantize_row_... of ggml-quants.c),
 *         whose layout and arithmetic this has to the bit, in code of its own
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_IO_BLOCKS_H
#define MRT_IO_BLOCKS_H

#include "io/io.h"

/* A type of GGML; of those with stored = COUNT only the size is known. */
typedef struct mrt_ggml_type {
  const char *name;   /* "Q4_0" */
  int code;           /* in files */
  int numbers, bytes; /* of a block */
  mrt_stored stored;
} mrt_ggml_type;
/* NULL: there is none. */
const mrt_ggml_type *mrt_ggml_coded(uint32_t code);
/* By its name, in letters of either case. */
const mrt_ggml_type *mrt_ggml_named(const char *name);

/* Unpack n blocks. */
void mrt_blocks_read(mrt_stored stored, const uint8_t *from, int64_t n,
                     float *to);
/* Can floats be packed into it? */
bool mrt_blocks_writable(mrt_stored stored);
/* Pack n blocks of finite numbers of at most 65504, f16's largest. */
void mrt_blocks_write(mrt_stored stored, const float *from, int64_t n,
                      uint8_t *to);

/* One block of each kind. */
typedef void (*mrt_block_read)(const uint8_t *from, float *to);
typedef void (*mrt_block_write)(const float *from, uint8_t *to);
void mrt_block_read_q4_0(const uint8_t *from, float *to);
void mrt_block_read_q4_1(const uint8_t *from, float *to);
void mrt_block_read_q5_0(const uint8_t *from, float *to);
void mrt_block_read_q5_1(const uint8_t *from, float *to);
void mrt_block_read_q8_0(const uint8_t *from, float *to);
void mrt_block_read_iq4_nl(const uint8_t *from, float *to);
void mrt_block_read_mxfp4(const uint8_t *from, float *to);
void mrt_block_read_q2_k(const uint8_t *from, float *to);
void mrt_block_read_q3_k(const uint8_t *from, float *to);
void mrt_block_read_q4_k(const uint8_t *from, float *to);
void mrt_block_read_q5_k(const uint8_t *from, float *to);
void mrt_block_read_q6_k(const uint8_t *from, float *to);
void mrt_block_read_iq4_xs(const uint8_t *from, float *to);
void mrt_block_write_q4_0(const float *from, uint8_t *to);
void mrt_block_write_q4_1(const float *from, uint8_t *to);
void mrt_block_write_q5_0(const float *from, uint8_t *to);
void mrt_block_write_q5_1(const float *from, uint8_t *to);
void mrt_block_write_q8_0(const float *from, uint8_t *to);
void mrt_block_write_q4_k(const float *from, uint8_t *to);
void mrt_block_write_q5_k(const float *from, uint8_t *to);
void mrt_block_write_q6_k(const float *from, uint8_t *to);

/* The 16 values of IQ4_NL and IQ4_XS: closer where weights are denser. */
extern const int8_t mrt_iq4_values[16];
/* The scale and the minimum of part j of 8, six bits each, of Q4_K and Q5_K. */
static inline void mrt_six_bits(const uint8_t s[12], int j, uint8_t *scale,
                                uint8_t *least) {
  *scale = j < 4 ? s[j] & 63 : (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
  *least = j < 4 ? s[j + 4] & 63 : s[j + 4] >> 4 | (s[j] >> 6) << 4;
}

#endif
