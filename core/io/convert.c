/* convert.c -- stored numbers to numbers in memory
 *
 * SPDX-License-Identifier: MIT */
#include "io/blocks.h"
#include "io/io.h"

#include <string.h>

static const struct {
  size_t bytes;
  int64_t numbers;
  mrt_dtype as;
} kinds[] = {
#define STORED(name, bytes, numbers, as) { bytes, numbers, MRT_##as },
  MRT_STORED_KINDS
#undef STORED
  { 1, 1, MRT_DTYPE_COUNT },
};

size_t mrt_stored_bytes(mrt_stored stored) { return kinds[stored].bytes; }

int64_t mrt_stored_numbers(mrt_stored stored) { return kinds[stored].numbers; }

size_t mrt_stored_span(mrt_stored stored, int64_t n) {
  return (size_t)(n / kinds[stored].numbers) * kinds[stored].bytes;
}

mrt_dtype mrt_stored_dtype(mrt_stored stored) { return kinds[stored].as; }

/* Numbers of one width, byte order aside. */
static void swap(const uint8_t *from, int64_t n, size_t width, uint8_t *to) {
  for (int64_t i = 0; i < n; i++, from += width, to += width)
    for (size_t b = 0; b < width; b++) to[b] = from[width - 1 - b];
}

bool mrt_stored_as_is(const mrt_array *a) {
  return kinds[a->stored].numbers == 1 &&
         kinds[a->stored].bytes == mrt_dtypes[kinds[a->stored].as].bytes &&
         !(a->big_endian && kinds[a->stored].bytes > 1);
}

mrt_status mrt_check_numbers(const mrt_array *a, const uint8_t *from, int64_t n,
                             mrt_error *e) {
  if (a->stored != MRT_STORED_bool) return MRT_OK;
  for (int64_t i = 0; i < n; i++)
    if (from[i] > 1)
      return mrt_fail(e, MRT_EDATA, "'%.80s': a bool is %d, 0 or 1 wanted",
                      a->name, from[i]);
  return MRT_OK;
}

/* Read integers that have no dtype of their own. */
static void widen(const mrt_array *a, const uint8_t *from, int64_t n,
                  void *to) {
  int width = (int)kinds[a->stored].bytes;
  int32_t *i32 = to;
  int64_t *i64 = to;
  for (int64_t i = 0; i < n; i++, from += width) {
    uint64_t v = a->big_endian ? mrt_big(from, width) : mrt_little(from, width);
    if (a->stored == MRT_STORED_u32)
      i64[i] = (int64_t)v;
    else if (a->stored == MRT_STORED_u16)
      i32[i] = (int32_t)v;
    else if (a->stored == MRT_STORED_i16)
      i32[i] = (int16_t)v;
    else
      i32[i] = (int8_t)v;
  }
}

mrt_status mrt_convert(const mrt_array *a, const uint8_t *from, int64_t n,
                       void *to, mrt_error *e) {
  size_t width = kinds[a->stored].bytes;
  int64_t block = kinds[a->stored].numbers;
  if (block > 1) return mrt_blocks_read(a->stored, from, n / block, to), MRT_OK;
  if (width != mrt_dtypes[kinds[a->stored].as].bytes)
    return widen(a, from, n, to), MRT_OK;
  MRT_TRY(mrt_check_numbers(a, from, n, e));
  if (a->big_endian && width > 1)
    swap(from, n, width, to);
  else if (n)
    memcpy(to, from, (size_t)n * width);
  return MRT_OK;
}
