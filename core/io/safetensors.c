/* safetensors.c -- read and write Hugging Face's safetensors
 *
 *   u64 N | N bytes of JSON | the numbers of all tensors, one after the other
 *
 * The JSON names each tensor's dtype, shape and place among the numbers, and
 * under "__metadata__" may hold strings.  Sorted by place the tensors must
 * cover the numbers exactly: no gap, no overlap, nothing behind.  Written files
 * are those that the reference would write: wider dtypes first, then by name,
 * the header padded with spaces to a multiple of 8; but for the checksums in the
 * metadata (sums.h).
 *
 *   from  github.com/huggingface/safetensors, README and tensor.rs
 *
 * SPDX-License-Identifier: MIT */
#include "io/json.h"
#include "io/sums.h"
#include "tensor/tensor.h"

#include <stdlib.h>
#include <string.h>

enum { LONGEST_HEADER = 100000000, LONGEST_LIST = 64 };

/* In the order of the reference, which sorts by it: DTYPE(name, bits, stored) */
#define DTYPES                                                                 \
  DTYPE("BOOL", 8, bool)                                                       \
  DTYPE("F4", 4, COUNT)                                                        \
  DTYPE("F6_E2M3", 6, COUNT)                                                   \
  DTYPE("F6_E3M2", 6, COUNT)                                                   \
  DTYPE("U8", 8, u8)                                                           \
  DTYPE("I8", 8, COUNT)                                                        \
  DTYPE("F8_E5M2", 8, f8_e5m2)                                                 \
  DTYPE("F8_E4M3", 8, f8_e4m3)                                                 \
  DTYPE("F8_E4M3FNUZ", 8, COUNT)                                               \
  DTYPE("F8_E5M2FNUZ", 8, COUNT)                                               \
  DTYPE("F8_E8M0", 8, COUNT)                                                   \
  DTYPE("I16", 16, COUNT)                                                      \
  DTYPE("U16", 16, COUNT)                                                      \
  DTYPE("F16", 16, f16)                                                        \
  DTYPE("BF16", 16, bf16)                                                      \
  DTYPE("I32", 32, i32)                                                        \
  DTYPE("U32", 32, COUNT)                                                      \
  DTYPE("F32", 32, f32)                                                        \
  DTYPE("C64", 64, COUNT)                                                      \
  DTYPE("F64", 64, f64)                                                        \
  DTYPE("I64", 64, i64)                                                        \
  DTYPE("U64", 64, COUNT)

static const struct dtype {
  const char *name;
  unsigned bits;
  mrt_stored stored;
} dtypes[] = {
#define DTYPE(name, bits, stored) { name, bits, MRT_STORED_##stored },
  DTYPES
#undef DTYPE
};

const char *mrt_safetensors_dtype(mrt_dtype dtype, int *rank) {
  for (int i = 0; i < MRT_COUNT(dtypes); i++)
    if (dtypes[i].stored != MRT_STORED_COUNT &&
        mrt_stored_dtype(dtypes[i].stored) == dtype) {
      *rank = i;
      return dtypes[i].name;
    }
  return NULL;
}

static const struct dtype *find_dtype(const char *name) {
  for (int i = 0; i < MRT_COUNT(dtypes); i++)
    if (strcmp(dtypes[i].name, name) == 0) return &dtypes[i];
  return NULL;
}

/* ---- one entry ----------------------------------------------------------- */

/* A whole number that is not negative. */
static bool read_size(const json_t *value, uint64_t *size) {
  if (!json_is_integer(value) || json_integer_value(value) < 0) return false;
  *size = (uint64_t)json_integer_value(value);
  return true;
}

/* Dimensions, and the bits of all of them together. */
static mrt_status read_shape(mrt_source *s, mrt_array *a, const json_t *shape,
                             uint64_t *bits) {
  uint64_t d;
  if (!json_is_array(shape))
    return mrt_source_fail(s, MRT_EDATA, "'%.80s': no list of dimensions",
                           a->name);
  if (json_array_size(shape) > MRT_MAX_RANK)
    return mrt_source_fail(s, MRT_EDATA,
                           "'%.80s': %zu dimensions, at most %d wanted",
                           a->name, json_array_size(shape), (int)MRT_MAX_RANK);
  for (size_t i = 0; i < json_array_size(shape); i++) {
    if (!read_size(json_array_get(shape, i), &d))
      return mrt_source_fail(s, MRT_EDATA, "'%.80s': dimension %zu is no size",
                             a->name, i + 1);
    if (d && *bits > UINT64_MAX / d)
      return mrt_source_fail(s, MRT_EDATA, "'%.80s': the size overflows",
                             a->name);
    *bits *= d;
    a->type.dims[a->type.rank++] = (int64_t)d;
  }
  return MRT_OK;
}

static mrt_status read_dtype(mrt_source *s, mrt_array *a, const json_t *value,
                             uint64_t *bits) {
  const char *name = json_string_value(value);
  const struct dtype *dtype = name ? find_dtype(name) : NULL;
  if (!dtype)
    return mrt_source_fail(s, MRT_EDATA, "'%.80s': there is no dtype %s%.40s",
                           a->name, name ? "" : "given", name ? name : "");
  a->dtype = dtype->name, a->stored = dtype->stored;
  *bits = dtype->bits;
  return MRT_OK;
}

/* The tensor's place, relative to the numbers, for now in offset and packed. */
static mrt_status read_place(mrt_source *s, mrt_array *a, const json_t *list,
                             uint64_t bits) {
  uint64_t begin, end;
  if (json_array_size(list) != 2 || /* 0 where there is no list */
      !read_size(json_array_get(list, 0), &begin) ||
      !read_size(json_array_get(list, 1), &end) || begin > end)
    return mrt_source_fail(s, MRT_EDATA, "'%.80s': no range of data_offsets",
                           a->name);
  if (bits % 8 || bits / 8 != end - begin)
    return mrt_source_fail(
        s, MRT_EDATA,
        "'%.80s': its shape wants %llu bits, its data_offsets "
        "%llu bytes",
        a->name, (unsigned long long)bits, (unsigned long long)(end - begin));
  a->offset = (size_t)begin, a->packed = (size_t)end;
  return MRT_OK;
}

static mrt_status read_entry(mrt_source *s, const char *name,
                             const json_t *entry) {
  uint64_t bits = 0;
  mrt_array *a = mrt_source_add(s, name);
  if (!a) return mrt_nomem(&s->ctx->error);
  if (json_object_size(entry) != 3) /* 0 where it is no object */
    return mrt_source_fail(
        s, MRT_EDATA, "'%.80s': dtype, shape and data_offsets wanted", name);
  MRT_TRY(read_dtype(s, a, json_object_get(entry, "dtype"), &bits));
  MRT_TRY(read_shape(s, a, json_object_get(entry, "shape"), &bits));
  return read_place(s, a, json_object_get(entry, "data_offsets"), bits);
}

/* ---- the header ---------------------------------------------------------- */

static mrt_status read_metadata(mrt_source *s, json_t *map) {
  const char *key;
  json_t *value;
  if (!json_is_object(map))
    return mrt_source_fail(s, MRT_EDATA, "__metadata__ is no object");
  json_object_foreach(map, key, value) {
    if (!json_is_string(value))
      return mrt_source_fail(s, MRT_EDATA, "__metadata__: '%.80s' is no string",
                             key);
    MRT_TRY(mrt_source_add_pair(s, key, json_string_value(value)));
  }
  return MRT_OK;
}

static int by_place(const void *p, const void *q) {
  const mrt_array *a = p, *b = q;
  if (a->offset != b->offset) return a->offset < b->offset ? -1 : 1;
  if (a->packed != b->packed) return a->packed < b->packed ? -1 : 1;
  return strcmp(a->name, b->name);
}

/* The tensors cover [0, size) one after the other; `base` is where that is. */
static mrt_status place_all(mrt_source *s, size_t base, size_t size) {
  size_t end = 0;
  if (s->count) qsort(s->arrays, (size_t)s->count, sizeof *s->arrays, by_place);
  for (int i = 0; i < s->count; i++) {
    mrt_array *a = &s->arrays[i];
    if (a->offset != end)
      return mrt_source_fail(
          s, MRT_EDATA,
          "'%.80s' begins at %zu, where the one before ends is "
          "%zu",
          a->name, a->offset, end);
    end = a->packed, a->packed -= a->offset;
    if (end > size) break;
    a->offset += base, a->packed_at = a->offset;
    if (a->stored == MRT_STORED_COUNT)
      a->type.dtype = MRT_DTYPE_COUNT;
    else
      MRT_TRY(mrt_array_check(s, a, s->bytes.size));
  }
  if (end != size)
    return mrt_source_fail(
        s, MRT_EDATA, "the tensors take %zu bytes, there are %zu", end, size);
  return MRT_OK;
}

static mrt_status read_header(mrt_source *s, json_t *root) {
  const char *name;
  json_t *entry;
  json_object_foreach(root, name, entry) {
    if (strcmp(name, "__metadata__") == 0)
      MRT_TRY(read_metadata(s, entry));
    else
      MRT_TRY(read_entry(s, name, entry));
  }
  return MRT_OK;
}

static mrt_status parse_header(mrt_source *s, const uint8_t *text, size_t n) {
  mrt_status status;
  json_t *root = mrt_json_parse(s, text, n, 3, LONGEST_LIST, &status);
  if (!root) return status;
  status = read_header(s, root);
  if (!status) status = place_all(s, 8 + n, s->bytes.size - 8 - n);
  const json_t *metadata = json_object_get(root, "__metadata__");
  const json_t *sums = json_object_get(metadata, MRT_SUMS_KEY);
  if (sums && !status)
    status = mrt_sums_read(s, text, n, json_string_value(sums));
  json_decref(root);
  return status;
}

mrt_status mrt_parse_safetensors(mrt_source *s) {
  uint8_t size[8], *text;
  if (s->bytes.size < 8)
    return mrt_source_fail(s, MRT_EDATA, "%zu bytes, a header wanted",
                           s->bytes.size);
  MRT_TRY(mrt_source_take(s, 0, size, 8));
  uint64_t n = mrt_little(size, 8);
  if (n > LONGEST_HEADER || n > s->bytes.size - 8)
    return mrt_source_fail(s, MRT_EDATA,
                           "a header of %llu bytes, at most %d wanted, of the "
                           "%zu bytes there are",
                           (unsigned long long)n, (int)LONGEST_HEADER,
                           s->bytes.size);
  MRT_TRY(mrt_source_block(s, (size_t)n + 1, &text));
  mrt_status status = mrt_source_take(s, 8, text, (size_t)n);
  if (!status) status = parse_header(s, text, (size_t)n);
  mrt_release(s->ctx->allocator, text, (size_t)n + 1);
  return status;
}
