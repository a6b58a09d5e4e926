/* json.c -- JSON from files nobody vouches for
 *
 * SPDX-License-Identifier: MIT */
#include "io/json.h"
#include "tensor/tensor.h"

#include <string.h>

/* The end of the string that begins at `i`. */
static size_t skip_string(const uint8_t *text, size_t size, size_t i) {
  for (i++; i < size && text[i] != '"'; i++)
    if (text[i] == '\\') i++;
  return i;
}

enum { MOST_VALUES = 1 << 20 };

/* Is it no deeper, are its lists no longer, does it hold no more than we ever
 * want?  Lists hold no objects. */
static bool is_flat(const uint8_t *text, size_t size, int depth, int longest) {
  int deep = 0, values = 1, items = -1; /* -1: not in a list */
  for (size_t i = 0; i < size; i++) {
    switch (text[i]) {
    case '"':
      i = skip_string(text, size, i);
      break;
    case '[':
    case '{':
      if (items >= 0 || ++deep > depth) return false;
      if (text[i] == '[') items = 0;
      break;
    case ']':
    case '}':
      deep--, items = -1;
      break;
    case ',':
      if (items >= 0 && ++items >= longest) return false;
      if (++values > MOST_VALUES) return false;
      break;
    }
  }
  return true;
}

json_t *mrt_json_parse(mrt_source *s, const uint8_t *text, size_t size,
                       int depth, int longest, mrt_status *status) {
  json_error_t why;
  *status = MRT_EDATA;
  if (!is_flat(text, size, depth, longest)) {
    mrt_source_fail(s, MRT_EDATA,
                    "JSON with more than %d levels, lists of more than %d, or "
                    "more than %d values",
                    depth, longest, MOST_VALUES);
    return NULL;
  }
  json_t *root =
      json_loadb((const char *)text, size, JSON_REJECT_DUPLICATES, &why);
  if (!root && (json_error_code(&why) == json_error_out_of_memory ||
                !why.text[0])) { /* jansson has no words for it either */
    *status = mrt_nomem(&s->ctx->error);
  } else if (!root) {
    mrt_source_fail(s, MRT_EDATA, "JSON: %s (byte %d)", why.text, why.position);
  } else if (!json_is_object(root)) {
    json_decref(root);
    mrt_source_fail(s, MRT_EDATA, "JSON: an object wanted");
    return NULL;
  }
  return root;
}
