/* array.c -- arrays of a file read into tensors
 *
 * One function for all formats, which knows how data are stored; what is packed
 * is unpacked, and compared with its checksum, when it is first read.
 *
 * SPDX-License-Identifier: MIT */
#include "io/io.h"
#include "tensor/tensor.h"

#include <string.h>

static mrt_status unpack(mrt_source *s, mrt_array *a) {
  uint8_t *block;
  size_t made;
  MRT_TRY(mrt_source_block(s, a->unpacked, &block));
  mrt_status status =
      mrt_inflate(s->ctx->allocator, a->bytes, a->packed_at, a->packed, block,
                  a->unpacked, &made, &a->crc, &s->ctx->error);
  if (!status)
    a->whole = (mrt_bytes){ block, a->unpacked, -1, a->unpacked };
  else
    mrt_release(s->ctx->allocator, block, a->unpacked);
  return status ? mrt_source_fail(s, status, "'%.80s': %s", a->name,
                                  mrt_message(s->ctx))
                : MRT_OK;
}

static mrt_status compare(mrt_array *a, uint32_t crc, mrt_error *e) {
  a->checked = crc == a->crc;
  return a->checked ? MRT_OK
                    : mrt_fail(e, MRT_EDATA, "'%.80s': its checksum is wrong",
                               a->name);
}

mrt_status mrt_array_readable(mrt_source *s, const mrt_array *a) {
  return a->stored != MRT_STORED_COUNT
             ? MRT_OK
             : mrt_source_fail(s, MRT_EDATA,
                               "'%.80s' is %s, which no tensor can be", a->name,
                               a->dtype);
}

mrt_status mrt_source_find(mrt_source *s, mrt_array *a, const mrt_bytes **in) {
  MRT_TRY(mrt_array_readable(s, a));
  mrt_status status = mrt_bytes_check(a->bytes, &s->ctx->error);
  if (status) return mrt_source_fail(s, status, "%s", mrt_message(s->ctx));
  if (a->unpacked && !a->whole.data) MRT_TRY(unpack(s, a));
  *in = a->unpacked ? &a->whole : a->bytes;
  return MRT_OK;
}

/* Compare what is stored with its checksum, once, keeping none of it. */
mrt_status mrt_array_verify(mrt_source *s, mrt_array *a) {
  uint32_t crc = 0;
  if (a->unpacked || a->checked) return MRT_OK;
  mrt_array_reader r = { a, a->bytes, &crc, &s->ctx->error };
  mrt_status status = mrt_read_past(&r, a->packed_at, a->packed);
  if (!status) status = compare(a, crc, r.error);
  return status ? mrt_source_fail(s, status, "%s", mrt_message(s->ctx))
                : MRT_OK;
}

MRT_API mrt_status mrt_source_verify(mrt_source *s, int i) {
  const mrt_bytes *in;
  mrt_array *a = &s->arrays[i];
  MRT_TRY(mrt_source_find(s, a, &in));
  return mrt_array_verify(s, a);
}

mrt_status mrt_source_tensor(mrt_source *s, const mrt_type *type,
                             mrt_tensor **out) {
  mrt_context *ctx = s->ctx;
  mrt_storage *storage;
  MRT_TRY(mrt_type_check(type, "read", &ctx->error));
  MRT_TRY(mrt_storage_new_apart(ctx, mrt_type_bytes(type), &storage));
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

/* Column by column in the file, row by row in memory: numbers are read in the
 * order of the file and put where they belong. */
static mrt_status read_fortran(const mrt_array_reader *r, uint8_t *to) {
  enum { PIECE = 1024 };
  uint64_t piece[PIECE]; /* no number is larger */
  const mrt_type *type = &r->array->type;
  size_t in = mrt_stored_bytes(r->array->stored);
  size_t out = mrt_dtypes[type->dtype].bytes;
  int64_t n = mrt_type_count(type), at[MRT_MAX_RANK] = { 0 };
  int64_t step[MRT_MAX_RANK] = { 0 }, place = 0, k;
  for (int d = type->rank; d-- > 0;)
    step[d] = d + 1 < type->rank ? step[d + 1] * type->dims[d + 1] : 1;
  for (int64_t i = 0; i < n; i += k) {
    k = n - i < PIECE ? n - i : PIECE;
    MRT_TRY(mrt_read_numbers(r, r->array->offset + (size_t)i * in, k, piece));
    for (int64_t j = 0; j < k; j++) {
      memcpy(to + (size_t)place * out, (uint8_t *)piece + (size_t)j * out, out);
      for (int d = 0; d < type->rank; d++) { /* the next, first index fastest */
        place += step[d];
        if (++at[d] < type->dims[d]) break;
        place -= step[d] * at[d];
        at[d] = 0;
      }
    }
  }
  return MRT_OK;
}

static mrt_status read_whole(const mrt_array_reader *r, uint8_t *to) {
  return r->array->fortran ? read_fortran(r, to)
                           : mrt_read_rows(r, 0, mrt_array_count(r->array), to);
}

/* The same, compared with the checksum of all that is stored: what is before
 * the numbers and behind them, too. */
static mrt_status read_checked(mrt_array *a, const mrt_bytes *in, uint8_t *to,
                               mrt_error *e) {
  uint32_t crc = 0;
  mrt_array_reader r = { a, in, &crc, e };
  size_t end = a->offset + mrt_stored_span(a->stored, mrt_type_count(&a->type));
  MRT_TRY(mrt_read_past(&r, a->packed_at, a->offset - a->packed_at));
  MRT_TRY(read_whole(&r, to));
  MRT_TRY(mrt_read_past(&r, end, a->packed_at + a->packed - end));
  return compare(a, crc, e);
}

MRT_API mrt_status mrt_source_read(mrt_source *s, int i, mrt_tensor **out) {
  mrt_array *a = &s->arrays[i];
  const mrt_bytes *in = NULL;
  mrt_tensor *t = NULL;
  mrt_error *e = &s->ctx->error;
  MRT_TRY(mrt_source_find(s, a, &in));
  MRT_TRY(mrt_source_tensor(s, &a->type, &t));
  uint8_t *to = t->storage->host;
  mrt_status status =
      a->unpacked || a->checked
          ? read_whole(&(mrt_array_reader){ a, in, NULL, e }, to)
          : read_checked(a, in, to, e);
  return mrt_source_finish(s, t, status, out);
}
