/* numbers.c -- stored numbers into memory, from wherever they are
 *
 * Numbers that memory has as the file has them are read straight to where they
 * go; others pass through a piece of the stack.  Rows that lie apart are read
 * together with what is between them, where that is little.
 *
 * SPDX-License-Identifier: MIT */
#include "io/io.h"

#include <zlib.h>

enum { PIECE = 1 << 16 };

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

static mrt_status take(const mrt_array_reader *r, size_t at, void *to,
                       size_t n) {
  MRT_TRY(mrt_bytes_read(r->bytes, at, to, n, r->error));
  if (r->crc) *r->crc = (uint32_t)crc32_z(*r->crc, to, n);
  return MRT_OK;
}

mrt_status mrt_read_past(const mrt_array_reader *r, size_t at, size_t n) {
  uint8_t piece[PIECE];
  for (size_t k; n; at += k, n -= k) {
    k = least(n, PIECE);
    MRT_TRY(take(r, at, piece, k));
  }
  return MRT_OK;
}

/* What is summed up is read in pieces, which then lie in a cache. */
static mrt_status copy(const mrt_array_reader *r, size_t at, int64_t n,
                       uint8_t *to) {
  size_t left = mrt_stored_span(r->array->stored, n), done = 0;
  size_t most = r->crc ? (size_t)4 * PIECE : left;
  for (size_t k; done < left; done += k) {
    k = least(left - done, most);
    MRT_TRY(take(r, at + done, to + done, k));
  }
  return mrt_check_numbers(r->array, to, n, r->error);
}

static mrt_status convert(const mrt_array_reader *r, size_t at, int64_t n,
                          uint8_t *to) {
  uint8_t piece[PIECE];
  const mrt_array *a = r->array;
  size_t out = mrt_dtypes[a->type.dtype].bytes, in;
  int64_t most = (int64_t)(PIECE / mrt_stored_bytes(a->stored)) *
                 mrt_stored_numbers(a->stored);
  for (int64_t k; n; n -= k, at += in, to += (size_t)k * out) {
    k = n < most ? n : most;
    in = mrt_stored_span(a->stored, k);
    MRT_TRY(take(r, at, piece, in));
    MRT_TRY(mrt_convert(a, piece, k, to, r->error));
  }
  return MRT_OK;
}

mrt_status mrt_read_numbers(const mrt_array_reader *r, size_t at, int64_t n,
                            void *to) {
  return (mrt_stored_as_is(r->array) ? copy : convert)(r, at, n, to);
}

/* Rows of which several fit into a piece, with what is between them. */
static mrt_status read_apart(const mrt_array_reader *r, size_t at, int64_t n,
                             uint8_t *to) {
  uint8_t piece[PIECE];
  const mrt_array *a = r->array;
  int64_t width = mrt_array_width(a), most = (int64_t)(PIECE / a->stride);
  size_t in = mrt_stored_span(a->stored, width);
  size_t out = (size_t)width * mrt_dtypes[a->type.dtype].bytes;
  for (int64_t k; n; n -= k, at += (size_t)k * a->stride) {
    k = n < most ? n : most;
    MRT_TRY(take(r, at, piece, (size_t)(k - 1) * a->stride + in));
    for (int64_t i = 0; i < k; i++, to += out)
      MRT_TRY(
          mrt_convert(a, piece + (size_t)i * a->stride, width, to, r->error));
  }
  return MRT_OK;
}

mrt_status mrt_read_rows(const mrt_array_reader *r, int64_t first, int64_t n,
                         uint8_t *to) {
  const mrt_array *a = r->array;
  int64_t width = mrt_array_width(a);
  size_t at = a->offset + (size_t)first * a->stride;
  size_t out = (size_t)width * mrt_dtypes[a->type.dtype].bytes;
  if (a->stride == mrt_stored_span(a->stored, width))
    return mrt_read_numbers(r, at, n * width, to);
  if (a->stride <= PIECE / 2) return read_apart(r, at, n, to);
  for (int64_t i = 0; i < n; i++, at += a->stride, to += out)
    MRT_TRY(mrt_read_numbers(r, at, width, to));
  return MRT_OK;
}

int64_t mrt_wish_run(const mrt_wish *w, int64_t k) {
  int64_t first = k++;
  while (k < w->n && w->rows[k] == w->rows[k - 1] + w->each) k++;
  return k - first;
}
