/* fields.c -- parts of tokenizer.json, by kind, and their fields
 *
 * SPDX-License-Identifier: MIT */
#include "text/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

mrt_status mrt_json_fail(const mrt_json *j, const char *fmt, ...) {
  char text[400];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  return mrt_source_fail(j->s, MRT_EDATA, "%s: %s", j->where, text);
}

const char *mrt_json_type(const json_t *at) {
  return json_string_value(json_object_get(at, "type"));
}

static bool is_among(const char *names, const char *name) {
  size_t n = strlen(name);
  for (const char *p = names; (p = strstr(p, name)); p += n)
    if ((p == names || p[-1] == ' ') && (p[n] == ' ' || p[n] == 0)) return true;
  return false;
}

mrt_status mrt_json_only(const mrt_json *j, const char *known) {
  const char *name;
  json_t *value;
  json_object_foreach((json_t *)j->at, name, value) {
    if (strcmp(name, "type") != 0 && (!*name || !is_among(known, name)))
      return mrt_json_fail(j, "'%.80s' of %.80s is not understood", name,
                           mrt_json_type(j->at) ? mrt_json_type(j->at) : "it");
  }
  return MRT_OK;
}

/* The field; NULL: missing or null. */
static const json_t *field(const mrt_json *j, const char *name) {
  const json_t *value = json_object_get(j->at, name);
  return json_is_null(value) ? NULL : value;
}

mrt_status mrt_json_bool(const mrt_json *j, const char *name, bool *value) {
  const json_t *f = field(j, name);
  if (f && !json_is_boolean(f))
    return mrt_json_fail(j, "'%s': true or false wanted", name);
  if (f) *value = json_is_true(f);
  return MRT_OK;
}

mrt_status mrt_json_int(const mrt_json *j, const char *name, int *value) {
  const json_t *f = field(j, name);
  json_int_t i = json_integer_value(f);
  if (f && (!json_is_integer(f) || i < 0 || i > INT32_MAX))
    return mrt_json_fail(j, "'%s': a number from 0 wanted", name);
  if (f) *value = (int)i;
  return MRT_OK;
}

mrt_status mrt_json_text(const mrt_json *j, const char *name,
                         mrt_slice *value) {
  const json_t *f = field(j, name);
  *value = (mrt_slice){ 0 };
  if (f && !json_is_string(f))
    return mrt_json_fail(j, "'%s': a text wanted", name);
  if (f) *value = (mrt_slice){ json_string_value(f), json_string_length(f) };
  return MRT_OK;
}

mrt_status mrt_json_copy(const mrt_json *j, const char *name,
                         mrt_slice *value) {
  MRT_TRY(mrt_json_text(j, name, value));
  if (!value->at) return MRT_OK;
  *value = mrt_slice_copy(&j->t->arena, value->at, value->size);
  return value->at ? MRT_OK : mrt_nomem(&j->t->ctx->error);
}

mrt_status mrt_json_character(const mrt_json *j, const char *name,
                              uint32_t *c) {
  mrt_slice text;
  size_t n;
  MRT_TRY(mrt_json_text(j, name, &text));
  if (!text.at || text.size == 0)
    return mrt_json_fail(j, "'%s': a character wanted", name);
  *c = mrt_utf8_get(text.at, &n);
  return n == text.size ? MRT_OK
                        : mrt_json_fail(j, "'%s': one character wanted", name);
}

mrt_status mrt_json_pattern(const mrt_json *j, mrt_pattern **out) {
  mrt_json in = { j->t, j->s, json_object_get(j->at, "pattern"), j->where };
  mrt_slice plain, regex;
  if (json_is_string(in.at)) {
    plain = (mrt_slice){ json_string_value(in.at), json_string_length(in.at) };
    return mrt_pattern_make(j->t, j->s, plain, MRT_PATTERN_TEXT, out);
  }
  MRT_TRY(mrt_json_text(&in, "String", &plain));
  MRT_TRY(mrt_json_text(&in, "Regex", &regex));
  if (!plain.at == !regex.at || json_object_size(in.at) != 1)
    return mrt_json_fail(j, "'pattern': {\"String\": ...} or {\"Regex\": ...} "
                            "wanted");
  return plain.at ? mrt_pattern_make(j->t, j->s, plain, MRT_PATTERN_TEXT, out)
                  : mrt_pattern_make(j->t, j->s, regex, MRT_PATTERN_ONIG, out);
}

mrt_status mrt_json_prepend(const mrt_json *j, mrt_prepend *out) {
  static const char *const names[] = { "never", "first", "always" };
  mrt_slice scheme;
  bool space = true;
  *out = MRT_PREPEND_ALWAYS;
  MRT_TRY(mrt_json_text(j, "prepend_scheme", &scheme));
  MRT_TRY(mrt_json_bool(j, "add_prefix_space", &space));
  if (!scheme.at)
    return *out = space ? MRT_PREPEND_ALWAYS : MRT_PREPEND_NEVER, MRT_OK;
  for (int i = 0; i < MRT_COUNT(names); i++)
    if (strcmp(scheme.at, names[i]) == 0) return *out = (mrt_prepend)i, MRT_OK;
  return mrt_json_fail(j, "prepend_scheme '%.40s' is not understood",
                       scheme.at);
}

/* ---- kinds --------------------------------------------------------------- */

enum { DEEPEST = 8 };

static mrt_status read_list(const mrt_json *j, const mrt_json_kind *kinds,
                            const char *list, int depth);

static mrt_status read_one(const mrt_json *j, const mrt_json_kind *kinds,
                           const char *list, int depth) {
  const char *type = mrt_json_type(j->at);
  if (!type) return mrt_json_fail(j, "an object with a \"type\" wanted");
  if (list && strcmp(type, "Sequence") == 0) {
    MRT_TRY(mrt_json_only(j, list));
    return read_list(j, kinds, list, depth + 1);
  }
  for (const mrt_json_kind *k = kinds; k->name; k++) {
    if (strcmp(k->name, type) != 0) continue;
    MRT_TRY(mrt_json_only(j, k->fields));
    return k->read(j);
  }
  return mrt_json_fail(j, "%.80s is not understood", type);
}

static mrt_status read_list(const mrt_json *j, const mrt_json_kind *kinds,
                            const char *list, int depth) {
  const json_t *all = json_object_get(j->at, list);
  if (!json_is_array(all)) return mrt_json_fail(j, "'%s': a list wanted", list);
  if (depth > DEEPEST || json_array_size(all) > 256)
    return mrt_json_fail(j, "too many of it, or too deep");
  for (size_t i = 0; i < json_array_size(all); i++) {
    mrt_json in = *j;
    in.at = json_array_get(all, i);
    MRT_TRY(read_one(&in, kinds, list, depth));
  }
  return MRT_OK;
}

mrt_status mrt_json_read(const mrt_json *j, const mrt_json_kind *kinds,
                         const char *list) {
  if (!j->at || json_is_null(j->at)) return MRT_OK;
  return read_one(j, kinds, list, 0);
}
