/* sums.c -- see sums.h
 *
 * SPDX-License-Identifier: MIT */
#include "io/sums.h"
#include "tensor/tensor.h"

#include <string.h>
#include <zlib.h>

enum { DIGITS = 8 };
static const char front[] = "{\"__metadata__\":{\"" MRT_SUMS_KEY "\":\"";
static const char zeros[] = "00000000";
static const char hex[] = "0123456789abcdef";

size_t mrt_sums_place(void) { return sizeof front - 1; }

size_t mrt_sums_size(int n) { return DIGITS * ((size_t)n + 1); }

static void put(char *at, uint32_t crc) {
  for (int i = 0; i < DIGITS; i++) at[i] = hex[crc >> (28 - 4 * i) & 15];
}

static bool get(const char *at, uint32_t *crc) {
  *crc = 0;
  for (int i = 0; i < DIGITS; i++) {
    const char *digit = at[i] ? strchr(hex, at[i]) : NULL;
    if (!digit) return false;
    *crc = *crc << 4 | (uint32_t)(digit - hex);
  }
  return true;
}

/* The header's own, with zeros where it stands. */
static uint32_t sum_of(const uint8_t *header, size_t size) {
  size_t at = mrt_sums_place();
  uint32_t crc = (uint32_t)crc32_z(0, header, at);
  crc = (uint32_t)crc32_z(crc, (const Bytef *)zeros, DIGITS);
  return (uint32_t)crc32_z(crc, header + at + DIGITS, size - at - DIGITS);
}

void mrt_sums_fill(char *header, size_t size, const uint32_t *crcs, int n) {
  char *at = header + mrt_sums_place();
  for (int i = 0; i < n; i++) put(at + (size_t)(i + 1) * DIGITS, crcs[i]);
  put(at, sum_of((const uint8_t *)header, size));
}

mrt_status mrt_sums_read(mrt_source *s, const uint8_t *header, size_t size,
                         const char *digits) {
  size_t place = mrt_sums_place(), n = strlen(digits);
  uint32_t crc = 0;
  bool good = n == mrt_sums_size(s->count) && size >= place + n &&
              memcmp(header, front, place) == 0 &&
              memcmp(header + place, digits, n) == 0 && get(digits, &crc) &&
              crc == sum_of(header, size);
  for (int i = 0; i < s->count && good; i++) {
    mrt_array *a = &s->arrays[i];
    good = get(digits + (size_t)(i + 1) * DIGITS, &a->crc);
    a->checked = false, a->late = true;
  }
  return good ? MRT_OK
              : mrt_source_fail(s, MRT_EDATA,
                                "its header's checksum is wrong: it is "
                                "damaged, or a program that changed it has "
                                "kept '" MRT_SUMS_KEY "' in its metadata");
}
