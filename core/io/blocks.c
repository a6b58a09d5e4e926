/* blocks.c -- the types of GGML, and their blocks one after the other
 *
 * SPDX-License-Identifier: MIT */
#include "io/blocks.h"

#include <strings.h>

/* As ggml.h numbers them; numbers that are not here have been given up. */
#define TYPES                                                                  \
  TYPE(F32, 0, 1, 4, f32)                                                      \
  TYPE(F16, 1, 1, 2, f16)                                                      \
  TYPE(Q4_0, 2, 32, 18, q4_0)                                                  \
  TYPE(Q4_1, 3, 32, 20, q4_1)                                                  \
  TYPE(Q5_0, 6, 32, 22, q5_0)                                                  \
  TYPE(Q5_1, 7, 32, 24, q5_1)                                                  \
  TYPE(Q8_0, 8, 32, 34, q8_0)                                                  \
  TYPE(Q8_1, 9, 32, 36, COUNT)                                                 \
  TYPE(Q2_K, 10, 256, 84, q2_k)                                                \
  TYPE(Q3_K, 11, 256, 110, q3_k)                                               \
  TYPE(Q4_K, 12, 256, 144, q4_k)                                               \
  TYPE(Q5_K, 13, 256, 176, q5_k)                                               \
  TYPE(Q6_K, 14, 256, 210, q6_k)                                               \
  TYPE(Q8_K, 15, 256, 292, COUNT)                                              \
  TYPE(IQ2_XXS, 16, 256, 66, COUNT)                                            \
  TYPE(IQ2_XS, 17, 256, 74, COUNT)                                             \
  TYPE(IQ3_XXS, 18, 256, 98, COUNT)                                            \
  TYPE(IQ1_S, 19, 256, 50, COUNT)                                              \
  TYPE(IQ4_NL, 20, 32, 18, iq4_nl)                                             \
  TYPE(IQ3_S, 21, 256, 110, COUNT)                                             \
  TYPE(IQ2_S, 22, 256, 82, COUNT)                                              \
  TYPE(IQ4_XS, 23, 256, 136, iq4_xs)                                           \
  TYPE(I8, 24, 1, 1, i8)                                                       \
  TYPE(I16, 25, 1, 2, i16)                                                     \
  TYPE(I32, 26, 1, 4, i32)                                                     \
  TYPE(I64, 27, 1, 8, i64)                                                     \
  TYPE(F64, 28, 1, 8, f64)                                                     \
  TYPE(IQ1_M, 29, 256, 56, COUNT)                                              \
  TYPE(BF16, 30, 1, 2, bf16)                                                   \
  TYPE(TQ1_0, 34, 256, 54, COUNT)                                              \
  TYPE(TQ2_0, 35, 256, 66, COUNT)                                              \
  TYPE(MXFP4, 39, 32, 17, mxfp4)                                               \
  TYPE(NVFP4, 40, 64, 36, COUNT)                                               \
  TYPE(Q1_0, 41, 128, 18, COUNT)

static const mrt_ggml_type types[] = {
#define TYPE(name, code, numbers, bytes, stored)                               \
  { #name, code, numbers, bytes, MRT_STORED_##stored },
  TYPES
#undef TYPE
};

const mrt_ggml_type *mrt_ggml_coded(uint32_t code) {
  for (int i = 0; i < MRT_COUNT(types); i++)
    if ((uint32_t)types[i].code == code) return &types[i];
  return NULL;
}

const mrt_ggml_type *mrt_ggml_named(const char *name) {
  for (int i = 0; i < MRT_COUNT(types); i++)
    if (strcasecmp(types[i].name, name) == 0) return &types[i];
  return NULL;
}

#define READ(name)  [MRT_STORED_##name] = mrt_block_read_##name
#define WRITE(name) [MRT_STORED_##name] = mrt_block_write_##name
static const mrt_block_read readers[MRT_STORED_COUNT] = {
  READ(q4_0),   READ(q4_1),   READ(q5_0),  READ(q5_1), READ(q8_0),
  READ(q2_k),   READ(q3_k),   READ(q4_k),  READ(q5_k), READ(q6_k),
  READ(iq4_nl), READ(iq4_xs), READ(mxfp4),
};
static const mrt_block_write writers[MRT_STORED_COUNT] = {
  WRITE(q4_0), WRITE(q4_1), WRITE(q5_0), WRITE(q5_1),
  WRITE(q8_0), WRITE(q4_k), WRITE(q5_k), WRITE(q6_k),
};

void mrt_blocks_read(mrt_stored stored, const uint8_t *from, int64_t n,
                     float *to) {
  size_t bytes = mrt_stored_bytes(stored);
  int64_t numbers = mrt_stored_numbers(stored);
  for (int64_t i = 0; i < n; i++, from += bytes, to += numbers)
    readers[stored](from, to);
}

bool mrt_blocks_writable(mrt_stored stored) {
  return stored != MRT_STORED_COUNT && writers[stored];
}

void mrt_blocks_write(mrt_stored stored, const float *from, int64_t n,
                      uint8_t *to) {
  size_t bytes = mrt_stored_bytes(stored);
  int64_t numbers = mrt_stored_numbers(stored);
  for (int64_t i = 0; i < n; i++, from += numbers, to += bytes)
    writers[stored](from, to);
}
