/* narrow_rows.h -- rows of floats of any dtype as reals, and back
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_NARROW_ROWS_H
#define MRT_NARROW_ROWS_H

#include "cpu.h"
#include "narrow.h"

#define AS_IS(x) (x)
#define ROW(name, T, load, store)                                              \
  static void load_##name(real *restrict to, const void *from, int64_t n) {    \
    const T *restrict x = from;                                                \
    for (int64_t i = 0; i < n; i++) to[i] = load(x[i]);                        \
  }                                                                            \
  static void store_##name(void *to, const real *restrict x, int64_t n) {      \
    T *restrict y = to;                                                        \
    for (int64_t i = 0; i < n; i++) y[i] = store(x[i]);                        \
  }
ROW(real, real, AS_IS, AS_IS)
ROW(f16, uint16_t, f16_to_float, float_to_f16)
ROW(bf16, uint16_t, bf16_to_float, float_to_bf16)
ROW(f8_e4m3, uint8_t, f8_e4m3_to_float, float_to_f8_e4m3)
ROW(f8_e5m2, uint8_t, f8_e5m2_to_float, float_to_f8_e5m2)
#undef ROW
#undef AS_IS

static const struct {
  void (*load)(real *to, const void *from, int64_t n);
  void (*store)(void *to, const real *from, int64_t n);
} row_formats[MRT_DTYPE_COUNT] = {
  [MRT_REAL] = { load_real, store_real },
  [MRT_f16] = { load_f16, store_f16 },
  [MRT_bf16] = { load_bf16, store_bf16 },
  [MRT_f8_e4m3] = { load_f8_e4m3, store_f8_e4m3 },
  [MRT_f8_e5m2] = { load_f8_e5m2, store_f8_e5m2 },
};

/* n numbers `step` elements apart. */
static inline void row_load(real *to, const void *from, mrt_dtype dtype,
                            int64_t step, int64_t n) {
  if (step == 1) {
    row_formats[dtype].load(to, from, n);
    return;
  }
  int64_t bytes = step * (int64_t)mrt_dtypes[dtype].bytes;
  for (int64_t i = 0; i < n; i++)
    row_formats[dtype].load(to + i, (const char *)from + i * bytes, 1);
}
static inline void row_store(void *to, mrt_dtype dtype, const real *from,
                             int64_t n) {
  row_formats[dtype].store(to, from, n);
}
/* As row_load, to bf16. */
static inline void row_load_bf16(uint16_t *to, const void *from,
                                 mrt_dtype dtype, int64_t step, int64_t n) {
  enum { CHUNK = 64 };
  if (dtype == MRT_bf16 && step == 1) {
    memcpy(to, from, (size_t)n * sizeof *to);
    return;
  }
  int64_t bytes = step * (int64_t)mrt_dtypes[dtype].bytes;
  for (int64_t i = 0; i < n; i += CHUNK) {
    real chunk[CHUNK];
    int64_t count = n - i < CHUNK ? n - i : CHUNK;
    row_load(chunk, (const char *)from + i * bytes, dtype, step, count);
    store_bf16(to + i, chunk, count);
  }
}

#endif
