/* jit_values.c -- special and random numbers, and when two are the same
 *
 * SPDX-License-Identifier: MIT */
#include "base/philox.h"
#include "jit_cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint32_t random_word(uint64_t i) {
  return mrt_philox_draw((mrt_philox){ { (uint32_t)(i / 4), 0, 0, 0 } }, 42)
      .w[i % 4];
}

/* The last ones are rounded wrongly by who rounds them to float first. */
static const double specials[] = {
  0,
  -0.0,
  1,
  -1,
  NAN,
  INFINITY,
  3.4e38,
  -3.4e38,
  1e-40,
  -1e-40,
  1.2e-38,
  -INFINITY,
  0.5,
  1.5,
  -2.5,
  88.8,
  -104,
  0x1p31,
  -0x1p31,
  0x1p63,
  -0x1p63,
  255.5,
  3.25,
  -7,
  1e300,
  -1e300,
  65519,
  65520,
  0x1p31 - 1,
  464,
  449,
  2e-7,
  1 + 0x1p-11 + 0x1p-40,
  1 + 0x1p-8 + 0x1p-40,
  1 + 0x1p-4 + 0x1p-40,
  1 + 0x1p-3 + 0x1p-40,
};
static const int64_t whole[] = { 0,         1,         -1,        2,
                                 -2,        7,         -7,        255,
                                 INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN };

void chain_put(mrt_dtype d, void *data, int64_t i, int input) {
  uint64_t bits = random_word((uint64_t)i * 8 + (uint64_t)input * 2);
  bits = bits << 32 | random_word((uint64_t)i * 8 + (uint64_t)input * 2 + 1);
  const int64_t reals = MRT_COUNT(specials), wholes = MRT_COUNT(whole);
  bool special = i < reals * 20;
  double x = ldexp((double)(int32_t)bits, -31 + (int)(bits >> 32 & 15) - 8);
  if (special) x = specials[input ? i % reals : i / 20 % reals];
  int64_t k = (int64_t)bits;
  if (i < wholes * wholes)
    k = whole[input ? i % wholes : i / wholes];
  else if (i % 2)
    k %= 1000;
  switch (d) {
  case MRT_f32:
    ((float *)data)[i] = (float)x;
    break;
  case MRT_f64:
    ((double *)data)[i] = x;
    break;
  case MRT_i64:
    ((int64_t *)data)[i] = k;
    break;
  case MRT_i32:
    ((int32_t *)data)[i] = (int32_t)k;
    break;
  case MRT_u8:
    ((uint8_t *)data)[i] = (uint8_t)k;
    break;
  case MRT_bool:
    ((uint8_t *)data)[i] = bits & 1;
    break;
  default:
    memcpy((char *)data + (size_t)i * mrt_dtypes[d].bytes, &bits,
           mrt_dtypes[d].bytes);
  }
}

void *jit_values(mrt_dtype d, int64_t n, int input) {
  void *data = calloc((size_t)n + 1, 8);
  for (int64_t i = 0; data && i < n; i++) chain_put(d, data, i, input);
  return data;
}

bool chain_exact(int op) {
  static const bool near[MRT_OP_COUNT] = {
    [MRT_OP_exp] = true,        [MRT_OP_log] = true,
    [MRT_OP_sin] = true,        [MRT_OP_cos] = true,
    [MRT_OP_tanh] = true,       [MRT_OP_sigmoid] = true,
    [MRT_OP_erf] = true,        [MRT_OP_pow] = true,
    [MRT_OP_gelu] = true,       [MRT_OP_gelu_grad] = true,
    [MRT_OP_silu] = true,       [MRT_OP_randn] = true,
    [MRT_OP_silu_grad] = true,  [MRT_OP_softplus] = true,
    [MRT_OP_log1p] = true,      [MRT_OP_expm1] = true,
    [MRT_OP_exp2] = true,       [MRT_OP_log2] = true,
    [MRT_OP_log10] = true,      [MRT_OP_tan] = true,
    [MRT_OP_asin] = true,       [MRT_OP_acos] = true,
    [MRT_OP_atan] = true,       [MRT_OP_sinh] = true,
    [MRT_OP_cosh] = true,       [MRT_OP_asinh] = true,
    [MRT_OP_acosh] = true,      [MRT_OP_atanh] = true,
    [MRT_OP_erfc] = true,       [MRT_OP_erfinv] = true,
    [MRT_OP_lgamma] = true,     [MRT_OP_digamma] = true,
    [MRT_OP_polygamma] = true,  [MRT_OP_i0] = true,
    [MRT_OP_i1] = true,         [MRT_OP_sinc] = true,
    [MRT_OP_logit] = true,      [MRT_OP_xlogy] = true,
    [MRT_OP_logaddexp] = true,  [MRT_OP_logaddexp2] = true,
    [MRT_OP_elu] = true,        [MRT_OP_mish] = true,
    [MRT_OP_logsigmoid] = true, [MRT_OP_atan2] = true,
    [MRT_OP_hypot] = true,
  };
  return !near[op];
}

bool chain_same(mrt_dtype d, const void *a, const void *b, int64_t i,
                bool to_the_bit) {
  size_t size = mrt_dtypes[d].bytes;
  if (!memcmp((const char *)a + (size_t)i * size,
              (const char *)b + (size_t)i * size, size))
    return true;
  double x = mrt_number_at(d, a, i), y = mrt_number_at(d, b, i);
  if (isnan(x) && isnan(y)) return true;
  if (to_the_bit) return false;
  if (fabs(y) >= 0.9999 * mrt_dtypes[d].largest) return fabs(x) > 1e30;
  return fabs(x - y) <= mrt_dtypes[d].tolerance * (1 + fabs(y));
}
