/* safetensors_write.c -- see safetensors.c
 *
 * SPDX-License-Identifier: MIT */
#include "io/json.h"
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

static mrt_status add_metadata(json_t *root, const mrt_text_pair *pairs, int n,
                               mrt_error *e) {
  if (n == 0) return MRT_OK;
  json_t *map = json_object();
  if (!map || !set(root, "__metadata__", map)) return mrt_nomem(e);
  for (int i = 0; i < n; i++) {
    MRT_TRY(check_text("metadata", pairs[i].key, e));
    MRT_TRY(check_text("metadata", pairs[i].value, e));
    if (!set(map, pairs[i].key, json_string(pairs[i].value)))
      return mrt_nomem(e);
  }
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

static mrt_status write_header(mrt_file_writer *w, json_t *root, mrt_error *e) {
  static const char spaces[] = "       ";
  uint8_t size[8];
  char *text = json_dumps(root, JSON_COMPACT);
  if (!text) return mrt_nomem(e);
  size_t n = strlen(text), padding = (8 - n % 8) % 8;
  for (int i = 0; i < 8; i++)
    size[i] = (uint8_t)((uint64_t)(n + padding) >> 8 * i);
  mrt_status status = mrt_writer_put(w, size, 8, e);
  if (!status) status = mrt_writer_put(w, text, n, e);
  if (!status) status = mrt_writer_put(w, spaces, padding, e);
  free(text);
  return status;
}

static mrt_status write_all(mrt_file_writer *w, const entry *list, int n,
                            const mrt_text_pair *pairs, int pair_count,
                            mrt_error *e) {
  json_t *root = json_object();
  if (!root) return mrt_nomem(e);
  mrt_status status = add_metadata(root, pairs, pair_count, e);
  if (!status) status = add_entries(root, list, n, e);
  if (!status) status = write_header(w, root, e);
  json_decref(root);
  for (int i = 0; i < n && !status; i++)
    status = mrt_writer_put_tensor(w, list[i].tensor, e);
  return status ? status : mrt_writer_commit(w, e);
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
  mrt_status status = mrt_writer_open(&w, a, path, &ctx->error);
  if (!status) status = write_all(&w, list, n, metadata, pairs, &ctx->error);
  mrt_writer_close(&w);
  mrt_release(a, list, (size_t)n * sizeof *list);
  return status;
}
