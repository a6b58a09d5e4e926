/* codes.c -- blocks of a file as codes and scales, which are never unpacked
 *
 *   Q4_0   a scale, f16; 16 bytes, whose byte j has numbers j and j + 16
 *   Q8_0   a scale, f16; 32 bytes
 *
 * The operators on codes of these kinds have the same bytes, scales apart from
 * codes; so each block is cut in two.  A part of the file is in memory beside
 * what is made of it.
 *
 * SPDX-License-Identifier: MIT */
#include "io/blocks.h"

#include "tensor/tensor.h"

#include <string.h>

enum { BLOCK = 32, SCALE = 2, PART = 4096 }; /* blocks that are read at once */

/* Bytes of the codes of a block; 0: the type has none. */
static size_t code_bytes(const mrt_array *a) {
  if (a->stored == MRT_STORED_q4_0) return BLOCK / 2;
  return a->stored == MRT_STORED_q8_0 ? BLOCK : 0;
}

static void cut(const uint8_t *from, size_t n, size_t each, uint8_t *codes,
                uint8_t *scales) {
  for (size_t i = 0; i < n; i++, from += SCALE + each) {
    memcpy(scales + i * SCALE, from, SCALE);
    memcpy(codes + i * each, from + SCALE, each);
  }
}

static mrt_status read_blocks(mrt_source *s, const mrt_array *a, size_t each,
                              uint8_t *codes, uint8_t *scales) {
  size_t width = SCALE + each, blocks = a->packed / width;
  uint8_t *part;
  MRT_TRY(mrt_source_block(s, PART * width, &part));
  mrt_status status = MRT_OK;
  for (size_t at = 0, n; at < blocks && !status; at += n) {
    n = blocks - at < PART ? blocks - at : PART;
    status = mrt_source_take(s, a->packed_at + at * width, part, n * width);
    if (!status) cut(part, n, each, codes + at * each, scales + at * SCALE);
  }
  mrt_release(s->ctx->allocator, part, PART * width);
  return status;
}

MRT_API mrt_status mrt_source_read_codes(mrt_source *s, int i,
                                         mrt_tensor **codes,
                                         mrt_tensor **scales) {
  const mrt_array *a = &s->arrays[i];
  size_t each = code_bytes(a);
  *codes = *scales = NULL;
  if (!each || !a->type.rank)
    return mrt_source_fail(s, MRT_EVALUE,
                           "'%.80s' is no matrix of Q4_0 or Q8_0", a->name);
  int last = a->type.rank - 1;
  mrt_type c = a->type, w = a->type;
  c.dtype = MRT_u8, w.dtype = MRT_f16;
  w.dims[last] = a->type.dims[last] / BLOCK;
  c.dims[last] = w.dims[last] * (int64_t)each;
  mrt_tensor *x = NULL, *y = NULL;
  MRT_TRY(mrt_source_tensor(s, &c, &x));
  mrt_status status = mrt_source_tensor(s, &w, &y);
  if (!status)
    status = read_blocks(s, a, each, x->storage->host, y->storage->host);
  status = mrt_source_finish(s, x, status, codes);
  if (status) {
    mrt_tensor_unref(y);
    return status;
  }
  status = mrt_source_finish(s, y, MRT_OK, scales);
  if (status) mrt_tensor_unref(*codes), *codes = NULL;
  return status;
}
