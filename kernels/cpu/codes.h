/* codes.h -- matrices kept in 8 and 4 bits, for who multiplies with them
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CODES_H
#define MRT_CODES_H

#include "cpu.h"
#include "gemm/few.h"
#include "op/quantize.h"

/* What codes of 4 bits stand for, and the two in a byte. */
typedef struct mrt_code_table {
  real one[16], two[256][2];
  uint8_t bytes[sizeof(real)][16]; /* bytes[p][code]: byte p of one[code] */
} mrt_code_table;

/* A quantised matrix. */
typedef struct mrt_codes {
  const mrt_quantize_options *o;
  const mrt_code_table *values; /* of nf4 and fp4 */
  const uint8_t *codes;
  const void *scales;
  bool short_scales;     /* f16 */
  int64_t bytes, blocks; /* of a row */
} mrt_codes;

#define mrt_code_values   MRT_CPU(code_values)
#define mrt_codes_of      MRT_CPU(codes_of)
#define mrt_codes_bytes   MRT_CPU(codes_bytes)
#define mrt_codes_prepare MRT_CPU(codes_prepare)
#define mrt_codes_take    MRT_CPU(codes_take)
#define mrt_codes_fill    MRT_CPU(codes_fill)
#define mrt_codes_add     MRT_CPU(codes_add)
#define mrt_codes_int8    MRT_CPU(codes_int8)

/* The 16 values of nf4 or fp4. */
const double *mrt_code_values(int kind);
/* Inputs `input` and the next of a call that has mrt_quantize_options, and at
 * the beginning of its scratch mrt_codes_bytes for a table. */
mrt_codes mrt_codes_of(const mrt_call *c, int input);
size_t mrt_codes_bytes(const mrt_call *c);
/* Write the table; before anything is taken. */
void mrt_codes_prepare(const mrt_call *c);

/* Numbers [from, to) of a row of mrt_codes; for nf4 and fp4 `from` is even. */
void mrt_codes_take(const void *codes, int64_t row, int64_t from, int64_t to,
                    real *w);
/* Those of a piece of MRT_FEW_VECS vectors of columns, turned:
 * mrt_few_product.fill.  The same bits. */
void mrt_codes_fill(const mrt_few_product *f, int64_t j, int64_t p, real *to);
/* Where it can, add steps [p, end) of one row's product: mrt_few_product.add. */
bool mrt_codes_add(const mrt_few_product *f, int64_t j, int64_t p, int64_t end,
                   const real *x, real *sum);

#ifndef MRT_F64
#define mrt_codes_int8_bytes MRT_CPU(codes_int8_bytes)
/* quantized_linear with activations in int8, and its scratch. */
void mrt_codes_int8(const mrt_call *c);
size_t mrt_codes_int8_bytes(const mrt_call *c);
#endif

#endif
