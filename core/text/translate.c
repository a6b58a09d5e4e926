/* translate.c -- patterns of tokenizers in PCRE2's syntax
 *
 * tokenizer.json's patterns are Oniguruma's, tiktoken's those of Rust's regex
 * crate.  They differ from PCRE2 in what letters, digits and white space are, in
 * ^ and $, in what X{1,3}+ means, in \h and \v, in scripts, and in classes that
 * are cut with others (&&).  What is said differently is written so; what PCRE2
 * does not have, or what we do not know, is refused by name.
 *
 * SPDX-License-Identifier: MIT */
#include "text/translate.h"

#include <stdio.h>
#include <string.h>

mrt_status mrt_translate_put(mrt_translation *t, const char *text) {
  return mrt_chars_put(t->s->ctx, t->out, text, strlen(text));
}

mrt_status mrt_translate_refuse(mrt_translation *t, const char *at, size_t n) {
  size_t left = (size_t)(t->end - at), whole = (size_t)(t->end - t->from);
  return mrt_source_fail(t->s, MRT_EDATA,
                         "pattern '%.*s': '%.*s' is not understood",
                         (int)(whole < 100 ? whole : 100), t->from,
                         (int)(n < left ? n : left), at);
}

bool mrt_translate_is(const mrt_translation *t, const char *text) {
  size_t n = strlen(text);
  return (size_t)(t->end - t->p) >= n && memcmp(t->p, text, n) == 0;
}

mrt_status mrt_translate_code(mrt_translation *t, uint32_t c) {
  char text[16];
  snprintf(text, sizeof text, "\\x{%x}", (unsigned)c);
  return mrt_translate_put(t, text);
}

/* ---- groups and repeats -------------------------------------------------- */

static mrt_status group(mrt_translation *t) {
  static const char *const known[] = { "?:",  "?=", "?!", "?<=",
                                       "?<!", "?>", "?i:" };
  if (t->depth == MRT_PATTERN_DEEPEST)
    return mrt_translate_refuse(t, t->p - 1, 4);
  t->groups[t->depth++] = t->out->size;
  if (!mrt_translate_is(t, "?")) return mrt_translate_put(t, "(?:");
  for (int i = 0; i < MRT_COUNT(known); i++) {
    if (!mrt_translate_is(t, known[i])) continue;
    t->p += strlen(known[i]);
    MRT_TRY(mrt_translate_put(t, "("));
    return mrt_translate_put(t, known[i]);
  }
  return mrt_translate_refuse(t, t->p - 1, 4);
}

/* {n}, {n,}, {n,m} or {,m}: its bytes; 0: it is none. */
static size_t repeat(const mrt_translation *t, char text[32], bool *exact) {
  size_t n = 0, commas = 0, digits = 0;
  const char *p = t->p + 1;
  for (; p < t->end && n < 20 && ((*p >= '0' && *p <= '9') || *p == ','); p++) {
    if (*p == ',' && n == 0) text[n++] = '0';
    commas += *p == ',', digits += *p != ',';
    text[n++] = *p;
  }
  text[n] = 0;
  *exact = commas == 0;
  if (!digits || commas > 1 || p == t->end || *p != '}') return 0;
  return (size_t)(p + 1 - t->p);
}

/* X{1,3}+ is (?:X{1,3})+ in Oniguruma; in the others nothing is given back. */
static mrt_status braces(mrt_translation *t) {
  char text[32];
  bool exact;
  size_t n = repeat(t, text, &exact);
  if (n == 0) {
    t->atom = t->out->size, t->p++;
    return mrt_translate_put(t, "\\{");
  }
  const char *from = t->p;
  t->p += n;
  MRT_TRY(mrt_translate_put(t, "{"));
  MRT_TRY(mrt_translate_put(t, text));
  MRT_TRY(mrt_translate_put(t, "}"));
  if (mrt_translate_is(t, "?") && exact && !t->rust)
    return mrt_translate_refuse(t, from, n + 1);
  if (!mrt_translate_is(t, "+") || t->rust) return MRT_OK;
  MRT_TRY(mrt_translate_put(t, "   )"));
  char *at = t->out->at + t->atom;
  memmove(at + 3, at, t->out->size - t->atom - 4);
  memcpy(at, "(?:", 3);
  t->out->at[t->out->size - 1] = ')';
  return MRT_OK;
}

static mrt_status one(mrt_translation *t) {
  size_t n;
  char c = *t->p;
  switch (c) {
  case '*':
  case '+':
  case '?':
  case '|':
    t->p++;
    return mrt_chars_put(t->s->ctx, t->out, &c, 1);
  case '{':
    return braces(t);
  case '(':
    t->p++;
    return group(t);
  case ')':
    if (t->depth == 0) return mrt_translate_refuse(t, t->p, 1);
    t->p++, t->atom = t->groups[--t->depth];
    return mrt_translate_put(t, ")");
  }
  t->atom = t->out->size;
  t->p++;
  switch (c) {
  case '[':
    return mrt_translate_class(t);
  case '^':
    return mrt_translate_put(t, t->rust ? "\\A" : "(?m:^)");
  case '$':
    return mrt_translate_put(t, t->rust ? "\\z" : "(?m:$)");
  case '.':
    return mrt_translate_put(t, ".");
  case '\\':
    if (t->p == t->end) return mrt_translate_refuse(t, t->p - 1, 1);
    t->p++;
    return mrt_translate_escape(t, t->p[-1]);
  }
  uint32_t code = mrt_utf8_get(t->p - 1, &n);
  t->p += n - 1;
  return code < 0x80 && code > ' ' ? mrt_chars_put(t->s->ctx, t->out, &c, 1)
                                   : mrt_translate_code(t, code);
}

mrt_status mrt_pattern_translate(mrt_source *s, mrt_slice text,
                                 mrt_pattern_kind kind, mrt_chars *out) {
  mrt_translation t = { .s = s,
                        .from = text.at,
                        .p = text.at,
                        .end = text.at + text.size,
                        .out = out,
                        .rust = kind == MRT_PATTERN_RUST };
  out->size = 0;
  bool folded = mrt_translate_is(&t, "(?i)");
  MRT_TRY(mrt_translate_put(&t, folded ? "(?i:" : "(?:"));
  if (folded) t.p += 4;
  while (t.p < t.end) MRT_TRY(one(&t));
  if (t.depth) return mrt_translate_refuse(&t, t.end - 1, 1);
  return mrt_translate_put(&t, ")");
}
