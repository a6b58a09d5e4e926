/* shards.c -- a model in several safetensors files
 *
 * model.safetensors.index.json says under "weight_map" which file beside it
 * holds which tensor.  Each file is a source of its own, opened once; the
 * index lists those of their tensors that it names.
 *
 * SPDX-License-Identifier: MIT */
#include "io/json.h"
#include "tensor/tensor.h"

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

/* The part that lies in `file`, opened now if it is new. */
static mrt_status find_part(mrt_source *s, const char *file, mrt_source **out) {
  char *path;
  int count = 0;
  MRT_TRY(path_of(s, file, &path));
  for (mrt_source *p = s->parts; p; p = p->next, count++)
    if (strcmp(p->path, path) == 0) return *out = p, MRT_OK;
  if (count == MOST_FILES)
    return mrt_source_fail(s, MRT_EDATA, "more than %d files", MOST_FILES);
  MRT_TRY(mrt_source_open(s->ctx, path, "safetensors", out));
  (*out)->next = s->parts;
  s->parts = *out;
  return MRT_OK;
}

static mrt_status add_tensor(mrt_source *s, const char *name,
                             const mrt_source *part) {
  for (int i = 0; i < part->count; i++) {
    if (strcmp(part->arrays[i].name, name) != 0) continue;
    mrt_array *a = mrt_source_add(s, name);
    if (!a) return mrt_nomem(&s->ctx->error);
    *a = part->arrays[i];
    return MRT_OK;
  }
  return mrt_source_fail(s, MRT_EDATA, "'%.80s' is not in %s", name,
                         part->path);
}

static mrt_status add_all(mrt_source *s, json_t *map) {
  const char *name;
  json_t *file;
  mrt_source *part;
  if (!json_is_object(map))
    return mrt_source_fail(s, MRT_EDATA, "there is no weight_map");
  json_object_foreach(map, name, file) {
    if (!json_is_string(file))
      return mrt_source_fail(s, MRT_EDATA, "'%.80s' is in no file", name);
    MRT_TRY(find_part(s, json_string_value(file), &part));
    MRT_TRY(add_tensor(s, name, part));
  }
  return MRT_OK;
}

mrt_status mrt_parse_shards(mrt_source *s) {
  mrt_status status;
  if (s->map.size > LONGEST_INDEX)
    return mrt_source_fail(s, MRT_EDATA, "%zu bytes are no index", s->map.size);
  json_t *root = mrt_json_parse(s, s->map.data, s->map.size, 3, 64, &status);
  if (!root) return status;
  status = add_all(s, json_object_get(root, "weight_map"));
  json_decref(root);
  return status;
}
