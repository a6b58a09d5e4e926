/* open.c -- a file of arrays is opened by its format, listed, closed
 *
 * The table of formats is here, where nothing that a format calls is but the
 * opening of further files.
 *
 * SPDX-License-Identifier: MIT */
#include "io/io.h"
#include "tensor/tensor.h"

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

/* ---- opening and closing ------------------------------------------------- */

MRT_API void mrt_source_free(mrt_source *s) {
  if (!s) return;
  mrt_context *ctx = s->ctx;
  const mrt_allocator *a = ctx->allocator;
  mrt_ahead_stop(s->ahead, a);
  for (int i = 0; i < s->count; i++)
    if (s->arrays[i].bytes == &s->bytes)
      mrt_bytes_close(a, &s->arrays[i].whole);
  for (mrt_source *p = s->parts, *next; p; p = next) {
    next = p->next;
    mrt_source_free(p);
  }
  mrt_bytes_close(a, &s->bytes);
  mrt_arena_free(&s->arena);
  mrt_release(a, s, sizeof *s);
  mrt_context_unref(ctx);
}

static mrt_source *new_source(mrt_context *ctx, const char *path) {
  mrt_source *s = mrt_calloc(ctx->allocator, 1, sizeof *s);
  if (!s) return mrt_nomem(&ctx->error), NULL;
  mrt_context_ref(ctx);
  s->ctx = ctx;
  s->bytes.file = -1;
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

mrt_status mrt_source_of(mrt_context *ctx, const char *path, mrt_source **out) {
  mrt_source *s = new_source(ctx, path);
  if (!s) return MRT_ENOMEM;
  mrt_status status = mrt_bytes_open(path, &s->bytes, &ctx->error);
  if (status) return mrt_source_free(s), status;
  *out = s;
  return MRT_OK;
}

MRT_API mrt_status mrt_source_open(mrt_context *ctx, const char *path,
                                   const char *format, mrt_source **out) {
  mrt_source *s = NULL;
  MRT_TRY(mrt_source_of(ctx, path, &s));
  return parse_into(s, format, out);
}

mrt_status mrt_source_from(mrt_context *ctx, const char *path,
                           const char *format, const uint8_t *data, size_t size,
                           mrt_source **out) {
  mrt_source *s = new_source(ctx, path);
  if (!s) return MRT_ENOMEM;
  s->bytes = (mrt_bytes){ .data = data, .size = size, .file = -1 };
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

static const struct {
  const char *name;
  mrt_meta_type type;
  size_t bytes;
} meta_types[] = {
#define META(name, code, bytes) { #name, MRT_META_##name, bytes },
#include "mrt/metadata.def"
#undef META
};

MRT_API const char *mrt_meta_type_name(mrt_meta_type type, size_t *bytes) {
  for (int i = 0; i < MRT_COUNT(meta_types); i++)
    if (meta_types[i].type == type) {
      if (bytes) *bytes = meta_types[i].bytes;
      return meta_types[i].name;
    }
  return NULL;
}

MRT_API const mrt_meta *mrt_source_meta(const mrt_source *s, int i) {
  return i < 0 || i >= s->meta_count ? NULL : &s->metas[i];
}
