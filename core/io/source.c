/* source.c -- what formats call: arrays listed and checked, messages with the path
 *
 * SPDX-License-Identifier: MIT */
#include "io/io.h"
#include "tensor/tensor.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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
  s->arrays[s->count] = (mrt_array){ .name = copy,
                                     .bytes = &s->bytes,
                                     .stored = MRT_STORED_COUNT,
                                     .checked = true,
                                     .whole = { .file = -1 } };
  return &s->arrays[s->count++];
}

mrt_status mrt_source_add_pair(mrt_source *s, const char *key,
                               const char *value) {
  if (!MRT_PUSH_ROOM(&s->arena, s->pairs, s->pair_count, s->pair_room))
    return mrt_nomem(&s->ctx->error);
  mrt_metadata p = { mrt_arena_strdup(&s->arena, key),
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
  size_t row = mrt_stored_span(a->stored, mrt_array_width(a));
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
  /* Asking reads files of the system: not for what it always has. */
  enum { SMALL = 1 << 20 };
  size_t available = nbytes > SMALL ? mrt_context_available(s->ctx) : 0;
  if (available && nbytes > available)
    return mrt_source_fail(s, MRT_ENOMEM,
                           "%zu bytes of memory wanted, %zu are available",
                           nbytes, available);
  *out = mrt_resize(s->ctx->allocator, NULL, 0, nbytes);
  return *out ? MRT_OK
              : mrt_source_fail(s, MRT_ENOMEM, "no memory for %zu bytes",
                                nbytes);
}

mrt_status mrt_source_hold(mrt_source *s) {
  size_t size = s->bytes.size;
  uint8_t *block;
  if (s->bytes.data) return MRT_OK;
  MRT_TRY(mrt_source_block(s, size + !size, &block));
  mrt_status status = mrt_bytes_read(&s->bytes, 0, block, size, &s->ctx->error);
  if (status) {
    mrt_release(s->ctx->allocator, block, size + !size);
    return mrt_source_fail(s, status, "%s", mrt_message(s->ctx));
  }
  mrt_bytes_close(s->ctx->allocator, &s->bytes);
  s->bytes = (mrt_bytes){ block, size, -1, size + !size };
  return MRT_OK;
}

mrt_status mrt_source_take(mrt_source *s, size_t at, void *to, size_t n) {
  mrt_status status = mrt_bytes_read(&s->bytes, at, to, n, &s->ctx->error);
  return status ? mrt_source_fail(s, status, "%s", mrt_message(s->ctx))
                : MRT_OK;
}
