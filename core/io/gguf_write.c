/* gguf_write.c -- see gguf.c; tensors are packed while they are written
 *
 * Offsets follow from types and shapes, so all that is before the numbers is
 * written first; then each tensor is computed, packed a piece at a time and let
 * go.  What is held is one tensor, and a piece.
 *
 * SPDX-License-Identifier: MIT */
#include "base/narrow.h"
#include "io/blocks.h"
#include "op/op.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PIECE = 1 << 14 }; /* numbers; whole blocks of every type */

struct mrt_gguf {
  mrt_context *ctx; /* held */
  mrt_arena arena;
  mrt_file_writer writer;
  mrt_gguf_entry *entries;
  int count, done;
  bool broken;
  uint64_t alignment;
  float numbers[PIECE];
  uint8_t packed[PIECE * 8];
};

/* ---- what is before the numbers ------------------------------------------ */

static const mrt_ggml_type *find_type(const mrt_gguf_entry *e, mrt_error *err) {
  const mrt_ggml_type *type = mrt_ggml_named(e->type);
  if (type && type->stored != MRT_STORED_COUNT &&
      (type->numbers == 1 || mrt_blocks_writable(type->stored)))
    return type;
  mrt_fail(err, MRT_EVALUE, "'%.80s': %s type '%.20s'", e->name,
           type ? "nothing here writes" : "there is no", e->type);
  return NULL;
}

static mrt_status bytes_of(const mrt_gguf_entry *entry, uint64_t *bytes,
                           mrt_error *e) {
  const mrt_ggml_type *type = find_type(entry, e);
  uint64_t n = 1;
  if (!type) return MRT_EVALUE;
  if (entry->rank < 0 || entry->rank > 4)
    return mrt_fail(e, MRT_ESHAPE, "'%.80s': %d dimensions, at most 4 wanted",
                    entry->name, entry->rank);
  for (int d = 0; d < entry->rank; d++) {
    uint64_t k = (uint64_t)entry->dims[d];
    if (entry->dims[d] < 0 || (k && n > (uint64_t)INT64_MAX / 8 / k))
      return mrt_fail(e, MRT_ESHAPE, "'%.80s': the size overflows",
                      entry->name);
    n *= k;
  }
  int64_t last = entry->rank ? entry->dims[entry->rank - 1] : 1;
  if (last % type->numbers)
    return mrt_fail(e, MRT_ESHAPE,
                    "'%.80s': rows of %lld numbers are no multiple of %s's %d",
                    entry->name, (long long)last, type->name, type->numbers);
  *bytes = n / (uint64_t)type->numbers * (uint64_t)type->bytes;
  return MRT_OK;
}

MRT_API mrt_status mrt_gguf_bytes(mrt_context *ctx, const mrt_gguf_entry *entry,
                                  uint64_t *bytes) {
  return bytes_of(entry, bytes, &ctx->error);
}

static mrt_status put_number(mrt_gguf *f, uint64_t v, int bytes) {
  uint8_t raw[8];
  for (int i = 0; i < bytes; i++) raw[i] = (uint8_t)(v >> 8 * i);
  return mrt_writer_put(&f->writer, raw, (size_t)bytes, &f->ctx->error);
}

static mrt_status put_string(mrt_gguf *f, const char *text) {
  MRT_TRY(put_number(f, strlen(text), 8));
  return mrt_writer_put(&f->writer, text, strlen(text), &f->ctx->error);
}

static mrt_status pad(mrt_gguf *f) {
  static const uint8_t zeros[64];
  uint64_t n = -f->writer.written & (f->alignment - 1), k;
  for (; n; n -= k) {
    k = n < sizeof zeros ? n : sizeof zeros;
    MRT_TRY(mrt_writer_put(&f->writer, zeros, (size_t)k, &f->ctx->error));
  }
  return MRT_OK;
}

static mrt_status put_meta(mrt_gguf *f, const mrt_meta *m) {
  MRT_TRY(put_string(f, m->key));
  if (m->list) MRT_TRY(put_number(f, 9, 4));
  MRT_TRY(put_number(f, (uint64_t)m->type, 4));
  if (m->list) MRT_TRY(put_number(f, m->count, 8));
  return mrt_writer_put(&f->writer, m->data, m->size, &f->ctx->error);
}

static mrt_status put_entry(mrt_gguf *f, const mrt_gguf_entry *entry,
                            uint64_t *offset) {
  mrt_error *e = &f->ctx->error;
  uint64_t bytes;
  MRT_TRY(bytes_of(entry, &bytes, e));
  if (strlen(entry->name) > 63)
    return mrt_fail(e, MRT_EVALUE, "'%.80s': a name of more than 63 bytes",
                    entry->name);
  MRT_TRY(put_string(f, entry->name));
  MRT_TRY(put_number(f, (uint64_t)entry->rank, 4));
  for (int d = entry->rank; d-- > 0;)
    MRT_TRY(put_number(f, (uint64_t)entry->dims[d], 8));
  MRT_TRY(put_number(f, (uint64_t)mrt_ggml_named(entry->type)->code, 4));
  MRT_TRY(put_number(f, *offset, 8));
  uint64_t mask = f->alignment - 1;
  if (bytes > (uint64_t)INT64_MAX - mask - *offset)
    return mrt_fail(e, MRT_ESHAPE, "'%.80s': the file's size overflows",
                    entry->name);
  *offset = (*offset + bytes + mask) & ~mask;
  return MRT_OK;
}

static mrt_status put_front(mrt_gguf *f, const mrt_meta *metas, int n) {
  uint64_t offset = 0;
  MRT_TRY(mrt_writer_put(&f->writer, "GGUF", 4, &f->ctx->error));
  MRT_TRY(put_number(f, 3, 4));
  MRT_TRY(put_number(f, (uint64_t)f->count, 8));
  MRT_TRY(put_number(f, (uint64_t)n, 8));
  for (int i = 0; i < n; i++) MRT_TRY(put_meta(f, &metas[i]));
  for (int i = 0; i < f->count; i++)
    MRT_TRY(put_entry(f, &f->entries[i], &offset));
  return pad(f);
}

static mrt_status find_alignment(mrt_gguf *f, const mrt_meta *metas, int n) {
  for (int i = 0; i < n; i++) {
    const mrt_meta *m = &metas[i];
    if (strcmp(m->key, "general.alignment") != 0) continue;
    uint64_t a = m->type == MRT_META_u32 && !m->list && m->size == 4
                     ? mrt_little(m->data, 4)
                     : 0;
    if (a == 0 || (a & (a - 1)) || a > 1 << 20)
      return mrt_fail(&f->ctx->error, MRT_EVALUE,
                      "general.alignment: a power of two as u32 wanted");
    f->alignment = a;
  }
  return MRT_OK;
}

/* Are its bytes those of so many values? */
static bool is_whole(const mrt_meta *m) {
  size_t each;
  if (!mrt_meta_type_name(m->type, &each)) return false;
  if (each) return m->size % each == 0 && m->size / each == m->count;
  const uint8_t *p = m->data;
  size_t left = m->size;
  for (uint64_t k = 0; k < m->count; k++) {
    uint64_t n = left < 8 ? UINT64_MAX : mrt_little(p, 8);
    if (left < 8 || n > left - 8) return false;
    p += 8 + n, left -= 8 + (size_t)n;
  }
  return left == 0;
}

static mrt_status check_metas(mrt_gguf *f, const mrt_meta *metas, int n) {
  for (int i = 0; i < n; i++)
    if (!is_whole(&metas[i]))
      return mrt_fail(&f->ctx->error, MRT_EVALUE,
                      "'%.80s': its bytes are not %llu values", metas[i].key,
                      (unsigned long long)metas[i].count);
  return MRT_OK;
}

static mrt_status copy_entries(mrt_gguf *f, const mrt_gguf_entry *entries,
                               int n) {
  f->entries = MRT_NEW(&f->arena, mrt_gguf_entry, n + 1);
  if (!f->entries) return mrt_nomem(&f->ctx->error);
  for (int i = 0; i < n; i++) {
    f->entries[i] = entries[i];
    f->entries[i].name = mrt_arena_strdup(&f->arena, entries[i].name);
    f->entries[i].type = mrt_arena_strdup(&f->arena, entries[i].type);
    if (!f->entries[i].name || !f->entries[i].type)
      return mrt_nomem(&f->ctx->error);
  }
  f->count = n;
  return MRT_OK;
}

MRT_API mrt_status mrt_gguf_new(mrt_context *ctx, const char *path,
                                const mrt_gguf_entry *entries, int n,
                                const mrt_meta *metas, int meta_count,
                                mrt_gguf **out) {
  mrt_gguf *f = mrt_calloc(ctx->allocator, 1, sizeof *f);
  if (!f) return mrt_nomem(&ctx->error);
  mrt_context_ref(ctx);
  f->ctx = ctx, f->alignment = 32, f->writer.partial.file = -1;
  mrt_arena_init(&f->arena, ctx->allocator);
  mrt_status status = copy_entries(f, entries, n);
  if (!status) status = check_metas(f, metas, meta_count);
  if (!status) status = find_alignment(f, metas, meta_count);
  if (!status) status = mrt_writer_open(&f->writer, path, &ctx->error);
  if (!status) status = put_front(f, metas, meta_count);
  if (status) return mrt_gguf_free(f), status;
  *out = f;
  return MRT_OK;
}

/* ---- the numbers --------------------------------------------------------- */

/* n elements from `first` on, as floats. */
static mrt_status to_floats(mrt_dtype dtype, const uint8_t *data, size_t first,
                            size_t n, float *to) {
  data += first * mrt_dtypes[dtype].bytes;
  for (size_t i = 0; i < n; i++) {
    uint16_t h;
    double wide;
    if (dtype == MRT_f32)
      memcpy(to + i, data + i * 4, 4);
    else if (dtype == MRT_f64)
      memcpy(&wide, data + i * 8, 8), to[i] = (float)wide;
    else if (dtype == MRT_f8_e4m3)
      to[i] = f8_e4m3_to_float(data[i]);
    else if (dtype == MRT_f8_e5m2)
      to[i] = f8_e5m2_to_float(data[i]);
    else
      memcpy(&h, data + i * 2, 2),
          to[i] = dtype == MRT_f16 ? f16_to_float(h) : bf16_to_float(h);
  }
  return MRT_OK;
}

static mrt_status check_floats(const mrt_gguf_entry *entry, mrt_stored stored,
                               const float *x, size_t n, mrt_error *e) {
  bool any = stored == MRT_STORED_f32 || stored == MRT_STORED_bf16;
  for (size_t i = 0; !any && i < n; i++) {
    if (fabsf(x[i]) <= 65504) continue;
    char text[32] = "NaN";
    if (x[i] == x[i]) snprintf(text, sizeof text, "%g", (double)x[i]);
    return mrt_fail(e, MRT_EVALUE, "'%.80s' has %s, which %s cannot hold",
                    entry->name, text, entry->type);
  }
  return MRT_OK;
}

static size_t pack(mrt_stored stored, const float *x, size_t n, uint8_t *to) {
  for (size_t i = 0; i < n; i++) {
    if (stored == MRT_STORED_f32) {
      memcpy(to + i * 4, x + i, 4);
    } else if (stored == MRT_STORED_f16 || stored == MRT_STORED_bf16) {
      uint16_t h =
          stored == MRT_STORED_f16 ? float_to_f16(x[i]) : float_to_bf16(x[i]);
      memcpy(to + i * 2, &h, 2);
    }
  }
  if (mrt_blocks_writable(stored))
    mrt_blocks_write(stored, x, (int64_t)n / mrt_stored_numbers(stored), to);
  return mrt_stored_span(stored, (int64_t)n);
}

static mrt_status put_packed(mrt_gguf *f, const mrt_gguf_entry *entry,
                             mrt_stored stored, mrt_dtype dtype,
                             const uint8_t *data, size_t n) {
  mrt_error *e = &f->ctx->error;
  for (size_t at = 0, k; at < n; at += k) {
    k = n - at < PIECE ? n - at : PIECE;
    MRT_TRY(to_floats(dtype, data, at, k, f->numbers));
    MRT_TRY(check_floats(entry, stored, f->numbers, k, e));
    size_t size = pack(stored, f->numbers, k, f->packed);
    MRT_TRY(mrt_writer_put(&f->writer, f->packed, size, e));
  }
  return MRT_OK;
}

static mrt_status check_tensor(const mrt_gguf_entry *entry, mrt_stored stored,
                               const mrt_type *type, mrt_error *e) {
  mrt_type wanted = { .dtype = type->dtype, .rank = entry->rank };
  memcpy(wanted.dims, entry->dims, sizeof wanted.dims);
  bool same = type->rank == entry->rank;
  for (int d = 0; same && d < type->rank; d++)
    same = type->dims[d] == entry->dims[d];
  if (!same)
    return mrt_fail(e, MRT_ESHAPE, "'%.80s' is %s, %s wanted", entry->name,
                    mrt_show(type).s, mrt_show(&wanted).s);
  bool packs = stored == MRT_STORED_f32 || stored == MRT_STORED_f16 ||
               stored == MRT_STORED_bf16 || mrt_blocks_writable(stored);
  if (mrt_stored_dtype(stored) != type->dtype &&
      !(packs && mrt_is_float(type->dtype)))
    return mrt_fail(e, MRT_EDTYPE, "'%.80s' is %s, which is not written as %s",
                    entry->name, mrt_dtype_name(type->dtype), entry->type);
  return MRT_OK;
}

static mrt_status put_numbers(mrt_gguf *f, const mrt_gguf_entry *entry,
                              mrt_tensor *t) {
  mrt_error *e = &f->ctx->error;
  mrt_stored stored = mrt_ggml_named(entry->type)->stored;
  const mrt_type *type = mrt_tensor_type(t);
  bool as_is = mrt_stored_dtype(stored) == type->dtype &&
               mrt_stored_numbers(stored) == 1 &&
               mrt_stored_bytes(stored) == mrt_dtypes[type->dtype].bytes;
  MRT_TRY(as_is ? mrt_writer_put(&f->writer, mrt_tensor_data(t),
                                 mrt_type_bytes(type), e)
                : put_packed(f, entry, stored, type->dtype, mrt_tensor_data(t),
                             (size_t)mrt_type_count(type)));
  return pad(f);
}

MRT_API mrt_status mrt_gguf_put(mrt_gguf *f, mrt_tensor *t) {
  mrt_error *e = &f->ctx->error;
  if (f->broken || f->done == f->count)
    return mrt_fail(e, MRT_ESTATE, "there is no tensor left to write");
  const mrt_gguf_entry *entry = &f->entries[f->done];
  mrt_stored stored = mrt_ggml_named(entry->type)->stored;
  MRT_TRY(check_tensor(entry, stored, mrt_tensor_type(t), e));
  MRT_TRY(mrt_tensors_read(f->ctx, &t, 1));
  mrt_status status = put_numbers(f, entry, t);
  mrt_tensor_leave(t);
  f->broken = status != MRT_OK;
  f->done += !status;
  return status;
}

MRT_API mrt_status mrt_gguf_commit(mrt_gguf *f) {
  mrt_error *e = &f->ctx->error;
  if (f->broken || f->done < f->count)
    return mrt_fail(e, MRT_ESTATE, "%d of %d tensors are written", f->done,
                    f->count);
  return mrt_writer_commit(&f->writer, e);
}

MRT_API void mrt_gguf_free(mrt_gguf *f) {
  if (!f) return;
  mrt_context *ctx = f->ctx;
  mrt_writer_close(&f->writer);
  mrt_arena_free(&f->arena);
  mrt_release(ctx->allocator, f, sizeof *f);
  mrt_context_unref(ctx);
}
