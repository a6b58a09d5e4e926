/* idx.c -- MNIST's files
 *
 *   0, 0, type, rank | rank sizes, u32 | the numbers; all big-endian
 *
 *   from  yann.lecun.com/exdb/mnist
 *
 * SPDX-License-Identifier: MIT */
#include "io/io.h"
#include "tensor/tensor.h"

static const struct {
  const char *name;
  uint8_t code;
  mrt_stored stored;
} types[] = {
  { "u8", 0x08, MRT_STORED_u8 },   { "i8", 0x09, MRT_STORED_i8 },
  { "i16", 0x0b, MRT_STORED_i16 }, { "i32", 0x0c, MRT_STORED_i32 },
  { "f32", 0x0d, MRT_STORED_f32 }, { "f64", 0x0e, MRT_STORED_f64 },
};

enum { LONGEST_HEADER = 4 + 4 * MRT_MAX_RANK };

static mrt_status read_header(mrt_source *s, mrt_array *a) {
  uint8_t data[LONGEST_HEADER];
  size_t size;
  MRT_TRY(mrt_gunzip_head(s, data, sizeof data, &size));
  if (size < 4 || data[0] || data[1])
    return mrt_source_fail(s, MRT_EDATA, "not an idx file");
  for (int i = 0; i < MRT_COUNT(types); i++)
    if (types[i].code == data[2])
      a->stored = types[i].stored, a->dtype = types[i].name;
  a->type.rank = data[3];
  if (a->stored == MRT_STORED_COUNT || a->type.rank > MRT_MAX_RANK)
    return mrt_source_fail(s, MRT_EDATA,
                           "idx type 0x%02x with %d dimensions, 0x08 to 0x0e "
                           "and at most %d wanted",
                           data[2], a->type.rank, (int)MRT_MAX_RANK);
  a->offset = 4 + 4 * (size_t)a->type.rank;
  if (size < a->offset) return mrt_source_fail(s, MRT_EDATA, "cut off");
  for (int d = 0; d < a->type.rank; d++)
    a->type.dims[d] = (int64_t)mrt_big(data + 4 + 4 * d, 4);
  return MRT_OK;
}

mrt_status mrt_parse_idx(mrt_source *s) {
  mrt_array *a = mrt_source_add(s, "array");
  if (!a) return mrt_nomem(&s->ctx->error);
  a->big_endian = true;
  MRT_TRY(read_header(s, a));
  MRT_TRY(mrt_array_check(s, a, SIZE_MAX));
  size_t wanted =
      (size_t)mrt_type_count(&a->type) * mrt_stored_bytes(a->stored);
  MRT_TRY(mrt_gunzip(s, a->offset + wanted));
  MRT_TRY(mrt_array_check(s, a, s->bytes.size));
  if (s->bytes.size - a->offset != wanted)
    return mrt_source_fail(s, MRT_EDATA, "%zu bytes of numbers, %zu wanted",
                           s->bytes.size - a->offset, wanted);
  return MRT_OK;
}
