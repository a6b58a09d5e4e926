/* array.c -- arrays of a file read into tensors
 *
 * One function for all formats, which knows how data are stored; what is packed
 * is unpacked, and compared with its checksum, when it is first read.
 *
 * SPDX-License-Identifier: MIT */
#include "io/io.h"
#include "tensor/tensor.h"

static mrt_status unpack(mrt_source *s, mrt_array *a) {
  uint8_t *block;
  size_t made;
  MRT_TRY(mrt_source_block(s, a->unpacked, &block));
  mrt_status status =
      mrt_inflate(s->ctx->allocator, a->map->data + a->packed_at, a->packed,
                  block, a->unpacked, &made, &a->crc, &s->ctx->error);
  if (!status)
    a->whole = block;
  else
    mrt_release(s->ctx->allocator, block, a->unpacked);
  return status ? mrt_source_fail(s, status, "'%.80s': %s", a->name,
                                  mrt_message(s->ctx))
                : MRT_OK;
}

/* Compare a stored member with its checksum, once. */
static mrt_status check_member(mrt_source *s, mrt_array *a) {
  if (mrt_check_crc(a->map->data + a->packed_at, a->packed, a->crc,
                    &s->ctx->error))
    return mrt_source_fail(s, MRT_EDATA, "'%.80s': %s", a->name,
                           mrt_message(s->ctx));
  a->checked = true;
  return MRT_OK;
}

mrt_status mrt_source_find(mrt_source *s, mrt_array *a, const uint8_t **rows) {
  if (a->stored == MRT_STORED_COUNT)
    return mrt_source_fail(s, MRT_EDATA,
                           "'%.80s' is %s, which no tensor can be", a->name,
                           a->dtype);
  if (!mrt_map_whole(a->map))
    return mrt_source_fail(s, MRT_EFILE, "the file has become shorter");
  if (a->unpacked && !a->whole) MRT_TRY(unpack(s, a));
  if (!a->unpacked && !a->checked) MRT_TRY(check_member(s, a));
  *rows = (a->unpacked ? a->whole : a->map->data) + a->offset;
  return MRT_OK;
}

mrt_status mrt_source_tensor(mrt_source *s, const mrt_type *type,
                             mrt_tensor **out) {
  mrt_context *ctx = s->ctx;
  mrt_storage *storage;
  MRT_TRY(mrt_type_check(type, "read", &ctx->error));
  MRT_TRY(mrt_storage_new(ctx, mrt_type_bytes(type), &storage));
  mrt_status status = mrt_storage_fill_begin(storage);
  if (status) return mrt_storage_unref(storage), status;
  return mrt_source_wrap(s, type, storage, out);
}

mrt_status mrt_source_wrap(mrt_source *s, const mrt_type *type,
                           mrt_storage *storage, mrt_tensor **out) {
  mrt_context *ctx = s->ctx;
  mrt_tensor *t = mrt_tensor_new(ctx, type);
  if (!t) return mrt_storage_unref(storage), mrt_nomem(&ctx->error);
  t->storage = storage, t->handles = 1;
  *out = t;
  return MRT_OK;
}

mrt_status mrt_source_finish(mrt_source *s, mrt_tensor *t, mrt_status status,
                             mrt_tensor **out) {
  if (!status) status = mrt_storage_fill_end(t->storage);
  if (!status) return *out = t, MRT_OK;
  mrt_tensor_unref(t);
  return mrt_source_fail(s, status, "%s", mrt_message(s->ctx));
}

/* Column by column in the file, row by row in memory. */
static mrt_status read_fortran(const mrt_array *a, const uint8_t *from,
                               uint8_t *to, mrt_error *e) {
  const mrt_type *type = &a->type;
  size_t in = mrt_stored_bytes(a->stored), out = mrt_dtypes[type->dtype].bytes;
  int64_t n = mrt_type_count(type), at[MRT_MAX_RANK] = { 0 };
  int64_t step[MRT_MAX_RANK] = { 0 }, place = 0;
  for (int d = 0; d < type->rank; d++)
    step[d] = d ? step[d - 1] * type->dims[d - 1] : 1;
  for (int64_t i = 0; i < n; i++) {
    MRT_TRY(
        mrt_convert(a, from + (size_t)place * in, 1, to + (size_t)i * out, e));
    for (int d = type->rank; d-- > 0;) { /* the next, last index fastest */
      place += step[d];
      if (++at[d] < type->dims[d]) break;
      place -= step[d] * at[d];
      at[d] = 0;
    }
  }
  return MRT_OK;
}

mrt_status mrt_array_rows(const mrt_array *a, const uint8_t *from, int64_t n,
                          uint8_t *to, mrt_error *e) {
  int64_t width = mrt_array_width(a);
  size_t row = (size_t)width * mrt_dtypes[a->type.dtype].bytes;
  if (a->stride == (size_t)width * mrt_stored_bytes(a->stored))
    return mrt_convert(a, from, n * width, to, e);
  for (int64_t i = 0; i < n; i++, from += a->stride, to += row)
    MRT_TRY(mrt_convert(a, from, width, to, e));
  return MRT_OK;
}

MRT_API mrt_status mrt_source_read(mrt_source *s, int i, mrt_tensor **out) {
  mrt_array *a = &s->arrays[i];
  const uint8_t *from;
  mrt_tensor *t = NULL;
  MRT_TRY(mrt_source_find(s, a, &from));
  MRT_TRY(mrt_source_tensor(s, &a->type, &t));
  mrt_status status =
      a->fortran ? read_fortran(a, from, t->storage->host, &s->ctx->error)
                 : mrt_array_rows(a, from, mrt_array_count(a), t->storage->host,
                                  &s->ctx->error);
  return mrt_source_finish(s, t, status, out);
}
