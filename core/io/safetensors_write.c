/* safetensors_write.c -- see safetensors.c
 *
 * SPDX-License-Identifier: MIT */
#include "io/json.h"
#include "io/sums.h"
#include "tensor/tensor.h"

#include <stdlib.h>
#include <string.h>

typedef struct entry {
  const char *name, *dtype;
  int rank; /* of the dtype */
  mrt_tensor *tensor;
} entry;

static int by_dtype_and_name(const void *p, const void *q) {
  const entry *a = p, *b = q;
  if (a->rank != b->rank) return a->rank > b->rank ? -1 : 1;
  return strcmp(a->name, b->name);
}

/* Take `value` into `map`; false when that cannot be. */
static bool set(json_t *map, const char *key, json_t *value) {
  return json_object_set_new(map, key, value) == 0;
}

static json_t *describe(const entry *e, size_t *offset) {
  const mrt_type *type = mrt_tensor_type(e->tensor);
  size_t end = *offset + mrt_type_bytes(type);
  json_t *shape = json_array(), *out = json_object();
  bool ok = shape && out;
  for (int d = 0; ok && d < type->rank; d++)
    ok = json_array_append_new(shape, json_integer(type->dims[d])) == 0;
  ok = ok && set(out, "dtype", json_string(e->dtype));
  ok = ok && set(out, "shape", json_incref(shape));
  ok = ok && set(out, "data_offsets",
                 json_pack("[II]", (json_int_t)*offset, (json_int_t)end));
  json_decref(shape);
  *offset = end;
  if (ok) return out;
  json_decref(out);
  return NULL;
}

/* Text of which jansson makes a string, or the message why not. */
static mrt_status check_text(const char *what, const char *text, mrt_error *e) {
  json_t *string = json_string(text);
  json_decref(string);
  return string ? MRT_OK
                : mrt_fail(e, MRT_EVALUE, "save: %s '%.80s' is not UTF-8", what,
                           text);
}

static mrt_status add_pairs(json_t *map, const mrt_text_pair *pairs, int n,
                            mrt_error *e) {
  for (int i = 0; i < n; i++) {
    MRT_TRY(check_text("metadata", pairs[i].key, e));
    MRT_TRY(check_text("metadata", pairs[i].value, e));
    if (strcmp(pairs[i].key, MRT_SUMS_KEY) == 0) continue; /* another file's */
    if (!set(map, pairs[i].key, json_string(pairs[i].value)))
      return mrt_nomem(e);
  }
  return MRT_OK;
}

/* Room for the checksums of n tensors. */
static json_t *no_sums(int n) {
  char *text = malloc(mrt_sums_size(n));
  if (!text) return NULL;
  memset(text, '0', mrt_sums_size(n));
  json_t *string = json_stringn(text, mrt_sums_size(n));
  free(text);
  return string;
}

/* Of a file of `tensors` tensors; the sums come first. */
static mrt_status add_metadata(json_t *root, int tensors,
                               const mrt_text_pair *pairs, int n,
                               mrt_error *e) {
  json_t *map = json_object();
  if (!map || !set(root, "__metadata__", map) ||
      !set(map, MRT_SUMS_KEY, no_sums(tensors)))
    return mrt_nomem(e);
  MRT_TRY(add_pairs(map, pairs, n, e));
  if (!json_object_get(map, "format") && !set(map, "format", json_string("pt")))
    return mrt_nomem(e);
  return MRT_OK;
}

static mrt_status add_entries(json_t *root, const entry *list, int n,
                              mrt_error *e) {
  size_t offset = 0;
  for (int i = 0; i < n; i++) {
    MRT_TRY(check_text("the name", list[i].name, e));
    if (strcmp(list[i].name, "__metadata__") == 0)
      return mrt_fail(e, MRT_EVALUE, "save: no tensor can be __metadata__");
    if (json_object_get(root, list[i].name))
      return mrt_fail(e, MRT_EVALUE, "save: '%.80s' is there twice",
                      list[i].name);
    json_t *one = describe(&list[i], &offset);
    if (!one || !set(root, list[i].name, one)) return mrt_nomem(e);
  }
  return MRT_OK;
}

/* The header, padded; free() it. */
static char *new_header(json_t *root, size_t *size) {
  char *text = json_dumps(root, JSON_COMPACT);
  size_t n = text ? strlen(text) : 0;
  char *padded = text ? malloc(n + 8) : NULL;
  *size = (n + 7) / 8 * 8;
  if (padded) memset(padded, ' ', n + 8), memcpy(padded, text, n);
  free(text);
  return padded;
}

/* The file with zeros for checksums, then those. */
static mrt_status write_parts(mrt_file_writer *w, const entry *list, int n,
                              char *header, size_t size, uint32_t *crcs,
                              mrt_error *e) {
  uint8_t front[8];
  for (int i = 0; i < 8; i++) front[i] = (uint8_t)((uint64_t)size >> 8 * i);
  MRT_TRY(mrt_writer_put(w, front, 8, e));
  MRT_TRY(mrt_writer_put(w, header, size, e));
  for (int i = 0; i < n; i++)
    MRT_TRY(mrt_writer_put_tensor(w, list[i].tensor, &crcs[i], e));
  mrt_sums_fill(header, size, crcs, n);
  size_t at = mrt_sums_place();
  MRT_TRY(mrt_writer_patch(w, 8 + at, header + at, mrt_sums_size(n), e));
  return mrt_writer_commit(w, e);
}

static mrt_status write_all(mrt_file_writer *w, const entry *list, int n,
                            const mrt_text_pair *pairs, int pair_count,
                            mrt_error *e) {
  size_t size = 0;
  char *header = NULL;
  json_t *root = json_object();
  if (!root) return mrt_nomem(e);
  mrt_status status = add_metadata(root, n, pairs, pair_count, e);
  if (!status) status = add_entries(root, list, n, e);
  if (!status && !(header = new_header(root, &size))) status = mrt_nomem(e);
  json_decref(root);
  uint32_t *crcs = calloc((size_t)n + 1, sizeof *crcs);
  if (!status && !crcs) status = mrt_nomem(e);
  if (!status) status = write_parts(w, list, n, header, size, crcs, e);
  free(crcs);
  free(header);
  return status;
}

MRT_API mrt_status mrt_save_safetensors(mrt_context *ctx, const char *path,
                                        const mrt_named *tensors, int n,
                                        const mrt_text_pair *metadata,
                                        int pairs) {
  const mrt_allocator *a = ctx->allocator;
  mrt_file_writer w;
  entry *list = mrt_calloc(a, (size_t)n, sizeof *list);
  if (!list) return mrt_nomem(&ctx->error);
  for (int i = 0; i < n; i++) {
    list[i] = (entry){ .name = tensors[i].name, .tensor = tensors[i].tensor };
    mrt_dtype dtype = mrt_tensor_type(list[i].tensor)->dtype;
    list[i].dtype = mrt_safetensors_dtype(dtype, &list[i].rank);
  }
  if (n) qsort(list, (size_t)n, sizeof *list, by_dtype_and_name);
  mrt_status status = mrt_writer_open(&w, path, &ctx->error);
  if (!status) status = write_all(&w, list, n, metadata, pairs, &ctx->error);
  mrt_writer_close(&w);
  mrt_release(a, list, (size_t)n * sizeof *list);
  return status;
}
