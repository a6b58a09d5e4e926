/* json_normal.c -- "normalizer" of tokenizer.json
 *
 * SPDX-License-Identifier: MIT */
#include "text/json.h"
#include "text/normal.h"

#include <string.h>

static mrt_status add(const mrt_json *j, mrt_normalise_text *apply,
                      mrt_normalizer **n) {
  *n = mrt_tokenizer_normalizer(j->t);
  if (!*n) return mrt_nomem(&j->t->ctx->error);
  (*n)->apply = apply;
  return MRT_OK;
}

static mrt_status form(const mrt_json *j) {
  mrt_normalizer *n;
  const char *type = mrt_json_type(j->at);
  MRT_TRY(add(j, mrt_normalise_form, &n));
  n->head = mrt_head_form;
  n->compatible = type[2] == 'K';
  n->compose = type[strlen(type) - 1] == 'C';
  return MRT_OK;
}

static mrt_status lower(const mrt_json *j) {
  mrt_normalizer *n;
  return add(j, mrt_normalise_lower, &n);
}

static mrt_status accents(const mrt_json *j) {
  mrt_normalizer *n;
  return add(j, mrt_normalise_accents, &n);
}

static mrt_status nmt(const mrt_json *j) {
  mrt_normalizer *n;
  return add(j, mrt_normalise_nmt, &n);
}

static mrt_status bytes(const mrt_json *j) {
  mrt_normalizer *n;
  return add(j, mrt_normalise_bytes, &n);
}

static mrt_status strip(const mrt_json *j) {
  mrt_normalizer *n;
  MRT_TRY(add(j, mrt_normalise_strip, &n));
  n->head = mrt_head_strip;
  n->left = n->right = true;
  MRT_TRY(mrt_json_bool(j, "strip_left", &n->left));
  return mrt_json_bool(j, "strip_right", &n->right);
}

static mrt_status prepend(const mrt_json *j) {
  mrt_normalizer *n;
  MRT_TRY(add(j, mrt_normalise_prepend, &n));
  n->head = mrt_head_prepend;
  MRT_TRY(mrt_json_copy(j, "prepend", &n->text));
  return n->text.at ? MRT_OK : mrt_json_fail(j, "Prepend: no \"prepend\"");
}

static mrt_status replace(const mrt_json *j) {
  mrt_normalizer *n;
  MRT_TRY(add(j, mrt_normalise_replace, &n));
  n->head = mrt_head_replace;
  MRT_TRY(mrt_json_copy(j, "content", &n->text));
  if (!n->text.at) return mrt_json_fail(j, "Replace: no \"content\"");
  return mrt_json_pattern(j, &n->pattern);
}

/* Without strip_accents, accents go where letters become small. */
static mrt_status bert(const mrt_json *j) {
  mrt_normalizer *n;
  MRT_TRY(add(j, mrt_normalise_bert, &n));
  n->clean = n->chinese = n->lower = true;
  MRT_TRY(mrt_json_bool(j, "clean_text", &n->clean));
  MRT_TRY(mrt_json_bool(j, "handle_chinese_chars", &n->chinese));
  MRT_TRY(mrt_json_bool(j, "lowercase", &n->lower));
  n->accents = n->lower;
  return mrt_json_bool(j, "strip_accents", &n->accents);
}

/* ---- base64 -------------------------------------------------------------- */

static int digit(char c) {
  return c >= 'A' && c <= 'Z'   ? c - 'A'
         : c >= 'a' && c <= 'z' ? c - 'a' + 26
         : c >= '0' && c <= '9' ? c - '0' + 52
         : c == '+'             ? 62
         : c == '/'             ? 63
                                : -1;
}

bool mrt_base64(const char *text, size_t n, char *out, size_t *size) {
  uint32_t bits = 0;
  int have = 0;
  *size = 0;
  while (n && text[n - 1] == '=') n--;
  for (size_t i = 0; i < n; i++) {
    int d = digit(text[i]);
    if (d < 0) return false;
    bits = bits << 6 | (uint32_t)d, have += 6;
    if (have < 8) continue;
    have -= 8;
    out[(*size)++] = (char)(bits >> have);
  }
  return true;
}

static mrt_status precompiled(const mrt_json *j) {
  mrt_normalizer *n;
  mrt_slice text;
  size_t size;
  MRT_TRY(add(j, mrt_normalise_charsmap, &n));
  n->head = mrt_head_charsmap;
  MRT_TRY(mrt_json_text(j, "precompiled_charsmap", &text));
  char *blob = mrt_arena_alloc(&j->t->arena, text.size + 1, 1);
  if (!blob) return mrt_nomem(&j->t->ctx->error);
  if (!text.at || !mrt_base64(text.at, text.size, blob, &size) ||
      !mrt_charsmap_read(&n->map, blob, size))
    return mrt_json_fail(j, "Precompiled: this is no such map");
  return MRT_OK;
}

static const mrt_json_kind kinds[] = {
  { "NFC", "", form },
  { "NFD", "", form },
  { "NFKC", "", form },
  { "NFKD", "", form },
  { "Lowercase", "", lower },
  { "StripAccents", "", accents },
  { "Nmt", "", nmt },
  { "ByteLevel", "", bytes },
  { "Strip", "strip_left strip_right", strip },
  { "Prepend", "prepend", prepend },
  { "Replace", "pattern content", replace },
  { "BertNormalizer", "clean_text handle_chinese_chars strip_accents lowercase",
    bert },
  { "Precompiled", "precompiled_charsmap", precompiled },
  { 0 },
};

mrt_status mrt_json_normalizers(const mrt_json *j) {
  return mrt_json_read(j, kinds, "normalizers");
}
