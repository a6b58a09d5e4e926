/* source.c -- open a file of arrays, list them, read them
 *
 * SPDX-License-Identifier: MIT */
#include "io/io.h"
#include "tensor/tensor.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- formats ------------------------------------------------------------- */

static const struct {
  const char *name, *ending, *doc;
  mrt_parse parse;
} formats[] = {
#define FORMAT(name, ending, doc) { #name, ending, doc, mrt_parse_##name },
#include "formats.def"
#undef FORMAT
};

MRT_API const char *mrt_format_name(int i, const char **ending,
                                    const char **doc) {
  if (i < 0 || i >= MRT_COUNT(formats)) return NULL;
  if (ending) *ending = formats[i].ending;
  if (doc) *doc = formats[i].doc;
  return formats[i].name;
}

static mrt_parse find_format(const char *name) {
  for (int i = 0; i < MRT_COUNT(formats); i++)
    if (strcmp(formats[i].name, name) == 0) return formats[i].parse;
  return NULL;
}

/* ---- what formats call --------------------------------------------------- */

mrt_status mrt_source_fail(mrt_source *s, mrt_status status, const char *fmt,
                           ...) {
  char text[sizeof s->ctx->error.message];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  return mrt_fail(&s->ctx->error, status, "%s: %s", s->path, text);
}

mrt_array *mrt_source_add(mrt_source *s, const char *name) {
  if (!MRT_PUSH_ROOM(&s->arena, s->arrays, s->count, s->room)) return NULL;
  char *copy = mrt_arena_strdup(&s->arena, name);
  if (!copy) return NULL;
  s->arrays[s->count] = (mrt_array){
    .name = copy, .map = &s->map, .stored = MRT_STORED_COUNT, .checked = true
  };
  return &s->arrays[s->count++];
}

mrt_status mrt_source_add_pair(mrt_source *s, const char *key,
                               const char *value) {
  if (!MRT_PUSH_ROOM(&s->arena, s->pairs, s->pair_count, s->pair_room))
    return mrt_nomem(&s->ctx->error);
  mrt_pair p = { mrt_arena_strdup(&s->arena, key),
                 mrt_arena_strdup(&s->arena, value) };
  if (!p.key || !p.value) return mrt_nomem(&s->ctx->error);
  s->pairs[s->pair_count++] = p;
  return MRT_OK;
}

int64_t mrt_array_count(const mrt_array *a) {
  return a->type.rank ? a->type.dims[0] : 1;
}

/* Dims were checked to multiply without overflow. */
int64_t mrt_array_width(const mrt_array *a) {
  int64_t n = 1;
  for (int i = 1; i < a->type.rank; i++) n *= a->type.dims[i];
  return n;
}

mrt_status mrt_array_check(mrt_source *s, mrt_array *a, size_t limit) {
  mrt_error why;
  a->type.dtype = mrt_stored_dtype(a->stored);
  if (mrt_type_check(&a->type, a->name, &why))
    return mrt_source_fail(s, MRT_EDATA, "%s", why.message);
  size_t row = (size_t)mrt_array_width(a) * mrt_stored_bytes(a->stored);
  size_t rows = (size_t)mrt_array_count(a);
  if (!a->stride) a->stride = row;
  bool fits = a->offset <= limit;
  if (fits && rows && row)
    fits = row <= limit - a->offset &&
           (rows - 1) <= (limit - a->offset - row) / a->stride;
  if (!fits)
    return mrt_source_fail(s, MRT_EDATA,
                           "'%.80s' wants %zu bytes for each of %zu rows from "
                           "byte %zu on, there are %zu bytes in all",
                           a->name, row, rows, a->offset, limit);
  return MRT_OK;
}

mrt_status mrt_source_block(mrt_source *s, size_t nbytes, uint8_t **out) {
  size_t available = mrt_available(s->ctx);
  if (available && nbytes > available)
    return mrt_source_fail(s, MRT_ENOMEM,
                           "unpacked it is %zu bytes, %zu are available",
                           nbytes, available);
  *out = mrt_resize(s->ctx->allocator, NULL, 0, nbytes);
  return *out ? MRT_OK
              : mrt_source_fail(s, MRT_ENOMEM, "no memory for %zu bytes",
                                nbytes);
}

/* ---- opening and closing ------------------------------------------------- */

MRT_API void mrt_source_free(mrt_source *s) {
  if (!s) return;
  mrt_context *ctx = s->ctx;
  const mrt_allocator *a = ctx->allocator;
  mrt_ahead_stop(s->ahead, a);
  for (int i = 0; i < s->count; i++)
    if (s->arrays[i].map == &s->map)
      mrt_release(a, s->arrays[i].whole, s->arrays[i].unpacked);
  for (mrt_source *p = s->parts, *next; p; p = next) {
    next = p->next;
    mrt_source_free(p);
  }
  mrt_map_close(a, &s->map);
  mrt_arena_free(&s->arena);
  mrt_release(a, s, sizeof *s);
  mrt_context_unref(ctx);
}

static mrt_source *new_source(mrt_context *ctx, const char *path) {
  mrt_source *s = mrt_calloc(ctx->allocator, 1, sizeof *s);
  if (!s) return mrt_nomem(&ctx->error), NULL;
  mrt_context_ref(ctx);
  s->ctx = ctx;
  s->map.file = -1;
  mrt_arena_init(&s->arena, ctx->allocator);
  if ((s->path = mrt_arena_strdup(&s->arena, path))) return s;
  mrt_source_free(s);
  return mrt_nomem(&ctx->error), NULL;
}

static mrt_status parse_into(mrt_source *s, const char *format,
                             mrt_source **out) {
  mrt_parse parse = find_format(format);
  mrt_status status = parse ? parse(s)
                            : mrt_fail(&s->ctx->error, MRT_EVALUE,
                                       "there is no format '%.80s'", format);
  if (status) return mrt_source_free(s), status;
  *out = s;
  return MRT_OK;
}

mrt_status mrt_source_map(mrt_context *ctx, const char *path,
                          mrt_source **out) {
  mrt_source *s = new_source(ctx, path);
  if (!s) return MRT_ENOMEM;
  mrt_status status = mrt_map_open(path, &s->map, &ctx->error);
  if (status) return mrt_source_free(s), status;
  *out = s;
  return MRT_OK;
}

MRT_API mrt_status mrt_source_open(mrt_context *ctx, const char *path,
                                   const char *format, mrt_source **out) {
  mrt_source *s = NULL;
  MRT_TRY(mrt_source_map(ctx, path, &s));
  return parse_into(s, format, out);
}

mrt_status mrt_source_from(mrt_context *ctx, const char *path,
                           const char *format, const uint8_t *data, size_t size,
                           mrt_source **out) {
  mrt_source *s = new_source(ctx, path);
  if (!s) return MRT_ENOMEM;
  s->map = (mrt_map){ .data = data, .size = size, .file = -1 };
  return parse_into(s, format, out);
}

/* ---- looking ------------------------------------------------------------- */

MRT_API int mrt_source_count(const mrt_source *s) { return s->count; }

MRT_API mrt_array_info mrt_source_get(const mrt_source *s, int i) {
  const mrt_array *a = &s->arrays[i];
  return (mrt_array_info){ a->name, a->dtype, a->type,
                           a->stored != MRT_STORED_COUNT };
}

MRT_API const char *mrt_source_metadata(const mrt_source *s, int i,
                                        const char **value) {
  if (i < 0 || i >= s->pair_count) return NULL;
  if (value) *value = s->pairs[i].value;
  return s->pairs[i].key;
}

/* ---- reading ------------------------------------------------------------- */

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
