/* gguf.c -- a model for llama.cpp: metadata with types, tensors in blocks
 *
 *   "GGUF"  version u32 (2, 3)  tensors u64  keys u64
 *   key     string  type u32  value; of a list: type u32  count u64  values
 *   tensor  name string  dimensions u32, each u64, fastest first
 *           type u32  offset u64
 *   padding to the alignment, then the numbers: offsets count from here
 *
 * A string is its length as u64 and its bytes.  What says which tensors there
 * are is read through a window; values of metadata are copied as they are.
 *
 *   from  ggml, docs/gguf.md
 *
 * SPDX-License-Identifier: MIT */
#include "io/blocks.h"

#include <stdlib.h>
#include <string.h>

enum {
  WINDOW = 1 << 14,
  LONGEST_NAME = 65535,
  MOST_DIMS = 4,
  LONGEST_METADATA = 1 << 28,
  LEAST_KEY = 8 + 4 + 1, /* bytes that one takes in the file */
  LEAST_TENSOR = 8 + 4 + 4 + 8,
  LARGEST_ALIGNMENT = 1 << 20
};

/* ---- bytes in their order ------------------------------------------------ */

typedef struct gguf_cursor {
  mrt_source *source;
  size_t at;          /* of the next byte */
  size_t first, have; /* what the window has */
  size_t kept;        /* bytes of metadata that were copied */
  uint64_t alignment;
  uint8_t window[WINDOW];
} gguf_cursor;

static mrt_status want(const gguf_cursor *c, uint64_t n) {
  mrt_source *s = c->source;
  return n <= s->bytes.size - c->at
             ? MRT_OK
             : mrt_source_fail(
                   s, MRT_EDATA,
                   "%llu bytes wanted at byte %zu, there are %zu in "
                   "all",
                   (unsigned long long)n, c->at, s->bytes.size);
}

static mrt_status take(gguf_cursor *c, void *to, size_t n) {
  MRT_TRY(want(c, n));
  if (n > WINDOW) {
    MRT_TRY(mrt_source_take(c->source, c->at, to, n));
  } else {
    if (c->at < c->first || c->at + n > c->first + c->have) {
      size_t left = c->source->bytes.size - c->at;
      c->first = c->at, c->have = left < WINDOW ? left : WINDOW;
      MRT_TRY(mrt_source_take(c->source, c->at, c->window, c->have));
    }
    if (n) memcpy(to, c->window + (c->at - c->first), n);
  }
  c->at += n;
  return MRT_OK;
}

static mrt_status take_number(gguf_cursor *c, int bytes, uint64_t *to) {
  uint8_t raw[8];
  MRT_TRY(take(c, raw, (size_t)bytes));
  *to = mrt_little(raw, bytes);
  return MRT_OK;
}

/* A name, in the source's arena. */
static mrt_status take_name(gguf_cursor *c, char **to) {
  mrt_source *s = c->source;
  uint64_t n;
  MRT_TRY(take_number(c, 8, &n));
  if (n > LONGEST_NAME)
    return mrt_source_fail(s, MRT_EDATA,
                           "a name of %llu bytes, at most %d wanted",
                           (unsigned long long)n, (int)LONGEST_NAME);
  MRT_TRY(want(c, n));
  *to = mrt_arena_alloc(&s->arena, (size_t)n + 1, 1);
  if (!*to) return mrt_nomem(&s->ctx->error);
  MRT_TRY(take(c, *to, (size_t)n));
  return strlen(*to) == n
             ? MRT_OK
             : mrt_source_fail(s, MRT_EDATA, "'%.80s': a name with a zero byte",
                               *to);
}

/* ---- metadata ------------------------------------------------------------ */

enum { LIST = 9 };

static mrt_status take_type(gguf_cursor *c, const char *key, uint64_t *type) {
  MRT_TRY(take_number(c, 4, type));
  return *type == LIST || (*type < LIST + 4 &&
                           mrt_meta_type_name((mrt_meta_type)*type, NULL))
             ? MRT_OK
             : mrt_source_fail(c->source, MRT_EDATA,
                               "'%.80s': there is no type %llu of metadata",
                               key, (unsigned long long)*type);
}

/* Go past `count` values. */
static mrt_status skip(gguf_cursor *c, mrt_meta_type type, uint64_t count) {
  size_t bytes = 0;
  uint64_t n;
  mrt_meta_type_name(type, &bytes);
  if (bytes) {
    if (count > SIZE_MAX / bytes) count = SIZE_MAX / bytes;
    MRT_TRY(want(c, count * bytes));
    c->at += (size_t)count * bytes;
    return MRT_OK;
  }
  for (; count; count--) {
    MRT_TRY(take_number(c, 8, &n));
    MRT_TRY(want(c, n));
    c->at += (size_t)n;
  }
  return MRT_OK;
}

static mrt_status copy_value(gguf_cursor *c, mrt_meta *m, size_t from) {
  mrt_source *s = c->source;
  m->size = c->at - from;
  if (m->size > LONGEST_METADATA - c->kept)
    return mrt_source_fail(s, MRT_EDATA, "more than %d bytes of metadata",
                           (int)LONGEST_METADATA);
  c->kept += m->size;
  uint8_t *copy = mrt_arena_alloc(&s->arena, m->size + 1, 1);
  if (!copy) return mrt_nomem(&s->ctx->error);
  m->data = copy;
  return mrt_source_take(s, from, copy, m->size);
}

static mrt_status read_alignment(gguf_cursor *c, const mrt_meta *m) {
  if (strcmp(m->key, "general.alignment") != 0) return MRT_OK;
  uint64_t a = m->type == MRT_META_u32 && !m->list ? mrt_little(m->data, 4) : 0;
  if (a == 0 || (a & (a - 1)) || a > LARGEST_ALIGNMENT)
    return mrt_source_fail(c->source, MRT_EDATA,
                           "general.alignment is no power of two up to %d",
                           (int)LARGEST_ALIGNMENT);
  c->alignment = a;
  return MRT_OK;
}

static mrt_status read_pair(gguf_cursor *c) {
  mrt_source *s = c->source;
  char *key;
  uint64_t type, count = 1;
  MRT_TRY(take_name(c, &key));
  MRT_TRY(take_type(c, key, &type));
  bool list = type == LIST;
  if (list) {
    MRT_TRY(take_type(c, key, &type));
    if (type == LIST)
      return mrt_source_fail(s, MRT_EDATA, "'%.80s' is a list of lists", key);
    MRT_TRY(take_number(c, 8, &count));
  }
  mrt_meta m = { .key = key, (mrt_meta_type)type, list, count, NULL, 0 };
  size_t from = c->at;
  MRT_TRY(skip(c, m.type, count));
  MRT_TRY(copy_value(c, &m, from));
  MRT_TRY(read_alignment(c, &m));
  if (!MRT_PUSH_ROOM(&s->arena, s->metas, s->meta_count, s->meta_room))
    return mrt_nomem(&s->ctx->error);
  s->metas[s->meta_count++] = m;
  return MRT_OK;
}

/* ---- tensors ------------------------------------------------------------- */

/* Dimensions, and how many numbers that is. */
static mrt_status read_dims(gguf_cursor *c, mrt_array *a, uint64_t *numbers) {
  mrt_source *s = c->source;
  uint64_t rank, d;
  MRT_TRY(take_number(c, 4, &rank));
  if (rank > MOST_DIMS)
    return mrt_source_fail(s, MRT_EDATA,
                           "'%.80s': %llu dimensions, at most %d wanted",
                           a->name, (unsigned long long)rank, (int)MOST_DIMS);
  a->type.rank = (int)rank, *numbers = 1;
  for (int i = a->type.rank; i-- > 0;) {
    MRT_TRY(take_number(c, 8, &d));
    if (d > INT64_MAX || (d && *numbers > INT64_MAX / d))
      return mrt_source_fail(s, MRT_EDATA, "'%.80s': the size overflows",
                             a->name);
    *numbers *= d;
    a->type.dims[i] = (int64_t)d;
  }
  return MRT_OK;
}

static mrt_status read_type(gguf_cursor *c, mrt_array *a, uint64_t numbers) {
  mrt_source *s = c->source;
  uint64_t code;
  MRT_TRY(take_number(c, 4, &code));
  const mrt_ggml_type *type = mrt_ggml_coded((uint32_t)code);
  if (!type)
    return mrt_source_fail(s, MRT_EDATA, "'%.80s': there is no type %llu",
                           a->name, (unsigned long long)code);
  int64_t last = a->type.rank ? a->type.dims[a->type.rank - 1] : 1;
  if (last % type->numbers)
    return mrt_source_fail(s, MRT_EDATA,
                           "'%.80s': rows of %lld numbers are no multiple of "
                           "%s's %d",
                           a->name, (long long)last, type->name, type->numbers);
  if (numbers / (uint64_t)type->numbers > SIZE_MAX / (size_t)type->bytes)
    return mrt_source_fail(s, MRT_EDATA, "'%.80s': the size overflows",
                           a->name);
  a->dtype = type->name, a->stored = type->stored;
  a->packed = (size_t)(numbers / (uint64_t)type->numbers) * (size_t)type->bytes;
  return MRT_OK;
}

static mrt_status read_tensor(gguf_cursor *c) {
  mrt_source *s = c->source;
  char *name;
  uint64_t numbers, offset;
  MRT_TRY(take_name(c, &name));
  mrt_array *a = mrt_source_add(s, name);
  if (!a) return mrt_nomem(&s->ctx->error);
  MRT_TRY(read_dims(c, a, &numbers));
  MRT_TRY(read_type(c, a, numbers));
  MRT_TRY(take_number(c, 8, &offset));
  if (offset > SIZE_MAX / 2)
    return mrt_source_fail(s, MRT_EDATA, "'%.80s': its offset overflows", name);
  a->offset = (size_t)offset;
  return MRT_OK;
}

/* ---- all of them --------------------------------------------------------- */

static int by_place(const void *p, const void *q) {
  const mrt_array *a = *(mrt_array *const *)p, *b = *(mrt_array *const *)q;
  if (a->offset != b->offset) return a->offset < b->offset ? -1 : 1;
  return a->packed < b->packed ? -1 : a->packed > b->packed;
}
static int by_name(const void *p, const void *q) {
  return strcmp((*(mrt_array *const *)p)->name, (*(mrt_array *const *)q)->name);
}
static int by_key(const void *p, const void *q) {
  return strcmp((*(mrt_meta *const *)p)->key, (*(mrt_meta *const *)q)->key);
}

/* Refuse keys that are there twice. */
static mrt_status check_keys(mrt_source *s) {
  mrt_meta **list = MRT_NEW(&s->arena, mrt_meta *, s->meta_count + 1);
  if (!list) return mrt_nomem(&s->ctx->error);
  for (int i = 0; i < s->meta_count; i++) list[i] = &s->metas[i];
  qsort(list, (size_t)s->meta_count, sizeof *list, by_key);
  for (int i = 1; i < s->meta_count; i++)
    if (by_key(&list[i - 1], &list[i]) == 0)
      return mrt_source_fail(s, MRT_EDATA, "'%.80s' is there twice",
                             list[i]->key);
  return MRT_OK;
}

/* Each tensor lies in the file, from `base` on, at a multiple of the
 * alignment. */
static mrt_status place(const gguf_cursor *c, mrt_array *a, size_t base) {
  mrt_source *s = c->source;
  size_t size = s->bytes.size;
  if (a->offset % c->alignment)
    return mrt_source_fail(s, MRT_EDATA,
                           "'%.80s' is at %zu, no multiple of %llu", a->name,
                           a->offset, (unsigned long long)c->alignment);
  if (base > size || a->offset > size - base ||
      a->packed > size - base - a->offset)
    return mrt_source_fail(s, MRT_EDATA,
                           "'%.80s' wants %zu bytes from byte %zu on, there "
                           "are %zu in all",
                           a->name, a->packed, base + a->offset, size);
  a->offset += base, a->packed_at = a->offset;
  if (a->stored != MRT_STORED_COUNT) return mrt_array_check(s, a, size);
  a->type.dtype = MRT_DTYPE_COUNT;
  return MRT_OK;
}

/* No two of them share a name or a byte. */
static mrt_status check_apart(mrt_source *s) {
  mrt_array **list = MRT_NEW(&s->arena, mrt_array *, s->count + 1);
  if (!list) return mrt_nomem(&s->ctx->error);
  for (int i = 0; i < s->count; i++) list[i] = &s->arrays[i];
  qsort(list, (size_t)s->count, sizeof *list, by_name);
  for (int i = 1; i < s->count; i++)
    if (by_name(&list[i - 1], &list[i]) == 0)
      return mrt_source_fail(s, MRT_EDATA, "'%.80s' is there twice",
                             list[i]->name);
  qsort(list, (size_t)s->count, sizeof *list, by_place);
  for (int i = 1; i < s->count; i++)
    if (list[i - 1]->packed > list[i]->offset - list[i - 1]->offset)
      return mrt_source_fail(s, MRT_EDATA, "'%.80s' and '%.80s' overlap",
                             list[i - 1]->name, list[i]->name);
  return MRT_OK;
}

static mrt_status read_version(gguf_cursor *c) {
  uint8_t magic[4];
  uint64_t version;
  MRT_TRY(take(c, magic, 4));
  if (memcmp(magic, "GGUF", 4) != 0)
    return mrt_source_fail(c->source, MRT_EDATA, "does not begin with GGUF");
  MRT_TRY(take_number(c, 4, &version));
  if (version && (version & 0xffff) == 0)
    return mrt_source_fail(c->source, MRT_EDATA,
                           "a big-endian file, little-endian wanted");
  if (version < 2 || version > 3)
    return mrt_source_fail(c->source, MRT_EDATA,
                           "version %llu of GGUF, 2 or 3 wanted",
                           (unsigned long long)version);
  return MRT_OK;
}

/* A count of what takes at least so many bytes each. */
static mrt_status take_count(gguf_cursor *c, const char *what, size_t least,
                             uint64_t *count) {
  MRT_TRY(take_number(c, 8, count));
  return *count <= c->source->bytes.size / least
             ? MRT_OK
             : mrt_source_fail(c->source, MRT_EDATA,
                               "%llu %s, more than %zu bytes can hold",
                               (unsigned long long)*count, what,
                               c->source->bytes.size);
}

static mrt_status read_all(gguf_cursor *c) {
  mrt_source *s = c->source;
  uint64_t tensors, pairs;
  MRT_TRY(read_version(c));
  MRT_TRY(take_count(c, "tensors", LEAST_TENSOR, &tensors));
  MRT_TRY(take_count(c, "keys", LEAST_KEY, &pairs));
  if (tensors > INT32_MAX / 2 || pairs > INT32_MAX / 2)
    return mrt_source_fail(s, MRT_EDATA, "too many tensors or keys");
  for (; pairs; pairs--) MRT_TRY(read_pair(c));
  MRT_TRY(check_keys(s));
  for (; tensors; tensors--) MRT_TRY(read_tensor(c));
  size_t mask = (size_t)c->alignment - 1, base = (c->at + mask) & ~mask;
  for (int i = 0; i < s->count; i++) MRT_TRY(place(c, &s->arrays[i], base));
  return check_apart(s);
}

mrt_status mrt_parse_gguf(mrt_source *s) {
  const mrt_allocator *a = s->ctx->allocator;
  gguf_cursor *c = mrt_calloc(a, 1, sizeof *c);
  if (!c) return mrt_nomem(&s->ctx->error);
  c->source = s, c->alignment = 32;
  mrt_status status = read_all(c);
  mrt_release(a, c, sizeof *c);
  return status;
}
