/* operands.h -- what a convolution reads and writes, of any float dtype
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CONV_OPERANDS_H
#define MRT_CONV_OPERANDS_H

#include "conv/conv.h"
#include "conv/tile.h"

#if defined(__AVX512F__) && MRT_VECTOR_BYTES == 64 && !defined(MRT_F64)
#define CONV_DOTS 1
#include <immintrin.h>
#define WITH_DOTS __attribute__((target("avx512bf16")))
typedef int32_t pair __attribute__((may_alias));
#else
#define CONV_DOTS 0
#endif

#ifndef MRT_F64
#include "units.h"

/* Both factors: `a` as units, `b` as f32, each rounded. */
typedef struct operands {
  reader a, b;
  int each; /* values of a unit */
  mrt_dtype result;
} operands;

/* Is anything not f32, or rounded?  (The bias is read by itself.) */
static inline bool is_mixed(const mrt_call *c) {
  const mrt_conv_options *o = c->options;
  return c->in[0].type.dtype != MRT_f32 || c->in[1].type.dtype != MRT_f32 ||
         c->out[0].type.dtype != MRT_f32 ||
         (o->compute != MRT_DTYPE_COUNT && mrt_is_narrow(o->compute));
}

static inline reader operand_of(const mrt_call *c, int i, bool pairs) {
  const mrt_conv_options *o = c->options;
  mrt_matrix x = { .data = c->in[i].data, .dtype = c->in[i].type.dtype };
  return reader_of(&x, 0, 1, o->compute, pairs);
}

static inline operands operands_of(const mrt_call *c) {
  const mrt_conv_options *o = c->options;
  mrt_dtype a = c->in[0].type.dtype, b = c->in[1].type.dtype;
  bool dots = CONV_DOTS && c->dots && are_bf16(a, b, o->compute);
  return (operands){ operand_of(c, 0, dots), operand_of(c, 1, false),
                     dots ? 2 : 1, c->out[0].type.dtype };
}

/* Are sums rounded after each term? */
static inline bool sums_narrow(const mrt_call *c) {
  const mrt_conv_options *o = c->options;
  return o->accumulate != MRT_DTYPE_COUNT && mrt_is_narrow(o->accumulate);
}
#define mrt_conv_narrow    MRT_CPU(conv_narrow)
#define mrt_conv_narrow_dw MRT_CPU(conv_narrow_dw)
/* The whole of conv2d, or with `back` of conv2d_dx; bias_of(c) is filled. */
void mrt_conv_narrow(const mrt_call *c, bool back);
void mrt_conv_narrow_dw(const mrt_call *c);

/* The bias as reals; narrow, it is made so in front of the scratch. */
static inline size_t bias_bytes(const mrt_call *c) {
  if (c->nin < 3 || c->in[2].type.dtype == MRT_f32) return 0;
  size_t bytes = (size_t)c->in[2].type.dims[0] * sizeof(real);
  return (bytes + 63) / 64 * 64;
}
static inline void read_bias(const mrt_call *c) {
  if (bias_bytes(c))
    mrt_widen(c->in[2].type.dtype, c->in[2].data, c->scratch,
              c->in[2].type.dims[0]);
}
#else
/* Nothing of f64 is mixed. */
typedef struct {
  int64_t bytes;
} reader;
typedef struct {
  reader a, b;
  int each;
} operands;
static inline bool sums_narrow(const mrt_call *c) { return false; }
static inline void mrt_conv_narrow(const mrt_call *c, bool back) {}
static inline void mrt_conv_narrow_dw(const mrt_call *c) {}
static inline size_t bias_bytes(const mrt_call *c) { return 0; }
static inline void read_bias(const mrt_call *c) {}
#endif

static inline const real *bias_of(const mrt_call *c) {
  if (c->nin < 3) return NULL;
  return bias_bytes(c) ? c->scratch : c->in[2].data;
}

#endif
