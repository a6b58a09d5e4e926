/* shards.c -- a model in several safetensors files
 *
 * model.safetensors.index.json says under "weight_map" which file beside it
 * holds which tensor.  Each file is a source of its own, opened once; the
 * index lists those of their tensors that it names.
 *
 * SPDX-License-Identifier: MIT */
#include "io/json.h"
#include "tensor/tensor.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_FILES = 4096, LONGEST_INDEX = 100000000 };

/* The file's name in the folder of the index; it must not lead elsewhere. */
static mrt_status path_of(mrt_source *s, const char *file, char **path) {
  const char *slash = strrchr(s->path, '/');
  size_t folder = slash ? (size_t)(slash - s->path) + 1 : 0;
  size_t n = strlen(file);
  if (n == 0 || strchr(file, '/') || strcmp(file, "..") == 0)
    return mrt_source_fail(s, MRT_EDATA, "'%.200s' is no file beside it", file);
  *path = mrt_arena_alloc(&s->arena, folder + n + 1, 1);
  if (!*path) return mrt_nomem(&s->ctx->error);
  memcpy(*path, s->path, folder);
  memcpy(*path + folder, file, n);
  return MRT_OK;
}

static int by_name(const void *p, const void *q) {
  return strcmp((*(mrt_array *const *)p)->name, (*(mrt_array *const *)q)->name);
}
/* While tensors are looked for, `dtype` says in which file. */
static int by_file(const void *p, const void *q) {
  int order =
      strcmp((*(mrt_array *const *)p)->dtype, (*(mrt_array *const *)q)->dtype);
  return order ? order : by_name(p, q);
}

/* The arrays of a source in an order. */
static mrt_status sorted(mrt_source *s, mrt_arena *arena,
                         int (*order)(const void *, const void *),
                         mrt_array ***out) {
  mrt_array **list = MRT_NEW(arena, mrt_array *, s->count + 1);
  if (!list) return mrt_nomem(&s->ctx->error);
  for (int i = 0; i < s->count; i++) list[i] = &s->arrays[i];
  qsort(list, (size_t)s->count, sizeof *list, order);
  return *out = list, MRT_OK;
}

static mrt_status open_part(mrt_source *s, const char *file) {
  char *path;
  mrt_source *part;
  MRT_TRY(path_of(s, file, &path));
  MRT_TRY(mrt_source_open(s->ctx, path, "safetensors", &part));
  part->next = s->parts;
  s->parts = part;
  return MRT_OK;
}

/* Find tensors [0, n), all of one file. */
static mrt_status find_tensors(mrt_source *s, mrt_array **wanted, int n) {
  mrt_array **there = NULL;
  MRT_TRY(open_part(s, wanted[0]->dtype));
  MRT_TRY(sorted(s->parts, &s->parts->arena, by_name, &there));
  for (int i = 0; i < n; i++) {
    mrt_array **found = bsearch(&wanted[i], there, (size_t)s->parts->count,
                                sizeof *there, by_name);
    if (!found)
      return mrt_source_fail(s, MRT_EDATA, "'%.80s' is not in %s",
                             wanted[i]->name, s->parts->path);
    *wanted[i] = **found;
  }
  return MRT_OK;
}

static mrt_status find_all(mrt_source *s) {
  mrt_array **order = NULL;
  int files = 0;
  MRT_TRY(sorted(s, &s->arena, by_file, &order));
  for (int i = 0, end; i < s->count; i = end) {
    for (end = i + 1; end < s->count; end++)
      if (strcmp(order[i]->dtype, order[end]->dtype) != 0) break;
    if (++files > MOST_FILES)
      return mrt_source_fail(s, MRT_EDATA, "more than %d files", MOST_FILES);
    MRT_TRY(find_tensors(s, order + i, end - i));
  }
  return MRT_OK;
}

static mrt_status add_all(mrt_source *s, json_t *map) {
  const char *name;
  json_t *file;
  if (!json_is_object(map))
    return mrt_source_fail(s, MRT_EDATA, "there is no weight_map");
  json_object_foreach(map, name, file) {
    if (!json_is_string(file))
      return mrt_source_fail(s, MRT_EDATA, "'%.80s' is in no file", name);
    mrt_array *a = mrt_source_add(s, name);
    if (!a) return mrt_nomem(&s->ctx->error);
    a->dtype = json_string_value(file);
  }
  return find_all(s);
}

mrt_status mrt_parse_shards(mrt_source *s) {
  mrt_status status;
  if (s->bytes.size > LONGEST_INDEX)
    return mrt_source_fail(s, MRT_EDATA, "%zu bytes are no index",
                           s->bytes.size);
  MRT_TRY(mrt_source_hold(s));
  json_t *root =
      mrt_json_parse(s, s->bytes.data, s->bytes.size, 3, 64, &status);
  if (!root) return status;
  status = add_all(s, json_object_get(root, "weight_map"));
  json_decref(root);
  return status;
}
